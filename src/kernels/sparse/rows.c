/* SparseFillEmptyRows gives every empty row of a sparse matrix one entry with a default value. Its
 * gradient adds the gradients of these entries up for the default value. Linear in entries and
 * rows. RaggedFillEmptyRows does the same for values with row ids, which are entries with only a
 * row as coordinate. */
#include "kernels/shared/family.h"

#include <string.h>
#include "base/memory.h"
#include "kernels/loops/reduce.h"
#include "kernels/shared/move.h"
#include "kernels/shared/sparse.h"
#include "kernels/shared/widen.h"

/* Where the entries of each row begin in the result. */
typedef struct row_table {
  dp_buffer *buffer;
  int64_t *starts;
  int64_t row_count, full_count;
} row_table;

static dp_status *count_rows(const dp_sparse *sparse, row_table *table, bool *is_empty) {
  int64_t *starts = table->starts;
  memset(starts, 0, (size_t)table->row_count * sizeof *starts);
  for (int64_t i = 0; i < sparse->count; ++i) {
    int64_t row = sparse->indices[i * sparse->rank];
    if (row < 0 || row >= table->row_count)
      return DP_INVALID("indices(%lld, 0) is invalid: %lld >= %lld", (long long)i, (long long)row,
                        (long long)table->row_count);
    ++starts[row];
  }
  int64_t next = 0;
  for (int64_t row = 0; row < table->row_count; ++row) {
    int64_t entries = starts[row];
    is_empty[row] = entries == 0;
    starts[row] = next;
    next += entries ? entries : 1;
  }
  table->full_count = next;
  return NULL;
}

static dp_status *fill(dp_op_context *context, const dp_sparse *sparse, row_table *table,
                       const bool *is_empty, int64_t *map) {
  const dp_tensor *value = dp_op_input(context, 3);
  int64_t *indices;
  dp_tensor *values;
  dp_shape shape = dp_shape_vector(table->full_count);
  DP_RETURN_IF_ERROR(
      dp_sparse_allocate_indices(context, 0, table->full_count, sparse->rank, &indices));
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 1, &shape, &values));
  size_t size = dp_dtype_size(values->dtype), row_size = (size_t)sparse->rank * sizeof *indices;
  for (int64_t row = 0; row < table->row_count; ++row) {
    if (!is_empty[row])
      continue;
    int64_t *to = indices + table->starts[row] * sparse->rank;
    memset(to, 0, row_size);
    to[0] = row;
    dp_move_elements(values->dtype, size, (char *)values->data + (size_t)table->starts[row] * size,
                     value->data, 1);
  }
  for (int64_t i = 0; i < sparse->count; ++i) {
    const int64_t *from = sparse->indices + i * sparse->rank;
    map[i] = table->starts[from[0]]++;
    memcpy(indices + map[i] * sparse->rank, from, row_size);
    dp_move_elements(values->dtype, size, (char *)values->data + (size_t)map[i] * size,
                     (const char *)sparse->values->data + (size_t)i * size, 1);
  }
  return NULL;
}

/* Outputs 0 to 3, for entries of any rank but 0; the default value is input 3. */
static dp_status *fill_rows(dp_op_context *context, const dp_sparse *sparse) {
  row_table table = {.row_count = sparse->dims[0]};
  dp_shape rows_shape;
  dp_tensor *is_empty, *map;
  if (table.row_count == 0 && sparse->count > 0)
    return DP_INVALID("Received SparseTensor with dense_shape[0] = 0 but indices.shape[0] = %lld",
                      (long long)sparse->count);
  DP_RETURN_IF_ERROR(dp_shape_make(1, &table.row_count, &rows_shape));
  dp_shape map_shape = dp_shape_vector(sparse->count);
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 2, &rows_shape, &is_empty));
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 3, &map_shape, &map));
  size_t bytes;
  if (!dp_multiply_size((size_t)table.row_count, sizeof *table.starts, &bytes))
    return dp_status_out_of_memory();
  DP_RETURN_IF_ERROR(dp_buffer_create(bytes, &table.buffer));
  table.starts = table.buffer->data;
  dp_status *status = count_rows(sparse, &table, is_empty->data);
  if (!status)
    status = fill(context, sparse, &table, is_empty->data, map->data);
  dp_buffer_release(table.buffer);
  return status;
}

