/* RaggedCross: for each row of a batch all combinations of one feature of every column, as text
 * joined by "_X_" or as a hash. Columns are ragged, sparse or dense matrices, in the order that
 * `input_order` says ("R", "S", "D"). One pass counts, a second one writes; each column has a
 * cursor that both move from row to row. */
#include "kernels/shared/family.h"

#include "base/checksum.h"
#include "base/memory.h"
#include "kernels/shared/ragged.h"
#include "kernels/sparse/cross_internal.h"
#include "kernels/text/string.h"

typedef struct ragged_cross_state {
  dp_view order; /* of the node's graph */
  int32_t ragged_values, ragged_splits, sparse_indices, sparse_values, sparse_shape, dense;
  int32_t ragged_count, sparse_count, dense_count;
  int64_t buckets;
  uint64_t key;
} ragged_cross_state;

/* ---- Attributes ---- */
static dp_status *read_range(const dp_kernel_setup *setup, const char *name, int32_t *begin_out,
                             int32_t *count_out) {
  int32_t end;
  DP_RETURN_IF_ERROR(dp_node_input_range(setup->node, name, begin_out, &end));
  *count_out = end - *begin_out;
  return NULL;
}

static dp_status *read_ranges(const dp_kernel_setup *setup, ragged_cross_state *state) {
  int32_t splits, values, shapes;
  DP_RETURN_IF_ERROR(
      read_range(setup, "ragged_values", &state->ragged_values, &state->ragged_count));
  DP_RETURN_IF_ERROR(read_range(setup, "ragged_row_splits", &state->ragged_splits, &splits));
  DP_RETURN_IF_ERROR(
      read_range(setup, "sparse_indices", &state->sparse_indices, &state->sparse_count));
  DP_RETURN_IF_ERROR(read_range(setup, "sparse_values", &state->sparse_values, &values));
  DP_RETURN_IF_ERROR(read_range(setup, "sparse_shape", &state->sparse_shape, &shapes));
  DP_RETURN_IF_ERROR(read_range(setup, "dense_inputs", &state->dense, &state->dense_count));
  if (splits != state->ragged_count)
    return DP_INVALID("ragged values and splits must have the same length");
  if (values != state->sparse_count)
    return DP_INVALID("sparse indices and values must have the same length");
  return NULL;
}

static dp_status *cross_create(const dp_kernel_setup *setup, void *memory) {
  ragged_cross_state *state = memory;
  int64_t key;
  DP_RETURN_IF_ERROR(read_ranges(setup, state));
  DP_RETURN_IF_ERROR(dp_node_get_int(setup->node, "num_buckets", &state->buckets));
  DP_RETURN_IF_ERROR(dp_node_get_int(setup->node, "hash_key", &key));
  state->key = (uint64_t)key;
  DP_RETURN_IF_ERROR(dp_node_get_string(setup->node, "input_order", &state->order));
  if (state->order.length !=
      (size_t)state->ragged_count + (size_t)state->sparse_count + (size_t)state->dense_count)
    return DP_INVALID("Invalid length for input_order");
  return NULL;
}

/* ---- Opening ---- */
static dp_status *wrong_rank(void) {
  return DP_INVALID("tf.ragged.cross only supports inputs with rank=2.");
}

static dp_status *open_ragged(const dp_op_context *context, const ragged_cross_state *state,
                              int32_t i, dp_cross_column *to, int64_t *batch_out) {
  const dp_tensor *values = dp_op_input(context, state->ragged_values + i);
  const dp_tensor *splits = dp_op_input(context, state->ragged_splits + i);
  if (values->shape.rank != 1 || splits->shape.rank != 1)
    return wrong_rank();
  DP_RETURN_IF_ERROR(dp_ragged_check_splits(splits, values->shape.elements));
  *to = (dp_cross_column){.values = values, .splits = splits};
  *batch_out = splits->shape.elements - 1;
  return NULL;
}

