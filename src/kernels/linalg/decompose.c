/* Decompositions of rectangular and symmetric matrices with LAPACK: QR, singular values and
 * eigenvalues. Matrices are transposed to LAPACK's columns and back where the result depends on
 * it. */
#include "kernels/shared/family.h"

#include <string.h>
#include "kernels/linalg/linalg_internal.h"

typedef void (*geqrf_fn)(const int *m, const int *n, void *a, const int *lda, void *tau, void *work,
                         const int *work_size, int *info);
typedef void (*orgqr_fn)(const int *m, const int *n, const int *k, void *a, const int *lda,
                         const void *tau, void *work, const int *work_size, int *info);
typedef void (*gesvd_fn)(const char *u, const char *v, const int *m, const int *n, void *a,
                         const int *lda, void *s, void *u_to, const int *ldu, void *v_to,
                         const int *ldv, void *work, const int *work_size, void *more, void *last,
                         size_t first, size_t second);
typedef void (*syev_fn)(const char *kind, const char *half, const int *n, void *a, const int *lda,
                        void *values, void *work, const int *work_size, void *more, void *last,
                        size_t first, size_t second);

static dp_status *create(const dp_kernel_setup *setup, void *memory) {
  static const char *const names[] = {"geqrf", "orgqr", "gesvd", "syev"};
  static const char *const flags[] = {"full_matrices", "compute_uv", "compute_v"};
  dp_linalg_state *state = memory;
  for (int i = 0; i < 3; ++i)
    if (dp_node_attr(setup->node, flags[i]))
      DP_RETURN_IF_ERROR(dp_node_get_bool(setup->node, flags[i], &state->flags[i]));
  return dp_linalg_init(state, setup, names, 4);
}

static int64_t least(int64_t a, int64_t b) {
  return a < b ? a : b;
}

/* ---- QR ---- */
static dp_status *qr_matrix(const dp_linalg_batch *batch, const void *const *inputs,
                            void *const *outputs) {
  const dp_linalg_state *state = batch->state;
  int m = (int)batch->m, n = (int)batch->n, k = (int)least(m, n), info = 0;
  int columns = state->flags[0] ? m : k, widest = columns > n ? columns : n;
  size_t size = dp_dtype_size(state->dtype);
  int work_size = widest * 32;
  char *a = dp_malloc((size_t)m * (size_t)widest * size);
  char *work = dp_malloc((size_t)(work_size + k) * size), *tau = work + (size_t)work_size * size;
  dp_linalg_transpose(state->dtype, inputs[0], m, n, false, a);
  ((geqrf_fn)state->routines[0])(&m, &n, a, &m, tau, work, &work_size, &info);
  for (int i = 0; i < columns; ++i)
    for (int j = 0; j < n; ++j) {
      char *to = (char *)outputs[1] + ((size_t)i * (size_t)n + (size_t)j) * size;
      if (j < i)
        memset(to, 0, size);
      else
        memcpy(to, a + ((size_t)j * (size_t)m + (size_t)i) * size, size);
    }
  ((orgqr_fn)state->routines[1])(&m, &columns, &k, a, &m, tau, work, &work_size, &info);
  dp_linalg_transpose(state->dtype, a, columns, m, false, outputs[0]);
  dp_free(a);
  dp_free(work);
  return NULL;
}

