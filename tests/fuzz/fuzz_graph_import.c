/* Fuzzes the import of a GraphDef into a graph, and the instantiation of its functions. A graph
 * that is accepted must export to a message that is accepted again. A message that is refused must
 * leave the graph as it was. */
#include <stdlib.h>
#include <string.h>

#include "graph/graph_internal.h"

/* The graph that the input extends. */
static dp_graph *start(void) {
  dp_graph *graph = dp_graph_create(NULL);
  dp_attr dtype = {.name = "dtype", .kind = DP_ATTR_TYPE, .type = DP_FLOAT};
  dp_node_builder builder = {
      .name = "old", .op = dp_op_find("Placeholder"), .attrs = &dtype, .attr_count = 1};
  if (dp_graph_add(graph, &builder, NULL) != NULL)
    abort();
  return graph;
}

static void check_again(const dp_graph *graph, dp_arena *arena) {
  uint8_t *bytes;
  size_t length;
  Tensorflow__GraphDef *message = dp_graph_export(graph, arena, true);
  dp_graph *again = dp_graph_create(NULL);
  if (dp_wire_pack_bytes(message, arena, &bytes, &length) != NULL ||
      dp_wire_unpack_bytes(&tensorflow__graph_def__descriptor, bytes, length, arena, &message) !=
          NULL ||
      dp_graph_import(again, message) != NULL)
    abort();
  dp_graph_destroy(again);
}

static void walk(const dp_graph *graph) {
  int32_t *ids = malloc(sizeof(*ids) * ((size_t)graph->node_count + 1));
  if (dp_graph_order(graph, ids) != graph->node_count)
    abort();
  free(ids);
  dp_text text = {0};
  for (int32_t i = 0; i < graph->node_count && i < 100; i++)
    dp_node_print(graph, graph->nodes[i], &text);
  dp_text_deinit(&text);
}

/* Instantiates each function. All its type attributes are one dtype, all its numbers one number. */
static void instantiate_all(const dp_graph *graph, dp_arena *arena) {
  Tensorflow__FunctionDefLibrary *library = dp_library_export(graph->library, arena);
  for (size_t i = 0; i < library->n_function && i < 20; i++) {
    const Tensorflow__OpDef *signature = library->function[i]->signature;
    dp_attr *attrs = DP_ARENA_ARRAY(arena, dp_attr, signature->n_attr);
    int32_t count = 0;
    for (size_t j = 0; j < signature->n_attr; j++) {
      if (strcmp(signature->attr[j]->type, "type") == 0)
        attrs[count++] =
            (dp_attr){.name = signature->attr[j]->name, .kind = DP_ATTR_TYPE, .type = DP_FLOAT};
      else if (strcmp(signature->attr[j]->type, "int") == 0)
        attrs[count++] =
            (dp_attr){.name = signature->attr[j]->name, .kind = DP_ATTR_INT, .integer = 2};
    }
    dp_function_body body;
    dp_func call = {.name = signature->name, .attrs = attrs, .attr_count = count};
    dp_status *status = dp_function_instantiate(graph->library, &call, &body);
    if (!status) {
      walk(body.graph);
      dp_graph_destroy(body.graph);
    }
    dp_status_release(status);
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  dp_buffer_set_limit(256u << 20);
  dp_arena *arena = dp_arena_create();
  Tensorflow__GraphDef *message;
  dp_status *status =
      dp_wire_unpack_bytes(&tensorflow__graph_def__descriptor, data, size, arena, &message);
  if (!status) {
    dp_graph *graph = start();
    status = dp_graph_import(graph, message);
    if (status) {
      if (graph->node_count != 1 || graph->names.count != 1 ||
          dp_library_export(graph->library, arena)->n_function)
        abort();
    } else {
      walk(graph);
      check_again(graph, arena);
      instantiate_all(graph, arena);
      dp_graph *copy = dp_graph_copy(graph);
      dp_graph_destroy(copy);
    }
    dp_graph_destroy(graph);
  }
  dp_status_release(status);
  dp_arena_destroy(arena);
  return 0;
}
