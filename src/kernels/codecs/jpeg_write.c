/* Writes JPEG files with libjpeg. The library reports errors by longjmp, so the entry keeps
 * everything that must be freed in one struct that outlives the jump. That struct, the writer, is
 * kept for the next image with the tables of the last settings; any thread may take it. */
#include <string.h>
#include "base/memory.h"
#include "kernels/codecs/codec.h"
#include "kernels/codecs/jpeg_library_internal.h"

typedef struct settings {
  int channels, quality;
  bool progressive, optimize_size, downsample_chroma;
} settings;

typedef struct jpeg_writer {
  struct jpeg_compress_struct jpeg;
  dp_jpeg_errors errors;
  dp_jpeg_memory memory;
  struct jpeg_destination_mgr destination;
  DP_ARRAY(JOCTET) bytes;
  bool is_set; /* an image was written with `settings` */
  settings settings;
  /* The library writes tables byte by byte, which is slow. The tables of the first image with these
   * settings are kept, and inserted into later images. */
  dp_text quantization, coding;
  size_t head; /* bytes of this image before its frame: the quantization tables go there */
} jpeg_writer;

static dp_coder_rest resting_writers;

/* ---- The destination: memory of the writer ---- */
#define FIRST_BYTES ((size_t)4096)

static void destination_start(j_compress_ptr jpeg) {
  jpeg_writer *writer = (struct jpeg_writer *)jpeg;
  DP_ARRAY_RESERVE(&writer->bytes, FIRST_BYTES);
  writer->destination.next_output_byte = writer->bytes.items;
  writer->destination.free_in_buffer = writer->bytes.capacity;
}

/* Called when all memory is used; `free_in_buffer` is not up to date then. */
static boolean destination_grow(j_compress_ptr jpeg) {
  jpeg_writer *writer = (struct jpeg_writer *)jpeg;
  size_t used = writer->bytes.capacity;
  DP_ARRAY_RESERVE(&writer->bytes, 2 * used);
  writer->destination.next_output_byte = writer->bytes.items + used;
  writer->destination.free_in_buffer = writer->bytes.capacity - used;
  return TRUE;
}

static void destination_end(j_compress_ptr jpeg) {
  jpeg_writer *writer = (struct jpeg_writer *)jpeg;
  writer->bytes.count = writer->bytes.capacity - writer->destination.free_in_buffer;
}

/* ---- Life ---- */
static jpeg_writer *writer_take(void) {
  jpeg_writer *writer = dp_coder_take(&resting_writers);
  if (writer)
    return writer;
  writer = DP_NEW(struct jpeg_writer);
  writer->jpeg.err = dp_jpeg_init_errors(&writer->errors);
  return writer;
}

/* Keeps the writer only if it has written an image, with tables that do not depend on that
 * image. */
static void writer_give(jpeg_writer *writer) {
  if (writer->is_set && !writer->settings.progressive && !writer->settings.optimize_size &&
      writer->bytes.capacity + dp_arena_bytes(writer->memory.arena) <= DP_JPEG_MOST_RESTING_BYTES &&
      dp_coder_give(&resting_writers, writer))
    return;
  dp_jpeg_library.jpeg_destroy((j_common_ptr)&writer->jpeg);
  dp_arena_destroy(writer->memory.arena);
  DP_ARRAY_FREE(&writer->bytes);
  dp_text_deinit(&writer->quantization);
  dp_text_deinit(&writer->coding);
  dp_free(writer);
}

/* ---- Tables ---- */
enum { FRAME = 0xc0, CODING = 0xc4, QUANTIZATION = 0xdb };

/* The position after all segments of kind `kind` that start at `at`. */
static size_t pass_segments(const jpeg_writer *writer, uint8_t kind, size_t at) {
  const JOCTET *bytes = writer->bytes.items;
  while (at + 4 <= writer->bytes.count && bytes[at] == 0xff && bytes[at + 1] == kind)
    at += 2 + ((size_t)bytes[at + 2] << 8 | bytes[at + 3]);
  return at;
}

