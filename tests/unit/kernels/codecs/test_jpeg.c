/* Small JPEG images are decoded by our own code, not by libjpeg. Their pixels must equal libjpeg's
 * bit for bit; unusual or damaged files must give the same result as libjpeg alone. */
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
/* after stdio.h */
#include <jpeglib.h>
#include "../../../fuzz/jpeg_pixels.h"
#include "kernels/isa/isa.h"
#include "kernels/loops/jpeg.h"

/* ---- Files ---- */
/* clang-format off */
#define JPEG_FUNCTIONS(X) \
  X(jpeg_std_error) X(jpeg_CreateCompress) X(jpeg_set_defaults) X(jpeg_set_quality) \
  X(jpeg_set_colorspace) X(jpeg_simple_progression) X(jpeg_mem_dest) X(jpeg_start_compress) \
  X(jpeg_write_scanlines) X(jpeg_finish_compress) X(jpeg_destroy_compress)
/* clang-format on */
#define JPEG_POINTER(name) __typeof__(&name) name;
static struct { JPEG_FUNCTIONS(JPEG_POINTER) } library;

static int load_library(void **unused) {
  void *handle = dlopen("libjpeg.so.62", RTLD_NOW | RTLD_LOCAL);
  assert_non_null(handle);
#define JPEG_FIND(name) assert_non_null(library.name = dlsym(handle, #name));
  JPEG_FUNCTIONS(JPEG_FIND)
  return 0;
}

enum picture { SMOOTH, NOISE, BLACK_OR_WHITE, EVEN, PICTURES };

typedef struct image {
  int width, height, channels;
  enum picture picture;
  int quality, across, down;                 /* of luma, for each chroma sample */
  bool is_progressive, is_optimized, is_raw; /* raw: RGB in the file */
  unsigned restart_interval;
} image;

static uint32_t random_state;
static uint32_t next_random(void) {
  random_state = random_state * 1664525u + 1013904223u;
  return random_state >> 8;
}

static void paint(const image *image, uint8_t *pixels) {
  uint8_t even = (uint8_t)next_random();
  for (int y = 0; y < image->height; ++y)
    for (int x = 0; x < image->width; ++x)
      for (int c = 0; c < image->channels; ++c) {
        uint8_t noise = (uint8_t)next_random();
        *pixels++ = image->picture == SMOOTH  ? (uint8_t)(x * 7 + y * (c * 4 + 2) + noise / 32)
                    : image->picture == NOISE ? noise
                    : image->picture == EVEN  ? (uint8_t)(even + 60 * c)
                                              : (uint8_t)(noise < 128 ? 0 : 255);
      }
}

/* The caller frees it. */
static dp_view encode(const image *image) {
  struct jpeg_compress_struct jpeg;
  struct jpeg_error_mgr errors;
  unsigned char *bytes = NULL;
  unsigned long length = 0;
  size_t stride = (size_t)(image->width * image->channels);
  uint8_t *pixels = dp_malloc(stride * (size_t)image->height);
  paint(image, pixels);
  jpeg.err = library.jpeg_std_error(&errors);
  library.jpeg_CreateCompress(&jpeg, JPEG_LIB_VERSION, sizeof jpeg);
  library.jpeg_mem_dest(&jpeg, &bytes, &length);
  jpeg.image_width = (JDIMENSION)image->width;
  jpeg.image_height = (JDIMENSION)image->height;
  jpeg.input_components = image->channels;
  jpeg.in_color_space = image->channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
  library.jpeg_set_defaults(&jpeg);
  if (image->is_raw)
    library.jpeg_set_colorspace(&jpeg, JCS_RGB);
  library.jpeg_set_quality(&jpeg, image->quality, TRUE);
  if (image->is_progressive)
    library.jpeg_simple_progression(&jpeg);
  jpeg.optimize_coding = image->is_optimized;
  jpeg.restart_interval = image->restart_interval;
  jpeg.comp_info[0].h_samp_factor = image->across;
  jpeg.comp_info[0].v_samp_factor = image->down;
  library.jpeg_start_compress(&jpeg, TRUE);
  for (int y = 0; y < image->height; ++y) {
    JSAMPROW row = pixels + (size_t)y * stride;
    library.jpeg_write_scanlines(&jpeg, &row, 1);
  }
  library.jpeg_finish_compress(&jpeg);
  library.jpeg_destroy_compress(&jpeg);
  dp_free(pixels);
  return (dp_view){(char *)bytes, length};
}

