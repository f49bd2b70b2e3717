/* Adds a GraphDef to a graph.
 *
 * The nodes are made in an arena of their own. Each step runs over all nodes before the next
 * begins: ops, names, inputs, attributes, edges, cycles. TensorFlow's master checks in the same
 * order, so the first error is the same. On an error the graph's tables are restored, the arena is
 * destroyed and the functions that were added are removed, so that the graph is as before. An input
 * costs one lookup in the name index; a node costs no malloc. One writer per graph. */
#include <string.h>

#include "graph/graph_internal.h"

enum { oldest_producer = 0 };
typedef struct importer {
  dp_graph *graph;
  const Tensorflow__GraphDef *message;
  dp_arena *arena;
  dp_tensor_array tensors;
  dp_library_addition functions; /* added by this import */
  dp_node *nodes;                /* of the message, in its order */
  int32_t first;                 /* id of nodes[0] */
  int32_t count;
  int32_t entered; /* how many are in the graph's tables */
  const char *recent_devices[4];
  unsigned next_device;
} importer;

static dp_status *check_versions(const dp_graph *graph, const Tensorflow__GraphDef *message) {
  int32_t producer = message->versions ? message->versions->producer : 0;
  int32_t min_consumer = message->versions ? message->versions->min_consumer : 0;
  if (producer < oldest_producer)
    return DP_INVALID("GraphDef producer version %d below min producer %d supported by TensorFlow "
                      "2.21.0.  Please regenerate your graph.",
                      producer, oldest_producer);
  if (min_consumer > DP_GRAPH_VERSION)
    return DP_INVALID("GraphDef min consumer version %d above current version %d for TensorFlow "
                      "2.21.0.  Please upgrade TensorFlow.",
                      min_consumer, DP_GRAPH_VERSION);
  for (size_t i = 0; message->versions && i < message->versions->n_bad_consumers; i++)
    if (message->versions->bad_consumers[i] == DP_GRAPH_VERSION)
      return DP_INVALID("GraphDef disallows consumer version %d.  Please upgrade TensorFlow: this "
                        "version is likely buggy.",
                        DP_GRAPH_VERSION);
  if (graph->node_count > 0 && message->n_node > 0 && graph->producer && producer &&
      graph->producer != producer)
    return DP_INVALID("Can't extend GraphDef at version %d with graph at version %d",
                      graph->producer, producer);
  return NULL;
}

/* ---- Ops and names ---- */

static dp_status *find_ops(importer *in) {
  const dp_library *library = in->graph->library;
  for (int32_t i = 0; i < in->count; i++) {
    const Tensorflow__NodeDef *def = in->message->node[i];
    if (!*def->op)
      return DP_INVALID("Node '%s' does not specify an operation", def->name);
    const dp_op *op = dp_library_find_op(library, def->op);
    if (!op)
      return dp_op_unknown(def->op);
    in->nodes[i].op = op;
  }
  return NULL;
}

/* A copy of the name. Most nodes name one of a few devices, so the recent names are shared. */
static const char *keep_device(importer *in, const char *device) {
  if (!*device)
    return "";
  for (size_t i = 0; i < 4; i++)
    if (in->recent_devices[i] && strcmp(in->recent_devices[i], device) == 0)
      return in->recent_devices[i];
  const char *copy = dp_arena_strdup(in->arena, device);
  in->recent_devices[in->next_device++ % 4] = copy;
  return copy;
}

