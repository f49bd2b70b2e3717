/* MatrixSolveLs (least squares, with or without a regularizer) and CholeskyGrad.
 *
 * With `fast`, MatrixSolveLs solves the normal equations by a Cholesky decomposition. Otherwise it
 * uses LAPACK's complete orthogonal factorization, which also handles matrices without full rank
 * and, as in TensorFlow, ignores the regularizer. */
#include "kernels/shared/family.h"

#include <float.h>
#include <string.h>
#include "base/memory.h"
#include "kernels/linalg/linalg_internal.h"
#include "kernels/products/gemm.h"

typedef void (*potrf_fn)(const char *half, const int *n, void *a, const int *lda, int *info,
                         size_t length);
typedef void (*potrs_fn)(const char *half, const int *n, const int *count, const void *a,
                         const int *lda, void *b, const int *ldb, int *info, size_t length);
typedef void (*gelsy_fn)(const int *m, const int *n, const int *count, void *a, const int *lda,
                         void *b, const int *ldb, int *pivots, const void *limit, int *rank,
                         void *work, const int *work_size, void *more, int *info);

static dp_status *least_create(const dp_kernel_setup *setup, void *memory) {
  static const char *const names[] = {"potrf", "potrs", "gelsy"};
  dp_linalg_state *state = memory;
  DP_RETURN_IF_ERROR(dp_node_get_bool(setup->node, "fast", &state->flags[0]));
  return dp_linalg_init(state, setup, names, 3);
}

/* c[m, n] = a b, where a[k, m] or b[n, k] may be given as its adjoint. */
static void multiply(dp_dtype dtype, const void *a, bool adjoint_a, const void *b, bool adjoint_b,
                     int64_t m, int64_t k, int64_t n, void *c) {
  bool is_complex = dp_dtype_is_complex(dtype);
  dp_gemm gemm = {.dtype = dtype,
                  .m = m,
                  .n = n,
                  .k = k,
                  .a = a,
                  .b = b,
                  .c = c,
                  .a_stride = adjoint_a ? m : k,
                  .b_stride = adjoint_b ? k : n,
                  .c_stride = n,
                  .transpose_a = adjoint_a,
                  .conjugate_a = adjoint_a && is_complex,
                  .transpose_b = adjoint_b,
                  .conjugate_b = adjoint_b && is_complex};
  dp_gemm_run(&gemm);
}

static void add_to_diagonal(dp_dtype dtype, void *matrix, int64_t n, double value) {
  int64_t step = dp_dtype_is_complex(dtype) ? 2 * (n + 1) : n + 1;
  for (int64_t i = 0; i < n; ++i) {
    if (dp_linalg_real(dtype) == DP_FLOAT)
      ((float *)matrix)[i * step] += (float)value;
    else
      ((double *)matrix)[i * step] += value;
  }
}

/* Solves gram x = right[n, k] in place, row-major. False when the matrix is not positive
 * definite. */
static bool solve_positive(const dp_linalg_state *state, void *gram, void *right, int n, int k) {
  size_t size = dp_dtype_size(state->dtype);
  void *columns = dp_malloc((size_t)n * (size_t)n * size);
  void *sides = dp_malloc((size_t)n * (size_t)k * size);
  int info = 0;
  dp_linalg_transpose(state->dtype, gram, n, n, false, columns);
  dp_linalg_transpose(state->dtype, right, n, k, false, sides);
  ((potrf_fn)state->routines[0])("L", &n, columns, &n, &info, 1);
  if (info == 0) {
    ((potrs_fn)state->routines[1])("L", &n, &k, columns, &n, sides, &n, &info, 1);
    dp_linalg_transpose(state->dtype, sides, k, n, false, right);
  }
  dp_free(columns);
  dp_free(sides);
  return info == 0;
}

static dp_status *fast_matrix(const dp_linalg_batch *batch, const void *const *inputs,
                              void *const *outputs) {
  const dp_linalg_state *state = batch->state;
  int64_t m = batch->m, n = batch->n, k = batch->k, inner = m < n ? m : n;
  size_t size = dp_dtype_size(state->dtype);
  char *gram = dp_malloc((size_t)(inner * inner + m * k) * size);
  char *right = gram + (size_t)(inner * inner) * size;
  bool good;
  if (m >= n) {
    multiply(state->dtype, inputs[0], true, inputs[0], false, n, m, n, gram);
    add_to_diagonal(state->dtype, gram, n, *(const double *)batch->extra);
    multiply(state->dtype, inputs[0], true, inputs[1], false, n, m, k, outputs[0]);
    good = solve_positive(state, gram, outputs[0], (int)n, (int)k);
  } else {
    multiply(state->dtype, inputs[0], false, inputs[0], true, m, n, m, gram);
    add_to_diagonal(state->dtype, gram, m, *(const double *)batch->extra);
    memcpy(right, inputs[1], (size_t)(m * k) * size);
    good = solve_positive(state, gram, right, (int)m, (int)k);
    multiply(state->dtype, inputs[0], true, right, false, n, m, k, outputs[0]);
  }
  dp_free(gram);
  return good ? NULL
              : DP_INVALID("Input matrix was rank deficient or ill-conditioned. Try setting "
                           "fast=False or provide a larger l2_regularizer > 0.");
}

