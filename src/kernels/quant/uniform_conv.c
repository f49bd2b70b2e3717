/* Convolutions of uniformly quantized tensors: UniformQuantizedConvolution, whose result is
 * quantized too, and UniformQuantizedConvolutionHybrid, which quantizes each float image first.
 * Codes minus their zero points are integers, and padding is 0 among them. Elements of the result
 * are split over the pool. */
#include <string.h>
#include "base/memory.h"
#include "kernels/quant/uniform_internal.h"
#include "kernels/quant/uniform_window_internal.h"
#include "kernels/shared/family.h"

typedef struct conv_state {
  dp_uniform_window window;
  int64_t rhs_axis, output_axis;
  dp_uniform_limits limits;
} conv_state;

static dp_status *hybrid_create(const dp_kernel_setup *setup, void *memory) {
  conv_state *state = memory;
  DP_RETURN_IF_ERROR(dp_kernel_get_int32(setup->node, "rhs_quantization_axis", &state->rhs_axis));
  return dp_uniform_window_read(setup->node, &state->window);
}

static dp_status *conv_create(const dp_kernel_setup *setup, void *memory) {
  conv_state *state = memory;
  const dp_node *node = setup->node;
  int64_t axis;
  DP_RETURN_IF_ERROR(dp_uniform_window_read(node, &state->window));
  DP_RETURN_IF_ERROR(dp_uniform_limits_read(node, "output_", &state->limits));
  DP_RETURN_IF_ERROR(dp_kernel_get_int32(node, "lhs_quantization_axis", &axis));
  if (axis != -1)
    return DP_INVALID("lhs_quantization_axis Attr must be -1 (per-tensor).");
  DP_RETURN_IF_ERROR(dp_kernel_get_int32(node, "rhs_quantization_axis", &state->rhs_axis));
  return dp_kernel_get_int32(node, "output_quantization_axis", &state->output_axis);
}

/* ---- Sums of products ---- */
typedef struct sum_call {
  const dp_uniform_conv *conv;
  const int32_t *lhs, *rhs;
  void *sums; /* int32_t, where the result will be */
} sum_call;

/* An element of the result: its image, feature and spatial place. */
typedef struct place {
  int64_t batch, feature, spatial[DP_MAX_RANK];
} place;

static place place_of(const dp_uniform_conv *conv, int64_t element) {
  const dp_uniform_layout *out = &conv->out;
  place place = {.batch = element / out->batch_step % out->batches,
                 .feature = element / out->feature_step % out->features};
  for (int i = 0; i < conv->rank; ++i)
    place.spatial[i] = element / out->steps[i] % out->sizes[i];
  return place;
}

/* Where a place of the window reads the image, from its beginning; -1 in padding and gaps. */
static int64_t read_at(const dp_uniform_conv *conv, const place *to, const int64_t *window) {
  int64_t at = 0;
  for (int i = 0; i < conv->rank; ++i) {
    int64_t wide =
        to->spatial[i] * conv->strides[i] + window[i] * conv->rhs_dilation[i] - conv->before[i];
    int64_t place = wide / conv->lhs_dilation[i];
    if (wide < 0 || wide % conv->lhs_dilation[i] || place >= conv->lhs.sizes[i])
      return -1;
    at += place * conv->lhs.steps[i];
  }
  return at;
}

/* The next place of a window; false after the last one. */
static bool step_window(const dp_uniform_conv *conv, int64_t *window, int64_t *at) {
  for (int i = conv->rank - 1; i >= 0; --i) {
    *at += conv->rhs.steps[i];
    if (++window[i] < conv->rhs.sizes[i])
      return true;
    *at -= conv->rhs.sizes[i] * conv->rhs.steps[i];
    window[i] = 0;
  }
  return false;
}

static int64_t image_of(const dp_uniform_conv *conv, const place *to) {
  return to->feature / (conv->out.features / conv->batch_groups) * conv->out.batches + to->batch;
}

static uint32_t sum_products(const sum_call *call, const place *to) {
  const dp_uniform_conv *conv = call->conv;
  int64_t group = to->feature / (conv->out.features / conv->feature_groups);
  const int32_t *image = call->lhs + image_of(conv, to) * conv->lhs.batch_step +
                         group * conv->rhs.features * conv->lhs.feature_step;
  const int32_t *filter = call->rhs + to->feature * conv->rhs.batch_step;
  int64_t window[DP_MAX_RANK] = {0}, at = 0;
  uint32_t sum = 0;
  do {
    int64_t from = read_at(conv, to, window);
    for (int64_t i = 0; from >= 0 && i < conv->rhs.features; ++i)
      sum += (uint32_t)image[from + i * conv->lhs.feature_step] *
             (uint32_t)filter[at + i * conv->rhs.feature_step];
  } while (step_window(conv, window, &at));
  return sum;
}

