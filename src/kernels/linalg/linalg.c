/* What the LAPACK kernels share: finding routines, batches of matrices over the pool, checks of
 * shapes, and single elements of any dtype. The contracts are in linalg_internal.h. */
#include "kernels/linalg/linalg_internal.h"

#include <complex.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include "kernels/products/blas.h"

dp_status *dp_linalg_init(dp_linalg_state *state, const dp_kernel_setup *setup,
                          const char *const *routines, int count) {
  DP_RETURN_IF_ERROR(dp_node_get_type(setup->node, "T", &state->dtype));
  if (state->dtype == DP_HALF)
    state->dtype = DP_FLOAT;
  bool is_complex = dp_dtype_is_complex(state->dtype);
  char letter = state->dtype == DP_FLOAT       ? 's'
                : state->dtype == DP_DOUBLE    ? 'd'
                : state->dtype == DP_COMPLEX64 ? 'c'
                                               : 'z';
  for (int i = 0; i < count; ++i) {
    const char *name = routines[i];
    char symbol[32];
    const char *replaced = !is_complex                   ? NULL
                           : strncmp(name, "or", 2) == 0 ? "un"
                           : strncmp(name, "sy", 2) == 0 ? "he"
                                                         : NULL;
    snprintf(symbol, sizeof symbol, "%c%s%s_", letter, replaced ? replaced : "",
             replaced ? name + 2 : name);
    void *found = dp_blas_find(symbol);
    if (!found)
      return dp_status_create(
          DP_UNIMPLEMENTED,
          "%s needs a threaded OpenBLAS with LAPACK (%s), which this machine lacks",
          setup->node->op->name, symbol);
    memcpy(&state->routines[i], &found, sizeof found);
  }
  return NULL;
}

/* ---- Batches ---- */
typedef struct batch_work {
  const dp_linalg_batch *batch;
  _Atomic(dp_status *) status;
} batch_work;

static void run_matrices(void *arg, int64_t begin, int64_t end) {
  batch_work *work = arg;
  const dp_linalg_batch *batch = work->batch;
  for (int64_t i = begin; i < end && !atomic_load(&work->status); ++i) {
    const void *inputs[4] = {NULL};
    void *outputs[3] = {NULL};
    for (int k = 0; k < batch->input_count; ++k)
      inputs[k] = (const char *)batch->inputs[k] + (size_t)i * batch->input_bytes[k];
    for (int k = 0; k < batch->output_count; ++k)
      outputs[k] = (char *)batch->outputs[k] + (size_t)i * batch->output_bytes[k];
    dp_status *status = batch->run(batch, inputs, outputs), *none = NULL;
    if (status && !atomic_compare_exchange_strong(&work->status, &none, status))
      dp_status_release(status);
  }
}

static size_t matrix_bytes(const dp_linalg_batch *batch, const dp_tensor *tensor) {
  return batch->count ? dp_tensor_bytes(tensor) / (size_t)batch->count : 0;
}

void dp_linalg_add_input(dp_linalg_batch *batch, const dp_tensor *tensor) {
  batch->inputs[batch->input_count] = tensor->data;
  batch->input_bytes[batch->input_count++] = matrix_bytes(batch, tensor);
}

void dp_linalg_add_output(dp_linalg_batch *batch, dp_tensor *tensor) {
  batch->outputs[batch->output_count] = tensor->data;
  batch->output_bytes[batch->output_count++] = matrix_bytes(batch, tensor);
}

dp_status *dp_linalg_run(dp_op_context *context, dp_linalg_batch *batch) {
  if (batch->m > INT_MAX || batch->n > INT_MAX || batch->k > INT_MAX)
    return DP_INVALID("Matrices of %lld x %lld elements are too large", (long long)batch->m,
                      (long long)batch->n);
  batch_work work = {.batch = batch};
  atomic_init(&work.status, NULL);
  dp_op_for(context, batch->count, batch->cost, run_matrices, &work);
  return atomic_load(&work.status);
}

/* ---- Shapes ---- */
dp_status *dp_linalg_expect_matrices(const dp_tensor *tensor, int32_t slot) {
  if (tensor->shape.rank < 2)
    return DP_INVALID("Input tensor %d must have rank >= 2, got %d", slot, tensor->shape.rank);
  return NULL;
}

