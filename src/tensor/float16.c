/* Half and bfloat16: exact conversions to and from float, rounding to nearest even.
 *
 * One element at a time in plain C, arrays with F16C and AVX2 where the processor has them (asked
 * once a call, which costs a load). Both ways give the same bits for every input: a NaN of a half
 * keeps its sign and upper payload and becomes quiet, as the hardware does it; a NaN that becomes a
 * bfloat16 is the canonical one with its sign, as in TensorFlow. No state; any thread. */
#include "tensor/dtype.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#include <stdatomic.h>
#define HAS_VECTOR_FORMS 1
#else
#define HAS_VECTOR_FORMS 0
#endif

static uint32_t bits_of_float(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

static float float_of_bits(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

float dp_half_to_float(uint16_t bits) {
  uint32_t sign = (uint32_t)(bits & 0x8000) << 16;
  uint32_t exponent = (bits >> 10) & 0x1f;
  uint32_t mantissa = bits & 0x3ff;
  if (exponent == 0x1f) {
    uint32_t quiet = mantissa ? 0x400000 : 0;
    return float_of_bits(sign | 0x7f800000 | quiet | mantissa << 13);
  }
  if (exponent != 0)
    return float_of_bits(sign | (exponent + 112) << 23 | mantissa << 13);
  if (mantissa == 0)
    return float_of_bits(sign);
  /* Denormal: move the highest set bit to where a float has its implicit one. */
  int shift = __builtin_clz(mantissa) - 21;
  return float_of_bits(sign | (uint32_t)(113 - shift) << 23 | ((mantissa << shift) & 0x3ff) << 13);
}

uint16_t dp_half_from_float(float value) {
  uint32_t bits = bits_of_float(value);
  uint32_t sign = (bits >> 16) & 0x8000;
  uint32_t magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000)
    return (uint16_t)(sign | 0x7e00 | ((magnitude >> 13) & 0x3ff));
  if (magnitude >= 0x477ff000) /* 65520 and up round to infinity */
    return (uint16_t)(sign | 0x7c00);
  if (magnitude >= 0x38800000) { /* normal: 2^-14 and up; a carry runs into the exponent */
    uint32_t rounded = magnitude - (112u << 23) + 0xfff + ((magnitude >> 13) & 1);
    return (uint16_t)(sign | rounded >> 13);
  }
  if (magnitude <= 0x33000000) /* 2^-25 and below: a tie goes to even, which is zero */
    return (uint16_t)sign;
  uint32_t significand = (magnitude & 0x7fffff) | 0x800000;
  uint32_t shift = 126 - (magnitude >> 23);
  uint32_t half_way = 1u << (shift - 1);
  uint32_t rounded = (significand + half_way - 1 + ((significand >> shift) & 1)) >> shift;
  return (uint16_t)(sign | rounded);
}

uint16_t dp_bfloat16_from_float(float value) {
  uint32_t bits = bits_of_float(value);
  if ((bits & 0x7fffffff) > 0x7f800000)
    return (uint16_t)((bits >> 16 & 0x8000) | 0x7fc0);
  return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

#if HAS_VECTOR_FORMS
/* Each returns how many elements it has done; the caller finishes the rest. */

__attribute__((target("avx2,f16c"))) static size_t
half_to_float_vectors(const uint16_t *bits, float *values, size_t count) {
  size_t i = 0;
  for (; i + 8 <= count; i += 8)
    _mm256_storeu_ps(values + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(bits + i))));
  return i;
}

__attribute__((target("avx2,f16c"))) static size_t
half_from_float_vectors(const float *values, uint16_t *bits, size_t count) {
  size_t i = 0;
  for (; i + 8 <= count; i += 8)
    _mm_storeu_si128((__m128i *)(bits + i),
                     _mm256_cvtps_ph(_mm256_loadu_ps(values + i), _MM_FROUND_TO_NEAREST_INT));
  return i;
}