static dp_status *enter_names(importer *in) {
  dp_graph *graph = in->graph;
  size_t bytes = 0;
  for (int32_t i = 0; i < in->count; i++)
    bytes += strlen(in->message->node[i]->name) + 1;
  char *room = dp_arena_allocate(in->arena, bytes);
  for (int32_t i = 0; i < in->count; i++) {
    const Tensorflow__NodeDef *def = in->message->node[i];
    dp_node *node = &in->nodes[i];
    if (!dp_name_is_valid(def->name, !graph->refuse_internal_names))
      return DP_INVALID("Node '%s': Node name contains invalid characters", def->name);
    size_t length = strlen(def->name);
    uint32_t hash = dp_name_hash(def->name, length);
    int32_t other = dp_names_find(graph, def->name, length, hash);
    if (other >= in->first)
      return DP_INVALID("Node '%s' is not unique", def->name);
    if (other >= 0)
      return DP_INVALID("GraphDef argument to Extend includes node '%s', which was created by a "
                        "previous call to Create or Extend in this session.",
                        def->name);
    node->name = memcpy(room, def->name, length + 1);
    room += length + 1;
    node->id = in->first + i;
    node->device = keep_device(in, def->device);
    if (def->experimental_debug_info && def->experimental_debug_info->n_original_node_names)
      node->original_name =
          dp_arena_strdup(in->arena, def->experimental_debug_info->original_node_names[0]);
    graph->nodes[node->id] = node;
    dp_names_insert(graph, node, hash);
    in->entered++;
  }
  return NULL;
}

/* ---- Inputs ---- */

static dp_status *find_inputs(importer *in, int32_t index) {
  const Tensorflow__NodeDef *def = in->message->node[index];
  dp_node *node = &in->nodes[index];
  if (def->n_input > INT32_MAX / 2)
    return DP_INVALID("Node '%s' has too many inputs", def->name);
  size_t data = 0;
  while (data < def->n_input && def->input[data][0] != '^')
    data++;
  node->input_count = (int32_t)data;
  node->inputs = dp_arena_allocate(in->arena, sizeof(dp_input) * data);
  node->controls = dp_arena_allocate(in->arena, sizeof(int32_t) * (def->n_input - data));
  for (size_t i = 0; i < def->n_input; i++) {
    int32_t output;
    dp_view name = dp_parse_input(def->input[i], &output);
    if (i >= data && output >= 0)
      return DP_INVALID("Node '%s': Control dependencies must come after regular dependencies",
                        def->name);
    int32_t id =
        dp_names_find(in->graph, name.data, name.length, dp_name_hash(name.data, name.length));
    if (id < 0)
      return DP_INVALID("Node '%s': Unknown input node '%s'", def->name, def->input[i]);
    if (output >= 0)
      node->inputs[i] = (dp_input){.node = id, .output = output};
    else
      node->controls[i - data] = id;
  }
  node->control_count = dp_controls_sort(node->controls, (int32_t)(def->n_input - data));
  return NULL;
}

/* ---- Attributes ---- */

/* A name that lives as long as the graph: the op's own, a constant for two names that many nodes
 * have and no op declares, or else a copy. */
static const char *keep_attr_name(importer *in, const dp_op *op, const char *name) {
  static const char *const common[] = {"_class", "_output_shapes"};
  if (name[0] == '_') {
    for (size_t i = 0; i < sizeof(common) / sizeof(*common); i++)
      if (strcmp(name, common[i]) == 0)
        return common[i];
  } else {
    int index = dp_op_attr_index(op, name);
    if (index >= 0)
      return op->attrs[index].name;
  }
  return dp_arena_strdup(in->arena, name);
}

static dp_status *read_attrs(importer *in, int32_t index, int64_t *values_left) {
  enum { few = 24 };
  const Tensorflow__NodeDef *def = in->message->node[index];
  dp_node *node = &in->nodes[index];
  if (def->n_attr > INT16_MAX)
    return DP_INVALID("Node '%s' has too many attributes: %zu", def->name, def->n_attr);
  dp_attr_store store = {in->arena, &in->tensors};
  dp_attr on_stack[few];
  dp_attr *attrs = def->n_attr <= few ? on_stack : DP_NEW_ARRAY(dp_attr, def->n_attr);
  dp_status *status = NULL;
  for (size_t i = 0; i < def->n_attr && !status; i++) {
    attrs[i].name = keep_attr_name(in, node->op, def->attr[i]->key);
    status = dp_attr_from_message(&store, def->attr[i]->value, &attrs[i]);
    if (status)
      status = dp_status_append(status, "\n\t for attr '%s'\n\t; NodeDef: {{node %s}}",
                                def->attr[i]->key, def->name);
  }
  if (!status) {
    int32_t count = dp_attr_sort(attrs, (int32_t)def->n_attr);
    status = dp_node_complete(in->arena, node, attrs, count, values_left);
  }
  if (attrs != on_stack)
    dp_free(attrs);
  return status;
}

