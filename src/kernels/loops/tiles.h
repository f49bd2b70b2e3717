/* The inner loop of products of large matrices, one table for each instruction set.
 *
 * A tile is a few rows and one panel of columns of c. Its sums stay in registers while k runs, so
 * nearly all time goes into multiplying, provided that the operands are in the cache. To keep them
 * there, a tile also carries an errand, which it advances between its steps: it packs (copies) or
 * prefetches the memory that is needed next. Strides are in elements. Nothing here allocates. */
#ifndef DP_KERNELS_LOOPS_TILES_H
#define DP_KERNELS_LOOPS_TILES_H

#include <stdbool.h>
#include <stdint.h>
#include "kernels/isa/isa.h"
#include "tensor/dtype.h"

/* `rows` rows of `width` elements that will be read soon. If `to` is set they are copied there:
 * each row takes the width of a panel, padded with zeros. Otherwise they are prefetched. */
typedef struct dp_tile_errand {
  const void *from;
  int64_t stride, rows, width;
  void *to;
  int64_t pace;    /* work per line of steps (a cache line's number of elements), in units of 1 /
                      DP_TILE_PACE rows to copy or cache lines to prefetch */
  int64_t due, at; /* state of the tiles, zero at first: work due; position in the row */
} dp_tile_errand;
#define DP_TILE_PACE 256

/* c[i][j] (+)= sum over p < depth of a[i * a_row + p * a_step] * b[p * b_step + j], for `count`
 * tiles that lie below each other. In a, the first rows of two tiles are `a_tile` elements
 * apart. */
typedef struct dp_tile {
  const void *a;
  int64_t a_row, a_step, a_tile;
  const void *b;
  int64_t b_step;
  void *c;
  int64_t c_row, depth, count;
  bool accumulates;
  /* Where the tile copies (packs) the operands that it reads, for later tiles; NULL for no copy.
   * a_copy requires a_row 1; it becomes [tile][depth][rows of a whole tile]. b_copy is made by a
   * single tile (`count` 1). Both require more than half of the rows of a whole tile. */
  void *a_copy, *b_copy;
  dp_tile_errand errand; /* on return: what is left of it */
} dp_tile;

/* Runs the tile with 1 to `rows` rows and a width of 1 to `panel` columns. b must be readable in
 * whole vectors, unless it is copied. */
typedef void (*dp_tile_fn)(dp_tile *tile, int rows, int64_t width);

typedef struct dp_tile_fns {
  dp_tile_fn run;         /* NULL: no tiles for the type */
  int rows, panel, lanes; /* rows and columns of a whole tile, elements of a vector */
  bool copies_parts;      /* errands may copy rows that are narrower than a panel */
} dp_tile_fns;

typedef struct dp_tile_loops {
  dp_tile_fns fns[DP_DTYPE_END]; /* float, double, int32 */
} dp_tile_loops;
DP_ISA_TABLE(dp_tile_loops, dp_tile_table)
DP_ISA_TABLE(dp_tile_loops, dp_tall_tile_table) /* for a_row 1; entries may be NULL */

#endif
