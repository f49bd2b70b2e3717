/* Lowering: what is left, and that it computes what was meant. */
#include "function_test.h"
#include "kernels/kernels.h"

static dp_graph *graph_with(dp_library *library, const char *text) {
  dp_graph *graph = dp_graph_create(library);
  add_lines(graph, text);
  dp_library_release(library);
  return graph;
}

static double run_float(dp_graph *graph) {
  dp_tensor result = {0};
  assert_ok(run_graph(graph, &result, 1));
  assert_int_equal(result.dtype, DP_FLOAT);
  double value = *(float *)result.data;
  dp_tensor_deinit(&result);
  return value;
}

#define RESULT(name) "r = _Retval(" name ") T=float index=0\n"

static dp_library *branch_library(void) {
  dp_library *library = dp_library_create();
  add_function(library, "double",
               "x = _Arg() T=float index=0\n"
               "two = Const() dtype=float value=2\n"
               "y = Mul(x, two) T=float\n"
               "out = _Retval(y) T=float index=0\n");
  add_function(library, "negative",
               "x = _Arg() T=float index=0\n"
               "y = Neg(x) T=float\n"
               "out = _Retval(y) T=float index=0\n");
  add_function(library, "minus_one",
               "x = _Arg() T=float index=0\n"
               "one = Const() dtype=float value=1\n"
               "y = Sub(x, one) T=float\n"
               "out = _Retval(y) T=float index=0\n");
  return library;
}

static void inlines_calls(void **state) {
  dp_graph *graph =
      graph_with(branch_library(), "a = Const() dtype=float value=3\n"
                                   "c = PartitionedCall(a) Tin={float} Tout={float} f=<double>\n"
                                   "d = negative(c)\n"
                                   "after = NoOp(^d)\n"
                                   "s = Identity(d, ^after) T=float\n" RESULT("s"));
  assert_ok(dp_planner_lower(graph));
  assert_int_equal(count_nodes(graph, "PartitionedCall") + count_nodes(graph, "negative"), 0);
  assert_string_equal(node_of(graph, "c/y")->op->name, "Mul");
  assert_string_equal(node_of(graph, "c/y")->original_name, "c");
  assert_true(run_float(graph) == -6);
}

static void lowers_if(void **state) {
  for (int side = 0; side < 2; side++) {
    dp_text text = {0};
    dp_text_printf(&text,
                   "p = Const() dtype=bool value=%d\n"
                   "a = Const() dtype=float value=3\n"
                   "c = If(p, a) Tcond=bool Tin={float} Tout={float} then_branch=<double> "
                   "else_branch=<negative> _lower_using_switch_merge=true\n" RESULT("c"),
                   side);
    dp_graph *graph = graph_with(branch_library(), text.data);
    assert_ok(dp_planner_lower(graph));
    assert_int_equal(count_nodes(graph, "If"), 0);
    assert_int_equal(count_nodes(graph, "Switch"), 2);
    /* What only waiters need is not there: nobody waits. */
    assert_int_equal(count_nodes(graph, "Merge"), 1);
    assert_true(run_float(graph) == (side ? 6 : -3));
    dp_text_deinit(&text);
  }
}

static void lowers_case(void **state) {
  static const double expected[] = {2, 6, -3, 2};
  for (int index = -1; index < 3; index++) {
    dp_text text = {0};
    dp_text_printf(&text,
                   "p = Const() dtype=int32 value=%d\n"
                   "a = Const() dtype=float value=3\n"
                   "c = Case(p, a) Tin={float} Tout={float} "
                   "branches={<double> <negative> <minus_one>} "
                   "_lower_using_switch_merge=true\n" RESULT("c"),
                   index);
    dp_graph *graph = graph_with(branch_library(), text.data);
    assert_ok(dp_planner_lower(graph));
    assert_int_equal(count_nodes(graph, "_SwitchN"), 2);
    assert_true(run_float(graph) == expected[index + 1]);
    dp_text_deinit(&text);
  }
}

static void leaves_unmarked(void **state) {
  dp_graph *graph =
      graph_with(branch_library(), "p = Const() dtype=bool value=1\n"
                                   "a = Const() dtype=float value=3\n"
                                   "c = If(p, a) Tcond=bool Tin={float} Tout={float} "
                                   "then_branch=<double> else_branch=<negative>\n" RESULT("c"));
  assert_ok(dp_planner_lower(graph));
  assert_int_equal(count_nodes(graph, "If"), 1);
  dp_graph_destroy(graph);
}

