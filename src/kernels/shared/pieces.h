/* Tensors cut into rows and joined from them: what tensor arrays, lists, queues and accumulators
 * share. No state, any thread. */
#ifndef DP_KERNELS_PIECES_INTERNAL_H
#define DP_KERNELS_PIECES_INTERNAL_H

#include "kernels/shared/support.h"

/* `count` unset tensors, and their end. */
dp_tensor *dp_pieces_create(int64_t count);
void dp_pieces_destroy(dp_tensor *pieces, int64_t count);

/* Copies the pieces one behind the other into `output`, which holds exactly them. */
void dp_pieces_join(dp_op_context *context, const dp_tensor *pieces, int64_t count,
                    const dp_tensor *output);
/* The same as an output of that shape. */
DP_MUST_USE dp_status *dp_pieces_output(dp_op_context *context, int32_t slot, const dp_shape *shape,
                                        const dp_tensor *pieces, int64_t count);
/* Rows [begin, end) of dimension 0 under another shape: sharing the memory where that keeps it
 * aligned, else a copy. */
DP_MUST_USE dp_status *dp_pieces_cut(const dp_tensor *tensor, int64_t begin, int64_t end,
                                     const dp_shape *shape, dp_tensor *piece_out);
/* [count] before the dims of `shape`, checked. */
DP_MUST_USE dp_status *dp_pieces_shape(int64_t count, const dp_shape *shape, dp_shape *shape_out);
/* Merges as TensorFlow's PartialTensorShape::MergeWith, with its words. */
DP_MUST_USE dp_status *dp_pieces_merge_shapes(const dp_partial_shape *a, const dp_partial_shape *b,
                                              dp_partial_shape *merged_out);
static inline dp_partial_shape dp_pieces_partial(const dp_shape *shape) {
  dp_partial_shape partial = {.rank = shape->rank};
  for (int32_t i = 0; i < shape->rank; ++i)
    partial.dims[i] = shape->dims[i];
  return partial;
}

#endif
