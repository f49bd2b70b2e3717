/* SparseCross, SparseCrossV2, SparseCrossHashed: for each example of a batch all combinations of
 * one feature of every column, as joined text or as a hash. Columns are sparse matrices, then dense
 * ones. Rows of sparse columns are in order, so each column has a cursor and one pass visits the
 * examples; only those that the first sparse column has an entry for. */
#include "kernels/families_internal.h"

#include <string.h>
#include "base/checksum.h"
#include "base/memory.h"
#include "kernels/sparse_internal.h"
#include "kernels/string_internal.h"

typedef struct cross_state {
  int32_t sparse_count;
  int32_t dense_begin, dense_end;
  bool is_first_version;
  bool is_hashed; /* of the first version */
  int64_t buckets;
  uint64_t key;
} cross_state;

static dp_status *cross_create(const dp_kernel_setup *setup, void *memory) {
  cross_state *state = memory;
  int64_t count, key;
  DP_RETURN_IF_ERROR(dp_node_get_int(setup->node, "N", &count));
  state->sparse_count = (int32_t)count;
  DP_RETURN_IF_ERROR(
      dp_node_input_range(setup->node, "dense_inputs", &state->dense_begin, &state->dense_end));
  state->is_hashed = dp_node_is(setup->node, "SparseCrossHashed");
  state->is_first_version = dp_node_is(setup->node, "SparseCross");
  if (!state->is_first_version)
    return NULL;
  dp_dtype out;
  DP_RETURN_IF_ERROR(dp_node_get_type(setup->node, "out_type", &out));
  state->is_hashed = out == DP_INT64;
  DP_RETURN_IF_ERROR(dp_node_get_int(setup->node, "num_buckets", &state->buckets));
  DP_RETURN_IF_ERROR(dp_node_get_int(setup->node, "hash_key", &key));
  state->key = (uint64_t)key;
  return NULL;
}

/* A column, and the features of the current example: [start, start + count) of its values. */
typedef struct column {
  const dp_tensor *values;
  const int64_t *rows; /* of a sparse column: pairs of coordinates; else NULL */
  int64_t row_count;
  int64_t start, count;
  int64_t chosen; /* which feature the current combination takes */
} column;

/* How values are made; of the hashed forms and of the text form. */
typedef struct cross_plan {
  const cross_state *state;
  column *columns;
  int32_t column_count;
  int64_t batch;
  dp_view separator;
  int64_t buckets;
  bool is_strong;
  uint64_t salt[2];
} cross_plan;

/* ---- Opening ---- */
static dp_status *open_sparse(dp_op_context *context, const cross_state *state, int32_t i,
                              cross_plan *plan) {
  const dp_tensor *indices = dp_op_input(context, i);
  const dp_tensor *values = dp_op_input(context, state->sparse_count + i);
  const dp_tensor *shape = dp_op_input(context, 2 * state->sparse_count + i);
  if (indices->shape.rank != 2)
    return DP_INVALID("Input indices should be a matrix but received shape %s at position %d",
                      dp_shape_text(&indices->shape), i);
  if (indices->shape.dims[1] != 2)
    return DP_INVALID("Expected D2 of index to be 2 got %lld at position %d",
                      (long long)indices->shape.dims[1], i);
  if (values->shape.rank != 1)
    return DP_INVALID("Input values should be a vector but received shape %s at position %d",
                      dp_shape_text(&values->shape), i);
  if (indices->shape.dims[0] != values->shape.dims[0])
    return DP_INVALID("Expected size of values to be %lld got %lld at position %d",
                      (long long)indices->shape.dims[0], (long long)values->shape.dims[0], i);
  if (shape->shape.rank != 1)
    return DP_INVALID("Input shapes should be a vector but received shape %s at position %d",
                      dp_shape_text(&shape->shape), i);
  if (shape->shape.dims[0] != 2)
    return DP_INVALID("shape should imply a 2D tensor, but got %s at position %d",
                      dp_shape_text(&shape->shape), i);
  int64_t batch = dp_tensor_int_at(shape, 0);
  plan->batch = i ? plan->batch : batch;
  if (batch != plan->batch)
    return DP_INVALID("Expected batch size %lld got %lld at position %d", (long long)plan->batch,
                      (long long)batch, i);
  const int64_t *rows = indices->data;
  for (int64_t row = 0, last = 0; row < values->shape.dims[0]; last = rows[2 * row++]) {
    if (rows[2 * row] < last || rows[2 * row] >= batch)
      return DP_INVALID("indices[%lld,0] = %lld of position %d is not in order or not in [0, %lld)",
                        (long long)row, (long long)rows[2 * row], i, (long long)batch);
  }
  plan->columns[i] = (column){.values = values, .rows = rows, .row_count = values->shape.dims[0]};
  return NULL;
}

