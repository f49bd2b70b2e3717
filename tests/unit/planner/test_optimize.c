/* The passes: what each removes, what it must leave, and that results stay as they were. Ends of
 * these graphs are _Retval nodes. */
#include "kernels/kernels.h"
#include "planner_test.h"

static dp_graph *optimized(const char *text) {
  dp_graph *graph = make_graph(text);
  assert_ok(dp_planner_optimize(graph, NULL));
  return graph;
}

/* The value of the only result; runs the graph. */
static double result_of(dp_graph *graph) {
  dp_tensor result = {0};
  assert_ok(run_graph(graph, &result, 1));
  double value = result.dtype == DP_FLOAT ? *(float *)result.data : *(int32_t *)result.data;
  dp_tensor_deinit(&result);
  return value;
}

#define ARG "x = _Arg() T=float index=0\n"
#define RESULT(name) "r = _Retval(" name ") T=float index=0\n"

/* ---- Folding ---- */

static void folds_constants(void **state) {
  dp_graph *graph = optimized("a = Const() dtype=float value=2\n"
                              "b = Const() dtype=float value=3\n"
                              "c = Mul(a, b) T=float\n"
                              "d = Add(c, a) T=float\n" RESULT("d"));
  assert_int_equal(count_nodes(graph, NULL), 2);
  assert_true(result_of(graph) == 8);
}

static void folds_where_it_is(void **state) {
  dp_graph *graph = make_graph(ARG "n = Neg(x) T=float\n"
                                   "a = Const(^n) dtype=float value=2\n"
                                   "b = Const() dtype=float value=3\n"
                                   "c = Mul(a, b) T=float\n"
                                   "after = Neg(x, ^c) T=float\n"
                                   "s = Add(after, c) T=float\n" RESULT("s"));
  assert_ok(dp_planner_optimize(graph, NULL));
  dp_node *folded = node_of(graph, "ConstantFolding/c");
  assert_true(has_control(graph, folded, "n"));
  assert_true(has_control(graph, node_of(graph, "after"), "ConstantFolding/c"));
  dp_graph_destroy(graph);
}

static void leaves_what_fails(void **state) {
  dp_graph *graph = optimized("a = Const() dtype=int32 value=2\n"
                              "b = Const() dtype=int32 value=0\n"
                              "c = FloorDiv(a, b) T=int32\n"
                              "r = _Retval(c) T=int32 index=0\n");
  assert_non_null(dp_graph_find(graph, "c"));
  dp_graph_destroy(graph);
}

static void leaves_state_and_size(void **state) {
  dp_graph *graph = optimized("a = Const() dtype=int32 value=[2 2]\n"
                              "b = RandomUniform(a) T=int32 dtype=float\n"
                              "d = Const() dtype=int32 value=[2000 2000]\n"
                              "v = Const() dtype=float value=1\n"
                              "f = Fill(d, v) T=float\n"
                              "s = _Retval(f) T=float index=1\n" RESULT("b"));
  assert_non_null(dp_graph_find(graph, "b"));
  assert_non_null(dp_graph_find(graph, "f"));
  dp_graph_destroy(graph);
}

/* ---- Duplicates ---- */

static void shares_equal_nodes(void **state) {
  dp_graph *graph = optimized(ARG "a = Neg(x) T=float\n"
                                  "b = Neg(x) T=float\n"
                                  "c = Exp(a) T=float\n"
                                  "d = Exp(b) T=float\n"
                                  "e = Sub(c, d) T=float\n" RESULT("e"));
  assert_int_equal(count_nodes(graph, "Neg"), 1);
  assert_int_equal(count_nodes(graph, "Exp"), 1);
  dp_graph_destroy(graph);
}

static void leaves_unequal_nodes(void **state) {
  dp_graph *graph = make_graph(ARG "first = Abs(x) T=float\n"
                                   "a = Neg(x) T=float @/job:ps/task:0\n"
                                   "b = Neg(x) T=float @/job:ps/task:1\n"
                                   "c = Neg(x, ^first) T=float @/job:ps/task:0\n"
                                   "s = Const() dtype=int32 value=[2]\n"
                                   "d = RandomUniform(s) T=int32 dtype=float\n"
                                   "e = RandomUniform(s) T=int32 dtype=float\n"
                                   "l = AddN(a, b, c, d, e) N=5 T=float\n" RESULT("l"));
  dp_planner_place_options place = {0};
  assert_ok(dp_planner_place(graph, &test_devices, &place));
  assert_ok(dp_planner_optimize(graph, NULL));
  assert_int_equal(count_nodes(graph, "Neg"), 3);
  assert_int_equal(count_nodes(graph, "RandomUniform"), 2);
  dp_graph_destroy(graph);
}