static dp_status *open_sparse(const dp_op_context *context, const ragged_cross_state *state,
                              int32_t i, dp_cross_column *to, int64_t *batch_out) {
  const dp_tensor *indices = dp_op_input(context, state->sparse_indices + i);
  const dp_tensor *values = dp_op_input(context, state->sparse_values + i);
  const dp_tensor *shape = dp_op_input(context, state->sparse_shape + i);
  if (indices->shape.rank != 2 || values->shape.rank != 1 || shape->shape.rank != 1)
    return DP_INVALID("Invalid SparseTensor %d", i);
  if (shape->shape.elements != 2)
    return wrong_rank();
  if (indices->shape.dims[0] != values->shape.elements ||
      (values->shape.elements && indices->shape.dims[1] < 1))
    return DP_INVALID("Invalid SparseTensor %d", i);
  *to = (dp_cross_column){.values = values,
                          .rows = indices->data,
                          .row_count = indices->shape.dims[0],
                          .row_stride = indices->shape.dims[1]};
  *batch_out = dp_tensor_int_at(shape, 0);
  return NULL;
}

static dp_status *open_dense(const dp_op_context *context, const ragged_cross_state *state,
                             int32_t i, dp_cross_column *to, int64_t *batch_out) {
  const dp_tensor *values = dp_op_input(context, state->dense + i);
  if (values->shape.rank != 2)
    return wrong_rank();
  *to = (dp_cross_column){.values = values, .count = values->shape.dims[1]};
  *batch_out = values->shape.dims[0];
  return NULL;
}

static dp_status *too_many(const ragged_cross_state *state, const char *kind, int32_t index,
                           int32_t count) {
  bool is_sparse = strcmp(kind, "sparse") == 0;
  return DP_INVALID("input_order \"%.*s\" specifies reading a %s tensor%s at index %d from a list "
                    "of %d %s.",
                    (int)state->order.length, state->order.data, kind, is_sparse ? " value" : "",
                    index, count, is_sparse ? "values" : "tensors");
}

static dp_status *open_column(const dp_op_context *context, const ragged_cross_state *state,
                              char kind, int32_t next[3], dp_cross_column *to, int64_t *batch_out) {
  switch (kind) {
  case 'R':
    if (next[0] >= state->ragged_count)
      return too_many(state, "ragged", next[0], state->ragged_count);
    return open_ragged(context, state, next[0]++, to, batch_out);
  case 'S':
    if (next[1] >= state->sparse_count)
      return too_many(state, "sparse", next[1], state->sparse_count);
    return open_sparse(context, state, next[1]++, to, batch_out);
  case 'D':
    if (next[2] >= state->dense_count)
      return too_many(state, "dense", next[2], state->dense_count);
    return open_dense(context, state, next[2]++, to, batch_out);
  default:
    return DP_INVALID("Unexpected input_order value.");
  }
}

static dp_status *open_columns(const dp_op_context *context, const ragged_cross_state *state,
                               dp_cross *plan) {
  int32_t next[3] = {0};
  for (int32_t i = 0; i < plan->column_count; ++i) {
    int64_t batch;
    DP_RETURN_IF_ERROR(
        open_column(context, state, state->order.data[i], next, &plan->columns[i], &batch));
    plan->batch = i ? plan->batch : batch;
    if (batch != plan->batch || batch < 0)
      return DP_INVALID("inputs must all have the same batch dimension size.");
  }
  return NULL;
}

/* ---- Walking ---- */
/* Rows are visited in order: a sparse column goes on where the row before ended. */
static void move_column(dp_cross_column *column, int64_t row) {
  if (column->splits) {
    column->start = dp_tensor_int_at(column->splits, row);
    column->count = dp_tensor_int_at(column->splits, row + 1) - column->start;
    return;
  }
  if (!column->rows) {
    column->start = row * column->count;
    return;
  }
  column->start += column->count;
  column->count = 0;
  while (column->start + column->count < column->row_count &&
         column->rows[(column->start + column->count) * column->row_stride] <= row)
    ++column->count;
}

