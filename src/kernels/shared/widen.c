/* Whole tensors of narrow dtypes as arrays of the type that a kernel computes in (widen.h). 8-bit
 * integers are widened to int32, then to float in a second pass if the work type is float. */
#include "kernels/shared/widen.h"

typedef struct widening {
  dp_dtype dtype;
  const void *from;
  void *to;
} widening;

static void widen_range(void *arg, int64_t begin, int64_t end) {
  const widening *work = arg;
  if (dp_kernel_is_short_float(work->dtype)) {
    dp_kernel_widen(work->dtype, (const uint16_t *)work->from + begin, (float *)work->to + begin,
                    end - begin);
  } else if (work->dtype == DP_INT8) {
    for (int64_t i = begin; i < end; ++i)
      ((int32_t *)work->to)[i] = ((const int8_t *)work->from)[i];
  } else {
    for (int64_t i = begin; i < end; ++i)
      ((int32_t *)work->to)[i] = ((const uint8_t *)work->from)[i];
  }
}

static void integers_to_floats(void *data, int64_t count) {
  int32_t *from = data;
  float *to = data;
  for (int64_t i = 0; i < count; ++i)
    to[i] = (float)from[i];
}

dp_status *dp_kernel_widen_tensor(dp_op_context *context, const dp_tensor *tensor, dp_dtype work,
                                  const void **data_out, dp_buffer **buffer_out) {
  if (tensor->dtype == work) {
    *data_out = tensor->data;
    *buffer_out = NULL;
    return NULL;
  }
  int64_t count = dp_tensor_elements(tensor);
  dp_buffer *buffer;
  DP_RETURN_IF_ERROR(dp_buffer_create((size_t)count * dp_dtype_size(work), &buffer));
  widening widen = {tensor->dtype, tensor->data, buffer->data};
  dp_kernel_for(context, count, 400, widen_range, &widen);
  if (work == DP_FLOAT && !dp_kernel_is_short_float(tensor->dtype))
    integers_to_floats(buffer->data, count);
  *data_out = buffer->data;
  *buffer_out = buffer;
  return NULL;
}

typedef struct narrowing {
  dp_dtype dtype;
  const float *from;
  uint16_t *to;
} narrowing;

static void narrow_range(void *arg, int64_t begin, int64_t end) {
  const narrowing *work = arg;
  dp_kernel_narrow(work->dtype, work->from + begin, work->to + begin, end - begin);
}

void dp_kernel_narrow_tensor(dp_op_context *context, const float *from, dp_tensor *to) {
  narrowing narrow = {to->dtype, from, to->data};
  dp_kernel_for(context, dp_tensor_elements(to), 400, narrow_range, &narrow);
}
