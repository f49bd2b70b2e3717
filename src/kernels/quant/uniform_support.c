/* Uniformly quantized numbers: checks of scales and zero points, fixed-point factors, and codes as
 * integers less their zero point. The contracts are in uniform_internal.h. */
#include "kernels/quant/uniform_internal.h"

#include <math.h>
#include <stdio.h>

dp_status *dp_uniform_check(const dp_uniform *uniform, const dp_shape *shape) {
  const dp_shape *scales = &uniform->scales->shape, *zeros = &uniform->zeros->shape;
  if (!dp_shape_equal(scales, zeros))
    return DP_INVALID("scales and zero_points shape must be same, but given scales shape %s and "
                      "zero_points shape %s",
                      dp_shape_text(scales), dp_shape_text(zeros));
  if (uniform->axis < -1 || uniform->axis >= shape->rank)
    return DP_INVALID("quantization_axis must be -1 or in range [0, input.rank), but given %lld",
                      (long long)uniform->axis);
  if (uniform->axis == -1 && scales->rank != 0)
    return DP_INVALID("If quantization_axis is -1, scales and zero_points must be scalar tensors, "
                      "but given scales shape %s and zero_points shape %s",
                      dp_shape_text(scales), dp_shape_text(zeros));
  if (uniform->axis >= 0 && (scales->rank != 1 || scales->dims[0] != shape->dims[uniform->axis]))
    return DP_INVALID("If quantization_axis is not -1, scales and zero_points must be a tensor of "
                      "rank 1 and the size must be equal to the "
                      "input.dim_size(quantization_axis), but given quantization_axis %lld, scales "
                      "shape %s and zero_points shape %s",
                      (long long)uniform->axis, dp_shape_text(scales), dp_shape_text(zeros));
  return NULL;
}

bool dp_uniform_is_positive(const dp_uniform *uniform) {
  const float *scales = uniform->scales->data;
  for (int64_t i = 0; i < uniform->scales->shape.elements; ++i)
    if (!(scales[i] > 0))
      return false;
  return true;
}

dp_uniform_slices dp_uniform_slices_of(const dp_shape *shape, int64_t axis) {
  if (axis < 0)
    return (dp_uniform_slices){1, 1, shape->elements};
  int at = (int)axis;
  return (dp_uniform_slices){dp_shape_product(shape, 0, at), shape->dims[at],
                             dp_shape_product(shape, at + 1, shape->rank)};
}

/* ---- Fixed point ---- */
dp_status *dp_uniform_factor_make(double value, dp_uniform_factor *factor_out) {
  if (!isfinite(value) || value <= 0)
    return DP_INVALID("double_multiplier must be a poisitive finite number. Given %g", value);
  int shift;
  int64_t one = INT64_C(1) << 31, multiplier = (int64_t)round(frexp(value, &shift) * (double)one);
  if (multiplier == one) {
    multiplier /= 2;
    ++shift;
  }
  if (shift < -31)
    multiplier = shift = 0;
  if (shift > 30) {
    multiplier = one - 1;
    shift = 30;
  }
  *factor_out = (dp_uniform_factor){(int32_t)multiplier, shift};
  return NULL;
}

int32_t dp_uniform_multiply(int32_t number, dp_uniform_factor factor) {
  int shift = 31 - factor.shift;
  int64_t half = INT64_C(1) << (shift - 1);
  int64_t result = ((int64_t)number * factor.multiplier + half) >> shift;
  return (int32_t)(result < INT32_MIN ? INT32_MIN : result > INT32_MAX ? INT32_MAX : result);
}

int32_t dp_uniform_load(const dp_tensor *tensor, int64_t at) {
  float code = (float)dp_quantized_load(tensor, at);
  return code < 0x1p31f ? (int32_t)code : INT32_MIN;
}

dp_status *dp_uniform_limits_read(const dp_node *node, const char *prefix,
                                  dp_uniform_limits *limits_out) {
  char name[64];
  snprintf(name, sizeof name, "%squantization_min_val", prefix);
  DP_RETURN_IF_ERROR(dp_kernel_get_int32(node, name, &limits_out->low));
  snprintf(name, sizeof name, "%squantization_max_val", prefix);
  return dp_kernel_get_int32(node, name, &limits_out->high);
}

