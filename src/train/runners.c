/* Background threads of a training: those that keep queues full, and the chief's thread that
 * applies synchronous updates. Each runs one operation again and again. A synchronous training also
 * has a watch on the workers that it waits for (watch.c).
 *
 * OUT_OF_RANGE is the normal end: the thread closes its queue and ends. Another error is kept for
 * the training, whose runs answer with it, and the queue is cancelled so that nobody waits for it.
 * If the error is a lost task, the session is closed instead: the training's thread may wait for
 * something that now never comes. The threads also end when the training closes the session. The
 * training owns them; `failure` is under the lock. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "train/train_internal.h"

static const double PATIENCE_SECONDS = 600, REPORT_SECONDS = 10;

typedef struct runner_thread {
  train_runners *all;
  train_runner runner;
  pthread_t thread;
} runner_thread;

struct train_runners {
  dp_training *training;
  train_watch *watch;  /* NULL: nobody is watched */
  TF_Session *session; /* outlives the threads */
  int64_t next_report; /* of a missing worker; the watch's thread */
  atomic_bool stopping;
  pthread_mutex_t lock;
  TF_Status *failure; /* the first error of a thread; under the lock */
  int count;
  runner_thread threads[];
};

static TF_Code run_once(train_runners *self, TF_Operation *operation, TF_Status *status) {
  const TF_Operation *targets[] = {operation};
  TF_SessionRun(self->session, NULL, NULL, NULL, 0, NULL, NULL, 0, targets, 1, NULL, status);
  return TF_GetCode(status);
}

/* Keeps the first error. */
static void note_failure(train_runners *self, TF_Code code, const char *message) {
  pthread_mutex_lock(&self->lock);
  if (TF_GetCode(self->failure) == TF_OK)
    TF_SetStatus(self->failure, code, message);
  pthread_mutex_unlock(&self->lock);
}

/* Wakes whoever waits in the session. */
static void break_off(train_runners *self) {
  TF_Status *ignored = TF_NewStatus();
  TF_CloseSession(self->session, ignored);
  TF_DeleteStatus(ignored);
}

static void *repeat(void *arg) {
  runner_thread *self = arg;
  train_runners *all = self->all;
  TF_Status *status = TF_NewStatus(), *ignored = TF_NewStatus();
  while (!atomic_load(&all->stopping) && run_once(all, self->runner.enqueue, status) == TF_OK) {
  }
  TF_Code code = TF_GetCode(status);
  if (code != TF_OK && !atomic_load(&all->stopping)) {
    bool ended = code == TF_OUT_OF_RANGE;
    if (!ended)
      note_failure(all, code, TF_Message(status));
    TF_Operation *close = ended ? self->runner.close : self->runner.cancel;
    if (dp_train_is_loss(code))
      break_off(all);
    else if (close)
      run_once(all, close, ignored);
  }
  TF_DeleteStatus(status);
  TF_DeleteStatus(ignored);
  return NULL;
}

/* ---- The workers that a synchronous training waits for ---- */
/* The worker without whom the training cannot go on and who was silent for too long; -1: none. */
static int missing(const dp_training *training, const train_watch *watch, double limit) {
  const dp_job *job = training->model->job;
  int own = dp_job_worker(job), found = -1, alive = 1;
  if (!dp_job_is_chief(job))
    return dp_train_watch_silent(watch, 0) > limit ? 0 : -1;
  for (int i = 0; i < dp_job_worker_count(job); i++) {
    bool silent = i != own && dp_train_watch_silent(watch, i) > limit;
    alive += i != own && !silent;
    found = silent ? i : found;
  }
  return alive < training->model->sync->needed ? found : -1;
}

/* Says whom the step waits for: at first after REPORT_SECONDS, and then as often. */
static void report_missing(train_runners *self, const train_watch *watch, double limit) {
  int worker = missing(self->training, watch, REPORT_SECONDS);
  int64_t now = dp_clock_nanos();
  if (worker < 0 || now < self->next_report)
    return;
  self->next_report = now + (int64_t)(REPORT_SECONDS * 1e9);
  DP_LOG(TRAIN, WARN,
         "waiting for worker %d at %s, without which a synchronous step cannot end: silent for "
         "%.0f s, given up after %.0f s",
         worker, dp_train_job_address(self->training->model->job, worker),
         dp_train_watch_silent(watch, worker), limit);
}

static void look_at_workers(void *arg, train_watch *watch) {
  train_runners *self = arg;
  double patience = self->training->options.recovery_seconds;
  double limit = patience > 0 ? patience : PATIENCE_SECONDS;
  if (atomic_load(&self->stopping))
    return;
  report_missing(self, watch, limit);
  int worker = missing(self->training, watch, limit);
  if (worker < 0)
    return;
  char text[200];
  snprintf(
      text, sizeof(text),
      "worker %d, without which a synchronous step cannot end, has been silent for %.0f seconds",
      worker, dp_train_watch_silent(watch, worker));
  note_failure(self, TF_DEADLINE_EXCEEDED, text);
  break_off(self);
}

static void start_watch(train_runners *self) {
  const dp_model *model = self->training->model;
  if (model->sync && model->job && dp_job_worker_count(model->job) > 1)
    self->watch = dp_train_watch_start(model->job, look_at_workers, self);
}

/* ---- Life ---- */
train_runners *dp_train_runners_start(dp_training *training) {
  const dp_model *model = training->model;
  bool updates = model->sync && dp_train_is_chief(training);
  size_t count = model->runners.count + updates;
  if (count == 0 && !model->sync)
    return NULL;
  train_runners *self = dp_calloc(1, sizeof(train_runners) + count * sizeof(runner_thread));
  self->training = training;
  self->session = training->session;
  self->failure = TF_NewStatus();
  pthread_mutex_init(&self->lock, NULL);
  for (size_t i = 0; i < count; i++) {
    runner_thread *thread = &self->threads[i];
    thread->all = self;
    thread->runner = i < model->runners.count
                         ? model->runners.items[i]
                         : (train_runner){model->sync->chief_update, NULL, model->sync->close};
    if (pthread_create(&thread->thread, NULL, repeat, thread) != 0) {
      dp_training_fail(training, TF_RESOURCE_EXHAUSTED, "no thread for a queue");
      break;
    }
    self->count++;
  }
  start_watch(self);
  return self;
}

void dp_train_runners_stop(dp_training *training, train_runners *self, bool end) {
  TF_Status *ignored = TF_NewStatus();
  atomic_store(&self->stopping, true);
  for (int i = 0; i < self->count && end; i++)
    if (self->threads[i].runner.cancel)
      run_once(self, self->threads[i].runner.cancel, ignored);
  TF_DeleteStatus(ignored);
}

void dp_train_runners_join(train_runners *self) {
  if (!self)
    return;
  dp_train_watch_stop(self->watch);
  for (int i = 0; i < self->count; i++)
    pthread_join(self->threads[i].thread, NULL);
  TF_DeleteStatus(self->failure);
  pthread_mutex_destroy(&self->lock);
  dp_free(self);
}

bool dp_train_runners_failed(train_runners *self, TF_Status *status) {
  pthread_mutex_lock(&self->lock);
  bool failed = TF_GetCode(self->failure) != TF_OK;
  if (failed)
    TF_SetStatus(status, TF_GetCode(self->failure), TF_Message(self->failure));
  pthread_mutex_unlock(&self->lock);
  return failed;
}
