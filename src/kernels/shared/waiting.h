/* Lines of ops that wait for something to come: what queues, barriers, staging areas and
 * accumulators share. No thread stands in a line; a waiter is an object that its kernel ends later.
 *
 * A line lies in an object with a lock. With the lock held, a waiter joins a line and is taken out
 * of it; whoever takes it out ends it, without the lock: so it ends once. When the waiter's step is
 * cancelled, the line's own callback takes it out. */
#ifndef DP_KERNELS_WAITING_INTERNAL_H
#define DP_KERNELS_WAITING_INTERNAL_H

#include <pthread.h>
#include "base/cancel.h"

typedef struct dp_waiter dp_waiter;
typedef struct dp_waiters dp_waiters;

/* Embedded at the beginning of what waits. */
struct dp_waiter {
  dp_waiter *previous, *next;
  dp_waiters *line; /* the one joined last */
  bool is_waiting;
  dp_cancel *cancel; /* retained */
  dp_cancel_token token;
};

struct dp_waiters {
  dp_waiter *first, *last;
  int64_t count;
  pthread_mutex_t *lock; /* of the object that the line lies in */
  /* A waiter's step was cancelled. `leave` (may be NULL) is called with the lock held when it is
   * out of the line, `end` after that without the lock. */
  void (*leave)(dp_waiter *waiter);
  void (*end)(dp_waiter *waiter);
};

/* ---- With the lock held ---- */
/* False when `cancel` (may be NULL) is cancelled already: then the waiter is in no line. */
bool dp_waiters_join(dp_waiters *line, dp_waiter *waiter, dp_cancel *cancel);
void dp_waiters_take(dp_waiters *line, dp_waiter *waiter);
/* Appends to a line of one's own that only collects: no cancel scope, no lock. */
void dp_waiters_collect(dp_waiters *line, dp_waiter *waiter);

/* ---- Without the lock ---- */
/* For whoever took a waiter out, before he ends it: its cancel scope forgets it. */
void dp_waiter_settle(dp_waiter *waiter);

#endif
