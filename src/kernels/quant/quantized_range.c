/* Ops on quantized tensors and their ranges: Requantize and QuantizeDownAndShrinkRange convert to
 * other ranges and types; RequantizationRange finds the range in use; QuantizedRelu and
 * QuantizedRelu6 keep the range; QuantizedConcat merges ranges. */
#include "kernels/shared/family.h"

#include <math.h>
#include "kernels/quant/quantized_internal.h"

/* ---- From 32 to 8 bits ---- */
/* To unsigned numbers in fixed point with 16 bits behind the point, as TensorFlow does. */
typedef struct shrink_plan {
  int64_t scale, offset;
} shrink_plan;

static int64_t to_fixed(double value) {
  return value >= -0x1p62 && value <= 0x1p62 ? (int64_t)value : 0;
}

static shrink_plan make_shrink(dp_quantized_range from, dp_quantized_range to) {
  float from_size = from.high - from.low, to_size = to.high - to.low;
  float reciprocal = to_size == 0 ? 0 : (float)(255.0 / (double)to_size);
  float middle = (float)((double)(from.low + from.high) / 2.0);
  double scale = 255.0 * 65536 * (double)from_size / (double)to_size;
  double low = 65536 * ((double)to.low * 255.0) / (double)to_size;
  return (shrink_plan){.scale = to_size == 0 ? 0 : to_fixed(scale),
                       .offset = to_fixed((double)(middle * reciprocal * 65536)) -
                                 (to_size == 0 ? 0 : to_fixed(round(low))) + (1 << 15)};
}

typedef struct map_call {
  const dp_tensor *from;
  dp_tensor *to;
  shrink_plan shrink; /* to quint8 */
  dp_quantized_map map;
} map_call;

static void shrink_range(void *arg, int64_t begin, int64_t end) {
  const map_call *call = arg;
  const int32_t *from = call->from->data;
  uint8_t *to = call->to->data;
  for (int64_t i = begin; i < end; ++i) {
    uint64_t product = (uint64_t)from[i] * (uint64_t)call->shrink.scale; /* wraps */
    int64_t code = (((int64_t)product >> 32) + call->shrink.offset) >> 16;
    to[i] = (uint8_t)(code < 0 ? 0 : code > 255 ? 255 : code);
  }
}

static void map_range(void *arg, int64_t begin, int64_t end) {
  const map_call *call = arg;
  for (int64_t i = begin; i < end; ++i)
    dp_quantized_store(call->to, i,
                       dp_quantized_map_code(&call->map, dp_quantized_load(call->from, i)));
}

/* Output 0 is input 0 in another range, outputs 1 and 2 are that range. */
static dp_status *requantize_to(dp_op_context *context, dp_quantized_range from,
                                dp_quantized_range to) {
  const dp_tensor *input = dp_op_input(context, 0);
  dp_tensor *output;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &input->shape, &output));
  map_call call = {.from = input, .to = output};
  bool shrinks = input->dtype == DP_QINT32 && output->dtype == DP_QUINT8;
  if (shrinks)
    call.shrink = make_shrink(from, to);
  else
    call.map = dp_quantized_map_make(input->dtype, from, output->dtype, to);
  dp_op_for(context, input->shape.elements, 2, shrinks ? shrink_range : map_range, &call);
  return dp_quantized_write_range(context, 1, to);
}

static dp_status *requantize(dp_op_context *context, void *memory) {
  (void)memory;
  dp_quantized_range from, to;
  DP_RETURN_IF_ERROR(dp_quantized_read_range(context, 1, &from));
  DP_RETURN_IF_ERROR(dp_quantized_read_range(context, 3, &to));
  if (!(to.low <= 0))
    return DP_INVALID("requested_output_min must be <= 0, but got %g", (double)to.low);
  if (!(to.high >= to.low))
    return DP_INVALID("requested_output_max must be >= requested_output_min, but got %g and %g",
                      (double)to.high, (double)to.low);
  return requantize_to(context, from, to);
}

