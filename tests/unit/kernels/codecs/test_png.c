/* PNG files: every pixel format read by both readers, damage of every kind, and files that we
 * write, which need not equal TensorFlow's byte for byte. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include "../../../fuzz/png_files.h"

static uint32_t random_state = 1;

static uint8_t random_byte(void) {
  random_state = random_state * 1664525 + 1013904223;
  return (uint8_t)(random_state >> 24);
}

typedef struct kind {
  int color, channels, depth;
} kind;
static const kind kinds[] = {{0, 1, 1}, {0, 1, 2},  {0, 1, 4}, {0, 1, 8}, {0, 1, 16},
                             {2, 3, 8}, {2, 3, 16}, {3, 1, 1}, {3, 1, 4}, {3, 1, 8},
                             {4, 2, 8}, {4, 2, 16}, {6, 4, 8}, {6, 4, 16}};
#define KINDS (sizeof kinds / sizeof *kinds)

/* Rows with all filters, of noise with runs in it. */
static void add_rows(dp_text *rows, int width, int height, int bits) {
  for (int y = 0; y < height && width > 0; ++y) {
    dp_text_add_char(rows, (char)(y % 5));
    uint8_t value = 0;
    for (int i = 0; i < (width * bits + 7) / 8; ++i) {
      value = i % 3 == 0 ? random_byte() : value;
      dp_text_add_char(rows, (char)value);
    }
  }
}

static void add_passes(dp_text *rows, int width, int height, int bits) {
  static const int passes[7][4] = {{0, 0, 8, 8}, {4, 0, 8, 8}, {0, 4, 4, 8}, {2, 0, 4, 4},
                                   {0, 2, 2, 4}, {1, 0, 2, 2}, {0, 1, 1, 2}};
  for (int i = 0; i < 7; ++i)
    add_rows(rows, (width - passes[i][0] + passes[i][2] - 1) / passes[i][2],
             (height - passes[i][1] + passes[i][3] - 1) / passes[i][3], bits);
}

/* A file of these rows, the stream cut into chunks. */
static void make_file(dp_text *file, const kind *kind, int width, int height, bool is_interlaced,
                      const dp_text *rows, size_t cut) {
  uint8_t head[13] = {[3] = (uint8_t)width,
                      [7] = (uint8_t)height,
                      [8] = (uint8_t)kind->depth,
                      [9] = (uint8_t)kind->color,
                      [12] = is_interlaced};
  uint8_t palette[768];
  uLongf length = compressBound(rows->length);
  uint8_t *stream = dp_malloc(length);
  assert_int_equal(compress2(stream, &length, (const Bytef *)rows->data, rows->length, 6), Z_OK);
  dp_text_append(file, "\x89PNG\r\n\x1a\n", PNG_HEAD);
  png_add_chunk(file, "IHDR", head, sizeof head);
  for (size_t i = 0; i < sizeof palette; ++i)
    palette[i] = random_byte();
  if (kind->color == 3)
    png_add_chunk(file, "PLTE", palette, (size_t)3 << kind->depth);
  for (size_t at = 0; at < length; at += cut)
    png_add_chunk(file, "IDAT", stream + at, length - at < cut ? length - at : cut);
  png_add_chunk(file, "IEND", NULL, 0);
  dp_free(stream);
}

static void make_any(dp_text *file, const kind *kind, int width, int height, bool is_interlaced,
                     size_t cut) {
  dp_text rows = {0};
  (is_interlaced ? add_passes : add_rows)(&rows, width, height, kind->depth * kind->channels);
  make_file(file, kind, width, height, is_interlaced, &rows, cut);
  dp_text_deinit(&rows);
}

static dp_view view(const dp_text *file) {
  return (dp_view){file->data, file->length};
}

static void test_ways(void **unused) {
  for (size_t i = 0; i < KINDS; ++i)
    for (int variant = 0; variant < 12; ++variant) {
      dp_text file = {0};
      int width = variant % 3 == 0 ? 1 : variant % 3 == 1 ? 13 : 40;
      make_any(&file, &kinds[i], width, 11, variant & 1, variant < 6 ? 1000000 : 30);
      for (int channels = 0; channels <= 4; ++channels) {
        assert_int_equal(png_compare_ways(view(&file), channels, 8), PNG_GOOD);
        assert_int_equal(png_compare_ways(view(&file), channels, 16), PNG_GOOD);
      }
      dp_text_deinit(&file);
    }
}

/* More rows than the image has are left; with fewer it is refused, in whatever way. */
static void test_wrong_length(void **unused) {
  const kind *kind = &kinds[5];
  for (int height = 3; height <= 9; ++height) {
    dp_text rows = {0}, file = {0};
    random_state = 3;
    add_rows(&rows, 7, height, 24);
    make_file(&file, kind, 7, 6, false, &rows, 1000);
    dp_image_size size;
    uint8_t *pixels = png_read(view(&file), 3, 8, &size);
    assert_int_equal(pixels != NULL, height >= 6);
    if (pixels) /* the first row is not filtered */
      assert_memory_equal(pixels, rows.data + 1, 21);
    dp_free(pixels);
    dp_text_deinit(&rows);
    dp_text_deinit(&file);
  }
}

