/* Collectives over the network, in both directions.
 *
 * Out: the peer table of the collective room (dp_collective_peer_ops). Its argument is the session,
 * which knows where the other tasks are. In: CompleteGroup, CompleteInstance and GetStepSequence,
 * which other tasks ask of their leader, and RecvBuf, by which they fetch chunks from the board of
 * a step. A chunk of a step that has failed here is waited for only a little while: the step may be
 * run again under the same id. Any thread may enter. */
#include "collective/collective.h"

#include "base/fault.h"
#include "worker/worker_internal.h"

/* A chunk of a step that failed here: how long a peer waits for the step to be run again. */
static const int64_t failed_step_nanos = INT64_C(2000000000);

/* ---- Out: the peer table; its argument is the session ---- */

/* A call to another task. */
typedef struct peer_call {
  union {
    dp_collective_group_fn group;
    dp_collective_instance_fn instance;
  } done;
  void *arg;
} peer_call;

static dp_status *find_peer(const worker_session *session, const char *task,
                            dp_worker_peer **peer_out) {
  return session->worker->peers->find(session->peers, task, peer_out);
}

static void group_answered(void *arg, dp_status *status, const void *response) {
  peer_call call = *(peer_call *)arg;
  dp_free(arg);
  call.done.group(call.arg, status, response);
}

static void complete_group(void *peers, const char *leader,
                           const Tensorflow__CompleteGroupRequest *request, dp_cancel *cancel,
                           dp_collective_group_fn done, void *arg) {
  dp_worker_peer *peer;
  dp_status *status = find_peer(peers, leader, &peer);
  if (status) {
    done(arg, dp_status_annotate(status, "The leader of collective groups"), NULL);
    return;
  }
  peer_call *call = DP_NEW(peer_call);
  *call = (peer_call){.done.group = done, .arg = arg};
  peer->ops->call(peer, DP_WORKER_COMPLETE_GROUP, request, DP_FOREVER, cancel, group_answered,
                  call);
}

static void instance_answered(void *arg, dp_status *status, const void *response) {
  peer_call call = *(peer_call *)arg;
  dp_free(arg);
  const Tensorflow__CompleteInstanceResponse *answer = response;
  call.done.instance(call.arg, status, status ? -1 : answer->source_rank);
}

static void complete_instance(void *peers, const char *leader,
                              const Tensorflow__CompleteInstanceRequest *request, dp_cancel *cancel,
                              dp_collective_instance_fn done, void *arg) {
  dp_worker_peer *peer;
  dp_status *status = find_peer(peers, leader, &peer);
  if (status) {
    done(arg, status, -1);
    return;
  }
  peer_call *call = DP_NEW(peer_call);
  *call = (peer_call){.done.instance = done, .arg = arg};
  peer->ops->call(peer, DP_WORKER_COMPLETE_INSTANCE, request, DP_FOREVER, cancel, instance_answered,
                  call);
}

static void receive(void *peers, const char *task, const Tensorflow__RecvBufRequest *request,
                    void *to, dp_cancel *cancel, dp_board_value_fn done, void *arg) {
  dp_worker_peer *peer;
  dp_status *status = find_peer(peers, task, &peer);
  if (status) {
    dp_tensor nothing = {0};
    done(arg, status, &nothing);
    return;
  }
  peer->ops->receive_buffer(peer, request, to, cancel, done, arg);
}

/* ---- Out: is it there? ---- */

typedef struct health_check {
  char *device;
  uint64_t incarnation;
  dp_board_posted_fn done;
  void *arg;
} health_check;

static dp_status *check_incarnation(const health_check *check,
                                    const Tensorflow__GetStatusResponse *status) {
  for (size_t i = 0; i < status->n_device_attributes; i++) {
    if (status->device_attributes[i]->incarnation == check->incarnation)
      return NULL;
  }
  return dp_status_create(DP_ABORTED, "%s has restarted", check->device);
}

