/* Writes tables (table.h): collects entries in a block and writes the block when it is full. The
 * index has for each block a short key between its last key and the first key of the next block,
 * made by TensorFlow's rule, so that files are equal to the byte. One user at a time. */
#include <string.h>
#include "base/checksum.h"
#include "storage/table_internal.h"

typedef struct block_builder {
  dp_text bytes;
  DP_ARRAY(uint32_t) restarts;
  dp_text last_key;
  int interval; /* entries between restarts */
  int counter;
} block_builder;

typedef struct block_handle {
  uint64_t offset, size;
} block_handle;

struct dp_table_writer {
  dp_file *file;
  uint64_t offset; /* in the table */
  block_builder data, index;
  dp_text last_key;
  int64_t entry_count;
  bool has_pending; /* the index entry of the last block waits for the next key */
  block_handle pending;
};

int dp_view_compare(dp_view a, dp_view b) {
  size_t shorter = a.length < b.length ? a.length : b.length;
  int order = shorter ? memcmp(a.data, b.data, shorter) : 0;
  return order ? order : (a.length > b.length) - (a.length < b.length);
}

static dp_view view_of_text(const dp_text *text) {
  return (dp_view){dp_text_string(text), text->length};
}

/* ---- Blocks ---- */
static void block_start(block_builder *block) {
  dp_text_clear(&block->bytes);
  dp_text_clear(&block->last_key);
  block->restarts.count = 0;
  DP_ARRAY_PUSH(&block->restarts, 0);
  block->counter = 0;
}

static void block_deinit(block_builder *block) {
  dp_text_deinit(&block->bytes);
  dp_text_deinit(&block->last_key);
  DP_ARRAY_FREE(&block->restarts);
}

static void block_add(block_builder *block, dp_view key, dp_view value) {
  size_t shared = 0;
  if (block->counter < block->interval) {
    size_t most = block->last_key.length < key.length ? block->last_key.length : key.length;
    while (shared < most && block->last_key.data[shared] == key.data[shared])
      ++shared;
  } else {
    DP_ARRAY_PUSH(&block->restarts, (uint32_t)block->bytes.length);
    block->counter = 0;
  }
  uint8_t head[30];
  size_t length = dp_put_varint(head, shared);
  length += dp_put_varint(head + length, key.length - shared);
  length += dp_put_varint(head + length, value.length);
  dp_text_append(&block->bytes, head, length);
  dp_text_append(&block->bytes, key.data + shared, key.length - shared);
  dp_text_append(&block->bytes, value.data, value.length);
  dp_text_clear(&block->last_key);
  dp_text_append(&block->last_key, key.data, key.length);
  ++block->counter;
}

static size_t block_size(const block_builder *block) {
  return block->bytes.length + (block->restarts.count + 1) * sizeof(uint32_t);
}

/* Adds restarts and trailer to the block and writes it to the file. */
static dp_status *block_write(dp_table_writer *writer, block_builder *block,
                              block_handle *handle_out) {
  uint8_t number[4];
  for (size_t i = 0; i < block->restarts.count; ++i) {
    dp_put_fixed32(number, block->restarts.items[i]);
    dp_text_append(&block->bytes, number, 4);
  }
  dp_put_fixed32(number, (uint32_t)block->restarts.count);
  dp_text_append(&block->bytes, number, 4);
  *handle_out = (block_handle){writer->offset, block->bytes.length};
  dp_text_add_char(&block->bytes, DP_TABLE_PLAIN);
  dp_put_fixed32(number, dp_crc32c_mask(dp_crc32c(block->bytes.data, block->bytes.length)));
  dp_text_append(&block->bytes, number, 4);
  DP_RETURN_IF_ERROR(dp_file_append(writer->file, block->bytes.data, block->bytes.length));
  writer->offset += block->bytes.length;
  block_start(block);
  return NULL;
}

