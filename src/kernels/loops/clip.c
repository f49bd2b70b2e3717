/* Fills the table of clip.h. The template is included once per type; float has a loop with vector
 * instructions besides. Compiled once for each instruction set. */
#include "kernels/loops/clip.h"

#if defined(__AVX__)
#include <immintrin.h>
#endif
#include "kernels/loops/types.h"

/* Clips whole vectors between two bounds that are not NaN; returns the number of elements done.
 * Compilers may not use the min and max instructions for ?:, because those give their second
 * operand when one is a NaN. Here the second operand is x, which is the wanted result. */
#if defined(__AVX__)
static int64_t clip_vectors(const float *x, float *to, int64_t count, float least, float most) {
  __m256 low = _mm256_set1_ps(least), high = _mm256_set1_ps(most);
  int64_t i = 0;
  for (; i + 32 <= count; i += 32)
    for (int k = 0; k < 32; k += 8)
      _mm256_storeu_ps(to + i + k,
                       _mm256_max_ps(low, _mm256_min_ps(high, _mm256_loadu_ps(x + i + k))));
  return i;
}
#define VECTORS clip_vectors
#endif

#define T float
#define SUFFIX float
#define HAS_NAN
#include "kernels/loops/clip.tmpl.h"
#define T double
#define SUFFIX double
#define HAS_NAN
#include "kernels/loops/clip.tmpl.h"
#define T int8_t
#define SUFFIX int8
#include "kernels/loops/clip.tmpl.h"
#define T int16_t
#define SUFFIX int16
#include "kernels/loops/clip.tmpl.h"
#define T int32_t
#define SUFFIX int32
#include "kernels/loops/clip.tmpl.h"
#define T int64_t
#define SUFFIX int64
#include "kernels/loops/clip.tmpl.h"
#define T uint8_t
#define SUFFIX uint8
#include "kernels/loops/clip.tmpl.h"
#define T uint16_t
#define SUFFIX uint16
#include "kernels/loops/clip.tmpl.h"
#define T uint32_t
#define SUFFIX uint32
#include "kernels/loops/clip.tmpl.h"
#define T uint64_t
#define SUFFIX uint64
#include "kernels/loops/clip.tmpl.h"

const dp_clip_loops DP_ISA_SYMBOL(dp_clip_table) = {.fn = {
                                                        [DP_FLOAT] = clip_float,
                                                        [DP_DOUBLE] = clip_double,
                                                        [DP_INT8] = clip_int8,
                                                        [DP_INT16] = clip_int16,
                                                        [DP_INT32] = clip_int32,
                                                        [DP_INT64] = clip_int64,
                                                        [DP_UINT8] = clip_uint8,
                                                        [DP_UINT16] = clip_uint16,
                                                        [DP_UINT32] = clip_uint32,
                                                        [DP_UINT64] = clip_uint64,
                                                    }};
