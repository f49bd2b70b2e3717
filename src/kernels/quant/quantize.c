/* Quantizing floats to q-types and back, in the three modes that TensorFlow has, for a whole tensor
 * or for each slice along an axis:
 *   MIN_COMBINED  the range is spread over all numbers of the type
 *   MIN_FIRST     the same, with the minimum rounded to a step first
 *   SCALED        one factor, zero stays zero */
#include <float.h>
#include <math.h>
#include <string.h>
#include "kernels/shared/family.h"
#include "kernels/shared/support.h"

typedef enum mode { MIN_COMBINED, MIN_FIRST, SCALED } mode;

typedef struct quantize_state {
  mode mode;
  bool half_to_even, narrow_range;
  int64_t axis;
  float minimum_range;
  dp_dtype dtype; /* the quantized one */
  double lowest, highest;
} quantize_state;

static dp_status *read_mode(const dp_kernel_setup *setup, mode *mode_out) {
  dp_view text;
  DP_RETURN_IF_ERROR(dp_node_get_string(setup->node, "mode", &text));
  if (dp_view_equals(text, "MIN_COMBINED"))
    *mode_out = MIN_COMBINED;
  else if (dp_view_equals(text, "MIN_FIRST"))
    *mode_out = MIN_FIRST;
  else if (dp_view_equals(text, "SCALED"))
    *mode_out = SCALED;
  else
    return DP_INVALID("Mode string must be 'MIN_COMBINED', 'MIN_FIRST', or 'SCALED', is '%.*s'",
                      (int)text.length, text.data);
  return NULL;
}

static void set_limits(quantize_state *state) {
  switch (state->dtype) {
  case DP_QUINT8:
    state->lowest = 0, state->highest = UINT8_MAX;
    break;
  case DP_QINT8:
    state->lowest = INT8_MIN, state->highest = INT8_MAX;
    break;
  case DP_QUINT16:
    state->lowest = 0, state->highest = UINT16_MAX;
    break;
  case DP_QINT16:
    state->lowest = INT16_MIN, state->highest = INT16_MAX;
    break;
  default:
    state->lowest = INT32_MIN, state->highest = INT32_MAX;
  }
}

static dp_status *quantize_create(const dp_kernel_setup *setup, void *memory) {
  quantize_state *state = memory;
  DP_RETURN_IF_ERROR(read_mode(setup, &state->mode));
  DP_RETURN_IF_ERROR(dp_kernel_type(setup, "T", &state->dtype));
  set_limits(state);
  if (dp_dtype_base(setup->node->output_types[0]) == DP_BFLOAT16 && state->mode != MIN_COMBINED)
    return DP_INVALID("When output type is bfloat16, Mode string must be 'MIN_COMBINED'");
  const dp_attr *narrow = dp_node_attr(setup->node, "narrow_range");
  const dp_attr *axis = dp_node_attr(setup->node, "axis");
  const dp_attr *minimum = dp_node_attr(setup->node, "ensure_minimum_range");
  const dp_attr *round = dp_node_attr(setup->node, "round_mode");
  state->narrow_range = narrow && narrow->kind == DP_ATTR_BOOL && narrow->boolean;
  state->axis = axis && axis->kind == DP_ATTR_INT ? axis->integer : -1;
  state->minimum_range = minimum && minimum->kind == DP_ATTR_FLOAT ? minimum->number : 0.01f;
  if (!round || round->kind != DP_ATTR_STRING)
    return NULL;
  state->half_to_even = dp_view_equals(round->string, "HALF_TO_EVEN");
  if (!state->half_to_even && !dp_view_equals(round->string, "HALF_AWAY_FROM_ZERO"))
    return DP_INVALID(
        "Round mode string must be 'HALF_AWAY_FROM_ZERO' or 'HALF_TO_EVEN', is '%.*s'",
        (int)round->string.length, round->string.data);
  if (state->half_to_even && state->mode != SCALED)
    return DP_INVALID("Round mode 'HALF_TO_EVEN' only supported for mode 'SCALED'.");
  return NULL;
}

/* ---- Slices ---- */
typedef struct slices {
  int64_t outer, count, inner;
} slices;

