/* Writes a graph as a GraphDef. The message borrows names, strings and numbers from the graph,
 * which must outlive it; whatever protobuf-c needs in another form is made in the caller's arena. A
 * node's data inputs come first, then its control inputs in the order of their ids; attributes are
 * in the order of their names. The graph is only read. */
#include <string.h>

#include "graph/graph_internal.h"

static char *input_name(const dp_graph *graph, dp_input input, dp_arena *arena) {
  const char *name = graph->nodes[input.node]->name;
  return input.output == 0 ? (char *)name : dp_arena_printf(arena, "%s:%d", name, input.output);
}

static char *control_name(const dp_graph *graph, int32_t control, dp_arena *arena) {
  const char *name = graph->nodes[control]->name;
  size_t length = strlen(name);
  char *text = dp_arena_allocate(arena, length + 2);
  text[0] = '^';
  return memcpy(text + 1, name, length + 1), text;
}

static Tensorflow__NodeDef__ExperimentalDebugInfo *debug_info(const char *name, dp_arena *arena) {
  Tensorflow__NodeDef__ExperimentalDebugInfo *message =
      dp_wire_new(arena, &tensorflow__node_def__experimental_debug_info__descriptor);
  message->n_original_node_names = 1;
  message->original_node_names = DP_ARENA_NEW(arena, char *);
  message->original_node_names[0] = (char *)name;
  return message;
}

static void write_attrs(const dp_node *node, bool with_filled, Tensorflow__NodeDef *message,
                        dp_arena *arena) {
  message->attr = DP_ARENA_ARRAY(arena, Tensorflow__NodeDef__AttrEntry *, node->attr_count);
  for (int32_t i = 0; i < node->attr_count; i++) {
    if (node->attrs[i].is_filled && !with_filled)
      continue;
    Tensorflow__NodeDef__AttrEntry *entry =
        dp_wire_new(arena, &tensorflow__node_def__attr_entry__descriptor);
    entry->key = (char *)node->attrs[i].name;
    entry->value = dp_attr_to_message(&node->attrs[i], arena);
    message->attr[message->n_attr++] = entry;
  }
}

static Tensorflow__NodeDef *export_node(const dp_graph *graph, const dp_node *node, dp_arena *arena,
                                        bool with_filled) {
  Tensorflow__NodeDef *message = dp_wire_new(arena, &tensorflow__node_def__descriptor);
  message->name = (char *)node->name;
  message->op = (char *)node->op->name;
  message->device = (char *)(node->assigned_device ? node->assigned_device : node->device);
  message->n_input = (size_t)node->input_count + (size_t)node->control_count;
  message->input = DP_ARENA_ARRAY(arena, char *, message->n_input);
  for (int32_t i = 0; i < node->input_count; i++)
    message->input[i] = input_name(graph, node->inputs[i], arena);
  for (int32_t i = 0; i < node->control_count; i++)
    message->input[node->input_count + i] = control_name(graph, node->controls[i], arena);
  write_attrs(node, with_filled, message, arena);
  if (node->original_name)
    message->experimental_debug_info = debug_info(node->original_name, arena);
  return message;
}

Tensorflow__NodeDef *dp_node_export(const dp_graph *graph, const dp_node *node, dp_arena *arena) {
  return export_node(graph, node, arena, true);
}

static Tensorflow__GraphDef *export_graph(const dp_graph *graph, dp_arena *arena, bool with_library,
                                          bool with_filled) {
  Tensorflow__GraphDef *message = dp_wire_new(arena, &tensorflow__graph_def__descriptor);
  message->node = DP_ARENA_ARRAY(arena, Tensorflow__NodeDef *, graph->node_count);
  for (int32_t id = 0; id < graph->node_count; id++)
    if (graph->nodes[id])
      message->node[message->n_node++] = export_node(graph, graph->nodes[id], arena, with_filled);
  message->versions = dp_wire_new(arena, &tensorflow__version_def__descriptor);
  message->versions->producer = graph->producer;
  message->versions->min_consumer = graph->min_consumer;
  if (with_library)
    message->library = dp_library_export(graph->library, arena);
  return message;
}

Tensorflow__GraphDef *dp_graph_export(const dp_graph *graph, dp_arena *arena, bool with_library) {
  return export_graph(graph, arena, with_library, true);
}

Tensorflow__GraphDef *dp_graph_export_given(const dp_graph *graph, dp_arena *arena,
                                            bool with_library) {
  return export_graph(graph, arena, with_library, false);
}
