/* Reads small, plain JPEG images without libjpeg: for a thumbnail, the library's setup takes
 * several times as long as decoding. The pixels equal the library's bit for bit. Anything unusual,
 * damaged, missing or too large is left to the library, before anything is allocated or written. A
 * coder keeps its tables for the next image, which usually has the same ones. Any thread. */
#include <string.h>
#include "base/memory.h"
#include "kernels/codecs/codec.h"
#include "kernels/codecs/jpeg_internal.h"
#include "kernels/loops/jpeg.h"

#define SIDE 8                  /* pixels, of a block */
#define MOST_PIXELS (128 * 128) /* for larger images the library is nearly as fast */
#define MOST_CHANNELS 3
#define TABLES 4

enum marker {
  FRAME = 0xc0,
  FRAME_EXTENDED = 0xc1,
  CODES = 0xc4,
  START = 0xd8,
  SCAN = 0xda,
  QUANTIZATION = 0xdb,
  RESTARTS = 0xdd,
  APPLICATION = 0xe0, /* the first of 16 */
  COMMENT = 0xfe,
};

/* ---- The header ---- */
typedef struct header_channel {
  uint8_t id, sampling;        /* across << 4 | down */
  uint8_t quantization, codes; /* table numbers; codes: DC << 4 | AC */
} header_channel;

typedef struct header {
  const uint8_t *at, *end; /* bytes that are not read yet */
  bool has_jfif, has_adobe;
  int width, height; /* 0 before the frame */
  int count;
  header_channel channels[MOST_CHANNELS];
  const uint8_t *quantization[TABLES]; /* NULL when there is none */
  dp_view codes[2][TABLES];            /* definitions of the DC and of the AC codes */
} header;

/* Takes the next segment: its marker, and its bytes without marker and length. */
static bool next_segment(header *header, uint8_t *marker_out, dp_view *segment_out) {
  const uint8_t *at = header->at;
  if (header->end - at < 4 || at[0] != 0xff)
    return false;
  size_t length = (size_t)at[2] << 8 | at[3];
  if (length < 2 || length > (size_t)(header->end - at) - 2)
    return false;
  *marker_out = at[1];
  *segment_out = (dp_view){(const char *)at + 4, length - 2};
  header->at += 2 + length;
  return true;
}

static bool read_quantization(header *header, dp_view segment) {
  const uint8_t *at = (const uint8_t *)segment.data;
  if (segment.length % (1 + DP_JPEG_COEFFICIENTS) != 0)
    return false;
  for (size_t i = 0; i < segment.length; i += 1 + DP_JPEG_COEFFICIENTS) {
    if (at[i] >= TABLES) /* or a table of 16-bit numbers */
      return false;
    header->quantization[at[i]] = at + i + 1;
  }
  return true;
}

static bool read_codes(header *header, dp_view segment) {
  const uint8_t *at = (const uint8_t *)segment.data, *end = at + segment.length;
  while (at < end) {
    size_t symbols = 0;
    if (end - at < 1 + DP_JPEG_LENGTHS || (at[0] & ~0x10) >= TABLES)
      return false;
    for (int i = 1; i <= DP_JPEG_LENGTHS; ++i)
      symbols += at[i];
    size_t length = DP_JPEG_LENGTHS + symbols;
    if (symbols > DP_JPEG_MOST_SYMBOLS || length > (size_t)(end - at) - 1)
      return false;
    header->codes[at[0] >> 4][at[0] & 15] = (dp_view){(const char *)at + 1, length};
    at += 1 + length;
  }
  return true;
}

static bool read_frame(header *header, dp_view segment) {
  const uint8_t *at = (const uint8_t *)segment.data;
  if (header->width != 0 || segment.length < 6 || at[0] != 8)
    return false;
  header->height = at[1] << 8 | at[2];
  header->width = at[3] << 8 | at[4];
  header->count = at[5];
  int64_t pixels = (int64_t)header->width * header->height;
  if (pixels == 0 || pixels > MOST_PIXELS || (header->count != 1 && header->count != 3) ||
      segment.length != 6 + 3 * (size_t)header->count)
    return false;
  for (int i = 0; i < header->count; ++i) {
    header_channel *channel = &header->channels[i];
    channel->id = at[6 + 3 * i];
    channel->sampling = at[7 + 3 * i];
    channel->quantization = at[8 + 3 * i];
    if (channel->quantization >= TABLES)
      return false;
  }
  return true;
}

