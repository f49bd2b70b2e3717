/* JPEG files by libjpeg (the turbo one that distributions have). The library is opened when the
 * first image comes: a server that never sees one does not pay for it. Its errors leave through
 * longjmp, so each entry keeps what it must free in one struct that outlives the jump. */
#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* after stdio.h */
#include <jpeglib.h>
#include <jerror.h>
#include "base/memory.h"
#include "kernels/codec_internal.h"

#define MAX_PIXELS ((int64_t)1 << 29)

/* ---- The library ---- */
/* clang-format off */
#define JPEG_FUNCTIONS(X) \
  X(jpeg_std_error) X(jpeg_CreateDecompress) X(jpeg_read_header) X(jpeg_calc_output_dimensions) \
  X(jpeg_start_decompress) X(jpeg_read_scanlines) X(jpeg_finish_decompress) X(jpeg_destroy) \
  X(jpeg_crop_scanline) X(jpeg_skip_scanlines) X(jpeg_resync_to_restart) X(jpeg_abort) \
  X(jpeg_CreateCompress) X(jpeg_set_defaults) X(jpeg_set_quality) X(jpeg_simple_progression) \
  X(jpeg_start_compress) X(jpeg_write_marker) X(jpeg_write_scanlines) X(jpeg_finish_compress) \
  X(jpeg_mem_dest)
/* clang-format on */
#define JPEG_POINTER(name) __typeof__(&name) name;
static struct { JPEG_FUNCTIONS(JPEG_POINTER) } library;
static bool is_loaded;

static void load(void) {
  void *handle = dlopen("libjpeg.so.62", RTLD_NOW | RTLD_LOCAL);
  if (!handle)
    return;
  is_loaded = true;
#define JPEG_FIND(name) is_loaded = is_loaded && (library.name = dlsym(handle, #name)) != NULL;
  JPEG_FUNCTIONS(JPEG_FIND)
#undef JPEG_FIND
}

static dp_status *need_library(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, load);
  if (!is_loaded)
    return dp_status_create(DP_UNIMPLEMENTED,
                            "JPEG images need libjpeg.so.62, which is not on this machine");
  return NULL;
}

/* ---- Errors ---- */
typedef struct errors {
  struct jpeg_error_mgr manager;
  jmp_buf jump;
  char message[JMSG_LENGTH_MAX];
} errors;

static void leave(j_common_ptr common) {
  errors *errors = (struct errors *)common->err;
  common->err->format_message(common, errors->message);
  longjmp(errors->jump, 1);
}

static void keep_quiet(j_common_ptr common) {}

static struct jpeg_error_mgr *init_errors(errors *errors) {
  library.jpeg_std_error(&errors->manager);
  errors->manager.error_exit = leave;
  errors->manager.output_message = keep_quiet;
  snprintf(errors->message, sizeof errors->message, "damaged JPEG data");
  return &errors->manager;
}

/* ---- The source: a piece of memory ---- */
typedef struct source {
  struct jpeg_source_mgr manager;
  dp_view data;
  bool recover;
} source;
static const JOCTET end_marker[2] = {0xff, JPEG_EOI};

static void source_start(j_decompress_ptr jpeg) {
  source *source = (struct source *)jpeg->src;
  source->manager.next_input_byte = (const JOCTET *)source->data.data;
  source->manager.bytes_in_buffer = source->data.length;
}

/* The end came too early: when truncated files are to be saved, pretends that it is a good one. */
static boolean source_fill(j_decompress_ptr jpeg) {
  source *source = (struct source *)jpeg->src;
  if (source->manager.bytes_in_buffer > 0)
    return source->recover;
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
  errors errors;
  source source;
  JSAMPLE *line; /* scratch for one line */
  uint8_t *pixels;
  size_t stride;
  JDIMENSION width, height; /* of the result */
  JDIMENSION lines_read;
  int channels;
} reader;

