/* Inner loops of poolings; compiled once for each instruction set. The bodies are in the template,
 * included once a type. */
#include "kernels/loops_pool_internal.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>
#include "kernels/loops_types_internal.h"

#define DP_UNROLL _Pragma("GCC unroll 16")
#define THIN 512 /* elements in a row at once, of few channels */
#define WINDOWS_AT_ONCE 32

typedef enum pooling {
  LARGEST, /* of the window */
  AVERAGE,
  PICK, /* what another image has at the place of the first largest */
} pooling;

typedef enum returning { TO_ALL, TO_PLACES, TO_EQUALS } returning; /* pixels of the window */

#define IS_FLOAT
#if defined(__AVX512F__)
#include <immintrin.h>
#define VECTOR_BYTES 64
#define LARGER(a, b) _mm512_max_ps((__m512)(a), (__m512)(b))
#define MASK __mmask16
#define GREATER(a, b) _mm512_cmp_ps_mask((__m512)(a), (__m512)(b), _CMP_GT_OQ)
#define IF_LARGER(a, b, yes, no) _mm512_mask_mov_ps((__m512)(no), GREATER(a, b), (__m512)(yes))
#define EQUAL(a, b) _mm512_cmp_ps_mask((__m512)(a), (__m512)(b), _CMP_EQ_OQ)
#define NOT_LESS(a, b) _mm512_cmp_ps_mask((__m512)(a), (__m512)(b), _CMP_NLT_UQ)
#define ADD_IF(mask, sum, yes) _mm512_mask_add_ps((__m512)(sum), mask, (__m512)(sum), (__m512)(yes))
#define LOAD_PART(from, count) _mm512_maskz_loadu_ps((__mmask16)((1 << (count)) - 1), from)
#define STORE_PART(to, value, count)                                                               \
  _mm512_mask_storeu_ps(to, (__mmask16)((1 << (count)) - 1), (__m512)(value))
#elif defined(__AVX2__)
#include <immintrin.h>
#define VECTOR_BYTES 32
#define LARGER(a, b) _mm256_max_ps((__m256)(a), (__m256)(b))
#define GREATER(a, b) _mm256_cmp_ps((__m256)(a), (__m256)(b), _CMP_GT_OQ)
#define IF_LARGER(a, b, yes, no) _mm256_blendv_ps((__m256)(no), (__m256)(yes), GREATER(a, b))
#define FIRST(count)                                                                               \
  _mm256_cmpgt_epi32(_mm256_set1_epi32((int)(count)), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7))
#define LOAD_PART(from, count) _mm256_maskload_ps(from, FIRST(count))
#define STORE_PART(to, value, count) _mm256_maskstore_ps(to, FIRST(count), (__m256)(value))
#define EQUAL(a, b) _mm256_cmp_ps((__m256)(a), (__m256)(b), _CMP_EQ_OQ)
#define NOT_LESS(a, b) _mm256_cmp_ps((__m256)(a), (__m256)(b), _CMP_NLT_UQ)
#define ADD_IF(mask, sum, yes) ((__m256)(sum) + _mm256_and_ps(mask, (__m256)(yes)))
#else
#define VECTOR_BYTES 16
#if defined(__SSE2__)
#include <immintrin.h>
#define LARGER(a, b) _mm_max_ps((__m128)(a), (__m128)(b))
#define GREATER(a, b) ((mask_float)_mm_cmpgt_ps((__m128)(a), (__m128)(b)))
#else
#define LARGER(a, b) IF_LARGER(a, b, a, b)
#define GREATER(a, b) ((a) > (b))
#endif
#define IF_LARGER(a, b, yes, no)                                                                   \
  ((GREATER(a, b) & ((mask_float)(yes) ^ (mask_float)(no))) ^ (mask_float)(no))
