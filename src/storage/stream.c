/* Input streams (stream.h). `buffer` holds unpacked bytes that have not been read yet; a compressed
 * stream has a second buffer, `packed`, for the bytes of the file. A stream owns its file and its
 * buffers and has one user at a time. */
#include "storage/stream.h"

#include <string.h>
#include <zlib.h>
#include "storage/snappy.h"

/* The first size of memory that grows (dp_input_stream_read_new). */
#define STEP_SIZE ((size_t)16 << 20)

struct dp_input_stream {
  dp_file *file;
  uint64_t file_offset;
  uint64_t position;
  uint8_t *buffer;
  size_t capacity, begin, end; /* the bytes [begin, end) of the buffer are unread */
  bool at_end;                 /* no bytes come after the buffer */
  dp_compression compression;
  z_stream inflater;
  uint8_t *packed;
  bool inflater_ended; /* a gzip member or the zlib stream is complete */
};

bool dp_compression_parse(dp_view text, dp_compression *compression_out) {
  static const char *const names[] = {"", "ZLIB", "GZIP"};
  for (int i = 0; i < 3; ++i) {
    if (dp_view_equals(text, names[i])) {
      *compression_out = (dp_compression)i;
      return true;
    }
  }
  return false;
}

static bool is_inflated(const dp_input_stream *stream) {
  return stream->compression == DP_COMPRESSION_ZLIB || stream->compression == DP_COMPRESSION_GZIP;
}

static int window_bits(dp_compression compression) {
  return compression == DP_COMPRESSION_GZIP ? MAX_WBITS + 16 : MAX_WBITS;
}

dp_status *dp_input_stream_open(const char *path, dp_compression compression, size_t buffer_size,
                                dp_input_stream **stream_out) {
  dp_file *file;
  DP_RETURN_IF_ERROR(dp_file_open(path, DP_FILE_READ, &file));
  dp_input_stream *stream = DP_NEW(dp_input_stream);
  stream->file = file;
  stream->compression = compression;
  stream->capacity = buffer_size < 64 ? 64 : buffer_size > (16u << 20) ? 16u << 20 : buffer_size;
  stream->buffer = dp_malloc(stream->capacity);
  if (is_inflated(stream)) {
    stream->packed = dp_malloc(stream->capacity);
    if (inflateInit2(&stream->inflater, window_bits(compression)) != Z_OK) {
      stream->compression = DP_COMPRESSION_NONE; /* nothing to end */
      dp_input_stream_close(stream);
      return dp_status_out_of_memory();
    }
  }
  *stream_out = stream;
  return NULL;
}

void dp_input_stream_close(dp_input_stream *stream) {
  if (!stream)
    return;
  if (is_inflated(stream))
    inflateEnd(&stream->inflater);
  dp_file_discard(stream->file);
  dp_free(stream->buffer);
  dp_free(stream->packed);
  dp_free(stream);
}

/* ---- Filling ---- */
static dp_status *read_file(dp_input_stream *stream, uint8_t *to, size_t *length_out) {
  DP_RETURN_IF_ERROR(
      dp_file_read(stream->file, stream->file_offset, to, stream->capacity, length_out));
  stream->file_offset += *length_out;
  return NULL;
}

/* Unpacks from the packed buffer, which is filled from the file when it is empty. */
static dp_status *inflate_some(dp_input_stream *stream, bool *ended_out) {
  z_stream *inflater = &stream->inflater;
  if (inflater->avail_in == 0) {
    size_t length;
    DP_RETURN_IF_ERROR(read_file(stream, stream->packed, &length));
    inflater->next_in = stream->packed;
    inflater->avail_in = (uInt)length;
    if (length == 0) {
      *ended_out = true;
      return NULL;
    }
  }
  if (stream->inflater_ended) {
    if (stream->compression != DP_COMPRESSION_GZIP) { /* bytes behind the end are ignored */
      *ended_out = true;
      return NULL;
    }
    inflateReset(inflater);
    stream->inflater_ended = false;
  }
  int result = inflate(inflater, Z_NO_FLUSH);
  if (result == Z_STREAM_END)
    stream->inflater_ended = true;
  else if (result != Z_OK && result != Z_BUF_ERROR)
    return dp_status_create(DP_DATA_LOSS, "inflate() failed with error %d%s%s", result,
                            inflater->msg ? ": " : "", inflater->msg ? inflater->msg : "");
  return NULL;
}

