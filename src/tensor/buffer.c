/* Buffers, the threads' caches of free blocks, and the count of live bytes.
 *
 * A small buffer that a thread creates and releases touches only that thread's cache: no lock and
 * no atomic read-modify-write. The cache has a bounded list per class. A full list gives half of
 * its blocks to the shared pool, an empty one takes up to half of its limit from there. When the
 * thread ends, the shared pool gets all blocks of the cache.
 *
 * Bytes are counted by requested size. A large buffer changes the common count at once. A thread
 * sums up the changes by its small buffers and adds the sum to the common count when it passes a
 * threshold (256 KiB, or a 256th of the limit if that is less). So peak_bytes may be off by one
 * threshold per thread. live_bytes in the statistics is exact while no other thread creates or
 * releases. A request is refused only by the exact sum over all threads. pooled_bytes leaves out
 * the blocks in thread caches. */
#include "tensor/buffer_internal.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include "base/memory.h"

#define PUBLISH_BYTES ((int64_t)256 << 10)

typedef struct thread_cache {
  dp_free_block *lists[DP_SMALL_CLASSES];
  uint32_t counts[DP_SMALL_CLASSES];
  uint32_t limits[DP_SMALL_CLASSES]; /* of counts */
  /* Written by the owner only, read by statistics. */
  _Atomic int64_t unpublished_bytes;
  _Atomic uint64_t requests;
  struct thread_cache *next;
  struct thread_cache **link; /* the pointer in the list `caches` that points to this one */
} thread_cache;

/* own_cache is NULL before the first use in a thread. In a thread that is ending the cache is gone
 * and thread_has_ended is set; such a thread uses the shared pool directly. */
static _Thread_local thread_cache *own_cache __attribute__((tls_model("initial-exec")));
static _Thread_local bool thread_has_ended;

static pthread_once_t key_once = PTHREAD_ONCE_INIT;
static pthread_key_t exit_key;
static pthread_mutex_t caches_mutex = PTHREAD_MUTEX_INITIALIZER;
static thread_cache *caches;            /* guarded by caches_mutex */
static _Atomic uint64_t ended_requests; /* of threads without a cache */

static _Atomic int64_t live_bytes;
static _Atomic int64_t peak_bytes;
static _Atomic int64_t limit_bytes;
static _Atomic int64_t publish_bytes = PUBLISH_BYTES;

/* ---- Counting ---------------------------------------------------------------------------------
 */

static int64_t relaxed(const _Atomic int64_t *number) {
  return atomic_load_explicit((_Atomic int64_t *)number, memory_order_relaxed);
}

static void raise_peak(int64_t live) {
  int64_t peak = relaxed(&peak_bytes);
  while (peak < live && !atomic_compare_exchange_weak_explicit(
                            &peak_bytes, &peak, live, memory_order_relaxed, memory_order_relaxed)) {
  }
}

/* Changes the common count; returns it. */
static int64_t change_live(int64_t bytes) {
  return atomic_fetch_add_explicit(&live_bytes, bytes, memory_order_relaxed) + bytes;
}

static void note_growth(int64_t live) {
  raise_peak(live);
  dp_shared_pool_note_live((uint64_t)(live > 0 ? live : 0));
}

static void publish(thread_cache *cache) {
  int64_t bytes = relaxed(&cache->unpublished_bytes);
  atomic_store_explicit(&cache->unpublished_bytes, 0, memory_order_relaxed);
  int64_t live = change_live(bytes);
  if (bytes > 0)
    note_growth(live);
}

static int64_t exact_live_bytes(void) {
  pthread_mutex_lock(&caches_mutex);
  int64_t sum = relaxed(&live_bytes);
  for (thread_cache *cache = caches; cache; cache = cache->next)
    sum += relaxed(&cache->unpublished_bytes);
  pthread_mutex_unlock(&caches_mutex);
  return sum;
}

static dp_status *limit_error(size_t size, int64_t live, int64_t limit) {
  return dp_status_create(DP_RESOURCE_EXHAUSTED,
                          "OOM when allocating a buffer of %zu bytes: %lld of the limit of %lld "
                          "bytes are in use",
                          size, (long long)live, (long long)limit);
}

static dp_status *memory_error(size_t size) {
  return dp_status_create(DP_RESOURCE_EXHAUSTED,
                          "OOM when allocating a buffer of %zu bytes: the system has no memory, or "
                          "this process is near its limit (ulimit, control group)",
                          size);
}

/* An error when `size` more bytes would pass the limit. Does not change the count. */
static dp_status *check_limit(size_t size) {
  int64_t limit = relaxed(&limit_bytes);
  if (limit == 0 || relaxed(&live_bytes) + (int64_t)size <= limit)
    return NULL;
  int64_t live = exact_live_bytes();
  return live + (int64_t)size <= limit ? NULL : limit_error(size, live, limit);
}

/* ---- Caches of the threads --------------------------------------------------------------------
 */

