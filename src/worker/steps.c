/* Steps by id, and receiving tensors in both directions.
 *
 * A step's rendezvous is made by whoever comes first, a RunGraph or a peer's RecvTensor. One that
 * was run stays until the master sends CleanupGraph, because peers may still fetch from it; or
 * until its RunGraph is cancelled or its session goes, because then the master may be dead. One
 * that only receives asked for goes when the last of them has left. */
#include "base/fault.h"
#include "base/philox.h"
#include "wire/rendezvous_key.h"
#include "worker/worker_internal.h"

/* ---- Out: values of other tasks ---- */

typedef struct remote_receive {
  struct remote_receive *next, *previous; /* in the worker's list, for who looks */
  dp_worker *worker;
  int64_t step_id;
  int64_t since;
  char *key;
  dp_rendezvous_done_fn done;
  void *arg;
} remote_receive;

static void list_receive(remote_receive *receive) {
  dp_worker *worker = receive->worker;
  pthread_mutex_lock(&worker->receive_lock);
  receive->next = worker->receives;
  if (receive->next)
    receive->next->previous = receive;
  worker->receives = receive;
  pthread_mutex_unlock(&worker->receive_lock);
}

static void destroy_receive(remote_receive *receive) {
  dp_worker *worker = receive->worker;
  pthread_mutex_lock(&worker->receive_lock);
  if (receive->previous)
    receive->previous->next = receive->next;
  else
    worker->receives = receive->next;
  if (receive->next)
    receive->next->previous = receive->previous;
  pthread_mutex_unlock(&worker->receive_lock);
  dp_free(receive->key);
  dp_free(receive);
}

void dp_worker_visit_receives(dp_worker *worker, worker_receive_fn visit, void *arg) {
  int64_t now = dp_clock_nanos();
  pthread_mutex_lock(&worker->receive_lock);
  for (remote_receive *at = worker->receives; at; at = at->next)
    visit(arg, at->step_id, at->key, now - at->since);
  pthread_mutex_unlock(&worker->receive_lock);
}

/* Nodes receive only once a RunGraph has come, so the step has a session. */
static bool is_remote(void *remote, dp_view key) {
  const step_entry *step = remote;
  return !dp_view_starts_with(key, step->session->task_prefix);
}

static void remote_received(void *arg, dp_status *status, dp_recv_tensor_response *response) {
  remote_receive *receive = arg;
  dp_tensor value = {0};
  bool is_dead = false;
  if (!status) {
    value = dp_tensor_take(&response->tensor);
    is_dead = response->is_dead;
  }
  dp_rendezvous_done_fn done = receive->done;
  void *done_arg = receive->arg;
  destroy_receive(receive); /* before `done`, which may be what lets the worker end */
  done(done_arg, status, &value, is_dead);
  dp_tensor_deinit(&value);
}

static dp_status *find_source(const step_entry *step, dp_view key, dp_worker_peer **peer_out) {
  const dp_worker *worker = step->worker;
  dp_rendezvous_key parsed;
  DP_RETURN_IF_ERROR(dp_rendezvous_key_parse(key, &parsed));
  char task[DP_DEVICE_NAME_SIZE];
  dp_device_name source = dp_device_name_task(&parsed.source);
  dp_device_name_format(&source, task);
  if (!worker->peers)
    return dp_status_create(DP_INTERNAL, "%s has no peers, but was asked to receive from %s",
                            worker->task, task);
  return worker->peers->find(step->session->peers, task, peer_out);
}

static void receive_remote(void *remote, int64_t step_id, dp_view key, dp_cancel *cancel,
                           dp_rendezvous_done_fn done, void *arg) {
  dp_worker_peer *peer = NULL;
  dp_status *status = find_source(remote, key, &peer);
  if (status) {
    dp_tensor nothing = {0};
    done(arg, status, &nothing, false);
    return;
  }
  remote_receive *receive = DP_NEW(remote_receive);
  char *key_text = dp_strndup(key.data, key.length);
  *receive = (remote_receive){.worker = ((step_entry *)remote)->worker,
                              .step_id = step_id,
                              .since = dp_clock_nanos(),
                              .key = dp_strdup(key_text),
                              .done = done,
                              .arg = arg};
  list_receive(receive);
  dp_recv_tensor_request request = {.step_id = step_id,
                                    .rendezvous_key = key_text,
                                    .request_id = (int64_t)(dp_random_seed() >> 1)};
  peer->ops->receive_tensor(peer, &request, cancel, remote_received, receive);
  dp_free(key_text);
}