static dp_status *damaged_block(const dp_input_stream *stream) {
  return dp_status_create(DP_DATA_LOSS, "%s; a block of Snappy at %llu is damaged",
                          stream->file->path, (unsigned long long)stream->file_offset);
}

#define BLOCK_HEAD ((size_t)4)

/* Reads the length of the next block and checks that the file has as many bytes. *more_out is false
 * at the end. */
static dp_status *block_length(const dp_input_stream *stream, size_t *length_out, bool *more_out) {
  uint8_t head[BLOCK_HEAD];
  uint64_t size, before = stream->file_offset + BLOCK_HEAD;
  size_t count;
  DP_RETURN_IF_ERROR(dp_file_read(stream->file, stream->file_offset, head, BLOCK_HEAD, &count));
  *more_out = count == BLOCK_HEAD; /* an incomplete head: another process may still be writing */
  if (!*more_out)
    return NULL;
  DP_RETURN_IF_ERROR(dp_file_size(stream->file, &size));
  *length_out = (size_t)head[0] << 24 | head[1] << 16 | head[2] << 8 | head[3];
  return size < before || *length_out > size - before ? damaged_block(stream) : NULL;
}

static dp_status *reserve(dp_input_stream *stream, size_t length) {
  if (length <= stream->capacity)
    return NULL;
  uint8_t *larger = dp_try_malloc(length);
  if (!larger)
    return dp_status_out_of_memory();
  dp_free(stream->buffer);
  stream->buffer = larger;
  stream->capacity = length;
  return NULL;
}

/* Unpacks the next block to the buffer, which grows to its size. That is at most 64 times the
 * packed size, because Snappy cannot do better. A damaged block is not skipped: each call returns
 * the error again. */
static dp_status *fill_from_block(dp_input_stream *stream) {
  size_t packed;
  uint64_t length;
  bool more;
  DP_RETURN_IF_ERROR(block_length(stream, &packed, &more));
  if (!more)
    return NULL;
  dp_free(stream->packed);
  stream->packed = dp_try_malloc(packed + 1);
  if (!stream->packed)
    return dp_status_out_of_memory();
  DP_RETURN_IF_ERROR(
      dp_file_read_exact(stream->file, stream->file_offset + BLOCK_HEAD, stream->packed, packed));
  if (!dp_snappy_length(stream->packed, packed, &length) || length / 64 > packed)
    return damaged_block(stream);
  DP_RETURN_IF_ERROR(reserve(stream, (size_t)length));
  if (!dp_snappy_unpack(stream->packed, packed, stream->buffer, (size_t)length))
    return damaged_block(stream);
  stream->file_offset += BLOCK_HEAD + packed;
  stream->end = (size_t)length;
  return NULL;
}

/* Fills the buffer, which must be empty. It stays empty only at the end. */
static dp_status *fill(dp_input_stream *stream) {
  stream->begin = stream->end = 0;
  if (stream->at_end)
    return NULL;
  if (stream->compression == DP_COMPRESSION_NONE) {
    DP_RETURN_IF_ERROR(read_file(stream, stream->buffer, &stream->end));
    stream->at_end = stream->end == 0;
    return NULL;
  }
  if (stream->compression == DP_COMPRESSION_SNAPPY) {
    DP_RETURN_IF_ERROR(fill_from_block(stream));
    stream->at_end = stream->end == 0;
    return NULL;
  }
  stream->inflater.next_out = stream->buffer;
  stream->inflater.avail_out = (uInt)stream->capacity;
  bool ended = false;
  while (stream->inflater.avail_out == stream->capacity && !ended)
    DP_RETURN_IF_ERROR(inflate_some(stream, &ended));
  stream->end = stream->capacity - stream->inflater.avail_out;
  stream->at_end = stream->end == 0;
  return NULL;
}

