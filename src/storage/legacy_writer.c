/* Writes V1 checkpoints (legacy.h). Values go into the typed fields of TensorProto, the only ones
 * that old readers look at, without dtype and shape. dp_legacy_writer_add encodes them in memory;
 * dp_legacy_writer_finish sorts the entries and writes the table. */
#include <stdlib.h>
#include <string.h>
#include "base/arena.h"
#include "base/map.h"
#include "storage/bundle_internal.h"
#include "storage/legacy.h"
#include "storage/table_internal.h"
#include "wire/control.h"
#include "wire/shape_message.h"

typedef struct record {
  dp_view key;
  dp_view value;
} record;

struct dp_legacy_writer {
  char *path;
  dp_arena *arena;
  dp_map *names; /* from the name of a tensor to its SavedSliceMeta */
  DP_ARRAY(Tensorflow__SavedSliceMeta *) tensors;
  dp_map *keys;
  DP_ARRAY(record) records;
};

dp_legacy_writer *dp_legacy_writer_create(const char *path) {
  dp_legacy_writer *writer = DP_NEW(dp_legacy_writer);
  writer->path = dp_strdup(path);
  writer->arena = dp_arena_create();
  writer->names = dp_map_create();
  writer->keys = dp_map_create();
  return writer;
}

void dp_legacy_writer_destroy(dp_legacy_writer *writer) {
  if (!writer)
    return;
  for (size_t i = 0; i < writer->records.count; ++i)
    dp_free((char *)writer->records.items[i].value.data);
  DP_ARRAY_FREE(&writer->records);
  DP_ARRAY_FREE(&writer->tensors);
  dp_map_destroy(writer->names);
  dp_map_destroy(writer->keys);
  dp_arena_destroy(writer->arena);
  dp_free(writer->path);
  dp_free(writer);
}

/* ---- Values ---- */
enum { FLOAT_VAL = 5, DOUBLE_VAL, INT_VAL, STRING_VAL, SCOMPLEX_VAL, INT64_VAL, BOOL_VAL };
enum { DCOMPLEX_VAL = 12, HALF_VAL = 13 };

/* The field of TensorProto for values of a dtype; 0 for dtypes that V1 does not have. */
static int field_of(dp_dtype dtype) {
  switch (dtype) {
  case DP_FLOAT:
    return FLOAT_VAL;
  case DP_DOUBLE:
    return DOUBLE_VAL;
  case DP_INT8:
  case DP_UINT8:
  case DP_INT16:
  case DP_UINT16:
  case DP_INT32:
  case DP_QINT8:
  case DP_QUINT8:
  case DP_QINT16:
  case DP_QUINT16:
  case DP_QINT32:
    return INT_VAL;
  case DP_STRING:
    return STRING_VAL;
  case DP_COMPLEX64:
    return SCOMPLEX_VAL;
  case DP_INT64:
    return INT64_VAL;
  case DP_BOOL:
    return BOOL_VAL;
  case DP_COMPLEX128:
    return DCOMPLEX_VAL;
  case DP_HALF:
    return HALF_VAL;
  default:
    return 0;
  }
}

static void add_head(dp_text *bytes, int field, uint64_t length) {
  uint8_t head[20];
  size_t count = dp_put_varint(head, (uint64_t)field << 3 | 2);
  count += dp_put_varint(head + count, length);
  dp_text_append(bytes, head, count);
}

static uint64_t varint_at(const dp_tensor *tensor, int64_t index) {
  if (tensor->dtype == DP_HALF)
    return ((const uint16_t *)tensor->data)[index];
  return (uint64_t)dp_tensor_int_at(tensor, index);
}

static bool is_fixed(const dp_tensor *tensor, int field) {
  return dp_dtype_is_complex(tensor->dtype) || field == FLOAT_VAL || field == DOUBLE_VAL;
}

static size_t head_length(int field, uint64_t length) {
  uint8_t head[20];
  size_t count = dp_put_varint(head, (uint64_t)field << 3 | 2);
  return count + dp_put_varint(head + count, length);
}

