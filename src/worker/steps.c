/* Steps by id.
 *
 * A step's rendezvous is made by whoever comes first, a RunGraph or a peer's RecvTensor. One that
 * was run stays until the master sends CleanupGraph, because peers may still fetch from it; or
 * until its RunGraph is cancelled or its session goes, because then the master may be dead. One
 * that only receives asked for goes when the last of them has left.
 *
 * The table is divided into stripes by id, so that steps of different sessions seldom meet at a
 * lock. A stripe's lock guards its map and the entries in it. Failed steps are remembered under a
 * lock of their own, which is taken inside a stripe's; while there are none it is not taken. */
#include "worker/worker_internal.h"

/* ---- Stripes ---- */

static step_stripe *stripe_of(dp_worker *worker, int64_t id) {
  uint64_t mixed = (uint64_t)id * UINT64_C(0x9e3779b97f4a7c15);
  return &worker->stripes[mixed >> 32 & (STEP_STRIPES - 1)];
}

pthread_mutex_t *dp_worker_step_lock(dp_worker *worker, const step_entry *step) {
  return &stripe_of(worker, step->id)->lock;
}

void dp_worker_steps_init(dp_worker *worker) {
  for (int i = 0; i < STEP_STRIPES; i++) {
    pthread_mutex_init(&worker->stripes[i].lock, NULL);
    worker->stripes[i].steps = dp_map_create();
  }
  pthread_mutex_init(&worker->failed_lock, NULL);
}

void dp_worker_steps_deinit(dp_worker *worker) {
  for (int i = 0; i < STEP_STRIPES; i++) {
    dp_map_destroy(worker->stripes[i].steps);
    pthread_mutex_destroy(&worker->stripes[i].lock);
  }
  for (size_t i = 0; i < FAILED_STEPS; i++)
    dp_status_release(worker->failed_steps[i].why);
  pthread_mutex_destroy(&worker->failed_lock);
}

size_t dp_worker_steps_count(dp_worker *worker) {
  size_t count = 0;
  for (int i = 0; i < STEP_STRIPES; i++) {
    pthread_mutex_lock(&worker->stripes[i].lock);
    count += dp_map_count(worker->stripes[i].steps);
    pthread_mutex_unlock(&worker->stripes[i].lock);
  }
  return count;
}

/* ---- Steps that failed ---- */

/* With failed_lock held; NULL when there is none. */
static failed_step *find_failed(dp_worker *worker, int64_t id) {
  for (size_t i = 0; i < FAILED_STEPS; i++) {
    if (worker->failed_steps[i].id == id && worker->failed_steps[i].why)
      return &worker->failed_steps[i];
  }
  return NULL;
}

static void remember_failure(dp_worker *worker, const step_entry *step) {
  pthread_mutex_lock(&worker->failed_lock);
  failed_step *place = &worker->failed_steps[worker->next_failed_step++ % FAILED_STEPS];
  dp_status_release(place->why);
  *place = (failed_step){step->id, dp_status_retain(step->failure)};
  atomic_store(&worker->has_failed_steps, true);
  pthread_mutex_unlock(&worker->failed_lock);
}

dp_status *dp_worker_step_failure(dp_worker *worker, int64_t id) {
  if (!atomic_load(&worker->has_failed_steps))
    return NULL;
  pthread_mutex_lock(&worker->failed_lock);
  const failed_step *failed = find_failed(worker, id);
  dp_status *why = failed ? dp_status_retain(failed->why) : NULL;
  pthread_mutex_unlock(&worker->failed_lock);
  return why;
}

/* A step that failed is run again under the same id. */
static void revive(dp_worker *worker, int64_t id) {
  if (!atomic_load(&worker->has_failed_steps))
    return;
  pthread_mutex_lock(&worker->failed_lock);
  failed_step *failed = find_failed(worker, id);
  if (failed) {
    dp_status_release(failed->why);
    failed->why = NULL;
  }
  pthread_mutex_unlock(&worker->failed_lock);
}

/* ---- Entering and leaving ---- */

static dp_status *say_cleanup(const step_entry *step) {
  return dp_status_create(DP_ABORTED, "Cleanup of step %lld", (long long)step->id);
}

dp_board *dp_worker_step_board(dp_worker *worker, step_entry *step) {
  pthread_mutex_t *lock = dp_worker_step_lock(worker, step);
  pthread_mutex_lock(lock);
  bool is_late = !step->board && step->forgotten;
  if (!step->board)
    step->board = dp_board_create();
  pthread_mutex_unlock(lock);
  if (is_late)
    dp_board_abort(step->board, say_cleanup(step));
  return step->board;
}

static step_entry *make_step(dp_worker *worker, int64_t id) {
  step_entry *step = DP_NEW(step_entry);
  step->id = id;
  step->worker = worker;
  step->rendezvous = dp_rendezvous_create(id, &dp_worker_remote_ops, step);
  pthread_mutex_init(&step->receive_lock, NULL);
  return step;
}

step_entry *dp_worker_step_enter(dp_worker *worker, int64_t id, worker_session *session) {
  step_stripe *stripe = stripe_of(worker, id);
  pthread_mutex_lock(&stripe->lock);
  step_entry *step = dp_map_get_n(stripe->steps, &id, sizeof(id));
  if (!step) {
    step = make_step(worker, id);
    dp_map_put_n(stripe->steps, &id, sizeof(id), step);
  }
  step->users++;
  if (session)
    revive(worker, id);
  if (session && !step->session) {
    dp_refcount_retain(&session->references);
    step->session = session;
  }
  pthread_mutex_unlock(&stripe->lock);
  return step;
}

