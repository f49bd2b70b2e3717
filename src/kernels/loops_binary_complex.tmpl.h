/* Loops with two inputs over a complex type. The includer defines T, SUFFIX, OF (makes one from two
 * parts), MULTIPLY and CALL(name), libm's function for the type. */
#define CONJUGATE(value) OF(__real__(value), -__imag__(value))

static inline T DP_PASTE(squared_difference_of, SUFFIX)(T x, T y) {
  T d = x - y;
  return OF(__real__ d * __real__ d + __imag__ d * __imag__ d, 0);
}
static inline T DP_PASTE(rsqrt_grad_of, SUFFIX)(T x, T y) {
  T c = CONJUGATE(x);
  return y == 0 ? 0 : (T)-0.5 * MULTIPLY(MULTIPLY(y, c), MULTIPLY(c, c));
}

FALLIBLE(add, T, x + y)
FALLIBLE(sub, T, x - y)
FALLIBLE(mul, T, MULTIPLY(x, y))
FALLIBLE(div, T, x / y)
FALLIBLE(mul_no_nan, T, y == 0 ? 0 : MULTIPLY(x, y))
FALLIBLE(div_no_nan, T, y == 0 ? 0 : x / y)
FALLIBLE(xdivy, T, x == 0 ? 0 : x / y)
FALLIBLE(xlogy, T, x == 0 ? 0 : MULTIPLY(x, CALL(clog)(y)))
FALLIBLE(xlog1py, T, x == 0 ? 0 : MULTIPLY(x, CALL(clog)(1 + y)))
FALLIBLE(pow, T, CALL(cpow)(x, y))
FALLIBLE(squared_difference, T, DP_PASTE(squared_difference_of, SUFFIX)(x, y))
FALLIBLE(equal, uint8_t, x == y)
FALLIBLE(not_equal, uint8_t, x != y)
FALLIBLE(reciprocal_grad, T, y == 0 ? 0 : MULTIPLY(-MULTIPLY(CONJUGATE(x), CONJUGATE(x)), y))
FALLIBLE(sqrt_grad, T, y == 0 ? 0 : (T)0.5 * y / CONJUGATE(x))
FALLIBLE(rsqrt_grad, T, DP_PASTE(rsqrt_grad_of, SUFFIX)(x, y))
FALLIBLE(tanh_grad, T, MULTIPLY(y, 1 - MULTIPLY(x, x)))
FALLIBLE(sigmoid_grad, T, MULTIPLY(MULTIPLY(y, x), 1 - x))

#undef CONJUGATE
