/* MADD(sum, a, b) = sum + a * b over vectors, fused where the instruction set can. For the .c files
 * of loops; they define the types vector_float and vector_double. */
#ifndef DP_KERNELS_LOOPS_MADD_INTERNAL_H
#define DP_KERNELS_LOOPS_MADD_INTERNAL_H

#if defined(__AVX2__)
#include <immintrin.h>
#endif

#if defined(__AVX512F__)
#define MADD_FLOAT(sum, a, b)                                                                      \
  ((vector_float)_mm512_fmadd_ps((__m512)(a), (__m512)(b), (__m512)(sum)))
#define MADD_DOUBLE(sum, a, b)                                                                     \
  ((vector_double)_mm512_fmadd_pd((__m512d)(a), (__m512d)(b), (__m512d)(sum)))
#elif defined(__AVX2__)
#define MADD_FLOAT(sum, a, b)                                                                      \
  ((vector_float)_mm256_fmadd_ps((__m256)(a), (__m256)(b), (__m256)(sum)))
#define MADD_DOUBLE(sum, a, b)                                                                     \
  ((vector_double)_mm256_fmadd_pd((__m256d)(a), (__m256d)(b), (__m256d)(sum)))
#else
#define MADD_FLOAT MADD_PLAIN
#define MADD_DOUBLE MADD_PLAIN
#endif
#define MADD_PLAIN(sum, a, b) ((sum) + (a) * (b))

#endif
