/* Philox 4x32-10, the counter-based generator behind all random ops, bit-compatible with
 * TensorFlow's. A generator is a plain value: 64 bits of key and 128 bits of counter. Two threads
 * may share a stream by copying it and skipping to their own places. */
#ifndef DP_BASE_PHILOX_H
#define DP_BASE_PHILOX_H

#include <stdint.h>

typedef struct dp_philox {
  uint32_t counter[4];
  uint32_t key[2];
} dp_philox;

/* TensorFlow's PhiloxRandom(seed_lo, seed_hi): key from seed_lo, counter[2..3] from seed_hi. */
dp_philox dp_philox_seed(uint64_t seed_lo, uint64_t seed_hi);
/* Four 32-bit words; advances the counter by one. */
void dp_philox_next(dp_philox *generator, uint32_t result[4]);
/* Advances the counter by `count` as `count` calls of next would. */
void dp_philox_skip(dp_philox *generator, uint64_t count);
/* Fills groups * 4 words, as `groups` calls of dp_philox_next would: the fast form for long streams
 * (vectorized where the CPU can). */
void dp_philox_fill(dp_philox *generator, uint32_t *words, int64_t groups);
/* As dp_philox_fill, but the counter grows by `spacing` per group instead of by 1. */
void dp_philox_fill_spaced(dp_philox *generator, uint32_t spacing, uint32_t *words, int64_t groups);

/* Random words to random numbers, exactly as TensorFlow's distributions convert them. */
float dp_philox_float(uint32_t word);                    /* [0, 1) */
double dp_philox_double(uint32_t word0, uint32_t word1); /* [0, 1) */
uint16_t dp_philox_half_bits(uint16_t word);             /* [0, 1), IEEE half bits */
uint16_t dp_philox_bfloat16_bits(uint16_t word);         /* [0, 1), bfloat16 bits */
void dp_philox_box_muller_float(uint32_t word0, uint32_t word1, float *a_out, float *b_out);
void dp_philox_box_muller_double(uint32_t w0, uint32_t w1, uint32_t w2, uint32_t w3, double *a_out,
                                 double *b_out);

/* A seed from the system's entropy. */
uint64_t dp_random_seed(void);

#endif
