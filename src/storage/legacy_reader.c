/* Reads V1 checkpoints (legacy.h): the lists of all shards are joined when the reader opens, values
 * are decoded when they are asked for. */
#include <string.h>
#include "base/arena.h"
#include "base/map.h"
#include "storage/bundle_internal.h"
#include "storage/legacy.h"
#include "storage/table_internal.h"
#include "wire/control.h"
#include "wire/shape_message.h"
#include "wire/tensor_codec.h"

typedef struct shard {
  dp_file *file;
  dp_table_reader *table;
} shard;

/* A tensor: its slices and in which shard each is. */
typedef struct saved_tensor {
  dp_dtype dtype;
  dp_shape shape;
  DP_ARRAY(dp_slice) slices;
  DP_ARRAY(size_t) shards;
} saved_tensor;

struct dp_legacy_reader {
  DP_ARRAY(shard) shards;
  dp_map *tensors;
};

void dp_legacy_reader_destroy(dp_legacy_reader *reader) {
  if (!reader)
    return;
  for (size_t i = 0; i < reader->shards.count; ++i) {
    dp_table_reader_destroy(reader->shards.items[i].table);
    dp_file_discard(reader->shards.items[i].file);
  }
  DP_ARRAY_FREE(&reader->shards);
  const char *name;
  void *value;
  for (size_t at = 0; dp_map_next(reader->tensors, &at, &name, &value);) {
    saved_tensor *tensor = value;
    DP_ARRAY_FREE(&tensor->slices);
    DP_ARRAY_FREE(&tensor->shards);
    dp_free(tensor);
  }
  dp_map_destroy(reader->tensors);
  dp_free(reader);
}

/* ---- Opening ---- */
static dp_status *add_slice(dp_legacy_reader *reader, size_t shard,
                            const Tensorflow__SavedSliceMeta *meta, const dp_slice *slice) {
  dp_shape shape, part;
  DP_RETURN_IF_ERROR(dp_wire_shape(meta->shape, &shape));
  DP_RETURN_IF_ERROR(dp_slice_shape(slice, &shape, &part));
  saved_tensor *tensor = dp_map_get(reader->tensors, meta->name);
  if (!tensor) {
    tensor = DP_NEW(saved_tensor);
    tensor->dtype = (dp_dtype)meta->type;
    tensor->shape = shape;
    dp_map_put(reader->tensors, meta->name, tensor);
  } else if (!dp_shape_equal(&tensor->shape, &shape) || tensor->dtype != (dp_dtype)meta->type) {
    return dp_status_create(DP_INTERNAL,
                            "Incompatible tensor shapes or types detected for tensor %s: existing "
                            "= %s, new = %s",
                            meta->name, dp_shape_text(&tensor->shape), dp_shape_text(&shape));
  }
  for (size_t i = 0; i < tensor->slices.count; ++i) {
    dp_slice both;
    if (dp_slice_intersect(&tensor->slices.items[i], slice, &both))
      return dp_status_create(DP_INTERNAL, "Overlapping slices of tensor %s", meta->name);
  }
  DP_ARRAY_PUSH(&tensor->slices, *slice);
  DP_ARRAY_PUSH(&tensor->shards, shard);
  return NULL;
}

static dp_status *read_list(dp_legacy_reader *reader, size_t shard, const char *path,
                            dp_arena *arena) {
  dp_table_reader *table = reader->shards.items[shard].table;
  DP_RETURN_IF_ERROR(dp_table_reader_seek(table, (dp_view){"", 0}));
  Tensorflow__SavedTensorSlices *list = NULL;
  dp_status *status = NULL;
  if (dp_table_reader_is_valid(table) && dp_table_reader_key(table).length == 0) {
    dp_view value = dp_table_reader_value(table);
    status = dp_wire_unpack_bytes(&tensorflow__saved_tensor_slices__descriptor, value.data,
                                  value.length, arena, &list);
  }
  if (status || !list || !list->meta) {
    dp_status_release(status);
    return dp_status_create(DP_INTERNAL,
                            "Failed to find the saved tensor slices at the beginning of the "
                            "checkpoint file: %s",
                            path);
  }
  for (size_t i = 0; i < list->meta->n_tensor; ++i) {
    const Tensorflow__SavedSliceMeta *meta = list->meta->tensor[i];
    if (!dp_dtype_is_valid((int)meta->type))
      return dp_status_create(DP_DATA_LOSS, "%s: tensor %s has the dtype %d", path, meta->name,
                              (int)meta->type);
    for (size_t j = 0; j < meta->n_slice; ++j) {
      dp_slice slice;
      DP_RETURN_IF_ERROR(dp_bundle_slice_from_message(meta->slice[j], &slice));
      DP_RETURN_IF_ERROR(add_slice(reader, shard, meta, &slice));
    }
  }
  return NULL;
}

