/* Ranges per channel. RequantizationRangePerChannel finds the range that 32-bit codes of images
 * use; RequantizePerChannel converts them to 8-bit codes of one range. A range is symmetric: from
 * minus to plus the largest magnitude. */
#include <float.h>
#include <math.h>
#include "base/memory.h"
#include "kernels/quant/quantized_internal.h"
#include "kernels/shared/family.h"

#define WHOLE 2147483648.0f /* the codes of half a range */

static float magnitude(const dp_tensor *low, const dp_tensor *high, int64_t at) {
  float a = fabsf(((const float *)low->data)[at]), b = fabsf(((const float *)high->data)[at]);
  return a < b ? b : a;
}

/* ---- RequantizationRangePerChannel ---- */
static int64_t first_size(const dp_tensor *tensor) {
  return tensor->shape.rank > 0 ? tensor->shape.dims[0] : 1;
}

static dp_status *check_range(const dp_tensor *input, const dp_tensor *low, const dp_tensor *high) {
  int64_t depth = high->shape.elements;
  if (first_size(low) != depth)
    return DP_INVALID("input_min has incorrect size, expected %lld was %lld", (long long)depth,
                      (long long)first_size(low));
  if (first_size(high) != depth)
    return DP_INVALID("input_max has incorrect size, expected %lld was %lld", (long long)depth,
                      (long long)first_size(high));
  if (low->shape.elements != depth)
    return DP_INVALID("input_min must have the same number of elements as input_max, got %lld and "
                      "%lld",
                      (long long)low->shape.elements, (long long)depth);
  if (input->shape.elements == 0)
    return DP_INVALID("input must not be empty");
  if (input->shape.rank != 4)
    return DP_INVALID("input must be in NHWC format");
  if (input->shape.dims[3] != depth)
    return DP_INVALID("input must have same number of channels as length of input_min: %lld vs "
                      "%lld",
                      (long long)input->shape.dims[3], (long long)depth);
  return NULL;
}

static dp_status *range_create(const dp_kernel_setup *setup, void *memory) {
  return dp_node_get_float(setup->node, "clip_value_max", memory);
}

/* The least code has no positive counterpart and stays as it is. */
static int32_t without_sign(int32_t code) {
  return code < 0 ? (int32_t)(0u - (uint32_t)code) : code;
}

static int32_t largest_code(const dp_tensor *input, int64_t channel, bool *is_negative) {
  const int32_t *codes = input->data;
  int32_t low = codes[channel], high = codes[channel];
  for (int64_t i = channel; i < input->shape.elements; i += input->shape.dims[3]) {
    low = codes[i] < low ? codes[i] : low;
    high = codes[i] > high ? codes[i] : high;
  }
  *is_negative = *is_negative || low < 0;
  int32_t below = without_sign(low), above = without_sign(high);
  return below > above ? below : above;
}

static dp_status *range_compute(dp_op_context *context, void *memory) {
  const dp_tensor *input = dp_op_input(context, 0);
  const dp_tensor *low = dp_op_input(context, 1), *high = dp_op_input(context, 2);
  float most = *(const float *)memory, largest = FLT_MIN;
  bool is_negative = false;
  DP_RETURN_IF_ERROR(check_range(input, low, high));
  for (int64_t i = 0; i < high->shape.elements; ++i) {
    float code = (float)largest_code(input, i, &is_negative);
    float value = magnitude(low, high, i) * code / WHOLE;
    largest = largest < value ? value : largest;
  }
  largest = largest > most ? most : largest;
  return dp_quantized_write_range(context, 0,
                                  (dp_quantized_range){is_negative ? -largest : 0, largest});
}

/* ---- RequantizePerChannel ---- */
static dp_status *check_requantize(const dp_op_context *context) {
  const dp_tensor *input = dp_op_input(context, 0), *low = dp_op_input(context, 1);
  const dp_tensor *high = dp_op_input(context, 2);
  if (input->shape.rank != 4)
    return DP_INVALID("Current RequantizePerChannel operatorsupports 4D tensors only.");
  if (high->shape.elements != low->shape.elements)
    return DP_INVALID("input_max has incorrect size, expected %lld was %lld",
                      (long long)low->shape.elements, (long long)high->shape.elements);
  for (int32_t i = 3; i <= 4; ++i)
    if (dp_op_input(context, i)->shape.elements != 1)
      return DP_INVALID("requested_output_%s must be a scalar", i == 3 ? "min" : "max");
  float least = *(const float *)dp_op_input(context, 3)->data;
  if (dp_op_output_type(context, 0) == DP_QINT8 && !(least < 0))
    return DP_INVALID("If out_type is QINT8, requested_output_max must be non negative, got %g",
                      (double)least);
  if (low->shape.elements != input->shape.dims[3])
    return DP_INVALID("input must have same number of channels as length of input_min: %lld vs "
                      "%lld",
                      (long long)input->shape.dims[3], (long long)low->shape.elements);
  return NULL;
}

typedef struct channel_call {
  const int32_t *from;
  dp_tensor *to;
  const float *scales;
  int64_t channels;
  float lowest, highest;
} channel_call;

static void scale_codes(void *arg, int64_t begin, int64_t end) {
  const channel_call *call = arg;
  for (int64_t i = begin; i < end; ++i) {
    float value = (float)call->from[i] * call->scales[i % call->channels];
    value = value > call->lowest ? value : call->lowest; /* not a number: the lowest */
    value = value < call->highest ? value : call->highest;
    dp_quantized_store(call->to, i, (int64_t)rintf(value));
  }
}

static dp_status *requantize_compute(dp_op_context *context, void *memory) {
  (void)memory;
  const dp_tensor *input = dp_op_input(context, 0);
  const dp_tensor *low = dp_op_input(context, 1), *high = dp_op_input(context, 2);
  dp_quantized_range wanted;
  dp_tensor *output;
  DP_RETURN_IF_ERROR(check_requantize(context));
  DP_RETURN_IF_ERROR(dp_quantized_read_range(context, 3, &wanted));
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &input->shape, &output));
  float most = magnitude(dp_op_input(context, 3), dp_op_input(context, 4), 0);
  float *scales = dp_malloc((size_t)(input->shape.dims[3] + 1) * sizeof(float));
  channel_call call = {.from = input->data,
                       .to = output,
                       .scales = scales,
                       .channels = input->shape.dims[3],
                       .lowest = (float)dp_quantized_lowest(output->dtype),
                       .highest = (float)dp_quantized_highest(output->dtype)};
  for (int64_t i = 0; i < call.channels; ++i)
    scales[i] = call.highest * (magnitude(low, high, i) / most / WHOLE);
  dp_op_for(context, input->shape.elements, 2, scale_codes, &call);
  dp_free(scales);
  return dp_quantized_write_range(context, 1, wanted);
}

static const dp_kernel rows[] = {
    {.op = "RequantizationRangePerChannel",
     .types = {{"T", DP_SET(QINT32)}},
     .state_size = sizeof(float),
     .create = range_create,
     .compute = range_compute},
    {.op = "RequantizePerChannel",
     .types = {{"T", DP_SET(QINT32)}, {"out_type", DP_SET(QINT8) | DP_SET(QUINT8)}},
     .compute = requantize_compute},
};
DP_KERNEL_FAMILY(quantized_channels, rows);