/* ---- The range in use ---- */
static dp_quantized_range used_range(const dp_tensor *input, dp_quantized_range range) {
  int64_t low = dp_quantized_highest(input->dtype), high = dp_quantized_lowest(input->dtype);
  for (int64_t i = 0; i < input->shape.elements; ++i) {
    int64_t code = dp_quantized_load(input, i);
    low = code < low ? code : low;
    high = code > high ? code : high;
  }
  /* Zero is always within, so that products stay simple. */
  return (dp_quantized_range){fminf(0, dp_quantized_value(input->dtype, low, range)),
                              dp_quantized_value(input->dtype, high, range)};
}

static dp_status *requantization_range(dp_op_context *context, void *memory) {
  (void)memory;
  dp_quantized_range range;
  const dp_tensor *input = dp_op_input(context, 0);
  if (input->shape.elements == 0)
    return DP_INVALID("Input tensor must not be empty");
  DP_RETURN_IF_ERROR(dp_quantized_read_range(context, 1, &range));
  return dp_quantized_write_range(context, 0, used_range(input, range));
}

static dp_status *shrink(dp_op_context *context, void *memory) {
  (void)memory;
  dp_quantized_range range;
  DP_RETURN_IF_ERROR(dp_quantized_read_range(context, 1, &range));
  return requantize_to(context, range, used_range(dp_op_input(context, 0), range));
}

/* ---- Activations ---- */
static dp_status *clamp(dp_op_context *context, float highest) {
  const dp_tensor *input = dp_op_input(context, 0);
  dp_quantized_range range;
  dp_tensor *output;
  DP_RETURN_IF_ERROR(dp_quantized_read_range(context, 1, &range));
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &input->shape, &output));
  int64_t low = dp_quantized_clamped(input->dtype, 0, range);
  int64_t high = isinf(highest) ? INT32_MAX : dp_quantized_clamped(input->dtype, highest, range);
  for (int64_t i = 0; i < input->shape.elements; ++i) {
    int64_t code = dp_quantized_load(input, i);
    code = code > low ? code : low;
    dp_quantized_store(output, i, code < high ? code : high);
  }
  return dp_quantized_write_range(context, 1, range);
}

static dp_status *relu(dp_op_context *context, void *memory) {
  (void)memory;
  return clamp(context, INFINITY);
}

static dp_status *relu6(dp_op_context *context, void *memory) {
  (void)memory;
  return clamp(context, 6);
}

/* ---- Concat ---- */
typedef struct concat_call {
  dp_op_context *context;
  int32_t count; /* of values; their minima and maxima follow */
  int axis;
} concat_call;

static dp_quantized_range range_at(const concat_call *call, int32_t i) {
  return (dp_quantized_range){
      *(const float *)dp_op_input(call->context, 1 + call->count + i)->data,
      *(const float *)dp_op_input(call->context, 1 + 2 * call->count + i)->data};
}

static dp_status *check_concat(const concat_call *call, dp_shape *shape_out) {
  const dp_shape *first = &dp_op_input(call->context, 1)->shape;
  int64_t total = 0;
  for (int32_t i = 0; i < call->count; ++i) {
    const dp_shape *shape = &dp_op_input(call->context, 1 + i)->shape;
    if (shape->rank != first->rank)
      return DP_INVALID("ConcatOp : Ranks of all input tensors should match: shape[0] = %s vs. "
                        "shape[%d] = %s",
                        dp_shape_text(first), i, dp_shape_text(shape));
    for (int j = 0; j < first->rank; ++j)
      if (j != call->axis && shape->dims[j] != first->dims[j])
        return DP_INVALID("ConcatOp : Dimensions of inputs should match: shape[0] = %s vs. "
                          "shape[%d] = %s",
                          dp_shape_text(first), i, dp_shape_text(shape));
    total += shape->dims[call->axis];
  }
  for (int32_t i = 0; i < 2 * call->count; ++i)
    if (dp_op_input(call->context, 1 + call->count + i)->shape.elements != 1)
      return DP_INVALID("QuantizedConcatOp : each minimum and maximum must be a scalar");
  *shape_out = dp_shape_with(first, call->axis, total);
  return NULL;
}