static dp_status *qr_compute(dp_op_context *context, void *memory) {
  const dp_linalg_state *state = memory;
  const dp_tensor *input = dp_op_input(context, 0);
  DP_RETURN_IF_ERROR(dp_linalg_expect_matrices(input, 0));
  int64_t m = dp_linalg_rows(&input->shape), n = dp_linalg_columns(&input->shape);
  int64_t inner = state->flags[0] ? m : least(m, n), batches = dp_linalg_batches(&input->shape);
  dp_shape q_shape = dp_linalg_shape(&input->shape, 2, m, inner);
  dp_shape r_shape = dp_linalg_shape(&input->shape, 2, inner, n);
  dp_tensor *q, *r;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &q_shape, &q));
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 1, &r_shape, &r));
  size_t size = dp_dtype_size(state->dtype);
  if (m * n == 0) {
    for (int64_t i = 0; i < batches && m == inner; ++i)
      dp_linalg_set_identity(state->dtype, (char *)q->data + (size_t)(i * m * m) * size, m);
    return NULL;
  }
  dp_linalg_batch batch = {.state = state,
                           .run = qr_matrix,
                           .count = batches,
                           .cost = m * n * inner / 2 + 1000,
                           .m = m,
                           .n = n};
  dp_linalg_add_input(&batch, input);
  dp_linalg_add_output(&batch, q);
  dp_linalg_add_output(&batch, r);
  return dp_linalg_run(context, &batch);
}

/* ---- Singular values ---- */
/* A row-major [m, n] is A' to LAPACK: A' = V S U', so its left vectors are V and its right ones,
 * which come transposed, are U' in columns, that is U in rows. */
static dp_status *svd_matrix(const dp_linalg_batch *batch, const void *const *inputs,
                             void *const *outputs) {
  const dp_linalg_state *state = batch->state;
  dp_dtype dtype = state->dtype;
  bool wants = state->flags[1], full = state->flags[0], is_complex = dp_dtype_is_complex(dtype);
  int m = (int)batch->m, n = (int)batch->n, p = (int)least(m, n), info = 0;
  int v_columns = full ? n : p, u_rows = full ? m : p;
  size_t size = dp_dtype_size(dtype), real = dp_dtype_size(dp_linalg_real(dtype));
  int work_size = 10 * (m + n) + 3 * p * 32 + 64;
  char *a = dp_malloc(batch->input_bytes[0]), *work = dp_malloc((size_t)work_size * size);
  char *more = dp_malloc((size_t)(5 * p + 1) * real), *s = dp_malloc((size_t)p * real);
  char *v = dp_malloc((size_t)n * (size_t)v_columns * size);
  char *u = dp_malloc((size_t)m * (size_t)u_rows * size);
  memcpy(a, inputs[0], batch->input_bytes[0]);
  const char *kind = !wants ? "N" : full ? "A" : "S";
  int u_stride = wants ? u_rows : 1;
  gesvd_fn gesvd = (gesvd_fn)state->routines[2];
  if (is_complex)
    gesvd(kind, kind, &n, &m, a, &n, s, v, &n, u, &u_stride, work, &work_size, more, &info, 1, 1);
  else
    gesvd(kind, kind, &n, &m, a, &n, s, v, &n, u, &u_stride, work, &work_size, &info, NULL, 1, 1);
  for (int i = 0; i < p; ++i)
    dp_linalg_set(dtype, outputs[0], i, real == 4 ? ((float *)s)[i] : ((double *)s)[i]);
  if (wants) {
    /* A = U S V^H: LAPACK's left vectors of A' are conj(V), the right ones U', in columns. */
    memcpy(outputs[1], u, (size_t)m * (size_t)u_rows * size);
    dp_linalg_transpose(dtype, v, v_columns, n, true, outputs[2]);
  }
  char *const all[] = {a, work, more, s, v, u};
  for (int i = 0; i < 6; ++i)
    dp_free(all[i]);
  return info == 0 ? NULL : DP_INVALID("Singular values did not converge.");
}

static bool is_finite(dp_dtype dtype, const void *values, int64_t count) {
  double sum = 0;
  int64_t total = dp_dtype_is_complex(dtype) ? 2 * count : count;
  for (int64_t i = 0; i < total; ++i)
    sum += 0 * (dp_linalg_real(dtype) == DP_FLOAT ? ((const float *)values)[i]
                                                  : ((const double *)values)[i]);
  return sum == 0;
}

