/* Products of matrices, for every family that has one inside (MatMul, convolution, Einsum, cells).
 *
 * c[m, n] = op(a)[m, k] op(b)[k, n], row-major with any row stride; op transposes, and conjugates
 * complex elements, when told. With `accumulates` the product is added to c. Small products run in
 * plain loops, large ones in tiles, complex ones in OpenBLAS; k = 0 gives zeros. 16-bit floats are
 * not taken: callers widen them. Integers wrap. Any thread may call. */
#ifndef DP_KERNELS_GEMM_INTERNAL_H
#define DP_KERNELS_GEMM_INTERNAL_H

#include "runtime/kernel.h"

/* Called on each finished piece of a result while it is in the cache: `rows` rows that are `stride`
 * elements apart, of columns [column, column + columns). From any thread of the pool. */
typedef void (*dp_finish_fn)(const void *arg, void *c, int64_t stride, int64_t rows, int64_t column,
                             int64_t columns);
typedef struct dp_finish {
  dp_finish_fn fn; /* NULL: nothing */
  const void *arg;
} dp_finish;

typedef struct dp_gemm {
  dp_dtype dtype; /* float, double, int16, int32, int64, complex64, complex128 */
  int64_t m, n, k;
  const void *a, *b;
  void *c;
  int64_t a_stride, b_stride, c_stride; /* elements between rows as stored */
  bool transpose_a, transpose_b;
  bool conjugate_a, conjugate_b;
  bool accumulates;
  dp_finish finish; /* of dp_gemm_run_split */
} dp_gemm;

/* On the calling thread. */
void dp_gemm_run(const dp_gemm *gemm);
/* The same in tiles, for large ones. False, and nothing done, when there are no such loops for the
 * type or no memory. */
bool dp_gemm_run_tiles(const dp_gemm *gemm);
/* Split over the pool when it is worth it. */
void dp_gemm_run_split(dp_op_context *context, const dp_gemm *gemm);
/* A guess of the nanoseconds one product takes. */
int64_t dp_gemm_cost(const dp_gemm *gemm);

#endif
