/* FakeQuantWithMinMax*: rounds floats to the values that a quantized tensor could hold. The
 * gradient passes where the input is in the range, and goes to the bounds elsewhere. The range is
 * given as attributes, as two scalars, or as two vectors with one entry per channel (last
 * dimension). */
#include "kernels/shared/family.h"

#include <math.h>
#include <string.h>

typedef struct fake_state {
  float least, most; /* quantized numbers */
  float minimum, maximum;
} fake_state;

static dp_status *fake_create(const dp_kernel_setup *setup, void *memory) {
  fake_state *state = memory;
  int64_t bits;
  bool is_narrow;
  DP_RETURN_IF_ERROR(dp_node_get_int(setup->node, "num_bits", &bits));
  DP_RETURN_IF_ERROR(dp_node_get_bool(setup->node, "narrow_range", &is_narrow));
  if (bits < 2 || bits > 16)
    return DP_INVALID("num_bits must be between 2 and 16, inclusive");
  state->least = is_narrow;
  state->most = (float)((1 << bits) - 1);
  return NULL;
}

static dp_status *args_create(const dp_kernel_setup *setup, void *memory) {
  fake_state *state = memory;
  DP_RETURN_IF_ERROR(fake_create(setup, memory));
  DP_RETURN_IF_ERROR(dp_node_get_float(setup->node, "min", &state->minimum));
  DP_RETURN_IF_ERROR(dp_node_get_float(setup->node, "max", &state->maximum));
  if (!(state->minimum < state->maximum))
    return DP_INVALID("min has to be smaller than max, was: %g >= %g", (double)state->minimum,
                      (double)state->maximum);
  return NULL;
}

/* A range moved so that zero is one of its values. */
typedef struct fake_range {
  float minimum, maximum, scale, zero;
  bool is_empty; /* both bounds are 0 */
} fake_range;

static fake_range nudge(const fake_state *state, float minimum, float maximum) {
  float scale = (maximum - minimum) / (state->most - state->least);
  float zero = state->least - minimum / scale;
  float nudged = zero < state->least  ? state->least
                 : zero > state->most ? state->most
                                      : roundf(zero);
  fake_range range = {.minimum = (state->least - nudged) * scale,
                      .maximum = (state->most - nudged) * scale,
                      .scale = scale,
                      .is_empty = minimum == 0 && maximum == 0};
  range.zero = floorf(-range.minimum / scale + 0.5f);
  return range;
}

static float quantize(const fake_range *range, float value) {
  float clamped = value < range->minimum   ? range->minimum
                  : value > range->maximum ? range->maximum
                                           : value;
  float steps = (clamped - range->minimum) * (1.0f / range->scale);
  return floorf(steps - range->zero + 0.5f) * range->scale;
}

/* ---- Ranges of the three forms ---- */
static dp_status *check_bounds(const dp_tensor *minimum, const dp_tensor *maximum, int rank,
                               int64_t count) {
  const dp_shape *shapes[] = {&minimum->shape, &maximum->shape};
  static const char *const names[] = {"min", "max"};
  for (int i = 0; i < 2; ++i) {
    if (shapes[i]->rank != rank)
      return DP_INVALID("`%s` must be rank %d but is rank %d", names[i], rank, shapes[i]->rank);
    if (shapes[i]->elements != count)
      return DP_INVALID("%s has incorrect size, expected %lld was %lld", names[i], (long long)count,
                        (long long)shapes[i]->elements);
  }
  return NULL;
}

/* Where bounds come from: inputs from `slot` on, or the attributes when it is negative. */
typedef struct fake_bounds {
  const float *minimum, *maximum;
  int64_t count;
} fake_bounds;

static dp_status *find_bounds(dp_op_context *context, const fake_state *state, int32_t slot,
                              int rank, fake_bounds *bounds) {
  const dp_tensor *input = dp_op_input(context, slot - 1);
  int last = input->shape.rank - 1;
  if (rank > 0 && last < 0)
    return DP_INVALID("inputs must have at least one dimension");
  int64_t count = rank > 0 ? input->shape.dims[last] : 1;
  *bounds = (fake_bounds){&state->minimum, &state->maximum, 1};
  if (rank < 0)
    return NULL;
  const dp_tensor *minimum = dp_op_input(context, slot), *maximum = dp_op_input(context, slot + 1);
  DP_RETURN_IF_ERROR(check_bounds(minimum, maximum, rank, count));
  *bounds = (fake_bounds){minimum->data, maximum->data, count};
  return NULL;
}

