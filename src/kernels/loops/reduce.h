/* Loops that reduce, one table for each instruction set.
 *
 * `rows` reduces `outer` rows of n contiguous elements to one value each. `columns` reduces n rows
 * of `inner` elements (a row starts every `stride` elements) to one row. Sums of floats are made of
 * partial sums over lanes and groups, so that their rounding error grows far more slowly than the
 * count. Max and Min give NaN if any element is a NaN. n = 0 gives the identity of the
 * operation. */
#ifndef DP_KERNELS_LOOPS_REDUCE_H
#define DP_KERNELS_LOOPS_REDUCE_H

#include <stdint.h>
#include "kernels/isa/isa.h"
#include "tensor/dtype.h"

typedef enum dp_reduce_op {
  DP_REDUCE_sum,
  DP_REDUCE_prod,
  DP_REDUCE_max,
  DP_REDUCE_min,
  DP_REDUCE_square_sum, /* of |x|^2 */
  DP_REDUCE_COUNT,
} dp_reduce_op;

typedef struct dp_reduce_fns {
  void (*rows)(const void *from, void *to, int64_t outer, int64_t n);
  void (*columns)(const void *from, void *to, int64_t n, int64_t inner, int64_t stride);
} dp_reduce_fns;

typedef struct dp_reduce_loops {
  dp_reduce_fns fn[DP_REDUCE_COUNT][DP_DTYPE_END];
} dp_reduce_loops;
DP_ISA_TABLE(dp_reduce_loops, dp_reduce_table)

#endif
