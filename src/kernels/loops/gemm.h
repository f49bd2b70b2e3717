/* Products of small matrices (and of integers of any size), one table for each instruction set.
 *
 * c[m, n] = a[m, k] b[k, n], row-major. `a` has any two strides, so it may be transposed; `b` and
 * `c` have rows of contiguous elements, or, with b_transposed, `b` is stored as [n, k]. */
#ifndef DP_KERNELS_LOOPS_GEMM_H
#define DP_KERNELS_LOOPS_GEMM_H

#include <stdbool.h>
#include <stdint.h>
#include "kernels/isa/isa.h"
#include "tensor/dtype.h"

typedef struct dp_gemm_sizes {
  int64_t m, n, k;
  int64_t a_row, a_column; /* strides of a, in elements */
  int64_t b_row, c_row;    /* strides of the stored rows */
  bool b_transposed;
  bool accumulates; /* add to c */
} dp_gemm_sizes;

typedef void (*dp_gemm_fn)(const void *a, const void *b, void *c, const dp_gemm_sizes *sizes);

typedef struct dp_gemm_loops {
  dp_gemm_fn fn[DP_DTYPE_END];
} dp_gemm_loops;
DP_ISA_TABLE(dp_gemm_loops, dp_gemm_table)

#endif