/* Columns of the right-hand sides are as long as the longer side of the matrix. */
static dp_status *full_matrix(const dp_linalg_batch *batch, const void *const *inputs,
                              void *const *outputs) {
  const dp_linalg_state *state = batch->state;
  int m = (int)batch->m, n = (int)batch->n, k = (int)batch->k, longer = m > n ? m : n;
  int rank = 0, info = 0, work_size = (m + n + k) * 40 + 64;
  size_t size = dp_dtype_size(state->dtype), side = (size_t)longer * size;
  char *a = dp_malloc(batch->input_bytes[0]), *b = dp_calloc((size_t)k, side);
  char *given = dp_malloc(batch->input_bytes[1]), *work = dp_malloc((size_t)work_size * size);
  char *more = dp_malloc(2 * (size_t)n * sizeof(double));
  int *pivots = dp_calloc((size_t)n, sizeof *pivots);
  bool is_float = dp_linalg_real(state->dtype) == DP_FLOAT;
  float limit = FLT_EPSILON * (float)longer;
  double fine_limit = DBL_EPSILON * longer;
  dp_linalg_transpose(state->dtype, inputs[0], m, n, false, a);
  dp_linalg_transpose(state->dtype, inputs[1], m, k, false, given);
  for (int i = 0; i < k; ++i)
    memcpy(b + (size_t)i * side, given + (size_t)i * (size_t)m * size, (size_t)m * size);
  void *last = dp_dtype_is_complex(state->dtype) ? (void *)more : (void *)&info;
  ((gelsy_fn)state->routines[2])(&m, &n, &k, a, &m, b, &longer, pivots,
                                 is_float ? (void *)&limit : (void *)&fine_limit, &rank, work,
                                 &work_size, last, &info);
  for (int i = 0; i < n; ++i)
    for (int j = 0; j < k; ++j)
      memcpy((char *)outputs[0] + ((size_t)i * (size_t)k + (size_t)j) * size,
             b + (size_t)j * side + (size_t)i * size, size);
  char *const all[] = {a, b, given, work, more, (char *)pivots};
  for (int i = 0; i < 6; ++i)
    dp_free(all[i]);
  return NULL;
}

static dp_status *least_compute(dp_op_context *context, void *memory) {
  const dp_linalg_state *state = memory;
  const dp_tensor *a = dp_op_input(context, 0), *b = dp_op_input(context, 1);
  const dp_tensor *regularizer = dp_op_input(context, 2);
  DP_RETURN_IF_ERROR(dp_linalg_expect_pair(context, false));
  int64_t m = dp_linalg_rows(&a->shape), n = dp_linalg_columns(&a->shape);
  int64_t k = dp_linalg_columns(&b->shape);
  dp_shape shape = dp_linalg_shape(&a->shape, 2, n, k);
  dp_tensor *output;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &shape, &output));
  memset(output->data, 0, dp_tensor_bytes(output));
  if (dp_linalg_batches(&a->shape) == 0)
    return NULL;
  if (regularizer->shape.rank != 0)
    return DP_INVALID("l2_regularizer must be scalar, got shape %s",
                      dp_shape_text(&regularizer->shape));
  if (!(*(const double *)regularizer->data >= 0))
    return DP_INVALID("l2_regularizer must be >= 0.");
  if (m * n * k == 0)
    return NULL;
  dp_linalg_batch batch = {.state = state,
                           .run = state->flags[0] ? fast_matrix : full_matrix,
                           .count = dp_linalg_batches(&a->shape),
                           .cost = m * n * (m < n ? m : n) + 1000,
                           .m = m,
                           .n = n,
                           .k = k,
                           .extra = regularizer->data};
  dp_linalg_add_input(&batch, a);
  dp_linalg_add_input(&batch, b);
  dp_linalg_add_output(&batch, output);
  return dp_linalg_run(context, &batch);
}

/* ---- CholeskyGrad ---- */
/* Backwards through the steps of the decomposition (Murray, 2016), from the last column to the
 * first; `g` holds the lower half of the result's gradient, and in the end the matrix's gradient.
 */
