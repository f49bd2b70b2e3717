/* The hash map: open addressing with linear probing, at most three quarters full, and removal by
 * shifting back, so there are no tombstones and a lookup ends at the first empty slot. The full
 * hash is kept beside the key: a probe compares bytes only when all 64 bits agree. Keys are copied
 * with a NUL behind them so that iteration can hand them out as strings. */
#include "base/map.h"

#include <assert.h>
#include <string.h>

#include "base/memory.h"

typedef struct slot {
  uint64_t hash;
  char *key; /* NULL: empty */
  size_t length;
  void *value;
} slot;

struct dp_map {
  slot *slots;
  size_t capacity; /* a power of two, or 0 */
  size_t count;
};

static inline uint64_t read64(const unsigned char *at) {
  uint64_t value;
  memcpy(&value, at, sizeof(value));
  return value;
}

static inline uint64_t read32(const unsigned char *at) {
  uint32_t value;
  memcpy(&value, at, sizeof(value));
  return value;
}

/* The two halves of the 128-bit product, XORed: every input bit reaches every output bit. */
static inline uint64_t fold(uint64_t a, uint64_t b) {
  __uint128_t product = (__uint128_t)a * b;
  return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static const uint64_t mix_a = UINT64_C(0x9e3779b97f4a7c15);
static const uint64_t mix_b = UINT64_C(0xd6e8feb86659fd93);
static const uint64_t mix_c = UINT64_C(0xa0761d6478bd642f);

uint64_t dp_hash_bytes(const void *data, size_t length) {
  const unsigned char *at = data;
  uint64_t state = mix_a ^ fold(length ^ mix_b, mix_c);
  size_t left = length;
  for (; left > 16; left -= 16, at += 16)
    state = fold(read64(at) ^ mix_b, read64(at + 8) ^ state);
  uint64_t low = 0, high = 0;
  if (left >= 8) {
    low = read64(at);
    high = read64(at + left - 8);
  } else if (left >= 4) {
    low = read32(at);
    high = read32(at + left - 4);
  } else if (left > 0) {
    low = (uint64_t)at[0] << 16 | (uint64_t)at[left / 2] << 8 | at[left - 1];
  }
  return fold(fold(low ^ mix_b, high ^ state), mix_a ^ length);
}

dp_map *dp_map_create(void) {
  return DP_NEW(dp_map);
}

void dp_map_destroy(dp_map *map) {
  if (map == NULL)
    return;
  for (size_t i = 0; i < map->capacity; i++)
    dp_free(map->slots[i].key);
  dp_free(map->slots);
  dp_free(map);
}

size_t dp_map_count(const dp_map *map) {
  return map->count;
}

static void resize(dp_map *map, size_t capacity) {
  slot *old = map->slots;
  size_t old_capacity = map->capacity;
  map->slots = DP_NEW_ARRAY(slot, capacity);
  map->capacity = capacity;
  for (size_t i = 0; i < old_capacity; i++) {
    if (old[i].key == NULL)
      continue;
    size_t at = old[i].hash & (capacity - 1);
    while (map->slots[at].key != NULL)
      at = (at + 1) & (capacity - 1);
    map->slots[at] = old[i];
  }
  dp_free(old);
}

void dp_map_reserve(dp_map *map, size_t count) {
  size_t capacity = map->capacity > 0 ? map->capacity : 8;
  while (capacity / 4 * 3 < count)
    capacity *= 2;
  if (capacity != map->capacity)
    resize(map, capacity);
}

/* The slot that holds the key, or the empty slot where the key belongs. The caller makes sure that
 * the map has an empty slot. */
static slot *find(const dp_map *map, uint64_t hash, const void *key, size_t length) {
  size_t mask = map->capacity - 1;
  for (size_t at = hash & mask;; at = (at + 1) & mask) {
    slot *here = &map->slots[at];
    if (here->key == NULL || (here->hash == hash && here->length == length &&
                              (length == 0 || memcmp(here->key, key, length) == 0)))
      return here;
  }
}

void *dp_map_get_n(const dp_map *map, const void *key, size_t length) {
  if (map->count == 0)
    return NULL;
  return find(map, dp_hash_bytes(key, length), key, length)->value;
}

void *dp_map_get(const dp_map *map, const char *key) {
  return dp_map_get_n(map, key, strlen(key));
}

void *dp_map_put_n(dp_map *map, const void *key, size_t length, void *value) {
  assert(value != NULL);
  dp_map_reserve(map, map->count + 1);
  uint64_t hash = dp_hash_bytes(key, length);
  slot *here = find(map, hash, key, length);
  if (here->key != NULL) {
    void *replaced = here->value;
    here->value = value;
    return replaced;
  }
  *here = (slot){hash, dp_strndup(key, length), length, value};
  map->count++;
  return NULL;
}

void *dp_map_put(dp_map *map, const char *key, void *value) {
  return dp_map_put_n(map, key, strlen(key), value);
}

void *dp_map_remove_n(dp_map *map, const void *key, size_t length) {
  if (map->count == 0)
    return NULL;
  slot *here = find(map, dp_hash_bytes(key, length), key, length);
  if (here->key == NULL)
    return NULL;
  void *value = here->value;
  dp_free(here->key);
  map->count--;
  /* Close the gap: move back each follower whose home is not between the hole and itself. */
  size_t mask = map->capacity - 1;
  size_t hole = (size_t)(here - map->slots);
  for (size_t at = (hole + 1) & mask; map->slots[at].key != NULL; at = (at + 1) & mask) {
    size_t home = map->slots[at].hash & mask;
    if (((at - home) & mask) >= ((at - hole) & mask)) {
      map->slots[hole] = map->slots[at];
      hole = at;
    }
  }
  map->slots[hole] = (slot){0};
  return value;
}

void *dp_map_remove(dp_map *map, const char *key) {
  return dp_map_remove_n(map, key, strlen(key));
}

bool dp_map_next(const dp_map *map, size_t *position, const char **key_out, void **value_out) {
  for (; *position < map->capacity; ++*position) {
    const slot *here = &map->slots[*position];
    if (here->key == NULL)
      continue;
    if (key_out != NULL)
      *key_out = here->key;
    if (value_out != NULL)
      *value_out = here->value;
    ++*position;
    return true;
  }
  return false;
}
