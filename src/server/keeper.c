/* See keeper_internal.h. A timer starts a round of questions (GetStatus) to the tasks of interest;
 * the last answer hands the verdict to the blocking pool, which starts the timer again. So there is
 * one round at a time, and the lock guards only what the end must wait for. */
#include "server/keeper_internal.h"

#include <pthread.h>
#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/timer.h"
#include "wire/device_name.h"
#include "wire/worker.pb-c.h"

static const int64_t longest_pause = INT64_C(2500000000);

typedef struct kept_task {
  dp_keeper *keeper;
  const char *name;
  bool is_other_job; /* its life is the job's */
  int64_t seen;      /* when it last answered, or the keeper's beginning */
} kept_task;

struct dp_keeper {
  dp_keeper_options options;
  char own_job[DP_DEVICE_JOB_SIZE];
  dp_cancel *life;
  int64_t pause;
  kept_task *tasks; /* all but this one */
  size_t task_count;
  int64_t busy_until; /* sessions were here at that time */
  bool has_left;
  pthread_mutex_t lock; /* guards what follows */
  pthread_cond_t changed;
  size_t questions; /* without an answer, and 1 while a round is under way */
  dp_timer timer;   /* of the next round; 0 while one is under way */
  bool ended;
};

static void begin_round(void *arg);

/* ---- The verdict ---- */

static void next_round(dp_keeper *keeper) {
  pthread_mutex_lock(&keeper->lock);
  keeper->questions = 0;
  if (!keeper->ended)
    keeper->timer = dp_timer_start(dp_clock_nanos() + keeper->pause, begin_round, keeper);
  pthread_cond_broadcast(&keeper->changed);
  pthread_mutex_unlock(&keeper->lock);
}

/* A master that cannot be reached may be back soon with all it had; one whose machine says that
 * nobody listens has lost it. */
static bool is_dead(const dp_keeper *keeper, const kept_task *task) {
  dp_worker_peer *peer;
  dp_status *status = dp_links_peers_ops.find(keeper->options.links, task->name, &peer);
  if (status) {
    dp_status_release(status);
    return false;
  }
  dp_remote_state state;
  dp_remote_worker_get_state(peer, &state);
  bool refuses = state.link != DP_RPC_CONNECTED && strstr(state.reason, "refused") != NULL;
  dp_free(state.reason);
  return refuses;
}

static void judge(void *arg) {
  dp_keeper *keeper = arg;
  const dp_keeper_options *options = &keeper->options;
  int64_t now = dp_clock_nanos();
  bool somebody_lives = false;
  for (size_t i = 0; i < keeper->task_count; i++) {
    kept_task *task = &keeper->tasks[i];
    bool is_silent = now - task->seen >= options->grace_nanos;
    somebody_lives |= task->is_other_job && !is_silent;
    if (is_silent && (options->leave || is_dead(keeper, task)) &&
        dp_worker_forget_master(options->worker, task->name))
      DP_LOG(SERVER, WARN, "%s is gone: its sessions here are dropped", task->name);
  }
  dp_worker_counts counts;
  dp_worker_get_counts(options->worker, &counts);
  if (counts.sessions > 0 || counts.sessions_ever == 0)
    keeper->busy_until = now;
  if (options->leave && !keeper->has_left && !somebody_lives &&
      now - keeper->busy_until >= options->grace_nanos) {
    DP_LOG(SERVER, INFO, "the job is done: every session has closed and no worker is alive");
    keeper->has_left = true;
    options->leave(options->leave_arg);
  }
  next_round(keeper);
}

/* ---- Questions ---- */

static void count_answer(dp_keeper *keeper) {
  pthread_mutex_lock(&keeper->lock);
  bool is_last = --keeper->questions == 0;
  if (is_last)
    keeper->questions = 1; /* the verdict */
  pthread_mutex_unlock(&keeper->lock);
  if (is_last)
    dp_pool_run(keeper->options.blocking, judge, keeper);
}

static void answered(void *arg, dp_status *status, const void *response) {
  kept_task *task = arg;
  if (!status)
    task->seen = dp_clock_nanos();
  dp_status_release(status);
  count_answer(task->keeper);
}