static void flush_class(thread_cache *cache, int size_class) {
  if (cache->counts[size_class] > 0)
    dp_shared_pool_give(size_class, cache->lists[size_class], cache->counts[size_class], 0);
  cache->lists[size_class] = NULL;
  cache->counts[size_class] = 0;
}

static void flush_cache(thread_cache *cache) {
  for (int size_class = 0; size_class < DP_SMALL_CLASSES; size_class++)
    flush_class(cache, size_class);
  publish(cache);
}

static void end_thread(void *arg) {
  thread_cache *cache = arg;
  flush_cache(cache);
  own_cache = NULL;
  thread_has_ended = true;
  pthread_mutex_lock(&caches_mutex);
  *cache->link = cache->next;
  if (cache->next)
    cache->next->link = cache->link;
  atomic_fetch_add_explicit(&ended_requests,
                            atomic_load_explicit(&cache->requests, memory_order_relaxed),
                            memory_order_relaxed);
  pthread_mutex_unlock(&caches_mutex);
  dp_free(cache);
}

static void create_key(void) {
  if (pthread_key_create(&exit_key, end_thread) != 0)
    abort();
}

/* NULL in a thread that is ending. */
static thread_cache *make_cache(void) {
  if (thread_has_ended)
    return NULL;
  pthread_once(&key_once, create_key);
  thread_cache *cache = DP_NEW(thread_cache);
  for (int size_class = 0; size_class < DP_SMALL_CLASSES; size_class++)
    cache->limits[size_class] = dp_class_cache_count(size_class);
  pthread_mutex_lock(&caches_mutex);
  cache->next = caches;
  cache->link = &caches;
  if (caches)
    caches->link = &cache->next;
  caches = cache;
  pthread_mutex_unlock(&caches_mutex);
  pthread_setspecific(exit_key, cache);
  own_cache = cache;
  return cache;
}

static inline thread_cache *get_cache(void) {
  thread_cache *cache = own_cache;
  return __builtin_expect(cache != NULL, 1) ? cache : make_cache();
}

/* Gives half of a full list to the shared pool: the blocks that were released longest ago. */
static void give_half(thread_cache *cache, int size_class) {
  uint32_t kept = cache->counts[size_class] / 2;
  dp_free_block *last_kept = cache->lists[size_class];
  for (uint32_t i = 1; i < kept; i++)
    last_kept = last_kept->next;
  dp_free_block *rest = last_kept->next;
  last_kept->next = NULL;
  dp_shared_pool_give(size_class, rest, cache->counts[size_class] - kept, 0);
  cache->counts[size_class] = kept;
}

static dp_free_block *refill(thread_cache *cache, int size_class) {
  uint32_t count;
  uint32_t wanted = (cache->limits[size_class] + 1) / 2;
  dp_free_block *chain = dp_shared_pool_take(size_class, wanted, &count);
  if (!chain)
    return NULL;
  cache->lists[size_class] = chain->next;
  cache->counts[size_class] = count - 1;
  return chain;
}

static inline void count_in_cache(thread_cache *cache, int64_t bytes) {
  atomic_store_explicit(&cache->unpublished_bytes, relaxed(&cache->unpublished_bytes) + bytes,
                        memory_order_relaxed);
}

/* ---- Create -----------------------------------------------------------------------------------
 */

static inline dp_buffer *init_buffer(dp_free_block *block, int size_class, size_t size) {
  dp_buffer *buffer = (dp_buffer *)block;
  dp_refcount_init(&buffer->references);
  buffer->size_class = size_class;
  buffer->data = (char *)block + DP_BLOCK_HEADER;
  buffer->size = size;
  buffer->release = NULL;
  buffer->release_arg = NULL;
  return buffer;
}

/* Takes a block from the shared pool: for a large buffer, or for any buffer of a thread that is
 * ending. */
static dp_status *create_shared(size_t size, dp_buffer **buffer_out) {
  if (size > DP_SIZE_LIMIT)
    return memory_error(size);
  int64_t live = change_live((int64_t)size);
  int64_t limit = relaxed(&limit_bytes);
  if (limit != 0 && live > limit && (live = exact_live_bytes()) > limit) {
    change_live(-(int64_t)size);
    return limit_error(size, live - (int64_t)size, limit);
  }
  uint32_t count;
  int size_class = dp_size_class(size);
  dp_free_block *block = dp_shared_pool_take(size_class, 1, &count);
  if (!block) {
    change_live(-(int64_t)size);
    return memory_error(size);
  }
  note_growth(live);
  /* The block may be of a larger class than was asked for. */
  *buffer_out = init_buffer(block, block->size_class, size);
  return NULL;
}

static void count_request(thread_cache *cache) {
  if (cache)
    atomic_store_explicit(&cache->requests,
                          atomic_load_explicit(&cache->requests, memory_order_relaxed) + 1,
                          memory_order_relaxed);
  else
    atomic_fetch_add_explicit(&ended_requests, 1, memory_order_relaxed);
}

