/* The 64-bit Mersenne twister and its shuffle, word for word as the C++ library that TensorFlow is
 * built with; the contract is in twister_internal.h. Do not change the order of draws. */
#include "kernels/queues/twister_internal.h"

#define MIDDLE 156
#define HIGH_BITS UINT64_C(0xffffffff80000000)

void dp_twister_init(dp_twister *twister, uint64_t seed) {
  uint64_t word = twister->words[0] = seed;
  for (uint64_t i = 1; i < DP_TWISTER_WORDS; ++i)
    word = twister->words[i] = UINT64_C(6364136223846793005) * (word ^ (word >> 62)) + i;
  twister->used = DP_TWISTER_WORDS;
}

static void make_words(dp_twister *twister) {
  uint64_t *words = twister->words;
  for (int i = 0; i < DP_TWISTER_WORDS; ++i) {
    uint64_t next = words[(i + 1) % DP_TWISTER_WORDS];
    uint64_t mixed = (words[i] & HIGH_BITS) | (next & ~HIGH_BITS);
    words[i] = words[(i + MIDDLE) % DP_TWISTER_WORDS] ^ (mixed >> 1) ^
               (mixed & 1 ? UINT64_C(0xb5026f5aa96619e9) : 0);
  }
  twister->used = 0;
}

uint64_t dp_twister_next(dp_twister *twister) {
  if (twister->used == DP_TWISTER_WORDS)
    make_words(twister);
  uint64_t word = twister->words[twister->used++];
  word ^= (word >> 29) & UINT64_C(0x5555555555555555);
  word ^= (word << 17) & UINT64_C(0x71d67fffeda60000);
  word ^= (word << 37) & UINT64_C(0xfff7eee000000000);
  return word ^ (word >> 43);
}

/* Uniform in [0, n), by the high bits of a word. */
static uint64_t draw_below(dp_twister *twister, uint64_t n) {
  uint64_t width = UINT64_MAX / n, word;
  do
    word = dp_twister_next(twister);
  while (word >= width * n);
  return word / width;
}

static void swap(void **items, size_t a, size_t b) {
  void *kept = items[a];
  items[a] = items[b];
  items[b] = kept;
}

/* Swaps every item with a random one among those before it and itself. One draw serves two
 * items. */
void dp_twister_shuffle(dp_twister *twister, void **items, size_t count) {
  size_t at = 1;
  if (count > 0 && count % 2 == 0)
    swap(items, at++, draw_below(twister, 2));
  for (; at + 1 < count; at += 2) {
    uint64_t both = draw_below(twister, (at + 1) * (at + 2));
    swap(items, at, both / (at + 2));
    swap(items, at + 1, both % (at + 2));
  }
}
