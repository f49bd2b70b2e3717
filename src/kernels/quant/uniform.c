/* Uniformly quantized tensors, element by element: UniformQuantize, UniformDequantize,
 * UniformRequantize, UniformQuantizedClipByValue and UniformQuantizedAdd. */
#include "base/memory.h"
#include "kernels/quant/uniform_internal.h"
#include "kernels/shared/family.h"

typedef struct uniform_state {
  dp_uniform_limits limits; /* of the result */
  int64_t axis;             /* of the input, or of the first one */
  int64_t second_axis, output_axis;
} uniform_state;

/* Calls one(arg, element, slice) for every element. */
typedef void (*element_fn)(void *arg, int64_t element, int64_t slice);
static void for_elements(const dp_shape *shape, int64_t axis, element_fn one, void *arg) {
  dp_uniform_slices slices = dp_uniform_slices_of(shape, axis);
  int64_t element = 0;
  for (int64_t outer = 0; outer < slices.outer; ++outer)
    for (int64_t slice = 0; slice < slices.count; ++slice)
      for (int64_t inner = 0; inner < slices.inner; ++inner)
        one(arg, element++, slice);
}

typedef struct element_call {
  const dp_tensor *from;
  dp_tensor *to;
  dp_uniform uniform, wanted;
  const dp_uniform_limits *limits;
  const dp_uniform_factor *factors;
  const dp_tensor *low, *high;
} element_call;

/* ---- UniformQuantize and UniformDequantize ---- */
static dp_status *quantize_create(const dp_kernel_setup *setup, void *memory) {
  uniform_state *state = memory;
  DP_RETURN_IF_ERROR(dp_uniform_limits_read(setup->node, "", &state->limits));
  DP_RETURN_IF_ERROR(dp_kernel_get_int32(setup->node, "quantization_axis", &state->axis));
  if (dp_node_is(setup->node, "UniformQuantize") && state->axis < -1)
    return DP_INVALID("quantization_axis must be >= -1, given: %lld", (long long)state->axis);
  return NULL;
}

static void quantize_one(void *arg, int64_t element, int64_t slice) {
  const element_call *call = arg;
  float factor = 1.0f / dp_uniform_scale(&call->uniform, slice);
  float value = ((const float *)call->from->data)[element];
  dp_quantized_store(
      call->to, element,
      dp_uniform_code(value, factor, dp_uniform_zero(&call->uniform, slice), call->limits));
}

static dp_status *quantize(dp_op_context *context, void *memory) {
  const uniform_state *state = memory;
  element_call call = {.from = dp_op_input(context, 0),
                       .uniform = dp_uniform_input(context, 1, state->axis),
                       .limits = &state->limits};
  DP_RETURN_IF_ERROR(dp_uniform_check(&call.uniform, &call.from->shape));
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &call.from->shape, &call.to));
  for_elements(&call.from->shape, state->axis, quantize_one, &call);
  return NULL;
}

static void dequantize_one(void *arg, int64_t element, int64_t slice) {
  const element_call *call = arg;
  int32_t code = dp_uniform_load(call->from, element);
  int32_t distance = dp_uniform_minus(code, dp_uniform_zero(&call->uniform, slice));
  ((float *)call->to->data)[element] = (float)distance * dp_uniform_scale(&call->uniform, slice);
}

static dp_status *dequantize(dp_op_context *context, void *memory) {
  const uniform_state *state = memory;
  element_call call = {.from = dp_op_input(context, 0),
                       .uniform = dp_uniform_input(context, 1, state->axis)};
  DP_RETURN_IF_ERROR(dp_uniform_check(&call.uniform, &call.from->shape));
  if (!dp_uniform_is_positive(&call.uniform))
    return DP_INVALID("rhs scales elements must be all positive.");
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &call.from->shape, &call.to));
  for_elements(&call.from->shape, state->axis, dequantize_one, &call);
  return NULL;
}

/* ---- UniformRequantize ---- */
static dp_status *requantize_create(const dp_kernel_setup *setup, void *memory) {
  uniform_state *state = memory;
  const dp_node *node = setup->node;
  DP_RETURN_IF_ERROR(dp_uniform_limits_read(node, "output_", &state->limits));
  DP_RETURN_IF_ERROR(dp_kernel_get_int32(node, "input_quantization_axis", &state->axis));
  DP_RETURN_IF_ERROR(dp_kernel_get_int32(node, "output_quantization_axis", &state->output_axis));
  if (state->axis < -1)
    return DP_INVALID("input_quantization_axis must be >= -1, given: %lld", (long long)state->axis);
  if (state->output_axis < -1)
    return DP_INVALID("output_quantization_axis must be >= -1, given: %lld",
                      (long long)state->output_axis);
  if (state->axis >= 0 && state->output_axis >= 0 && state->axis != state->output_axis)
    return DP_INVALID("If input and output is both per-axis quantized, the quantization axis must "
                      "be same.");
  return NULL;
}

