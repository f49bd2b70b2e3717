/* PNG files for the fuzzer and the unit tests of the PNG reader: repaired, and read in both ways.
 * The reader has a quick way (libdeflate), which needs the checksum at the end of the zlib stream,
 * and a slow way (zlib), which never reads that far. A file without the checksum is read the slow
 * way. */
#ifndef DP_FUZZ_PNG_FILES_H
#define DP_FUZZ_PNG_FILES_H

#include <stdlib.h>
#include <string.h>
#include <zlib.h>
#include "base/memory.h"
#include "kernels/codecs/codec.h"

#define PNG_HEAD 8         /* bytes before the first chunk */
#define PNG_CHUNK 12       /* bytes of a chunk without its data */
#define PNG_MOST (1 << 20) /* pixels that are decoded here */

static inline uint32_t png_get32(const char *at) {
  uint32_t value;
  memcpy(&value, at, sizeof value);
  return __builtin_bswap32(value);
}

static inline uint32_t png_checksum(const char *name, size_t length) {
  return __builtin_bswap32((uint32_t)crc32(0, (const Bytef *)name, (uInt)length));
}

static inline void png_add_chunk(dp_text *file, const char *name, const void *data, size_t length) {
  uint32_t size = __builtin_bswap32((uint32_t)length);
  dp_text_append(file, &size, 4);
  dp_text_append(file, name, 4);
  dp_text_append(file, data, length);
  uint32_t checksum = png_checksum(file->data + file->length - length - 4, length + 4);
  dp_text_append(file, &checksum, 4);
}

/* The whole chunk at `at`; empty if the file ends before the chunk does. */
static inline dp_view png_chunk_at(dp_view file, size_t at) {
  if (at > file.length || file.length - at < PNG_CHUNK)
    return (dp_view){0};
  size_t length = png_get32(file.data + at);
  if (length > file.length - at - PNG_CHUNK)
    return (dp_view){0};
  return (dp_view){file.data + at, length + PNG_CHUNK};
}

/* Corrects the checksums of all chunks in place. */
static inline void png_repair(char *data, size_t length) {
  dp_view file = {data, length};
  size_t at = PNG_HEAD;
  for (dp_view chunk; (chunk = png_chunk_at(file, at)).length > 0; at += chunk.length) {
    uint32_t checksum = png_checksum(chunk.data + 4, chunk.length - 8);
    memcpy(data + at + chunk.length - 4, &checksum, 4);
  }
}

/* The length of a zlib stream without its checksum; 0: it is incomplete or damaged. */
static inline size_t png_stream_length(const dp_text *stream) {
  uLongf unpacked = stream->length * 1032 + 64; /* zlib's best ratio */
  uLong length = stream->length;
  Bytef *memory = dp_malloc(unpacked);
  int result = uncompress2(memory, &unpacked, (const Bytef *)stream->data, &length);
  dp_free(memory);
  return result == Z_OK ? length - 4 : 0;
}

/* The same file without the checksum of its stream; false: the stream is incomplete. */
static inline bool png_without_checksum(dp_view file, dp_text *out) {
  dp_text stream = {0};
  size_t at = PNG_HEAD;
  dp_text_append(out, file.data, PNG_HEAD);
  for (dp_view chunk; (chunk = png_chunk_at(file, at)).length > 0; at += chunk.length) {
    if (memcmp(chunk.data + 4, "IDAT", 4) == 0)
      dp_text_append(&stream, chunk.data + 8, chunk.length - PNG_CHUNK);
    else if (stream.length > 0)
      break;
    else
      dp_text_append(out, chunk.data, chunk.length);
  }
  size_t length = png_stream_length(&stream);
  png_add_chunk(out, "IDAT", stream.data, length);
  dp_text_deinit(&stream);
  return length > 0;
}

/* The pixels, or NULL; the caller frees them. */
static inline void *png_read(dp_view file, int channels, int bits, dp_image_size *size_out) {
  dp_status *status = dp_png_size(file, channels, size_out);
  void *pixels = NULL;
  if (!status && size_out->width <= PNG_MOST && size_out->height <= PNG_MOST &&
      size_out->width * size_out->height <= PNG_MOST) {
    pixels = dp_malloc((size_t)(size_out->width * size_out->height * size_out->channels) *
                       (size_t)bits / 8);
    status = dp_png_decode(file, channels, bits, pixels);
  }
  if (status) {
    dp_free(pixels);
    pixels = NULL;
  }
  dp_status_release(status);
  return pixels;
}

typedef enum png_verdict { PNG_REFUSED, PNG_GOOD, PNG_DIFFERENT } png_verdict;

/* Whether both ways of reading give the same pixels. A file whose stream is incomplete is read the
 * slow way only, so there is nothing to compare. */
static inline png_verdict png_compare_ways(dp_view file, int channels, int bits) {
  dp_image_size size, other_size;
  void *pixels = png_read(file, channels, bits, &size);
  if (!pixels)
    return PNG_REFUSED;
  dp_text other = {0};
  size_t bytes = (size_t)(size.width * size.height * size.channels) * (size_t)bits / 8;
  bool is_whole = png_without_checksum(file, &other);
  void *same = png_read((dp_view){other.data, other.length}, channels, bits, &other_size);
  bool is_same = !is_whole || (same && memcmp(pixels, same, bytes) == 0);
  dp_text_deinit(&other);
  dp_free(pixels);
  dp_free(same);
  return is_same ? PNG_GOOD : PNG_DIFFERENT;
}

#endif