static const dp_rendezvous_remote_ops remote_ops = {is_remote, receive_remote, NULL};

/* ---- The table ---- */

/* With the lock held; NULL when there is none. */
static failed_step *find_failed(dp_worker *worker, int64_t id) {
  for (size_t i = 0; i < FAILED_STEPS; i++) {
    if (worker->failed_steps[i].id == id && worker->failed_steps[i].why)
      return &worker->failed_steps[i];
  }
  return NULL;
}

/* With the lock held. */
static void remember_failure(dp_worker *worker, const step_entry *step) {
  failed_step *place = &worker->failed_steps[worker->next_failed_step++ % FAILED_STEPS];
  dp_status_release(place->why);
  *place = (failed_step){step->id, dp_status_retain(step->failure)};
}

dp_status *dp_worker_step_failure(dp_worker *worker, int64_t id) {
  pthread_mutex_lock(&worker->lock);
  const failed_step *failed = find_failed(worker, id);
  dp_status *why = failed ? dp_status_retain(failed->why) : NULL;
  pthread_mutex_unlock(&worker->lock);
  return why;
}

/* With the lock held: a step that failed is run again under the same id. */
static void revive(dp_worker *worker, int64_t id) {
  failed_step *failed = find_failed(worker, id);
  if (failed) {
    dp_status_release(failed->why);
    failed->why = NULL;
  }
}

static dp_status *say_cleanup(const step_entry *step) {
  return dp_status_create(DP_ABORTED, "Cleanup of step %lld", (long long)step->id);
}

dp_board *dp_worker_step_board(dp_worker *worker, step_entry *step) {
  pthread_mutex_lock(&worker->lock);
  bool is_late = !step->board && step->forgotten;
  if (!step->board)
    step->board = dp_board_create();
  pthread_mutex_unlock(&worker->lock);
  if (is_late)
    dp_board_abort(step->board, say_cleanup(step));
  return step->board;
}

step_entry *dp_worker_step_enter(dp_worker *worker, int64_t id, worker_session *session) {
  pthread_mutex_lock(&worker->lock);
  step_entry *step = dp_map_get_n(worker->steps, &id, sizeof(id));
  if (!step) {
    step = DP_NEW(step_entry);
    step->id = id;
    step->worker = worker;
    step->rendezvous = dp_rendezvous_create(id, &remote_ops, step);
    dp_map_put_n(worker->steps, &id, sizeof(id), step);
  }
  step->users++;
  if (session)
    revive(worker, id);
  if (session && !step->session) {
    dp_refcount_retain(&session->references);
    step->session = session;
  }
  pthread_mutex_unlock(&worker->lock);
  return step;
}

static void destroy_step(step_entry *step) {
  dp_rendezvous_release(step->rendezvous);
  dp_board_release(step->board);
  dp_status_release(step->failure);
  dp_worker_session_release(step->session);
  dp_free(step);
}

void dp_worker_step_leave(dp_worker *worker, step_entry *step) {
  pthread_mutex_lock(&worker->lock);
  bool is_last = --step->users == 0;
  bool goes = is_last && (step->forgotten || !step->session);
  if (goes && !step->forgotten)
    dp_map_remove_n(worker->steps, &step->id, sizeof(step->id));
  pthread_mutex_unlock(&worker->lock);
  if (goes)
    destroy_step(step);
}

/* With the lock held: takes the step off the table. */
static void forget(dp_worker *worker, step_entry *step) {
  dp_map_remove_n(worker->steps, &step->id, sizeof(step->id));
  step->forgotten = true;
  step->users++;
  if (step->board && step->failure)
    remember_failure(worker, step);
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
  pthread_mutex_lock(&worker->lock);
  step_entry *step = dp_map_get_n(worker->steps, &id, sizeof(id));
  if (step)
    forget(worker, step);
  pthread_mutex_unlock(&worker->lock);
  if (step)
    end_forgotten(worker, step);
}

