/* Reads V1 checkpoints (legacy.h). The lists of all shards are joined when the reader opens; values
 * are decoded when they are asked for.
 *
 * A graph restores each variable with an op of its own, all from one checkpoint. Therefore readers
 * that are given back stay open for a few seconds for the next op. Such a reader is used again only
 * if its paths still name the files that it has open. A mutex guards the list of idle readers; the
 * timer thread destroys them. */
#include <pthread.h>
#include <string.h>
#include "base/arena.h"
#include "base/clock.h"
#include "base/map.h"
#include "base/timer.h"
#include "storage/bundle_internal.h"
#include "storage/legacy.h"
#include "storage/table_internal.h"
#include "wire/control.h"
#include "wire/shape_message.h"
#include "wire/tensor_codec.h"

enum { MOST_IDLE = 8 };
static const int64_t idle_nanos = INT64_C(5000000000);

typedef struct legacy_shard {
  char *path;
  dp_file_information information; /* from before it was opened */
  dp_file *file;
  dp_table_reader *table;
} legacy_shard;

/* A tensor: its slices, and the shard that holds each. */
typedef struct saved_tensor {
  dp_dtype dtype;
  dp_shape shape;
  DP_ARRAY(dp_slice) slices;
  DP_ARRAY(size_t) shards;
} saved_tensor;

struct dp_legacy_reader {
  char *pattern;
  DP_ARRAY(legacy_shard) shards;
  dp_map *tensors;
  int64_t idle_since;
};

static void close_shard(legacy_shard *shard) {
  dp_table_reader_destroy(shard->table);
  dp_file_discard(shard->file);
  dp_free(shard->path);
}

static void destroy(dp_legacy_reader *reader) {
  if (!reader)
    return;
  for (size_t i = 0; i < reader->shards.count; ++i)
    close_shard(&reader->shards.items[i]);
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
  dp_free(reader->pattern);
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
  legacy_shard shard = {.path = dp_strdup(path)};
  dp_status *status = dp_path_information(path, &shard.information);
  if (!status)
    status = dp_file_open(path, DP_FILE_READ, &shard.file);
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
    close_shard(&shard);
    return lost;
  }
  DP_ARRAY_PUSH(&reader->shards, shard);
  dp_arena *arena = dp_arena_create();
  status = read_list(reader, reader->shards.count - 1, path, arena);
  dp_arena_destroy(arena);
  return status;
}

static dp_status *open_all(const char *pattern, dp_legacy_reader **reader_out) {
  dp_name_list paths = {0};
  DP_RETURN_IF_ERROR(dp_path_match(pattern, &paths));
  dp_legacy_reader *reader = DP_NEW(dp_legacy_reader);
  reader->pattern = dp_strdup(pattern);
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
    destroy(reader);
    return status;
  }
  *reader_out = reader;
  return NULL;
}

/* ---- Idle readers ---- */
static struct {
  pthread_mutex_t mutex;
  DP_ARRAY(dp_legacy_reader *) readers; /* the longest idle first */
  bool has_timer;
} idle = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static dp_legacy_reader *take_idle(size_t index) {
  dp_legacy_reader *reader = idle.readers.items[index];
  --idle.readers.count;
  memmove(&idle.readers.items[index], &idle.readers.items[index + 1],
          (idle.readers.count - index) * sizeof *idle.readers.items);
  return reader;
}

static void start_timer(void);

static void end_oldest(void *arg) {
  (void)arg;
  pthread_mutex_lock(&idle.mutex);
  idle.has_timer = false;
  while (idle.readers.count > 0 &&
         idle.readers.items[0]->idle_since + idle_nanos <= dp_clock_nanos())
    destroy(take_idle(0));
  start_timer();
  pthread_mutex_unlock(&idle.mutex);
}

static void start_timer(void) {
  if (idle.has_timer || idle.readers.count == 0)
    return;
  idle.has_timer = true;
  dp_timer_start(idle.readers.items[0]->idle_since + idle_nanos, end_oldest, NULL);
}

static bool is_unchanged(const legacy_shard *shard) {
  dp_file_information now;
  dp_status *status = dp_path_information(shard->path, &now);
  bool is_same = !status && now.identity != 0 && now.identity == shard->information.identity &&
                 now.size == shard->information.size &&
                 now.modified_nanos == shard->information.modified_nanos;
  dp_status_release(status);
  return is_same;
}

/* Whether the pattern still matches exactly the files that the reader has open. */
static bool is_current(const dp_legacy_reader *reader) {
  if (strpbrk(reader->pattern, "*?[\\")) {
    dp_name_list paths = {0};
    dp_status_release(dp_path_match(reader->pattern, &paths));
    bool is_same = paths.count == reader->shards.count;
    for (size_t i = 0; i < paths.count && is_same; ++i)
      is_same = strcmp(paths.items[i], reader->shards.items[i].path) == 0;
    dp_name_list_deinit(&paths);
    if (!is_same)
      return false;
  }
  for (size_t i = 0; i < reader->shards.count; ++i)
    if (!is_unchanged(&reader->shards.items[i]))
      return false;
  return true;
}

