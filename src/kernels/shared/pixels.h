/* For the image kernels: pixels of any real dtype as floats, and sizes read from inputs. No state;
 * any thread. */
#ifndef DP_KERNELS_SHARED_PIXELS_H
#define DP_KERNELS_SHARED_PIXELS_H

#include "kernels/shared/support.h"

/* Converts `count` elements from element `offset` on to floats. */
void dp_image_to_float(dp_dtype dtype, const void *data, int64_t offset, float *to, int64_t count);
/* Converts floats to half, bfloat16, float, double, or by truncation to uint8, int32, int64. */
void dp_image_from_float(dp_dtype dtype, const float *from, void *data, int64_t offset,
                         int64_t count);

/* Scratch memory for one piece of work; NULL when there is no memory. */
static inline float *dp_image_scratch(int64_t count) {
  return dp_try_malloc((size_t)(count + 1) * sizeof(float));
}

/* ---- Resizing ---- */
typedef struct dp_image_sizes {
  int64_t batch, height, width, channels; /* of the image */
  int64_t to_height, to_width;            /* of the resized image */
} dp_image_sizes;
/* Height and width from a vector of two. */
DP_MUST_USE dp_status *dp_image_read_size(const dp_tensor *tensor, int64_t *height_out,
                                          int64_t *width_out);
/* Input 0 is the images, input 1 the new height and width. */
DP_MUST_USE dp_status *dp_image_read_sizes(const dp_op_context *context, dp_image_sizes *sizes_out);
/* The distance, in pixels of the image, of two neighbours of the result. */
float dp_image_scale(int64_t from, int64_t to, bool align_corners);

#endif
