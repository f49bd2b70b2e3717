/* Conv2D and Conv3D with their gradients: attributes, shapes and 16-bit floats around the
 * convolutions of conv_internal.h. On a CPU TensorFlow takes the channels-last layout only, and so
 * does this. Beyond TensorFlow, gradients know dilations and groups. */
#include "kernels/shared/family.h"

#include <string.h>
#include "kernels/products/conv.h"
#include "kernels/matmul_internal.h"
#include "kernels/shared/support.h"

static dp_status *check_layout(const dp_conv_state *state, const char *op) {
  const dp_window_attrs *attrs = &state->attrs;
  if (attrs->channels_first && !strstr(op, "Backprop") && attrs->rank == 4)
    return dp_status_create(DP_UNIMPLEMENTED,
                            "The Conv2D op currently only supports the NHWC tensor format on the "
                            "CPU. The op was given the format: NCHW");
  if (attrs->channels_first)
    return DP_INVALID("%s only supports %s on the CPU.", op, attrs->rank == 4 ? "NHWC" : "NDHWC");
  dp_code code = attrs->rank == 4 ? DP_UNIMPLEMENTED : DP_INVALID_ARGUMENT;
  if (attrs->strides.batch != 1 || attrs->strides.depth != 1)
    return dp_status_create(code, "Current implementation does not yet support strides in the "
                                  "batch and depth dimensions.");
  if (attrs->dilations.batch != 1 || attrs->dilations.depth != 1)
    return dp_status_create(code, "Current implementation does not yet support dilations in the "
                                  "batch and depth dimensions.");
  return NULL;
}

dp_status *dp_conv_create(const dp_kernel_setup *setup, void *memory) {
  dp_conv_state *state = memory;
  const char *op = setup->node->op->name;
  DP_RETURN_IF_ERROR(dp_node_get_type(setup->node, "T", &state->dtype));
  state->work = dp_gemm_work_type(state->dtype);
  DP_RETURN_IF_ERROR(
      dp_window_read(setup->node, strncmp(op, "Conv3D", 6) == 0 ? 5 : 4, &state->attrs));
  return check_layout(state, op);
}

/* ---- Shapes ---- */
static dp_status *check_shapes(const dp_conv_state *state, const dp_shape *input,
                               const dp_shape *filter) {
  int rank = state->attrs.rank;
  if (input->rank != rank)
    return rank == 4 ? DP_INVALID("convolution input must be %d-dimensional: %s", rank,
                                  dp_shape_text(input))
                     : DP_INVALID("input must be %d-dimensional", rank);
  if (filter->rank != rank)
    return rank == 4 ? DP_INVALID("convolution filter must be %d-dimensional: %s", rank,
                                  dp_shape_text(filter))
                     : DP_INVALID("filter must be %d-dimensional", rank);
  for (int i = 0; i < rank - 2; ++i)
    if (filter->dims[i] == 0)
      return DP_INVALID("filter must not have zero elements (i.e. all dimensions must be "
                        "non-zero)");
  int64_t in = input->dims[rank - 1], patch = filter->dims[rank - 2], out = filter->dims[rank - 1];
  if (patch <= 0)
    return DP_INVALID("filter depth must be stricly positive, got %lld", (long long)patch);
  if (in % patch != 0)
    return DP_INVALID("%cnput depth must be evenly divisible by filter depth: %lld vs %lld",
                      rank == 4 ? 'i' : 'I', (long long)in, (long long)patch);
  if (rank == 5 && in != patch)
    return DP_INVALID("Number of channels in filter (%lld) must match last dimension of input "
                      "(%lld)",
                      (long long)patch, (long long)in);
  int64_t groups = in / patch;
  if (groups > 0 && out % groups != 0)
    return DP_INVALID("output depth must be evenly divisible by number of groups: %lld vs %lld",
                      (long long)out, (long long)groups);
  return NULL;
}