static void sum_range(void *arg, int64_t begin, int64_t end) {
  const sum_call *call = arg;
  for (int64_t i = begin; i < end; ++i) {
    place to = place_of(call->conv, i);
    uint32_t sum = sum_products(call, &to);
    memcpy((char *)call->sums + i * (int64_t)sizeof sum, &sum, sizeof sum);
  }
}

static void convolve(dp_op_context *context, const dp_uniform_conv *conv, dp_tensor wide[2],
                     dp_tensor *output) {
  sum_call call = {conv, wide[0].data, wide[1].data, output->data};
  int64_t window = wide[1].shape.elements / (conv->rhs.batches ? conv->rhs.batches : 1);
  if (wide[1].shape.elements > 0)
    dp_op_for(context, output->shape.elements, 2 * window + 20, sum_range, &call);
  else
    memset(output->data, 0, dp_tensor_bytes(output));
}

/* ---- Checks ---- */
static dp_status *check_kernel(const conv_state *state, const dp_uniform_conv *conv,
                               const dp_uniform *uniform, const dp_shape *rhs) {
  if (state->rhs_axis != -1 && state->rhs_axis != conv->kernel.batch)
    return DP_INVALID("rhs_quantization_axis Attr must be -1 (per-tensor) or "
                      "dimension_numbers.kernel_output_feature_dimension (per-channel).");
  return dp_uniform_check(uniform, rhs);
}

static dp_status *check_signs(const dp_uniform *lhs, const dp_uniform *rhs,
                              const dp_uniform *output) {
  if (!dp_uniform_is_positive(lhs))
    return DP_INVALID("lhs scales elements must be all positive.");
  if (!dp_uniform_is_positive(rhs))
    return DP_INVALID("rhs scales elements must be all positive.");
  if (!dp_uniform_is_positive(output))
    return DP_INVALID("output scales elements must be all positive.");
  return NULL;
}

static dp_status *check_whole(const dp_uniform *lhs) {
  if (!dp_shape_equal(&lhs->scales->shape, &lhs->zeros->shape) || lhs->scales->shape.rank != 0)
    return DP_INVALID("lhs scales/zero_points must be all scalar tensors. Given: %s%s",
                      dp_shape_text(&lhs->scales->shape), dp_shape_text(&lhs->zeros->shape));
  return NULL;
}

static dp_status *check_output(const conv_state *state, dp_uniform_conv *conv,
                               const dp_uniform *rhs, const dp_uniform *output) {
  if (state->output_axis != -1 && state->output_axis != conv->output.feature)
    return DP_INVALID("output_quantization_axis Attr must be -1 (per-tensor) or "
                      "dimension_numbers.output_feature_dimension (per-channel).");
  DP_RETURN_IF_ERROR(dp_uniform_conv_shape(conv));
  DP_RETURN_IF_ERROR(dp_uniform_check(output, &conv->shape));
  if (rhs->axis < 0 && output->axis >= 0)
    return DP_INVALID("If rhs is per-tensor quantized, output must be also per-tensor quantized. "
                      "Given output scales/zero_points of rank %d",
                      output->scales->shape.rank);
  return NULL;
}

/* ---- UniformQuantizedConvolution ---- */
typedef struct conv_call {
  dp_uniform lhs, rhs, output;
  dp_uniform_conv conv;
  dp_tensor wide[2];
} conv_call;

static dp_status *scale_features(const conv_call *call, const dp_uniform_limits *limits,
                                 dp_tensor *output) {
  int64_t features = call->conv.out.features;
  dp_uniform_factor *factors = dp_try_malloc((size_t)(features + 1) * sizeof *factors);
  if (!factors)
    return dp_status_out_of_memory();
  dp_status *status = NULL;
  for (int64_t i = 0; i < features && !status; ++i)
    status = dp_uniform_factor_make((double)dp_uniform_scale(&call->lhs, 0) *
                                        (double)dp_uniform_scale(&call->rhs, i) /
                                        (double)dp_uniform_scale(&call->output, i),
                                    &factors[i]);
  int32_t *codes = output->data;
  for (int64_t i = 0; i < output->shape.elements && !status; ++i) {
    int64_t feature = i / call->conv.out.feature_step % features;
    codes[i] =
        dp_uniform_limit(limits, dp_uniform_plus(dp_uniform_multiply(codes[i], factors[feature]),
                                                 dp_uniform_zero(&call->output, feature)));
  }
  dp_free(factors);
  return status;
}

