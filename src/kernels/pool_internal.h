/* What the poolings and their gradients share: attributes, geometry, operands in the work type. */
#ifndef DP_KERNELS_POOL_INTERNAL_H
#define DP_KERNELS_POOL_INTERNAL_H

#include "kernels/loops_pool_internal.h"
#include "kernels/window_internal.h"

typedef struct dp_pooling_state {
  dp_window_attrs attrs;
  dp_dtype dtype, work;
  const dp_pooling_fns *fns;
  bool is_average;
  bool batch_in_index; /* of MaxPoolWithArgmax */
} dp_pooling_state;

/* Images and windows of one call; depth_window > 1 pools channels instead of pixels. */
typedef struct dp_pooling_plan {
  int64_t batch, channels, depth_window;
  dp_window dims[DP_WINDOW_DIMS];
  dp_shape in, out;
  double lowest; /* what windows without anything larger give, minus infinity being smaller */
} dp_pooling_plan;

const char *dp_pooling_name(const dp_node *node);
DP_MUST_USE dp_status *dp_pooling_create(const dp_kernel_setup *setup, void *state);
/* Window sizes and strides from the attributes, or from inputs [slot, slot + 2) of the V2 ops;
 * `name` is that of the tensor of shape `in` in messages. */
DP_MUST_USE dp_status *dp_pooling_plan_make(dp_op_context *context, const dp_pooling_state *state,
                                            const dp_shape *in, int32_t slot,
                                            dp_pooling_plan *plan_out);
/* INVALID_ARGUMENT that names `what` unless the shapes are the same. */
DP_MUST_USE dp_status *dp_pooling_check_shape(const char *what, const dp_shape *wanted,
                                              const dp_shape *shape);
static inline int64_t dp_pooling_pixels_in(const dp_pooling_plan *plan) {
  return plan->dims[0].in * plan->dims[1].in * plan->dims[2].in;
}
static inline int64_t dp_pooling_pixels_out(const dp_pooling_plan *plan) {
  return plan->dims[0].out * plan->dims[1].out * plan->dims[2].out;
}

/* The window of output pixel `index` (within its image) in the input. */
typedef struct dp_pooling_box {
  int64_t first[DP_WINDOW_DIMS], last[DP_WINDOW_DIMS];
} dp_pooling_box;
dp_pooling_box dp_pooling_box_of(const dp_pooling_plan *plan, int64_t index);
static inline int64_t dp_pooling_box_size(const dp_pooling_box *box) {
  int64_t size = 1;
  for (int i = 0; i < DP_WINDOW_DIMS; ++i)
    size *= box->last[i] > box->first[i] ? box->last[i] - box->first[i] : 0;
  return size;
}

/* Row y of the windows of a flat image. */
static inline dp_pooling_row dp_pooling_row_of(const dp_pooling_plan *plan, int64_t y) {
  const dp_window *height = &plan->dims[1], *width = &plan->dims[2];
  int64_t first = dp_window_first(height, y);
  return (dp_pooling_row){.lowest = plan->lowest,
                          .channels = plan->channels,
                          .rows = dp_window_last(height, y) - first,
                          .above = first - (y * height->stride - height->before),
                          .row_step = width->in * plan->channels,
                          .in = width->in,
                          .out = width->out,
                          .size = width->size,
                          .stride = width->stride,
                          .before = width->before};
}

#endif
