/* The index of V2 checkpoints: writes and reads the messages in the table, and checks everything
 * that is read before other code sees it. Messages live in the caller's arena. No state, any
 * thread.
 */
#include <stdlib.h>
#include "base/memory.h"
#include "storage/bundle_internal.h"
#include "wire/control.h"
#include "wire/shape_message.h"

char *dp_bundle_index_path(const char *prefix) {
  dp_text path = {0};
  dp_text_printf(&path, "%s.index", prefix);
  return dp_text_take(&path);
}

char *dp_bundle_data_path(const char *prefix, int shard, int shard_count) {
  dp_text path = {0};
  dp_text_printf(&path, "%s.data-%05d-of-%05d", prefix, shard, shard_count);
  return dp_text_take(&path);
}

/* ---- Writing ---- */
dp_status *dp_bundle_make_folder(const char *prefix) {
  char *folder = dp_path_folder(prefix);
  dp_status *status = folder[0] ? dp_path_make_folder(folder) : NULL;
  dp_free(folder);
  if (dp_status_code(status) != DP_ALREADY_EXISTS)
    return status;
  dp_status_release(status);
  return NULL;
}

static int compare_items(const void *a, const void *b) {
  return dp_view_compare(((const dp_bundle_item *)a)->key, ((const dp_bundle_item *)b)->key);
}

static dp_status *add_message(dp_table_writer *table, dp_view key, const void *message,
                              dp_arena *arena) {
  uint8_t *data;
  size_t length;
  dp_arena_reset(arena);
  DP_RETURN_IF_ERROR(dp_wire_pack_bytes(message, arena, &data, &length));
  return dp_table_writer_add(table, key, (dp_view){(const char *)data, length});
}

dp_status *dp_bundle_write_index(const char *path, const Tensorflow__BundleHeaderProto *header,
                                 dp_bundle_item *items, size_t count) {
  if (count > 0)
    qsort(items, count, sizeof *items, compare_items);
  dp_file *file;
  DP_RETURN_IF_ERROR(dp_file_create_atomic(path, &file));
  dp_table_writer *table = dp_table_writer_create(file);
  dp_arena *scratch = dp_arena_create();
  dp_status *status = add_message(table, (dp_view){"", 0}, header, scratch);
  for (size_t i = 0; i < count && !status; ++i)
    status = add_message(table, items[i].key, items[i].entry, scratch);
  if (!status)
    status = dp_table_writer_finish(table);
  dp_arena_destroy(scratch);
  dp_table_writer_destroy(table);
  if (status) {
    dp_file_abandon(file);
    return status;
  }
  return dp_file_commit(file);
}

Tensorflow__TensorSliceProto *dp_bundle_slice_message(const dp_slice *slice, dp_arena *arena) {
  Tensorflow__TensorSliceProto *message =
      dp_wire_new(arena, &tensorflow__tensor_slice_proto__descriptor);
  message->n_extent = (size_t)slice->rank;
  message->extent = DP_ARENA_ARRAY(arena, Tensorflow__TensorSliceProto__Extent *, slice->rank + 1);
  for (int i = 0; i < slice->rank; ++i) {
    message->extent[i] = dp_wire_new(arena, &tensorflow__tensor_slice_proto__extent__descriptor);
    if (slice->length[i] == DP_SLICE_FULL)
      continue;
    message->extent[i]->start = slice->start[i];
    message->extent[i]->has_length_hack_case =
        TENSORFLOW__TENSOR_SLICE_PROTO__EXTENT__HAS_LENGTH_HACK_LENGTH;
    message->extent[i]->length = slice->length[i];
  }
  return message;
}

/* ---- Reading ---- */
static dp_status *corrupt(dp_status *status, const char *path, const char *detail) {
  if (!status)
    return dp_status_create(DP_INTERNAL,
                            "Unable to read file (%s). Perhaps the file is corrupt or was produced "
                            "by a newer version of TensorFlow with format changes (%s)",
                            path, detail);
  return dp_status_annotate(status,
                            "Unable to read file (%s). Perhaps the file is corrupt or was produced "
                            "by a newer version of TensorFlow with format changes (%s)",
                            path, detail);
}

static dp_status *unpack(const ProtobufCMessageDescriptor *descriptor, dp_view key, dp_view value,
                         dp_arena *arena, void *message_out) {
  dp_status *status =
      dp_wire_unpack_bytes(descriptor, value.data, value.length, arena, message_out);
  if (!status)
    return NULL;
  dp_status *lost = dp_status_create(DP_DATA_LOSS, "Entry for key %.*s not parseable: %s",
                                     (int)key.length, key.data, dp_status_message(status));
  dp_status_release(status);
  return lost;
}

