/* Fills the table of depthwise.h, for float and double. The bodies are in depthwise.tmpl.h.
 * Compiled once for each instruction set. */
#include "kernels/loops/depthwise.h"

#include <stdbool.h>
#include "kernels/loops/types.h"
#if defined(__AVX2__)
#include <immintrin.h>
#endif

#define DP_UNROLL _Pragma("GCC unroll 16")

#if defined(__AVX512F__)
#define VECTOR_BYTES 64
#define VECTORS 2 /* vectors of channels at once: they fill the registers */
#define MADD_FLOAT(sum, a, b)                                                                      \
  ((vector_float)_mm512_fmadd_ps((__m512)(a), (__m512)(b), (__m512)(sum)))
#define MADD_DOUBLE(sum, a, b)                                                                     \
  ((vector_double)_mm512_fmadd_pd((__m512d)(a), (__m512d)(b), (__m512d)(sum)))
#elif defined(__AVX2__)
#define VECTOR_BYTES 32
#define VECTORS 1
#define MADD_FLOAT(sum, a, b)                                                                      \
  ((vector_float)_mm256_fmadd_ps((__m256)(a), (__m256)(b), (__m256)(sum)))
#define MADD_DOUBLE(sum, a, b)                                                                     \
  ((vector_double)_mm256_fmadd_pd((__m256d)(a), (__m256d)(b), (__m256d)(sum)))
#else
#define VECTOR_BYTES 16
#define VECTORS 1
#define MADD_FLOAT(sum, a, b) ((sum) + (a) * (b))
#define MADD_DOUBLE(sum, a, b) ((sum) + (a) * (b))
#endif

/* The steps [first, end) of a line whose taps are all inside the row of pixels. */
typedef struct steps {
  int64_t first, end;
} steps;

static inline steps inner_steps(const dp_depthwise_line *line, int64_t tap, int64_t taps) {
  int64_t low = line->shift + tap * line->spacing, high = low + (taps - 1) * line->spacing;
  int64_t first = low < 0 ? (-low + line->stride - 1) / line->stride : 0;
  int64_t end = high < line->width ? (line->width - 1 - high) / line->stride + 1 : 0;
  end = end < line->count ? end : line->count;
  return (steps){first < end ? first : end, end};
}

#define T float
#define SUFFIX float
#define MADD MADD_FLOAT
#include "kernels/loops/depthwise.tmpl.h"
#undef T
#undef SUFFIX
#undef MADD

#define T double
#define SUFFIX double
#define MADD MADD_DOUBLE
#include "kernels/loops/depthwise.tmpl.h"
#undef T
#undef SUFFIX
#undef MADD

const dp_depthwise_loops DP_ISA_SYMBOL(dp_depthwise_table) = {
    .fns =
        {
            [DP_FLOAT] = {pixels_float, products_float},
            [DP_DOUBLE] = {pixels_double, products_double},
        },
};
