/* Trees of element-wise ops become one node: which do, and that the values stay the same to the bit
 * for every op and every mixture of shapes. */
#include "kernels/kernels.h"
#include "planner_test.h"
#include "runtime/kernel.h"

#define ARG "x = _Arg() T=float index=0\n"
#define RESULT(name) "out = _Retval(" name ") T=float index=0\n"

/* ---- Which nodes ---- */

static void fuses_a_tree(void **state) {
  dp_graph *graph = make_graph(ARG "y = _Arg() T=float index=1\n"
                                   "first = NoOp()\n"
                                   "a = Mul(x, y) T=float\n"
                                   "b = Exp(y, ^first) T=float\n"
                                   "c = Neg(b) T=float\n"
                                   "d = Sub(a, c) T=float\n"
                                   "e = LeakyRelu(d) T=float alpha=0.5\n" RESULT("e"));
  assert_ok(dp_planner_fuse(graph, NULL));
  assert_int_equal(count_nodes(graph, "_FusedElementwise"), 1);
  assert_int_equal(count_nodes(graph, NULL), 5);
  const dp_node *fused = node_of(graph, "e/fused");
  assert_int_equal(fused->input_count, 2);
  assert_true(has_control(graph, fused, "first"));
  static const char *const ops[] = {"Exp", "Neg", "Mul", "Sub", "LeakyRelu"};
  static const char *const names[] = {"b", "c", "a", "d", "e"};
  const dp_attr *in_order = dp_node_attr(fused, "fused_ops");
  assert_int_equal(in_order->count, 5);
  for (int i = 0; i < 5; i++) {
    assert_true(dp_view_equals(in_order->strings[i], ops[i]));
    assert_true(dp_view_equals(dp_node_attr(fused, "node_names")->strings[i], names[i]));
  }
  static const int64_t operands[] = {0, 0, -1, 0, 1, 0, -3, -2, -4, 0};
  assert_memory_equal(dp_node_attr(fused, "operands")->integers, operands, sizeof(operands));
  assert_true(dp_node_attr(fused, "alphas")->numbers[4] == 0.5f);
  dp_graph_destroy(graph);
}

static void ends_where_others_read(void **state) {
  dp_graph *graph = make_graph(ARG "a = Exp(x) T=float\n"
                                   "b = Neg(a) T=float\n" /* read twice */
                                   "c = Tanh(b) T=float\n"
                                   "d = Sqrt(c) T=float\n"
                                   "e = Mul(d, b) T=float\n"
                                   "out = _Retval(e) T=float index=0\n"
                                   "after = NoOp(^d)\n"); /* a control edge leaves, too */
  assert_ok(dp_planner_fuse(graph, NULL));
  assert_int_equal(count_nodes(graph, "_FusedElementwise"), 2);
  assert_non_null(dp_graph_find(graph, "b/fused"));
  assert_non_null(dp_graph_find(graph, "d/fused"));
  assert_non_null(dp_graph_find(graph, "e"));
  dp_graph_destroy(graph);
}

static void leaves_other_types_and_single_ops(void **state) {
  dp_graph *graph = make_graph("x = _Arg() T=int32 index=0\n"
                               "a = Neg(x) T=int32\n"
                               "b = Square(a) T=int32\n"
                               "c = Cast(b) SrcT=int32 DstT=float\n"
                               "d = Exp(c) T=float\n" RESULT("d"));
  assert_ok(dp_planner_fuse(graph, NULL));
  assert_int_equal(count_nodes(graph, "_FusedElementwise"), 0);
  dp_graph_destroy(graph);
}

static void long_chains_become_several(void **state) {
  dp_text text = {0};
  dp_text_add(&text, ARG "n0 = Neg(x) T=float\n");
  for (int i = 1; i < 100; i++)
    dp_text_printf(&text, "n%d = Neg(n%d) T=float\n", i, i - 1);
  dp_text_add(&text, RESULT("n99"));
  dp_graph *graph = make_graph(text.data);
  assert_ok(dp_planner_fuse(graph, NULL));
  assert_int_equal(count_nodes(graph, "Neg"), 0);
  assert_int_equal(count_nodes(graph, "_FusedElementwise"), 4);
  dp_text_deinit(&text);
  dp_graph_destroy(graph);
}