dp_status *dp_conv_plan(const dp_conv_state *state, const dp_shape *input, const dp_shape *filter,
                        dp_conv *conv_out, dp_shape *output_out) {
  DP_RETURN_IF_ERROR(check_shapes(state, input, filter));
  int rank = state->attrs.rank, spatial = rank - 2;
  dp_conv conv = {.dtype = state->work,
                  .batch = input->dims[0],
                  .in_channels = input->dims[rank - 1],
                  .out_channels = filter->dims[rank - 1]};
  conv.groups = conv.in_channels > 0 ? conv.in_channels / filter->dims[rank - 2] : 1;
  int64_t dims[5] = {conv.batch};
  for (int i = 0; i < DP_WINDOW_DIMS; ++i) {
    int axis = i - (DP_WINDOW_DIMS - spatial);
    if (axis < 0) {
      conv.dims[i] = (dp_window){1, 1, 1, 1, 1, 0, 1};
      continue;
    }
    DP_RETURN_IF_ERROR(
        dp_window_plan(&state->attrs, i, input->dims[axis + 1], filter->dims[axis], &conv.dims[i]));
    dims[axis + 1] = conv.dims[i].out;
  }
  dims[rank - 1] = conv.out_channels;
  DP_RETURN_IF_ERROR(dp_shape_make(rank, dims, output_out));
  *conv_out = conv;
  return NULL;
}

/* ---- One direction, whatever the dtype ---- */
dp_status *dp_conv_run(dp_op_context *context, const dp_conv_state *state, const dp_conv *conv,
                       dp_conv_direction_fn direction, const dp_tensor *first,
                       const dp_tensor *second, const dp_shape *shape) {
  dp_tensor *output;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, shape, &output));
  if (shape->elements == 0)
    return NULL;
  const void *first_data, *second_data;
  dp_buffer *first_buffer = NULL, *second_buffer = NULL, *result = NULL;
  dp_status *status;
  DP_GOTO_IF_ERROR(status, done,
                   dp_gemm_widen(context, first, state->work, &first_data, &first_buffer));
  DP_GOTO_IF_ERROR(status, done,
                   dp_gemm_widen(context, second, state->work, &second_data, &second_buffer));
  if (state->dtype == state->work) {
    status = direction(context, conv, first_data, second_data, output->data);
    goto done;
  }
  DP_GOTO_IF_ERROR(status, done,
                   dp_buffer_create((size_t)shape->elements * sizeof(float), &result));
  DP_GOTO_IF_ERROR(status, done, direction(context, conv, first_data, second_data, result->data));
  dp_gemm_narrow(context, result->data, output);
done:
  dp_buffer_release(first_buffer);
  dp_buffer_release(second_buffer);
  dp_buffer_release(result);
  return status;
}

static dp_status *conv_compute(dp_op_context *context, void *memory) {
  const dp_conv_state *state = memory;
  const dp_tensor *input = dp_op_input(context, 0), *filter = dp_op_input(context, 1);
  dp_conv conv;
  dp_shape shape;
  DP_RETURN_IF_ERROR(dp_conv_plan(state, &input->shape, &filter->shape, &conv, &shape));
  return dp_conv_run(context, state, &conv, dp_conv_forward, input, filter, &shape);
}

/* ---- Gradients ---- */
/* TensorFlow's 3-D kernels look at ranks and depths before they share a check with the 2-D ones. */
static dp_status *check_solid(const dp_shape *input, const dp_shape *filter,
                              const dp_shape *gradient) {
  const dp_shape *shapes[] = {input, filter, gradient};
  static const char *const names[] = {"input", "filter_sizes", "out_backprop"};
  for (int i = 0; i < 3; ++i)
    if (shapes[i]->rank != 5)
      return DP_INVALID("%s tensor must have 5 dimensions", names[i]);
  if (input->dims[4] != filter->dims[3])
    return DP_INVALID("input and filter_sizes must have the same number of channels. Got %lld for "
                      "input and %lld for filter_sizes",
                      (long long)input->dims[4], (long long)filter->dims[3]);
  if (gradient->dims[4] != filter->dims[4])
    return DP_INVALID("out_backprop and filter_sizes must have the same number of channels. Got "
                      "%lld for out_backprop and %lld for filter_sizes",
                      (long long)gradient->dims[4], (long long)filter->dims[4]);
  return NULL;
}