static dp_status *fill_empty_rows(dp_op_context *context, void *state) {
  (void)state;
  dp_sparse sparse;
  static const dp_sparse_words words = {.indices = "indices must be a matrix, saw: ",
                                        .values = "values must be a vector, saw: ",
                                        .shape = "dense_shape must be a vector, saw: "};
  const dp_shape *indices = &dp_op_input(context, 0)->shape,
                 *values = &dp_op_input(context, 1)->shape;
  if (indices->rank == 2 && values->rank == 1 && indices->dims[0] != values->dims[0])
    return DP_INVALID("The length of `values` (%lld) must match the first dimension of `indices` "
                      "(%lld).",
                      (long long)values->dims[0], (long long)indices->dims[0]);
  DP_RETURN_IF_ERROR(dp_sparse_open(context, 0, 1, 2, &words, &sparse));
  if (dp_op_input(context, 3)->shape.rank != 0)
    return DP_INVALID("default_value must be a scalar, saw: %s",
                      dp_shape_text(&dp_op_input(context, 3)->shape));
  if (sparse.rank == 0)
    return DP_INVALID("Dense shape cannot be empty.");
  return fill_rows(context, &sparse);
}

static dp_status *check_ragged(dp_op_context *context) {
  const dp_tensor *ids = dp_op_input(context, 0), *values = dp_op_input(context, 1);
  const dp_tensor *count = dp_op_input(context, 2), *value = dp_op_input(context, 3);
  if (count->shape.rank != 0)
    return DP_INVALID("nrows must be a scalar, saw: %s", dp_shape_text(&count->shape));
  if (ids->shape.rank != 1)
    return DP_INVALID("value_rowids must be a vector, saw: %s", dp_shape_text(&ids->shape));
  if (values->shape.rank != 1)
    return DP_INVALID("values must be a vector, saw: %s", dp_shape_text(&values->shape));
  if (ids->shape.elements != values->shape.elements)
    return DP_INVALID("The length of `values` (%lld) must match the first dimension of "
                      "`value_rowids` (%lld).",
                      (long long)values->shape.elements, (long long)ids->shape.elements);
  if (value->shape.rank != 0)
    return DP_INVALID("default_value must be a scalar, saw: %s", dp_shape_text(&value->shape));
  if (dp_tensor_int_at(count, 0) < 0)
    return DP_INVALID("Expected shape dimensions to be non-negative, got %lld",
                      (long long)dp_tensor_int_at(count, 0));
  return NULL;
}

static dp_status *fill_empty_ragged_rows(dp_op_context *context, void *state) {
  (void)state;
  DP_RETURN_IF_ERROR(check_ragged(context));
  const dp_tensor *ids = dp_op_input(context, 0);
  dp_sparse entries = {.indices = ids->data,
                       .values = dp_op_input(context, 1),
                       .count = ids->shape.elements,
                       .rank = 1,
                       .dims = {dp_tensor_int_at(dp_op_input(context, 2), 0)}};
  DP_RETURN_IF_ERROR(fill_rows(context, &entries));
  dp_tensor *filled = &context->outputs[0].tensor;
  filled->shape = dp_shape_vector(filled->shape.elements);
  return NULL;
}

/* ---- Gradient ---- */
typedef struct gradient_state {
  dp_dtype dtype, work;
  dp_reduce_fns sum;
} gradient_state;

