/* Shape rules of the ops of neural networks: activations, losses, convolutions, pools,
 * normalizations. What a rule is: shape_internal.h. */
#include "client/shape_internal.h"

#include <string.h>

/* ---- Activations and losses ---- */

static dp_status *last_dimension(shape_call *call) {
  dp_partial_shape from = input_shape(call, 0);
  DP_RETURN_IF_ERROR(expect_rank_at_least(&from, 1));
  call->outputs[0] = from;
  return NULL;
}

/* Both inputs are matrices of one shape, or are broadcast to one matrix. */
static dp_status *cross_entropy(shape_call *call) {
  dp_partial_shape a = input_shape(call, 0), b = input_shape(call, 1), both = a;
  dp_status *status = expect_rank(&both, 2);
  if (!status)
    status = merge_shapes(&both, &b, &both);
  if (status) {
    dp_status_release(status);
    DP_RETURN_IF_ERROR(broadcast_shapes(&a, &b, &both));
    if (both.rank < 0)
      return DP_INVALID("Shape must be broadcasted with rank 2, but is rank is unknown.");
    if (both.rank != 2)
      return DP_INVALID("Shape must be broadcasted with rank 2, but is rank %d", both.rank);
  }
  call->outputs[0] = vector_shape(both.dims[0]);
  call->outputs[1] = both;
  return NULL;
}

/* Checks that there are one row of predictions and one label per example. */
static dp_status *examples(shape_call *call, dp_partial_shape *rows_out, int64_t *batch_out) {
  dp_partial_shape labels;
  DP_RETURN_IF_ERROR(input_of_rank(call, 0, 2, rows_out));
  DP_RETURN_IF_ERROR(input_of_rank(call, 1, 1, &labels));
  return merge_dims(rows_out->dims[0], labels.dims[0], batch_out);
}

static dp_status *sparse_cross_entropy(shape_call *call) {
  dp_partial_shape logits;
  int64_t batch;
  DP_RETURN_IF_ERROR(examples(call, &logits, &batch));
  call->outputs[0] = vector_shape(batch);
  call->outputs[1] = matrix_shape(batch, logits.dims[1]);
  return NULL;
}

static dp_status *in_top_k(shape_call *call) {
  dp_partial_shape predictions;
  int64_t batch;
  DP_RETURN_IF_ERROR(examples(call, &predictions, &batch));
  call->outputs[0] = vector_shape(batch);
  return NULL;
}

/* ---- Layouts: where the channels and the sizes are ---- */

typedef struct layout {
  int rank, channel, first; /* `first` is the first of the `rank - 2` spatial dimensions */
} layout;

static layout layout_of(shape_call *call, int rank) {
  const char *format = shape_text(call, "data_format");
  bool is_second = strncmp(format, "NC", 2) == 0;
  return (layout){rank, is_second ? 1 : rank - 1, is_second ? 2 : 1};
}

static dp_status *list_attr(shape_call *call, const char *name, int count, const int64_t **items) {
  const dp_attr *attr = dp_node_attr(call->node, name);
  if (!attr || attr->kind != DP_ATTR_LIST_INT || (int)attr->count != count)
    return DP_INVALID("%s requires the %s attribute to contain %d values, but got: %d",
                      call->node->op->name, name, count, attr ? (int)attr->count : 0);
  *items = attr->integers;
  return NULL;
}

/* ---- Bias ---- */

static dp_status *bias_add(shape_call *call) {
  dp_partial_shape value = input_shape(call, 0), bias;
  DP_RETURN_IF_ERROR(expect_rank_at_least(&value, 2));
  DP_RETURN_IF_ERROR(input_of_rank(call, 1, 1, &bias));
  call->outputs[0] = value;
  if (value.rank < 0)
    return NULL;
  int channel = layout_of(call, value.rank).channel;
  return merge_dims(value.dims[channel], bias.dims[0], &call->outputs[0].dims[channel]);
}

static dp_status *bias_add_grad(shape_call *call) {
  dp_partial_shape value = input_shape(call, 0);
  DP_RETURN_IF_ERROR(expect_rank_at_least(&value, 2));
  call->outputs[0] =
      vector_shape(value.rank < 0 ? -1 : value.dims[layout_of(call, value.rank).channel]);
  return NULL;
}

