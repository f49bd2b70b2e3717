/* Allocation for control structures, over the C library's malloc. When memory runs out, the forms
 * that never return NULL write one line that says how much was wanted, and abort: without a few
 * hundred bytes no error could be reported in any other way. Thread-safe as malloc is. */
#include "base/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static _Noreturn void die(size_t size) {
  char line[96];
  int length = snprintf(line, sizeof(line), "downpour: out of memory, wanted %zu bytes\n", size);
  ssize_t ignored = write(STDERR_FILENO, line, (size_t)length);
  (void)ignored;
  abort();
}

static void *check(void *pointer, size_t size) {
  if (__builtin_expect(pointer == NULL, 0))
    die(size);
  return pointer;
}

void *dp_malloc(size_t size) {
  return check(malloc(size > 0 ? size : 1), size);
}

void *dp_calloc(size_t count, size_t size) {
  size_t total;
  if (!dp_multiply_size(count, size, &total))
    die(SIZE_MAX);
  return check(calloc(1, total > 0 ? total : 1), total);
}

void *dp_realloc(void *pointer, size_t size) {
  return check(realloc(pointer, size > 0 ? size : 1), size);
}

char *dp_strdup(const char *text) {
  return dp_strndup(text, strlen(text));
}

char *dp_strndup(const char *text, size_t length) {
  char *copy = dp_malloc(length + 1);
  if (length > 0)
    memcpy(copy, text, length);
  copy[length] = '\0';
  return copy;
}

void *dp_memdup(const void *data, size_t size) {
  void *copy = dp_malloc(size);
  if (size > 0)
    memcpy(copy, data, size);
  return copy;
}

void dp_free(void *pointer) {
  free(pointer);
}

void *dp_try_malloc(size_t size) {
  return malloc(size > 0 ? size : 1);
}

void *dp_array_reserve(void *items, size_t item_size, size_t wanted, size_t *capacity) {
  if (wanted <= *capacity && items != NULL)
    return items;
  size_t grown = *capacity < 8 ? 8 : *capacity + *capacity / 2;
  if (grown < wanted)
    grown = wanted;
  size_t bytes;
  if (!dp_multiply_size(grown, item_size, &bytes))
    die(SIZE_MAX);
  items = dp_realloc(items, bytes);
  *capacity = grown;
  return items;
}