static dp_status *run_conv(dp_op_context *context, const conv_state *state, conv_call *call) {
  const dp_tensor *lhs = dp_op_input(context, 0), *rhs = dp_op_input(context, 1);
  dp_tensor *output;
  DP_RETURN_IF_ERROR(check_signs(&call->lhs, &call->rhs, &call->output));
  DP_RETURN_IF_ERROR(dp_uniform_conv_plan(&state->window, &lhs->shape, &rhs->shape, &call->conv));
  DP_RETURN_IF_ERROR(check_whole(&call->lhs));
  DP_RETURN_IF_ERROR(check_kernel(state, &call->conv, &call->rhs, &rhs->shape));
  DP_RETURN_IF_ERROR(check_output(state, &call->conv, &call->rhs, &call->output));
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &call->conv.shape, &output));
  DP_RETURN_IF_ERROR(dp_uniform_center(lhs, &call->lhs, &call->wide[0]));
  DP_RETURN_IF_ERROR(dp_uniform_center(rhs, &call->rhs, &call->wide[1]));
  convolve(context, &call->conv, call->wide, output);
  return scale_features(call, &state->limits, output);
}

static dp_status *conv_compute(dp_op_context *context, void *memory) {
  const conv_state *state = memory;
  conv_call call = {.lhs = dp_uniform_input(context, 2, -1),
                    .rhs = dp_uniform_input(context, 4, state->rhs_axis),
                    .output = dp_uniform_input(context, 6, state->output_axis)};
  dp_status *status = run_conv(context, state, &call);
  dp_tensor_deinit(&call.wide[0]);
  dp_tensor_deinit(&call.wide[1]);
  return status;
}

/* ---- UniformQuantizedConvolutionHybrid ---- */
static void scale_images(const conv_call *call, const float *scales, dp_tensor *output) {
  float *values = output->data;
  for (int64_t i = 0; i < output->shape.elements; ++i) {
    place to = place_of(&call->conv, i);
    int32_t sum; /* where the value will be */
    memcpy(&sum, &values[i], sizeof sum);
    values[i] =
        (float)sum * scales[image_of(&call->conv, &to)] * dp_uniform_scale(&call->rhs, to.feature);
  }
}

static dp_status *run_hybrid(dp_op_context *context, const conv_state *state, conv_call *call,
                             float **scales) {
  const dp_tensor *lhs = dp_op_input(context, 0), *rhs = dp_op_input(context, 1);
  dp_tensor *output;
  if (!dp_uniform_is_positive(&call->rhs))
    return DP_INVALID("rhs scales elements must be all positive.");
  DP_RETURN_IF_ERROR(dp_uniform_conv_plan(&state->window, &lhs->shape, &rhs->shape, &call->conv));
  DP_RETURN_IF_ERROR(check_kernel(state, &call->conv, &call->rhs, &rhs->shape));
  DP_RETURN_IF_ERROR(dp_uniform_conv_shape(&call->conv));
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &call->conv.shape, &output));
  *scales = dp_try_malloc((size_t)(call->conv.lhs.batches + 1) * sizeof(float));
  if (!*scales)
    return dp_status_out_of_memory();
  DP_RETURN_IF_ERROR(
      dp_uniform_center_floats(lhs, call->conv.input.batch, &call->wide[0], *scales));
  DP_RETURN_IF_ERROR(dp_uniform_center(rhs, &call->rhs, &call->wide[1]));
  convolve(context, &call->conv, call->wide, output);
  scale_images(call, *scales, output);
  return NULL;
}

static dp_status *hybrid_compute(dp_op_context *context, void *memory) {
  const conv_state *state = memory;
  conv_call call = {.rhs = dp_uniform_input(context, 2, state->rhs_axis)};
  float *scales = NULL;
  dp_status *status = run_hybrid(context, state, &call, &scales);
  dp_free(scales);
  dp_tensor_deinit(&call.wide[0]);
  dp_tensor_deinit(&call.wide[1]);
  return status;
}

static const dp_kernel rows[] = {
    {.op = "UniformQuantizedConvolution",
     .types = {{"Tin", DP_SET(QINT8)}, {"Tout", DP_SET(QINT32)}},
     .state_size = sizeof(conv_state),
     .create = conv_create,
     .compute = conv_compute},
    {.op = "UniformQuantizedConvolutionHybrid",
     .types = {{"Tlhs", DP_SET(FLOAT)}, {"Trhs", DP_SET(QINT8)}, {"Tout", DP_SET(FLOAT)}},
     .state_size = sizeof(conv_state),
     .create = hybrid_create,
     .compute = hybrid_compute},
};
DP_KERNEL_FAMILY(uniform_conv, rows);
