/* Lines (queues) of ops that wait: for queues, barriers, staging areas and accumulators. No thread
 * blocks in a line; a waiter is an object whose kernel ends later.
 *
 * A line belongs to an object with a lock. Joining and taking out happen with the lock held.
 * Whoever takes a waiter out must end it, after releasing the lock; so every waiter ends exactly
 * once. When the waiter's step is cancelled, the cancel scope calls back, and that callback takes
 * it out and ends it. */
#ifndef DP_KERNELS_SHARED_WAITING_H
#define DP_KERNELS_SHARED_WAITING_H

#include <pthread.h>
#include "base/cancel.h"

typedef struct dp_waiter dp_waiter;
typedef struct dp_waiters dp_waiters;

/* Embedded as the first member of the object that waits. */
struct dp_waiter {
  dp_waiter *previous, *next;
  dp_waiters *line; /* the line that it joined last */
  bool is_waiting;
  dp_cancel *cancel; /* retained */
  dp_cancel_token token;
};

struct dp_waiters {
  dp_waiter *first, *last;
  int64_t count;
  pthread_mutex_t *lock; /* the lock of the object that owns the line */
  /* Called when a waiter's step was cancelled, after it was taken out of the line: first `leave`
   * (may be NULL) with the lock held, then `end` without the lock. */
  void (*leave)(dp_waiter *waiter);
  void (*end)(dp_waiter *waiter);
};

/* ---- With the lock held ---- */
/* False when `cancel` (may be NULL) is already cancelled; the waiter is then in no line. */
bool dp_waiters_join(dp_waiters *line, dp_waiter *waiter, dp_cancel *cancel);
void dp_waiters_take(dp_waiters *line, dp_waiter *waiter);
/* Appends to a private list that only collects waiters: no cancel scope, no lock needed. */
void dp_waiters_collect(dp_waiters *line, dp_waiter *waiter);

/* ---- Without the lock ---- */
/* Removes the waiter from its cancel scope. Call it after taking the waiter out, before ending
 * it. */
void dp_waiter_settle(dp_waiter *waiter);

#endif
