/* Lowering: functional control flow becomes Switch, Merge and frames, and calls become what they
 * call, as TensorFlow's LowerFunctionalOps does. Only then can a branch or a loop's body spread
 * over devices, run in parallel with what is around it, and be optimized with it. New nodes are
 * appended and visited in turn, so that functions within functions are lowered too. A function that
 * is marked _noinline, or that calls itself, stays a call, which the runtime makes. */
#include <string.h>

#include "planner/lower_internal.h"

/* ---- Building ---- */

lower_row *lower_row_of(lowerer *l, int32_t id) {
  while (l->rows.count <= (size_t)id) {
    lower_row row = {0};
    DP_ARRAY_PUSH(&l->rows, row);
  }
  return &l->rows.items[id];
}

const char *lower_name(lowerer *l, const char *name, const char *part) {
  return dp_graph_unique_name(l->graph, dp_arena_printf(l->arena, "%s/%s", name, part));
}

dp_status *lower_add(lowerer *l, const dp_node *origin, const lower_node *wanted,
                     dp_node **node_out) {
  const dp_op *op = wanted->function ? dp_library_find_op(l->graph->library, wanted->function->name)
                                     : dp_op_find(wanted->op);
  if (!op)
    return dp_status_create(DP_NOT_FOUND, "Node '%s' needs the function '%s', which is not there",
                            origin->name, wanted->function ? wanted->function->name : wanted->op);
  dp_input *inputs = DP_ARENA_ARRAY(l->arena, dp_input, wanted->input_count + 1);
  for (int32_t i = 0; i < wanted->input_count; i++)
    inputs[i] = dp_rewrite_input(&l->rewrite, wanted->inputs[i]);
  dp_node_builder builder = {.name = wanted->name,
                             .op = op,
                             .device = wanted->device ? wanted->device : origin->device,
                             .inputs = inputs,
                             .input_count = wanted->input_count,
                             .attrs = wanted->function ? wanted->function->attrs : wanted->attrs,
                             .attr_count = wanted->function ? wanted->function->attr_count
                                                            : wanted->attr_count};
  dp_node *node;
  DP_RETURN_IF_ERROR(dp_graph_add(l->graph, &builder, &node));
  node->original_name = dp_node_client_name(origin);
  const call_chain *chain = lower_row_of(l, origin->id)->chain;
  lower_row_of(l, node->id)->chain = chain;
  *node_out = node;
  return NULL;
}

/* Leaves a node under the old name, for a client that fetches or targets it. */
static dp_status *add_stand_in(lowerer *l, const dp_node *node, const dp_input *outputs,
                               int32_t control) {
  dp_attr types = {.name = "T",
                   .kind = DP_ATTR_LIST_TYPE,
                   .count = node->output_count,
                   .types = node->output_types};
  lower_node wanted = {.op = node->output_count ? "IdentityN" : "NoOp",
                       .name = node->name,
                       .inputs = outputs,
                       .input_count = node->output_count,
                       .attrs = &types,
                       .attr_count = node->output_count ? 1 : 0};
  dp_node *stand_in;
  DP_RETURN_IF_ERROR(lower_add(l, node, &wanted, &stand_in));
  dp_node_add_control(l->graph, stand_in, control);
  return NULL;
}

dp_status *lower_replace(lowerer *l, dp_node *node, const dp_input *outputs, int32_t control) {
  dp_rewrite_replace(&l->rewrite, node, outputs, control);
  return l->keep_names ? add_stand_in(l, node, outputs, control) : NULL;
}

/* ---- Which nodes ---- */

static bool is_true(const dp_node *node, const char *attr) {
  const dp_attr *value = dp_node_attr(node, attr);
  return value && value->kind == DP_ATTR_BOOL && value->boolean;
}

static bool has_text(const dp_node *node, const char *attr) {
  const dp_attr *value = dp_node_attr(node, attr);
  return value && value->kind == DP_ATTR_STRING && value->string.length > 0;
}

