/* Arithmetic that does nothing, or that something simpler does, with the same bits as the result:
 * x * 1, x - 0, x / 1, a cast to the same dtype, negating twice, transposing twice, reshaping
 * twice. Only scalar constants count: other constants may change the shape. A node that does
 * nothing becomes an Identity, which the dependency pass may then remove. */
#include <math.h>
#include <string.h>

#include "planner/optimize_internal.h"

/* ---- Constants ---- */

static bool read_scalar(const dp_graph_optimizer *o, dp_input input, double *value_out) {
  const dp_tensor *tensor = input_constant(o->graph, input);
  if (!tensor || tensor->shape.rank != 0)
    return false;
  if (tensor->dtype == DP_FLOAT)
    *value_out = *(const float *)tensor->data;
  else if (tensor->dtype == DP_DOUBLE)
    *value_out = *(const double *)tensor->data;
  else if (tensor->dtype == DP_INT32 || tensor->dtype == DP_INT64)
    *value_out = (double)dp_tensor_int_at(tensor, 0);
  else
    return false;
  return true;
}

/* -0 is not 0 here: x + -0 is x for every x, x + 0 is not. */
static bool is_scalar(const dp_graph_optimizer *o, dp_input input, double wanted) {
  double value;
  return read_scalar(o, input, &value) && value == wanted && signbit(value) == signbit(wanted);
}

/* ---- Rewriting ---- */

/* Replaces the node by an Identity of `value`. */
static dp_status *become_identity(dp_graph_optimizer *o, dp_node *node, dp_input value) {
  dp_attr attr = attr_type("T", node->output_types[0]);
  const char *name = dp_arena_printf(o->arena, "%s/same", node->name);
  dp_node *identity;
  DP_RETURN_IF_ERROR(optimizer_add(o, node, "Identity", name, &value, 1, &attr, 1, &identity));
  dp_rewrite_take_controls(&o->rewrite, identity, node);
  /* The node waited for its constants, so the Identity waits for what they wait for. */
  for (int32_t i = 0; i < node->input_count; i++)
    if (node_is_const(o->graph->nodes[node->inputs[i].node]))
      dp_rewrite_take_controls(&o->rewrite, identity, o->graph->nodes[node->inputs[i].node]);
  dp_rewrite_replace_one(&o->rewrite, node, (dp_input){identity->id, 0}, identity->id);
  o->changes++;
  return NULL;
}

/* The node that input 0 comes from, when it has the op `op`, waits for nothing and is on the same
 * device; else NULL. */
static const dp_node *inner(const dp_graph_optimizer *o, const dp_node *node, const char *op) {
  const dp_node *source = o->graph->nodes[node->inputs[0].node];
  return dp_node_is(source, op) && source->control_count == 0 && node_same_device(node, source)
             ? source
             : NULL;
}

/* ---- Rules: each may rewrite the node ---- */

static dp_status *simplify_multiply(dp_graph_optimizer *o, dp_node *node) {
  for (int32_t i = 0; i < 2; i++)
    if (is_scalar(o, node->inputs[i], 1))
      return become_identity(o, node, node->inputs[1 - i]);
  return NULL;
}

static dp_status *simplify_add(dp_graph_optimizer *o, dp_node *node) {
  double nothing = dp_dtype_is_integer((dp_dtype)node->output_types[0]) ? 0 : -0.0;
  for (int32_t i = 0; i < 2; i++)
    if (is_scalar(o, node->inputs[i], nothing))
      return become_identity(o, node, node->inputs[1 - i]);
  return NULL;
}

static dp_status *simplify_subtract(dp_graph_optimizer *o, dp_node *node) {
  return is_scalar(o, node->inputs[1], 0) ? become_identity(o, node, node->inputs[0]) : NULL;
}

static dp_status *simplify_divide(dp_graph_optimizer *o, dp_node *node) {
  return is_scalar(o, node->inputs[1], 1) ? become_identity(o, node, node->inputs[0]) : NULL;
}

static dp_status *simplify_power(dp_graph_optimizer *o, dp_node *node) {
  if (is_scalar(o, node->inputs[1], 1))
    return become_identity(o, node, node->inputs[0]);
  if (!is_scalar(o, node->inputs[1], 2))
    return NULL;
  dp_attr attr = attr_type("T", node->output_types[0]);
  const char *name = dp_arena_printf(o->arena, "%s/square", node->name);
  dp_node *square;
  DP_RETURN_IF_ERROR(optimizer_add(o, node, "Square", name, node->inputs, 1, &attr, 1, &square));
  dp_rewrite_take_controls(&o->rewrite, square, node);
  dp_rewrite_take_controls(&o->rewrite, square, o->graph->nodes[node->inputs[1].node]);
  dp_rewrite_replace_one(&o->rewrite, node, (dp_input){square->id, 0}, square->id);
  o->changes++;
  return NULL;
}

