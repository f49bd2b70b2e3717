/* TF_Graph: a dp_graph, and beside it one TF_Operation per node. The graph room checks nodes and
 * owns them; this file adds what the C API asks for besides: who reads an operation, unique names,
 * shapes set by hand, messages. Any thread may call; the graph's lock guards everything. The user
 * and each session hold a reference. */
#include "client/client_internal.h"

const char *TF_Version(void) {
  return "2.21.0";
}

/* The producer version of graphs, as TF_Version()'s TensorFlow writes it. */
enum { GRAPH_VERSION = 2474 };

/* ---- Life ---- */

TF_Graph *TF_NewGraph(void) {
  TF_Graph *graph = DP_NEW(TF_Graph);
  pthread_mutexattr_t recursive;
  pthread_mutexattr_init(&recursive);
  pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE);
  pthread_mutex_init(&graph->lock, &recursive);
  pthread_mutexattr_destroy(&recursive);
  dp_refcount_init(&graph->references);
  graph->graph = dp_graph_create(NULL);
  graph->graph->producer = GRAPH_VERSION;
  return graph;
}

static void destroy_operation(TF_Operation *operation) {
  if (!operation)
    return;
  DP_ARRAY_FREE(&operation->readers);
  dp_free(operation->shapes);
  dp_free(operation);
}

void dp_client_graph_release(TF_Graph *graph) {
  if (!dp_refcount_release(&graph->references))
    return;
  for (int32_t i = 0; i < graph->operation_count; i++)
    destroy_operation(graph->operations[i]);
  dp_free(graph->operations);
  if (graph->numbers)
    dp_map_destroy(graph->numbers);
  dp_graph_destroy(graph->graph);
  pthread_mutex_destroy(&graph->lock);
  dp_free(graph);
}

void TF_DeleteGraph(TF_Graph *graph) {
  if (graph)
    dp_client_graph_release(graph);
}

/* ---- Operations beside nodes ---- */

static void note_reader(TF_Graph *graph, int32_t source, TF_Input reader, int output) {
  operation_edge edge = {reader, output};
  DP_ARRAY_PUSH(&graph->operations[source]->readers, edge);
}

void dp_client_graph_index(TF_Graph *graph) {
  int32_t first = graph->operation_count, count = graph->graph->node_count;
  if (count > graph->operation_capacity) {
    graph->operation_capacity = count > 2 * first ? count : 2 * first;
    graph->operations = dp_realloc(graph->operations,
                                   sizeof(*graph->operations) * (size_t)graph->operation_capacity);
  }
  for (int32_t i = first; i < count; i++) {
    graph->operations[i] = DP_NEW(TF_Operation);
    graph->operations[i]->graph = graph;
    graph->operations[i]->node = graph->graph->nodes[i];
  }
  graph->operation_count = count;
  for (int32_t i = first; i < count; i++) {
    const dp_node *node = graph->graph->nodes[i];
    for (int32_t k = 0; k < node->input_count; k++)
      note_reader(graph, node->inputs[k].node, (TF_Input){graph->operations[i], k},
                  node->inputs[k].output);
    for (int32_t k = 0; k < node->control_count; k++)
      note_reader(graph, node->controls[k], (TF_Input){graph->operations[i], -1}, -1);
  }
}

void dp_client_graph_remove(TF_Graph *graph, int32_t first) {
  for (int32_t i = 0; i < first; i++) {
    TF_Operation *operation = graph->operations[i];
    size_t kept = 0;
    for (size_t k = 0; operation && k < operation->readers.count; k++)
      if (operation->readers.items[k].reader.oper->node->id < first)
        operation->readers.items[kept++] = operation->readers.items[k];
    if (operation)
      operation->readers.count = kept;
  }
  for (int32_t i = graph->operation_count - 1; i >= first; i--) {
    destroy_operation(graph->operations[i]);
    graph->operations[i] = NULL;
    dp_graph_remove(graph->graph, graph->graph->nodes[i]);
  }
}

char *dp_client_output_name(TF_Output output, dp_arena *arena) {
  return dp_arena_printf(arena, "%s:%d", output.oper->node->name, output.index);
}

