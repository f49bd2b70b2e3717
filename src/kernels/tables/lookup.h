/* Lookup tables: maps from keys to values that are kept between steps. Four kinds share one set of
 * functions:
 *
 *   FIXED    HashTable: filled once; filling it again with as many entries does nothing
 *   MUTABLE  MutableHashTable: can be changed at any time; values are scalars
 *   TENSORS  MutableHashTableOfTensors: the same with vectors as values
 *   DENSE    MutableDenseHashTable: open addressing in two tensors (lookup_dense.c); the layout is
 *            TensorFlow's, because export returns it and checkpoints contain it
 *
 * Keys and values of any dtype are elements of tensors. A table has a lock for many readers or one
 * writer; any thread may call. */
#ifndef DP_KERNELS_TABLES_LOOKUP_H
#define DP_KERNELS_TABLES_LOOKUP_H

#include <pthread.h>
#include "kernels/shared/handle.h"

/* TensorFlow's error text for a string handle that has not two elements. */
#define DP_LOOKUP_HANDLE_RULE "Lookup table handle must be scalar"

typedef enum dp_lookup_kind {
  DP_LOOKUP_FIXED,
  DP_LOOKUP_MUTABLE,
  DP_LOOKUP_TENSORS,
  DP_LOOKUP_DENSE,
} dp_lookup_kind;

typedef struct dp_lookup_slot {
  uint32_t entry; /* number of the entry + 1; 0: free */
  uint32_t tag;   /* the upper half of the key's hash */
} dp_lookup_slot;

/* Entries in the order in which they were added (a removed entry is replaced by the last one), and
 * an index of open addressing over them. */
typedef struct dp_lookup_map {
  dp_tensor keys;   /* [capacity] */
  dp_tensor values; /* [capacity, value size] */
  uint64_t *hashes; /* [capacity] */
  int64_t count, capacity;
  dp_lookup_slot *slots;
  uint64_t slot_mask;
} dp_lookup_map;

/* Buckets of a dense table; an empty bucket holds empty_key. */
typedef struct dp_lookup_buckets {
  dp_tensor empty_key, deleted_key; /* key_size elements */
  dp_tensor keys;                   /* [buckets, key size...] */
  dp_tensor values;
  int64_t count, buckets;
  float max_load;
} dp_lookup_buckets;

typedef struct dp_lookup {
  dp_resource resource;
  char *name;
  dp_lookup_kind kind;
  dp_dtype key_dtype, value_dtype;
  dp_shape key_shape, value_shape; /* of one key, of one value */
  size_t key_bytes, value_bytes;   /* per key and value, in a map */
  bool is_value_plain;
  pthread_rwlock_t lock; /* for the fields below */
  bool is_filled;        /* fixed tables only */
  dp_lookup_map map;
  dp_lookup_buckets buckets;
} dp_lookup;

extern const dp_resource_ops dp_lookup_ops; /* "N10tensorflow6lookup15LookupInterfaceE" */

dp_lookup *dp_lookup_create(const char *name, dp_lookup_kind kind, dp_dtype key_dtype,
                            dp_dtype value_dtype, const dp_shape *value_shape);

/* keys are [n, key shape], values [n, value shape]; shapes and dtypes are checked here. `defaults`
 * is one value for all keys, or one per key. */
DP_MUST_USE dp_status *dp_lookup_find(dp_lookup *table, const dp_tensor *keys,
                                      const dp_tensor *defaults, dp_tensor *values_out);
DP_MUST_USE dp_status *dp_lookup_insert(dp_lookup *table, const dp_tensor *keys,
                                        const dp_tensor *values);
DP_MUST_USE dp_status *dp_lookup_remove(dp_lookup *table, const dp_tensor *keys);
/* Replaces the whole contents. */
DP_MUST_USE dp_status *dp_lookup_import(dp_lookup *table, const dp_tensor *keys,
                                        const dp_tensor *values);
DP_MUST_USE dp_status *dp_lookup_export(dp_lookup *table, dp_tensor *keys_out,
                                        dp_tensor *values_out);
/* Fills a fixed table from two vectors of the same length. */
DP_MUST_USE dp_status *dp_lookup_fill(dp_lookup *table, const dp_tensor *keys,
                                      const dp_tensor *values);
int64_t dp_lookup_size(dp_lookup *table);

/* ---- lookup_dense.c, with the lock held as needed ---- */
DP_MUST_USE dp_status *dp_lookup_dense_start(dp_lookup *table, const dp_tensor *empty_key,
                                             const dp_tensor *deleted_key, int64_t buckets,
                                             float max_load);
DP_MUST_USE dp_status *dp_lookup_dense_find(const dp_lookup *table, const dp_tensor *keys,
                                            int64_t count, const dp_tensor *defaults,
                                            bool has_default_each, const dp_tensor *values);
DP_MUST_USE dp_status *dp_lookup_dense_insert(dp_lookup *table, const dp_tensor *keys,
                                              const dp_tensor *values, int64_t count);
DP_MUST_USE dp_status *dp_lookup_dense_remove(dp_lookup *table, const dp_tensor *keys,
                                              int64_t count);
DP_MUST_USE dp_status *dp_lookup_dense_import(dp_lookup *table, const dp_tensor *keys,
                                              const dp_tensor *values);
void dp_lookup_dense_deinit(dp_lookup *table);

/* ---- Elements ---- */
/* Whether `count` elements are equal. */
bool dp_lookup_same(dp_dtype dtype, const void *a, const void *b, int64_t count);

#endif
