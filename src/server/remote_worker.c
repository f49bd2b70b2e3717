/* A worker of another task, behind a gRPC channel: the same table of functions that the local
 * worker fills, so that the master need not know which one it talks to. */
#include "base/memory.h"
#include "server/services_internal.h"
#include "wire/control.h"

typedef struct remote_worker {
  dp_worker_peer peer;
  dp_rpc_channel *channel;
  char *task;
} remote_worker;

/* Errors say which task they come from. */
static dp_status *name_task(dp_status *status, const char *task) {
  return dp_status_append(status, "\n(from %s)", task);
}

/* ---- Control calls ---- */

typedef struct control_call {
  const char *task;
  dp_worker_method method;
  dp_worker_call_done_fn done;
  void *arg;
} control_call;

static void control_done(void *arg, dp_status *status, dp_rope *response) {
  control_call *call = arg;
  dp_arena *arena = dp_arena_create();
  void *message = NULL;
  if (!status)
    status = dp_wire_unpack(dp_worker_response_type(call->method), response, arena, &message);
  call->done(call->arg, name_task(status, call->task), message);
  dp_arena_destroy(arena);
  dp_free(call);
}

static void remote_call(dp_worker_peer *peer, dp_worker_method method, const void *request,
                        int64_t deadline, dp_cancel *cancel, dp_worker_call_done_fn done,
                        void *arg) {
  remote_worker *worker = (remote_worker *)peer;
  dp_rope body = {0};
  dp_status *status = dp_wire_pack(request, &body);
  if (status) {
    dp_rope_deinit(&body);
    done(arg, status, NULL);
    return;
  }
  control_call *call = DP_NEW(control_call);
  *call = (control_call){worker->task, method, done, arg};
  /* A session waits for tasks that have not started yet; everything later finds them or fails. */
  dp_rpc_flags flags = method == DP_WORKER_GET_STATUS ? DP_RPC_WAIT_FOR_READY : DP_RPC_FAIL_FAST;
  dp_rpc_channel_call(worker->channel, dp_worker_method_path(method), &body, deadline, cancel,
                      flags, control_done, call);
}

/* ---- RunGraph ---- */

typedef struct run_call {
  dp_worker_run_done_fn done;
  void *arg;
} run_call;

static void run_done(void *arg, dp_status *status, dp_rope *body) {
  run_call *call = arg;
  dp_arena *arena = dp_arena_create();
  dp_run_graph_response response = {0};
  if (!status)
    status = dp_run_graph_response_decode(body, arena, &response);
  if (!status && response.status_code != DP_OK)
    status = dp_status_create((dp_code)response.status_code, "%s", response.status_error_message);
  call->done(call->arg, status, status ? NULL : &response);
  dp_run_graph_response_deinit(&response);
  dp_arena_destroy(arena);
  dp_free(call);
}

static void remote_run_graph(dp_worker_peer *peer, const dp_run_graph_request *request,
                             dp_cancel *cancel, dp_worker_run_done_fn done, void *arg) {
  remote_worker *worker = (remote_worker *)peer;
  dp_rope body = {0};
  dp_run_graph_request with_errors_inside = *request;
  with_errors_inside.store_errors_in_response_body = true;
  dp_status *status = dp_run_graph_request_encode(&with_errors_inside, &body);
  if (status) {
    dp_rope_deinit(&body);
    done(arg, status, NULL);
    return;
  }
  run_call *call = DP_NEW(run_call);
  *call = (run_call){done, arg};
  dp_rpc_channel_call(worker->channel, dp_worker_method_path(DP_WORKER_RUN_GRAPH), &body,
                      DP_FOREVER, cancel, DP_RPC_FAIL_FAST, run_done, call);
}

/* ---- RecvTensor ---- */

typedef struct receive_call {
  const char *task;
  dp_worker_receive_done_fn done;
  void *arg;
} receive_call;

static void receive_done(void *arg, dp_status *status, dp_rope *body) {
  receive_call *call = arg;
  dp_arena *arena = dp_arena_create();
  dp_recv_tensor_response response = {0};
  if (!status)
    status = dp_recv_tensor_response_decode(body, arena, &response);
  call->done(call->arg, name_task(status, call->task), status ? NULL : &response);
  dp_recv_tensor_response_deinit(&response);
  dp_arena_destroy(arena);
  dp_free(call);
}

static void remote_receive(dp_worker_peer *peer, const dp_recv_tensor_request *request,
                           dp_cancel *cancel, dp_worker_receive_done_fn done, void *arg) {
  remote_worker *worker = (remote_worker *)peer;
  dp_rope body = {0};
  dp_status *status = dp_recv_tensor_request_encode(request, &body);
  if (status) {
    dp_rope_deinit(&body);
    done(arg, status, NULL);
    return;
  }
  receive_call *call = DP_NEW(receive_call);
  *call = (receive_call){worker->task, done, arg};
  dp_rpc_channel_call(worker->channel, dp_worker_method_path(DP_WORKER_RECV_TENSOR), &body,
                      DP_FOREVER, cancel, DP_RPC_FAIL_FAST, receive_done, call);
}

static void release_remote(dp_worker_peer *peer) {
  remote_worker *worker = (remote_worker *)peer;
  dp_rpc_channel_release(worker->channel);
  dp_free(worker->task);
  dp_free(worker);
}

static void describe_remote(dp_worker_peer *peer, dp_text *text) {
  remote_worker *worker = (remote_worker *)peer;
  dp_rpc_channel_state state;
  dp_rpc_channel_get_state(worker->channel, &state);
  dp_text_printf(text, "%s to %s", dp_rpc_link_name(state.link),
                 dp_rpc_channel_target(worker->channel));
  if (state.link != DP_RPC_CONNECTED && state.last_error)
    dp_text_printf(text, ": %s", dp_status_message(state.last_error));
  dp_status_release(state.last_error);
}

static const dp_worker_peer_ops remote_ops = {remote_call, remote_run_graph, remote_receive,
                                              release_remote, describe_remote};

dp_worker_peer *dp_remote_worker_create(dp_rpc_channel *channel, const char *task) {
  remote_worker *worker = DP_NEW(remote_worker);
  worker->peer.ops = &remote_ops;
  worker->channel = channel;
  worker->task = dp_strdup(task);
  return &worker->peer;
}