/* Of ranks, batch and depths; before the plan, whose checks word them as the forward op does.
 * `op` is what TensorFlow calls its kernel. */
static dp_status *check_depths(const dp_conv_state *state, const char *op, const dp_shape *input,
                               const dp_shape *filter, const dp_shape *gradient) {
  int rank = state->attrs.rank;
  if (rank == 5)
    DP_RETURN_IF_ERROR(check_solid(input, filter, gradient));
  const dp_shape *shapes[] = {input, filter, gradient};
  static const char *const names[] = {"input", "filter", "out_backprop"};
  for (int i = 0; i < 3; ++i)
    if (shapes[i]->rank != rank)
      return DP_INVALID("%s: %s must be %d-dimensional", op, names[i], rank);
  if (gradient->dims[0] != input->dims[0])
    return DP_INVALID("%s: input and out_backprop must have the same batch size. Input batch: "
                      "%lld, outbackprop batch: %lld, batch_dim: 0",
                      op, (long long)input->dims[0], (long long)gradient->dims[0]);
  if (filter->dims[rank - 2] <= 0)
    return DP_INVALID("%s: filter depth must be strictly greated than zero", op);
  if (input->dims[rank - 1] % filter->dims[rank - 2] != 0)
    return DP_INVALID("%s: input depth must be evenly divisible by filter depth", op);
  if (gradient->dims[rank - 1] != filter->dims[rank - 1])
    return DP_INVALID("%s: filter and out_backprop must have the same out_depth", op);
  return NULL;
}

static dp_status *check_gradient(const dp_conv_state *state, const char *op, const dp_conv *conv,
                                 const dp_shape *wanted, const dp_shape *gradient) {
  int rank = state->attrs.rank;
  for (int i = 1; i < rank - 1; ++i) {
    const dp_window *window = &conv->dims[DP_WINDOW_DIMS - (rank - 2) + i - 1];
    if (gradient->dims[i] != wanted->dims[i])
      return DP_INVALID("%s: Size of out_backprop doesn't match computed: actual = %lld, computed "
                        "= %lld spatial_dim: %d input: %lld filter: %lld output: %lld stride: "
                        "%lld dilation: %lld",
                        op, (long long)gradient->dims[i], (long long)wanted->dims[i], i,
                        (long long)window->in, (long long)window->size,
                        (long long)gradient->dims[i], (long long)window->stride,
                        (long long)window->dilation);
  }
  return NULL;
}

/* The shape that input 0 of a gradient stands for: sizes as integers, all of them or only the
 * spatial ones; or, in the first 3-D gradients, a tensor of that shape. */
static dp_status *read_input_shape(dp_op_context *context, const dp_conv_state *state,
                                   const dp_shape *filter, const dp_shape *gradient,
                                   dp_shape *shape_out) {
  const dp_tensor *sizes = dp_op_input(context, 0);
  int rank = state->attrs.rank;
  if (dp_node_is(context->node, "Conv3DBackpropInput")) {
    *shape_out = sizes->shape;
    return NULL;
  }
  if (rank == 5)
    return dp_kernel_make_shape(sizes, shape_out);
  if (gradient->rank != 4)
    return DP_INVALID("input_sizes must be 4-dimensional, got: %d", gradient->rank);
  if (sizes->shape.rank != 1)
    return DP_INVALID("Conv2DBackpropInput: input_sizes input must be 1-dim, not %d",
                      sizes->shape.rank);
  if (sizes->shape.dims[0] == 2 && filter->rank == 4) {
    if (dp_tensor_int_at(sizes, 0) < 0 || dp_tensor_int_at(sizes, 1) < 0)
      return DP_INVALID("Conv2DBackpropInput: elements of input_sizes must be >= 0, not %lldx%lld",
                        (long long)dp_tensor_int_at(sizes, 0),
                        (long long)dp_tensor_int_at(sizes, 1));
    int64_t dims[] = {gradient->dims[0], dp_tensor_int_at(sizes, 0), dp_tensor_int_at(sizes, 1),
                      filter->dims[2]};
    return dp_shape_make(4, dims, shape_out);
  }
  if (sizes->shape.dims[0] != 4)
    return DP_INVALID("Conv2DBackpropInput requires input_sizes to contain 4 values or 2 values, "
                      "but got: %lld",
                      (long long)sizes->shape.dims[0]);
  return dp_kernel_read_shape(sizes, "input_sizes", shape_out);
}

