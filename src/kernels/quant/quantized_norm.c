/* Normalization of quantized images. QuantizedBatchNormWithGlobalNormalization takes mean and
 * variance as inputs and computes in fixed point. QuantizedInstanceNorm computes them per image and
 * channel, in floats. */
#include <math.h>
#include "base/memory.h"
#include "kernels/quant/quantized_internal.h"
#include "kernels/shared/family.h"

/* ---- QuantizedBatchNormWithGlobalNormalization ---- */
typedef struct batch_state {
  float epsilon;
  bool scales;
} batch_state;

/* Inputs 0, 3, 6, … with their ranges behind them. */
enum { IMAGES, MEAN, VARIANCE, BETA, GAMMA, OPERANDS };
typedef struct batch_call {
  const dp_tensor *tensors[OPERANDS];
  dp_quantized_range ranges[OPERANDS];
} batch_call;

static dp_status *batch_create(const dp_kernel_setup *setup, void *memory) {
  batch_state *state = memory;
  DP_RETURN_IF_ERROR(dp_node_get_float(setup->node, "variance_epsilon", &state->epsilon));
  return dp_node_get_bool(setup->node, "scale_after_normalization", &state->scales);
}

static const char *const batch_names[OPERANDS] = {"input", "mean", "var", "beta", "gamma"};

static dp_status *batch_read(const dp_op_context *context, batch_call *call) {
  for (int32_t i = 0; i < OPERANDS; ++i) {
    for (int32_t j = 0; j < 2; ++j)
      if (dp_op_input(context, 3 * i + 1 + j)->shape.elements != 1)
        return DP_INVALID("%s_%s must have 1 element", batch_names[i], j ? "max" : "min");
    call->tensors[i] = dp_op_input(context, 3 * i);
    DP_RETURN_IF_ERROR(dp_quantized_read_range(context, 3 * i + 1, &call->ranges[i]));
  }
  return NULL;
}

static dp_status *batch_check(const batch_call *call) {
  const dp_shape *images = &call->tensors[IMAGES]->shape, *mean = &call->tensors[MEAN]->shape;
  static const char *const long_names[OPERANDS] = {"", "", "variance", "beta", "gamma"};
  for (int i = 0; i < OPERANDS; ++i)
    if (call->tensors[i]->shape.rank != (i == IMAGES ? 4 : 1))
      return DP_INVALID("%s must be %d-dimensional%s", batch_names[i], i == IMAGES ? 4 : 1,
                        dp_shape_text(&call->tensors[i]->shape));
  if (mean->elements < 1)
    return DP_INVALID("Must have at least a mean value%s", dp_shape_text(mean));
  if (mean->dims[0] != images->dims[3])
    return DP_INVALID("Must provide as many means as the last dimension of the input tensor: %s "
                      "vs. %s",
                      dp_shape_text(mean), dp_shape_text(images));
  for (int i = VARIANCE; i < OPERANDS; ++i)
    if (!dp_shape_equal(mean, &call->tensors[i]->shape))
      return DP_INVALID("Mean and %s tensors must have the same shape: %s vs. %s", long_names[i],
                        dp_shape_text(mean), dp_shape_text(&call->tensors[i]->shape));
  return NULL;
}

static float batch_value(const batch_call *call, int operand, int64_t at) {
  const dp_tensor *tensor = call->tensors[operand];
  return dp_quantized_value(tensor->dtype, dp_quantized_load(tensor, at), call->ranges[operand]);
}

/* Wraps as TensorFlow's integers do. */
static int32_t multiply_codes(int64_t a, int64_t b, int64_t one) {
  return (int32_t)((uint32_t)a * (uint32_t)b) / (int32_t)one;
}

static void batch_channel(const batch_call *call, const batch_state *state, int64_t channel,
                          dp_quantized_range result, int32_t *to) {
  float scale = 1.0f / sqrtf(batch_value(call, VARIANCE, channel) + state->epsilon);
  if (state->scales)
    scale *= batch_value(call, GAMMA, channel);
  float offset = -batch_value(call, MEAN, channel) * scale + batch_value(call, BETA, channel);
  int64_t scale_code = dp_quantized_clamped(DP_QINT32, scale, result);
  int64_t offset_code = dp_quantized_clamped(DP_QINT32, offset, result);
  int64_t one = dp_quantized_clamped(DP_QINT32, 1, result);
  const dp_shape *shape = &call->tensors[IMAGES]->shape;
  for (int64_t i = channel; i < shape->elements; i += shape->dims[3]) {
    int64_t code = dp_quantized_clamped(DP_QINT32, batch_value(call, IMAGES, i), result);
    uint32_t product = (uint32_t)multiply_codes(code, scale_code, one);
    to[i] = (int32_t)(product + (uint32_t)offset_code);
  }
}

static dp_status *batch_compute(dp_op_context *context, void *memory) {
  batch_call call;
  dp_tensor *output;
  /* Ten bits behind the point. */
  dp_quantized_range result = {-(float)(1 << 20), (float)(1 << 20)};
  DP_RETURN_IF_ERROR(batch_read(context, &call));
  DP_RETURN_IF_ERROR(batch_check(&call));
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &call.tensors[IMAGES]->shape, &output));
  for (int64_t i = 0; i < call.tensors[MEAN]->shape.elements; ++i)
    batch_channel(&call, memory, i, result, output->data);
  return dp_quantized_write_range(context, 1, result);
}

/* ---- QuantizedInstanceNorm ---- */
typedef struct instance_state {
  float epsilon, separation;
  bool has_range;
  dp_quantized_range range;
} instance_state;

