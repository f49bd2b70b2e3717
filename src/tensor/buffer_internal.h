/* The interface between the two halves of the buffer pool: buffer.c has the caches of the threads
 * and counts bytes; buffer_pool.c has the lists that all threads share and takes memory from the
 * system.
 *
 * A block is one piece of memory: 64 bytes of header (a dp_buffer while it is in use, a
 * dp_free_block while it is free), then the data. Its size class fixes its capacity: multiples of
 * 64 up to 256 bytes, then four steps from each power of two to the next. */
#ifndef DP_TENSOR_BUFFER_INTERNAL_H
#define DP_TENSOR_BUFFER_INTERNAL_H

#include "tensor/buffer.h"

#if defined(__SANITIZE_ADDRESS__)
#define DP_POOL_KEEPS_BLOCKS 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define DP_POOL_KEEPS_BLOCKS 0
#endif
#endif
#ifndef DP_POOL_KEEPS_BLOCKS
#define DP_POOL_KEEPS_BLOCKS 1 /* 0: free blocks go back at once, so that ASan sees late uses */
#endif

#define DP_BLOCK_HEADER 64
#define DP_SMALL_CLASSES 36 /* up to 64 KiB of data */
#define DP_SMALL_LIMIT ((size_t)64 << 10)
#define DP_SIZE_CLASSES 156 /* up to 2^46 bytes */
#define DP_SIZE_LIMIT ((size_t)1 << 46)

/* A free block. `next` and `previous` link the blocks of one class; `older` and `newer` link all
 * free blocks of the large classes by age. */
typedef struct dp_free_block {
  struct dp_free_block *next;
  struct dp_free_block *previous;
  struct dp_free_block *older;
  struct dp_free_block *newer;
  int32_t size_class;
} dp_free_block;

_Static_assert(sizeof(dp_buffer) <= DP_BLOCK_HEADER, "a header fits before the data");
_Static_assert(sizeof(dp_free_block) <= DP_BLOCK_HEADER, "a free block fits in the header");
_Static_assert(DP_BLOCK_HEADER % DP_BUFFER_ALIGNMENT == 0, "data is aligned behind the header");

/* The smallest class that holds `size` <= DP_SIZE_LIMIT bytes. */
static inline int dp_size_class(size_t size) {
  if (size <= 256)
    return size == 0 ? 0 : (int)((size - 1) >> 6);
  int power = 63 - __builtin_clzll(size - 1); /* 2^power < size <= 2^(power + 1), power >= 8 */
  return 4 + (power - 8) * 4 + (int)((size - 1) >> (power - 2) & 3);
}

static inline size_t dp_class_capacity(int size_class) {
  if (size_class < 4)
    return ((size_t)size_class + 1) << 6;
  int power = 8 + (size_class - 4) / 4;
  return ((size_t)1 << power) + ((size_t)((size_class - 4) % 4 + 1) << (power - 2));
}

/* How many bytes of one small class a thread keeps, and how many blocks that makes (2 to 64). */
#define DP_CLASS_CACHE_BYTES ((size_t)64 << 10)
static inline uint32_t dp_class_cache_count(int size_class) {
  size_t count = DP_CLASS_CACHE_BYTES / (dp_class_capacity(size_class) + DP_BLOCK_HEADER);
  return count < 2 ? 2 : count > 64 ? 64 : (uint32_t)count;
}

/* Blocks of one class, from the shared lists or the system: a chain by `next` of 1 to `wanted`
 * blocks (never more than one for large classes). NULL when there is no memory. */
dp_free_block *dp_shared_pool_take(int size_class, uint32_t wanted, uint32_t *count_out);
/* Gives back a chain of `count` blocks of one class (1 for a large class); some may go to the
 * system. `live_bytes` is what buffers hold now: for a large class it decides how much is kept. */
void dp_shared_pool_give(int size_class, dp_free_block *chain, uint32_t count, uint64_t live_bytes);
/* Tells the pool how many bytes live buffers hold after an increase. The pool keeps free memory up
 * to the recent peak of this number. */
void dp_shared_pool_note_live(uint64_t live_bytes);
/* Gives free blocks to the system until at most `keep_bytes` are free. */
void dp_shared_pool_trim(uint64_t keep_bytes);
/* Gives to the system the free large blocks beyond what dp_shared_pool_give would keep now. */
void dp_shared_pool_settle(uint64_t live_bytes);
void dp_shared_pool_statistics(uint64_t *pooled_bytes_out, uint64_t *allocations_out);

#endif
