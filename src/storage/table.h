/* Sorted tables of keys and values in one file: LevelDB's format with TensorFlow's choices: blocks
 * of 256 KiB, prefix-compressed keys with a restart every 16 entries, blocks written without
 * compression. Blocks packed with Snappy can be read. The index of a V2 checkpoint is such a table,
 * and so is a V1 checkpoint.
 *
 *   file    block* metaindex-block index-block footer
 *   block   entry* restart-offset* count, then 1 byte of compression and a masked CRC32C of both
 *   entry   varints shared, not shared, value length; key without the shared part; value
 *   footer  handles (varint offset, size) of both index blocks, padded to 40 bytes; magic
 *
 * Everything that is read is checked before it is used: DATA_LOSS says what is wrong.
 * A reader or writer has one user at a time. */
#ifndef DP_STORAGE_TABLE_H
#define DP_STORAGE_TABLE_H

#include "base/text.h"
#include "storage/file.h"
#include "tensor/buffer.h"

/* ---- Writing ---- */
typedef struct dp_table_writer dp_table_writer;
/* Appends to `file`, which the caller keeps and closes. */
dp_table_writer *dp_table_writer_create(dp_file *file);
/* Keys must come in ascending order (bytes as unsigned). */
DP_MUST_USE dp_status *dp_table_writer_add(dp_table_writer *writer, dp_view key, dp_view value);
/* Writes the last block, the index and the footer. */
DP_MUST_USE dp_status *dp_table_writer_finish(dp_table_writer *writer);
void dp_table_writer_destroy(dp_table_writer *writer);

/* ---- Reading ---- */
typedef struct dp_table_reader dp_table_reader;
/* The caller keeps the file, which must outlive the reader. */
DP_MUST_USE dp_status *dp_table_reader_open(dp_file *file, dp_table_reader **reader_out);
void dp_table_reader_destroy(dp_table_reader *reader);
/* Moves to the first entry whose key is >= `key`. */
DP_MUST_USE dp_status *dp_table_reader_seek(dp_table_reader *reader, dp_view key);
DP_MUST_USE dp_status *dp_table_reader_next(dp_table_reader *reader);
/* False behind the last entry. */
bool dp_table_reader_is_valid(const dp_table_reader *reader);
/* Key and value of the current entry; valid until the reader moves. */
dp_view dp_table_reader_key(const dp_table_reader *reader);
dp_view dp_table_reader_value(const dp_table_reader *reader);
/* The buffer that holds the value, for a caller that wants to retain it. */
dp_buffer *dp_table_reader_memory(const dp_table_reader *reader);
/* Releases a large block that is in memory, before the reader is idle. Afterwards the reader stands
 * on no entry. */
void dp_table_reader_rest(dp_table_reader *reader);

/* The order of keys: by unsigned bytes; a prefix comes before the longer key. */
int dp_view_compare(dp_view a, dp_view b);

#endif
