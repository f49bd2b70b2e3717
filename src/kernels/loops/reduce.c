/* Fills the table of reduce.h. The bodies are in reduce.tmpl.h, which is included once per type and
 * operation (reduce_type.tmpl.h does that for a real type); the table at the end says which pairs
 * exist. Compiled once for each instruction set. */
#include "kernels/loops/reduce.h"

#include <string.h>
#if defined(__SSE2__)
#include <immintrin.h>
#endif
#include "kernels/loops/types.h"

#if defined(__AVX512F__)
#define DP_VECTOR_BYTES 64
#elif defined(__AVX__)
#define DP_VECTOR_BYTES 32
#else
#define DP_VECTOR_BYTES 16
#endif

/* Swaps parts of a vector, so that all its lanes can be combined in log2(lanes) steps. */
typedef uint64_t words __attribute__((vector_size(DP_VECTOR_BYTES)));
#if DP_VECTOR_BYTES == 64
#define SWAP_HALVES(v) __builtin_shufflevector(v, v, 4, 5, 6, 7, 0, 1, 2, 3)
#define SWAP_PAIRS(v) __builtin_shufflevector(v, v, 2, 3, 0, 1, 6, 7, 4, 5)
#define SWAP_WORDS(v) __builtin_shufflevector(v, v, 1, 0, 3, 2, 5, 4, 7, 6)
#elif DP_VECTOR_BYTES == 32
#define SWAP_PAIRS(v) __builtin_shufflevector(v, v, 2, 3, 0, 1)
#define SWAP_WORDS(v) __builtin_shufflevector(v, v, 1, 0, 3, 2)
#else
#define SWAP_WORDS(v) __builtin_shufflevector(v, v, 1, 0)
#endif
typedef uint64_t unaligned_words
    __attribute__((vector_size(DP_VECTOR_BYTES), aligned(1), may_alias));
/* The vector at edge + k is a mask whose last k bytes are set. */
static const uint8_t edge[2 * DP_VECTOR_BYTES] = {[DP_VECTOR_BYTES... 2 * DP_VECTOR_BYTES - 1] =
                                                      0xff};
#define TURN_WORD(v, bits) ((v) >> (bits) | (v) << (64 - (bits)))

/* Maximum and minimum of vectors without NaNs; if one operand is a NaN the instructions give a. */
#if defined(__AVX512F__)
#define MOST_FLOAT(a, b) _mm512_max_ps((__m512)(b), (__m512)(a))
#define LEAST_FLOAT(a, b) _mm512_min_ps((__m512)(b), (__m512)(a))
#define MOST_DOUBLE(a, b) _mm512_max_pd((__m512d)(b), (__m512d)(a))
#define LEAST_DOUBLE(a, b) _mm512_min_pd((__m512d)(b), (__m512d)(a))
#define NANS_FLOAT(x) _mm512_cmp_ps_mask((__m512)(x), (__m512)(x), _CMP_UNORD_Q)
#define NANS_DOUBLE(x) _mm512_cmp_pd_mask((__m512d)(x), (__m512d)(x), _CMP_UNORD_Q)
#define ANY_NAN_FLOAT(x) (NANS_FLOAT(x) != 0)
#define ANY_NAN_DOUBLE(x) (NANS_DOUBLE(x) != 0)
#define KEEP_NAN_FLOAT(result, b) _mm512_mask_mov_ps(result, NANS_FLOAT(b), (__m512)(b))
#define KEEP_NAN_DOUBLE(result, b) _mm512_mask_mov_pd(result, NANS_DOUBLE(b), (__m512d)(b))
#elif defined(__AVX__)
#define MOST_FLOAT(a, b) _mm256_max_ps((__m256)(b), (__m256)(a))
#define LEAST_FLOAT(a, b) _mm256_min_ps((__m256)(b), (__m256)(a))
#define MOST_DOUBLE(a, b) _mm256_max_pd((__m256d)(b), (__m256d)(a))
#define LEAST_DOUBLE(a, b) _mm256_min_pd((__m256d)(b), (__m256d)(a))
#define NANS_FLOAT(x) _mm256_cmp_ps((__m256)(x), (__m256)(x), _CMP_UNORD_Q)
#define NANS_DOUBLE(x) _mm256_cmp_pd((__m256d)(x), (__m256d)(x), _CMP_UNORD_Q)
#define ANY_NAN_FLOAT(x) (_mm256_movemask_ps(NANS_FLOAT(x)) != 0)
#define ANY_NAN_DOUBLE(x) (_mm256_movemask_pd(NANS_DOUBLE(x)) != 0)
#define KEEP_NAN_FLOAT(result, b) _mm256_blendv_ps(result, (__m256)(b), NANS_FLOAT(b))
#define KEEP_NAN_DOUBLE(result, b) _mm256_blendv_pd(result, (__m256d)(b), NANS_DOUBLE(b))
#endif
#ifdef KEEP_NAN_FLOAT /* puts a NaN of b back */
#define LARGER_FLOAT(a, b) KEEP_NAN_FLOAT(MOST_FLOAT(a, b), b)
#define SMALLER_FLOAT(a, b) KEEP_NAN_FLOAT(LEAST_FLOAT(a, b), b)
#define LARGER_DOUBLE(a, b) KEEP_NAN_DOUBLE(MOST_DOUBLE(a, b), b)
#define SMALLER_DOUBLE(a, b) KEEP_NAN_DOUBLE(LEAST_DOUBLE(a, b), b)
#endif

