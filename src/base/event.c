/* Events (event.h): a flag under a mutex, with a condition variable for those that wait. The
 * condition uses the monotonic clock, so that a change of the system's time moves no deadline. The
 * mutex is held only to read or set the flag. */
#include "base/event.h"

#include <time.h>

#include "base/clock.h"

void dp_event_init(dp_event *event) {
  pthread_condattr_t attributes;
  pthread_condattr_init(&attributes);
  pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
  pthread_cond_init(&event->changed, &attributes);
  pthread_condattr_destroy(&attributes);
  pthread_mutex_init(&event->mutex, NULL);
  event->set = false;
}

void dp_event_deinit(dp_event *event) {
  pthread_cond_destroy(&event->changed);
  pthread_mutex_destroy(&event->mutex);
}

void dp_event_notify(dp_event *event) {
  /* Under the lock to the end: a waiter may destroy the event as soon as it can return. */
  pthread_mutex_lock(&event->mutex);
  event->set = true;
  pthread_cond_broadcast(&event->changed);
  pthread_mutex_unlock(&event->mutex);
}

void dp_event_wait(dp_event *event) {
  pthread_mutex_lock(&event->mutex);
  while (!event->set)
    pthread_cond_wait(&event->changed, &event->mutex);
  pthread_mutex_unlock(&event->mutex);
}

bool dp_event_wait_until(dp_event *event, int64_t deadline_nanos) {
  if (deadline_nanos == DP_FOREVER) {
    dp_event_wait(event);
    return true;
  }
  if (deadline_nanos < 0)
    deadline_nanos = 0;
  struct timespec deadline = {deadline_nanos / 1000000000, deadline_nanos % 1000000000};
  pthread_mutex_lock(&event->mutex);
  int result = 0;
  while (!event->set && result == 0)
    result = pthread_cond_timedwait(&event->changed, &event->mutex, &deadline);
  bool set = event->set;
  pthread_mutex_unlock(&event->mutex);
  return set;
}
