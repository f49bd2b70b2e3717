/* The shared part of the buffer pool, and the only place that asks the system for tensor memory.
 *
 * Each small class (up to 64 KiB) has a list with its own lock; threads give and take whole batches
 * of small blocks. Each large class has a list too, but all of them share one lock, and one more
 * list links their blocks by age. A request for a large block whose class is empty may take a block
 * one or two classes larger. Large free blocks are kept while live and free bytes together stay
 * below a bound: the peak of live bytes in the last two windows of some seconds, and a fixed slack.
 * So a training loop finds its memory again, and one huge step does not hold its memory for ever.
 * The oldest blocks go first. Any thread may call. */
#include "tensor/buffer_internal.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include "base/clock.h"
#include "base/memory_limit.h"

#define MAP_LIMIT ((size_t)1 << 20) /* from here on blocks come from mmap */
#define PAGE ((size_t)4096)
#define HUGE_PAGE ((size_t)2 << 20)
#define SMALL_KEEP_BYTES ((uint64_t)16 << 20) /* in the shared small lists together */
#define LARGE_SLACK_BYTES ((uint64_t)32 << 20)
#define WINDOW_NANOS ((int64_t)10 * 1000 * 1000 * 1000)
#define NEIGHBOUR_CLASSES 2

typedef struct small_list {
  pthread_mutex_t mutex;
  dp_free_block *first;
  uint32_t count;
} small_list;

static small_list small_lists[DP_SMALL_CLASSES] = {
    [0 ... DP_SMALL_CLASSES - 1] = {.mutex = PTHREAD_MUTEX_INITIALIZER}};
static _Atomic uint64_t small_pooled_bytes;

/* large_mutex guards the lists of the large classes and the window. The atomics are also read
 * without it. It is held for some tens of nanoseconds, so a thread spins shortly before it sleeps.
 */
static pthread_mutex_t large_mutex = PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP;
static dp_free_block *large_lists[DP_SIZE_CLASSES];
static dp_free_block *oldest;
static dp_free_block *newest;
static uint64_t previous_window_peak;
static int64_t window_end;
static _Atomic uint64_t window_peak;
static _Atomic uint64_t large_pooled_bytes;

static _Atomic uint64_t allocations;

static size_t block_bytes(int size_class) {
  return dp_class_capacity(size_class) + DP_BLOCK_HEADER;
}

static bool is_mapped(size_t bytes) {
  return DP_POOL_KEEPS_BLOCKS && bytes >= MAP_LIMIT;
}

static void *map_memory(size_t bytes) {
  void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return memory == MAP_FAILED ? NULL : memory;
}

/* As map_memory, but aligned to a huge page and with huge pages requested: loops over such memory
 * have fewer TLB misses, and its first touch costs one fault per 2 MiB instead of one per 4 KiB. */
static void *map_huge(size_t bytes) {
  char *memory = map_memory(bytes + HUGE_PAGE);
  if (!memory)
    return NULL;
  size_t before = (HUGE_PAGE - ((size_t)memory & (HUGE_PAGE - 1))) & (HUGE_PAGE - 1);
  if (before > 0)
    munmap(memory, before);
  munmap(memory + before + bytes, HUGE_PAGE - before);
  madvise(memory + before, bytes, MADV_HUGEPAGE);
  return memory + before;
}

static dp_free_block *take_from_system(int size_class) {
  size_t bytes = block_bytes(size_class);
  void *memory;
  if (!dp_memory_has_room(bytes))
    return NULL;
  if (is_mapped(bytes)) {
    bytes = (bytes + PAGE - 1) & ~(PAGE - 1);
    memory = bytes >= HUGE_PAGE ? map_huge(bytes) : map_memory(bytes);
  } else {
    memory = aligned_alloc(DP_BUFFER_ALIGNMENT, bytes);
  }
  if (!memory)
    return NULL;
  atomic_fetch_add_explicit(&allocations, 1, memory_order_relaxed);
  dp_free_block *block = memory;
  *block = (dp_free_block){.size_class = size_class};
  return block;
}

static void give_to_system(int size_class, dp_free_block *block) {
  size_t bytes = block_bytes(size_class);
  if (is_mapped(bytes))
    munmap(block, (bytes + PAGE - 1) & ~(PAGE - 1));
  else
    free(block);
}

