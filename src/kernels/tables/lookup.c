/* The hash map behind fixed and mutable tables, and the checks that all kinds of tables share
 * (contracts in lookup.h). Entries are dense arrays of keys, values and hashes; an index of open
 * addressing over them finds a key. The functions for all kinds take the table's lock. */
#include "kernels/tables/lookup.h"

#include <string.h>
#include "base/map.h"
#include "base/memory.h"

/* ---- Elements ---- */
bool dp_lookup_same(dp_dtype dtype, const void *a, const void *b, int64_t count) {
  if (dtype != DP_STRING)
    return memcmp(a, b, (size_t)count * dp_dtype_size(dtype)) == 0;
  for (int64_t i = 0; i < count; ++i)
    if (!dp_view_equal(dp_tstring_view((const dp_tstring *)a + i),
                       dp_tstring_view((const dp_tstring *)b + i)))
      return false;
  return true;
}

static inline const char *element(const dp_tensor *tensor, int64_t index) {
  return (const char *)tensor->data + (size_t)index * dp_dtype_size(tensor->dtype);
}

/* The bytes of a key. */
static inline dp_view key_bytes(const dp_lookup *table, const void *key) {
  return table->key_dtype == DP_STRING ? dp_tstring_view(key) : (dp_view){key, table->key_bytes};
}

static inline uint64_t word_at(const char *at) {
  uint64_t word;
  memcpy(&word, at, sizeof word);
  return word;
}

/* Most keys that are not strings are 64-bit integers. */
static inline uint64_t hash_key(dp_view key) {
  if (key.length != 8)
    return dp_hash_bytes(key.data, key.length);
  uint64_t mixed = word_at(key.data) * UINT64_C(0x9e3779b97f4a7c15);
  return mixed ^ mixed >> 32;
}

static inline bool is_same_key(dp_view a, dp_view b) {
  if (a.length != b.length || a.length < 8)
    return a.length == b.length && memcmp(a.data, b.data, a.length) == 0;
  for (size_t i = 0; i + 8 < a.length; i += 8)
    if (word_at(a.data + i) != word_at(b.data + i))
      return false;
  return word_at(a.data + a.length - 8) == word_at(b.data + b.length - 8);
}

/* Most values are a single number, which is copied without a call. */
static inline void copy_value(const dp_lookup *table, void *to, const void *from) {
  if (table->is_value_plain && table->value_bytes == 8)
    memcpy(to, from, 8);
  else if (table->is_value_plain && table->value_bytes == 4)
    memcpy(to, from, 4);
  else
    dp_tensor_copy_elements(table->value_dtype, to, from, table->value_shape.elements);
}

static inline void copy_key(const dp_lookup *table, void *to, const void *from) {
  if (table->key_bytes == 8)
    memcpy(to, from, 8);
  else
    dp_tensor_copy_elements(table->key_dtype, to, from, 1);
}

/* ---- The map ---- */
static void map_deinit(dp_lookup_map *map) {
  dp_tensor_deinit(&map->keys);
  dp_tensor_deinit(&map->values);
  dp_free(map->hashes);
  dp_free(map->slots);
  *map = (dp_lookup_map){0};
}

/* Empties the map. Memory for about `wanted` entries is kept if the elements are numbers. */
static void map_clear(const dp_lookup *table, dp_lookup_map *map, int64_t wanted) {
  bool is_plain = dp_dtype_is_plain(table->key_dtype) && dp_dtype_is_plain(table->value_dtype);
  if (!is_plain || map->capacity < wanted || map->capacity / 4 > wanted) {
    map_deinit(map);
    return;
  }
  memset(map->slots, 0, sizeof *map->slots * (size_t)(map->slot_mask + 1));
  map->count = 0;
}

/* Moves the elements to larger memory. The old tensor still frees its strings, so they are left
 * empty. */