/* Accepts only a scan of all channels, in the frame's order, with all coefficients. */
static bool read_scan(header *header, dp_view segment) {
  static const uint8_t spectrum[3] = {0, DP_JPEG_COEFFICIENTS - 1, 0};
  const uint8_t *at = (const uint8_t *)segment.data;
  if (header->width == 0 || segment.length != 4 + 2 * (size_t)header->count ||
      at[0] != header->count || memcmp(at + 1 + 2 * header->count, spectrum, 3) != 0)
    return false;
  for (int i = 0; i < header->count; ++i) {
    header_channel *channel = &header->channels[i];
    uint8_t codes = at[2 + 2 * i];
    if (at[1 + 2 * i] != channel->id || codes >> 4 >= TABLES || (codes & 15) >= TABLES ||
        !header->codes[0][codes >> 4].data || !header->codes[1][codes & 15].data)
      return false;
    channel->codes = codes;
  }
  return true;
}

/* The JFIF and Adobe segments tell the color space. */
static void note_application(header *header, uint8_t marker, dp_view segment) {
  if (marker == APPLICATION && segment.length >= 14 && memcmp(segment.data, "JFIF", 5) == 0)
    header->has_jfif = true;
  if (marker == APPLICATION + 14)
    header->has_adobe = true;
}

static bool read_segment(header *header, uint8_t marker, dp_view segment) {
  switch (marker) {
  case QUANTIZATION:
    return read_quantization(header, segment);
  case CODES:
    return read_codes(header, segment);
  case FRAME:
  case FRAME_EXTENDED:
    return read_frame(header, segment);
  case RESTARTS:
    return segment.length == 2 && segment.data[0] == 0 && segment.data[1] == 0;
  case SCAN:
    return read_scan(header, segment);
  case COMMENT:
    return true;
  default:
    note_application(header, marker, segment);
    return marker >= APPLICATION && marker < APPLICATION + 16;
  }
}

/* Reads all segments before the entropy-coded bits. */
static bool read_header(header *header) {
  uint8_t marker = 0;
  dp_view segment;
  if (header->end - header->at < 2 || header->at[0] != 0xff || header->at[1] != START)
    return false;
  header->at += 2;
  while (marker != SCAN)
    if (!next_segment(header, &marker, &segment) || !read_segment(header, marker, segment))
      return false;
  return true;
}

/* Whether the image is gray, or certainly luma and chroma, with one of the usual samplings. */
static bool is_plain(const header *header) {
  const header_channel *channels = header->channels;
  uint8_t luma = channels[0].sampling;
  if (header->count == 1)
    return luma == 0x11;
  bool has_plain_ids = channels[0].id == 1 && channels[1].id == 2 && channels[2].id == 3;
  bool has_own_ids = channels[0].id != channels[1].id && channels[1].id != channels[2].id &&
                     channels[2].id != channels[0].id;
  return (header->has_jfif ? has_own_ids : has_plain_ids && !header->has_adobe) &&
         (luma == 0x11 || luma == 0x21 || luma == 0x22) && channels[1].sampling == 0x11 &&
         channels[2].sampling == 0x11;
}

/* ---- Coders ---- */
typedef struct factors {
  uint8_t definition[DP_JPEG_COEFFICIENTS]; /* all zeros if none is set */
  int16_t values[2][DP_JPEG_COEFFICIENTS];  /* for the fast and for the accurate transform */
} factors;

typedef struct plane {
  int across, down; /* blocks per unit */
  size_t stride;
  uint8_t *samples; /* the first sample, after a margin */
} plane;

/* Enough for most shapes of MOST_PIXELS pixels, in whole blocks, with margins between the rows. */
#define PLANE_BYTES ((size_t)MOST_PIXELS * 3 / 2)
typedef struct coder {
  const dp_jpeg_loops *loops;
  bool is_accurate;
  int width, height, count; /* size in pixels; channels of the file */
  int units_across, units_down;
  dp_jpeg_channel channels[MOST_CHANNELS];
  plane planes[MOST_CHANNELS];
  dp_jpeg_bits bits;
  int16_t block[DP_JPEG_COEFFICIENTS]; /* all zeros between two blocks */
  dp_jpeg_code codes[2][TABLES];
  factors factors[TABLES];
  uint8_t samples[MOST_CHANNELS][PLANE_BYTES];
} coder;

static dp_coder_rest resting_coders;

static coder *coder_take(void) {
  coder *coder = dp_coder_take(&resting_coders);
  return coder ? coder : DP_NEW(struct coder);
}

static void coder_give(coder *coder) {
  if (!dp_coder_give(&resting_coders, coder))
    dp_free(coder);
}

