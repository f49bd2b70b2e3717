/* Sliding windows of convolutions and poolings: the attributes of a node (strides, dilations,
 * ksize, padding, data format) and the geometry that follows for one dimension. There are always
 * three spatial dimensions: depth, height, width. A 2-D op has a depth of 1. */
#ifndef DP_KERNELS_SHARED_WINDOW_H
#define DP_KERNELS_SHARED_WINDOW_H

#include "runtime/kernel.h"

#define DP_WINDOW_DIMS 3

typedef enum dp_padding { DP_PADDING_VALID, DP_PADDING_SAME, DP_PADDING_EXPLICIT } dp_padding;

/* One value for each dimension of an image tensor, independent of the data format. */
typedef struct dp_window_values {
  int64_t batch, depth; /* depth: the channels */
  int64_t spatial[DP_WINDOW_DIMS];
} dp_window_values;

typedef struct dp_window_attrs {
  int rank; /* of the image tensors: 4 or 5 */
  bool channels_first;
  dp_padding padding;
  dp_window_values strides, dilations, sizes;            /* sizes: ksize of poolings */
  int64_t before[DP_WINDOW_DIMS], after[DP_WINDOW_DIMS]; /* explicit paddings */
} dp_window_attrs;

/* Reads those of strides, dilations, ksize, padding, explicit_paddings and data_format that the
 * node has; absent ones are 1 (no padding). `rank` is the rank of the image tensors. */
DP_MUST_USE dp_status *dp_window_read(const dp_node *node, int rank, dp_window_attrs *attrs_out);
/* Sorts a list of `rank` values in the order of the data format into their dimensions. */
dp_window_values dp_window_order(const dp_window_attrs *attrs, const int64_t *values);

/* Geometry of one spatial dimension. */
typedef struct dp_window {
  int64_t in, out;
  int64_t size, stride, dilation; /* of the window */
  int64_t before;                 /* padding before the first element */
  int64_t needed; /* elements from the start of the padding to the end of the last window; may be
                     less than before + in */
} dp_window;

/* Plans dimension `axis` (0 depth, 1 height, 2 width) for an input of `in` and a window of `size`
 * elements. Checks that sizes are positive and that the output's size is not negative. */
DP_MUST_USE dp_status *dp_window_plan(const dp_window_attrs *attrs, int axis, int64_t in,
                                      int64_t size, dp_window *window_out);
/* The input elements [first, last) of window `index`, without padding. For windows that are not
 * dilated (poolings). */
static inline int64_t dp_window_first(const dp_window *window, int64_t index) {
  int64_t first = index * window->stride - window->before;
  return first < 0 ? 0 : first;
}
static inline int64_t dp_window_last(const dp_window *window, int64_t index) {
  int64_t last = index * window->stride - window->before + window->size;
  return last < window->in ? last : window->in;
}

#endif
