/* TF_GraphImportGraphDef: the GraphDef of one graph is imported into another, with each of the
 * import options. A failed import leaves no node behind. */
#include "nodes.h"

/* a, b = placeholders; sum = a + b; twice = sum + sum with a control input from a. */
static TF_Buffer *sample(void) {
  TF_Graph *graph = TF_NewGraph();
  TF_Status *status = TF_NewStatus();
  TF_Output a = placeholder(graph, "a"), b = placeholder(graph, "b");
  TF_Output sum = binary(graph, "AddV2", "sum", a, b);
  TF_OperationDescription *desc = TF_NewOperation(graph, "AddV2", "twice");
  TF_AddInput(desc, sum);
  TF_AddInput(desc, sum);
  TF_AddControlInput(desc, a.oper);
  TF_ColocateWith(desc, sum.oper);
  finish(desc);
  TF_Buffer *buffer = TF_NewBuffer();
  TF_GraphToGraphDef(graph, buffer, status);
  expect_ok(status);
  TF_DeleteStatus(status);
  TF_DeleteGraph(graph);
  return buffer;
}

static void test_plain(void **state) {
  TF_Graph *graph = TF_NewGraph();
  TF_Status *status = TF_NewStatus();
  TF_Buffer *buffer = sample(), *again = TF_NewBuffer();
  TF_ImportGraphDefOptions *options = TF_NewImportGraphDefOptions();
  TF_GraphImportGraphDef(graph, buffer, options, status);
  expect_ok(status);
  assert_int_equal(count_operations(graph), 4);
  TF_Operation *sum = TF_GraphOperationByName(graph, "sum");
  assert_int_equal(TF_OperationOutputNumConsumers((TF_Output){sum, 0}), 2);
  TF_GraphToGraphDef(graph, again, status);
  expect_ok(status);
  assert_int_equal(again->length, buffer->length);
  assert_memory_equal(again->data, buffer->data, buffer->length);
  TF_GraphImportGraphDef(graph, buffer, options, status);
  expect_error(status, TF_INVALID_ARGUMENT, "Node name 'a' already exists in the Graph");
  TF_GraphImportGraphDef(graph, &(TF_Buffer){.data = "\xff", .length = 1}, options, status);
  expect_error(status, TF_INVALID_ARGUMENT, "Invalid GraphDef");
  assert_int_equal(count_operations(graph), 4);
  TF_DeleteImportGraphDefOptions(options);
  TF_DeleteBuffer(buffer);
  TF_DeleteBuffer(again);
  TF_DeleteStatus(status);
  TF_DeleteGraph(graph);
}

static void test_prefix_and_numbers(void **state) {
  TF_Graph *graph = TF_NewGraph();
  TF_Status *status = TF_NewStatus();
  TF_Buffer *buffer = sample();
  TF_ImportGraphDefOptions *options = TF_NewImportGraphDefOptions();
  TF_ImportGraphDefOptionsSetPrefix(options, "in");
  TF_ImportGraphDefOptionsSetDefaultDevice(options, "/device:CPU:0");
  TF_GraphImportGraphDef(graph, buffer, options, status);
  expect_ok(status);
  TF_Operation *twice = TF_GraphOperationByName(graph, "in/twice");
  assert_non_null(twice);
  assert_string_equal(TF_OperationDevice(twice), "/device:CPU:0");
  assert_string_equal(TF_OperationName(TF_OperationInput((TF_Input){twice, 0}).oper), "in/sum");
  void *value;
  size_t length;
  char storage[32];
  TF_OperationGetAttrStringList(twice, "_class", &value, &length, 1, storage, 32, status);
  expect_ok(status);
  assert_memory_equal(storage, "loc:@in/sum", 11);
  TF_ImportGraphDefOptionsSetUniquifyPrefix(options, 1);
  TF_GraphImportGraphDef(graph, buffer, options, status);
  expect_ok(status);
  assert_non_null(TF_GraphOperationByName(graph, "in_1/twice"));
  TF_ImportGraphDefOptionsSetUniquifyPrefix(options, 0);
  TF_ImportGraphDefOptionsSetUniquifyNames(options, 1);
  TF_GraphImportGraphDef(graph, buffer, options, status);
  expect_ok(status);
  twice = TF_GraphOperationByName(graph, "in/twice_1");
  assert_non_null(twice);
  assert_string_equal(TF_OperationName(TF_OperationInput((TF_Input){twice, 0}).oper), "in/sum_1");
  assert_int_equal(count_operations(graph), 12);
  TF_DeleteImportGraphDefOptions(options);
  TF_DeleteBuffer(buffer);
  TF_DeleteStatus(status);
  TF_DeleteGraph(graph);
}

