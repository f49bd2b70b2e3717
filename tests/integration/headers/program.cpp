// The C++17 counterpart of program.c: the same headers, the same results. Optional arguments are
// fields of a struct that has its defaults; lists are written as in C, within the call that uses
// them. With C++20 the options are named in the call. tests/integration/headers/test_headers.py
// compiles it with every warning as an error.
#include <downpour_train.h>
#include <cstdio>
#include <cstdlib>

static void check(bool good, const char *what) {
  if (good)
    return;
  std::fprintf(stderr, "failed: %s\n", what);
  std::exit(1);
}

static TF_Session *open_session(TF_Graph *graph, TF_Status *status) {
  TF_SessionOptions *options = TF_NewSessionOptions();
  dp_session_configure_options limits;
  limits.timeout_seconds = 30;
  limits.allow_soft_placement = true;
  dp_session_configure(options, status, limits);
  check(TF_GetCode(status) == TF_OK, TF_Message(status));
  TF_Session *session = TF_NewSession(graph, options, status);
  check(TF_GetCode(status) == TF_OK, TF_Message(status));
  TF_DeleteSessionOptions(options);
  return session;
}

static void expect(TF_Session *session, TF_Output output, dp_dims shape, dp_floats expected,
                   TF_Status *status) {
  TF_Tensor *fetched = nullptr;
  TF_SessionRun(session, nullptr, nullptr, nullptr, 0, &output, &fetched, 1, nullptr, 0, nullptr,
                status);
  check(TF_GetCode(status) == TF_OK, TF_Message(status));
  const float *values = dp_tensor_get_floats(fetched, expected.count, status);
  check(values, TF_Message(status));
  for (int i = 0; i < expected.count; i++)
    check(values[i] == expected.items[i], "value");
  check(TF_NumDims(fetched) == shape.count, "rank");
  for (int i = 0; i < shape.count; i++)
    check(TF_Dim(fetched, i) == shape.items[i], "shape");
  TF_DeleteTensor(fetched);
}

static void graphs(TF_Status *status) {
  TF_Graph *graph = TF_NewGraph();
  dp_scope *scope = dp_scope_create(graph);
  const float numbers[] = {1, 2, 3, 4};
  TF_Output matrix = dp_const_floats(scope, DP_SHAPE(2, 2), numbers);
  dp_mat_mul_options transposed;
  transposed.transpose_b = true;
  transposed.name = "product";
  TF_Output product = dp_mat_mul(scope, matrix, matrix, transposed);
  TF_Output plain = dp_mat_mul(scope, matrix, matrix);
  dp_one_hot_options first_axis;
  check(first_axis.axis == -1, "the default of OneHot's axis");
  first_axis.axis = 0;
  TF_Output ids = dp_const_vector(scope, DP_INTS(0, 2)), depth = dp_const_int32(scope, 3);
  TF_Output on = dp_const_float(scope, 1), off = dp_const_float(scope, 0);
  TF_Output hot = dp_one_hot(scope, ids, depth, on, off, first_axis);
  TF_Output rows = dp_one_hot(scope, ids, depth, on, off);
  dp_output_list parts = dp_unpack(scope, matrix, 2);
  TF_Output joined = dp_pack(scope, DP_OUTPUTS(dp_output_at(parts, 1), dp_output_at(parts, 0)));
  const int64_t dims[] = {-1, 2};
  dp_placeholder_options shaped;
  shaped.shape = {dims, 2};
  TF_Output x = dp_placeholder(scope, TF_FLOAT, shaped);
  TF_Operation *nothing = dp_no_op(scope);
  check(dp_scope_ok(scope) && nothing && x.oper, dp_scope_message(scope));
#if __cplusplus >= 202002L
  product = dp_mat_mul(scope, matrix, matrix, {.name = "named", .transpose_b = true});
  check(dp_scope_ok(scope), dp_scope_message(scope));
#endif

  TF_Session *session = open_session(graph, status);
  expect(session, product, DP_SHAPE(2, 2), DP_FLOATS(5, 11, 11, 25), status);
  expect(session, plain, DP_SHAPE(2, 2), DP_FLOATS(7, 10, 15, 22), status);
  expect(session, hot, DP_SHAPE(3, 2), DP_FLOATS(1, 0, 0, 0, 0, 1), status);
  expect(session, rows, DP_SHAPE(2, 3), DP_FLOATS(1, 0, 0, 0, 0, 1), status);
  expect(session, joined, DP_SHAPE(2, 2), DP_FLOATS(3, 4, 1, 2), status);
  expect(session, on, DP_SHAPE(), DP_FLOATS(1), status);
  TF_DeleteSession(session, status);

  dp_mat_mul_options unsized;
  unsized.options_size = 0;
  dp_mat_mul(scope, matrix, matrix, unsized);
  check(dp_scope_code(scope) == TF_INVALID_ARGUMENT, "options without a size are refused");
  std::printf("graphs: %s\n", dp_scope_message(scope));
  dp_scope_destroy(scope);
  TF_DeleteGraph(graph);
}

