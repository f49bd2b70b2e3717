/* Loops of the element-wise ops with two inputs, one table for each instruction set.
 *
 * A loop fills a dense block of outer * inner elements. Within a row an operand advances with the
 * result (inner stride 1) or stays at one element (inner stride 0); between rows it moves by its
 * outer stride. The result may be the memory of an operand that has its shape.
 *
 * A loop returns false for an integer division by zero or a negative integer exponent; the result
 * is undefined then. An entry is NULL where an op has no loop for a dtype; half and bfloat16 go
 * through float. There is no "greater": it is "less" with the operands exchanged. */
#ifndef DP_KERNELS_LOOPS_BINARY_H
#define DP_KERNELS_LOOPS_BINARY_H

#include <stdint.h>
#include "kernels/isa/isa.h"
#include "tensor/dtype.h"

/* X(symbol, cost per element in picoseconds) */
#define DP_BINARY_LOOPS(X)                                                                         \
  X(add, 250)                                                                                      \
  X(sub, 250)                                                                                      \
  X(mul, 250)                                                                                      \
  X(mul_no_nan, 400)                                                                               \
  X(div, 600)                                                                                      \
  X(truncate_div, 1500)                                                                            \
  X(floor_div, 1500)                                                                               \
  X(div_no_nan, 700)                                                                               \
  X(xdivy, 700)                                                                                    \
  X(xlogy, 1500)                                                                                   \
  X(xlog1py, 2000)                                                                                 \
  X(truncate_mod, 1500)                                                                            \
  X(floor_mod, 1500)                                                                               \
  X(pow, 8000)                                                                                     \
  X(maximum, 250)                                                                                  \
  X(minimum, 250)                                                                                  \
  X(squared_difference, 300)                                                                       \
  X(atan2, 15000)                                                                                  \
  X(next_after, 5000)                                                                              \
  X(equal, 250)                                                                                    \
  X(not_equal, 250)                                                                                \
  X(less, 250)                                                                                     \
  X(less_equal, 250)                                                                               \
  X(logical_and, 240)                                                                              \
  X(logical_or, 240)                                                                               \
  X(bitwise_and, 250)                                                                              \
  X(bitwise_or, 250)                                                                               \
  X(bitwise_xor, 250)                                                                              \
  X(left_shift, 300)                                                                               \
  X(right_shift, 300)                                                                              \
  X(make_complex, 500)                                                                             \
  X(reciprocal_grad, 400)                                                                          \
  X(sqrt_grad, 600)                                                                                \
  X(rsqrt_grad, 400)                                                                               \
  X(tanh_grad, 300)                                                                                \
  X(sigmoid_grad, 300)

typedef enum dp_binary_op {
#define DP_BINARY_ENUM(symbol, cost) DP_BINARY_##symbol,
  DP_BINARY_LOOPS(DP_BINARY_ENUM)
#undef DP_BINARY_ENUM
      DP_BINARY_COUNT,
} dp_binary_op;

typedef struct dp_binary_span {
  int64_t inner, outer;
  int64_t a_inner, b_inner; /* 0 or 1 */
  int64_t a_outer, b_outer;
} dp_binary_span;

typedef bool (*dp_binary_fn)(const void *a, const void *b, void *result,
                             const dp_binary_span *span);

/* (a + b) + c over `count` elements; the result may be the memory of an operand. */
typedef void (*dp_add_three_fn)(const void *a, const void *b, const void *c, void *result,
                                int64_t count);

typedef struct dp_binary_loops {
  dp_binary_fn fn[DP_BINARY_COUNT][DP_DTYPE_END];
  dp_add_three_fn add_three[DP_DTYPE_END];
} dp_binary_loops;
DP_ISA_TABLE(dp_binary_loops, dp_binary_table)

#endif
