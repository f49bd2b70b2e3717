/* Matrices with a few diagonals: TridiagonalSolve, TridiagonalMatMul and BandedTriangularSolve.
 * Diagonals are rows as long as the matrix; elements outside it are ignored. A system without a
 * solution gives NaN, a complex one 0, as in TensorFlow. */
#include "kernels/shared/family.h"

#include <complex.h>
#include <float.h>
#include <math.h>
#include <string.h>
#include "base/memory.h"
#include "kernels/linalg/linalg_internal.h"

typedef enum solve_kind { SOLVE_STRAIGHT, SOLVE_PIVOTED, SOLVE_PERTURBED } solve_kind;

typedef struct band_call {
  int64_t bands, n, k;
  bool lower, adjoint;
} band_call;

/* clang-format off */
#define NAMED(name) name##_float
#define NO_SOLUTION NAN
#define ELEMENT float
#define REAL float
#define MAGNITUDE(x) fabsf(x)
#define CONJUGATE(x) (x)
#define REAL_PART(x) (x)
#define EPSILON FLT_EPSILON
#define SMALLEST FLT_MIN
#include "kernels/linalg/banded.tmpl.h"
#define NAMED(name) name##_double
#define NO_SOLUTION NAN
#define ELEMENT double
#define REAL double
#define MAGNITUDE(x) fabs(x)
#define CONJUGATE(x) (x)
#define REAL_PART(x) (x)
#define EPSILON DBL_EPSILON
#define SMALLEST DBL_MIN
#include "kernels/linalg/banded.tmpl.h"
#define NAMED(name) name##_complex64
#define NO_SOLUTION 0
#define ELEMENT float _Complex
#define REAL float
#define MAGNITUDE(x) cabsf(x)
#define CONJUGATE(x) conjf(x)
#define REAL_PART(x) crealf(x)
#define EPSILON FLT_EPSILON
#define SMALLEST FLT_MIN
#include "kernels/linalg/banded.tmpl.h"
#define NAMED(name) name##_complex128
#define NO_SOLUTION 0
#define ELEMENT double _Complex
#define REAL double
#define MAGNITUDE(x) cabs(x)
#define CONJUGATE(x) conj(x)
#define REAL_PART(x) creal(x)
#define EPSILON DBL_EPSILON
#define SMALLEST DBL_MIN
#include "kernels/linalg/banded.tmpl.h"

