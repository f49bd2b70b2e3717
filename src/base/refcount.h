/* A reference count to embed. Starts at 1 by dp_refcount_init. */
#ifndef DP_BASE_REFCOUNT_H
#define DP_BASE_REFCOUNT_H

#include <stdatomic.h>
#include <stdbool.h>

typedef struct dp_refcount {
  atomic_int count;
} dp_refcount;

static inline void dp_refcount_init(dp_refcount *refcount) {
  atomic_init(&refcount->count, 1);
}
static inline void dp_refcount_retain(dp_refcount *refcount) {
  atomic_fetch_add_explicit(&refcount->count, 1, memory_order_relaxed);
}
/* False when the last reference is gone already: for lists that objects leave while they end. */
static inline bool dp_refcount_try_retain(dp_refcount *refcount) {
  int count = atomic_load_explicit(&refcount->count, memory_order_relaxed);
  while (count > 0 &&
         !atomic_compare_exchange_weak_explicit(&refcount->count, &count, count + 1,
                                                memory_order_acquire, memory_order_relaxed))
    continue;
  return count > 0;
}
/* True when this was the last reference: the caller destroys the object. */
static inline bool dp_refcount_release(dp_refcount *refcount) {
  return atomic_fetch_sub_explicit(&refcount->count, 1, memory_order_acq_rel) == 1;
}
static inline bool dp_refcount_is_one(const dp_refcount *refcount) {
  return atomic_load_explicit(&((dp_refcount *)refcount)->count, memory_order_acquire) == 1;
}

#endif
