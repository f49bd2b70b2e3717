/* What the pooling ops and their gradients (pool*.c) share: attributes, the geometry of windows,
 * and operands in the work type. A window covers pixels; in three dimensions these are depth,
 * height and width, in two the depth is 1. */
#ifndef DP_KERNELS_NN_POOL_INTERNAL_H
#define DP_KERNELS_NN_POOL_INTERNAL_H

#include "kernels/loops/pool.h"
#include "kernels/shared/window.h"

typedef struct dp_pooling_state {
  dp_window_attrs attrs;
  dp_dtype dtype, work;
  const dp_pooling_fns *fns;      /* of the work type */
  const dp_pooling_row_fns *rows; /* of the dtype itself; NULL for integers */
  bool is_average;
  bool batch_in_index; /* MaxPoolWithArgmax only */
} dp_pooling_state;

/* Images and windows of one call. With depth_window > 1, channels are pooled instead of pixels. */
typedef struct dp_pooling_plan {
  int64_t batch, channels, depth_window;
  size_t pixel_bytes; /* bytes of all channels of a pixel, in the tensors' dtype */
  dp_window dims[DP_WINDOW_DIMS];
  dp_shape in, out;
  double lowest; /* the result of a window that has nothing larger */
} dp_pooling_plan;

const char *dp_pooling_name(const dp_node *node);
DP_MUST_USE dp_status *dp_pooling_create(const dp_kernel_setup *setup, void *state);
/* Window sizes and strides come from the attributes, or from inputs `slot` and `slot` + 1 of V2
 * ops. */
DP_MUST_USE dp_status *dp_pooling_plan_make(dp_op_context *context, const dp_pooling_state *state,
                                            const dp_shape *in, int32_t slot,
                                            dp_pooling_plan *plan_out);
/* INVALID_ARGUMENT that names `what`, unless the shapes are equal. */
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

/* ---- Row by row ---- */
static inline dp_pooling_row dp_pooling_row_of(const dp_pooling_plan *plan) {
  const dp_window *width = &plan->dims[2];
  return (dp_pooling_row){.lowest = plan->lowest,
                          .channels = plan->channels,
                          .in = width->in,
                          .out = width->out,
                          .size = width->size,
                          .stride = width->stride,
                          .before = width->before};
}

/* Rows of an image: [first, last) in depth and in height. */
typedef struct dp_pooling_span {
  int64_t first[2], last[2];
} dp_pooling_span;
static inline int64_t dp_pooling_span_size(const dp_pooling_span *span) {
  return (span->last[0] - span->first[0]) * (span->last[1] - span->first[1]);
}
/* The windows [first, last) that contain pixel `at` of their dimension; and the most there can
 * be. */
static inline void dp_pooling_windows_over(const dp_window *window, int64_t at, int64_t *first_out,
                                           int64_t *last_out) {
  int64_t place = at + window->before, last = place / window->stride + 1;
  int64_t first = place < window->size ? 0 : (place - window->size) / window->stride + 1;
  last = last < window->out ? last : window->out;
  *first_out = first;
  *last_out = last > first ? last : first;
}
static inline int64_t dp_pooling_most_over(const dp_window *window) {
  int64_t most = (window->size - 1) / window->stride + 1;
  return most < window->out ? most : window->out;
}
/* The rows of pixels under row `index` of an image's windows; and the rows of windows over row
 * `index` of its pixels. */
dp_pooling_span dp_pooling_span_under(const dp_pooling_plan *plan, int64_t index);
dp_pooling_span dp_pooling_span_over(const dp_pooling_plan *plan, int64_t index);
/* The most rows of pixels under a row of windows. */
int64_t dp_pooling_most_rows(const dp_pooling_plan *plan);
/* Whether pooling computes parts first (the result of one row of the height, in the whole depth)
 * and then combines them. */
bool dp_pooling_has_parts(const dp_pooling_plan *plan);
/* The number of pixels in the tensor before row (z, y) of an image; with `is_out`, output
 * pixels. */
static inline int64_t dp_pooling_row_start(const dp_pooling_plan *plan, bool is_out, int64_t image,
                                           int64_t z, int64_t y) {
  const dp_window *d = plan->dims;
  return is_out ? ((image * d[0].out + z) * d[1].out + y) * d[2].out
                : ((image * d[0].in + z) * d[1].in + y) * d[2].in;
}
/* Lists pointers to the rows of pixels of `span` in `data`; returns how many. */
int64_t dp_pooling_list_rows(const dp_pooling_plan *plan, const dp_pooling_span *span,
                             int64_t image, const void *data, const void **rows_out);

/* ---- Largest elements and their places, one byte each (pool_places.c) ---- */
typedef struct dp_pooling_places_work {
  const dp_pooling_state *state;
  const dp_pooling_plan *plan;
  const char *in, *gradient; /* the input; the gradient of the output */
  char *to;
  uint8_t *places;
  int64_t ring; /* number of rows of places in memory; 0: all */
} dp_pooling_places_work;
/* Whether places in such windows fit a byte. */
bool dp_pooling_has_places(const dp_pooling_plan *plan);
/* The gradient of a 2-D MaxPool from its input; `places` is scratch. */
void dp_pooling_spread(dp_op_context *context, const dp_pooling_places_work *work);

#endif