static dp_status *grow_tensor(dp_dtype dtype, int64_t used, int64_t capacity, dp_tensor *tensor) {
  dp_shape shape = dp_shape_vector(capacity);
  dp_tensor larger;
  DP_RETURN_IF_ERROR(dp_tensor_create(dtype, &shape, &larger));
  size_t bytes = (size_t)used * dp_dtype_size(dtype);
  if (bytes) {
    memcpy(larger.data, tensor->data, bytes);
    memset(tensor->data, 0, bytes);
  }
  dp_tensor_deinit(tensor);
  *tensor = larger;
  return NULL;
}

static inline dp_lookup_slot slot_of(int64_t entry, uint64_t hash) {
  return (dp_lookup_slot){(uint32_t)entry + 1, (uint32_t)(hash >> 32)};
}

static void index_entries(dp_lookup_map *map) {
  for (int64_t i = 0; i < map->count; ++i) {
    uint64_t slot = map->hashes[i] & map->slot_mask;
    while (map->slots[slot].entry)
      slot = (slot + 1) & map->slot_mask;
    map->slots[slot] = slot_of(i, map->hashes[i]);
  }
}

#define MAX_ENTRIES ((int64_t)1 << 30)

static dp_status *map_reserve(dp_lookup *table, int64_t count) {
  dp_lookup_map *map = &table->map;
  if (count <= map->capacity)
    return NULL;
  if (count > MAX_ENTRIES)
    return dp_status_create(DP_RESOURCE_EXHAUSTED, "a table cannot hold %lld entries",
                            (long long)count);
  int64_t capacity = map->capacity ? map->capacity : 16;
  while (capacity < count)
    capacity *= 2;
  int64_t value_size = table->value_shape.elements;
  DP_RETURN_IF_ERROR(grow_tensor(table->key_dtype, map->count, capacity, &map->keys));
  DP_RETURN_IF_ERROR(grow_tensor(table->value_dtype, map->count * value_size, capacity * value_size,
                                 &map->values));
  map->hashes = dp_realloc(map->hashes, sizeof(uint64_t) * (size_t)capacity);
  dp_free(map->slots);
  map->slots = DP_NEW_ARRAY(dp_lookup_slot, (size_t)capacity * 2);
  map->slot_mask = (uint64_t)capacity * 2 - 1;
  map->capacity = capacity;
  index_entries(map);
  return NULL;
}

static inline char *key_at(const dp_lookup *table, int64_t entry) {
  return (char *)table->map.keys.data + (size_t)entry * table->key_bytes;
}

static inline char *value_at(const dp_lookup *table, int64_t entry) {
  return (char *)table->map.values.data + (size_t)entry * table->value_bytes;
}

/* The slot that holds the key, or the free one where it would be. */
static inline __attribute__((always_inline)) uint64_t map_slot(const dp_lookup *table, dp_view key,
                                                               uint64_t hash) {
  const dp_lookup_map *map = &table->map;
  uint64_t at = hash & map->slot_mask;
  for (;; at = (at + 1) & map->slot_mask) {
    dp_lookup_slot slot = map->slots[at];
    if (slot.entry == 0 || (slot.tag == (uint32_t)(hash >> 32) &&
                            is_same_key(key_bytes(table, key_at(table, slot.entry - 1)), key)))
      return at;
  }
}

/* The number of the entry, or -1. */
static inline int64_t map_find_hashed(const dp_lookup *table, dp_view key, uint64_t hash) {
  return (int64_t)table->map.slots[map_slot(table, key, hash)].entry - 1;
}

static int64_t map_find(const dp_lookup *table, const void *key) {
  if (table->map.count == 0)
    return -1;
  dp_view bytes = key_bytes(table, key);
  return map_find_hashed(table, bytes, hash_key(bytes));
}

static dp_status *map_put(dp_lookup *table, const void *key, const void *value) {
  DP_RETURN_IF_ERROR(map_reserve(table, table->map.count + 1));
  dp_lookup_map *map = &table->map;
  dp_view bytes = key_bytes(table, key);
  uint64_t hash = hash_key(bytes), slot = map_slot(table, bytes, hash);
  int64_t entry = (int64_t)map->slots[slot].entry - 1;
  if (entry < 0) {
    entry = map->count++;
    map->slots[slot] = slot_of(entry, hash);
    map->hashes[entry] = hash;
    copy_key(table, key_at(table, entry), key);
  }
  copy_value(table, value_at(table, entry), value);
  return NULL;
}