/* ---- Windows ---- */

typedef struct window {
  int64_t size, stride, dilation;
  const char *padding;
  int64_t before, behind; /* for "EXPLICIT" */
} window;

/* How many windows fit. */
static dp_status *count_windows(int64_t from, const window *w, int64_t *count_out) {
  *count_out = -1;
  if (w->stride <= 0)
    return DP_INVALID("Stride must be > 0, but got %lld", (long long)w->stride);
  if (from < 0)
    return NULL;
  if (strcmp(w->padding, "SAME") == 0) {
    *count_out = (from + w->stride - 1) / w->stride;
    return NULL;
  }
  if (w->size < 0)
    return NULL;
  int64_t reach = (w->size - 1) * w->dilation + 1;
  if (strcmp(w->padding, "EXPLICIT") == 0)
    from += w->before + w->behind;
  if (from < reach)
    return DP_INVALID("Negative dimension size caused by subtracting %lld from %lld",
                      (long long)reach, (long long)from);
  *count_out = (from - reach) / w->stride + 1;
  return NULL;
}

/* The window of dimension `at`. The lists have one entry per dimension; explicit paddings have two.
 */
static window window_at(shape_call *call, int at, int64_t size, const int64_t *strides,
                        const int64_t *dilations) {
  const dp_attr *explicit = dp_node_attr(call->node, "explicit_paddings");
  bool has_pairs = explicit && (int)explicit->count > 2 * at + 1;
  return (window){size,
                  strides[at],
                  dilations ? dilations[at] : 1,
                  shape_text(call, "padding"),
                  has_pairs ? explicit->integers[2 * at] : 0,
                  has_pairs ? explicit->integers[2 * at + 1] : 0};
}

static dp_status *set_windows(shape_call *call, const layout *l, const dp_partial_shape *from,
                              const int64_t *sizes, const int64_t *strides,
                              const int64_t *dilations, dp_partial_shape *result) {
  for (int i = 0; i < l->rank - 2; i++) {
    int at = l->first + i;
    window w = window_at(call, at, sizes[i], strides, dilations);
    DP_RETURN_IF_ERROR(count_windows(from->dims[at], &w, &result->dims[at]));
  }
  return NULL;
}

/* conv(input, filter), of `rank` dimensions. The filter is sizes, depth in, depth out. */
static dp_status *convolution(shape_call *call, int rank) {
  dp_partial_shape from, filter, result = shape_of_rank(rank);
  const int64_t *strides, *dilations;
  layout l = layout_of(call, rank);
  DP_RETURN_IF_ERROR(input_of_rank(call, 0, rank, &from));
  DP_RETURN_IF_ERROR(input_of_rank(call, 1, rank, &filter));
  DP_RETURN_IF_ERROR(list_attr(call, "dilations", rank, &dilations));
  DP_RETURN_IF_ERROR(list_attr(call, "strides", rank, &strides));
  int64_t depth = from.dims[l.channel], group = filter.dims[rank - 2];
  if (depth >= 0 && group > 0 && depth % group)
    return DP_INVALID("Depth of input (%lld) is not a multiple of input depth of filter (%lld)",
                      (long long)depth, (long long)group);
  int64_t groups = depth > 0 && group > 0 ? depth / group : 1, made = filter.dims[rank - 1];
  if (made >= 0 && made % groups)
    return DP_INVALID("Depth of output (%lld) is not a multiple of the number of groups (%lld)",
                      (long long)made, (long long)groups);
  DP_RETURN_IF_ERROR(set_windows(call, &l, &from, filter.dims, strides, dilations, &result));
  result.dims[0] = from.dims[0];
  result.dims[l.channel] = made;
  call->outputs[0] = result;
  return NULL;
}

static dp_status *conv2d(shape_call *call) {
  return convolution(call, 4);
}

static dp_status *conv3d(shape_call *call) {
  return convolution(call, 5);
}

