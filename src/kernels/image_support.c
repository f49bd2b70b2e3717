/* Pixels of any real dtype as floats. */
#include <string.h>
#include "kernels/image_internal.h"

#define CONVERT(type)                                                                              \
  {                                                                                                \
    const type *values = (const type *)data + offset;                                              \
    for (int64_t i = 0; i < count; ++i)                                                            \
      to[i] = (float)values[i];                                                                    \
    return;                                                                                        \
  }

void dp_image_to_float(dp_dtype dtype, const void *data, int64_t offset, float *to, int64_t count) {
  switch (dtype) {
  case DP_FLOAT:
    memcpy(to, (const float *)data + offset, (size_t)count * sizeof(float));
    return;
  case DP_DOUBLE:
    CONVERT(double)
  case DP_HALF:
  case DP_BFLOAT16:
    dp_kernel_widen(dtype, (const uint16_t *)data + offset, to, count);
    return;
  case DP_INT8:
    CONVERT(int8_t)
  case DP_INT16:
    CONVERT(int16_t)
  case DP_INT32:
    CONVERT(int32_t)
  case DP_INT64:
    CONVERT(int64_t)
  case DP_UINT8:
    CONVERT(uint8_t)
  case DP_UINT16:
    CONVERT(uint16_t)
  case DP_UINT32:
    CONVERT(uint32_t)
  default:
    CONVERT(uint64_t)
  }
}

#define CONVERT_BACK(type)                                                                         \
  {                                                                                                \
    type *values = (type *)data + offset;                                                          \
    for (int64_t i = 0; i < count; ++i)                                                            \
      values[i] = (type)from[i];                                                                   \
    return;                                                                                        \
  }

void dp_image_from_float(dp_dtype dtype, const float *from, void *data, int64_t offset,
                         int64_t count) {
  switch (dtype) {
  case DP_FLOAT:
    memcpy((float *)data + offset, from, (size_t)count * sizeof(float));
    return;
  case DP_DOUBLE:
    CONVERT_BACK(double)
  case DP_UINT8:
    CONVERT_BACK(uint8_t)
  case DP_INT32:
    CONVERT_BACK(int32_t)
  case DP_INT64:
    CONVERT_BACK(int64_t)
  default:
    dp_kernel_narrow(dtype, from, (uint16_t *)data + offset, count);
  }
}
