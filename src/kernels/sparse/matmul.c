/* SparseTensorDenseMatMul: a sparse matrix in coordinates times a dense one, and SparseMatMul,
 * whose operands are dense but may hold many zeros. Entries are added in their order; the columns
 * of the result are split over the pool. */
#include "kernels/shared/family.h"

#include <string.h>
#include "kernels/loops/index.h"
#include "kernels/loops/types.h"
#include "kernels/products/gemm.h"
#include "kernels/shared/widen.h"

typedef struct sparse_state {
  dp_dtype dtype, work;
  bool adjoint_a, adjoint_b;
} sparse_state;

static dp_status *sparse_create(const dp_kernel_setup *setup, void *memory) {
  sparse_state *state = memory;
  DP_RETURN_IF_ERROR(dp_node_get_type(setup->node, "T", &state->dtype));
  state->work = dp_kernel_work_type(state->dtype);
  DP_RETURN_IF_ERROR(dp_node_get_bool(setup->node, "adjoint_a", &state->adjoint_a));
  return dp_node_get_bool(setup->node, "adjoint_b", &state->adjoint_b);
}

typedef struct sparse_work {
  const sparse_state *state;
  const dp_tensor *indices;
  const void *values, *b;
  void *to;
  int64_t entries, rows, columns, inner; /* of the result, and of the dimension that is summed */
  int64_t b_row, b_column;               /* strides of b */
} sparse_work;

/* Columns per task. With fewer, walking the entries would cost more than adding. */
#define STRIP 32

#define ADD(type, product)                                                                         \
  {                                                                                                \
    const type *values = work->values, *b = work->b;                                               \
    type *to = work->to;                                                                           \
    for (int64_t i = 0; i < work->entries; ++i) {                                                  \
      int64_t m = dp_tensor_int_at(work->indices, 2 * i + work->state->adjoint_a);                 \
      int64_t k = dp_tensor_int_at(work->indices, 2 * i + !work->state->adjoint_a);                \
      type value = values[i];                                                                      \
      for (int64_t j = begin; j < end; ++j) {                                                      \
        type other = b[k * work->b_row + j * work->b_column];                                      \
        to[m * work->columns + j] += product;                                                      \
      }                                                                                            \
    }                                                                                              \
    return;                                                                                        \
  }
#define CONJUGATE(kind, value, yes)                                                                \
  kind##_of(__real__(value), (yes) ? -__imag__(value) : __imag__(value))

/* The common case has loops of its own. */
static bool has_loops(const sparse_work *work) {
  return work->b_column == 1 && (work->state->work == DP_FLOAT || work->state->work == DP_DOUBLE);
}

static void multiply_rows(const sparse_work *work, int64_t begin, int64_t end) {
  const dp_index_loops *loops = dp_index_loops_of(work->indices->dtype == DP_INT32);
  dp_index_product product = {work->indices->data,   work->values,  work->b, work->to,
                              work->entries,         work->columns, begin,   end,
                              work->state->adjoint_a};
  if (work->state->work == DP_FLOAT)
    loops->multiply_float(&product);
  else
    loops->multiply_double(&product);
}

static void add_strips(void *arg, int64_t begin, int64_t end) {
  const sparse_work *work = arg;
  const sparse_state *state = work->state;
  begin *= STRIP;
  end = end * STRIP < work->columns ? end * STRIP : work->columns;
  if (has_loops(work)) {
    multiply_rows(work, begin, end);
    return;
  }
  switch (state->work) {
  case DP_FLOAT:
    ADD(float, value *other)
  case DP_DOUBLE:
    ADD(double, value *other)
  case DP_INT32:
    ADD(uint32_t, value * other)
  case DP_COMPLEX64:
    ADD(dp_complex64, dp_complex64_multiply(CONJUGATE(dp_complex64, value, state->adjoint_a),
                                            CONJUGATE(dp_complex64, other, state->adjoint_b)))
  default:
    ADD(dp_complex128, dp_complex128_multiply(CONJUGATE(dp_complex128, value, state->adjoint_a),
                                              CONJUGATE(dp_complex128, other, state->adjoint_b)))
  }
}

