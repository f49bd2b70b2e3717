/* A hash map from byte strings to pointers (open addressing, insertion order not kept).
 * The map copies its keys and never touches the values. Not thread-safe. */
#ifndef DP_BASE_MAP_H
#define DP_BASE_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct dp_map dp_map;

dp_map *dp_map_create(void);
void dp_map_destroy(dp_map *map);
size_t dp_map_count(const dp_map *map);
void dp_map_reserve(dp_map *map, size_t count);

/* NULL when absent. */
void *dp_map_get(const dp_map *map, const char *key);
void *dp_map_get_n(const dp_map *map, const void *key, size_t length);
/* Stores `value` (not NULL) and returns the one it replaced, or NULL. */
void *dp_map_put(dp_map *map, const char *key, void *value);
void *dp_map_put_n(dp_map *map, const void *key, size_t length, void *value);
/* Returns the removed value, or NULL. */
void *dp_map_remove(dp_map *map, const char *key);
void *dp_map_remove_n(dp_map *map, const void *key, size_t length);

/* for (size_t at = 0; dp_map_next(map, &at, &key, &value);) ... The map must not change meanwhile.
 */
bool dp_map_next(const dp_map *map, size_t *position, const char **key_out, void **value_out);

/* A good 64-bit hash of bytes. Its values may change between releases; those of base/checksum.h do
 * not. */
uint64_t dp_hash_bytes(const void *data, size_t length);

#endif
