/* Functions of square matrices: MatrixSquareRoot, MatrixLogarithm and MatrixExponential; and Eig,
 * the eigenvalues of general matrices.
 *
 * With LAPACK's Schur form A = Q T Q^H, where T is upper triangular, f(A) = Q f(T) Q^H.
 * - square root of T: column by column (Bjorck and Hammarling)
 * - logarithm: square roots until T is close to 1, then a rational approximation
 * - exponential: T is halved until it is small, then a series, then as many squarings
 * Everything is computed in complex doubles for every dtype. */
#include "kernels/shared/family.h"

#include <complex.h>
#include <math.h>
#include <string.h>
#include "base/memory.h"
#include "kernels/linalg/linalg_internal.h"
#include "kernels/products/blas.h"
#include "kernels/products/gemm.h"

typedef double _Complex number;

typedef void (*gees_fn)(const char *vectors, const char *sorted, void *select, const int *n,
                        void *a, const int *lda, int *selected, void *values, void *vectors_to,
                        const int *ldvs, void *work, const int *work_size, double *more,
                        void *flags, int *info, size_t first, size_t second);
typedef void (*geev_fn)(const char *left, const char *right, const int *n, void *a, const int *lda,
                        void *values, void *left_to, const int *ldl, void *right_to, const int *ldr,
                        void *work, const int *work_size, double *more, int *info, size_t first,
                        size_t second);

/* ---- Elements ---- */
static number load(dp_dtype dtype, const void *values, int64_t i) {
  switch (dtype) {
  case DP_FLOAT:
    return (double)((const float *)values)[i];
  case DP_DOUBLE:
    return ((const double *)values)[i];
  case DP_COMPLEX64:
    return (number)((const float _Complex *)values)[i];
  default:
    return ((const number *)values)[i];
  }
}

static void store(dp_dtype dtype, void *values, int64_t i, number value) {
  switch (dtype) {
  case DP_FLOAT:
    ((float *)values)[i] = (float)creal(value);
    return;
  case DP_DOUBLE:
    ((double *)values)[i] = creal(value);
    return;
  case DP_COMPLEX64:
    ((float _Complex *)values)[i] = (float _Complex)value;
    return;
  default:
    ((number *)values)[i] = value;
  }
}

/* Column-major, as LAPACK wants it. */
static void load_columns(dp_dtype dtype, const void *from, int64_t n, number *to) {
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < n; ++j)
      to[j * n + i] = load(dtype, from, i * n + j);
}

static bool is_finite(const number *values, int64_t count) {
  bool good = true;
  for (int64_t i = 0; i < count; ++i)
    good &= isfinite(creal(values[i])) && isfinite(cimag(values[i]));
  return good;
}

/* ---- Upper triangles, by rows ---- */
static void root_of_triangle(const number *t, int64_t n, number *r, number *spare) {
  (void)spare;
  memset(r, 0, (size_t)(n * n) * sizeof *r);
  for (int64_t j = 0; j < n; ++j) {
    r[j * n + j] = csqrt(t[j * n + j]);
    for (int64_t i = j - 1; i >= 0; --i) {
      number sum = t[i * n + j];
      for (int64_t k = i + 1; k < j; ++k)
        sum -= r[i * n + k] * r[k * n + j];
      number by = r[i * n + i] + r[j * n + j];
      r[i * n + j] = sum == 0 ? 0 : sum / by;
    }
  }
}

static double distance_from_one(const number *t, int64_t n) {
  double largest = 0;
  for (int64_t j = 0; j < n; ++j) {
    double sum = 0;
    for (int64_t i = 0; i <= j; ++i)
      sum += cabs(t[i * n + j] - (i == j));
    largest = fmax(largest, sum);
  }
  return largest;
}

/* Adds weight * x (1 + place x)^-1 to the sums; all matrices are upper triangular. */
static void add_fraction(const number *x, int64_t n, double place, double weight, number *column,
                         number *sums) {
  for (int64_t j = 0; j < n; ++j) {
    for (int64_t i = j; i >= 0; --i) {
      number sum = x[i * n + j];
      for (int64_t k = i + 1; k <= j; ++k)
        sum -= place * x[i * n + k] * column[k];
      column[i] = sum / (1 + place * x[i * n + i]);
      sums[i * n + j] += weight * column[i];
    }
  }
}

