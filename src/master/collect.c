/* Closes sessions that nobody uses any more: those of clients that have been silent for
 * session_idle_nanos, and those whose client went away during a call and has not come back for
 * session_lost_nanos.
 *
 * A timer starts a look; the look itself runs on the blocking pool, because closing calls workers.
 * At most one look is under way. The master's end waits for it. */
#include "base/log.h"
#include "master/master_internal.h"

static void start_look(void *arg);

/* With the master's lock held, or before anybody else has the master. */
static void plan_look(dp_master *master) {
  int64_t idle = master->session_idle_nanos, lost = master->session_lost_nanos;
  int64_t shorter = idle > 0 && (lost <= 0 || idle < lost) ? idle : lost;
  master->collector = dp_timer_start(dp_clock_nanos() + shorter / 4 + 1, start_look, master);
}

typedef struct unused_check {
  const dp_master *master;
  int64_t now;
} unused_check;

/* With the stripe's lock held, so that no call finds the session meanwhile. One reference is the
 * table's; a call under way holds another. */
static bool is_unused(void *arg, master_session *session) {
  const unused_check *check = arg;
  int64_t idle = check->master->session_idle_nanos, lost = check->master->session_lost_nanos;
  int64_t lost_since = atomic_load(&session->lost_since);
  bool is_idle = idle > 0 && check->now - atomic_load(&session->last_used) > idle;
  bool is_lost = lost > 0 && lost_since > 0 && check->now - lost_since > lost;
  return (is_idle || is_lost) && dp_refcount_is_one(&session->references);
}

static master_session *find_unused(dp_master *master) {
  unused_check check = {master, dp_clock_nanos()};
  return dp_session_table_pick(&master->sessions, is_unused, &check);
}

static void close_unused(void *arg) {
  dp_master *master = arg;
  master_session *unused;
  while ((unused = find_unused(master))) {
    DP_LOG(MASTER, WARN, "session %s: its client has been %s for %.0f s: closing it",
           unused->handle, atomic_load(&unused->lost_since) ? "gone" : "silent",
           (double)(dp_clock_nanos() - atomic_load(&unused->last_used)) / 1e9);
    dp_master_session_close(unused);
    dp_master_session_release(unused);
  }
  pthread_mutex_lock(&master->lock);
  master->is_collecting = false;
  if (master->is_stopping)
    pthread_cond_broadcast(&master->ended);
  else
    plan_look(master);
  pthread_mutex_unlock(&master->lock);
}

static void start_look(void *arg) {
  dp_master *master = arg;
  pthread_mutex_lock(&master->lock);
  bool starts = !master->is_stopping;
  master->is_collecting = starts;
  pthread_mutex_unlock(&master->lock);
  if (starts)
    dp_pool_run(master->blocking, close_unused, master);
}

void dp_master_collect_start(dp_master *master) {
  if (master->session_idle_nanos > 0 || master->session_lost_nanos > 0)
    plan_look(master);
}

void dp_master_collect_stop(dp_master *master) {
  pthread_mutex_lock(&master->lock);
  master->is_stopping = true;
  dp_timer collector = master->collector;
  pthread_mutex_unlock(&master->lock);
  if (collector)
    dp_timer_cancel(collector);
}
