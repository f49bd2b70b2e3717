/* The end of a job, as the parameter servers learn of it. A parameter server leaves when no worker
 * needs it any more, and a worker needs it no more
 *
 *   when it has said that it is done, and no later process of the same worker has answered since,
 * or when it has been silent for longer than a restart may take (DOWNPOUR_RESTART_SECONDS); for
 * three times as long while no worker at all was heard of.
 *
 * A worker that is done puts a token, its number and the incarnation of its process, into a queue
 * on every parameter server. There a thread takes the tokens, and a watch asks the workers whether
 * they live (watch.c). Both sides use a session on their own server. The roll belongs to
 * dp_job_serve; its lock guards the entries. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "train/train_internal.h"

enum { TOGETHER_MS = 5000, ALONE_MS = 2000 };
static const int64_t ALONE_NANOS = 20000000000, AGAIN_NANOS = 100000000;

/* ---- Sessions for tokens ---- */
typedef struct farewell {
  TF_Graph *graph;
  dp_scope *scope;
  TF_Session *session;
  TF_Status *status;
} farewell;

static void farewell_init(farewell *self) {
  *self = (farewell){.graph = TF_NewGraph(), .status = TF_NewStatus()};
  self->scope = dp_scope_create(self->graph);
}

static void farewell_deinit(farewell *self) {
  if (self->session) {
    TF_CloseSession(self->session, self->status);
    TF_DeleteSession(self->session, self->status);
  }
  dp_scope_destroy(self->scope);
  TF_DeleteGraph(self->graph);
  TF_DeleteStatus(self->status);
}

/* Opens a session on this task's own server that sees the devices of `filters` alone. A call may
 * take `limit_ms`; 0: no limit. */
static void farewell_open(farewell *self, const dp_job *job, const char *const *filters, int count,
                          int limit_ms) {
  dp_text config = {0};
  TF_SessionOptions *options = TF_NewSessionOptions();
  for (int i = 0; i < count; i++) {
    dp_text_add_char(&config, 0x22); /* ConfigProto.device_filters */
    dp_text_add_char(&config, (char)strlen(filters[i]));
    dp_text_add(&config, filters[i]);
  }
  dp_text_add_char(&config, 0x58); /* ConfigProto.operation_timeout_in_ms */
  dp_text_add_varint(&config, (uint64_t)limit_ms);
  TF_SetTarget(options, dp_job_target(job));
  TF_SetConfig(options, config.data, config.length, self->status);
  if (TF_GetCode(self->status) == TF_OK)
    self->session = TF_NewSession(self->graph, options, self->status);
  TF_DeleteSessionOptions(options);
  dp_text_deinit(&config);
}

static TF_Output done_queue(farewell *self, int server, dp_scope **there_out) {
  char device[64];
  snprintf(device, sizeof(device), "/job:ps/task:%d", server);
  *there_out = dp_scope_on(self->scope, device);
  return dp_fifo_queue_v2(*there_out, DP_TYPES(TF_INT64, TF_INT64),
                          .shared_name = "downpour_workers_done");
}

/* ---- A worker's side ---- */
/* Tells `count` parameter servers from `first` on. True when all of them heard. */
static bool tell(const dp_job *job, int first, int count, int limit_ms) {
  char filter[64];
  snprintf(filter, sizeof(filter), count > 1 ? "/job:ps" : "/job:ps/task:%d", first);
  farewell self;
  TF_Operation **told = DP_NEW_ARRAY(TF_Operation *, count);
  farewell_init(&self);
  for (int i = 0; i < count; i++) {
    dp_scope *there;
    TF_Output queue = done_queue(&self, first + i, &there);
    TF_Output worker = dp_const_int64(there, dp_job_worker(job));
    TF_Output process = dp_const_int64(there, (int64_t)dp_train_job_incarnation(job));
    told[i] = dp_queue_enqueue_v2(there, queue, DP_OUTPUTS(worker, process));
  }
  farewell_open(&self, job, (const char *const[]){filter, dp_job_device(job)}, 2, limit_ms);
  if (self.session && dp_scope_ok(self.scope))
    TF_SessionRun(self.session, NULL, NULL, NULL, 0, NULL, NULL, 0,
                  (const TF_Operation *const *)told, count, NULL, self.status);
  bool heard = TF_GetCode(self.status) == TF_OK && dp_scope_ok(self.scope);
  if (!heard)
    DP_LOG(TRAIN, INFO, "a parameter server did not hear of this worker's end: %s",
           TF_Message(self.status));
  farewell_deinit(&self);
  dp_free(told);
  return heard;
}

/* One by one when that fails, so that a server that is gone keeps nothing from the others. */
void dp_train_say_done(const dp_job *job) {
  int servers = dp_job_ps_count(job);
  if (tell(job, 0, servers, TOGETHER_MS))
    return;
  int64_t deadline = dp_clock_nanos() + ALONE_NANOS;
  for (int i = 0; i < servers && servers > 1 && dp_clock_nanos() < deadline; i++)
    tell(job, i, 1, ALONE_MS);
}

/* ---- A parameter server's side ---- */
typedef struct roll_entry {
  bool is_done;
  uint64_t process; /* that said so */
  uint64_t known;   /* the process that the watch knew then */
} roll_entry;

