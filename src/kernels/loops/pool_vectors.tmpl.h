/* Vectors of T (float, or double with IS_DOUBLE) as wide as the instruction set has them. Included
 * by pool_rows.tmpl.h.
 *
 *   LOAD(from, rest), STORE(to, v, rest)    memory that holds M, whole vectors or parts
 *   LARGER(a, b)                            b where one of the two is a NaN
 *   IF_LARGER(a, b, yes, no)                yes where a > b
 *   GREATER, EQUAL, NOT_LESS(a, b)          masks
 *   ADD_IF(mask, sum, yes)                  sum + yes where the mask is set, else sum */
#if defined(__SSE2__)
#include <immintrin.h>
#endif

#ifdef IS_DOUBLE
#define OF(name) name##_pd
#define OF_MASK(name) name##_pd_mask
#define REGISTER(name) name##d
typedef int64_t lane;
#else
#define OF(name) name##_ps
#define OF_MASK(name) name##_ps_mask
#define REGISTER(name) name
typedef int32_t lane;
#endif
#define INLINE static inline __attribute__((always_inline))

#if defined(__AVX512F__)
#define VECTOR_BYTES 64
typedef REGISTER(__m512) native;
#define LARGER(a, b) OF(_mm512_max)((native)(a), (native)(b))
#define GREATER(a, b) OF_MASK(_mm512_cmp)((native)(a), (native)(b), _CMP_GT_OQ)
#define EQUAL(a, b) OF_MASK(_mm512_cmp)((native)(a), (native)(b), _CMP_EQ_OQ)
#define NOT_LESS(a, b) OF_MASK(_mm512_cmp)((native)(a), (native)(b), _CMP_NLT_UQ)
#define IF_LARGER(a, b, yes, no) OF(_mm512_mask_mov)((native)(no), GREATER(a, b), (native)(yes))
#define ADD_IF(mask, sum, yes)                                                                     \
  OF(_mm512_mask_add)((native)(sum), mask, (native)(sum), (native)(yes))
#define FIRST(count) ((__mmask16)((1 << (count)) - 1))
#define LOAD_PART(from, count) OF(_mm512_maskz_loadu)(FIRST(count), from)
#define STORE_PART(to, value, count) OF(_mm512_mask_storeu)(to, FIRST(count), (native)(value))
#elif defined(__AVX2__)
#define VECTOR_BYTES 32
typedef REGISTER(__m256) native;
#define LARGER(a, b) OF(_mm256_max)((native)(a), (native)(b))
#define GREATER(a, b) OF(_mm256_cmp)((native)(a), (native)(b), _CMP_GT_OQ)
#define EQUAL(a, b) OF(_mm256_cmp)((native)(a), (native)(b), _CMP_EQ_OQ)
#define NOT_LESS(a, b) OF(_mm256_cmp)((native)(a), (native)(b), _CMP_NLT_UQ)
#define IF_LARGER(a, b, yes, no) OF(_mm256_blendv)((native)(no), (native)(yes), GREATER(a, b))
#define ADD_IF(mask, sum, yes) ((native)(sum) + OF(_mm256_and)(mask, (native)(yes)))
#ifdef IS_DOUBLE
#define FIRST(count) ((__m256i)((integers){0, 1, 2, 3} < (lane)(count)))
#else
#define FIRST(count) ((__m256i)((integers){0, 1, 2, 3, 4, 5, 6, 7} < (lane)(count)))
#endif
#define LOAD_PART(from, count) OF(_mm256_maskload)(from, FIRST(count))
#define STORE_PART(to, value, count) OF(_mm256_maskstore)(to, FIRST(count), (native)(value))
#else
#define VECTOR_BYTES 16
#if defined(__SSE2__)
typedef REGISTER(__m128) native;
#define LARGER(a, b) OF(_mm_max)((native)(a), (native)(b))
#define GREATER(a, b) ((integers)OF(_mm_cmpgt)((native)(a), (native)(b)))
#else
#define LARGER(a, b) IF_LARGER(a, b, a, b)
#define GREATER(a, b) ((a) > (b))
#endif
#define EQUAL(a, b) ((a) == (b))
#define NOT_LESS(a, b) (~((a) < (b)))
#define IF_LARGER(a, b, yes, no)                                                                   \
  ((GREATER(a, b) & ((integers)(yes) ^ (integers)(no))) ^ (integers)(no))
#define ADD_IF(mask, sum, yes) ((sum) + (vector)((mask) & (integers)(yes)))
#endif

#define LANES ((int64_t)(VECTOR_BYTES / sizeof(T)))
typedef T vector __attribute__((vector_size(VECTOR_BYTES)));
typedef T vector_in_memory
    __attribute__((vector_size(VECTOR_BYTES), aligned(sizeof(T)), may_alias));
typedef lane integers __attribute__((vector_size(VECTOR_BYTES)));

/* `rest` is the number of lanes of a partial vector, 0 for a whole one; a constant where
 * inlined. */
INLINE vector load_work(const T *from, const int64_t rest) {
  if (!rest)
    return (vector) * (const vector_in_memory *)from;
#ifdef LOAD_PART
  return (vector)LOAD_PART(from, rest);
#else
  vector value = {0};
  for (int64_t i = 0; i < rest; ++i)
    value[i] = from[i];
  return value;
#endif
}

INLINE void store_work(T *to, vector value, const int64_t rest) {
  if (!rest) {
    *(vector_in_memory *)to = value;
    return;
  }
#ifdef LOAD_PART
  STORE_PART(to, value, rest);
#else
  for (int64_t i = 0; i < rest; ++i)
    to[i] = value[i];
#endif
}

/* LOAD and STORE are the same for memory that holds M. */
#ifdef READ
#include "kernels/loops/pool_narrow.tmpl.h"
#define LOAD READ
#define STORE WRITE
#else
#define LOAD load_work
#define STORE store_work
#endif