static dp_status *open_shard(dp_legacy_reader *reader, const char *path) {
  shard shard = {0};
  dp_status *status = dp_file_open(path, DP_FILE_READ, &shard.file);
  if (!status) {
    status = dp_table_reader_open(shard.file, &shard.table);
    if (status)
      status = dp_status_append(status, ": perhaps your file is in a different file format and "
                                        "you need to use a different restore operator?");
  }
  if (status) {
    dp_status *lost =
        dp_status_create(DP_DATA_LOSS, "Unable to open table file %s: %s: %s", path,
                         dp_code_name(dp_status_code(status)), dp_status_message(status));
    dp_status_release(status);
    dp_file_discard(shard.file);
    return lost;
  }
  DP_ARRAY_PUSH(&reader->shards, shard);
  dp_arena *arena = dp_arena_create();
  status = read_list(reader, reader->shards.count - 1, path, arena);
  dp_arena_destroy(arena);
  return status;
}

dp_status *dp_legacy_reader_open(const char *pattern, dp_legacy_reader **reader_out) {
  dp_name_list paths = {0};
  DP_RETURN_IF_ERROR(dp_path_match(pattern, &paths));
  dp_legacy_reader *reader = DP_NEW(dp_legacy_reader);
  reader->tensors = dp_map_create();
  dp_status *status = NULL;
  if (paths.count == 0)
    status = dp_status_create(DP_NOT_FOUND,
                              "Unsuccessful TensorSliceReader constructor: Failed to find any "
                              "matching files for %s",
                              pattern);
  for (size_t i = 0; i < paths.count && !status; ++i)
    status = open_shard(reader, paths.items[i]);
  dp_name_list_deinit(&paths);
  if (status) {
    dp_legacy_reader_destroy(reader);
    return status;
  }
  *reader_out = reader;
  return NULL;
}

/* ---- Values ---- */
static saved_tensor *find(dp_legacy_reader *reader, dp_view name) {
  return dp_map_get_n(reader->tensors, name.data, name.length);
}

bool dp_legacy_reader_find(dp_legacy_reader *reader, dp_view name, dp_dtype *dtype_out,
                           dp_shape *shape_out) {
  saved_tensor *tensor = find(reader, name);
  if (!tensor)
    return false;
  *dtype_out = tensor->dtype;
  *shape_out = tensor->shape;
  return true;
}

/* The file's TensorProto has values only: dtype and shape are put in front of them. */
static dp_status *decode_values(const saved_tensor *tensor, const dp_shape *shape, dp_view values,
                                dp_arena *arena, dp_tensor *tensor_out) {
  uint8_t *shape_bytes, number[20];
  size_t shape_length;
  DP_RETURN_IF_ERROR(
      dp_wire_pack_bytes(dp_wire_shape_message(shape, arena), arena, &shape_bytes, &shape_length));
  dp_text message = {0};
  number[0] = 1 << 3;
  number[1] = (uint8_t)tensor->dtype;
  number[2] = 2 << 3 | 2;
  dp_text_append(&message, number, 3 + dp_put_varint(number + 3, shape_length));
  dp_text_append(&message, shape_bytes, shape_length);
  dp_text_append(&message, values.data, values.length);
  dp_tensor decoded;
  dp_status *status = dp_wire_decode_tensor_bytes(message.data, message.length, &decoded);
  dp_text_deinit(&message);
  DP_RETURN_IF_ERROR(status);
  /* The values may bring a dtype and a shape of their own, which count more. */
  if (decoded.dtype != tensor->dtype || !dp_shape_equal(&decoded.shape, shape)) {
    dp_tensor_deinit(&decoded);
    return dp_status_create(DP_DATA_LOSS, "a stored slice has another shape or dtype");
  }
  *tensor_out = decoded;
  return NULL;
}

