/* Fills the table of png.h: the five row filters of PNG and their inverses, and a count of repeated
 * zlib keys. Compiled once for each instruction set. */
#include "kernels/loops/png.h"

/* Without branches, because the choice changes at nearly every byte. */
static inline uint8_t paeth(int16_t left, int16_t above, int16_t corner) {
  int16_t across = (int16_t)(above - corner), down = (int16_t)(left - corner);
  int16_t both = (int16_t)(across + down);
  int16_t to_left = (int16_t)(across < 0 ? -across : across);
  int16_t to_above = (int16_t)(down < 0 ? -down : down);
  int16_t to_corner = (int16_t)(both < 0 ? -both : both);
  int16_t near = to_above <= to_corner ? above : corner;
  return (uint8_t)(to_left <= to_above && to_left <= to_corner ? left : near);
}

static inline uint8_t guess_none(uint8_t left, uint8_t above, uint8_t corner) {
  return 0;
}
static inline uint8_t guess_left(uint8_t left, uint8_t above, uint8_t corner) {
  return left;
}
static inline uint8_t guess_above(uint8_t left, uint8_t above, uint8_t corner) {
  return above;
}
static inline uint8_t guess_mean(uint8_t left, uint8_t above, uint8_t corner) {
  return (uint8_t)((left + above) / 2);
}
static inline uint8_t guess_paeth(uint8_t left, uint8_t above, uint8_t corner) {
  return paeth(left, above, corner);
}

static inline uint32_t distance(uint8_t value) {
  return value < 128 ? value : (uint8_t)-value;
}

/* Masks for the sum of distances: counting + DP_PNG_BLOCK - n starts with n bytes of ones. */
static const uint8_t counting[2 * DP_PNG_BLOCK] = {[0 ... DP_PNG_BLOCK - 1] = 0xff};

/* Works in whole blocks, whose size the compiler knows, because small images have short rows. */
#define DEFINE_FILTER(name)                                                                        \
  static uint64_t filter_##name(const uint8_t *row, const uint8_t *above, size_t length,           \
                                size_t step, uint8_t *to) {                                        \
    uint64_t sum = 0;                                                                              \
    for (size_t i = 0; i < length; i += DP_PNG_BLOCK) {                                            \
      size_t rest = length - i;                                                                    \
      const uint8_t *left = row + i - step, *corner = above + i - step;                            \
      const uint8_t *counts = counting + (rest < DP_PNG_BLOCK ? DP_PNG_BLOCK - rest : 0);          \
      uint32_t part = 0;                                                                           \
      DP_INDEPENDENT                                                                               \
      for (size_t k = 0; k < DP_PNG_BLOCK; ++k) {                                                  \
        uint8_t guess = guess_##name(left[k], above[i + k], corner[k]);                            \
        uint8_t value = (uint8_t)(row[i + k] - guess);                                             \
        to[i + k] = value;                                                                         \
        part += distance(value & counts[k]);                                                       \
      }                                                                                            \
      sum += part;                                                                                 \
    }                                                                                              \
    return sum;                                                                                    \
  }
DEFINE_FILTER(none)
DEFINE_FILTER(left)
DEFINE_FILTER(above)
DEFINE_FILTER(mean)
DEFINE_FILTER(paeth)

static void unfilter_none(uint8_t *row, const uint8_t *above, size_t length, size_t step) {}

static void unfilter_above(uint8_t *row, const uint8_t *above, size_t length, size_t step) {
  DP_INDEPENDENT
  for (size_t i = 0; i < length; ++i)
    row[i] = (uint8_t)(row[i] + above[i]);
}

/* The other inverses need the byte to the left, which was computed just before. With a constant
 * step it stays in a register. */
#define DEFINE_UNFILTER_STEP(name, step)                                                           \
  static void unfilter_##name##_##step(uint8_t *row, const uint8_t *above, size_t length) {        \
    uint8_t left[step] = {0}, corner[step] = {0};                                                  \
    for (size_t i = 0; i + step <= length; i += step)                                              \
      for (size_t k = 0; k < step; ++k) {                                                          \
        uint8_t up = above[i + k];                                                                 \
        left[k] = (uint8_t)(row[i + k] + guess_##name(left[k], up, corner[k]));                    \
        row[i + k] = left[k];                                                                      \
        corner[k] = up;                                                                            \
      }                                                                                            \
  }
#define DEFINE_UNFILTER(name)                                                                      \
  DEFINE_UNFILTER_STEP(name, 1)                                                                    \
  DEFINE_UNFILTER_STEP(name, 2)                                                                    \
  DEFINE_UNFILTER_STEP(name, 3)                                                                    \
  DEFINE_UNFILTER_STEP(name, 4)                                                                    \
  DEFINE_UNFILTER_STEP(name, 6)                                                                    \
  DEFINE_UNFILTER_STEP(name, 8)                                                                    \
  static void unfilter_##name(uint8_t *row, const uint8_t *above, size_t length, size_t step) {    \
    switch (step) {                                                                                \
    case 1:                                                                                        \
      unfilter_##name##_1(row, above, length);                                                     \
      break;                                                                                       \
    case 2:                                                                                        \
      unfilter_##name##_2(row, above, length);                                                     \
      break;                                                                                       \
    case 3:                                                                                        \
      unfilter_##name##_3(row, above, length);                                                     \
      break;                                                                                       \
    case 4:                                                                                        \
      unfilter_##name##_4(row, above, length);                                                     \
      break;                                                                                       \
    case 6:                                                                                        \
      unfilter_##name##_6(row, above, length);                                                     \
      break;                                                                                       \
    default:                                                                                       \
      unfilter_##name##_8(row, above, length);                                                     \
    }                                                                                              \
  }
DEFINE_UNFILTER(left)
DEFINE_UNFILTER(mean)
DEFINE_UNFILTER(paeth)

static inline uint8_t odd_of_three(uint8_t bits) {
  return (bits ^ bits >> 1 ^ bits >> 2) & 1;
}

/* zlib's hash key of three bytes is (a << 2s ^ b << s ^ c), cut to 13 bits (s = 5) or 16 bits (s =
 * 6). This function gives what either key tells about b and c: bits 0-4 of c, bits 3 and 4 of b,
 * and the parity of bits 5-7 of c and bits 0-2 of b. So places with equal zlib keys have equal
 * results here. */
static inline uint8_t common_key(uint8_t b, uint8_t c) {
  return (uint8_t)((c & 31) | (odd_of_three(c >> 5) ^ odd_of_three(b)) << 5 | (b & 0x18) << 3);
}

static bool is_varied(const uint8_t *data, size_t length, int most) {
  uint8_t keys[DP_PNG_MOST_VARIED];
  int counts[256] = {0};
  DP_INDEPENDENT
  for (size_t i = 1; i < length; ++i)
    keys[i] = common_key(data[i - 1], data[i]);
  for (size_t i = 1; i < length; ++i)
    if (++counts[keys[i]] > most)
      return false;
  return true;
}

const dp_png_loops DP_ISA_SYMBOL(dp_png_table) = {
    .filter = {filter_none, filter_left, filter_above, filter_mean, filter_paeth},
    .unfilter = {unfilter_none, unfilter_left, unfilter_above, unfilter_mean, unfilter_paeth},
    .is_varied = is_varied,
};
