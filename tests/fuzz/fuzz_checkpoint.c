/* Fuzzes the readers of checkpoints, V2 (bundle) and V1 (legacy). The input is not the files but
 * their parts, because no fuzzer guesses checksums; the table is built around them:
 *   flags, 2 bytes length of the index block, 2 of the data block, both blocks, the data file.
 * If the index block is empty, the table gets one that leads to the data block. */
#include <stdlib.h>
#include <string.h>
#include "base/checksum.h"
#include "memory_files.h"
#include "storage/bundle.h"
#include "storage/legacy.h"
#include "storage/table_internal.h"

enum { HEAD = 5, MOST_NAMES = 16, IS_RAW = 1, PACKED_DATA = 2, PACKED_INDEX = 4 };

static dp_view take(dp_view *rest, size_t length) {
  dp_view part = {rest->data, length < rest->length ? length : rest->length};
  rest->data += part.length;
  rest->length -= part.length;
  return part;
}

/* ---- The table ---- */
/* Appends a block and its trailer, and writes the block's handle to `handle`. */
static size_t add_block(dp_text *file, dp_view block, bool is_packed, uint8_t *handle) {
  size_t length = dp_put_varint(handle, file->length);
  length += dp_put_varint(handle + length, block.length);
  size_t begin = file->length;
  uint8_t type = is_packed ? DP_TABLE_SNAPPY : DP_TABLE_PLAIN, sum[4];
  dp_text_append(file, block.data, block.length);
  dp_text_append(file, &type, 1);
  dp_put_fixed32(sum, dp_crc32c_mask(dp_crc32c(file->data + begin, block.length + 1)));
  dp_text_append(file, sum, sizeof sum);
  return length;
}

/* An index block with one entry, whose key is behind all others. */
static void make_index(const uint8_t *handle, size_t length, dp_text *block) {
  const uint8_t entry[] = {0, 1, (uint8_t)length, 255}, restarts[] = {0, 0, 0, 0, 1, 0, 0, 0};
  dp_text_append(block, entry, sizeof entry);
  dp_text_append(block, handle, length);
  dp_text_append(block, restarts, sizeof restarts);
}

static void write_table(uint8_t flags, dp_view index, dp_view block, dp_text *file) {
  uint8_t handle[20], footer[DP_TABLE_FOOTER_SIZE] = {0};
  dp_text made = {0};
  size_t length = add_block(file, block, flags & PACKED_DATA, handle);
  if (index.length == 0) {
    make_index(handle, length, &made);
    index = (dp_view){dp_text_string(&made), made.length};
    flags &= (uint8_t)~PACKED_INDEX;
  }
  add_block(file, index, flags & PACKED_INDEX, footer + 2); /* the handle before it is 0, 0 */
  dp_put_fixed64(footer + sizeof footer - 8, DP_TABLE_MAGIC);
  dp_text_append(file, footer, sizeof footer);
  dp_text_deinit(&made);
}

/* ---- Reading ---- */
static void read_tensor(dp_bundle_reader *reader, dp_view name) {
  dp_dtype dtype;
  dp_shape shape;
  dp_status *status = dp_bundle_reader_describe(reader, name, &dtype, &shape);
  if (!status) {
    dp_bundle_request request = {.name = name};
    status = dp_bundle_reader_read(reader, &request, 1, NULL);
    if (!status &&
        (request.tensor.dtype != dtype || !dp_shape_equal(&request.tensor.shape, &shape)))
      abort();
    dp_tensor_deinit(&request.tensor);
  }
  dp_status_release(status);
}

static void read_bundle(void) {
  dp_bundle_reader *reader = NULL;
  dp_status *status = dp_bundle_reader_open("mem://c", &reader);
  dp_text names[MOST_NAMES] = {0};
  int count = 0;
  if (!status)
    status = dp_bundle_reader_first(reader);
  for (dp_view name; !status && count < MOST_NAMES && dp_bundle_reader_name(reader, &name);
       ++count) {
    dp_text_append(&names[count], name.data, name.length);
    status = dp_bundle_reader_next(reader);
  }
  dp_status_release(status);
  for (int i = 0; i < count; ++i) {
    read_tensor(reader, (dp_view){dp_text_string(&names[i]), names[i].length});
    dp_text_deinit(&names[i]);
  }
  dp_bundle_reader_destroy(reader);
}

static void read_legacy(void) {
  dp_legacy_reader *reader;
  dp_status *status = dp_legacy_reader_take("mem://c.index", &reader);
  if (status) {
    dp_status_release(status);
    return;
  }
  dp_dtype dtype;
  dp_shape shape;
  dp_view name = {"v", 1}; /* the name in the seeds */
  if (dp_legacy_reader_find(reader, name, &dtype, &shape)) {
    dp_slice slice = dp_slice_full(shape.rank);
    dp_tensor tensor = {0};
    dp_status_release(dp_legacy_reader_read(reader, name, &slice, &tensor));
    dp_tensor_deinit(&tensor);
  }
  dp_legacy_reader_give(reader);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size < HEAD)
    return 0;
  dp_view rest = {(const char *)data + HEAD, size - HEAD};
  dp_text file = {0};
  if (data[0] & IS_RAW) {
    dp_text_append(&file, rest.data, rest.length);
  } else {
    dp_view index = take(&rest, data[1] | (size_t)data[2] << 8);
    write_table(data[0], index, take(&rest, data[3] | (size_t)data[4] << 8), &file);
  }
  memory_file_set("mem://c.index", (dp_view){dp_text_string(&file), file.length});
  memory_file_set("mem://c.data-00000-of-00001", rest);
  read_bundle();
  read_legacy();
  dp_text_deinit(&file);
  return 0;
}
