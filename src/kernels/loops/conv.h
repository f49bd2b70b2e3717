/* The inner loops of convolutions, one table for each instruction set.
 *
 * All three directions of a convolution are matrix products c = a b in which the rows of a are
 * scattered in memory:
 *
 *   c_row[i][j] (+)= sum over runs r and steps p of
 *                    a_row[i][offsets[r] + p * step] * b[b_offsets[r] + p * b_step + j]
 *
 * b is usually packed into panels of columns, zero beyond the last column; b_step is then the width
 * of a panel. b may also be an unpacked matrix if its columns fill whole vectors. Offsets and
 * strides are in elements. Nothing here allocates. */
#ifndef DP_KERNELS_LOOPS_CONV_H
#define DP_KERNELS_LOOPS_CONV_H

#include <stdbool.h>
#include <stdint.h>
#include "kernels/isa/isa.h"
#include "tensor/dtype.h"

typedef struct dp_conv_runs {
  const int64_t *offsets;   /* of each run, from a row's start */
  int64_t count, length;    /* runs, and steps of each */
  int64_t step;             /* elements between steps */
  int64_t b_step;           /* of the right operand */
  const int64_t *b_offsets; /* of each run; NULL: run after run */
  bool is_side_by_side;     /* a_row[i] is a_row[0] + i; tiles may then lack a row at no cost */
  const void *next;         /* memory to prefetch: a later tile reads it */
  int64_t next_lines;
} dp_conv_runs;

/* At most `tile_rows` rows; `width` columns of c, at most `panel`. */
typedef void (*dp_conv_tile_fn)(const void *const *a_rows, int rows, const dp_conv_runs *runs,
                                const void *b, void *const *c_rows, int64_t width,
                                bool accumulates);

typedef struct dp_conv_fns {
  dp_conv_tile_fn tile;
  int tile_rows; /* at most DP_CONV_MAX_TILE */
  int panel;
  int lanes; /* of a vector */
} dp_conv_fns;
#define DP_CONV_MAX_TILE 6

typedef struct dp_conv_loops {
  dp_conv_fns fns[DP_DTYPE_END]; /* float, double, int32 */
} dp_conv_loops;
DP_ISA_TABLE(dp_conv_loops, dp_conv_table)

#endif
