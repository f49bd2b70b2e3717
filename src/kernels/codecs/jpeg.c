/* Reads JPEG files with libjpeg; jpeg_small.c reads small ones, jpeg_write.c writes them. The
 * library reports errors by longjmp, so each entry keeps everything that must be freed in one
 * struct that outlives the jump. That struct, the reader, is kept for the next image
 * (dp_coder_rest); any thread may take it. */
#include <string.h>
#include "base/memory.h"
#include "kernels/codecs/codec.h"
#include "kernels/codecs/jpeg_library_internal.h"
/* needs jpeglib.h before it */
#include <jerror.h>

/* ---- The source: a piece of memory ---- */
typedef struct source {
  struct jpeg_source_mgr manager;
  dp_view data;
  bool recover;
  const JOCTET *again; /* bytes that were offered again, and how many in all */
  size_t bytes_again;
} source;
#define MOST_BYTES_AGAIN ((size_t)1 << 16) /* no segment is longer */
static const JOCTET end_marker[2] = {0xff, JPEG_EOI};

static void source_start(j_decompress_ptr jpeg) {
  source *source = (struct source *)jpeg->src;
  source->manager.next_input_byte = (const JOCTET *)source->data.data;
  source->manager.bytes_in_buffer = source->data.length;
  source->again = NULL;
}

/* The library has reached the end of the data within a segment and wants to go on from its last
 * stop. As in TensorFlow, the bytes since then are offered again, but not endlessly. */
static boolean source_again(j_decompress_ptr jpeg, source *source) {
  if (source->again != source->manager.next_input_byte)
    source->bytes_again = 0;
  source->again = source->manager.next_input_byte;
  if (source->bytes_again > MOST_BYTES_AGAIN)
    ERREXIT(jpeg, JERR_FILE_READ);
  source->bytes_again += source->manager.bytes_in_buffer;
  return source->recover;
}

/* The data end too early. If truncated files are to be recovered, offers an end marker. */
static boolean source_fill(j_decompress_ptr jpeg) {
  source *source = (struct source *)jpeg->src;
  if (source->manager.bytes_in_buffer > 0)
    return source_again(jpeg, source);
  if (source->data.length > 0 && source->manager.next_input_byte != end_marker && source->recover) {
    source->manager.next_input_byte = end_marker;
    source->manager.bytes_in_buffer = 2;
    return TRUE;
  }
  ERREXIT(jpeg, JERR_FILE_READ);
  return FALSE;
}

static void source_skip(j_decompress_ptr jpeg, long count) {
  source *source = (struct source *)jpeg->src;
  if (count <= 0)
    return;
  if ((size_t)count > source->manager.bytes_in_buffer) {
    source->manager.bytes_in_buffer = 0;
    source_fill(jpeg);
  } else {
    source->manager.next_input_byte += count;
    source->manager.bytes_in_buffer -= (size_t)count;
  }
}

static void source_end(j_decompress_ptr jpeg) {}

/* ---- Reading ---- */
typedef struct reader {
  struct jpeg_decompress_struct jpeg;
  dp_jpeg_errors errors;
  source source;
  dp_jpeg_memory memory;
  bool is_finished; /* the library is in a state in which it can read another image */
  JSAMPLE *line;    /* buffer for one line */
  uint8_t *pixels;
  size_t stride;
  JDIMENSION width, height; /* of the result */
  JDIMENSION lines_read;
  int channels;
} reader;

static dp_coder_rest resting_readers;

/* The tables were in the arena, which is reset. The next image may be damaged and have none of its
 * own. */
static void forget_tables(struct jpeg_decompress_struct *jpeg) {
  memset(jpeg->quant_tbl_ptrs, 0, sizeof jpeg->quant_tbl_ptrs);
  memset(jpeg->dc_huff_tbl_ptrs, 0, sizeof jpeg->dc_huff_tbl_ptrs);
  memset(jpeg->ac_huff_tbl_ptrs, 0, sizeof jpeg->ac_huff_tbl_ptrs);
}

static reader *reader_take(void) {
  reader *reader = dp_coder_take(&resting_readers);
  if (reader)
    return reader;
  reader = DP_NEW(struct reader);
  reader->jpeg.err = dp_jpeg_init_errors(&reader->errors);
  return reader;
}

