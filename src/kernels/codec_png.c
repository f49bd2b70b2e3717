/* Reading PNG files (codec_png_write.c writes them): all colour types and depths, palettes,
 * transparency, interlacing; converted to the channels and depth that are wanted as libpng converts
 * them for TensorFlow. The pixels are unpacked by zlib in one stream over all IDAT chunks. */
#include <stdlib.h>
#include <string.h>
#include <zlib.h>
#include "base/memory.h"
#include "kernels/codec_internal.h"
#include "kernels/loops_png_internal.h"

enum { GRAY = 0, RGB = 2, PALETTE = 3, GRAY_ALPHA = 4, RGB_ALPHA = 6 };
#define MAX_SIDE ((int64_t)1 << 27)
#define MAX_PIXELS ((int64_t)1 << 29)

typedef struct png {
  const uint8_t *data, *end;
  int64_t width, height;
  int depth, color, interlaced;
  int file_channels;
  uint8_t palette[256][4];
  int palette_count;
  bool has_transparency;
  uint16_t transparent[3]; /* of gray and RGB images */
  const uint8_t *pixels;   /* the first IDAT chunk */
} png;

static uint32_t get32(const uint8_t *at) {
  return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static dp_status *broken(const char *what) {
  return DP_INVALID("PNG: %s", what);
}

/* ---- Chunks before the pixels ---- */
typedef struct chunk {
  const uint8_t *name, *data, *next;
  uint32_t length;
} chunk;

/* The chunk at `at`, its checksum verified. */
static dp_status *read_chunk(const png *png, const uint8_t *at, chunk *chunk_out) {
  if (png->end - at < 12)
    return broken("the file ends too early");
  uint32_t length = get32(at);
  if (length > INT32_MAX || length > (size_t)(png->end - at) - 12)
    return broken("a chunk is longer than the file");
  if (crc32(crc32(0, NULL, 0), at + 4, length + 4) != get32(at + 8 + length))
    return broken("a chunk's checksum is wrong");
  *chunk_out = (chunk){at + 4, at + 8, at + 12 + length, length};
  return NULL;
}

static bool is_named(const chunk *chunk, const char *name) {
  return memcmp(chunk->name, name, 4) == 0;
}

static dp_status *read_head(png *png, const chunk *chunk) {
  static const int channels[7] = {1, 0, 3, 1, 2, 0, 4};
  if (!is_named(chunk, "IHDR") || chunk->length != 13)
    return broken("no header");
  png->width = get32(chunk->data);
  png->height = get32(chunk->data + 4);
  png->depth = chunk->data[8];
  png->color = chunk->data[9];
  png->interlaced = chunk->data[12];
  bool depth_fits = png->color > 6 || channels[png->color] == 0 ? false
                    : png->color == GRAY ? png->depth == 1 || png->depth == 2 || png->depth == 4 ||
                                               png->depth == 8 || png->depth == 16
                    : png->color == PALETTE
                        ? png->depth == 1 || png->depth == 2 || png->depth == 4 || png->depth == 8
                        : png->depth == 8 || png->depth == 16;
  if (!depth_fits || chunk->data[10] != 0 || chunk->data[11] != 0 || png->interlaced > 1 ||
      png->width == 0 || png->height == 0 || png->width > INT32_MAX || png->height > INT32_MAX)
    return broken("a header that makes no sense");
  png->file_channels = channels[png->color];
  return NULL;
}

static dp_status *read_palette(png *png, const chunk *chunk) {
  if (png->color == GRAY || png->color == GRAY_ALPHA)
    return NULL;
  if (chunk->length % 3 != 0 || chunk->length > 768 || chunk->length == 0)
    return png->color == PALETTE ? broken("a palette of a wrong size") : NULL;
  png->palette_count = (int)chunk->length / 3;
  for (int i = 0; i < png->palette_count; ++i) {
    memcpy(png->palette[i], chunk->data + 3 * i, 3);
    png->palette[i][3] = 255;
  }
  return NULL;
}

static void read_transparency(png *png, const chunk *chunk) {
  if (png->color == PALETTE && chunk->length > 0 && chunk->length <= (uint32_t)png->palette_count) {
    for (uint32_t i = 0; i < chunk->length; ++i)
      png->palette[i][3] = chunk->data[i];
    png->has_transparency = true;
  } else if ((png->color == GRAY && chunk->length == 2) ||
             (png->color == RGB && chunk->length == 6)) {
    for (uint32_t i = 0; i < chunk->length / 2; ++i)
      png->transparent[i] = (uint16_t)(chunk->data[2 * i] << 8 | chunk->data[2 * i + 1]);
    png->has_transparency = true;
  }
}

static dp_status *png_open(png *png, dp_view data) {
  *png = (struct png){.data = (const uint8_t *)data.data};
  png->end = png->data + data.length;
  if (data.length < 8 || memcmp(data.data, "\x89PNG\r\n\x1a\n", 8) != 0)
    return broken("not a PNG file");
  chunk chunk;
  DP_RETURN_IF_ERROR(read_chunk(png, png->data + 8, &chunk));
  DP_RETURN_IF_ERROR(read_head(png, &chunk));
  for (;;) {
    const uint8_t *at = chunk.next;
    /* The pixels' own checksums are verified as they are unpacked. */
    if (png->end - at >= 8 && memcmp(at + 4, "IDAT", 4) == 0) {
      png->pixels = at;
      break;
    }
    DP_RETURN_IF_ERROR(read_chunk(png, at, &chunk));
    if (is_named(&chunk, "PLTE"))
      DP_RETURN_IF_ERROR(read_palette(png, &chunk));
    else if (is_named(&chunk, "tRNS"))
      read_transparency(png, &chunk);
    else if (is_named(&chunk, "IEND"))
      return broken("no pixels");
    else if (!(chunk.name[0] & 0x20))
      return is_named(&chunk, "IHDR") ? broken("a second header")
                                      : broken("a critical chunk that is not known");
  }
  if (png->color == PALETTE && png->palette_count == 0)
    return broken("no palette");
  return NULL;
}

static int channels_of(const png *png, int wanted) {
  if (wanted != 0)
    return wanted;
  return png->color == PALETTE ? (png->has_transparency ? 4 : 3) : png->file_channels;
}

dp_status *dp_png_size(dp_view data, int channels, dp_image_size *size_out) {
  png png;
  DP_RETURN_IF_ERROR(png_open(&png, data));
  *size_out = (dp_image_size){png.width, png.height, channels_of(&png, channels), 1};
  return NULL;
}

/* ---- Unpacking ---- */
typedef struct unpacker {
  const png *png;
  const uint8_t *next; /* chunk */
  z_stream stream;
} unpacker;

/* Gives the next IDAT chunk to zlib; false when there is none. */
static bool feed(unpacker *unpacker) {
  chunk chunk;
  dp_status *status = read_chunk(unpacker->png, unpacker->next, &chunk);
  if (status) {
    dp_status_release(status);
    return false;
  }
  if (!is_named(&chunk, "IDAT"))
    return false;
  unpacker->next = chunk.next;
  unpacker->stream.next_in = (Bytef *)chunk.data;
  unpacker->stream.avail_in = chunk.length;
  return true;
}

static dp_status *unpack_bytes(unpacker *unpacker, uint8_t *to, size_t length) {
  unpacker->stream.next_out = to;
  unpacker->stream.avail_out = (uInt)length;
  while (unpacker->stream.avail_out > 0) {
    if (unpacker->stream.avail_in == 0 && !feed(unpacker))
      return broken("not enough pixels");
    int result = inflate(&unpacker->stream, Z_NO_FLUSH);
    if (result == Z_STREAM_END && unpacker->stream.avail_out > 0)
      return broken("not enough pixels");
    if (result != Z_OK && result != Z_STREAM_END && result != Z_BUF_ERROR)
      return broken("the pixels' stream is damaged");
  }
  return NULL;
}

/* Undoes the filter of a row in place; `above` is the row before, zeros for the first. */
static dp_status *unfilter(int filter, uint8_t *row, const uint8_t *above, size_t length,
                           size_t step) {
  if (filter >= DP_PNG_FILTERS)
    return broken("a filter that is not known");
  dp_png_table()->unfilter[filter](row, above, length, step);
  return NULL;
}

/* ---- Converting ---- */
static unsigned sample_at(const png *png, const uint8_t *row, int64_t index) {
  if (png->depth == 16)
    return (unsigned)row[2 * index] << 8 | row[2 * index + 1];
  if (png->depth == 8)
    return row[index];
  int64_t bit = index * png->depth;
  return (row[bit / 8] >> (8 - png->depth - bit % 8)) & ((1u << png->depth) - 1);
}

/* One pixel as RGBA in the file's depth, or 8 bits where that is less. */
static dp_status *pixel_at(const png *png, const uint8_t *row, int64_t x, uint16_t rgba[4]) {
  /* libpng adds an alpha of all ones in the file's own depth. */
  rgba[3] = (uint16_t)((1u << (png->has_transparency && png->depth < 8 ? 8 : png->depth)) - 1);
  if (png->color == PALETTE) {
    unsigned index = sample_at(png, row, x);
    if ((int)index >= png->palette_count)
      return broken("a pixel outside of the palette");
    for (int i = 0; i < (png->has_transparency ? 4 : 3); ++i)
      rgba[i] = png->palette[index][i];
    return NULL;
  }
  int64_t first = x * png->file_channels;
  unsigned value = sample_at(png, row, first);
  if (png->color == GRAY || png->color == GRAY_ALPHA) {
    bool is_transparent = png->has_transparency && value == png->transparent[0];
    if (png->depth < 8)
      value = value * 255 / ((1u << png->depth) - 1);
    rgba[0] = rgba[1] = rgba[2] = (uint16_t)value;
    if (png->color == GRAY_ALPHA)
      rgba[3] = (uint16_t)sample_at(png, row, first + 1);
    else if (is_transparent)
      rgba[3] = 0;
    return NULL;
  }
  for (int i = 0; i < 3; ++i)
    rgba[i] = (uint16_t)sample_at(png, row, first + i);
  if (png->color == RGB_ALPHA)
    rgba[3] = (uint16_t)sample_at(png, row, first + 3);
  else if (png->has_transparency && rgba[0] == png->transparent[0] &&
           rgba[1] == png->transparent[1] && rgba[2] == png->transparent[2])
    rgba[3] = 0;
  return NULL;
}

/* libpng's weights of .299 and .587 in 15 bits. */
static uint16_t gray_of(const uint16_t rgba[4], bool is_wide) {
  uint32_t red = rgba[0], green = rgba[1], blue = rgba[2];
  if (red == green && red == blue)
    return rgba[0];
  uint32_t sum = 9797 * red + 19234 * green + 3737 * blue;
  return (uint16_t)((is_wide ? sum + 16384 : sum) >> 15);
}

typedef struct target {
  uint8_t *pixels;
  int64_t width;
  int channels, bits;
} target;

static void put_pixel(const png *png, const target *target, int64_t x, int64_t y,
                      const uint16_t rgba[4]) {
  uint16_t values[4];
  int colors = target->channels < 3 ? 1 : 3;
  if (colors == 3)
    memcpy(values, rgba, 3 * sizeof *values);
  else
    values[0] = png->color & 2 ? gray_of(rgba, png->depth == 16) : rgba[0];
  if (target->channels % 2 == 0)
    values[colors] = rgba[3];
  bool is_wide = png->depth == 16;
  int64_t at = (y * target->width + x) * target->channels;
  for (int i = 0; i < target->channels; ++i) {
    uint16_t value = values[i];
    if (target->bits == 16)
      ((uint16_t *)target->pixels)[at + i] = is_wide ? value : (uint16_t)(value * 257);
    else
      target->pixels[at + i] = is_wide ? (uint8_t)(value >> 8) : (uint8_t)value;
  }
}

/* Whether the file's bytes are what is wanted. */
static bool is_as_wanted(const png *png, const target *target) {
  return png->depth == 8 && target->bits == 8 && png->color != PALETTE &&
         target->channels == png->file_channels;
}

/* One pass: every `step` pixels from (x0, y0). */
typedef struct pass {
  int64_t x0, y0, x_step, y_step;
} pass;

static dp_status *decode_pass(unpacker *unpacker, const target *target, const pass *pass,
                              uint8_t *rows) {
  const png *png = unpacker->png;
  int64_t columns = (png->width - pass->x0 + pass->x_step - 1) / pass->x_step;
  if (png->width <= pass->x0 || png->height <= pass->y0)
    return NULL;
  size_t bits = (size_t)(png->depth * png->file_channels);
  size_t length = ((size_t)columns * bits + 7) / 8, step = bits < 8 ? 1 : bits / 8;
  uint8_t *row = rows, *above = rows + length + 1;
  memset(above, 0, length + 1);
  for (int64_t y = pass->y0; y < png->height; y += pass->y_step) {
    DP_RETURN_IF_ERROR(unpack_bytes(unpacker, row, length + 1));
    DP_RETURN_IF_ERROR(unfilter(row[0], row + 1, above + 1, length, step));
    bool copies = pass->x_step == 1 && is_as_wanted(png, target);
    if (copies)
      memcpy(target->pixels + (size_t)(y * target->width * target->channels), row + 1, length);
    for (int64_t i = 0; i < columns && !copies; ++i) {
      uint16_t rgba[4];
      DP_RETURN_IF_ERROR(pixel_at(png, row + 1, i, rgba));
      put_pixel(png, target, pass->x0 + i * pass->x_step, y, rgba);
    }
    uint8_t *kept = row;
    row = above;
    above = kept;
  }
  return NULL;
}

dp_status *dp_png_decode(dp_view data, int channels, int bits, void *pixels) {
  static const pass whole = {0, 0, 1, 1};
  static const pass interlaced[7] = {{0, 0, 8, 8}, {4, 0, 8, 8}, {0, 4, 4, 8}, {2, 0, 4, 4},
                                     {0, 2, 2, 4}, {1, 0, 2, 2}, {0, 1, 1, 2}};
  png png;
  DP_RETURN_IF_ERROR(png_open(&png, data));
  if (png.width >= MAX_SIDE || png.height >= MAX_SIDE || png.width * png.height >= MAX_PIXELS)
    return broken("too large");
  unpacker unpacker = {.png = &png, .next = png.pixels};
  uint8_t *rows = dp_try_malloc(2 * ((size_t)png.width * 8 + 2));
  if (!rows || inflateInit(&unpacker.stream) != Z_OK) {
    dp_free(rows);
    return dp_status_out_of_memory();
  }
  target target = {pixels, png.width, channels_of(&png, channels), bits};
  dp_status *status = NULL;
  for (int i = 0; i < (png.interlaced ? 7 : 1) && !status; ++i)
    status = decode_pass(&unpacker, &target, png.interlaced ? &interlaced[i] : &whole, rows);
  inflateEnd(&unpacker.stream);
  dp_free(rows);
  return status;
}
