/* Square matrices: Cholesky, MatrixInverse, MatrixSolve, MatrixTriangularSolve, determinants and
 * LU.
 *
 * LAPACK takes a row-major matrix A for its transpose A'. So factors of A' solve a system with A by
 * asking for the transposed system; and the lower factor of A in rows is the upper factor of A' in
 * columns. */
#include "kernels/shared/family.h"

#include <complex.h>
#include <math.h>
#include <string.h>
#include "kernels/linalg/linalg_internal.h"

typedef void (*potrf_fn)(const char *half, const int *n, void *a, const int *lda, int *info,
                         size_t length);
typedef void (*getrf_fn)(const int *m, const int *n, void *a, const int *lda, int *pivots,
                         int *info);
typedef void (*getrs_fn)(const char *side, const int *n, const int *count, const void *a,
                         const int *lda, const int *pivots, void *b, const int *ldb, int *info,
                         size_t length);
typedef void (*getri_fn)(const int *n, void *a, const int *lda, const int *pivots, void *work,
                         const int *work_size, int *info);
typedef void (*trtrs_fn)(const char *half, const char *side, const char *diagonal, const int *n,
                         const int *count, const void *a, const int *lda, void *b, const int *ldb,
                         int *info, size_t first, size_t second, size_t third);

static dp_status *square_create(const dp_kernel_setup *setup, void *memory) {
  static const char *const names[] = {"potrf", "getrf", "getrs", "getri"};
  dp_linalg_state *state = memory;
  if (dp_node_attr(setup->node, "adjoint"))
    DP_RETURN_IF_ERROR(dp_node_get_bool(setup->node, "adjoint", &state->flags[0]));
  return dp_linalg_init(state, setup, names, 4);
}

/* One square input, one output of the same shape. */
static dp_status *run_square(dp_op_context *context, dp_linalg_state *state,
                             dp_linalg_matrix_fn run) {
  const dp_tensor *input = dp_op_input(context, 0);
  DP_RETURN_IF_ERROR(dp_linalg_expect_square(input, 0));
  dp_shape shape = input->shape;
  dp_tensor *output;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &shape, &output));
  if (shape.elements == 0)
    return NULL;
  int64_t n = dp_linalg_rows(&shape);
  dp_linalg_batch batch = {.state = state,
                           .run = run,
                           .count = dp_linalg_batches(&shape),
                           .cost = n * n * n / 2 + 500,
                           .m = n,
                           .n = n};
  dp_linalg_add_input(&batch, input);
  dp_linalg_add_output(&batch, output);
  return dp_linalg_run(context, &batch);
}

/* ---- Cholesky ---- */
static dp_status *cholesky_matrix(const dp_linalg_batch *batch, const void *const *inputs,
                                  void *const *outputs) {
  int n = (int)batch->n, info = 0;
  size_t size = dp_dtype_size(batch->state->dtype);
  char *to = outputs[0];
  memcpy(to, inputs[0], (size_t)(batch->n * batch->n) * size);
  ((potrf_fn)batch->state->routines[0])("U", &n, to, &n, &info, 1);
  for (int64_t i = 0; i < batch->n; ++i) {
    memset(to + (size_t)(i * batch->n + i + 1) * size, 0, (size_t)(batch->n - i - 1) * size);
    /* As TensorFlow: a matrix that is not positive definite gives NaN. */
    for (int64_t j = 0; info != 0 && j <= i; ++j)
      dp_linalg_set(batch->state->dtype, to, i * batch->n + j, NAN);
  }
  return NULL;
}

static dp_status *cholesky_compute(dp_op_context *context, void *state) {
  return run_square(context, state, cholesky_matrix);
}

