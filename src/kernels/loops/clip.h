/* Loops of ClipByValue, one table for each instruction set.
 *
 * Each element is the lower of x and its high bound, and then the higher of that and the low bound;
 * a bound that is NaN wins. A bound is one value or runs along with x. The result may be the memory
 * of an input that has its shape. Half and bfloat16 go through float. */
#ifndef DP_KERNELS_LOOPS_CLIP_INTERNAL_H
#define DP_KERNELS_LOOPS_CLIP_INTERNAL_H

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
  dp_clip_fn fn[DP_DTYPE_END]; /* NULL for complex numbers, which have parts */
} dp_clip_loops;
DP_ISA_TABLE(dp_clip_loops, dp_clip_table)

#endif
