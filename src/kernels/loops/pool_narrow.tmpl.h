/* Vectors of floats that are half or bfloat16 in memory. Included by pool_vectors.tmpl.h when T is
 * float and M is a 16-bit type. `rest` is the number of lanes of a partial vector, 0 for a whole
 * one. */
#define NARROW_COUNT(rest) ((size_t)((rest) > 0 && (rest) < LANES ? (rest) : LANES))
typedef uint16_t narrow_bits __attribute__((vector_size(VECTOR_BYTES / 2)));
typedef uint32_t narrow_wide __attribute__((vector_size(VECTOR_BYTES)));

INLINE narrow_bits read_bits(const uint16_t *from, const int64_t rest) {
#if defined(__AVX512F__)
  if (rest)
    return (narrow_bits)_mm256_maskz_loadu_epi16((__mmask16)((1 << rest) - 1), from);
#endif
  narrow_bits bits = {0};
  memcpy(&bits, from, NARROW_COUNT(rest) * sizeof *from);
  return bits;
}

INLINE void write_bits(uint16_t *to, narrow_bits bits, const int64_t rest) {
#if defined(__AVX512F__)
  if (rest) {
    _mm256_mask_storeu_epi16(to, (__mmask16)((1 << rest) - 1), (__m256i)bits);
    return;
  }
#endif
  memcpy(to, &bits, NARROW_COUNT(rest) * sizeof *to);
}

INLINE vector read_half(const uint16_t *from, const int64_t rest) {
  narrow_bits bits = read_bits(from, rest);
#if defined(__AVX512F__)
  return (vector)_mm512_cvtph_ps((__m256i)bits);
#elif defined(__F16C__)
  return (vector)_mm256_cvtph_ps((__m128i)bits);
#else
  vector values;
  for (int64_t i = 0; i < LANES; ++i)
    values[i] = dp_half_to_float(bits[i]);
  return values;
#endif
}

INLINE void write_half(uint16_t *to, vector values, const int64_t rest) {
#if defined(__AVX512F__)
  write_bits(to, (narrow_bits)_mm512_cvtps_ph((__m512)values, _MM_FROUND_TO_NEAREST_INT), rest);
#elif defined(__F16C__)
  write_bits(to, (narrow_bits)_mm256_cvtps_ph((__m256)values, _MM_FROUND_TO_NEAREST_INT), rest);
#else
  narrow_bits bits;
  for (int64_t i = 0; i < LANES; ++i)
    bits[i] = dp_half_from_float(values[i]);
  write_bits(to, bits, rest);
#endif
}

INLINE vector read_bfloat16(const uint16_t *from, const int64_t rest) {
  return (vector)(__builtin_convertvector(read_bits(from, rest), narrow_wide) << 16);
}

/* To nearest even; a NaN becomes the quiet one with its sign. */
INLINE void write_bfloat16(uint16_t *to, vector values, const int64_t rest) {
  narrow_wide bits = (narrow_wide)values, is_number = (narrow_wide)(values == values);
  narrow_wide rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  narrow_wide quiet = ((bits >> 16) & 0x8000u) | 0x7fc0u;
  rounded = (is_number & rounded) | (~is_number & quiet);
  write_bits(to, __builtin_convertvector(rounded, narrow_bits), rest);
}
