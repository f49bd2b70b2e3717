/* Keeps the buffers of a task within the memory that the process may take, and gives free memory of
 * the buffer pool back to the system every 10 seconds.
 *
 * While steps run the buffer pool trims itself; nobody would trim the pool of a task that has gone
 * idle. A timer starts each round on the blocking pool. Stopping waits for the round under way. */
#include "server/memory_trim_internal.h"

#include <pthread.h>
#include "base/clock.h"
#include "base/memory.h"
#include "base/memory_limit.h"
#include "base/timer.h"
#include "tensor/buffer.h"

static const int64_t period = INT64_C(10000000000);

struct dp_memory_trim {
  dp_pool *blocking;
  pthread_mutex_t lock; /* guards what follows */
  pthread_cond_t rested;
  dp_timer next;
  bool is_working, is_stopping;
};

static void start_round(void *arg);

/* With the lock held, or before anybody else has it. */
static void plan_round(dp_memory_trim *trim) {
  trim->next = dp_timer_start(dp_clock_nanos() + period, start_round, trim);
}

static void work(void *arg) {
  dp_memory_trim *trim = arg;
  dp_buffer_settle();
  pthread_mutex_lock(&trim->lock);
  trim->is_working = false;
  if (trim->is_stopping)
    pthread_cond_broadcast(&trim->rested);
  else
    plan_round(trim);
  pthread_mutex_unlock(&trim->lock);
}

static void start_round(void *arg) {
  dp_memory_trim *trim = arg;
  pthread_mutex_lock(&trim->lock);
  bool starts = !trim->is_stopping;
  trim->is_working = starts;
  pthread_mutex_unlock(&trim->lock);
  if (starts)
    dp_pool_run(trim->blocking, work, trim);
}

dp_memory_trim *dp_memory_trim_start(dp_pool *blocking) {
  dp_memory_trim *trim = DP_NEW(dp_memory_trim);
  trim->blocking = blocking;
  dp_memory_limit_start();
  dp_buffer_set_limit(dp_memory_limit());
  pthread_mutex_init(&trim->lock, NULL);
  pthread_cond_init(&trim->rested, NULL);
  plan_round(trim);
  return trim;
}

void dp_memory_trim_stop(dp_memory_trim *trim) {
  pthread_mutex_lock(&trim->lock);
  trim->is_stopping = true;
  dp_timer next = trim->next;
  pthread_mutex_unlock(&trim->lock);
  dp_timer_cancel(next);
  pthread_mutex_lock(&trim->lock);
  while (trim->is_working)
    pthread_cond_wait(&trim->rested, &trim->lock);
  pthread_mutex_unlock(&trim->lock);
  pthread_cond_destroy(&trim->rested);
  pthread_mutex_destroy(&trim->lock);
  dp_free(trim);
}
