/* Products of sparse matrices in compressed rows: with dense matrices (SparseMatrixMatMul) and with
 * each other (SparseMatrixSparseMatMul). Operands are transposed first where the node wants it, so
 * that there is one loop per product. A sparse product has two passes: find the columns of each
 * row, then sum. Entries whose sum is zero are kept. */
#include "kernels/shared/family.h"

#include <complex.h>
#include <stdlib.h>
#include <string.h>
#include "kernels/sparse/csr_internal.h"

typedef struct matmul_state {
  dp_dtype dtype;
  bool transpose_a, transpose_b, adjoint_a, adjoint_b; /* adjoint: conjugated too */
  bool transpose_output, conjugate_output;
} matmul_state;

typedef struct dense_call {
  const dp_csr *a;
  const void *b; /* [batch, columns of a, width] */
  void *to;      /* [batch, rows of a, width] */
  int64_t width;
} dense_call;

typedef struct sparse_call {
  const dp_csr *a, *b;
  dp_csr *c;
} sparse_call;

/* ---- Loops ---- */
typedef struct csr_loops {
  dp_range_fn multiply_rows;
  void (*copy_dense)(const void *from, void *to, int64_t rows, int64_t columns, bool turns,
                     bool conjugates);
  void (*fill_row)(const sparse_call *call, int64_t index, int64_t row, void *sums);
} csr_loops;

#define SAME(x) (x)
#define TYPE float
#define CONJ SAME
#define NAME(x) x##_float
#include "kernels/sparse/csr_matmul.tmpl.h"
#undef TYPE
#undef NAME
#define TYPE double
#define NAME(x) x##_double
#include "kernels/sparse/csr_matmul.tmpl.h"
#undef TYPE
#undef CONJ
#undef NAME
#define TYPE float _Complex
#define CONJ conjf
#define NAME(x) x##_complex64
#include "kernels/sparse/csr_matmul.tmpl.h"
#undef TYPE
#undef CONJ
#undef NAME
#define TYPE double _Complex
#define CONJ conj
#define NAME(x) x##_complex128
#include "kernels/sparse/csr_matmul.tmpl.h"