/* Closes the gap that a removed slot leaves in the runs of open addressing. */
static void free_slot(dp_lookup_map *map, uint64_t slot) {
  uint64_t mask = map->slot_mask, next = (slot + 1) & mask;
  for (; map->slots[next].entry; next = (next + 1) & mask) {
    uint64_t home = map->hashes[map->slots[next].entry - 1] & mask;
    if (((next - home) & mask) < ((next - slot) & mask))
      continue;
    map->slots[slot] = map->slots[next];
    slot = next;
  }
  map->slots[slot] = (dp_lookup_slot){0};
}

static void swap_elements(dp_dtype dtype, char *a, char *b, int64_t count) {
  char kept[32];
  size_t size = dp_dtype_size(dtype);
  for (int64_t i = 0; i < count; ++i, a += size, b += size) {
    memcpy(kept, a, size);
    memcpy(a, b, size);
    memcpy(b, kept, size);
  }
}

static void map_remove(dp_lookup *table, const void *key) {
  dp_lookup_map *map = &table->map;
  if (map->count == 0)
    return;
  dp_view bytes = key_bytes(table, key);
  uint64_t slot = map_slot(table, bytes, hash_key(bytes));
  if (!map->slots[slot].entry)
    return;
  int64_t entry = map->slots[slot].entry - 1, last = map->count - 1;
  free_slot(map, slot);
  if (entry != last) {
    dp_view last_key = key_bytes(table, key_at(table, last));
    uint64_t moved = map_slot(table, last_key, map->hashes[last]);
    map->slots[moved] = slot_of(entry, map->hashes[last]);
    map->hashes[entry] = map->hashes[last];
    swap_elements(table->key_dtype, key_at(table, entry), key_at(table, last), 1);
    swap_elements(table->value_dtype, value_at(table, entry), value_at(table, last),
                  table->value_shape.elements);
  }
  --map->count;
}

/* ---- Life ---- */
static void destroy(dp_resource *resource) {
  dp_lookup *table = (dp_lookup *)resource;
  map_deinit(&table->map);
  dp_lookup_dense_deinit(table);
  pthread_rwlock_destroy(&table->lock);
  dp_free(table->name);
  dp_free(table);
}

static void describe(dp_resource *resource, dp_text *text) {
  dp_lookup *table = (dp_lookup *)resource;
  dp_text_printf(text, "table %s -> %s with %lld entries", dp_dtype_name(table->key_dtype),
                 dp_dtype_name(table->value_dtype), (long long)dp_lookup_size(table));
}

const dp_resource_ops dp_lookup_ops = {"N10tensorflow6lookup15LookupInterfaceE", destroy, describe};

dp_lookup *dp_lookup_create(const char *name, dp_lookup_kind kind, dp_dtype key_dtype,
                            dp_dtype value_dtype, const dp_shape *value_shape) {
  dp_lookup *table = DP_NEW(dp_lookup);
  dp_resource_init(&table->resource, &dp_lookup_ops);
  table->name = dp_strdup(name);
  table->kind = kind;
  table->key_dtype = key_dtype;
  table->value_dtype = value_dtype;
  table->key_shape = dp_shape_scalar();
  table->value_shape = *value_shape;
  table->key_bytes = dp_dtype_size(key_dtype);
  table->value_bytes = dp_dtype_size(value_dtype) * (size_t)value_shape->elements;
  table->is_value_plain = dp_dtype_is_plain(value_dtype);
  pthread_rwlock_init(&table->lock, NULL);
  return table;
}

/* ---- Checks ---- */
static dp_status *check_keys(const dp_lookup *table, const dp_tensor *keys) {
  if (keys->dtype != table->key_dtype)
    return DP_INVALID("Key must be type %s but got %s", dp_dtype_name(table->key_dtype),
                      dp_dtype_name(keys->dtype));
  int32_t rank = table->key_shape.rank, extra = keys->shape.rank - rank;
  bool fits = extra >= 0;
  for (int32_t i = 0; fits && i < rank; ++i)
    fits = keys->shape.dims[extra + i] == table->key_shape.dims[i];
  if (!fits)
    return DP_INVALID("Input key shape %s must end with the table's key shape %s",
                      dp_shape_text(&keys->shape), dp_shape_text(&table->key_shape));
  return NULL;
}

