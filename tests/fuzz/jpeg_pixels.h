/* Memory for decoded pixels, shared by the fuzzer and the unit tests of the JPEG reader. */
#ifndef DP_FUZZ_JPEG_PIXELS_H
#define DP_FUZZ_JPEG_PIXELS_H

#include <stdlib.h>
#include "base/memory.h"
#include "kernels/codecs/codec.h"

typedef struct pixels {
  dp_image_size size;
  uint8_t *data;
  size_t length;
} pixels;

/* NULL for the huge sizes that damaged headers give. A reader asks once per image. */
static inline uint8_t *allocate_pixels(void *arg, const dp_image_size *size) {
  pixels *pixels = arg;
  if (pixels->data)
    abort();
  if (size->width * size->height > 1 << 16)
    return NULL;
  pixels->size = *size;
  pixels->length = (size_t)(size->width * size->height * size->channels);
  return pixels->data = dp_calloc(1, pixels->length);
}

#endif