static void remember_tables(jpeg_writer *writer) {
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

static void insert(jpeg_writer *writer, size_t at, const dp_text *segments) {
  size_t length = segments->length;
  DP_ARRAY_RESERVE(&writer->bytes, writer->bytes.count + length);
  JOCTET *place = writer->bytes.items + at;
  memmove(place + length, place, writer->bytes.count - at);
  memcpy(place, segments->data, length);
  writer->bytes.count += length;
}

/* Inserts the tables, which the library left out. */
static void insert_tables(jpeg_writer *writer) {
  insert(writer, pass_segments(writer, FRAME, writer->head), &writer->coding);
  insert(writer, writer->head, &writer->quantization);
}

/* ---- Images ---- */
static void write_metadata(jpeg_writer *writer, dp_view metadata) {
  static const char head[] = "http://ns.adobe.com/xap/1.0/";
  char *packet = dp_malloc(sizeof head + metadata.length);
  memcpy(packet, head, sizeof head);
  memcpy(packet + sizeof head, metadata.data, metadata.length);
  dp_jpeg_library.jpeg_write_marker(&writer->jpeg, JPEG_APP0 + 1, (const JOCTET *)packet,
                                    (unsigned)(sizeof head + metadata.length));
  dp_free(packet);
}

static bool has_settings(const jpeg_writer *writer, const settings *wanted) {
  const settings *own = &writer->settings;
  return writer->is_set && own->channels == wanted->channels && own->quality == wanted->quality &&
         own->progressive == wanted->progressive && own->optimize_size == wanted->optimize_size &&
         own->downsample_chroma == wanted->downsample_chroma;
}

static void apply_settings(jpeg_writer *writer, const settings *wanted) {
  struct jpeg_compress_struct *jpeg = &writer->jpeg;
  if (!jpeg->mem) {
    dp_jpeg_library.jpeg_CreateCompress(jpeg, JPEG_LIB_VERSION,
                                        sizeof(struct jpeg_compress_struct));
    writer->destination = (struct jpeg_destination_mgr){.init_destination = destination_start,
                                                        .empty_output_buffer = destination_grow,
                                                        .term_destination = destination_end};
    jpeg->dest = &writer->destination;
    dp_jpeg_memory_start(&writer->memory, (j_common_ptr)jpeg);
  }
  jpeg->input_components = wanted->channels;
  jpeg->in_color_space = wanted->channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
  dp_jpeg_library.jpeg_set_defaults(jpeg);
  jpeg->optimize_coding = wanted->optimize_size;
  dp_jpeg_library.jpeg_set_quality(jpeg, wanted->quality, TRUE);
  if (wanted->progressive)
    dp_jpeg_library.jpeg_simple_progression(jpeg);
  for (int i = 0; !wanted->downsample_chroma && i < jpeg->num_components; ++i)
    jpeg->comp_info[i].h_samp_factor = jpeg->comp_info[i].v_samp_factor = 1;
  writer->settings = *wanted;
}

static void write_lines(jpeg_writer *writer, const uint8_t *pixels) {
  struct jpeg_compress_struct *jpeg = &writer->jpeg;
  size_t stride = (size_t)jpeg->image_width * (size_t)jpeg->input_components;
  while (jpeg->next_scanline < jpeg->image_height) {
    JSAMPROW rows[DP_JPEG_ROWS_AT_ONCE];
    JDIMENSION left = jpeg->image_height - jpeg->next_scanline;
    JDIMENSION count = left < DP_JPEG_ROWS_AT_ONCE ? left : DP_JPEG_ROWS_AT_ONCE;
    for (JDIMENSION i = 0; i < count; ++i)
      rows[i] = (JSAMPROW)pixels + (jpeg->next_scanline + i) * stride;
    dp_jpeg_library.jpeg_write_scanlines(jpeg, rows, count);
  }
}

static dp_status *write_image(jpeg_writer *writer, const uint8_t *pixels, int64_t width,
                              int64_t height, int channels, const dp_jpeg_write_options *options) {
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
  dp_jpeg_library.jpeg_start_compress(jpeg, writes_tables);
  if (options->metadata.length > 0 && options->metadata.length < 65000)
    write_metadata(writer, options->metadata);
  writer->head = (size_t)(writer->destination.next_output_byte - writer->bytes.items);
  write_lines(writer, pixels);
  dp_jpeg_library.jpeg_finish_compress(jpeg);
  if (is_first)
    remember_tables(writer);
  if (!writes_tables)
    insert_tables(writer);
  writer->is_set = true;
  return NULL;
}

dp_status *dp_jpeg_encode(const uint8_t *pixels, int64_t width, int64_t height, int channels,
                          const dp_jpeg_write_options *options, dp_text *out) {
  DP_RETURN_IF_ERROR(dp_jpeg_need_library());
  if (width <= 0 || height <= 0 || width >= DP_JPEG_MAX_PIXELS / height)
    return dp_status_create(DP_INTERNAL, "a size that cannot be written");
  jpeg_writer *writer = writer_take();
  dp_status *status = write_image(writer, pixels, width, height, channels, options);
  if (!status)
    dp_text_append(out, writer->bytes.items, writer->bytes.count);
  writer_give(writer);
  return status;
}