/* The length of the encoded values: for strings with the tag and length of each, for other dtypes
 * without the tag and length of the packed field. */
static uint64_t packed_length(const dp_tensor *tensor, int field) {
  int64_t count = dp_tensor_elements(tensor);
  uint64_t length = 0;
  uint8_t varint[10];
  if (is_fixed(tensor, field))
    return dp_tensor_bytes(tensor);
  for (int64_t i = 0; i < count; ++i) {
    if (field == STRING_VAL) {
      size_t bytes = dp_tstring_view(&dp_tensor_strings(tensor)[i]).length;
      length += head_length(field, bytes) + bytes;
    } else {
      length += dp_put_varint(varint, varint_at(tensor, i));
    }
  }
  return length;
}

/* Appends the TensorProto. */
static void add_values(const dp_tensor *tensor, int field, uint64_t packed, dp_text *bytes) {
  int64_t count = dp_tensor_elements(tensor);
  uint8_t varint[10];
  if (count == 0)
    return;
  if (field != STRING_VAL)
    add_head(bytes, field, packed);
  if (is_fixed(tensor, field)) {
    dp_text_append(bytes, tensor->data, dp_tensor_bytes(tensor));
    return;
  }
  for (int64_t i = 0; i < count; ++i) {
    if (field == STRING_VAL) {
      dp_view view = dp_tstring_view(&dp_tensor_strings(tensor)[i]);
      add_head(bytes, field, view.length);
      dp_text_append(bytes, view.data, view.length);
    } else {
      dp_text_append(bytes, varint, dp_put_varint(varint, varint_at(tensor, i)));
    }
  }
}

/* ---- Tensors ---- */
static dp_status *note_tensor(dp_legacy_writer *writer, dp_view name, const dp_shape *whole,
                              const dp_slice *slice, dp_dtype dtype) {
  Tensorflow__SavedSliceMeta *meta = dp_map_get_n(writer->names, name.data, name.length);
  if (!meta) {
    meta = dp_wire_new(writer->arena, &tensorflow__saved_slice_meta__descriptor);
    meta->name = dp_arena_strndup(writer->arena, name.data, name.length);
    meta->shape = dp_wire_shape_message(whole, writer->arena);
    meta->type = (Tensorflow__DataType)dtype;
    dp_map_put_n(writer->names, name.data, name.length, meta);
    DP_ARRAY_PUSH(&writer->tensors, meta);
  } else {
    dp_shape known;
    DP_RETURN_IF_ERROR(dp_wire_shape(meta->shape, &known));
    if (!dp_shape_equal(&known, whole))
      return dp_status_create(
          DP_INTERNAL,
          "Mismatching shapes: existing tensor = %s, trying to add name %s, shape = %s",
          dp_shape_text(&known), meta->name, dp_shape_text(whole));
    if ((dp_dtype)meta->type != dtype)
      return dp_status_create(DP_INTERNAL,
                              "Mismatching types: existing type = %s, trying to add name %s, type "
                              "= %s",
                              dp_dtype_name((int)meta->type), meta->name, dp_dtype_name(dtype));
  }
  Tensorflow__TensorSliceProto **slices =
      DP_ARENA_ARRAY(writer->arena, Tensorflow__TensorSliceProto *, meta->n_slice + 1);
  if (meta->n_slice > 0)
    memcpy(slices, meta->slice, meta->n_slice * sizeof *slices);
  slices[meta->n_slice++] = dp_bundle_slice_message(slice, writer->arena);
  meta->slice = slices;
  return NULL;
}

