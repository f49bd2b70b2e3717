/* Dense tables: buckets in two tensors, found by hash and quadratic probing exactly as in
 * TensorFlow. Export shares the tensors with the caller; a later change works on copies. All
 * functions are called with the table's lock held. */
#include "kernels/tables/lookup.h"

#include "base/checksum.h"

void dp_lookup_dense_deinit(dp_lookup *table) {
  dp_lookup_buckets *buckets = &table->buckets;
  dp_tensor_deinit(&buckets->empty_key);
  dp_tensor_deinit(&buckets->deleted_key);
  dp_tensor_deinit(&buckets->keys);
  dp_tensor_deinit(&buckets->values);
}

/* ---- Keys ---- */
static uint64_t hash_scalar(dp_dtype dtype, const void *key) {
  switch (dtype) {
  case DP_STRING:
    return dp_hash64(dp_tstring_data(key), dp_tstring_size(key), 0xDECAFCAFFE);
  case DP_INT32:
    return (uint64_t) * (const int32_t *)key;
  default:
    return *(const uint64_t *)key;
  }
}

static uint64_t hash_key(const dp_lookup *table, const char *key) {
  int64_t size = table->key_shape.elements;
  if (size == 1)
    return hash_scalar(table->key_dtype, key);
  uint64_t hash = 0;
  for (int64_t i = 0; i < size; ++i, key += dp_dtype_size(table->key_dtype)) {
    uint64_t next = hash_scalar(table->key_dtype, key);
    hash = hash ^ (next + 0x9e3779b97f4a7800ULL + (hash << 10) + (hash >> 4));
  }
  return hash;
}

static char *row(const dp_tensor *tensor, int64_t index, const dp_shape *shape) {
  return (char *)tensor->data + (size_t)(index * shape->elements) * dp_dtype_size(tensor->dtype);
}

static bool same_key(const dp_lookup *table, const void *a, const void *b) {
  return dp_lookup_same(table->key_dtype, a, b, table->key_shape.elements);
}

static bool is_empty(const dp_lookup *table, const void *key) {
  return same_key(table, key, table->buckets.empty_key.data);
}

static bool is_deleted(const dp_lookup *table, const void *key) {
  return same_key(table, key, table->buckets.deleted_key.data);
}

static dp_status *check_key(const dp_lookup *table, const void *key) {
  if (is_empty(table, key))
    return DP_INVALID("Using the empty_key as a table key is not allowed");
  if (is_deleted(table, key))
    return DP_INVALID("Using the deleted_key as a table key is not allowed");
  return NULL;
}

/* ---- Buckets ---- */
static dp_status *make_buckets(dp_lookup *table, int64_t count) {
  dp_lookup_buckets *buckets = &table->buckets;
  if (count < 4 || (count & (count - 1)) != 0)
    return DP_INVALID("Number of buckets must be at least 4 and a power of 2, got: %lld",
                      (long long)count);
  int64_t key_dims[2] = {count, table->key_shape.elements};
  int64_t value_dims[2] = {count, table->value_shape.elements};
  dp_shape key_shape, value_shape;
  DP_RETURN_IF_ERROR(dp_shape_make(2, key_dims, &key_shape));
  DP_RETURN_IF_ERROR(dp_shape_make(2, value_dims, &value_shape));
  dp_tensor keys, values;
  DP_RETURN_IF_ERROR(dp_tensor_create(table->key_dtype, &key_shape, &keys));
  dp_status *status = dp_tensor_create_zero(table->value_dtype, &value_shape, &values);
  if (status) {
    dp_tensor_deinit(&keys);
    return status;
  }
  for (int64_t i = 0; i < count; ++i)
    dp_tensor_copy_elements(table->key_dtype, row(&keys, i, &table->key_shape),
                            buckets->empty_key.data, table->key_shape.elements);
  dp_tensor_deinit(&buckets->keys);
  dp_tensor_deinit(&buckets->values);
  buckets->keys = keys;
  buckets->values = values;
  buckets->buckets = count;
  buckets->count = 0;
  return NULL;
}

