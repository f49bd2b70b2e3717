/* An arena is a chain of blocks, one of which is current. An allocation moves a mark within the
 * current block. When the block is full, the next block of the chain that fits becomes current;
 * when there is none, the arena takes a new block from the system. A reset goes back to the first
 * block, so a step that is repeated takes nothing from the system after the first time. One owner,
 * no locks. */
#include "base/arena.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"

enum { ALIGNMENT = 16 };
static const size_t first_block_size = 4096;
static const size_t largest_block_size = 1 << 20;

typedef struct block {
  struct block *next;
  size_t capacity;
  size_t used;
  _Alignas(ALIGNMENT) char data[];
} block;

struct dp_arena {
  block *first;
  block *current;   /* blocks behind it in the chain are empty or hold one large piece */
  size_t next_size; /* of the next ordinary block, header included */
  size_t bytes;
};

dp_arena *dp_arena_create(void) {
  dp_arena *arena = DP_NEW(dp_arena);
  arena->next_size = first_block_size;
  return arena;
}

void dp_arena_destroy(dp_arena *arena) {
  if (arena == NULL)
    return;
  for (block *here = arena->first; here != NULL;) {
    block *next = here->next;
    dp_free(here);
    here = next;
  }
  dp_free(arena);
}

void dp_arena_reset(dp_arena *arena) {
  for (block *here = arena->first; here != NULL; here = here->next)
    here->used = 0;
  arena->current = arena->first;
}

/* A new block of `total` bytes with its header, put behind the current one. */
static block *add_block(dp_arena *arena, size_t total) {
  block *added = dp_malloc(total);
  added->capacity = total - sizeof(block);
  added->used = 0;
  arena->bytes += total;
  if (arena->current == NULL) {
    added->next = arena->first;
    arena->first = added;
    arena->current = added;
  } else {
    added->next = arena->current->next;
    arena->current->next = added;
  }
  return added;
}

/* The current block has no room for `size` (rounded up): takes it from a later block or a new one.
 * For a large piece the current block stays current, so that small pieces still fill its rest. */
static void *allocate_slowly(dp_arena *arena, size_t size) {
  bool large = size > largest_block_size - sizeof(block);
  block *found = arena->current != NULL ? arena->current->next : NULL;
  while (found != NULL && found->capacity - found->used < size)
    found = found->next;
  if (found == NULL && large) {
    found = add_block(arena, size + sizeof(block));
  } else if (found == NULL) {
    while (arena->next_size - sizeof(block) < size)
      arena->next_size *= 2;
    found = add_block(arena, arena->next_size);
    if (arena->next_size < largest_block_size)
      arena->next_size *= 2;
  }
  if (!large)
    arena->current = found;
  void *piece = found->data + found->used;
  found->used += size;
  return piece;
}

void *dp_arena_allocate(dp_arena *arena, size_t size) {
  if (size > SIZE_MAX / 2)
    return dp_malloc(size); /* ends the process with a line that names the size */
  size = size == 0 ? ALIGNMENT : (size + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1);
  block *current = arena->current;
  if (current == NULL || current->capacity - current->used < size)
    return allocate_slowly(arena, size);
  void *piece = current->data + current->used;
  current->used += size;
  return piece;
}

void *dp_arena_allocate_zero(dp_arena *arena, size_t size) {
  return memset(dp_arena_allocate(arena, size), 0, size);
}

char *dp_arena_strndup(dp_arena *arena, const char *text, size_t length) {
  char *copy = dp_arena_allocate(arena, length + 1);
  if (length > 0)
    memcpy(copy, text, length);
  copy[length] = '\0';
  return copy;
}

char *dp_arena_strdup(dp_arena *arena, const char *text) {
  return dp_arena_strndup(arena, text, strlen(text));
}

char *dp_arena_printf(dp_arena *arena, const char *format, ...) {
  va_list arguments, copy;
  va_start(arguments, format);
  va_copy(copy, arguments);
  int length = vsnprintf(NULL, 0, format, copy);
  va_end(copy);
  if (length < 0)
    length = 0;
  char *text = dp_arena_allocate(arena, (size_t)length + 1);
  text[0] = '\0';
  vsnprintf(text, (size_t)length + 1, format, arguments);
  va_end(arguments);
  return text;
}

size_t dp_arena_bytes(const dp_arena *arena) {
  return arena->bytes;
}
