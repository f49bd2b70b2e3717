/* Slice, StridedSlice and its gradient. A slice that cuts only dimension 0 is a view of the input
 * if it has the alignment of a new buffer; every other slice is one strided copy. */
#include "kernels/array/slice_internal.h"
#include "kernels/shared/family.h"

static dp_status *output_slice(dp_op_context *context, const dp_slice_bounds *slice) {
  const dp_tensor *input = dp_op_input(context, 0);
  if (slice->is_identity) {
    dp_tensor same = dp_tensor_reshaped(input, &slice->result);
    dp_op_set_output(context, 0, &same);
    return NULL;
  }
  int64_t strides[DP_MAX_RANK];
  dp_move_strides(&input->shape, strides);
  size_t size = dp_dtype_size(input->dtype);
  if (slice->is_first_only && slice->elements > 0) {
    size_t offset = (size_t)(slice->begin[0] * strides[0]) * size;
    if (((uintptr_t)input->data + offset) % DP_BUFFER_ALIGNMENT == 0) {
      dp_tensor part = dp_tensor_slice(input, slice->begin[0], slice->begin[0] + slice->size[0]);
      part.shape = slice->result;
      dp_op_set_output(context, 0, &part);
      return NULL;
    }
  }
  dp_tensor *output;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &slice->result, &output));
  if (slice->elements == 0)
    return NULL;
  int64_t offset = 0, to = slice->elements;
  dp_move move;
  dp_move_init(&move, input->dtype);
  for (int i = 0; i < slice->rank; ++i) {
    to /= slice->size[i];
    offset += slice->begin[i] * strides[i];
    dp_move_add(&move, slice->size[i], slice->stride[i] * strides[i], to);
  }
  dp_move_run(context, &move, output->data, (const char *)input->data + offset * (int64_t)size);
  return NULL;
}

static dp_status *strided_compute(dp_op_context *context, void *state) {
  dp_slice_bounds slice;
  DP_RETURN_IF_ERROR(dp_slice_plan(state, &dp_op_input(context, 0)->shape, dp_op_input(context, 1),
                                   dp_op_input(context, 2), dp_op_input(context, 3), &slice));
  return output_slice(context, &slice);
}

static dp_status *check_range(int i, int64_t dim, int64_t begin, int64_t size) {
  if (dim == 0) {
    if (begin != 0 || size != 0)
      return DP_INVALID("Expected begin[%d] == 0 (got %lld) and size[%d] == 0 (got %lld) when "
                        "input.dim_size(%d) == 0",
                        i, (long long)begin, i, (long long)size, i);
    return NULL;
  }
  if (begin < 0 || begin > dim)
    return DP_INVALID("Expected begin[%d] in [0, %lld], but got %lld", i, (long long)dim,
                      (long long)begin);
  if (size < 0 || size > dim - begin)
    return DP_INVALID("Expected size[%d] in [0, %lld], but got %lld", i, (long long)(dim - begin),
                      (long long)size);
  return NULL;
}

static dp_status *slice_compute(dp_op_context *context, void *state) {
  const dp_tensor *input = dp_op_input(context, 0), *begins = dp_op_input(context, 1);
  const dp_tensor *sizes = dp_op_input(context, 2);
  int rank = input->shape.rank;
  if (begins->shape.rank != 1 || sizes->shape.rank != 1 || dp_tensor_elements(begins) != rank ||
      dp_tensor_elements(sizes) != rank)
    return DP_INVALID("Expected begin and size arguments to be 1-D tensors of size %d, but got "
                      "shapes %s and %s instead.",
                      rank, dp_shape_text(&begins->shape), dp_shape_text(&sizes->shape));
  dp_slice_bounds slice;
  slice.rank = rank;
  slice.elements = 1;
  slice.is_identity = slice.is_first_only = true;
  for (int i = 0; i < rank; ++i) {
    int64_t begin = dp_tensor_int_at(begins, i), size = dp_tensor_int_at(sizes, i);
    int64_t dim = input->shape.dims[i];
    if (size == -1)
      size = dim - begin;
    DP_RETURN_IF_ERROR(check_range(i, dim, begin, size));
    slice.begin[i] = begin;
    slice.stride[i] = 1;
    slice.size[i] = slice.result.dims[i] = size;
    slice.elements *= size;
    bool whole = begin == 0 && size == dim;
    slice.is_identity &= whole;
    slice.is_first_only &= whole || i == 0;
  }
  slice.result.rank = rank;
  slice.result.elements = slice.elements;
  return output_slice(context, &slice);
}

/* ---- Gradient: the slice's values among zeros ---- */
static dp_status *gradient_compute(dp_op_context *context, void *state) {
  const dp_tensor *sizes = dp_op_input(context, 0), *gradient = dp_op_input(context, 4);
  if (sizes->shape.rank != 1)
    return DP_INVALID("shape must be 1-D, got shape.shape = %s", dp_shape_text(&sizes->shape));
  dp_shape shape = {0};
  DP_RETURN_IF_ERROR(dp_kernel_read_shape(sizes, "shape", &shape));
  dp_slice_bounds slice;
  DP_RETURN_IF_ERROR(dp_slice_plan(state, &shape, dp_op_input(context, 1), dp_op_input(context, 2),
                                   dp_op_input(context, 3), &slice));
  if (!dp_shape_equal(&slice.result, &gradient->shape))
    return DP_INVALID("shape of dy was %s instead of %s", dp_shape_text(&gradient->shape),
                      dp_shape_text(&slice.result));
  if (slice.is_identity) {
    dp_tensor same = dp_tensor_reshaped(gradient, &shape);
    dp_op_set_output(context, 0, &same);
    return NULL;
  }
  dp_tensor *output;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &shape, &output));
  dp_move_fill(context, output->dtype, output->data, NULL, shape.elements);
  if (slice.elements == 0)
    return NULL;
  int64_t strides[DP_MAX_RANK], offset = 0, from = slice.elements;
  dp_move_strides(&shape, strides);
  dp_move move;
  dp_move_init(&move, output->dtype);
  for (int i = 0; i < slice.rank; ++i) {
    from /= slice.size[i];
    offset += slice.begin[i] * strides[i];
    dp_move_add(&move, slice.size[i], from, slice.stride[i] * strides[i]);
  }
  dp_move_run(context, &move, (char *)output->data + offset * (int64_t)dp_dtype_size(output->dtype),
              gradient->data);
  return NULL;
}

static const dp_kernel rows[] = {
    {.op = "Slice", .types = {{"Index", DP_SET_INDEX}}, .compute = slice_compute},
    {.op = "StridedSlice",
     .state_size = sizeof(dp_slice_masks),
     .create = dp_slice_create,
     .compute = strided_compute},
    {.op = "StridedSliceGrad",
     .state_size = sizeof(dp_slice_masks),
     .create = dp_slice_create,
     .compute = gradient_compute},
};
DP_KERNEL_FAMILY(array_slice, rows);
