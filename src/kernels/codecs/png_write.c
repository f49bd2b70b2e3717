/* Writes PNG files with the filters, strategy and window that libpng would choose, so that the
 * bytes equal TensorFlow's. With DP_PNG_ANY_BYTES, libdeflate packs the same filtered rows in less
 * time. The writer (memory of the libraries, memory for rows) is kept for the next image; any
 * thread may take it. */
#include <string.h>
#include <libdeflate.h>
#include <zlib.h>
#include "base/memory.h"
#include "kernels/codecs/codec.h"
#include "kernels/loops/png.h"

#define MAX_SIDE ((int64_t)1 << 27)

static void put32(dp_text *out, uint32_t value) {
  uint32_t bytes = __builtin_bswap32(value);
  dp_text_append(out, &bytes, sizeof bytes);
}

static void add_chunk(dp_text *out, const char *name, const void *data, size_t length) {
  put32(out, (uint32_t)length);
  size_t start = out->length;
  dp_text_append(out, name, 4);
  dp_text_append(out, data, length);
  put32(out, libdeflate_crc32(0, out->data + start, out->length - start));
}

/* Filtered rows are collected up to about this many bytes before zlib gets them. */
#define BATCH_BYTES ((size_t)16384)

/* A zlib stream and its settings; window_bits is 0 when there is no stream yet. */
typedef struct packer {
  z_stream stream;
  int window_bits, compression, strategy;
} packer;

typedef struct png_writer {
  packer large, small;
  struct libdeflate_compressor *whole; /* NULL until an image needs it */
  bool packs_at_once;                  /* libdeflate packs the whole image, unless is_light */
  int compression, strategy;
  z_stream *stream;    /* of `large` or `small`; NULL before the first bytes */
  uint8_t block[8192]; /* an IDAT chunk, of libpng's size */
  uint64_t bytes;      /* of all rows */
  uint64_t distances;  /* the sum of the filtered rows' distances so far */
  bool has_begun;
  uint8_t *scratch; /* memory for rows */
  size_t scratch_size;
  dp_text *out;
} png_writer;

/* Kept because zlib's memory is so large that malloc would return it to the system each time. */
static dp_coder_rest resting_writers;

static void writer_destroy(png_writer *writer) {
  deflateEnd(&writer->large.stream);
  deflateEnd(&writer->small.stream);
  if (writer->whole)
    libdeflate_free_compressor(writer->whole);
  dp_free(writer->scratch);
  dp_free(writer);
}

static png_writer *writer_take(void) {
  png_writer *writer = dp_coder_take(&resting_writers);
  if (writer)
    return writer;
  writer = dp_malloc(sizeof *writer); /* the block need not be zeroed */
  memset(&writer->large, 0, sizeof writer->large);
  memset(&writer->small, 0, sizeof writer->small);
  writer->whole = NULL;
  writer->scratch = NULL;
  writer->scratch_size = 0;
  return writer;
}

static void writer_give(png_writer *writer) {
  if (writer->scratch_size > 4 * BATCH_BYTES) { /* after a large image */
    dp_free(writer->scratch);
    writer->scratch = NULL;
    writer->scratch_size = 0;
  }
  if (!dp_coder_give(&resting_writers, writer))
    writer_destroy(writer);
}

/* Resets the stream to its start, with these settings. */
static bool packer_reset(packer *packer, int window_bits, int compression, int strategy,
                         int memory_level) {
  if (packer->window_bits == window_bits && packer->compression == compression &&
      packer->strategy == strategy)
    return deflateReset(&packer->stream) == Z_OK;
  deflateEnd(&packer->stream);
  packer->window_bits = 0;
  if (deflateInit2(&packer->stream, compression, Z_DEFLATED, window_bits, memory_level, strategy) !=
      Z_OK)
    return false;
  packer->window_bits = window_bits;
  packer->compression = compression;
  packer->strategy = strategy;
  return true;
}

/* The most bytes that libdeflate makes of `length` bytes. */
static size_t packed_room(size_t length) {
  return libdeflate_zlib_compress_bound(NULL, length);
}

#define MOST_STEP ((size_t)8)
/* Memory for a row, with the margins that the filters need. */
static size_t row_room(size_t length) {
  return MOST_STEP + 1 + dp_png_padded(length);
}

/* Memory for three raw rows, a candidate filtered row, and a batch of chosen filtered rows. If the
 * image is packed at once, the batch is the whole image, followed by the packed bytes. */
static bool writer_reserve(png_writer *writer, size_t row_length) {
  size_t wanted = 5 * row_room(row_length);
  wanted += writer->packs_at_once ? writer->bytes + packed_room(writer->bytes) : BATCH_BYTES;
  if (writer->scratch_size >= wanted)
    return true;
  dp_free(writer->scratch);
  writer->scratch = dp_try_malloc(wanted);
  writer->scratch_size = writer->scratch ? wanted : 0;
  return writer->scratch != NULL;
}

/* libpng declares the smallest window that holds the image in the stream's header, whatever zlib
 * used. */
