/* Adds gradients to a graph, for test_gradients.py. It reads a GraphDef and, from standard input,
 * one line per case ("y:0,... x:0,..."). It writes the GraphDef with the gradients added, and
 * prints one line per case: the names of the gradients ("-" for none), or "error CODE MESSAGE". It
 * uses only the public C API.
 *
 * usage: add_gradients IN.pb OUT.pb < cases */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "tensorflow/c/c_api.h"

enum { MOST = 32 };

static void fail(const char *what, const char *why) {
  fprintf(stderr, "add_gradients: %s: %s\n", what, why);
  exit(1);
}

static TF_Buffer *read_file(const char *path) {
  FILE *file = fopen(path, "rb");
  if (!file || fseek(file, 0, SEEK_END) != 0)
    fail(path, "cannot be read");
  size_t length = (size_t)ftell(file);
  char *bytes = malloc(length + 1);
  rewind(file);
  if (fread(bytes, 1, length, file) != length)
    fail(path, "cannot be read");
  fclose(file);
  TF_Buffer *buffer = TF_NewBufferFromString(bytes, length);
  free(bytes);
  return buffer;
}

static void write_file(const char *path, const TF_Buffer *buffer) {
  FILE *file = fopen(path, "wb");
  if (!file || fwrite(buffer->data, 1, buffer->length, file) != buffer->length || fclose(file) != 0)
    fail(path, "cannot be written");
}

/* Finds the outputs of a list like "a:0,b:1". */
static int find_outputs(TF_Graph *graph, char *list, TF_Output *outputs) {
  int count = 0;
  for (char *name = strtok(list, ","); name; name = strtok(NULL, ",")) {
    char *colon = strrchr(name, ':');
    if (count == MOST || !colon)
      fail(name, "is no output, or one too many");
    *colon = 0;
    outputs[count] = (TF_Output){TF_GraphOperationByName(graph, name), atoi(colon + 1)};
    if (!outputs[count++].oper)
      fail(name, "is not in the graph");
  }
  return count;
}

static void add(TF_Graph *graph, char *ys, char *xs) {
  TF_Output y[MOST], x[MOST], dy[MOST];
  TF_Status *status = TF_NewStatus();
  int y_count = find_outputs(graph, ys, y), x_count = find_outputs(graph, xs, x);
  TF_AddGradients(graph, y, y_count, x, x_count, NULL, status, dy);
  if (TF_GetCode(status) != TF_OK)
    printf("error %d %s", TF_GetCode(status), TF_Message(status));
  for (int i = 0; TF_GetCode(status) == TF_OK && i < x_count; i++)
    if (dy[i].oper)
      printf("%s:%d ", TF_OperationName(dy[i].oper), dy[i].index);
    else
      printf("- ");
  printf("\n");
  TF_DeleteStatus(status);
}

int main(int argc, char **argv) {
  if (argc != 3)
    fail("usage", "add_gradients IN.pb OUT.pb < cases");
  TF_Status *status = TF_NewStatus();
  TF_Graph *graph = TF_NewGraph();
  TF_Buffer *message = read_file(argv[1]);
  TF_ImportGraphDefOptions *options = TF_NewImportGraphDefOptions();
  TF_GraphImportGraphDef(graph, message, options, status);
  if (TF_GetCode(status) != TF_OK)
    fail(argv[1], TF_Message(status));
  TF_DeleteBuffer(message);
  char line[8192];
  while (fgets(line, sizeof line, stdin)) {
    char *end = NULL, *ys = strtok_r(line, " \n", &end), *xs = strtok_r(NULL, " \n", &end);
    if (ys && xs)
      add(graph, ys, xs);
  }
  TF_Buffer *grown = TF_NewBuffer();
  TF_GraphToGraphDef(graph, grown, status);
  if (TF_GetCode(status) != TF_OK)
    fail("export", TF_Message(status));
  write_file(argv[2], grown);
  TF_DeleteBuffer(grown);
  TF_DeleteImportGraphDefOptions(options);
  TF_DeleteGraph(graph);
  TF_DeleteStatus(status);
  return 0;
}
