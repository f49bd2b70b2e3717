/* A strided slice after masks, ellipsis and negative indices are resolved. Reading (slice.c) and
 * writing (slice_assign.c) share it. */
#ifndef DP_KERNELS_ARRAY_SLICE_INTERNAL_H
#define DP_KERNELS_ARRAY_SLICE_INTERNAL_H

#include "kernels/shared/move.h"

/* The mask attributes of StridedSlice and its variants. */
typedef struct dp_slice_masks {
  uint32_t begin, end, ellipsis, new_axis, shrink_axis;
} dp_slice_masks;

/* Per dimension of the sliced tensor: begin, stride and number of elements. */
typedef struct dp_slice_bounds {
  int32_t rank;
  int64_t begin[DP_MAX_RANK], stride[DP_MAX_RANK], size[DP_MAX_RANK];
  dp_shape result;    /* includes new axes, excludes shrunk ones */
  int64_t elements;   /* of the slice */
  bool is_identity;   /* the slice is the whole tensor */
  bool is_first_only; /* only dimension 0 is cut, with stride 1 */
} dp_slice_bounds;

/* The `create` function of kernels whose state begins with dp_slice_masks. */
DP_MUST_USE dp_status *dp_slice_create(const dp_kernel_setup *setup, void *masks);
/* Resolves a slice of a tensor of this shape. The error texts are TensorFlow's. */
DP_MUST_USE dp_status *dp_slice_plan(const dp_slice_masks *masks, const dp_shape *shape,
                                     const dp_tensor *begin, const dp_tensor *end,
                                     const dp_tensor *strides, dp_slice_bounds *slice_out);

#endif