static void honours_the_switch(void **state) {
  Tensorflow__GraphOptions options = TENSORFLOW__GRAPH_OPTIONS__INIT;
  Tensorflow__RewriterConfig rewriter = TENSORFLOW__REWRITER_CONFIG__INIT;
  options.rewrite_options = &rewriter;
  rewriter.remapping = TENSORFLOW__REWRITER_CONFIG__TOGGLE__OFF;
  dp_graph *graph = make_graph(ARG "a = Exp(x) T=float\nb = Neg(a) T=float\n" RESULT("b"));
  assert_ok(dp_planner_fuse(graph, &options));
  assert_int_equal(count_nodes(graph, "_FusedElementwise"), 0);
  dp_graph_destroy(graph);
}

/* ---- What they compute ---- */

/* Runs the lines as they are and fused; the results must be equal bit by bit. */
static void compare(const char *lines) {
  dp_tensor results[2] = {{0}};
  for (int is_fused = 0; is_fused < 2; is_fused++) {
    dp_graph *graph = make_graph(lines);
    if (is_fused)
      assert_ok(dp_planner_fuse(graph, NULL));
    assert_int_equal(count_nodes(graph, "_FusedElementwise"), is_fused);
    assert_ok(run_graph(graph, &results[is_fused], 1));
  }
  assert_true(dp_shape_equal(&results[0].shape, &results[1].shape));
  assert_memory_equal(results[0].data, results[1].data, dp_tensor_bytes(&results[0]));
  dp_tensor_deinit(&results[0]);
  dp_tensor_deinit(&results[1]);
}

/* `filled` with ops around it, in both dtypes. */
static void compare_op(const char *op, int operands, const char *sizes) {
  static const char *const types[] = {"float", "double"};
  for (int i = 0; i < 2; i++) {
    const char *t = types[i];
    dp_text text = {0};
    dp_text_printf(&text,
                   "s = Const() dtype=int32 value=%s\n"
                   "v = Const() dtype=%s value=0.37\n"
                   "w = Const() dtype=%s value=1.25\n"
                   "x = Fill(s, v) T=%s\n"
                   "y = Fill(s, w) T=%s\n"
                   "a = Mul(x, w) T=%s\n",
                   sizes, t, t, t, t, t);
    if (operands == 1)
      dp_text_printf(&text, "b = %s(a) T=%s\nc = Sub(b, y) T=%s\n", op, t, t);
    else
      dp_text_printf(&text, "b = %s(a, y) T=%s\nc = Sub(b, w) T=%s\n", op, t, t);
    dp_text_printf(&text, "d = Neg(c) T=%s\nout = _Retval(d) T=%s index=0\n", t, t);
    compare(text.data);
    dp_text_deinit(&text);
  }
}

static void every_op_computes_the_same(void **state) {
  static const char *const unary[] = {
      "Abs",   "Ceil", "Cos",   "Elu",    "Erf",        "Exp",  "Expm1",    "Floor",
      "Inv",   "Log",  "Log1p", "Neg",    "Reciprocal", "Relu", "Relu6",    "Rint",
      "Round", "Selu", "Rsqrt", "Sign",   "Sigmoid",    "Sin",  "Softplus", "Softsign",
      "Sqrt",  "Tan",  "Tanh",  "Square", "LeakyRelu"};
  static const char *const binary[] = {"Add",
                                       "AddV2",
                                       "Div",
                                       "DivNoNan",
                                       "FloorDiv",
                                       "Maximum",
                                       "Minimum",
                                       "Mul",
                                       "MulNoNan",
                                       "Pow",
                                       "RealDiv",
                                       "SquaredDifference",
                                       "Sub",
                                       "Xdivy",
                                       "Xlogy",
                                       "EluGrad",
                                       "InvGrad",
                                       "LeakyReluGrad",
                                       "ReciprocalGrad",
                                       "Relu6Grad",
                                       "ReluGrad",
                                       "RsqrtGrad",
                                       "SeluGrad",
                                       "SigmoidGrad",
                                       "SoftplusGrad",
                                       "SoftsignGrad",
                                       "SqrtGrad",
                                       "TanhGrad"};
  for (size_t i = 0; i < sizeof(unary) / sizeof(*unary); i++)
    compare_op(unary[i], 1, "[3 700]");
  for (size_t i = 0; i < sizeof(binary) / sizeof(*binary); i++)
    compare_op(binary[i], 2, "[3 700]");
}