dp_status *dp_linalg_expect_square(const dp_tensor *tensor, int32_t slot) {
  DP_RETURN_IF_ERROR(dp_linalg_expect_matrices(tensor, slot));
  if (dp_linalg_rows(&tensor->shape) != dp_linalg_columns(&tensor->shape))
    return DP_INVALID("Input matrix must be square.");
  return NULL;
}

dp_status *dp_linalg_expect_pair(const dp_op_context *context, bool square) {
  const dp_tensor *a = dp_op_input(context, 0), *b = dp_op_input(context, 1);
  DP_RETURN_IF_ERROR(dp_linalg_expect_matrices(a, 0));
  if (a->shape.rank != b->shape.rank)
    return DP_INVALID("All input tensors must have the same rank.");
  for (int i = 0; i < a->shape.rank - 2; ++i)
    if (a->shape.dims[i] != b->shape.dims[i])
      return DP_INVALID("All input tensors must have the same outer dimensions.");
  if (square && dp_linalg_rows(&a->shape) != dp_linalg_columns(&a->shape))
    return DP_INVALID("First input (lhs) must be a square matrix.");
  if (dp_linalg_rows(&a->shape) != dp_linalg_rows(&b->shape))
    return DP_INVALID("Input matrix and rhs are incompatible.");
  return NULL;
}

dp_shape dp_linalg_shape(const dp_shape *shape, int count, int64_t first, int64_t second) {
  int64_t dims[DP_MAX_RANK];
  int batch = shape->rank - 2;
  memcpy(dims, shape->dims, sizeof dims);
  dims[batch] = first;
  dims[batch + 1] = second;
  return dp_shape_of(batch + count, dims);
}

int64_t dp_linalg_batches(const dp_shape *shape) {
  return dp_shape_product(shape, 0, shape->rank - 2);
}

/* ---- Elements ---- */
#define TRANSPOSE(type, expression)                                                                \
  {                                                                                                \
    const type *source = from;                                                                     \
    type *target = to;                                                                             \
    for (int64_t i = 0; i < rows; ++i)                                                             \
      for (int64_t j = 0; j < columns; ++j) {                                                      \
        type x = source[i * columns + j];                                                          \
        target[j * rows + i] = expression;                                                         \
      }                                                                                            \
    return;                                                                                        \
  }

void dp_linalg_transpose(dp_dtype dtype, const void *from, int64_t rows, int64_t columns,
                         bool conjugates, void *to) {
  switch (dtype) {
  case DP_FLOAT:
    TRANSPOSE(float, x)
  case DP_DOUBLE:
    TRANSPOSE(double, x)
  case DP_COMPLEX64:
    TRANSPOSE(float _Complex, conjugates ? conjf(x) : x)
  default:
    TRANSPOSE(double _Complex, conjugates ? conj(x) : x)
  }
}

void dp_linalg_set(dp_dtype dtype, void *values, int64_t index, double value) {
  switch (dtype) {
  case DP_FLOAT:
    ((float *)values)[index] = (float)value;
    return;
  case DP_DOUBLE:
    ((double *)values)[index] = value;
    return;
  case DP_COMPLEX64:
    ((float *)values)[2 * index] = (float)value;
    ((float *)values)[2 * index + 1] = 0;
    return;
  default:
    ((double *)values)[2 * index] = value;
    ((double *)values)[2 * index + 1] = 0;
    return;
  }
}

void dp_linalg_set_identity(dp_dtype dtype, void *matrix, int64_t n) {
  memset(matrix, 0, (size_t)(n * n) * dp_dtype_size(dtype));
  for (int64_t i = 0; i < n; ++i)
    dp_linalg_set(dtype, matrix, i * n + i, 1);
}

int64_t dp_linalg_operand(const dp_shape *operand, const dp_shape *result, int64_t index) {
  int64_t offset = 0, stride = 1;
  for (int i = 1; i <= operand->rank; ++i) {
    int64_t size = operand->dims[operand->rank - i], total = result->dims[result->rank - i];
    offset += size == 1 ? 0 : index % total * stride;
    index /= total;
    stride *= size;
  }
  return offset;
}
