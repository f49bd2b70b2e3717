/* TF_Function: made from a graph or from bytes, copied into another graph and called there; then
 * TF_TryEvaluateConstant. Uses only the public C API: tests/conformance/client/test_programs.py
 * also runs it with genuine TensorFlow. */
#include "nodes.h"

static TF_Output unary(TF_Graph *graph, const char *op, const char *name, TF_Output x) {
  TF_OperationDescription *desc = TF_NewOperation(graph, op, name);
  TF_AddInput(desc, x);
  return finish(desc);
}

/* f(x, y) = x * y + x. The node names are not valid argument names and must be changed. */
static TF_Function *make(unsigned char with_hash, TF_Status *status) {
  TF_Graph *graph = TF_NewGraph();
  TF_Output inputs[] = {placeholder(graph, "Scope/X"), placeholder(graph, "y")};
  TF_Output product = binary(graph, "Mul", "product", inputs[0], inputs[1]);
  TF_Output sum = binary(graph, "AddV2", "sum", product, inputs[0]);
  TF_Function *function = TF_GraphToFunction(graph, "f", with_hash, -1, NULL, 2, inputs, 1, &sum,
                                             NULL, NULL, "what it does", status);
  TF_DeleteGraph(graph);
  return function;
}

static TF_Session *open_session(TF_Graph *graph, TF_Status *status) {
  TF_SessionOptions *options = TF_NewSessionOptions();
  TF_Session *session = TF_NewSession(graph, options, status);
  expect_ok(status);
  TF_DeleteSessionOptions(options);
  return session;
}

static float fetch(TF_Graph *graph, TF_Output output) {
  TF_Status *status = TF_NewStatus();
  TF_Session *session = open_session(graph, status);
  TF_Tensor *value = NULL;
  TF_SessionRun(session, NULL, NULL, NULL, 0, &output, &value, 1, NULL, 0, NULL, status);
  expect_ok(status);
  float result = float_value(value);
  TF_DeleteTensor(value);
  TF_CloseSession(session, status);
  TF_DeleteSession(session, status);
  TF_DeleteStatus(status);
  return result;
}

static void test_call(void **state) {
  TF_Status *status = TF_NewStatus();
  TF_Function *function = make(0, status);
  expect_ok(status);
  assert_string_equal(TF_FunctionName(function), "f");
  TF_Graph *graph = TF_NewGraph();
  TF_GraphCopyFunction(graph, function, NULL, status);
  expect_ok(status);
  TF_GraphCopyFunction(graph, function, NULL, status); /* the same function again is no error */
  expect_ok(status);
  TF_DeleteFunction(function);
  assert_int_equal(TF_GraphNumFunctions(graph), 1);
  TF_Output call = binary(graph, "f", "call", constant(graph, "a", 3), constant(graph, "b", 4));
  assert_true(fetch(graph, call) == 15);
  TF_Function *functions[4];
  assert_int_equal(TF_GraphGetFunctions(graph, functions, 4, status), 1);
  expect_ok(status);
  assert_string_equal(TF_FunctionName(functions[0]), "f");
  TF_DeleteFunction(functions[0]);
  TF_DeleteGraph(graph);
  TF_DeleteStatus(status);
}

static void test_bytes(void **state) {
  TF_Status *status = TF_NewStatus();
  TF_Function *function = make(1, status);
  expect_ok(status);
  assert_memory_equal(TF_FunctionName(function), "f_", 2);
  TF_Buffer *bytes = TF_NewBuffer(), *back = TF_NewBuffer();
  TF_FunctionToFunctionDef(function, bytes, status);
  expect_ok(status);
  TF_Function *copy = TF_FunctionImportFunctionDef(bytes->data, bytes->length, status);
  expect_ok(status);
  assert_string_equal(TF_FunctionName(copy), TF_FunctionName(function));
  TF_FunctionSetAttrValueProto(copy, "_note", "\x18\x07", 2, status); /* AttrValue{i: 7} */
  expect_ok(status);
  TF_FunctionGetAttrValueProto(copy, "_note", back, status);
  expect_ok(status);
  assert_int_equal(back->length, 2);
  assert_memory_equal(back->data, "\x18\x07", 2);
  TF_FunctionGetAttrValueProto(copy, "_none", back, status);
  expect_error(status, TF_INVALID_ARGUMENT, "has no attr named '_none'");
  assert_null(TF_FunctionImportFunctionDef("\377", 1, status));
  expect_error(status, TF_INVALID_ARGUMENT, "Invalid FunctionDef");
  TF_DeleteFunction(function);
  TF_DeleteFunction(copy);
  TF_DeleteBuffer(bytes);
  TF_DeleteBuffer(back);
  TF_DeleteStatus(status);
}