static dp_status *gradient_create(const dp_kernel_setup *setup, void *memory) {
  gradient_state *state = memory;
  DP_RETURN_IF_ERROR(dp_node_get_type(setup->node, "T", &state->dtype));
  state->work = dp_kernel_is_short_float(state->dtype) ? DP_FLOAT : state->dtype;
  state->sum = dp_reduce_table()->fn[DP_REDUCE_sum][state->work];
  return NULL;
}

/* Copies the gradients of the original entries; collects the others in `rest` and sums them. */
static dp_status *split_gradient(dp_op_context *context, const gradient_state *state,
                                 const dp_tensor *map, const dp_tensor *gradient, dp_tensor *rest) {
  int64_t count = map->shape.elements, full = gradient->shape.elements, left = 0;
  size_t size = dp_dtype_size(state->dtype);
  const int64_t *at = map->data;
  char *visited =
      rest->data; /* holds marks first; each mark is read before its place is overwritten */
  dp_tensor *values = &context->outputs[0].tensor, *value = &context->outputs[1].tensor;
  for (int64_t i = 0; i < full; ++i)
    visited[(size_t)i * size] = 0;
  for (int64_t i = 0; i < count; ++i) {
    if (at[i] < 0 || at[i] >= full)
      return DP_INVALID("Elements in reverse index must be in [0, %lld) but got %lld",
                        (long long)full, (long long)at[i]);
    memcpy((char *)values->data + (size_t)i * size,
           (const char *)gradient->data + (size_t)at[i] * size, size);
    visited[(size_t)at[i] * size] = 1;
  }
  for (int64_t i = 0; i < full; ++i) {
    if (!visited[(size_t)i * size])
      memcpy((char *)rest->data + (size_t)left++ * size,
             (const char *)gradient->data + (size_t)i * size, size);
  }
  if (!left) {
    memset(value->data, 0, size);
    return NULL;
  }
  rest->shape = dp_shape_vector(left);
  const void *wide;
  dp_buffer *buffer = NULL;
  float sum;
  DP_RETURN_IF_ERROR(dp_kernel_widen_tensor(context, rest, state->work, &wide, &buffer));
  state->sum.rows(wide, state->work == state->dtype ? value->data : &sum, 1, left);
  if (state->work != state->dtype)
    dp_kernel_narrow(state->dtype, &sum, value->data, 1);
  dp_buffer_release(buffer);
  return NULL;
}

static dp_status *fill_empty_rows_gradient(dp_op_context *context, void *memory) {
  const gradient_state *state = memory;
  const dp_tensor *map = dp_op_input(context, 0), *gradient = dp_op_input(context, 1);
  if (map->shape.rank != 1)
    return DP_INVALID("reverse_index_map must be a vector, saw: %s", dp_shape_text(&map->shape));
  if (gradient->shape.rank != 1)
    return DP_INVALID("grad_values must be a vector, saw: %s", dp_shape_text(&gradient->shape));
  dp_shape scalar = dp_shape_scalar();
  dp_tensor *output, rest;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &map->shape, &output));
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 1, &scalar, &output));
  DP_RETURN_IF_ERROR(dp_tensor_create(state->dtype, &gradient->shape, &rest));
  dp_status *status = split_gradient(context, state, map, gradient, &rest);
  dp_tensor_deinit(&rest);
  return status;
}

static const dp_kernel rows[] = {
    {.op = "SparseFillEmptyRows", .compute = fill_empty_rows},
    {.op = "RaggedFillEmptyRows", .compute = fill_empty_ragged_rows},
#define GRADIENT(name)                                                                             \
  {                                                                                                \
    .op = name, .types = {{"T", DP_SET_NUMBERS}}, .state_size = sizeof(gradient_state),            \
    .create = gradient_create, .compute = fill_empty_rows_gradient                                 \
  }
    GRADIENT("SparseFillEmptyRowsGrad"),
    GRADIENT("RaggedFillEmptyRowsGrad"),
};
DP_KERNEL_FAMILY(sparse_rows, rows);
