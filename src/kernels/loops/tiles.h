/* The inner loop of products of large matrices, one table for each instruction set.
 *
 * A tile is a few rows and one panel of columns of c; it stays in registers while k runs, so all
 * time goes into multiplying if the operands are near. Hence tiles also have an errand, which they
 * run between their steps, little by little: it copies (packs) what is needed next, or asks the
 * memory for it. Strides are in elements. Nothing here allocates. */
#ifndef DP_KERNELS_LOOPS_TILES_INTERNAL_H
#define DP_KERNELS_LOOPS_TILES_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>
#include "kernels/isa/isa.h"
#include "tensor/dtype.h"

/* `rows` rows of `width` elements that will be read soon. With `to` they are copied there, a
 * panel's width apart and zero beyond their own; without, they are only asked for. */
typedef struct dp_tile_errand {
  const void *from;
  int64_t stride, rows, width;
  void *to;
  int64_t pace;    /* rows to copy, or lines of the cache to ask for, of which DP_TILE_PACE are due
                      each    time after as many steps as a line has elements */
  int64_t due, at; /* the tiles' own, zero at first: of pace, of width */
} dp_tile_errand;
#define DP_TILE_PACE 256

/* c[i][j] (+)= sum over p < depth of a[i * a_row + p * a_step] * b[p * b_step + j]. `count` tiles
 * lie below each other; in a their first rows are `a_tile` elements apart. */
typedef struct dp_tile {
  const void *a;
  int64_t a_row, a_step, a_tile;
  const void *b;
  int64_t b_step;
  void *c;
  int64_t c_row, depth, count;
  bool accumulates;
  /* Where tiles of many rows copy what they read, in the form in which other tiles read it;
   * NULL: nowhere. a: its rows are one element apart; tile after tile [depth][rows of the table].
   * b: by one tile only. */
  void *a_copy, *b_copy;
  dp_tile_errand errand; /* what is left of it afterwards */
} dp_tile;

/* Rows from 1 to `rows` of the table (more than half of them with copies), columns from 1 to
 * `panel`. b has whole vectors, unless it is copied. */
typedef void (*dp_tile_fn)(dp_tile *tile, int rows, int64_t width);

typedef struct dp_tile_fns {
  dp_tile_fn run;         /* NULL: there are none for the type */
  int rows, panel, lanes; /* of a whole tile; lanes: of a vector */
  bool copies_parts;      /* errands may copy widths that do not fill a panel */
} dp_tile_fns;

typedef struct dp_tile_loops {
  dp_tile_fns fns[DP_DTYPE_END]; /* float, double, int32 */
} dp_tile_loops;
DP_ISA_TABLE(dp_tile_loops, dp_tile_table)
DP_ISA_TABLE(dp_tile_loops, dp_tall_tile_table) /* where a_row is 1; may have none */

#endif
