/* PNG files. Reading: all colour types and depths, palettes, transparency, interlacing; converted
 * to the channels and depth that are wanted as libpng converts them for TensorFlow. Writing: the
 * filters, strategy and window that libpng would choose, so that files come out as TensorFlow's.
 * The pixels are unpacked by zlib in one stream over all IDAT chunks. */
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

/* ---- Writing ---- */
static void put32(dp_text *out, uint32_t value) {
  for (int shift = 24; shift >= 0; shift -= 8)
    dp_text_add_char(out, (char)(value >> shift));
}

static void add_chunk(dp_text *out, const char *name, const void *data, size_t length) {
  put32(out, (uint32_t)length);
  size_t start = out->length;
  dp_text_append(out, name, 4);
  dp_text_append(out, data, length);
  put32(out, (uint32_t)crc32(crc32(0, NULL, 0), (const Bytef *)out->data + start,
                             (uInt)(out->length - start)));
}

/* Filtered rows go to zlib together, until there are about this many bytes. */
#define BATCH_BYTES ((size_t)16384)

typedef struct writer {
  z_stream stream;
  int window_bits, compression; /* of the stream */
  uint8_t block[8192];          /* an IDAT chunk, as libpng cuts them */
  uint64_t bytes;               /* of all rows */
  bool has_begun;
  uint8_t *scratch; /* for rows */
  size_t scratch_size;
  dp_text *out;
} writer;

/* zlib's memory for one is large enough that the system would take it back each time. */
static dp_coder_rest resting_writers;

static void writer_destroy(writer *writer) {
  deflateEnd(&writer->stream);
  dp_free(writer->scratch);
  dp_free(writer);
}

static writer *writer_take(void) {
  writer *writer = dp_coder_take(&resting_writers);
  if (writer)
    return writer;
  writer = dp_malloc(sizeof *writer); /* the block need not be zeroed */
  memset(&writer->stream, 0, sizeof writer->stream);
  writer->window_bits = 0;
  writer->scratch = NULL;
  writer->scratch_size = 0;
  return writer;
}

static void writer_give(writer *writer) {
  if (writer->scratch_size > 4 * BATCH_BYTES) { /* of a large image */
    dp_free(writer->scratch);
    writer->scratch = NULL;
    writer->scratch_size = 0;
  }
  if (!dp_coder_give(&resting_writers, writer))
    writer_destroy(writer);
}

/* A stream for these settings, at its beginning. */
static bool writer_reset(writer *writer, int window_bits, int compression) {
  if (writer->window_bits == window_bits && writer->compression == compression)
    return deflateReset(&writer->stream) == Z_OK;
  deflateEnd(&writer->stream);
  writer->window_bits = 0;
  if (deflateInit2(&writer->stream, compression, Z_DEFLATED, window_bits, 9, Z_FILTERED) != Z_OK)
    return false;
  writer->window_bits = window_bits;
  writer->compression = compression;
  return true;
}

#define MOST_STEP ((size_t)8)
/* Memory for a row with what the filters want around it. */
static size_t row_room(size_t length) {
  return MOST_STEP + 1 + dp_png_padded(length);
}

/* Room for three rows as they are, a filtered one that may be better, and a batch of the best. */
static bool writer_reserve(writer *writer, size_t row_length) {
  size_t wanted = 5 * row_room(row_length) + BATCH_BYTES;
  if (writer->scratch_size >= wanted)
    return true;
  dp_free(writer->scratch);
  writer->scratch = dp_try_malloc(wanted);
  writer->scratch_size = writer->scratch ? wanted : 0;
  return writer->scratch != NULL;
}

/* libpng says in the stream's head that the window is as small as the image, whatever zlib used. */
static void shrink_window(writer *writer) {
  unsigned size = writer->block[0] >> 4, half = 1u << (size + 7);
  if (writer->has_begun || writer->bytes > 16384 || writer->bytes > half)
    return;
  do {
    half >>= 1;
    --size;
  } while (size > 0 && writer->bytes <= half);
  unsigned first = (writer->block[0] & 0x0f) | size << 4, second = writer->block[1] & 0xe0;
  writer->block[0] = (uint8_t)first;
  writer->block[1] = (uint8_t)(second + 0x1f - ((first << 8) + second) % 0x1f);
}

static void write_block(writer *writer, size_t length) {
  shrink_window(writer);
  writer->has_begun = true;
  add_chunk(writer->out, "IDAT", writer->block, length);
}

static void write_packed(writer *writer, const uint8_t *data, size_t length, int mode) {
  writer->stream.next_in = (Bytef *)data;
  writer->stream.avail_in = (uInt)length;
  int result = Z_OK;
  do {
    result = deflate(&writer->stream, mode);
    if (writer->stream.avail_out == 0) {
      write_block(writer, sizeof writer->block);
      writer->stream.next_out = writer->block;
      writer->stream.avail_out = sizeof writer->block;
    }
  } while (writer->stream.avail_in > 0 || (mode == Z_FINISH && result != Z_STREAM_END));
  if (mode == Z_FINISH && writer->stream.avail_out < sizeof writer->block)
    write_block(writer, sizeof writer->block - writer->stream.avail_out);
}