typedef enum lower_kind {
  KEEP,
  CALL,
  DIRECT_CALL,
  GRADIENT,
  IF,
  CASE,
  WHILE,
  ACCUMULATE,
  PARALLEL_CONCAT
} lower_kind;

static lower_kind kind_of(const dp_node *node) {
  static const struct {
    const char *op;
    lower_kind kind;
  } kinds[] = {
      {"PartitionedCall", CALL},
      {"StatefulPartitionedCall", CALL},
      {"SymbolicGradient", GRADIENT},
      {"If", IF},
      {"StatelessIf", IF},
      {"Case", CASE},
      {"StatelessCase", CASE},
      {"While", WHILE},
      {"StatelessWhile", WHILE},
      {"AccumulateNV2", ACCUMULATE},
      {"ParallelConcat", PARALLEL_CONCAT},
  };
  if (node->op->is_function)
    return DIRECT_CALL;
  /* A quick no: these are the first letters of the names above. */
  if (!strchr("APSICW", node->op->name[0]))
    return KEEP;
  for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
    if (dp_node_is(node, kinds[i].op))
      return kinds[i].kind == IF || kinds[i].kind == CASE || kinds[i].kind == WHILE
                 ? (is_true(node, "_lower_using_switch_merge") ? kinds[i].kind : KEEP)
                 : kinds[i].kind;
  return KEEP;
}

static dp_status *lower_if(lowerer *l, dp_node *node) {
  const dp_func *branches[2];
  DP_RETURN_IF_ERROR(dp_node_get_func(node, "else_branch", &branches[0]));
  DP_RETURN_IF_ERROR(dp_node_get_func(node, "then_branch", &branches[1]));
  return lower_branches(l, node, branches, 2, true);
}

static dp_status *lower_case(lowerer *l, dp_node *node) {
  const dp_attr *list;
  DP_RETURN_IF_ERROR(dp_node_get_list(node, "branches", DP_ATTR_LIST_FUNC, &list));
  if (list->count == 0)
    return DP_INVALID("Node '%s' has no branches", node->name);
  const dp_func **branches = DP_ARENA_ARRAY(l->arena, const dp_func *, list->count);
  for (int32_t i = 0; i < list->count; i++)
    branches[i] = &list->funcs[i];
  return lower_branches(l, node, branches, list->count, false);
}

static dp_status *replace_by_one(lowerer *l, dp_node *node, const lower_node *wanted) {
  dp_node *substitute;
  DP_RETURN_IF_ERROR(lower_add(l, node, wanted, &substitute));
  dp_rewrite_take_controls(&l->rewrite, substitute, node);
  dp_input *output = DP_ARENA_NEW(l->arena, dp_input);
  *output = (dp_input){substitute->id, 0};
  return lower_replace(l, node, output, substitute->id);
}

static dp_status *lower_gradient(lowerer *l, dp_node *node) {
  const dp_func *function;
  DP_RETURN_IF_ERROR(dp_node_get_func(node, "f", &function));
  dp_func gradient;
  DP_RETURN_IF_ERROR(dp_library_find_gradient(l->graph->library, function, &gradient));
  return lower_call(l, node, &gradient, false);
}

/* AccumulateNV2 and ParallelConcat have no kernel in TensorFlow either: its master replaces them.
 */
static dp_status *lower_accumulate(lowerer *l, dp_node *node) {
  dp_attr attrs[] = {attr_type("T", node->output_types[0]), attr_int("N", node->input_count)};
  lower_node wanted = {.op = "AddN",
                       .name = lower_name(l, node->name, "sum"),
                       .inputs = node->inputs,
                       .input_count = node->input_count,
                       .attrs = attrs,
                       .attr_count = 2};
  return replace_by_one(l, node, &wanted);
}

