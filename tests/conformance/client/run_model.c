/* Runs models for test_programs.py, with only the public C API, and prints the fetched values.
 *
 *   run_model build TARGET     builds a network in C and trains it on TARGET ("" is this process)
 *   run_model import FILE      runs y:0 of a GraphDef
 *   run_model load FOLDER      runs the output y of the signature of a SavedModel, given x */
#include <downpour.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static TF_Status *status;

static void check(const char *what) {
  if (TF_GetCode(status) == TF_OK)
    return;
  fprintf(stderr, "run_model: %s: %d %s\n", what, TF_GetCode(status), TF_Message(status));
  exit(1);
}

static void print(TF_Tensor *tensor) {
  const float *values = TF_TensorData(tensor);
  for (int64_t i = 0; i < TF_TensorElementCount(tensor); i++)
    printf("%.6g ", values[i]);
  printf("\n");
  TF_DeleteTensor(tensor);
}

static TF_Session *open_session(TF_Graph *graph, const char *target) {
  TF_SessionOptions *options = TF_NewSessionOptions();
  TF_SetTarget(options, target);
  TF_Session *session = TF_NewSession(graph, options, status);
  check("session");
  TF_DeleteSessionOptions(options);
  return session;
}

static void close_session(TF_Session *session) {
  TF_CloseSession(session, status);
  check("close");
  TF_DeleteSession(session, status);
}

/* ---- A network with one hidden layer, by gradient descent ---- */

enum { STEPS = 5 };

static TF_Output variable(dp_scope *scope, dp_dims shape, TF_Output initial, TF_Operation **start) {
  TF_Output handle = dp_variable_v2(scope, shape, TF_FLOAT);
  *start = dp_assign(scope, handle, initial).oper;
  return handle;
}

static void build(const char *target) {
  TF_Graph *graph = TF_NewGraph();
  dp_scope *scope = dp_scope_create(graph), *layer = dp_scope_named(scope, "layer");
  TF_Output x = dp_const_floats(scope, DP_SHAPE(4, 2), (float[]){0, 0, 0, 1, 1, 0, 1, 1});
  TF_Output labels = dp_const_int32s(scope, DP_SHAPE(4), (int32_t[]){0, 1, 1, 0});
  TF_Operation *starts[2];
  TF_Output first = dp_const_floats(layer, DP_SHAPE(2, 3), (float[]){.5, -.4, .3, -.2, .6, .7});
  TF_Output second = dp_const_floats(layer, DP_SHAPE(3, 2), (float[]){.1, .2, -.3, .4, .5, -.6});
  TF_Output weights[] = {variable(layer, DP_SHAPE(2, 3), first, &starts[0]),
                         variable(layer, DP_SHAPE(3, 2), second, &starts[1])};
  TF_Output hidden = dp_tanh(scope, dp_mat_mul(scope, x, weights[0]));
  TF_Output logits = dp_mat_mul(scope, hidden, weights[1]);
  TF_Output each = dp_sparse_softmax_cross_entropy_with_logits(scope, logits, labels).loss;
  TF_Output loss = dp_mean(scope, each, dp_const_int32(scope, 0));
  TF_Output gradients[2];
  TF_AddGradients(graph, &loss, 1, weights, 2, NULL, status, gradients);
  check("gradients");
  /* Both gradients are computed before either weight changes. */
  dp_scope *update =
      dp_scope_after(scope, (TF_Operation *[]){gradients[0].oper, gradients[1].oper}, 2);
  const TF_Operation *train[2];
  for (int i = 0; i < 2; i++)
    train[i] =
        dp_apply_gradient_descent(update, weights[i], dp_const_float(scope, 1), gradients[i]).oper;
  if (!dp_scope_ok(scope)) {
    fprintf(stderr, "run_model: %s\n", dp_scope_message(scope));
    exit(1);
  }
  TF_Session *session = open_session(graph, target);
  TF_SessionRun(session, NULL, NULL, NULL, 0, NULL, NULL, 0, (const TF_Operation *const *)starts, 2,
                NULL, status);
  check("start");
  for (int i = 0; i < STEPS; i++) {
    TF_Tensor *value = NULL;
    TF_SessionRun(session, NULL, NULL, NULL, 0, &loss, &value, 1, NULL, 0, NULL, status);
    check("loss");
    print(value);
    TF_SessionRun(session, NULL, NULL, NULL, 0, NULL, NULL, 0, train, 2, NULL, status);
    check("step");
  }
  close_session(session);
  dp_scope_destroy(scope);
  TF_DeleteGraph(graph);
}

/* ---- Models from Python ---- */

static TF_Buffer *read_file(const char *path) {
  FILE *file = fopen(path, "rb");
  char *bytes = malloc(1 << 20);
  size_t length = file ? fread(bytes, 1, 1 << 20, file) : 0;
  if (!length) {
    fprintf(stderr, "run_model: cannot read %s\n", path);
    exit(1);
  }
  fclose(file);
  TF_Buffer *buffer = TF_NewBufferFromString(bytes, length);
  free(bytes);
  return buffer;
}

static void import(const char *path) {
  TF_Graph *graph = TF_NewGraph();
  TF_Buffer *message = read_file(path);
  TF_ImportGraphDefOptions *options = TF_NewImportGraphDefOptions();
  TF_GraphImportGraphDef(graph, message, options, status);
  check("import");
  TF_DeleteImportGraphDefOptions(options);
  TF_DeleteBuffer(message);
  TF_Output y = {TF_GraphOperationByName(graph, "y"), 0};
  TF_Session *session = open_session(graph, "");
  TF_Tensor *value = NULL;
  TF_SessionRun(session, NULL, NULL, NULL, 0, &y, &value, 1, NULL, 0, NULL, status);
  check("run");
  print(value);
  close_session(session);
  TF_DeleteGraph(graph);
}

static void load(const char *folder) {
  TF_Graph *graph = TF_NewGraph();
  TF_SessionOptions *options = TF_NewSessionOptions();
  const char *tags[] = {"serve"};
  TF_Buffer *meta = TF_NewBuffer();
  TF_Session *session =
      TF_LoadSessionFromSavedModel(options, NULL, folder, tags, 1, graph, meta, status);
  check("load");
  if (!meta->length)
    exit(1);
  TF_DeleteBuffer(meta);
  TF_DeleteSessionOptions(options);
  int64_t dims[] = {3};
  TF_Tensor *x = TF_AllocateTensor(TF_FLOAT, dims, 1, 3 * sizeof(float)), *value = NULL;
  memcpy(TF_TensorData(x), (float[]){1, 2, 3}, 3 * sizeof(float));
  TF_Output in = {TF_GraphOperationByName(graph, "x"), 0};
  TF_Output out = {TF_GraphOperationByName(graph, "y"), 0};
  TF_SessionRun(session, NULL, &in, &x, 1, &out, &value, 1, NULL, 0, NULL, status);
  check("run");
  print(value);
  TF_DeleteTensor(x);
  close_session(session);
  TF_DeleteGraph(graph);
}

int main(int argc, char **argv) {
  status = TF_NewStatus();
  if (argc == 3 && strcmp(argv[1], "build") == 0)
    build(argv[2]);
  else if (argc == 3 && strcmp(argv[1], "import") == 0)
    import(argv[2]);
  else if (argc == 3 && strcmp(argv[1], "load") == 0)
    load(argv[2]);
  else
    return 2;
  TF_DeleteStatus(status);
  return 0;
}
