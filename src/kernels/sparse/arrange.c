/* SparseReorder, SparseReshape, SparseConcat and SparseSplit. Values are only moved, so every dtype
 * is supported. Each op makes a fixed number of passes over the entries; sorting is linear
 * (shared/sparse.h). */
#include "kernels/shared/family.h"

#include <string.h>
#include "base/memory.h"
#include "kernels/shared/pieces.h"
#include "kernels/shared/sparse.h"

/* Copies rows of coordinates in another order. */
static void gather_rows(int64_t *to, const int64_t *from, const dp_sparse_order *order,
                        int64_t count, int32_t rank) {
  for (int64_t i = 0; i < count; ++i, to += rank)
    memcpy(to, from + dp_sparse_order_at(order, i) * rank, (size_t)rank * sizeof *to);
}

static dp_status *allocate_vector(dp_op_context *context, int32_t output, int64_t count,
                                  dp_tensor **tensor_out) {
  dp_shape shape = dp_shape_vector(count);
  return dp_op_allocate(context, output, &shape, tensor_out);
}

static const int32_t natural_order[DP_MAX_RANK] = {0, 1, 2,  3,  4,  5,  6,  7,
                                                   8, 9, 10, 11, 12, 13, 14, 15};

/* ---- SparseReorder ---- */
static dp_status *reorder(dp_op_context *context, void *state) {
  (void)state;
  dp_sparse sparse;
  dp_sparse_order order;
  DP_RETURN_IF_ERROR(dp_sparse_open(context, 0, 1, 2, &dp_sparse_rank_words, &sparse));
  DP_RETURN_IF_ERROR(dp_sparse_sort(&sparse, natural_order, sparse.rank, &order));
  if (!order.rows) {
    dp_op_pass(context, 0, 0);
    dp_op_pass(context, 1, 1);
    return NULL;
  }
  int64_t *indices;
  dp_tensor *values;
  dp_status *status;
  DP_GOTO_IF_ERROR(status, done,
                   dp_sparse_allocate_indices(context, 0, sparse.count, sparse.rank, &indices));
  DP_GOTO_IF_ERROR(status, done, allocate_vector(context, 1, sparse.count, &values));
  gather_rows(indices, sparse.indices, &order, sparse.count, sparse.rank);
  dp_sparse_gather(values->dtype, values->data, sparse.values->data, &order, sparse.count);
done:
  dp_sparse_order_deinit(&order);
  return status;
}

/* ---- SparseReshape ---- */
/* The target shape, with its unknown size filled in. */
static dp_status *reshape_target(const dp_tensor *target, const dp_shape *from, dp_shape *to) {
  int64_t dims[DP_MAX_RANK], count, product = 1;
  int unknown = -1;
  DP_RETURN_IF_ERROR(dp_kernel_read_ints(target, "new_shape", DP_MAX_RANK, dims, &count));
  for (int i = 0; i < count; ++i) {
    if (dims[i] == -1) {
      if (unknown >= 0)
        return DP_INVALID("only one output dimension may be -1, not both %d and %d", unknown, i);
      unknown = i;
      dims[i] = 1;
    } else if (dims[i] < 0) {
      return DP_INVALID("size %d must be non-negative, not %lld", i, (long long)dims[i]);
    } else {
      int64_t before = product;
      if (__builtin_mul_overflow(before, dims[i], &product))
        return DP_INVALID("Encountered overflow when multiplying %lld with %lld, result: -1",
                          (long long)before, (long long)dims[i]);
    }
  }
  if (unknown >= 0) {
    if (product == 0)
      return DP_INVALID("reshape cannot infer the missing input size for an empty tensor unless "
                        "all specified input sizes are non-zero");
    if (from->elements % product) {
      DP_RETURN_IF_ERROR(dp_shape_make(count, dims, to));
      return DP_INVALID("Input to reshape is a SparseTensor with %lld dense values, but the "
                        "requested shape requires a multiple of %lld. input_shape=%s "
                        "output_shape=%s",
                        (long long)from->elements, (long long)product, dp_shape_text(from),
                        dp_shape_text(to));
    }
    dims[unknown] = from->elements / product;
  }
  DP_RETURN_IF_ERROR(dp_shape_make(count, dims, to));
  if (to->elements != from->elements)
    return DP_INVALID(
        "Input to reshape is a tensor with %lld dense values, but the requested shape "
        "has %lld. input_shape=%s output_shape=%s",
        (long long)from->elements, (long long)to->elements, dp_shape_text(from), dp_shape_text(to));
  return NULL;
}

