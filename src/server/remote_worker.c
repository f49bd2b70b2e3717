/* A worker of another task, behind a gRPC channel: the same table of functions that the local
 * worker fills, so that the master need not know which one it talks to.
 *
 * Opening a session waits for the task (remote_reach.c). Everything later finds it or fails, after
 * a second look when the link was down: the task may have come back since, and gRPC would notice
 * only after a pause. */
#include "base/memory.h"
#include "server/remote_internal.h"
#include "server/services_internal.h"
#include "wire/control.h"
#include "wire/recv_buf.h"

static const int64_t second_look_nanos = INT64_C(1000000000);
/* How long a group waits for its leader to start. */
static const int64_t leader_nanos = INT64_C(120000000000);

typedef struct remote_call {
  remote_worker *worker;
  dp_worker_method method;
  dp_rope request;
  int64_t deadline;
  dp_cancel *cancel;
  union {
    dp_worker_call_done_fn control;
    dp_worker_register_done_fn registered;
    dp_worker_run_done_fn run;
    dp_worker_receive_done_fn receive;
    dp_worker_buffer_done_fn buffer;
  } done;
  void *buffer; /* where a chunk goes; NULL: into a tensor */
  size_t buffer_bytes;
  void *arg;
} remote_call;

/* ---- Answers ---- */

/* Errors say which task they come from. */
static dp_status *name_task(dp_status *status, const char *task) {
  return dp_status_append(status, "\n(from %s)", task);
}

static void answer_control(remote_call *call, dp_status *status, dp_rope *body, dp_arena *arena) {
  void *message = NULL;
  if (!status)
    status = dp_wire_unpack(dp_worker_response_type(call->method), body, arena, &message);
  call->done.control(call->arg, name_task(status, call->worker->task), message);
}

static void answer_registration(remote_call *call, dp_status *status, dp_rope *body,
                                dp_arena *arena) {
  Tensorflow__RegisterGraphResponse *message = NULL;
  if (!status)
    status = dp_wire_unpack(dp_worker_response_type(call->method), body, arena, (void **)&message);
  call->done.registered(call->arg, name_task(status, call->worker->task),
                        message ? message->graph_handle : NULL);
}

static void answer_run(remote_call *call, dp_status *status, dp_rope *body, dp_arena *arena) {
  dp_run_graph_response response = {0};
  if (!status)
    status = dp_run_graph_response_decode(body, arena, &response);
  if (!status && response.status_code != DP_OK)
    status = dp_status_create((dp_code)response.status_code, "%s", response.status_error_message);
  call->done.run(call->arg, status, status ? NULL : &response);
  dp_run_graph_response_deinit(&response);
}

static void answer_receive(remote_call *call, dp_status *status, dp_rope *body, dp_arena *arena) {
  dp_recv_tensor_response response = {0};
  if (!status)
    status = dp_recv_tensor_response_decode(body, arena, &response);
  call->done.receive(call->arg, name_task(status, call->worker->task), status ? NULL : &response);
  dp_recv_tensor_response_deinit(&response);
}

static dp_status *read_buffer(const remote_call *call, const dp_rope *body, dp_tensor *value_out) {
  if (call->buffer)
    return dp_recv_buf_response_decode(body, call->buffer, call->buffer_bytes);
  dp_shape shape = dp_shape_vector((int64_t)call->buffer_bytes);
  DP_RETURN_IF_ERROR(dp_tensor_create(DP_UINT8, &shape, value_out));
  dp_status *status = dp_recv_buf_response_decode(body, value_out->data, call->buffer_bytes);
  if (status)
    dp_tensor_deinit(value_out);
  return status;
}

static void answer_buffer(remote_call *call, dp_status *status, dp_rope *body) {
  dp_tensor value = {0};
  if (!status)
    status = read_buffer(call, body, &value);
  call->done.buffer(call->arg, name_task(status, call->worker->task), &value);
  dp_tensor_deinit(&value);
}