/* ---- Arithmetic ---- */

static void sees_nothing(void **state) {
  dp_graph *graph = optimized(ARG "one = Const() dtype=float value=1\n"
                                  "zero = Const() dtype=float value=0\n"
                                  "a = Mul(one, x) T=float\n"
                                  "b = Sub(a, zero) T=float\n"
                                  "c = RealDiv(b, one) T=float\n"
                                  "d = Neg(c) T=float\n"
                                  "e = Neg(d) T=float\n"
                                  "f = Cast(e) SrcT=float DstT=float\n"
                                  "g = Pow(f, one) T=float\n" RESULT("g"));
  assert_int_equal(count_nodes(graph, NULL), 2);
  assert_string_equal(input_of(graph, "r", 0), "x");
  dp_graph_destroy(graph);
}

static void sees_transposes(void **state) {
  dp_graph *graph = optimized(ARG "p = Const() dtype=int32 value=[1 2 0]\n"
                                  "q = Const() dtype=int32 value=[2 0 1]\n"
                                  "i = Const() dtype=int32 value=[0 1 2]\n"
                                  "a = Transpose(x, p) T=float\n"
                                  "b = Transpose(a, q) T=float\n"
                                  "c = Transpose(b, i) T=float\n"
                                  "d = Transpose(c, p) T=float\n"
                                  "e = Transpose(d, p) T=float\n" RESULT("e"));
  assert_int_equal(count_nodes(graph, "Transpose"), 2);
  /* The fourth is the first again. */
  assert_string_equal(input_of(graph, "e", 0), "a");
  dp_graph_destroy(graph);
}

static void leaves_inexact_arithmetic(void **state) {
  dp_graph *graph = optimized(ARG "zero = Const() dtype=float value=0\n"
                                  "ones = Const() dtype=float value=[1 1]\n"
                                  "a = Add(x, zero) T=float\n"
                                  "b = Mul(a, ones) T=float\n" RESULT("b"));
  assert_int_equal(count_nodes(graph, "Add"), 1);
  assert_int_equal(count_nodes(graph, "Mul"), 1);
  dp_graph_destroy(graph);
}

/* ---- Dependencies ---- */

static void removes_hands_on(void **state) {
  dp_graph *graph = optimized(ARG "first = NoOp()\n"
                                  "i = Identity(x, ^first) T=float\n"
                                  "s = StopGradient(i) T=float\n"
                                  "n = IdentityN(s) T={float}\n"
                                  "g = NoOp(^n)\n"
                                  "y = Neg(n, ^g) T=float\n" RESULT("y"));
  assert_int_equal(count_nodes(graph, NULL), 3);
  assert_int_equal(node_of(graph, "y")->control_count, 0);
  dp_graph_destroy(graph);
}

static void keeps_order(void **state) {
  dp_graph *graph = make_graph("v = VariableV2() dtype=float shape=()\n"
                               "one = Const() dtype=float value=1\n"
                               "as = Assign(v, one) T=float\n"
                               "g = NoOp(^as)\n"
                               "read = Identity(v, ^g) T=float\n"
                               "on = AssignAdd(v, one, ^read) T=float\n"
                               "end = NoOp(^on)\n" RESULT("read"));
  assert_ok(dp_planner_optimize(graph, NULL));
  assert_true(has_control(graph, node_of(graph, "read"), "as"));
  assert_true(has_control(graph, node_of(graph, "on"), "read"));
  assert_non_null(dp_graph_find(graph, "end"));
  dp_graph_destroy(graph);
}

static void keeps_pivots(void **state) {
  dp_graph *graph = optimized("p = _Arg() T=bool index=0\n"
                              "s = Switch(p, p) T=bool\n"
                              "t = Identity(s:1) T=bool\n"
                              "f = Identity(s) T=bool\n"
                              "a = Const(^t) dtype=float value=1\n"
                              "b = Const(^f) dtype=float value=2\n"
                              "m = Merge(a, b) T=float N=2\n" RESULT("m"));
  assert_non_null(dp_graph_find(graph, "t"));
  assert_non_null(dp_graph_find(graph, "f"));
  dp_graph_destroy(graph);
}

