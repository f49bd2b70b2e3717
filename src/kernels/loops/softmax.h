/* Loops of softmax and of the cross entropies, one table for each instruction set. All take `rows`
 * rows of `classes` elements and work row by row. Results may overwrite the logits.
 *
 *   loss[r]     = -sum(labels[r] * log softmax(logits[r]))
 *   gradient[r] = softmax(logits[r]) - labels[r]
 *
 * The labels of cross_entropy are rows, with strides in elements that are 0 where they are
 * broadcast. The labels of sparse_cross_entropy are one class index per row. */
#ifndef DP_KERNELS_LOOPS_SOFTMAX_H
#define DP_KERNELS_LOOPS_SOFTMAX_H

#include <stdint.h>
#include "kernels/isa/isa.h"
#include "tensor/dtype.h"

/* Where an operand of a cross entropy is. */
typedef struct dp_softmax_rows {
  const void *data;
  int64_t row, column; /* strides */
} dp_softmax_rows;

typedef struct dp_softmax_fns {
  void (*softmax)(const void *from, void *to, int64_t rows, int64_t classes);
  void (*log_softmax)(const void *from, void *to, int64_t rows, int64_t classes);
  void (*cross_entropy)(const dp_softmax_rows *logits, const dp_softmax_rows *labels, void *loss,
                        void *gradient, int64_t rows, int64_t classes);
  /* An index outside [0, classes) gives NaN. */
  void (*sparse_cross_entropy)(const void *logits, const int64_t *labels, void *loss,
                               void *gradient, int64_t rows, int64_t classes);
} dp_softmax_fns;

typedef struct dp_softmax_loops {
  dp_softmax_fns float_fns, double_fns;
} dp_softmax_loops;
DP_ISA_TABLE(dp_softmax_loops, dp_softmax_table)

#endif
