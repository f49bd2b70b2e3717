/* The inner loop of products of large matrices; compiled once for each instruction set. */
#include "kernels/loops_tiles_internal.h"

#include <string.h>
#include "kernels/loops_types_internal.h"
#if defined(__AVX2__)
#include <immintrin.h>
#endif

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define DP_UNROLL _Pragma("GCC unroll 16")

#if defined(__AVX512F__)
#define VECTOR_BYTES 64
#define TILE_ROWS 6
#define TILE_VECTORS 4
#define HAS_MASKS 1
#elif defined(__AVX2__)
#define VECTOR_BYTES 32
#define TILE_ROWS 6
#define TILE_VECTORS 2
#define HAS_MASKS 0
#else
#define VECTOR_BYTES 16
#define TILE_ROWS 4
#define TILE_VECTORS 2
#define HAS_MASKS 0
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
#define MADD_FLOAT(sum, a, b) ((sum) + (a) * (b))
#define MADD_DOUBLE(sum, a, b) ((sum) + (a) * (b))
#endif
#define MADD_PLAIN(sum, a, b) ((sum) + (a) * (b))

#define T float
#define SUFFIX float
#define BITS 32
#define MADD MADD_FLOAT
#include "kernels/loops_tiles.tmpl.h"
#undef T
#undef SUFFIX
#undef BITS
#undef MADD

#define T double
#define SUFFIX double
#define BITS 64
#define MADD MADD_DOUBLE
#include "kernels/loops_tiles.tmpl.h"
#undef T
#undef SUFFIX
#undef BITS
#undef MADD

#define T uint32_t
#define SUFFIX uint32
#define BITS 32
#define MADD MADD_PLAIN
#include "kernels/loops_tiles.tmpl.h"
#undef T
#undef SUFFIX
#undef BITS
#undef MADD

#define FNS(suffix, size)                                                                          \
  {                                                                                                \
    .run = run_##suffix, .pack_columns = pack_columns_##suffix, .rows = TILE_ROWS,                 \
    .panel = TILE_VECTORS * VECTOR_BYTES / (size), .lanes = VECTOR_BYTES / (size),                 \
    .copies_parts = HAS_MASKS                                                                      \
  }
const dp_tile_loops DP_ISA_SYMBOL(dp_tile_table) = {
    .fns = {[DP_FLOAT] = FNS(float, 4), [DP_DOUBLE] = FNS(double, 8), [DP_INT32] = FNS(uint32, 4)},
};