static void requantize_one(void *arg, int64_t element, int64_t slice) {
  const element_call *call = arg;
  int32_t code = dp_uniform_load(call->from, element);
  int32_t distance = dp_uniform_minus(code, dp_uniform_zero(&call->uniform, slice));
  int32_t scaled = dp_uniform_multiply(distance, call->factors[slice]);
  int32_t zero = call->wanted.zeros ? dp_uniform_zero(&call->wanted, slice) : 0;
  dp_quantized_store(call->to, element,
                     dp_uniform_limit(call->limits, dp_uniform_plus(scaled, zero)));
}

/* From `uniform` to `wanted`, both along `axis` or for the whole; wanted.zeros may be NULL. */
static dp_status *requantize_all(element_call *call, int64_t axis) {
  int64_t count = dp_uniform_slices_of(&call->from->shape, axis).count;
  dp_uniform_factor *factors = dp_try_malloc((size_t)(count + 1) * sizeof(dp_uniform_factor));
  if (!factors)
    return dp_status_out_of_memory();
  dp_status *status = NULL;
  for (int64_t i = 0; i < count && !status; ++i)
    status = dp_uniform_factor_make((double)dp_uniform_scale(&call->uniform, i) /
                                        (double)dp_uniform_scale(&call->wanted, i),
                                    &factors[i]);
  call->factors = factors;
  if (!status)
    for_elements(&call->from->shape, axis, requantize_one, call);
  dp_free(factors);
  return status;
}

static dp_status *requantize(dp_op_context *context, void *memory) {
  const uniform_state *state = memory;
  element_call call = {.from = dp_op_input(context, 0),
                       .uniform = dp_uniform_input(context, 1, state->axis),
                       .wanted = dp_uniform_input(context, 3, state->output_axis),
                       .limits = &state->limits};
  DP_RETURN_IF_ERROR(dp_uniform_check(&call.uniform, &call.from->shape));
  DP_RETURN_IF_ERROR(dp_uniform_check(&call.wanted, &call.from->shape));
  if (!dp_uniform_is_positive(&call.uniform) || !dp_uniform_is_positive(&call.wanted))
    return DP_INVALID("input/output scales elements must be all positive.");
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &call.from->shape, &call.to));
  return requantize_all(&call, state->axis >= 0 ? state->axis : state->output_axis);
}

/* ---- UniformQuantizedClipByValue ---- */
static void clip_one(void *arg, int64_t element, int64_t slice) {
  const element_call *call = arg;
  int32_t code = ((const int32_t *)call->from->data)[element];
  int32_t low = ((const int32_t *)call->low->data)[slice];
  int32_t high = ((const int32_t *)call->high->data)[slice];
  code = code > low ? code : low;
  ((int32_t *)call->to->data)[element] = code < high ? code : high;
}

static dp_status *clip(dp_op_context *context, void *memory) {
  const uniform_state *state = memory;
  element_call call = {.from = dp_op_input(context, 0),
                       .low = dp_op_input(context, 1),
                       .high = dp_op_input(context, 2),
                       .uniform = dp_uniform_input(context, 3, state->axis)};
  const dp_shape *scales = &call.uniform.scales->shape;
  DP_RETURN_IF_ERROR(dp_uniform_check(&call.uniform, &call.from->shape));
  for (int i = 0; i < 2; ++i) {
    const char *name = i ? "max" : "min";
    const dp_shape *shape = &(i ? call.high : call.low)->shape;
    if (!dp_shape_equal(shape, scales))
      return DP_INVALID("Input %s shape must be same as scales/zero_points. Given %s of shape %s "
                        "and scales/zero_points of shape %s",
                        name, name, dp_shape_text(shape), dp_shape_text(scales));
  }
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &call.from->shape, &call.to));
  for_elements(&call.from->shape, state->axis, clip_one, &call);
  return NULL;
}

/* ---- UniformQuantizedAdd ---- */
static dp_status *add_create(const dp_kernel_setup *setup, void *memory) {
  uniform_state *state = memory;
  const dp_node *node = setup->node;
  DP_RETURN_IF_ERROR(dp_uniform_limits_read(node, "output_", &state->limits));
  DP_RETURN_IF_ERROR(dp_kernel_get_int32(node, "lhs_quantization_axis", &state->axis));
  DP_RETURN_IF_ERROR(dp_kernel_get_int32(node, "rhs_quantization_axis", &state->second_axis));
  DP_RETURN_IF_ERROR(dp_kernel_get_int32(node, "output_quantization_axis", &state->output_axis));
  if (state->axis < -1 || state->second_axis < -1 || state->output_axis < -1)
    return DP_INVALID("lhs, rhs and output quantization_axis must be -1 or within [0, dims)");
  return NULL;
}

typedef struct addends {
  const dp_tensor *tensors[2];
  dp_uniform uniforms[2], output;
  dp_shape shape;
  dp_tensor scaled[2]; /* in codes of the result, without its zero point */
} addends;

