/* Reads the attributes of uniformly quantized convolutions and works out their windows for operands
 * of given shapes. The contracts are in uniform_window_internal.h. */
#include "kernels/quant/uniform_window_internal.h"

#include "base/text.h"
#include "kernels/shared/message.h"

/* ---- Attributes ---- */
static void push(dp_uniform_list *list, int64_t value) {
  if (list->count < 2 * DP_MAX_RANK)
    list->items[list->count] = value;
  ++list->count;
}

static dp_status *read_list(const dp_node *node, const char *name, dp_uniform_list *list) {
  const dp_attr *attr;
  DP_RETURN_IF_ERROR(dp_node_get_list(node, name, DP_ATTR_LIST_INT, &attr));
  for (int32_t i = 0; i < attr->count; ++i) {
    if (attr->integers[i] < INT32_MIN || attr->integers[i] > INT32_MAX)
      return DP_INVALID("Attr %s has value %lld out of range for an int32", name,
                        (long long)attr->integers[i]);
    push(list, attr->integers[i]);
  }
  return NULL;
}

static bool push_numbers(dp_uniform_list *list, const dp_message_field *field) {
  uint64_t value;
  dp_view rest = field->bytes;
  if (field->type == DP_MESSAGE_VARINT)
    push(list, (int64_t)field->value);
  else if (field->type != DP_MESSAGE_BYTES)
    return false;
  while (field->type == DP_MESSAGE_BYTES && rest.length > 0) {
    if (!dp_message_varint(&rest, &value))
      return false;
    push(list, (int64_t)value);
  }
  return true;
}

/* UniformQuantizedConvolutionDimensionNumbersAttr: three fields for each of the three tensors; a
 * filter's come in another order. */
static dp_status *read_roles(dp_view message, dp_uniform_window *window) {
  dp_message_field field;
  dp_uniform_roles *roles[3] = {&window->input, &window->kernel, &window->output};
  int64_t *singles[9] = {&window->input.batch,    &window->input.feature, NULL,
                         &window->kernel.feature, &window->kernel.batch,  NULL,
                         &window->output.batch,   &window->output.feature};
  while (dp_message_next(&message, &field)) {
    uint32_t at = field.number - 1;
    if (at >= 9)
      continue;
    if (singles[at] && field.type == DP_MESSAGE_VARINT)
      *singles[at] = (int64_t)field.value;
    else if (singles[at] || !push_numbers(&roles[at / 3]->spatial, &field))
      return DP_INVALID("Error parsing convolution dimension numbers.");
  }
  return message.length == 0 ? NULL : DP_INVALID("Error parsing convolution dimension numbers.");
}

dp_status *dp_uniform_window_read(const dp_node *node, dp_uniform_window *window_out) {
  dp_uniform_window window = {0};
  dp_view padding, numbers;
  DP_RETURN_IF_ERROR(read_list(node, "window_strides", &window.strides));
  DP_RETURN_IF_ERROR(read_list(node, "lhs_dilation", &window.lhs_dilation));
  DP_RETURN_IF_ERROR(read_list(node, "rhs_dilation", &window.rhs_dilation));
  DP_RETURN_IF_ERROR(dp_kernel_get_int32(node, "batch_group_count", &window.batch_groups));
  DP_RETURN_IF_ERROR(dp_kernel_get_int32(node, "feature_group_count", &window.feature_groups));
  DP_RETURN_IF_ERROR(dp_node_get_string(node, "padding", &padding));
  DP_RETURN_IF_ERROR(read_list(node, "explicit_padding", &window.explicit_padding));
  window.is_explicit = dp_view_equals(padding, "EXPLICIT");
  window.is_same = dp_view_equals(padding, "SAME");
  if (!window.is_explicit && !window.is_same && !dp_view_equals(padding, "VALID"))
    return DP_INVALID("padding Attr must be one of [EXPLICIT | SAME | VALID], but given: %.*s",
                      (int)padding.length, padding.data);
  if (!window.is_explicit && window.explicit_padding.count > 0)
    return DP_INVALID("If padding Attr is not 'EXPLICIT', explicit_padding Attr must be empty. "
                      "Given padding %.*s and explicit_padding of size %lld",
                      (int)padding.length, padding.data, (long long)window.explicit_padding.count);
  DP_RETURN_IF_ERROR(dp_node_get_string(node, "dimension_numbers", &numbers));
  DP_RETURN_IF_ERROR(read_roles(numbers, &window));
  *window_out = window;
  return NULL;
}

/* ---- Checks of attributes against shapes ---- */
static void join(const dp_uniform_list *list, dp_text *text) {
  for (int64_t i = 0; i < list->count; ++i)
    dp_text_printf(text, "%s%lld", i ? ", " : "", (long long)list->items[i]);
}

static bool all_at_least(const dp_uniform_list *list, int64_t least) {
  for (int64_t i = 0; i < list->count; ++i)
    if (list->items[i] < least)
      return false;
  return true;
}