/* The shape [keys' shape without the shape of one key, shape of one value]. */
static dp_status *values_shape(const dp_lookup *table, const dp_tensor *keys, dp_shape *shape_out) {
  int64_t dims[2 * DP_MAX_RANK];
  int32_t rank = keys->shape.rank - table->key_shape.rank;
  memcpy(dims, keys->shape.dims, sizeof(int64_t) * (size_t)rank);
  memcpy(dims + rank, table->value_shape.dims, sizeof(int64_t) * (size_t)table->value_shape.rank);
  return dp_shape_make(rank + table->value_shape.rank, dims, shape_out);
}

static dp_status *check_pairs(const dp_lookup *table, const dp_tensor *keys,
                              const dp_tensor *values) {
  DP_RETURN_IF_ERROR(check_keys(table, keys));
  if (values->dtype != table->value_dtype)
    return DP_INVALID("Value must be type %s but got %s", dp_dtype_name(table->value_dtype),
                      dp_dtype_name(values->dtype));
  dp_shape expected;
  DP_RETURN_IF_ERROR(values_shape(table, keys, &expected));
  if (!dp_shape_equal(&expected, &values->shape))
    return DP_INVALID("Expected shape %s for value, got %s", dp_shape_text(&expected),
                      dp_shape_text(&values->shape));
  return NULL;
}

static int64_t key_count(const dp_lookup *table, const dp_tensor *keys) {
  return table->key_shape.elements ? keys->shape.elements / table->key_shape.elements : 0;
}

/* ---- Finding ---- */
static dp_status *check_defaults(const dp_lookup *table, const dp_tensor *defaults,
                                 const dp_shape *full) {
  if (defaults->dtype != table->value_dtype)
    return DP_INVALID("Value must be type %s but got %s", dp_dtype_name(table->value_dtype),
                      dp_dtype_name(defaults->dtype));
  if (!dp_shape_equal(&defaults->shape, &table->value_shape) &&
      !dp_shape_equal(&defaults->shape, full))
    return DP_INVALID("Expected shape %s or %s for default value, got %s",
                      dp_shape_text(&table->value_shape), dp_shape_text(full),
                      dp_shape_text(&defaults->shape));
  return NULL;
}

/* Hashes are computed first, a batch at a time, so that the slots can be prefetched. */
static void find_in_map(const dp_lookup *table, const dp_tensor *keys, int64_t count,
                        const dp_tensor *defaults, bool has_default_each, dp_tensor *values) {
  enum { BATCH = 32 };
  uint64_t hashes[BATCH];
  dp_view bytes[BATCH];
  const dp_lookup_map *map = &table->map;
  const char *key = keys->data, *fallback = defaults->data;
  char *to = values->data;
  size_t fallback_step = has_default_each ? table->value_bytes : 0;
  for (int64_t begin = 0; begin < count; begin += BATCH) {
    int64_t some = count - begin < BATCH ? count - begin : BATCH;
    for (int64_t i = 0; i < some && map->count > 0; ++i, key += table->key_bytes) {
      bytes[i] = key_bytes(table, key);
      hashes[i] = hash_key(bytes[i]);
      __builtin_prefetch(&map->slots[hashes[i] & map->slot_mask]);
    }
    for (int64_t i = 0; i < some; ++i, to += table->value_bytes, fallback += fallback_step) {
      int64_t entry = map->count > 0 ? map_find_hashed(table, bytes[i], hashes[i]) : -1;
      copy_value(table, to, entry >= 0 ? value_at(table, entry) : fallback);
    }
  }
}