dp_status *dp_lookup_dense_start(dp_lookup *table, const dp_tensor *empty_key,
                                 const dp_tensor *deleted_key, int64_t count, float max_load) {
  dp_lookup_buckets *buckets = &table->buckets;
  if (!(max_load > 0 && max_load < 1))
    return DP_INVALID("max_load_factor must be between 0 and 1, got: %g", (double)max_load);
  if (table->value_shape.rank > 1)
    return DP_INVALID("Empty value must be a scalar or a vector, got shape %s",
                      dp_shape_text(&table->value_shape));
  if (empty_key->shape.rank > 1)
    return DP_INVALID("Empty key must be a scalar or a vector, got shape %s",
                      dp_shape_text(&empty_key->shape));
  if (!dp_shape_equal(&empty_key->shape, &deleted_key->shape))
    return DP_INVALID("Empty and deleted keys must have same shape, got shapes: %s and %s",
                      dp_shape_text(&empty_key->shape), dp_shape_text(&deleted_key->shape));
  table->key_shape = empty_key->shape;
  if (same_key(table, empty_key->data, deleted_key->data))
    return DP_INVALID("Empty and deleted keys cannot be equal");
  buckets->empty_key = dp_tensor_copy(empty_key);
  buckets->deleted_key = dp_tensor_copy(deleted_key);
  buckets->max_load = max_load;
  return make_buckets(table, count);
}

/* Finds the bucket of a key: the one that holds it, or the first empty one on its probe sequence
 * (*found_out is false then). With `reuse`, a deleted bucket is taken like an empty one. */
static dp_status *probe(const dp_lookup *table, const char *key, bool reuse, int64_t *bucket_out,
                        bool *found_out) {
  const dp_lookup_buckets *buckets = &table->buckets;
  int64_t mask = buckets->buckets - 1, at = (int64_t)(hash_key(table, key) & (uint64_t)mask);
  for (int64_t probes = 0; probes < buckets->buckets;) {
    const char *held = row(&buckets->keys, at, &table->key_shape);
    *bucket_out = at;
    *found_out = same_key(table, held, key);
    if (*found_out || is_empty(table, held) || (reuse && is_deleted(table, held)))
      return NULL;
    at = (at + ++probes) & mask;
  }
  return dp_status_create(DP_INTERNAL, "Internal error in MutableDenseHashTable lookup");
}

/* ---- Operations ---- */
dp_status *dp_lookup_dense_find(const dp_lookup *table, const dp_tensor *keys, int64_t count,
                                const dp_tensor *defaults, bool has_default_each,
                                const dp_tensor *values) {
  for (int64_t i = 0; i < count; ++i) {
    const char *key = row(keys, i, &table->key_shape);
    int64_t bucket;
    bool found;
    DP_RETURN_IF_ERROR(check_key(table, key));
    DP_RETURN_IF_ERROR(probe(table, key, false, &bucket, &found));
    const char *value = found ? row(&table->buckets.values, bucket, &table->value_shape)
                              : row(defaults, has_default_each ? i : 0, &table->value_shape);
    dp_tensor_copy_elements(table->value_dtype, row(values, i, &table->value_shape), value,
                            table->value_shape.elements);
  }
  return NULL;
}

/* Copies a tensor before it is changed if somebody else holds it. */
static dp_status *make_writable(dp_tensor *tensor) {
  if (dp_tensor_is_unique(tensor))
    return NULL;
  dp_tensor copy;
  DP_RETURN_IF_ERROR(dp_tensor_clone(tensor, &copy));
  dp_tensor_deinit(tensor);
  *tensor = copy;
  return NULL;
}

static dp_status *put(dp_lookup *table, const char *key, const char *value) {
  dp_lookup_buckets *buckets = &table->buckets;
  int64_t bucket;
  bool found;
  DP_RETURN_IF_ERROR(probe(table, key, true, &bucket, &found));
  if (!found) {
    ++buckets->count;
    dp_tensor_copy_elements(table->key_dtype, row(&buckets->keys, bucket, &table->key_shape), key,
                            table->key_shape.elements);
  }
  dp_tensor_copy_elements(table->value_dtype, row(&buckets->values, bucket, &table->value_shape),
                          value, table->value_shape.elements);
  return NULL;
}