static void call_done(void *arg, dp_status *status, dp_rope *body) {
  remote_call *call = arg;
  dp_arena *arena = dp_arena_create();
  if (call->method == DP_WORKER_RUN_GRAPH)
    answer_run(call, status, body, arena);
  else if (call->method == DP_WORKER_REGISTER_GRAPH)
    answer_registration(call, status, body, arena);
  else if (call->method == DP_WORKER_RECV_TENSOR)
    answer_receive(call, status, body, arena);
  else if (call->method == DP_WORKER_RECV_BUF)
    answer_buffer(call, status, body);
  else
    answer_control(call, status, body, arena);
  dp_arena_destroy(arena);
  dp_rope_deinit(&call->request);
  dp_cancel_release(call->cancel);
  dp_remote_worker_release(call->worker);
  dp_free(call);
}

/* ---- Calls ---- */

static remote_call *make_call(dp_worker_peer *peer, dp_worker_method method, int64_t deadline,
                              dp_cancel *cancel, void *arg) {
  remote_call *call = DP_NEW(remote_call);
  call->worker = dp_remote_worker_retain((remote_worker *)peer);
  call->method = method;
  call->deadline = deadline;
  call->cancel = dp_cancel_retain(cancel ? cancel : call->worker->life);
  call->arg = arg;
  return call;
}

static void send_call(remote_call *call) {
  dp_rpc_channel_call(call->worker->channel, dp_worker_method_path(call->method), &call->request,
                      call->deadline, call->cancel, DP_RPC_FAIL_FAST, call_done, call);
}

static void looked_again(void *arg, dp_status *status, dp_rope *body) {
  remote_call *call = arg;
  if (!status) {
    send_call(call);
    return;
  }
  if (dp_status_code(status) == DP_DEADLINE_EXCEEDED) {
    dp_status *gone = dp_status_create(DP_UNAVAILABLE, "%s", dp_status_message(status));
    dp_status_release(status);
    status = gone;
  }
  call_done(call, status, body);
}

/* Clean-up is not worth a second look. */
static bool deserves_a_second_look(dp_worker_method method) {
  return method == DP_WORKER_RUN_GRAPH || method == DP_WORKER_RECV_TENSOR ||
         method == DP_WORKER_REGISTER_GRAPH || method == DP_WORKER_RECV_BUF ||
         method == DP_WORKER_COMPLETE_INSTANCE;
}

/* Tasks of a job start in any order, and the leader need not be the first. */
static bool waits_for_leader(dp_worker_method method) {
  return method == DP_WORKER_COMPLETE_GROUP || method == DP_WORKER_GET_STEP_SEQUENCE;
}

static void look_first(remote_call *call, int64_t nanos) {
  int64_t limit = dp_clock_nanos() + nanos;
  dp_remote_reach(call->worker, limit < call->deadline ? limit : call->deadline, call->cancel,
                  looked_again, call);
}

/* Consumes `status`, the outcome of writing the request. */
static void start_call(remote_call *call, dp_status *status) {
  dp_rope nothing = {0};
  if (status) {
    call_done(call, status, &nothing);
  } else if (call->method == DP_WORKER_GET_STATUS) {
    dp_remote_reach(call->worker, call->deadline, call->cancel, call_done, call);
  } else if (deserves_a_second_look(call->method) && dp_remote_is_down(call->worker)) {
    look_first(call, second_look_nanos);
  } else if (waits_for_leader(call->method)) {
    look_first(call, leader_nanos);
  } else {
    send_call(call);
  }
}

static void remote_control(dp_worker_peer *peer, dp_worker_method method, const void *request,
                           int64_t deadline, dp_cancel *cancel, dp_worker_call_done_fn done,
                           void *arg) {
  remote_call *call = make_call(peer, method, deadline, cancel, arg);
  call->done.control = done;
  start_call(call, dp_wire_pack(request, &call->request));
}

