/* Input streams: read a file from its beginning to its end through a buffer, and unpack it when it
 * is compressed. The forms are zlib, gzip (also several gzip members in a row) and blocks of
 * Snappy, each after its length as a 4-byte big-endian number. One user at a time. */
#ifndef DP_STORAGE_STREAM_H
#define DP_STORAGE_STREAM_H

#include "base/text.h"
#include "storage/file.h"

typedef enum dp_compression {
  DP_COMPRESSION_NONE,
  DP_COMPRESSION_ZLIB,
  DP_COMPRESSION_GZIP,
  DP_COMPRESSION_SNAPPY /* only for records */
} dp_compression;
/* "", "ZLIB", "GZIP"; false for anything else. */
bool dp_compression_parse(dp_view text, dp_compression *compression_out);

typedef struct dp_input_stream dp_input_stream;
#define DP_STREAM_BUFFER ((size_t)256 << 10)
DP_MUST_USE dp_status *dp_input_stream_open(const char *path, dp_compression compression,
                                            size_t buffer_size, dp_input_stream **stream_out);
void dp_input_stream_close(dp_input_stream *stream); /* accepts NULL */
/* Reads up to `length` bytes; fewer only at the end. DATA_LOSS for a damaged compressed stream. */
DP_MUST_USE dp_status *dp_input_stream_read(dp_input_stream *stream, void *to, size_t length,
                                            size_t *read_out);
/* As dp_input_stream_read, into new memory (dp_free), which grows as the bytes come: so `length`
 * may be a number from a file that is not trusted. */
DP_MUST_USE dp_status *dp_input_stream_read_new(dp_input_stream *stream, uint64_t length,
                                                void **data_out, size_t *read_out);
/* As dp_input_stream_read, without keeping the bytes. */
DP_MUST_USE dp_status *dp_input_stream_skip(dp_input_stream *stream, uint64_t length,
                                            uint64_t *skipped_out);
/* Reads the next line without its "\n". Every "\r" in it is dropped, as TensorFlow does. *more_out
 * is false when there is no line. */
DP_MUST_USE dp_status *dp_input_stream_line(dp_input_stream *stream, dp_text *line, bool *more_out);
/* How many (unpacked) bytes have been read so far. */
uint64_t dp_input_stream_position(const dp_input_stream *stream);

#endif
