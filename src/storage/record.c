/* TFRecord files (record.h). The reader takes bytes from an input stream, which unpacks them. The
 * writer appends to a file of the caller's: as they are, through zlib, or in blocks of Snappy. A
 * length in a file is not trusted: memory for a large record grows as its bytes come. */
#include "storage/record.h"

#include <string.h>
#include <zlib.h>
#include "base/checksum.h"
#include "storage/snappy.h"
#include "storage/table_internal.h"

#define HEAD_SIZE 12
#define FOOT_SIZE 4
#define SMALL_SIZE ((size_t)16 << 20)
#define WRITE_BUFFER ((size_t)64 << 10)
/* The size of Snappy blocks before packing: the largest that TensorFlow's readers accept. */
#define BLOCK_SIZE ((size_t)256 << 10)

bool dp_record_compression_parse(dp_view text, dp_compression *compression_out) {
  if (!dp_view_equals(text, "SNAPPY"))
    return dp_compression_parse(text, compression_out);
  *compression_out = DP_COMPRESSION_SNAPPY;
  return true;
}

/* ---- Reading ---- */
struct dp_record_reader {
  dp_input_stream *stream;
};

dp_status *dp_record_reader_open(const char *path, dp_compression compression, size_t buffer_size,
                                 dp_record_reader **reader_out) {
  dp_input_stream *stream;
  DP_RETURN_IF_ERROR(dp_input_stream_open(path, compression, buffer_size, &stream));
  dp_record_reader *reader = DP_NEW(dp_record_reader);
  reader->stream = stream;
  *reader_out = reader;
  return NULL;
}

void dp_record_reader_close(dp_record_reader *reader) {
  if (!reader)
    return;
  dp_input_stream_close(reader->stream);
  dp_free(reader);
}

static dp_status *truncated(uint64_t at) {
  return dp_status_create(DP_DATA_LOSS, "truncated record at %llu", (unsigned long long)at);
}

static dp_status *corrupted(uint64_t at) {
  return dp_status_create(DP_DATA_LOSS, "corrupted record at %llu%s", (unsigned long long)at,
                          at ? "" : " (Is this even a TFRecord file?)");
}

/* Reads a small record straight into the string, a large one through memory that grows as the bytes
 * come. */
static dp_status *read_body(dp_record_reader *reader, uint64_t length, uint64_t at,
                            dp_tstring *record) {
  size_t done;
  if (length <= SMALL_SIZE) {
    char *data;
    DP_RETURN_IF_ERROR(dp_tstring_resize(record, (size_t)length, &data));
    DP_RETURN_IF_ERROR(dp_input_stream_read(reader->stream, data, (size_t)length, &done));
    return done < length ? truncated(at) : NULL;
  }
  void *whole;
  DP_RETURN_IF_ERROR(dp_input_stream_read_new(reader->stream, length, &whole, &done));
  dp_status *status = done < length ? truncated(at) : dp_tstring_assign(record, whole, done);
  dp_free(whole);
  return status;
}

dp_status *dp_record_reader_next(dp_record_reader *reader, dp_tstring *record, bool *more_out) {
  uint64_t at = dp_input_stream_position(reader->stream);
  uint8_t head[HEAD_SIZE], foot[FOOT_SIZE];
  size_t count;
  DP_RETURN_IF_ERROR(dp_input_stream_read(reader->stream, head, HEAD_SIZE, &count));
  if (count < HEAD_SIZE) { /* an incomplete head: another process may still be writing */
    *more_out = false;
    return NULL;
  }
  if (dp_crc32c_unmask(dp_get_fixed32(head + 8)) != dp_crc32c(head, 8))
    return corrupted(at);
  uint64_t length = dp_get_fixed64(head);
  if (length >= SIZE_MAX - HEAD_SIZE - FOOT_SIZE)
    return dp_status_create(DP_DATA_LOSS, "record size too large");
  DP_RETURN_IF_ERROR(read_body(reader, length, at, record));
  DP_RETURN_IF_ERROR(dp_input_stream_read(reader->stream, foot, FOOT_SIZE, &count));
  if (count < FOOT_SIZE)
    return truncated(length == 0 && count == 0 ? at : at + HEAD_SIZE);
  if (dp_crc32c_unmask(dp_get_fixed32(foot)) !=
      dp_crc32c(dp_tstring_data(record), dp_tstring_size(record)))
    return corrupted(at + HEAD_SIZE);
  *more_out = true;
  return NULL;
}

dp_status *dp_record_reader_skip(dp_record_reader *reader, uint64_t count) {
  uint64_t skipped;
  return dp_input_stream_skip(reader->stream, count, &skipped);
}

uint64_t dp_record_reader_position(const dp_record_reader *reader) {
  return dp_input_stream_position(reader->stream);
}

/* ---- Writing ---- */
struct dp_record_writer {
  dp_file *file;
  dp_compression compression;
  z_stream deflater;
  uint8_t *buffer;
  size_t filled;   /* bytes in the buffer, without zlib */
  uint8_t *packed; /* for Snappy: a packed block with its head */
};