static dp_status *reshape_open(dp_op_context *context, dp_shape *from, dp_shape *to) {
  const dp_tensor *indices = dp_op_input(context, 0), *shape = dp_op_input(context, 1);
  const dp_tensor *target = dp_op_input(context, 2);
  if (indices->shape.rank != 2)
    return DP_INVALID("Input must be a matrix.");
  if (shape->shape.rank != 1)
    return DP_INVALID("Input shape must be a vector.");
  if (target->shape.rank != 1)
    return DP_INVALID("Target shape should be a vector but received shape %s",
                      dp_shape_text(&target->shape));
  if (indices->shape.dims[1] != shape->shape.dims[0])
    return DP_INVALID("Input tensor rank must match input shape length.");
  DP_RETURN_IF_ERROR(dp_kernel_read_shape(shape, "input_shape", from));
  DP_RETURN_IF_ERROR(reshape_target(target, from, to));
  if (indices->shape.dims[0] > 0 && from->elements == 0)
    return DP_INVALID("Input tensor has %lld non zero elements but input shape (%s) or output "
                      "shape (%s) is empty",
                      (long long)indices->shape.dims[0], dp_shape_text(from), dp_shape_text(to));
  return NULL;
}

static dp_status *reshape(dp_op_context *context, void *state) {
  (void)state;
  dp_shape from, to;
  DP_RETURN_IF_ERROR(reshape_open(context, &from, &to));
  if (dp_shape_equal(&from, &to)) {
    dp_op_pass(context, 0, 0);
    dp_op_pass(context, 1, 1);
    return NULL;
  }
  const dp_tensor *indices = dp_op_input(context, 0);
  int64_t count = indices->shape.dims[0], *result;
  DP_RETURN_IF_ERROR(dp_sparse_allocate_indices(context, 0, count, to.rank, &result));
  DP_RETURN_IF_ERROR(dp_sparse_output_dims(context, 1, to.dims, to.rank));
  const int64_t *at = indices->data;
  for (int64_t i = 0; i < count; ++i, at += from.rank, result += to.rank) {
    uint64_t position = 0;
    for (int j = 0; j < from.rank; ++j)
      position = position * (uint64_t)from.dims[j] + (uint64_t)at[j];
    /* Signed from here on, so that coordinates out of bounds remain out of bounds. */
    int64_t left = (int64_t)position;
    for (int j = to.rank - 1; j > 0; --j) {
      result[j] = left % to.dims[j];
      left /= to.dims[j];
    }
    if (to.rank > 0)
      result[0] = left;
  }
  return NULL;
}

/* ---- SparseConcat ---- */
typedef struct concat_state {
  int64_t axis;
  int32_t count;
} concat_state;

static dp_status *concat_create(const dp_kernel_setup *setup, void *memory) {
  concat_state *state = memory;
  int64_t count;
  DP_RETURN_IF_ERROR(dp_node_get_int(setup->node, "N", &count));
  state->count = (int32_t)count;
  return dp_node_get_int(setup->node, "concat_dim", &state->axis);
}

static const dp_sparse_words piece_words = {.is_tensor = true};

/* Checks the ranks of all inputs; the error names the wrong one. */
static dp_status *check_pieces(const dp_op_context *context, int32_t count) {
  static const char *const names[] = {"indices", "values", "shapes"};
  int64_t rank = -1;
  for (int32_t kind = 0; kind < 3; ++kind)
    for (int32_t i = 0; i < count; ++i) {
      const dp_shape *shape = &dp_op_input(context, kind * count + i)->shape;
      if (shape->rank != (kind == 0 ? 2 : 1))
        return DP_INVALID("Input %s should be a %s but received shape %s at position %d",
                          names[kind], kind == 0 ? "matrix" : "vector", dp_shape_text(shape), i);
      rank = kind == 2 && i == 0 ? shape->dims[0] : rank;
      if (kind == 2 && shape->dims[0] != rank)
        return DP_INVALID("Ranks of all input tensors must match: expected %lld but got %lld at "
                          "position %d",
                          (long long)rank, (long long)shape->dims[0], i);
    }
  return NULL;
}

/* Checks all inputs. `joined` gets the joined shape and the number of rows; the rest stays
 * unset. */