#define POINTS 8
/* Nodes and weights of Gauss's quadrature on [0, 1]. */
static void make_quadrature(double *places, double *weights) {
  for (int i = 0; i < POINTS; ++i) {
    double x = cos(M_PI * (i + 0.75) / (POINTS + 0.5)), slope = 1;
    for (int step = 0; step < 20; ++step) {
      double before = 1, value = x;
      for (int k = 2; k <= POINTS; ++k) {
        double next = ((2 * k - 1) * x * value - (k - 1) * before) / k;
        before = value;
        value = next;
      }
      slope = POINTS * (x * value - before) / (x * x - 1);
      x -= value / slope;
    }
    places[i] = (1 + x) / 2;
    weights[i] = 1 / ((1 - x * x) * slope * slope);
  }
}

/* `spare` has room for two matrices. */
static void log_of_triangle(const number *t, int64_t n, number *result, number *spare) {
  number *x = spare, *root = spare + n * n;
  double places[POINTS], weights[POINTS], scale = 1;
  memcpy(x, t, (size_t)(n * n) * sizeof *x);
  for (int step = 0; step < 100 && distance_from_one(x, n) > 0.25; ++step, scale *= 2) {
    root_of_triangle(x, n, root, NULL);
    memcpy(x, root, (size_t)(n * n) * sizeof *x);
  }
  for (int64_t i = 0; i < n; ++i)
    x[i * n + i] -= 1;
  make_quadrature(places, weights);
  memset(result, 0, (size_t)(n * n) * sizeof *result);
  for (int i = 0; i < POINTS; ++i)
    add_fraction(x, n, places[i], weights[i], root, result);
  for (int64_t i = 0; i < n * n; ++i)
    result[i] *= scale;
  for (int64_t i = 0; i < n; ++i)
    result[i * n + i] = clog(t[i * n + i]);
}

static double size_of_triangle(const number *t, int64_t n) {
  double largest = 0;
  for (int64_t j = 0; j < n; ++j) {
    double sum = 0;
    for (int64_t i = 0; i <= j; ++i)
      sum += cabs(t[i * n + j]);
    largest = fmax(largest, sum);
  }
  return largest;
}

/* to = a b; all matrices are upper triangular. */
static void multiply_triangles(const number *a, const number *b, int64_t n, number *to) {
  memset(to, 0, (size_t)(n * n) * sizeof *to);
  for (int64_t i = 0; i < n; ++i)
    for (int64_t k = i; k < n; ++k)
      for (int64_t j = k; j < n; ++j)
        to[i * n + j] += a[i * n + k] * b[k * n + j];
}

#define TERMS 18 /* exact in double for triangles of norm 1/2 */
/* `spare` has room for two matrices. */
static void exp_of_triangle(const number *t, int64_t n, number *result, number *spare) {
  number *x = spare, *product = spare + n * n;
  int halves = 0;
  frexp(size_of_triangle(t, n), &halves);
  halves = halves > -1 ? halves + 1 : 0;
  for (int64_t i = 0; i < n * n; ++i)
    x[i] = t[i] * ldexp(1, -halves);
  memset(result, 0, (size_t)(n * n) * sizeof *result);
  for (int term = TERMS; term >= 0; --term) {
    multiply_triangles(x, result, n, product);
    for (int64_t i = 0; i < n * n; ++i)
      result[i] = product[i] / (term + 1);
    for (int64_t i = 0; i < n; ++i)
      result[i * n + i] += 1;
  }
  for (int i = 0; i < halves; ++i) {
    multiply_triangles(result, result, n, product);
    memcpy(result, product, (size_t)(n * n) * sizeof *result);
  }
}

/* ---- Functions ---- */
/* The last argument has room for two matrices. */
typedef void (*triangle_fn)(const number *t, int64_t n, number *result, number *spare);