static dp_library *loop_library(void) {
  dp_library *library = branch_library();
  add_function(library, "condition",
               "i = _Arg() T=int32 index=0\n"
               "x = _Arg() T=float index=1\n"
               "limit = Const() dtype=int32 value=4\n"
               "y = Less(i, limit) T=int32\n"
               "out = _Retval(y) T=bool index=0\n");
  add_function(library, "body",
               "i = _Arg() T=int32 index=0\n"
               "x = _Arg() T=float index=1\n"
               "one = Const() dtype=int32 value=1\n"
               "j = Add(i, one) T=int32\n"
               "ten = Const() dtype=float value=10\n"
               "p = Less(x, ten) T=float\n"
               "y = If(p, x) Tcond=bool Tin={float} Tout={float} then_branch=<double> "
               "else_branch=<minus_one> _lower_using_switch_merge=true\n"
               "out_i = _Retval(j) T=int32 index=0\n"
               "out_x = _Retval(y) T=float index=1\n");
  return library;
}

#define LOOP                                                                                       \
  "zero = Const() dtype=int32 value=0\n"                                                           \
  "a = Const() dtype=float value=3\n"                                                              \
  "first = NoOp()\n"                                                                               \
  "w = While(zero, a, ^first) T={int32 float} cond=<condition> body=<body> "                       \
  "_lower_using_switch_merge=true\n"

static void lowers_while(void **state) {
  dp_graph *graph = graph_with(loop_library(), LOOP RESULT("w:1"));
  assert_ok(dp_planner_lower(graph));
  assert_int_equal(count_nodes(graph, "While") + count_nodes(graph, "If"), 0);
  assert_int_equal(count_nodes(graph, "Enter"), 2);
  assert_int_equal(count_nodes(graph, "NextIteration"), 2);
  assert_int_equal(count_nodes(graph, "LoopCond"), 1);
  /* 3, 6, 12, 11, 10 */
  assert_true(run_float(graph) == 10);
}

static void keeps_names_for_fetches(void **state) {
  dp_graph *graph = graph_with(loop_library(), LOOP);
  dp_planner_place_options options = {0};
  dp_graph *prepared, *pruned;
  assert_ok(dp_planner_prepare(graph, &test_devices, &options, &prepared));
  dp_node *stand_in = node_of(prepared, "w");
  assert_string_equal(stand_in->op->name, "IdentityN");
  assert_int_equal(stand_in->output_count, 2);
  const char *fetch = "w:1";
  dp_planner_signature signature = {NULL, 0, &fetch, 1, NULL, 0};
  assert_ok(dp_planner_prune(prepared, &signature, &test_devices, true, &pruned));
  assert_ok(dp_planner_place(pruned, &test_devices, &options));
  assert_true(run_float(pruned) == 10);
  dp_graph_destroy(prepared);
  dp_graph_destroy(graph);
}

static void optimizes_lowered_graphs(void **state) {
  dp_graph *graph = graph_with(loop_library(), LOOP RESULT("w:1"));
  assert_ok(dp_planner_rewrite_body(NULL, graph));
  assert_true(run_float(graph) == 10);
}

static void keeps_effects(void **state) {
  dp_library *library = dp_library_create();
  add_function(library, "bump",
               "h = _Arg() T=resource index=0\n"
               "one = Const() dtype=float value=1\n"
               "must = AssignAddVariableOp(h, one) dtype=float\n"
               "five = Const() dtype=float value=5\n"
               "out = _Retval(five) T=float index=0\n");
  dp_graph *graph = graph_with(
      library, "h = VarHandleOp() dtype=float shape=() shared_name='v'\n"
               "one = Const() dtype=float value=1\n"
               "set = AssignVariableOp(h, one) dtype=float\n"
               "c = StatefulPartitionedCall(h, ^set) Tin={resource} Tout={float} f=<bump>\n"
               "more = Neg(c) T=float\n"
               "read = ReadVariableOp(h, ^more) dtype=float\n" RESULT("read"));
  assert_ok(dp_planner_lower(graph));
  assert_int_equal(count_nodes(graph, "StatefulPartitionedCall"), 0);
  assert_true(run_float(graph) == 2);
}

