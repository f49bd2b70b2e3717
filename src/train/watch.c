/* A watch on the job's workers: it asks each of them once a second whether it is alive.
 *
 * The questions are WorkerService.GetStatus, on connections of the watch's own. One thread asks and
 * calls `heard` after each round; network threads bring the answers. A worker's fields are atomic.
 * Whoever starts a watch owns it. */
#include <pthread.h>
#include <stdatomic.h>

#include "base/arena.h"
#include "base/clock.h"
#include "rpc/client.h"
#include "train/train_internal.h"
#include "wire/control.h"
#include "wire/methods.h"
#include "wire/worker.pb-c.h"

static const int64_t ROUND_NANOS = 1000000000, ANSWER_NANOS = 2000000000;

typedef struct watched_worker {
  train_watch *watch;
  dp_rpc_channel *channel;
  _Atomic int64_t seen; /* when it last answered, or when the watch began */
  _Atomic uint64_t incarnation;
} watched_worker;

struct train_watch {
  train_watch_fn heard;
  void *arg;
  dp_rpc_client *client;
  dp_cancel *life;
  pthread_t thread;
  pthread_mutex_t lock; /* guards what follows */
  pthread_cond_t changed;
  int questions; /* without an answer */
  bool ended;
  int count;
  watched_worker workers[];
};

/* ---- Questions ---- */
/* 0 for an answer that is not one of a worker. */
static uint64_t read_incarnation(const dp_rope *response) {
  dp_arena *arena = dp_arena_create();
  Tensorflow__GetStatusResponse *answer;
  dp_status *status =
      dp_wire_unpack(&tensorflow__get_status_response__descriptor, response, arena, &answer);
  uint64_t incarnation = !status && answer->n_device_attributes > 0
                             ? (uint64_t)answer->device_attributes[0]->incarnation
                             : 0;
  dp_status_release(status);
  dp_arena_destroy(arena);
  return incarnation;
}

static void answered(void *arg, dp_status *status, dp_rope *response) {
  watched_worker *worker = arg;
  train_watch *watch = worker->watch;
  uint64_t incarnation = status ? 0 : read_incarnation(response);
  if (incarnation) {
    atomic_store(&worker->incarnation, incarnation);
    atomic_store(&worker->seen, dp_clock_nanos());
  }
  dp_status_release(status);
  pthread_mutex_lock(&watch->lock);
  watch->questions--;
  pthread_cond_broadcast(&watch->changed);
  pthread_mutex_unlock(&watch->lock);
}

static void ask_all(train_watch *self) {
  pthread_mutex_lock(&self->lock);
  self->questions = self->count;
  pthread_mutex_unlock(&self->lock);
  for (int i = 0; i < self->count; i++) {
    dp_rope request = {0}; /* GetStatusRequest without fields is empty */
    dp_rpc_channel_call(self->workers[i].channel, dp_worker_method_path(DP_WORKER_GET_STATUS),
                        &request, dp_clock_nanos() + ANSWER_NANOS, self->life, DP_RPC_FAIL_FAST,
                        answered, &self->workers[i]);
  }
  pthread_mutex_lock(&self->lock);
  while (self->questions > 0)
    pthread_cond_wait(&self->changed, &self->lock);
  pthread_mutex_unlock(&self->lock);
}

/* False when the watch has ended. */
static bool pause_until(train_watch *self, int64_t nanos) {
  struct timespec until = {.tv_sec = nanos / 1000000000, .tv_nsec = nanos % 1000000000};
  int result = 0;
  pthread_mutex_lock(&self->lock);
  while (!self->ended && result == 0)
    result = pthread_cond_clockwait(&self->changed, &self->lock, CLOCK_MONOTONIC, &until);
  bool goes_on = !self->ended;
  pthread_mutex_unlock(&self->lock);
  return goes_on;
}

/* Time in which this process itself stood still is nobody's silence. */
static void forgive(train_watch *self, int64_t nanos) {
  for (int i = 0; i < self->count; i++)
    atomic_fetch_add(&self->workers[i].seen, nanos);
}

static void *watch_all(void *arg) {
  train_watch *self = arg;
  int64_t next = dp_clock_nanos();
  do {
    int64_t late = dp_clock_nanos() - next;
    if (late > ROUND_NANOS)
      forgive(self, late);
    ask_all(self);
    self->heard(self->arg, self);
    next = dp_clock_nanos() + ROUND_NANOS;
  } while (pause_until(self, next));
  return NULL;
}

/* ---- Life ---- */
static void destroy(train_watch *self) {
  for (int i = 0; i < self->count; i++)
    dp_rpc_channel_release(self->workers[i].channel);
  dp_rpc_client_destroy(self->client);
  dp_cancel_release(self->life);
  pthread_cond_destroy(&self->changed);
  pthread_mutex_destroy(&self->lock);
  dp_free(self);
}

train_watch *dp_train_watch_start(const dp_job *job, train_watch_fn heard, void *arg) {
  int count = dp_job_worker_count(job);
  train_watch *self = dp_calloc(1, sizeof(train_watch) + (size_t)count * sizeof(watched_worker));
  dp_status *status = dp_rpc_client_create(1, &self->client);
  if (status) {
    dp_status_release(status);
    dp_free(self);
    return NULL;
  }
  self->heard = heard;
  self->arg = arg;
  self->life = dp_cancel_create(NULL, DP_FOREVER);
  pthread_mutex_init(&self->lock, NULL);
  pthread_cond_init(&self->changed, NULL);
  for (self->count = 0; self->count < count; self->count++) {
    watched_worker *worker = &self->workers[self->count];
    worker->watch = self;
    worker->channel =
        dp_rpc_channel_create(self->client, dp_train_job_address(job, self->count), NULL);
    atomic_store(&worker->seen, dp_clock_nanos());
  }
  if (pthread_create(&self->thread, NULL, watch_all, self) == 0)
    return self;
  destroy(self);
  return NULL;
}

void dp_train_watch_stop(train_watch *self) {
  if (!self)
    return;
  pthread_mutex_lock(&self->lock);
  self->ended = true;
  pthread_cond_broadcast(&self->changed);
  pthread_mutex_unlock(&self->lock);
  dp_cancel_trigger(self->life, dp_status_create(DP_CANCELLED, "the watch has ended"));
  pthread_join(self->thread, NULL);
  destroy(self);
}

double dp_train_watch_silent(const train_watch *self, int worker) {
  return (double)(dp_clock_nanos() - atomic_load(&self->workers[worker].seen)) / 1e9;
}

uint64_t dp_train_watch_incarnation(const train_watch *self, int worker) {
  return atomic_load(&self->workers[worker].incarnation);
}
