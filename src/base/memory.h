/* Memory for control structures: small pieces whose size does not come from a client, a peer or a
 * file.
 *
 * The dp_malloc family never returns NULL: a process that cannot get a few hundred bytes says so
 * and aborts. Code whose sizes come from input (tensors, messages, files) must check a limit first,
 * use dp_try_malloc or the tensor buffers, and answer RESOURCE_EXHAUSTED. */
#ifndef DP_BASE_MEMORY_H
#define DP_BASE_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

void *dp_malloc(size_t size) __attribute__((malloc, returns_nonnull));
void *dp_calloc(size_t count, size_t size) __attribute__((malloc, returns_nonnull));
void *dp_realloc(void *pointer, size_t size) __attribute__((returns_nonnull));
char *dp_strdup(const char *text) __attribute__((malloc, returns_nonnull));
char *dp_strndup(const char *text, size_t length) __attribute__((malloc, returns_nonnull));
void *dp_memdup(const void *data, size_t size) __attribute__((malloc, returns_nonnull));
void dp_free(void *pointer);

/* NULL when there is not enough memory. */
void *dp_try_malloc(size_t size) __attribute__((malloc));

#define DP_NEW(type) ((type *)dp_calloc(1, sizeof(type)))
#define DP_NEW_ARRAY(type, count) ((type *)dp_calloc((count), sizeof(type)))

/* False on overflow; *result_out is untouched then. */
static inline bool dp_multiply_size(size_t a, size_t b, size_t *result_out) {
  size_t result;
  if (__builtin_mul_overflow(a, b, &result))
    return false;
  *result_out = result;
  return true;
}

/* A growable array: DP_ARRAY(int) numbers = {0}; DP_ARRAY_PUSH(&numbers, 3);
 * numbers.items[i], numbers.count; DP_ARRAY_FREE(&numbers). */
#define DP_ARRAY(type)                                                                             \
  struct {                                                                                         \
    type *items;                                                                                   \
    size_t count;                                                                                  \
    size_t capacity;                                                                               \
  }
#define DP_ARRAY_RESERVE(array, wanted)                                                            \
  ((array)->items =                                                                                \
       dp_array_reserve((array)->items, sizeof(*(array)->items), (wanted), &(array)->capacity))
#define DP_ARRAY_PUSH(array, item)                                                                 \
  (DP_ARRAY_RESERVE(array, (array)->count + 1), (array)->items[(array)->count++] = (item))
#define DP_ARRAY_FREE(array)                                                                       \
  (dp_free((array)->items), (array)->items = NULL, (array)->count = (array)->capacity = 0)
void *dp_array_reserve(void *items, size_t item_size, size_t wanted, size_t *capacity);

#endif
