/* _FusedMatMul and _FusedConv2D: a matrix product or a convolution that adds a bias (or applies a
 * batch normalization with known statistics) and an activation to each piece of the result while
 * the piece is in the cache. The planner makes these nodes out of chains of ops. */
#include "kernels/shared/family.h"

#include <math.h>
#include <string.h>
#include "kernels/loops/activation.h"
#include "kernels/loops/binary.h"
#include "kernels/loops/unary.h"
#include "kernels/products/conv.h"
#include "kernels/products/gemm.h"
#include "kernels/shared/widen.h"

typedef struct fused_state {
  dp_conv_state conv; /* `dtype` and `work` are used by both ops, the rest by convolutions */
  bool transpose_a, transpose_b;
  bool normalizes; /* FusedBatchNorm instead of BiasAdd */
  double epsilon, alpha;
  dp_binary_fn add, multiply;
  dp_activation_fn activate; /* at most one of the two is set */
  dp_unary_fn apply;
} fused_state;

/* ---- What the node fuses ---- */
static dp_status *read_activation(dp_view name, fused_state *state) {
  static const struct {
    const char *name;
    dp_activation_loop loop;
  } activations[] = {{"Relu", DP_ACTIVATION_relu},
                     {"Relu6", DP_ACTIVATION_relu6},
                     {"LeakyRelu", DP_ACTIVATION_leaky_relu},
                     {"Elu", DP_ACTIVATION_elu}};
  for (size_t i = 0; i < sizeof activations / sizeof activations[0]; ++i)
    if (dp_view_equals(name, activations[i].name))
      state->activate = dp_activation_table()->fn[activations[i].loop][state->conv.work];
  if (dp_view_equals(name, "Tanh"))
    state->apply = dp_unary_table()->fn[DP_UNARY_tanh][state->conv.work];
  if (dp_view_equals(name, "Sigmoid"))
    state->apply = dp_unary_table()->fn[DP_UNARY_sigmoid][state->conv.work];
  if (state->activate || state->apply)
    return NULL;
  return dp_status_create(DP_UNIMPLEMENTED, "Fusion is not implemented: %.*s", (int)name.length,
                          name.data);
}

static dp_status *read_fusion(const dp_node *node, fused_state *state) {
  const dp_attr *ops;
  float epsilon, alpha;
  DP_RETURN_IF_ERROR(dp_node_get_list(node, "fused_ops", DP_ATTR_LIST_STRING, &ops));
  DP_RETURN_IF_ERROR(dp_node_get_float(node, "epsilon", &epsilon));
  DP_RETURN_IF_ERROR(dp_node_get_float(node, "leakyrelu_alpha", &alpha));
  state->epsilon = epsilon;
  state->alpha = alpha;
  state->add = dp_binary_table()->fn[DP_BINARY_add][state->conv.work];
  state->multiply = dp_binary_table()->fn[DP_BINARY_mul][state->conv.work];
  int64_t arguments;
  DP_RETURN_IF_ERROR(dp_node_get_int(node, "num_args", &arguments));
  if (ops->count < 1 || ops->count > 2)
    return DP_INVALID("Fused %s must have one or two fused ops.", node->op->name);
  state->normalizes = dp_view_equals(ops->strings[0], "FusedBatchNorm");
  if (!state->normalizes && !dp_view_equals(ops->strings[0], "BiasAdd"))
    return dp_status_create(DP_UNIMPLEMENTED, "Fusion is not implemented: %.*s",
                            (int)ops->strings[0].length, ops->strings[0].data);
  if (arguments != (state->normalizes ? 4 : 1))
    return DP_INVALID("Fused %s must have %d extra arguments: %s.", node->op->name,
                      state->normalizes ? 4 : 1, state->normalizes ? "batch norm" : "bias");
  return ops->count == 2 ? read_activation(ops->strings[1], state) : NULL;
}