dp_status *dp_buffer_create(size_t size, dp_buffer **buffer_out) {
  thread_cache *cache = get_cache();
  count_request(cache);
  if (size > DP_SMALL_LIMIT || !cache)
    return create_shared(size, buffer_out);
  if (__builtin_expect(relaxed(&cache->unpublished_bytes) + (int64_t)size > relaxed(&publish_bytes),
                       0)) {
    publish(cache);
    DP_RETURN_IF_ERROR(check_limit(size));
  }
  int size_class = dp_size_class(size);
  dp_free_block *block = cache->lists[size_class];
  if (__builtin_expect(block != NULL, 1)) {
    cache->lists[size_class] = block->next;
    cache->counts[size_class]--;
  } else {
    block = refill(cache, size_class);
    if (!block)
      return memory_error(size);
  }
  count_in_cache(cache, (int64_t)size);
  *buffer_out = init_buffer(block, size_class, size);
  return NULL;
}

dp_status *dp_buffer_create_owning(size_t size, dp_buffer_release_fn release, void *arg,
                                   dp_buffer **buffer_out) {
  dp_buffer *buffer;
  DP_RETURN_IF_ERROR(dp_buffer_create(size, &buffer));
  buffer->release = release;
  buffer->release_arg = arg;
  *buffer_out = buffer;
  return NULL;
}

dp_buffer *dp_buffer_wrap(void *data, size_t size, dp_buffer_release_fn release, void *arg) {
  dp_buffer *buffer = dp_malloc(sizeof *buffer);
  dp_refcount_init(&buffer->references);
  buffer->size_class = -1;
  buffer->data = data;
  buffer->size = size;
  buffer->release = release;
  buffer->release_arg = arg;
  return buffer;
}

/* ---- Destroy ----------------------------------------------------------------------------------
 */

static void destroy_shared(dp_free_block *block, int size_class, size_t size) {
  int64_t live = change_live(-(int64_t)size);
  block->next = NULL;
  dp_shared_pool_give(size_class, block, 1, (uint64_t)(live > 0 ? live : 0));
}

void dp_buffer_destroy(dp_buffer *buffer) {
  if (buffer->release)
    buffer->release(buffer->release_arg, buffer->data, buffer->size);
  int size_class = buffer->size_class;
  if (size_class < 0) {
    dp_free(buffer);
    return;
  }
  size_t size = buffer->size;
  dp_free_block *block = (dp_free_block *)buffer;
  thread_cache *cache = size_class < DP_SMALL_CLASSES ? get_cache() : NULL;
  if (!DP_POOL_KEEPS_BLOCKS || !cache) {
    destroy_shared(block, size_class, size);
    return;
  }
  block->next = cache->lists[size_class];
  cache->lists[size_class] = block;
  count_in_cache(cache, -(int64_t)size);
  if (__builtin_expect(++cache->counts[size_class] > cache->limits[size_class], 0))
    give_half(cache, size_class);
  if (__builtin_expect(relaxed(&cache->unpublished_bytes) < -relaxed(&publish_bytes), 0))
    publish(cache);
}

/* ---- Statistics and limits --------------------------------------------------------------------
 */

void dp_buffer_get_statistics(dp_buffer_statistics *statistics_out) {
  dp_buffer_statistics statistics = {0};
  int64_t live = exact_live_bytes();
  raise_peak(live);
  statistics.live_bytes = (uint64_t)(live > 0 ? live : 0);
  statistics.peak_bytes = (uint64_t)relaxed(&peak_bytes);
  dp_shared_pool_statistics(&statistics.pooled_bytes, &statistics.allocations);
  pthread_mutex_lock(&caches_mutex);
  statistics.requests = atomic_load_explicit(&ended_requests, memory_order_relaxed);
  for (thread_cache *cache = caches; cache; cache = cache->next)
    statistics.requests += atomic_load_explicit(&cache->requests, memory_order_relaxed);
  pthread_mutex_unlock(&caches_mutex);
  *statistics_out = statistics;
}

void dp_buffer_reset_peak(void) {
  int64_t live = exact_live_bytes();
  atomic_store_explicit(&peak_bytes, live > 0 ? live : 0, memory_order_relaxed);
}

void dp_buffer_set_limit(uint64_t bytes) {
  int64_t limit = bytes > INT64_MAX ? INT64_MAX : (int64_t)bytes;
  int64_t threshold = limit != 0 && limit / 256 < PUBLISH_BYTES ? limit / 256 : PUBLISH_BYTES;
  atomic_store_explicit(&publish_bytes, threshold, memory_order_relaxed);
  atomic_store_explicit(&limit_bytes, limit, memory_order_relaxed);
}

void dp_buffer_settle(void) {
  static _Atomic uint64_t last_requests;
  dp_buffer_statistics now;
  dp_buffer_get_statistics(&now);
  uint64_t before = atomic_exchange_explicit(&last_requests, now.requests, memory_order_relaxed);
  if (before == now.requests)
    dp_shared_pool_trim(0);
  else
    dp_shared_pool_settle(now.live_bytes);
}

void dp_buffer_trim(uint64_t keep_bytes) {
  if (own_cache)
    flush_cache(own_cache);
  dp_shared_pool_trim(keep_bytes);
}