static bool is_deflated(const dp_record_writer *writer) {
  return writer->compression == DP_COMPRESSION_ZLIB || writer->compression == DP_COMPRESSION_GZIP;
}

dp_status *dp_record_writer_create(dp_file *file, dp_compression compression,
                                   dp_record_writer **writer_out) {
  dp_record_writer *writer = DP_NEW(dp_record_writer);
  writer->file = file;
  writer->compression = compression;
  bool is_snappy = compression == DP_COMPRESSION_SNAPPY;
  writer->buffer = dp_malloc(is_snappy ? BLOCK_SIZE : WRITE_BUFFER);
  writer->packed = is_snappy ? dp_malloc(4 + dp_snappy_most(BLOCK_SIZE)) : NULL;
  int bits = compression == DP_COMPRESSION_GZIP ? MAX_WBITS + 16 : MAX_WBITS;
  if (is_deflated(writer) && deflateInit2(&writer->deflater, Z_DEFAULT_COMPRESSION, Z_DEFLATED,
                                          bits, 9, Z_DEFAULT_STRATEGY) != Z_OK) {
    dp_free(writer->buffer);
    dp_free(writer);
    return dp_status_out_of_memory();
  }
  *writer_out = writer;
  return NULL;
}

/* Compresses and writes; `mode` is zlib's. */
static dp_status *deflate_bytes(dp_record_writer *writer, const void *data, size_t length,
                                int mode) {
  z_stream *deflater = &writer->deflater;
  const uint8_t *at = data;
  do {
    size_t part = length > (1u << 30) ? 1u << 30 : length;
    deflater->next_in = (Bytef *)at;
    deflater->avail_in = (uInt)part;
    at += part;
    length -= part;
    do {
      deflater->next_out = writer->buffer;
      deflater->avail_out = WRITE_BUFFER;
      deflate(deflater, length > 0 ? Z_NO_FLUSH : mode);
      DP_RETURN_IF_ERROR(
          dp_file_append(writer->file, writer->buffer, WRITE_BUFFER - deflater->avail_out));
    } while (deflater->avail_out == 0);
  } while (length > 0);
  return NULL;
}

/* Packs the buffer as one Snappy block and writes it. */
static dp_status *write_block(dp_record_writer *writer) {
  size_t length = dp_snappy_pack(writer->buffer, writer->filled, writer->packed + 4);
  for (int i = 0; i < 4; ++i)
    writer->packed[i] = (uint8_t)(length >> (8 * (3 - i)));
  writer->filled = 0;
  return dp_file_append(writer->file, writer->packed, length + 4);
}

static dp_status *write_blocks(dp_record_writer *writer, const void *data, size_t length) {
  for (const uint8_t *at = data; length > 0;) {
    size_t space = BLOCK_SIZE - writer->filled, count = length < space ? length : space;
    memcpy(writer->buffer + writer->filled, at, count);
    writer->filled += count;
    at += count;
    length -= count;
    if (writer->filled == BLOCK_SIZE)
      DP_RETURN_IF_ERROR(write_block(writer));
  }
  return NULL;
}

static dp_status *write_bytes(dp_record_writer *writer, const void *data, size_t length) {
  if (is_deflated(writer))
    return deflate_bytes(writer, data, length, Z_NO_FLUSH);
  if (writer->packed)
    return write_blocks(writer, data, length);
  if (length > WRITE_BUFFER - writer->filled)
    DP_RETURN_IF_ERROR(dp_record_writer_flush(writer));
  if (length > WRITE_BUFFER)
    return dp_file_append(writer->file, data, length);
  memcpy(writer->buffer + writer->filled, data, length);
  writer->filled += length;
  return NULL;
}

dp_status *dp_record_writer_add(dp_record_writer *writer, const void *data, size_t length) {
  uint8_t head[HEAD_SIZE], foot[FOOT_SIZE];
  dp_put_fixed64(head, length);
  dp_put_fixed32(head + 8, dp_crc32c_mask(dp_crc32c(head, 8)));
  dp_put_fixed32(foot, dp_crc32c_mask(dp_crc32c(data, length)));
  DP_RETURN_IF_ERROR(write_bytes(writer, head, HEAD_SIZE));
  if (length > 0)
    DP_RETURN_IF_ERROR(write_bytes(writer, data, length));
  return write_bytes(writer, foot, FOOT_SIZE);
}

dp_status *dp_record_writer_flush(dp_record_writer *writer) {
  if (is_deflated(writer))
    return deflate_bytes(writer, "", 0, Z_SYNC_FLUSH);
  if (writer->filled == 0)
    return NULL;
  if (writer->packed)
    return write_block(writer);
  size_t count = writer->filled;
  writer->filled = 0;
  return dp_file_append(writer->file, writer->buffer, count);
}

dp_status *dp_record_writer_finish(dp_record_writer *writer) {
  dp_status *status;
  if (is_deflated(writer)) {
    status = deflate_bytes(writer, "", 0, Z_FINISH);
    deflateEnd(&writer->deflater);
  } else {
    status = dp_record_writer_flush(writer);
  }
  dp_free(writer->buffer);
  dp_free(writer->packed);
  dp_free(writer);
  return status;
}
