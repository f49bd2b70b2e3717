/* JPEG files by libjpeg (the turbo one that distributions have), but those that codec_jpeg_small.c
 * reads. The library is opened when the first image comes: a server that never sees one does not
 * pay for it. Its errors leave through longjmp, so each entry keeps what it must free in one struct
 * that outlives the jump. */
#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* after stdio.h */
#include <jpeglib.h>
#include <jerror.h>
#include "base/arena.h"
#include "base/memory.h"
#include "kernels/codec_internal.h"

#define MAX_PIXELS ((int64_t)1 << 29)
#define ROWS_AT_ONCE 16 /* the library works on as many */

/* ---- The library ---- */
/* clang-format off */
#define JPEG_FUNCTIONS(X) \
  X(jpeg_std_error) X(jpeg_CreateDecompress) X(jpeg_read_header) X(jpeg_calc_output_dimensions) \
  X(jpeg_start_decompress) X(jpeg_read_scanlines) X(jpeg_finish_decompress) X(jpeg_destroy) \
  X(jpeg_crop_scanline) X(jpeg_skip_scanlines) X(jpeg_resync_to_restart) X(jpeg_abort) \
  X(jpeg_CreateCompress) X(jpeg_set_defaults) X(jpeg_set_quality) X(jpeg_simple_progression) \
  X(jpeg_start_compress) X(jpeg_write_marker) X(jpeg_write_scanlines) X(jpeg_finish_compress)
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

/* ---- Memory for one image ----
 * The library would take a dozen pieces from the system for each image and give them back; here
 * they come from an arena that is kept. What it needs for a whole image at once (progressive ones)
 * it still takes itself. */
typedef struct memory {
  struct jpeg_memory_mgr own; /* the library's functions */
  dp_arena *arena;
  bool keeps_nothing; /* what is to stay for the next image goes with this one too */
} memory;
/* For its vector code, which also reads and writes whole vectors. */
#define ALIGNMENT ((size_t)64)
#define MOST_RESTING_BYTES ((size_t)1 << 20)

static void *from_arena(memory *memory, size_t size) {
  size_t at = (size_t)dp_arena_allocate(memory->arena, size + ALIGNMENT);
  return (void *)((at + ALIGNMENT - 1) & ~(ALIGNMENT - 1));
}

static void *allocate_piece(j_common_ptr common, int pool, size_t size) {
  memory *memory = common->client_data;
  if (pool == JPOOL_PERMANENT && !memory->keeps_nothing)
    return memory->own.alloc_small(common, pool, size);
  return from_arena(memory, size);
}

/* `rows` of `bytes` each behind an array of pointers to them. */
static void *allocate_rows(memory *memory, size_t bytes, JDIMENSION rows) {
  void **array = from_arena(memory, rows * sizeof *array);
  char *data = from_arena(memory, rows * bytes);
  for (JDIMENSION i = 0; i < rows; ++i)
    array[i] = data + i * bytes;
  return array;
}

static JSAMPARRAY allocate_samples(j_common_ptr common, int pool, JDIMENSION width,
                                   JDIMENSION rows) {
  size_t bytes = ((size_t)width * sizeof(JSAMPLE) + ALIGNMENT - 1) & ~(ALIGNMENT - 1);
  return allocate_rows(common->client_data, bytes, rows);
}

static JBLOCKARRAY allocate_blocks(j_common_ptr common, int pool, JDIMENSION width,
                                   JDIMENSION rows) {
  return allocate_rows(common->client_data, width * sizeof(JBLOCK), rows);
}

static void free_pieces(j_common_ptr common, int pool) {
  memory *memory = common->client_data;
  memory->own.free_pool(common, pool);
  if (pool == JPOOL_IMAGE)
    dp_arena_reset(memory->arena);
}

static void memory_start(memory *memory, j_common_ptr common) {
  memory->own = *common->mem;
  memory->arena = dp_arena_create();
  common->client_data = memory;
  common->mem->alloc_small = allocate_piece;
  common->mem->alloc_large = allocate_piece;
  common->mem->alloc_sarray = allocate_samples;
  common->mem->alloc_barray = allocate_blocks;
  common->mem->free_pool = free_pieces;
}

/* ---- The source: a piece of memory ---- */
typedef struct source {
  struct jpeg_source_mgr manager;
  dp_view data;
  bool recover;
  const JOCTET *again; /* what was given once more, and how many bytes of it in all */
  size_t bytes_again;
} source;
#define MOST_BYTES_AGAIN ((size_t)1 << 16) /* a segment is no longer */
static const JOCTET end_marker[2] = {0xff, JPEG_EOI};

