/* GIF files: how much of a damaged file is still decoded, and how much memory a short file can make
 * us allocate. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <string.h>
#include "base/memory.h"
#include "kernels/codecs/codec.h"

#define HEAD "GIF89a\2\0\1\0\x80\0\0\1\2\3\4\5\6" /* colors 1 2 3 and 4 5 6 */
#define PLACE "\0\0\0\0\2\0\1\0\0"
#define PIXELS "\2\2\x44\x0a\0" /* clear, 0, 1, end */
#define FRAME "," PLACE PIXELS
#define FILE_OF(text) ((dp_view){text, sizeof(text) - 1})

typedef struct pixels {
  dp_image_size size;
  uint8_t data[64];
} pixels;

static uint8_t *allocate(void *arg, const dp_image_size *size) {
  pixels *pixels = arg;
  pixels->size = *size;
  memset(pixels->data, 99, sizeof pixels->data);
  int64_t bytes = size->width * size->height * size->channels * size->frames;
  return bytes <= (int64_t)sizeof pixels->data ? pixels->data : NULL;
}

static void expect_frames(dp_view file, int frames) {
  static const uint8_t wanted[6] = {1, 2, 3, 4, 5, 6};
  pixels pixels;
  dp_status *status = dp_gif_decode(file, true, allocate, &pixels);
  assert_null(status);
  assert_int_equal(pixels.size.frames, frames);
  assert_int_equal(pixels.size.width, 2);
  assert_int_equal(pixels.size.height, 1);
  for (int i = 0; i < frames; ++i)
    assert_memory_equal(pixels.data + 6 * i, wanted, 6);
}

static void expect_error(dp_view file, dp_code code, const char *message) {
  pixels pixels;
  dp_status *status = dp_gif_decode(file, true, allocate, &pixels);
  assert_int_equal(dp_status_code(status), code);
  assert_string_equal(dp_status_message(status), message);
  dp_status_release(status);
}

static void frames_before_a_defect_are_given(void **state) {
  (void)state;
  expect_frames(FILE_OF(HEAD FRAME ";"), 1);
  expect_frames(FILE_OF(HEAD FRAME FRAME), 2);
  expect_frames(FILE_OF(HEAD FRAME "?"), 1);
  expect_frames(FILE_OF(HEAD FRAME FRAME "," PLACE), 2);
  expect_frames(FILE_OF(HEAD FRAME "," PLACE "\2\1\x2c\0" FRAME ";"), 1);
}

static void what_is_wrong_is_told(void **state) {
  (void)state;
  expect_error(FILE_OF("GIF89"), DP_INVALID_ARGUMENT,
               "failed to open gif file: Failed to read from given file");
  expect_error(FILE_OF("GIF89a\2\0\1\0\x80\0\0\1\2"), DP_INVALID_ARGUMENT,
               "failed to open gif file: No screen descriptor detected");
  expect_error(FILE_OF(HEAD ";"), DP_INVALID_ARGUMENT,
               "failed to slurp gif file: No Image Descriptor detected");
  expect_error(FILE_OF(HEAD "," PLACE "\2\1\x2c\0;"), DP_INVALID_ARGUMENT,
               "failed to slurp gif file: Image EOF detected before image complete");
  expect_error(FILE_OF("GIF89a\2\0\1\0\0\0\0" FRAME ";"), DP_INVALID_ARGUMENT,
               "missing color map for frame 0");
}

static void claimed_pixels_take_no_memory(void **state) {
  (void)state;
  /* More than there is memory, in a frame without pixels. */
  expect_error(FILE_OF(HEAD ",\0\0\0\0\xff\xff\xff\x7f\0" PIXELS), DP_INVALID_ARGUMENT,
               "failed to slurp gif file: Image EOF detected before image complete");
  expect_frames(FILE_OF(HEAD FRAME ",\0\0\0\0\xff\xff\xff\x7f\0" PIXELS), 1);
}

/* A frame of `width` by `height` pixels of color 0, each with a code and each code in a block. */
static void add_frame(dp_text *file, int width, int height) {
  uint8_t place[10] = {',', [5] = (uint8_t)width, [6] = (uint8_t)(width >> 8),
                       [7] = (uint8_t)height, [8] = (uint8_t)(height >> 8)};
  dp_text_append(file, place, sizeof place);
  dp_text_append(file, "\7", 1);
  for (int i = 0; i < width * height; ++i)
    dp_text_append(file, "\2\x80\0", 3); /* clear, 0 */
  dp_text_append(file, "", 1);
}

static void a_long_and_a_high_frame_are_too_much(void **state) {
  (void)state;
  dp_text file = {0};
  dp_text_append(&file, HEAD, sizeof HEAD - 1);
  add_frame(&file, 65535, 1);
  add_frame(&file, 1, 65535);
  expect_error((dp_view){file.data, file.length}, DP_RESOURCE_EXHAUSTED,
               "2 frames of 65535 by 65535 pixels are more than a GIF of 131070 pixels may have");
  dp_text_deinit(&file);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(frames_before_a_defect_are_given),
      cmocka_unit_test(what_is_wrong_is_told),
      cmocka_unit_test(claimed_pixels_take_no_memory),
      cmocka_unit_test(a_long_and_a_high_frame_are_too_much),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
