/* Reads tables (table.h). The index block stays in memory; of the data blocks one is in memory at a
 * time. A cursor over a block rebuilds keys from their shared prefixes. Offsets and lengths come
 * from the file, so each is checked against the block before it is used. */
#include <string.h>
#include "base/checksum.h"
#include "storage/snappy.h"
#include "storage/table_internal.h"

/* A V1 checkpoint has a whole tensor in one block. */
#define MAX_BLOCK_SIZE ((uint64_t)1 << 36)
#define PAGE_SIZE ((size_t)4096)

typedef struct block {
  dp_buffer
      *memory; /* from the tensors' pool: a block of a V1 checkpoint may hold a whole tensor */
  const uint8_t *data; /* entries, without restarts and trailer */
  size_t length;
  const uint8_t *restarts;
  uint32_t restart_count;
} block;

typedef struct cursor {
  const block *block;
  size_t next; /* offset of the entry behind this one */
  bool is_valid;
  dp_text key;
  dp_view value;
} cursor;

struct dp_table_reader {
  dp_file *file;
  uint64_t size;
  block index, data;
  uint64_t data_offset; /* of the block in `data`; UINT64_MAX: none */
  cursor index_cursor, data_cursor;
};

static dp_status *data_loss(const char *what) {
  return dp_status_create(DP_DATA_LOSS, "%s", what);
}

/* ---- Blocks ---- */
static void block_deinit(block *block) {
  dp_buffer_release(block->memory);
  *block = (struct block){0};
}

/* Consumes the reference to `memory`; splits the restarts off. */
static dp_status *block_init(block *block, dp_buffer *memory, const uint8_t *data, size_t length) {
  block_deinit(block);
  *block = (struct block){.memory = memory, .data = data};
  if (length < 4)
    return data_loss("bad block contents");
  uint32_t count = dp_get_fixed32(data + length - 4);
  if (count > (length - 4) / 4)
    return data_loss("bad block contents");
  block->restart_count = count;
  block->length = length - 4 - (size_t)count * 4;
  block->restarts = data + block->length;
  return NULL;
}

static dp_status *unpack_snappy(const uint8_t *data, size_t length, dp_buffer **unpacked_out,
                                size_t *length_out) {
  uint64_t unpacked_length;
  /* No element unpacks to more than 64 times its size: a longer unpacked length is wrong. */
  if (!dp_snappy_length(data, length, &unpacked_length) || unpacked_length / 64 > length)
    return data_loss("corrupted compressed block contents");
  dp_buffer *unpacked;
  DP_RETURN_IF_ERROR(dp_buffer_create((size_t)unpacked_length, &unpacked));
  if (!dp_snappy_unpack(data, length, unpacked->data, (size_t)unpacked_length)) {
    dp_buffer_release(unpacked);
    return data_loss("corrupted compressed block contents");
  }
  *unpacked_out = unpacked;
  *length_out = (size_t)unpacked_length;
  return NULL;
}

/* Where in `memory` to read bytes of the file: at the same offset within a page as in the file. A
 * copy to a slightly larger offset within a page takes ten times as long on some processors. */
static uint8_t *place_in_page(const dp_buffer *memory, uint64_t offset) {
  return (uint8_t *)memory->data + ((offset - (uintptr_t)memory->data) & (PAGE_SIZE - 1));
}

static dp_status *block_read(dp_table_reader *reader, uint64_t offset, uint64_t size,
                             block *block_out) {
  if (size > MAX_BLOCK_SIZE || offset > reader->size || reader->size - offset < size ||
      reader->size - offset - size < DP_TABLE_TRAILER_SIZE)
    return data_loss("truncated block read");
  size_t length = (size_t)size;
  dp_buffer *memory;
  DP_RETURN_IF_ERROR(dp_buffer_create(length + DP_TABLE_TRAILER_SIZE + PAGE_SIZE, &memory));
  uint8_t *data = place_in_page(memory, offset);
  dp_status *status =
      dp_file_read_exact(reader->file, offset, data, length + DP_TABLE_TRAILER_SIZE);
  if (!status && dp_crc32c_unmask(dp_get_fixed32(data + length + 1)) != dp_crc32c(data, length + 1))
    status = data_loss("block checksum mismatch");
  if (!status && data[length] == DP_TABLE_SNAPPY) {
    dp_buffer *unpacked = NULL;
    status = unpack_snappy(data, length, &unpacked, &length);
    dp_buffer_release(memory);
    memory = unpacked;
    data = unpacked ? unpacked->data : NULL;
  } else if (!status && data[length] != DP_TABLE_PLAIN) {
    status = data_loss("bad block type");
  }
  if (status) {
    dp_buffer_release(memory);
    return status;
  }
  return block_init(block_out, memory, data, length);
}

