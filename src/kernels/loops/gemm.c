/* Fills the table of gemm.h: products of small matrices. The bodies are in gemm.tmpl.h, which is
 * included once per type. It uses the compiler's vector extension, with vectors as wide as the
 * instruction set has. Integers are multiplied as unsigned, so that they wrap. Complex matrices
 * come here only when there is no OpenBLAS. Compiled once for each instruction set. */
#include "kernels/loops/gemm.h"

#include <string.h>
#include "kernels/loops/madd_internal.h"
#include "kernels/loops/types.h"

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define DP_UNROLL _Pragma("GCC unroll 16")
#define STREAMS 8    /* rows of b that stream_row adds in one pass */
#define STRETCH 2048 /* columns in such a pass */
#define WIDE 512     /* columns from which a single row is streamed */
#define PANEL_K 256  /* rows of b in one pass: a packed panel fits the first-level cache */

#if defined(__AVX512F__)
#define VECTOR_BYTES 64
#define TILE_ROWS 12
#define HAS_MASKS 1
#elif defined(__AVX2__)
#define VECTOR_BYTES 32
#define TILE_ROWS 6
#define HAS_MASKS 0
#else
#define VECTOR_BYTES 16
#define TILE_ROWS 4
#define HAS_MASKS 0
#endif

#define T float
#define SUFFIX float
#define BITS 32
#define LANES (VECTOR_BYTES * 8 / BITS)
#define MADD MADD_FLOAT
#include "kernels/loops/gemm.tmpl.h"
#undef T
#undef SUFFIX
#undef BITS
#undef LANES
#undef MADD

#define T double
#define SUFFIX double
#define BITS 64
#define LANES (VECTOR_BYTES * 8 / BITS)
#define MADD MADD_DOUBLE
#include "kernels/loops/gemm.tmpl.h"
#undef T
#undef SUFFIX
#undef BITS
#undef LANES
#undef MADD

#define MADD MADD_PLAIN
#define T uint16_t
#define SUFFIX uint16
#define BITS 16
#define LANES (VECTOR_BYTES * 8 / BITS)
#include "kernels/loops/gemm.tmpl.h"
#undef T
#undef SUFFIX
#undef BITS
#undef LANES

#define T uint32_t
#define SUFFIX uint32
#define BITS 32
#define LANES (VECTOR_BYTES * 8 / BITS)
#include "kernels/loops/gemm.tmpl.h"
#undef T
#undef SUFFIX
#undef BITS
#undef LANES

#define T uint64_t
#define SUFFIX uint64
#define BITS 64
#define LANES (VECTOR_BYTES * 8 / BITS)
#include "kernels/loops/gemm.tmpl.h"
#undef T
#undef SUFFIX
#undef BITS
#undef LANES
#undef MADD

#define PLAIN(name, type, multiply)                                                                \
  static void gemm_##name(const void *a_data, const void *b_data, void *c_data,                    \
                          const dp_gemm_sizes *sizes) {                                            \
    const type *a = a_data, *b = b_data;                                                           \
    type *c = c_data;                                                                              \
    int64_t b_row = sizes->b_transposed ? 1 : sizes->b_row;                                        \
    int64_t b_column = sizes->b_transposed ? sizes->b_row : 1;                                     \
    for (int64_t i = 0; i < sizes->m; ++i)                                                         \
      for (int64_t j = 0; j < sizes->n; ++j) {                                                     \
        type sum = sizes->accumulates ? c[i * sizes->c_row + j] : 0;                               \
        for (int64_t p = 0; p < sizes->k; ++p)                                                     \
          sum += multiply(a[i * sizes->a_row + p * sizes->a_column], b[p * b_row + j * b_column]); \
        c[i * sizes->c_row + j] = sum;                                                             \
      }                                                                                            \
  }
PLAIN(complex64, dp_complex64, dp_complex64_multiply)
PLAIN(complex128, dp_complex128, dp_complex128_multiply)
#undef PLAIN

const dp_gemm_loops DP_ISA_SYMBOL(dp_gemm_table) = {
    .fn =
        {
            [DP_FLOAT] = gemm_float,
            [DP_DOUBLE] = gemm_double,
            [DP_INT16] = gemm_uint16,
            [DP_INT32] = gemm_uint32,
            [DP_INT64] = gemm_uint64,
            [DP_COMPLEX64] = gemm_complex64,
            [DP_COMPLEX128] = gemm_complex128,
        },
};
