/* The 64-bit Mersenne twister (MT19937-64), and the shuffle that the C++ library of TensorFlow's
 * builds makes with it. Ops that shuffle with a seed promise the same order as TensorFlow. One user
 * at a time. */
#ifndef DP_KERNELS_QUEUES_TWISTER_INTERNAL_H
#define DP_KERNELS_QUEUES_TWISTER_INTERNAL_H

#include <stddef.h>
#include <stdint.h>

#define DP_TWISTER_WORDS 312

typedef struct dp_twister {
  uint64_t words[DP_TWISTER_WORDS];
  int used; /* DP_TWISTER_WORDS: none left */
} dp_twister;

void dp_twister_init(dp_twister *twister, uint64_t seed);
uint64_t dp_twister_next(dp_twister *twister);
/* Shuffles `count` pointers, less than 2^32. */
void dp_twister_shuffle(dp_twister *twister, void **items, size_t count);

#endif