#define EQUAL(a, b) ((a) == (b))
#define NOT_LESS(a, b) (~((a) < (b)))
#define ADD_IF(mask, sum, yes) ((sum) + (vector_float)((mask) & (mask_float)(yes)))
#endif
typedef int32_t mask_float __attribute__((vector_size(VECTOR_BYTES)));
typedef int64_t mask_double __attribute__((vector_size(VECTOR_BYTES)));
typedef mask_float mask_half, mask_bfloat16;
#define widen_half widen_float
#define narrow_half narrow_float
#define widen_bfloat16 widen_float
#define narrow_bfloat16 narrow_float
typedef float vector_narrow __attribute__((vector_size(VECTOR_BYTES)));
#include "kernels/loops_pool_bytes.tmpl.h"
#include "kernels/loops_pool_narrow.tmpl.h"
#define LEAST (-INFINITY)
#define T float
#define M float
#define SUFFIX float
#include "kernels/loops_pool_flat.tmpl.h"
#define T float
#define M uint16_t
#define SUFFIX half
#define READ read_half
#define WRITE write_half
#include "kernels/loops_pool_flat.tmpl.h"
#define T float
#define M uint16_t
#define SUFFIX bfloat16
#define READ read_bfloat16
#define WRITE write_bfloat16
#include "kernels/loops_pool_flat.tmpl.h"
#define T float
#define SUFFIX float
#include "kernels/loops_pool.tmpl.h"
#undef LARGER
#undef MASK
#undef GREATER
#undef IF_LARGER
#undef EQUAL
#undef NOT_LESS
#undef ADD_IF
#undef FIRST
#undef LOAD_PART
#undef STORE_PART

#if defined(__AVX512F__)
#define LARGER(a, b) _mm512_max_pd((__m512d)(a), (__m512d)(b))
#define MASK __mmask8
#define GREATER(a, b) _mm512_cmp_pd_mask((__m512d)(a), (__m512d)(b), _CMP_GT_OQ)
#define IF_LARGER(a, b, yes, no) _mm512_mask_mov_pd((__m512d)(no), GREATER(a, b), (__m512d)(yes))
#define EQUAL(a, b) _mm512_cmp_pd_mask((__m512d)(a), (__m512d)(b), _CMP_EQ_OQ)
#define NOT_LESS(a, b) _mm512_cmp_pd_mask((__m512d)(a), (__m512d)(b), _CMP_NLT_UQ)
#define ADD_IF(mask, sum, yes)                                                                     \
  _mm512_mask_add_pd((__m512d)(sum), mask, (__m512d)(sum), (__m512d)(yes))
#define LOAD_PART(from, count) _mm512_maskz_loadu_pd((__mmask8)((1 << (count)) - 1), from)
#define STORE_PART(to, value, count)                                                               \
  _mm512_mask_storeu_pd(to, (__mmask8)((1 << (count)) - 1), (__m512d)(value))
#elif defined(__AVX2__)
#define LARGER(a, b) _mm256_max_pd((__m256d)(a), (__m256d)(b))
#define GREATER(a, b) _mm256_cmp_pd((__m256d)(a), (__m256d)(b), _CMP_GT_OQ)
#define IF_LARGER(a, b, yes, no) _mm256_blendv_pd((__m256d)(no), (__m256d)(yes), GREATER(a, b))
#define FIRST(count) _mm256_cmpgt_epi64(_mm256_set1_epi64x(count), _mm256_setr_epi64x(0, 1, 2, 3))
#define LOAD_PART(from, count) _mm256_maskload_pd(from, FIRST(count))
#define STORE_PART(to, value, count) _mm256_maskstore_pd(to, FIRST(count), (__m256d)(value))
#define EQUAL(a, b) _mm256_cmp_pd((__m256d)(a), (__m256d)(b), _CMP_EQ_OQ)
#define NOT_LESS(a, b) _mm256_cmp_pd((__m256d)(a), (__m256d)(b), _CMP_NLT_UQ)
#define ADD_IF(mask, sum, yes) ((__m256d)(sum) + _mm256_and_pd(mask, (__m256d)(yes)))
#else
#if defined(__SSE2__)
#define LARGER(a, b) _mm_max_pd((__m128d)(a), (__m128d)(b))
#define GREATER(a, b) ((mask_double)_mm_cmpgt_pd((__m128d)(a), (__m128d)(b)))
#else
#define LARGER(a, b) IF_LARGER(a, b, a, b)
#define GREATER(a, b) ((a) > (b))
#endif
#define IF_LARGER(a, b, yes, no)                                                                   \
  ((GREATER(a, b) & ((mask_double)(yes) ^ (mask_double)(no))) ^ (mask_double)(no))