dp_status *dp_legacy_writer_add(dp_legacy_writer *writer, dp_view name, const dp_shape *whole,
                                const dp_slice *slice, const dp_tensor *tensor) {
  int field = field_of(tensor->dtype);
  if (tensor->dtype == DP_UINT32 || tensor->dtype == DP_UINT64)
    return DP_INVALID("Tensor slice serialization not implemented for dtype %d",
                      (int)tensor->dtype);
  if (field == 0)
    return dp_status_create(DP_UNIMPLEMENTED, "Saving data type %s not yet supported",
                            dp_dtype_name(tensor->dtype));
  DP_RETURN_IF_ERROR(note_tensor(writer, name, whole, slice, tensor->dtype));
  uint8_t *slice_bytes;
  size_t slice_length;
  DP_RETURN_IF_ERROR(dp_wire_pack_bytes(dp_bundle_slice_message(slice, writer->arena),
                                        writer->arena, &slice_bytes, &slice_length));
  uint64_t packed = packed_length(tensor, field), values = packed;
  if (field != STRING_VAL && packed > 0)
    values += head_length(field, packed);
  if (values > INT32_MAX - 1024 - name.length)
    return DP_INVALID("Tensor slice is too large to serialize (conservative estimate: %llu bytes)",
                      (unsigned long long)values);
  dp_text key = {0};
  dp_slice_encode_key(name, slice, &key);
  dp_view copy = {dp_arena_strndup(writer->arena, key.data, key.length), key.length};
  bool is_new = dp_map_put_n(writer->keys, key.data, key.length, writer) == NULL;
  dp_text_deinit(&key);
  if (!is_new)
    return DP_INVALID("Adding duplicate key: %.*s", (int)name.length, name.data);
  /* SavedTensorSlices { data { name, slice, data } } */
  dp_text head = {0}, message = {0};
  add_head(&head, 1, name.length);
  dp_text_append(&head, name.data, name.length);
  add_head(&head, 2, slice_length);
  dp_text_append(&head, slice_bytes, slice_length);
  add_head(&head, 3, values);
  add_head(&message, 2, head.length + values);
  dp_text_append(&message, head.data, head.length);
  add_values(tensor, field, packed, &message);
  dp_text_deinit(&head);
  DP_ARRAY_PUSH(&writer->records, ((record){copy, {message.data, message.length}}));
  return NULL;
}

static int compare_records(const void *a, const void *b) {
  return dp_view_compare(((const record *)a)->key, ((const record *)b)->key);
}

static dp_status *write_table(dp_legacy_writer *writer, dp_file *file) {
  Tensorflow__VersionDef versions = TENSORFLOW__VERSION_DEF__INIT;
  versions.producer = 1;
  Tensorflow__SavedTensorSliceMeta meta = TENSORFLOW__SAVED_TENSOR_SLICE_META__INIT;
  meta.n_tensor = writer->tensors.count;
  meta.tensor = writer->tensors.items;
  meta.versions = &versions;
  Tensorflow__SavedTensorSlices slices = TENSORFLOW__SAVED_TENSOR_SLICES__INIT;
  slices.meta = &meta;
  uint8_t *data;
  size_t length;
  DP_RETURN_IF_ERROR(dp_wire_pack_bytes(&slices, writer->arena, &data, &length));
  dp_table_writer *table = dp_table_writer_create(file);
  dp_status *status =
      dp_table_writer_add(table, (dp_view){"", 0}, (dp_view){(const char *)data, length});
  for (size_t i = 0; i < writer->records.count && !status; ++i)
    status =
        dp_table_writer_add(table, writer->records.items[i].key, writer->records.items[i].value);
  if (!status)
    status = dp_table_writer_finish(table);
  dp_table_writer_destroy(table);
  return status;
}

dp_status *dp_legacy_writer_finish(dp_legacy_writer *writer) {
  if (writer->records.count > 0)
    qsort(writer->records.items, writer->records.count, sizeof(record), compare_records);
  dp_file *file;
  DP_RETURN_IF_ERROR(dp_file_create_atomic(writer->path, &file));
  dp_status *status = write_table(writer, file);
  if (status) {
    dp_file_abandon(file);
    return status;
  }
  return dp_file_commit(file);
}
