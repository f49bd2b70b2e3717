/* TF_NewWhile and TF_FinishWhile: what the loops compute, and which parameters are refused.
 * Gradients of loops are in test_gradient.c. */
#include <downpour.h>
#include "nodes.h"

/* while (i < limit) i = i + step, step = step * 2. All three are inputs of the loop. */
static TF_WhileParams start(TF_Graph *graph, dp_scope *scope, TF_Status *status) {
  TF_Output inputs[] = {dp_const_float(scope, 0), dp_placeholder(scope, TF_FLOAT, .name = "limit"),
                        dp_const_float(scope, 3)};
  TF_WhileParams loop = TF_NewWhile(graph, inputs, 3, status);
  expect_ok(status);
  assert_int_equal(loop.ninputs, 3);
  assert_string_equal(TF_OperationOpType(loop.cond_inputs[0].oper), "Placeholder");
  dp_scope *condition = dp_scope_create(loop.cond_graph);
  loop.cond_output = dp_less(condition, loop.cond_inputs[0], loop.cond_inputs[1]);
  dp_scope_destroy(condition);
  dp_scope *body = dp_scope_create(loop.body_graph);
  loop.body_outputs[0] = dp_add(body, loop.body_inputs[0], loop.body_inputs[2]);
  loop.body_outputs[1] = loop.body_inputs[1]; /* passed on unchanged */
  loop.body_outputs[2] = dp_mul(body, loop.body_inputs[2], dp_const_float(body, 2));
  assert_true(dp_scope_ok(body));
  dp_scope_destroy(body);
  loop.name = "loop";
  return loop;
}

static void test_runs(void **state) {
  TF_Graph *graph = TF_NewGraph();
  TF_Status *status = TF_NewStatus();
  dp_scope *scope = dp_scope_create(graph);
  TF_WhileParams loop = start(graph, scope, status);
  TF_Output ends[3];
  TF_FinishWhile(&loop, status, ends);
  expect_ok(status);
  assert_string_equal(TF_OperationOpType(ends[2].oper), "Exit");
  TF_SessionOptions *options = TF_NewSessionOptions();
  TF_Session *session = TF_NewSession(graph, options, status);
  TF_Output limit = {TF_GraphOperationByName(graph, "limit"), 0};
  TF_Tensor *ten = float_tensor(10), *values[3];
  TF_SessionRun(session, NULL, &limit, &ten, 1, ends, values, 3, NULL, 0, NULL, status);
  expect_ok(status);
  assert_true(float_value(values[0]) == 21); /* 0, 3, 9, 21 */
  assert_true(float_value(values[1]) == 10);
  assert_true(float_value(values[2]) == 24);
  for (int i = 0; i < 3; i++)
    TF_DeleteTensor(values[i]);
  TF_DeleteTensor(ten);
  TF_DeleteSession(session, status);
  TF_DeleteSessionOptions(options);
  dp_scope_destroy(scope);
  TF_DeleteGraph(graph);
  TF_DeleteStatus(status);
}

static void test_refused(void **state) {
  TF_Graph *graph = TF_NewGraph();
  TF_Status *status = TF_NewStatus();
  dp_scope *scope = dp_scope_create(graph);
  TF_Output ends[3];
  TF_NewWhile(graph, NULL, 0, status);
  expect_error(status, TF_INVALID_ARGUMENT, "at least one input");
  TF_WhileParams loop = start(graph, scope, status);
  loop.cond_output.oper = NULL;
  TF_FinishWhile(&loop, status, ends);
  expect_error(status, TF_INVALID_ARGUMENT, "`cond_output` field isn't set");
  TF_WhileParams empty = {0};
  TF_FinishWhile(&empty, status, ends);
  expect_error(status, TF_INVALID_ARGUMENT, "successful TF_NewWhile() call");
  TF_DeleteStatus(status);
  dp_scope_destroy(scope);
  TF_DeleteGraph(graph);
}

/* A condition that is no boolean is refused, and no node stays in the graph. */
static void test_bad_condition(void **state) {
  TF_Graph *graph = TF_NewGraph();
  TF_Status *status = TF_NewStatus();
  dp_scope *scope = dp_scope_create(graph);
  TF_Output start = dp_const_float(scope, 1), end;
  TF_WhileParams loop = TF_NewWhile(graph, &start, 1, status);
  expect_ok(status);
  int before = count_operations(graph);
  dp_scope *inner = dp_scope_create(loop.cond_graph);
  loop.cond_output = dp_identity(inner, loop.cond_inputs[0]); /* a float */
  dp_scope_destroy(inner);
  loop.body_outputs[0] = loop.body_inputs[0];
  loop.name = "bad";
  TF_FinishWhile(&loop, status, &end);
  expect_error(status, TF_INVALID_ARGUMENT, "bool");
  assert_int_equal(count_operations(graph), before);
  TF_WhileParams dropped = TF_NewWhile(graph, &start, 1, status);
  TF_AbortWhile(&dropped);
  assert_int_equal(count_operations(graph), before);
  dp_scope_destroy(scope);
  TF_DeleteGraph(graph);
  TF_DeleteStatus(status);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_runs), cmocka_unit_test(test_refused),
                                     cmocka_unit_test(test_bad_condition)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