/* ---- Inverse ---- */
static dp_status *inverse_matrix(const dp_linalg_batch *batch, const void *const *inputs,
                                 void *const *outputs) {
  const dp_linalg_state *state = batch->state;
  int n = (int)batch->n, info = 0, work_size = n * 32;
  size_t size = dp_dtype_size(state->dtype), bytes = (size_t)(batch->n * batch->n) * size;
  int *pivots = dp_malloc((size_t)n * sizeof(int));
  void *work = dp_malloc((size_t)work_size * size);
  memcpy(outputs[0], inputs[0], bytes);
  if (state->flags[0])
    dp_linalg_transpose(state->dtype, inputs[0], n, n, true, outputs[0]);
  ((getrf_fn)state->routines[1])(&n, &n, outputs[0], &n, pivots, &info);
  if (info == 0)
    ((getri_fn)state->routines[3])(&n, outputs[0], &n, pivots, work, &work_size, &info);
  dp_free(pivots);
  dp_free(work);
  return info == 0 ? NULL : DP_INVALID("Input is not invertible.");
}

static dp_status *inverse_half_matrix(const dp_linalg_batch *batch, const void *const *inputs,
                                      void *const *outputs) {
  int64_t count = batch->n * batch->n;
  float *wide = dp_malloc((size_t)count * 2 * sizeof(float)), *result = wide + count;
  dp_kernel_widen(DP_HALF, inputs[0], wide, count);
  dp_status *status = inverse_matrix(batch, (const void *const[]){wide}, (void *const[]){result});
  if (!status)
    dp_kernel_narrow(DP_HALF, result, outputs[0], count);
  dp_free(wide);
  return status;
}

static dp_status *inverse_compute(dp_op_context *context, void *state) {
  bool is_half = dp_op_input(context, 0)->dtype == DP_HALF;
  return run_square(context, state, is_half ? inverse_half_matrix : inverse_matrix);
}

/* ---- Solve ---- */
static dp_status *solve_matrix(const dp_linalg_batch *batch, const void *const *inputs,
                               void *const *outputs) {
  const dp_linalg_state *state = batch->state;
  bool adjoint = state->flags[0];
  int n = (int)batch->n, k = (int)batch->k, info = 0;
  size_t size = dp_dtype_size(state->dtype), bytes = (size_t)(batch->n * batch->n) * size;
  char *factors = dp_malloc(bytes + (size_t)(batch->n * batch->k) * size);
  char *right = factors + bytes;
  int *pivots = dp_malloc((size_t)n * sizeof(int));
  memcpy(factors, inputs[0], bytes);
  ((getrf_fn)state->routines[1])(&n, &n, factors, &n, pivots, &info);
  if (info == 0) {
    /* conj(A') x = b is A' conj(x) = conj(b). */
    dp_linalg_transpose(state->dtype, inputs[1], n, k, adjoint, right);
    ((getrs_fn)state->routines[2])(adjoint ? "N" : "T", &n, &k, factors, &n, pivots, right, &n,
                                   &info, 1);
    dp_linalg_transpose(state->dtype, right, k, n, adjoint, outputs[0]);
  }
  dp_free(factors);
  dp_free(pivots);
  return info == 0 ? NULL : DP_INVALID("Input matrix is not invertible.");
}

static dp_status *solve_compute(dp_op_context *context, void *memory) {
  const dp_linalg_state *state = memory;
  DP_RETURN_IF_ERROR(dp_linalg_expect_pair(context, true));
  const dp_tensor *a = dp_op_input(context, 0), *b = dp_op_input(context, 1);
  dp_shape shape = b->shape;
  dp_tensor *output;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &shape, &output));
  if (shape.elements == 0)
    return NULL;
  int64_t n = dp_linalg_rows(&a->shape), k = dp_linalg_columns(&shape);
  dp_linalg_batch batch = {.state = state,
                           .run = solve_matrix,
                           .count = dp_linalg_batches(&shape),
                           .cost = n * n * (n + k) / 4 + 500,
                           .m = n,
                           .n = n,
                           .k = k};
  dp_linalg_add_input(&batch, a);
  dp_linalg_add_input(&batch, b);
  dp_linalg_add_output(&batch, output);
  return dp_linalg_run(context, &batch);
}

