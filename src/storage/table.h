/* Sorted tables of keys and values in one file: LevelDB's format with TensorFlow's choices (blocks
 * of 256 KiB, keys prefix-compressed with a restart each 16, no compression when written; Snappy is
 * understood when read). The index of a V2 checkpoint and the whole of a V1 checkpoint are such
 * tables.
 *
 *   file    block* metaindex-block index-block footer
 *   block   entry* restart-offset* count, then 1 byte of compression and a masked CRC32C of both
 *   entry   varints shared, not shared, value length; key without the shared part; value
 *   footer  handles (varint offset, size) of both index blocks, padded to 40 bytes; magic
 *
 * Every byte that is read is checked before it is believed: DATA_LOSS says what is wrong.
 * A reader has one user at a time. */
#ifndef DP_STORAGE_TABLE_H
#define DP_STORAGE_TABLE_H

#include "base/text.h"
#include "storage/file.h"
#include "tensor/buffer.h"

/* ---- Writing ---- */
typedef struct dp_table_writer dp_table_writer;
/* Appends to `file`, which stays the caller's. */
dp_table_writer *dp_table_writer_create(dp_file *file);
/* Keys must come in ascending order (bytes as unsigned). */
DP_MUST_USE dp_status *dp_table_writer_add(dp_table_writer *writer, dp_view key, dp_view value);
/* Writes what is left and the footer. */
DP_MUST_USE dp_status *dp_table_writer_finish(dp_table_writer *writer);
void dp_table_writer_destroy(dp_table_writer *writer);

/* ---- Reading ---- */
typedef struct dp_table_reader dp_table_reader;
/* The file stays the caller's and must outlive the reader. */
DP_MUST_USE dp_status *dp_table_reader_open(dp_file *file, dp_table_reader **reader_out);
void dp_table_reader_destroy(dp_table_reader *reader);
/* Stands on the first entry whose key is >= `key`. */
DP_MUST_USE dp_status *dp_table_reader_seek(dp_table_reader *reader, dp_view key);
DP_MUST_USE dp_status *dp_table_reader_next(dp_table_reader *reader);
/* False behind the last entry. */
bool dp_table_reader_is_valid(const dp_table_reader *reader);
/* Live until the reader moves. */
dp_view dp_table_reader_key(const dp_table_reader *reader);
dp_view dp_table_reader_value(const dp_table_reader *reader);
/* What the value lies in, for who wants to keep it longer. */
dp_buffer *dp_table_reader_memory(const dp_table_reader *reader);
/* Lets go of a large block, before a pause. */
void dp_table_reader_rest(dp_table_reader *reader);

/* Order of keys: as unsigned bytes, a prefix first. */
int dp_view_compare(dp_view a, dp_view b);

#endif
