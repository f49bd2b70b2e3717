/* Prints the shapes that are inferred when a graph is imported, for test_shapes.py: one line per
 * GraphDef, with the shapes of the outputs of its node "y" ("[2,?];?"), or "error CODE MESSAGE". It
 * uses only the public C API.
 *
 * usage: infer_shapes GRAPH.pb... */
#include <stdio.h>
#include <stdlib.h>
#include "tensorflow/c/c_api.h"

static TF_Buffer *read_file(const char *path) {
  FILE *file = fopen(path, "rb");
  if (!file || fseek(file, 0, SEEK_END) != 0) {
    fprintf(stderr, "infer_shapes: %s cannot be read\n", path);
    exit(1);
  }
  size_t length = (size_t)ftell(file);
  char *bytes = malloc(length + 1);
  rewind(file);
  length = fread(bytes, 1, length, file);
  fclose(file);
  TF_Buffer *buffer = TF_NewBufferFromString(bytes, length);
  free(bytes);
  return buffer;
}

static void print_shape(TF_Graph *graph, TF_Output output, TF_Status *status) {
  int64_t dims[32];
  int rank = TF_GraphGetTensorNumDims(graph, output, status);
  if (rank < 0) {
    printf("?;");
    return;
  }
  TF_GraphGetTensorShape(graph, output, dims, rank, status);
  printf("[");
  for (int i = 0; i < rank; i++)
    if (dims[i] < 0)
      printf("%s?", i ? "," : "");
    else
      printf("%s%lld", i ? "," : "", (long long)dims[i]);
  printf("];");
}

static void infer(const char *path) {
  TF_Status *status = TF_NewStatus();
  TF_Graph *graph = TF_NewGraph();
  TF_Buffer *message = read_file(path);
  TF_ImportGraphDefOptions *options = TF_NewImportGraphDefOptions();
  TF_GraphImportGraphDef(graph, message, options, status);
  if (TF_GetCode(status) != TF_OK) {
    printf("error %d ", TF_GetCode(status));
    for (const char *at = TF_Message(status); *at; at++)
      putchar(*at == '\n' ? ' ' : *at);
  } else {
    TF_Operation *y = TF_GraphOperationByName(graph, "y");
    for (int i = 0; i < TF_OperationNumOutputs(y); i++)
      print_shape(graph, (TF_Output){y, i}, status);
  }
  printf("\n");
  TF_DeleteImportGraphDefOptions(options);
  TF_DeleteBuffer(message);
  TF_DeleteGraph(graph);
  TF_DeleteStatus(status);
}

int main(int argc, char **argv) {
  for (int i = 1; i < argc; i++)
    infer(argv[i]);
  return 0;
}