static dp_status *open_dense(dp_op_context *context, const cross_state *state, int32_t i,
                             cross_plan *plan) {
  const dp_tensor *dense = dp_op_input(context, state->dense_begin + i);
  if (dense->shape.rank != 2)
    return DP_INVALID("Dense inputs should be a matrix but received shape %s at position %d",
                      dp_shape_text(&dense->shape), i);
  if (!state->sparse_count && !i)
    plan->batch = dense->shape.dims[0];
  if (dense->shape.dims[0] != plan->batch)
    return DP_INVALID("Expected batch size %lld got %lld at dense tensor %d",
                      (long long)plan->batch, (long long)dense->shape.dims[0], i);
  plan->columns[state->sparse_count + i] = (column){.values = dense, .count = dense->shape.dims[1]};
  return NULL;
}

static dp_status *read_options(dp_op_context *context, const cross_state *state, cross_plan *plan) {
  static const char joint[] = "_X_";
  plan->separator = (dp_view){joint, sizeof joint - 1};
  plan->buckets = state->buckets;
  if (state->is_first_version)
    return NULL;
  const dp_tensor *first = dp_op_input(context, state->dense_end);
  if (first->shape.rank != 0)
    return DP_INVALID("Input %s should be a scalar but received shape %s",
                      state->is_hashed ? "num_buckets" : "separator", dp_shape_text(&first->shape));
  if (!state->is_hashed) {
    plan->separator = dp_string_at(first, 0);
    return NULL;
  }
  const dp_tensor *strong = dp_op_input(context, state->dense_end + 1);
  const dp_tensor *salt = dp_op_input(context, state->dense_end + 2);
  if (strong->shape.rank != 0)
    return DP_INVALID("Input strong_hash should be a scalar but received shape %s",
                      dp_shape_text(&strong->shape));
  if (salt->shape.elements != 2)
    return DP_INVALID("salt must have 2 elements, not %lld", (long long)salt->shape.elements);
  plan->buckets = dp_tensor_int_at(first, 0);
  plan->is_strong = *(const bool *)strong->data;
  memcpy(plan->salt, salt->data, sizeof plan->salt);
  return NULL;
}

static dp_status *open_columns(dp_op_context *context, const cross_state *state, cross_plan *plan) {
  for (int32_t i = 0; i < state->sparse_count; ++i)
    DP_RETURN_IF_ERROR(open_sparse(context, state, i, plan));
  for (int32_t i = 0; i < state->dense_end - state->dense_begin; ++i)
    DP_RETURN_IF_ERROR(open_dense(context, state, i, plan));
  return read_options(context, state, plan);
}

/* ---- Walking ---- */
static void rewind_columns(cross_plan *plan) {
  for (int32_t i = 0; i < plan->column_count; ++i) {
    plan->columns[i].start = 0;
    if (plan->columns[i].rows)
      plan->columns[i].count = 0;
  }
}

/* Moves all columns to the first example at or after `example` that may have combinations; returns
 * it, or the batch size. */
static int64_t seek(cross_plan *plan, int64_t example) {
  if (plan->state->sparse_count) {
    const column *first = plan->columns;
    int64_t next = first->start + first->count;
    example = next < first->row_count ? first->rows[2 * next] : plan->batch;
  }
  for (int32_t i = 0; i < plan->column_count && example < plan->batch; ++i) {
    column *column = plan->columns + i;
    if (!column->rows) {
      column->start = example * column->count;
      if (!column->count)
        example = plan->batch; /* no combinations anywhere */
      continue;
    }
    column->start += column->count;
    column->count = 0;
    while (column->start < column->row_count && column->rows[2 * column->start] < example)
      ++column->start;
    while (column->start + column->count < column->row_count &&
           column->rows[2 * (column->start + column->count)] == example)
      ++column->count;
  }
  return example;
}

/* Combinations of the current example; false when there are more than a number can say. */
static bool count_combinations(const cross_plan *plan, int64_t *count_out) {
  int64_t count = plan->column_count ? 1 : 0;
  for (int32_t i = 0; i < plan->column_count; ++i) {
    if (!plan->columns[i].count) {
      *count_out = 0;
      return true;
    }
    if (__builtin_mul_overflow(count, plan->columns[i].count, &count))
      return false;
  }
  *count_out = count;
  return true;
}

/* ---- Values ---- */
/* Numbers are their own hash, except in sparse columns of the later version: TensorFlow hashes the
 * low four bytes there, and the results are part of users' models. */
