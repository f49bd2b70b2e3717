/* Loops with two inputs over a real floating type. The includer defines T, SUFFIX, CALL(name) for
 * libm's functions and FAST(name) for vectorized ones. */

/* Turns the remainder of a truncated division into the remainder of a floor division, whose sign is
 * the divisor's. */
static inline T DP_PASTE(floor_rest_of, SUFFIX)(T rest, T y) {
  return rest != 0 && (y < 0) != (rest < 0) ? rest + y : rest;
}

STREAM(add, T, x + y)
ADD_THREE
STREAM(sub, T, x - y)
STREAM(mul, T, x *y)
BINARY(div, T, x / y)
BINARY(mul_no_nan, T, y == 0 ? 0 : x * y)
BINARY(div_no_nan, T, y == 0 ? 0 : x / y)
BINARY(truncate_div, T, CALL(trunc)(x / y))
BINARY(floor_div, T, CALL(floor)(x / y))
BINARY(xdivy, T, x == 0 ? 0 : x / y)
BINARY(xlogy, T, x == 0 ? 0 : x * FAST(log)(y))
BINARY(xlog1py, T, x == 0 ? 0 : x * FAST(log1p)(y))
BINARY(truncate_mod_any, T, CALL(fmod)(x, y))
BINARY(floor_mod_any, T, DP_PASTE(floor_rest_of, SUFFIX)(CALL(fmod)(x, y), y))
STREAM(maximum, T, x < y || y != y ? y : x)
STREAM(minimum, T, y < x || y != y ? y : x)
STREAM(squared_difference, T, (x - y) * (x - y))
BINARY(atan2, T, FAST(atan2)(x, y))
BINARY(next_after, T, CALL(nextafter)(x, y))
BINARY(equal, uint8_t, x == y)
BINARY(not_equal, uint8_t, x != y)
BINARY(less, uint8_t, x < y)
BINARY(less_equal, uint8_t, x <= y)
/* x is the op's output, y the gradient that comes in. */
STREAM(reciprocal_grad, T, y == 0 ? 0 : -(x * x) * y)
BINARY(sqrt_grad, T, y == 0 ? 0 : ((T)0.5 / x) * y)
STREAM(rsqrt_grad, T, y == 0 ? 0 : ((T)-0.5 * (x * x)) * (x * y))
STREAM(tanh_grad, T, y *(1 - x * x))
STREAM(sigmoid_grad, T, y *(x *(1 - x)))

BINARY(pow_any, T, CALL(pow)(x, y))

/* The exponent 2 is by far the most frequent. */
static bool DP_PASTE(pow, SUFFIX)(const void *a, const void *b, void *to,
                                  const dp_binary_span *span) {
  bool is_square = !span->b_inner && !span->b_outer && *(const T *)b == 2;
  if (!is_square)
    return DP_PASTE(pow_any, SUFFIX)(a, b, to, span);
  dp_binary_span twice = *span;
  twice.b_inner = twice.a_inner;
  twice.b_outer = twice.a_outer;
  return DP_PASTE(mul, SUFFIX)(a, a, to, &twice);
}