/* ---- Triangular solve, with broadcasting ---- */
static dp_status *triangular_create(const dp_kernel_setup *setup, void *memory) {
  static const char *const names[] = {"trtrs"};
  dp_linalg_state *state = memory;
  DP_RETURN_IF_ERROR(dp_node_get_bool(setup->node, "adjoint", &state->flags[0]));
  DP_RETURN_IF_ERROR(dp_node_get_bool(setup->node, "lower", &state->flags[1]));
  return dp_linalg_init(state, setup, names, 1);
}

typedef struct triangular_operands {
  const char *a, *b;
  dp_shape a_batch, b_batch, batch;
  int64_t a_size, b_size; /* bytes of a matrix */
  char *to;
} triangular_operands;

static int is_singular(dp_dtype dtype, const void *a, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    int64_t at = i * n + i;
    bool zero = dtype == DP_FLOAT       ? ((const float *)a)[at] == 0
                : dtype == DP_DOUBLE    ? ((const double *)a)[at] == 0
                : dtype == DP_COMPLEX64 ? ((const float _Complex *)a)[at] == 0
                                        : ((const double _Complex *)a)[at] == 0;
    if (zero)
      return 1;
  }
  return 0;
}

/* Plain substitution, so that a zero on the diagonal gives infinities as in TensorFlow. */
static void substitute(const dp_linalg_batch *batch, const void *a, void *x) {
  int64_t n = batch->n, k = batch->k;
  bool adjoint = batch->state->flags[0], lower = batch->state->flags[1];
  bool forward = lower != adjoint, is_double = dp_linalg_real(batch->state->dtype) == DP_DOUBLE;
  bool is_complex = dp_dtype_is_complex(batch->state->dtype);
#define AT(array, i)                                                                               \
  (is_complex ? (is_double ? ((double _Complex *)(array))[i]                                       \
                           : (double _Complex)((float _Complex *)(array))[i])                      \
              : (is_double ? ((double *)(array))[i] : (double)((float *)(array))[i]))
  for (int64_t step = 0; step < n; ++step) {
    int64_t i = forward ? step : n - 1 - step;
    for (int64_t c = 0; c < k; ++c) {
      double _Complex sum = AT(x, i * k + c);
      for (int64_t j = forward ? 0 : i + 1; j < (forward ? i : n); ++j) {
        double _Complex factor = adjoint ? conj(AT(a, j * n + i)) : AT(a, i * n + j);
        sum -= factor * AT(x, j * k + c);
      }
      double _Complex by = adjoint ? conj(AT(a, i * n + i)) : AT(a, i * n + i);
      if (is_complex) {
        sum /= by;
        if (is_double)
          ((double _Complex *)x)[i * k + c] = sum;
        else
          ((float _Complex *)x)[i * k + c] = (float _Complex)sum;
      } else if (is_double) {
        ((double *)x)[i * k + c] = creal(sum) / creal(by);
      } else {
        ((float *)x)[i * k + c] = (float)(creal(sum) / creal(by));
      }
    }
  }
#undef AT
}

/* The operands are broadcast, so their matrices are found here; outputs[0] gives the index. */
static dp_status *triangular_matrix(const dp_linalg_batch *batch, const void *const *inputs,
                                    void *const *outputs) {
  const triangular_operands *all = batch->extra;
  const dp_linalg_state *state = batch->state;
  int64_t index = ((char *)outputs[0] - all->to) / (int64_t)batch->output_bytes[0];
  const char *a = all->a + dp_linalg_operand(&all->a_batch, &all->batch, index) * all->a_size;
  const char *b = all->b + dp_linalg_operand(&all->b_batch, &all->batch, index) * all->b_size;
  int n = (int)batch->n, k = (int)batch->k, info = 0;
  if (is_singular(state->dtype, a, n)) {
    memcpy(outputs[0], b, batch->output_bytes[0]);
    substitute(batch, a, outputs[0]);
    return NULL;
  }
  void *right = dp_malloc(batch->output_bytes[0]);
  dp_linalg_transpose(state->dtype, b, n, k, state->flags[0], right);
  ((trtrs_fn)state->routines[0])(state->flags[1] ? "U" : "L", state->flags[0] ? "N" : "T", "N", &n,
                                 &k, a, &n, right, &n, &info, 1, 1, 1);
  dp_linalg_transpose(state->dtype, right, k, n, state->flags[0], outputs[0]);
  dp_free(right);
  return NULL;
}