static void give_chain_to_system(dp_free_block *chain) {
  while (chain) {
    dp_free_block *next = chain->next;
    give_to_system(chain->size_class, chain);
    chain = next;
  }
}

/* ---- Small classes -------------------------------------------------------------------------- */

static dp_free_block *take_small(int size_class, uint32_t wanted, uint32_t *count_out) {
  small_list *list = &small_lists[size_class];
  pthread_mutex_lock(&list->mutex);
  dp_free_block *first = list->first;
  dp_free_block *last = NULL;
  uint32_t count = 0;
  for (dp_free_block *block = first; block && count < wanted; block = block->next, count++)
    last = block;
  if (last) {
    list->first = last->next;
    last->next = NULL;
    list->count -= count;
  }
  pthread_mutex_unlock(&list->mutex);
  *count_out = count;
  if (count == 0)
    return NULL;
  atomic_fetch_sub_explicit(&small_pooled_bytes, count * block_bytes(size_class),
                            memory_order_relaxed);
  return first;
}

static void give_small(int size_class, dp_free_block *chain, uint32_t count) {
  dp_free_block *last = NULL;
  for (dp_free_block *block = chain; block; block = block->next) {
    block->size_class = size_class;
    last = block;
  }
  uint64_t bytes = (uint64_t)count * block_bytes(size_class);
  uint64_t before = atomic_fetch_add_explicit(&small_pooled_bytes, bytes, memory_order_relaxed);
  if (!DP_POOL_KEEPS_BLOCKS || before + bytes > SMALL_KEEP_BYTES) {
    atomic_fetch_sub_explicit(&small_pooled_bytes, bytes, memory_order_relaxed);
    give_chain_to_system(chain);
    return;
  }
  small_list *list = &small_lists[size_class];
  pthread_mutex_lock(&list->mutex);
  last->next = list->first;
  list->first = chain;
  list->count += count;
  pthread_mutex_unlock(&list->mutex);
}

static void trim_small(uint64_t keep_bytes) {
  for (int size_class = DP_SMALL_CLASSES - 1; size_class >= 0; size_class--) {
    if (atomic_load_explicit(&small_pooled_bytes, memory_order_relaxed) <= keep_bytes)
      return;
    uint32_t count;
    give_chain_to_system(take_small(size_class, UINT32_MAX, &count));
  }
}

/* ---- Large classes: link_, unlink_, evict_ and find_large and large_keep_bytes need large_mutex
 */

static void link_large(dp_free_block *block) {
  dp_free_block **list = &large_lists[block->size_class];
  block->previous = NULL;
  block->next = *list;
  if (*list)
    (*list)->previous = block;
  *list = block;
  block->newer = NULL;
  block->older = newest;
  if (newest)
    newest->newer = block;
  else
    oldest = block;
  newest = block;
  atomic_fetch_add_explicit(&large_pooled_bytes, block_bytes(block->size_class),
                            memory_order_relaxed);
}

static void unlink_large(dp_free_block *block) {
  if (block->previous)
    block->previous->next = block->next;
  else
    large_lists[block->size_class] = block->next;
  if (block->next)
    block->next->previous = block->previous;
  if (block->older)
    block->older->newer = block->newer;
  else
    oldest = block->newer;
  if (block->newer)
    block->newer->older = block->older;
  else
    newest = block->older;
  atomic_fetch_sub_explicit(&large_pooled_bytes, block_bytes(block->size_class),
                            memory_order_relaxed);
}

/* Unlinks the oldest blocks until at most `keep_bytes` are free; returns them as a chain. */
static dp_free_block *evict_large(uint64_t keep_bytes) {
  dp_free_block *chain = NULL;
  while (oldest && atomic_load_explicit(&large_pooled_bytes, memory_order_relaxed) > keep_bytes) {
    dp_free_block *block = oldest;
    unlink_large(block);
    block->next = chain;
    chain = block;
  }
  return chain;
}

/* How many free bytes to keep when buffers hold `live_bytes`. Starts a new window when the current
 * one is over. */
