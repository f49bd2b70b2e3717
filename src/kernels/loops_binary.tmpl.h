/* The shape of every loop with two inputs: three forms of the inner loop, so that a scalar operand
 * stays in a register. BINARY(name, result type, expression in x and y) makes a loop; FALLIBLE is
 * for expressions that may clear `fine`. The includer defines T and SUFFIX. */
#define BINARY_BODY(name, to_type, hint, expression)                                               \
  static bool DP_PASTE(name, SUFFIX)(const void *a_data, const void *b_data, void *to_data,        \
                                     const dp_binary_span *span) {                                 \
    const T *a = a_data, *b = b_data;                                                              \
    to_type *to = to_data;                                                                         \
    bool fine = true;                                                                              \
    int64_t inner = span->inner;                                                                   \
    for (int64_t row = 0; row < span->outer; ++row) {                                              \
      if (span->a_inner && span->b_inner) {                                                        \
        hint for (int64_t i = 0; i < inner; ++i) {                                                 \
          T x = a[i], y = b[i];                                                                    \
          to[i] = (to_type)(expression);                                                           \
        }                                                                                          \
      } else if (span->a_inner) {                                                                  \
        T y = *b;                                                                                  \
        hint for (int64_t i = 0; i < inner; ++i) {                                                 \
          T x = a[i];                                                                              \
          to[i] = (to_type)(expression);                                                           \
        }                                                                                          \
      } else {                                                                                     \
        T x = *a;                                                                                  \
        hint for (int64_t i = 0; i < inner; ++i) {                                                 \
          T y = b[i];                                                                              \
          to[i] = (to_type)(expression);                                                           \
        }                                                                                          \
      }                                                                                            \
      a += span->a_outer;                                                                          \
      b += span->b_outer;                                                                          \
      to += inner;                                                                                 \
    }                                                                                              \
    return fine;                                                                                   \
  }
#define BINARY(name, to_type, expression) BINARY_BODY(name, to_type, DP_INDEPENDENT, expression)
#define FALLIBLE(name, to_type, expression) BINARY_BODY(name, to_type, , expression)
