/* Tensors that stay in a session between steps: GetSessionHandle, GetSessionHandleV2,
 * GetSessionTensor, DeleteSessionTensor. The store belongs to the runtime
 * (runtime/session_state.h); a step inside a dataset has none. */
#include <string.h>
#include "base/memory.h"
#include "kernels/shared/family.h"
#include "kernels/shared/io.h"
#include "runtime/session_state.h"

static dp_status *check_state(const dp_op_context *context) {
  if (context->step->session_state)
    return NULL;
  return dp_status_create(DP_FAILED_PRECONDITION, "%s called on null session state",
                          context->node->op->name);
}

static dp_status *output_handle(dp_op_context *context, const char *handle) {
  if (dp_op_output_type(context, 0) == DP_STRING)
    return dp_io_output_string(context, 0, handle, strlen(handle));
  dp_shape shape = dp_shape_scalar();
  dp_tensor *output;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &shape, &output));
  dp_tensor_handles(output)[0] = dp_resource_handle_create(
      context->device->name, DP_TENSOR_HANDLE_CONTAINER, handle, 0, DP_TENSOR_HANDLE_CONTAINER);
  return NULL;
}

static dp_status *get_handle(dp_op_context *context, void *state) {
  DP_RETURN_IF_ERROR(check_state(context));
  char *handle;
  DP_RETURN_IF_ERROR(dp_tensor_store_add(context->step->tensor_store, context->node->name,
                                         context->device->name, dp_op_input(context, 0), &handle));
  dp_status *status = output_handle(context, handle);
  dp_free(handle);
  return status;
}

static dp_status *read_handle(dp_op_context *context, dp_view *handle_out) {
  DP_RETURN_IF_ERROR(check_state(context));
  const dp_tensor *handle = dp_op_input(context, 0);
  if (handle->shape.elements != 1)
    return DP_INVALID("handle must be a scalar, got shape %s", dp_shape_text(&handle->shape));
  *handle_out = dp_io_string(handle, 0);
  return NULL;
}

static dp_status *get_tensor(dp_op_context *context, void *state) {
  dp_view handle;
  DP_RETURN_IF_ERROR(read_handle(context, &handle));
  dp_tensor tensor;
  DP_RETURN_IF_ERROR(dp_session_state_find(context->step->session_state, handle, &tensor));
  if (tensor.dtype != dp_op_output_type(context, 0)) {
    dp_status *status = DP_INVALID("The tensor with handle '%.*s' has dtype %s, not %s",
                                   (int)handle.length, handle.data, dp_dtype_name(tensor.dtype),
                                   dp_dtype_name(dp_op_output_type(context, 0)));
    dp_tensor_deinit(&tensor);
    return status;
  }
  dp_op_set_output(context, 0, &tensor);
  return NULL;
}

static dp_status *delete_tensor(dp_op_context *context, void *state) {
  dp_view handle;
  DP_RETURN_IF_ERROR(read_handle(context, &handle));
  return dp_session_state_delete(context->step->session_state, handle);
}

static const dp_kernel rows[] = {
    {.op = "GetSessionHandle", .compute = get_handle},
    {.op = "GetSessionHandleV2", .compute = get_handle},
    {.op = "GetSessionTensor", .compute = get_tensor},
    {.op = "DeleteSessionTensor", .compute = delete_tensor},
};
DP_KERNEL_FAMILY(session_tensors, rows);