static dp_status *read_slices(const quantize_state *state, const dp_tensor *input,
                              const dp_tensor *low, const dp_tensor *high, slices *slices) {
  const dp_shape *shape = &input->shape;
  if (state->axis < -1)
    return DP_INVALID("Axis must be at least -1. Found %lld", (long long)state->axis);
  if (state->axis >= shape->rank)
    return DP_INVALID("Axis must be less than input dimension(%d), got %lld", shape->rank,
                      (long long)state->axis);
  *slices = (struct slices){1, 1, shape->elements};
  if (state->axis >= 0) {
    int axis = (int)state->axis;
    *slices = (struct slices){dp_shape_product(shape, 0, axis), shape->dims[axis],
                              dp_shape_product(shape, axis + 1, shape->rank)};
    if (low->shape.rank != 1 || high->shape.rank != 1)
      return DP_INVALID("min_range and max_range must be vectors when an axis is given");
  }
  if (dp_tensor_elements(low) != slices->count || dp_tensor_elements(high) != slices->count)
    return DP_INVALID("min_range and max_range must contain %lld float elements each, but they "
                      "contain %lld and %lld elements",
                      (long long)slices->count, (long long)dp_tensor_elements(low),
                      (long long)dp_tensor_elements(high));
  return NULL;
}

static void store(dp_dtype dtype, void *data, int64_t at, float value) {
  switch (dtype) {
  case DP_QUINT8:
    ((uint8_t *)data)[at] = (uint8_t)(int32_t)value;
    break;
  case DP_QINT8:
    ((int8_t *)data)[at] = (int8_t)value;
    break;
  case DP_QUINT16:
    ((uint16_t *)data)[at] = (uint16_t)(int32_t)value;
    break;
  case DP_QINT16:
    ((int16_t *)data)[at] = (int16_t)value;
    break;
  default:
    ((int32_t *)data)[at] = value >= 2147483648.0f ? INT32_MAX : (int32_t)value;
  }
}

static float load(dp_dtype dtype, const void *data, int64_t at) {
  switch (dtype) {
  case DP_QUINT8:
    return ((const uint8_t *)data)[at];
  case DP_QINT8:
    return ((const int8_t *)data)[at];
  case DP_QUINT16:
    return ((const uint16_t *)data)[at];
  case DP_QINT16:
    return ((const int16_t *)data)[at];
  default:
    return (float)((const int32_t *)data)[at];
  }
}

/* ---- QuantizeV2 ---- */
/* Widens the range to hold 0 and to be not too small. */
static void adjust_range(const quantize_state *state, float *low, float *high) {
  float given_low = *low, given_high = *high;
  *low = fminf(0.0f, given_low);
  float epsilon = fmaxf(1.0f, fmaxf(fabsf(given_low), fabsf(given_high))) * state->minimum_range;
  *high = fmaxf(0.0f, fmaxf(given_high, *low + epsilon));
}

/* What one mode does to a number: clamp, times `scale`, minus `shift`, rounded. */
typedef struct recipe {
  float low, high; /* clamp before, unless MIN_FIRST */
  float scale, shift;
  float least, most; /* clamp after, MIN_FIRST */
} recipe;

static recipe make_recipe(const quantize_state *state, float *low, float *high) {
  recipe recipe = {0};
  double steps = state->highest - state->lowest;
  if (state->mode == MIN_COMBINED) {
    recipe.scale = (float)(steps / (double)(*high - *low));
    recipe.shift = state->lowest < 0 ? (float)((steps + 1) / 2) : 0;
  } else if (state->mode == MIN_FIRST) {
    recipe.scale = *low == *high ? 0 : (float)(steps / (double)(*high - *low));
    recipe.shift = roundf(*low * recipe.scale) - (float)state->lowest;
    recipe.least = fmaxf((float)state->lowest, -2.147483648e+09f);
    recipe.most = fminf((float)state->highest, 2.147483520e+09f);
  } else {
    double lowest = state->lowest + (state->narrow_range ? 1 : 0);
    float from_low = lowest * *low > 0 ? (float)lowest / *low : FLT_MAX;
    float from_high = state->highest * *high > 0 ? (float)state->highest / *high : FLT_MAX;
    recipe.scale = fminf(from_low, from_high);
    *low = (float)lowest / recipe.scale;
    *high = (float)state->highest / recipe.scale;
  }
  recipe.low = *low;
  recipe.high = *high;
  return recipe;
}

static float quantize_one(const quantize_state *state, const recipe *recipe, float value) {
  if (state->mode == MIN_FIRST)
    return fminf(recipe->most, fmaxf(recipe->least, roundf(value * recipe->scale) - recipe->shift));
  value = fmaxf(recipe->low, fminf(recipe->high, value));
  if (state->mode == MIN_COMBINED) {
    float scaled = (value - recipe->low) * recipe->scale;
    return state->lowest < 0 ? roundf(scaled - recipe->shift) : scaled + 0.5f;
  }
  float scaled = value * recipe->scale;
  return state->half_to_even ? rintf(scaled) : roundf(scaled);
}