static void source_start(j_decompress_ptr jpeg) {
  source *source = (struct source *)jpeg->src;
  source->manager.next_input_byte = (const JOCTET *)source->data.data;
  source->manager.bytes_in_buffer = source->data.length;
  source->again = NULL;
}

/* The library has read on to the end, where something is missing, but holds on to the bytes since
 * its last stop. They are given once more, as TensorFlow does, but not for ever. */
static boolean source_again(j_decompress_ptr jpeg, source *source) {
  if (source->again != source->manager.next_input_byte)
    source->bytes_again = 0;
  source->again = source->manager.next_input_byte;
  if (source->bytes_again > MOST_BYTES_AGAIN)
    ERREXIT(jpeg, JERR_FILE_READ);
  source->bytes_again += source->manager.bytes_in_buffer;
  return source->recover;
}

/* The end came too early: when truncated files are to be saved, pretends that it is a good one. */
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
  errors errors;
  source source;
  memory memory;
  bool is_finished; /* and may be used again */
  JSAMPLE *line;    /* scratch for one line */
  uint8_t *pixels;
  size_t stride;
  JDIMENSION width, height; /* of the result */
  JDIMENSION lines_read;
  int channels;
} reader;

static dp_coder_rest resting_readers;

/* They were in the arena. The next image may be a damaged one without. */
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
  reader->jpeg.err = init_errors(&reader->errors);
  return reader;
}

static void reader_give(reader *reader) {
  dp_free(reader->line);
  reader->line = NULL;
  reader->lines_read = 0;
  if (reader->is_finished) {
    reader->is_finished = false;
    forget_tables(&reader->jpeg);
    if (dp_arena_bytes(reader->memory.arena) <= MOST_RESTING_BYTES &&
        dp_coder_give(&resting_readers, reader))
      return;
  }
  library.jpeg_destroy((j_common_ptr)&reader->jpeg);
  dp_arena_destroy(reader->memory.arena);
  dp_free(reader);
}