static void leaves_recursion(void **state) {
  dp_library *library = dp_library_create();
  add_function(library, "outer",
               "x = _Arg() T=float index=0\n"
               "y = PartitionedCall(x) Tin={float} Tout={float} f=<inner>\n"
               "out = _Retval(y) T=float index=0\n");
  add_function(library, "inner",
               "x = _Arg() T=float index=0\n"
               "y = PartitionedCall(x) Tin={float} Tout={float} f=<outer>\n"
               "out = _Retval(y) T=float index=0\n");
  dp_graph *graph = graph_with(library, "a = Const() dtype=float value=3\n"
                                        "c = outer(a)\n" RESULT("c"));
  assert_ok(dp_planner_lower(graph));
  assert_int_equal(count_nodes(graph, "PartitionedCall"), 1);
  dp_graph_destroy(graph);
}

static void writes_sums_in_other_ops(void **state) {
  dp_graph *graph = make_graph("a = Const() dtype=float value=[1]\n"
                               "b = Const() dtype=float value=[2]\n"
                               "c = AccumulateNV2(a, b) N=2 T=float shape=(1)\n"
                               "d = ParallelConcat(c, a) N=2 T=float shape=(2)\n" RESULT("d"));
  assert_ok(dp_planner_lower(graph));
  assert_int_equal(count_nodes(graph, "AddN"), 1);
  dp_tensor result = {0};
  assert_ok(run_graph(graph, &result, 1));
  assert_int_equal(result.shape.elements, 2);
  assert_true(((float *)result.data)[0] == 3 && ((float *)result.data)[1] == 1);
  dp_tensor_deinit(&result);
}

/* A body's nodes keep their devices within the task of the call. */
static void spreads_over_devices(void **state) {
  dp_library *library = dp_library_create();
  add_function(library, "f",
               "x = _Arg() T=float index=0\n"
               "y = Neg(x) T=float @/device:CPU:1\n"
               "z = Neg(y) T=float\n"
               "out = _Retval(z) T=float index=0\n");
  dp_graph *graph = graph_with(library, "a = Const() dtype=float value=3 @/job:ps/task:0\n"
                                        "c = PartitionedCall(a) Tin={float} Tout={float} f=<f> "
                                        "@/job:worker/task:0\n" RESULT("c"));
  assert_ok(dp_planner_lower(graph));
  dp_planner_place_options options = {0};
  assert_ok(dp_planner_place(graph, &test_devices, &options));
  assert_string_equal(node_of(graph, "c/y")->assigned_device, WORKER0_1);
  assert_string_equal(node_of(graph, "c/z")->assigned_device, WORKER0);
  assert_string_equal(node_of(graph, "c/input")->assigned_device, PS0);
  dp_graph_destroy(graph);
}

static void refuses_what_does_not_fit(void **state) {
  dp_graph *graph =
      graph_with(loop_library(), "a = Const() dtype=float value=3\n"
                                 "w = While(a) T={float} cond=<condition> body=<double> "
                                 "_lower_using_switch_merge=true\n" RESULT("w"));
  dp_status *status = dp_planner_lower(graph);
  assert_int_equal(dp_status_code(status), DP_INVALID_ARGUMENT);
  dp_status_release(status);
  dp_graph_destroy(graph);
  graph = graph_with(loop_library(), "a = Const() dtype=float value=3\n"
                                     "w = While(a) T={float} cond=<nowhere> body=<double> "
                                     "_lower_using_switch_merge=true\n" RESULT("w"));
  assert_error(dp_planner_lower(graph), DP_NOT_FOUND, "nowhere");
  dp_graph_destroy(graph);
}

int main(void) {
  dp_kernels_register();
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(inlines_calls),
      cmocka_unit_test(lowers_if),
      cmocka_unit_test(lowers_case),
      cmocka_unit_test(leaves_unmarked),
      cmocka_unit_test(lowers_while),
      cmocka_unit_test(keeps_names_for_fetches),
      cmocka_unit_test(optimizes_lowered_graphs),
      cmocka_unit_test(keeps_effects),
      cmocka_unit_test(leaves_recursion),
      cmocka_unit_test(writes_sums_in_other_ops),
      cmocka_unit_test(spreads_over_devices),
      cmocka_unit_test(refuses_what_does_not_fit),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
