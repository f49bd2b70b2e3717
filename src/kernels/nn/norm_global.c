/* BatchNormWithGlobalNormalization and its gradient, TensorFlow's first batch normalization. The
 * mean and the variance of each channel (the last dimension) are inputs. Computed in double; sums
 * over a channel are made row by row. */
#include "kernels/shared/family.h"

#include <math.h>

typedef struct global_norm_state {
  dp_dtype dtype;
  float epsilon;
  bool scales; /* whether gamma is applied */
} global_norm_state;

static dp_status *norm_create(const dp_kernel_setup *setup, void *memory) {
  global_norm_state *state = memory;
  DP_RETURN_IF_ERROR(dp_node_get_type(setup->node, "T", &state->dtype));
  DP_RETURN_IF_ERROR(dp_node_get_float(setup->node, "variance_epsilon", &state->epsilon));
  return dp_node_get_bool(setup->node, "scale_after_normalization", &state->scales);
}

static double get(const dp_tensor *tensor, int64_t at) {
  if (tensor->dtype == DP_FLOAT)
    return (double)((const float *)tensor->data)[at];
  if (tensor->dtype == DP_DOUBLE)
    return ((const double *)tensor->data)[at];
  return (double)dp_half_to_float(((const uint16_t *)tensor->data)[at]);
}

static void set(dp_tensor *tensor, int64_t at, double value) {
  if (tensor->dtype == DP_FLOAT)
    ((float *)tensor->data)[at] = (float)value;
  else if (tensor->dtype == DP_DOUBLE)
    ((double *)tensor->data)[at] = value;
  else
    ((uint16_t *)tensor->data)[at] = dp_half_from_float((float)value);
}

/* Checks the rank of input `slot`; vectors must have one number per channel. */
static dp_status *check(dp_op_context *context, int32_t slot, const char *name, int rank) {
  const dp_shape *shape = &dp_op_input(context, slot)->shape;
  const dp_shape *input = &dp_op_input(context, 0)->shape;
  if (shape->rank != rank)
    return DP_INVALID("%s must be %d-dimensional%s", name, rank, dp_shape_text(shape));
  if (rank == 1 && shape->dims[0] != input->dims[3])
    return DP_INVALID("%s must have %lld elements, one for each channel, but has shape %s", name,
                      (long long)input->dims[3], dp_shape_text(shape));
  return NULL;
}

/* ---- Forward ---- */
typedef struct norm_call {
  const dp_tensor *input;
  dp_tensor *output;
  const double *factor, *shift; /* one value per channel */
  int64_t channels;
} norm_call;

static void scale_rows(void *arg, int64_t begin, int64_t end) {
  const norm_call *call = arg;
  for (int64_t row = begin; row < end; ++row) {
    for (int64_t i = 0, at = row * call->channels; i < call->channels; ++i, ++at)
      set(call->output, at, get(call->input, at) * call->factor[i] + call->shift[i]);
  }
}

/* A table with `count` doubles per channel. */
static dp_status *make_table(int64_t channels, size_t count, dp_buffer **buffer_out) {
  return dp_buffer_create((size_t)channels * count * sizeof(double), buffer_out);
}

static dp_status *norm_compute(dp_op_context *context, void *memory) {
  const global_norm_state *state = memory;
  static const char *const names[] = {"input", "mean", "var", "beta", "gamma"};
  for (int32_t i = 0; i < 5; ++i)
    DP_RETURN_IF_ERROR(check(context, i, names[i], i ? 1 : 4));
  const dp_tensor *input = dp_op_input(context, 0);
  int64_t channels = input->shape.dims[3];
  dp_tensor *output;
  dp_buffer *table;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &input->shape, &output));
  DP_RETURN_IF_ERROR(make_table(channels, 2, &table));
  double *factor = table->data, *shift = factor + channels;
  for (int64_t i = 0; i < channels; ++i) {
    double gamma = state->scales ? get(dp_op_input(context, 4), i) : 1;
    factor[i] = gamma / sqrt(get(dp_op_input(context, 2), i) + (double)state->epsilon);
    shift[i] = get(dp_op_input(context, 3), i) - get(dp_op_input(context, 1), i) * factor[i];
  }
  norm_call call = {input, output, factor, shift, channels};
  dp_op_for(context, channels ? input->shape.elements / channels : 0, channels * 2, scale_rows,
            &call);
  dp_buffer_release(table);
  return NULL;
}

