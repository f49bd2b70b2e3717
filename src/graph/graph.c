/* Graphs: creating, copying, destroying, and removing nodes. The memory of nodes is in the graph's
 * arena and in one arena per import. dp_graph_destroy frees these arenas and releases the tensors
 * in attributes. One writer. */
#include "graph/graph.h"

#include <string.h>

#include "graph/graph_internal.h"

dp_graph *dp_graph_create(dp_library *library) {
  dp_graph *graph = DP_NEW(dp_graph);
  graph->arena = dp_arena_create();
  graph->library = library ? dp_library_retain(library) : dp_library_create();
  return graph;
}

void dp_graph_destroy(dp_graph *graph) {
  if (!graph)
    return;
  dp_tensor_array_release(&graph->tensors);
  for (size_t i = 0; i < graph->imports.count; i++)
    dp_arena_destroy(graph->imports.items[i]);
  DP_ARRAY_FREE(&graph->imports);
  dp_arena_destroy(graph->arena);
  dp_free(graph->nodes);
  dp_free(graph->names.slots);
  dp_library_release(graph->library);
  dp_free(graph);
}

void dp_graph_reserve(dp_graph *graph, int32_t nodes) {
  if (nodes <= graph->node_capacity)
    return;
  int64_t wanted = graph->node_capacity ? (int64_t)graph->node_capacity * 2 : 16;
  if (wanted < nodes)
    wanted = nodes;
  if (wanted > INT32_MAX)
    wanted = INT32_MAX;
  graph->nodes = dp_realloc(graph->nodes, sizeof(*graph->nodes) * (size_t)wanted);
  graph->node_capacity = (int32_t)wanted;
}

static dp_attr_store store_of(dp_graph *graph) {
  return (dp_attr_store){graph->arena, &graph->tensors};
}

/* A copy of an attribute that the op declares borrows the name from the op; any other name is
 * copied. */
static dp_attr copy_attr(dp_graph *to, const dp_op *op, const dp_attr *attr) {
  dp_attr_store store = store_of(to);
  int index = attr->name[0] == '_' ? -1 : dp_op_attr_index(op, attr->name);
  dp_attr copy = dp_attr_store_copy(&store, attr);
  copy.name = index >= 0 ? op->attrs[index].name : dp_arena_strdup(to->arena, attr->name);
  return copy;
}

static const int32_t *copy_types(dp_graph *to, const int32_t *types, int32_t count) {
  int32_t *copy = dp_arena_allocate(to->arena, sizeof(int32_t) * (size_t)count);
  if (count)
    memcpy(copy, types, sizeof(int32_t) * (size_t)count);
  return copy;
}

/* A copy of `node` called `name`: its id is not valid in `to`, and its inputs and controls are
 * zero-filled. */
static dp_node *copy_node(dp_graph *to, const dp_node *node, const char *name) {
  dp_node *copy = dp_arena_allocate(to->arena, sizeof(*copy));
  *copy = *node;
  copy->name = dp_arena_strdup(to->arena, name);
  copy->device = *node->device ? dp_arena_strdup(to->arena, node->device) : "";
  copy->assigned_device =
      node->assigned_device ? dp_arena_strdup(to->arena, node->assigned_device) : NULL;
  copy->original_name =
      node->original_name ? dp_arena_strdup(to->arena, node->original_name) : NULL;
  copy->input_types = copy_types(to, node->input_types, node->input_count);
  copy->output_types = copy_types(to, node->output_types, node->output_count);
  copy->inputs = DP_ARENA_ARRAY(to->arena, dp_input, node->input_count);
  copy->controls = DP_ARENA_ARRAY(to->arena, int32_t, node->control_count);
  copy->attrs = DP_ARENA_ARRAY(to->arena, dp_attr, node->attr_count);
  for (int32_t i = 0; i < node->attr_count; i++)
    copy->attrs[i] = copy_attr(to, node->op, &node->attrs[i]);
  return copy;
}

static void insert_node(dp_graph *graph, dp_node *node) {
  graph->nodes[node->id] = node;
  dp_names_insert(graph, node, dp_name_hash(node->name, strlen(node->name)));
}

dp_graph *dp_graph_copy(const dp_graph *graph) {
  dp_graph *copy = dp_graph_create(graph->library);
  copy->producer = graph->producer;
  copy->min_consumer = graph->min_consumer;
  copy->refuse_internal_names = graph->refuse_internal_names;
  dp_graph_reserve(copy, graph->node_count);
  dp_names_reserve(copy, graph->names.count);
  copy->node_count = graph->node_count;
  for (int32_t id = 0; id < graph->node_count; id++) {
    const dp_node *node = graph->nodes[id];
    copy->nodes[id] = NULL;
    if (!node)
      continue;
    dp_node *twin = copy_node(copy, node, node->name);
    if (node->input_count)
      memcpy(twin->inputs, node->inputs, sizeof(dp_input) * (size_t)node->input_count);
    if (node->control_count)
      memcpy(twin->controls, node->controls, sizeof(int32_t) * (size_t)node->control_count);
    insert_node(copy, twin);
  }
  return copy;
}

dp_node *dp_graph_clone_node(dp_graph *to, const dp_node *node, const char *name) {
  dp_node *copy = copy_node(to, node, name);
  dp_graph_reserve(to, to->node_count + 1);
  copy->id = to->node_count++;
  insert_node(to, copy);
  return copy;
}

void dp_graph_remove(dp_graph *graph, dp_node *node) {
  dp_names_remove(graph, node);
  graph->nodes[node->id] = NULL;
}

dp_attr dp_attr_copy(dp_graph *graph, const dp_attr *attr) {
  dp_attr_store store = store_of(graph);
  dp_attr copy = dp_attr_store_copy(&store, attr);
  copy.name = attr->name ? dp_arena_strdup(graph->arena, attr->name) : NULL;
  return copy;
}
