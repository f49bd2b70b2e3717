/* Reads PNG files (png_write.c writes them): all color types and depths, palettes, transparency,
 * interlacing. Pixels are converted to the wanted channels and depth as libpng does it for
 * TensorFlow.
 *
 * The pixels are one zlib stream over all IDAT chunks. libdeflate unpacks the whole stream at once,
 * in half of zlib's time; if that fails, zlib unpacks row by row. The memory of libdeflate is kept
 * for the next image (dp_coder_rest); any thread may take it. */
#include <string.h>
#include <libdeflate.h>
#include <zlib.h>
#include "base/memory.h"
#include "kernels/codecs/codec.h"
#include "kernels/loops/png.h"

enum { GRAY = 0, RGB = 2, PALETTE = 3, GRAY_ALPHA = 4, RGB_ALPHA = 6 };
#define MAX_SIDE 1000000 /* libpng's own limit */
#define MAX_PIXELS ((int64_t)1 << 29)

typedef struct png {
  const uint8_t *data, *end;
  int64_t width, height;
  int depth, color, interlaced;
  int file_channels;
  uint8_t palette[256][4];
  int palette_count;
  bool has_transparency;
  uint16_t transparent[3]; /* transparent color of gray and RGB images */
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

/* Reads the chunk at `at` and verifies its checksum. */
static dp_status *read_chunk(const png *png, const uint8_t *at, chunk *chunk_out) {
  if (png->end - at < 12)
    return broken("the file ends too early");
  uint32_t length = get32(at);
  if (length > INT32_MAX || length > (size_t)(png->end - at) - 12)
    return broken("a chunk is longer than the file");
  if (libdeflate_crc32(0, at + 4, length + 4) != get32(at + 8 + length))
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
      png->width == 0 || png->height == 0 || png->width > MAX_SIDE || png->height > MAX_SIDE)
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
    /* The checksums of IDAT chunks are verified when they are unpacked. */
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

/* ---- Passes over the image ---- */
/* A pass of interlacing: every x_step-th pixel of every y_step-th row, from (x0, y0) on. */
typedef struct pass {
  int64_t x0, y0, x_step, y_step;
} pass;

static const pass *passes_of(const png *png, int *count_out) {
  static const pass whole = {0, 0, 1, 1};
  static const pass interlaced[7] = {{0, 0, 8, 8}, {4, 0, 8, 8}, {0, 4, 4, 8}, {2, 0, 4, 4},
                                     {0, 2, 2, 4}, {1, 0, 2, 2}, {0, 1, 1, 2}};
  *count_out = png->interlaced ? 7 : 1;
  return png->interlaced ? interlaced : &whole;
}

static int64_t steps_over(int64_t side, int64_t first, int64_t step) {
  return side <= first ? 0 : (side - first + step - 1) / step;
}

/* Bytes of a row, without its filter byte. */
static size_t row_length(const png *png, int64_t columns) {
  return ((size_t)columns * (size_t)(png->depth * png->file_channels) + 7) / 8;
}

/* Bytes of all rows, with their filter bytes. */
static size_t unpacked_size(const png *png) {
  int count;
  const pass *passes = passes_of(png, &count);
  size_t size = 0;
  for (int i = 0; i < count; ++i) {
    int64_t columns = steps_over(png->width, passes[i].x0, passes[i].x_step);
    int64_t rows = steps_over(png->height, passes[i].y0, passes[i].y_step);
    size += columns == 0 ? 0 : (row_length(png, columns) + 1) * (size_t)rows;
  }
  return size;
}

/* deflate never expands by more than this factor. A file that is too short for its image is refused
 * before memory is allocated. */
#define MOST_TIMES ((size_t)1032)
static bool can_be_whole(const png *png) {
  return unpacked_size(png) / MOST_TIMES <= (size_t)(png->end - png->pixels);
}

/* ---- Unpacking ---- */
/* The source of rows: either all rows are unpacked already, or zlib unpacks one row at a time. */
typedef struct png_unpacker {
  const png *png;
  uint8_t *ready;       /* the next unpacked row; NULL: zlib unpacks it */
  const uint8_t *zeros; /* a row of zeros */
  uint8_t *row, *above; /* rows for zlib; they alternate */
  const uint8_t *next;  /* the next chunk */
  z_stream stream;
} png_unpacker;

/* Takes the next IDAT chunk; false when there is none, or it is damaged. */
static bool next_pixels(png_unpacker *unpacker, chunk *chunk_out) {
  dp_status *status = read_chunk(unpacker->png, unpacker->next, chunk_out);
  if (status) {
    dp_status_release(status);
    return false;
  }
  if (!is_named(chunk_out, "IDAT"))
    return false;
  unpacker->next = chunk_out->next;
  return true;
}

static dp_status *unpack_bytes(png_unpacker *unpacker, uint8_t *to, size_t length) {
  z_stream *stream = &unpacker->stream;
  stream->next_out = to;
  stream->avail_out = (uInt)length;
  while (stream->avail_out > 0) {
    if (stream->avail_in == 0) {
      chunk chunk;
      if (!next_pixels(unpacker, &chunk))
        return broken("not enough pixels");
      stream->next_in = (Bytef *)chunk.data;
      stream->avail_in = chunk.length;
    }
    int result = inflate(stream, Z_NO_FLUSH);
    if (result == Z_STREAM_END && stream->avail_out > 0)
      return broken("not enough pixels");
    if (result != Z_OK && result != Z_STREAM_END && result != Z_BUF_ERROR)
      return broken("the pixels' stream is damaged");
  }
  return NULL;
}

/* The next row, with its filter byte first. It stays valid while the following row is read. */
static dp_status *next_row(png_unpacker *unpacker, size_t length, uint8_t **row_out) {
  if (unpacker->ready) {
    *row_out = unpacker->ready;
    unpacker->ready += length + 1;
    return NULL;
  }
  uint8_t *row = unpacker->above;
  unpacker->above = unpacker->row;
  unpacker->row = *row_out = row;
  return unpack_bytes(unpacker, row, length + 1);
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

/* One pixel as RGBA, in the file's depth, but at least 8 bits. */
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

/* Whether the file's bytes are the wanted pixels without conversion. */
static bool is_as_wanted(const png *png, const target *target) {
  return png->depth == 8 && target->bits == 8 && png->color != PALETTE &&
         target->channels == png->file_channels;
}

static dp_status *decode_pass(png_unpacker *unpacker, const target *target, const pass *pass) {
  const png *png = unpacker->png;
  int64_t columns = steps_over(png->width, pass->x0, pass->x_step);
  if (columns == 0)
    return NULL;
  size_t length = row_length(png, columns), bits = (size_t)(png->depth * png->file_channels);
  bool copies = pass->x_step == 1 && is_as_wanted(png, target);
  const uint8_t *above = unpacker->zeros;
  for (int64_t y = pass->y0; y < png->height; y += pass->y_step) {
    uint8_t *row;
    DP_RETURN_IF_ERROR(next_row(unpacker, length, &row));
    DP_RETURN_IF_ERROR(unfilter(row[0], row + 1, above + 1, length, bits < 8 ? 1 : bits / 8));
    if (copies)
      memcpy(target->pixels + (size_t)(y * target->width * target->channels), row + 1, length);
    for (int64_t i = 0; i < columns && !copies; ++i) {
      uint16_t rgba[4];
      DP_RETURN_IF_ERROR(pixel_at(png, row + 1, i, rgba));
      put_pixel(png, target, pass->x0 + i * pass->x_step, y, rgba);
    }
    above = row;
  }
  return NULL;
}

static dp_status *decode_passes(png_unpacker *unpacker, const target *target) {
  int count;
  const pass *passes = passes_of(unpacker->png, &count);
  for (int i = 0; i < count; ++i)
    DP_RETURN_IF_ERROR(decode_pass(unpacker, target, &passes[i]));
  return NULL;
}

/* ---- By zlib, row by row ----
 * For all files that libdeflate refuses: a damaged file may still have all its pixels. */
static dp_status *decode_by_rows(const png *png, const target *target) {
  size_t length = row_length(png, png->width) + 1;
  uint8_t *rows = dp_try_malloc(3 * length);
  png_unpacker unpacker = {.png = png, .next = png->pixels};
  if (!rows || inflateInit(&unpacker.stream) != Z_OK) {
    dp_free(rows);
    return dp_status_out_of_memory();
  }
  unpacker.zeros = memset(rows, 0, length);
  unpacker.row = rows + length;
  unpacker.above = rows + 2 * length;
  dp_status *status = decode_passes(&unpacker, target);
  inflateEnd(&unpacker.stream);
  dp_free(rows);
  return status;
}

/* ---- By libdeflate, at once ---- */
typedef struct whole {
  struct libdeflate_decompressor *library;
  uint8_t *memory;
  size_t size;
} whole;
#define MOST_AT_ONCE ((size_t)64 << 20) /* for larger images the memory would be needed twice */
#define MOST_RESTING ((size_t)1 << 20)

static dp_coder_rest resting_wholes;

static void whole_destroy(whole *whole) {
  if (whole->library)
    libdeflate_free_decompressor(whole->library);
  dp_free(whole->memory);
  dp_free(whole);
}

static void whole_give(whole *whole) {
  if (whole->size > MOST_RESTING || !dp_coder_give(&resting_wholes, whole))
    whole_destroy(whole);
}

/* Takes a kept decompressor, or makes one, with `size` bytes of memory; NULL when there is no
 * memory. */
static whole *whole_take(size_t size) {
  whole *whole = dp_coder_take(&resting_wholes);
  if (!whole) {
    whole = dp_malloc(sizeof *whole);
    *whole = (struct whole){.library = libdeflate_alloc_decompressor()};
  }
  if (whole->size < size) {
    dp_free(whole->memory);
    whole->memory = dp_try_malloc(size);
    whole->size = whole->memory ? size : 0;
  }
  if (whole->library && whole->memory)
    return whole;
  whole_destroy(whole);
  return NULL;
}

/* The whole stream in one piece: the only chunk itself, or a copy of all chunks in `room`. */
static dp_view gather(png_unpacker *unpacker, uint8_t *room) {
  chunk chunk;
  if (!next_pixels(unpacker, &chunk))
    return (dp_view){0};
  dp_view stream = {(const char *)chunk.data, chunk.length};
  while (next_pixels(unpacker, &chunk)) {
    if (stream.data != (const char *)room)
      stream.data = memcpy(room, stream.data, stream.length);
    memcpy(room + stream.length, chunk.data, chunk.length);
    stream.length += chunk.length;
  }
  return stream;
}

/* False when the image is too large or libdeflate fails; then zlib has to try. */
static bool decode_at_once(const png *png, const target *target, dp_status **status_out) {
  size_t zeros = row_length(png, png->width) + 1, size = unpacked_size(png);
  if (size > MOST_AT_ONCE)
    return false;
  whole *whole = whole_take(zeros + size + (size_t)(png->end - png->pixels));
  if (!whole)
    return false;
  uint8_t *rows = whole->memory + zeros;
  png_unpacker unpacker = {.png = png, .next = png->pixels, .ready = rows};
  unpacker.zeros = memset(whole->memory, 0, zeros);
  dp_view stream = gather(&unpacker, rows + size);
  size_t taken;
  bool is_good = libdeflate_zlib_decompress_ex(whole->library, stream.data, stream.length, rows,
                                               size, &taken, NULL) == LIBDEFLATE_SUCCESS;
  if (is_good)
    *status_out = decode_passes(&unpacker, target);
  whole_give(whole);
  return is_good;
}

dp_status *dp_png_decode(dp_view data, int channels, int bits, void *pixels) {
  png png;
  DP_RETURN_IF_ERROR(png_open(&png, data));
  if (png.width * png.height >= MAX_PIXELS)
    return broken("too large");
  if (!can_be_whole(&png))
    return broken("more pixels than its bytes can hold");
  target target = {pixels, png.width, channels_of(&png, channels), bits};
  dp_status *status = NULL;
  return decode_at_once(&png, &target, &status) ? status : decode_by_rows(&png, &target);
}