#ifdef LARGER_FLOAT
#define LARGER LARGER_FLOAT
#define SMALLER SMALLER_FLOAT
#define MOST MOST_FLOAT
#define LEAST LEAST_FLOAT
#define ANY_NAN ANY_NAN_FLOAT
#endif
#define HAS_NAN
#define T float
#define SUFFIX float
#define WIDE double
#define WIDER float
#define MASK int32_t
#define LOWEST -INFINITY
#define HIGHEST INFINITY
#define ARITHMETIC
#define ORDER
#include "kernels/loops/reduce_type.tmpl.h"

#ifdef LARGER_DOUBLE
#define LARGER LARGER_DOUBLE
#define SMALLER SMALLER_DOUBLE
#define MOST MOST_DOUBLE
#define LEAST LEAST_DOUBLE
#define ANY_NAN ANY_NAN_DOUBLE
#endif
#define HAS_NAN
#define T double
#define SUFFIX double
#define WIDE double
#define WIDER double
#define MASK int64_t
#define LOWEST -INFINITY
#define HIGHEST INFINITY
#define ARITHMETIC
#define ORDER
#include "kernels/loops/reduce_type.tmpl.h"

#define T int8_t
#define SUFFIX int8
#define WIDE int8_t
#define WIDER uint64_t
#define MASK int8_t
#define LOWEST INT8_MIN
#define HIGHEST INT8_MAX
#define ORDER
#include "kernels/loops/reduce_type.tmpl.h"

#if defined(__AVX512BW__)
#define LARGER(a, b) _mm512_max_epu8((__m512i)(a), (__m512i)(b))
#define SMALLER(a, b) _mm512_min_epu8((__m512i)(a), (__m512i)(b))
#elif defined(__AVX2__)
#define LARGER(a, b) _mm256_max_epu8((__m256i)(a), (__m256i)(b))
#define SMALLER(a, b) _mm256_min_epu8((__m256i)(a), (__m256i)(b))
#endif
#define T uint8_t
#define SUFFIX uint8
#define WIDE uint8_t
#define WIDER uint64_t
#define MASK int8_t
#define LOWEST 0
#define HIGHEST UINT8_MAX
#define ARITHMETIC
#define ORDER
#include "kernels/loops/reduce_type.tmpl.h"

#define T int16_t
#define SUFFIX int16
#define WIDE int16_t
#define WIDER uint64_t
#define MASK int16_t
#define LOWEST INT16_MIN
#define HIGHEST INT16_MAX
#define ORDER
#include "kernels/loops/reduce_type.tmpl.h"

#define T uint16_t
#define SUFFIX uint16
#define WIDE uint16_t
#define WIDER uint64_t
#define MASK int16_t
#define LOWEST 0
#define HIGHEST UINT16_MAX
#define ARITHMETIC
#define ORDER
#include "kernels/loops/reduce_type.tmpl.h"

#define T int32_t
#define SUFFIX int32
#define WIDE int32_t
#define WIDER uint64_t
#define MASK int32_t
#define LOWEST INT32_MIN
#define HIGHEST INT32_MAX
#define ORDER
#include "kernels/loops/reduce_type.tmpl.h"

#define T uint32_t
#define SUFFIX uint32
#define WIDE uint32_t
#define WIDER uint64_t
#define MASK int32_t
#define LOWEST 0
#define HIGHEST UINT32_MAX
#define ARITHMETIC
#define ORDER
#include "kernels/loops/reduce_type.tmpl.h"

#define T int64_t
#define SUFFIX int64
#define WIDE int64_t
#define WIDER uint64_t
#define MASK int64_t
#define LOWEST INT64_MIN
#define HIGHEST INT64_MAX
#define ORDER
#include "kernels/loops/reduce_type.tmpl.h"

