/* Fills the table of convert.h, with the F16C instructions where there are some. Compiled once for
 * each instruction set. */
#include "kernels/loops/convert.h"

#include <string.h>
#include "tensor/dtype.h"
#if defined(__F16C__)
#include <immintrin.h>
#endif

static void half_to_float(const uint16_t *from, float *to, int64_t count) {
  int64_t i = 0;
#if defined(__F16C__)
  for (; i + 8 <= count; i += 8)
    _mm256_storeu_ps(to + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(from + i))));
#endif
  for (; i < count; ++i)
    to[i] = dp_half_to_float(from[i]);
}

static void half_from_float(const float *from, uint16_t *to, int64_t count) {
  int64_t i = 0;
#if defined(__F16C__)
  for (; i + 8 <= count; i += 8)
    _mm_storeu_si128((__m128i *)(to + i),
                     _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT));
#endif
  for (; i < count; ++i)
    to[i] = dp_half_from_float(from[i]);
}

static void bfloat16_to_float(const uint16_t *from, float *to, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    uint32_t bits = (uint32_t)from[i] << 16;
    memcpy(to + i, &bits, sizeof bits);
  }
}

/* To nearest even; a NaN becomes the quiet one with its sign. */
static void bfloat16_from_float(const float *from, uint16_t *to, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    uint32_t bits;
    memcpy(&bits, from + i, sizeof bits);
    uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    uint32_t quiet = ((bits >> 16) & 0x8000u) | 0x7fc0u;
    to[i] = (uint16_t)((bits & 0x7fffffffu) > 0x7f800000u ? quiet : rounded);
  }
}

const dp_convert_loops DP_ISA_SYMBOL(dp_convert_table) = {
    half_to_float,
    half_from_float,
    bfloat16_to_float,
    bfloat16_from_float,
};
