/* Writing slices: StridedSliceAssign into reference variables, ResourceStridedSliceAssign into
 * resource variables, and TensorStridedSliceUpdate, which reuses the tensor's memory when that has
 * no other user. The value is broadcast to the slice's shape. */
#include "kernels/array/slice_internal.h"
#include "kernels/shared/family.h"

/* Strides of `value` for each dimension of the slice's result; 0 where it is repeated. */
static dp_status *broadcast_value(const dp_slice_bounds *slice, const dp_tensor *value,
                                  int64_t *strides_out) {
  const dp_shape *result = &slice->result, *shape = &value->shape;
  int64_t stride = 1;
  bool fits = true;
  for (int i = 1; i <= result->rank || i <= shape->rank; ++i) { /* from the innermost */
    int64_t dim = i <= shape->rank ? shape->dims[shape->rank - i] : 1;
    int64_t wanted = i <= result->rank ? result->dims[result->rank - i] : 1;
    fits &= dim == wanted || dim == 1;
    if (i <= result->rank)
      strides_out[result->rank - i] = dim == 1 ? 0 : stride;
    stride *= dim;
  }
  if (!fits)
    return DP_INVALID("Cannot broadcast input shape %s into final shape %s", dp_shape_text(shape),
                      dp_shape_text(result));
  return NULL;
}

static dp_status *write_slice(dp_op_context *context, const dp_slice_masks *masks,
                              dp_tensor *target) {
  dp_slice_bounds slice;
  const dp_tensor *value = dp_op_input(context, 4);
  DP_RETURN_IF_ERROR(dp_slice_plan(masks, &target->shape, dp_op_input(context, 1),
                                   dp_op_input(context, 2), dp_op_input(context, 3), &slice));
  if (slice.elements == 0)
    return NULL;
  int64_t value_strides[DP_MAX_RANK], strides[DP_MAX_RANK], offset = 0;
  DP_RETURN_IF_ERROR(broadcast_value(&slice, value, value_strides));
  dp_move_strides(&target->shape, strides);
  dp_move move;
  dp_move_init(&move, target->dtype);
  /* Dimensions of size 1 may be in only one of the two lists: skip them in both. */
  int at = 0;
  for (int i = 0; i < slice.rank; ++i) {
    offset += slice.begin[i] * strides[i];
    if (slice.size[i] == 1)
      continue;
    while (slice.result.dims[at] == 1)
      ++at;
    dp_move_add(&move, slice.size[i], value_strides[at++], slice.stride[i] * strides[i]);
  }
  dp_move_run(context, &move, (char *)target->data + offset * (int64_t)dp_dtype_size(target->dtype),
              value->data);
  return NULL;
}

/* Everything is checked against the variable's shape before anything is written, so that an error
 * leaves the variable unchanged. */
static dp_status *assign_to_variable(dp_op_context *context, void *state) {
  dp_variable *variable;
  DP_RETURN_IF_ERROR(dp_op_variable(context, 0, &variable));
  dp_variable_update update;
  dp_status *status = dp_variable_begin_partial(variable, &update);
  if (!status) {
    const dp_tensor *value = dp_op_input(context, 4);
    if (update.target.dtype != value->dtype)
      status = DP_INVALID("l-value dtype %s does not match r-value dtype %s",
                          dp_dtype_name(update.target.dtype), dp_dtype_name(value->dtype));
    else
      status = write_slice(context, state, &update.target);
    dp_variable_end(&update, status == NULL);
  }
  dp_resource_release(variable);
  return status;
}

static dp_status *assign_reference_compute(dp_op_context *context, void *state) {
  DP_RETURN_IF_ERROR(assign_to_variable(context, state));
  dp_op_pass_reference(context, 0, 0);
  return NULL;
}

static dp_status *update_compute(dp_op_context *context, void *state) {
  dp_tensor *output;
  DP_RETURN_IF_ERROR(dp_move_first_to_output(context, &output));
  return write_slice(context, state, output);
}

static const dp_kernel rows[] = {
    {.op = "StridedSliceAssign",
     .state_size = sizeof(dp_slice_masks),
     .create = dp_slice_create,
     .compute = assign_reference_compute},
    {.op = "ResourceStridedSliceAssign",
     .state_size = sizeof(dp_slice_masks),
     .create = dp_slice_create,
     .compute = assign_to_variable},
    {.op = "TensorStridedSliceUpdate",
     .state_size = sizeof(dp_slice_masks),
     .create = dp_slice_create,
     .compute = update_compute},
};
DP_KERNEL_FAMILY(array_slice_assign, rows);
