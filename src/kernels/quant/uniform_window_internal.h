/* The window of a uniformly quantized convolution, of any number of spatial dimensions: attributes
 * as a node has them, and what they mean for operands of given shapes. Dimensions may stand in any
 * order, images and filters may be dilated, features and images may be in groups. */
#ifndef DP_KERNELS_QUANT_UNIFORM_WINDOW_INTERNAL_H
#define DP_KERNELS_QUANT_UNIFORM_WINDOW_INTERNAL_H

#include "kernels/shared/support.h"

/* One attribute of the kind list(int); `count` may be more than are kept. */
typedef struct dp_uniform_list {
  int64_t count;
  int64_t items[2 * DP_MAX_RANK];
} dp_uniform_list;

/* Which dimension is what. Of a filter, `batch` is the output's features. */
typedef struct dp_uniform_roles {
  int64_t batch, feature;
  dp_uniform_list spatial;
} dp_uniform_roles;

typedef struct dp_uniform_window {
  dp_uniform_list strides, lhs_dilation, rhs_dilation, explicit_padding;
  bool is_same, is_explicit;
  int64_t batch_groups, feature_groups;
  dp_uniform_roles input, kernel, output; /* without spatial ones: the usual order */
} dp_uniform_window;
DP_MUST_USE dp_status *dp_uniform_window_read(const dp_node *node, dp_uniform_window *window_out);

/* Where things are in a tensor as it lies in memory. */
typedef struct dp_uniform_layout {
  int64_t batches, batch_step, features, feature_step;
  int64_t sizes[DP_MAX_RANK], steps[DP_MAX_RANK]; /* spatial */
} dp_uniform_layout;

typedef struct dp_uniform_conv {
  int rank; /* spatial */
  int64_t strides[DP_MAX_RANK], lhs_dilation[DP_MAX_RANK], rhs_dilation[DP_MAX_RANK];
  int64_t before[DP_MAX_RANK], after[DP_MAX_RANK]; /* padding */
  int64_t batch_groups, feature_groups;
  dp_uniform_roles input, kernel, output;
  dp_uniform_layout lhs, rhs, out;
  dp_shape shape; /* of the result; set by dp_uniform_conv_shape */
} dp_uniform_conv;
/* Checks the attributes against the shapes; dp_uniform_conv_shape then finds the result's. */
DP_MUST_USE dp_status *dp_uniform_conv_plan(const dp_uniform_window *window, const dp_shape *lhs,
                                            const dp_shape *rhs, dp_uniform_conv *conv_out);
DP_MUST_USE dp_status *dp_uniform_conv_shape(dp_uniform_conv *conv);

#endif