static dp_status *matmul_create(const dp_kernel_setup *setup, void *memory) {
  fused_state *state = memory;
  DP_RETURN_IF_ERROR(dp_node_get_type(setup->node, "T", &state->conv.dtype));
  state->conv.work = dp_kernel_work_type(state->conv.dtype);
  DP_RETURN_IF_ERROR(dp_node_get_bool(setup->node, "transpose_a", &state->transpose_a));
  DP_RETURN_IF_ERROR(dp_node_get_bool(setup->node, "transpose_b", &state->transpose_b));
  return read_fusion(setup->node, state);
}

static dp_status *conv_create(const dp_kernel_setup *setup, void *memory) {
  fused_state *state = memory;
  DP_RETURN_IF_ERROR(dp_conv_create(setup, &state->conv));
  return read_fusion(setup->node, state);
}

/* ---- The end of a piece ---- */
typedef struct ending {
  const fused_state *state;
  const char *factor, *bias; /* one value per column; factor may be NULL */
  dp_buffer *factor_buffer, *bias_buffer;
} ending;

static void finish_piece(const void *arg, void *c, int64_t stride, int64_t rows, int64_t column,
                         int64_t columns) {
  const ending *end = arg;
  const fused_state *state = end->state;
  size_t size = dp_dtype_size(state->conv.work);
  /* A dense piece is done as one block, any other row by row. */
  int64_t step = stride == columns ? rows : 1;
  for (int64_t row = 0; row < rows; row += step) {
    char *at = (char *)c + (size_t)(row * stride) * size;
    dp_binary_span span = {columns, step, 1, 1, columns, 0};
    if (end->factor)
      state->multiply(at, end->factor + (size_t)column * size, at, &span);
    state->add(at, end->bias + (size_t)column * size, at, &span);
    if (state->activate)
      state->activate(at, at, step * columns, state->alpha);
    if (state->apply)
      state->apply(at, at, step * columns);
  }
}

/* Folds a normalization with known mean and variance into factor and bias. */
static void fold_normalization(const fused_state *state, int64_t count,
                               const void *const *arguments, void *factor, void *bias) {
  for (int64_t i = 0; i < count; ++i) {
    if (state->conv.work == DP_FLOAT) {
      const float *const *a = (const float *const *)arguments;
      float by = a[0][i] / sqrtf(a[3][i] + (float)state->epsilon);
      ((float *)factor)[i] = by;
      ((float *)bias)[i] = a[1][i] - a[2][i] * by;
    } else {
      const double *const *a = (const double *const *)arguments;
      double by = a[0][i] / sqrt(a[3][i] + state->epsilon);
      ((double *)factor)[i] = by;
      ((double *)bias)[i] = a[1][i] - a[2][i] * by;
    }
  }
}

static dp_status *normalization_init(ending *end, dp_op_context *context, int64_t columns) {
  const fused_state *state = end->state;
  const void *arguments[4];
  for (int i = 0; i < 4; ++i) {
    const dp_tensor *argument = dp_op_input(context, 2 + i);
    if (argument->dtype != state->conv.work)
      return DP_INVALID("Fused batch norm arguments must be %s, got %s",
                        dp_dtype_name(state->conv.work), dp_dtype_name(argument->dtype));
    if (dp_tensor_elements(argument) != columns)
      return DP_INVALID("Fused batch norm arguments must have %lld elements, got %s",
                        (long long)columns, dp_shape_text(&argument->shape));
    arguments[i] = argument->data;
  }
  size_t bytes = (size_t)columns * dp_dtype_size(state->conv.work);
  DP_RETURN_IF_ERROR(dp_buffer_create(bytes, &end->factor_buffer));
  DP_RETURN_IF_ERROR(dp_buffer_create(bytes, &end->bias_buffer));
  end->factor = end->factor_buffer->data;
  end->bias = end->bias_buffer->data;
  fold_normalization(state, columns, arguments, end->factor_buffer->data, end->bias_buffer->data);
  return NULL;
}

