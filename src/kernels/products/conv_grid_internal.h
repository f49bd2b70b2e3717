/* Sums over taps at the points of a grid: the common core of convolutions forward and towards the
 * input.
 *
 * A face is a set of points with the same taps: through a tap, point t reads coordinate t * step +
 * shift of the source, for each axis. Forward there is one face; towards the input there is one per
 * residue class of its coordinates. The right operand has rows for every tap of every face. */
#ifndef DP_KERNELS_PRODUCTS_CONV_GRID_INTERNAL_H
#define DP_KERNELS_PRODUCTS_CONV_GRID_INTERNAL_H

#include "kernels/products/conv.h"

/* One dimension: through tap i, point t < count reads coordinate t * step + shifts[i] of the
 * source, if that is within [0, bound). Shifts increase. */
typedef struct dp_conv_axis {
  int64_t count, step, bound, taps;
  const int64_t *shifts;
} dp_conv_axis;

typedef struct dp_conv_face {
  dp_conv_axis axes[DP_WINDOW_DIMS];
  int64_t start;   /* offset of point 0 in the result, in elements */
  int64_t b_first; /* its first row in the right operand */
  bool joins;      /* taps along the width are adjacent in the source: they are one run */
  int64_t chunk;   /* runs per pass over a block; set by the grid */
} dp_conv_face;

typedef struct dp_conv_region dp_conv_region;

typedef struct dp_conv_grid {
  const dp_conv_fns *fns;
  size_t size;
  int64_t batch;
  dp_conv_face *faces;
  int64_t face_count;
  const char *a; /* source at coordinate 0; c: result of point 0 */
  char *c;
  int64_t a_strides[4], c_strides[4]; /* in elements: of images, then of coordinates (points) */
  int64_t channels;                   /* rows of b per tap */
  int64_t columns;
  dp_finish finish;
  /* Private to the grid: */
  dp_conv_packing packing; /* of b, for the current group */
  bool packs_late;         /* b is packed just before it is used */
  _Atomic bool failed;     /* no memory for packing late */
  dp_conv_region *regions;
  int64_t region_count, tiles;
  int64_t blocks, groups, panels; /* groups of panels */
  int64_t passes;
  int64_t first_column; /* of the current group, as `finish` counts columns */
} dp_conv_grid;

static inline int64_t dp_conv_face_taps(const dp_conv_face *face) {
  return face->axes[0].taps * face->axes[1].taps * face->axes[2].taps;
}

/* Runs the grid for one group of channels after the other. `b` says how to pack the filters of the
 * first group; the groups are `a_group`, `b_group` and `c_group` elements apart in a, b and c. */
DP_MUST_USE dp_status *dp_conv_grid_run(dp_op_context *context, dp_conv_grid *work,
                                        const dp_conv_packing *b, int64_t groups, int64_t a_group,
                                        int64_t b_group, int64_t c_group);

#endif