#define T uint64_t
#define SUFFIX uint64
#define WIDE uint64_t
#define WIDER uint64_t
#define MASK int64_t
#define LOWEST 0
#define HIGHEST UINT64_MAX
#define ARITHMETIC
#define ORDER
#include "kernels/loops/reduce_type.tmpl.h"

/* ---- Complex ---- */
#define NAME(function) DP_PASTE(sum, DP_PASTE(function, complex64))
#define T dp_complex64
#define WIDE dp_complex128
#define IDENTITY 0
#define LOAD(x) (x)
#define COMBINE(a, b) ((a) + (b))
#include "kernels/loops/reduce.tmpl.h"
#undef T
#undef WIDE

#define NAME(function) DP_PASTE(prod, DP_PASTE(function, complex64))
#define T dp_complex64
#define WIDE dp_complex64
#define IDENTITY 1
#define LOAD(x) (x)
#define COMBINE(a, b) dp_complex64_multiply(a, b)
#include "kernels/loops/reduce.tmpl.h"
#undef T
#undef WIDE

#define NAME(function) DP_PASTE(square_sum, DP_PASTE(function, complex64))
#define T dp_complex64
#define WIDE dp_complex128
#define IDENTITY 0
#define LOAD(x) dp_complex64_of(__real__(x) * __real__(x) + __imag__(x) * __imag__(x), 0)
#define COMBINE(a, b) ((a) + (b))
#include "kernels/loops/reduce.tmpl.h"
#undef T
#undef WIDE

#define NAME(function) DP_PASTE(sum, DP_PASTE(function, complex128))
#define T dp_complex128
#define WIDE dp_complex128
#define IDENTITY 0
#define LOAD(x) (x)
#define COMBINE(a, b) ((a) + (b))
#include "kernels/loops/reduce.tmpl.h"

#define NAME(function) DP_PASTE(prod, DP_PASTE(function, complex128))
#define IDENTITY 1
#define LOAD(x) (x)
#define COMBINE(a, b) dp_complex128_multiply(a, b)
#include "kernels/loops/reduce.tmpl.h"

#define NAME(function) DP_PASTE(square_sum, DP_PASTE(function, complex128))
#define IDENTITY 0
#define LOAD(x) dp_complex128_of(__real__(x) * __real__(x) + __imag__(x) * __imag__(x), 0)
#define COMBINE(a, b) ((a) + (b))
#include "kernels/loops/reduce.tmpl.h"
#undef T
#undef WIDE

/* ---- The table ---- */
#define FNS(operation, type)                                                                       \
  { operation##_rows_##type, operation##_columns_##type }
#define REALS(operation) [DP_FLOAT] = FNS(operation, float), [DP_DOUBLE] = FNS(operation, double)
#define UNSIGNED(operation)                                                                        \
  [DP_UINT8] = FNS(operation, uint8), [DP_UINT16] = FNS(operation, uint16),                        \
  [DP_UINT32] = FNS(operation, uint32), [DP_UINT64] = FNS(operation, uint64)
#define SIGNED(operation)                                                                          \
  [DP_INT8] = FNS(operation, int8), [DP_INT16] = FNS(operation, int16),                            \
  [DP_INT32] = FNS(operation, int32), [DP_INT64] = FNS(operation, int64)
#define SIGNED_ALIKE(operation)                                                                    \
  [DP_INT8] = FNS(operation, uint8), [DP_INT16] = FNS(operation, uint16),                          \
  [DP_INT32] = FNS(operation, uint32), [DP_INT64] = FNS(operation, uint64)
#define COMPLEX(operation)                                                                         \
  [DP_COMPLEX64] = FNS(operation, complex64), [DP_COMPLEX128] = FNS(operation, complex128)
#define ARITHMETIC_ROW(operation)                                                                  \
  [DP_REDUCE_##operation] = {REALS(operation), UNSIGNED(operation), SIGNED_ALIKE(operation),       \
                             COMPLEX(operation)}
#define ORDER_ROW(operation)                                                                       \
  [DP_REDUCE_##operation] = {REALS(operation), UNSIGNED(operation),                                \
                             SIGNED(operation), [DP_BOOL] = FNS(operation, uint8)}

const dp_reduce_loops DP_ISA_SYMBOL(dp_reduce_table) = {.fn = {
                                                            ARITHMETIC_ROW(sum),
                                                            ARITHMETIC_ROW(prod),
                                                            ARITHMETIC_ROW(square_sum),
                                                            ORDER_ROW(max),
                                                            ORDER_ROW(min),
                                                        }};
