/* Joins the checkpoints that the tasks of a job wrote, each with its own variables, into one. The
 * indices are merged in memory; the data files are only renamed. The new index is written after the
 * renames: a crash in between loses no data, but leaves data files that the old indices no longer
 * find. One thread. */
#include <string.h>
#include "base/map.h"
#include "storage/bundle_internal.h"
#include "wire/shape_message.h"

typedef struct merge {
  dp_arena *arena;
  dp_map *entries; /* key to entry */
  DP_ARRAY(dp_bundle_item) items;
  dp_map *shard_ids; /* path to index + 1 */
  DP_ARRAY(char *) shards;
  int32_t shard_total;                         /* as the headers say */
  const Tensorflow__BundleHeaderProto *header; /* of the first prefix */
} merge;

static dp_status *check_same_header(const Tensorflow__BundleHeaderProto *first,
                                    const Tensorflow__BundleHeaderProto *header) {
  if (first->endianness != header->endianness)
    return DP_INVALID("Merging bundles with conflicting endianness; inputs corrupted?");
  const Tensorflow__VersionDef *a = first->version, *b = header->version;
  if ((a ? a->producer : 0) != (b ? b->producer : 0) ||
      (a ? a->min_consumer : 0) != (b ? b->min_consumer : 0))
    return DP_INVALID("Merging bundles with different format versions: merged producer %d vs. "
                      "curr producer %d",
                      a ? a->producer : 0, b ? b->producer : 0);
  return NULL;
}

/* Adds the slices of `entry` to those of `existing`. */
static dp_status *join_slices(merge *merge, dp_view key, Tensorflow__BundleEntryProto *existing,
                              const Tensorflow__BundleEntryProto *entry) {
  if (entry->n_slices == 0)
    return dp_status_create(DP_INTERNAL,
                            "Duplicate tensor keyed by %.*s; attempting to merge in a non-slice "
                            "bundle entry",
                            (int)key.length, key.data);
  dp_shape a, b;
  DP_RETURN_IF_ERROR(dp_wire_shape(existing->shape, &a));
  DP_RETURN_IF_ERROR(dp_wire_shape(entry->shape, &b));
  if (existing->dtype != entry->dtype || !dp_shape_equal(&a, &b))
    return DP_INVALID("slices of %.*s differ in the dtype or shape of the whole", (int)key.length,
                      key.data);
  Tensorflow__TensorSliceProto **slices = DP_ARENA_ARRAY(
      merge->arena, Tensorflow__TensorSliceProto *, existing->n_slices + entry->n_slices);
  memcpy(slices, existing->slices, existing->n_slices * sizeof *slices);
  memcpy(slices + existing->n_slices, entry->slices, entry->n_slices * sizeof *slices);
  existing->slices = slices;
  existing->n_slices += entry->n_slices;
  return NULL;
}

/* The number of the entry's data file in the merged checkpoint. */
static int32_t shard_of(merge *merge, const char *prefix, int32_t id, int32_t count) {
  char *path = dp_bundle_data_path(prefix, id, count);
  uintptr_t known = (uintptr_t)dp_map_get(merge->shard_ids, path);
  if (known) {
    dp_free(path);
    return (int32_t)known - 1;
  }
  DP_ARRAY_PUSH(&merge->shards, path);
  dp_map_put(merge->shard_ids, path, (void *)(uintptr_t)merge->shards.count);
  return (int32_t)merge->shards.count - 1;
}

static dp_status *merge_entry(merge *merge, const char *prefix, int32_t shard_count, dp_view key,
                              dp_view value) {
  Tensorflow__BundleEntryProto *existing = dp_map_get_n(merge->entries, key.data, key.length);
  if (existing && existing->n_slices == 0)
    return DP_INVALID("Duplicate tensor keyed by %.*s encountered, when merging prefix: %s",
                      (int)key.length, key.data, prefix);
  Tensorflow__BundleEntryProto *entry;
  DP_RETURN_IF_ERROR(dp_bundle_parse_entry(key, value, merge->arena, &entry));
  if (existing)
    return join_slices(merge, key, existing, entry);
  if (entry->shard_id >= shard_count)
    return dp_status_create(DP_DATA_LOSS, "Invalid bundle entry: key %.*s; shard %d of %d",
                            (int)key.length, key.data, entry->shard_id, shard_count);
  entry->shard_id = shard_of(merge, prefix, entry->shard_id, shard_count);
  char *copy = dp_arena_allocate(merge->arena, key.length + 1);
  memcpy(copy, key.data, key.length);
  dp_map_put_n(merge->entries, key.data, key.length, entry);
  DP_ARRAY_PUSH(&merge->items, ((dp_bundle_item){{copy, key.length}, entry}));
  return NULL;
}

