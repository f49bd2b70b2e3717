/* What follows when other tasks go, come back or restart. See liveness_internal.h.
 *
 * Changes are put on a list by whoever hears of them and taken off by the thread, which also looks
 * around once per period: at the masters of sessions here, at the job's end, and at steps that wait
 * although a task of their session is lost. The lock guards the lists of changes and of workers and
 * is never held while something is called. All other fields belong to the thread. */
#include "server/liveness_internal.h"

#include <pthread.h>
#include <string.h>
#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "server/remote_internal.h"
#include "server/services_internal.h"
#include "wire/device_name.h"

static const int64_t longest_period = INT64_C(2500000000);

typedef struct peer_news {
  struct peer_news *next;
  dp_peer_change change;
  dp_remote_worker *worker; /* retained */
  uint64_t incarnation;
  dp_status *what;
} peer_news;

/* A task whose fate matters here, or may come to matter. */
typedef struct other_task {
  const char *name;
  bool is_other_job;    /* its life is the job's */
  dp_worker_peer *peer; /* while it is watched; else NULL */
} other_task;

struct dp_liveness {
  int64_t gone_nanos, period;
  dp_liveness_options options;
  char own_job[DP_DEVICE_JOB_SIZE];
  other_task *tasks; /* all but this one */
  size_t task_count;
  int64_t busy_until; /* sessions were here at that time */
  bool has_left;
  bool is_started;
  pthread_t thread;
  pthread_mutex_t lock; /* guards what follows */
  pthread_cond_t changed;
  peer_news *news, **last_news;
  dp_remote_worker *workers; /* all links of this task, a doubly linked list */
  bool ended;
};

int64_t dp_liveness_gone_nanos(const dp_liveness *liveness) {
  return liveness->gone_nanos;
}

/* ---- The links ---- */

void dp_liveness_add(dp_liveness *liveness, dp_remote_worker *worker) {
  pthread_mutex_lock(&liveness->lock);
  worker->next = liveness->workers;
  if (worker->next)
    worker->next->previous = worker;
  liveness->workers = worker;
  pthread_mutex_unlock(&liveness->lock);
}

void dp_liveness_remove(dp_liveness *liveness, dp_remote_worker *worker) {
  pthread_mutex_lock(&liveness->lock);
  if (worker->previous)
    worker->previous->next = worker->next;
  else
    liveness->workers = worker->next;
  if (worker->next)
    worker->next->previous = worker->previous;
  pthread_mutex_unlock(&liveness->lock);
}

/* With the lock held, which keeps the worker where it is. */
static bool answers(const dp_liveness *liveness, dp_remote_worker *worker) {
  dp_remote_state state;
  dp_remote_worker_get_state(&worker->peer, &state);
  dp_free(state.reason);
  return !state.is_gone && state.seen_nanos != 0 &&
         dp_clock_nanos() - state.seen_nanos < liveness->gone_nanos;
}

void dp_liveness_name_others(dp_liveness *liveness, const dp_remote_worker *worker, dp_text *text) {
  const char *first = NULL;
  size_t count = 0;
  pthread_mutex_lock(&liveness->lock);
  for (dp_remote_worker *at = liveness->workers; at; at = at->next) {
    if (at == worker || at->table != worker->table || !answers(liveness, at))
      continue;
    count++;
    if (!first || strcmp(at->task, first) < 0)
      first = at->task;
  }
  if (count == 1)
    dp_text_printf(text, "; %s answers", first);
  else if (count > 1)
    dp_text_printf(text, "; %s and %zu other%s answer", first, count - 1, count > 2 ? "s" : "");
  pthread_mutex_unlock(&liveness->lock);
}

void dp_liveness_tell(dp_liveness *liveness, dp_peer_change change, dp_remote_worker *worker,
                      uint64_t incarnation, dp_status *what) {
  peer_news *news = DP_NEW(peer_news);
  *news = (peer_news){NULL, change, NULL, incarnation, what};
  pthread_mutex_lock(&liveness->lock);
  bool is_wanted = liveness->is_started && !liveness->ended && dp_remote_worker_hold(worker);
  if (is_wanted) {
    news->worker = worker;
    *liveness->last_news = news;
    liveness->last_news = &news->next;
    pthread_cond_signal(&liveness->changed);
  }
  pthread_mutex_unlock(&liveness->lock);
  if (is_wanted)
    return;
  dp_status_release(what);
  dp_free(news);
}

