/* MatMul and BatchMatMul: products of matrices, and of batches whose leading dimensions may be
 * broadcast. 16-bit floats are widened to float, and 8-bit integers to int32, as a whole before the
 * product. When there are many matrices, the pool shares them; otherwise it shares each product. */
#include "kernels/shared/family.h"

#include <string.h>
#include "base/thread.h"
#include "kernels/linalg/linalg_internal.h"
#include "kernels/products/gemm.h"
#include "kernels/shared/widen.h"

typedef enum matmul_rules { RULES_PLAIN, RULES_BATCH, RULES_BROADCAST } matmul_rules;

typedef struct matmul_state {
  dp_dtype work; /* dtype of the product */
  bool transpose_a, transpose_b;
  bool adjoint; /* transposing also conjugates */
  matmul_rules rules;
} matmul_state;

static dp_status *matmul_create(const dp_kernel_setup *setup, void *memory) {
  matmul_state *state = memory;
  const dp_node *node = setup->node;
  state->work = dp_kernel_work_type(dp_dtype_base(node->output_types[0]));
  if (dp_node_is(node, "MatMul")) {
    DP_RETURN_IF_ERROR(dp_node_get_bool(node, "transpose_a", &state->transpose_a));
    return dp_node_get_bool(node, "transpose_b", &state->transpose_b);
  }
  state->adjoint = dp_dtype_is_complex(state->work);
  state->rules = dp_node_is(node, "BatchMatMul") ? RULES_BATCH : RULES_BROADCAST;
  DP_RETURN_IF_ERROR(dp_node_get_bool(node, "adj_x", &state->transpose_a));
  return dp_node_get_bool(node, "adj_y", &state->transpose_b);
}

/* ---- Shapes ---- */
static dp_status *check_ranks(const matmul_state *state, const dp_shape *a, const dp_shape *b) {
  if (state->rules == RULES_BROADCAST) {
    if (a->rank < 2)
      return DP_INVALID("In[0] ndims must be >= 2: %d", a->rank);
    if (b->rank < 2)
      return DP_INVALID("In[1] ndims must be >= 2: %d", b->rank);
    return NULL;
  }
  if (a->rank != b->rank)
    return DP_INVALID("In[0] and In[1] has different ndims: %s vs. %s", dp_shape_text(a),
                      dp_shape_text(b));
  if (state->rules == RULES_PLAIN && a->rank != 2)
    return DP_INVALID("In[0] and In[1] ndims must be == 2: %d", a->rank);
  if (a->rank < 2)
    return DP_INVALID("In[0] and In[1] ndims must be >= 2: %d", a->rank);
  for (int i = 0; i < a->rank - 2; ++i)
    if (a->dims[i] != b->dims[i])
      return DP_INVALID("In[0].dim(%d) and In[1].dim(%d) must be the same: %s vs %s", i, i,
                        dp_shape_text(a), dp_shape_text(b));
  return NULL;
}

static dp_shape batch_shape(const dp_shape *shape) {
  return dp_shape_of(shape->rank - 2, shape->dims);
}

/* ---- Products ---- */
typedef struct batch {
  dp_gemm gemm; /* of the first matrices */
  const dp_shape *a, *b, *c;
  dp_shape a_batch, b_batch, c_batch;
} batch;

static dp_gemm gemm_at(const batch *work, int64_t index) {
  dp_gemm gemm = work->gemm;
  int64_t size = (int64_t)dp_dtype_size(gemm.dtype);
  int64_t a = dp_linalg_operand(&work->a_batch, &work->c_batch, index);
  int64_t b = dp_linalg_operand(&work->b_batch, &work->c_batch, index);
  gemm.a = (const char *)gemm.a + a * gemm.m * gemm.k * size;
  gemm.b = (const char *)gemm.b + b * gemm.k * gemm.n * size;
  gemm.c = (char *)gemm.c + index * gemm.m * gemm.n * size;
  return gemm;
}

static void run_matrices(void *arg, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) {
    dp_gemm gemm = gemm_at(arg, i);
    dp_gemm_run(&gemm);
  }
}

static void run_batch(dp_op_context *context, batch *work) {
  int64_t count = work->c_batch.elements;
  if (count > 1 && work->b_batch.elements == 1 && !work->gemm.transpose_a &&
      work->a_batch.elements == count) { /* one tall matrix times one matrix */
    work->gemm.m *= count;
    count = 1;
  }
  int threads = context->step->pool ? dp_pool_threads(context->step->pool) : 1;
  if (count >= 4 * threads) {
    dp_op_for(context, count, dp_gemm_cost(&work->gemm), run_matrices, work);
    return;
  }
  for (int64_t i = 0; i < count; ++i) {
    dp_gemm gemm = gemm_at(work, i);
    dp_gemm_run_split(context, &gemm);
  }
}