static dp_status *instance_create(const dp_kernel_setup *setup, void *memory) {
  instance_state *state = memory;
  const dp_node *node = setup->node;
  DP_RETURN_IF_ERROR(dp_node_get_float(node, "variance_epsilon", &state->epsilon));
  DP_RETURN_IF_ERROR(dp_node_get_float(node, "min_separation", &state->separation));
  DP_RETURN_IF_ERROR(dp_node_get_bool(node, "output_range_given", &state->has_range));
  DP_RETURN_IF_ERROR(dp_node_get_float(node, "given_y_min", &state->range.low));
  DP_RETURN_IF_ERROR(dp_node_get_float(node, "given_y_max", &state->range.high));
  if (state->has_range && !(state->range.low < state->range.high))
    return DP_INVALID("given_y_min must be less than given_y_max : %g >= %g",
                      (double)state->range.low, (double)state->range.high);
  return NULL;
}

static dp_status *instance_read(const dp_op_context *context, dp_quantized_range *range_out) {
  for (int32_t i = 1; i <= 2; ++i)
    if (dp_op_input(context, i)->shape.rank != 0)
      return DP_INVALID("`x_%s` must be rank 0 but is rank %d", i == 1 ? "min" : "max",
                        dp_op_input(context, i)->shape.rank);
  DP_RETURN_IF_ERROR(dp_quantized_read_range(context, 1, range_out));
  if (!(range_out->low < range_out->high))
    return DP_INVALID("input_min must be less than input_max : %g >= %g", (double)range_out->low,
                      (double)range_out->high);
  if (dp_op_input(context, 0)->shape.rank != 4)
    return DP_INVALID("x must be 4-dimensional%s", dp_shape_text(&dp_op_input(context, 0)->shape));
  return NULL;
}

/* One channel of one image: pixels are `stride` apart. */
typedef struct instance {
  const uint8_t *from;
  uint8_t *to;
  int64_t count, stride;
  float mean, scale, spread; /* spread: the last factor of the values */
} instance;

static void measure(instance *instance, float epsilon) {
  int64_t sum = 0;
  double squares = 0;
  for (int64_t i = 0; i < instance->count; ++i)
    sum += instance->from[i * instance->stride];
  instance->mean = (float)sum / (float)instance->count;
  for (int64_t i = 0; i < instance->count; ++i) {
    float value = instance->scale * ((float)instance->from[i * instance->stride] - instance->mean);
    squares += (double)(value * value);
  }
  instance->spread = 1.0f / sqrtf((float)(squares / (double)instance->count) + epsilon);
}

static float normalized(const instance *instance, int64_t at) {
  float centered = (float)instance->from[at * instance->stride] - instance->mean;
  return instance->scale * centered * instance->spread;
}

static void widen_range(const instance *instance, dp_quantized_range *range) {
  for (int64_t i = 0; i < instance->count; ++i) {
    range->low = fminf(range->low, normalized(instance, i));
    range->high = fmaxf(range->high, normalized(instance, i));
  }
}

static void store_codes(const instance *instance, const dp_quantized_map *map) {
  for (int64_t i = 0; i < instance->count; ++i)
    instance->to[i * instance->stride] =
        (uint8_t)dp_quantized_map_value(map, normalized(instance, i));
}

static instance *find_instances(const instance_state *state, const dp_tensor *input,
                                dp_tensor *output, dp_quantized_range range, int64_t *count_out) {
  int64_t area = input->shape.dims[1] * input->shape.dims[2], channels = input->shape.dims[3];
  int64_t count = area > 0 ? input->shape.dims[0] * channels : 0;
  instance *instances = dp_try_malloc((size_t)(count + 1) * sizeof(instance));
  for (int64_t i = 0; instances && i < count; ++i) {
    int64_t begin = i / channels * area * channels + i % channels;
    instances[i] = (instance){.from = (const uint8_t *)input->data + begin,
                              .to = (uint8_t *)output->data + begin,
                              .count = area,
                              .stride = channels,
                              .scale = (range.high - range.low) / 255.0f};
    measure(&instances[i], state->epsilon);
  }
  *count_out = count;
  return instances;
}

static dp_status *instance_compute(dp_op_context *context, void *memory) {
  const instance_state *state = memory;
  const dp_tensor *input = dp_op_input(context, 0);
  dp_quantized_range range, result = {INFINITY, -INFINITY};
  dp_tensor *output;
  int64_t count;
  DP_RETURN_IF_ERROR(instance_read(context, &range));
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &input->shape, &output));
  instance *instances = find_instances(state, input, output, range, &count);
  if (!instances)
    return dp_status_out_of_memory();
  for (int64_t i = 0; !state->has_range && i < count; ++i)
    widen_range(&instances[i], &result);
  if (state->has_range)
    result = state->range;
  if (result.high - result.low < state->separation)
    result.high = result.low + state->separation;
  dp_quantized_map map = dp_quantized_map_make(DP_QUINT8, range, DP_QUINT8, result);
  for (int64_t i = 0; i < count; ++i)
    store_codes(&instances[i], &map);
  dp_free(instances);
  return dp_quantized_write_range(context, 1, result);
}

static const dp_kernel rows[] = {
    {.op = "QuantizedBatchNormWithGlobalNormalization",
     .types = {{"Tinput", DP_SET(QUINT8)}, {"out_type", DP_SET(QINT32)}},
     .state_size = sizeof(batch_state),
     .create = batch_create,
     .compute = batch_compute},
    {.op = "QuantizedInstanceNorm",
     .types = {{"T", DP_SET(QUINT8)}},
     .state_size = sizeof(instance_state),
     .create = instance_create,
     .compute = instance_compute},
};
DP_KERNEL_FAMILY(quantized_norm, rows);