/* ---- Branches ---- */

#define BRANCH(value)                                                                              \
  "p = Const() dtype=bool value=" value "\n"                                                       \
  "x = Const() dtype=float value=5\n"                                                              \
  "s = Switch(p, p) T=bool\n"                                                                      \
  "t = Identity(s:1) T=bool\n"                                                                     \
  "f = Identity(s) T=bool\n"                                                                       \
  "sx = Switch(x, p) T=float\n"                                                                    \
  "a = Const(^t) dtype=float value=1\n"                                                            \
  "then = Add(sx:1, a) T=float\n"                                                                  \
  "b = Const(^f) dtype=float value=0\n"                                                            \
  "else = Sub(b, sx) T=float\n"

static void removes_dead_branches(void **state) {
  for (int side = 0; side < 2; side++) {
    dp_text text = {0};
    dp_text_add(&text, side ? BRANCH("1") : BRANCH("0"));
    dp_text_add(&text, "m = Merge(then, else) T=float N=2\n" RESULT("m"));
    dp_graph *graph = optimized(text.data);
    assert_int_equal(count_nodes(graph, "Switch") + count_nodes(graph, "Merge"), 0);
    assert_int_equal(count_nodes(graph, NULL), 2);
    assert_true(result_of(graph) == (side ? 6 : -5));
    dp_text_deinit(&text);
  }
}

static void knows_which_was_taken(void **state) {
  dp_graph *graph = optimized(BRANCH("0") "m = Merge(then, else) T=float N=2\n"
                                          "r = _Retval(m:1) T=int32 index=0\n");
  assert_true(result_of(graph) == 1);
}

static void leaves_dead_results(void **state) {
  dp_graph *graph = optimized(BRANCH("1") RESULT("else"));
  assert_non_null(dp_graph_find(graph, "sx"));
  dp_graph_destroy(graph);
}

/* ---- Constants on several devices ---- */

static void copies_small_constants(void **state) {
  dp_graph *graph = make_graph(ARG "c = Const() dtype=float value=2 @/job:worker/task:0\n"
                                   "a = Mul(x, c) T=float @/job:worker/task:0\n"
                                   "b = Mul(a, c) T=float @/job:ps/task:1\n"
                                   "d = Sub(b, c) T=float @/job:ps/task:1\n"
                                   "e = Sub(d, c) T=float @/job:ps/task:0\n" RESULT("e"));
  dp_planner_place_options place = {0};
  assert_ok(dp_planner_place(graph, &test_devices, &place));
  assert_ok(dp_planner_optimize(graph, NULL));
  assert_int_equal(count_nodes(graph, "Const"), 3);
  assert_string_equal(input_of(graph, "a", 1), "c");
  assert_string_equal(input_of(graph, "b", 1), input_of(graph, "d", 1));
  assert_string_equal(node_of(graph, input_of(graph, "e", 1))->assigned_device, PS0);
  dp_graph_destroy(graph);
}

/* ---- Control edges between devices ---- */

static void groups_control_edges(void **state) {
  dp_graph *graph = make_graph("v = VariableV2() dtype=float shape=() @/job:ps/task:0\n"
                               "w = VariableV2() dtype=float shape=() @/job:ps/task:1\n"
                               "one = Const() dtype=float value=1\n"
                               "a = Assign(v, one) T=float\n"
                               "b = AssignAdd(v, one) T=float\n"
                               "c = Assign(w, one) T=float\n"
                               "x = Abs(one) T=float @/job:worker/task:0\n"
                               "all = NoOp(^a, ^b, ^c, ^x) @/job:worker/task:0\n"
                               "too = NoOp(^a, ^b, ^c) @/job:worker/task:0\n");
  dp_planner_place_options place = {0};
  assert_ok(dp_planner_place(graph, &test_devices, &place));
  assert_ok(dp_planner_optimize(graph, NULL));
  dp_node *all = node_of(graph, "all"), *too = node_of(graph, "too");
  assert_int_equal(too->control_count, 2);
  assert_true(has_control(graph, too, "c"));
  assert_true(has_control(graph, too, "a/group_deps"));
  assert_true(has_control(graph, all, "a/group_deps"));
  dp_node *group = node_of(graph, "a/group_deps");
  assert_string_equal(group->assigned_device, PS0);
  assert_int_equal(group->control_count, 2);
  dp_graph_destroy(graph);
}

