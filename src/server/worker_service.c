/* WorkerService on the network: calls of masters and of peers become calls of the task's worker.
 *
 * RunGraph, RecvTensor and RecvBuf carry tensors and start on the network thread that read them, as
 * does CleanupGraph, which is short and follows every step. GetStatus is the sign of life that
 * other tasks wait for: it is answered at once, on a thread of its own (rpc's urgent path). All
 * other calls go to the blocking pool first. See services_internal.h. */
#include "server/services_internal.h"
#include "wire/control.h"
#include "wire/recv_buf.h"

/* ---- Control calls ---- */

static void handle_control(void *arg) {
  dp_service_call *call = arg;
  dp_arena *arena = dp_arena_create();
  void *request = NULL;
  dp_status *status = dp_wire_unpack(dp_worker_request_type(call->method),
                                     dp_rpc_call_request(call->rpc), arena, &request);
  if (status)
    dp_service_control_done(call, status, NULL);
  else
    dp_worker_call(call->room, call->method, request, dp_rpc_call_cancel(call->rpc),
                   dp_service_control_done, call);
  dp_arena_destroy(arena);
}

/* ---- RunGraph ---- */

static void run_done(void *arg, dp_status *status, dp_run_graph_response *response) {
  dp_service_call *call = arg;
  dp_rope body = {0};
  dp_run_graph_response failure = {0};
  if (status && call->errors_in_body) {
    failure.status_code = (int32_t)dp_status_code(status);
    failure.status_error_message = dp_status_message(status);
    dp_status *encoding = dp_run_graph_response_encode(&failure, &body);
    dp_status_release(status);
    status = encoding;
  } else if (!status) {
    status = dp_run_graph_response_encode(response, &body);
  }
  dp_service_call_answer(call, status, &body);
}

static void handle_run_graph(dp_service_call *call) {
  dp_arena *arena = dp_arena_create();
  dp_run_graph_request request = {0};
  dp_status *status = dp_run_graph_request_decode(dp_rpc_call_request(call->rpc), arena, &request);
  if (status) {
    run_done(call, status, NULL);
  } else {
    call->errors_in_body = request.store_errors_in_response_body;
    dp_worker_run_graph(call->room, &request, dp_rpc_call_cancel(call->rpc), run_done, call);
  }
  dp_run_graph_request_deinit(&request);
  dp_arena_destroy(arena);
}

/* ---- RecvTensor ---- */

static void receive_done(void *arg, dp_status *status, dp_recv_tensor_response *response) {
  dp_rope body = {0};
  if (!status)
    status = dp_recv_tensor_response_encode(response, &body);
  dp_service_call_answer(arg, status, &body);
}

static void handle_receive(dp_service_call *call) {
  dp_arena *arena = dp_arena_create();
  dp_recv_tensor_request request = {0};
  dp_status *status =
      dp_recv_tensor_request_decode(dp_rpc_call_request(call->rpc), arena, &request);
  if (status)
    receive_done(call, status, NULL);
  else
    dp_worker_receive_tensor(call->room, &request, dp_rpc_call_cancel(call->rpc), receive_done,
                             call);
  dp_arena_destroy(arena);
}

/* ---- RecvBuf ---- */

static void buffer_done(void *arg, dp_status *status, dp_tensor *value) {
  dp_rope body = {0};
  if (!status)
    status = dp_recv_buf_response_encode(value, &body);
  dp_service_call_answer(arg, status, &body);
}

static void handle_buffer(dp_service_call *call) {
  dp_arena *arena = dp_arena_create();
  void *request = NULL;
  dp_tensor nothing = {0};
  dp_status *status = dp_wire_unpack(dp_worker_request_type(DP_WORKER_RECV_BUF),
                                     dp_rpc_call_request(call->rpc), arena, &request);
  if (status)
    buffer_done(call, status, &nothing);
  else
    dp_worker_receive_buffer(call->room, request, dp_rpc_call_cancel(call->rpc), buffer_done, call);
  dp_arena_destroy(arena);
}

/* ---- Routing ---- */

static const char *path_of(int method) {
  return dp_worker_method_path(method);
}

bool dp_worker_service_handle(dp_worker *worker, dp_pool *blocking, dp_rpc_call *rpc) {
  dp_service_call *call = dp_service_call_create(worker, rpc, DP_WORKER_METHOD_COUNT, path_of);
  if (!call)
    return false;
  if (call->method == DP_WORKER_RUN_GRAPH)
    handle_run_graph(call);
  else if (call->method == DP_WORKER_RECV_TENSOR)
    handle_receive(call);
  else if (call->method == DP_WORKER_RECV_BUF)
    handle_buffer(call);
  else if (call->method == DP_WORKER_CLEANUP_GRAPH || call->method == DP_WORKER_GET_STATUS)
    handle_control(call); /* short */
  else
    dp_pool_run(blocking, handle_control, call);
  return true;
}