static void every_shape_computes_the_same(void **state) {
  static const char *const sizes[] = {"[1]", "[0]", "[2 0 3]", "[1024]", "[1025]", "[70000]"};
  for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++)
    compare_op("Maximum", 2, sizes[i]);
  static const char *const others[][2] = {{"[2 3]", "[3]"},     {"[3]", "[2 3]"},
                                          {"[2 1]", "[3]"},     {"[1 1]", "[1]"},
                                          {"[4 1 3]", "[2 1]"}, {"[64 300]", "[300]"}};
  for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++) {
    dp_text text = {0};
    dp_text_printf(&text,
                   "s = Const() dtype=int32 value=%s\n"
                   "t = Const() dtype=int32 value=%s\n"
                   "v = Const() dtype=float value=0.37\n"
                   "x = Fill(s, v) T=float\n"
                   "y = Fill(t, v) T=float\n"
                   "a = Exp(x) T=float\n"
                   "b = Mul(a, y) T=float\n"
                   "c = Tanh(y) T=float\n"
                   "d = Sub(c, v) T=float\n"
                   "e = Maximum(d, b) T=float\n" RESULT("e"),
                   others[i][0], others[i][1]);
    compare(text.data);
    dp_text_deinit(&text);
  }
}

static void scalars_compute_the_same(void **state) {
  compare("v = Const() dtype=float value=0.37\n"
          "w = Const() dtype=float value=2.5\n"
          "a = Mul(v, w) T=float\n"
          "b = Exp(a) T=float\n"
          "c = ReluGrad(b, v) T=float\n" RESULT("c"));
}

/* Both operands of each node are subtrees: all the blocks are needed. */
static void a_full_tree_computes_the_same(void **state) {
  dp_text text = {0};
  dp_text_add(&text, "s = Const() dtype=int32 value=[3000]\n"
                     "v = Const() dtype=float value=0.37\n"
                     "x = Fill(s, v) T=float\n");
  for (int i = 16; i < 32; i++)
    dp_text_printf(&text, "n%d = %s(x) T=float\n", i, i % 2 ? "Exp" : "Sin");
  for (int i = 15; i > 0; i--)
    dp_text_printf(&text, "n%d = %s(n%d, n%d) T=float\n", i, i % 3 ? "Sub" : "Mul", 2 * i,
                   2 * i + 1);
  dp_text_add(&text, RESULT("n1"));
  compare(text.data);
  dp_text_deinit(&text);
}

/* ---- What they say ---- */

static void errors_name_the_node(void **state) {
  dp_graph *graph = make_graph("s = Const() dtype=int32 value=[2]\n"
                               "t = Const() dtype=int32 value=[3]\n"
                               "v = Const() dtype=float value=1\n"
                               "x = Fill(s, v) T=float\n"
                               "y = Fill(t, v) T=float\n"
                               "a = Exp(x) T=float\n"
                               "b = Add(a, y) T=float\n"
                               "c = Neg(b) T=float\n" RESULT("c"));
  assert_ok(dp_planner_fuse(graph, NULL));
  dp_tensor result = {0};
  assert_error(run_graph(graph, &result, 1), DP_INVALID_ARGUMENT,
               "Incompatible shapes: [2] vs. [3]\n\t [[{{node b}}]]");
  graph = make_graph("s = Const() dtype=int32 value=[2]\n"
                     "v = Const() dtype=float value=1\n"
                     "x = Fill(s, v) T=float\n"
                     "a = Exp(x) T=float\n"
                     "g = TanhGrad(a, v) T=float\n"
                     "c = Neg(g) T=float\n" RESULT("c"));
  assert_ok(dp_planner_fuse(graph, NULL));
  assert_error(run_graph(graph, &result, 1), DP_INVALID_ARGUMENT,
               "Inputs to operation g of type TanhGrad must have the same size and shape");
}

int main(void) {
  dp_kernels_register();
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(fuses_a_tree),
      cmocka_unit_test(ends_where_others_read),
      cmocka_unit_test(leaves_other_types_and_single_ops),
      cmocka_unit_test(long_chains_become_several),
      cmocka_unit_test(honours_the_switch),
      cmocka_unit_test(every_op_computes_the_same),
      cmocka_unit_test(every_shape_computes_the_same),
      cmocka_unit_test(scalars_compute_the_same),
      cmocka_unit_test(a_full_tree_computes_the_same),
      cmocka_unit_test(errors_name_the_node),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