static uint64_t hash_feature(const cross_plan *plan, const column *column) {
  int64_t at = column->start + column->chosen;
  dp_view bytes;
  if (column->values->dtype == DP_STRING) {
    bytes = dp_string_at(column->values, at);
  } else {
    const int64_t *number = (const int64_t *)column->values->data + at;
    if (plan->state->is_first_version || !column->rows)
      return (uint64_t)*number;
    bytes = (dp_view){(const char *)number, 4};
  }
  return plan->is_strong ? dp_string_strong_hash(plan->salt, bytes)
                         : dp_fingerprint64(bytes.data, bytes.length);
}

static int64_t hash_combination(const cross_plan *plan) {
  bool is_first = plan->state->is_first_version;
  uint64_t hash = is_first ? plan->state->key : hash_feature(plan, plan->columns);
  for (int32_t i = is_first ? 0 : 1; i < plan->column_count; ++i)
    hash = dp_fingerprint_concat(hash, hash_feature(plan, plan->columns + i));
  return (int64_t)(hash % (plan->buckets > 0 ? (uint64_t)plan->buckets : (uint64_t)INT64_MAX));
}

static void join_combination(const cross_plan *plan, dp_text *text) {
  dp_text_clear(text);
  for (int32_t i = 0; i < plan->column_count; ++i) {
    const column *column = plan->columns + i;
    int64_t at = column->start + column->chosen;
    if (i)
      dp_text_append(text, plan->separator.data, plan->separator.length);
    if (column->values->dtype == DP_STRING) {
      dp_view feature = dp_string_at(column->values, at);
      dp_text_append(text, feature.data, feature.length);
    } else {
      dp_text_printf(text, "%lld", (long long)dp_tensor_int_at(column->values, at));
    }
  }
}

/* The last column's feature changes fastest; false after the last combination. */
static bool next_combination(cross_plan *plan) {
  for (int32_t i = plan->column_count - 1; i >= 0; --i) {
    if (++plan->columns[i].chosen < plan->columns[i].count)
      return true;
    plan->columns[i].chosen = 0;
  }
  return false;
}

static dp_status *fill(cross_plan *plan, int64_t *indices, dp_tensor *values) {
  dp_text text = {0};
  dp_status *status = NULL;
  int64_t at = 0, count;
  rewind_columns(plan);
  for (int64_t example = seek(plan, 0); example < plan->batch && !status;
       example = seek(plan, example + 1)) {
    if (!count_combinations(plan, &count) || !count)
      continue;
    for (int64_t i = 0; i < count && !status; ++i, ++at, next_combination(plan)) {
      indices[2 * at] = example;
      indices[2 * at + 1] = i;
      if (plan->state->is_hashed) {
        ((int64_t *)values->data)[at] = hash_combination(plan);
      } else {
        join_combination(plan, &text);
        status =
            dp_tstring_assign(dp_tensor_strings(values) + at, dp_text_string(&text), text.length);
      }
    }
  }
  dp_text_deinit(&text);
  return status;
}

static dp_status *cross(dp_op_context *context, cross_plan *plan) {
  DP_RETURN_IF_ERROR(open_columns(context, plan->state, plan));
  int64_t total = 0, largest = 0, count, *indices;
  rewind_columns(plan);
  for (int64_t example = seek(plan, 0); example < plan->batch; example = seek(plan, example + 1)) {
    if (!count_combinations(plan, &count) || __builtin_add_overflow(total, count, &total))
      return DP_INVALID("The cross has more combinations than 2^63 - 1");
    largest = count > largest ? count : largest;
  }
  dp_shape shape = dp_shape_vector(total);
  dp_tensor *values;
  DP_RETURN_IF_ERROR(dp_sparse_allocate_indices(context, 0, total, 2, &indices));
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 1, &shape, &values));
  DP_RETURN_IF_ERROR(dp_sparse_output_dims(context, 2, (int64_t[]){plan->batch, largest}, 2));
  return fill(plan, indices, values);
}

static dp_status *cross_compute(dp_op_context *context, void *memory) {
  const cross_state *state = memory;
  cross_plan plan = {.state = state,
                     .column_count = state->sparse_count + state->dense_end - state->dense_begin};
  plan.columns = DP_NEW_ARRAY(column, (size_t)plan.column_count + 1);
  dp_status *status = cross(context, &plan);
  dp_free(plan.columns);
  return status;
}

#define CROSS(name)                                                                                \
  {                                                                                                \
    .op = name, .state_size = sizeof(cross_state), .create = cross_create,                         \
    .compute = cross_compute                                                                       \
  }
static const dp_kernel rows[] = {
    CROSS("SparseCross"),
    CROSS("SparseCrossV2"),
    CROSS("SparseCrossHashed"),
};
DP_KERNEL_FAMILY(sparse_cross, rows);
