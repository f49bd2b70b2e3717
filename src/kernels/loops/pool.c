/* Fills the table of pool.h for loops that take a pixel at a time. The bodies are in pool.tmpl.h,
 * which is included once per type; the loops over whole rows are in pool_rows.tmpl.h. Compiled once
 * for each instruction set. */
#include "kernels/loops/pool.h"

#include <math.h>
#include <stdbool.h>
#include "kernels/loops/types.h"

#define IS_FLOAT
#define T float
#define SUFFIX float
#define LEAST (-INFINITY)
#include "kernels/loops/pool.tmpl.h"
#define T double
#define SUFFIX double
#define LEAST (-(double)INFINITY)
#include "kernels/loops/pool.tmpl.h"
#undef IS_FLOAT
#define T int8_t
#define SUFFIX int8
#define LEAST INT8_MIN
#include "kernels/loops/pool.tmpl.h"
#define T int16_t
#define SUFFIX int16
#define LEAST INT16_MIN
#include "kernels/loops/pool.tmpl.h"
#define T int32_t
#define SUFFIX int32
#define LEAST INT32_MIN
#include "kernels/loops/pool.tmpl.h"
#define T int64_t
#define SUFFIX int64
#define LEAST INT64_MIN
#include "kernels/loops/pool.tmpl.h"
#define T uint8_t
#define SUFFIX uint8
#define LEAST 0
#include "kernels/loops/pool.tmpl.h"
#define T uint16_t
#define SUFFIX uint16
#define LEAST 0
#include "kernels/loops/pool.tmpl.h"
#define T uint32_t
#define SUFFIX uint32
#define LEAST 0
#include "kernels/loops/pool.tmpl.h"
#define T uint64_t
#define SUFFIX uint64
#define LEAST 0
#include "kernels/loops/pool.tmpl.h"

#define ENTRY(name)                                                                                \
  .fill_least = fill_least_##name, .take_largest = take_largest_##name,                            \
  .take_place = take_place_##name, .scatter = scatter_##name, .gather = gather_##name,             \
  .add_at = add_at_##name

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
};
