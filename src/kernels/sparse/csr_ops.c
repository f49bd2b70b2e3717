/* Sparse matrices in compressed rows, made from coordinates and from dense matrices, and turned
 * back; their parts, counts and transposed matrices. Coordinates come from users: they are checked
 * before anything is counted, and expected in the order of batch, row and column. */
#include "kernels/shared/family.h"

#include <string.h>
#include "kernels/shared/sparse.h"
#include "kernels/sparse/csr_internal.h"

/* ---- From coordinates ---- */
/* Pointers and columns from rows of coordinates that are in bounds. */
static dp_status *compress(dp_csr *csr, const int64_t *indices, int64_t count) {
  int32_t *batches = dp_csr_batches(csr), *columns = csr->parts[DP_CSR_COLUMNS].data;
  int64_t last = 0;
  for (int64_t i = 0; i < count; ++i, indices += csr->rank) {
    int64_t index = csr->rank == 3 ? indices[0] : 0;
    if (index < last)
      return DP_INVALID("indices[%lld] is out of order: batch %lld comes after %lld", (long long)i,
                        (long long)index, (long long)last);
    last = index;
    ++batches[index + 1];
    ++dp_csr_rows(csr, index)[indices[csr->rank - 2] + 1];
    columns[i] = (int32_t)indices[csr->rank - 1];
  }
  for (int64_t i = 0; i < csr->batch; ++i) {
    batches[i + 1] += batches[i];
    int32_t *rows = dp_csr_rows(csr, i);
    for (int64_t row = 0; row < csr->rows; ++row)
      rows[row + 1] += rows[row];
  }
  return NULL;
}

/* Consumes `csr`. */
static dp_status *output_compressed(dp_op_context *context, dp_csr *csr, const int64_t *indices) {
  dp_status *status = compress(csr, indices, dp_csr_count(csr));
  if (!status)
    return dp_csr_output(context, csr);
  dp_csr_destroy(csr);
  return status;
}

static dp_status *from_sparse(dp_op_context *context, void *memory) {
  (void)memory;
  dp_sparse sparse;
  dp_shape dense;
  DP_RETURN_IF_ERROR(dp_sparse_open(context, 0, 1, 2, &dp_sparse_plain_words, &sparse));
  DP_RETURN_IF_ERROR(dp_sparse_dense_shape(&sparse, &dense));
  int64_t bad = dp_sparse_find_outside(&sparse);
  if (bad >= 0)
    return DP_INVALID("Sparse index tuple indices[%lld, :] = [%s] is out of bounds", (long long)bad,
                      dp_kernel_ints_text(dp_op_input(context, 0), bad * sparse.rank, sparse.rank));
  dp_csr *csr;
  DP_RETURN_IF_ERROR(
      dp_csr_create(sparse.values->dtype, sparse.rank, sparse.dims, sparse.count, &csr));
  if (csr->columns > INT32_MAX) {
    dp_csr_destroy(csr);
    return DP_INVALID("A CSRSparseMatrix has at most Int32Max columns, not %lld",
                      (long long)sparse.dims[sparse.rank - 1]);
  }
  memcpy(csr->parts[DP_CSR_VALUES].data, sparse.values->data, dp_tensor_bytes(sparse.values));
  return output_compressed(context, csr, sparse.indices);
}

/* ---- From a dense matrix ---- */
static dp_status *check_dense(const dp_tensor *dense, const dp_tensor *indices) {
  int32_t rank = dense->shape.rank;
  if (rank != 2 && rank != 3)
    return DP_INVALID("params must have rank == 2 or 3; but saw shape: %s",
                      dp_shape_text(&dense->shape));
  if (indices->shape.rank != 2)
    return DP_INVALID("indices must be a matrix, but saw shape: %s",
                      dp_shape_text(&indices->shape));
  if (indices->shape.dims[1] != rank)
    return DP_INVALID("indices.shape[1] must be equal to the rank of params, but saw: %lld vs. %d",
                      (long long)indices->shape.dims[1], rank);
  return NULL;
}

