/* OpenBLAS as a table of function pointers that is filled on first use.
 *
 * The library takes 30 MB and tens of milliseconds to load. A server that never multiplies should
 * not pay for that, so the library is opened when a kernel first asks for it. Calls run on the
 * calling thread alone, because our own pool splits the work. Several threads may call at once, so
 * a serial OpenBLAS, which does not allow that, is not used. Without the library the table is NULL;
 * matrix products then run in our own loops (gemm.h), and the decompositions return UNIMPLEMENTED.
 * Any thread may ask. */
#ifndef DP_KERNELS_PRODUCTS_BLAS_H
#define DP_KERNELS_PRODUCTS_BLAS_H

#include "base/status.h"

enum {
  DP_BLAS_ROW_MAJOR = 101,
  DP_BLAS_AS_IS = 111,
  DP_BLAS_TRANSPOSED = 112,
  DP_BLAS_ADJOINT = 113,
};

/* Signatures as in CBLAS; `alpha` and `beta` of complex types are pointers. */
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
/* A routine by its name, also LAPACK's ("spotrf_"). NULL when the library does not have it. */
void *dp_blas_find(const char *name);

#endif
