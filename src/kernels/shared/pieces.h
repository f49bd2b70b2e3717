/* Tensors cut into rows and joined from rows, for tensor arrays, lists, queues and accumulators. No
 * state; any thread. The caller owns all tensors that these functions give. */
#ifndef DP_KERNELS_SHARED_PIECES_H
#define DP_KERNELS_SHARED_PIECES_H

#include "kernels/shared/support.h"

/* Makes an array of `count` unset tensors; destroy releases the tensors and the array. */
dp_tensor *dp_pieces_create(int64_t count);
void dp_pieces_destroy(dp_tensor *pieces, int64_t count);

/* Copies the pieces one behind the other into `output`, which has exactly their total size. */
void dp_pieces_join(dp_op_context *context, const dp_tensor *pieces, int64_t count,
                    const dp_tensor *output);
/* The same into a new output `slot` of that shape. */
DP_MUST_USE dp_status *dp_pieces_output(dp_op_context *context, int32_t slot, const dp_shape *shape,
                                        const dp_tensor *pieces, int64_t count);
/* Rows [begin, end) of dimension 0 as a tensor of shape `shape`. It shares the tensor's memory if
 * the rows start at an aligned address (or the dtype is not plain); otherwise it is a copy. */
DP_MUST_USE dp_status *dp_pieces_cut(const dp_tensor *tensor, int64_t begin, int64_t end,
                                     const dp_shape *shape, dp_tensor *piece_out);
/* The shape [count] followed by the dims of `shape`, checked. */
DP_MUST_USE dp_status *dp_pieces_shape(int64_t count, const dp_shape *shape, dp_shape *shape_out);
/* Merges two shapes as TensorFlow's PartialTensorShape::MergeWith does, with its error texts. */
DP_MUST_USE dp_status *dp_pieces_merge_shapes(const dp_partial_shape *a, const dp_partial_shape *b,
                                              dp_partial_shape *merged_out);
static inline dp_partial_shape dp_pieces_partial(const dp_shape *shape) {
  dp_partial_shape partial = {.rank = shape->rank};
  for (int32_t i = 0; i < shape->rank; ++i)
    partial.dims[i] = shape->dims[i];
  return partial;
}

#endif