/* ---- Fusing ---- */

static void fuses_dense_layers(void **state) {
  if (!dp_kernel_exists("_FusedMatMul"))
    skip();
  dp_graph *graph = make_graph(ARG "w = _Arg() T=float index=1\n"
                                   "b = _Arg() T=float index=2\n"
                                   "first = NoOp()\n"
                                   "m = MatMul(x, w) T=float transpose_b=true\n"
                                   "a = BiasAdd(m, b, ^first) T=float\n"
                                   "y = Relu(a) T=float\n"
                                   "m2 = MatMul(y, w) T=float\n"
                                   "a2 = BiasAdd(m2, b) T=float\n"
                                   "z = Neg(a2) T=float\n" RESULT("z"));
  assert_ok(dp_planner_fuse(graph, NULL));
  assert_int_equal(count_nodes(graph, "_FusedMatMul"), 2);
  assert_int_equal(count_nodes(graph, "MatMul"), 0);
  dp_node *fused = node_of(graph, "y/fused");
  const dp_attr *ops = dp_node_attr(fused, "fused_ops");
  assert_int_equal(ops->count, 2);
  assert_true(dp_view_equals(ops->strings[1], "Relu"));
  bool transposed;
  assert_ok(dp_node_get_bool(fused, "transpose_b", &transposed));
  assert_true(transposed);
  assert_true(has_control(graph, fused, "first"));
  assert_string_equal(input_of(graph, "a2/fused", 0), "y/fused");
  dp_graph_destroy(graph);
}

static void fused_layers_compute_the_same(void **state) {
  static const char *const activations[] = {"Relu", "Relu6", "Elu", "Tanh", "Sigmoid", "LeakyRelu"};
  if (!dp_kernel_exists("_FusedMatMul"))
    skip();
  for (size_t i = 0; i < sizeof(activations) / sizeof(*activations); i++) {
    dp_text text = {0};
    dp_text_printf(&text,
                   "v = Const() dtype=float value=[0.5 -1 0.25 2]\n"
                   "s = Const() dtype=int32 value=[2 2]\n"
                   "x = Reshape(v, s) T=float\n"
                   "b = Const() dtype=float value=[1 -0.5]\n"
                   "m = MatMul(x, x) T=float\n"
                   "a = BiasAdd(m, b) T=float\n"
                   "y = %s(a) T=float\n"
                   "z = Neg(y) T=float\n" RESULT("z"),
                   activations[i]);
    dp_tensor results[2] = {{0}};
    for (int is_fused = 0; is_fused < 2; is_fused++) {
      dp_graph *graph = make_graph(text.data);
      if (is_fused)
        assert_ok(dp_planner_fuse(graph, NULL));
      assert_int_equal(count_nodes(graph, "_FusedMatMul"), is_fused);
      assert_ok(run_graph(graph, &results[is_fused], 1));
    }
    for (int k = 0; k < 4; k++) {
      float before = ((float *)results[0].data)[k], after = ((float *)results[1].data)[k];
      assert_true(before - after < 1e-6f && after - before < 1e-6f);
    }
    dp_tensor_deinit(&results[0]);
    dp_tensor_deinit(&results[1]);
    dp_text_deinit(&text);
  }
}

static void fuses_convolutions(void **state) {
  if (!dp_kernel_exists("_FusedConv2D"))
    skip();
  dp_graph *graph =
      make_graph(ARG "w = _Arg() T=float index=1\n"
                     "b = _Arg() T=float index=2\n"
                     "c = Conv2D(x, w) T=float strides={1 2 2 1} padding='SAME'\n"
                     "n = FusedBatchNormV3(c, b, b, b, b) T=float U=float is_training=false "
                     "epsilon=0.25\n"
                     "y = Relu6(n) T=float\n"
                     "d = Conv2D(y, w) T=float strides={1 1 1 1} padding='VALID'\n"
                     "e = BiasAdd(d, b) T=float\n"
                     "z = LeakyRelu(e) T=float alpha=0.5\n"
                     "f = Conv2D(z, w) T=float strides={1 1 1 1} padding='VALID'\n"
                     "g = FusedBatchNorm(f, b, b, b, b) T=float is_training=true\n" RESULT("g"));
  assert_ok(dp_planner_fuse(graph, NULL));
  assert_int_equal(count_nodes(graph, "_FusedConv2D"), 2);
  dp_node *first = node_of(graph, "y/fused"), *second = node_of(graph, "z/fused");
  float number;
  assert_ok(dp_node_get_float(first, "epsilon", &number));
  assert_true(number == 0.25f);
  assert_int_equal(first->input_count, 6);
  assert_ok(dp_node_get_float(second, "leakyrelu_alpha", &number));
  assert_true(number == 0.5f);
  assert_string_equal(input_of(graph, "z/fused", 0), "y/fused");
  assert_non_null(dp_graph_find(graph, "g"));
  dp_graph_destroy(graph);
}

