/* Dead branches: a Switch whose predicate is a constant always goes the same way. The nodes behind
 * its other side never run, so they go; a Merge that is left with one input becomes that input. The
 * Switch itself becomes an Identity, which the dependency pass may then remove.
 *
 * The pass does all or nothing: where something dead would still be asked for (a fetch, a target,
 * a Merge that keeps several inputs), the graph stays as it is. */
#include "planner/optimize_internal.h"

typedef struct branch_pruner {
  dp_graph_optimizer *o;
  int32_t *order;
  int32_t count;
  bool *is_dead; /* by id */
} branch_pruner;

/* The output of a Switch that is alive, 0 or 1; -1 when the predicate is not a constant. */
static int32_t live_side(const dp_graph *graph, const dp_node *node) {
  if (!dp_node_is(node, "Switch"))
    return -1;
  const dp_tensor *predicate = input_constant(graph, node->inputs[1]);
  if (!predicate || predicate->dtype != DP_BOOL || predicate->shape.elements != 1)
    return -1;
  return *(const bool *)predicate->data;
}

static bool is_dead_input(const branch_pruner *b, dp_input input) {
  if (b->is_dead[input.node])
    return true;
  int32_t side = live_side(b->o->graph, b->o->graph->nodes[input.node]);
  return side >= 0 && input.output != side;
}

static bool is_back_edge(const branch_pruner *b, dp_input input) {
  return dp_node_is_next_iteration(b->o->graph->nodes[input.node]);
}

/* A Merge is dead when all its inputs are; in a loop, the input from NextIteration does not count.
 * Any other node is dead when one of its inputs is. */
static bool dies(const branch_pruner *b, const dp_node *node) {
  bool is_merge = dp_node_is_merge(node), all = true, any = false;
  for (int32_t i = 0; i < node->input_count; i++) {
    if (is_merge && is_back_edge(b, node->inputs[i]))
      continue;
    bool is_dead = is_dead_input(b, node->inputs[i]);
    all &= is_dead;
    any |= is_dead;
  }
  if (is_merge)
    return all;
  for (int32_t i = 0; i < node->control_count && !any; i++)
    any = b->is_dead[node->controls[i]];
  return any;
}

static int32_t count_live(const branch_pruner *b, const dp_node *merge, int32_t *last_out) {
  int32_t live = 0;
  for (int32_t i = 0; i < merge->input_count; i++)
    if (!is_dead_input(b, merge->inputs[i])) {
      live++;
      *last_out = i;
    }
  return live;
}

static bool can_prune(const branch_pruner *b) {
  for (int32_t i = 0; i < b->count; i++) {
    const dp_node *node = b->o->graph->nodes[b->order[i]];
    if (b->is_dead[node->id] && optimizer_is_end(b->o, node))
      return false;
    int32_t last;
    if (!b->is_dead[node->id] && dp_node_is_merge(node)) {
      int32_t live = count_live(b, node, &last);
      if (live != node->input_count && (live != 1 || !dp_node_is(node, "Merge")))
        return false;
    }
  }
  return true;
}

/* Lets `to` wait for what `from` waits for, dead nodes left out. */
static void take_live_controls(branch_pruner *b, dp_node *to, const dp_node *from) {
  int32_t *ids = DP_ARENA_ARRAY(b->o->arena, int32_t, from->control_count + 1);
  size_t count = 0;
  for (int32_t i = 0; i < from->control_count; i++)
    if (!b->is_dead[from->controls[i]])
      ids[count++] = dp_rewrite_control(&b->o->rewrite, from->controls[i]);
  dp_planner_add_controls(b->o->graph, to, ids, count);
}

static dp_status *add_identity(branch_pruner *b, const dp_node *node, dp_input value,
                               dp_node **identity_out) {
  dp_attr attr = attr_type("T", dp_dtype_base(node->output_types[0]));
  value = dp_rewrite_input(&b->o->rewrite, value);
  const char *name = dp_arena_printf(b->o->arena, "%s/taken", node->name);
  DP_RETURN_IF_ERROR(
      optimizer_add(b->o, node, "Identity", name, &value, 1, &attr, 1, identity_out));
  take_live_controls(b, *identity_out, node);
  return NULL;
}