static dp_status *depthwise(shape_call *call) {
  dp_partial_shape from, filter, result = shape_of_rank(4);
  const int64_t *strides, *dilations;
  int64_t depth;
  layout l = layout_of(call, 4);
  DP_RETURN_IF_ERROR(input_of_rank(call, 0, 4, &from));
  DP_RETURN_IF_ERROR(input_of_rank(call, 1, 4, &filter));
  DP_RETURN_IF_ERROR(list_attr(call, "strides", 4, &strides));
  DP_RETURN_IF_ERROR(list_attr(call, "dilations", 4, &dilations));
  DP_RETURN_IF_ERROR(merge_dims(from.dims[l.channel], filter.dims[2], &depth));
  DP_RETURN_IF_ERROR(set_windows(call, &l, &from, filter.dims, strides, dilations, &result));
  result.dims[0] = from.dims[0];
  result.dims[l.channel] = product_or_unknown(depth, filter.dims[3]);
  call->outputs[0] = result;
  return NULL;
}

/* The values of input `index` are the shape of the gradient. */
static dp_status *spelled(shape_call *call, int index, int rank) {
  DP_RETURN_IF_ERROR(input_as_shape(call, index, &call->outputs[0]));
  return expect_rank(&call->outputs[0], rank);
}

/* The batch size is taken from the gradient of the output. */
static dp_status *conv2d_input(shape_call *call) {
  dp_partial_shape dy;
  DP_RETURN_IF_ERROR(input_of_rank(call, 2, 4, &dy));
  DP_RETURN_IF_ERROR(spelled(call, 0, 4));
  call->outputs[0].dims[0] = dy.dims[0];
  return NULL;
}

static dp_status *depthwise_input(shape_call *call) {
  return spelled(call, 0, 4);
}

static dp_status *conv2d_filter(shape_call *call) {
  return spelled(call, 1, 4);
}

static dp_status *conv3d_input(shape_call *call) {
  return spelled(call, 0, 5);
}

static dp_status *conv3d_filter(shape_call *call) {
  return spelled(call, 1, 5);
}

/* ---- Pools ---- */

static dp_status *pool_windows(shape_call *call, int rank, const int64_t *sizes,
                               const int64_t *strides) {
  dp_partial_shape from, result = shape_of_rank(rank);
  layout l = layout_of(call, rank);
  DP_RETURN_IF_ERROR(input_of_rank(call, 0, rank, &from));
  DP_RETURN_IF_ERROR(set_windows(call, &l, &from, sizes + l.first, strides, NULL, &result));
  result.dims[0] = from.dims[0];
  result.dims[l.channel] = from.dims[l.channel] < 0 || sizes[l.channel] < 1
                               ? -1
                               : from.dims[l.channel] / sizes[l.channel];
  for (int i = 0; i < call->node->output_count; i++)
    call->outputs[i] = result;
  return NULL;
}

static dp_status *pool(shape_call *call, int rank) {
  const int64_t *sizes, *strides;
  DP_RETURN_IF_ERROR(list_attr(call, "ksize", rank, &sizes));
  DP_RETURN_IF_ERROR(list_attr(call, "strides", rank, &strides));
  return pool_windows(call, rank, sizes, strides);
}

static dp_status *pool2d(shape_call *call) {
  return pool(call, 4);
}

static dp_status *pool3d(shape_call *call) {
  return pool(call, 5);
}

/* Sizes and strides are inputs. */
static dp_status *pool_v2(shape_call *call) {
  dp_partial_shape from;
  known_value sizes, strides;
  DP_RETURN_IF_ERROR(input_of_rank(call, 0, 4, &from));
  call->outputs[0] = shape_of_rank(4);
  if (!constant_input(call, 1, &sizes) || !constant_input(call, 2, &strides) || sizes.count != 4 ||
      strides.count != 4)
    return NULL;
  return pool_windows(call, 4, sizes.items, strides.items);
}

/* ---- Normalization ---- */

static dp_status *local_response(shape_call *call) {
  return input_of_rank(call, 0, 4, &call->outputs[0]);
}

