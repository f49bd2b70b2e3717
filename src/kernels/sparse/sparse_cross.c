/* SparseCross, SparseCrossV2 and SparseCrossHashed: per example of a batch, all combinations of one
 * feature of every column, as joined text or as a hash. Columns are sparse matrices, then dense
 * ones. Rows of sparse columns are sorted, so each column has a cursor and one pass visits the
 * examples. Only examples that the first sparse column has an entry for are visited. */
#include "kernels/shared/family.h"

#include <string.h>
#include "base/checksum.h"
#include "base/memory.h"
#include "kernels/shared/sparse.h"
#include "kernels/sparse/cross_internal.h"
#include "kernels/text/string.h"

typedef struct cross_state {
  int32_t sparse_count;
  int32_t dense_begin, dense_end;
  bool is_first_version;
  bool is_hashed; /* the first version, hashed */
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

/* How values are made; of the hashed forms and of the text form. */
typedef struct cross_plan {
  dp_cross cross;
  const cross_state *state;
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
  plan->cross.batch = i ? plan->cross.batch : batch;
  if (batch != plan->cross.batch)
    return DP_INVALID("Expected batch size %lld got %lld at position %d",
                      (long long)plan->cross.batch, (long long)batch, i);
  const int64_t *rows = indices->data;
  for (int64_t row = 0, last = 0; row < values->shape.dims[0]; last = rows[2 * row++]) {
    if (rows[2 * row] < last || rows[2 * row] >= batch)
      return DP_INVALID("indices[%lld,0] = %lld of position %d is not in order or not in [0, %lld)",
                        (long long)row, (long long)rows[2 * row], i, (long long)batch);
  }
  plan->cross.columns[i] = (dp_cross_column){
      .values = values, .rows = rows, .row_count = values->shape.dims[0], .row_stride = 2};
  return NULL;
}

static dp_status *open_dense(dp_op_context *context, const cross_state *state, int32_t i,
                             cross_plan *plan) {
  const dp_tensor *dense = dp_op_input(context, state->dense_begin + i);
  if (dense->shape.rank != 2)
    return DP_INVALID("Dense inputs should be a matrix but received shape %s at position %d",
                      dp_shape_text(&dense->shape), i);
  if (!state->sparse_count && !i)
    plan->cross.batch = dense->shape.dims[0];
  if (dense->shape.dims[0] != plan->cross.batch)
    return DP_INVALID("Expected batch size %lld got %lld at dense tensor %d",
                      (long long)plan->cross.batch, (long long)dense->shape.dims[0], i);
  plan->cross.columns[state->sparse_count + i] =
      (dp_cross_column){.values = dense, .count = dense->shape.dims[1]};
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
/* Moves all columns to the first example at or after `example` that may have combinations; returns
 * it, or the batch size. */
static int64_t seek(const cross_plan *plan, int64_t example) {
  const dp_cross *cross = &plan->cross;
  if (plan->state->sparse_count) {
    const dp_cross_column *first = cross->columns;
    int64_t next = first->start + first->count;
    example = next < first->row_count ? first->rows[2 * next] : cross->batch;
  }
  for (int32_t i = 0; i < cross->column_count && example < cross->batch; ++i) {
    dp_cross_column *column = cross->columns + i;
    if (!column->rows) {
      column->start = example * column->count;
      if (!column->count)
        example = cross->batch; /* no combinations anywhere */
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

/* ---- Values ---- */
/* Numbers are their own hash, except in sparse columns of the later version: TensorFlow hashes the
 * low four bytes there, and the results are part of users' models. */
static uint64_t hash_feature(const cross_plan *plan, const dp_cross_column *column) {
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
  uint64_t hash = is_first ? plan->state->key : hash_feature(plan, plan->cross.columns);
  for (int32_t i = is_first ? 0 : 1; i < plan->cross.column_count; ++i)
    hash = dp_fingerprint_concat(hash, hash_feature(plan, plan->cross.columns + i));
  return (int64_t)(hash % (plan->buckets > 0 ? (uint64_t)plan->buckets : (uint64_t)INT64_MAX));
}

static dp_status *fill(cross_plan *plan, int64_t *indices, dp_tensor *values) {
  dp_cross *cross = &plan->cross;
  dp_text scratch = {0};
  dp_status *status = NULL;
  int64_t at = 0, count;
  dp_cross_rewind(cross);
  for (int64_t example = seek(plan, 0); example < cross->batch && !status;
       example = seek(plan, example + 1)) {
    if (!dp_cross_count(cross, &count))
      continue; /* it was possible when they were counted */
    for (int64_t i = 0; i < count && !status; ++i, ++at, dp_cross_next(cross)) {
      indices[2 * at] = example;
      indices[2 * at + 1] = i;
      if (plan->state->is_hashed)
        ((int64_t *)values->data)[at] = hash_combination(plan);
      else
        status = dp_cross_join(cross, plan->separator, &scratch, dp_tensor_strings(values) + at);
    }
  }
  dp_text_deinit(&scratch);
  return status;
}

static dp_status *cross_all(dp_op_context *context, cross_plan *plan) {
  DP_RETURN_IF_ERROR(open_columns(context, plan->state, plan));
  int64_t total = 0, largest = 0, count, *indices;
  dp_cross_rewind(&plan->cross);
  for (int64_t example = seek(plan, 0); example < plan->cross.batch;
       example = seek(plan, example + 1)) {
    if (!dp_cross_count(&plan->cross, &count) || __builtin_add_overflow(total, count, &total))
      return DP_INVALID("The cross has more combinations than 2^63 - 1");
    largest = count > largest ? count : largest;
  }
  dp_shape shape = dp_shape_vector(total);
  dp_tensor *values;
  DP_RETURN_IF_ERROR(dp_sparse_allocate_indices(context, 0, total, 2, &indices));
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 1, &shape, &values));
  DP_RETURN_IF_ERROR(dp_sparse_output_dims(context, 2, (int64_t[]){plan->cross.batch, largest}, 2));
  return fill(plan, indices, values);
}

static dp_status *cross_compute(dp_op_context *context, void *memory) {
  const cross_state *state = memory;
  cross_plan plan = {.state = state};
  dp_cross *cross = &plan.cross;
  cross->column_count = state->sparse_count + state->dense_end - state->dense_begin;
  cross->columns = DP_NEW_ARRAY(dp_cross_column, (size_t)cross->column_count + 1);
  dp_status *status = cross_all(context, &plan);
  dp_free(cross->columns);
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