static dp_status *triangular_compute(dp_op_context *context, void *memory) {
  const dp_linalg_state *state = memory;
  const dp_tensor *a = dp_op_input(context, 0), *b = dp_op_input(context, 1);
  if (a->shape.rank < 2)
    return DP_INVALID("In[0] ndims must be >= 2: %d", a->shape.rank);
  if (b->shape.rank < 2)
    return DP_INVALID("In[1] ndims must be >= 2: %d", b->shape.rank);
  triangular_operands all = {.a = a->data,
                             .b = b->data,
                             .a_batch = dp_shape_of(a->shape.rank - 2, a->shape.dims),
                             .b_batch = dp_shape_of(b->shape.rank - 2, b->shape.dims)};
  if (!dp_shape_broadcast(&all.a_batch, &all.b_batch, &all.batch))
    return DP_INVALID("In[0] and In[1] must have compatible batch dimensions: %s vs. %s",
                      dp_shape_text(&a->shape), dp_shape_text(&b->shape));
  int64_t n = dp_linalg_rows(&a->shape), k = dp_linalg_columns(&b->shape);
  if (n != dp_linalg_columns(&a->shape))
    return DP_INVALID("In[0] matrices in the last dimensions must be square (%lld =/= %lld)",
                      (long long)dp_linalg_columns(&a->shape), (long long)n);
  if (n != dp_linalg_rows(&b->shape))
    return DP_INVALID("In[0] mismatch In[1] shape: %lld vs. %lld: %s %s %d %d", (long long)n,
                      (long long)dp_linalg_rows(&b->shape), dp_shape_text(&a->shape),
                      dp_shape_text(&b->shape), state->flags[1], state->flags[0]);
  int64_t dims[DP_MAX_RANK];
  dp_shape shape;
  memcpy(dims, all.batch.dims, sizeof dims);
  dims[all.batch.rank] = n;
  dims[all.batch.rank + 1] = k;
  DP_RETURN_IF_ERROR(dp_shape_make(all.batch.rank + 2, dims, &shape));
  dp_tensor *output;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &shape, &output));
  if (shape.elements == 0)
    return NULL;
  size_t size = dp_dtype_size(state->dtype);
  all.a_size = n * n * (int64_t)size;
  all.b_size = n * k * (int64_t)size;
  all.to = output->data;
  dp_linalg_batch batch = {.state = state,
                           .run = triangular_matrix,
                           .count = all.batch.elements,
                           .cost = n * n * k / 4 + 500,
                           .m = n,
                           .n = n,
                           .k = k,
                           .output_count = 1,
                           .outputs = {output->data},
                           .output_bytes = {(size_t)all.b_size},
                           .extra = &all};
  return dp_linalg_run(context, &batch);
}

/* ---- Determinants ---- */
/* From the LU factors: sign (or phase), logarithm of the magnitude, and the determinant. */
typedef struct determinant {
  double _Complex product, sign;
  double log_magnitude;
} determinant;

static determinant find_determinant(const dp_linalg_batch *batch, const void *input) {
  const dp_linalg_state *state = batch->state;
  int n = (int)batch->n, info = 0;
  size_t bytes = (size_t)(batch->n * batch->n) * dp_dtype_size(state->dtype);
  char *factors = dp_malloc(bytes > 0 ? bytes : 1);
  int *pivots = dp_malloc((size_t)(n > 0 ? n : 1) * sizeof(int));
  memcpy(factors, input, bytes);
  if (n > 0)
    ((getrf_fn)state->routines[1])(&n, &n, factors, &n, pivots, &info);
  determinant result = {1, 1, 0};
  for (int64_t i = 0; i < n; ++i) {
    int64_t at = i * n + i;
    double _Complex value = state->dtype == DP_FLOAT       ? ((float *)factors)[at]
                            : state->dtype == DP_DOUBLE    ? ((double *)factors)[at]
                            : state->dtype == DP_COMPLEX64 ? ((float _Complex *)factors)[at]
                                                           : ((double _Complex *)factors)[at];
    value = pivots[i] != i + 1 ? -value : value;
    double magnitude = cabs(value);
    result.product *= value;
    result.sign *= magnitude > 0 ? value / magnitude : value;
    result.log_magnitude += log(magnitude);
  }
  dp_free(factors);
  dp_free(pivots);
  return result;
}