#define LOOPS(type)                                                                                \
  { multiply_rows_##type, copy_dense_##type, fill_row_##type }
static const csr_loops *loops_of(dp_dtype dtype) {
  static const csr_loops loops[] = {LOOPS(float), LOOPS(double), LOOPS(complex64),
                                    LOOPS(complex128)};
  return &loops[dtype == DP_FLOAT ? 0 : dtype == DP_DOUBLE ? 1 : dtype == DP_COMPLEX64 ? 2 : 3];
}

/* ---- Attributes ---- */
static dp_status *read_bool(const dp_kernel_setup *setup, const char *name, bool *value_out) {
  if (!dp_node_attr(setup->node, name))
    return NULL;
  return dp_node_get_bool(setup->node, name, value_out);
}

static dp_status *matmul_create(const dp_kernel_setup *setup, void *memory) {
  matmul_state *state = memory;
  bool is_dense = dp_node_is(setup->node, "SparseMatrixMatMul");
  DP_RETURN_IF_ERROR(dp_node_get_type(setup->node, is_dense ? "T" : "type", &state->dtype));
  DP_RETURN_IF_ERROR(read_bool(setup, "transpose_a", &state->transpose_a));
  DP_RETURN_IF_ERROR(read_bool(setup, "transpose_b", &state->transpose_b));
  DP_RETURN_IF_ERROR(read_bool(setup, "adjoint_a", &state->adjoint_a));
  DP_RETURN_IF_ERROR(read_bool(setup, "adjoint_b", &state->adjoint_b));
  DP_RETURN_IF_ERROR(read_bool(setup, "transpose_output", &state->transpose_output));
  DP_RETURN_IF_ERROR(read_bool(setup, "conjugate_output", &state->conjugate_output));
  if (state->transpose_a && state->adjoint_a)
    return DP_INVALID("Only one of adjoint_a and transpose_a may be true.");
  if (state->transpose_b && state->adjoint_b)
    return DP_INVALID("Only one of adjoint_b and transpose_b may be true.");
  return NULL;
}

/* The matrix as the product wants it: itself, or a new one in *owned_out that must be destroyed. */
static dp_status *prepare(const dp_csr *csr, bool transposes, bool adjoins, dp_csr **owned_out,
                          const dp_csr **csr_out) {
  *owned_out = NULL;
  *csr_out = csr;
  if (!transposes && !adjoins)
    return NULL;
  DP_RETURN_IF_ERROR(dp_csr_transpose(csr, adjoins, owned_out));
  *csr_out = *owned_out;
  return NULL;
}

static void end(dp_csr *owned) {
  if (owned)
    dp_csr_destroy(owned);
}

/* ---- With a dense matrix ---- */
static dp_status *check_dense(const matmul_state *state, const dp_csr *a, const dp_tensor *b) {
  bool turns_a = state->transpose_a || state->adjoint_a;
  bool turns_b = state->transpose_b || state->adjoint_b;
  if (dp_csr_dtype(a) != b->dtype)
    return DP_INVALID("Input types don't match.  a.dtype == %s vs. b.dtype == %s",
                      dp_dtype_name(dp_csr_dtype(a)), dp_dtype_name(b->dtype));
  if (a->rank != b->shape.rank)
    return DP_INVALID("Ranks of a and b must match, saw: %d vs. %d.", a->rank, b->shape.rank);
  if (a->rank == 3 && a->batch != b->shape.dims[0])
    return DP_INVALID("Batch sizes of a and b must match, saw: %lld vs. %lld.", (long long)a->batch,
                      (long long)b->shape.dims[0]);
  int64_t inner = b->shape.dims[turns_b ? a->rank - 1 : a->rank - 2];
  if ((turns_a ? a->rows : a->columns) != inner)
    return DP_INVALID("Inner product dimensions of A and B do not agree. Shapes are: [%lld,%lld] "
                      "vs. %s",
                      (long long)a->rows, (long long)a->columns, dp_shape_text(&b->shape));
  return NULL;
}

/* Every matrix of a dense batch, transposed or conjugated, into a fresh tensor. */
static dp_status *turn_dense(const dp_tensor *from, bool turns, bool conjugates,
                             dp_tensor *to_out) {
  int rank = from->shape.rank;
  int64_t rows = from->shape.dims[rank - 2], columns = from->shape.dims[rank - 1];
  dp_shape shape = from->shape;
  if (turns) {
    shape.dims[rank - 2] = columns;
    shape.dims[rank - 1] = rows;
  }
  DP_RETURN_IF_ERROR(dp_tensor_create(from->dtype, &shape, to_out));
  size_t bytes = (size_t)(rows * columns) * dp_dtype_size(from->dtype);
  for (int64_t i = 0; bytes && i < from->shape.elements / (rows * columns); ++i)
    loops_of(from->dtype)
        ->copy_dense((const char *)from->data + (size_t)i * bytes,
                     (char *)to_out->data + (size_t)i * bytes, rows, columns, turns, conjugates);
  return NULL;
}

/* Output 0 = a * b, both as they are. */
static dp_status *multiply_dense(dp_op_context *context, const matmul_state *state, const dp_csr *a,
                                 const dp_tensor *b) {
  int64_t width = b->shape.dims[a->rank - 1], dims[3] = {a->batch, a->rows, width};
  dp_shape shape;
  dp_tensor product;
  DP_RETURN_IF_ERROR(dp_shape_make(a->rank, dims + (a->rank == 2), &shape));
  DP_RETURN_IF_ERROR(dp_tensor_create(b->dtype, &shape, &product));
  dense_call call = {.a = a, .b = b->data, .to = product.data, .width = width};
  int64_t rows = a->batch * a->rows;
  dp_op_for(context, rows, rows ? (dp_csr_count(a) / rows + 1) * width : 0,
            loops_of(b->dtype)->multiply_rows, &call);
  if (!state->transpose_output && !state->conjugate_output) {
    dp_op_set_output(context, 0, &product);
    return NULL;
  }
  dp_status *status = turn_dense(&product, state->transpose_output, state->conjugate_output,
                                 &context->outputs[0].tensor);
  dp_tensor_deinit(&product);
  return status;
}

static dp_status *dense_compute(dp_op_context *context, void *memory) {
  const matmul_state *state = memory;
  const dp_csr *a;
  const dp_tensor *b = dp_op_input(context, 1);
  dp_csr *owned;
  dp_tensor turned = {0};
  DP_RETURN_IF_ERROR(dp_csr_input(context, 0, DP_INVALID_DTYPE, &a));
  DP_RETURN_IF_ERROR(check_dense(state, a, b));
  DP_RETURN_IF_ERROR(prepare(a, state->transpose_a, state->adjoint_a, &owned, &a));
  dp_status *status = NULL;
  if (state->transpose_b || state->adjoint_b) {
    status = turn_dense(b, true, state->adjoint_b, &turned);
    b = &turned;
  }
  if (!status)
    status = multiply_dense(context, state, a, b);
  dp_tensor_deinit(&turned);
  end(owned);
  return status;
}

/* ---- With a sparse matrix ---- */
static int compare_columns(const void *a, const void *b) {
  int32_t first = *(const int32_t *)a, second = *(const int32_t *)b;
  return first < second ? -1 : first > second;
}

/* Per column of the product: the row that used it last, and its sum. */
typedef struct workspace {
  dp_buffer *marks, *sums;
} workspace;

static dp_status *workspace_init(workspace *space, const dp_csr *b) {
  size_t columns = (size_t)b->columns;
  DP_RETURN_IF_ERROR(dp_buffer_create(columns * sizeof(int64_t), &space->marks));
  DP_RETURN_IF_ERROR(dp_buffer_create(columns * dp_dtype_size(dp_csr_dtype(b)), &space->sums));
  memset(space->marks->data, 0, columns * sizeof(int64_t));
  memset(space->sums->data, 0, columns * dp_dtype_size(dp_csr_dtype(b)));
  return NULL;
}

static void workspace_deinit(workspace *space) {
  dp_buffer_release(space->marks);
  dp_buffer_release(space->sums);
}

/* Finds the columns of a row of the product: returns their number, and writes them unless `to` is
 * NULL. `mark` must be a new number, not 0, for each row and pass. */
static int64_t find_columns(const sparse_call *call, int64_t index, int64_t row, int64_t *marks,
                            int64_t mark, int32_t *to) {
  const int32_t *rows = dp_csr_rows(call->a, index), *columns = dp_csr_columns(call->a, index);
  const int32_t *b_rows = dp_csr_rows(call->b, index), *b_columns = dp_csr_columns(call->b, index);
  int64_t count = 0;
  for (int32_t i = rows[row]; i < rows[row + 1]; ++i) {
    for (int32_t j = b_rows[columns[i]]; j < b_rows[columns[i] + 1]; ++j) {
      if (marks[b_columns[j]] == mark)
        continue;
      marks[b_columns[j]] = mark;
      if (to)
        to[count] = b_columns[j];
      ++count;
    }
  }
  return count;
}

static int64_t count_product(const sparse_call *call, int64_t *marks) {
  int64_t total = 0, rows = call->a->rows;
  for (int64_t at = 0; at < call->a->batch * rows; ++at)
    total += find_columns(call, at / rows, at % rows, marks, at + 1, NULL);
  return total;
}

static void fill_product(const sparse_call *call, workspace *space) {
  int64_t rows = call->a->rows, mark = call->a->batch * rows + 1;
  int32_t *batches = dp_csr_batches(call->c);
  const csr_loops *loops = loops_of(dp_csr_dtype(call->a));
  for (int64_t index = 0; index < call->a->batch; ++index) {
    int32_t *c_rows = dp_csr_rows(call->c, index), *columns = dp_csr_columns(call->c, index);
    for (int64_t row = 0; row < rows; ++row, ++mark) {
      int32_t *to = columns + c_rows[row];
      int64_t count = find_columns(call, index, row, space->marks->data, mark, to);
      if (count > 1)
        qsort(to, (size_t)count, sizeof *to, compare_columns);
      c_rows[row + 1] = c_rows[row] + (int32_t)count;
      loops->fill_row(call, index, row, space->sums->data);
    }
    batches[index + 1] = batches[index] + c_rows[rows];
  }
}

static dp_status *multiply_sparse(dp_op_context *context, const dp_csr *a, const dp_csr *b) {
  if (a->columns != b->rows)
    return DP_INVALID("Inner product dimensions of A and B do not agree.  Shapes are: [%lld,%lld] "
                      "vs. [%lld,%lld]",
                      (long long)a->rows, (long long)a->columns, (long long)b->rows,
                      (long long)b->columns);
  sparse_call call = {.a = a, .b = b};
  workspace space = {0};
  int64_t dims[3] = {a->batch, a->rows, b->columns};
  dp_status *status = workspace_init(&space, b);
  if (!status)
    status = dp_csr_create(dp_csr_dtype(a), a->rank, dims + (a->rank == 2),
                           count_product(&call, space.marks->data), &call.c);
  if (!status) {
    fill_product(&call, &space);
    status = dp_csr_output(context, call.c);
  }
  workspace_deinit(&space);
  return status;
}

static dp_status *sparse_compute(dp_op_context *context, void *memory) {
  const matmul_state *state = memory;
  const dp_csr *a, *b;
  dp_csr *owned_a, *owned_b = NULL;
  DP_RETURN_IF_ERROR(dp_csr_input(context, 0, state->dtype, &a));
  DP_RETURN_IF_ERROR(dp_csr_input(context, 1, state->dtype, &b));
  if (a->batch != b->batch || a->rank != b->rank)
    return DP_INVALID("Batch sizes of A and B are not compatible.  Batch sizes are: %lld vs. %lld",
                      (long long)a->batch, (long long)b->batch);
  DP_RETURN_IF_ERROR(prepare(a, state->transpose_a, state->adjoint_a, &owned_a, &a));
  dp_status *status = prepare(b, state->transpose_b, state->adjoint_b, &owned_b, &b);
  if (!status)
    status = multiply_sparse(context, a, b);
  end(owned_a);
  end(owned_b);
  return status;
}

#define NUMBERS (DP_SET(FLOAT) | DP_SET(DOUBLE) | DP_SET_COMPLEX)
static const dp_kernel rows[] = {
    {.op = "SparseMatrixMatMul",
     .types = {{"T", NUMBERS}},
     .state_size = sizeof(matmul_state),
     .create = matmul_create,
     .compute = dense_compute},
    {.op = "SparseMatrixSparseMatMul",
     .types = {{"type", NUMBERS}},
     .state_size = sizeof(matmul_state),
     .create = matmul_create,
     .compute = sparse_compute},
};
DP_KERNEL_FAMILY(csr_matmul, rows);
