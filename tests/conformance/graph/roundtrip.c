/* The program that the Python tests of this folder run: roundtrip VERB FILE... [NAME]. The files
 * hold GraphDefs.
 *
 * `import` reads all files into one graph, which the later ones extend, and writes its export to
 * standard output. `given` does the same but leaves out the defaults that the import filled in.
 *
 * `instantiate` writes the body of the function NAME, with the attributes of the serialized
 * NameAttrList on standard input. `print` writes the summary of every node, one per line.
 *
 * An error goes to standard error as "CODE: message", with exit status 2. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/graph_internal.h"

static dp_status *read_stream(FILE *file, dp_text *text) {
  char block[65536];
  size_t got;
  while ((got = fread(block, 1, sizeof(block), file)) > 0)
    dp_text_append(text, block, got);
  return ferror(file) ? dp_status_create(DP_UNKNOWN, "cannot read") : NULL;
}

static dp_status *import_file(dp_graph *graph, const char *path) {
  FILE *file = fopen(path, "rb");
  if (!file)
    return dp_status_create(DP_NOT_FOUND, "no file %s", path);
  dp_text text = {0};
  dp_status *status = read_stream(file, &text);
  fclose(file);
  dp_arena *arena = dp_arena_create();
  Tensorflow__GraphDef *message;
  if (!status)
    status = dp_wire_unpack_bytes(&tensorflow__graph_def__descriptor, text.data, text.length, arena,
                                  &message);
  if (!status)
    status = dp_graph_import(graph, message);
  dp_arena_destroy(arena);
  dp_text_deinit(&text);
  return status;
}

static dp_status *write_graph(const dp_graph *graph, bool given) {
  dp_arena *arena = dp_arena_create();
  uint8_t *bytes;
  size_t length = 0;
  Tensorflow__GraphDef *message =
      given ? dp_graph_export_given(graph, arena, true) : dp_graph_export(graph, arena, true);
  dp_status *status = dp_wire_pack_bytes(message, arena, &bytes, &length);
  if (!status && fwrite(bytes, 1, length, stdout) != length)
    status = dp_status_create(DP_UNKNOWN, "cannot write");
  dp_arena_destroy(arena);
  return status;
}

static dp_status *instantiate(dp_graph *graph, const char *name) {
  dp_text text = {0};
  DP_RETURN_IF_ERROR(read_stream(stdin, &text));
  dp_arena *arena = dp_arena_create();
  Tensorflow__NameAttrList *list;
  dp_tensor_array tensors = {0};
  dp_attr_store store = {arena, &tensors};
  dp_status *status = dp_wire_unpack_bytes(&tensorflow__name_attr_list__descriptor,
                                           text.length ? text.data : "", text.length, arena, &list);
  dp_attr attr = {0};
  if (!status) {
    list->name = (char *)name;
    Tensorflow__AttrValue *value = dp_wire_new(arena, &tensorflow__attr_value__descriptor);
    value->value_case = TENSORFLOW__ATTR_VALUE__VALUE_FUNC;
    value->func = list;
    status = dp_attr_from_message(&store, value, &attr);
  }
  dp_function_body body;
  if (!status)
    status = dp_function_instantiate(graph->library, attr.func, &body);
  if (!status) {
    status = write_graph(body.graph, false);
    dp_graph_destroy(body.graph);
  }
  dp_tensor_array_release(&tensors);
  dp_arena_destroy(arena);
  dp_text_deinit(&text);
  return status;
}

static void print_nodes(const dp_graph *graph) {
  dp_text text = {0};
  for (int32_t id = 0; id < graph->node_count; id++) {
    dp_node_print(graph, graph->nodes[id], &text);
    dp_text_add(&text, "\n");
  }
  fputs(dp_text_string(&text), stdout);
  dp_text_deinit(&text);
}

int main(int argc, char **argv) {
  if (argc < 3) {
    fprintf(stderr, "usage: roundtrip import|given|instantiate|print FILE...\n");
    return EXIT_FAILURE;
  }
  dp_graph *graph = dp_graph_create(NULL);
  bool given = strcmp(argv[1], "given") == 0;
  bool all = given || strcmp(argv[1], "import") == 0;
  dp_status *status = NULL;
  for (int i = 2; i < (all ? argc : 3) && !status; i++)
    status = import_file(graph, argv[i]);
  if (!status && all)
    status = write_graph(graph, given);
  else if (!status && argc > 3)
    status = instantiate(graph, argv[3]);
  else if (!status)
    print_nodes(graph);
  if (status)
    fprintf(stderr, "%s: %s\n", dp_code_name(dp_status_code(status)), dp_status_message(status));
  int code = status ? 2 : 0;
  dp_status_release(status);
  dp_graph_destroy(graph);
  return code;
}