void dp_client_set_input(TF_Operation *operation, int index, TF_Output source) {
  TF_Graph *graph = operation->graph;
  dp_node *node = graph->graph->nodes[operation->node->id];
  TF_Operation *old = graph->operations[node->inputs[index].node];
  for (size_t i = 0; i < old->readers.count; i++) {
    const TF_Input *reader = &old->readers.items[i].reader;
    if (reader->oper != operation || reader->index != index)
      continue;
    old->readers.items[i] = old->readers.items[--old->readers.count];
    break;
  }
  dp_node_set_input(node, index, (dp_input){source.oper->node->id, source.index});
  note_reader(graph, source.oper->node->id, (TF_Input){operation, index}, source.index);
}

void dp_client_add_control(TF_Operation *operation, TF_Operation *control) {
  TF_Graph *graph = operation->graph;
  dp_node *node = graph->graph->nodes[operation->node->id];
  int32_t before = node->control_count;
  dp_node_add_control(graph->graph, node, control->node->id);
  if (node->control_count > before)
    note_reader(graph, control->node->id, (TF_Input){operation, -1}, -1);
}

const char *dp_client_graph_unique_name(TF_Graph *graph, const char *name, dp_arena *arena) {
  if (!graph->numbers)
    graph->numbers = dp_map_create();
  intptr_t number = (intptr_t)dp_map_get(graph->numbers, name); /* to append next; 0: none */
  const char *unique = name;
  while (number || dp_graph_find(graph->graph, unique)) {
    number += !number;
    unique = dp_arena_printf(arena, "%s_%d", name, (int)number++);
    if (!dp_map_get(graph->numbers, unique) && !dp_graph_find(graph->graph, unique))
      break;
  }
  dp_map_put(graph->numbers, name, (void *)(number ? number : 1));
  if (unique != name)
    dp_map_put(graph->numbers, unique, (void *)1);
  return unique;
}

TF_Operation *TF_GraphOperationByName(TF_Graph *graph, const char *oper_name) {
  pthread_mutex_lock(&graph->lock);
  const dp_node *node = dp_graph_find(graph->graph, oper_name);
  TF_Operation *found = node ? graph->operations[node->id] : NULL;
  pthread_mutex_unlock(&graph->lock);
  return found;
}

TF_Operation *TF_GraphNextOperation(TF_Graph *graph, size_t *pos) {
  TF_Operation *next = NULL;
  pthread_mutex_lock(&graph->lock);
  while (!next && *pos < (size_t)graph->operation_count)
    next = graph->operations[(*pos)++];
  pthread_mutex_unlock(&graph->lock);
  return next;
}

/* ---- Shapes ---- */

static dp_status *check_output(const TF_Graph *graph, TF_Output output) {
  const TF_Operation *operation = output.oper;
  if (operation->graph != graph)
    return DP_INVALID("Node %s was not found in the graph", operation->node->name);
  if (output.index < 0 || output.index >= operation->node->output_count)
    return DP_INVALID("output_index '%d' is out of range, Node '%s' has %d outputs", output.index,
                      operation->node->name, operation->node->output_count);
  return NULL;
}

static dp_status *set_shape(TF_Graph *graph, TF_Output output, const dp_partial_shape *shape) {
  DP_RETURN_IF_ERROR(check_output(graph, output));
  dp_partial_shape known = dp_client_shape(output), merged;
  if (!dp_partial_shape_merge(&known, shape, &merged)) {
    if (known.rank != shape->rank)
      return DP_INVALID("Shapes must be equal rank, but are %d and %d", known.rank, shape->rank);
    int at = 0;
    while (known.dims[at] == shape->dims[at] || known.dims[at] < 0 || shape->dims[at] < 0)
      at++;
    return DP_INVALID("Dimension %d in both shapes must be equal, but are %lld and %lld. Shapes "
                      "are %s and %s.",
                      at, (long long)known.dims[at], (long long)shape->dims[at],
                      dp_partial_shape_text(&known), dp_partial_shape_text(shape));
  }
  output.oper->shapes[output.index] = merged;
  return NULL;
}

void TF_GraphSetTensorShape(TF_Graph *graph, TF_Output output, const int64_t *dims,
                            const int num_dims, TF_Status *status) {
  dp_partial_shape shape = dp_partial_shape_unknown();
  dp_status *result = num_dims < 0 ? NULL : dp_partial_shape_make(num_dims, dims, &shape);
  pthread_mutex_lock(&graph->lock);
  if (!result)
    result = set_shape(graph, output, &shape);
  pthread_mutex_unlock(&graph->lock);
  dp_client_set_status(status, result);
}

