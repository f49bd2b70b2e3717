/* The reductions of one real type: includes reduce.tmpl.h once per operation. The includer defines
 * T, SUFFIX, WIDE, MASK (the signed integer of T's size), LOWEST, HIGHEST, and where they apply:
 *
 *   ARITHMETIC      the type has sums and products (signed integers use those of unsigned ones)
 *   ORDER           the type has Max and Min
 *   HAS_NAN         a floating type
 *   LARGER, SMALLER(a, b)             for vectors, if the instruction set has them
 *   ANY_NAN(x), MOST, LEAST(a, b)     for vectors of floats; MOST and LEAST require no NaN */
#define VECTOR
#define NAME_OF(operation, function) DP_PASTE(operation, DP_PASTE(function, SUFFIX))

#ifdef ARITHMETIC
#define NAME(function) NAME_OF(sum, function)
#define IDENTITY 0
#define LOAD(x) (x)
#define LOAD_VECTOR(x) (x)
#define COMBINE(a, b) ((a) + (b))
#define COMBINE_VECTOR COMBINE
#include "kernels/loops/reduce.tmpl.h"

#define NAME(function) NAME_OF(prod, function)
#define IDENTITY 1
#define LOAD(x) (x)
#define LOAD_VECTOR(x) (x)
#define COMBINE(a, b) ((T)((WIDER)(a) * (WIDER)(b)))
#define COMBINE_VECTOR(a, b) ((a) * (b))
#include "kernels/loops/reduce.tmpl.h"

#define NAME(function) NAME_OF(square_sum, function)
#define IDENTITY 0
#define LOAD(x) ((T)((WIDER)(x) * (WIDER)(x)))
#define LOAD_VECTOR(x) ((x) * (x))
#define COMBINE(a, b) ((a) + (b))
#define COMBINE_VECTOR COMBINE
#include "kernels/loops/reduce.tmpl.h"
#endif

#ifdef ORDER
typedef T NAME_OF(values, type) __attribute__((vector_size(DP_VECTOR_BYTES)));
typedef MASK NAME_OF(masks, type) __attribute__((vector_size(DP_VECTOR_BYTES)));
/* Per lane: b where the mask is set, else a. */
static inline NAME_OF(values, type)
    NAME_OF(choose, vector)(NAME_OF(masks, type) mask, NAME_OF(values, type) b,
                            NAME_OF(values, type) a) {
  return (NAME_OF(values, type))((mask & (NAME_OF(masks, type))b) |
                                 (~mask & (NAME_OF(masks, type))a));
}

#ifdef HAS_NAN /* a NaN wins; compilers vectorize this form */
#define KEEP_NAN(b, result) ((b) != (b) ? (b) : (result))
#else
#define KEEP_NAN(b, result) (result)
#endif
static inline T NAME_OF(larger, of)(T a, T b) {
  T larger = b > a ? b : a;
  return KEEP_NAN(b, larger);
}
static inline T NAME_OF(smaller, of)(T a, T b) {
  T smaller = b < a ? b : a;
  return KEEP_NAN(b, smaller);
}

#define NAME(function) NAME_OF(max, function)
#define IDENTITY LOWEST
#define LOAD(x) (x)
#define LOAD_VECTOR(x) (x)
#define COMBINE(a, b) NAME_OF(larger, of)(a, b)
#ifdef LARGER
#define COMBINE_VECTOR(a, b) ((NAME(vector))LARGER(a, b))
#ifdef MOST
#define COMBINE_NUMBERS(a, b) ((NAME(vector))MOST(a, b))
#endif
#else
#define COMBINE_VECTOR(a, b) NAME_OF(choose, vector)(((b) > (a)) | ((b) != (b)), b, a)
#endif
#include "kernels/loops/reduce.tmpl.h"

#define NAME(function) NAME_OF(min, function)
#define IDENTITY HIGHEST
#define LOAD(x) (x)
#define LOAD_VECTOR(x) (x)
#define COMBINE(a, b) NAME_OF(smaller, of)(a, b)
#ifdef SMALLER
#define COMBINE_VECTOR(a, b) ((NAME(vector))SMALLER(a, b))
#ifdef LEAST
#define COMBINE_NUMBERS(a, b) ((NAME(vector))LEAST(a, b))
#endif
#else
#define COMBINE_VECTOR(a, b) NAME_OF(choose, vector)(((b) < (a)) | ((b) != (b)), b, a)
#endif
#include "kernels/loops/reduce.tmpl.h"
#endif

#undef VECTOR
#undef NAME_OF
#undef T
#undef SUFFIX
#undef WIDE
#undef WIDER
#undef MASK
#undef LOWEST
#undef HIGHEST
#undef ARITHMETIC
#undef ORDER
#undef LARGER
#undef SMALLER
#undef MOST
#undef LEAST
#undef ANY_NAN
#undef HAS_NAN
#undef KEEP_NAN
