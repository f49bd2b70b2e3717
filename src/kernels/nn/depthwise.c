/* DepthwiseConv2dNative and its gradients: the ops read attributes and check shapes. The
 * convolutions are in products/conv_depthwise.c. */
#include "kernels/shared/family.h"

#include "kernels/products/conv.h"
#include "kernels/shared/support.h"
#include "kernels/shared/widen.h"

static dp_status *depthwise_create(const dp_kernel_setup *setup, void *memory) {
  dp_conv_state *state = memory;
  const dp_window_attrs *attrs = &state->attrs;
  DP_RETURN_IF_ERROR(dp_node_get_type(setup->node, "T", &state->dtype));
  state->work = dp_kernel_work_type(state->dtype);
  DP_RETURN_IF_ERROR(dp_window_read(setup->node, 4, &state->attrs));
  if (attrs->strides.spatial[1] != attrs->strides.spatial[2])
    return DP_INVALID("Current implementation only supports equal length strides in the row and "
                      "column dimensions.");
  if (attrs->strides.batch != 1 || attrs->strides.depth != 1)
    return DP_INVALID("Current implementation does not yet support strides in the batch and depth "
                      "dimensions.");
  if (attrs->channels_first)
    return dp_status_create(DP_UNIMPLEMENTED,
                            "Depthwise convolution on CPU is only supported for NHWC format");
  return NULL;
}

static dp_status *plan(const dp_conv_state *state, const dp_shape *input, const dp_shape *filter,
                       dp_conv *conv_out, dp_shape *output_out) {
  if (input->rank != 4)
    return DP_INVALID("input must be 4-dimensional%s", dp_shape_text(input));
  if (filter->rank != 4)
    return DP_INVALID("filter must be 4-dimensional: %s", dp_shape_text(filter));
  if (input->dims[3] != filter->dims[2])
    return DP_INVALID("input and filter must have the same depth: %lld vs %lld",
                      (long long)input->dims[3], (long long)filter->dims[2]);
  dp_conv conv = {.dtype = state->work,
                  .batch = input->dims[0],
                  .in_channels = input->dims[3],
                  .out_channels = input->dims[3] * filter->dims[3],
                  .groups = 1};
  conv.dims[0] = (dp_window){1, 1, 1, 1, 1, 0, 1};
  for (int i = 1; i < DP_WINDOW_DIMS; ++i)
    DP_RETURN_IF_ERROR(
        dp_window_plan(&state->attrs, i, input->dims[i], filter->dims[i - 1], &conv.dims[i]));
  int64_t dims[] = {conv.batch, conv.dims[1].out, conv.dims[2].out, conv.out_channels};
  DP_RETURN_IF_ERROR(dp_shape_make(4, dims, output_out));
  *conv_out = conv;
  return NULL;
}

static dp_status *depthwise_compute(dp_op_context *context, void *memory) {
  const dp_conv_state *state = memory;
  const dp_tensor *input = dp_op_input(context, 0), *filter = dp_op_input(context, 1);
  dp_conv conv;
  dp_shape shape;
  DP_RETURN_IF_ERROR(plan(state, &input->shape, &filter->shape, &conv, &shape));
  return dp_conv_run(context, state, &conv, dp_depthwise_forward, input, filter, &shape);
}

static dp_status *check_gradient(const char *op, const dp_shape *wanted, const dp_shape *gradient) {
  if (gradient->rank != 4)
    return DP_INVALID("%s: out_backprop must be 4-dimensional", op);
  if (gradient->dims[0] != wanted->dims[0])
    return DP_INVALID("%s: input and out_backprop must have the same batch size", op);
  if (gradient->dims[3] != wanted->dims[3])
    return DP_INVALID("%s: depth_multiplier * in_depth not equal to out_depth", op);
  for (int i = 1; i < 3; ++i)
    if (gradient->dims[i] != wanted->dims[i])
      return DP_INVALID("%s: Number of %s of out_backprop doesn't match computed: actual = %lld, "
                        "computed = %lld",
                        op, i == 1 ? "rows" : "cols", (long long)gradient->dims[i],
                        (long long)wanted->dims[i]);
  return NULL;
}

static dp_status *read_sizes(const dp_tensor *sizes, const char *op, const char *name,
                             dp_shape *shape_out) {
  if (sizes->shape.rank != 1)
    return DP_INVALID("%s: %s input must be 1-dim, not %d", op, name, sizes->shape.rank);
  return dp_kernel_read_shape(sizes, name, shape_out);
}

static dp_status *input_gradient_compute(dp_op_context *context, void *memory) {
  const dp_conv_state *state = memory;
  const dp_tensor *filter = dp_op_input(context, 1), *gradient = dp_op_input(context, 2);
  const char *op = "DepthwiseConv2DBackpropInput";
  dp_conv conv;
  dp_shape shape, output;
  DP_RETURN_IF_ERROR(read_sizes(dp_op_input(context, 0), op, "input_sizes", &shape));
  DP_RETURN_IF_ERROR(plan(state, &shape, &filter->shape, &conv, &output));
  DP_RETURN_IF_ERROR(check_gradient(op, &output, &gradient->shape));
  return dp_conv_run(context, state, &conv, dp_depthwise_input_gradient, filter, gradient, &shape);
}

static dp_status *filter_gradient_compute(dp_op_context *context, void *memory) {
  const dp_conv_state *state = memory;
  const dp_tensor *input = dp_op_input(context, 0), *gradient = dp_op_input(context, 2);
  const char *op = "DepthwiseConv2DBackpropFilter";
  dp_conv conv;
  dp_shape shape, output;
  DP_RETURN_IF_ERROR(read_sizes(dp_op_input(context, 1), op, "filter_sizes", &shape));
  DP_RETURN_IF_ERROR(plan(state, &input->shape, &shape, &conv, &output));
  DP_RETURN_IF_ERROR(check_gradient(op, &output, &gradient->shape));
  return dp_conv_run(context, state, &conv, dp_depthwise_filter_gradient, input, gradient, &shape);
}

#define ROW(name, run)                                                                             \
  {                                                                                                \
    .op = name, .types = {{"T", DP_SET_FLOATS}}, .state_size = sizeof(dp_conv_state),              \
    .create = depthwise_create, .compute = run                                                     \
  }
static const dp_kernel rows[] = {
    ROW("DepthwiseConv2dNative", depthwise_compute),
    ROW("DepthwiseConv2dNativeBackpropInput", input_gradient_compute),
    ROW("DepthwiseConv2dNativeBackpropFilter", filter_gradient_compute),
};
DP_KERNEL_FAMILY(depthwise, rows);
