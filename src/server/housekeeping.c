/* Housekeeping: what a task does now and then whether or not somebody calls it. At present it gives
 * free memory back: while steps run the buffer pool looks after itself, but nobody would look after
 * the pool of a task that has gone idle. A timer starts each round on the blocking pool; stopping
 * waits for the round under way. */
#include "server/housekeeping_internal.h"

#include <pthread.h>
#include "base/clock.h"
#include "base/memory.h"
#include "base/timer.h"
#include "tensor/buffer.h"

static const int64_t period = INT64_C(10000000000);

struct dp_housekeeper {
  dp_pool *blocking;
  pthread_mutex_t lock; /* guards what follows */
  pthread_cond_t rested;
  dp_timer next;
  bool is_working, is_stopping;
};

static void start_round(void *arg);

/* With the lock held, or before anybody else has the keeper. */
static void plan_round(dp_housekeeper *keeper) {
  keeper->next = dp_timer_start(dp_clock_nanos() + period, start_round, keeper);
}

static void work(void *arg) {
  dp_housekeeper *keeper = arg;
  dp_buffer_settle();
  pthread_mutex_lock(&keeper->lock);
  keeper->is_working = false;
  if (keeper->is_stopping)
    pthread_cond_broadcast(&keeper->rested);
  else
    plan_round(keeper);
  pthread_mutex_unlock(&keeper->lock);
}

static void start_round(void *arg) {
  dp_housekeeper *keeper = arg;
  pthread_mutex_lock(&keeper->lock);
  bool starts = !keeper->is_stopping;
  keeper->is_working = starts;
  pthread_mutex_unlock(&keeper->lock);
  if (starts)
    dp_pool_run(keeper->blocking, work, keeper);
}

dp_housekeeper *dp_housekeeper_start(dp_pool *blocking) {
  dp_housekeeper *keeper = DP_NEW(dp_housekeeper);
  keeper->blocking = blocking;
  pthread_mutex_init(&keeper->lock, NULL);
  pthread_cond_init(&keeper->rested, NULL);
  plan_round(keeper);
  return keeper;
}

void dp_housekeeper_stop(dp_housekeeper *keeper) {
  pthread_mutex_lock(&keeper->lock);
  keeper->is_stopping = true;
  dp_timer next = keeper->next;
  pthread_mutex_unlock(&keeper->lock);
  dp_timer_cancel(next);
  pthread_mutex_lock(&keeper->lock);
  while (keeper->is_working)
    pthread_cond_wait(&keeper->rested, &keeper->lock);
  pthread_mutex_unlock(&keeper->lock);
  pthread_cond_destroy(&keeper->rested);
  pthread_mutex_destroy(&keeper->lock);
  dp_free(keeper);
}
