/* The threads that walk through datasets. There are as many as there are walks at one time, without
 * limit, because a walk may wait for another one. An idle thread ends after ten seconds. */
#include <errno.h>
#include <time.h>
#include "base/log.h"
#include "kernels/data/dataset_internal.h"

#define IDLE_SECONDS 10

typedef struct task {
  struct task *next;
  dp_task_fn fn;
  void *arg;
} task;

static struct {
  pthread_mutex_t mutex;
  pthread_cond_t wanted;
  task *first, *last;
  int idle;    /* threads that wait for a task */
  int waiting; /* tasks that wait for a thread */
} crew = {.mutex = PTHREAD_MUTEX_INITIALIZER, .wanted = PTHREAD_COND_INITIALIZER};

static task *take_task(void) {
  task *task = crew.first;
  if (task) {
    crew.first = task->next;
    if (!crew.first)
      crew.last = NULL;
    --crew.waiting;
  }
  return task;
}

static void *thread_main(void *arg) {
  pthread_mutex_lock(&crew.mutex);
  for (;;) {
    task *task = take_task();
    if (!task) {
      struct timespec until;
      clock_gettime(CLOCK_REALTIME, &until);
      until.tv_sec += IDLE_SECONDS;
      ++crew.idle;
      int result = pthread_cond_timedwait(&crew.wanted, &crew.mutex, &until);
      --crew.idle;
      if (result == ETIMEDOUT && !crew.first)
        break;
      continue;
    }
    pthread_mutex_unlock(&crew.mutex);
    task->fn(task->arg);
    dp_free(task);
    pthread_mutex_lock(&crew.mutex);
  }
  pthread_mutex_unlock(&crew.mutex);
  return NULL;
}

static bool start_thread(void) {
  pthread_attr_t attributes;
  pthread_t thread;
  pthread_attr_init(&attributes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  bool started = pthread_create(&thread, &attributes, thread_main, NULL) == 0;
  pthread_attr_destroy(&attributes);
  return started;
}

void dp_dataset_run(dp_task_fn fn, void *arg) {
  task *task = DP_NEW(struct task);
  task->fn = fn;
  task->arg = arg;
  pthread_mutex_lock(&crew.mutex);
  if (crew.last)
    crew.last->next = task;
  else
    crew.first = task;
  crew.last = task;
  bool needs_thread = ++crew.waiting > crew.idle;
  pthread_cond_signal(&crew.wanted);
  pthread_mutex_unlock(&crew.mutex);
  while (needs_thread && !start_thread()) {
    DP_LOG(KERNELS, WARN, "no thread for a dataset can be had; trying again");
    nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
  }
}

dp_status *dp_dataset_wait(pthread_cond_t *changed, pthread_mutex_t *mutex, const dp_walk *walk) {
  struct timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_nsec += 50000000;
  if (until.tv_nsec >= 1000000000) {
    until.tv_nsec -= 1000000000;
    ++until.tv_sec;
  }
  pthread_cond_timedwait(changed, mutex, &until);
  return dp_cancel_status(walk->cancel);
}

/* ---- Work that waits ---- */
typedef struct waiting_work {
  dp_op_context *context;
  void *state;
  dp_waiting_fn work;
} waiting_work;

static void run_work(void *arg) {
  waiting_work *work = arg;
  dp_op_context *context = work->context;
  dp_status *status = work->work(context, work->state);
  dp_free(work);
  dp_op_done(context, status);
}

void dp_dataset_compute(dp_op_context *context, void *state, dp_waiting_fn work) {
  waiting_work *waiting = DP_NEW(waiting_work);
  *waiting = (waiting_work){context, state, work};
  dp_dataset_run(run_work, waiting);
}