static dp_status *check_shapes(const dp_op_context *context) {
  const dp_tensor *indices = dp_op_input(context, 0), *values = dp_op_input(context, 1);
  const dp_tensor *shape = dp_op_input(context, 2), *b = dp_op_input(context, 3);
  if (b->shape.rank != 2)
    return DP_INVALID("Tensor 'b' is not a matrix");
  if (shape->shape.rank != 1)
    return DP_INVALID("Tensor 'a_shape' is not a vector");
  if (shape->shape.dims[0] != 2)
    return DP_INVALID("Tensor 'a_shape' must have 2 elements");
  if (values->shape.rank != 1)
    return DP_INVALID("Tensor 'a_values' is not a vector");
  if (indices->shape.rank != 2)
    return DP_INVALID("Tensor 'a_indices' is not a matrix");
  if (indices->shape.dims[0] != values->shape.dims[0])
    return DP_INVALID("Number of rows of a_indices does not match number of entries in a_values");
  if (indices->shape.dims[1] != 2)
    return DP_INVALID("Number of columns of a_indices does not match number of entries in "
                      "a_shape");
  return NULL;
}

static dp_status *check_indices(const sparse_work *work) {
  bool adjoint = work->state->adjoint_a;
  for (int64_t i = 0; i < work->entries; ++i) {
    int64_t m = dp_tensor_int_at(work->indices, 2 * i + adjoint);
    int64_t k = dp_tensor_int_at(work->indices, 2 * i + !adjoint);
    if (k < 0 || k >= work->inner)
      return DP_INVALID("k (%lld) from index[%lld,%d] out of bounds (>=%lld)", (long long)k,
                        (long long)i, !adjoint, (long long)work->inner);
    if (m < 0 || m >= work->rows)
      return DP_INVALID("m (%lld) from index[%lld,%d] out of bounds (>=%lld)", (long long)m,
                        (long long)i, adjoint, (long long)work->rows);
  }
  return NULL;
}

static dp_status *sparse_compute(dp_op_context *context, void *memory) {
  const sparse_state *state = memory;
  DP_RETURN_IF_ERROR(check_shapes(context));
  const dp_tensor *values = dp_op_input(context, 1), *a_shape = dp_op_input(context, 2);
  const dp_tensor *b = dp_op_input(context, 3);
  int64_t dims[] = {dp_tensor_int_at(a_shape, 0), dp_tensor_int_at(a_shape, 1)};
  sparse_work work = {.state = state,
                      .indices = dp_op_input(context, 0),
                      .entries = values->shape.dims[0],
                      .rows = dims[state->adjoint_a],
                      .inner = dims[!state->adjoint_a],
                      .columns = b->shape.dims[!state->adjoint_b],
                      .b_row = state->adjoint_b ? 1 : b->shape.dims[1],
                      .b_column = state->adjoint_b ? b->shape.dims[1] : 1};
  if (work.inner != b->shape.dims[state->adjoint_b])
    return DP_INVALID("Cannot multiply A and B because inner dimension does not match: %lld vs. "
                      "%lld.  Did you forget a transpose?  Dimensions of A: [%lld, %lld).  "
                      "Dimensions of B: %s",
                      (long long)work.inner, (long long)b->shape.dims[state->adjoint_b],
                      (long long)dims[0], (long long)dims[1], dp_shape_text(&b->shape));
  DP_RETURN_IF_ERROR(check_indices(&work));
  dp_shape shape;
  dp_tensor *output;
  DP_RETURN_IF_ERROR(dp_shape_make(2, (int64_t[]){work.rows, work.columns}, &shape));
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &shape, &output));
  size_t bytes = (size_t)shape.elements * dp_dtype_size(state->work);
  dp_buffer *values_buffer = NULL, *b_buffer = NULL, *result = NULL;
  dp_status *status;
  DP_GOTO_IF_ERROR(
      status, done,
      dp_kernel_widen_tensor(context, values, state->work, &work.values, &values_buffer));
  DP_GOTO_IF_ERROR(status, done,
                   dp_kernel_widen_tensor(context, b, state->work, &work.b, &b_buffer));
  work.to = output->data;
  if (state->dtype != state->work) {
    DP_GOTO_IF_ERROR(status, done, dp_buffer_create(bytes, &result));
    work.to = result->data;
  }
  memset(work.to, 0, bytes);
  dp_op_for(context, (work.columns + STRIP - 1) / STRIP,
            work.entries * (has_loops(&work) ? STRIP / 8 : STRIP), add_strips, &work);
  if (result)
    dp_kernel_narrow_tensor(context, result->data, output);
