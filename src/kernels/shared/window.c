/* Reads the attributes of sliding windows and computes their geometry (window.h). Error texts are
 * TensorFlow's. */
#include "kernels/shared/window.h"

static void set_all(dp_window_values *values, int64_t value) {
  values->batch = values->depth = value;
  for (int i = 0; i < DP_WINDOW_DIMS; ++i)
    values->spatial[i] = value;
}

dp_window_values dp_window_order(const dp_window_attrs *attrs, const int64_t *values) {
  dp_window_values result;
  set_all(&result, 1);
  int spatial = attrs->rank - 2, first = attrs->channels_first ? 2 : 1;
  result.batch = values[0];
  result.depth = values[attrs->channels_first ? 1 : attrs->rank - 1];
  for (int i = 0; i < spatial; ++i)
    result.spatial[DP_WINDOW_DIMS - spatial + i] = values[first + i];
  return result;
}

static dp_status *read_values(const dp_node *node, const char *name, const char *what,
                              const dp_window_attrs *attrs, dp_window_values *values_out) {
  set_all(values_out, 1);
  if (!dp_node_attr(node, name))
    return NULL;
  const dp_attr *list;
  DP_RETURN_IF_ERROR(dp_node_get_list(node, name, DP_ATTR_LIST_INT, &list));
  if (list->count != attrs->rank)
    return DP_INVALID("Sliding window %s field must specify %d dimensions", what, attrs->rank);
  *values_out = dp_window_order(attrs, list->integers);
  return NULL;
}

static dp_status *read_padding(const dp_node *node, dp_window_attrs *attrs) {
  dp_view padding;
  DP_RETURN_IF_ERROR(dp_node_get_string(node, "padding", &padding));
  attrs->padding = dp_view_equals(padding, "SAME")       ? DP_PADDING_SAME
                   : dp_view_equals(padding, "EXPLICIT") ? DP_PADDING_EXPLICIT
                                                         : DP_PADDING_VALID;
  if (!dp_node_attr(node, "explicit_paddings"))
    return NULL;
  const dp_attr *list;
  DP_RETURN_IF_ERROR(dp_node_get_list(node, "explicit_paddings", DP_ATTR_LIST_INT, &list));
  if (attrs->padding != DP_PADDING_EXPLICIT) {
    if (list->count > 0)
      return DP_INVALID("explicit_paddings attribute must be empty if the padding attribute is not "
                        "EXPLICIT");
    return NULL;
  }
  if (list->count != 2 * attrs->rank)
    return DP_INVALID("explicit_paddings attribute must contain %d values, but got: %d",
                      2 * attrs->rank, (int)list->count);
  int64_t before[DP_WINDOW_DIMS + 2], after[DP_WINDOW_DIMS + 2];
  for (int i = 0; i < attrs->rank; ++i) {
    before[i] = list->integers[2 * i];
    after[i] = list->integers[2 * i + 1];
    if (before[i] < 0 || after[i] < 0)
      return DP_INVALID("All elements of explicit_paddings must be nonnegative");
    if (before[i] > INT32_MAX || after[i] > INT32_MAX)
      return DP_INVALID("explicit_paddings are too large");
  }
  dp_window_values first = dp_window_order(attrs, before), last = dp_window_order(attrs, after);
  if (first.batch || first.depth || last.batch || last.depth)
    return DP_INVALID("Nonzero explicit padding in the batch or depth dimensions is not supported");
  for (int i = DP_WINDOW_DIMS - (attrs->rank - 2); i < DP_WINDOW_DIMS; ++i) {
    attrs->before[i] = first.spatial[i];
    attrs->after[i] = last.spatial[i];
  }
  return NULL;
}

dp_status *dp_window_read(const dp_node *node, int rank, dp_window_attrs *attrs_out) {
  dp_window_attrs attrs = {.rank = rank};
  if (dp_node_attr(node, "data_format")) {
    dp_view format;
    DP_RETURN_IF_ERROR(dp_node_get_string(node, "data_format", &format));
    attrs.channels_first = format.length > 1 && format.data[1] == 'C';
  }
  DP_RETURN_IF_ERROR(read_values(node, "strides", "strides", &attrs, &attrs.strides));
  DP_RETURN_IF_ERROR(read_values(node, "dilations", "dilations", &attrs, &attrs.dilations));
  DP_RETURN_IF_ERROR(read_values(node, "ksize", "ksize", &attrs, &attrs.sizes));
  DP_RETURN_IF_ERROR(read_padding(node, &attrs));
  *attrs_out = attrs;
  return NULL;
}

dp_status *dp_window_plan(const dp_window_attrs *attrs, int axis, int64_t in, int64_t size,
                          dp_window *window_out) {
  int64_t stride = attrs->strides.spatial[axis], dilation = attrs->dilations.spatial[axis];
  if (stride <= 0 || stride > INT32_MAX)
    return DP_INVALID("Stride must be > 0, but got %lld", (long long)stride);
  if (dilation < 1 || dilation > INT32_MAX)
    return DP_INVALID("Dilation rate must be >= 1, but got %lld", (long long)dilation);
  if (size <= 0 || size > INT32_MAX)
    return DP_INVALID("Window size must be positive, but got %lld", (long long)size);
  int64_t reach = (size - 1) * dilation + 1; /* extent of a dilated window */
  dp_window window = {.in = in, .size = size, .stride = stride, .dilation = dilation};
  if (attrs->padding == DP_PADDING_SAME) {
    window.out = (in + stride - 1) / stride;
    int64_t total = (window.out - 1) * stride + reach - in;
    window.before = total > 0 ? total / 2 : 0;
  } else {
    int64_t after = 0;
    if (attrs->padding == DP_PADDING_EXPLICIT) {
      window.before = attrs->before[axis];
      after = attrs->after[axis];
    }
    window.out = (in + window.before + after - reach + stride) / stride;
  }
  if (window.out < 0)
    return DP_INVALID("Computed output size would be negative: %lld [input_size: %lld, "
                      "effective_filter_size: %lld, stride: %lld]",
                      (long long)window.out, (long long)in, (long long)reach, (long long)stride);
  window.needed = window.out > 0 ? (window.out - 1) * stride + reach : 0;
  *window_out = window;
  return NULL;
}
