/* A one-shot event: threads wait until somebody notifies. Embedded; the last waiter may destroy it
 * as soon as its wait returns. */
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