#define EQUAL(a, b) ((a) == (b))
#define NOT_LESS(a, b) (~((a) < (b)))
#define ADD_IF(mask, sum, yes) ((sum) + (vector_double)((mask) & (mask_double)(yes)))
#endif
#define LEAST (-(double)INFINITY)
#define T double
#define M double
#define SUFFIX double
#include "kernels/loops_pool_flat.tmpl.h"
#define T double
#define SUFFIX double
#include "kernels/loops_pool.tmpl.h"
#undef LARGER
#undef MASK
#undef GREATER
#undef IF_LARGER
#undef EQUAL
#undef NOT_LESS
#undef ADD_IF
#undef FIRST
#undef LOAD_PART
#undef STORE_PART
#undef IS_FLOAT
#define T int8_t
#define SUFFIX int8
#define LEAST INT8_MIN
#include "kernels/loops_pool.tmpl.h"
#define T int16_t
#define SUFFIX int16
#define LEAST INT16_MIN
#include "kernels/loops_pool.tmpl.h"
#define T int32_t
#define SUFFIX int32
#define LEAST INT32_MIN
#include "kernels/loops_pool.tmpl.h"
#define T int64_t
#define SUFFIX int64
#define LEAST INT64_MIN
#include "kernels/loops_pool.tmpl.h"
#define T uint8_t
#define SUFFIX uint8
#define LEAST 0
#include "kernels/loops_pool.tmpl.h"
#define T uint16_t
#define SUFFIX uint16
#define LEAST 0
#include "kernels/loops_pool.tmpl.h"
#define T uint32_t
#define SUFFIX uint32
#define LEAST 0
#include "kernels/loops_pool.tmpl.h"
#define T uint64_t
#define SUFFIX uint64
#define LEAST 0
#include "kernels/loops_pool.tmpl.h"

#define ENTRY(name)                                                                                \
  .fill_least = fill_least_##name, .take_largest = take_largest_##name,                            \
  .take_place = take_place_##name, .scatter = scatter_##name, .gather = gather_##name,             \
  .add_at = add_at_##name
#define ROW_ENTRY(name)                                                                            \
  .largest = row_largest_##name, .average = row_average_##name, .picks = row_picks_##name,         \
  .largest_part = row_largest_part_##name, .sum_part = row_sum_part_##name,                        \
  .join_largest = join_largest_##name, .join_average = join_average_##name,                        \
  .places = row_places_##name, .shares = row_shares_##name, .return_shares = return_shares_##name, \
  .return_to_places = return_to_places_##name, .return_to_equals = return_to_equals_##name

const dp_pooling_loops DP_ISA_SYMBOL(dp_pooling_table) = {
    .fns =
        {
            [DP_FLOAT] = {ENTRY(float), .add_scaled = add_scaled_float},
            [DP_DOUBLE] = {ENTRY(double), .add_scaled = add_scaled_double},
            [DP_INT8] = {ENTRY(int8)},
            [DP_INT16] = {ENTRY(int16)},
            [DP_INT32] = {ENTRY(int32)},
            [DP_INT64] = {ENTRY(int64)},
            [DP_UINT8] = {ENTRY(uint8)},
            [DP_UINT16] = {ENTRY(uint16)},
            [DP_UINT32] = {ENTRY(uint32)},
            [DP_UINT64] = {ENTRY(uint64)},
        },
    .rows =
        {
            [DP_FLOAT] = {ROW_ENTRY(float)},
            [DP_DOUBLE] = {ROW_ENTRY(double)},
            [DP_HALF] = {ROW_ENTRY(half)},
            [DP_BFLOAT16] = {ROW_ENTRY(bfloat16)},
        },
};
