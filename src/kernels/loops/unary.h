/* Loops of the element-wise ops with one input, one table for each instruction set.
 *
 * A loop reads `count` elements and writes as many; the output may be the input's own memory. An
 * entry is NULL where an op has no loop for a dtype; half and bfloat16 have none, because the
 * kernels convert them in blocks and use the float loop. */
#ifndef DP_KERNELS_LOOPS_UNARY_H
#define DP_KERNELS_LOOPS_UNARY_H

#include <stdint.h>
#include "kernels/isa/isa.h"
#include "tensor/dtype.h"

/* X(symbol, op, cost per element in picoseconds) */
#define DP_UNARY_OPS(X)                                                                            \
  X(abs, Abs, 250)                                                                                 \
  X(neg, Neg, 250)                                                                                 \
  X(sign, Sign, 300)                                                                               \
  X(reciprocal, Reciprocal, 500)                                                                   \
  X(square, Square, 250)                                                                           \
  X(sqrt, Sqrt, 600)                                                                               \
  X(rsqrt, Rsqrt, 400)                                                                             \
  X(exp, Exp, 1000)                                                                                \
  X(expm1, Expm1, 1200)                                                                            \
  X(log, Log, 1200)                                                                                \
  X(log1p, Log1p, 1500)                                                                            \
  X(sin, Sin, 2500)                                                                                \
  X(cos, Cos, 2500)                                                                                \
  X(tan, Tan, 3500)                                                                                \
  X(asin, Asin, 8000)                                                                              \
  X(acos, Acos, 8000)                                                                              \
  X(atan, Atan, 8000)                                                                              \
  X(sinh, Sinh, 1200)                                                                              \
  X(cosh, Cosh, 1200)                                                                              \
  X(tanh, Tanh, 800)                                                                               \
  X(asinh, Asinh, 15000)                                                                           \
  X(acosh, Acosh, 15000)                                                                           \
  X(atanh, Atanh, 15000)                                                                           \
  X(sigmoid, Sigmoid, 1200)                                                                        \
  X(lgamma, Lgamma, 4000)                                                                          \
  X(digamma, Digamma, 4000)                                                                        \
  X(erf, Erf, 800)                                                                                 \
  X(erfc, Erfc, 2000)                                                                              \
  X(ceil, Ceil, 300)                                                                               \
  X(floor, Floor, 300)                                                                             \
  X(trunc, Trunc, 300)                                                                             \
  X(rint, Rint, 300)                                                                               \
  X(round, Round, 300)                                                                             \
  X(is_nan, IsNan, 200)                                                                            \
  X(is_inf, IsInf, 200)                                                                            \
  X(is_finite, IsFinite, 200)                                                                      \
  X(logical_not, LogicalNot, 60)                                                                   \
  X(invert, Invert, 250)                                                                           \
  X(population_count, PopulationCount, 400)                                                        \
  X(conj, Conj, 400)                                                                               \
  X(real, Real, 400)                                                                               \
  X(imag, Imag, 400)                                                                               \
  X(angle, Angle, 1500)                                                                            \
  X(complex_abs, ComplexAbs, 2000)

typedef enum dp_unary_op {
#define DP_UNARY_ENUM(symbol, op, cost) DP_UNARY_##symbol,
  DP_UNARY_OPS(DP_UNARY_ENUM)
#undef DP_UNARY_ENUM
      DP_UNARY_COUNT,
} dp_unary_op;

typedef void (*dp_unary_fn)(const void *from, void *to, int64_t count);

typedef struct dp_unary_loops {
  dp_unary_fn fn[DP_UNARY_COUNT][DP_DTYPE_END];
} dp_unary_loops;
DP_ISA_TABLE(dp_unary_loops, dp_unary_table)

#endif