/* The tasks of other jobs when the job's end matters, and always the masters of sessions here. */
static bool is_of_interest(const dp_keeper *keeper, const kept_task *task) {
  return (keeper->options.leave && task->is_other_job) ||
         dp_worker_has_master(keeper->options.worker, task->name);
}

static void ask(dp_keeper *keeper, kept_task *task) {
  dp_worker_peer *peer;
  dp_status *status = dp_links_peers_ops.find(keeper->options.links, task->name, &peer);
  if (status) {
    answered(task, status, NULL);
    return;
  }
  Tensorflow__GetStatusRequest request = TENSORFLOW__GET_STATUS_REQUEST__INIT;
  peer->ops->call(peer, DP_WORKER_GET_STATUS, &request, dp_clock_nanos() + keeper->pause,
                  keeper->life, answered, task);
}

static void begin_round(void *arg) {
  dp_keeper *keeper = arg;
  pthread_mutex_lock(&keeper->lock);
  keeper->timer = 0;
  keeper->questions = keeper->task_count + 1;
  pthread_mutex_unlock(&keeper->lock);
  for (size_t i = 0; i < keeper->task_count; i++) {
    kept_task *task = &keeper->tasks[i];
    if (is_of_interest(keeper, task)) {
      ask(keeper, task);
    } else {
      if (!keeper->options.leave)
        task->seen = dp_clock_nanos(); /* its silence counts from when it matters */
      count_answer(keeper);
    }
  }
  count_answer(keeper);
}

/* ---- Life ---- */

static void list_tasks(dp_keeper *keeper) {
  const char *const *names;
  size_t count = dp_links_cluster_ops.tasks(keeper->options.links, &names);
  keeper->tasks = DP_NEW_ARRAY(kept_task, count + 1);
  for (size_t i = 0; i < count; i++) {
    dp_device_name name;
    dp_status *status = dp_device_name_parse(dp_view_of(names[i]), &name);
    bool is_other = !status && strcmp(names[i], keeper->options.task) != 0;
    dp_status_release(status);
    if (is_other)
      keeper->tasks[keeper->task_count++] =
          (kept_task){.keeper = keeper,
                      .name = names[i],
                      .is_other_job = strcmp(name.job, keeper->own_job) != 0,
                      .seen = dp_clock_nanos()};
  }
}

dp_keeper *dp_keeper_create(const dp_keeper_options *options) {
  dp_keeper *keeper = DP_NEW(dp_keeper);
  keeper->options = *options;
  dp_device_name own;
  dp_status *status = dp_device_name_parse(dp_view_of(options->task), &own);
  if (!status)
    memcpy(keeper->own_job, own.job, sizeof(own.job));
  dp_status_release(status);
  keeper->life = dp_cancel_create(NULL, DP_FOREVER);
  keeper->pause =
      options->grace_nanos / 4 < longest_pause ? options->grace_nanos / 4 + 1 : longest_pause;
  keeper->busy_until = dp_clock_nanos();
  pthread_mutex_init(&keeper->lock, NULL);
  pthread_cond_init(&keeper->changed, NULL);
  list_tasks(keeper);
  next_round(keeper);
  return keeper;
}

void dp_keeper_destroy(dp_keeper *keeper) {
  if (!keeper)
    return;
  pthread_mutex_lock(&keeper->lock);
  keeper->ended = true;
  dp_timer timer = keeper->timer;
  pthread_mutex_unlock(&keeper->lock);
  dp_timer_cancel(timer); /* after this a round either ran or will never begin */
  dp_cancel_trigger(keeper->life, dp_status_create(DP_CANCELLED, "the server is stopping"));
  pthread_mutex_lock(&keeper->lock);
  while (keeper->questions > 0)
    pthread_cond_wait(&keeper->changed, &keeper->lock);
  pthread_mutex_unlock(&keeper->lock);
  dp_cancel_release(keeper->life);
  pthread_cond_destroy(&keeper->changed);
  pthread_mutex_destroy(&keeper->lock);
  dp_free(keeper->tasks);
  dp_free(keeper);
}
