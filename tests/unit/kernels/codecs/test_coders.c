/* Coders are kept between images, and the next thread that needs one takes it. Here more threads
 * than there are kept coders read and write images of all kinds and sizes; each must get the result
 * that one thread alone gets. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>
#include "base/memory.h"
#include "kernels/codecs/codec.h"

#define THREADS (DP_CODER_PLACES + 2)
#define ROUNDS 60

typedef enum form { PLAIN_JPEG, PROGRESSIVE_JPEG, PNG, PNG_OF_ANY_BYTES, FORMS } form;
static const int sides[] = {1, 9, 40, 150};
#define SIDES ((int)(sizeof sides / sizeof *sides))
#define IMAGES (FORMS * SIDES)

typedef struct image {
  form form;
  int side;
  dp_text file, pixels; /* as one thread alone wrote and read them */
} image;
static image images[IMAGES];

static dp_status *write_image(const image *image, dp_text *file) {
  size_t bytes = (size_t)(3 * image->side * image->side);
  uint8_t *pixels = dp_malloc(bytes);
  for (size_t i = 0; i < bytes; ++i)
    pixels[i] = (uint8_t)(i * i / 7 + i * (size_t)image->side);
  dp_jpeg_write_options jpeg = {.quality = 80 + image->side % 10,
                                .progressive = image->form == PROGRESSIVE_JPEG,
                                .downsample_chroma = image->side % 2};
  dp_status *status =
      image->form < PNG
          ? dp_jpeg_encode(pixels, image->side, image->side, 3, &jpeg, file)
          : dp_png_encode(pixels, image->side, image->side, 3, 8,
                          image->form == PNG ? image->side % 10 : DP_PNG_ANY_BYTES, file);
  dp_free(pixels);
  return status;
}

static uint8_t *room_for(dp_text *pixels, const dp_image_size *size) {
  size_t bytes = (size_t)(size->width * size->height * size->channels);
  dp_text_clear(pixels);
  for (size_t i = 0; i < bytes; ++i)
    dp_text_add_char(pixels, 0);
  return (uint8_t *)pixels->data;
}

static uint8_t *allocate(void *arg, const dp_image_size *size) {
  return room_for(arg, size);
}

static dp_status *read_image(const image *image, dp_text *pixels) {
  dp_view file = {image->file.data, image->file.length};
  dp_jpeg_options jpeg = {.ratio = 1, .acceptable_fraction = 1, .is_accurate = image->side % 2};
  if (image->form < PNG)
    return dp_jpeg_decode(file, &jpeg, allocate, pixels);
  dp_image_size size;
  DP_RETURN_IF_ERROR(dp_png_size(file, 0, &size));
  return dp_png_decode(file, 0, 8, room_for(pixels, &size));
}

static bool is_same(dp_status *status, const dp_text *a, const dp_text *b) {
  bool same = !status && a->length == b->length && memcmp(a->data, b->data, a->length) == 0;
  dp_status_release(status);
  return same;
}

/* NULL, or the image that came out otherwise: assertions belong to the first thread. */
static void *write_and_read(void *arg) {
  const image *wrong = NULL;
  dp_text file = {0}, pixels = {0};
  for (int i = 0; i < ROUNDS && !wrong; ++i) {
    const image *image = &images[(*(int *)arg * 5 + i * 7) % IMAGES];
    dp_text_clear(&file);
    bool good = is_same(write_image(image, &file), &file, &image->file);
    good &= is_same(read_image(image, &pixels), &pixels, &image->pixels);
    wrong = good ? NULL : image;
  }
  dp_text_deinit(&file);
  dp_text_deinit(&pixels);
  return (void *)wrong;
}

static void test_threads(void **unused) {
  pthread_t threads[THREADS];
  int numbers[THREADS];
  for (int i = 0; i < IMAGES; ++i) {
    images[i] = (image){.form = (form)(i / SIDES), .side = sides[i % SIDES]};
    assert_null(write_image(&images[i], &images[i].file));
    assert_null(read_image(&images[i], &images[i].pixels));
  }
  for (int i = 0; i < THREADS; ++i) {
    numbers[i] = i;
    assert_int_equal(pthread_create(&threads[i], NULL, write_and_read, &numbers[i]), 0);
  }
  for (int i = 0; i < THREADS; ++i) {
    void *wrong;
    assert_int_equal(pthread_join(threads[i], &wrong), 0);
    assert_null(wrong);
  }
  for (int i = 0; i < IMAGES; ++i) {
    dp_text_deinit(&images[i].file);
    dp_text_deinit(&images[i].pixels);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_threads)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