static dp_status *concat_open(dp_op_context *context, const concat_state *state, int *axis_out,
                              dp_sparse *joined) {
  dp_sparse first, piece;
  dp_shape dense;
  int axis;
  DP_RETURN_IF_ERROR(check_pieces(context, state->count));
  DP_RETURN_IF_ERROR(
      dp_sparse_open(context, 0, state->count, 2 * state->count, &piece_words, &first));
  if (!dp_kernel_normalize_axis(state->axis, first.rank, &axis))
    return DP_INVALID("Concat dimension must be in range [%d, %d), got %lld", -first.rank,
                      first.rank, (long long)state->axis);
  DP_RETURN_IF_ERROR(dp_sparse_dense_shape(&first, &dense));
  *joined = first;
  for (int32_t i = 1; i < state->count; ++i) {
    DP_RETURN_IF_ERROR(
        dp_sparse_open(context, i, state->count + i, 2 * state->count + i, &piece_words, &piece));
    DP_RETURN_IF_ERROR(dp_sparse_dense_shape(&piece, &dense));
    for (int j = 0; j < first.rank; ++j) {
      if (j != axis && piece.dims[j] != first.dims[j])
        return DP_INVALID("Input shapes must match: expected %lld for dimension %d but got %lld at "
                          "position %d",
                          (long long)first.dims[j], j, (long long)piece.dims[j], i);
    }
    joined->count += piece.count;
    if (__builtin_add_overflow(joined->dims[axis], piece.dims[axis], &joined->dims[axis]))
      return DP_INVALID("Dimension %d of the concatenated shape overflows", axis);
  }
  *axis_out = axis;
  return NULL;
}

/* Copies all rows one after the other; coordinates of later inputs are shifted along the axis. */
static void join_rows(dp_op_context *context, const concat_state *state, int axis, int32_t rank,
                      int64_t *to) {
  uint64_t offset = 0;
  for (int32_t i = 0; i < state->count; ++i) {
    const dp_tensor *indices = dp_op_input(context, i);
    int64_t rows = indices->shape.dims[0];
    if (rows)
      memcpy(to, indices->data, (size_t)(rows * rank) * sizeof *to);
    for (int64_t row = 0; row < rows; ++row, to += rank)
      to[axis] = (int64_t)((uint64_t)to[axis] + offset);
    offset += (uint64_t)dp_tensor_int_at(dp_op_input(context, 2 * state->count + i), axis);
  }
}

static void join_values(dp_op_context *context, const concat_state *state, dp_tensor *joined) {
  dp_tensor *pieces = dp_pieces_create(state->count);
  for (int32_t i = 0; i < state->count; ++i)
    pieces[i] = dp_tensor_copy(dp_op_input(context, state->count + i));
  dp_pieces_join(context, pieces, state->count, joined);
  dp_pieces_destroy(pieces, state->count);
}

/* Sorts the joined rows and values, unless they are sorted already. */
static dp_status *concat_sort(dp_op_context *context, dp_sparse *joined, int64_t *indices,
                              const dp_tensor *values) {
  dp_sparse_order order;
  DP_RETURN_IF_ERROR(dp_sparse_sort(joined, natural_order, joined->rank, &order));
  if (!order.rows)
    return NULL;
  size_t bytes = (size_t)(joined->count * joined->rank) * sizeof *indices;
  dp_buffer *unordered = NULL;
  dp_tensor sorted;
  dp_status *status;
  DP_GOTO_IF_ERROR(status, done, dp_buffer_create(bytes, &unordered));
  DP_GOTO_IF_ERROR(status, done, dp_tensor_create(values->dtype, &values->shape, &sorted));
  memcpy(unordered->data, indices, bytes);
  gather_rows(indices, unordered->data, &order, joined->count, joined->rank);
  dp_sparse_gather(values->dtype, sorted.data, values->data, &order, joined->count);
  dp_tensor_deinit(&context->outputs[1].tensor);
  dp_op_set_output(context, 1, &sorted);
done:
  dp_buffer_release(unordered);
  dp_sparse_order_deinit(&order);
  return status;
}

static dp_status *concat(dp_op_context *context, void *memory) {
  const concat_state *state = memory;
  dp_sparse joined;
  int axis;
  int64_t *indices;
  dp_tensor *values;
  DP_RETURN_IF_ERROR(concat_open(context, state, &axis, &joined));
  DP_RETURN_IF_ERROR(dp_sparse_allocate_indices(context, 0, joined.count, joined.rank, &indices));
  DP_RETURN_IF_ERROR(allocate_vector(context, 1, joined.count, &values));
  DP_RETURN_IF_ERROR(dp_sparse_output_dims(context, 2, joined.dims, joined.rank));
  join_rows(context, state, axis, joined.rank, indices);
  join_values(context, state, values);
  joined.indices = indices;
  joined.values = values;
  return concat_sort(context, &joined, indices, values);
}

/* ---- SparseSplit ---- */
typedef struct split_state {
  int32_t count;
} split_state;

static dp_status *split_create(const dp_kernel_setup *setup, void *memory) {
  split_state *state = memory;
  int64_t count;
  DP_RETURN_IF_ERROR(dp_node_get_int(setup->node, "num_split", &count));
  state->count = (int32_t)count;
  return NULL;
}

/* The first `larger` parts have size + 1, the others size. */
typedef struct split_plan {
  int64_t size, larger;
  int32_t axis;
} split_plan;