static void reader_open(reader *reader, dp_view data, bool recover) {
  library.jpeg_CreateDecompress(&reader->jpeg, JPEG_LIB_VERSION,
                                sizeof(struct jpeg_decompress_struct));
  reader->source.manager.init_source = source_start;
  reader->source.manager.fill_input_buffer = source_fill;
  reader->source.manager.skip_input_data = source_skip;
  reader->source.manager.resync_to_restart = library.jpeg_resync_to_restart;
  reader->source.manager.term_source = source_end;
  reader->source.data = data;
  reader->source.recover = recover;
  reader->jpeg.src = &reader->source.manager;
  library.jpeg_read_header(&reader->jpeg, TRUE);
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
  library.jpeg_calc_output_dimensions(jpeg);
  if (jpeg->output_width == 0 || jpeg->output_height == 0 ||
      (int64_t)jpeg->output_width * jpeg->output_height * jpeg->num_components >= MAX_PIXELS)
    return false;
  library.jpeg_start_decompress(jpeg);
  reader->width = jpeg->output_width;
  reader->height = jpeg->output_height;
  if (options->has_crop) {
    if (!fits_crop(options, reader))
      return false;
    reader->width = (JDIMENSION)options->crop_width;
    reader->height = (JDIMENSION)options->crop_height;
    JDIMENSION x = (JDIMENSION)options->crop_x, width = reader->width;
    library.jpeg_crop_scanline(jpeg, &x, &width); /* widens to whole blocks, leftwards */
    library.jpeg_skip_scanlines(jpeg, (JDIMENSION)options->crop_y);
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

/* All lines that there are. */
static void reader_lines(reader *reader, const dp_jpeg_options *options) {
  struct jpeg_decompress_struct *jpeg = &reader->jpeg;
  int file_channels = jpeg->out_color_space == JCS_CMYK ? 4 : reader->channels;
  size_t skipped = (size_t)(jpeg->output_width - reader->width) * (size_t)file_channels;
  for (; reader->lines_read < reader->height; ++reader->lines_read) {
    uint8_t *to = reader->pixels + reader->lines_read * reader->stride;
    bool is_direct = file_channels == reader->channels && skipped == 0;
    JSAMPROW row = is_direct ? to : reader->line;
    if (library.jpeg_read_scanlines(jpeg, &row, 1) == 0)
      break;
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
    library.jpeg_skip_scanlines(jpeg, jpeg->output_height - jpeg->output_scanline);
  if (is_whole)
    library.jpeg_finish_decompress(jpeg);
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

dp_status *dp_jpeg_decode(dp_view data, const dp_jpeg_options *options,
                          dp_image_allocate_fn allocate, void *arg) {
  DP_RETURN_IF_ERROR(need_library());
  reader *reader = DP_NEW(struct reader);
  reader->jpeg.err = init_errors(&reader->errors);
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
  library.jpeg_destroy((j_common_ptr)&reader->jpeg);
  dp_free(reader->line);
  dp_free(reader);
  return status;
}

static dp_status *read_size(reader *reader, dp_view data, dp_image_size *size_out) {
  if (setjmp(reader->errors.jump))
    return DP_INVALID("%s", reader->errors.message);
  reader_open(reader, data, false);
  library.jpeg_start_decompress(&reader->jpeg);
  *size_out = (dp_image_size){reader->jpeg.output_width, reader->jpeg.output_height,
                              reader->jpeg.output_components, 1};
  return NULL;
}

dp_status *dp_jpeg_size(dp_view data, dp_image_size *size_out) {
  DP_RETURN_IF_ERROR(need_library());
  reader *reader = DP_NEW(struct reader);
  reader->jpeg.err = init_errors(&reader->errors);
  dp_status *status = read_size(reader, data, size_out);
  library.jpeg_destroy((j_common_ptr)&reader->jpeg);
  dp_free(reader);
  return status;
}

/* ---- Writing ---- */
typedef struct writer {
  struct jpeg_compress_struct jpeg;
  errors errors;
  unsigned char *bytes; /* by libjpeg, malloc'd */
  unsigned long length;
} writer;

static void write_metadata(writer *writer, dp_view metadata) {
  static const char head[] = "http://ns.adobe.com/xap/1.0/";
  char *packet = dp_malloc(sizeof head + metadata.length);
  memcpy(packet, head, sizeof head);
  memcpy(packet + sizeof head, metadata.data, metadata.length);
  library.jpeg_write_marker(&writer->jpeg, JPEG_APP0 + 1, (const JOCTET *)packet,
                            (unsigned)(sizeof head + metadata.length));
  dp_free(packet);
}

static dp_status *write_image(writer *writer, const uint8_t *pixels, int64_t width, int64_t height,
                              int channels, const dp_jpeg_write_options *options) {
  struct jpeg_compress_struct *jpeg = &writer->jpeg;
  if (setjmp(writer->errors.jump))
    return dp_status_create(DP_INTERNAL, "%s", writer->errors.message);
  library.jpeg_CreateCompress(jpeg, JPEG_LIB_VERSION, sizeof(struct jpeg_compress_struct));
  library.jpeg_mem_dest(jpeg, &writer->bytes, &writer->length);
  jpeg->image_width = (JDIMENSION)width;
  jpeg->image_height = (JDIMENSION)height;
  jpeg->input_components = channels;
  jpeg->in_color_space = channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
  library.jpeg_set_defaults(jpeg);
  jpeg->optimize_coding = options->optimize_size;
  jpeg->density_unit = (UINT8)options->density_unit;
  jpeg->X_density = (UINT16)options->x_density;
  jpeg->Y_density = (UINT16)options->y_density;
  library.jpeg_set_quality(jpeg, options->quality, TRUE);
  if (options->progressive)
    library.jpeg_simple_progression(jpeg);
  for (int i = 0; !options->downsample_chroma && i < jpeg->num_components; ++i)
    jpeg->comp_info[i].h_samp_factor = jpeg->comp_info[i].v_samp_factor = 1;
  library.jpeg_start_compress(jpeg, TRUE);
  if (options->metadata.length > 0 && options->metadata.length < 65000)
    write_metadata(writer, options->metadata);
  while (jpeg->next_scanline < jpeg->image_height) {
    JSAMPROW row = (JSAMPROW)pixels + (size_t)jpeg->next_scanline * (size_t)(width * channels);
    library.jpeg_write_scanlines(jpeg, &row, 1);
  }
  library.jpeg_finish_compress(jpeg);
  return NULL;
}

dp_status *dp_jpeg_encode(const uint8_t *pixels, int64_t width, int64_t height, int channels,
                          const dp_jpeg_write_options *options, dp_text *out) {
  DP_RETURN_IF_ERROR(need_library());
  if (width <= 0 || height <= 0 || width >= MAX_PIXELS / height)
    return dp_status_create(DP_INTERNAL, "a size that cannot be written");
  writer *writer = DP_NEW(struct writer);
  writer->jpeg.err = init_errors(&writer->errors);
  dp_status *status = write_image(writer, pixels, width, height, channels, options);
  library.jpeg_destroy((j_common_ptr)&writer->jpeg);
  if (!status)
    dp_text_append(out, writer->bytes, writer->length);
  free(writer->bytes);
  dp_free(writer);
  return status;
}
