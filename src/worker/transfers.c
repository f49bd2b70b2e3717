/* Tensors between tasks: values that nodes here receive from other tasks, and values of ours that
 * peers ask for.
 *
 * Out: an edge finds its source task once, when the graph is registered (dp_worker_edge_resolve);
 * each receive goes straight to that peer. What is under way hangs in its step, for status pages.
 * In: a peer names a value by the text of its key, which is parsed and checked here; the value
 * waits in the rendezvous of its step. Any thread may enter. */
#include "base/fault.h"
#include "wire/rendezvous_key.h"
#include "worker/worker_internal.h"

/* ---- Edges ---- */

static dp_status *find_source(const worker_session *session, const dp_rendezvous_key *key,
                              dp_worker_peer **peer_out) {
  const dp_worker *worker = session->worker;
  char task[DP_DEVICE_NAME_SIZE];
  dp_device_name source = dp_device_name_task(&key->source);
  dp_device_name_format(&source, task);
  if (!worker->peers)
    return dp_status_create(DP_INTERNAL, "%s has no peers, but was asked to receive from %s",
                            worker->task, task);
  return worker->peers->find(session->peers, task, peer_out);
}

dp_status *dp_worker_edge_resolve(void *arg, const dp_rendezvous_key *key, bool is_sender,
                                  dp_edge_route *route_out) {
  const worker_session *session = arg;
  dp_view other = is_sender ? key->destination_text : key->source_text;
  dp_worker_peer *peer = NULL;
  bool is_remote = !dp_view_starts_with(other, session->task_prefix);
  if (is_remote && !is_sender)
    DP_RETURN_IF_ERROR(find_source(session, key, &peer));
  *route_out = (dp_edge_route){is_remote, peer};
  return NULL;
}

/* ---- Out: values of other tasks ---- */

struct remote_receive {
  remote_receive *next, *previous; /* in the step's list */
  step_entry *step;
  int64_t since;
  dp_rendezvous_done_fn done;
  void *arg;
  char key[];
};

static void list_receive(remote_receive *receive) {
  step_entry *step = receive->step;
  pthread_mutex_lock(&step->receive_lock);
  receive->next = step->receives;
  if (receive->next)
    receive->next->previous = receive;
  step->receives = receive;
  pthread_mutex_unlock(&step->receive_lock);
}

static void destroy_receive(remote_receive *receive) {
  step_entry *step = receive->step;
  pthread_mutex_lock(&step->receive_lock);
  if (receive->previous)
    receive->previous->next = receive->next;
  else
    step->receives = receive->next;
  if (receive->next)
    receive->next->previous = receive->previous;
  pthread_mutex_unlock(&step->receive_lock);
  dp_free(receive);
}

void dp_worker_visit_receives(step_entry *step, worker_receive_fn visit, void *arg) {
  int64_t now = dp_clock_nanos();
  pthread_mutex_lock(&step->receive_lock);
  for (remote_receive *at = step->receives; at; at = at->next)
    visit(arg, step->id, at->key, now - at->since);
  pthread_mutex_unlock(&step->receive_lock);
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
  destroy_receive(receive); /* before `done`, which may be what lets the step end */
  done(done_arg, status, &value, is_dead);
  dp_tensor_deinit(&value);
}

/* A peer that hears the same id twice takes it for a repeated call. */
static int64_t next_request_id(dp_worker *worker) {
  uint64_t next = atomic_fetch_add_explicit(&worker->next_request, 1, memory_order_relaxed);
  return (int64_t)(next & INT64_MAX);
}

static void receive_remote(void *remote, int64_t step_id, const dp_transfer_edge *edge, dp_view key,
                           dp_cancel *cancel, dp_rendezvous_done_fn done, void *arg) {
  step_entry *step = remote;
  dp_worker_peer *peer = edge->route.peer;
  remote_receive *receive = dp_calloc(1, sizeof(remote_receive) + key.length + 1);
  receive->step = step;
  receive->since = dp_clock_nanos();
  receive->done = done;
  receive->arg = arg;
  memcpy(receive->key, key.data, key.length);
  list_receive(receive);
  dp_recv_tensor_request request = {.step_id = step_id,
                                    .rendezvous_key = receive->key,
                                    .request_id = next_request_id(step->worker)};
  peer->ops->receive_tensor(peer, &request, cancel, remote_received, receive);
}

static void run_later(void *remote, dp_task_fn fn, void *fn_arg) {
  step_entry *step = remote;
  dp_pool_run(step->worker->compute, fn, fn_arg);
}

const dp_rendezvous_remote_ops dp_worker_remote_ops = {.receive = receive_remote,
                                                       .run_later = run_later};

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
  dp_rendezvous_receive(receive->step->rendezvous, key_text, cancel, answer_peer, receive);
}
