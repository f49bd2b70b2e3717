/* Tiles for matrix products in which a column of a is contiguous in memory (a_row is 1). One step
 * reads neighbouring elements of a, so a tile can be nearly as tall as a cache line is long, and
 * reads less of b. With contiguous rows, a tall tile would read one cache line per row at once, and
 * rows at a fixed stride share few sets of the cache. Compiled once for each instruction set. */
#include "kernels/loops/tiles.h"

#if defined(__AVX512F__)
#define VECTOR_BYTES 64
#define TILE_ROWS 14
#define TILE_VECTORS 2
#define HAS_MASKS 1
#define FEW_ROWS(f) f(1) f(2) f(3) f(4) f(5) f(6) f(7)
#define MANY_ROWS(f) f(8) f(9) f(10) f(11) f(12) f(13) f(14)
#define IS_TALL 1
#include "kernels/loops/tiles_types.tmpl.h"

const dp_tile_loops DP_ISA_SYMBOL(dp_tall_tile_table) = {.fns = FNS_OF_TYPES};
#else /* too few registers */
const dp_tile_loops DP_ISA_SYMBOL(dp_tall_tile_table) = {0};
#endif
