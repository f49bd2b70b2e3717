/* Buffers: reference-counted memory behind tensors, aligned to 64 bytes.
 *
 * dp_buffer_create takes memory from a pool of size classes: each thread has a cache for small
 * sizes, and large sizes have one shared list per class. The pool keeps memory because the first
 * touch of a page costs 2.5 us per 4 KiB. dp_buffer_wrap makes a buffer over memory that the caller
 * owns (a client's tensor, a received slice, a mapped file); the caller's release function is
 * called when the last reference goes. A buffer knows only bytes. Where the bytes own something, as
 * the elements of a string tensor do, a release function of dp_buffer_create_owning frees it. Any
 * thread may retain and release. */
#ifndef DP_TENSOR_BUFFER_H
#define DP_TENSOR_BUFFER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/refcount.h"
#include "base/status.h"

#define DP_BUFFER_ALIGNMENT 64

typedef struct dp_buffer dp_buffer;
typedef void (*dp_buffer_release_fn)(void *arg, void *data, size_t size);

struct dp_buffer {
  dp_refcount references;
  int32_t size_class; /* of the pool; -1 when not pooled */
  void *data;
  size_t size;
  dp_buffer_release_fn release; /* NULL for pooled buffers of plain bytes */
  void *release_arg;
};

/* Not zeroed. RESOURCE_EXHAUSTED (the message names the size) when there is no memory, or when live
 * buffers would exceed the limit of dp_buffer_set_limit. `size` may be 0. */
DP_MUST_USE dp_status *dp_buffer_create(size_t size, dp_buffer **buffer_out);
/* Pooled memory whose contents own something: `release` is called before the memory goes back to
 * the pool. */
DP_MUST_USE dp_status *dp_buffer_create_owning(size_t size, dp_buffer_release_fn release, void *arg,
                                               dp_buffer **buffer_out);
/* A buffer over memory of the caller's. `release` (may be NULL) is called exactly once, when the
 * last reference goes. */
dp_buffer *dp_buffer_wrap(void *data, size_t size, dp_buffer_release_fn release, void *arg);

static inline dp_buffer *dp_buffer_retain(dp_buffer *buffer) {
  if (buffer)
    dp_refcount_retain(&buffer->references);
  return buffer;
}
void dp_buffer_destroy(dp_buffer *buffer); /* for dp_buffer_release only */
static inline void dp_buffer_release(dp_buffer *buffer) {
  if (buffer && dp_refcount_release(&buffer->references))
    dp_buffer_destroy(buffer);
}
/* Whether the caller's reference is the only one, so that it may write. Always false for wrapped
 * memory, which may be a client's or mapped read-only. */
static inline bool dp_buffer_is_unique(const dp_buffer *buffer) {
  return buffer && buffer->size_class >= 0 && dp_refcount_is_one(&buffer->references);
}

typedef struct dp_buffer_statistics {
  uint64_t live_bytes;   /* in buffers now */
  uint64_t peak_bytes;   /* most ever, since the last reset */
  uint64_t pooled_bytes; /* free, kept for reuse */
  uint64_t allocations;  /* taken from the system */
  uint64_t requests;     /* all creates */
} dp_buffer_statistics;

void dp_buffer_get_statistics(dp_buffer_statistics *statistics_out);
void dp_buffer_reset_peak(void);
/* The most that live buffers may hold together; 0: no limit. */
void dp_buffer_set_limit(uint64_t bytes);
/* Gives free pooled memory back to the system, down to `keep_bytes`. */
void dp_buffer_trim(uint64_t keep_bytes);
/* To be called about every ten seconds. Gives memory back to the system: the free memory that
 * recent steps did not need, or all free memory when no buffer was created since the last call. The
 * threads' caches of small blocks stay. */
void dp_buffer_settle(void);

#endif
