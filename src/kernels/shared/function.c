/* Calls of functions by kernels: looks up the instance, moves inputs to arguments and results to
 * outputs. A call is asynchronous; its `single_call` owns the arguments until the function ends, on
 * whatever thread that is. */
#include "kernels/shared/function.h"

#include "base/memory.h"

dp_status *dp_function_of_step(dp_op_context *context, const dp_func *function,
                               dp_function_instance **instance_out) {
  if (!context->step->functions)
    return dp_status_create(DP_INTERNAL, "No function library is provided.");
  return dp_function_get(context->step->functions, function, instance_out);
}

void dp_function_take_inputs(dp_op_context *context, int32_t first, dp_tensor *tensors) {
  for (int32_t i = first; i < context->input_count; ++i)
    tensors[i - first] = dp_tensor_take(&context->inputs[i].tensor);
}

dp_status *dp_function_set_outputs(dp_op_context *context, dp_tensor *tensors, int32_t count) {
  if (count != context->output_count)
    return DP_INVALID("Node '%s' has %d outputs but the function it calls gave %d",
                      context->node->name, context->output_count, count);
  for (int32_t i = 0; i < count; ++i)
    dp_op_set_output(context, i, &tensors[i]);
  return NULL;
}

/* ---- One call ---- */
typedef struct single_call {
  dp_op_context *context;
  int32_t count;
  dp_tensor arguments[];
} single_call;

static void end_call(void *arg, dp_status *status, dp_tensor *results, int32_t result_count) {
  single_call *call = arg;
  dp_op_context *context = call->context;
  for (int32_t i = 0; i < call->count; ++i)
    dp_tensor_deinit(&call->arguments[i]);
  dp_free(call);
  if (!status)
    status = dp_function_set_outputs(context, results, result_count);
  dp_op_done(context, status);
}

void dp_function_run(dp_op_context *context, dp_function_instance *instance, int32_t first) {
  int32_t count = context->input_count - first;
  single_call *call = dp_malloc(sizeof(single_call) + sizeof(dp_tensor) * (size_t)count);
  call->context = context;
  call->count = count;
  dp_function_take_inputs(context, first, call->arguments);
  dp_function_call(instance, context->step, call->arguments, count, end_call, call);
}

/* ---- Conditions ---- */
dp_status *dp_function_to_bool(const dp_tensor *tensor, bool *value_out) {
  if (tensor->shape.rank > 0) {
    *value_out = tensor->shape.elements > 0;
    return NULL;
  }
  switch (tensor->dtype) {
  case DP_FLOAT:
    *value_out = *(const float *)tensor->data != 0;
    return NULL;
  case DP_DOUBLE:
    *value_out = *(const double *)tensor->data != 0;
    return NULL;
  case DP_BOOL:
    *value_out = *(const bool *)tensor->data;
    return NULL;
  case DP_STRING:
    *value_out = dp_tstring_size(dp_tensor_strings(tensor)) > 0;
    return NULL;
  case DP_INT8:
  case DP_INT16:
  case DP_INT32:
  case DP_INT64:
  case DP_UINT8:
    *value_out = dp_tensor_int_at(tensor, 0) != 0;
    return NULL;
  default:
    return DP_INVALID("%s cannot be converted to a boolean", dp_dtype_name(tensor->dtype));
  }
}