/* ---- Tables ---- */
/* False when the table is missing or contains a zero. */
static bool factors_set(factors *factors, const uint8_t *definition) {
  static const double scales[SIDE] = {1.0, 1.387039845, 1.306562965, 1.175875602,
                                      1.0, 0.785694958, 0.541196100, 0.275899379};
  if (!definition || definition[0] == 0)
    return false;
  if (memcmp(factors->definition, definition, sizeof factors->definition) == 0)
    return true;
  if (memchr(definition, 0, sizeof factors->definition))
    return false;
  memcpy(factors->definition, definition, sizeof factors->definition);
  for (int i = 0; i < DP_JPEG_COEFFICIENTS; ++i) {
    int place = dp_jpeg_natural_order[i];
    int scale = (int)(scales[place / SIDE] * scales[place % SIDE] * (1 << 14) + 0.5);
    factors->values[0][i] = (int16_t)((definition[i] * scale + (1 << 11)) >> 12);
    factors->values[1][i] = definition[i];
  }
  return true;
}

static bool set_code(coder *coder, const header *header, int kind, int number) {
  dp_view definition = header->codes[kind][number];
  return dp_jpeg_code_set(&coder->codes[kind][number], (const uint8_t *)definition.data,
                          definition.length, kind == 0 ? 15 : 255);
}

static bool set_channel(coder *coder, const header *header, int index) {
  const header_channel *from = &header->channels[index];
  factors *factors = &coder->factors[from->quantization];
  int first = from->codes >> 4, others = from->codes & 15;
  coder->channels[index] = (dp_jpeg_channel){&coder->codes[0][first], &coder->codes[1][others],
                                             factors->values[coder->is_accurate], 0};
  return factors_set(factors, header->quantization[from->quantization]) &&
         set_code(coder, header, 0, first) && set_code(coder, header, 1, others);
}

/* ---- Planes ---- */
static int divide_up(int value, int by) {
  return (value + by - 1) / by;
}

static bool set_planes(coder *coder, const header *header) {
  uint8_t largest = header->channels[0].sampling;
  coder->units_across = divide_up(header->width, SIDE * (largest >> 4));
  coder->units_down = divide_up(header->height, SIDE * (largest & 15));
  for (int i = 0; i < header->count; ++i) {
    plane *plane = &coder->planes[i];
    plane->across = header->channels[i].sampling >> 4;
    plane->down = header->channels[i].sampling & 15;
    size_t width = (size_t)(coder->units_across * plane->across * SIDE);
    size_t height = (size_t)(coder->units_down * plane->down * SIDE);
    plane->stride = width + DP_JPEG_MARGIN;
    plane->samples = coder->samples[i] + DP_JPEG_MARGIN;
    if (DP_JPEG_MARGIN + plane->stride * height > PLANE_BYTES)
      return false;
  }
  return true;
}

/* A block with only its first coefficient has a single color. */
static void put_even(const coder *coder, uint8_t *to, size_t stride) {
  int first = coder->block[0];
  int value = coder->is_accurate ? ((int16_t)(first * 4) + 16) >> 5 : first >> 5;
  value = value < -128 ? 0 : value > 127 ? 255 : value + 128;
  for (int i = 0; i < SIDE; ++i)
    memset(to + (size_t)i * stride, value, SIDE);
}

static bool read_block(coder *coder, int index, int x, int y, bool is_needed) {
  const plane *plane = &coder->planes[index];
  int last = dp_jpeg_read_block(&coder->bits, &coder->channels[index], coder->block);
  uint8_t *to = plane->samples + (size_t)(y * SIDE) * plane->stride + (size_t)(x * SIDE);
  if (last == 0 && is_needed)
    put_even(coder, to, plane->stride);
  else if (last > 0 && is_needed)
    coder->loops->inverse[coder->is_accurate](coder->block, to, plane->stride);
  memset(coder->block, 0, sizeof coder->block);
  return last >= 0;
}

/* Reads one unit: one or more blocks of each channel, which cover the same square of the image. */
static bool read_unit(coder *coder, int x, int y, int needed) {
  for (int i = 0; i < coder->count; ++i) {
    const plane *plane = &coder->planes[i];
    for (int k = 0; k < plane->across * plane->down; ++k)
      if (!read_block(coder, i, x * plane->across + k % plane->across,
                      y * plane->down + k / plane->across, i < needed))
        return false;
  }
  return true;
}

/* Reads all channels; only the first `needed` ones become samples. */
static bool read_planes(coder *coder, int needed) {
  for (int y = 0; y < coder->units_down; ++y)
    for (int x = 0; x < coder->units_across; ++x)
      if (!read_unit(coder, x, y, needed))
        return false;
  return dp_jpeg_bits_at_end(&coder->bits);
}