static void store(dp_dtype dtype, void *to, double _Complex value) {
  switch (dtype) {
  case DP_FLOAT:
    *(float *)to = (float)creal(value);
    return;
  case DP_DOUBLE:
    *(double *)to = creal(value);
    return;
  case DP_COMPLEX64:
    *(float _Complex *)to = (float _Complex)value;
    return;
  default:
    *(double _Complex *)to = value;
  }
}

static dp_status *determinant_matrix(const dp_linalg_batch *batch, const void *const *inputs,
                                     void *const *outputs) {
  determinant found = find_determinant(batch, inputs[0]);
  if (batch->output_count == 1) {
    store(batch->state->dtype, outputs[0], found.product);
    return NULL;
  }
  store(batch->state->dtype, outputs[0], found.sign);
  store(batch->state->dtype, outputs[1], found.log_magnitude);
  return NULL;
}

static dp_status *determinant_compute(dp_op_context *context, void *memory) {
  const dp_linalg_state *state = memory;
  const dp_tensor *input = dp_op_input(context, 0);
  DP_RETURN_IF_ERROR(dp_linalg_expect_square(input, 0));
  dp_shape shape = dp_linalg_shape(&input->shape, 0, 0, 0);
  int64_t n = dp_linalg_rows(&input->shape);
  dp_linalg_batch batch = {.state = state,
                           .run = determinant_matrix,
                           .count = shape.elements,
                           .cost = n * n * n / 4 + 300,
                           .m = n,
                           .n = n};
  dp_linalg_add_input(&batch, input);
  for (int i = 0; i < context->output_count; ++i) {
    dp_tensor *output;
    DP_RETURN_IF_ERROR(dp_op_allocate(context, i, &shape, &output));
    dp_linalg_add_output(&batch, output);
  }
  return dp_linalg_run(context, &batch);
}

/* ---- LU ---- */
/* LAPACK compares complex pivots by |re| + |im|, TensorFlow by their magnitude. Users see the
 * order, so complex matrices are factored here. Column-major, as in LAPACK. */
#define ELIMINATE(name, type, magnitude)                                                           \
  static int name(type *a, int n, int *pivots) {                                                   \
    int info = 0;                                                                                  \
    for (int k = 0; k < n; ++k) {                                                                  \
      int best = k;                                                                                \
      for (int i = k + 1; i < n; ++i)                                                              \
        if (magnitude(a[(int64_t)k * n + i]) > magnitude(a[(int64_t)k * n + best]))                \
          best = i;                                                                                \
      pivots[k] = best + 1;                                                                        \
      for (int64_t j = 0; j < n && best != k; ++j) {                                               \
        type kept = a[j * n + k];                                                                  \
        a[j * n + k] = a[j * n + best];                                                            \
        a[j * n + best] = kept;                                                                    \
      }                                                                                            \
      if (a[(int64_t)k * n + k] == 0) {                                                            \
        info = k + 1;                                                                              \
        continue;                                                                                  \
      }                                                                                            \
      for (int i = k + 1; i < n; ++i)                                                              \
        a[(int64_t)k * n + i] /= a[(int64_t)k * n + k];                                            \
      for (int64_t j = k + 1; j < n; ++j)                                                          \
        for (int i = k + 1; i < n; ++i)                                                            \
          a[j * n + i] -= a[(int64_t)k * n + i] * a[j * n + k];                                    \
    }                                                                                              \
    return info;                                                                                   \
  }
ELIMINATE(eliminate_complex64, float _Complex, cabsf)
ELIMINATE(eliminate_complex128, double _Complex, cabs)
#undef ELIMINATE

