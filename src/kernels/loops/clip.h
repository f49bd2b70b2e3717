/* Loops of ClipByValue, one table for each instruction set.
 *
 *   y = min(x, high), then max(y, low); a bound that is NaN wins
 *
 * Each bound is a single value or one value per element of x. The result may be the memory of an
 * input that has its shape. Half and bfloat16 go through float. */
#ifndef DP_KERNELS_LOOPS_CLIP_H
#define DP_KERNELS_LOOPS_CLIP_H

#include <stdint.h>
#include "kernels/isa/isa.h"
#include "tensor/dtype.h"

typedef struct dp_clip_span {
  const void *x, *low, *high;
  void *to;
  int64_t count;
  bool low_moves, high_moves;
} dp_clip_span;

typedef void (*dp_clip_fn)(const dp_clip_span *span);

typedef struct dp_clip_loops {
  dp_clip_fn fn[DP_DTYPE_END]; /* NULL for complex types, which have no order */
} dp_clip_loops;
DP_ISA_TABLE(dp_clip_loops, dp_clip_table)

#endif