static void reader_give(reader *reader) {
  dp_free(reader->line);
  reader->line = NULL;
  reader->lines_read = 0;
  if (reader->is_finished) {
    reader->is_finished = false;
    forget_tables(&reader->jpeg);
    if (dp_arena_bytes(reader->memory.arena) <= DP_JPEG_MOST_RESTING_BYTES &&
        dp_coder_give(&resting_readers, reader))
      return;
  }
  dp_jpeg_library.jpeg_destroy((j_common_ptr)&reader->jpeg);
  dp_arena_destroy(reader->memory.arena);
  dp_free(reader);
}

static void reader_open(reader *reader, dp_view data, bool recover) {
  if (!reader->memory.arena) {
    dp_jpeg_library.jpeg_CreateDecompress(&reader->jpeg, JPEG_LIB_VERSION,
                                          sizeof(struct jpeg_decompress_struct));
    reader->memory.keeps_nothing = true;
    dp_jpeg_memory_start(&reader->memory, (j_common_ptr)&reader->jpeg);
  }
  reader->source.manager.init_source = source_start;
  reader->source.manager.fill_input_buffer = source_fill;
  reader->source.manager.skip_input_data = source_skip;
  reader->source.manager.resync_to_restart = dp_jpeg_library.jpeg_resync_to_restart;
  reader->source.manager.term_source = source_end;
  reader->source.data = data;
  reader->source.recover = recover;
  reader->jpeg.src = &reader->source.manager;
  dp_jpeg_library.jpeg_read_header(&reader->jpeg, TRUE);
}

static bool fits_crop(const dp_jpeg_options *options, const reader *reader) {
  int64_t width = reader->jpeg.output_width, height = reader->jpeg.output_height;
  return options->crop_width > 0 && options->crop_height > 0 && options->crop_x >= 0 &&
         options->crop_y >= 0 && (int64_t)options->crop_y + options->crop_height <= height &&
         (int64_t)options->crop_x + options->crop_width <= width;
}

static bool reader_start(reader *reader, const dp_jpeg_options *options) {
  struct jpeg_decompress_struct *jpeg = &reader->jpeg;
  reader->channels = options->channels          ? options->channels
                     : jpeg->num_components < 3 ? jpeg->num_components
                                                : 3;
  if (reader->channels != 1 && reader->channels != 3)
    return false;
  bool is_cmyk = jpeg->jpeg_color_space == JCS_CMYK || jpeg->jpeg_color_space == JCS_YCCK;
  jpeg->out_color_space = reader->channels == 1 ? JCS_GRAYSCALE : is_cmyk ? JCS_CMYK : JCS_RGB;
  jpeg->do_fancy_upsampling = options->fancy_upscaling;
  jpeg->scale_num = 1;
  jpeg->scale_denom = (unsigned)options->ratio;
  jpeg->dct_method = options->is_accurate ? JDCT_ISLOW : JDCT_IFAST;
  dp_jpeg_library.jpeg_calc_output_dimensions(jpeg);
  if (jpeg->output_width == 0 || jpeg->output_height == 0 ||
      (int64_t)jpeg->output_width * jpeg->output_height * jpeg->num_components >=
          DP_JPEG_MAX_PIXELS)
    return false;
  dp_jpeg_library.jpeg_start_decompress(jpeg);
  reader->width = jpeg->output_width;
  reader->height = jpeg->output_height;
  if (options->has_crop) {
    if (!fits_crop(options, reader))
      return false;
    reader->width = (JDIMENSION)options->crop_width;
    reader->height = (JDIMENSION)options->crop_height;
    JDIMENSION x = (JDIMENSION)options->crop_x, width = reader->width;
    dp_jpeg_library.jpeg_crop_scanline(jpeg, &x, &width); /* widens to whole blocks, leftwards */
    dp_jpeg_library.jpeg_skip_scanlines(jpeg, (JDIMENSION)options->crop_y);
  }
  return true;
}

static void put_cmyk(const reader *reader, const JSAMPLE *from, uint8_t *to) {
  for (JDIMENSION i = 0; i < reader->width; ++i, from += 4, to += 3) {
    int black = from[3];
    for (int j = 0; j < 3; ++j)
      to[j] = (uint8_t)(reader->jpeg.saw_Adobe_marker ? black * from[j] / 255
                                                      : (255 - black) * (255 - from[j]) / 255);
  }
}

