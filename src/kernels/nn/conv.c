/* Conv2D and Conv3D with their gradients: the ops check their inputs and call the convolutions of
 * products/conv.h. Unlike TensorFlow's CPU kernels, the gradients accept dilations and groups. */
#include "kernels/shared/family.h"

#include "kernels/products/conv.h"
#include "kernels/shared/support.h"

static dp_status *conv_compute(dp_op_context *context, void *memory) {
  const dp_conv_state *state = memory;
  const dp_tensor *input = dp_op_input(context, 0), *filter = dp_op_input(context, 1);
  dp_conv conv;
  dp_shape shape;
  DP_RETURN_IF_ERROR(dp_conv_plan(state, &input->shape, &filter->shape, &conv, &shape));
  return dp_conv_run(context, state, &conv, dp_conv_forward, input, filter, &shape);
}

/* ---- Gradients ---- */
/* The 3-D kernels of TensorFlow check ranks and depths before the check that they share with the
 * 2-D ones. */
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

/* Checks ranks, batch and depths. It comes before the plan, because the plan's errors have the
 * words of the forward op. `op` is TensorFlow's name of the kernel. */
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

/* The input shape of a gradient, from input 0: a vector of sizes, all of them or only the spatial
 * ones; or, in the first version of the 3-D gradients, a tensor of that shape. */
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