static dp_status *ending_init(ending *end, dp_op_context *context, int64_t columns) {
  if (end->state->normalizes)
    return normalization_init(end, context, columns);
  const dp_tensor *bias = dp_op_input(context, 2);
  if (bias->shape.rank != 1)
    return DP_INVALID("bias must be 1-dimensional: %s", dp_shape_text(&bias->shape));
  if (bias->shape.dims[0] != columns)
    return DP_INVALID("Must provide as many biases as the last dimension of the input tensor: %s "
                      "vs. %lld columns",
                      dp_shape_text(&bias->shape), (long long)columns);
  const void *data;
  DP_RETURN_IF_ERROR(
      dp_kernel_widen_tensor(context, bias, end->state->conv.work, &data, &end->bias_buffer));
  end->bias = data;
  return NULL;
}

static void ending_deinit(ending *end) {
  dp_buffer_release(end->factor_buffer);
  dp_buffer_release(end->bias_buffer);
}

/* ---- MatMul ---- */
static dp_status *run_gemm(dp_op_context *context, const dp_conv *conv, const void *a,
                           const void *b, void *c) {
  dp_gemm gemm = *(const dp_gemm *)conv->finish.arg;
  gemm.a = a;
  gemm.b = b;
  gemm.c = c;
  dp_gemm_run_split(context, &gemm);
  return NULL;
}

static dp_status *matmul_compute(dp_op_context *context, void *memory) {
  const fused_state *state = memory;
  const dp_tensor *a = dp_op_input(context, 0), *b = dp_op_input(context, 1);
  if (a->shape.rank != 2 || b->shape.rank != 2)
    return DP_INVALID("In[%d] is not a matrix. Instead it has shape %s", a->shape.rank == 2,
                      dp_shape_text(a->shape.rank == 2 ? &b->shape : &a->shape));
  dp_gemm gemm =
      dp_gemm_of(state->conv.work, &a->shape, state->transpose_a, &b->shape, state->transpose_b);
  if (gemm.k != b->shape.dims[state->transpose_b])
    return DP_INVALID("Matrix size-incompatible: In[0]: %s, In[1]: %s", dp_shape_text(&a->shape),
                      dp_shape_text(&b->shape));
  dp_shape shape;
  DP_RETURN_IF_ERROR(dp_shape_make(2, (int64_t[]){gemm.m, gemm.n}, &shape));
  ending end = {.state = state};
  dp_status *status;
  DP_GOTO_IF_ERROR(status, done, ending_init(&end, context, gemm.n));
  gemm.finish = (dp_finish){finish_piece, &end};
  dp_conv carrier = {.finish = {NULL, &gemm}};
  status = dp_conv_run(context, &state->conv, &carrier, run_gemm, a, b, &shape);
done:
  ending_deinit(&end);
  return status;
}

/* ---- Conv2D ---- */
static dp_status *conv_compute(dp_op_context *context, void *memory) {
  const fused_state *state = memory;
  const dp_tensor *input = dp_op_input(context, 0), *filter = dp_op_input(context, 1);
  dp_conv conv;
  dp_shape shape;
  DP_RETURN_IF_ERROR(dp_conv_plan(&state->conv, &input->shape, &filter->shape, &conv, &shape));
  ending end = {.state = state};
  dp_status *status;
  DP_GOTO_IF_ERROR(status, done, ending_init(&end, context, conv.out_channels));
  conv.finish = (dp_finish){finish_piece, &end};
  status = dp_conv_run(context, &state->conv, &conv, dp_conv_forward, input, filter, &shape);
done:
  ending_deinit(&end);
  return status;
}

static const dp_kernel rows[] = {
    {.op = "_FusedMatMul",
     .types = {{"T", DP_SET_FLOATS}},
     .state_size = sizeof(fused_state),
     .create = matmul_create,
     .compute = matmul_compute},
    {.op = "_FusedConv2D",
     .types = {{"T", DP_SET_FLOATS}},
     .state_size = sizeof(fused_state),
     .create = conv_create,
     .compute = conv_compute},
};
DP_KERNEL_FAMILY(fused, rows);
