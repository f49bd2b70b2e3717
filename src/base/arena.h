/* An arena: many small allocations, one release. Used for what lives exactly as long as a step, a
 * message or a graph. Not thread-safe; each arena has one owner. Nothing allocated from it is freed
 * alone. Blocks start at 4 KiB and double up to 1 MiB; larger requests get a block of their own. */
#ifndef DP_BASE_ARENA_H
#define DP_BASE_ARENA_H

#include <stddef.h>
#include "base/status.h"

typedef struct dp_arena dp_arena;

dp_arena *dp_arena_create(void);
void dp_arena_destroy(dp_arena *arena);
/* Forgets all allocations and keeps the memory for the next use. */
void dp_arena_reset(dp_arena *arena);
/* Aligned to 16. Zeroed only by the _zero form. Never NULL (see base/memory.h). */
void *dp_arena_allocate(dp_arena *arena, size_t size) __attribute__((returns_nonnull));
void *dp_arena_allocate_zero(dp_arena *arena, size_t size) __attribute__((returns_nonnull));
char *dp_arena_strndup(dp_arena *arena, const char *text, size_t length)
    __attribute__((returns_nonnull));
char *dp_arena_strdup(dp_arena *arena, const char *text) __attribute__((returns_nonnull));
char *dp_arena_printf(dp_arena *arena, const char *format, ...) DP_PRINTF(2, 3);
/* Bytes taken from the system. */
size_t dp_arena_bytes(const dp_arena *arena);

#define DP_ARENA_NEW(arena, type) ((type *)dp_arena_allocate_zero((arena), sizeof(type)))
#define DP_ARENA_ARRAY(arena, type, count)                                                         \
  ((type *)dp_arena_allocate_zero((arena), sizeof(type) * (size_t)(count)))

#endif
