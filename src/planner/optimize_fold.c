/* Constant folding: a pure node that reads nothing but constants is run now, and constants take the
 * place of its results. When the kernel fails, the node stays and fails in the step. Results that
 * would make the graph much larger are not kept. The new constant waits for what the node and its
 * constants waited for, which keeps it in its branch or loop. */
#include "planner/optimize_internal.h"
#include "runtime/kernel.h"

/* In bytes: up to the first a result is kept, above the second it is not. In between it is kept
 * when it is no larger than the constants that it was made from. */
#define ALWAYS_KEPT (256 * 1024)
#define NEVER_KEPT (10 * 1024 * 1024)

static bool can_fold(const dp_graph_optimizer *o, const dp_node *node) {
  if (node->input_count == 0 || !node_is_pure(node) || optimizer_is_end(o, node))
    return false;
  for (int32_t i = 0; i < node->input_count; i++)
    if (!input_constant(o->graph, dp_rewrite_input(&o->rewrite, node->inputs[i])))
      return false;
  for (int32_t i = 0; i < node->output_count; i++)
    if (node->output_types[i] == DP_VARIANT)
      return false;
  return dp_kernel_exists(node->op->name);
}

/* Whether an input of integers may be a size of the result: a shape, a count, a depth. Except in
 * Range, such an input has no dtype attribute in common with the result. */
static bool may_be_size(const dp_node *node, int32_t input) {
  if (dp_node_is(node, "Range"))
    return true;
  if (dp_node_is(node, "Cast") || node->output_types[0] == DP_BOOL)
    return false;
  int32_t declared = 0, end = 0;
  for (; declared < node->op->input_count; declared++) {
    int32_t begin;
    dp_status *status = dp_node_input_range(node, node->op->inputs[declared].name, &begin, &end);
    bool has_failed = status != NULL;
    dp_status_release(status);
    if (has_failed || input < end)
      break;
  }
  return declared < node->op->input_count && node->op->output_count > 0 &&
         (node->op->inputs[declared].type_attr < 0 ||
          node->op->inputs[declared].type_attr != node->op->outputs[0].type_attr);
}

/* A rough upper bound of the result's elements: those of the inputs' common shape, or the product
 * of all inputs' elements when shapes differ; times the values of inputs that may be sizes. May be
 * infinite. */
static double bound_elements(const dp_node *node, const dp_tensor *inputs) {
  enum { LONGEST_SHAPE = DP_MAX_RANK * 2 };
  const dp_shape *common = NULL;
  bool is_uniform = true;
  double product = 1, sizes = 1;
  for (int32_t i = 0; i < node->input_count; i++) {
    const dp_tensor *input = &inputs[i];
    product *= input->shape.elements ? (double)input->shape.elements : 1;
    if (input->shape.rank > 0) {
      is_uniform &= !common || dp_shape_equal(common, &input->shape);
      common = &input->shape;
    }
    bool is_integer = dp_dtype_is_integer(input->dtype);
    if (!is_integer || input->shape.elements > LONGEST_SHAPE || !may_be_size(node, i))
      continue;
    for (int64_t k = 0; k < input->shape.elements; k++) {
      double value = (double)dp_tensor_int_at(input, k);
      sizes *= value > 1 ? value : value < -1 ? -value : 1;
    }
  }
  return (is_uniform && common ? (double)common->elements : product) * sizes;
}

static bool is_worth_keeping(const dp_node *node, const dp_tensor *inputs,
                             const dp_tensor *outputs) {
  size_t before = 0, after = 0;
  for (int32_t i = 0; i < node->input_count; i++)
    before += dp_tensor_bytes(&inputs[i]);
  for (int32_t i = 0; i < node->output_count; i++)
    after += dp_tensor_bytes(&outputs[i]);
  return after <= ALWAYS_KEPT || (after <= before && after <= NEVER_KEPT);
}

static dp_status *add_constant(dp_graph_optimizer *o, const dp_node *node, int32_t output,
                               const dp_tensor *value, dp_node **constant_out) {
  const char *name = node->output_count == 1
                         ? dp_arena_printf(o->arena, "ConstantFolding/%s", node->name)
                         : dp_arena_printf(o->arena, "ConstantFolding/%s-%d", node->name, output);
  dp_attr attrs[] = {attr_type("dtype", value->dtype),
                     {.name = "value", .kind = DP_ATTR_TENSOR, .tensor = value}};
  DP_RETURN_IF_ERROR(optimizer_add(o, node, "Const", name, NULL, 0, attrs, 2, constant_out));
  dp_rewrite_take_controls(&o->rewrite, *constant_out, node);
  for (int32_t i = 0; i < node->input_count; i++) {
    dp_input input = dp_rewrite_input(&o->rewrite, node->inputs[i]);
    dp_rewrite_take_controls(&o->rewrite, *constant_out, o->graph->nodes[input.node]);
  }
  return NULL;
}

static dp_status *replace(dp_graph_optimizer *o, dp_node *node, const dp_tensor *values) {
  dp_input *outputs = DP_ARENA_ARRAY(o->arena, dp_input, node->output_count);
  for (int32_t i = 0; i < node->output_count; i++) {
    dp_node *constant;
    DP_RETURN_IF_ERROR(add_constant(o, node, i, &values[i], &constant));
    outputs[i] = (dp_input){constant->id, 0};
  }
  dp_rewrite_replace(&o->rewrite, node, outputs, outputs[0].node);
  o->changes++;
  return NULL;
}

static dp_status *fold(dp_graph_optimizer *o, dp_node *node) {
  dp_tensor *inputs = DP_ARENA_ARRAY(o->arena, dp_tensor, node->input_count);
  dp_tensor *outputs = DP_ARENA_ARRAY(o->arena, dp_tensor, node->output_count);
  for (int32_t i = 0; i < node->input_count; i++)
    inputs[i] = *input_constant(o->graph, dp_rewrite_input(&o->rewrite, node->inputs[i]));
  if (bound_elements(node, inputs) > NEVER_KEPT)
    return NULL;
  dp_status *status = dp_planner_evaluate(o->graph, node, inputs, outputs);
  if (status) {
    dp_status_release(status);
    return NULL;
  }
  if (is_worth_keeping(node, inputs, outputs))
    status = replace(o, node, outputs);
  for (int32_t i = 0; i < node->output_count; i++)
    dp_tensor_deinit(&outputs[i]);
  return status;
}

dp_status *dp_optimize_fold(dp_graph_optimizer *o) {
  int32_t *order = dp_malloc(sizeof(*order) * (size_t)(o->graph->node_count + 1));
  int32_t count = dp_graph_order(o->graph, order);
  dp_status *status = NULL;
  for (int32_t i = 0; i < count && !status; i++)
    if (can_fold(o, o->graph->nodes[order[i]]))
      status = fold(o, o->graph->nodes[order[i]]);
  dp_free(order);
  return status;
}