/* LAPACK may not terminate on NaN; TensorFlow gives NaN everywhere. */
static dp_status *svd_guarded(const dp_linalg_batch *batch, const void *const *inputs,
                              void *const *outputs) {
  dp_dtype dtype = batch->state->dtype;
  if (is_finite(dtype, inputs[0], batch->m * batch->n))
    return svd_matrix(batch, inputs, outputs);
  for (int i = 0; i < batch->output_count; ++i)
    for (size_t k = 0; k < batch->output_bytes[i] / dp_dtype_size(dtype); ++k)
      dp_linalg_set(dtype, outputs[i], (int64_t)k, 0.0 / 0.0);
  return NULL;
}

static dp_status *svd_compute(dp_op_context *context, void *memory) {
  const dp_linalg_state *state = memory;
  const dp_tensor *input = dp_op_input(context, 0);
  DP_RETURN_IF_ERROR(dp_linalg_expect_matrices(input, 0));
  bool wants = state->flags[1], full = state->flags[0];
  int64_t m = dp_linalg_rows(&input->shape), n = dp_linalg_columns(&input->shape);
  int64_t p = least(m, n), batches = dp_linalg_batches(&input->shape);
  dp_shape shapes[] = {dp_linalg_shape(&input->shape, 1, p, 0),
                       dp_linalg_shape(&input->shape, 2, m, full ? m : p),
                       dp_linalg_shape(&input->shape, 2, n, full ? n : p)};
  size_t size = dp_dtype_size(state->dtype);
  dp_linalg_batch batch = {.state = state,
                           .run = svd_guarded,
                           .count = batches,
                           .cost = m * n * p * 4 + 2000,
                           .m = m,
                           .n = n};
  dp_linalg_add_input(&batch, input);
  for (int i = 0; i < 3; ++i) {
    dp_tensor *output;
    dp_shape none = dp_shape_scalar();
    DP_RETURN_IF_ERROR(dp_op_allocate(context, i, i > 0 && !wants ? &none : &shapes[i], &output));
    if (i == 0 || wants)
      dp_linalg_add_output(&batch, output);
    else
      memset(output->data, 0, dp_tensor_bytes(output));
  }
  if (m * n > 0)
    return dp_linalg_run(context, &batch);
  for (int64_t i = 0; i < batches && wants && full; ++i) {
    dp_linalg_set_identity(state->dtype, (char *)batch.outputs[1] + (size_t)(i * m * m) * size, m);
    dp_linalg_set_identity(state->dtype, (char *)batch.outputs[2] + (size_t)(i * n * n) * size, n);
  }
  return NULL;
}

/* ---- Eigenvalues of Hermitian matrices, from the lower half ---- */
static dp_status *eigen_matrix(const dp_linalg_batch *batch, const void *const *inputs,
                               void *const *outputs) {
  const dp_linalg_state *state = batch->state;
  dp_dtype dtype = state->dtype;
  int n = (int)batch->n, info = 0, work_size = n * 34 + 64;
  size_t size = dp_dtype_size(dtype), real = dp_dtype_size(dp_linalg_real(dtype));
  char *a = dp_malloc(batch->input_bytes[0]), *work = dp_malloc((size_t)work_size * size);
  char *more = dp_malloc((size_t)(3 * n + 1) * real), *values = dp_malloc((size_t)n * real);
  dp_linalg_transpose(dtype, inputs[0], n, n, false, a);
  syev_fn syev = (syev_fn)state->routines[3];
  const char *kind = state->flags[2] ? "V" : "N";
  if (dp_dtype_is_complex(dtype))
    syev(kind, "L", &n, a, &n, values, work, &work_size, more, &info, 1, 1);
  else
    syev(kind, "L", &n, a, &n, values, work, &work_size, &info, NULL, 1, 1);
  for (int i = 0; i < n; ++i)
    dp_linalg_set(dtype, outputs[0], i, real == 4 ? ((float *)values)[i] : ((double *)values)[i]);
  if (state->flags[2])
    dp_linalg_transpose(dtype, a, n, n, false, outputs[1]);
  dp_free(a);
  dp_free(work);
  dp_free(more);
  dp_free(values);
  return info == 0 ? NULL
                   : DP_INVALID("Self-adjoint eigen decomposition was not successful. The input "
                                "might not be valid.");
}

