/* Tiles of one shape for every type (tall tiles: for floating types). The includer defines:
 *
 *   VECTOR_BYTES, HAS_MASKS, TILE_ROWS, TILE_VECTORS
 *   IS_TALL                 rows of a are one element apart
 *   FEW_ROWS, MANY_ROWS     apply a macro to each number of rows, up to half of TILE_ROWS and
 * above; only tiles of many rows may copy
 *
 * FNS_OF_TYPES is the contents of a table. */
#include <string.h>
#include "kernels/loops/madd_internal.h"
#include "kernels/loops/tiles.h"
#include "kernels/loops/types.h"

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define DP_UNROLL _Pragma("GCC unroll 16")

/* Which operands a tile copies; COPIES_B copies a as well if a_copy is set. */
enum copies { COPIES_NOTHING, COPIES_A, COPIES_B };

#define T float
#define SUFFIX float
#define BITS 32
#define MADD MADD_FLOAT
#include "kernels/loops/tiles.tmpl.h"
#undef T
#undef SUFFIX
#undef BITS
#undef MADD

#define T double
#define SUFFIX double
#define BITS 64
#define MADD MADD_DOUBLE
#include "kernels/loops/tiles.tmpl.h"
#undef T
#undef SUFFIX
#undef BITS
#undef MADD

/* Tall tiles serve gradients, which are never integers. */
#if !IS_TALL
#define T uint32_t
#define SUFFIX uint32
#define BITS 32
#define MADD MADD_PLAIN
#include "kernels/loops/tiles.tmpl.h"
#undef T
#undef SUFFIX
#undef BITS
#undef MADD
#endif

#define FNS(suffix, size)                                                                          \
  {                                                                                                \
    .run = run_##suffix, .rows = TILE_ROWS, .panel = TILE_VECTORS * VECTOR_BYTES / (size),         \
    .lanes = VECTOR_BYTES / (size), .copies_parts = HAS_MASKS                                      \
  }
#if IS_TALL
#define FNS_OF_TYPES                                                                               \
  { [DP_FLOAT] = FNS(float, 4), [DP_DOUBLE] = FNS(double, 8) }
#else
#define FNS_OF_TYPES                                                                               \
  { [DP_FLOAT] = FNS(float, 4), [DP_DOUBLE] = FNS(double, 8), [DP_INT32] = FNS(uint32, 4) }
#endif