/* One for each spatial dimension, at least 1; none given: all 1. */
static dp_status *take_factors(const dp_uniform_list *list, const char *name, int rank,
                               int64_t *factors) {
  if (list->count != 0 && list->count != rank)
    return DP_INVALID("Size of %s Attr must be dims - 2.", name);
  if (!all_at_least(list, 1)) {
    dp_text text = {0};
    join(list, &text);
    dp_status *status = DP_INVALID("All elements of %s must be >= 1. Given %s", name, text.data);
    dp_text_deinit(&text);
    return status;
  }
  for (int i = 0; i < rank; ++i)
    factors[i] = list->count ? list->items[i] : 1;
  return NULL;
}

static dp_status *check_number(int64_t number, int rank, uint32_t *used) {
  if (number < 0 || number >= rank)
    return DP_INVALID("Each dimension number must be in region [0, rank). Given rank %d and "
                      "dimension number value %lld",
                      rank, (long long)number);
  *used |= 1u << number;
  return NULL;
}

static dp_status *check_roles(const dp_uniform_roles *roles, int rank, bool feature_first) {
  uint32_t used = 0;
  int64_t first = feature_first ? roles->feature : roles->batch;
  DP_RETURN_IF_ERROR(check_number(first, rank, &used));
  DP_RETURN_IF_ERROR(check_number(feature_first ? roles->batch : roles->feature, rank, &used));
  if (roles->spatial.count != rank - 2)
    return DP_INVALID("Spatial dimensions size must be rank - 2. Given rank %d and spatial "
                      "dimensions size %lld",
                      rank, (long long)roles->spatial.count);
  for (int i = 0; i < rank - 2; ++i)
    DP_RETURN_IF_ERROR(check_number(roles->spatial.items[i], rank, &used));
  if (used != (1u << rank) - 1)
    return DP_INVALID("Dimension numbers must be different");
  return NULL;
}

static dp_uniform_roles usual_roles(int rank) {
  dp_uniform_roles roles = {.batch = 0, .feature = 1};
  for (int i = 2; i < rank; ++i)
    push(&roles.spatial, i);
  return roles;
}

static dp_status *take_roles(const dp_uniform_window *window, int rank, dp_uniform_conv *conv) {
  conv->input = conv->kernel = conv->output = usual_roles(rank);
  if (window->input.spatial.count == 0)
    return NULL;
  conv->input = window->input;
  conv->kernel = window->kernel;
  conv->output = window->output;
  DP_RETURN_IF_ERROR(check_roles(&conv->input, rank, false));
  DP_RETURN_IF_ERROR(check_roles(&conv->kernel, rank, true));
  return check_roles(&conv->output, rank, false);
}

static dp_uniform_layout layout_of(const dp_shape *shape, const dp_uniform_roles *roles) {
  dp_uniform_layout layout = {.batches = shape->dims[roles->batch],
                              .features = shape->dims[roles->feature]};
  layout.batch_step = dp_shape_product(shape, (int)roles->batch + 1, shape->rank);
  layout.feature_step = dp_shape_product(shape, (int)roles->feature + 1, shape->rank);
  for (int i = 0; i < shape->rank - 2; ++i) {
    int at = (int)roles->spatial.items[i];
    layout.sizes[i] = shape->dims[at];
    layout.steps[i] = dp_shape_product(shape, at + 1, shape->rank);
  }
  return layout;
}

static dp_status *check_feature_groups(const dp_uniform_conv *conv) {
  long long groups = conv->feature_groups, from = conv->lhs.features, each = conv->rhs.features;
  if (groups <= 0)
    return DP_INVALID("feature_group_count must be a positive integer, given: %lld", groups);
  if (from % groups)
    return DP_INVALID("feature_group_count must divide lhs feature dimension size, but %lld does "
                      "not divide %lld",
                      groups, from);
  if (each == 0 || from % each)
    return DP_INVALID("rhs input feature dimension must divide lhs feature dimension size, but "
                      "%lld does not divide %lld",
                      each, from);
  if (from / groups != each)
    return DP_INVALID("lhs feature dimension size divided by feature_group_count must equal the "
                      "rhs input feature dimension size, but %lld / %lld != %lld",
                      from, groups, each);
  if (conv->rhs.batches % groups)
    return DP_INVALID("rhs output dimension size must be a multiple of feature_group_count, but "
                      "%lld is not a multiple of %lld",
                      (long long)conv->rhs.batches, groups);
  return NULL;
}