static dp_status *put_old(dp_lookup *table, const dp_tensor *keys, const dp_tensor *values,
                          int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    const char *key = row(keys, i, &table->key_shape);
    if (!is_empty(table, key) && !is_deleted(table, key))
      DP_RETURN_IF_ERROR(put(table, key, row(values, i, &table->value_shape)));
  }
  return NULL;
}

static dp_status *make_room(dp_lookup *table, int64_t count) {
  dp_lookup_buckets *buckets = &table->buckets;
  int64_t wanted = buckets->count + count, size = buckets->buckets;
  if ((double)wanted <= (double)((float)size * buckets->max_load))
    return NULL;
  while ((double)wanted > (double)((float)size * buckets->max_load))
    size *= 2;
  dp_tensor keys = dp_tensor_copy(&buckets->keys), values = dp_tensor_copy(&buckets->values);
  int64_t old = buckets->buckets;
  dp_status *status = make_buckets(table, size);
  if (!status)
    status = put_old(table, &keys, &values, old);
  dp_tensor_deinit(&keys);
  dp_tensor_deinit(&values);
  return status;
}

dp_status *dp_lookup_dense_insert(dp_lookup *table, const dp_tensor *keys, const dp_tensor *values,
                                  int64_t count) {
  DP_RETURN_IF_ERROR(make_room(table, count));
  DP_RETURN_IF_ERROR(make_writable(&table->buckets.keys));
  DP_RETURN_IF_ERROR(make_writable(&table->buckets.values));
  for (int64_t i = 0; i < count; ++i) {
    const char *key = row(keys, i, &table->key_shape);
    DP_RETURN_IF_ERROR(check_key(table, key));
    DP_RETURN_IF_ERROR(put(table, key, row(values, i, &table->value_shape)));
  }
  return NULL;
}

dp_status *dp_lookup_dense_remove(dp_lookup *table, const dp_tensor *keys, int64_t count) {
  DP_RETURN_IF_ERROR(make_writable(&table->buckets.keys));
  for (int64_t i = 0; i < count; ++i) {
    const char *key = row(keys, i, &table->key_shape);
    int64_t bucket;
    bool found;
    DP_RETURN_IF_ERROR(check_key(table, key));
    DP_RETURN_IF_ERROR(probe(table, key, false, &bucket, &found));
    if (!found)
      continue;
    --table->buckets.count;
    dp_tensor_copy_elements(table->key_dtype, row(&table->buckets.keys, bucket, &table->key_shape),
                            table->buckets.deleted_key.data, table->key_shape.elements);
  }
  return NULL;
}

/* Imports what export returned: a whole set of buckets. */
dp_status *dp_lookup_dense_import(dp_lookup *table, const dp_tensor *keys,
                                  const dp_tensor *values) {
  if (keys->dtype != table->key_dtype || values->dtype != table->value_dtype)
    return DP_INVALID("A table of %s -> %s cannot import %s -> %s", dp_dtype_name(table->key_dtype),
                      dp_dtype_name(table->value_dtype), dp_dtype_name(keys->dtype),
                      dp_dtype_name(values->dtype));
  int64_t count = keys->shape.rank ? keys->shape.dims[0] : 0;
  if (keys->shape.elements != count * table->key_shape.elements)
    return DP_INVALID("Expected key shape [%lld,%lld] got %s", (long long)count,
                      (long long)table->key_shape.elements, dp_shape_text(&keys->shape));
  if (values->shape.rank == 0 || values->shape.dims[0] != count ||
      values->shape.elements != count * table->value_shape.elements)
    return DP_INVALID("Expected shape [%lld,%lld] for value, got %s", (long long)count,
                      (long long)table->value_shape.elements, dp_shape_text(&values->shape));
  int64_t size = 4;
  while (size < count)
    size *= 2;
  DP_RETURN_IF_ERROR(make_buckets(table, size));
  return put_old(table, keys, values, count);
}