static dp_status *input_gradient_compute(dp_op_context *context, void *memory) {
  const dp_conv_state *state = memory;
  const dp_tensor *filter = dp_op_input(context, 1), *gradient = dp_op_input(context, 2);
  dp_conv conv;
  dp_shape shape, output;
  const char *op = state->attrs.rank == 4 ? "Conv2DCustomBackpropInput" : "Conv3DBackpropInputOp";
  DP_RETURN_IF_ERROR(read_input_shape(context, state, &filter->shape, &gradient->shape, &shape));
  DP_RETURN_IF_ERROR(check_depths(state, op, &shape, &filter->shape, &gradient->shape));
  DP_RETURN_IF_ERROR(dp_conv_plan(state, &shape, &filter->shape, &conv, &output));
  DP_RETURN_IF_ERROR(check_gradient(state, op, &conv, &output, &gradient->shape));
  return dp_conv_run(context, state, &conv, dp_conv_input_gradient, filter, gradient, &shape);
}

static dp_status *read_filter_shape(dp_op_context *context, const dp_conv_state *state,
                                    const char *op, dp_shape *shape_out) {
  const dp_tensor *sizes = dp_op_input(context, 1);
  if (dp_node_is(context->node, "Conv3DBackpropFilter")) {
    *shape_out = sizes->shape;
    return NULL;
  }
  bool is_flat = state->attrs.rank == 4;
  if (sizes->shape.rank != 1)
    return is_flat
               ? DP_INVALID("%s: filter_sizes input must be 1-dim, not %d", op, sizes->shape.rank)
               : DP_INVALID("filter_sizes shape must be rank 1 but is rank %d", sizes->shape.rank);
  return dp_kernel_read_shape(sizes, "filter_sizes", shape_out);
}

static dp_status *filter_gradient_compute(dp_op_context *context, void *memory) {
  const dp_conv_state *state = memory;
  const dp_tensor *input = dp_op_input(context, 0), *gradient = dp_op_input(context, 2);
  dp_conv conv;
  dp_shape shape, output;
  const char *op = state->attrs.rank == 4 ? "Conv2DCustomBackpropFilter" : "Conv3DBackpropFilterOp";
  DP_RETURN_IF_ERROR(read_filter_shape(context, state, op, &shape));
  DP_RETURN_IF_ERROR(check_depths(state, op, &input->shape, &shape, &gradient->shape));
  DP_RETURN_IF_ERROR(dp_conv_plan(state, &input->shape, &shape, &conv, &output));
  DP_RETURN_IF_ERROR(check_gradient(state, op, &conv, &output, &gradient->shape));
  return dp_conv_run(context, state, &conv, dp_conv_filter_gradient, input, gradient, &shape);
}

#define ROW(name, set, compute_fn)                                                                 \
  {                                                                                                \
    .op = name, .types = {{"T", set}}, .state_size = sizeof(dp_conv_state),                        \
    .create = dp_conv_create, .compute = compute_fn                                                \
  }
static const dp_kernel rows[] = {
    ROW("Conv2D", DP_SET_FLOATS | DP_SET(INT32), conv_compute),
    ROW("Conv2DBackpropInput", DP_SET_FLOATS | DP_SET(INT32), input_gradient_compute),
    ROW("Conv2DBackpropFilter", DP_SET_FLOATS, filter_gradient_compute),
    ROW("Conv3D", DP_SET_FLOATS, conv_compute),
    ROW("Conv3DBackpropInput", DP_SET_FLOATS, input_gradient_compute),
    ROW("Conv3DBackpropInputV2", DP_SET_FLOATS, input_gradient_compute),
    ROW("Conv3DBackpropFilter", DP_SET_FLOATS, filter_gradient_compute),
    ROW("Conv3DBackpropFilterV2", DP_SET_FLOATS, filter_gradient_compute),
};
DP_KERNEL_FAMILY(conv, rows);