#define BACK(name, type)                                                                           \
  static void name(const type *l, int64_t n, type *g) {                                            \
    for (int64_t k = n - 1; k >= 0; --k) {                                                         \
      type pivot = l[k * n + k], dot = 0, *row = g + k * n;                                        \
      for (int64_t i = k + 1; i < n; ++i)                                                          \
        dot += l[i * n + k] * g[i * n + k];                                                        \
      row[k] -= dot / pivot;                                                                       \
      for (int64_t i = k; i < n; ++i) {                                                            \
        type factor = g[i * n + k] /= pivot, *below = g + i * n;                                   \
        for (int64_t j = 0; j < k; ++j)                                                            \
          row[j] -= factor * l[i * n + j];                                                         \
        for (int64_t j = 0; j < k && i > k; ++j)                                                   \
          below[j] -= factor * l[k * n + j];                                                       \
      }                                                                                            \
      row[k] /= 2;                                                                                 \
    }                                                                                              \
    for (int64_t i = 0; i < n; ++i)                                                                \
      for (int64_t j = 0; j < i; ++j)                                                              \
        g[i * n + j] = g[j * n + i] = g[i * n + j] / 2;                                            \
  }
BACK(back_float, float)
BACK(back_double, double)
#undef BACK

static dp_status *back_matrix(const dp_linalg_batch *batch, const void *const *inputs,
                              void *const *outputs) {
  int64_t n = batch->n;
  size_t size = dp_dtype_size(batch->state->dtype);
  for (int64_t i = 0; i < n; ++i) {
    char *row = (char *)outputs[0] + (size_t)(i * n) * size;
    size_t used = (size_t)(i + 1) * size;
    memcpy(row, (const char *)inputs[1] + (size_t)(i * n) * size, used);
    memset(row + used, 0, (size_t)n * size - used);
  }
  if (batch->state->dtype == DP_FLOAT)
    back_float(inputs[0], n, outputs[0]);
  else
    back_double(inputs[0], n, outputs[0]);
  return NULL;
}

static dp_status *back_create(const dp_kernel_setup *setup, void *memory) {
  return dp_linalg_init(memory, setup, NULL, 0);
}

static dp_status *back_compute(dp_op_context *context, void *memory) {
  const dp_tensor *l = dp_op_input(context, 0), *grad = dp_op_input(context, 1);
  DP_RETURN_IF_ERROR(dp_linalg_expect_matrices(l, 0));
  if (l->shape.rank != grad->shape.rank)
    return DP_INVALID("All input tensors must have the same rank.");
  for (int i = 0; i < l->shape.rank - 2; ++i)
    if (l->shape.dims[i] != grad->shape.dims[i])
      return DP_INVALID("All input tensors must have the same outer dimensions.");
  if (!dp_shape_equal(&l->shape, &grad->shape))
    return DP_INVALID("Inputs (L and grad) must have the same shape.");
  int64_t n = dp_linalg_rows(&l->shape);
  if (n != dp_linalg_columns(&l->shape))
    return DP_INVALID("Inputs must be a square matrices.");
  dp_tensor *output;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &l->shape, &output));
  if (l->shape.elements == 0)
    return NULL;
  dp_linalg_batch batch = {.state = memory,
                           .run = back_matrix,
                           .count = dp_linalg_batches(&l->shape),
                           .cost = n * n * n + 200,
                           .m = n,
                           .n = n};
  dp_linalg_add_input(&batch, l);
  dp_linalg_add_input(&batch, grad);
  dp_linalg_add_output(&batch, output);
  return dp_linalg_run(context, &batch);
}

static const dp_kernel rows[] = {
    {.op = "MatrixSolveLs",
     .types = {{"T", DP_LINALG_SET}},
     .state_size = sizeof(dp_linalg_state),
     .create = least_create,
     .compute = least_compute},
    {.op = "BatchMatrixSolveLs",
     .types = {{"T", DP_LINALG_SET}},
     .state_size = sizeof(dp_linalg_state),
     .create = least_create,
     .compute = least_compute},
    {.op = "CholeskyGrad",
     .types = {{"T", DP_SET(FLOAT) | DP_SET(DOUBLE)}},
     .state_size = sizeof(dp_linalg_state),
     .create = back_create,
     .compute = back_compute},
    {.op = "BatchCholeskyGrad",
     .types = {{"T", DP_SET(FLOAT) | DP_SET(DOUBLE)}},
     .state_size = sizeof(dp_linalg_state),
     .create = back_create,
     .compute = back_compute},
};
DP_KERNEL_FAMILY(linalg_least, rows);