typedef struct function_state {
  dp_linalg_state linalg; /* its routine is the one for complex doubles */
  triangle_fn of_triangle;
  bool wants_vectors;
  dp_dtype result;
} function_state;

static dp_status *find_routine(function_state *state, const dp_kernel_setup *setup,
                               const char *name) {
  void *found = dp_blas_find(name);
  DP_RETURN_IF_ERROR(dp_node_get_type(setup->node, "T", &state->linalg.dtype));
  if (!found)
    return dp_status_create(
        DP_UNIMPLEMENTED, "%s needs a threaded OpenBLAS with LAPACK (%s), which this machine lacks",
        setup->node->op->name, name);
  memcpy(&state->linalg.routines[0], &found, sizeof found);
  return NULL;
}

static dp_status *function_create(const dp_kernel_setup *setup, void *memory) {
  function_state *state = memory;
  state->of_triangle = dp_node_is(setup->node, "MatrixLogarithm")     ? log_of_triangle
                       : dp_node_is(setup->node, "MatrixExponential") ? exp_of_triangle
                                                                      : root_of_triangle;
  return find_routine(state, setup, "zgees_");
}

/* to = a b, or to = a b^H. */
static void multiply(const number *a, const number *b, bool adjoint, int64_t n, number *to) {
  dp_gemm gemm = {.dtype = DP_COMPLEX128,
                  .m = n,
                  .n = n,
                  .k = n,
                  .a = a,
                  .b = b,
                  .c = to,
                  .a_stride = n,
                  .b_stride = n,
                  .c_stride = n,
                  .transpose_b = adjoint,
                  .conjugate_b = adjoint};
  dp_gemm_run(&gemm);
}

static void transpose(number *a, int64_t n) {
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < i; ++j) {
      number held = a[i * n + j];
      a[i * n + j] = a[j * n + i];
      a[j * n + i] = held;
    }
}

static dp_status *function_matrix(const dp_linalg_batch *batch, const void *const *inputs,
                                  void *const *outputs) {
  const function_state *state = batch->extra;
  int n = (int)batch->n, selected = 0, info = 0, work_size = 34 * n;
  int64_t size = batch->n * batch->n;
  number *a = dp_malloc((size_t)(5 * size) * sizeof *a), *q = a + size, *f = q + size;
  number *values = dp_malloc((size_t)(n + work_size) * sizeof *values);
  double *more = dp_malloc((size_t)n * sizeof *more);
  load_columns(state->linalg.dtype, inputs[0], n, a);
  if (is_finite(a, size))
    ((gees_fn)state->linalg.routines[0])("V", "N", NULL, &n, a, &n, &selected, values, q, &n,
                                         values + n, &work_size, more, NULL, &info, 1, 1);
  else
    memset(q, 0, (size_t)size * sizeof *q);
  transpose(a, n);
  transpose(q, n);
  for (int64_t i = 1; i < n; ++i)
    memset(a + i * n, 0, (size_t)i * sizeof *a);
  state->of_triangle(a, n, f, f + size);
  multiply(q, f, false, n, a);
  multiply(a, q, true, n, f);
  for (int64_t i = 0; i < size; ++i)
    store(state->linalg.dtype, outputs[0], i, f[i]);
  dp_free(a);
  dp_free(values);
  dp_free(more);
  return info == 0 ? NULL : DP_INVALID("The Schur decomposition did not converge.");
}

static dp_status *function_compute(dp_op_context *context, void *memory) {
  const function_state *state = memory;
  const dp_tensor *input = dp_op_input(context, 0);
  DP_RETURN_IF_ERROR(dp_linalg_expect_square(input, 0));
  dp_tensor *output;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &input->shape, &output));
  if (input->shape.elements == 0)
    return NULL;
  int64_t n = dp_linalg_rows(&input->shape);
  dp_linalg_batch batch = {.state = &state->linalg,
                           .run = function_matrix,
                           .count = dp_linalg_batches(&input->shape),
                           .cost = n * n * n * 30 + 2000,
                           .m = n,
                           .n = n,
                           .extra = state};
  dp_linalg_add_input(&batch, input);
  dp_linalg_add_output(&batch, output);
  return dp_linalg_run(context, &batch);
}

