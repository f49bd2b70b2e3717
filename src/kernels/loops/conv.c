/* Fills the table of conv.h. The tile is in conv.tmpl.h, which is included once per type; the sizes
 * of a tile below are what fits into the registers of each instruction set. Compiled once for each
 * instruction set. */
#include "kernels/loops/conv.h"

#include <string.h>
#include "kernels/loops/madd_internal.h"
#include "kernels/loops/types.h"

#define DP_UNROLL _Pragma("GCC unroll 16")

/* How a tile finds the factors of a: READS_RUNS, consecutive elements of each row; READS_STEPS,
 * elements `step` apart in each row; READS_SIDE, neighbouring elements for neighbouring rows, which
 * needs one address for all rows instead of one per row. */
typedef enum reading { READS_RUNS, READS_STEPS, READS_SIDE } reading;

#if defined(__AVX512F__)
#define VECTOR_BYTES 64
#define TILE_ROWS 6
#define TILE_VECTORS 4
#elif defined(__AVX2__)
#define VECTOR_BYTES 32
#define TILE_ROWS 6
#define TILE_VECTORS 2
#else
#define VECTOR_BYTES 16
#define TILE_ROWS 4
#define TILE_VECTORS 2
#endif

#define T float
#define SUFFIX float
#define LANES (VECTOR_BYTES / 4)
#define MADD MADD_FLOAT
#include "kernels/loops/conv.tmpl.h"
#undef T
#undef SUFFIX
#undef LANES
#undef MADD

#define T double
#define SUFFIX double
#define LANES (VECTOR_BYTES / 8)
#define MADD MADD_DOUBLE
#include "kernels/loops/conv.tmpl.h"
#undef T
#undef SUFFIX
#undef LANES
#undef MADD

#define T uint32_t
#define SUFFIX uint32
#define LANES (VECTOR_BYTES / 4)
#define MADD MADD_PLAIN
#include "kernels/loops/conv.tmpl.h"
#undef T
#undef SUFFIX
#undef LANES
#undef MADD

#define FNS(suffix, size)                                                                          \
  {                                                                                                \
    .tile = tile_##suffix, .tile_rows = TILE_ROWS, .panel = TILE_VECTORS * VECTOR_BYTES / (size),  \
    .lanes = VECTOR_BYTES / (size)                                                                 \
  }
const dp_conv_loops DP_ISA_SYMBOL(dp_conv_table) = {
    .fns = {[DP_FLOAT] = FNS(float, 4), [DP_DOUBLE] = FNS(double, 8), [DP_INT32] = FNS(uint32, 4)},
};