/* ---- Cursors ---- */
/* Reads the lengths of the entry at `offset` and returns the address of its key; NULL when the
 * entry does not fit into the block. */
static const uint8_t *entry_at(const block *block, size_t offset, uint64_t *shared_out,
                               uint64_t *rest_out, uint64_t *value_out) {
  const uint8_t *end = block->data + block->length;
  const uint8_t *at = block->data + offset;
  if ((at = dp_get_varint(at, end, shared_out)) && (at = dp_get_varint(at, end, rest_out)) &&
      (at = dp_get_varint(at, end, value_out)) && *rest_out <= (uint64_t)(end - at) &&
      *value_out <= (uint64_t)(end - at) - *rest_out)
    return at;
  return NULL;
}

/* Moves to the entry at `cursor->next`. */
static dp_status *cursor_advance(cursor *cursor) {
  const block *block = cursor->block;
  cursor->is_valid = false;
  if (cursor->next >= block->length)
    return NULL;
  uint64_t shared, rest, value;
  const uint8_t *at = entry_at(block, cursor->next, &shared, &rest, &value);
  if (!at || shared > cursor->key.length)
    return data_loss("bad entry in block");
  cursor->key.length = (size_t)shared;
  dp_text_append(&cursor->key, at, (size_t)rest);
  cursor->value = (dp_view){(const char *)at + rest, (size_t)value};
  cursor->next = (size_t)(at + rest + value - block->data);
  cursor->is_valid = true;
  return NULL;
}

static dp_status *cursor_to_restart(cursor *cursor, uint32_t index) {
  dp_text_clear(&cursor->key);
  cursor->next = dp_get_fixed32(cursor->block->restarts + (size_t)index * 4);
  if (cursor->next > cursor->block->length)
    return data_loss("bad entry in block");
  return cursor_advance(cursor);
}

static dp_view cursor_key(const cursor *cursor) {
  return (dp_view){dp_text_string(&cursor->key), cursor->key.length};
}

static dp_status *cursor_seek(cursor *cursor, const block *block, dp_view key) {
  cursor->block = block;
  cursor->is_valid = false;
  if (block->restart_count == 0)
    return NULL;
  uint32_t left = 0, right = block->restart_count - 1;
  while (left < right) {
    uint32_t middle = left + (right - left + 1) / 2;
    size_t offset = dp_get_fixed32(block->restarts + (size_t)middle * 4);
    uint64_t shared, rest, value;
    const uint8_t *at =
        offset < block->length ? entry_at(block, offset, &shared, &rest, &value) : NULL;
    if (!at || shared != 0)
      return data_loss("bad entry in block");
    if (dp_view_compare((dp_view){(const char *)at, (size_t)rest}, key) < 0)
      left = middle;
    else
      right = middle - 1;
  }
  DP_RETURN_IF_ERROR(cursor_to_restart(cursor, left));
  while (cursor->is_valid && dp_view_compare(cursor_key(cursor), key) < 0)
    DP_RETURN_IF_ERROR(cursor_advance(cursor));
  return NULL;
}