/* Reads all lines that the file has. With recover_truncated, missing lines repeat the last one. */
static void reader_lines(reader *reader, const dp_jpeg_options *options) {
  struct jpeg_decompress_struct *jpeg = &reader->jpeg;
  int file_channels = jpeg->out_color_space == JCS_CMYK ? 4 : reader->channels;
  size_t skipped = (size_t)(jpeg->output_width - reader->width) * (size_t)file_channels;
  bool is_direct = file_channels == reader->channels && skipped == 0;
  while (reader->lines_read < reader->height) {
    uint8_t *to = reader->pixels + reader->lines_read * reader->stride;
    JSAMPROW rows[DP_JPEG_ROWS_AT_ONCE] = {reader->line};
    JDIMENSION count = reader->height - reader->lines_read;
    count = !is_direct ? 1 : count < DP_JPEG_ROWS_AT_ONCE ? count : DP_JPEG_ROWS_AT_ONCE;
    for (JDIMENSION i = 0; is_direct && i < count; ++i)
      rows[i] = to + i * reader->stride;
    JDIMENSION made = dp_jpeg_library.jpeg_read_scanlines(jpeg, rows, count);
    if (made == 0)
      break;
    reader->lines_read += made;
    if (file_channels == 4)
      put_cmyk(reader, reader->line + skipped, to);
    else if (!is_direct)
      memcpy(to, reader->line + skipped, reader->stride);
  }
  bool is_whole = reader->lines_read == reader->height;
  for (JDIMENSION i = reader->lines_read; options->recover_truncated && i < reader->height; ++i) {
    uint8_t *to = reader->pixels + i * reader->stride;
    if (i == 0)
      memset(to, 0, reader->stride);
    else
      memcpy(to, to - reader->stride, reader->stride);
    reader->lines_read = i + 1;
  }
  if (is_whole && jpeg->output_scanline < jpeg->output_height)
    dp_jpeg_library.jpeg_skip_scanlines(jpeg, jpeg->output_height - jpeg->output_scanline);
  if (is_whole)
    reader->is_finished = dp_jpeg_library.jpeg_finish_decompress(jpeg);
}

static dp_status *read_image(reader *reader, dp_view data, const dp_jpeg_options *options,
                             dp_image_allocate_fn allocate, void *arg) {
  if (setjmp(reader->errors.jump))
    return DP_INVALID("%s", reader->errors.message);
  reader_open(reader, data, options->recover_truncated);
  if (!reader_start(reader, options))
    return DP_INVALID("a size, crop window or number of channels that cannot be");
  reader->stride = (size_t)reader->width * (size_t)reader->channels;
  reader->line = dp_try_malloc((size_t)reader->jpeg.output_width * 4);
  dp_image_size size = {reader->width, reader->height, reader->channels, 1};
  reader->pixels = allocate(arg, &size);
  if (!reader->line || !reader->pixels)
    return dp_status_out_of_memory();
  reader_lines(reader, options);
  return NULL;
}

dp_status *dp_jpeg_decode_by_library(dp_view data, const dp_jpeg_options *options,
                                     dp_image_allocate_fn allocate, void *arg) {
  DP_RETURN_IF_ERROR(dp_jpeg_need_library());
  reader *reader = reader_take();
  dp_status *status = read_image(reader, data, options, allocate, arg);
  if (!status && reader->lines_read < reader->height) { /* the rest is black, if that will do */
    float fraction = (float)reader->lines_read / (float)reader->height;
    float wanted = options->acceptable_fraction < 1.0f ? options->acceptable_fraction : 1.0f;
    if (fraction < wanted)
      status = DP_INVALID("only %u of %u lines", reader->lines_read, reader->height);
    else
      memset(reader->pixels + reader->lines_read * reader->stride, 0,
             (reader->height - reader->lines_read) * reader->stride);
  }
  reader_give(reader);
  return status;
}

static dp_status *read_size(reader *reader, dp_view data, dp_image_size *size_out) {
  if (setjmp(reader->errors.jump))
    return DP_INVALID("%s", reader->errors.message);
  reader_open(reader, data, false);
  dp_jpeg_library.jpeg_start_decompress(&reader->jpeg);
  *size_out = (dp_image_size){reader->jpeg.output_width, reader->jpeg.output_height,
                              reader->jpeg.output_components, 1};
  return NULL;
}

dp_status *dp_jpeg_size(dp_view data, dp_image_size *size_out) {
  DP_RETURN_IF_ERROR(dp_jpeg_need_library());
  reader *reader = reader_take();
  dp_status *status = read_size(reader, data, size_out);
  reader_give(reader);
  return status;
}