/* ---- Forward ---- */
static dp_status *fake_run(dp_op_context *context, const fake_state *state, int rank) {
  const dp_tensor *input = dp_op_input(context, 0);
  fake_bounds bounds;
  dp_tensor *output;
  DP_RETURN_IF_ERROR(find_bounds(context, state, 1, rank, &bounds));
  const float *from = input->data;
  DP_RETURN_IF_ERROR(dp_op_allocate_or_forward(context, 0, 0, &input->shape, &output));
  float *to = output->data;
  for (int64_t channel = 0; channel < bounds.count; ++channel) {
    fake_range range = nudge(state, bounds.minimum[channel], bounds.maximum[channel]);
    for (int64_t i = channel; i < output->shape.elements; i += bounds.count)
      to[i] = range.is_empty ? 0 : quantize(&range, from[i]);
  }
  return NULL;
}

static dp_status *args_compute(dp_op_context *context, void *memory) {
  return fake_run(context, memory, -1);
}
static dp_status *scalars_compute(dp_op_context *context, void *memory) {
  return fake_run(context, memory, 0);
}
static dp_status *channels_compute(dp_op_context *context, void *memory) {
  return fake_run(context, memory, 1);
}

/* ---- Gradients ---- */
static dp_status *gradient_run(dp_op_context *context, const fake_state *state, int rank) {
  const dp_tensor *gradient = dp_op_input(context, 0), *input = dp_op_input(context, 1);
  fake_bounds bounds;
  dp_tensor *outputs[3];
  if (!dp_shape_equal(&gradient->shape, &input->shape))
    return DP_INVALID("gradient and input must be the same size");
  DP_RETURN_IF_ERROR(find_bounds(context, state, 2, rank, &bounds));
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &input->shape, &outputs[0]));
  for (int32_t i = 1; rank >= 0 && i < 3; ++i)
    DP_RETURN_IF_ERROR(dp_op_allocate(context, i, &dp_op_input(context, 2)->shape, &outputs[i]));
  const float *received = gradient->data, *values = input->data;
  float *to = outputs[0]->data;
  for (int64_t channel = 0; channel < bounds.count; ++channel) {
    fake_range range = nudge(state, bounds.minimum[channel], bounds.maximum[channel]);
    double below = 0, above = 0;
    for (int64_t i = channel; i < input->shape.elements; i += bounds.count) {
      bool is_below = !range.is_empty && values[i] < range.minimum;
      bool is_above = !range.is_empty && values[i] > range.maximum;
      to[i] = is_below || is_above ? 0 : received[i];
      below += is_below ? received[i] : 0;
      above += is_above ? received[i] : 0;
    }
    if (rank >= 0) {
      ((float *)outputs[1]->data)[channel] = (float)below;
      ((float *)outputs[2]->data)[channel] = (float)above;
    }
  }
  return NULL;
}

static dp_status *args_gradient(dp_op_context *context, void *memory) {
  return gradient_run(context, memory, -1);
}
static dp_status *scalars_gradient(dp_op_context *context, void *memory) {
  return gradient_run(context, memory, 0);
}
static dp_status *channels_gradient(dp_op_context *context, void *memory) {
  return gradient_run(context, memory, 1);
}

#define ROW(name, make, run)                                                                       \
  { .op = name, .state_size = sizeof(fake_state), .create = make, .compute = run }
static const dp_kernel rows[] = {
    ROW("FakeQuantWithMinMaxArgs", args_create, args_compute),
    ROW("FakeQuantWithMinMaxArgsGradient", args_create, args_gradient),
    ROW("FakeQuantWithMinMaxVars", fake_create, scalars_compute),
    ROW("FakeQuantWithMinMaxVarsGradient", fake_create, scalars_gradient),
    ROW("FakeQuantWithMinMaxVarsPerChannel", fake_create, channels_compute),
    ROW("FakeQuantWithMinMaxVarsPerChannelGradient", fake_create, channels_gradient),
};
DP_KERNEL_FAMILY(fake_quant, rows);
