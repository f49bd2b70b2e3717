/* Loops with one input over a real floating type. The includer defines T, SUFFIX, BITS (the signed
 * integer of T's size), and the functions that differ between float and double: CALL(name) is
 * libm's, FAST(name) is the vectorized one if it exists. */
#define UNARY_BODY(name, to_type, loop, expression)                                                \
  static void DP_PASTE(name, SUFFIX)(const void *from, void *to, int64_t count) {                  \
    const T *input = from;                                                                         \
    to_type *output = to;                                                                          \
    loop for (int64_t i = 0; i < count; ++i) {                                                     \
      T x = input[i];                                                                              \
      output[i] = expression;                                                                      \
    }                                                                                              \
  }
#define UNARY(name, to_type, expression) UNARY_BODY(name, to_type, DP_INDEPENDENT, expression)
#define STREAM(name, to_type, expression)                                                          \
  DP_STREAM UNARY_BODY(name, to_type, DP_STREAM_LOOP, expression)

/* Zeros and NaN stay what they are. */
static inline T DP_PASTE(sign_of, SUFFIX)(T x) {
  T positive = x > 0 ? 1 : x;
  return x < 0 ? -1 : positive;
}

STREAM(abs, T, CALL(fabs)(x))
STREAM(neg, T, -x)
STREAM(sign, T, DP_PASTE(sign_of, SUFFIX)(x))
STREAM(square, T, x *x)
UNARY(sqrt, T, CALL(sqrt)(x))
UNARY(exp, T, FAST(exp)(x))
UNARY(expm1, T, FAST(expm1)(x))
UNARY(log, T, FAST(log)(x))
UNARY(log1p, T, FAST(log1p)(x))
UNARY(asin, T, CALL(asin)(x))
UNARY(acos, T, CALL(acos)(x))
UNARY(atan, T, CALL(atan)(x))
UNARY(sinh, T, FAST(sinh)(x))
UNARY(cosh, T, FAST(cosh)(x))
UNARY(tanh, T, FAST(tanh)(x))
UNARY(asinh, T, CALL(asinh)(x))
UNARY(acosh, T, CALL(acosh)(x))
UNARY(atanh, T, CALL(atanh)(x))
UNARY(sigmoid, T, FAST(sigmoid)(x))
UNARY(erf, T, FAST(erf)(x))
UNARY(erfc, T, FAST(erfc)(x))
STREAM(ceil, T, CALL(ceil)(x))
STREAM(floor, T, CALL(floor)(x))
STREAM(trunc, T, CALL(trunc)(x))
STREAM(rint, T, CALL(rint)(x))
UNARY(is_nan, uint8_t, x != x)
UNARY(is_inf, uint8_t, CALL(fabs)(x) == (T)INFINITY)
UNARY(is_finite, uint8_t, CALL(fabs)(x) < (T)INFINITY)

#undef UNARY_BODY
#undef UNARY
#undef STREAM