static dp_partial_shape get_shape(TF_Graph *graph, TF_Output output, TF_Status *status) {
  dp_partial_shape shape = dp_partial_shape_unknown();
  pthread_mutex_lock(&graph->lock);
  dp_status *result = check_output(graph, output);
  if (!result)
    shape = dp_client_shape(output);
  pthread_mutex_unlock(&graph->lock);
  dp_client_set_status(status, result);
  return shape;
}

int TF_GraphGetTensorNumDims(TF_Graph *graph, TF_Output output, TF_Status *status) {
  return get_shape(graph, output, status).rank;
}

void TF_GraphGetTensorShape(TF_Graph *graph, TF_Output output, int64_t *dims, int num_dims,
                            TF_Status *status) {
  dp_partial_shape shape = get_shape(graph, output, status);
  if (TF_GetCode(status) != TF_OK)
    return;
  if (shape.rank != num_dims) {
    dp_client_set_status(
        status, DP_INVALID("Expected rank is %d but actual rank is %d", num_dims, shape.rank));
    return;
  }
  for (int i = 0; i < num_dims; i++)
    dims[i] = shape.dims[i];
}

/* ---- Messages ---- */

void TF_GraphToGraphDef(TF_Graph *graph, TF_Buffer *output_graph_def, TF_Status *status) {
  dp_arena *arena = dp_arena_create();
  pthread_mutex_lock(&graph->lock);
  dp_client_set_status(
      status, dp_client_pack(dp_graph_export(graph->graph, arena, true), output_graph_def));
  pthread_mutex_unlock(&graph->lock);
  dp_arena_destroy(arena);
}

void TF_GraphVersions(TF_Graph *graph, TF_Buffer *output_version_def, TF_Status *status) {
  Tensorflow__VersionDef versions = TENSORFLOW__VERSION_DEF__INIT;
  pthread_mutex_lock(&graph->lock);
  versions.producer = graph->graph->producer;
  versions.min_consumer = graph->graph->min_consumer;
  pthread_mutex_unlock(&graph->lock);
  dp_client_set_status(status, dp_client_pack(&versions, output_version_def));
}

void TF_OperationToNodeDef(TF_Operation *oper, TF_Buffer *output_node_def, TF_Status *status) {
  dp_arena *arena = dp_arena_create();
  pthread_mutex_lock(&oper->graph->lock);
  dp_client_set_status(status, dp_client_pack(dp_node_export(oper->graph->graph, oper->node, arena),
                                              output_node_def));
  pthread_mutex_unlock(&oper->graph->lock);
  dp_arena_destroy(arena);
}

/* Drops attributes that have their default value. An older server refuses attributes that it does
 * not know; it fills in the defaults of the others itself. */
static void drop_defaults(const dp_node *node, Tensorflow__NodeDef *message) {
  size_t kept = 0;
  for (size_t i = 0; i < message->n_attr; i++) {
    const dp_attr *attr = dp_node_attr(node, message->attr[i]->key);
    if (!attr || !attr->is_filled)
      message->attr[kept++] = message->attr[i];
  }
  message->n_attr = kept;
}

Tensorflow__GraphDef *dp_client_graph_export(TF_Graph *graph, int32_t first, dp_arena *arena) {
  const dp_graph *from = graph->graph;
  Tensorflow__GraphDef *message = dp_wire_new(arena, &tensorflow__graph_def__descriptor);
  message->node = DP_ARENA_ARRAY(arena, Tensorflow__NodeDef *, from->node_count - first + 1);
  for (int32_t i = first; i < from->node_count; i++) {
    if (!from->nodes[i])
      continue;
    Tensorflow__NodeDef *node = dp_node_export(from, from->nodes[i], arena);
    drop_defaults(from->nodes[i], node);
    message->node[message->n_node++] = node;
  }
  message->versions = dp_wire_new(arena, &tensorflow__version_def__descriptor);
  message->versions->producer = from->producer;
  message->versions->min_consumer = from->min_consumer;
  message->library = dp_library_export(from->library, arena);
  if (message->library && !message->library->n_function)
    message->library = NULL;
  return message;
}