static void health_known(void *arg, dp_status *status, const void *response) {
  health_check *check = arg;
  if (dp_status_code(status) == DP_DEADLINE_EXCEEDED) {
    dp_status *gone = dp_status_create(DP_UNAVAILABLE, "%s does not take its chunks: %s",
                                       check->device, dp_status_message(status));
    dp_status_release(status);
    status = gone;
  }
  if (!status)
    status = check_incarnation(check, response);
  dp_board_posted_fn done = check->done;
  void *done_arg = check->arg;
  dp_free(check->device);
  dp_free(check);
  done(done_arg, status);
}

static void check_health(void *peers, const char *task, const char *device, uint64_t incarnation,
                         dp_cancel *cancel, dp_board_posted_fn done, void *arg) {
  static const int64_t patience_milliseconds = 3000;
  dp_worker_peer *peer;
  dp_status *status = find_peer(peers, task, &peer);
  if (status) {
    done(arg, status);
    return;
  }
  health_check *check = DP_NEW(health_check);
  *check = (health_check){dp_strdup(device), incarnation, done, arg};
  Tensorflow__GetStatusRequest request = TENSORFLOW__GET_STATUS_REQUEST__INIT;
  peer->ops->call(peer, DP_WORKER_GET_STATUS, &request, dp_clock_deadline_ms(patience_milliseconds),
                  cancel, health_known, check);
}

static const dp_collective_peer_ops peer_ops = {complete_group, complete_instance, receive,
                                                check_health};

/* ---- A graph's and a step's ---- */

static size_t list_tasks(const worker_session *session, const char *const **tasks_out) {
  const dp_cluster_ops *peers = session->worker->peers;
  return peers && peers->tasks ? peers->tasks(session->peers, tasks_out) : 0;
}

void dp_worker_graph_read_collectives(registered_graph *graph,
                                      const dp_worker_registration *registration) {
  graph->has_collectives = registration->collective_graph_key != 0;
  const Tensorflow__ConfigProto *config = registration->config;
  const char *wanted =
      config && config->experimental ? config->experimental->collective_group_leader : NULL;
  const char *const *tasks = NULL;
  size_t count = list_tasks(graph->session, &tasks);
  char *leader = dp_collective_leader(wanted, tasks, count);
  graph->leader = dp_arena_strdup(graph->arena, leader);
  dp_free(leader);
}

void dp_worker_collective_step_init(dp_worker *worker, const registered_graph *graph,
                                    step_entry *step, dp_collective_step *step_out) {
  const char *const *tasks = NULL;
  bool is_alone = list_tasks(graph->session, &tasks) <= 1;
  *step_out = (dp_collective_step){.collectives = worker->collectives,
                                   .board = dp_worker_step_board(worker, step),
                                   .peers = is_alone ? NULL : &peer_ops,
                                   .peers_arg = graph->session,
                                   .task = graph->session->task,
                                   .leader = graph->leader,
                                   .most_members = is_alone ? (int32_t)worker->device_count : 0};
}

/* ---- In: what others ask ---- */

typedef struct asked_call {
  dp_worker_call_done_fn done;
  void *arg;
  int32_t instance_key;
} asked_call;

static asked_call *make_asked(dp_worker_call_done_fn done, void *arg) {
  asked_call *call = DP_NEW(asked_call);
  call->done = done;
  call->arg = arg;
  return call;
}

static void answer_group(void *arg, dp_status *status,
                         const Tensorflow__CompleteGroupResponse *response) {
  asked_call call = *(asked_call *)arg;
  dp_free(arg);
  call.done(call.arg, status, response);
}

void dp_worker_complete_group(dp_worker *worker, const void *request, dp_cancel *cancel,
                              dp_worker_call_done_fn done, void *arg) {
  dp_collectives_complete_group(worker->collectives, request, cancel, answer_group,
                                make_asked(done, arg));
}

static void answer_instance(void *arg, dp_status *status, int32_t source_rank) {
  asked_call call = *(asked_call *)arg;
  dp_free(arg);
  Tensorflow__CompleteInstanceResponse response = TENSORFLOW__COMPLETE_INSTANCE_RESPONSE__INIT;
  response.instance_key = call.instance_key;
  response.source_rank = source_rank;
  call.done(call.arg, status, status ? NULL : &response);
}

