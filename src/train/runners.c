/* Threads that keep queues full, and the chief's thread of synchronous updates: each runs one
 * operation again and again. OUT_OF_RANGE ends a thread in peace and closes its queue; another
 * error is kept for the training, and the queue is closed so that whoever waits at it learns. They
 * end when the session is closed under them. */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "train/train_internal.h"

typedef struct runner_thread {
  train_runners *all;
  train_runner runner;
  pthread_t thread;
} runner_thread;

struct train_runners {
  dp_training *training;
  TF_Session *session; /* outlives the threads */
  atomic_bool stopping;
  pthread_mutex_t lock;
  TF_Status *failure; /* under the lock */
  int count;
  runner_thread threads[];
};

static TF_Code run_once(train_runners *self, TF_Operation *operation, TF_Status *status) {
  const TF_Operation *targets[] = {operation};
  TF_SessionRun(self->session, NULL, NULL, NULL, 0, NULL, NULL, 0, targets, 1, NULL, status);
  return TF_GetCode(status);
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
    pthread_mutex_lock(&all->lock);
    if (!ended && TF_GetCode(all->failure) == TF_OK)
      TF_SetStatus(all->failure, code, TF_Message(status));
    pthread_mutex_unlock(&all->lock);
    TF_Operation *close = ended ? self->runner.close : self->runner.cancel;
    if (close && !dp_train_is_loss(code))
      run_once(all, close, ignored);
  }
  TF_DeleteStatus(status);
  TF_DeleteStatus(ignored);
  return NULL;
}

train_runners *dp_train_runners_start(dp_training *training) {
  const dp_model *model = training->model;
  bool updates = model->sync && (!model->job || dp_job_is_chief(model->job));
  size_t count = model->runners.count + updates;
  if (count == 0)
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