/* ---- Eig ---- */
static dp_status *eigen_create(const dp_kernel_setup *setup, void *memory) {
  function_state *state = memory;
  DP_RETURN_IF_ERROR(dp_node_get_bool(setup->node, "compute_v", &state->wants_vectors));
  DP_RETURN_IF_ERROR(dp_node_get_type(setup->node, "Tout", &state->result));
  return find_routine(state, setup, "zgeev_");
}

static dp_status *eigen_matrix(const dp_linalg_batch *batch, const void *const *inputs,
                               void *const *outputs) {
  const function_state *state = batch->extra;
  int n = (int)batch->n, info = 0, work_size = 34 * n;
  int64_t size = batch->n * batch->n;
  number *a = dp_malloc((size_t)(2 * size) * sizeof *a), *vectors = a + size;
  number *values = dp_malloc((size_t)(n + work_size) * sizeof *values);
  double *more = dp_malloc(2 * (size_t)n * sizeof *more);
  load_columns(state->linalg.dtype, inputs[0], n, a);
  bool good = is_finite(a, size);
  if (good)
    ((geev_fn)state->linalg.routines[0])("N", state->wants_vectors ? "V" : "N", &n, a, &n, values,
                                         NULL, &n, vectors, &n, values + n, &work_size, more, &info,
                                         1, 1);
  good = good && info == 0;
  for (int64_t i = 0; i < n && good; ++i) {
    store(state->result, outputs[0], i, values[i]);
    for (int64_t j = 0; j < n && state->wants_vectors; ++j)
      store(state->result, outputs[1], i * n + j, vectors[j * n + i]);
  }
  dp_free(a);
  dp_free(values);
  dp_free(more);
  return good ? NULL
              : DP_INVALID("Eigen decomposition was not successful. The input might not be valid.");
}

static dp_status *eigen_compute(dp_op_context *context, void *memory) {
  const function_state *state = memory;
  const dp_tensor *input = dp_op_input(context, 0);
  DP_RETURN_IF_ERROR(dp_linalg_expect_square(input, 0));
  int64_t n = dp_linalg_rows(&input->shape);
  dp_shape values_shape = dp_linalg_shape(&input->shape, 1, n, 0);
  dp_shape none = dp_linalg_shape(&input->shape, 0, 0, 0);
  dp_tensor *values, *vectors;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &values_shape, &values));
  DP_RETURN_IF_ERROR(
      dp_op_allocate(context, 1, state->wants_vectors ? &input->shape : &none, &vectors));
  memset(vectors->data, 0, dp_tensor_bytes(vectors));
  if (input->shape.elements == 0)
    return NULL;
  dp_linalg_batch batch = {.state = &state->linalg,
                           .run = eigen_matrix,
                           .count = dp_linalg_batches(&input->shape),
                           .cost = n * n * n * 25 + 2000,
                           .m = n,
                           .n = n,
                           .extra = state};
  dp_linalg_add_input(&batch, input);
  dp_linalg_add_output(&batch, values);
  if (state->wants_vectors)
    dp_linalg_add_output(&batch, vectors);
  return dp_linalg_run(context, &batch);
}

#define ROW(name, set, make, body)                                                                 \
  {                                                                                                \
    .op = name, .types = {{"T", set}}, .state_size = sizeof(function_state), .create = make,       \
    .compute = body                                                                                \
  }
static const dp_kernel rows[] = {
    ROW("MatrixSquareRoot", DP_LINALG_SET, function_create, function_compute),
    ROW("MatrixLogarithm", DP_SET_COMPLEX, function_create, function_compute),
    ROW("MatrixExponential", DP_LINALG_SET, function_create, function_compute),
    ROW("Eig", DP_LINALG_SET, eigen_create, eigen_compute),
};
DP_KERNEL_FAMILY(linalg_function, rows);