/* Picks the values at the coordinates, which may be out of bounds. */
static dp_status *pick(const dp_op_context *context, dp_tensor *values) {
  const dp_tensor *dense = dp_op_input(context, 0), *places = dp_op_input(context, 1);
  const int64_t *indices = places->data;
  int32_t rank = dense->shape.rank;
  size_t size = dp_dtype_size(dense->dtype);
  for (int64_t i = 0; i < values->shape.elements; ++i, indices += rank) {
    int64_t at = 0;
    for (int32_t j = 0; j < rank; ++j) {
      if (indices[j] < 0 || indices[j] >= dense->shape.dims[j])
        return DP_INVALID("indices[%lld] = [%s] does not index into param shape %s, node name: %s",
                          (long long)i, dp_kernel_ints_text(places, i * rank, rank),
                          dp_shape_text(&dense->shape), context->node->name);
      at = at * dense->shape.dims[j] + indices[j];
    }
    memcpy((char *)values->data + (size_t)i * size, (const char *)dense->data + (size_t)at * size,
           size);
  }
  return NULL;
}

static dp_status *from_dense(dp_op_context *context, void *memory) {
  (void)memory;
  const dp_tensor *dense = dp_op_input(context, 0), *indices = dp_op_input(context, 1);
  dp_csr *csr;
  DP_RETURN_IF_ERROR(check_dense(dense, indices));
  DP_RETURN_IF_ERROR(dp_csr_create(dense->dtype, dense->shape.rank, dense->shape.dims,
                                   indices->shape.dims[0], &csr));
  dp_status *status = pick(context, &csr->parts[DP_CSR_VALUES]);
  if (!status)
    return output_compressed(context, csr, indices->data);
  dp_csr_destroy(csr);
  return status;
}

/* ---- Back ---- */
static dp_status *to_dense(dp_op_context *context, void *memory) {
  (void)memory;
  const dp_csr *csr;
  dp_shape shape;
  DP_RETURN_IF_ERROR(dp_csr_input(context, 0, dp_op_output_type(context, 0), &csr));
  DP_RETURN_IF_ERROR(dp_shape_make(csr->rank, csr->parts[DP_CSR_SHAPE].data, &shape));
  dp_tensor *output = &context->outputs[0].tensor;
  DP_RETURN_IF_ERROR(dp_tensor_create_zero(dp_csr_dtype(csr), &shape, output));
  size_t size = dp_dtype_size(output->dtype);
  for (int64_t row = 0; row < csr->batch * csr->rows; ++row) {
    int64_t index = row / csr->rows;
    const int32_t *rows = dp_csr_rows(csr, index) + row % csr->rows;
    const int32_t *columns = dp_csr_columns(csr, index);
    const char *values = dp_csr_values(csr, index);
    char *to = (char *)output->data + (size_t)(row * csr->columns) * size;
    for (int32_t i = rows[0]; i < rows[1]; ++i)
      memcpy(to + (size_t)columns[i] * size, values + (size_t)i * size, size);
  }
  return NULL;
}

static dp_status *to_sparse(dp_op_context *context, void *memory) {
  (void)memory;
  const dp_csr *csr;
  int64_t *to;
  DP_RETURN_IF_ERROR(dp_csr_input(context, 0, dp_op_output_type(context, 1), &csr));
  DP_RETURN_IF_ERROR(dp_sparse_allocate_indices(context, 0, dp_csr_count(csr), csr->rank, &to));
  for (int64_t index = 0; index < csr->batch; ++index) {
    const int32_t *rows = dp_csr_rows(csr, index), *columns = dp_csr_columns(csr, index);
    for (int64_t row = 0; row < csr->rows; ++row) {
      for (int32_t i = rows[row]; i < rows[row + 1]; ++i, to += csr->rank) {
        to[0] = index;
        to[csr->rank - 2] = row;
        to[csr->rank - 1] = columns[i];
      }
    }
  }
  context->outputs[1].tensor = dp_tensor_copy(&csr->parts[DP_CSR_VALUES]);
  context->outputs[2].tensor = dp_tensor_copy(&csr->parts[DP_CSR_SHAPE]);
  return NULL;
}

