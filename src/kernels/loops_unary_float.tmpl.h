/* Loops with one input over a real floating type. The includer defines T, BITS (its signed integer
 * of the same size), SUFFIX, and the functions that differ between float and double: CALL(name) is
 * libm's, FAST(name) the vectorized one where there is one. */
#define UNARY(name, to_type, expression)                                                           \
  static void DP_PASTE(name, SUFFIX)(const void *from, void *to, int64_t count) {                  \
    const T *input = from;                                                                         \
    to_type *output = to;                                                                          \
    DP_INDEPENDENT                                                                                 \
    for (int64_t i = 0; i < count; ++i) {                                                          \
      T x = input[i];                                                                              \
      output[i] = expression;                                                                      \
    }                                                                                              \
  }

static inline T DP_PASTE(sign_of, SUFFIX)(T x) {
  T magnitude = x == x && x != 0 ? 1 : x;
  return x < 0 ? -1 : magnitude;
}

UNARY(abs, T, CALL(fabs)(x))
UNARY(neg, T, -x)
UNARY(sign, T, DP_PASTE(sign_of, SUFFIX)(x))
UNARY(square, T, x *x)
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
UNARY(ceil, T, CALL(ceil)(x))
UNARY(floor, T, CALL(floor)(x))
UNARY(trunc, T, CALL(trunc)(x))
UNARY(rint, T, CALL(rint)(x))
UNARY(is_nan, uint8_t, x != x)
UNARY(is_inf, uint8_t, CALL(fabs)(x) == (T)INFINITY)
UNARY(is_finite, uint8_t, CALL(fabs)(x) < (T)INFINITY)

#undef UNARY
