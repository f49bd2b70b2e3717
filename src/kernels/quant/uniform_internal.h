/* Uniformly quantized numbers: value = (code - zero point) * scale, with one scale and zero point
 * for a tensor or one for each slice along an axis. Scales of results are applied in fixed point,
 * as TensorFlow applies them: results are compared bit for bit. No state, any thread. */
#ifndef DP_KERNELS_QUANT_UNIFORM_INTERNAL_H
#define DP_KERNELS_QUANT_UNIFORM_INTERNAL_H

#include "kernels/quant/quantized_internal.h"

/* Scales and zero points in inputs [slot, slot + 2); `axis` -1: one of each for all. */
typedef struct dp_uniform {
  const dp_tensor *scales, *zeros;
  int64_t axis;
} dp_uniform;

static inline dp_uniform dp_uniform_input(const dp_op_context *context, int32_t slot,
                                          int64_t axis) {
  return (dp_uniform){dp_op_input(context, slot), dp_op_input(context, slot + 1), axis};
}
static inline float dp_uniform_scale(const dp_uniform *uniform, int64_t slice) {
  return ((const float *)uniform->scales->data)[uniform->axis < 0 ? 0 : slice];
}
static inline int32_t dp_uniform_zero(const dp_uniform *uniform, int64_t slice) {
  return ((const int32_t *)uniform->zeros->data)[uniform->axis < 0 ? 0 : slice];
}
/* Whether they fit a tensor of this shape. */
DP_MUST_USE dp_status *dp_uniform_check(const dp_uniform *uniform, const dp_shape *shape);
bool dp_uniform_is_positive(const dp_uniform *uniform); /* all scales are */

/* Slices along an axis; -1: one of the whole. */
typedef struct dp_uniform_slices {
  int64_t outer, count, inner;
} dp_uniform_slices;
dp_uniform_slices dp_uniform_slices_of(const dp_shape *shape, int64_t axis);

/* ---- Fixed point ---- */
typedef struct dp_uniform_factor {
  int32_t multiplier;
  int shift;
} dp_uniform_factor;
DP_MUST_USE dp_status *dp_uniform_factor_make(double value, dp_uniform_factor *factor_out);
/* Rounded once, at most the largest and at least the least number. */
int32_t dp_uniform_multiply(int32_t number, dp_uniform_factor factor);

/* Numbers wrap as TensorFlow's do. */
static inline int32_t dp_uniform_plus(int32_t a, int32_t b) {
  return (int32_t)((uint32_t)a + (uint32_t)b);
}
static inline int32_t dp_uniform_minus(int32_t a, int32_t b) {
  return (int32_t)((uint32_t)a - (uint32_t)b);
}

/* A code; one of 32 bits has the precision of a float, because TensorFlow's type goes through one.
 */
int32_t dp_uniform_load(const dp_tensor *tensor, int64_t at);

/* Limits of codes from the attributes "<prefix>quantization_min_val" and "..._max_val". */
typedef struct dp_uniform_limits {
  int64_t low, high;
} dp_uniform_limits;
DP_MUST_USE dp_status *dp_uniform_limits_read(const dp_node *node, const char *prefix,
                                              dp_uniform_limits *limits_out);
static inline int32_t dp_uniform_limit(const dp_uniform_limits *limits, int64_t code) {
  code = code < limits->high ? code : limits->high;
  return (int32_t)(code > limits->low ? code : limits->low);
}
/* floor(value * factor + 0.5) + zero, within the limits. */
int32_t dp_uniform_code(float value, float factor, int32_t zero, const dp_uniform_limits *limits);

/* ---- Operands of products ---- */
/* Codes less their zero points, as fresh 32-bit integers. */
DP_MUST_USE dp_status *dp_uniform_center(const dp_tensor *from, const dp_uniform *uniform,
                                         dp_tensor *wide_out);
/* The same for floats: each slice along `axis` is quantized to 8 bits, with a scale that is chosen
 * from the slice's own range. `scales` gets one scale per slice. */
DP_MUST_USE dp_status *dp_uniform_center_floats(const dp_tensor *from, int64_t axis,
                                                dp_tensor *wide_out, float *scales);

#endif