typedef struct banded_fns {
  bool (*solve)(const void *diagonals, const void *right, int64_t n, int64_t k, solve_kind kind,
                void *u, void *x);
  void (*product)(const void *const *inputs, int64_t n, int64_t k, void *to);
  void (*band_solve)(const void *bands, const void *right, const band_call *call, void *to);
  bool (*has_zero)(const void *values, int64_t count);
} banded_fns;
#define FNS(type)                                                                                  \
  {tridiagonal_solve_##type, tridiagonal_product_##type, band_solve_##type, has_zero_##type}
static const banded_fns fns_of[DP_DTYPE_END] = {[DP_FLOAT] = FNS(float), [DP_DOUBLE] = FNS(double),
                                                [DP_COMPLEX64] = FNS(complex64),
                                                [DP_COMPLEX128] = FNS(complex128)};
/* clang-format on */

static dp_status *expect_same_batches(const dp_op_context *context) {
  const dp_shape *first = &dp_op_input(context, 0)->shape;
  for (int32_t i = 0; i < context->input_count; ++i) {
    const dp_shape *shape = &dp_op_input(context, i)->shape;
    if (shape->rank != first->rank)
      return DP_INVALID("All input tensors must have the same rank.");
    DP_RETURN_IF_ERROR(dp_linalg_expect_matrices(dp_op_input(context, i), i));
    for (int d = 0; d < shape->rank - 2; ++d)
      if (shape->dims[d] != first->dims[d])
        return DP_INVALID("All input tensors must have the same outer dimensions.");
  }
  return NULL;
}

/* ---- TridiagonalSolve ---- */
typedef struct banded_state {
  dp_linalg_state linalg;
  solve_kind kind;
} banded_state;

static dp_status *solve_create(const dp_kernel_setup *setup, void *memory) {
  banded_state *state = memory;
  bool pivots, perturbs = false;
  DP_RETURN_IF_ERROR(dp_node_get_bool(setup->node, "partial_pivoting", &pivots));
  if (dp_node_attr(setup->node, "perturb_singular"))
    DP_RETURN_IF_ERROR(dp_node_get_bool(setup->node, "perturb_singular", &perturbs));
  if (perturbs && !pivots)
    return DP_INVALID("Setting perturb_singular requires also setting partial_pivoting.");
  state->kind = perturbs ? SOLVE_PERTURBED : pivots ? SOLVE_PIVOTED : SOLVE_STRAIGHT;
  return dp_linalg_init(&state->linalg, setup, NULL, 0);
}

static dp_status *solve_matrix(const dp_linalg_batch *batch, const void *const *inputs,
                               void *const *outputs) {
  dp_dtype dtype = batch->state->dtype;
  void *u = dp_malloc((size_t)(3 * batch->n) * dp_dtype_size(dtype));
  fns_of[dtype].solve(inputs[0], inputs[1], batch->n, batch->k, *(const solve_kind *)batch->extra,
                      u, outputs[0]);
  dp_free(u);
  return NULL;
}

static dp_status *solve_compute(dp_op_context *context, void *memory) {
  banded_state *state = memory;
  DP_RETURN_IF_ERROR(expect_same_batches(context));
  const dp_tensor *diagonals = dp_op_input(context, 0), *right = dp_op_input(context, 1);
  int64_t n = dp_linalg_columns(&diagonals->shape), k = dp_linalg_columns(&right->shape);
  if (dp_linalg_rows(&diagonals->shape) != 3)
    return DP_INVALID("Expected diagonals to be provided as a matrix with 3 rows, got %lld rows.",
                      (long long)dp_linalg_rows(&diagonals->shape));
  if (dp_linalg_rows(&right->shape) != n)
    return DP_INVALID("Expected the same number of left-hand sides and right-hand sides, got %lld "
                      "and %lld.",
                      (long long)n, (long long)dp_linalg_rows(&right->shape));
  dp_tensor *output;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &right->shape, &output));
  if (right->shape.elements == 0)
    return NULL;
  dp_linalg_batch batch = {.state = &state->linalg,
                           .run = solve_matrix,
                           .count = dp_linalg_batches(&right->shape),
                           .cost = n * (k + 1) * 4 + 100,
                           .m = n,
                           .n = n,
                           .k = k,
                           .extra = &state->kind};
  dp_linalg_add_input(&batch, diagonals);
  dp_linalg_add_input(&batch, right);
  dp_linalg_add_output(&batch, output);
  return dp_linalg_run(context, &batch);
}

/* ---- TridiagonalMatMul ---- */
static dp_status *product_create(const dp_kernel_setup *setup, void *memory) {
  return dp_linalg_init(memory, setup, NULL, 0);
}

static dp_status *product_matrix(const dp_linalg_batch *batch, const void *const *inputs,
                                 void *const *outputs) {
  fns_of[batch->state->dtype].product(inputs, batch->n, batch->k, outputs[0]);
  return NULL;
}

static dp_status *product_compute(dp_op_context *context, void *memory) {
  DP_RETURN_IF_ERROR(expect_same_batches(context));
  const dp_tensor *right = dp_op_input(context, 3);
  int64_t n = dp_linalg_rows(&right->shape), k = dp_linalg_columns(&right->shape);
  for (int i = 0; i < 3; ++i) {
    const dp_shape *shape = &dp_op_input(context, i)->shape;
    static const char *const names[] = {"superdiagonal", "main diagonal", "subdiagonal"};
    if (dp_linalg_rows(shape) != 1 || dp_linalg_columns(shape) != n)
      return DP_INVALID("Invalid %s shape.", names[i]);
  }
  dp_tensor *output;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &right->shape, &output));
  if (right->shape.elements == 0)
    return NULL;
  dp_linalg_batch batch = {.state = memory,
                           .run = product_matrix,
                           .count = dp_linalg_batches(&right->shape),
                           .cost = n * k * 2 + 50,
                           .m = n,
                           .n = n,
                           .k = k};
  for (int i = 0; i < 4; ++i)
    dp_linalg_add_input(&batch, dp_op_input(context, i));
  dp_linalg_add_output(&batch, output);
  return dp_linalg_run(context, &batch);
}

/* ---- BandedTriangularSolve ---- */
typedef struct bands_state {
  bool lower, adjoint;
} bands_state;

static dp_status *bands_create(const dp_kernel_setup *setup, void *memory) {
  bands_state *state = memory;
  DP_RETURN_IF_ERROR(dp_node_get_bool(setup->node, "lower", &state->lower));
  return dp_node_get_bool(setup->node, "adjoint", &state->adjoint);
}

