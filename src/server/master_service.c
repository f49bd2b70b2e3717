/* MasterService on the network. See services_internal.h. */
#include "base/memory.h"
#include "server/services_internal.h"
#include "wire/control.h"

typedef struct service_call {
  dp_master *master;
  dp_rpc_call *rpc;
  dp_master_method method;
  bool errors_in_body;
} service_call;

static service_call *make_call(dp_master *master, dp_rpc_call *rpc, dp_master_method method) {
  service_call *call = DP_NEW(service_call);
  *call = (service_call){.master = master, .rpc = rpc, .method = method};
  return call;
}

/* Consumes `status` and the body. */
static void answer(service_call *call, dp_status *status, dp_rope *body) {
  if (status)
    dp_rpc_call_fail(call->rpc, status);
  else
    dp_rpc_call_reply(call->rpc, body);
  dp_rope_deinit(body);
  dp_free(call);
}

/* ---- Control calls ---- */

static void control_done(void *arg, dp_status *status, const void *response) {
  dp_rope body = {0};
  if (!status)
    status = dp_wire_pack(response, &body);
  answer(arg, status, &body);
}

static void handle_control(void *arg) {
  service_call *call = arg;
  dp_arena *arena = dp_arena_create();
  void *request = NULL;
  dp_status *status = dp_wire_unpack(dp_master_request_type(call->method),
                                     dp_rpc_call_request(call->rpc), arena, &request);
  if (status)
    control_done(call, status, NULL);
  else
    dp_master_call(call->master, call->method, request, dp_rpc_call_cancel(call->rpc), control_done,
                   call);
  dp_arena_destroy(arena);
}

/* ---- RunStep ---- */

static void step_done(void *arg, dp_status *status, dp_run_step_response *response) {
  service_call *call = arg;
  dp_rope body = {0};
  dp_run_step_response failure = {0};
  if (status && call->errors_in_body) {
    failure.status_code = (int32_t)dp_status_code(status);
    failure.status_error_message = dp_status_message(status);
    dp_status *encoding = dp_run_step_response_encode(&failure, &body);
    dp_status_release(status);
    status = encoding;
  } else if (!status) {
    status = dp_run_step_response_encode(response, &body);
  }
  answer(call, status, &body);
}

static void handle_run_step(service_call *call) {
  dp_arena *arena = dp_arena_create();
  dp_run_step_request request = {0};
  dp_status *status = dp_run_step_request_decode(dp_rpc_call_request(call->rpc), arena, &request);
  if (status) {
    step_done(call, status, NULL);
  } else {
    call->errors_in_body = request.store_errors_in_response_body;
    dp_master_run_step(call->master, &request, dp_rpc_call_cancel(call->rpc), step_done, call);
  }
  dp_run_step_request_deinit(&request);
  dp_arena_destroy(arena);
}

/* ---- RunCallable ---- */

static void callable_done(void *arg, dp_status *status, dp_run_callable_response *response) {
  dp_rope body = {0};
  if (!status)
    status = dp_run_callable_response_encode(response, &body);
  answer(arg, status, &body);
}

static void handle_run_callable(service_call *call) {
  dp_arena *arena = dp_arena_create();
  dp_run_callable_request request = {0};
  dp_status *status =
      dp_run_callable_request_decode(dp_rpc_call_request(call->rpc), arena, &request);
  if (status)
    callable_done(call, status, NULL);
  else
    dp_master_run_callable(call->master, &request, dp_rpc_call_cancel(call->rpc), callable_done,
                           call);
  dp_run_callable_request_deinit(&request);
  dp_arena_destroy(arena);
}

/* ---- Routing ---- */

bool dp_master_service_handle(dp_master *master, dp_pool *blocking, dp_rpc_call *rpc) {
  const char *path = dp_rpc_call_path(rpc);
  int method = 0;
  while (method < DP_MASTER_METHOD_COUNT && strcmp(dp_master_method_path(method), path) != 0)
    method++;
  if (method == DP_MASTER_METHOD_COUNT)
    return false;
  service_call *call = make_call(master, rpc, method);
  if (method == DP_MASTER_RUN_STEP)
    handle_run_step(call);
  else if (method == DP_MASTER_RUN_CALLABLE)
    handle_run_callable(call);
  else
    dp_pool_run(blocking, handle_control, call);
  return true;
}
