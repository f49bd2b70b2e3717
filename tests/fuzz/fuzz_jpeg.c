/* Fuzzes our own decoder of small JPEG images against libjpeg. The first byte has the options. An
 * image that ours decodes must get the size and the pixels that libjpeg gives. An image that
 * libjpeg refuses must not be decoded by ours. */
#include <stdlib.h>
#include <string.h>
#include "jpeg_pixels.h"

static void compare(const pixels *a, const pixels *b) {
  if (a->size.width != b->size.width || a->size.height != b->size.height ||
      a->size.channels != b->size.channels || memcmp(a->data, b->data, a->length) != 0)
    abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size < 1 || size > 4096)
    return 0;
  static const int channels[4] = {0, 1, 3, 0};
  dp_jpeg_options options = {.channels = channels[data[0] & 3],
                             .ratio = 1,
                             .fancy_upscaling = data[0] & 4,
                             .is_accurate = data[0] & 8,
                             .recover_truncated = data[0] & 16,
                             .acceptable_fraction = 1.0f};
  dp_view image = {(const char *)data + 1, size - 1};
  pixels small = {0}, large = {0};
  dp_status *status = NULL, *library_status;
  bool is_taken = dp_jpeg_decode_small(image, &options, allocate_pixels, &small, &status);
  library_status = dp_jpeg_decode_by_library(image, &options, allocate_pixels, &large);
  if (is_taken && (status || library_status))
    abort();
  if (is_taken)
    compare(&small, &large);
  dp_status_release(status);
  dp_status_release(library_status);
  dp_free(small.data);
  dp_free(large.data);
  return 0;
}
