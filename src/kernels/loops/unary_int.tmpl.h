/* Loops with one input over an integer type. The includer defines T, SUFFIX and U (T's unsigned
 * form, in which overflow wraps). */
#define UNARY(name, to_type, expression)                                                           \
  static void DP_PASTE(name, SUFFIX)(const void *from, void *to, int64_t count) {                  \
    const T *input = from;                                                                         \
    to_type *output = to;                                                                          \
    DP_INDEPENDENT                                                                                 \
    for (int64_t i = 0; i < count; ++i) {                                                          \
      T x = input[i];                                                                              \
      output[i] = (to_type)(expression);                                                           \
    }                                                                                              \
  }

UNARY(square, T, (U)x *(uint64_t)(U)x)
UNARY(invert, T, ~x)
UNARY(population_count, uint8_t, __builtin_popcountll((uint64_t)(U)x))
#ifdef IS_SIGNED
UNARY(abs, T, x < 0 ? (U)0 - (U)x : (U)x)
UNARY(neg, T, (U)0 - (U)x)
UNARY(sign, T, (x > 0) - (x < 0))
#endif

#undef UNARY
#undef T
#undef U
#undef SUFFIX
#undef IS_SIGNED