struct train_roll {
  const dp_job *job;
  void (*leave)(void *arg);
  double restart_seconds;
  train_watch *watch; /* NULL: tokens alone count */
  pthread_t thread;
  atomic_bool stopping;
  pthread_mutex_t lock; /* guards what follows */
  bool has_left;
  int count;
  roll_entry workers[];
};

/* With the lock held. A third process of a worker that said that it is done works again. */
static bool has_ended(const train_roll *self, int worker, double limit) {
  const roll_entry *entry = &self->workers[worker];
  uint64_t answered = self->watch ? dp_train_watch_incarnation(self->watch, worker) : 0;
  if (entry->is_done && (!self->watch || answered == entry->process || answered == entry->known))
    return true;
  return self->watch && dp_train_watch_silent(self->watch, worker) > limit;
}

static double silence_limit(const train_roll *self) {
  bool heard = false;
  for (int i = 0; i < self->count; i++)
    heard |= self->workers[i].is_done ||
             (self->watch && dp_train_watch_incarnation(self->watch, i) != 0);
  return (heard ? 1 : 3) * self->restart_seconds;
}

static void look(train_roll *self) {
  pthread_mutex_lock(&self->lock);
  double limit = silence_limit(self);
  int ended = 0, said = 0;
  for (int i = 0; i < self->count; i++) {
    ended += has_ended(self, i, limit);
    said += self->workers[i].is_done;
  }
  bool leaves = ended == self->count && !self->has_left && !atomic_load(&self->stopping);
  self->has_left |= leaves;
  pthread_mutex_unlock(&self->lock);
  if (!leaves)
    return;
  if (said < self->count)
    DP_LOG(TRAIN, WARN, "the job is over: %d of %d workers are done, the others silent for %.0f s",
           said, self->count, limit);
  self->leave(NULL);
}

static void heard(void *arg, train_watch *watch) {
  train_roll *self = arg;
  pthread_mutex_lock(&self->lock);
  self->watch = watch;
  pthread_mutex_unlock(&self->lock);
  look(self);
}

static void take_token(train_roll *self, int64_t worker, uint64_t process) {
  if (worker < 0 || worker >= self->count)
    return;
  DP_LOG(TRAIN, INFO, "worker %lld is done", (long long)worker);
  pthread_mutex_lock(&self->lock);
  self->workers[worker] = (roll_entry){
      true, process, self->watch ? dp_train_watch_incarnation(self->watch, (int)worker) : 0};
  pthread_mutex_unlock(&self->lock);
  look(self);
}

/* Takes tokens until a call fails. */
static void take_tokens(train_roll *self) {
  farewell with;
  dp_scope *there;
  farewell_init(&with);
  TF_Output queue = done_queue(&with, dp_train_job_task(self->job), &there);
  dp_output_list token = dp_queue_dequeue_v2(there, queue, DP_TYPES(TF_INT64, TF_INT64));
  TF_Output parts[] = {dp_output_at(token, 0), dp_output_at(token, 1)};
  farewell_open(&with, self->job, (const char *const[]){dp_job_device(self->job)}, 1, 0);
  while (with.session && TF_GetCode(with.status) == TF_OK) {
    TF_Tensor *values[2];
    TF_SessionRun(with.session, NULL, NULL, NULL, 0, parts, values, 2, NULL, 0, NULL, with.status);
    if (TF_GetCode(with.status) != TF_OK)
      break;
    take_token(self, *(const int64_t *)TF_TensorData(values[0]),
               *(const uint64_t *)TF_TensorData(values[1]));
    TF_DeleteTensor(values[0]);
    TF_DeleteTensor(values[1]);
  }
  farewell_deinit(&with);
}

/* A client may drop all that the server holds (tf.Session.reset), the queue too; then there is a
 * new one. */
static void *await_tokens(void *arg) {
  train_roll *self = arg;
  while (!atomic_load(&self->stopping)) {
    take_tokens(self);
    dp_clock_sleep(AGAIN_NANOS);
  }
  return NULL;
}

train_roll *dp_train_roll_start(const dp_job *job, double restart_seconds,
                                void (*leave)(void *arg)) {
  int count = dp_job_worker_count(job);
  train_roll *self = dp_calloc(1, sizeof(train_roll) + (size_t)count * sizeof(roll_entry));
  self->job = job;
  self->leave = leave;
  self->restart_seconds = restart_seconds;
  self->count = count;
  pthread_mutex_init(&self->lock, NULL);
  if (pthread_create(&self->thread, NULL, await_tokens, self) != 0) {
    pthread_mutex_destroy(&self->lock);
    dp_free(self);
    return NULL;
  }
  train_watch *watch = dp_train_watch_start(job, heard, self);
  pthread_mutex_lock(&self->lock);
  self->watch = watch;
  pthread_mutex_unlock(&self->lock);
  return self;
}

void dp_train_roll_stop(train_roll *self) {
  if (self)
    atomic_store(&self->stopping, true);
}

void dp_train_roll_join(train_roll *self) {
  if (!self)
    return;
  pthread_join(self->thread, NULL);
  dp_train_watch_stop(self->watch);
  pthread_mutex_destroy(&self->lock);
  dp_free(self);
}
