/* Quantized numbers: ranges as inputs and outputs, codes to values and back, and maps from one
 * range to another, with TensorFlow's arithmetic. The contract is in quantized_internal.h. */
#include "kernels/quant/quantized_internal.h"

#include <math.h>

/* ---- Ranges in tensors ---- */
dp_status *dp_quantized_read_range(const dp_op_context *context, int32_t slot,
                                   dp_quantized_range *range_out) {
  for (int32_t i = slot; i < slot + 2; ++i)
    if (dp_op_input(context, i)->shape.elements != 1)
      return DP_INVALID("Input %d, a limit of a range, must be a scalar, but got shape %s", i,
                        dp_shape_text(&dp_op_input(context, i)->shape));
  range_out->low = *(const float *)dp_op_input(context, slot)->data;
  range_out->high = *(const float *)dp_op_input(context, slot + 1)->data;
  return NULL;
}

dp_status *dp_quantized_write_range(dp_op_context *context, int32_t output,
                                    dp_quantized_range range) {
  DP_RETURN_IF_ERROR(dp_tensor_scalar_float(range.low, &context->outputs[output].tensor));
  return dp_tensor_scalar_float(range.high, &context->outputs[output + 1].tensor);
}

/* ---- Codes ---- */
int64_t dp_quantized_lowest(dp_dtype dtype) {
  return dtype == DP_QINT8    ? INT8_MIN
         : dtype == DP_QINT16 ? INT16_MIN
         : dtype == DP_QINT32 ? INT32_MIN
                              : 0;
}

int64_t dp_quantized_highest(dp_dtype dtype) {
  switch (dtype) {
  case DP_QUINT8:
    return UINT8_MAX;
  case DP_QINT8:
    return INT8_MAX;
  case DP_QUINT16:
    return UINT16_MAX;
  case DP_QINT16:
    return INT16_MAX;
  default:
    return INT32_MAX;
  }
}

int32_t dp_quantized_load(const dp_tensor *tensor, int64_t at) {
  switch (tensor->dtype) {
  case DP_QUINT8:
    return ((const uint8_t *)tensor->data)[at];
  case DP_QINT8:
    return ((const int8_t *)tensor->data)[at];
  case DP_QUINT16:
    return ((const uint16_t *)tensor->data)[at];
  case DP_QINT16:
    return ((const int16_t *)tensor->data)[at];
  default:
    return ((const int32_t *)tensor->data)[at];
  }
}

void dp_quantized_store(dp_tensor *tensor, int64_t at, int64_t code) {
  switch (dp_dtype_size(tensor->dtype)) {
  case 1:
    ((uint8_t *)tensor->data)[at] = (uint8_t)code;
    break;
  case 2:
    ((uint16_t *)tensor->data)[at] = (uint16_t)code;
    break;
  default:
    ((uint32_t *)tensor->data)[at] = (uint32_t)code;
  }
}

static double steps_of(dp_dtype dtype) {
  return (double)((int64_t)1 << (8 * dp_dtype_size(dtype)));
}

/* A double as an integer; what does not fit is the least one, as processors answer. */
static int64_t to_int64(double value) {
  return value >= -0x1p63 && value < 0x1p63 ? (int64_t)value : INT64_MIN;
}

int64_t dp_quantized_code(dp_dtype dtype, float value, dp_quantized_range range) {
  int64_t lowest = dp_quantized_lowest(dtype);
  if (range.low == range.high)
    return lowest;
  double steps = steps_of(dtype), adjust = steps / (steps - 1.0);
  double scale = steps / ((double)(range.high - range.low) * adjust);
  int64_t code = to_int64(round((double)value * scale) - round((double)range.low * scale));
  return (int64_t)((uint64_t)code + (uint64_t)lowest);
}

int64_t dp_quantized_clamped(dp_dtype dtype, float value, dp_quantized_range range) {
  int64_t code = dp_quantized_code(dtype, value, range);
  int64_t lowest = dp_quantized_lowest(dtype), highest = dp_quantized_highest(dtype);
  code = code < lowest ? lowest : code;
  return code > highest ? highest : code;
}

float dp_quantized_value(dp_dtype dtype, int64_t code, dp_quantized_range range) {
  if (range.low == range.high)
    return range.low;
  double steps = steps_of(dtype), adjust = steps / (steps - 1.0);
  double scale = (double)(range.high - range.low) * adjust / steps;
  double offset = (double)code - (double)dp_quantized_lowest(dtype);
  double low = (double)(roundf(range.low / (float)scale) * (float)scale);
  return (float)(low + offset * scale);
}

static float level_of(dp_dtype dtype, dp_quantized_range range) {
  int64_t steps = dp_quantized_highest(dtype) - dp_quantized_lowest(dtype);
  return (range.high - range.low) / (float)steps;
}

dp_quantized_range dp_quantized_product_range(dp_dtype a, dp_quantized_range a_range, dp_dtype b,
                                              dp_quantized_range b_range, dp_dtype c) {
  float level = level_of(a, a_range) * level_of(b, b_range);
  return (dp_quantized_range){level * (float)dp_quantized_lowest(c),
                              level * (float)dp_quantized_highest(c)};
}

int64_t dp_quantized_source(const dp_shape *result, const dp_shape *from, int64_t at) {
  int64_t source = 0, step = 1;
  for (int i = 1; i <= from->rank; ++i) {
    int64_t size = result->dims[result->rank - i], place = at % size;
    at /= size;
    if (from->dims[from->rank - i] != 1)
      source += place * step;
    step *= from->dims[from->rank - i];
  }
  return source;
}

/* ---- Many codes ---- */
dp_quantized_map dp_quantized_map_make(dp_dtype from, dp_quantized_range from_range, dp_dtype to,
                                       dp_quantized_range to_range) {
  dp_quantized_map map;
  float low = from_range.low;
  map.factor = (float)((double)(from_range.high - from_range.low) / (steps_of(from) - 1.0));
  if (from_range.low != from_range.high)
    low = roundf(from_range.low / map.factor) * map.factor;
  map.shift = low - (float)dp_quantized_lowest(from) * map.factor;
  map.scale = to_range.low == to_range.high
                  ? 0
                  : (float)((steps_of(to) - 1.0) / (double)(to_range.high - to_range.low));
  map.offset = roundf(to_range.low * map.scale) - (float)dp_quantized_lowest(to);
  map.lower = fmaxf((float)dp_quantized_lowest(to), -2.147483648e+09f);
  map.upper = fminf((float)dp_quantized_highest(to), 2.147483520e+09f);
  return map;
}

int32_t dp_quantized_map_code(const dp_quantized_map *map, int32_t code) {
  return dp_quantized_map_value(map, map->shift + (float)code * map->factor);
}

int32_t dp_quantized_map_value(const dp_quantized_map *map, float value) {
  float result = roundf(value * map->scale) - map->offset;
  result = result > map->lower ? result : map->lower; /* not a number: the lower one */
  return (int32_t)(result < map->upper ? result : map->upper);
}
