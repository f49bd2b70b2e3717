/* Adding one node, and changing inputs, controls and attributes of nodes: for passes, the C API and
 * function bodies. A node that is added passes the same checks as an imported one. An array that
 * grows is allocated anew in the graph's arena; the old one stays until the graph is destroyed. One
 * writer per graph. */
#include <string.h>

#include "graph/graph_internal.h"

static dp_status *check_references(const dp_graph *graph, const dp_node_builder *builder) {
  if (builder->input_count < 0 || builder->control_count < 0 || builder->attr_count < 0)
    return DP_INVALID("Node '%s': a negative count", builder->name);
  for (int32_t i = 0; i < builder->input_count; i++) {
    int32_t id = builder->inputs[i].node;
    if (id < 0 || id >= graph->node_count || !graph->nodes[id])
      return DP_INVALID("Node '%s': Unknown input node %d", builder->name, id);
  }
  for (int32_t i = 0; i < builder->control_count; i++) {
    int32_t id = builder->controls[i];
    if (id < 0 || id >= graph->node_count || !graph->nodes[id])
      return DP_INVALID("Node '%s': Unknown input node %d", builder->name, id);
  }
  return NULL;
}

static void copy_edges(dp_graph *graph, const dp_node_builder *builder, dp_node *node) {
  size_t inputs = sizeof(dp_input) * (size_t)builder->input_count;
  size_t controls = sizeof(int32_t) * (size_t)builder->control_count;
  node->inputs = dp_arena_allocate(graph->arena, inputs);
  node->controls = dp_arena_allocate(graph->arena, controls);
  if (inputs)
    memcpy(node->inputs, builder->inputs, inputs);
  if (controls)
    memcpy(node->controls, builder->controls, controls);
  node->input_count = builder->input_count;
  node->control_count = dp_controls_sort(node->controls, builder->control_count);
}

static dp_status *fill_node(dp_graph *graph, const dp_node_builder *builder, dp_node *node) {
  dp_attr *attrs = DP_ARENA_ARRAY(graph->arena, dp_attr, builder->attr_count);
  for (int32_t i = 0; i < builder->attr_count; i++)
    attrs[i] = dp_attr_copy(graph, &builder->attrs[i]);
  int32_t attr_count = dp_attr_sort(attrs, builder->attr_count);
  copy_edges(graph, builder, node);
  DP_RETURN_IF_ERROR(dp_node_complete(graph->arena, node, attrs, attr_count, NULL));
  for (int32_t i = 0; i < node->input_count; i++)
    DP_RETURN_IF_ERROR(
        dp_node_check_input(node, i, graph->nodes[node->inputs[i].node], node->inputs[i].output));
  return NULL;
}

dp_status *dp_graph_add(dp_graph *graph, const dp_node_builder *builder, dp_node **node_out) {
  if (!builder->allows_any_name && !dp_name_is_valid(builder->name, true))
    return DP_INVALID("Node '%s': Node name contains invalid characters", builder->name);
  size_t length = strlen(builder->name);
  uint32_t hash = dp_name_hash(builder->name, length);
  if (dp_names_find(graph, builder->name, length, hash) >= 0)
    return DP_INVALID("Duplicate node name in graph: '%s'", builder->name);
  DP_RETURN_IF_ERROR(check_references(graph, builder));
  if (graph->node_count == INT32_MAX)
    return dp_status_create(DP_RESOURCE_EXHAUSTED, "The graph has too many nodes");
  dp_node *node = DP_ARENA_NEW(graph->arena, dp_node);
  node->name = dp_arena_strndup(graph->arena, builder->name, length);
  node->op = builder->op;
  node->device =
      builder->device && *builder->device ? dp_arena_strdup(graph->arena, builder->device) : "";
  DP_RETURN_IF_ERROR(fill_node(graph, builder, node));
  dp_graph_reserve(graph, graph->node_count + 1);
  node->id = graph->node_count++;
  graph->nodes[node->id] = node;
  dp_names_insert(graph, node, hash);
  if (node_out)
    *node_out = node;
  return NULL;
}

void dp_node_set_input(dp_node *node, int32_t slot, dp_input input) {
  node->inputs[slot] = input;
}

void dp_node_add_control(dp_graph *graph, dp_node *node, int32_t control) {
  int32_t at = 0;
  while (at < node->control_count && node->controls[at] < control)
    at++;
  if (at < node->control_count && node->controls[at] == control)
    return;
  int32_t *grown =
      dp_arena_allocate(graph->arena, sizeof(int32_t) * (size_t)(node->control_count + 1));
  if (at)
    memcpy(grown, node->controls, sizeof(int32_t) * (size_t)at);
  grown[at] = control;
  if (at < node->control_count)
    memcpy(grown + at + 1, node->controls + at,
           sizeof(int32_t) * (size_t)(node->control_count - at));
  node->controls = grown;
  node->control_count++;
}

void dp_node_remove_control(dp_node *node, int32_t control) {
  int32_t kept = 0;
  for (int32_t i = 0; i < node->control_count; i++)
    if (node->controls[i] != control)
      node->controls[kept++] = node->controls[i];
  node->control_count = kept;
}

void dp_node_set_attr(dp_graph *graph, dp_node *node, const dp_attr *attr) {
  dp_attr copy = dp_attr_copy(graph, attr);
  int32_t at = 0;
  while (at < node->attr_count && strcmp(node->attrs[at].name, attr->name) < 0)
    at++;
  if (at < node->attr_count && strcmp(node->attrs[at].name, attr->name) == 0) {
    copy.name = node->attrs[at].name;
    node->attrs[at] = copy;
    return;
  }
  dp_attr *grown =
      dp_arena_allocate(graph->arena, sizeof(dp_attr) * (size_t)(node->attr_count + 1));
  if (at)
    memcpy(grown, node->attrs, sizeof(dp_attr) * (size_t)at);
  grown[at] = copy;
  if (at < node->attr_count)
    memcpy(grown + at + 1, node->attrs + at, sizeof(dp_attr) * (size_t)(node->attr_count - at));
  node->attrs = grown;
  node->attr_count++;
}