static void leaves_what_others_read(void **state) {
  dp_graph *graph = make_graph(ARG "w = _Arg() T=float index=1\n"
                                   "b = _Arg() T=float index=2\n"
                                   "m = MatMul(x, w) T=float\n"
                                   "a = BiasAdd(m, b) T=float\n"
                                   "z = Sub(a, m) T=float\n" RESULT("z"));
  assert_ok(dp_planner_fuse(graph, NULL));
  assert_int_equal(count_nodes(graph, "MatMul"), 1);
  dp_graph_destroy(graph);
}

/* ---- Switches ---- */

static void honours_switches(void **state) {
  static const char *const text = ARG "a = Neg(x) T=float\n"
                                      "b = Neg(x) T=float\n"
                                      "one = Const() dtype=float value=1\n"
                                      "two = Const() dtype=float value=2\n"
                                      "c = Add(one, two) T=float\n"
                                      "d = AddN(a, b, c) N=3 T=float\n" RESULT("d");
  Tensorflow__GraphOptions options = TENSORFLOW__GRAPH_OPTIONS__INIT;
  Tensorflow__OptimizerOptions level = TENSORFLOW__OPTIMIZER_OPTIONS__INIT;
  Tensorflow__RewriterConfig rewriter = TENSORFLOW__REWRITER_CONFIG__INIT;
  options.optimizer_options = &level;
  options.rewrite_options = &rewriter;
  rewriter.disable_meta_optimizer = true;
  level.opt_level = TENSORFLOW__OPTIMIZER_OPTIONS__LEVEL__L0;
  dp_graph *graph = make_graph(text);
  assert_ok(dp_planner_optimize(graph, &options));
  assert_int_equal(count_nodes(graph, NULL), 8);
  dp_graph_destroy(graph);
  level.do_common_subexpression_elimination = true;
  graph = make_graph(text);
  assert_ok(dp_planner_optimize(graph, &options));
  assert_int_equal(count_nodes(graph, "Neg"), 1);
  assert_int_equal(count_nodes(graph, "Add"), 1);
  dp_graph_destroy(graph);
  level.do_common_subexpression_elimination = false;
  level.do_constant_folding = true;
  graph = make_graph(text);
  assert_ok(dp_planner_optimize(graph, &options));
  assert_int_equal(count_nodes(graph, "Neg"), 2);
  assert_int_equal(count_nodes(graph, "Add"), 0);
  dp_graph_destroy(graph);
}

int main(void) {
  dp_kernels_register();
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(folds_constants),
      cmocka_unit_test(folds_where_it_is),
      cmocka_unit_test(leaves_what_fails),
      cmocka_unit_test(leaves_state_and_size),
      cmocka_unit_test(shares_equal_nodes),
      cmocka_unit_test(leaves_unequal_nodes),
      cmocka_unit_test(sees_nothing),
      cmocka_unit_test(sees_transposes),
      cmocka_unit_test(leaves_inexact_arithmetic),
      cmocka_unit_test(removes_hands_on),
      cmocka_unit_test(keeps_order),
      cmocka_unit_test(keeps_pivots),
      cmocka_unit_test(removes_dead_branches),
      cmocka_unit_test(knows_which_was_taken),
      cmocka_unit_test(leaves_dead_results),
      cmocka_unit_test(copies_small_constants),
      cmocka_unit_test(groups_control_edges),
      cmocka_unit_test(fuses_dense_layers),
      cmocka_unit_test(fused_layers_compute_the_same),
      cmocka_unit_test(fuses_convolutions),
      cmocka_unit_test(leaves_what_others_read),
      cmocka_unit_test(honours_switches),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
