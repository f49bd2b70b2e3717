/* Places and marks, which are bytes in memory, as vectors of integers with the width of the
 * elements. widen_bytes takes one byte per lane (at most eight) from the low part of an integer,
 * narrow_bytes puts them back. Compilers' code for __builtin_convertvector takes several times as
 * long. Included by pool_places.tmpl.h; AVX-512 does not need it. */
#if defined(__AVX512F__)
#elif defined(__SSE2__)

/* Packs numbers up to 255, one in each 32 bits of `low` and `high`, to bytes. For doubles every
 * second number is the upper half of a lane and is dropped. */
INLINE uint64_t pack_bytes(__m128i low, __m128i high) {
  __m128i both = _mm_packs_epi32(low, high);
  __m128i bytes = _mm_packus_epi16(both, both);
#ifdef IS_DOUBLE
  bytes = _mm_packus_epi16(bytes, bytes);
#endif
  return (uint64_t)_mm_cvtsi128_si64(bytes);
}

INLINE uint64_t narrow_bytes(integers values) {
#if defined(__AVX2__)
  return pack_bytes(_mm256_castsi256_si128((__m256i)values),
                    _mm256_extracti128_si256((__m256i)values, 1));
#else
  return pack_bytes((__m128i)values, (__m128i)values);
#endif
}

INLINE integers widen_bytes(uint64_t bytes) {
  __m128i all = _mm_cvtsi64_si128((int64_t)bytes);
#if defined(__AVX2__) && defined(IS_DOUBLE)
  return (integers)_mm256_cvtepu8_epi64(all);
#elif defined(__AVX2__)
  return (integers)_mm256_cvtepu8_epi32(all);
#else
  __m128i zero = _mm_setzero_si128();
  all = _mm_unpacklo_epi16(_mm_unpacklo_epi8(all, zero), zero);
#ifdef IS_DOUBLE
  all = _mm_unpacklo_epi32(all, zero);
#endif
  return (integers)all;
#endif
}

#else /* any other processor */
INLINE integers widen_bytes(uint64_t bytes) {
  integers values;
  for (int64_t i = 0; i < LANES; ++i)
    values[i] = (uint8_t)(bytes >> 8 * i);
  return values;
}
INLINE uint64_t narrow_bytes(integers values) {
  uint64_t bytes = 0;
  for (int64_t i = 0; i < LANES; ++i)
    bytes |= (uint64_t)values[i] << 8 * i;
  return bytes;
}
#endif