static dp_status *check_edges(const importer *in, const dp_node *node) {
  for (int32_t i = 0; i < node->input_count; i++)
    DP_RETURN_IF_ERROR(dp_node_check_input(node, i, in->graph->nodes[node->inputs[i].node],
                                           node->inputs[i].output));
  return NULL;
}

/* ---- All of it ---- */

static dp_status *import_nodes(importer *in) {
  DP_RETURN_IF_ERROR(find_ops(in));
  dp_graph_reserve(in->graph, in->first + in->count);
  dp_names_reserve(in->graph, in->graph->names.count + (uint32_t)in->count);
  DP_RETURN_IF_ERROR(enter_names(in));
  for (int32_t i = 0; i < in->count; i++)
    DP_RETURN_IF_ERROR(find_inputs(in, i));
  int64_t values_left = DP_GRAPH_MOST_VALUES;
  for (int32_t i = 0; i < in->count; i++)
    DP_RETURN_IF_ERROR(read_attrs(in, i, &values_left));
  for (int32_t i = 0; i < in->count; i++)
    DP_RETURN_IF_ERROR(check_edges(in, &in->nodes[i]));
  in->graph->node_count += in->count;
  int32_t cyclic = dp_graph_count_cyclic(in->graph, in->first);
  if (cyclic) {
    in->graph->node_count -= in->count;
    return DP_INVALID("%d nodes in a cycle", cyclic);
  }
  return NULL;
}

static void roll_back(importer *in) {
  for (int32_t i = in->entered - 1; i >= 0; i--)
    dp_names_remove(in->graph, &in->nodes[i]);
  dp_library_undo(in->graph->library, &in->functions);
  dp_tensor_array_release(&in->tensors);
  dp_arena_destroy(in->arena);
}

static void commit(importer *in) {
  dp_graph *graph = in->graph;
  for (size_t i = 0; i < in->tensors.count; i++)
    DP_ARRAY_PUSH(&graph->tensors, in->tensors.items[i]);
  DP_ARRAY_FREE(&in->tensors);
  DP_ARRAY_PUSH(&graph->imports, in->arena);
  if (in->message->versions) {
    if (in->message->versions->producer)
      graph->producer = in->message->versions->producer;
    if (in->message->versions->min_consumer > graph->min_consumer)
      graph->min_consumer = in->message->versions->min_consumer;
  }
}

dp_status *dp_graph_import(dp_graph *graph, const Tensorflow__GraphDef *message) {
  DP_RETURN_IF_ERROR(check_versions(graph, message));
  if (message->n_node > (size_t)(INT32_MAX / 2 - graph->node_count))
    return dp_status_create(DP_RESOURCE_EXHAUSTED, "The graph would have too many nodes");
  importer in = {.graph = graph,
                 .message = message,
                 .arena = dp_arena_create(),
                 .first = graph->node_count,
                 .count = (int32_t)message->n_node};
  in.nodes = DP_ARENA_ARRAY(in.arena, dp_node, in.count);
  dp_status *status = NULL;
  if (message->library)
    status = dp_library_add_listing(graph->library, message->library, &in.functions);
  if (!status)
    status = import_nodes(&in);
  if (status)
    roll_back(&in);
  else
    commit(&in);
  DP_ARRAY_FREE(&in.functions.functions);
  DP_ARRAY_FREE(&in.functions.gradients);
  return status;
}