/* The smallest window that holds all bytes, as libpng chooses it. */
static int window_bits(uint64_t bytes) {
  int bits = 15;
  if (bytes <= 16384) {
    unsigned half = 1u << 14;
    while (bytes + 262 <= half) {
      half >>= 1;
      --bits;
    }
  }
  return bits < 8 ? 8 : bits;
}

/* A row in the file's order of bytes. */
static void copy_row(uint8_t *to, const uint8_t *from, size_t length, int bits) {
  memcpy(to, from, length);
  for (size_t i = 0; bits == 16 && i + 1 < length; i += 2) {
    to[i] = from[i + 1];
    to[i + 1] = from[i];
  }
}

/* Filters a row every way that libpng tries; the least sum of distances decides. `best` gets the
 * filter's number and the row, `other` is scratch. */
static void filter_row(const uint8_t *row, const uint8_t *above, size_t length, size_t step,
                       bool has_left, bool has_above, uint8_t *best, uint8_t *other) {
  const dp_png_loops *loops = dp_png_table();
  uint8_t *to = best;
  uint64_t least = loops->filter[0](row, above, length, step, to + 1);
  to[0] = 0;
  for (int filter = 1; filter <= 4; ++filter) {
    if ((!has_above && filter >= 2) || (!has_left && filter != 2))
      continue;
    uint8_t *tried = to == best ? other : best;
    uint64_t sum = loops->filter[filter](row, above, length, step, tried + 1);
    if (sum < least) {
      least = sum;
      tried[0] = (uint8_t)filter;
      to = tried;
    }
  }
  if (to != best)
    memcpy(best, other, length + 1);
}

static void write_rows(writer *writer, const uint8_t *pixels, int64_t width, int64_t height,
                       size_t step, int bits) {
  size_t length = (size_t)width * step, filled = 0;
  size_t room = row_room(length);
  memset(writer->scratch, 0, 3 * room);
  uint8_t *row = writer->scratch + MOST_STEP, *above = row + room, *next = above + room;
  uint8_t *other = writer->scratch + 3 * room, *batch = other + room;
  copy_row(row, pixels, length, bits);
  for (int64_t y = 0; y < height; ++y) {
    if (y + 1 < height) /* early: what was just written is slow to read in other pieces */
      copy_row(next, pixels + (size_t)(y + 1) * length, length, bits);
    filter_row(row, above, length, step, width > 1, height > 1, batch + filled, other);
    filled += length + 1;
    if (filled >= BATCH_BYTES) {
      write_packed(writer, batch, filled, Z_NO_FLUSH);
      filled = 0;
    }
    uint8_t *free_row = above;
    above = row;
    row = next;
    next = free_row;
  }
  write_packed(writer, batch, filled, Z_FINISH);
}

static void write_head(dp_text *out, int64_t width, int64_t height, int channels, int bits) {
  static const uint8_t colors[] = {0, GRAY, GRAY_ALPHA, RGB, RGB_ALPHA};
  uint8_t head[13] = {(uint8_t)(width >> 24),
                      (uint8_t)(width >> 16),
                      (uint8_t)(width >> 8),
                      (uint8_t)width,
                      (uint8_t)(height >> 24),
                      (uint8_t)(height >> 16),
                      (uint8_t)(height >> 8),
                      (uint8_t)height,
                      (uint8_t)bits,
                      colors[channels],
                      0,
                      0,
                      0};
  dp_text_append(out, "\x89PNG\r\n\x1a\n", 8);
  add_chunk(out, "IHDR", head, sizeof head);
}

dp_status *dp_png_encode(const void *pixels, int64_t width, int64_t height, int channels, int bits,
                         int compression, dp_text *out) {
  if (width <= 0 || height <= 0 || width >= MAX_SIDE || height >= INT32_MAX || channels < 1 ||
      channels > 4)
    return broken("a size that cannot be written");
  size_t step = (size_t)channels * (size_t)bits / 8, length = (size_t)width * step;
  uint64_t bytes = (uint64_t)(length + 1) * (uint64_t)height;
  writer *writer = writer_take();
  if (!writer_reserve(writer, length) || !writer_reset(writer, window_bits(bytes), compression)) {
    writer_destroy(writer);
    return dp_status_out_of_memory();
  }
  writer->out = out;
  writer->bytes = bytes;
  writer->has_begun = false;
  writer->stream.next_out = writer->block;
  writer->stream.avail_out = sizeof writer->block;
  write_head(out, width, height, channels, bits);
  write_rows(writer, pixels, width, height, step, bits);
  add_chunk(out, "IEND", NULL, 0);
  writer_give(writer);
  return NULL;
}
