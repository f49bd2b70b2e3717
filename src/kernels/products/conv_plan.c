/* Makes a dp_conv from the attributes of a node and the shapes of its inputs, and runs a direction
 * with 16-bit floats widened before and narrowed after. Like TensorFlow on a CPU, it accepts only
 * the channels-last layout. The contracts are in conv.h. */
#include "kernels/products/conv.h"

#include <string.h>
#include "kernels/shared/widen.h"

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
  state->work = dp_kernel_work_type(state->dtype);
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
                   dp_kernel_widen_tensor(context, first, state->work, &first_data, &first_buffer));
  DP_GOTO_IF_ERROR(
      status, done,
      dp_kernel_widen_tensor(context, second, state->work, &second_data, &second_buffer));
  if (state->dtype == state->work) {
    status = direction(context, conv, first_data, second_data, output->data);
    goto done;
  }
  DP_GOTO_IF_ERROR(status, done,
                   dp_buffer_create((size_t)shape->elements * sizeof(float), &result));
  DP_GOTO_IF_ERROR(status, done, direction(context, conv, first_data, second_data, result->data));
  dp_kernel_narrow_tensor(context, result->data, output);
done:
  dp_buffer_release(first_buffer);
  dp_buffer_release(second_buffer);
  dp_buffer_release(result);
  return status;
}