static void reader_open(reader *reader, dp_view data, bool recover) {
  if (!reader->memory.arena) {
    library.jpeg_CreateDecompress(&reader->jpeg, JPEG_LIB_VERSION,
                                  sizeof(struct jpeg_decompress_struct));
    reader->memory.keeps_nothing = true;
    memory_start(&reader->memory, (j_common_ptr)&reader->jpeg);
  }
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
  bool is_direct = file_channels == reader->channels && skipped == 0;
  while (reader->lines_read < reader->height) {
    uint8_t *to = reader->pixels + reader->lines_read * reader->stride;
    JSAMPROW rows[ROWS_AT_ONCE] = {reader->line};
    JDIMENSION count = reader->height - reader->lines_read;
    count = !is_direct ? 1 : count < ROWS_AT_ONCE ? count : ROWS_AT_ONCE;
    for (JDIMENSION i = 0; is_direct && i < count; ++i)
      rows[i] = to + i * reader->stride;
    JDIMENSION made = library.jpeg_read_scanlines(jpeg, rows, count);
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
    library.jpeg_skip_scanlines(jpeg, jpeg->output_height - jpeg->output_scanline);
  if (is_whole)
    reader->is_finished = library.jpeg_finish_decompress(jpeg);
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
  DP_RETURN_IF_ERROR(need_library());
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
  library.jpeg_start_decompress(&reader->jpeg);
  *size_out = (dp_image_size){reader->jpeg.output_width, reader->jpeg.output_height,
                              reader->jpeg.output_components, 1};
  return NULL;
}

dp_status *dp_jpeg_size(dp_view data, dp_image_size *size_out) {
  DP_RETURN_IF_ERROR(need_library());
  reader *reader = reader_take();
  dp_status *status = read_size(reader, data, size_out);
  reader_give(reader);
  return status;
}

/* ---- Writing ---- */
typedef struct settings {
  int channels, quality;
  bool progressive, optimize_size, downsample_chroma;
} settings;

typedef struct writer {
  struct jpeg_compress_struct jpeg;
  errors errors;
  memory memory;
  struct jpeg_destination_mgr destination;
  DP_ARRAY(JOCTET) bytes;
  bool is_set; /* for `settings`, and has written an image with them */
  settings settings;
  /* The library writes tables byte by byte. What it wrote for the first image with these settings
   * is put between the parts of the later ones. */
  dp_text quantization, coding;
  size_t head; /* bytes of this image before its frame: where the first tables go */
} writer;

static dp_coder_rest resting_writers;

/* ---- The destination: memory of the writer ---- */
#define FIRST_BYTES ((size_t)4096)

static void destination_start(j_compress_ptr jpeg) {
  writer *writer = (struct writer *)jpeg;
  DP_ARRAY_RESERVE(&writer->bytes, FIRST_BYTES);
  writer->destination.next_output_byte = writer->bytes.items;
  writer->destination.free_in_buffer = writer->bytes.capacity;
}

/* The whole memory is full, whatever `free_in_buffer` says. */
static boolean destination_grow(j_compress_ptr jpeg) {
  writer *writer = (struct writer *)jpeg;
  size_t used = writer->bytes.capacity;
  DP_ARRAY_RESERVE(&writer->bytes, 2 * used);
  writer->destination.next_output_byte = writer->bytes.items + used;
  writer->destination.free_in_buffer = writer->bytes.capacity - used;
  return TRUE;
}

static void destination_end(j_compress_ptr jpeg) {
  writer *writer = (struct writer *)jpeg;
  writer->bytes.count = writer->bytes.capacity - writer->destination.free_in_buffer;
}

/* ---- Life ---- */
static writer *writer_take(void) {
  writer *writer = dp_coder_take(&resting_writers);
  if (writer)
    return writer;
  writer = DP_NEW(struct writer);
  writer->jpeg.err = init_errors(&writer->errors);
  return writer;
}

/* Only one that has written an image may be used again, and not with tables of that image's own. */
static void writer_give(writer *writer) {
  if (writer->is_set && !writer->settings.progressive && !writer->settings.optimize_size &&
      writer->bytes.capacity + dp_arena_bytes(writer->memory.arena) <= MOST_RESTING_BYTES &&
      dp_coder_give(&resting_writers, writer))
    return;
  library.jpeg_destroy((j_common_ptr)&writer->jpeg);
  dp_arena_destroy(writer->memory.arena);
  DP_ARRAY_FREE(&writer->bytes);
  dp_text_deinit(&writer->quantization);
  dp_text_deinit(&writer->coding);
  dp_free(writer);
}

/* ---- Tables ---- */
enum { FRAME = 0xc0, CODING = 0xc4, QUANTIZATION = 0xdb };

/* The place behind all segments of that kind at `at`. */
static size_t pass_segments(const writer *writer, uint8_t kind, size_t at) {
  const JOCTET *bytes = writer->bytes.items;
  while (at + 4 <= writer->bytes.count && bytes[at] == 0xff && bytes[at + 1] == kind)
    at += 2 + ((size_t)bytes[at + 2] << 8 | bytes[at + 3]);
  return at;
}

static void remember_tables(writer *writer) {
  const JOCTET *bytes = writer->bytes.items;
  size_t frame = pass_segments(writer, QUANTIZATION, writer->head);
  size_t coding = pass_segments(writer, FRAME, frame);
  size_t scan = pass_segments(writer, CODING, coding);
  dp_text_clear(&writer->quantization);
  dp_text_clear(&writer->coding);
  if (frame == coding || scan > writer->bytes.count)
    return;
  dp_text_append(&writer->quantization, bytes + writer->head, frame - writer->head);
  dp_text_append(&writer->coding, bytes + coding, scan - coding);
}

static void insert(writer *writer, size_t at, const dp_text *segments) {
  size_t length = segments->length;
  DP_ARRAY_RESERVE(&writer->bytes, writer->bytes.count + length);
  JOCTET *place = writer->bytes.items + at;
  memmove(place + length, place, writer->bytes.count - at);
  memcpy(place, segments->data, length);
  writer->bytes.count += length;
}

/* The tables that the library left out. */
static void insert_tables(writer *writer) {
  insert(writer, pass_segments(writer, FRAME, writer->head), &writer->coding);
  insert(writer, writer->head, &writer->quantization);
}

/* ---- Images ---- */
static void write_metadata(writer *writer, dp_view metadata) {
  static const char head[] = "http://ns.adobe.com/xap/1.0/";
  char *packet = dp_malloc(sizeof head + metadata.length);
  memcpy(packet, head, sizeof head);
  memcpy(packet + sizeof head, metadata.data, metadata.length);
  library.jpeg_write_marker(&writer->jpeg, JPEG_APP0 + 1, (const JOCTET *)packet,
                            (unsigned)(sizeof head + metadata.length));
  dp_free(packet);
}

static bool has_settings(const writer *writer, const settings *wanted) {
  const settings *own = &writer->settings;
  return writer->is_set && own->channels == wanted->channels && own->quality == wanted->quality &&
         own->progressive == wanted->progressive && own->optimize_size == wanted->optimize_size &&
         own->downsample_chroma == wanted->downsample_chroma;
}

static void apply_settings(writer *writer, const settings *wanted) {
  struct jpeg_compress_struct *jpeg = &writer->jpeg;
  if (!jpeg->mem) {
    library.jpeg_CreateCompress(jpeg, JPEG_LIB_VERSION, sizeof(struct jpeg_compress_struct));
    writer->destination = (struct jpeg_destination_mgr){.init_destination = destination_start,
                                                        .empty_output_buffer = destination_grow,
                                                        .term_destination = destination_end};
    jpeg->dest = &writer->destination;
    memory_start(&writer->memory, (j_common_ptr)jpeg);
  }
  jpeg->input_components = wanted->channels;
  jpeg->in_color_space = wanted->channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
  library.jpeg_set_defaults(jpeg);
  jpeg->optimize_coding = wanted->optimize_size;
  library.jpeg_set_quality(jpeg, wanted->quality, TRUE);
  if (wanted->progressive)
    library.jpeg_simple_progression(jpeg);
  for (int i = 0; !wanted->downsample_chroma && i < jpeg->num_components; ++i)
    jpeg->comp_info[i].h_samp_factor = jpeg->comp_info[i].v_samp_factor = 1;
  writer->settings = *wanted;
}

static void write_lines(writer *writer, const uint8_t *pixels) {
  struct jpeg_compress_struct *jpeg = &writer->jpeg;
  size_t stride = (size_t)jpeg->image_width * (size_t)jpeg->input_components;
  while (jpeg->next_scanline < jpeg->image_height) {
    JSAMPROW rows[ROWS_AT_ONCE];
    JDIMENSION left = jpeg->image_height - jpeg->next_scanline;
    JDIMENSION count = left < ROWS_AT_ONCE ? left : ROWS_AT_ONCE;
    for (JDIMENSION i = 0; i < count; ++i)
      rows[i] = (JSAMPROW)pixels + (jpeg->next_scanline + i) * stride;
    library.jpeg_write_scanlines(jpeg, rows, count);
  }
}

static dp_status *write_image(writer *writer, const uint8_t *pixels, int64_t width, int64_t height,
                              int channels, const dp_jpeg_write_options *options) {
  struct jpeg_compress_struct *jpeg = &writer->jpeg;
  settings wanted = {channels, options->quality, options->progressive, options->optimize_size,
                     options->downsample_chroma};
  if (setjmp(writer->errors.jump)) {
    writer->is_set = false;
    return dp_status_create(DP_INTERNAL, "%s", writer->errors.message);
  }
  bool is_first = !has_settings(writer, &wanted);
  if (is_first)
    apply_settings(writer, &wanted);
  bool writes_tables = is_first || writer->coding.length == 0;
  jpeg->image_width = (JDIMENSION)width;
  jpeg->image_height = (JDIMENSION)height;
  jpeg->density_unit = (UINT8)options->density_unit;
  jpeg->X_density = (UINT16)options->x_density;
  jpeg->Y_density = (UINT16)options->y_density;
  library.jpeg_start_compress(jpeg, writes_tables);
  if (options->metadata.length > 0 && options->metadata.length < 65000)
    write_metadata(writer, options->metadata);
  writer->head = (size_t)(writer->destination.next_output_byte - writer->bytes.items);
  write_lines(writer, pixels);
  library.jpeg_finish_compress(jpeg);
  if (is_first)
    remember_tables(writer);
  if (!writes_tables)
    insert_tables(writer);
  writer->is_set = true;
  return NULL;
}

dp_status *dp_jpeg_encode(const uint8_t *pixels, int64_t width, int64_t height, int channels,
                          const dp_jpeg_write_options *options, dp_text *out) {
  DP_RETURN_IF_ERROR(need_library());
  if (width <= 0 || height <= 0 || width >= MAX_PIXELS / height)
    return dp_status_create(DP_INTERNAL, "a size that cannot be written");
  writer *writer = writer_take();
  dp_status *status = write_image(writer, pixels, width, height, channels, options);
  if (!status)
    dp_text_append(out, writer->bytes.items, writer->bytes.count);
  writer_give(writer);
  return status;
}