/* What does not fit into 32 bits is the least number, as processors answer. */
int32_t dp_uniform_code(float value, float factor, int32_t zero, const dp_uniform_limits *limits) {
  float whole = floorf(value * factor + 0.5f);
  int32_t code = whole >= -0x1p31f && whole < 0x1p31f ? (int32_t)whole : INT32_MIN;
  return dp_uniform_limit(limits, dp_uniform_plus(code, zero));
}

/* ---- Operands of products ---- */
dp_status *dp_uniform_center(const dp_tensor *from, const dp_uniform *uniform,
                             dp_tensor *wide_out) {
  dp_uniform_slices slices = dp_uniform_slices_of(&from->shape, uniform->axis);
  DP_RETURN_IF_ERROR(dp_tensor_create(DP_INT32, &from->shape, wide_out));
  for (int64_t i = 0; i < from->shape.elements; ++i)
    ((int32_t *)wide_out->data)[i] = dp_uniform_minus(
        dp_uniform_load(from, i), dp_uniform_zero(uniform, i / slices.inner % slices.count));
  return NULL;
}

/* Codes from -128 to 127 for the floats of a slice and for 0. A factor of 0: all codes are 0,
 * because all floats are or nothing fits. */
typedef struct slice_quantizer {
  float scale, factor;
  int32_t zero;
} slice_quantizer;

static int32_t nearest_zero(double low, double high, double scale) {
  double from_low = -128 - low / scale, from_high = 127 - high / scale;
  bool takes_low = 128 + fabs(low / scale) < 127 + fabs(high / scale);
  double zero = takes_low ? from_low : from_high;
  return zero <= -128 ? -128 : zero >= 127 ? 127 : (int32_t)round(zero);
}

static slice_quantizer make_quantizer(double low, double high) {
  slice_quantizer result = {.scale = (float)((high - low) / 255),
                            .factor = high != low ? (float)(255 / (high - low)) : 0};
  if (result.scale == 0 || !isfinite(result.factor))
    return (slice_quantizer){.scale = 1};
  result.zero = nearest_zero(low, high, (double)result.scale);
  return result;
}

/* The range of a slice, 0 always within. */
static slice_quantizer measure(const float *from, const dp_uniform_slices *slices, int64_t slice) {
  float low = 0, high = 0;
  for (int64_t outer = 0; outer < slices->outer; ++outer) {
    const float *run = from + (outer * slices->count + slice) * slices->inner;
    for (int64_t i = 0; i < slices->inner; ++i) {
      low = run[i] < low ? run[i] : low;
      high = run[i] > high ? run[i] : high;
    }
  }
  return make_quantizer((double)low, (double)high);
}

static void center_slice(const float *from, int32_t *to, const dp_uniform_slices *slices,
                         int64_t slice, const slice_quantizer *quantizer) {
  static const dp_uniform_limits limits = {INT8_MIN, INT8_MAX};
  for (int64_t outer = 0; outer < slices->outer; ++outer) {
    int64_t begin = (outer * slices->count + slice) * slices->inner;
    for (int64_t i = begin; i < begin + slices->inner; ++i)
      to[i] = quantizer->factor == 0
                  ? 0
                  : dp_uniform_code(from[i], quantizer->factor, quantizer->zero, &limits) -
                        quantizer->zero;
  }
}

dp_status *dp_uniform_center_floats(const dp_tensor *from, int64_t axis, dp_tensor *wide_out,
                                    float *scales) {
  dp_uniform_slices slices = dp_uniform_slices_of(&from->shape, axis);
  DP_RETURN_IF_ERROR(dp_tensor_create(DP_INT32, &from->shape, wide_out));
  for (int64_t slice = 0; slice < slices.count; ++slice) {
    slice_quantizer quantizer = measure(from->data, &slices, slice);
    scales[slice] = quantizer.scale;
    center_slice(from->data, wide_out->data, &slices, slice, &quantizer);
  }
  return NULL;
}