/* ---- Consequences ---- */

/* Names of tasks mean the same in all clusters of this task only when they are its own. */
static bool is_own_task(const dp_liveness *liveness, const dp_remote_worker *worker) {
  return worker->table == liveness->options.links;
}

static void act_on(dp_liveness *liveness, const peer_news *news) {
  const dp_liveness_options *options = &liveness->options;
  dp_worker_peer *peer = &news->worker->peer;
  switch (news->change) {
  case DP_PEER_GONE:
    DP_LOG(SERVER, WARN, "%s", dp_status_message(news->what));
    dp_master_task_lost(options->master, peer, 0, news->what);
    if (is_own_task(liveness, news->worker))
      dp_worker_end_steps_of(options->worker, news->worker->task, news->what);
    break;
  case DP_PEER_RESTARTED:
    DP_LOG(SERVER, INFO, "%s", dp_status_message(news->what));
    dp_master_task_lost(options->master, peer, news->incarnation, news->what);
    break;
  case DP_PEER_BACK:
    DP_LOG(SERVER, INFO, "%s", dp_status_message(news->what));
    dp_master_task_back(options->master, peer);
    break;
  }
}

static void free_news(peer_news *news) {
  dp_remote_worker_release(news->worker);
  dp_status_release(news->what);
  dp_free(news);
}

/* ---- Masters of sessions here, and the job's end ---- */

/* Watches the task, or ceases to. */
static void set_watch(dp_liveness *liveness, other_task *task, bool is_wanted) {
  if (is_wanted == (task->peer != NULL))
    return;
  dp_worker_peer *peer = task->peer;
  if (is_wanted)
    dp_status_release(liveness->options.tables->find(liveness->options.links, task->name, &peer));
  if (peer)
    peer->ops->watch(peer, is_wanted);
  task->peer = is_wanted ? peer : NULL;
}

/* A master that cannot be reached may be back soon with all it had; one whose machine says that
 * nobody listens has lost it. When the job's end matters, silence is enough. */
static bool is_dead(const dp_liveness *liveness, const dp_remote_state *state) {
  if (state->silent_nanos < liveness->gone_nanos)
    return false;
  bool refuses = state->link != DP_RPC_CONNECTED && strstr(state->reason, "refused") != NULL;
  return refuses || liveness->options.leave;
}

/* Whether the task lives, as far as is known. */
static bool look_at_task(dp_liveness *liveness, other_task *task) {
  const dp_liveness_options *options = &liveness->options;
  bool is_master = dp_worker_has_master(options->worker, task->name);
  set_watch(liveness, task, is_master || (options->leave && task->is_other_job));
  if (!task->peer)
    return false;
  dp_remote_state state;
  dp_remote_worker_get_state(task->peer, &state);
  if (is_master && is_dead(liveness, &state) &&
      dp_worker_forget_master(options->worker, task->name))
    DP_LOG(SERVER, WARN, "%s is gone: its sessions here are dropped", task->name);
  dp_free(state.reason);
  return state.silent_nanos < liveness->gone_nanos;
}

static void look_around(dp_liveness *liveness) {
  const dp_liveness_options *options = &liveness->options;
  int64_t now = dp_clock_nanos();
  bool somebody_lives = false;
  for (size_t i = 0; i < liveness->task_count; i++) {
    bool lives = look_at_task(liveness, &liveness->tasks[i]);
    somebody_lives |= liveness->tasks[i].is_other_job && lives;
  }
  dp_worker_counts counts;
  dp_worker_get_counts(options->worker, &counts);
  if (counts.sessions > 0 || counts.sessions_ever == 0)
    liveness->busy_until = now;
  if (options->leave && !liveness->has_left && !somebody_lives &&
      now - liveness->busy_until >= liveness->gone_nanos) {
    DP_LOG(SERVER, INFO, "the job is done: every session has closed and no worker is alive");
    liveness->has_left = true;
    options->leave(options->leave_arg);
  }
  dp_master_end_late_steps(options->master, liveness->gone_nanos);
}

/* ---- The thread ---- */