__attribute__((target("avx2"))) static size_t
bfloat16_to_float_vectors(const uint16_t *bits, float *values, size_t count) {
  size_t i = 0;
  for (; i + 8 <= count; i += 8) {
    __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(bits + i)));
    _mm256_storeu_si256((__m256i *)(values + i), _mm256_slli_epi32(wide, 16));
  }
  return i;
}

__attribute__((target("avx2"))) static __m256i bfloat16_of_eight(const float *values) {
  __m256i bits = _mm256_loadu_si256((const __m256i *)values);
  __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  __m256i rounded = _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), odd);
  __m256i sign = _mm256_and_si256(bits, _mm256_set1_epi32((int)0x80000000));
  __m256i nan = _mm256_or_si256(sign, _mm256_set1_epi32(0x7fc00000));
  __m256i magnitude = _mm256_and_si256(bits, _mm256_set1_epi32(0x7fffffff));
  __m256i is_nan = _mm256_cmpgt_epi32(magnitude, _mm256_set1_epi32(0x7f800000));
  return _mm256_srli_epi32(_mm256_blendv_epi8(rounded, nan, is_nan), 16);
}

__attribute__((target("avx2"))) static size_t
bfloat16_from_float_vectors(const float *values, uint16_t *bits, size_t count) {
  size_t i = 0;
  for (; i + 16 <= count; i += 16) {
    __m256i packed =
        _mm256_packus_epi32(bfloat16_of_eight(values + i), bfloat16_of_eight(values + i + 8));
    /* packus works in 128-bit lanes: put the four quarters back in order. */
    _mm256_storeu_si256((__m256i *)(bits + i), _mm256_permute4x64_epi64(packed, 0xd8));
  }
  return i;
}

/* Not every compiler knows "f16c" as a name, and cpuid is slow in a virtual machine: ask once. */
static bool has_half_vectors(void) {
  static atomic_int answer; /* 0: not asked yet, 1: no, 2: yes */
  int known = atomic_load_explicit(&answer, memory_order_relaxed);
  if (known == 0) {
    unsigned a, b, c = 0, d;
    bool has_f16c = __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
    known = has_f16c && __builtin_cpu_supports("avx2") ? 2 : 1;
    atomic_store_explicit(&answer, known, memory_order_relaxed);
  }
  return known == 2;
}

static bool has_bfloat16_vectors(void) {
  return __builtin_cpu_supports("avx2");
}
#endif

void dp_half_to_float_n(const uint16_t *bits, float *values, size_t count) {
  size_t i = 0;
#if HAS_VECTOR_FORMS
  if (has_half_vectors())
    i = half_to_float_vectors(bits, values, count);
#endif
  for (; i < count; i++)
    values[i] = dp_half_to_float(bits[i]);
}

void dp_half_from_float_n(const float *values, uint16_t *bits, size_t count) {
  size_t i = 0;
#if HAS_VECTOR_FORMS
  if (has_half_vectors())
    i = half_from_float_vectors(values, bits, count);
#endif
  for (; i < count; i++)
    bits[i] = dp_half_from_float(values[i]);
}

void dp_bfloat16_to_float_n(const uint16_t *bits, float *values, size_t count) {
  size_t i = 0;
#if HAS_VECTOR_FORMS
  if (has_bfloat16_vectors())
    i = bfloat16_to_float_vectors(bits, values, count);
#endif
  for (; i < count; i++)
    values[i] = dp_bfloat16_to_float(bits[i]);
}

void dp_bfloat16_from_float_n(const float *values, uint16_t *bits, size_t count) {
  size_t i = 0;
#if HAS_VECTOR_FORMS
  if (has_bfloat16_vectors())
    i = bfloat16_from_float_vectors(values, bits, count);
#endif
  for (; i < count; i++)
    bits[i] = dp_bfloat16_from_float(values[i]);
}