static void tensors(TF_Status *status) {
  const uint8_t small[] = {1, 2, 255};
  const char *const words[] = {"ab", ""};
  const double wide[] = {1.5, -2};
  TF_Tensor *bytes = dp_tensor_of_uint8s(DP_SHAPE(3), small);
  TF_Tensor *texts = dp_tensor_of_strings(DP_SHAPE(2), words);
  TF_Tensor *halves = dp_tensor_of_numbers(TF_HALF, DP_SHAPE(2), wide, status);
  check(dp_tensor_get_uint8s(bytes, 3, status)[2] == 255, "uint8");
  size_t length;
  check(dp_tensor_get_string(texts, 0, &length, status)[1] == 'b' && length == 2, "string");
  double numbers[2];
  check(dp_tensor_get_numbers(halves, numbers, 2, status) && numbers[1] == -2, "half");
  check(!dp_tensor_get_floats(bytes, 3, status), "a wrong type is refused");
  std::printf("tensors: %s\n", TF_Message(status));
  TF_DeleteTensor(bytes);
  TF_DeleteTensor(texts);
  TF_DeleteTensor(halves);
}

static void training() {
  dp_model *model = dp_model_create(nullptr);
  dp_scope *scope = dp_model_scope(model);
  TF_Output x = dp_placeholder(scope, TF_FLOAT);
  TF_Output w = dp_model_variable(model, "w", DP_SHAPE(), dp_init_constant(0));
  dp_model_variable_options counter;
  counter.dtype = TF_INT64;
  counter.fixed = true;
  dp_model_variable(model, "seen", DP_SHAPE(), dp_init_constant(0), counter);
  TF_Output loss = dp_loss_squared(model, dp_mul(scope, w, x), x);
  dp_variable_gradient gradients[2];
  int count = dp_model_gradients(model, loss, gradients, 2);
  dp_model_apply_options averaged;
  averaged.average_decay = 0.5;
  dp_model_apply(model, dp_sgd(0.25), gradients, count, averaged);
  dp_training_start_options options;
  options.last_step = 20;
  dp_training *run = dp_training_start(model, options);
  const float values[] = {1, -1};
  TF_Tensor *batch = dp_tensor_of_floats(DP_SHAPE(2), values);
  while (!dp_training_should_stop(run))
    dp_training_run(run, DP_FEEDS({x, batch}), DP_OUTPUTS(w));
  check(dp_training_fetch(run, DP_FEEDS(), DP_OUTPUTS(w)), dp_training_message(run));
  std::printf("training: w = %.3f after %d steps, %d variable\n", dp_training_number(run, 0),
              static_cast<int>(dp_training_step(run)), count);
  TF_DeleteTensor(batch);
  check(dp_training_end(run) == 0, "training");
  dp_model_destroy(model);
}

int main() {
  TF_Status *status = TF_NewStatus();
  graphs(status);
  tensors(status);
  training();
  TF_DeleteStatus(status);
  return 0;
}
