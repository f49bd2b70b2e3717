/* Tasks that a session uses and that are lost: gone, or back without their state.
 *
 * A session uses the tasks on which its plans have pieces, and these are watched as long as it
 * lives. When one of them is lost, the running steps of the session end: a step that waits in a
 * queue of a healthy task may wait for what only the lost one would have made. The session stays,
 * as in TensorFlow: what does not need the lost task goes on. But a step that is not done in time
 * while a task is lost ends as well.
 *
 * The watches' lock of a session guards what is known of its lost tasks. Sessions are collected
 * under the table's locks and looked at without them; no lock is held while a step is ended. Losses
 * and returns come from the server's liveness thread alone; a use begins and ends on any thread. */
#include "master/master_internal.h"

/* ---- Which tasks are used ---- */

void dp_master_worker_use(session_worker *worker) {
  if (worker->peer->ops->watch && !atomic_exchange(&worker->is_used, true))
    worker->peer->ops->watch(worker->peer, true);
}

void dp_master_workers_unuse(master_session *session) {
  for (size_t i = 0; i < session->worker_count; i++) {
    session_worker *worker = &session->workers[i];
    if (atomic_load(&worker->is_used))
      worker->peer->ops->watch(worker->peer, false);
    dp_status_release(worker->lost);
  }
}

dp_status *dp_master_status_for_client(const master_session *session, dp_status *status) {
  if (dp_status_code(status) != DP_UNAVAILABLE || session->worker_count <= 1)
    return status;
  dp_status *aborted = dp_status_create(DP_ABORTED, "%s", dp_status_message(status));
  dp_status_release(status);
  return aborted;
}

/* ---- Walking ---- */

typedef DP_ARRAY(master_session *) session_list;

static void collect_session(void *arg, master_session *session) {
  dp_refcount_retain(&session->references);
  DP_ARRAY_PUSH((session_list *)arg, session);
}

/* All that are open, retained. The steps of others end by themselves. */
static session_list list_sessions(dp_master *master) {
  session_list sessions = {0};
  dp_session_table_visit(&master->sessions, collect_session, &sessions);
  return sessions;
}

static void free_sessions(session_list *sessions) {
  for (size_t i = 0; i < sessions->count; i++)
    dp_master_session_release(sessions->items[i]);
  DP_ARRAY_FREE(sessions);
}

/* The session's use of that peer; NULL when it does not use it. */
static session_worker *find_use(const master_session *session, const dp_worker_peer *peer) {
  for (size_t i = 0; i < session->worker_count; i++) {
    session_worker *worker = &session->workers[i];
    if (worker->peer == peer && atomic_load(&worker->is_used))
      return worker;
  }
  return NULL;
}

/* Ends the steps that began before `latest`. */
static void end_steps(master_session *session, int64_t latest, const dp_status *why) {
  DP_ARRAY(dp_cancel *) scopes = {0};
  pthread_mutex_lock(&session->watch_lock);
  for (master_watch *watch = session->watches; watch; watch = watch->next) {
    if (watch->scope && watch->since <= latest)
      DP_ARRAY_PUSH(&scopes, dp_cancel_retain(watch->scope));
  }
  pthread_mutex_unlock(&session->watch_lock);
  for (size_t i = 0; i < scopes.count; i++) {
    dp_cancel_trigger(scopes.items[i], dp_status_retain(why));
    dp_cancel_release(scopes.items[i]);
  }
  DP_ARRAY_FREE(&scopes);
}

/* ---- What happens to them ---- */

static bool knew(const session_worker *worker, uint64_t incarnation) {
  const Tensorflow__GetStatusResponse *status = worker->status;
  return status->n_device_attributes > 0 &&
         status->device_attributes[0]->incarnation == incarnation;
}

static void lose(master_session *session, session_worker *worker, uint64_t incarnation,
                 const dp_status *aborted) {
  if (incarnation && knew(worker, incarnation))
    return; /* the session was made with the restarted task */
  int64_t now = dp_clock_nanos();
  pthread_mutex_lock(&session->watch_lock);
  dp_status *before = worker->lost;
  worker->lost = dp_status_retain(aborted);
  worker->lost_since = now;
  worker->has_restarted |= incarnation != 0;
  pthread_mutex_unlock(&session->watch_lock);
  dp_status_release(before);
  end_steps(session, now, aborted);
}

void dp_master_task_lost(dp_master *master, dp_worker_peer *peer, uint64_t incarnation,
                         const dp_status *why) {
  dp_status *aborted = dp_status_create(DP_ABORTED, "%s", dp_status_message(why));
  session_list sessions = list_sessions(master);
  for (size_t i = 0; i < sessions.count; i++) {
    session_worker *worker = find_use(sessions.items[i], peer);
    if (worker)
      lose(sessions.items[i], worker, incarnation, aborted);
  }
  free_sessions(&sessions);
  dp_status_release(aborted);
}

void dp_master_task_back(dp_master *master, dp_worker_peer *peer) {
  session_list sessions = list_sessions(master);
  for (size_t i = 0; i < sessions.count; i++) {
    session_worker *worker = find_use(sessions.items[i], peer);
    if (!worker)
      continue;
    pthread_mutex_lock(&sessions.items[i]->watch_lock);
    dp_status *lost = worker->has_restarted ? NULL : worker->lost;
    if (lost)
      worker->lost = NULL;
    pthread_mutex_unlock(&sessions.items[i]->watch_lock);
    dp_status_release(lost);
  }
  free_sessions(&sessions);
}

/* Why a task of the session is lost, and since when; NULL when none is. */
static dp_status *find_loss(master_session *session, int64_t *since_out) {
  dp_status *lost = NULL;
  pthread_mutex_lock(&session->watch_lock);
  for (size_t i = 0; i < session->worker_count && !lost; i++) {
    if (!session->workers[i].lost)
      continue;
    lost = dp_status_retain(session->workers[i].lost);
    *since_out = session->workers[i].lost_since;
  }
  pthread_mutex_unlock(&session->watch_lock);
  return lost;
}

void dp_master_end_late_steps(dp_master *master, int64_t patience_nanos) {
  int64_t latest = dp_clock_nanos() - patience_nanos;
  session_list sessions = list_sessions(master);
  for (size_t i = 0; i < sessions.count; i++) {
    int64_t since = 0;
    dp_status *lost = find_loss(sessions.items[i], &since);
    if (lost && since <= latest)
      end_steps(sessions.items[i], latest, lost);
    dp_status_release(lost);
  }
  free_sessions(&sessions);
}