/* ---- Parts ---- */
static dp_status *copy_part(dp_op_context *context, int32_t output, const void *from,
                            int64_t count) {
  dp_shape shape = dp_shape_vector(count);
  dp_tensor *to;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, output, &shape, &to));
  if (count)
    memcpy(to->data, from, dp_tensor_bytes(to));
  return NULL;
}

static dp_status *components(dp_op_context *context, void *memory) {
  (void)memory;
  const dp_csr *csr;
  const dp_tensor *which = dp_op_input(context, 1);
  DP_RETURN_IF_ERROR(dp_csr_input(context, 0, dp_op_output_type(context, 2), &csr));
  if (which->shape.rank != 0)
    return DP_INVALID("index should be a scalar, but saw: a tensor of shape %s",
                      dp_shape_text(&which->shape));
  int64_t index = dp_tensor_int_at(which, 0);
  if (index < 0 || index >= csr->batch)
    return DP_INVALID("index (%lld) not in [0, %lld)", (long long)index, (long long)csr->batch);
  int64_t count = dp_csr_batches(csr)[index + 1] - dp_csr_batches(csr)[index];
  DP_RETURN_IF_ERROR(copy_part(context, 0, dp_csr_rows(csr, index), csr->rows + 1));
  DP_RETURN_IF_ERROR(copy_part(context, 1, dp_csr_columns(csr, index), count));
  return copy_part(context, 2, dp_csr_values(csr, index), count);
}

static dp_status *count_entries(dp_op_context *context, void *memory) {
  (void)memory;
  const dp_csr *csr;
  dp_tensor *output;
  DP_RETURN_IF_ERROR(dp_csr_input(context, 0, DP_INVALID_DTYPE, &csr));
  dp_shape shape = csr->rank == 3 ? dp_shape_vector(csr->batch) : dp_shape_scalar();
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &shape, &output));
  for (int64_t i = 0; i < csr->batch; ++i)
    ((int32_t *)output->data)[i] = dp_csr_batches(csr)[i + 1] - dp_csr_batches(csr)[i];
  return NULL;
}

/* ---- Transposed ---- */
typedef struct transpose_state {
  bool conjugates;
  dp_dtype dtype;
} transpose_state;

static dp_status *transpose_create(const dp_kernel_setup *setup, void *memory) {
  transpose_state *state = memory;
  DP_RETURN_IF_ERROR(dp_node_get_type(setup->node, "type", &state->dtype));
  return dp_node_get_bool(setup->node, "conjugate", &state->conjugates);
}

static dp_status *transpose(dp_op_context *context, void *memory) {
  const transpose_state *state = memory;
  const dp_csr *csr;
  dp_csr *turned;
  DP_RETURN_IF_ERROR(dp_csr_input(context, 0, state->dtype, &csr));
  DP_RETURN_IF_ERROR(dp_csr_transpose(csr, state->conjugates, &turned));
  return dp_csr_output(context, turned);
}

#define NUMBERS (DP_SET(FLOAT) | DP_SET(DOUBLE) | DP_SET_COMPLEX)
static const dp_kernel rows[] = {
    {.op = "SparseTensorToCSRSparseMatrix", .types = {{"T", NUMBERS}}, .compute = from_sparse},
    {.op = "DenseToCSRSparseMatrix", .types = {{"T", NUMBERS}}, .compute = from_dense},
    {.op = "CSRSparseMatrixToDense", .types = {{"type", NUMBERS}}, .compute = to_dense},
    {.op = "CSRSparseMatrixToSparseTensor", .types = {{"type", NUMBERS}}, .compute = to_sparse},
    {.op = "CSRSparseMatrixComponents", .types = {{"type", NUMBERS}}, .compute = components},
    {.op = "SparseMatrixNNZ", .compute = count_entries},
    {.op = "SparseMatrixTranspose",
     .types = {{"type", NUMBERS}},
     .state_size = sizeof(transpose_state),
     .create = transpose_create,
     .compute = transpose},
};
DP_KERNEL_FAMILY(csr_ops, rows);