static dp_status *eigen_compute(dp_op_context *context, void *memory) {
  const dp_linalg_state *state = memory;
  const dp_tensor *input = dp_op_input(context, 0);
  DP_RETURN_IF_ERROR(dp_linalg_expect_square(input, 0));
  dp_shape shape = input->shape, none = dp_shape_scalar();
  int64_t n = dp_linalg_rows(&shape);
  dp_shape values_shape = dp_linalg_shape(&shape, 1, n, 0);
  dp_tensor *values, *vectors;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &values_shape, &values));
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 1, state->flags[2] ? &shape : &none, &vectors));
  if (!state->flags[2])
    memset(vectors->data, 0, dp_tensor_bytes(vectors));
  if (shape.elements == 0)
    return NULL;
  dp_linalg_batch batch = {.state = state,
                           .run = eigen_matrix,
                           .count = dp_linalg_batches(&shape),
                           .cost = n * n * n * 4 + 2000,
                           .m = n,
                           .n = n};
  dp_linalg_add_input(&batch, input);
  dp_linalg_add_output(&batch, values);
  if (state->flags[2])
    dp_linalg_add_output(&batch, vectors);
  return dp_linalg_run(context, &batch);
}

/* The first version has one output: the eigenvalues in the first row, the vectors below. */
static dp_status *eigen_joined_create(const dp_kernel_setup *setup, void *memory) {
  ((dp_linalg_state *)memory)->flags[2] = true;
  return create(setup, memory);
}

static dp_status *eigen_joined_compute(dp_op_context *context, void *memory) {
  const dp_linalg_state *state = memory;
  const dp_tensor *input = dp_op_input(context, 0);
  DP_RETURN_IF_ERROR(dp_linalg_expect_square(input, 0));
  int64_t n = dp_linalg_rows(&input->shape);
  dp_shape shape = dp_linalg_shape(&input->shape, 2, n + 1, n);
  dp_tensor *output;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &shape, &output));
  if (shape.elements == 0)
    return NULL;
  size_t row = (size_t)n * dp_dtype_size(state->dtype), bytes = (size_t)(n + 1) * row;
  dp_linalg_batch batch = {.state = state,
                           .run = eigen_matrix,
                           .count = dp_linalg_batches(&input->shape),
                           .cost = n * n * n * 4 + 2000,
                           .m = n,
                           .n = n,
                           .input_count = 1,
                           .output_count = 2,
                           .inputs = {input->data},
                           .input_bytes = {(size_t)n * row},
                           .outputs = {output->data, (char *)output->data + row},
                           .output_bytes = {bytes, bytes}};
  return dp_linalg_run(context, &batch);
}

#define ROW(name, run)                                                                             \
  {                                                                                                \
    .op = name, .types = {{"T", DP_LINALG_SET}}, .state_size = sizeof(dp_linalg_state),            \
    .create = create, .compute = run                                                               \
  }
#define OLD_ROW(name)                                                                              \
  {                                                                                                \
    .op = name, .types = {{"T", DP_SET(FLOAT) | DP_SET(DOUBLE)}},                                  \
    .state_size = sizeof(dp_linalg_state), .create = eigen_joined_create,                          \
    .compute = eigen_joined_compute                                                                \
  }
static const dp_kernel rows[] = {
    ROW("Qr", qr_compute),
    ROW("Svd", svd_compute),
    ROW("BatchSvd", svd_compute),
    ROW("SelfAdjointEigV2", eigen_compute),
    ROW("BatchSelfAdjointEigV2", eigen_compute),
    OLD_ROW("SelfAdjointEig"),
    OLD_ROW("BatchSelfAdjointEig"),
};
DP_KERNEL_FAMILY(linalg_decompose, rows);