void dp_worker_step_forget_run(dp_worker *worker, step_entry *step) {
  pthread_mutex_lock(&worker->lock);
  bool is_listed = !step->forgotten;
  if (is_listed)
    forget(worker, step);
  pthread_mutex_unlock(&worker->lock);
  if (is_listed)
    end_forgotten(worker, step);
}

void dp_worker_steps_clear(dp_worker *worker, const worker_session *session) {
  DP_ARRAY(step_entry *) steps = {0};
  const char *key;
  void *step;
  pthread_mutex_lock(&worker->lock);
  for (size_t at = 0; dp_map_next(worker->steps, &at, &key, &step);) {
    if (!session || ((step_entry *)step)->session == session)
      DP_ARRAY_PUSH(&steps, step);
  }
  for (size_t i = 0; i < steps.count; i++)
    forget(worker, steps.items[i]);
  pthread_mutex_unlock(&worker->lock);
  for (size_t i = 0; i < steps.count; i++)
    end_forgotten(worker, steps.items[i]);
  DP_ARRAY_FREE(&steps);
}

/* ---- In: a peer asks for a value of ours ---- */

typedef struct peer_receive {
  dp_worker *worker;
  step_entry *step;
  dp_worker_receive_done_fn done;
  void *arg;
} peer_receive;

static void answer_peer(void *arg, dp_status *status, dp_tensor *value, bool is_dead) {
  peer_receive *receive = arg;
  dp_recv_tensor_response response = {.is_dead = is_dead};
  if (!status) {
    response.tensor = dp_tensor_take(value);
    response.send_start_micros = dp_clock_wall_nanos() / 1000;
  }
  receive->done(receive->arg, status, status ? NULL : &response);
  dp_recv_tensor_response_deinit(&response);
  dp_worker_step_leave(receive->worker, receive->step);
  dp_free(receive);
}

const dp_device *dp_worker_find_device(const dp_worker *worker, const dp_device_name *name) {
  for (size_t i = 0; i < worker->device_count; i++) {
    dp_device_name own = {0};
    dp_status_release(dp_device_name_parse(dp_view_of(worker->devices[i]->name), &own));
    if (own.id == name->id && strcmp(own.type, name->type) == 0)
      return worker->devices[i];
  }
  return NULL;
}

/* The source device must be one of ours and of this incarnation: else the asker means a task that
 * was here before a restart. */
static dp_status *check_source(dp_worker *worker, const dp_rendezvous_key *key) {
  const dp_device *device = dp_worker_find_device(worker, &key->source);
  if (!device)
    return DP_INVALID("RecvTensor: %.*s is no device of %s", (int)key->source_text.length,
                      key->source_text.data, worker->task);
  if (device->incarnation == key->source_incarnation)
    return NULL;
  return dp_status_create(DP_ABORTED,
                          "RecvTensor expects a different device incarnation: %llu vs. %llu. "
                          "Your worker job (\"%s\") was probably restarted. Check your worker "
                          "job for the reason why it was restarted.",
                          (unsigned long long)key->source_incarnation,
                          (unsigned long long)device->incarnation, worker->task);
}

void dp_worker_receive_tensor(dp_worker *worker, const dp_recv_tensor_request *request,
                              dp_cancel *cancel, dp_worker_receive_done_fn done, void *arg) {
  dp_view key_text = dp_view_of(request->rendezvous_key);
  dp_rendezvous_key key;
  dp_status *status = dp_fault("worker.receive_tensor");
  if (!status)
    status = dp_rendezvous_key_parse(key_text, &key);
  if (!status)
    status = check_source(worker, &key);
  if (status) {
    done(arg, status, NULL);
    return;
  }
  peer_receive *receive = DP_NEW(peer_receive);
  *receive =
      (peer_receive){worker, dp_worker_step_enter(worker, request->step_id, NULL), done, arg};
  dp_rendezvous_receive_local(receive->step->rendezvous, key_text, cancel, answer_peer, receive);
}