/* The next change; NULL when it is time to look around, or the end. */
static peer_news *wait_for_news(dp_liveness *liveness, int64_t until, bool *ended_out) {
  struct timespec time = {until / 1000000000, until % 1000000000};
  int error = 0;
  pthread_mutex_lock(&liveness->lock);
  while (!liveness->news && !liveness->ended && error == 0)
    error = pthread_cond_timedwait(&liveness->changed, &liveness->lock, &time);
  peer_news *news = liveness->ended ? NULL : liveness->news;
  if (news) {
    liveness->news = news->next;
    if (!news->next)
      liveness->last_news = &liveness->news;
  }
  *ended_out = liveness->ended;
  pthread_mutex_unlock(&liveness->lock);
  return news;
}

static void *keep_watch(void *arg) {
  dp_liveness *liveness = arg;
  int64_t next_look = dp_clock_nanos() + liveness->period;
  bool ended = false;
  while (!ended) {
    peer_news *news = wait_for_news(liveness, next_look, &ended);
    if (news) {
      act_on(liveness, news);
      free_news(news);
    } else if (!ended) {
      look_around(liveness);
      next_look = dp_clock_nanos() + liveness->period;
    }
  }
  return NULL;
}

/* ---- Life ---- */

dp_liveness *dp_liveness_create(int64_t gone_nanos) {
  dp_liveness *liveness = DP_NEW(dp_liveness);
  liveness->gone_nanos = gone_nanos;
  liveness->period = gone_nanos / 4 < longest_period ? gone_nanos / 4 + 1 : longest_period;
  liveness->last_news = &liveness->news;
  pthread_mutex_init(&liveness->lock, NULL);
  pthread_condattr_t monotonic;
  pthread_condattr_init(&monotonic);
  pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
  pthread_cond_init(&liveness->changed, &monotonic);
  pthread_condattr_destroy(&monotonic);
  return liveness;
}

static void list_tasks(dp_liveness *liveness) {
  const char *const *names;
  size_t count = liveness->options.tables->tasks(liveness->options.links, &names);
  liveness->tasks = DP_NEW_ARRAY(other_task, count + 1);
  for (size_t i = 0; i < count; i++) {
    dp_device_name name;
    dp_status *status = dp_device_name_parse(dp_view_of(names[i]), &name);
    bool is_other = !status && strcmp(names[i], liveness->options.task) != 0;
    dp_status_release(status);
    if (is_other)
      liveness->tasks[liveness->task_count++] =
          (other_task){.name = names[i], .is_other_job = strcmp(name.job, liveness->own_job) != 0};
  }
}

dp_status *dp_liveness_start(dp_liveness *liveness, const dp_liveness_options *options) {
  liveness->options = *options;
  dp_device_name own;
  dp_status *status = dp_device_name_parse(dp_view_of(options->task), &own);
  if (!status)
    memcpy(liveness->own_job, own.job, sizeof(own.job));
  dp_status_release(status);
  liveness->busy_until = dp_clock_nanos();
  list_tasks(liveness);
  int error = pthread_create(&liveness->thread, NULL, keep_watch, liveness);
  if (error)
    return dp_status_create(DP_RESOURCE_EXHAUSTED, "cannot start the thread that watches tasks: %s",
                            strerror(error));
  pthread_setname_np(liveness->thread, "dp-liveness");
  pthread_mutex_lock(&liveness->lock);
  liveness->is_started = true;
  pthread_mutex_unlock(&liveness->lock);
  return NULL;
}

void dp_liveness_stop(dp_liveness *liveness) {
  if (!liveness)
    return;
  pthread_mutex_lock(&liveness->lock);
  bool is_started = liveness->is_started;
  liveness->ended = true;
  pthread_cond_signal(&liveness->changed);
  pthread_mutex_unlock(&liveness->lock);
  if (!is_started)
    return;
  pthread_join(liveness->thread, NULL);
  for (size_t i = 0; i < liveness->task_count; i++)
    set_watch(liveness, &liveness->tasks[i], false);
  while (liveness->news) {
    peer_news *news = liveness->news;
    liveness->news = news->next;
    free_news(news);
  }
}

void dp_liveness_destroy(dp_liveness *liveness) {
  if (!liveness)
    return;
  pthread_cond_destroy(&liveness->changed);
  pthread_mutex_destroy(&liveness->lock);
  dp_free(liveness->tasks);
  dp_free(liveness);
}
