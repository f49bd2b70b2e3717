/* Sums over taps at the points of a grid: what convolutions forward and towards the input share.
 *
 * A face is a set of points that read their sources alike: point t reads t * step + shift through a
 * tap, for each axis. Forward there is one face; towards the input, one for each residue class of
 * its coordinates. The right operand has rows for every tap of every face. */
#ifndef DP_KERNELS_CONV_GRID_INTERNAL_H
#define DP_KERNELS_CONV_GRID_INTERNAL_H

#include "kernels/products/conv.h"

/* One dimension: point t < count reads coordinate t * step + shifts[i] of the source through tap i,
 * where that is within [0, bound). Shifts grow. */
typedef struct dp_conv_axis {
  int64_t count, step, bound, taps;
  const int64_t *shifts;
} dp_conv_axis;

typedef struct dp_conv_face {
  dp_conv_axis axes[DP_WINDOW_DIMS];
  int64_t start;   /* of the result of point 0, in elements */
  int64_t b_first; /* its first row of the right operand */
  bool joins;      /* taps along the width are one run: they lie side by side in the source */
  int64_t chunk;   /* runs of one pass over a block; the grid's own */
} dp_conv_face;

typedef struct dp_conv_region dp_conv_region;

typedef struct dp_conv_grid {
  const dp_conv_fns *fns;
  size_t size;
  int64_t batch;
  dp_conv_face *faces;
  int64_t face_count;
  const char *a; /* of coordinate 0, and the result of point 0 */
  char *c;
  int64_t a_strides[4], c_strides[4]; /* in elements, of images and coordinates or points */
  int64_t channels;                   /* rows of b for each tap */
  int64_t columns;
  dp_finish finish;
  /* The grid's own. */
  dp_conv_packing packing; /* of b, of the group at hand */
  bool packs_late;         /* b is packed where it is used */
  _Atomic bool failed;     /* no memory for that */
  dp_conv_region *regions;
  int64_t region_count, tiles;
  int64_t blocks, groups, panels; /* groups: of panels */
  int64_t passes;
  int64_t first_column; /* of all, in what `finish` sees */
} dp_conv_grid;

static inline int64_t dp_conv_face_taps(const dp_conv_face *face) {
  return face->axes[0].taps * face->axes[1].taps * face->axes[2].taps;
}

/* Group after group, each with its own filters: `b` says how to pack those of the first. Groups
 * are `a_group`, `b_group` and `c_group` elements apart. */
DP_MUST_USE dp_status *dp_conv_grid_run(dp_op_context *context, dp_conv_grid *work,
                                        const dp_conv_packing *b, int64_t groups, int64_t a_group,
                                        int64_t b_group, int64_t c_group);

#endif