static dp_status *plan(const matmul_state *state, const dp_shape *a, const dp_shape *b, batch *work,
                       dp_shape *shape_out) {
  DP_RETURN_IF_ERROR(check_ranks(state, a, b));
  work->a_batch = batch_shape(a);
  work->b_batch = batch_shape(b);
  if (!dp_shape_broadcast(&work->a_batch, &work->b_batch, &work->c_batch))
    return DP_INVALID("In[0] and In[1] must have compatible batch dimensions: %s vs. %s",
                      dp_shape_text(a), dp_shape_text(b));
  const int64_t *a_dims = a->dims + a->rank - 2, *b_dims = b->dims + b->rank - 2;
  dp_gemm gemm = {.dtype = state->work,
                  .m = a_dims[state->transpose_a],
                  .k = a_dims[!state->transpose_a],
                  .n = b_dims[!state->transpose_b],
                  .a_stride = a_dims[1],
                  .b_stride = b_dims[1],
                  .transpose_a = state->transpose_a,
                  .transpose_b = state->transpose_b,
                  .conjugate_a = state->transpose_a && state->adjoint,
                  .conjugate_b = state->transpose_b && state->adjoint};
  if (gemm.k != b_dims[state->transpose_b])
    return DP_INVALID("Matrix size-incompatible: In[0]: %s, In[1]: %s", dp_shape_text(a),
                      dp_shape_text(b));
  gemm.c_stride = gemm.n;
  work->gemm = gemm;
  int rank = work->c_batch.rank;
  int64_t dims[DP_MAX_RANK];
  memcpy(dims, work->c_batch.dims, sizeof dims);
  dims[rank] = gemm.m;
  dims[rank + 1] = gemm.n;
  return dp_shape_make(rank + 2, dims, shape_out);
}

static dp_status *matmul_compute(dp_op_context *context, void *memory) {
  const matmul_state *state = memory;
  const dp_tensor *a = dp_op_input(context, 0), *b = dp_op_input(context, 1);
  batch work;
  dp_shape shape;
  dp_tensor *output;
  DP_RETURN_IF_ERROR(plan(state, &a->shape, &b->shape, &work, &shape));
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &shape, &output));
  if (shape.elements == 0)
    return NULL;
  dp_buffer *a_buffer = NULL, *b_buffer = NULL, *c_buffer = NULL;
  dp_status *status;
  DP_GOTO_IF_ERROR(status, done,
                   dp_kernel_widen_tensor(context, a, state->work, &work.gemm.a, &a_buffer));
  DP_GOTO_IF_ERROR(status, done,
                   dp_kernel_widen_tensor(context, b, state->work, &work.gemm.b, &b_buffer));
  work.gemm.c = output->data;
  bool narrows = output->dtype != state->work;
  if (narrows) {
    DP_GOTO_IF_ERROR(status, done,
                     dp_buffer_create((size_t)shape.elements * sizeof(float), &c_buffer));
    work.gemm.c = c_buffer->data;
  }
  run_batch(context, &work);
  if (narrows)
    dp_kernel_narrow_tensor(context, c_buffer->data, output);
done:
  dp_buffer_release(a_buffer);
  dp_buffer_release(b_buffer);
  dp_buffer_release(c_buffer);
  return status;
}

#define SET_MATMUL (DP_SET_FLOATS | DP_SET_COMPLEX | DP_SET(INT16) | DP_SET(INT32) | DP_SET(INT64))
#define SET_SHORT_INTEGERS (DP_SET(INT8) | DP_SET(UINT8))
#define ROW(name, ...)                                                                             \
  {                                                                                                \
    .op = name, .types = {__VA_ARGS__}, .state_size = sizeof(matmul_state),                        \
    .create = matmul_create, .compute = matmul_compute                                             \
  }
#define ROW_SAME(type) ROW("BatchMatMulV3", {"Ta", type}, {"Tb", type}, {"Tout", type})

static const dp_kernel rows[] = {
    ROW("MatMul", {"T", SET_MATMUL}),
    ROW("BatchMatMul", {"T", SET_MATMUL}),
    ROW("BatchMatMulV2", {"T", SET_MATMUL}),
    ROW_SAME(DP_SET(FLOAT)),
    ROW_SAME(DP_SET(DOUBLE)),
    ROW_SAME(DP_SET(BFLOAT16)),
    ROW_SAME(DP_SET(INT16)),
    ROW_SAME(DP_SET(INT32)),
    ROW_SAME(DP_SET(INT64)),
    ROW_SAME(DP_SET(COMPLEX64)),
    ROW_SAME(DP_SET(COMPLEX128)),
    ROW("BatchMatMulV3", {"Ta", SET_SHORT_INTEGERS | DP_SET(BFLOAT16)},
        {"Tb", SET_SHORT_INTEGERS | DP_SET(BFLOAT16)}, {"Tout", DP_SET(BFLOAT16)}),
    ROW("BatchMatMulV3", {"Ta", SET_SHORT_INTEGERS}, {"Tb", SET_SHORT_INTEGERS},
        {"Tout", DP_SET(INT32)}),
};
DP_KERNEL_FAMILY(matmul, rows);