/* All inputs' ranges in one; the same on both sides of zero for types with a sign. */
static dp_quantized_range common_range(const concat_call *call, dp_dtype dtype) {
  dp_quantized_range all = range_at(call, 0);
  for (int32_t i = 1; i < call->count; ++i) {
    dp_quantized_range range = range_at(call, i);
    all.low = range.low < all.low ? range.low : all.low;
    all.high = range.high > all.high ? range.high : all.high;
  }
  if (dp_quantized_lowest(dtype) < 0) {
    float largest = fmaxf(fabsf(all.low), fabsf(all.high));
    all = (dp_quantized_range){-largest, largest};
  }
  return all;
}

static void copy_codes(const dp_tensor *from, int64_t at, dp_tensor *to, int64_t to_at,
                       int64_t count, const dp_quantized_map *map) {
  for (int64_t i = 0; i < count; ++i) {
    int32_t code = dp_quantized_load(from, at + i);
    dp_quantized_store(to, to_at + i, map ? dp_quantized_map_code(map, code) : code);
  }
}

static void concat_values(const concat_call *call, dp_tensor *output, dp_quantized_range all) {
  int64_t outer = dp_shape_product(&output->shape, 0, call->axis), at = 0;
  int64_t row = dp_shape_product(&output->shape, call->axis, output->shape.rank);
  for (int32_t i = 0; i < call->count; ++i) {
    const dp_tensor *from = dp_op_input(call->context, 1 + i);
    dp_quantized_range range = range_at(call, i);
    int64_t width = dp_shape_product(&from->shape, call->axis, from->shape.rank);
    dp_quantized_map map = dp_quantized_map_make(from->dtype, range, from->dtype, all);
    bool is_same = range.low == all.low && range.high == all.high;
    for (int64_t j = 0; j < outer; ++j)
      copy_codes(from, j * width, output, j * row + at, width, is_same ? NULL : &map);
    at += width;
  }
}

static dp_status *concat(dp_op_context *context, void *memory) {
  (void)memory;
  const dp_tensor *axis = dp_op_input(context, 0), *first = dp_op_input(context, 1);
  concat_call call = {.context = context, .count = (context->input_count - 1) / 3};
  dp_shape shape;
  dp_tensor *output;
  if (axis->shape.elements != 1)
    return DP_INVALID("Concat dim tensor should be a scalar integer, but got shape %s",
                      dp_shape_text(&axis->shape));
  int64_t at = dp_tensor_int_at(axis, 0);
  if (at < 0 || at >= first->shape.rank)
    return DP_INVALID("ConcatOp : Expected concatenating dimensions in the range [0, %d), but got "
                      "%lld",
                      first->shape.rank, (long long)at);
  call.axis = (int)at;
  DP_RETURN_IF_ERROR(check_concat(&call, &shape));
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &shape, &output));
  dp_quantized_range all = common_range(&call, output->dtype);
  concat_values(&call, output, all);
  return dp_quantized_write_range(context, 1, all);
}

#define WIDE DP_SET(QINT32)
#define BOTH (DP_SET(QINT32) | DP_SET(QUINT8))
#define SAME(name, set, body)                                                                      \
  { .op = name, .types = {{"Tinput", set}, {"out_type", set}}, .compute = body }
static const dp_kernel rows[] = {
    {.op = "Requantize",
     .types = {{"Tinput", WIDE}, {"out_type", DP_SET(QUINT8) | DP_SET(QINT8)}},
     .compute = requantize},
    {.op = "RequantizationRange", .types = {{"Tinput", WIDE}}, .compute = requantization_range},
    {.op = "QuantizeDownAndShrinkRange",
     .types = {{"Tinput", WIDE}, {"out_type", DP_SET(QUINT8)}},
     .compute = shrink},
    SAME("QuantizedRelu", WIDE, relu),
    SAME("QuantizedRelu", DP_SET(QUINT8), relu),
    SAME("QuantizedRelu6", WIDE, relu6),
    SAME("QuantizedRelu6", DP_SET(QUINT8), relu6),
    {.op = "QuantizedConcat", .types = {{"T", BOTH}}, .compute = concat},
};
DP_KERNEL_FAMILY(quantized_range, rows);
