/* SparseSlice: the entries of a sparse tensor that lie in a box, and its gradient, which puts the
 * gradients of these entries back among zeros. Both are one pass over the entries. */
#include "kernels/shared/family.h"

#include <string.h>
#include "kernels/shared/move.h"
#include "kernels/shared/sparse.h"

typedef struct slice_box {
  const int64_t *start;
  int64_t end[DP_MAX_RANK];
} slice_box;

static bool is_inside(const slice_box *box, const int64_t *row, int32_t rank) {
  bool inside = true;
  for (int32_t i = 0; i < rank; ++i)
    inside &= row[i] >= box->start[i] && row[i] < box->end[i];
  return inside;
}

/* Start and size as vectors of the tensor's rank; `dims` gets the shape of the slice. */
static dp_status *read_box(dp_op_context *context, const dp_sparse *sparse, slice_box *box,
                           int64_t *dims) {
  static const char *const names[] = {"start", "size"};
  for (int32_t i = 0; i < 2; ++i) {
    const dp_tensor *input = dp_op_input(context, 3 + i);
    if (input->shape.rank != 1)
      return DP_INVALID("Input %s should be a vector but received shape %s", names[i],
                        dp_shape_text(&input->shape));
    if (input->shape.elements != sparse->rank)
      return DP_INVALID("Expected %s to be a vector of length %d but got length %lld", names[i],
                        sparse->rank, (long long)input->shape.elements);
  }
  box->start = dp_op_input(context, 3)->data;
  const int64_t *size = dp_op_input(context, 4)->data;
  for (int32_t i = 0; i < sparse->rank; ++i) {
    int64_t start = box->start[i], limit = sparse->dims[i];
    if (size[i] < 0)
      return DP_INVALID("Expected a non-negative size, got %lld", (long long)size[i]);
    /* A start below zero is allowed; what lies there is empty. */
    uint64_t left = start < limit ? (uint64_t)limit - (uint64_t)start : 0;
    dims[i] = (uint64_t)size[i] < left ? size[i] : (int64_t)left;
    box->end[i] = start + dims[i];
  }
  return NULL;
}

static dp_status *slice(dp_op_context *context, void *state) {
  (void)state;
  dp_sparse sparse;
  dp_shape dense, shape;
  slice_box box;
  int64_t dims[DP_MAX_RANK] = {0}, count = 0, *indices;
  dp_tensor *values;
  DP_RETURN_IF_ERROR(dp_sparse_open(context, 0, 1, 2, &dp_sparse_rank_words, &sparse));
  DP_RETURN_IF_ERROR(dp_sparse_dense_shape(&sparse, &dense));
  DP_RETURN_IF_ERROR(read_box(context, &sparse, &box, dims));
  DP_RETURN_IF_ERROR(dp_shape_make(sparse.rank, dims, &shape));
  for (int64_t i = 0; i < sparse.count; ++i)
    count += is_inside(&box, sparse.indices + i * sparse.rank, sparse.rank);
  shape = dp_shape_vector(count);
  DP_RETURN_IF_ERROR(dp_sparse_allocate_indices(context, 0, count, sparse.rank, &indices));
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 1, &shape, &values));
  DP_RETURN_IF_ERROR(dp_sparse_output_dims(context, 2, dims, sparse.rank));
  size_t size = dp_dtype_size(values->dtype);
  char *to = values->data;
  const int64_t *row = sparse.indices;
  for (int64_t i = 0; i < sparse.count; ++i, row += sparse.rank) {
    if (!is_inside(&box, row, sparse.rank))
      continue;
    for (int32_t j = 0; j < sparse.rank; ++j)
      *indices++ = row[j] - box.start[j];
    dp_move_elements(values->dtype, size, to, (const char *)sparse.values->data + (size_t)i * size,
                     1);
    to += size;
  }
  return NULL;
}

/* ---- Gradient ---- */
static dp_status *check_gradient(const dp_tensor *gradient, const dp_tensor *input,
                                 const dp_tensor *start, const dp_tensor *output) {
  if (input->shape.rank != 2 || output->shape.rank != 2)
    return DP_INVALID("Input and output indices should be matrices but received shapes: %s and %s",
                      dp_shape_text(&input->shape), dp_shape_text(&output->shape));
  if (gradient->shape.rank != 1)
    return DP_INVALID("Input backprop_val_grad should be a vector but received shape: %s",
                      dp_shape_text(&gradient->shape));
  if (input->shape.dims[1] != output->shape.dims[1])
    return DP_INVALID("The input and output should have the same ndims: got: %lld and %lld",
                      (long long)input->shape.dims[1], (long long)output->shape.dims[1]);
  if (output->shape.dims[0] > input->shape.dims[0])
    return DP_INVALID("# rows of output_indices should be not greater than of input_indices, got "
                      "%lld and %lld",
                      (long long)output->shape.dims[0], (long long)input->shape.dims[0]);
  if (gradient->shape.dims[0] != output->shape.dims[0])
    return DP_INVALID("# elements of backprop_val_grad and # rows of output_indices should match "
                      "(#nnz of sum): got %lld and %lld",
                      (long long)gradient->shape.dims[0], (long long)output->shape.dims[0]);
  if (start->shape.rank != 1)
    return DP_INVALID("The input_start should be a vector but received shape %s",
                      dp_shape_text(&start->shape));
  if (start->shape.elements != input->shape.dims[1])
    return DP_INVALID("Expected input_start to be a vector of length %lld but got length %lld",
                      (long long)input->shape.dims[1], (long long)start->shape.elements);
  return NULL;
}

static bool is_moved(const int64_t *row, const int64_t *moved, const int64_t *start, int64_t rank) {
  for (int64_t i = 0; i < rank; ++i) {
    if ((uint64_t)row[i] != (uint64_t)moved[i] + (uint64_t)start[i])
      return false;
  }
  return true;
}

static dp_status *slice_gradient(dp_op_context *context, void *state) {
  (void)state;
  const dp_tensor *gradient = dp_op_input(context, 0), *input = dp_op_input(context, 1);
  const dp_tensor *start = dp_op_input(context, 2), *output = dp_op_input(context, 3);
  DP_RETURN_IF_ERROR(check_gradient(gradient, input, start, output));
  dp_shape shape = dp_shape_vector(input->shape.dims[0]);
  dp_tensor *result;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &shape, &result));
  memset(result->data, 0, dp_tensor_bytes(result));
  int64_t rank = input->shape.dims[1], count = gradient->shape.dims[0], used = 0;
  size_t size = dp_dtype_size(result->dtype);
  const int64_t *row = input->data, *moved = output->data;
  for (int64_t i = 0; i < shape.elements && used < count; ++i, row += rank) {
    if (!is_moved(row, moved + used * rank, start->data, rank))
      continue;
    memcpy((char *)result->data + (size_t)i * size,
           (const char *)gradient->data + (size_t)used * size, size);
    ++used;
  }
  if (used != count)
    return dp_status_create(DP_INTERNAL,
                            "Elements of backprop_val_grad aren't all propagated. Num elements:"
                            "%lld, used: %lld",
                            (long long)count, (long long)used);
  return NULL;
}

static const dp_kernel rows[] = {
    {.op = "SparseSlice", .compute = slice},
    {.op = "SparseSliceGrad", .types = {{"T", DP_SET_NUMBERS}}, .compute = slice_gradient},
};
DP_KERNEL_FAMILY(sparse_slice, rows);