static dp_status *lower_parallel_concat(lowerer *l, dp_node *node) {
  dp_tensor zero;
  DP_RETURN_IF_ERROR(dp_tensor_scalar_int32(0, &zero));
  dp_attr axis_attrs[] = {attr_type("dtype", DP_INT32),
                          {.name = "value", .kind = DP_ATTR_TENSOR, .tensor = &zero}};
  lower_node axis = {.op = "Const",
                     .name = lower_name(l, node->name, "axis"),
                     .attrs = axis_attrs,
                     .attr_count = 2};
  dp_node *axis_node;
  dp_status *status = lower_add(l, node, &axis, &axis_node);
  dp_tensor_deinit(&zero);
  DP_RETURN_IF_ERROR(status);
  dp_node_add_control(l->graph, axis_node, dp_rewrite_control(&l->rewrite, node->inputs[0].node));
  dp_input *inputs = DP_ARENA_ARRAY(l->arena, dp_input, node->input_count + 1);
  memcpy(inputs, node->inputs, sizeof(dp_input) * (size_t)node->input_count);
  inputs[node->input_count] = (dp_input){axis_node->id, 0};
  dp_attr attrs[] = {attr_type("T", node->output_types[0]), attr_int("N", node->input_count),
                     attr_type("Tidx", DP_INT32)};
  lower_node wanted = {.op = "ConcatV2",
                       .name = lower_name(l, node->name, "concat"),
                       .inputs = inputs,
                       .input_count = node->input_count + 1,
                       .attrs = attrs,
                       .attr_count = 3};
  return replace_by_one(l, node, &wanted);
}

static dp_status *lower_node_of_kind(lowerer *l, dp_node *node, lower_kind kind) {
  const dp_func *function;
  dp_func direct = {node->op->name, node->attr_count, node->attrs};
  if (has_text(node, "_tpu_replicate") || has_text(node, "_xla_compile_id"))
    return NULL;
  switch (kind) {
  case CALL:
    DP_RETURN_IF_ERROR(dp_node_get_func(node, "f", &function));
    return lower_call(l, node, function, true);
  case DIRECT_CALL:
    return lower_call(l, node, &direct, lower_row_of(l, node->id)->must_inline);
  case GRADIENT:
    return lower_gradient(l, node);
  case IF:
    return lower_if(l, node);
  case CASE:
    return lower_case(l, node);
  case WHILE:
    return lower_while(l, node);
  case ACCUMULATE:
    return lower_accumulate(l, node);
  case PARALLEL_CONCAT:
    return lower_parallel_concat(l, node);
  default:
    return NULL;
  }
}

/* ---- The whole ---- */

static bool has_work(const dp_graph *graph) {
  for (int32_t id = 0; id < graph->node_count; id++)
    if (graph->nodes[id] && kind_of(graph->nodes[id]) != KEEP)
      return true;
  return false;
}

dp_status *dp_planner_lower_all(dp_graph *graph, bool keep_names) {
  if (!has_work(graph))
    return NULL;
  lowerer l = {.graph = graph, .keep_names = keep_names};
  dp_rewrite_init(&l.rewrite, graph);
  l.arena = l.rewrite.arena;
  int32_t *ends = dp_malloc(sizeof(*ends) * (size_t)(graph->node_count + 1));
  int32_t end_count = dp_graph_find_ends(graph, ends);
  dp_status *status = NULL;
  for (int32_t id = 0; id < graph->node_count && !status; id++) {
    dp_node *node = graph->nodes[id];
    lower_kind kind = node ? kind_of(node) : KEEP;
    if (kind != KEEP)
      status = lower_node_of_kind(&l, node, kind);
  }
  if (!status) {
    dp_rewrite_apply(&l.rewrite);
    /* Drops the new nodes that lead to none of the nodes that ended the graph before. */
    if (!keep_names)
      dp_rewrite_drop_unread(&l.rewrite, ends, end_count);
  }
  dp_free(ends);
  DP_ARRAY_FREE(&l.rows);
  dp_rewrite_deinit(&l.rewrite);
  return status;
}

dp_status *dp_planner_lower(dp_graph *graph) {
  return dp_planner_lower_all(graph, false);
}
