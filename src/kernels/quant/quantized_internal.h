/* Numbers of quantized types: codes, which stand for values spread evenly over a range that comes
 * beside the tensor as two float scalars. The arithmetic is TensorFlow's, rounding for rounding:
 * results are compared bit for bit. No state, any thread. */
#ifndef DP_KERNELS_QUANT_QUANTIZED_INTERNAL_H
#define DP_KERNELS_QUANT_QUANTIZED_INTERNAL_H

#include "kernels/shared/support.h"

typedef struct dp_quantized_range {
  float low, high;
} dp_quantized_range;

/* The range in inputs [slot, slot + 2), each of one element. */
DP_MUST_USE dp_status *dp_quantized_read_range(const dp_op_context *context, int32_t slot,
                                               dp_quantized_range *range_out);
/* Sets outputs [output, output + 2). */
DP_MUST_USE dp_status *dp_quantized_write_range(dp_op_context *context, int32_t output,
                                                dp_quantized_range range);

/* Least and largest code of a type. */
int64_t dp_quantized_lowest(dp_dtype dtype);
int64_t dp_quantized_highest(dp_dtype dtype);
int32_t dp_quantized_load(const dp_tensor *tensor, int64_t at);
void dp_quantized_store(dp_tensor *tensor, int64_t at, int64_t code);

/* The code nearest to a value; it may lie outside of the type. */
int64_t dp_quantized_code(dp_dtype dtype, float value, dp_quantized_range range);
/* The nearest code, clamped to the codes of the type. */
int64_t dp_quantized_clamped(dp_dtype dtype, float value, dp_quantized_range range);
/* The value of a code. */
float dp_quantized_value(dp_dtype dtype, int64_t code, dp_quantized_range range);
/* The range of products of codes of two types, kept in codes of a third. */
dp_quantized_range dp_quantized_product_range(dp_dtype a, dp_quantized_range a_range, dp_dtype b,
                                              dp_quantized_range b_range, dp_dtype c);

/* Where element `at` of a result comes from in an operand that is broadcast to its shape. */
int64_t dp_quantized_source(const dp_shape *result, const dp_shape *from, int64_t at);

/* Maps codes of one range to codes of another, for many elements. It computes in floats as
 * TensorFlow's vector code does, which can differ from dp_quantized_code. */
typedef struct dp_quantized_map {
  float factor, shift; /* value = code * factor + shift */
  float scale, offset; /* code = round(value * scale) - offset */
  float lower, upper;  /* of codes */
} dp_quantized_map;
dp_quantized_map dp_quantized_map_make(dp_dtype from, dp_quantized_range from_range, dp_dtype to,
                                       dp_quantized_range to_range);
int32_t dp_quantized_map_code(const dp_quantized_map *map, int32_t code);
int32_t dp_quantized_map_value(const dp_quantized_map *map, float value);

#endif