done:
  dp_buffer_release(values_buffer);
  dp_buffer_release(b_buffer);
  dp_buffer_release(result);
  return status;
}

/* ---- SparseMatMul: a hint only; the product is an ordinary one ---- */
typedef struct dense_state {
  bool transpose_a, transpose_b;
} dense_state;

static dp_status *dense_create(const dp_kernel_setup *setup, void *memory) {
  dense_state *state = memory;
  DP_RETURN_IF_ERROR(dp_node_get_bool(setup->node, "transpose_a", &state->transpose_a));
  return dp_node_get_bool(setup->node, "transpose_b", &state->transpose_b);
}

static dp_status *dense_compute(dp_op_context *context, void *memory) {
  const dense_state *state = memory;
  const dp_tensor *a = dp_op_input(context, 0), *b = dp_op_input(context, 1);
  if (a->shape.rank != 2)
    return DP_INVALID("a is not a matrix");
  if (b->shape.rank != 2)
    return DP_INVALID("b is not a matrix");
  dp_gemm gemm = dp_gemm_of(DP_FLOAT, &a->shape, state->transpose_a, &b->shape, state->transpose_b);
  if (gemm.k != b->shape.dims[state->transpose_b])
    return DP_INVALID("Matrix size incompatible: a: %s, b: %s", dp_shape_text(&a->shape),
                      dp_shape_text(&b->shape));
  dp_shape shape;
  dp_tensor *output;
  DP_RETURN_IF_ERROR(dp_shape_make(2, (int64_t[]){gemm.m, gemm.n}, &shape));
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &shape, &output));
  dp_buffer *a_buffer = NULL, *b_buffer = NULL;
  dp_status *status;
  DP_GOTO_IF_ERROR(status, done, dp_kernel_widen_tensor(context, a, DP_FLOAT, &gemm.a, &a_buffer));
  DP_GOTO_IF_ERROR(status, done, dp_kernel_widen_tensor(context, b, DP_FLOAT, &gemm.b, &b_buffer));
  gemm.c = output->data;
  dp_gemm_run_split(context, &gemm);
done:
  dp_buffer_release(a_buffer);
  dp_buffer_release(b_buffer);
  return status;
}

#define SET_SHORT (DP_SET(FLOAT) | DP_SET(BFLOAT16))
static const dp_kernel rows[] = {
    {.op = "SparseTensorDenseMatMul",
     .types = {{"T", DP_SET_FLOATS | DP_SET_COMPLEX | DP_SET(INT32)}},
     .state_size = sizeof(sparse_state),
     .create = sparse_create,
     .compute = sparse_compute},
    {.op = "SparseMatMul",
     .types = {{"Ta", SET_SHORT}, {"Tb", SET_SHORT}},
     .state_size = sizeof(dense_state),
     .create = dense_create,
     .compute = dense_compute},
};
DP_KERNEL_FAMILY(sparse_matmul, rows);