static void shrink_window(png_writer *writer) {
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

static void write_block(png_writer *writer, size_t length) {
  shrink_window(writer);
  writer->has_begun = true;
  add_chunk(writer->out, "IDAT", writer->block, length);
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

/* libpng lets zlib use all the memory that it can. Clearing that memory and missing the cache in it
 * takes longer than packing a small image. With less memory zlib finds the same matches, and so
 * writes the same bytes, under two conditions. The memory must hold the symbols of the whole image:
 * images of up to SMALL_BYTES. And no search may be given up: from level 6 on zlib tries at least
 * LEAST_SEARCH earlier positions, so no more positions than that may have the same hash key
 * (is_varied). */
#define LARGE_MEMORY 9
#define SMALL_MEMORY 6
#define SMALL_BYTES 4000 /* fewer than DP_PNG_MOST_VARIED */
#define LEAST_SEARCH 32

static bool writer_begin(png_writer *writer, const uint8_t *data, size_t length) {
  int bits = window_bits(writer->bytes), compression = writer->compression;
  bool searches_all = compression == Z_DEFAULT_COMPRESSION || compression >= 6;
  bool is_small = searches_all && writer->bytes <= SMALL_BYTES && length == writer->bytes &&
                  dp_png_table()->is_varied(data, length, LEAST_SEARCH);
  packer *packer = is_small ? &writer->small : &writer->large;
  if (!packer_reset(packer, bits, compression, writer->strategy,
                    is_small ? SMALL_MEMORY : LARGE_MEMORY))
    return false;
  writer->stream = &packer->stream;
  writer->stream->next_out = writer->block;
  writer->stream->avail_out = sizeof writer->block;
  return true;
}

/* False when there is no memory. */
static bool write_packed(png_writer *writer, const uint8_t *data, size_t length, int mode) {
  if (!writer->stream && !writer_begin(writer, data, length))
    return false;
  z_stream *stream = writer->stream;
  stream->next_in = (Bytef *)data;
  stream->avail_in = (uInt)length;
  int result = Z_OK;
  do {
    result = deflate(stream, mode);
    if (stream->avail_out == 0) {
      write_block(writer, sizeof writer->block);
      stream->next_out = writer->block;
      stream->avail_out = sizeof writer->block;
    }
  } while (stream->avail_in > 0 || (mode == Z_FINISH && result != Z_STREAM_END));
  if (mode == Z_FINISH && stream->avail_out < sizeof writer->block)
    write_block(writer, sizeof writer->block - stream->avail_out);
  return true;
}

/* ---- By libdeflate ---- */
#define MOST_AT_ONCE ((uint64_t)64 << 20) /* larger images: zlib needs less memory */
#define AT_ONCE_LEVEL 6                   /* files as small as with zlib's default */

/* libdeflate first clears memory, which takes longer than zlib needs for a small image with little
 * contents. */
static bool is_light(const png_writer *writer) {
  return writer->bytes <= 1024 && writer->distances < 8192;
}

/* The memory after the data has room for the packed bytes. False when there is no memory for
 * libdeflate. */
static bool write_at_once(png_writer *writer, uint8_t *data, size_t length) {
  if (!writer->whole)
    writer->whole = libdeflate_alloc_compressor(AT_ONCE_LEVEL);
  if (!writer->whole)
    return false;
  uint8_t *packed = data + length;
  size_t room = packed_room(length);
  add_chunk(writer->out, "IDAT", packed,
            libdeflate_zlib_compress(writer->whole, data, length, packed, room));
  return true;
}

/* ---- Rows ---- */
/* Copies a row in the file's byte order. */
static void copy_row(uint8_t *to, const uint8_t *from, size_t length, int bits) {
  memcpy(to, from, length);
  for (size_t i = 0; bits == 16 && i + 1 < length; i += 2) {
    to[i] = from[i + 1];
    to[i + 1] = from[i];
  }
}

/* Filters a row in every way that libpng tries, and chooses the one with the least sum of
 * distances, which it returns. `best` gets the filter's number and the row; `other` is scratch
 * memory. */
static uint64_t filter_row(const uint8_t *row, const uint8_t *above, size_t length, size_t step,
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
  return least;
}

static bool write_rows(png_writer *writer, const uint8_t *pixels, int64_t width, int64_t height,
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
    writer->distances +=
        filter_row(row, above, length, step, width > 1, height > 1, batch + filled, other);
    filled += length + 1;
    if (filled >= BATCH_BYTES && !writer->packs_at_once) {
      if (!write_packed(writer, batch, filled, Z_NO_FLUSH))
        return false;
      filled = 0;
    }
    uint8_t *free_row = above;
    above = row;
    row = next;
    next = free_row;
  }
  return writer->packs_at_once && !is_light(writer) ? write_at_once(writer, batch, filled)
                                                    : write_packed(writer, batch, filled, Z_FINISH);
}

static void write_head(dp_text *out, int64_t width, int64_t height, int channels, int bits) {
  static const uint8_t colors[] = {0, 0, 4, 2, 6}; /* gray, with alpha; RGB, with alpha */
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
    return DP_INVALID("PNG: a size that cannot be written");
  size_t step = (size_t)channels * (size_t)bits / 8, length = (size_t)width * step;
  uint64_t bytes = (uint64_t)(length + 1) * (uint64_t)height;
  png_writer *writer = writer_take();
  writer->out = out;
  writer->bytes = bytes;
  writer->packs_at_once = compression == DP_PNG_ANY_BYTES && bytes <= MOST_AT_ONCE;
  writer->compression = compression == DP_PNG_ANY_BYTES ? Z_DEFAULT_COMPRESSION : compression;
  /* A single pixel has no neighbours, so there is no filter to choose. */
  writer->strategy = width == 1 && height == 1 ? Z_DEFAULT_STRATEGY : Z_FILTERED;
  writer->stream = NULL;
  writer->has_begun = false;
  writer->distances = 0;
  write_head(out, width, height, channels, bits);
  if (!writer_reserve(writer, length) || !write_rows(writer, pixels, width, height, step, bits)) {
    writer_destroy(writer);
    return dp_status_out_of_memory();
  }
  add_chunk(out, "IEND", NULL, 0);
  writer_give(writer);
  return NULL;
}
