/* Bytes for the lanes of a vector of floats or doubles, as many as there are lanes (eight at most)
 * in the low part of an integer: made as wide as the elements, and back. What compilers make of
 * __builtin_convertvector takes several times as long. Included by loops_pool.c, which has
 * mask_float and mask_double; AVX-512 needs none of it. */
#if defined(__AVX512F__)
#elif defined(__SSE2__)
#include <immintrin.h>

/* Numbers up to 255 in each 32 bits of `low` and `high` to bytes. */
static inline __m128i pack_bytes(__m128i low, __m128i high) {
  __m128i both = _mm_packs_epi32(low, high);
  return _mm_packus_epi16(both, both);
}
/* The even ones of eight bytes: a double's other halves are zero. */
static inline uint64_t even_bytes(__m128i bytes) {
  return (uint64_t)_mm_cvtsi128_si64(_mm_packus_epi16(bytes, bytes));
}

#if defined(__AVX2__)
static inline mask_float widen_float(uint64_t bytes) {
  return (mask_float)_mm256_cvtepu8_epi32(_mm_cvtsi64_si128((int64_t)bytes));
}
static inline mask_double widen_double(uint64_t bytes) {
  return (mask_double)_mm256_cvtepu8_epi64(_mm_cvtsi64_si128((int64_t)bytes));
}
static inline __m128i pack_halves(__m256i values) {
  return pack_bytes(_mm256_castsi256_si128(values), _mm256_extracti128_si256(values, 1));
}
static inline uint64_t narrow_float(mask_float values) {
  return (uint64_t)_mm_cvtsi128_si64(pack_halves((__m256i)values));
}
static inline uint64_t narrow_double(mask_double values) {
  return even_bytes(pack_halves((__m256i)values));
}
#else
static inline __m128i widen_once(uint64_t bytes) {
  __m128i zero = _mm_setzero_si128();
  return _mm_unpacklo_epi16(_mm_unpacklo_epi8(_mm_cvtsi64_si128((int64_t)bytes), zero), zero);
}
static inline mask_float widen_float(uint64_t bytes) {
  return (mask_float)widen_once(bytes);
}
static inline mask_double widen_double(uint64_t bytes) {
  return (mask_double)_mm_unpacklo_epi32(widen_once(bytes), _mm_setzero_si128());
}
static inline uint64_t narrow_float(mask_float values) {
  return (uint64_t)_mm_cvtsi128_si64(pack_bytes((__m128i)values, (__m128i)values));
}
static inline uint64_t narrow_double(mask_double values) {
  return even_bytes(pack_bytes((__m128i)values, (__m128i)values));
}
#endif

#else /* any other processor */
#define CONVERT(name)                                                                              \
  static inline mask_##name widen_##name(uint64_t bytes) {                                         \
    mask_##name values;                                                                            \
    for (size_t i = 0; i < VECTOR_BYTES / sizeof(name); ++i)                                       \
      values[i] = (uint8_t)(bytes >> 8 * i);                                                       \
    return values;                                                                                 \
  }                                                                                                \
  static inline uint64_t narrow_##name(mask_##name values) {                                       \
    uint64_t bytes = 0;                                                                            \
    for (size_t i = 0; i < VECTOR_BYTES / sizeof(name); ++i)                                       \
      bytes |= (uint64_t)values[i] << 8 * i;                                                       \
    return bytes;                                                                                  \
  }
CONVERT(float)
CONVERT(double)
#undef CONVERT
#endif