dp_status *dp_legacy_reader_take(const char *pattern, dp_legacy_reader **reader_out) {
  DP_RETURN_IF_ERROR(dp_storage_check_path(pattern));
  dp_legacy_reader *reader = NULL;
  pthread_mutex_lock(&idle.mutex);
  for (size_t i = idle.readers.count; i-- > 0 && !reader;)
    if (strcmp(idle.readers.items[i]->pattern, pattern) == 0)
      reader = take_idle(i);
  pthread_mutex_unlock(&idle.mutex);
  if (reader && is_current(reader)) {
    *reader_out = reader;
    return NULL;
  }
  destroy(reader);
  return open_all(pattern, reader_out);
}

void dp_legacy_reader_give(dp_legacy_reader *reader) {
  if (!reader)
    return;
  for (size_t i = 0; i < reader->shards.count; ++i)
    dp_table_reader_rest(reader->shards.items[i].table);
  reader->idle_since = dp_clock_nanos();
  pthread_mutex_lock(&idle.mutex);
  dp_legacy_reader *surplus = idle.readers.count == MOST_IDLE ? take_idle(0) : NULL;
  DP_ARRAY_PUSH(&idle.readers, reader);
  start_timer();
  pthread_mutex_unlock(&idle.mutex);
  destroy(surplus);
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

/* The TensorProto in the file has only values: dtype and shape are added in front of them. */
static dp_status *add_head(const saved_tensor *tensor, const dp_shape *shape, dp_arena *arena,
                           dp_rope *message) {
  uint8_t *shape_bytes, number[20];
  size_t shape_length;
  DP_RETURN_IF_ERROR(
      dp_wire_pack_bytes(dp_wire_shape_message(shape, arena), arena, &shape_bytes, &shape_length));
  number[0] = 1 << 3;
  number[1] = (uint8_t)tensor->dtype;
  number[2] = 2 << 3 | 2;
  DP_RETURN_IF_ERROR(dp_rope_append(message, number, 3 + dp_put_varint(number + 3, shape_length)));
  return dp_rope_append(message, shape_bytes, shape_length);
}

static dp_status *decode_values(const saved_tensor *tensor, const dp_shape *shape, dp_view values,
                                dp_buffer *memory, dp_arena *arena, dp_tensor *tensor_out) {
  dp_rope message = {0};
  dp_tensor decoded;
  dp_status *status = add_head(tensor, shape, arena, &message);
  if (!status) {
    dp_rope_append_piece(&message, dp_buffer_retain(memory), values.data, values.length);
    dp_rope_reader reader = dp_rope_read(&message);
    status = dp_wire_decode_tensor(&reader, &decoded);
  }
  dp_rope_deinit(&message);
  DP_RETURN_IF_ERROR(status);
  /* A damaged file's values may have a dtype and a shape too, which override those in front. */
  if (decoded.dtype != tensor->dtype || !dp_shape_equal(&decoded.shape, shape)) {
    dp_tensor_deinit(&decoded);
    return dp_status_create(DP_DATA_LOSS, "a stored slice has another shape or dtype");
  }
  *tensor_out = decoded;
  return NULL;
}

/* Finds the last field of that number in a message; false when there is none, when it is not bytes,
 * or when the message is malformed. Unpacking the message would copy the tensor. */
static bool find_bytes(dp_view message, uint64_t number, dp_view *bytes_out) {
  const uint8_t *at = (const uint8_t *)message.data, *end = at + message.length;
  bool is_found = false;
  while (at < end) {
    uint64_t tag, length = 0;
    if (!(at = dp_get_varint(at, end, &tag)))
      return false;
    switch (tag & 7) {
    case 0:
      at = dp_get_varint(at, end, &length);
      length = 0;
      break;
    case 1:
      length = 8;
      break;
    case 2:
      at = dp_get_varint(at, end, &length);
      break;
    case 5:
      length = 4;
      break;
    default:
      return false;
    }
    if (!at || length > (uint64_t)(end - at))
      return false;
    if (tag == (number << 3 | 2)) {
      *bytes_out = (dp_view){(const char *)at, (size_t)length};
      is_found = true;
    }
    at += length;
  }
  return is_found;
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
  enum { DATA_OF_SLICES = 2, DATA_OF_SLICE = 3 };
  dp_view saved, values;
  if (!is_there || !find_bytes(dp_table_reader_value(table), DATA_OF_SLICES, &saved) ||
      !find_bytes(saved, DATA_OF_SLICE, &values))
    return DP_INVALID("Error copying slice data");
  dp_shape shape;
  DP_RETURN_IF_ERROR(dp_slice_shape(slice, &tensor->shape, &shape));
  /* A value takes at least one byte: a shape with more elements than bytes is wrong. */
  if (shape.elements > 0 && (uint64_t)shape.elements > values.length)
    return dp_status_create(DP_DATA_LOSS, "%.*s: too few values for the shape %s", (int)name.length,
                            name.data, dp_shape_text(&shape));
  return decode_values(tensor, &shape, values, dp_table_reader_memory(table), arena, tensor_out);
}

/* Makes one tensor from several stored slices. All slices are read before memory is taken for the
 * whole: until then its size is only what the file claims. */
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