static dp_status *read_stored(dp_legacy_reader *reader, dp_view name, const saved_tensor *tensor,
                              size_t index, dp_arena *arena, dp_tensor *tensor_out) {
  const dp_slice *slice = &tensor->slices.items[index];
  dp_table_reader *table = reader->shards.items[tensor->shards.items[index]].table;
  dp_text key = {0};
  dp_slice_encode_key(name, slice, &key);
  dp_view wanted = {key.data, key.length};
  dp_status *status = dp_table_reader_seek(table, wanted);
  bool is_there = !status && dp_table_reader_is_valid(table) &&
                  dp_view_equal(dp_table_reader_key(table), wanted);
  dp_text_deinit(&key);
  DP_RETURN_IF_ERROR(status);
  if (!is_there)
    return DP_INVALID("Error copying slice data");
  Tensorflow__SavedTensorSlices *message;
  dp_view value = dp_table_reader_value(table);
  DP_RETURN_IF_ERROR(dp_wire_unpack_bytes(&tensorflow__saved_tensor_slices__descriptor, value.data,
                                          value.length, arena, &message));
  dp_shape shape;
  DP_RETURN_IF_ERROR(dp_slice_shape(slice, &tensor->shape, &shape));
  if (!message->data)
    return DP_INVALID("Error copying slice data");
  dp_view values = {(const char *)message->data->data.data, message->data->data.len};
  /* A value takes at least a byte: a shape that claims more than is there lies. */
  if (shape.elements > 0 && (uint64_t)shape.elements > values.length)
    return dp_status_create(DP_DATA_LOSS, "%.*s: too few values for the shape %s", (int)name.length,
                            name.data, dp_shape_text(&shape));
  return decode_values(tensor, &shape, values, arena, tensor_out);
}

/* One tensor of several stored slices. All are there before memory is taken for the whole, whose
 * size is only a claim until then. */
static dp_status *join_slices(dp_legacy_reader *reader, dp_view name, const saved_tensor *tensor,
                              const dp_slice *slice, const size_t *chosen, size_t count,
                              dp_arena *arena, dp_tensor *tensor_out) {
  dp_shape shape;
  DP_RETURN_IF_ERROR(dp_slice_shape(slice, &tensor->shape, &shape));
  dp_tensor *stored = DP_ARENA_ARRAY(arena, dp_tensor, count + 1);
  dp_tensor result = {0};
  dp_status *status = NULL;
  size_t read = 0;
  while (read < count && !status) {
    status = read_stored(reader, name, tensor, chosen[read], arena, &stored[read]);
    read += !status;
  }
  if (!status)
    status = dp_tensor_create(tensor->dtype, &shape, &result);
  for (size_t i = 0; i < read; ++i) {
    if (!status)
      dp_slice_copy(tensor->dtype, &tensor->shape, &tensor->slices.items[chosen[i]], stored[i].data,
                    slice, result.data);
    dp_tensor_deinit(&stored[i]);
  }
  if (!status)
    *tensor_out = result;
  return status;
}

static dp_status *read_slice(dp_legacy_reader *reader, dp_view name, const saved_tensor *tensor,
                             const dp_slice *slice, dp_arena *arena, dp_tensor *tensor_out) {
  size_t count;
  size_t *chosen = DP_ARENA_ARRAY(arena, size_t, tensor->slices.count + 1);
  if (!dp_slices_cover(&tensor->shape, tensor->slices.items, tensor->slices.count, slice, chosen,
                       &count))
    return DP_INVALID("Error copying slice data");
  if (count == 1 && dp_slice_equal(&tensor->slices.items[chosen[0]], slice))
    return read_stored(reader, name, tensor, chosen[0], arena, tensor_out);
  return join_slices(reader, name, tensor, slice, chosen, count, arena, tensor_out);
}

dp_status *dp_legacy_reader_read(dp_legacy_reader *reader, dp_view name, const dp_slice *slice,
                                 dp_tensor *tensor_out) {
  saved_tensor *tensor = find(reader, name);
  if (!tensor)
    return dp_status_create(DP_NOT_FOUND, "%.*s not found in checkpoint file", (int)name.length,
                            name.data);
  dp_shape shape;
  DP_RETURN_IF_ERROR(dp_slice_shape(slice, &tensor->shape, &shape));
  dp_arena *arena = dp_arena_create();
  dp_status *status = read_slice(reader, name, tensor, slice, arena, tensor_out);
  dp_arena_destroy(arena);
  return status;
}
