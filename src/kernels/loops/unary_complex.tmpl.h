/* Loops with one input over a complex type. The includer defines T, R (the type of its parts),
 * SUFFIX, OF(real, imaginary), MULTIPLY, CALL(name) and CALL_REAL(name) (libm's functions for T and
 * for R), and ANGLE(y, x), the arc tangent of y / x. */
#define UNARY(name, to_type, expression)                                                           \
  static void DP_PASTE(name, SUFFIX)(const void *from, void *to, int64_t count) {                  \
    const T *input = from;                                                                         \
    to_type *output = to;                                                                          \
    for (int64_t i = 0; i < count; ++i) {                                                          \
      T x = input[i];                                                                              \
      output[i] = expression;                                                                      \
    }                                                                                              \
  }

static inline T DP_PASTE(sign_of, SUFFIX)(T x) {
  R magnitude = CALL(cabs)(x);
  return magnitude == 0 ? OF(0, 0) : OF(__real__ x / magnitude, __imag__ x / magnitude);
}
/* log(1 + x), accurate for small x: the modulus comes from log1p(|1 + x|^2 - 1). */
static inline T DP_PASTE(log1p_of, SUFFIX)(T x) {
  R a = __real__ x, b = __imag__ x;
  if (CALL_REAL(fabs)(a) > (R)0.5 || CALL_REAL(fabs)(b) > (R)0.5)
    return CALL(clog)(OF(1 + a, b));
  return OF((R)0.5 * CALL_REAL(log1p)(a * (2 + a) + b * b), CALL_REAL(atan2)(b, 1 + a));
}
/* e^x - 1, accurate for small x. */
static inline T DP_PASTE(expm1_of, SUFFIX)(T x) {
  R a = __real__ x, b = __imag__ x;
  R half = CALL_REAL(sin)(b / 2), grown = CALL_REAL(expm1)(a);
  return OF(grown * CALL_REAL(cos)(b) - 2 * half * half, (grown + 1) * CALL_REAL(sin)(b));
}

UNARY(neg, T, -x)
UNARY(sign, T, DP_PASTE(sign_of, SUFFIX)(x))
UNARY(reciprocal, T, OF(1, 0) / x)
UNARY(square, T, MULTIPLY(x, x))
UNARY(sqrt, T, CALL(csqrt)(x))
UNARY(rsqrt, T, OF(1, 0) / CALL(csqrt)(x))
UNARY(exp, T, CALL(cexp)(x))
UNARY(expm1, T, DP_PASTE(expm1_of, SUFFIX)(x))
UNARY(log, T, CALL(clog)(x))
UNARY(log1p, T, DP_PASTE(log1p_of, SUFFIX)(x))
UNARY(sin, T, CALL(csin)(x))
UNARY(cos, T, CALL(ccos)(x))
UNARY(tan, T, CALL(ctan)(x))
UNARY(asin, T, CALL(casin)(x))
UNARY(acos, T, CALL(cacos)(x))
UNARY(atan, T, CALL(catan)(x))
UNARY(sinh, T, CALL(csinh)(x))
UNARY(cosh, T, CALL(ccosh)(x))
UNARY(tanh, T, CALL(ctanh)(x))
UNARY(asinh, T, CALL(casinh)(x))
UNARY(acosh, T, CALL(cacosh)(x))
UNARY(atanh, T, CALL(catanh)(x))
UNARY(sigmoid, T, OF(1, 0) / (1 + CALL(cexp)(-x)))
UNARY(conj, T, OF(__real__ x, -__imag__ x))
UNARY(real, R, __real__ x)
UNARY(imag, R, __imag__ x)
UNARY(angle, R, ANGLE(__imag__ x, __real__ x))
UNARY(complex_abs, R, CALL(cabs)(x))

#undef UNARY