static uint64_t large_keep_bytes(uint64_t live_bytes, int64_t now) {
  uint64_t peak = atomic_load_explicit(&window_peak, memory_order_relaxed);
  if (now >= window_end) {
    previous_window_peak = peak;
    atomic_store_explicit(&window_peak, live_bytes, memory_order_relaxed);
    window_end = now + WINDOW_NANOS;
  }
  if (peak < previous_window_peak)
    peak = previous_window_peak;
  return (peak > live_bytes ? peak - live_bytes : 0) + LARGE_SLACK_BYTES;
}

static dp_free_block *find_large(int size_class) {
  int last = size_class + NEIGHBOUR_CLASSES;
  for (int candidate = size_class; candidate <= last && candidate < DP_SIZE_CLASSES; candidate++) {
    if (large_lists[candidate])
      return large_lists[candidate];
  }
  return NULL;
}

static dp_free_block *take_large(int size_class) {
  pthread_mutex_lock(&large_mutex);
  dp_free_block *block = find_large(size_class);
  if (block)
    unlink_large(block);
  pthread_mutex_unlock(&large_mutex);
  return block;
}

static void give_large(dp_free_block *block, uint64_t live_bytes) {
  if (!DP_POOL_KEEPS_BLOCKS) {
    give_to_system(block->size_class, block);
    return;
  }
  int64_t now = dp_clock_nanos();
  pthread_mutex_lock(&large_mutex);
  link_large(block);
  dp_free_block *evicted = evict_large(large_keep_bytes(live_bytes, now));
  pthread_mutex_unlock(&large_mutex);
  give_chain_to_system(evicted);
}

static void trim_large(uint64_t keep_bytes) {
  pthread_mutex_lock(&large_mutex);
  dp_free_block *evicted = evict_large(keep_bytes);
  pthread_mutex_unlock(&large_mutex);
  give_chain_to_system(evicted);
}

/* ---- Both -------------------------------------------------------------------------------------
 */

dp_free_block *dp_shared_pool_take(int size_class, uint32_t wanted, uint32_t *count_out) {
  dp_free_block *block = size_class < DP_SMALL_CLASSES ? take_small(size_class, wanted, count_out)
                                                       : take_large(size_class);
  if (block) {
    if (size_class >= DP_SMALL_CLASSES)
      *count_out = 1;
    return block;
  }
  *count_out = 1;
  block = take_from_system(size_class);
  if (!block) {
    dp_shared_pool_trim(0);
    block = take_from_system(size_class);
  }
  return block;
}

void dp_shared_pool_give(int size_class, dp_free_block *chain, uint32_t count,
                         uint64_t live_bytes) {
  if (size_class < DP_SMALL_CLASSES) {
    give_small(size_class, chain, count);
    return;
  }
  chain->size_class = size_class;
  give_large(chain, live_bytes);
}

void dp_shared_pool_note_live(uint64_t live_bytes) {
  uint64_t peak = atomic_load_explicit(&window_peak, memory_order_relaxed);
  while (peak < live_bytes &&
         !atomic_compare_exchange_weak_explicit(&window_peak, &peak, live_bytes,
                                                memory_order_relaxed, memory_order_relaxed)) {
  }
}

void dp_shared_pool_trim(uint64_t keep_bytes) {
  uint64_t small = atomic_load_explicit(&small_pooled_bytes, memory_order_relaxed);
  trim_large(keep_bytes > small ? keep_bytes - small : 0);
  trim_small(keep_bytes);
}

void dp_shared_pool_settle(uint64_t live_bytes) {
  int64_t now = dp_clock_nanos();
  pthread_mutex_lock(&large_mutex);
  dp_free_block *evicted = evict_large(large_keep_bytes(live_bytes, now));
  pthread_mutex_unlock(&large_mutex);
  give_chain_to_system(evicted);
}

void dp_shared_pool_statistics(uint64_t *pooled_bytes_out, uint64_t *allocations_out) {
  *pooled_bytes_out = atomic_load_explicit(&small_pooled_bytes, memory_order_relaxed) +
                      atomic_load_explicit(&large_pooled_bytes, memory_order_relaxed);
  *allocations_out = atomic_load_explicit(&allocations, memory_order_relaxed);
}