static dp_status *merge_one(merge *merge, const char *prefix) {
  dp_file *file;
  dp_table_reader *table;
  Tensorflow__BundleHeaderProto *header;
  DP_RETURN_IF_ERROR(dp_bundle_open_index(prefix, merge->arena, &file, &table, &header));
  dp_status *status = merge->header ? check_same_header(merge->header, header) : NULL;
  if (!merge->header)
    merge->header = header;
  merge->shard_total += header->num_shards;
  if (!status)
    status = dp_table_reader_next(table);
  while (!status && dp_table_reader_is_valid(table)) {
    status = merge_entry(merge, prefix, header->num_shards, dp_table_reader_key(table),
                         dp_table_reader_value(table));
    if (!status)
      status = dp_table_reader_next(table);
  }
  dp_table_reader_destroy(table);
  dp_file_discard(file);
  return status;
}

static dp_status *merge_all(merge *merge, const char *const *prefixes, size_t count,
                            bool allow_missing) {
  for (size_t i = 0; i < count; ++i) {
    char *path = dp_bundle_index_path(prefixes[i]);
    bool is_there = dp_path_exists(path);
    dp_free(path);
    if (is_there) {
      DP_RETURN_IF_ERROR(merge_one(merge, prefixes[i]));
    } else if (!allow_missing) {
      return DP_INVALID("allow_missing_files was set to false and %s did not exist.NOT_FOUND: %s "
                        "not found",
                        prefixes[i], prefixes[i]);
    }
  }
  if (!merge->header)
    return DP_INVALID("At least one prefix checkpoint file must exist, but none existed.");
  return NULL;
}

static dp_status *write_merged(merge *merge, const char *merged_prefix) {
  for (size_t i = 0; i < merge->shards.count; ++i) {
    char *to = dp_bundle_data_path(merged_prefix, (int)i, (int)merge->shards.count);
    dp_status *status = dp_path_rename(merge->shards.items[i], to);
    dp_free(to);
    DP_RETURN_IF_ERROR(status);
  }
  Tensorflow__BundleHeaderProto header = *merge->header;
  header.num_shards = merge->shard_total;
  char *path = dp_bundle_index_path(merged_prefix);
  dp_status *status = dp_bundle_write_index(path, &header, merge->items.items, merge->items.count);
  dp_free(path);
  return status;
}

dp_status *dp_bundle_merge(const char *const *prefixes, size_t count, const char *merged_prefix,
                           bool allow_missing) {
  DP_RETURN_IF_ERROR(dp_bundle_make_folder(merged_prefix));
  merge merge = {
      .arena = dp_arena_create(), .entries = dp_map_create(), .shard_ids = dp_map_create()};
  dp_status *status = merge_all(&merge, prefixes, count, allow_missing);
  if (!status)
    status = write_merged(&merge, merged_prefix);
  for (size_t i = 0; i < count && !status; ++i) {
    if (strcmp(prefixes[i], merged_prefix) == 0)
      continue;
    char *path = dp_bundle_index_path(prefixes[i]);
    dp_status_release(dp_path_remove(path));
    dp_free(path);
  }
  for (size_t i = 0; i < merge.shards.count; ++i)
    dp_free(merge.shards.items[i]);
  DP_ARRAY_FREE(&merge.shards);
  DP_ARRAY_FREE(&merge.items);
  dp_map_destroy(merge.entries);
  dp_map_destroy(merge.shard_ids);
  dp_arena_destroy(merge.arena);
  return status;
}