static dp_status *simplify_twice(dp_graph_optimizer *o, dp_node *node) {
  const dp_node *source = inner(o, node, node->op->name);
  return source ? become_identity(o, node, source->inputs[0]) : NULL;
}

static dp_status *simplify_cast(dp_graph_optimizer *o, dp_node *node) {
  bool is_same = dp_dtype_base(node->input_types[0]) == (dp_dtype)node->output_types[0];
  return is_same ? become_identity(o, node, node->inputs[0]) : NULL;
}

static dp_status *simplify_reshape(dp_graph_optimizer *o, dp_node *node) {
  const dp_node *source = inner(o, node, "Reshape");
  if (!source)
    return NULL;
  node->inputs[0] = source->inputs[0];
  o->changes++;
  return NULL;
}

static bool is_permutation(const dp_tensor *tensor) {
  return tensor && tensor->shape.rank == 1 && tensor->shape.elements <= DP_MAX_RANK &&
         (tensor->dtype == DP_INT32 || tensor->dtype == DP_INT64);
}

/* Whether transposing by `first`, then by `second` (or by one alone) changes nothing. */
static bool cancels(const dp_tensor *first, const dp_tensor *second) {
  if (!is_permutation(second) || (first && !is_permutation(first)) ||
      (first && first->shape.elements != second->shape.elements))
    return false;
  for (int64_t i = 0; i < second->shape.elements; i++) {
    int64_t from = dp_tensor_int_at(second, i);
    if (from < 0 || from >= second->shape.elements)
      return false;
    if ((first ? dp_tensor_int_at(first, from) : from) != i)
      return false;
  }
  return true;
}

static dp_status *simplify_transpose(dp_graph_optimizer *o, dp_node *node) {
  const dp_tensor *own = input_constant(o->graph, node->inputs[1]);
  if (!own)
    return NULL;
  if (cancels(NULL, own))
    return become_identity(o, node, node->inputs[0]);
  const dp_node *source = inner(o, node, "Transpose");
  const dp_tensor *first = source ? input_constant(o->graph, source->inputs[1]) : NULL;
  return first && cancels(first, own) ? become_identity(o, node, source->inputs[0]) : NULL;
}

static dp_status *simplify_single(dp_graph_optimizer *o, dp_node *node) {
  return node->input_count == 1 ? become_identity(o, node, node->inputs[0]) : NULL;
}

static const struct {
  const char *op;
  dp_status *(*simplify)(dp_graph_optimizer *o, dp_node *node);
} rules[] = {
    {"Mul", simplify_multiply}, {"Add", simplify_add},         {"AddV2", simplify_add},
    {"Sub", simplify_subtract}, {"Div", simplify_divide},      {"RealDiv", simplify_divide},
    {"Pow", simplify_power},    {"Neg", simplify_twice},       {"LogicalNot", simplify_twice},
    {"Cast", simplify_cast},    {"Reshape", simplify_reshape}, {"Transpose", simplify_transpose},
    {"AddN", simplify_single},
};
enum { RULE_COUNT = sizeof(rules) / sizeof(*rules) };

/* Ops are compared by address, so each is looked up once per pass. */
dp_status *dp_optimize_arithmetic(dp_graph_optimizer *o) {
  const dp_op *ops[RULE_COUNT];
  for (size_t i = 0; i < RULE_COUNT; i++)
    ops[i] = dp_op_find(rules[i].op);
  int32_t node_count = o->graph->node_count;
  for (int32_t id = 0; id < node_count; id++) {
    dp_node *node = o->graph->nodes[id];
    if (!node || optimizer_is_end(o, node) || !node_is_pure(node))
      continue;
    for (int32_t i = 0; i < node->input_count; i++)
      node->inputs[i] = dp_rewrite_input(&o->rewrite, node->inputs[i]);
    for (size_t i = 0; i < RULE_COUNT; i++)
      if (node->op == ops[i]) {
        DP_RETURN_IF_ERROR(rules[i].simplify(o, node));
        break;
      }
  }
  return NULL;
}