/* ---- The table ---- */
dp_status *dp_table_reader_open(dp_file *file, dp_table_reader **reader_out) {
  uint64_t size;
  DP_RETURN_IF_ERROR(dp_file_size(file, &size));
  if (size < DP_TABLE_FOOTER_SIZE)
    return data_loss("file is too short to be an sstable");
  uint8_t footer[DP_TABLE_FOOTER_SIZE];
  DP_RETURN_IF_ERROR(dp_file_read_exact(file, size - sizeof footer, footer, sizeof footer));
  if (dp_get_fixed64(footer + sizeof footer - 8) != DP_TABLE_MAGIC)
    return data_loss("not an sstable (bad magic number)");
  const uint8_t *at = footer, *end = footer + sizeof footer - 8;
  uint64_t numbers[4];
  for (int i = 0; i < 4; ++i)
    if (!(at = dp_get_varint(at, end, &numbers[i])))
      return data_loss("bad block handle");
  dp_table_reader *reader = DP_NEW(dp_table_reader);
  reader->file = file;
  reader->size = size - sizeof footer;
  reader->data_offset = UINT64_MAX;
  dp_status *status = block_read(reader, numbers[2], numbers[3], &reader->index);
  if (status) {
    dp_table_reader_destroy(reader);
    return status;
  }
  *reader_out = reader;
  return NULL;
}

void dp_table_reader_destroy(dp_table_reader *reader) {
  if (!reader)
    return;
  block_deinit(&reader->index);
  block_deinit(&reader->data);
  dp_text_deinit(&reader->index_cursor.key);
  dp_text_deinit(&reader->data_cursor.key);
  dp_free(reader);
}

/* Reads the block of the current index entry, unless it is in memory. */
static dp_status *load_block(dp_table_reader *reader) {
  const uint8_t *at = (const uint8_t *)reader->index_cursor.value.data;
  const uint8_t *end = at + reader->index_cursor.value.length;
  uint64_t offset, size;
  if (!(at = dp_get_varint(at, end, &offset)) || !dp_get_varint(at, end, &size))
    return data_loss("bad block handle");
  if (offset == reader->data_offset)
    return NULL;
  reader->data_offset = UINT64_MAX;
  reader->data_cursor.is_valid = false;
  DP_RETURN_IF_ERROR(block_read(reader, offset, size, &reader->data));
  reader->data_offset = offset;
  return NULL;
}

/* When the data cursor is behind the end of its block, moves to the first entry of the next block
 * that is not empty. */
static dp_status *skip_empty(dp_table_reader *reader) {
  while (!reader->data_cursor.is_valid && reader->index_cursor.is_valid) {
    DP_RETURN_IF_ERROR(cursor_advance(&reader->index_cursor));
    if (!reader->index_cursor.is_valid)
      break;
    DP_RETURN_IF_ERROR(load_block(reader));
    reader->data_cursor.block = &reader->data;
    if (reader->data.restart_count > 0)
      DP_RETURN_IF_ERROR(cursor_to_restart(&reader->data_cursor, 0));
  }
  return NULL;
}

dp_status *dp_table_reader_seek(dp_table_reader *reader, dp_view key) {
  reader->data_cursor.is_valid = false;
  DP_RETURN_IF_ERROR(cursor_seek(&reader->index_cursor, &reader->index, key));
  if (!reader->index_cursor.is_valid)
    return NULL;
  DP_RETURN_IF_ERROR(load_block(reader));
  DP_RETURN_IF_ERROR(cursor_seek(&reader->data_cursor, &reader->data, key));
  return skip_empty(reader);
}

dp_status *dp_table_reader_next(dp_table_reader *reader) {
  DP_RETURN_IF_ERROR(cursor_advance(&reader->data_cursor));
  return skip_empty(reader);
}

bool dp_table_reader_is_valid(const dp_table_reader *reader) {
  return reader->data_cursor.is_valid;
}

dp_view dp_table_reader_key(const dp_table_reader *reader) {
  return cursor_key(&reader->data_cursor);
}

dp_view dp_table_reader_value(const dp_table_reader *reader) {
  return reader->data_cursor.value;
}

dp_buffer *dp_table_reader_memory(const dp_table_reader *reader) {
  return reader->data.memory;
}

void dp_table_reader_rest(dp_table_reader *reader) {
  if (reader->data.length > DP_TABLE_BLOCK_SIZE) {
    block_deinit(&reader->data);
    reader->data_offset = UINT64_MAX;
  }
  reader->data_cursor.is_valid = false;
}
