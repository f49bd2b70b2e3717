/* QuantizeAndDequantize in all versions, and its gradient: floats after being quantized to some
 * bits and back. For a whole tensor, or per slice along an axis. */
#include <float.h>
#include <math.h>
#include <string.h>
#include "kernels/shared/family.h"

typedef struct simulate_range {
  double lowest, highest; /* whole numbers of the simulated type */
  bool is_given, half_up;
} simulate_range;

typedef struct simulate_slices {
  int64_t outer, count, inner;
} simulate_slices;

#define REAL float
#define REAL_MAX FLT_MAX
#define RINT rintf
#define FLOOR floorf
#define NAME(x) float_##x
#include "kernels/quant/quantize_simulate.tmpl.h"
#undef REAL
#undef REAL_MAX
#undef RINT
#undef FLOOR
#undef NAME
#define REAL double
#define REAL_MAX DBL_MAX
#define RINT rint
#define FLOOR floor
#define NAME(x) double_##x
#include "kernels/quant/quantize_simulate.tmpl.h"
#undef REAL
#undef REAL_MAX
#undef RINT
#undef FLOOR
#undef NAME

typedef struct simulate_state {
  bool is_signed, is_given, half_up, narrow;
  int64_t bits; /* 0: the number of bits is an input */
  int64_t axis;
  bool is_first_version;
  double low, high; /* of version 1 */
} simulate_state;

static dp_status *check_bits(int64_t bits, bool is_signed, const char *mark) {
  if (bits < (is_signed ? 2 : 1) || bits > (is_signed ? 62 : 63))
    return DP_INVALID("num_bits is out of range: %lld with %ssigned_input_%s %d", (long long)bits,
                      mark, mark, is_signed);
  return NULL;
}

static dp_status *read_optional(const dp_kernel_setup *setup, simulate_state *state) {
  const dp_attr *axis = dp_node_attr(setup->node, "axis");
  const dp_attr *narrow = dp_node_attr(setup->node, "narrow_range");
  const dp_attr *round = dp_node_attr(setup->node, "round_mode");
  state->axis = axis && axis->kind == DP_ATTR_INT ? axis->integer : -1;
  state->narrow = narrow && narrow->kind == DP_ATTR_BOOL && narrow->boolean;
  if (state->axis < -1)
    return DP_INVALID("Axis must be at least -1. Found %lld", (long long)state->axis);
  if (!round || round->kind != DP_ATTR_STRING)
    return NULL;
  state->half_up = dp_view_equals(round->string, "HALF_UP");
  if (!state->half_up && !dp_view_equals(round->string, "HALF_TO_EVEN"))
    return DP_INVALID("Round mode string must be 'HALF_UP' or 'HALF_TO_EVEN', is '%.*s'",
                      (int)round->string.length, round->string.data);
  return NULL;
}

static dp_status *simulate_create(const dp_kernel_setup *setup, void *memory) {
  simulate_state *state = memory;
  const dp_node *node = setup->node;
  state->is_first_version = dp_node_is(node, "QuantizeAndDequantize");
  DP_RETURN_IF_ERROR(read_optional(setup, state));
  DP_RETURN_IF_ERROR(dp_node_get_bool(node, "signed_input", &state->is_signed));
  DP_RETURN_IF_ERROR(dp_node_get_bool(node, "range_given", &state->is_given));
  if (!dp_node_is(node, "QuantizeAndDequantizeV3")) {
    DP_RETURN_IF_ERROR(dp_node_get_int(node, "num_bits", &state->bits));
    DP_RETURN_IF_ERROR(check_bits(state->bits, state->is_signed, ""));
  }
  if (state->is_first_version) {
    float low, high;
    DP_RETURN_IF_ERROR(dp_node_get_float(node, "input_min", &low));
    DP_RETURN_IF_ERROR(dp_node_get_float(node, "input_max", &high));
    if (state->is_given && low > high)
      return DP_INVALID("Invalid range: input_min %g > input_max %g", low, high);
    state->low = low;
    state->high = high;
  }
  return NULL;
}

static dp_status *read_slices(const dp_tensor *input, int64_t axis, simulate_slices *slices) {
  const dp_shape *shape = &input->shape;
  if (axis >= shape->rank)
    return DP_INVALID("Shape must be at least rank %llu but is rank %d",
                      (unsigned long long)axis + 1, shape->rank);
  *slices = axis < 0 ? (simulate_slices){1, 1, shape->elements}
                     : (simulate_slices){dp_shape_product(shape, 0, (int)axis), shape->dims[axis],
                                         dp_shape_product(shape, (int)axis + 1, shape->rank)};
  return NULL;
}

static dp_status *check_limits(const dp_tensor *low, const dp_tensor *high, int64_t axis,
                               int64_t count) {
  for (int i = 0; i < 2; ++i) {
    const dp_tensor *limit = i ? high : low;
    if (axis < 0 && dp_tensor_elements(limit) != 1)
      return DP_INVALID("input_%s must be a scalar.", i ? "max" : "min");
    if (axis >= 0 && (limit->shape.rank != 1 || dp_tensor_elements(limit) != count))
      return DP_INVALID("input_%s has incorrect size, was %s expected %lld", i ? "max" : "min",
                        dp_shape_text(&limit->shape), (long long)count);
  }
  for (int64_t i = 0; i < count; ++i) {
    bool is_float = low->dtype == DP_FLOAT;
    double least = is_float ? ((const float *)low->data)[i] : ((const double *)low->data)[i];
    double most = is_float ? ((const float *)high->data)[i] : ((const double *)high->data)[i];
    if (least > most)
      return DP_INVALID("Invalid range: input_min %g > input_max %g", least, most);
  }
  return NULL;
}