static void quantize_slice(const quantize_state *state, const slices *slices, int64_t slice,
                           const recipe *recipe, const float *from, void *to) {
  for (int64_t outer = 0; outer < slices->outer; ++outer) {
    int64_t begin = (outer * slices->count + slice) * slices->inner;
    for (int64_t i = begin; i < begin + slices->inner; ++i)
      store(state->dtype, to, i, quantize_one(state, recipe, from[i]));
  }
}

static dp_status *quantize_compute(dp_op_context *context, void *memory) {
  const quantize_state *state = memory;
  const dp_tensor *input = dp_op_input(context, 0);
  const dp_tensor *low = dp_op_input(context, 1), *high = dp_op_input(context, 2);
  slices slices = {0};
  DP_RETURN_IF_ERROR(read_slices(state, input, low, high, &slices));
  dp_shape shape = input->shape;
  dp_shape range_shape = state->axis < 0 ? dp_shape_scalar() : dp_shape_vector(slices.count);
  dp_tensor *output, *low_output, *high_output;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &shape, &output));
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 1, &range_shape, &low_output));
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 2, &range_shape, &high_output));
  for (int64_t i = 0; i < slices.count; ++i) {
    float from = ((const float *)low->data)[i], to = ((const float *)high->data)[i];
    if (to < from)
      return DP_INVALID("input_max_range must be larger than input_min_range.");
    adjust_range(state, &from, &to);
    recipe recipe = make_recipe(state, &from, &to);
    quantize_slice(state, &slices, i, &recipe, input->data, output->data);
    ((float *)low_output->data)[i] = from;
    ((float *)high_output->data)[i] = to;
  }
  return NULL;
}

/* ---- Dequantize: (value + offset) * scale + base ---- */
typedef struct line {
  float offset, scale, base;
} line;

static line make_line(const quantize_state *state, float low, float high) {
  float steps = (float)((float)state->highest - (float)state->lowest);
  if (state->mode == MIN_COMBINED)
    return (line){state->lowest < 0 ? (steps + 1) / 2.0f : 0.0f, (high - low) / steps, low};
  if (state->mode == MIN_FIRST) {
    float scale = (float)((double)(high - low) / (state->highest - state->lowest));
    float rounded = low == high ? low : roundf(low / scale) * scale;
    return (line){0, scale, rounded - (float)state->lowest * scale};
  }
  double lowest = state->lowest + (state->narrow_range ? 1 : 0);
  float scale = high / (float)state->highest;
  if (state->lowest != 0)
    scale = fmaxf(low / (float)lowest, scale);
  return (line){0, scale, 0};
}

static dp_status *dequantize_compute(dp_op_context *context, void *memory) {
  const quantize_state *state = memory;
  const dp_tensor *input = dp_op_input(context, 0);
  const dp_tensor *low = dp_op_input(context, 1), *high = dp_op_input(context, 2);
  slices slices = {0};
  DP_RETURN_IF_ERROR(read_slices(state, input, low, high, &slices));
  if (state->mode == MIN_FIRST && slices.count > 1)
    return dp_status_create(DP_UNIMPLEMENTED,
                            "MIN_FIRST mode is not implemented for Dequantize with axis != -1.");
  dp_shape shape = input->shape;
  dp_tensor *output;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &shape, &output));
  for (int64_t slice = 0; slice < slices.count; ++slice) {
    line line =
        make_line(state, ((const float *)low->data)[slice], ((const float *)high->data)[slice]);
    for (int64_t outer = 0; outer < slices.outer; ++outer) {
      int64_t begin = (outer * slices.count + slice) * slices.inner;
      for (int64_t i = begin; i < begin + slices.inner; ++i) {
        float value = (load(state->dtype, input->data, i) + line.offset) * line.scale + line.base;
        if (output->dtype == DP_FLOAT)
          ((float *)output->data)[i] = value;
        else
          ((uint16_t *)output->data)[i] = dp_bfloat16_from_float(value);
      }
    }
  }
  return NULL;
}

static const dp_kernel rows[] = {
    {.op = "QuantizeV2",
     .types = {{"T", DP_SET_QUANTIZED}},
     .state_size = sizeof(quantize_state),
     .create = quantize_create,
     .compute = quantize_compute},
    {.op = "Dequantize",
     .types = {{"T", DP_SET_QUANTIZED}, {"dtype", DP_SET(FLOAT) | DP_SET(BFLOAT16)}},
     .state_size = sizeof(quantize_state),
     .create = quantize_create,
     .compute = dequantize_compute},
};
DP_KERNEL_FAMILY(quantize, rows);