/* ---- Reading ---- */
/* Moves past `length` bytes, or as many as there are; copies them unless `to` is NULL. */
static dp_status *advance(dp_input_stream *stream, char *to, uint64_t length, uint64_t *done_out) {
  uint64_t done = 0;
  while (done < length) {
    if (stream->begin == stream->end) {
      DP_RETURN_IF_ERROR(fill(stream));
      if (stream->end == 0)
        break;
    }
    size_t count = stream->end - stream->begin;
    if (count > length - done)
      count = (size_t)(length - done);
    if (to)
      memcpy(to + done, stream->buffer + stream->begin, count);
    stream->begin += count;
    done += count;
  }
  stream->position += done;
  *done_out = done;
  return NULL;
}

dp_status *dp_input_stream_read(dp_input_stream *stream, void *to, size_t length,
                                size_t *read_out) {
  uint64_t done;
  DP_RETURN_IF_ERROR(advance(stream, to, length, &done));
  *read_out = (size_t)done;
  return NULL;
}

dp_status *dp_input_stream_read_new(dp_input_stream *stream, uint64_t length, void **data_out,
                                    size_t *read_out) {
  char *data = NULL;
  size_t done = 0, count = 0, capacity = 0;
  dp_status *status = NULL;
  do {
    size_t wanted = capacity ? capacity * 2 : STEP_SIZE;
    capacity = wanted < length ? wanted : (size_t)length;
    char *larger = dp_try_malloc(capacity + 1);
    if (!larger) {
      status = dp_status_out_of_memory();
      break;
    }
    if (done > 0)
      memcpy(larger, data, done);
    dp_free(data);
    data = larger;
    status = dp_input_stream_read(stream, data + done, capacity - done, &count);
    done += status ? 0 : count;
  } while (!status && done == capacity && done < length);
  if (status) {
    dp_free(data);
    return status;
  }
  *data_out = data;
  *read_out = done;
  return NULL;
}

dp_status *dp_input_stream_skip(dp_input_stream *stream, uint64_t length, uint64_t *skipped_out) {
  return advance(stream, NULL, length, skipped_out);
}

/* Appends the bytes without "\r". */
static void add_line_part(dp_text *line, const uint8_t *data, size_t length) {
  while (length > 0) {
    const uint8_t *dropped = memchr(data, '\r', length);
    size_t count = dropped ? (size_t)(dropped - data) : length;
    dp_text_append(line, data, count);
    size_t used = dropped ? count + 1 : count;
    data += used;
    length -= used;
  }
}

dp_status *dp_input_stream_line(dp_input_stream *stream, dp_text *line, bool *more_out) {
  dp_text_clear(line);
  bool has_any = false;
  for (;;) {
    if (stream->begin == stream->end) {
      DP_RETURN_IF_ERROR(fill(stream));
      if (stream->end == 0)
        break;
    }
    has_any = true;
    const uint8_t *data = stream->buffer + stream->begin;
    size_t length = stream->end - stream->begin;
    const uint8_t *newline = memchr(data, '\n', length);
    size_t count = newline ? (size_t)(newline - data) : length;
    add_line_part(line, data, count);
    size_t used = newline ? count + 1 : count;
    stream->begin += used;
    stream->position += used;
    if (newline)
      break;
  }
  *more_out = has_any;
  return NULL;
}

uint64_t dp_input_stream_position(const dp_input_stream *stream) {
  return stream->position;
}
