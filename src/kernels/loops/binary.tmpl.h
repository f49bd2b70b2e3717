/* The frame of every loop with two inputs. It has three forms of the inner loop, so that a scalar
 * operand stays in a register. The includer defines T and SUFFIX.
 *
 *   BINARY(name, result type, expression in x and y)    makes a loop
 *   STREAM(...)      the same for cheap expressions that wait for memory (stream_internal.h)
 *   FALLIBLE(...)    the same for expressions that may set `wrong`, an integer of type FLAG; a FLAG
 *                    of T's size keeps the loop vectorized */
#define BINARY_BODY(name, to_type, flag_type, loop, expression)                                    \
  static bool DP_PASTE(name, SUFFIX)(const void *a_data, const void *b_data, void *to_data,        \
                                     const dp_binary_span *span) {                                 \
    const T *a = a_data, *b = b_data;                                                              \
    to_type *to = to_data;                                                                         \
    flag_type wrong = 0;                                                                           \
    int64_t inner = span->inner;                                                                   \
    for (int64_t row = 0; row < span->outer; ++row) {                                              \
      if (span->a_inner && span->b_inner) {                                                        \
        loop for (int64_t i = 0; i < inner; ++i) {                                                 \
          T x = a[i], y = b[i];                                                                    \
          to[i] = (to_type)(expression);                                                           \
        }                                                                                          \
      } else if (span->a_inner) {                                                                  \
        T y = *b;                                                                                  \
        loop for (int64_t i = 0; i < inner; ++i) {                                                 \
          T x = a[i];                                                                              \
          to[i] = (to_type)(expression);                                                           \
        }                                                                                          \
      } else {                                                                                     \
        T x = *a;                                                                                  \
        loop for (int64_t i = 0; i < inner; ++i) {                                                 \
          T y = b[i];                                                                              \
          to[i] = (to_type)(expression);                                                           \
        }                                                                                          \
      }                                                                                            \
      a += span->a_outer;                                                                          \
      b += span->b_outer;                                                                          \
      to += inner;                                                                                 \
    }                                                                                              \
    return wrong == 0;                                                                             \
  }
#define BINARY(name, to_type, expression)                                                          \
  BINARY_BODY(name, to_type, int, DP_INDEPENDENT, expression)
#define FALLIBLE(name, to_type, expression)                                                        \
  BINARY_BODY(name, to_type, FLAG, DP_INDEPENDENT, expression)
#define STREAM(name, to_type, expression)                                                          \
  DP_STREAM BINARY_BODY(name, to_type, int, DP_STREAM_LOOP, expression)

/* The sum of three operands in one pass. */
#define ADD_THREE                                                                                  \
  DP_STREAM static void DP_PASTE(add_three, SUFFIX)(                                               \
      const void *a_data, const void *b_data, const void *c_data, void *to_data, int64_t count) {  \
    const T *a = a_data, *b = b_data, *c = c_data;                                                 \
    T *to = to_data;                                                                               \
    DP_STREAM_LOOP                                                                                 \
    for (int64_t i = 0; i < count; ++i)                                                            \
      to[i] = (T)((T)(a[i] + b[i]) + c[i]);                                                        \
  }