void dp_worker_complete_instance(dp_worker *worker, const void *request, dp_cancel *cancel,
                                 dp_worker_call_done_fn done, void *arg) {
  asked_call *call = make_asked(done, arg);
  call->instance_key = ((const Tensorflow__CompleteInstanceRequest *)request)->instance_key;
  dp_collectives_complete_instance(worker->collectives, request, cancel, answer_instance, call);
}

void dp_worker_get_step_sequence(dp_worker *worker, const void *request, dp_cancel *cancel,
                                 dp_worker_call_done_fn done, void *arg) {
  const Tensorflow__GetStepSequenceRequest *question = request;
  dp_arena *arena = dp_arena_create();
  Tensorflow__GetStepSequenceResponse response = TENSORFLOW__GET_STEP_SEQUENCE_RESPONSE__INIT;
  response.n_step_sequence = question->n_graph_key;
  response.step_sequence =
      DP_ARENA_ARRAY(arena, Tensorflow__StepSequence *, question->n_graph_key + 1);
  for (size_t i = 0; i < question->n_graph_key; i++) {
    Tensorflow__StepSequence *sequence = dp_wire_new(arena, &tensorflow__step_sequence__descriptor);
    sequence->graph_key = question->graph_key[i];
    sequence->next_step_id = dp_collectives_next_step(worker->collectives, question->graph_key[i]);
    response.step_sequence[i] = sequence;
  }
  done(arg, NULL, &response);
  dp_arena_destroy(arena);
}

/* ---- In: chunks ---- */

typedef struct buffer_call {
  dp_worker *worker;
  step_entry *step;
  dp_status *failure; /* of a step that failed here: it may come back, but soon */
  dp_cancel *scope;
  dp_worker_buffer_done_fn done;
  void *arg;
} buffer_call;

static void answer_buffer(void *arg, dp_status *status, dp_tensor *value) {
  buffer_call *call = arg;
  if (call->failure && dp_status_code(status) == DP_DEADLINE_EXCEEDED) {
    dp_status_release(status);
    status = dp_status_retain(call->failure);
  }
  call->done(call->arg, status, value);
  dp_worker_step_leave(call->worker, call->step);
  dp_status_release(call->failure);
  dp_cancel_release(call->scope);
  dp_free(call);
}

static dp_status *check_source(const dp_worker *worker, const Tensorflow__RecvBufRequest *request) {
  dp_device_name name;
  DP_RETURN_IF_ERROR(dp_device_name_parse(dp_view_of(request->src_device), &name));
  const dp_device *device = dp_worker_find_device(worker, &name);
  if (!device)
    return DP_INVALID("RecvBuf: %s is no device of %s", request->src_device, worker->task);
  if (request->src_incarnation == 0 || request->src_incarnation == device->incarnation)
    return NULL;
  return dp_status_create(DP_FAILED_PRECONDITION,
                          "RecvBuf expects a different device incarnation: %llu vs. %llu. Your "
                          "worker job that contains the device (\"%s\") was probably restarted. "
                          "Check your worker job for the reason why it was restarted.",
                          (unsigned long long)request->src_incarnation,
                          (unsigned long long)device->incarnation, request->src_device);
}

void dp_worker_receive_buffer(dp_worker *worker, const Tensorflow__RecvBufRequest *request,
                              dp_cancel *cancel, dp_worker_buffer_done_fn done, void *arg) {
  dp_status *status = dp_fault("worker.receive_buffer");
  if (!status)
    status = check_source(worker, request);
  if (status) {
    dp_tensor nothing = {0};
    done(arg, status, &nothing);
    return;
  }
  buffer_call *call = DP_NEW(buffer_call);
  *call = (buffer_call){.worker = worker, .done = done, .arg = arg};
  call->step = dp_worker_step_enter(worker, request->step_id, NULL);
  call->failure = dp_worker_step_failure(worker, request->step_id);
  if (call->failure)
    call->scope = dp_cancel_create(cancel, dp_clock_nanos() + failed_step_nanos);
  dp_board_take(dp_worker_step_board(worker, call->step), request->buf_rendezvous_key,
                call->failure ? call->scope : cancel, answer_buffer, call);
}