static void test_refused(void **state) {
  TF_Status *status = TF_NewStatus();
  TF_Graph *graph = TF_NewGraph();
  TF_Output x = placeholder(graph, "x"), other = placeholder(graph, "other");
  TF_Output sum = binary(graph, "AddV2", "sum", x, other),
            minus = unary(graph, "Neg", "minus", sum);
  const TF_Operation *body[] = {sum.oper};
  assert_null(TF_GraphToFunction(graph, "f", 0, 1, body, 1, &x, 1, &sum, NULL, NULL, NULL, status));
  expect_error(status, TF_INVALID_ARGUMENT, "is not available");
  TF_Output both[] = {x, x};
  assert_null(
      TF_GraphToFunction(graph, "f", 0, -1, NULL, 2, both, 1, &sum, NULL, NULL, NULL, status));
  expect_error(status, TF_INVALID_ARGUMENT, "appears more than once in the input list");
  TF_Output inputs[] = {x, other};
  assert_null(
      TF_GraphToFunction(graph, "f", 0, 1, body, 2, inputs, 1, &minus, NULL, NULL, NULL, status));
  expect_error(status, TF_INVALID_ARGUMENT, "neither in the function body nor among");
  TF_Output outputs[] = {sum, minus};
  const char *names[] = {"same", "same"};
  assert_null(TF_GraphToFunction(graph, "f", 0, -1, NULL, 2, inputs, 2, outputs, names, NULL, NULL,
                                 status));
  expect_error(status, TF_INVALID_ARGUMENT, "duplicate output names");
  TF_GraphCopyFunction(graph, NULL, NULL, status);
  expect_error(status, TF_INVALID_ARGUMENT, "cannot be null");
  TF_DeleteGraph(graph);
  TF_DeleteStatus(status);
}

static void test_constants(void **state) {
  TF_Status *status = TF_NewStatus();
  TF_Graph *graph = TF_NewGraph();
  TF_Output two = constant(graph, "two", 2);
  TF_Output square = binary(graph, "Mul", "square", two, two);
  TF_Output open = binary(graph, "Mul", "open", square, placeholder(graph, "x"));
  TF_Tensor *value = NULL;
  assert_int_equal(TF_TryEvaluateConstant(graph, square, &value, status), 1);
  expect_ok(status);
  assert_true(float_value(value) == 4);
  TF_DeleteTensor(value);
  assert_int_equal(TF_TryEvaluateConstant(graph, open, &value, status), 0);
  expect_ok(status);
  assert_null(value);
  TF_DeleteGraph(graph);
  TF_DeleteStatus(status);
}

static void test_no_saved_model(void **state) {
  TF_Status *status = TF_NewStatus();
  TF_Graph *graph = TF_NewGraph();
  TF_SessionOptions *options = TF_NewSessionOptions();
  const char *tags[] = {"serve"};
  assert_null(
      TF_LoadSessionFromSavedModel(options, NULL, "/nowhere/at/all", tags, 1, graph, NULL, status));
  expect_error(status, TF_NOT_FOUND, "Could not find SavedModel");
  TF_DeleteSessionOptions(options);
  TF_DeleteGraph(graph);
  TF_DeleteStatus(status);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_call),           cmocka_unit_test(test_bytes),
      cmocka_unit_test(test_refused),        cmocka_unit_test(test_constants),
      cmocka_unit_test(test_no_saved_model),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