dp_status *dp_lookup_find(dp_lookup *table, const dp_tensor *keys, const dp_tensor *defaults,
                          dp_tensor *values_out) {
  dp_shape shape;
  DP_RETURN_IF_ERROR(check_keys(table, keys));
  DP_RETURN_IF_ERROR(values_shape(table, keys, &shape));
  DP_RETURN_IF_ERROR(check_defaults(table, defaults, &shape));
  bool each = table->kind != DP_LOOKUP_FIXED && dp_shape_equal(&defaults->shape, &shape);
  DP_RETURN_IF_ERROR(dp_tensor_create(table->value_dtype, &shape, values_out));
  dp_status *status = NULL;
  int64_t count = key_count(table, keys);
  pthread_rwlock_rdlock(&table->lock);
  if (table->kind == DP_LOOKUP_FIXED && !table->is_filled)
    status = dp_status_create(DP_FAILED_PRECONDITION, "Table not initialized.");
  else if (table->kind == DP_LOOKUP_DENSE)
    status = dp_lookup_dense_find(table, keys, count, defaults, each, values_out);
  else
    find_in_map(table, keys, count, defaults, each, values_out);
  pthread_rwlock_unlock(&table->lock);
  if (status)
    dp_tensor_deinit(values_out);
  return status;
}

/* ---- Changing ---- */
static dp_status *put_all(dp_lookup *table, const dp_tensor *keys, const dp_tensor *values) {
  int64_t count = key_count(table, keys), size = table->value_shape.elements;
  DP_RETURN_IF_ERROR(map_reserve(table, table->map.count + count));
  for (int64_t i = 0; i < count; ++i)
    DP_RETURN_IF_ERROR(map_put(table, element(keys, i), element(values, i * size)));
  return NULL;
}

static dp_status *not_supported(const char *what) {
  return dp_status_create(DP_UNIMPLEMENTED,
                          "%s not supported by InitializableLookupTable implementations", what);
}

dp_status *dp_lookup_insert(dp_lookup *table, const dp_tensor *keys, const dp_tensor *values) {
  DP_RETURN_IF_ERROR(check_pairs(table, keys, values));
  if (table->kind == DP_LOOKUP_FIXED)
    return not_supported("Insert");
  pthread_rwlock_wrlock(&table->lock);
  dp_status *status = table->kind == DP_LOOKUP_DENSE
                          ? dp_lookup_dense_insert(table, keys, values, key_count(table, keys))
                          : put_all(table, keys, values);
  pthread_rwlock_unlock(&table->lock);
  return status;
}

dp_status *dp_lookup_remove(dp_lookup *table, const dp_tensor *keys) {
  DP_RETURN_IF_ERROR(check_keys(table, keys));
  if (table->kind == DP_LOOKUP_FIXED)
    return not_supported("Remove");
  int64_t count = key_count(table, keys);
  dp_status *status = NULL;
  pthread_rwlock_wrlock(&table->lock);
  if (table->kind == DP_LOOKUP_DENSE)
    status = dp_lookup_dense_remove(table, keys, count);
  else
    for (int64_t i = 0; i < count; ++i)
      map_remove(table, element(keys, i));
  pthread_rwlock_unlock(&table->lock);
  return status;
}

dp_status *dp_lookup_import(dp_lookup *table, const dp_tensor *keys, const dp_tensor *values) {
  if (table->kind == DP_LOOKUP_DENSE) {
    pthread_rwlock_wrlock(&table->lock);
    dp_status *status = dp_lookup_dense_import(table, keys, values);
    pthread_rwlock_unlock(&table->lock);
    return status;
  }
  DP_RETURN_IF_ERROR(check_pairs(table, keys, values));
  if (table->kind == DP_LOOKUP_FIXED)
    return dp_lookup_fill(table, keys, values);
  pthread_rwlock_wrlock(&table->lock);
  map_clear(table, &table->map, key_count(table, keys));
  dp_status *status = put_all(table, keys, values);
  pthread_rwlock_unlock(&table->lock);
  return status;
}

