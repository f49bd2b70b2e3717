/* Fills the table of argmax.h. argmax_type.tmpl.h is included once per type; it includes
 * argmax.tmpl.h, the bodies, once for the largest and once for the smallest element. Compiled once
 * for each instruction set. */
#include "kernels/loops/argmax.h"

#include <math.h>
#include <stdbool.h>
#include "kernels/loops/types.h"

#define COLUMNS 256

/* ---- Integers ---- */
#define GIVES_WAY(a, b) false
#define T int8_t
#define V int8_t
#define VALUE(x) (x)
#define SUFFIX int8
#define LOWEST INT8_MIN
#define HIGHEST INT8_MAX
#include "kernels/loops/argmax_type.tmpl.h"
#define T uint8_t
#define V uint8_t
#define VALUE(x) (x)
#define SUFFIX uint8
#define LOWEST 0
#define HIGHEST UINT8_MAX
#include "kernels/loops/argmax_type.tmpl.h"
#define T int16_t
#define V int16_t
#define VALUE(x) (x)
#define SUFFIX int16
#define LOWEST INT16_MIN
#define HIGHEST INT16_MAX
#include "kernels/loops/argmax_type.tmpl.h"
#define T uint16_t
#define V uint16_t
#define VALUE(x) (x)
#define SUFFIX uint16
#define LOWEST 0
#define HIGHEST UINT16_MAX
#include "kernels/loops/argmax_type.tmpl.h"
#define T int32_t
#define V int32_t
#define VALUE(x) (x)
#define SUFFIX int32
#define LOWEST INT32_MIN
#define HIGHEST INT32_MAX
#include "kernels/loops/argmax_type.tmpl.h"
#define T uint32_t
#define V uint32_t
#define VALUE(x) (x)
#define SUFFIX uint32
#define LOWEST 0
#define HIGHEST UINT32_MAX
#include "kernels/loops/argmax_type.tmpl.h"
#define T int64_t
#define V int64_t
#define VALUE(x) (x)
#define SUFFIX int64
#define LOWEST INT64_MIN
#define HIGHEST INT64_MAX
#include "kernels/loops/argmax_type.tmpl.h"
#define T uint64_t
#define V uint64_t
#define VALUE(x) (x)
#define SUFFIX uint64
#define LOWEST 0
#define HIGHEST UINT64_MAX
#include "kernels/loops/argmax_type.tmpl.h"

/* ---- Floats ---- */
#undef GIVES_WAY
#define GIVES_WAY(a, b) (((a) != (a)) & ((b) == (b)))
#define T float
#define V float
#define VALUE(x) (x)
#define SUFFIX float
#define LOWEST -INFINITY
#define HIGHEST INFINITY
#ifdef __AVX512F__
#include <immintrin.h>
#define HAS_VECTORS
#endif
#include "kernels/loops/argmax_type.tmpl.h"
#undef HAS_VECTORS
#define T double
#define V double
#define VALUE(x) (x)
#define SUFFIX double
#define LOWEST -INFINITY
#define HIGHEST INFINITY
#include "kernels/loops/argmax_type.tmpl.h"
#define T uint16_t
#define V float
#define VALUE(x) dp_half_to_float(x)
#define SUFFIX half
#define LOWEST -INFINITY
#define HIGHEST INFINITY
#include "kernels/loops/argmax_type.tmpl.h"
#define T uint16_t
#define V float
#define VALUE(x) dp_bfloat16_to_float(x)
#define SUFFIX bfloat16
#define LOWEST -INFINITY
#define HIGHEST INFINITY
#include "kernels/loops/argmax_type.tmpl.h"

#define FINDERS(direction)                                                                         \
  {                                                                                                \
    [DP_INT8] = direction##_find_int8, [DP_INT16] = direction##_find_int16,                        \
    [DP_INT32] = direction##_find_int32, [DP_INT64] = direction##_find_int64,                      \
    [DP_UINT8] = direction##_find_uint8, [DP_UINT16] = direction##_find_uint16,                    \
    [DP_UINT32] = direction##_find_uint32, [DP_UINT64] = direction##_find_uint64,                  \
    [DP_FLOAT] = direction##_find_float, [DP_DOUBLE] = direction##_find_double,                    \
    [DP_HALF] = direction##_find_half, [DP_BFLOAT16] = direction##_find_bfloat16,                  \
    [DP_BOOL] = direction##_find_uint8,                                                            \
  }
const dp_argmax_loops DP_ISA_SYMBOL(dp_argmax_table) = {
    .largest = FINDERS(largest),
    .smallest = FINDERS(smallest),
};
