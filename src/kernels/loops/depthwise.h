/* The inner loops of depthwise convolutions, one table for each instruction set. Channels do not
 * mix in a depthwise convolution, so these loops only multiply and add vectors of channels element
 * by element. A filter is [taps][channels] per row. */
#ifndef DP_KERNELS_LOOPS_DEPTHWISE_H
#define DP_KERNELS_LOOPS_DEPTHWISE_H

#include <stdint.h>
#include "kernels/isa/isa.h"
#include "tensor/dtype.h"

/* How one row of a filter meets one row of `width` pixels: tap t of step p is at pixel p * stride +
 * shift + t * spacing. Pixels outside [0, width) count as zero. */
typedef struct dp_depthwise_line {
  int64_t channels, width;
  int64_t taps, shift, spacing;
  int64_t stride, count; /* of steps */
} dp_depthwise_line;

typedef struct dp_depthwise_fns {
  /* to[p * to_step + c] = sum over the rows r and taps t of a[r][tap t of step p][c] *
   * filters[r][t][c]. */
  void (*pixels)(const dp_depthwise_line *line, const void *const *a, const void *const *filters,
                 int64_t rows, void *to, int64_t to_step);
  /* to[t][c] += sum over the steps p of a[tap t of step p][c] * b[p][c]. */
  void (*products)(const dp_depthwise_line *line, const void *a, const void *b, void *to);
} dp_depthwise_fns;

typedef struct dp_depthwise_loops {
  dp_depthwise_fns fns[DP_DTYPE_END]; /* float, double */
} dp_depthwise_loops;
DP_ISA_TABLE(dp_depthwise_loops, dp_depthwise_table)

#endif
