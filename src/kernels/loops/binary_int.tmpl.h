/* Loops with two inputs over an integer type. The includer defines T, SUFFIX, U (T's unsigned form,
 * in which overflow wraps) and IS_SIGNED for signed types. It defines REAL where a floating type
 * can hold every T and its rounded quotients never reach the next integer: instruction sets have no
 * vector division of integers. */

#ifdef REAL
#define DIVIDE(x, y) ((T)((REAL)(x) / (REAL)(y)))
#else
#define DIVIDE(x, y) ((T)((x) / (y)))
#endif
#define FLAG U

#ifdef IS_SIGNED
/* The smallest number divided by -1 wraps instead of trapping. */
static inline T DP_PASTE(quotient_of, SUFFIX)(T x, T y) {
  T quotient = DIVIDE(x, y == -1 ? 1 : y);
  return y == -1 ? (T)((U)0 - (U)x) : quotient;
}
/* Whether the truncated quotient is above the floor of the exact one: the remainder is not 0 and
 * its sign is not the divisor's. */
static inline bool DP_PASTE(is_above, SUFFIX)(T rest, T y) {
  return rest != 0 && (rest < 0) != (y < 0);
}
#else
static inline T DP_PASTE(quotient_of, SUFFIX)(T x, T y) {
  return DIVIDE(x, y);
}
static inline bool DP_PASTE(is_above, SUFFIX)(T rest, T y) {
  return (void)rest, (void)y, false;
}
#endif
static inline T DP_PASTE(rest_after, SUFFIX)(T x, T y, T quotient) {
  return (T)((U)x - 1u * (U)quotient * (U)y);
}
static inline T DP_PASTE(rest_of, SUFFIX)(T x, T y) {
  return DP_PASTE(rest_after, SUFFIX)(x, y, DP_PASTE(quotient_of, SUFFIX)(x, y));
}
static inline T DP_PASTE(floor_quotient_of, SUFFIX)(T x, T y) {
  T quotient = DP_PASTE(quotient_of, SUFFIX)(x, y);
  T rest = DP_PASTE(rest_after, SUFFIX)(x, y, quotient);
  return (T)(quotient - DP_PASTE(is_above, SUFFIX)(rest, y));
}
static inline T DP_PASTE(floor_rest_of, SUFFIX)(T x, T y) {
  T rest = DP_PASTE(rest_of, SUFFIX)(x, y);
  return (T)(DP_PASTE(is_above, SUFFIX)(rest, y) ? rest + y : rest);
}

#define DIVISION(name, function)                                                                   \
  static inline T DP_PASTE(DP_PASTE(checked, function), SUFFIX)(T x, T y, FLAG * wrong) {          \
    *wrong |= y == 0;                                                                              \
    return DP_PASTE(function, SUFFIX)(x, y == 0 ? 1 : y);                                          \
  }                                                                                                \
  FALLIBLE(name, T, DP_PASTE(DP_PASTE(checked, function), SUFFIX)(x, y, &wrong))

static inline T DP_PASTE(power_of, SUFFIX)(T x, T y, FLAG *wrong) {
#ifdef IS_SIGNED
  if (y < 0) {
    *wrong = 1;
    return 0;
  }
#endif
  uint64_t power = 1, base = (uint64_t)x;
  for (U left = (U)y; left; left = (U)(left >> 1)) {
    power = left & 1 ? power * base : power;
    base *= base;
  }
  return (T)power;
}
static inline unsigned DP_PASTE(shift_of, SUFFIX)(T y) {
  const unsigned most = sizeof(T) * 8 - 1;
#ifdef IS_SIGNED
  if (y < 0)
    return 0;
#endif
  return (U)y > most ? most : (unsigned)y;
}

DIVISION(div, quotient_of)
DIVISION(floor_div, floor_quotient_of)
DIVISION(truncate_mod, rest_of)
DIVISION(floor_mod, floor_rest_of)
FALLIBLE(pow, T, DP_PASTE(power_of, SUFFIX)(x, y, &wrong))
STREAM(maximum, T, x < y ? y : x)
STREAM(minimum, T, y < x ? y : x)
BINARY(less, uint8_t, x < y)
BINARY(less_equal, uint8_t, x <= y)
BINARY(left_shift, T, (uint64_t)(U)x << DP_PASTE(shift_of, SUFFIX)(y))
BINARY(right_shift, T, x >> DP_PASTE(shift_of, SUFFIX)(y))
#ifndef IS_SIGNED
/* Signed types use these loops too: the bits of the result are the same. */
STREAM(add, T, x + y)
ADD_THREE
STREAM(sub, T, x - y)
BINARY(mul, T, (uint64_t)x *(uint64_t)y)
BINARY(squared_difference, T, (uint64_t)(T)(x - y) * (uint64_t)(T)(x - y))
BINARY(equal, uint8_t, x == y)
BINARY(not_equal, uint8_t, x != y)
STREAM(bitwise_and, T, x &y)
STREAM(bitwise_or, T, x | y)
STREAM(bitwise_xor, T, x ^ y)
#endif

#undef DIVISION
#undef DIVIDE
#undef FLAG
#undef REAL
#undef T
#undef U
#undef SUFFIX
#undef IS_SIGNED