/* The number of channels, on which x and `count` vectors of one value per channel must agree. */
static dp_status *merge_channels(shape_call *call, dp_partial_shape *x, int first, int count,
                                 int64_t *channels) {
  const char *format = shape_text(call, "data_format");
  layout l = layout_of(call, (int)strlen(format));
  DP_RETURN_IF_ERROR(expect_rank(x, l.rank));
  *channels = x->dims[l.channel];
  for (int i = first; i < first + count; i++) {
    dp_partial_shape vector;
    DP_RETURN_IF_ERROR(input_of_rank(call, i, 1, &vector));
    DP_RETURN_IF_ERROR(merge_dims(*channels, vector.dims[0], channels));
  }
  x->dims[l.channel] = *channels;
  return NULL;
}

/* norm(x, scale, offset, mean, variance); the last two are not checked in training */
static dp_status *batch_norm(shape_call *call) {
  dp_partial_shape x = input_shape(call, 0);
  int64_t channels;
  int vectors = shape_flag(call, "is_training") ? 2 : 4;
  DP_RETURN_IF_ERROR(merge_channels(call, &x, 1, vectors, &channels));
  call->outputs[0] = x;
  for (int i = 1; i < 5; i++)
    call->outputs[i] = vector_shape(channels);
  return NULL;
}

/* grad(dy, x, scale, ...) */
static dp_status *batch_norm_grad(shape_call *call) {
  dp_partial_shape dy = input_shape(call, 0), x = input_shape(call, 1), both;
  int64_t channels;
  DP_RETURN_IF_ERROR(merge_shapes(&dy, &x, &both));
  DP_RETURN_IF_ERROR(merge_channels(call, &both, 2, 1, &channels));
  call->outputs[0] = both;
  call->outputs[1] = call->outputs[2] = vector_shape(channels);
  call->outputs[3] = call->outputs[4] = vector_shape(0);
  return NULL;
}

#define SAME(op)                                                                                   \
  { op, rule_same }
#define MERGED(op)                                                                                 \
  { op, rule_merged }

const shape_row dp_shape_rows_nn[] = {
    SAME("Elu"),
    SAME("LeakyRelu"),
    SAME("Relu"),
    SAME("Relu6"),
    SAME("Selu"),
    SAME("Softplus"),
    SAME("Softsign"),
    MERGED("EluGrad"),
    MERGED("LeakyReluGrad"),
    MERGED("Relu6Grad"),
    MERGED("ReluGrad"),
    MERGED("SeluGrad"),
    MERGED("SoftplusGrad"),
    MERGED("SoftsignGrad"),
    {"AvgPool", pool2d},
    {"AvgPool3D", pool3d},
    {"BiasAdd", bias_add},
    {"BiasAddGrad", bias_add_grad},
    {"BiasAddV1", bias_add},
    {"Conv2D", conv2d},
    {"Conv2DBackpropFilter", conv2d_filter},
    {"Conv2DBackpropInput", conv2d_input},
    {"Conv3D", conv3d},
    {"Conv3DBackpropFilterV2", conv3d_filter},
    {"Conv3DBackpropInputV2", conv3d_input},
    {"DepthwiseConv2dNative", depthwise},
    {"DepthwiseConv2dNativeBackpropFilter", conv2d_filter},
    {"DepthwiseConv2dNativeBackpropInput", depthwise_input},
    {"FusedBatchNorm", batch_norm},
    {"FusedBatchNormGrad", batch_norm_grad},
    {"FusedBatchNormGradV2", batch_norm_grad},
    {"FusedBatchNormGradV3", batch_norm_grad},
    {"FusedBatchNormV2", batch_norm},
    {"FusedBatchNormV3", batch_norm},
    {"InTopK", in_top_k},
    {"InTopKV2", in_top_k},
    {"L2Loss", rule_scalar},
    {"LRN", local_response},
    {"LogSoftmax", last_dimension},
    {"MaxPool", pool2d},
    {"MaxPool3D", pool3d},
    {"MaxPoolGrad", rule_same},
    {"MaxPoolV2", pool_v2},
    {"MaxPoolWithArgmax", pool2d},
    {"Softmax", last_dimension},
    {"SoftmaxCrossEntropyWithLogits", cross_entropy},
    {"SparseSoftmaxCrossEntropyWithLogits", sparse_cross_entropy},
    {NULL, NULL},
};
