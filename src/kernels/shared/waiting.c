/* Lines of waiting ops (waiting.h): doubly linked lists, so that a cancelled waiter leaves from the
 * middle at constant cost. */
#include "kernels/shared/waiting.h"

#include <stddef.h>

static void append(dp_waiters *line, dp_waiter *waiter) {
  waiter->previous = line->last;
  waiter->next = NULL;
  if (line->last)
    line->last->next = waiter;
  else
    line->first = waiter;
  line->last = waiter;
  ++line->count;
}

/* Called by the cancel scope, on any thread. The waiter still exists: whoever else ends it calls
 * dp_waiter_settle before, and that waits until this function has returned. */
static void on_cancel(void *arg, const dp_status *why) {
  dp_waiter *waiter = arg;
  dp_waiters *line = waiter->line;
  pthread_mutex_lock(line->lock);
  bool is_mine = waiter->is_waiting;
  if (is_mine) {
    dp_waiters_take(line, waiter);
    if (line->leave)
      line->leave(waiter);
  }
  pthread_mutex_unlock(line->lock);
  if (!is_mine)
    return;
  dp_cancel_release(waiter->cancel);
  waiter->cancel = NULL;
  line->end(waiter);
}

bool dp_waiters_join(dp_waiters *line, dp_waiter *waiter, dp_cancel *cancel) {
  waiter->line = line;
  waiter->token = 0;
  if (cancel && !dp_cancel_register(cancel, on_cancel, waiter, &waiter->token))
    return false;
  waiter->cancel = cancel ? dp_cancel_retain(cancel) : NULL;
  waiter->is_waiting = true;
  append(line, waiter);
  return true;
}

void dp_waiters_take(dp_waiters *line, dp_waiter *waiter) {
  if (waiter->previous)
    waiter->previous->next = waiter->next;
  else
    line->first = waiter->next;
  if (waiter->next)
    waiter->next->previous = waiter->previous;
  else
    line->last = waiter->previous;
  waiter->is_waiting = false;
  --line->count;
}

void dp_waiters_collect(dp_waiters *line, dp_waiter *waiter) {
  append(line, waiter);
}

void dp_waiter_settle(dp_waiter *waiter) {
  if (!waiter->cancel)
    return;
  dp_cancel_deregister(waiter->cancel, waiter->token);
  dp_cancel_release(waiter->cancel);
  waiter->cancel = NULL;
}
