/* A C11 program that uses Downpour's headers the way their comments describe: optional arguments,
 * lists, tensors of every kind, options that are kept, and a training. Prints one line per part.
 * tests/integration/headers/test_headers.py compiles it with every warning as an error. */
#include <downpour_train.h>
#include <stdio.h>
#include <stdlib.h>

static void check(bool good, const char *what) {
  if (good)
    return;
  fprintf(stderr, "failed: %s\n", what);
  exit(1);
}

static TF_Tensor *fetch(TF_Session *session, TF_Output output, TF_Status *status) {
  TF_Tensor *fetched = NULL;
  TF_SessionRun(session, NULL, NULL, NULL, 0, &output, &fetched, 1, NULL, 0, NULL, status);
  check(TF_GetCode(status) == TF_OK, TF_Message(status));
  return fetched;
}

static TF_Session *open_session(TF_Graph *graph, TF_Status *status) {
  TF_SessionOptions *options = TF_NewSessionOptions();
  dp_session_configure(options, status, .timeout_seconds = 30, .allow_soft_placement = true);
  check(TF_GetCode(status) == TF_OK, TF_Message(status));
  TF_Session *session = TF_NewSession(graph, options, status);
  check(TF_GetCode(status) == TF_OK, TF_Message(status));
  TF_DeleteSessionOptions(options);
  return session;
}

/* Options whose default is not 0 (keep_dims is false, axis of OneHot is -1, of Unpack 0). */
static void graphs(TF_Status *status) {
  TF_Graph *graph = TF_NewGraph();
  dp_scope *scope = dp_scope_create(graph);
  TF_Output matrix = dp_const_floats(scope, DP_SHAPE(2, 2), (float[]){1, 2, 3, 4});
  TF_Output product = dp_mat_mul(scope, matrix, matrix, .transpose_b = true, .name = "product");
  TF_Output hot = dp_one_hot(scope, dp_const_vector(scope, DP_INTS(0, 2)), dp_const_int32(scope, 3),
                             dp_const_float(scope, 1), dp_const_float(scope, 0), .axis = 0);
  TF_Output rows =
      dp_one_hot(scope, dp_const_vector(scope, DP_INTS(0, 2)), dp_const_int32(scope, 3),
                 dp_const_float(scope, 1), dp_const_float(scope, 0));
  dp_mat_mul_options kept = DP_OPTIONS(dp_mat_mul, .name = "kept");
  kept.transpose_a = true;
  TF_Output same = dp_mat_mul_with_options(scope, matrix, matrix, &kept);
  TF_Output plain = dp_mat_mul_with_options(scope, matrix, matrix, NULL);
  TF_Operation *nothing = dp_no_op(scope);
  check(dp_scope_ok(scope) && nothing, dp_scope_message(scope));

  TF_Session *session = open_session(graph, status);
  TF_Output outputs[] = {product, same, plain, hot, rows};
  static const float expected[][6] = {
      {5, 11, 11, 25}, {10, 14, 14, 20}, {7, 10, 15, 22}, {1, 0, 0, 0, 0, 1}, {1, 0, 0, 0, 0, 1}};
  static const int counts[] = {4, 4, 4, 6, 6};
  for (int i = 0; i < 5; i++) {
    TF_Tensor *tensor = fetch(session, outputs[i], status);
    const float *values = dp_tensor_get_floats(tensor, counts[i], status);
    check(values, TF_Message(status));
    for (int k = 0; k < counts[i]; k++)
      check(values[k] == expected[i][k], "value");
    check(TF_Dim(tensor, 0) == (i == 3 ? 3 : 2), "axis");
    TF_DeleteTensor(tensor);
  }
  TF_DeleteSession(session, status);

  dp_mat_mul_options unsized = {.transpose_a = true};
  dp_mat_mul_with_options(scope, matrix, matrix, &unsized);
  check(dp_scope_code(scope) == TF_INVALID_ARGUMENT, "options without a size are refused");
  printf("graphs: %s\n", dp_scope_message(scope));
  dp_scope_destroy(scope);
  TF_DeleteGraph(graph);
}

static void tensors(TF_Status *status) {
  TF_Tensor *bytes = dp_tensor_of_uint8s(DP_SHAPE(3), (uint8_t[]){1, 2, 255});
  TF_Tensor *texts = dp_tensor_of_strings(DP_SHAPE(2), (const char *[]){"ab", ""});
  TF_Tensor *halves = dp_tensor_of_numbers(TF_HALF, DP_SHAPE(2), (double[]){1.5, -2}, status);
  check(dp_tensor_get_uint8s(bytes, 3, status)[2] == 255, "uint8");
  size_t length;
  check(dp_tensor_get_string(texts, 0, &length, status)[1] == 'b' && length == 2, "string");
  double numbers[2];
  check(dp_tensor_get_numbers(halves, numbers, 2, status) && numbers[1] == -2, "half");
  check(!dp_tensor_get_floats(bytes, 3, status), "a wrong type is refused");
  printf("tensors: %s\n", TF_Message(status));
  TF_DeleteTensor(bytes);
  TF_DeleteTensor(texts);
  TF_DeleteTensor(halves);
}

static void training(void) {
  dp_model *model = dp_model_create(NULL);
  dp_scope *scope = dp_model_scope(model);
  TF_Output x = dp_placeholder(scope, TF_FLOAT, .shape = DP_SHAPE(2));
  TF_Output w = dp_model_variable(model, "w", DP_SHAPE(), dp_init_constant(0));
  dp_model_variable(model, "seen", DP_SHAPE(), dp_init_constant(0), .dtype = TF_INT64,
                    .fixed = true);
  TF_Output loss = dp_loss_squared(model, dp_mul(scope, w, x), x);
  dp_variable_gradient gradients[2];
  int count = dp_model_gradients(model, loss, gradients, 2);
  dp_model_apply(model, dp_sgd(0.25), gradients, count, .average_decay = 0.5);
  dp_training *run = dp_training_start(model, .last_step = 20);
  TF_Tensor *batch = dp_tensor_of_floats(DP_SHAPE(2), (float[]){1, -1});
  while (!dp_training_should_stop(run))
    dp_training_run(run, DP_FEEDS({x, batch}), DP_OUTPUTS(w));
  check(dp_training_fetch(run, DP_FEEDS(), DP_OUTPUTS(w)), dp_training_message(run));
  printf("training: w = %.3f after %d steps, %d variable\n", dp_training_number(run, 0),
         (int)dp_training_step(run), count);
  TF_DeleteTensor(batch);
  check(dp_training_end(run) == 0, "training");
  dp_model_destroy(model);
}

int main(void) {
  TF_Status *status = TF_NewStatus();
  graphs(status);
  tensors(status);
  training();
  TF_DeleteStatus(status);
  return 0;
}