static dp_status *replace_switch(branch_pruner *b, dp_node *node) {
  dp_node *identity;
  DP_RETURN_IF_ERROR(add_identity(b, node, node->inputs[0], &identity));
  dp_input *outputs = DP_ARENA_ARRAY(b->o->arena, dp_input, 2);
  outputs[0] = outputs[1] = (dp_input){identity->id, 0};
  dp_rewrite_replace(&b->o->rewrite, node, outputs, identity->id);
  return NULL;
}

static dp_status *replace_merge(branch_pruner *b, dp_node *node, int32_t live) {
  dp_node *identity, *index;
  DP_RETURN_IF_ERROR(add_identity(b, node, node->inputs[live], &identity));
  dp_tensor number;
  DP_RETURN_IF_ERROR(dp_tensor_scalar_int32(live, &number));
  dp_attr attrs[] = {attr_type("dtype", DP_INT32),
                     {.name = "value", .kind = DP_ATTR_TENSOR, .tensor = &number}};
  const char *name = dp_arena_printf(b->o->arena, "%s/index", node->name);
  dp_status *status = optimizer_add(b->o, node, "Const", name, NULL, 0, attrs, 2, &index);
  dp_tensor_deinit(&number);
  DP_RETURN_IF_ERROR(status);
  dp_node_add_control(b->o->graph, index, identity->id);
  dp_input *outputs = DP_ARENA_ARRAY(b->o->arena, dp_input, 2);
  outputs[0] = (dp_input){identity->id, 0};
  outputs[1] = (dp_input){index->id, 0};
  dp_rewrite_replace(&b->o->rewrite, node, outputs, identity->id);
  return NULL;
}

/* live_side reads the graph as it was, so all decisions are made before the first change. */
static dp_status *prune(branch_pruner *b) {
  dp_graph *graph = b->o->graph;
  int32_t *choice = DP_ARENA_ARRAY(b->o->arena, int32_t, b->count);
  for (int32_t i = 0; i < b->count; i++) {
    const dp_node *node = graph->nodes[b->order[i]];
    choice[i] = -1;
    if (b->is_dead[node->id])
      continue;
    if (dp_node_is(node, "Merge") && count_live(b, node, &choice[i]) == node->input_count)
      choice[i] = -1;
    else if (dp_node_is(node, "Switch"))
      choice[i] = live_side(graph, node);
  }
  for (int32_t i = 0; i < b->count; i++) {
    dp_node *node = graph->nodes[b->order[i]];
    if (choice[i] >= 0 && dp_node_is(node, "Switch"))
      DP_RETURN_IF_ERROR(replace_switch(b, node));
    else if (choice[i] >= 0)
      DP_RETURN_IF_ERROR(replace_merge(b, node, choice[i]));
  }
  for (int32_t i = 0; i < b->count; i++)
    if (b->is_dead[b->order[i]])
      dp_graph_remove(graph, graph->nodes[b->order[i]]);
  b->o->changes++;
  return NULL;
}

static bool has_decided_switch(const dp_graph *graph) {
  for (int32_t id = 0; id < graph->node_count; id++)
    if (graph->nodes[id] && live_side(graph, graph->nodes[id]) >= 0)
      return true;
  return false;
}

dp_status *dp_optimize_branches(dp_graph_optimizer *o) {
  if (!has_decided_switch(o->graph))
    return NULL;
  branch_pruner b = {.o = o};
  b.order = DP_ARENA_ARRAY(o->arena, int32_t, o->graph->node_count);
  b.is_dead = DP_ARENA_ARRAY(o->arena, bool, o->graph->node_count);
  b.count = dp_graph_order(o->graph, b.order);
  for (int32_t i = 0; i < b.count; i++)
    b.is_dead[b.order[i]] = dies(&b, o->graph->nodes[b.order[i]]);
  return can_prune(&b) ? prune(&b) : NULL;
}