/* ---- Comparing ---- */
static uint8_t *allocate_nothing(void *arg, const dp_image_size *size) {
  return NULL;
}

static void expect_same(dp_status *one, dp_status *other, const pixels *a, const pixels *b) {
  assert_int_equal(dp_status_code(one), dp_status_code(other));
  assert_string_equal(dp_status_message(one), dp_status_message(other));
  if (!one) {
    assert_int_equal(a->size.width, b->size.width);
    assert_int_equal(a->size.height, b->size.height);
    assert_int_equal(a->size.channels, b->size.channels);
    assert_memory_equal(a->data, b->data, a->length);
  }
  dp_status_release(one);
  dp_status_release(other);
}

/* Whether the image was taken. */
static bool compare(dp_view data, const dp_jpeg_options *options) {
  pixels small = {0}, large = {0};
  dp_status *status = NULL;
  bool is_taken = dp_jpeg_decode_small(data, options, allocate_pixels, &small, &status);
  if (is_taken)
    expect_same(status, dp_jpeg_decode_by_library(data, options, allocate_pixels, &large), &small,
                &large);
  else
    assert_null(small.data);
  dp_free(small.data);
  dp_free(large.data);
  return is_taken;
}

/* How many of all settings took the image. */
static int compare_all(dp_view data) {
  int taken = 0;
  for (int i = 0; i < 12; ++i) {
    static const int channels[3] = {0, 1, 3};
    dp_jpeg_options options = {.channels = channels[i / 4],
                               .ratio = 1,
                               .fancy_upscaling = i & 1,
                               .is_accurate = i & 2,
                               .acceptable_fraction = 1.0f};
    taken += compare(data, &options);
  }
  return taken;
}

static int compare_image(const image *image) {
  dp_view data = encode(image);
  int taken = compare_all(data);
  free((char *)data.data);
  return taken;
}

static int all_settings(void) {
  return dp_jpeg_table()->inverse[0] ? 12 : 0;
}

/* ---- Tests ---- */
static const int samplings[3][2] = {{1, 1}, {2, 1}, {2, 2}};

static void test_sizes(void **unused) {
  for (int width = 1; width <= 37; ++width)
    for (int height = 1; height <= 37; height += height < 20 ? 1 : 5)
      for (int i = 0; i < 4; ++i) {
        image image = {width, height, i < 3 ? 3 : 1, NOISE, 90, 1, 1};
        if (i < 3) {
          image.across = samplings[i][0];
          image.down = samplings[i][1];
        }
        assert_int_equal(compare_image(&image), all_settings());
      }
}

static void test_qualities(void **unused) {
  for (int quality = 1; quality <= 100; ++quality)
    for (int i = 0; i < 4 * PICTURES; ++i) {
      image image = {19 + quality % 9, 23, i % 4 < 3 ? 3 : 1, (enum picture)(i / 4), quality, 1, 1};
      if (i % 4 < 3) {
        image.across = samplings[i % 4][0];
        image.down = samplings[i % 4][1];
      }
      image.is_optimized = quality % 2;
      assert_int_equal(compare_image(&image), all_settings());
    }
}

/* All instruction sets, and sizes about the largest. */
static void test_instruction_sets(void **unused) {
  dp_isa before = dp_isa_current();
  for (dp_isa isa = DP_ISA_BASELINE; isa < DP_ISA_COUNT; ++isa)
    for (int i = 0; dp_isa_select(isa) && i < 3; ++i) {
      for (int side = 30; side < 260; side += 17)
        for (int picture = 0; picture < PICTURES; ++picture) {
          image image = {
              side, 90 - side / 3, 3, (enum picture)picture, 95, samplings[i][0], samplings[i][1]};
          compare_image(&image);
        }
    }
  assert_true(dp_isa_select(before));
}