static dp_status *read_bits(dp_op_context *context, const simulate_state *state,
                            simulate_range *range) {
  int64_t bits = state->bits;
  if (bits == 0) {
    const dp_tensor *tensor = dp_op_input(context, 3);
    if (dp_tensor_elements(tensor) != 1)
      return DP_INVALID("num_bits must be a scalar, got shape %s", dp_shape_text(&tensor->shape));
    bits = dp_tensor_int_at(tensor, 0);
    DP_RETURN_IF_ERROR(check_bits(bits, state->is_signed, "`"));
  }
  range->lowest = state->is_signed ? -ldexp(1, (int)bits - 1) + (state->narrow ? 1 : 0) : 0;
  range->highest = ldexp(1, (int)bits - (state->is_signed ? 1 : 0)) - 1;
  range->is_given = state->is_given;
  range->half_up = state->half_up;
  return NULL;
}

static dp_status *simulate_compute(dp_op_context *context, void *memory) {
  const simulate_state *state = memory;
  const dp_tensor *input = dp_op_input(context, 0);
  simulate_slices slices;
  simulate_range range = {0};
  DP_RETURN_IF_ERROR(read_slices(input, state->axis, &slices));
  DP_RETURN_IF_ERROR(read_bits(context, state, &range));
  bool is_double = input->dtype == DP_DOUBLE;
  float low = (float)state->low, high = (float)state->high;
  const void *lows = is_double ? (const void *)&state->low : &low;
  const void *highs = is_double ? (const void *)&state->high : &high;
  if (!state->is_first_version) {
    if (state->is_given)
      DP_RETURN_IF_ERROR(check_limits(dp_op_input(context, 1), dp_op_input(context, 2), state->axis,
                                      slices.count));
    lows = dp_op_input(context, 1)->data;
    highs = dp_op_input(context, 2)->data;
  }
  dp_shape shape = input->shape;
  const void *from = input->data;
  dp_tensor *output;
  DP_RETURN_IF_ERROR(dp_op_allocate_or_forward(context, 0, 0, &shape, &output));
  if (shape.elements == 0)
    return NULL;
  for (int64_t i = 0; i < slices.count; ++i)
    (is_double ? double_simulate : float_simulate)(&range, &slices, i, lows, highs, from,
                                                   output->data);
  return NULL;
}

/* ---- Gradient of version 4 ---- */
static dp_status *gradient_create(const dp_kernel_setup *setup, void *memory) {
  return read_optional(setup, memory);
}

static dp_status *gradient_compute(dp_op_context *context, void *memory) {
  const simulate_state *state = memory;
  const dp_tensor *gradient = dp_op_input(context, 0), *input = dp_op_input(context, 1);
  const dp_tensor *low = dp_op_input(context, 2), *high = dp_op_input(context, 3);
  if (!dp_shape_equal(&gradient->shape, &input->shape))
    return DP_INVALID("gradient and input must be the same size");
  simulate_slices slices;
  DP_RETURN_IF_ERROR(read_slices(input, state->axis, &slices));
  for (int i = 2; i <= 3; ++i) {
    const dp_shape *limit = &dp_op_input(context, i)->shape;
    if (state->axis < 0 ? limit->rank != 0 : limit->rank != 1 || limit->elements != slices.count)
      return DP_INVALID("input_%s has incorrect size, was %s expected %lld", i == 3 ? "max" : "min",
                        dp_shape_text(limit), (long long)slices.count);
  }
  dp_shape shape = input->shape;
  dp_shape limits = state->axis < 0 ? dp_shape_scalar() : dp_shape_vector(slices.count);
  dp_tensor *output, *low_output, *high_output;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &shape, &output));
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 1, &limits, &low_output));
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 2, &limits, &high_output));
  memset(low_output->data, 0, dp_tensor_bytes(low_output));
  memset(high_output->data, 0, dp_tensor_bytes(high_output));
  for (int64_t i = 0; i < slices.count; ++i)
    (input->dtype == DP_DOUBLE ? double_simulate_gradient : float_simulate_gradient)(
        &slices, i, low->data, high->data, gradient->data, input->data, output->data);
  return NULL;
}

#define SIMULATE(name, create_fn, body)                                                            \
  {                                                                                                \
    .op = name, .types = {{"T", DP_SET(FLOAT) | DP_SET(DOUBLE)}},                                  \
    .state_size = sizeof(simulate_state), .create = create_fn, .compute = body                     \
  }
static const dp_kernel rows[] = {
    SIMULATE("QuantizeAndDequantize", simulate_create, simulate_compute),
    SIMULATE("QuantizeAndDequantizeV2", simulate_create, simulate_compute),
    SIMULATE("QuantizeAndDequantizeV3", simulate_create, simulate_compute),
    SIMULATE("QuantizeAndDequantizeV4", simulate_create, simulate_compute),
    SIMULATE("QuantizeAndDequantizeV4Grad", gradient_create, gradient_compute),
};
DP_KERNEL_FAMILY(quantize_simulate, rows);