static dp_status *check_header(const Tensorflow__BundleHeaderProto *header) {
  int32_t producer = header->version ? header->version->producer : 0;
  int32_t min_consumer = header->version ? header->version->min_consumer : 0;
  if (min_consumer > DP_BUNDLE_VERSION)
    return DP_INVALID("Checkpoint min consumer version %d above current version %d for TensorFlow "
                      "1.15.  Please upgrade TensorFlow.",
                      min_consumer, DP_BUNDLE_VERSION);
  for (size_t i = 0; header->version && i < header->version->n_bad_consumers; ++i)
    if (header->version->bad_consumers[i] == DP_BUNDLE_VERSION)
      return DP_INVALID("Checkpoint disallows consumer version %d.  Please upgrade TensorFlow: "
                        "this version is likely buggy.",
                        DP_BUNDLE_VERSION);
  if (producer < 0 || header->num_shards < 0 || header->num_shards > 100000)
    return dp_status_create(DP_DATA_LOSS, "a checkpoint of version %d with %d shards", producer,
                            header->num_shards);
  return NULL;
}

dp_status *dp_bundle_open_index(const char *prefix, dp_arena *arena, dp_file **file_out,
                                dp_table_reader **table_out,
                                Tensorflow__BundleHeaderProto **header_out) {
  char *path = dp_bundle_index_path(prefix);
  dp_file *file = NULL;
  dp_table_reader *table = NULL;
  dp_status *status;
  DP_GOTO_IF_ERROR(status, failed, dp_file_open(path, DP_FILE_READ, &file));
  DP_GOTO_IF_ERROR(status, failed, dp_table_reader_open(file, &table));
  status = dp_table_reader_seek(table, (dp_view){"", 0});
  if (status || !dp_table_reader_is_valid(table) || dp_table_reader_key(table).length != 0) {
    status = corrupt(status, path, "failed to seek to header entry");
    goto failed;
  }
  status = unpack(&tensorflow__bundle_header_proto__descriptor, (dp_view){"", 0},
                  dp_table_reader_value(table), arena, header_out);
  if (status) {
    status = corrupt(status, path, "unable to parse header");
    goto failed;
  }
  DP_GOTO_IF_ERROR(status, failed, check_header(*header_out));
  dp_free(path);
  *file_out = file;
  *table_out = table;
  return NULL;
failed:
  dp_table_reader_destroy(table);
  dp_file_discard(file);
  dp_free(path);
  return status;
}

dp_status *dp_bundle_slice_from_message(const Tensorflow__TensorSliceProto *message,
                                        dp_slice *slice_out) {
  if (message->n_extent > DP_MAX_RANK)
    return dp_status_create(DP_DATA_LOSS, "a slice of %zu dimensions", message->n_extent);
  dp_slice slice = dp_slice_full((int)message->n_extent);
  for (size_t i = 0; i < message->n_extent; ++i) {
    const Tensorflow__TensorSliceProto__Extent *extent = message->extent[i];
    bool has_length = extent->has_length_hack_case ==
                      TENSORFLOW__TENSOR_SLICE_PROTO__EXTENT__HAS_LENGTH_HACK_LENGTH;
    if (!has_length && extent->start == 0)
      continue;
    if (!has_length || extent->start < 0 || extent->length <= 0 ||
        extent->start > INT64_MAX - extent->length)
      return dp_status_create(DP_DATA_LOSS,
                              "Expected non-negative start and positive length but got start = "
                              "%lld, length = %lld",
                              (long long)extent->start,
                              has_length ? (long long)extent->length : -1LL);
    slice.start[i] = extent->start;
    slice.length[i] = extent->length;
  }
  *slice_out = slice;
  return NULL;
}

static dp_status *check_slices(const Tensorflow__BundleEntryProto *entry, const dp_shape *shape) {
  for (size_t i = 0; i < entry->n_slices; ++i) {
    dp_slice slice;
    dp_shape part;
    DP_RETURN_IF_ERROR(dp_bundle_slice_from_message(entry->slices[i], &slice));
    dp_status *status = dp_slice_shape(&slice, shape, &part);
    if (status) {
      dp_status *lost = dp_status_create(DP_DATA_LOSS, "%s", dp_status_message(status));
      dp_status_release(status);
      return lost;
    }
  }
  return NULL;
}

dp_status *dp_bundle_parse_entry(dp_view key, dp_view value, dp_arena *arena,
                                 Tensorflow__BundleEntryProto **entry_out) {
  Tensorflow__BundleEntryProto *entry;
  DP_RETURN_IF_ERROR(
      unpack(&tensorflow__bundle_entry_proto__descriptor, key, value, arena, &entry));
  dp_shape shape;
  dp_status *status = dp_wire_shape(entry->shape, &shape);
  if (status) {
    dp_status *lost = dp_status_create(DP_DATA_LOSS, "Invalid tensor shape: %.*s %s",
                                       (int)key.length, key.data, dp_status_message(status));
    dp_status_release(status);
    return lost;
  }
  if (!dp_dtype_is_valid((int)entry->dtype) || entry->shard_id < 0 || entry->offset < 0 ||
      entry->size < 0 || entry->offset > INT64_MAX - entry->size)
    return dp_status_create(DP_DATA_LOSS,
                            "Invalid bundle entry: key %.*s; dtype %d, shard %d, offset %lld, size "
                            "%lld",
                            (int)key.length, key.data, (int)entry->dtype, entry->shard_id,
                            (long long)entry->offset, (long long)entry->size);
  status = check_slices(entry, &shape);
  if (status)
    return dp_status_annotate(status, "Invalid bundle entry: key %.*s", (int)key.length, key.data);
  *entry_out = entry;
  return NULL;
}