/* A header alone takes no memory: it is refused before a pixel or a row is touched. */
static void test_hollow(void **unused) {
  dp_text rows = {0}, file = {0};
  add_rows(&rows, 7, 6, 64);
  make_file(&file, &kinds[KINDS - 1], 7, 6, false, &rows, 1000);
  memcpy(file.data + PNG_HEAD + 8, "\x00\x0f\x42\x40\x00\x00\x02\x00", 8);
  png_repair(file.data, file.length);
  dp_image_size size;
  assert_null(dp_png_size(view(&file), 0, &size));
  assert_true(size.width == 1000000 && size.height == 512 && size.channels == 4);
  dp_status *status = dp_png_decode(view(&file), 0, 16, NULL);
  assert_string_equal(dp_status_message(status), "PNG: more pixels than its bytes can hold");
  dp_status_release(status);
  dp_text_deinit(&rows);
  dp_text_deinit(&file);
}

static void check_cuts(const dp_text *file) {
  for (size_t length = 0; length < file->length; ++length) {
    char *exact = dp_memdup(file->data, length); /* a sanitizer sees one byte too many */
    png_verdict verdict = png_compare_ways((dp_view){exact, length}, 0, 8);
    /* Only the chunk that ends the file may be missing. */
    assert_int_equal(verdict, length >= file->length - PNG_CHUNK ? PNG_GOOD : PNG_REFUSED);
    dp_free(exact);
  }
}

static void check_flips(const dp_text *file) {
  int refused = 0;
  for (int i = 0; i < 3000; ++i) {
    char *copy = dp_memdup(file->data, file->length);
    for (int k = 0; k <= i % 3; ++k) {
      size_t at = ((size_t)random_byte() << 8 | random_byte()) % file->length;
      copy[at] ^= (char)(1 << random_byte() % 8);
    }
    if (i % 4)
      png_repair(copy, file->length);
    png_verdict verdict = png_compare_ways((dp_view){copy, file->length}, 0, 8);
    assert_int_not_equal(verdict, PNG_DIFFERENT);
    refused += verdict == PNG_REFUSED;
    dp_free(copy);
  }
  assert_in_range(refused, 1000, 2999);
}

static void test_damage(void **unused) {
  static const struct {
    int kind;
    bool is_interlaced;
    size_t cut;
  } files[] = {{5, false, 100000}, {5, false, 100}, {2, true, 100000}, {9, false, 60}};
  for (size_t i = 0; i < sizeof files / sizeof *files; ++i) {
    dp_text file = {0};
    make_any(&file, &kinds[files[i].kind], 13, 9, files[i].is_interlaced, files[i].cut);
    check_cuts(&file);
    check_flips(&file);
    dp_text_deinit(&file);
  }
}

typedef enum texture { FLAT, SMOOTH, NOISE, TEXTURES } texture;

static uint8_t texel(texture texture, int x, int y, int channel) {
  return texture == FLAT    ? 7
         : texture == NOISE ? random_byte()
                            : (uint8_t)(x * x / 9 + y + channel);
}

/* The same pixels as in TensorFlow's file, in about as few bytes. */
static void test_any_bytes(void **unused) {
  static const int sides[] = {1, 2, 5, 16, 37, 90};
  for (int texture = 0; texture < TEXTURES; ++texture)
    for (size_t i = 0; i < sizeof sides / sizeof *sides; ++i)
      for (int channels = 1; channels <= 4; ++channels) {
        int side = sides[i];
        size_t bytes = (size_t)(side * side * channels);
        uint8_t *pixels = dp_malloc(bytes);
        for (size_t k = 0; k < bytes; ++k)
          pixels[k] =
              texel(texture, (int)k / channels % side, (int)k / channels / side, (int)k % channels);
        dp_text wanted = {0}, any = {0};
        dp_image_size size;
        assert_null(dp_png_encode(pixels, side, side, channels, 8, -1, &wanted));
        assert_null(dp_png_encode(pixels, side, side, channels, 8, DP_PNG_ANY_BYTES, &any));
        assert_in_range(any.length, 1, wanted.length + wanted.length / 30 + 16);
        void *same = png_read(view(&any), 0, 8, &size);
        assert_true(same && size.width == side && size.height == side);
        assert_memory_equal(same, pixels, bytes);
        dp_free(same);
        dp_free(pixels);
        dp_text_deinit(&wanted);
        dp_text_deinit(&any);
      }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_ways),      cmocka_unit_test(test_wrong_length),
      cmocka_unit_test(test_hollow),    cmocka_unit_test(test_damage),
      cmocka_unit_test(test_any_bytes),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
