/* Loops of ArgMax and ArgMin, one table for each instruction set.
 *
 * The input is `outer` blocks of n rows of `inner` elements. For each column of a block a loop
 * gives the number of the row with the largest (smallest) element; of equal elements the first
 * counts. A NaN never wins, except that row 0 is the answer for a column of NaNs only. */
#ifndef DP_KERNELS_LOOPS_ARGMAX_H
#define DP_KERNELS_LOOPS_ARGMAX_H

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
