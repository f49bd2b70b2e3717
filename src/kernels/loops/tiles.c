/* Tiles for matrix products in which a row of a is contiguous in memory. The sizes of a tile below
 * are chosen so that its sums take nearly all registers of each instruction set. Compiled once for
 * each instruction set. */
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
#if TILE_ROWS == 6
#define FEW_ROWS(f) f(1) f(2) f(3)
#define MANY_ROWS(f) f(4) f(5) f(6)
#else
#define FEW_ROWS(f) f(1) f(2)
#define MANY_ROWS(f) f(3) f(4)
#endif
#define IS_TALL 0
#include "kernels/loops/tiles_types.tmpl.h"

const dp_tile_loops DP_ISA_SYMBOL(dp_tile_table) = {.fns = FNS_OF_TYPES};