static void remote_register_graph(dp_worker_peer *peer, dp_graph *graph,
                                  const dp_worker_registration *registration, int64_t deadline,
                                  dp_cancel *cancel, dp_worker_register_done_fn done, void *arg) {
  remote_call *call = make_call(peer, DP_WORKER_REGISTER_GRAPH, deadline, cancel, arg);
  call->done.registered = done;
  dp_arena *arena = dp_arena_create();
  Tensorflow__RegisterGraphRequest request = TENSORFLOW__REGISTER_GRAPH_REQUEST__INIT;
  request.session_handle = (char *)registration->session_handle;
  request.create_worker_session_called = true;
  request.graph_def = dp_graph_export_given(graph, arena, true);
  request.graph_options = (Tensorflow__GraphOptions *)registration->graph_options;
  request.config_proto = (Tensorflow__ConfigProto *)registration->config;
  request.debug_options = (Tensorflow__DebugOptions *)registration->debug;
  request.collective_graph_key = registration->collective_graph_key;
  dp_status *status = dp_wire_pack(&request, &call->request);
  dp_arena_destroy(arena);
  dp_graph_destroy(graph);
  start_call(call, status);
}

static void remote_run_graph(dp_worker_peer *peer, const dp_run_graph_request *request,
                             dp_cancel *cancel, dp_worker_run_done_fn done, void *arg) {
  remote_call *call = make_call(peer, DP_WORKER_RUN_GRAPH, DP_FOREVER, cancel, arg);
  call->done.run = done;
  dp_run_graph_request with_errors_inside = *request;
  with_errors_inside.store_errors_in_response_body = true;
  start_call(call, dp_run_graph_request_encode(&with_errors_inside, &call->request));
}

static void remote_receive(dp_worker_peer *peer, const dp_recv_tensor_request *request,
                           dp_cancel *cancel, dp_worker_receive_done_fn done, void *arg) {
  remote_call *call = make_call(peer, DP_WORKER_RECV_TENSOR, DP_FOREVER, cancel, arg);
  call->done.receive = done;
  start_call(call, dp_recv_tensor_request_encode(request, &call->request));
}

static void remote_receive_buffer(dp_worker_peer *peer, const Tensorflow__RecvBufRequest *request,
                                  void *to, dp_cancel *cancel, dp_worker_buffer_done_fn done,
                                  void *arg) {
  remote_call *call = make_call(peer, DP_WORKER_RECV_BUF, DP_FOREVER, cancel, arg);
  call->done.buffer = done;
  call->buffer = to;
  call->buffer_bytes = (size_t)request->num_bytes;
  start_call(call, dp_wire_pack(request, &call->request));
}

/* ---- Life ---- */

remote_worker *dp_remote_worker_retain(remote_worker *worker) {
  dp_refcount_retain(&worker->references);
  return worker;
}

bool dp_remote_worker_hold(remote_worker *worker) {
  return dp_refcount_try_retain(&worker->references);
}

void dp_remote_worker_release(remote_worker *worker) {
  if (dp_refcount_release(&worker->references))
    dp_rpc_channel_release(worker->channel); /* which frees the worker: remote_pulse.c */
}

static void watch_remote(dp_worker_peer *peer, bool begins) {
  remote_worker *worker = (remote_worker *)peer;
  if (begins)
    dp_rpc_channel_watch(worker->channel);
  else
    dp_rpc_channel_unwatch(worker->channel);
}

static void release_remote(dp_worker_peer *peer) {
  dp_remote_worker_release((remote_worker *)peer);
}

static const dp_worker_peer_ops remote_ops = {
    .call = remote_control,
    .register_graph_take = remote_register_graph,
    .run_graph = remote_run_graph,
    .receive_tensor = remote_receive,
    .receive_buffer = remote_receive_buffer,
    .release = release_remote,
    .describe = dp_remote_worker_describe,
    .watch = watch_remote,
};

dp_worker_peer *dp_remote_worker_create(const dp_remote_worker_options *options) {
  remote_worker *worker = DP_NEW(remote_worker);
  worker->peer.ops = &remote_ops;
  dp_refcount_init(&worker->references);
  worker->task = dp_strdup(options->task);
  worker->life = dp_cancel_retain(options->life);
  worker->answers_to_any_name = options->answers_to_any_name;
  worker->liveness = options->liveness;
  worker->table = options->table;
  pthread_mutex_init(&worker->lock, NULL);
  dp_rpc_pulse pulse = dp_remote_pulse(worker);
  worker->channel = dp_rpc_channel_create(options->rpc, options->address, &pulse);
  dp_liveness_add(worker->liveness, worker);
  return &worker->peer;
}
