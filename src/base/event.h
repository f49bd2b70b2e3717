/* A one-shot event: threads wait until another thread notifies. Once set it stays set. It is
 * embedded in its owner, often on the stack of the one waiter: dp_event_notify does not touch the
 * event after a waiter can return, so the last waiter may destroy it at once. */
#ifndef DP_BASE_EVENT_H
#define DP_BASE_EVENT_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct dp_event {
  pthread_mutex_t mutex;
  pthread_cond_t changed;
  bool set;
} dp_event;

void dp_event_init(dp_event *event);
void dp_event_deinit(dp_event *event);
void dp_event_notify(dp_event *event);
void dp_event_wait(dp_event *event);
/* False when the monotonic deadline (base/clock.h) came first. */
bool dp_event_wait_until(dp_event *event, int64_t deadline_nanos);

#endif
