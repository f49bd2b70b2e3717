/* Shapes of outputs, as far as the graph tells them: what programs ask before anything runs.
 *
 * A row an op; ops without one have unknown shapes. A shape is worked out when it is asked for,
 * from those of the inputs, to a limited depth; what was set by TF_GraphSetTensorShape counts on
 * the way. With the graph's lock held. */
#include "client/client_internal.h"

#include <string.h>

enum { MOST_STEPS = 200 };

typedef struct shape_call {
  const TF_Operation *operation;
  int output;
  int depth;
} shape_call;

typedef dp_partial_shape (*shape_fn)(const shape_call *call);

static dp_partial_shape shape_at(TF_Output output, int depth);

static dp_partial_shape unknown(void) {
  return dp_partial_shape_unknown();
}

static dp_partial_shape of_rank(int32_t rank) {
  dp_partial_shape shape = {.rank = rank};
  for (int32_t i = 0; i < rank; i++)
    shape.dims[i] = -1;
  return shape;
}

static TF_Output source(const shape_call *call, int index) {
  const dp_input *edge = &call->operation->node->inputs[index];
  return (TF_Output){call->operation->graph->operations[edge->node], edge->output};
}

static dp_partial_shape input(const shape_call *call, int index) {
  return shape_at(source(call, index), call->depth + 1);
}

/* The tensor of a constant; NULL: it is none, or not of integers. */
static const dp_tensor *constant(const shape_call *call, int index) {
  const dp_node *node = source(call, index).oper->node;
  const dp_attr *value = dp_node_is(node, "Const") ? dp_node_attr(node, "value") : NULL;
  bool is_known = value && value->kind == DP_ATTR_TENSOR &&
                  (value->tensor->dtype == DP_INT32 || value->tensor->dtype == DP_INT64);
  return is_known ? value->tensor : NULL;
}

static int64_t integer_at(const dp_tensor *tensor, int64_t index) {
  return tensor->dtype == DP_INT32 ? ((const int32_t *)tensor->data)[index]
                                   : ((const int64_t *)tensor->data)[index];
}

static bool flag(const shape_call *call, const char *name) {
  const dp_attr *attr = dp_node_attr(call->operation->node, name);
  return attr && attr->boolean;
}

/* ---- Rows ---- */

static dp_partial_shape scalar(const shape_call *call) {
  return of_rank(0);
}

static dp_partial_shape same(const shape_call *call) {
  return input(call, 0);
}

static dp_partial_shape of_value(const shape_call *call) {
  return input(call, 1);
}

static dp_partial_shape of_tensor(const shape_call *call) {
  const dp_shape *shape = &dp_node_attr(call->operation->node, "value")->tensor->shape;
  dp_partial_shape partial = {.rank = shape->rank};
  memcpy(partial.dims, shape->dims, sizeof(*shape->dims) * (size_t)shape->rank);
  return partial;
}

static dp_partial_shape of_attr(const shape_call *call) {
  const dp_attr *attr = dp_node_attr(call->operation->node, "shape");
  return attr && attr->kind == DP_ATTR_SHAPE ? *attr->shape : unknown();
}

/* What a variable holds, when the variable itself is at hand. */
static dp_partial_shape of_variable(const shape_call *call) {
  shape_call handle = {.operation = source(call, 0).oper};
  return dp_node_is(handle.operation->node, "VarHandleOp") ? of_attr(&handle) : unknown();
}

static dp_partial_shape broadcast(const shape_call *call) {
  dp_partial_shape a = input(call, 0), b = input(call, 1);
  if (a.rank < 0 || b.rank < 0)
    return unknown();
  dp_partial_shape result = of_rank(a.rank > b.rank ? a.rank : b.rank);
  for (int32_t i = 1; i <= result.rank; i++) {
    int64_t p = i <= a.rank ? a.dims[a.rank - i] : 1, q = i <= b.rank ? b.dims[b.rank - i] : 1;
    result.dims[result.rank - i] = p == 1 ? q : q == 1 || p == q ? p : p < 0 ? q : q < 0 ? p : -1;
  }
  return result;
}

static dp_partial_shape mat_mul(const shape_call *call) {
  dp_partial_shape a = input(call, 0), b = input(call, 1), result = of_rank(2);
  if (a.rank == 2)
    result.dims[0] = a.dims[flag(call, "transpose_a")];
  if (b.rank == 2)
    result.dims[1] = b.dims[!flag(call, "transpose_b")];
  return result;
}

