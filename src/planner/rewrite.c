/* Rewriting a graph by a table of replacements, with one row per node id. rewrite_internal.h says
 * how a pass uses it. Rows are made when a node is first replaced, so that a pass without changes
 * costs nothing. One thread per graph. */
#include "planner/rewrite_internal.h"

void dp_rewrite_init(dp_rewrite *rewrite, dp_graph *graph) {
  *rewrite = (dp_rewrite){.graph = graph, .arena = dp_arena_create()};
}

void dp_rewrite_deinit(dp_rewrite *rewrite) {
  DP_ARRAY_FREE(&rewrite->rows);
  dp_arena_destroy(rewrite->arena);
}

static bool is_gone(const dp_rewrite *rewrite, int32_t id) {
  return (size_t)id < rewrite->rows.count && rewrite->rows.items[id].is_gone;
}

dp_input dp_rewrite_input(const dp_rewrite *rewrite, dp_input input) {
  while (is_gone(rewrite, input.node))
    input = rewrite->rows.items[input.node].outputs[input.output];
  return input;
}

int32_t dp_rewrite_control(const dp_rewrite *rewrite, int32_t id) {
  while (is_gone(rewrite, id))
    id = rewrite->rows.items[id].control;
  return id;
}

void dp_rewrite_replace(dp_rewrite *rewrite, dp_node *node, const dp_input *outputs,
                        int32_t control) {
  if (rewrite->rows.count <= (size_t)node->id) {
    DP_ARRAY_RESERVE(&rewrite->rows, (size_t)rewrite->graph->node_count);
    while (rewrite->rows.count < (size_t)rewrite->graph->node_count)
      rewrite->rows.items[rewrite->rows.count++] = (dp_rewrite_row){0};
  }
  rewrite->rows.items[node->id] =
      (dp_rewrite_row){.is_gone = true, .control = control, .outputs = outputs};
  rewrite->has_changes = true;
  dp_graph_remove(rewrite->graph, node);
}

void dp_rewrite_replace_one(dp_rewrite *rewrite, dp_node *node, dp_input output, int32_t control) {
  dp_input *outputs = DP_ARENA_NEW(rewrite->arena, dp_input);
  *outputs = output;
  dp_rewrite_replace(rewrite, node, outputs, control);
}

void dp_rewrite_take_controls(dp_rewrite *rewrite, dp_node *to, const dp_node *from) {
  size_t count = (size_t)from->control_count;
  int32_t *ids = dp_arena_allocate(rewrite->arena, sizeof(*ids) * (count + 1));
  for (size_t i = 0; i < count; i++)
    ids[i] = dp_rewrite_control(rewrite, from->controls[i]);
  dp_planner_add_controls(rewrite->graph, to, ids, count);
}

void dp_rewrite_apply(dp_rewrite *rewrite) {
  if (!rewrite->has_changes)
    return;
  rewrite->has_changes = false;
  for (int32_t id = 0; id < rewrite->graph->node_count; id++) {
    dp_node *node = rewrite->graph->nodes[id];
    if (!node)
      continue;
    for (int32_t i = 0; i < node->input_count; i++)
      node->inputs[i] = dp_rewrite_input(rewrite, node->inputs[i]);
    for (int32_t i = 0; i < node->control_count; i++)
      node->controls[i] = dp_rewrite_control(rewrite, node->controls[i]);
    node->control_count = dp_planner_sort_ids(node->controls, node->control_count);
  }
}

int32_t dp_graph_find_ends(const dp_graph *graph, int32_t *ends_out) {
  bool *is_read = DP_NEW_ARRAY(bool, (size_t)graph->node_count + 1);
  for (int32_t id = 0; id < graph->node_count; id++) {
    const dp_node *node = graph->nodes[id];
    for (int32_t i = 0; node && i < node->input_count; i++)
      is_read[node->inputs[i].node] = true;
    for (int32_t i = 0; node && i < node->control_count; i++)
      is_read[node->controls[i]] = true;
  }
  int32_t count = 0;
  for (int32_t id = 0; id < graph->node_count; id++)
    if (graph->nodes[id] && !is_read[id])
      ends_out[count++] = id;
  dp_free(is_read);
  return count;
}

typedef struct reverse_walk {
  bool *is_needed;
  int32_t *stack;
  int32_t depth;
} reverse_walk;

static void need(reverse_walk *walk, int32_t id) {
  if (walk->is_needed[id])
    return;
  walk->is_needed[id] = true;
  walk->stack[walk->depth++] = id;
}

void dp_rewrite_drop_unread(const dp_rewrite *rewrite, const int32_t *ends, int32_t end_count) {
  dp_graph *graph = rewrite->graph;
  reverse_walk walk = {.is_needed = DP_NEW_ARRAY(bool, (size_t)graph->node_count + 1),
                       .stack = DP_NEW_ARRAY(int32_t, (size_t)graph->node_count + 1)};
  for (int32_t i = 0; i < end_count; i++)
    need(&walk, dp_rewrite_control(rewrite, ends[i]));
  while (walk.depth > 0) {
    const dp_node *node = graph->nodes[walk.stack[--walk.depth]];
    for (int32_t i = 0; i < node->input_count; i++)
      need(&walk, node->inputs[i].node);
    for (int32_t i = 0; i < node->control_count; i++)
      need(&walk, node->controls[i]);
  }
  for (int32_t id = 0; id < graph->node_count; id++)
    if (graph->nodes[id] && !walk.is_needed[id])
      dp_graph_remove(graph, graph->nodes[id]);
  dp_free(walk.stack);
  dp_free(walk.is_needed);
}
