/* MasterService on the network: calls of clients become calls of the task's master.
 *
 * RunStep and RunCallable carry tensors and start on the network thread that read them; all other
 * calls plan or compile and go to the blocking pool first. A call's scope is triggered when its
 * client goes away. See services_internal.h. */
#include "server/services_internal.h"
#include "wire/control.h"

/* ---- Control calls ---- */

static void handle_control(void *arg) {
  dp_service_call *call = arg;
  dp_arena *arena = dp_arena_create();
  void *request = NULL;
  dp_status *status = dp_wire_unpack(dp_master_request_type(call->method),
                                     dp_rpc_call_request(call->rpc), arena, &request);
  if (status)
    dp_service_control_done(call, status, NULL);
  else
    dp_master_call(call->room, call->method, request, dp_rpc_call_cancel(call->rpc),
                   dp_service_control_done, call);
  dp_arena_destroy(arena);
}

/* ---- RunStep ---- */

static void step_done(void *arg, dp_status *status, dp_run_step_response *response) {
  dp_service_call *call = arg;
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
  dp_service_call_answer(call, status, &body);
}

static void handle_run_step(dp_service_call *call) {
  dp_arena *arena = dp_arena_create();
  dp_run_step_request request = {0};
  dp_status *status = dp_run_step_request_decode(dp_rpc_call_request(call->rpc), arena, &request);
  if (status) {
    step_done(call, status, NULL);
  } else {
    call->errors_in_body = request.store_errors_in_response_body;
    dp_master_run_step(call->room, &request, dp_rpc_call_cancel(call->rpc), step_done, call);
  }
  dp_run_step_request_deinit(&request);
  dp_arena_destroy(arena);
}

/* ---- RunCallable ---- */

static void callable_done(void *arg, dp_status *status, dp_run_callable_response *response) {
  dp_rope body = {0};
  if (!status)
    status = dp_run_callable_response_encode(response, &body);
  dp_service_call_answer(arg, status, &body);
}

static void handle_run_callable(dp_service_call *call) {
  dp_arena *arena = dp_arena_create();
  dp_run_callable_request request = {0};
  dp_status *status =
      dp_run_callable_request_decode(dp_rpc_call_request(call->rpc), arena, &request);
  if (status)
    callable_done(call, status, NULL);
  else
    dp_master_run_callable(call->room, &request, dp_rpc_call_cancel(call->rpc), callable_done,
                           call);
  dp_run_callable_request_deinit(&request);
  dp_arena_destroy(arena);
}

/* ---- Routing ---- */

static const char *path_of(int method) {
  return dp_master_method_path(method);
}

bool dp_master_service_handle(dp_master *master, dp_pool *blocking, dp_rpc_call *rpc) {
  dp_service_call *call = dp_service_call_create(master, rpc, DP_MASTER_METHOD_COUNT, path_of);
  if (!call)
    return false;
  if (call->method == DP_MASTER_RUN_STEP)
    handle_run_step(call);
  else if (call->method == DP_MASTER_RUN_CALLABLE)
    handle_run_callable(call);
  else
    dp_pool_run(blocking, handle_control, call);
  return true;
}
