/* Converts pixels of any real dtype to floats and back, and reads the sizes of resizing ops. The
 * conversions are plain loops over a piece of an image; callers split the work. */
#include <string.h>
#include "kernels/shared/pixels.h"

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

/* ---- Resizing ---- */
dp_status *dp_image_read_size(const dp_tensor *tensor, int64_t *height_out, int64_t *width_out) {
  if (tensor->shape.rank != 1)
    return DP_INVALID("shape_t must be 1-dimensional%s", dp_shape_text(&tensor->shape));
  if (dp_tensor_elements(tensor) != 2)
    return DP_INVALID("shape_t must have two elements%s", dp_shape_text(&tensor->shape));
  *height_out = dp_tensor_int_at(tensor, 0);
  *width_out = dp_tensor_int_at(tensor, 1);
  return NULL;
}

dp_status *dp_image_read_sizes(const dp_op_context *context, dp_image_sizes *sizes_out) {
  const dp_shape *shape = &dp_op_input(context, 0)->shape;
  dp_image_sizes sizes = {0};
  if (shape->rank != 4)
    return DP_INVALID("input must be 4-dimensional%s", dp_shape_text(shape));
  DP_RETURN_IF_ERROR(
      dp_image_read_size(dp_op_input(context, 1), &sizes.to_height, &sizes.to_width));
  if (shape->dims[1] > INT32_MAX || shape->dims[2] > INT32_MAX)
    return DP_INVALID("input sizes must be between 0 and max int32");
  if (sizes.to_height <= 0 || sizes.to_width <= 0)
    return DP_INVALID("output dimensions must be positive");
  if (shape->dims[3] <= 0)
    return DP_INVALID("image must have at least one channel");
  if (shape->dims[1] <= 0 || shape->dims[2] <= 0)
    return DP_INVALID("input image must be of non-zero size");
  sizes.batch = shape->dims[0];
  sizes.height = shape->dims[1];
  sizes.width = shape->dims[2];
  sizes.channels = shape->dims[3];
  *sizes_out = sizes;
  return NULL;
}

float dp_image_scale(int64_t from, int64_t to, bool align_corners) {
  return align_corners && to > 1 ? (float)(from - 1) / (float)(to - 1) : (float)from / (float)to;
}