static int64_t split_part(const split_plan *plan, int64_t at, int64_t *start_out) {
  int64_t boundary = plan->larger * (plan->size + 1);
  int64_t part =
      at < boundary ? at / (plan->size + 1) : plan->larger + (at - boundary) / plan->size;
  *start_out = part * plan->size + (part < plan->larger ? part : plan->larger);
  return part;
}

static dp_status *split_open(dp_op_context *context, const split_state *state, dp_sparse *sparse,
                             split_plan *plan) {
  const dp_tensor *axis_input = dp_op_input(context, 0);
  if (axis_input->shape.rank != 0)
    return DP_INVALID("Input axis should be a scalar but received shape %s",
                      dp_shape_text(&axis_input->shape));
  DP_RETURN_IF_ERROR(dp_sparse_open(context, 1, 2, 3, &dp_sparse_plain_words, sparse));
  int64_t axis = dp_tensor_int_at(axis_input, 0);
  if (axis < 0 || axis >= sparse->rank)
    return DP_INVALID("Input axis should be in range [%d, %d), got %lld", -sparse->rank,
                      sparse->rank, (long long)axis);
  dp_shape dense;
  DP_RETURN_IF_ERROR(dp_sparse_dense_shape(sparse, &dense));
  int64_t length = sparse->dims[axis];
  if (state->count < 1 || state->count > length)
    return DP_INVALID(
        "Input num_split should be between 1 and the splitting dimension size (%lld), "
        "got %d",
        (long long)length, state->count);
  *plan = (split_plan){length / state->count, length % state->count, (int32_t)axis};
  for (int64_t i = 0; i < sparse->count; ++i) {
    int64_t at = sparse->indices[i * sparse->rank + axis];
    if (at < 0 || at >= length)
      return DP_INVALID("indices[%lld,%lld] = %lld is not in [0, %lld)", (long long)i,
                        (long long)axis, (long long)at, (long long)length);
  }
  return NULL;
}

/* One pass counts the rows of each part, a second pass distributes them. */
static dp_status *split_deal(dp_op_context *context, const split_state *state,
                             const dp_sparse *sparse, const split_plan *plan, int64_t *counts) {
  int64_t start;
  int32_t parts = state->count, rank = sparse->rank;
  dp_dtype dtype = sparse->values->dtype;
  size_t size = dp_dtype_size(dtype);
  for (int64_t i = 0; i < sparse->count; ++i)
    ++counts[split_part(plan, sparse->indices[i * rank + plan->axis], &start)];
  for (int32_t part = 0; part < parts; ++part) {
    int64_t dims[DP_MAX_RANK], *indices;
    dp_tensor *values;
    memcpy(dims, sparse->dims, sizeof dims);
    dims[plan->axis] = plan->size + (part < plan->larger);
    DP_RETURN_IF_ERROR(dp_sparse_allocate_indices(context, part, counts[part], rank, &indices));
    DP_RETURN_IF_ERROR(allocate_vector(context, parts + part, counts[part], &values));
    DP_RETURN_IF_ERROR(dp_sparse_output_dims(context, 2 * parts + part, dims, rank));
    counts[part] = 0;
  }
  for (int64_t i = 0; i < sparse->count; ++i) {
    const int64_t *row = sparse->indices + i * rank;
    int64_t part = split_part(plan, row[plan->axis], &start), at = counts[part]++;
    int64_t *to = (int64_t *)context->outputs[part].tensor.data + at * rank;
    memcpy(to, row, (size_t)rank * sizeof *to);
    to[plan->axis] -= start;
    dp_tensor_copy_elements(dtype,
                            (char *)context->outputs[parts + part].tensor.data + (size_t)at * size,
                            (const char *)sparse->values->data + (size_t)i * size, 1);
  }
  return NULL;
}

static dp_status *split(dp_op_context *context, void *memory) {
  const split_state *state = memory;
  dp_sparse sparse;
  split_plan plan;
  DP_RETURN_IF_ERROR(split_open(context, state, &sparse, &plan));
  int64_t *counts = DP_NEW_ARRAY(int64_t, (size_t)state->count);
  dp_status *status = split_deal(context, state, &sparse, &plan, counts);
  dp_free(counts);
  return status;
}

static const dp_kernel rows[] = {
    {.op = "SparseReorder", .compute = reorder},
    {.op = "SparseReshape", .compute = reshape},
    {.op = "SparseConcat",
     .state_size = sizeof(concat_state),
     .create = concat_create,
     .compute = concat},
    {.op = "SparseSplit",
     .state_size = sizeof(split_state),
     .create = split_create,
     .compute = split},
};
DP_KERNEL_FAMILY(sparse_arrange, rows);