static void destroy_step(step_entry *step) {
  dp_rendezvous_release(step->rendezvous);
  dp_board_release(step->board);
  dp_status_release(step->failure);
  dp_worker_session_release(step->session);
  dp_cancel_release(atomic_load(&step->scope));
  pthread_mutex_destroy(&step->receive_lock);
  dp_free(step);
}

void dp_worker_step_leave(dp_worker *worker, step_entry *step) {
  step_stripe *stripe = stripe_of(worker, step->id);
  pthread_mutex_lock(&stripe->lock);
  bool is_last = --step->users == 0;
  bool goes = is_last && (step->forgotten || !step->session);
  if (goes && !step->forgotten)
    dp_map_remove_n(stripe->steps, &step->id, sizeof(step->id));
  pthread_mutex_unlock(&stripe->lock);
  if (goes)
    destroy_step(step);
}

/* ---- Forgetting ---- */

/* With the stripe's lock held: takes the step off the table and counts the caller as a user. */
static void forget(step_stripe *stripe, step_entry *step) {
  dp_map_remove_n(stripe->steps, &step->id, sizeof(step->id));
  step->forgotten = true;
  step->users++;
  if (step->board && step->failure)
    remember_failure(step->worker, step);
}

/* Peers that wait for chunks may have come after a first clean-up: they hear why the step failed.
 */
static void end_forgotten(dp_worker *worker, step_entry *step) {
  dp_status *why = say_cleanup(step);
  if (step->partial)
    dp_worker_run_abandon(step->partial, dp_status_retain(why));
  dp_status *failure = dp_worker_step_failure(worker, step->id);
  if (step->board)
    dp_board_abort(step->board, dp_status_retain(failure ? failure : why));
  dp_status_release(failure);
  dp_rendezvous_abort(step->rendezvous, why);
  dp_worker_step_leave(worker, step);
}

void dp_worker_step_forget(dp_worker *worker, int64_t id) {
  step_stripe *stripe = stripe_of(worker, id);
  pthread_mutex_lock(&stripe->lock);
  step_entry *step = dp_map_get_n(stripe->steps, &id, sizeof(id));
  if (step)
    forget(stripe, step);
  pthread_mutex_unlock(&stripe->lock);
  if (step)
    end_forgotten(worker, step);
}

void dp_worker_step_forget_run(dp_worker *worker, step_entry *step) {
  step_stripe *stripe = stripe_of(worker, step->id);
  pthread_mutex_lock(&stripe->lock);
  bool is_listed = !step->forgotten;
  if (is_listed)
    forget(stripe, step);
  pthread_mutex_unlock(&stripe->lock);
  if (is_listed)
    end_forgotten(worker, step);
}

/* ---- All of them ---- */

void dp_worker_steps_list(dp_worker *worker, step_list *steps) {
  const char *key;
  void *step;
  for (int i = 0; i < STEP_STRIPES; i++) {
    step_stripe *stripe = &worker->stripes[i];
    pthread_mutex_lock(&stripe->lock);
    for (size_t at = 0; dp_map_next(stripe->steps, &at, &key, &step);) {
      ((step_entry *)step)->users++;
      DP_ARRAY_PUSH(steps, step);
    }
    pthread_mutex_unlock(&stripe->lock);
  }
}

void dp_worker_steps_clear(dp_worker *worker, const worker_session *session) {
  step_list steps = {0};
  dp_worker_steps_list(worker, &steps);
  for (size_t i = 0; i < steps.count; i++) {
    step_entry *step = steps.items[i];
    pthread_mutex_t *lock = dp_worker_step_lock(worker, step);
    pthread_mutex_lock(lock);
    bool is_meant = !session || step->session == session;
    pthread_mutex_unlock(lock);
    if (is_meant)
      dp_worker_step_forget_run(worker, step);
    dp_worker_step_leave(worker, step);
  }
  DP_ARRAY_FREE(&steps);
}

/* ---- Steps of a master that does not answer ---- */

void dp_worker_step_set_scope(step_entry *step, dp_cancel *scope) {
  dp_cancel *none = NULL;
  dp_cancel_retain(scope);
  if (!atomic_compare_exchange_strong(&step->scope, &none, scope))
    dp_cancel_release(scope); /* of two runs of a step the first one's */
}

void dp_worker_end_steps_of(dp_worker *worker, const char *master_task, const dp_status *why) {
  step_list steps = {0};
  dp_worker_steps_list(worker, &steps);
  for (size_t i = 0; i < steps.count; i++) {
    step_entry *step = steps.items[i];
    pthread_mutex_t *lock = dp_worker_step_lock(worker, step);
    pthread_mutex_lock(lock);
    bool is_meant = step->session && strcmp(step->session->master_task, master_task) == 0;
    pthread_mutex_unlock(lock);
    dp_cancel *scope = atomic_load(&step->scope);
    if (is_meant && scope)
      dp_cancel_trigger(scope, dp_status_create(DP_ABORTED, "%s", dp_status_message(why)));
    dp_worker_step_leave(worker, step);
  }
  DP_ARRAY_FREE(&steps);
}
