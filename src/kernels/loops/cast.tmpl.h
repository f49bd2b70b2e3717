/* Conversions from one type to all others. The includer defines S (the source type), FROM (its
 * name) and REAL(x), the real part. */
#define CAST(to_name, to_type, expression)                                                         \
  static void DP_PASTE(FROM, to_name)(const void *from, void *to, int64_t count) {                 \
    const S *input = from;                                                                         \
    to_type *output = to;                                                                          \
    DP_INDEPENDENT                                                                                 \
    for (int64_t i = 0; i < count; ++i) {                                                          \
      S x = input[i];                                                                              \
      output[i] = expression;                                                                      \
    }                                                                                              \
  }

CAST(boolean, uint8_t, REAL(x) != 0)
CAST(int8, int8_t, (int8_t)REAL(x))
CAST(int16, int16_t, (int16_t)REAL(x))
CAST(int32, int32_t, (int32_t)REAL(x))
CAST(int64, int64_t, (int64_t)REAL(x))
CAST(uint8, uint8_t, (uint8_t)REAL(x))
CAST(uint16, uint16_t, (uint16_t)REAL(x))
CAST(uint32, uint32_t, (uint32_t)REAL(x))
CAST(uint64, uint64_t, (uint64_t)REAL(x))
CAST(float, float, (float)REAL(x))
CAST(double, double, (double)REAL(x))
CAST(complex64, dp_complex64, (dp_complex64)x)
CAST(complex128, dp_complex128, (dp_complex128)x)

#undef CAST
#undef S
#undef FROM
#undef REAL
