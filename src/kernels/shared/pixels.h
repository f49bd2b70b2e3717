/* What the image kernels share: pixels of any real dtype as floats, and sizes read from inputs. */
#ifndef DP_KERNELS_IMAGE_INTERNAL_H
#define DP_KERNELS_IMAGE_INTERNAL_H

#include "kernels/shared/support.h"

/* `count` elements from `offset` on, as floats. */
void dp_image_to_float(dp_dtype dtype, const void *data, int64_t offset, float *to, int64_t count);
/* Floats to half, bfloat16, float, double, or (cut off) uint8, int32 and int64. */
void dp_image_from_float(dp_dtype dtype, const float *from, void *data, int64_t offset,
                         int64_t count);

/* Scratch floats for one piece of work; NULL without memory. */
static inline float *dp_image_scratch(int64_t count) {
  return dp_try_malloc((size_t)(count + 1) * sizeof(float));
}

/* ---- Resizing ---- */
typedef struct dp_image_sizes {
  int64_t batch, height, width, channels; /* of the image */
  int64_t to_height, to_width;            /* of the resized one */
} dp_image_sizes;
/* Height and width from a vector of two. */
DP_MUST_USE dp_status *dp_image_read_size(const dp_tensor *tensor, int64_t *height_out,
                                          int64_t *width_out);
/* Images are input 0, height and width wanted are input 1. */
DP_MUST_USE dp_status *dp_image_read_sizes(const dp_op_context *context, dp_image_sizes *sizes_out);
/* How far apart neighbours of the result are in the image. */
float dp_image_scale(int64_t from, int64_t to, bool align_corners);

#endif