/* ---- Filling once ---- */
static dp_status *different_value(const dp_lookup *table, const dp_tensor *keys, int64_t index,
                                  int64_t entry, const dp_tensor *values) {
  dp_shape scalar = dp_shape_scalar();
  dp_text key = {0}, held = {0}, added = {0};
  dp_tensor one = *keys;
  one.shape = scalar;
  one.data = (char *)element(keys, index);
  dp_tensor_summarize(&one, 1, &key);
  one = table->map.values;
  one.shape = scalar;
  one.data = value_at(table, entry);
  dp_tensor_summarize(&one, 1, &held);
  one = *values;
  one.shape = scalar;
  one.data = (char *)element(values, index);
  dp_tensor_summarize(&one, 1, &added);
  dp_status *status = dp_status_create(
      DP_FAILED_PRECONDITION,
      "HashTable has different value for same key. Key %s has %s and trying to add value %s",
      dp_text_string(&key), dp_text_string(&held), dp_text_string(&added));
  dp_text_deinit(&key);
  dp_text_deinit(&held);
  dp_text_deinit(&added);
  return status;
}

static dp_status *fill(dp_lookup *table, const dp_tensor *keys, const dp_tensor *values) {
  int64_t count = keys->shape.elements;
  if (table->is_filled)
    return table->map.count == count
               ? NULL
               : dp_status_create(DP_FAILED_PRECONDITION,
                                  "Table was already initialized with different data.");
  DP_RETURN_IF_ERROR(map_reserve(table, count));
  for (int64_t i = 0; i < count; ++i) {
    int64_t entry = map_find(table, element(keys, i));
    if (entry < 0)
      DP_RETURN_IF_ERROR(map_put(table, element(keys, i), element(values, i)));
    else if (!dp_lookup_same(table->value_dtype, value_at(table, entry), element(values, i), 1))
      return different_value(table, keys, i, entry, values);
  }
  table->is_filled = true;
  return NULL;
}

dp_status *dp_lookup_fill(dp_lookup *table, const dp_tensor *keys, const dp_tensor *values) {
  DP_RETURN_IF_ERROR(check_pairs(table, keys, values));
  pthread_rwlock_wrlock(&table->lock);
  dp_status *status = fill(table, keys, values);
  pthread_rwlock_unlock(&table->lock);
  return status;
}

/* ---- Questions ---- */
static dp_status *export_map(const dp_lookup *table, dp_tensor *keys_out, dp_tensor *values_out) {
  int64_t count = table->map.count, dims[2] = {count, table->value_shape.dims[0]};
  dp_shape keys = dp_shape_vector(count);
  dp_shape values = dp_shape_of(1 + table->value_shape.rank, dims);
  DP_RETURN_IF_ERROR(dp_tensor_create(table->key_dtype, &keys, keys_out));
  dp_status *status = dp_tensor_create(table->value_dtype, &values, values_out);
  if (status) {
    dp_tensor_deinit(keys_out);
    return status;
  }
  if (count) {
    dp_tensor_copy_elements(table->key_dtype, keys_out->data, table->map.keys.data, count);
    dp_tensor_copy_elements(table->value_dtype, values_out->data, table->map.values.data,
                            values.elements);
  }
  return NULL;
}

dp_status *dp_lookup_export(dp_lookup *table, dp_tensor *keys_out, dp_tensor *values_out) {
  dp_status *status = NULL;
  pthread_rwlock_rdlock(&table->lock);
  if (table->kind == DP_LOOKUP_FIXED && !table->is_filled) {
    status = dp_status_create(DP_ABORTED, "HashTable is not initialized.");
  } else if (table->kind == DP_LOOKUP_DENSE) {
    *keys_out = dp_tensor_copy(&table->buckets.keys);
    *values_out = dp_tensor_copy(&table->buckets.values);
  } else {
    status = export_map(table, keys_out, values_out);
  }
  pthread_rwlock_unlock(&table->lock);
  return status;
}

int64_t dp_lookup_size(dp_lookup *table) {
  pthread_rwlock_rdlock(&table->lock);
  int64_t size = table->kind == DP_LOOKUP_DENSE ? table->buckets.count : table->map.count;
  pthread_rwlock_unlock(&table->lock);
  return size;
}