static void test_others_are_left(void **unused) {
  image plain = {20, 20, 3, SMOOTH, 90, 2, 2};
  image others[] = {plain, plain, plain, plain, plain, plain};
  others[0].is_progressive = true;
  others[1].restart_interval = 1;
  others[2].down = 1, others[2].across = 4;
  others[3].across = 1;
  others[4].is_raw = true, others[4].across = others[4].down = 1;
  others[5].width = others[5].height = 600;
  for (size_t i = 0; i < sizeof others / sizeof *others; ++i)
    assert_int_equal(compare_image(&others[i]), 0);
  dp_view data = encode(&plain);
  pixels none = {0};
  dp_status *status;
  dp_jpeg_options options[3] = {{.ratio = 2},
                                {.ratio = 1, .channels = 2},
                                {.ratio = 1, .has_crop = true, .crop_width = 1, .crop_height = 1}};
  for (int i = 0; i < 3; ++i)
    assert_false(dp_jpeg_decode_small(data, &options[i], allocate_pixels, &none, &status));
  options[0].ratio = 1;
  status = dp_jpeg_decode(data, &options[0], allocate_nothing, NULL);
  assert_int_equal(dp_status_code(status), DP_RESOURCE_EXHAUSTED);
  dp_status_release(status);
  free((char *)data.data);
}

/* What comes of damaged data, with and without the library alone. */
static void compare_damaged(dp_view data, const dp_jpeg_options *options) {
  pixels own = {0}, large = {0};
  dp_view exact = {dp_memdup(data.data, data.length), data.length};
  dp_status *status = dp_jpeg_decode(exact, options, allocate_pixels, &own);
  expect_same(status, dp_jpeg_decode_by_library(exact, options, allocate_pixels, &large), &own,
              &large);
  dp_free((char *)exact.data);
  dp_free(own.data);
  dp_free(large.data);
}

/* In the middle of a marker: the library asks for the rest again and again. */
static void test_cut_markers(void **unused) {
  static const char head[] = "\xff\xd8\xff\xff\xff";
  dp_jpeg_options options = {.ratio = 1, .recover_truncated = true, .acceptable_fraction = 1.0f};
  for (size_t length = 1; length < sizeof head; ++length) {
    dp_status *status = dp_jpeg_decode((dp_view){head, length}, &options, allocate_nothing, NULL);
    assert_int_equal(dp_status_code(status), DP_INVALID_ARGUMENT);
    dp_status_release(status);
  }
}

static void damage(dp_view data, int rounds) {
  dp_jpeg_options options = {.ratio = 1, .acceptable_fraction = 0.5f};
  for (size_t length = 0; length < data.length; ++length) {
    options.recover_truncated = length % 2;
    options.fancy_upscaling = length % 3;
    compare_damaged((dp_view){data.data, length}, &options);
  }
  char *damaged = dp_memdup(data.data, data.length);
  for (int i = 0; i < rounds; ++i) {
    memcpy(damaged, data.data, data.length);
    options.is_accurate = i % 2;
    options.channels = i % 5 == 0;
    for (int flips = 1 + i % 3; flips > 0; --flips) {
      size_t at = next_random() % data.length;
      damaged[at] = (char)(i % 7 < 3 ? (int)next_random() : damaged[at] ^ (1 << next_random() % 8));
    }
    compare_damaged((dp_view){damaged, data.length}, &options);
  }
  dp_free(damaged);
}

static void test_damages(void **unused) {
  for (int i = 0; i < 3 * PICTURES; ++i) {
    image image = {17 + i, 18, i % 7 ? 3 : 1, (enum picture)(i % PICTURES), 30 + 6 * i, 1, 1};
    if (image.channels == 3) {
      image.across = samplings[i % 3][0];
      image.down = samplings[i % 3][1];
    }
    image.is_optimized = i % 2;
    dp_view data = encode(&image);
    damage(data, 4000);
    free((char *)data.data);
  }
}

/* Coefficients and factors far beyond what an encoder writes: numbers overflow. */
static void test_extremes(void **unused) {
  for (int i = 0; i < 400; ++i) {
    image image = {24, 16, 3, (enum picture)(i % 3), 100, samplings[i % 3][0], samplings[i % 3][1]};
    dp_view data = encode(&image);
    uint8_t *bytes = (uint8_t *)data.data;
    for (size_t at = 0; at + 69 <= data.length; ++at)
      if (bytes[at] == 0xff && bytes[at + 1] == 0xdb) /* the tables of quantization */
        for (int k = 5; k < 69; ++k)
          bytes[at + (size_t)k] = (uint8_t)(1 + next_random() % (i % 4 ? 255 : 60));
    compare_all(data);
    free((char *)data.data);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_sizes),           cmocka_unit_test(test_qualities),
      cmocka_unit_test(test_extremes),        cmocka_unit_test(test_instruction_sets),
      cmocka_unit_test(test_others_are_left), cmocka_unit_test(test_damages),
      cmocka_unit_test(test_cut_markers),
  };
  return cmocka_run_group_tests(tests, load_library, NULL);
}
