/* TFRecord files: records of bytes, each with its length and two masked CRC32Cs.
 *   uint64 length, uint32 crc of the length, bytes, uint32 crc of the bytes
 * The file as a whole may be compressed. A reader or writer has one user at a time. */
#ifndef DP_STORAGE_RECORD_H
#define DP_STORAGE_RECORD_H

#include "storage/stream.h"
#include "tensor/tensor.h"

/* "", "ZLIB", "GZIP", "SNAPPY"; false for anything else. */
bool dp_record_compression_parse(dp_view text, dp_compression *compression_out);

/* ---- Reading ---- */
typedef struct dp_record_reader dp_record_reader;
DP_MUST_USE dp_status *dp_record_reader_open(const char *path, dp_compression compression,
                                             size_t buffer_size, dp_record_reader **reader_out);
void dp_record_reader_close(dp_record_reader *reader); /* accepts NULL */
/* Reads the next record into an initialized string. *more_out is false at the end; an incomplete
 * head at the end of the file counts as the end, as in TensorFlow. DATA_LOSS "corrupted record at
 * <offset>" or "truncated record at <offset>". */
DP_MUST_USE dp_status *dp_record_reader_next(dp_record_reader *reader, dp_tstring *record,
                                             bool *more_out);
/* Skips `count` bytes; a record must begin behind them. */
DP_MUST_USE dp_status *dp_record_reader_skip(dp_record_reader *reader, uint64_t count);
/* The offset of the next record, in the uncompressed bytes. */
uint64_t dp_record_reader_position(const dp_record_reader *reader);

/* ---- Writing ---- */
typedef struct dp_record_writer dp_record_writer;
/* Appends to `file`, which the caller closes after the writer. */
DP_MUST_USE dp_status *dp_record_writer_create(dp_file *file, dp_compression compression,
                                               dp_record_writer **writer_out);
DP_MUST_USE dp_status *dp_record_writer_add(dp_record_writer *writer, const void *data,
                                            size_t length);
/* Writes what is buffered to the file, without a sync. */
DP_MUST_USE dp_status *dp_record_writer_flush(dp_record_writer *writer);
/* Flushes, ends a compressed stream and frees the writer; the file stays open. */
DP_MUST_USE dp_status *dp_record_writer_finish(dp_record_writer *writer);

#endif