static void test_mapping_and_results(void **state) {
  TF_Graph *graph = TF_NewGraph();
  TF_Status *status = TF_NewStatus();
  TF_Buffer *buffer = sample();
  TF_Output one = constant(graph, "one", 1), first = constant(graph, "first", 0);
  TF_ImportGraphDefOptions *options = TF_NewImportGraphDefOptions();
  TF_ImportGraphDefOptionsSetPrefix(options, "p");
  TF_ImportGraphDefOptionsAddInputMapping(options, "a", 0, one);
  TF_ImportGraphDefOptionsAddInputMapping(options, "nowhere", 2, one);
  TF_ImportGraphDefOptionsRemapControlDependency(options, "a", one.oper);
  TF_ImportGraphDefOptionsAddControlDependency(options, first.oper);
  TF_ImportGraphDefOptionsAddReturnOutput(options, "twice", 0);
  TF_ImportGraphDefOptionsAddReturnOutput(options, "a", 0);
  TF_ImportGraphDefOptionsAddReturnOperation(options, "sum");
  assert_int_equal(TF_ImportGraphDefOptionsNumReturnOutputs(options), 2);
  assert_int_equal(TF_ImportGraphDefOptionsNumReturnOperations(options), 1);
  TF_ImportGraphDefResults *results =
      TF_GraphImportGraphDefWithResults(graph, buffer, options, status);
  expect_ok(status);
  int count;
  TF_Output *outputs;
  TF_Operation **operations;
  TF_ImportGraphDefResultsReturnOutputs(results, &count, &outputs);
  assert_int_equal(count, 2);
  assert_string_equal(TF_OperationName(outputs[0].oper), "p/twice");
  assert_ptr_equal(outputs[1].oper, one.oper);
  TF_Operation *control;
  assert_int_equal(TF_OperationGetControlInputs(outputs[0].oper, &control, 1), 1);
  assert_ptr_equal(control, one.oper);
  TF_ImportGraphDefResultsReturnOperations(results, &count, &operations);
  assert_int_equal(count, 1);
  assert_string_equal(TF_OperationName(operations[0]), "p/sum");
  assert_ptr_equal(TF_OperationInput((TF_Input){operations[0], 0}).oper, one.oper);
  assert_int_equal(TF_OperationNumControlInputs(operations[0]), 0);
  TF_Operation *b = TF_GraphOperationByName(graph, "p/b");
  assert_int_equal(TF_OperationGetControlInputs(b, &control, 1), 1);
  assert_ptr_equal(control, first.oper);
  const char **names;
  int *indexes;
  TF_ImportGraphDefResultsMissingUnusedInputMappings(results, &count, &names, &indexes);
  assert_int_equal(count, 1);
  assert_string_equal(names[0], "nowhere");
  assert_int_equal(indexes[0], 2);
  TF_DeleteImportGraphDefResults(results);
  TF_DeleteImportGraphDefOptions(options);
  TF_DeleteBuffer(buffer);
  TF_DeleteStatus(status);
  TF_DeleteGraph(graph);
}

static void test_failures_leave_nothing(void **state) {
  TF_Graph *graph = TF_NewGraph();
  TF_Status *status = TF_NewStatus();
  TF_Buffer *buffer = sample();
  TF_Output outputs[1], one = constant(graph, "one", 1);
  TF_ImportGraphDefOptions *options = TF_NewImportGraphDefOptions();
  TF_ImportGraphDefOptionsAddInputMapping(options, "a", 0, one);
  TF_ImportGraphDefOptionsAddReturnOutput(options, "twice", 1);
  TF_GraphImportGraphDefWithReturnOutputs(graph, buffer, options, outputs, 0, status);
  expect_error(status, TF_INVALID_ARGUMENT, "Expected 'num_return_outputs' to be 1, got 0");
  TF_GraphImportGraphDefWithReturnOutputs(graph, buffer, options, outputs, 1, status);
  expect_error(status, TF_INVALID_ARGUMENT,
               "Invalid return output 1 of node 'twice', which has 1 output(s)");
  assert_int_equal(count_operations(graph), 1);
  assert_int_equal(TF_OperationOutputNumConsumers(one), 0);
  TF_DeleteImportGraphDefOptions(options);
  options = TF_NewImportGraphDefOptions();
  TF_ImportGraphDefOptionsAddReturnOutput(options, "none", 0);
  TF_GraphImportGraphDef(graph, buffer, options, status);
  expect_error(status, TF_INVALID_ARGUMENT, "Requested return tensor 'none:0' not found");
  TF_DeleteImportGraphDefOptions(options);
  options = TF_NewImportGraphDefOptions();
  TF_GraphImportGraphDef(graph, buffer, options, status);
  expect_ok(status);
  assert_int_equal(count_operations(graph), 5);
  TF_DeleteImportGraphDefOptions(options);
  TF_DeleteBuffer(buffer);
  TF_DeleteStatus(status);
  TF_DeleteGraph(graph);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_plain),
      cmocka_unit_test(test_prefix_and_numbers),
      cmocka_unit_test(test_mapping_and_results),
      cmocka_unit_test(test_failures_leave_nothing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
