/* What a strided slice of a tensor is once masks, ellipsis and negative numbers are worked out:
 * shared by reading slices (array_slice.c) and writing them (array_slice_assign.c). */
#ifndef DP_KERNELS_SLICE_INTERNAL_H
#define DP_KERNELS_SLICE_INTERNAL_H

#include "kernels/shared/move.h"

/* The attributes of StridedSlice and its kin. */
typedef struct dp_slice_masks {
  uint32_t begin, end, ellipsis, new_axis, shrink_axis;
} dp_slice_masks;

/* For each dimension of the sliced tensor: where it starts, by which steps, how many. */
typedef struct dp_slice {
  int32_t rank;
  int64_t begin[DP_MAX_RANK], stride[DP_MAX_RANK], size[DP_MAX_RANK];
  dp_shape result;    /* with new axes, without shrunk ones */
  int64_t elements;   /* of the slice */
  bool is_identity;   /* all of the tensor */
  bool is_first_only; /* dimension 0 is cut with steps of 1, the others are whole */
} dp_slice;

/* create for kernels whose state begins with masks. */
DP_MUST_USE dp_status *dp_slice_create(const dp_kernel_setup *setup, void *masks);
/* Errors are worded as TensorFlow's. */
DP_MUST_USE dp_status *dp_slice_plan(const dp_slice_masks *masks, const dp_shape *shape,
                                     const dp_tensor *begin, const dp_tensor *end,
                                     const dp_tensor *strides, dp_slice *slice_out);

#endif