typedef struct bands_work {
  band_call call;
  dp_shape bands_batch, right_batch, batch;
  const dp_tensor *bands, *right;
  dp_tensor *output;
} bands_work;

static void bands_range(void *arg, int64_t begin, int64_t end) {
  const bands_work *work = arg;
  const band_call *call = &work->call;
  size_t size = dp_dtype_size(work->output->dtype);
  size_t bands_bytes = (size_t)(call->bands * call->n) * size;
  size_t right_bytes = (size_t)(call->n * call->k) * size;
  for (int64_t i = begin; i < end; ++i) {
    int64_t left = dp_linalg_operand(&work->bands_batch, &work->batch, i);
    int64_t right = dp_linalg_operand(&work->right_batch, &work->batch, i);
    fns_of[work->output->dtype].band_solve((char *)work->bands->data + (size_t)left * bands_bytes,
                                           (char *)work->right->data + (size_t)right * right_bytes,
                                           call,
                                           (char *)work->output->data + (size_t)i * right_bytes);
  }
}

static dp_status *check_bands(const dp_tensor *bands, const dp_tensor *right) {
  if (bands->shape.rank < 2)
    return DP_INVALID("In[0] ndims must be >= 2: %d", bands->shape.rank);
  if (right->shape.rank < 2)
    return DP_INVALID("In[1] ndims must be >= 2: %d", right->shape.rank);
  if (bands->shape.elements == 0 || right->shape.elements == 0)
    return DP_INVALID("In[%d] must not be an empty tensor", bands->shape.elements == 0 ? 0 : 1);
  return NULL;
}

static dp_status *bands_compute(dp_op_context *context, void *memory) {
  const bands_state *state = memory;
  const dp_tensor *bands = dp_op_input(context, 0), *right = dp_op_input(context, 1);
  DP_RETURN_IF_ERROR(check_bands(bands, right));
  bands_work work = {.call = {.bands = dp_linalg_rows(&bands->shape),
                              .n = dp_linalg_columns(&bands->shape),
                              .k = dp_linalg_columns(&right->shape),
                              .lower = state->lower,
                              .adjoint = state->adjoint},
                     .bands_batch = dp_shape_of(bands->shape.rank - 2, bands->shape.dims),
                     .right_batch = dp_shape_of(right->shape.rank - 2, right->shape.dims),
                     .bands = bands,
                     .right = right};
  const band_call *call = &work.call;
  if (!dp_shape_broadcast(&work.bands_batch, &work.right_batch, &work.batch))
    return DP_INVALID("In[0] and In[1] must have compatible batch dimensions: %s vs. %s",
                      dp_shape_text(&bands->shape), dp_shape_text(&right->shape));
  if (call->n != dp_linalg_rows(&right->shape))
    return DP_INVALID("In[0] mismatch In[1] shape: %lld vs. %lld: %s %s %d %d", (long long)call->n,
                      (long long)dp_linalg_rows(&right->shape), dp_shape_text(&bands->shape),
                      dp_shape_text(&right->shape), state->lower, state->adjoint);
  size_t main = (size_t)(state->lower ? 0 : (call->bands - 1) * call->n);
  if (fns_of[bands->dtype].has_zero((char *)bands->data + main * dp_dtype_size(bands->dtype),
                                    call->n))
    return DP_INVALID("Input matrix is not invertible.");
  int64_t dims[DP_MAX_RANK];
  dp_shape shape;
  memcpy(dims, work.batch.dims, sizeof dims);
  dims[work.batch.rank] = call->n;
  dims[work.batch.rank + 1] = call->k;
  DP_RETURN_IF_ERROR(dp_shape_make(work.batch.rank + 2, dims, &shape));
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &shape, &work.output));
  dp_op_for(context, work.batch.elements, call->n * call->k * call->bands + 50, bands_range, &work);
  return NULL;
}

static const dp_kernel rows[] = {
    {.op = "TridiagonalSolve",
     .types = {{"T", DP_LINALG_SET}},
     .state_size = sizeof(banded_state),
     .create = solve_create,
     .compute = solve_compute},
    {.op = "TridiagonalMatMul",
     .types = {{"T", DP_LINALG_SET}},
     .state_size = sizeof(dp_linalg_state),
     .create = product_create,
     .compute = product_compute},
    {.op = "BandedTriangularSolve",
     .types = {{"T", DP_LINALG_SET}},
     .state_size = sizeof(bands_state),
     .create = bands_create,
     .compute = bands_compute},
};
DP_KERNEL_FAMILY(linalg_banded, rows);