/* ---- The table ---- */
dp_table_writer *dp_table_writer_create(dp_file *file) {
  dp_table_writer *writer = DP_NEW(dp_table_writer);
  writer->file = file;
  writer->data.interval = DP_TABLE_RESTART_INTERVAL;
  writer->index.interval = 1;
  block_start(&writer->data);
  block_start(&writer->index);
  return writer;
}

void dp_table_writer_destroy(dp_table_writer *writer) {
  if (!writer)
    return;
  block_deinit(&writer->data);
  block_deinit(&writer->index);
  dp_text_deinit(&writer->last_key);
  dp_free(writer);
}

static dp_status *flush(dp_table_writer *writer) {
  if (writer->data.bytes.length == 0)
    return NULL;
  DP_RETURN_IF_ERROR(block_write(writer, &writer->data, &writer->pending));
  writer->has_pending = true;
  return NULL;
}

/* Shortens the key to one that is not smaller and still below `limit`, where that is possible. */
static void shorten_before(dp_text *key, dp_view limit) {
  size_t most = key->length < limit.length ? key->length : limit.length;
  size_t at = 0;
  while (at < most && key->data[at] == limit.data[at])
    ++at;
  if (at >= most)
    return;
  uint8_t byte = (uint8_t)key->data[at];
  if (byte < 0xff && byte + 1 < (uint8_t)limit.data[at]) {
    key->data[at] = (char)(byte + 1);
    key->length = at + 1;
  }
}

/* Shortens the last key of the table: as shorten_before, without a limit. */
static void shorten_after(dp_text *key) {
  for (size_t i = 0; i < key->length; ++i) {
    if ((uint8_t)key->data[i] != 0xff) {
      key->data[i] = (char)((uint8_t)key->data[i] + 1);
      key->length = i + 1;
      return;
    }
  }
}

static void add_pending(dp_table_writer *writer) {
  uint8_t handle[20];
  size_t length = dp_put_varint(handle, writer->pending.offset);
  length += dp_put_varint(handle + length, writer->pending.size);
  block_add(&writer->index, view_of_text(&writer->last_key), (dp_view){(char *)handle, length});
  writer->has_pending = false;
}

dp_status *dp_table_writer_add(dp_table_writer *writer, dp_view key, dp_view value) {
  if (key.length > UINT32_MAX || value.length > UINT32_MAX)
    return DP_INVALID("an entry of a table may not be larger than 4 GiB");
  if (writer->entry_count > 0) {
    if (dp_view_compare(view_of_text(&writer->last_key), key) >= 0)
      return dp_status_create(DP_INTERNAL, "keys of a table must ascend");
    if (key.length + value.length >= 2 * DP_TABLE_BLOCK_SIZE)
      DP_RETURN_IF_ERROR(flush(writer));
  }
  if (writer->has_pending) {
    shorten_before(&writer->last_key, key);
    add_pending(writer);
  }
  dp_text_clear(&writer->last_key);
  dp_text_append(&writer->last_key, key.data, key.length);
  ++writer->entry_count;
  block_add(&writer->data, key, value);
  return block_size(&writer->data) >= DP_TABLE_BLOCK_SIZE ? flush(writer) : NULL;
}

dp_status *dp_table_writer_finish(dp_table_writer *writer) {
  DP_RETURN_IF_ERROR(flush(writer));
  block_handle meta_index, index;
  DP_RETURN_IF_ERROR(block_write(writer, &writer->data, &meta_index)); /* always empty */
  if (writer->has_pending) {
    shorten_after(&writer->last_key);
    add_pending(writer);
  }
  DP_RETURN_IF_ERROR(block_write(writer, &writer->index, &index));
  uint8_t footer[DP_TABLE_FOOTER_SIZE] = {0};
  size_t length = dp_put_varint(footer, meta_index.offset);
  length += dp_put_varint(footer + length, meta_index.size);
  length += dp_put_varint(footer + length, index.offset);
  dp_put_varint(footer + length, index.size);
  dp_put_fixed64(footer + DP_TABLE_FOOTER_SIZE - 8, DP_TABLE_MAGIC);
  return dp_file_append(writer->file, footer, sizeof footer);
}