static dp_status *check_batch_groups(const dp_uniform_conv *conv) {
  long long groups = conv->batch_groups;
  if (groups <= 0)
    return DP_INVALID("batch_group_count Attr must be a positive integer. Given: %lld", groups);
  if (conv->lhs.batches % groups)
    return DP_INVALID("batch_group_count must divide lhs batch dimension size, but %lld does not "
                      "divide %lld",
                      groups, (long long)conv->lhs.batches);
  if (conv->rhs.batches % groups)
    return DP_INVALID("rhs output dimension size must be a multiple of batch_group_count, but "
                      "%lld is not a multiple of %lld",
                      (long long)conv->rhs.batches, groups);
  return NULL;
}

/* ---- Sizes ---- */
static int64_t dilated(int64_t size, int64_t dilation) {
  return size == 0 ? 0 : 1 + dilation * (size - 1);
}

static dp_status *take_explicit(const dp_uniform_list *list, dp_uniform_conv *conv) {
  if (list->count != 2 * conv->rank)
    return DP_INVALID("Size of explicit_padding Attr must be 2 * (rank - 2). Given rank %d and "
                      "explicit_padding of size %lld",
                      conv->rank + 2, (long long)list->count);
  if (!all_at_least(list, 0)) {
    dp_text text = {0};
    join(list, &text);
    dp_status *status = DP_INVALID("All explicit_padding elems must be >= 0, Given %s", text.data);
    dp_text_deinit(&text);
    return status;
  }
  for (int i = 0; i < conv->rank; ++i) {
    conv->before[i] = list->items[2 * i];
    conv->after[i] = list->items[2 * i + 1];
  }
  return NULL;
}

static void take_same(dp_uniform_conv *conv) {
  for (int i = 0; i < conv->rank; ++i) {
    int64_t from = dilated(conv->lhs.sizes[i], conv->lhs_dilation[i]);
    int64_t window = dilated(conv->rhs.sizes[i], conv->rhs_dilation[i]);
    int64_t to = (from + conv->strides[i] - 1) / conv->strides[i];
    int64_t total = (to - 1) * conv->strides[i] + window - from;
    conv->before[i] = total > 0 ? total / 2 : 0;
    conv->after[i] = total > 0 ? total - total / 2 : 0;
  }
}

dp_status *dp_uniform_conv_plan(const dp_uniform_window *window, const dp_shape *lhs,
                                const dp_shape *rhs, dp_uniform_conv *conv_out) {
  dp_uniform_conv conv = {.rank = lhs->rank - 2,
                          .batch_groups = window->batch_groups,
                          .feature_groups = window->feature_groups};
  if (lhs->rank != rhs->rank)
    return DP_INVALID("lhs and rhs must have same dims. Given lhs and rhs of shapes: %s%s",
                      dp_shape_text(lhs), dp_shape_text(rhs));
  if (lhs->rank <= 2)
    return DP_INVALID("lhs and rhs shape dims must be at least 3. Given: %d", lhs->rank);
  DP_RETURN_IF_ERROR(take_factors(&window->strides, "window_strides", conv.rank, conv.strides));
  DP_RETURN_IF_ERROR(
      take_factors(&window->lhs_dilation, "lhs_dilation", conv.rank, conv.lhs_dilation));
  DP_RETURN_IF_ERROR(
      take_factors(&window->rhs_dilation, "rhs_dilation", conv.rank, conv.rhs_dilation));
  DP_RETURN_IF_ERROR(take_roles(window, lhs->rank, &conv));
  conv.lhs = layout_of(lhs, &conv.input);
  conv.rhs = layout_of(rhs, &conv.kernel);
  DP_RETURN_IF_ERROR(check_feature_groups(&conv));
  DP_RETURN_IF_ERROR(check_batch_groups(&conv));
  if (window->is_explicit)
    DP_RETURN_IF_ERROR(take_explicit(&window->explicit_padding, &conv));
  else if (window->is_same)
    take_same(&conv);
  *conv_out = conv;
  return NULL;
}

dp_status *dp_uniform_conv_shape(dp_uniform_conv *conv) {
  int64_t dims[DP_MAX_RANK];
  dims[conv->output.batch] = conv->lhs.batches / conv->batch_groups;
  dims[conv->output.feature] = conv->rhs.batches;
  for (int i = 0; i < conv->rank; ++i) {
    int64_t padded =
        dilated(conv->lhs.sizes[i], conv->lhs_dilation[i]) + conv->before[i] + conv->after[i];
    int64_t places = padded - dilated(conv->rhs.sizes[i], conv->rhs_dilation[i]) + 1;
    dims[conv->output.spatial.items[i]] =
        (places + conv->strides[i] - 1) / conv->strides[i]; /* towards 0, as TensorFlow */
  }
  for (int i = 0; i < conv->rank + 2; ++i)
    if (dims[i] < 0)
      return DP_INVALID("Expected shape dimensions to be non-negative, got %lld",
                        (long long)dims[i]);
  DP_RETURN_IF_ERROR(dp_shape_make(conv->rank + 2, dims, &conv->shape));
  conv->out = layout_of(&conv->shape, &conv->output);
  return NULL;
}
