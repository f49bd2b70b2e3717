/* What the image kernels share: pixels of any real dtype as floats, and sizes read from inputs. */
#ifndef DP_KERNELS_IMAGE_INTERNAL_H
#define DP_KERNELS_IMAGE_INTERNAL_H

#include "kernels/support_internal.h"

/* `count` elements from `offset` on, as floats. */
void dp_image_to_float(dp_dtype dtype, const void *data, int64_t offset, float *to, int64_t count);
/* Floats to half, bfloat16, float, double, or (cut off) uint8, int32 and int64. */
void dp_image_from_float(dp_dtype dtype, const float *from, void *data, int64_t offset,
                         int64_t count);

/* Scratch floats for one piece of work; NULL without memory. */
static inline float *dp_image_scratch(int64_t count) {
  return dp_try_malloc((size_t)(count + 1) * sizeof(float));
}

#endif