static dp_status *lu_matrix(const dp_linalg_batch *batch, const void *const *inputs,
                            void *const *outputs) {
  const dp_linalg_state *state = batch->state;
  int n = (int)batch->n, info = 0;
  void *factors = dp_malloc(batch->input_bytes[0]);
  int *pivots = dp_malloc(2 * (size_t)n * sizeof(int)), *order = pivots + n;
  dp_linalg_transpose(state->dtype, inputs[0], n, n, false, factors);
  if (state->dtype == DP_COMPLEX64)
    info = eliminate_complex64(factors, n, pivots);
  else if (state->dtype == DP_COMPLEX128)
    info = eliminate_complex128(factors, n, pivots);
  else
    ((getrf_fn)state->routines[1])(&n, &n, factors, &n, pivots, &info);
  dp_linalg_transpose(state->dtype, factors, n, n, false, outputs[0]);
  for (int i = 0; i < n; ++i)
    order[i] = i;
  for (int i = 0; i < n; ++i) {
    int other = pivots[i] - 1, kept = order[i];
    order[i] = order[other];
    order[other] = kept;
  }
  for (int i = 0; i < n; ++i) {
    if (batch->output_bytes[1] == (size_t)n * sizeof(int32_t))
      ((int32_t *)outputs[1])[i] = order[i];
    else
      ((int64_t *)outputs[1])[i] = order[i];
  }
  dp_free(factors);
  dp_free(pivots);
  return info == 0 ? NULL : DP_INVALID("Input is not invertible.");
}

static dp_status *lu_compute(dp_op_context *context, void *memory) {
  const dp_linalg_state *state = memory;
  const dp_tensor *input = dp_op_input(context, 0);
  if (input->shape.rank < 2)
    return DP_INVALID("Input tensor must have rank >= 2, got %d", input->shape.rank);
  DP_RETURN_IF_ERROR(dp_linalg_expect_square(input, 0));
  dp_shape shape = input->shape;
  int64_t n = dp_linalg_rows(&shape);
  dp_shape order_shape = dp_linalg_shape(&shape, 1, n, 0);
  dp_tensor *factors, *order;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &shape, &factors));
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 1, &order_shape, &order));
  if (shape.elements == 0)
    return NULL;
  dp_linalg_batch batch = {.state = state,
                           .run = lu_matrix,
                           .count = dp_linalg_batches(&shape),
                           .cost = n * n * n / 4 + 500,
                           .m = n,
                           .n = n};
  dp_linalg_add_input(&batch, input);
  dp_linalg_add_output(&batch, factors);
  dp_linalg_add_output(&batch, order);
  return dp_linalg_run(context, &batch);
}

#define ROW(name, make, run)                                                                       \
  {                                                                                                \
    .op = name, .types = {{"T", DP_LINALG_SET}}, .state_size = sizeof(dp_linalg_state),            \
    .create = make, .compute = run                                                                 \
  }
static const dp_kernel rows[] = {
    ROW("Cholesky", square_create, cholesky_compute),
    ROW("BatchCholesky", square_create, cholesky_compute),
    ROW("MatrixInverse", square_create, inverse_compute),
    ROW("BatchMatrixInverse", square_create, inverse_compute),
    {.op = "MatrixInverse",
     .types = {{"T", DP_SET(HALF)}},
     .state_size = sizeof(dp_linalg_state),
     .create = square_create,
     .compute = inverse_compute},
    ROW("MatrixSolve", square_create, solve_compute),
    ROW("BatchMatrixSolve", square_create, solve_compute),
    ROW("MatrixTriangularSolve", triangular_create, triangular_compute),
    ROW("BatchMatrixTriangularSolve", triangular_create, triangular_compute),
    ROW("MatrixDeterminant", square_create, determinant_compute),
    ROW("BatchMatrixDeterminant", square_create, determinant_compute),
    ROW("LogMatrixDeterminant", square_create, determinant_compute),
    ROW("Lu", square_create, lu_compute),
};
DP_KERNEL_FAMILY(linalg_solve, rows);
