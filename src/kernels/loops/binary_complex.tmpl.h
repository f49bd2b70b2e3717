/* Loops with two inputs over a complex type. The includer defines T, SUFFIX, OF(real, imaginary),
 * MULTIPLY and CALL(name), which is libm's function for the type. */
#define CONJUGATE(value) OF(__real__(value), -__imag__(value))

static inline T DP_PASTE(squared_difference_of, SUFFIX)(T x, T y) {
  T d = x - y;
  return OF(__real__ d * __real__ d + __imag__ d * __imag__ d, 0);
}
static inline T DP_PASTE(rsqrt_grad_of, SUFFIX)(T x, T y) {
  T c = CONJUGATE(x);
  return y == 0 ? 0 : (T)-0.5 * MULTIPLY(MULTIPLY(y, c), MULTIPLY(c, c));
}

STREAM(add, T, x + y)
ADD_THREE
STREAM(sub, T, x - y)
BINARY(mul, T, MULTIPLY(x, y))
BINARY(div, T, x / y)
BINARY(mul_no_nan, T, y == 0 ? 0 : MULTIPLY(x, y))
BINARY(div_no_nan, T, y == 0 ? 0 : x / y)
BINARY(xdivy, T, x == 0 ? 0 : x / y)
BINARY(xlogy, T, x == 0 ? 0 : MULTIPLY(x, CALL(clog)(y)))
BINARY(xlog1py, T, x == 0 ? 0 : MULTIPLY(x, CALL(clog)(1 + y)))
BINARY(pow, T, CALL(cpow)(x, y))
BINARY(squared_difference, T, DP_PASTE(squared_difference_of, SUFFIX)(x, y))
BINARY(equal, uint8_t, x == y)
BINARY(not_equal, uint8_t, x != y)
BINARY(reciprocal_grad, T, y == 0 ? 0 : MULTIPLY(-MULTIPLY(CONJUGATE(x), CONJUGATE(x)), y))
BINARY(sqrt_grad, T, y == 0 ? 0 : (T)0.5 * y / CONJUGATE(x))
BINARY(rsqrt_grad, T, DP_PASTE(rsqrt_grad_of, SUFFIX)(x, y))
BINARY(tanh_grad, T, MULTIPLY(y, 1 - MULTIPLY(x, x)))
BINARY(sigmoid_grad, T, MULTIPLY(MULTIPLY(y, x), 1 - x))

#undef CONJUGATE