/* Moves all columns; false when the combinations are more than a number can say. */
static bool move_to(dp_cross *plan, int64_t row, int64_t *combinations_out) {
  for (int32_t i = 0; i < plan->column_count; ++i)
    move_column(&plan->columns[i], row);
  return dp_cross_count(plan, combinations_out);
}

/* ---- Values ---- */
static int64_t hash_combination(const ragged_cross_state *state, const dp_cross *plan) {
  uint64_t hash = state->key;
  for (int32_t i = 0; i < plan->column_count; ++i) {
    const dp_cross_column *column = &plan->columns[i];
    int64_t at = column->start + column->chosen;
    uint64_t feature;
    if (column->values->dtype == DP_STRING) {
      dp_view text = dp_string_at(column->values, at);
      feature = dp_fingerprint64(text.data, text.length);
    } else {
      feature = (uint64_t)dp_tensor_int_at(column->values, at);
    }
    hash = dp_fingerprint_concat(hash, feature);
  }
  return (int64_t)(hash % (uint64_t)(state->buckets > 0 ? state->buckets : INT64_MAX));
}

static dp_status *write_row(const ragged_cross_state *state, dp_cross *plan, dp_tensor *values,
                            int64_t begin, int64_t count, dp_text *scratch) {
  for (int64_t at = begin; at < begin + count; ++at, dp_cross_next(plan))
    if (values->dtype == DP_INT64)
      ((int64_t *)values->data)[at] = hash_combination(state, plan);
    else
      DP_RETURN_IF_ERROR(
          dp_cross_join(plan, dp_view_of("_X_"), scratch, dp_tensor_strings(values) + at));
  return NULL;
}

static dp_status *write_values(const ragged_cross_state *state, dp_cross *plan, dp_tensor *values) {
  dp_text scratch = {0};
  dp_status *status = NULL;
  int64_t at = 0, count;
  dp_cross_rewind(plan);
  for (int64_t row = 0; row < plan->batch && !status; ++row) {
    if (!move_to(plan, row, &count))
      continue; /* it was possible when they were counted */
    status = write_row(state, plan, values, at, count, &scratch);
    at += count;
  }
  dp_text_deinit(&scratch);
  return status;
}

static dp_status *write_splits(dp_cross *plan, dp_tensor *splits, int64_t *total_out) {
  int64_t total = 0, count, most = splits->dtype == DP_INT32 ? INT32_MAX : INT64_MAX;
  dp_cross_rewind(plan);
  for (int64_t row = 0; row <= plan->batch; ++row) {
    dp_tensor_set_int(splits, row, total);
    if (row == plan->batch)
      break;
    if (!move_to(plan, row, &count) || __builtin_add_overflow(total, count, &total) || total > most)
      return DP_INVALID("The cross has more than %lld combinations", (long long)most);
  }
  *total_out = total;
  return NULL;
}

static dp_status *cross(dp_op_context *context, const ragged_cross_state *state, dp_cross *plan) {
  DP_RETURN_IF_ERROR(open_columns(context, state, plan));
  int64_t total, size;
  if (__builtin_add_overflow(plan->batch, 1, &size))
    return dp_status_out_of_memory();
  dp_shape shape = dp_shape_vector(size);
  dp_tensor *values, *splits;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 1, &shape, &splits));
  DP_RETURN_IF_ERROR(write_splits(plan, splits, &total));
  shape = dp_shape_vector(total);
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &shape, &values));
  return write_values(state, plan, values);
}

static dp_status *cross_compute(dp_op_context *context, void *memory) {
  const ragged_cross_state *state = memory;
  dp_cross plan = {.column_count = (int32_t)state->order.length};
  plan.columns = DP_NEW_ARRAY(dp_cross_column, state->order.length + 1);
  dp_status *status = cross(context, state, &plan);
  dp_free(plan.columns);
  return status;
}

static const dp_kernel rows[] = {
    {.op = "RaggedCross",
     .types = {{"out_row_splits_type", DP_SET_INDEX}},
     .state_size = sizeof(ragged_cross_state),
     .create = cross_create,
     .compute = cross_compute},
};
DP_KERNEL_FAMILY(ragged_cross, rows);