/* ---- Gradient ---- */
/* Sums over all pixels, per channel: the gradient, and the gradient times (input - mean). */
static void sum_channels(dp_op_context *context, double *sums, double *products) {
  const dp_tensor *input = dp_op_input(context, 0), *gradient = dp_op_input(context, 4);
  int64_t channels = input->shape.dims[3];
  for (int64_t i = 0; i < channels; ++i)
    sums[i] = products[i] = 0;
  for (int64_t at = 0; at < input->shape.elements;) {
    for (int64_t i = 0; i < channels; ++i, ++at) {
      double g = get(gradient, at);
      sums[i] += g;
      products[i] += g * (get(input, at) - get(dp_op_input(context, 1), i));
    }
  }
}

static dp_status *allocate_gradients(dp_op_context *context, dp_tensor **outputs) {
  for (int32_t i = 0; i < 5; ++i)
    DP_RETURN_IF_ERROR(
        dp_op_allocate(context, i, &dp_op_input(context, i ? 1 : 0)->shape, &outputs[i]));
  return NULL;
}

static dp_status *check_gradient(dp_op_context *context) {
  static const char *const names[] = {"input", "mean", "var", "gamma", "out_backprop"};
  const dp_tensor *input = dp_op_input(context, 0), *gradient = dp_op_input(context, 4);
  for (int32_t i = 0; i < 5; ++i)
    DP_RETURN_IF_ERROR(check(context, i, names[i], i % 4 ? 1 : 4));
  if (!dp_shape_equal(&input->shape, &gradient->shape))
    return DP_INVALID("input and out_backprop must have the same shape, but have %s and %s",
                      dp_shape_text(&input->shape), dp_shape_text(&gradient->shape));
  return NULL;
}

static dp_status *gradient_compute(dp_op_context *context, void *memory) {
  const global_norm_state *state = memory;
  dp_tensor *outputs[5];
  DP_RETURN_IF_ERROR(check_gradient(context));
  DP_RETURN_IF_ERROR(allocate_gradients(context, outputs));
  int64_t channels = dp_op_input(context, 0)->shape.dims[3];
  dp_buffer *table;
  DP_RETURN_IF_ERROR(make_table(channels, 4, &table));
  double *sums = table->data, *products = sums + channels;
  double *factor = products + channels, *shift = factor + channels;
  sum_channels(context, sums, products);
  for (int64_t i = 0; i < channels; ++i) {
    double variance = get(dp_op_input(context, 2), i) + (double)state->epsilon;
    double gamma = state->scales ? get(dp_op_input(context, 3), i) : 1;
    factor[i] = gamma / sqrt(variance);
    shift[i] = 0;
    set(outputs[1], i, -sums[i] * factor[i]);
    set(outputs[2], i, products[i] * -0.5 * factor[i] / variance);
    set(outputs[3], i, sums[i]);
    set(outputs[4], i, state->scales ? products[i] / sqrt(variance) : 0);
  }
  norm_call call = {dp_op_input(context, 4), outputs[0], factor, shift, channels};
  dp_op_for(context, channels ? outputs[0]->shape.elements / channels : 0, channels * 2, scale_rows,
            &call);
  dp_buffer_release(table);
  return NULL;
}

#define NORM(name, body)                                                                           \
  {                                                                                                \
    .op = name, .types = {{"T", DP_SET(HALF) | DP_SET(FLOAT) | DP_SET(DOUBLE)}},                   \
    .state_size = sizeof(global_norm_state), .create = norm_create, .compute = body                \
  }
static const dp_kernel rows[] = {
    NORM("BatchNormWithGlobalNormalization", norm_compute),
    NORM("BatchNormWithGlobalNormalizationGrad", gradient_compute),
};
DP_KERNEL_FAMILY(norm_global, rows);
