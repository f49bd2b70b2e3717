/* Fuzzes the reader of PNG. The first byte has the options. One bit of it asks for the checksums of
 * the chunks to be repaired, since otherwise nearly every change would be refused. A file that can
 * be read must give the same pixels in both ways of reading (png_files.h), and after it was written
 * again. */
#include "png_files.h"

static void check_again(const void *pixels, const dp_image_size *size, int bits) {
  dp_text file = {0};
  dp_image_size same_size;
  dp_status *status = dp_png_encode(pixels, size->width, size->height, size->channels, bits,
                                    DP_PNG_ANY_BYTES, &file);
  void *same =
      status ? NULL : png_read((dp_view){file.data, file.length}, size->channels, bits, &same_size);
  size_t bytes = (size_t)(size->width * size->height * size->channels) * (size_t)bits / 8;
  if (!same || memcmp(same, pixels, bytes) != 0)
    abort();
  dp_status_release(status);
  dp_free(same);
  dp_text_deinit(&file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size == 0 || size > 4096)
    return 0;
  int channels = data[0] & 7, bits = data[0] & 8 ? 16 : 8;
  if (channels > 4)
    channels = 0;
  dp_view file = {dp_memdup(data + 1, size - 1), size - 1};
  if (data[0] & 16)
    png_repair((char *)file.data, file.length);
  if (png_compare_ways(file, channels, bits) == PNG_DIFFERENT)
    abort();
  dp_image_size shape;
  void *pixels = png_read(file, channels, bits, &shape);
  if (pixels)
    check_again(pixels, &shape, bits);
  dp_free(pixels);
  dp_free((void *)file.data);
  return 0;
}
