/* Matrix products, for every family that needs one (MatMul, convolution, Einsum, recurrent cells).
 *
 * c[m, n] = op(a)[m, k] op(b)[k, n], row-major with any row stride. op transposes the matrix and
 * conjugates its elements if the flags say so. With `accumulates` the product is added to c. Small
 * products run in plain loops, large ones in tiles, complex ones in OpenBLAS. k = 0 gives zeros.
 * Callers widen 16-bit floats before. Integers wrap. Any thread may call. */
#ifndef DP_KERNELS_PRODUCTS_GEMM_H
#define DP_KERNELS_PRODUCTS_GEMM_H

#include "runtime/kernel.h"

/* Called on each finished piece of a result while it is in the cache: `rows` rows, `stride`
 * elements apart, of the columns [column, column + columns). Any thread of the pool may call it. */
typedef void (*dp_finish_fn)(const void *arg, void *c, int64_t stride, int64_t rows, int64_t column,
                             int64_t columns);
typedef struct dp_finish {
  dp_finish_fn fn; /* NULL for none */
  const void *arg;
} dp_finish;

typedef struct dp_gemm {
  dp_dtype dtype; /* float, double, int16, int32, int64, complex64, complex128 */
  int64_t m, n, k;
  const void *a, *b;
  void *c;
  int64_t a_stride, b_stride, c_stride; /* elements between rows of the stored matrices */
  bool transpose_a, transpose_b;
  bool conjugate_a, conjugate_b;
  bool accumulates;
  dp_finish finish; /* used by dp_gemm_run_split only */
} dp_gemm;

/* Runs on the calling thread. */
void dp_gemm_run(const dp_gemm *gemm);
/* The same in tiles, for large products, on the calling thread. Does nothing and returns false when
 * there are no tiles for the type, or no memory. */
bool dp_gemm_run_tiles(const dp_gemm *gemm);
/* Runs on the step's pool if that is worth it. */
void dp_gemm_run_split(dp_op_context *context, const dp_gemm *gemm);
/* An estimate of the nanoseconds that a product takes on one thread. */
int64_t dp_gemm_cost(const dp_gemm *gemm);

/* A product of two matrices, with everything but its data pointers. The caller checks before that
 * the inner dimensions agree. */
static inline dp_gemm dp_gemm_of(dp_dtype work, const dp_shape *a, bool transpose_a,
                                 const dp_shape *b, bool transpose_b) {
  return (dp_gemm){.dtype = work,
                   .m = a->dims[transpose_a],
                   .k = a->dims[!transpose_a],
                   .n = b->dims[!transpose_b],
                   .a_stride = a->dims[1],
                   .b_stride = b->dims[1],
                   .c_stride = b->dims[!transpose_b],
                   .transpose_a = transpose_a,
                   .transpose_b = transpose_b};
}

#endif