/* ---- Pixels ---- */
static const uint8_t *row_of(const plane *plane, int row) {
  return plane->samples + (size_t)row * plane->stride;
}

/* Repeats the first and the last sample of each row beyond its ends. */
static void repeat_edges(const plane *plane, int width, int height) {
  for (int i = 0; i < height; ++i) {
    uint8_t *row = plane->samples + (size_t)i * plane->stride;
    row[-1] = row[0];
    row[width] = row[width - 1];
  }
}

static void put_wide_rows(const coder *coder, uint8_t *to) {
  dp_jpeg_row row = {.width = (size_t)coder->width};
  for (int y = 0; y < coder->height; ++y, to += 3 * row.width) {
    row.luma = row_of(&coder->planes[0], y);
    if (coder->count == 1) {
      coder->loops->gray(&row, to);
      continue;
    }
    for (int c = 0; c < 2; ++c)
      row.near[c] = row_of(&coder->planes[1 + c], y);
    coder->loops->full(&row, to);
  }
}

/* For chroma with half as many columns and, if `down` is 2, half as many rows. */
static void put_mixed_rows(const coder *coder, bool mixes, uint8_t *to) {
  int down = coder->planes[0].down;
  int width = divide_up(coder->width, 2), height = divide_up(coder->height, down);
  dp_jpeg_row row = {.biases = {down == 2 ? 8 : 4, down == 2 ? 7 : 8},
                     .width = (size_t)coder->width};
  mixes = mixes && width > 2;
  for (int c = 0; mixes && c < 2; ++c)
    repeat_edges(&coder->planes[1 + c], width, height);
  for (int y = 0; y < coder->height; ++y, to += 3 * row.width) {
    int near = y / down, far = down == 1 ? near : y % 2 ? near + 1 : near - 1;
    far = far < 0 ? 0 : far >= height ? height - 1 : far;
    row.luma = row_of(&coder->planes[0], y);
    for (int c = 0; c < 2; ++c) {
      row.near[c] = row_of(&coder->planes[1 + c], near);
      row.far[c] = row_of(&coder->planes[1 + c], far);
    }
    (mixes ? coder->loops->mixed : coder->loops->twice)(&row, to);
  }
}

static void put_pixels(const coder *coder, int channels, bool mixes, uint8_t *to) {
  size_t width = (size_t)coder->width;
  if (channels == 1)
    for (int y = 0; y < coder->height; ++y)
      memcpy(to + (size_t)y * width, row_of(&coder->planes[0], y), width);
  else if (coder->count == 1 || coder->planes[0].across == 1)
    put_wide_rows(coder, to);
  else
    put_mixed_rows(coder, mixes, to);
}

/* ---- Images ---- */
static bool read_image(coder *coder, const header *header, int channels, bool is_accurate) {
  coder->loops = dp_jpeg_table();
  coder->is_accurate = is_accurate;
  coder->width = header->width;
  coder->height = header->height;
  coder->count = header->count;
  coder->bits = (dp_jpeg_bits){.at = header->at, .end = header->end};
  if (!coder->loops->inverse[is_accurate] || !set_planes(coder, header))
    return false;
  for (int i = 0; i < header->count; ++i)
    if (!set_channel(coder, header, i))
      return false;
  return read_planes(coder, channels < header->count ? channels : header->count);
}

bool dp_jpeg_decode_small(dp_view data, const dp_jpeg_options *options,
                          dp_image_allocate_fn allocate, void *arg, dp_status **status_out) {
  const uint8_t *bytes = (const uint8_t *)data.data;
  header header = {.at = bytes, .end = bytes + data.length};
  if (options->ratio != 1 || options->has_crop || !read_header(&header) || !is_plain(&header))
    return false;
  int channels = options->channels ? options->channels : header.count;
  if (channels != 1 && channels != 3)
    return false;
  coder *coder = coder_take();
  bool is_read = read_image(coder, &header, channels, options->is_accurate);
  if (is_read) {
    dp_image_size size = {header.width, header.height, channels, 1};
    uint8_t *pixels = allocate(arg, &size);
    if (pixels)
      put_pixels(coder, channels, options->fancy_upscaling, pixels);
    *status_out = pixels ? NULL : dp_status_out_of_memory();
  }
  coder_give(coder);
  return is_read;
}

dp_status *dp_jpeg_decode(dp_view data, const dp_jpeg_options *options,
                          dp_image_allocate_fn allocate, void *arg) {
  dp_status *status = NULL;
  if (dp_jpeg_decode_small(data, options, allocate, arg, &status))
    return status;
  return dp_jpeg_decode_by_library(data, options, allocate, arg);
}