/* What is quantized as a whole can be brought along an axis of the result only when it has it. */
static dp_status *check_addend(const addends *addends, int which) {
  const char *name = which ? "rhs" : "lhs";
  const dp_shape *shape = &addends->tensors[which]->shape;
  int64_t axis = addends->uniforms[which].axis, output_axis = addends->output.axis;
  if (output_axis < 0)
    return NULL;
  if (axis >= 0 && shape->rank - axis != addends->shape.rank - output_axis)
    return DP_INVALID("If %s and output is both per-axis quantized, the quantization axis must "
                      "match.",
                      name);
  if (axis < 0 && (shape->rank != addends->shape.rank ||
                   shape->dims[output_axis] != addends->shape.dims[output_axis]))
    return DP_INVALID("If output is per-axis quantized, %s must have its quantization axis", name);
  return NULL;
}

static dp_status *check_addends(addends *addends) {
  const dp_shape *a = &addends->tensors[0]->shape, *b = &addends->tensors[1]->shape;
  DP_RETURN_IF_ERROR(dp_uniform_check(&addends->uniforms[0], a));
  DP_RETURN_IF_ERROR(dp_uniform_check(&addends->uniforms[1], b));
  if (!dp_shape_broadcast(a, b, &addends->shape))
    return DP_INVALID("Cannot Add tensors of shapes: %s%s", dp_shape_text(a), dp_shape_text(b));
  DP_RETURN_IF_ERROR(dp_uniform_check(&addends->output, &addends->shape));
  DP_RETURN_IF_ERROR(check_addend(addends, 0));
  DP_RETURN_IF_ERROR(check_addend(addends, 1));
  if (!dp_uniform_is_positive(&addends->uniforms[0]) ||
      !dp_uniform_is_positive(&addends->uniforms[1]) || !dp_uniform_is_positive(&addends->output))
    return DP_INVALID("lhs/rhs/output scales elements must be all positive.");
  return NULL;
}

static dp_status *scale_addend(addends *addends, int which) {
  static const dp_uniform_limits all = {INT32_MIN, INT32_MAX};
  const dp_tensor *from = addends->tensors[which];
  element_call call = {.from = from,
                       .to = &addends->scaled[which],
                       .uniform = addends->uniforms[which],
                       .wanted = addends->output,
                       .limits = &all};
  call.wanted.zeros = NULL;
  int64_t axis = call.uniform.axis >= 0 ? call.uniform.axis : call.wanted.axis;
  DP_RETURN_IF_ERROR(dp_tensor_create(DP_QINT32, &from->shape, call.to));
  return requantize_all(&call, axis);
}

static void add_scaled(const addends *addends, const dp_uniform_limits *limits, int32_t *to) {
  dp_uniform_slices slices = dp_uniform_slices_of(&addends->shape, addends->output.axis);
  for (int64_t i = 0; i < addends->shape.elements; ++i) {
    int32_t sum = dp_uniform_zero(&addends->output, i / slices.inner % slices.count);
    for (int j = 0; j < 2; ++j) {
      const dp_tensor *scaled = &addends->scaled[j];
      int64_t source = dp_quantized_source(&addends->shape, &scaled->shape, i);
      sum = dp_uniform_plus(sum, dp_uniform_load(scaled, source));
    }
    to[i] = dp_uniform_limit(limits, sum);
  }
}

static dp_status *add(dp_op_context *context, void *memory) {
  const uniform_state *state = memory;
  addends addends = {.tensors = {dp_op_input(context, 0), dp_op_input(context, 1)},
                     .uniforms = {dp_uniform_input(context, 2, state->axis),
                                  dp_uniform_input(context, 4, state->second_axis)},
                     .output = dp_uniform_input(context, 6, state->output_axis)};
  dp_tensor *output;
  DP_RETURN_IF_ERROR(check_addends(&addends));
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &addends.shape, &output));
  dp_status *status = scale_addend(&addends, 0);
  if (!status)
    status = scale_addend(&addends, 1);
  if (!status)
    add_scaled(&addends, &state->limits, output->data);
  dp_tensor_deinit(&addends.scaled[0]);
  dp_tensor_deinit(&addends.scaled[1]);
  return status;
}

#define ALL (DP_SET(QINT8) | DP_SET(QUINT8) | DP_SET(QINT32))
static const dp_kernel rows[] = {
    {.op = "UniformQuantize",
     .types = {{"Tin", DP_SET(FLOAT)}, {"Tout", ALL}},
     .state_size = sizeof(uniform_state),
     .create = quantize_create,
     .compute = quantize},
    {.op = "UniformDequantize",
     .types = {{"Tin", ALL}, {"Tout", DP_SET(FLOAT)}},
     .state_size = sizeof(uniform_state),
     .create = quantize_create,
     .compute = dequantize},
    {.op = "UniformRequantize",
     .types = {{"Tin", DP_SET(QINT8) | DP_SET(QINT32)}, {"Tout", DP_SET(QINT8)}},
     .state_size = sizeof(uniform_state),
     .create = requantize_create,
     .compute = requantize},
    {.op = "UniformQuantizedClipByValue",
     .types = {{"T", DP_SET(QINT32)}},
     .state_size = sizeof(uniform_state),
     .create = quantize_create,
     .compute = clip},
    {.op = "UniformQuantizedAdd",
     .types = {{"T", DP_SET(QINT32)}},
     .state_size = sizeof(uniform_state),
     .create = add_create,
     .compute = add},
};
DP_KERNEL_FAMILY(uniform, rows);
