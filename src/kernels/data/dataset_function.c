/* Functions of the user with their captured tensors (dp_captured). Each call is a step of its own:
 * its rendezvous, its container and its cancel scope end with it. */
#include <stdatomic.h>
#include <stdio.h>
#include "base/event.h"
#include "kernels/data/dataset_internal.h"
#include "kernels/shared/function.h"

dp_status *dp_captured_init(dp_captured *captured, dp_op_context *context, const char *attr,
                            const char *arguments) {
  const dp_func *function;
  int32_t begin, end;
  *captured = (dp_captured){0};
  DP_RETURN_IF_ERROR(dp_node_get_func(context->node, attr, &function));
  DP_RETURN_IF_ERROR(dp_node_input_range(context->node, arguments, &begin, &end));
  DP_RETURN_IF_ERROR(dp_function_of_step(context, function, &captured->instance));
  captured->functions = dp_function_runtime_retain(context->step->functions);
  captured->device = dp_device_retain(context->device);
  captured->capture_count = end - begin;
  captured->captures = dp_element_create(end - begin);
  for (int32_t i = begin; i < end; ++i)
    captured->captures[i - begin] = dp_tensor_copy(dp_op_input(context, i));
  return NULL;
}

void dp_captured_copy(const dp_captured *captured, dp_captured *copy_out) {
  *copy_out = *captured;
  if (!captured->functions)
    return;
  dp_function_runtime_retain(captured->functions);
  dp_device_retain(captured->device);
  copy_out->captures = dp_element_create(captured->capture_count);
  for (int32_t i = 0; i < captured->capture_count; ++i)
    copy_out->captures[i] = dp_tensor_copy(&captured->captures[i]);
}

void dp_captured_deinit(dp_captured *captured) {
  if (!captured->functions)
    return;
  dp_element_destroy(captured->captures, captured->capture_count);
  dp_function_runtime_release(captured->functions);
  dp_device_release(captured->device);
  *captured = (dp_captured){0};
}

/* ---- Calls ---- */
typedef struct call {
  dp_step step;
  char container[40];
  dp_device *device;
  dp_function_done_fn done;
  void *arg;
  int32_t count;
  dp_tensor arguments[];
} call;

static void end_call(void *arg, dp_status *status, dp_tensor *results, int32_t count) {
  call *call = arg;
  dp_function_runtime_clear_container(call->step.functions, call->container);
  dp_rendezvous_release(call->step.rendezvous);
  dp_cancel_release(call->step.cancel);
  dp_device_release(call->device);
  dp_element_clear(call->arguments, call->count);
  call->done(call->arg, status, results, count);
  dp_free(call);
}

void dp_captured_call(const dp_captured *captured, dp_cancel *cancel, const dp_tensor *element,
                      int32_t count, dp_function_done_fn done, void *arg) {
  static atomic_int_fast64_t last_id;
  int32_t total = count + captured->capture_count;
  call *call = dp_calloc(1, sizeof *call + sizeof(dp_tensor) * (size_t)total);
  int64_t id =
      -1 - atomic_fetch_add(&last_id, 1); /* negative: ids of steps that masters give are not */
  snprintf(call->container, sizeof call->container, "dataset call %lld", (long long)-id);
  call->device = dp_device_retain(captured->device);
  call->done = done;
  call->arg = arg;
  call->count = total;
  for (int32_t i = 0; i < count; ++i)
    call->arguments[i] = dp_tensor_copy(&element[i]);
  for (int32_t i = 0; i < captured->capture_count; ++i)
    call->arguments[count + i] = dp_tensor_copy(&captured->captures[i]);
  call->step = (dp_step){
      .id = id,
      .session_handle = "",
      .rendezvous = dp_rendezvous_create(id, NULL, NULL),
      .cancel = dp_cancel_create(cancel, DP_FOREVER),
      .pool = captured->device->compute,
      .functions = captured->functions,
      .container = call->container,
  };
  if (dp_function_argument_count(captured->instance) != total) {
    dp_status *status = DP_INVALID("a function with %d arguments is called with %d",
                                   dp_function_argument_count(captured->instance), total);
    end_call(call, status, NULL, 0);
    return;
  }
  dp_function_call(captured->instance, &call->step, call->arguments, total, end_call, call);
}

typedef struct waiting_call {
  dp_event event;
  dp_status *status;
  dp_tensor *results;
  int32_t count;
} waiting_call;

static void end_waiting(void *arg, dp_status *status, dp_tensor *results, int32_t count) {
  waiting_call *call = arg;
  call->status = status;
  if (!status) {
    call->count = count;
    call->results = dp_element_create(count);
    for (int32_t i = 0; i < count; ++i)
      call->results[i] = dp_tensor_take(&results[i]);
  }
  dp_event_notify(&call->event);
}

dp_status *dp_captured_call_wait(const dp_captured *captured, const dp_walk *walk,
                                 const dp_tensor *element, int32_t count, dp_tensor **results_out,
                                 int32_t *result_count_out) {
  waiting_call call = {0};
  dp_event_init(&call.event);
  dp_captured_call(captured, walk->cancel, element, count, end_waiting, &call);
  dp_event_wait(&call.event); /* a cancelled call ends too, so this is not for ever */
  dp_event_deinit(&call.event);
  DP_RETURN_IF_ERROR(call.status);
  *results_out = call.results;
  *result_count_out = call.count;
  return NULL;
}