static dp_partial_shape reduction(const shape_call *call) {
  dp_partial_shape from = input(call, 0), result = of_rank(0);
  const dp_tensor *axes = constant(call, 1);
  bool is_kept = flag(call, "keep_dims"), is_reduced[DP_MAX_RANK] = {false};
  if (from.rank < 0 || (!axes && !is_kept))
    return unknown();
  if (!axes)
    return of_rank(from.rank);
  for (int64_t i = 0; i < dp_tensor_elements(axes); i++) {
    int64_t axis = integer_at(axes, i) + (integer_at(axes, i) < 0 ? from.rank : 0);
    if (axis < 0 || axis >= from.rank)
      return unknown();
    is_reduced[axis] = true;
  }
  for (int32_t i = 0; i < from.rank; i++)
    if (!is_reduced[i] || is_kept)
      result.dims[result.rank++] = is_reduced[i] ? 1 : from.dims[i];
  return result;
}

/* One size may be -1: what is left. */
static dp_partial_shape reshape(const shape_call *call) {
  const dp_tensor *sizes = constant(call, 1);
  if (!sizes || sizes->shape.rank != 1 || dp_tensor_elements(sizes) > DP_MAX_RANK)
    return unknown();
  dp_partial_shape from = input(call, 0), result = of_rank((int32_t)dp_tensor_elements(sizes));
  int64_t product = 1, total = from.rank < 0 ? -1 : 1;
  int32_t open = -1;
  for (int32_t i = 0; i < from.rank; i++)
    total = total < 0 || from.dims[i] < 0 ? -1 : total * from.dims[i];
  for (int32_t i = 0; i < result.rank; i++) {
    result.dims[i] = integer_at(sizes, i);
    if (result.dims[i] < 0)
      open = i;
    else
      product *= result.dims[i];
  }
  if (open >= 0 && total >= 0 && product > 0)
    result.dims[open] = total / product;
  return result;
}

static dp_partial_shape shape_vector(const shape_call *call) {
  dp_partial_shape result = of_rank(1);
  result.dims[0] = input(call, 0).rank;
  return result;
}

typedef struct shape_row {
  const char *op;
  shape_fn shape;
} shape_row;

static const shape_row rows[] = {
    {"Abs", same},
    {"Add", broadcast},
    {"AddV2", broadcast},
    {"All", reduction},
    {"Any", reduction},
    {"Assign", of_value},
    {"BiasAdd", same},
    {"Cast", same},
    {"Const", of_tensor},
    {"Cos", same},
    {"Div", broadcast},
    {"Elu", same},
    {"Equal", broadcast},
    {"Exp", same},
    {"FloorDiv", broadcast},
    {"Greater", broadcast},
    {"Identity", same},
    {"L2Loss", scalar},
    {"LeakyRelu", same},
    {"Less", broadcast},
    {"Log", same},
    {"LogSoftmax", same},
    {"MatMul", mat_mul},
    {"Max", reduction},
    {"Maximum", broadcast},
    {"Mean", reduction},
    {"Min", reduction},
    {"Minimum", broadcast},
    {"Mul", broadcast},
    {"Neg", same},
    {"OnesLike", same},
    {"Placeholder", of_attr},
    {"Pow", broadcast},
    {"Prod", reduction},
    {"Rank", scalar},
    {"ReadVariableOp", of_variable},
    {"RealDiv", broadcast},
    {"Relu", same},
    {"Relu6", same},
    {"Reshape", reshape},
    {"Rsqrt", same},
    {"Shape", shape_vector},
    {"Sigmoid", same},
    {"Sign", same},
    {"Sin", same},
    {"Size", scalar},
    {"Softmax", same},
    {"Softplus", same},
    {"Sqrt", same},
    {"Square", same},
    {"SquaredDifference", broadcast},
    {"StopGradient", same},
    {"Sub", broadcast},
    {"Sum", reduction},
    {"Tanh", same},
    {"VarHandleOp", scalar},
    {"Variable", of_attr},
    {"VariableV2", of_attr},
    {"ZerosLike", same},
};

static dp_partial_shape shape_at(TF_Output output, int depth) {
  dp_partial_shape set =
      output.oper->shapes ? output.oper->shapes[output.index] : dp_partial_shape_unknown();
  dp_partial_shape merged = set;
  const char *op = output.oper->node->op->name;
  for (size_t i = 0; depth < MOST_STEPS && i < sizeof(rows) / sizeof(*rows); i++) {
    if (strcmp(rows[i].op, op) != 0)
      continue;
    shape_call call = {output.oper, output.index, depth};
    dp_partial_shape inferred = rows[i].shape(&call);
    if (!dp_partial_shape_merge(&set, &inferred, &merged))
      merged = set;
    break;
  }
  return merged;
}

dp_partial_shape dp_client_shape(TF_Output output) {
  return shape_at(output, 0);
}
