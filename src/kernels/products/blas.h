/* OpenBLAS as a table of function pointers that is filled on first use.
 *
 * The library takes 30 MB and tens of milliseconds to load, which a server that never multiplies
 * should not pay, so it is opened when a kernel first asks. Calls run on the calling thread alone:
 * the serial variant is preferred, and a threaded one is told to use one thread; work is split over
 * our own pool. Without the library the table is NULL; products of matrices then run in our own
 * loops (gemm_internal.h), and the decompositions answer UNIMPLEMENTED. Any thread may ask. */
#ifndef DP_KERNELS_BLAS_INTERNAL_H
#define DP_KERNELS_BLAS_INTERNAL_H

#include "base/status.h"

enum {
  DP_BLAS_ROW_MAJOR = 101,
  DP_BLAS_AS_IS = 111,
  DP_BLAS_TRANSPOSED = 112,
  DP_BLAS_ADJOINT = 113,
};

/* Factors and products as CBLAS has them; `alpha` and `beta` of complex types are pointers. */
typedef struct dp_blas {
  void (*sgemm)(int order, int transpose_a, int transpose_b, int m, int n, int k, float alpha,
                const float *a, int lda, const float *b, int ldb, float beta, float *c, int ldc);
  void (*dgemm)(int order, int transpose_a, int transpose_b, int m, int n, int k, double alpha,
                const double *a, int lda, const double *b, int ldb, double beta, double *c,
                int ldc);
  void (*cgemm)(int order, int transpose_a, int transpose_b, int m, int n, int k, const void *alpha,
                const void *a, int lda, const void *b, int ldb, const void *beta, void *c, int ldc);
  void (*zgemm)(int order, int transpose_a, int transpose_b, int m, int n, int k, const void *alpha,
                const void *a, int lda, const void *b, int ldb, const void *beta, void *c, int ldc);
} dp_blas;

const dp_blas *dp_blas_table(void);
/* Any routine by its name, LAPACK's among them ("spotrf_"). NULL when it is not there. */
void *dp_blas_find(const char *name);

#endif
