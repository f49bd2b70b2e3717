/* Loops of ArgMax and ArgMin, one table for each instruction set.
 *
 * A loop looks at n rows of `inner` elements and gives, for each column, the row of the largest
 * (smallest) element: the first of equal ones; it does so `outer` times. A NaN never wins, unless
 * there is nothing else; then row 0 does. */
#ifndef DP_KERNELS_LOOPS_ARGMAX_INTERNAL_H
#define DP_KERNELS_LOOPS_ARGMAX_INTERNAL_H

#include <stdint.h>
#include "kernels/isa/isa.h"
#include "tensor/dtype.h"

typedef void (*dp_argmax_fn)(const void *data, int64_t *best_out, int64_t outer, int64_t n,
                             int64_t inner);

typedef struct dp_argmax_loops {
  dp_argmax_fn largest[DP_DTYPE_END], smallest[DP_DTYPE_END];
} dp_argmax_loops;
DP_ISA_TABLE(dp_argmax_loops, dp_argmax_table)

#endif
