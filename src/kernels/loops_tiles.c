/* The inner loop of products of large matrices; compiled once for each instruction set. */
#include "kernels/loops_tiles_internal.h"

#include <string.h>
#include "kernels/loops_madd_internal.h"
#include "kernels/loops_types_internal.h"

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define DP_UNROLL _Pragma("GCC unroll 16")

#if defined(__AVX512F__)
#define VECTOR_BYTES 64
#define TILE_ROWS 6
#define TILE_VECTORS 4
#define HAS_MASKS 1
#elif defined(__AVX2__)
#define VECTOR_BYTES 32
#define TILE_ROWS 6
#define TILE_VECTORS 2
#define HAS_MASKS 0
#else
#define VECTOR_BYTES 16
#define TILE_ROWS 4
#define TILE_VECTORS 2
#define HAS_MASKS 0
#endif

#define T float
#define SUFFIX float
#define BITS 32
#define MADD MADD_FLOAT
#include "kernels/loops_tiles.tmpl.h"
#undef T
#undef SUFFIX
#undef BITS
#undef MADD

#define T double
#define SUFFIX double
#define BITS 64
#define MADD MADD_DOUBLE
#include "kernels/loops_tiles.tmpl.h"
#undef T
#undef SUFFIX
#undef BITS
#undef MADD

#define T uint32_t
#define SUFFIX uint32
#define BITS 32
#define MADD MADD_PLAIN
#include "kernels/loops_tiles.tmpl.h"
#undef T
#undef SUFFIX
#undef BITS
#undef MADD

#define FNS(suffix, size)                                                                          \
  {                                                                                                \
    .run = run_##suffix, .pack_columns = pack_columns_##suffix, .rows = TILE_ROWS,                 \
    .panel = TILE_VECTORS * VECTOR_BYTES / (size), .lanes = VECTOR_BYTES / (size),                 \
    .copies_parts = HAS_MASKS                                                                      \
  }
const dp_tile_loops DP_ISA_SYMBOL(dp_tile_table) = {
    .fns = {[DP_FLOAT] = FNS(float, 4), [DP_DOUBLE] = FNS(double, 8), [DP_INT32] = FNS(uint32, 4)},
};
