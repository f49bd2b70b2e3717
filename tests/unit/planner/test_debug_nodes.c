/* Debug nodes: names, attributes and edges as TensorFlow's debugger makes them, who is left alone,
 * and watches that make no sense. */
#include "kernels/kernels.h"
#include "planner_test.h"

static char *const urls[] = {"file:///dump"};

typedef struct watches {
  Tensorflow__DebugTensorWatch items[4];
  Tensorflow__DebugTensorWatch *pointers[4];
  Tensorflow__DebugOptions options;
} watches;

static void init(watches *all) {
  tensorflow__debug_options__init(&all->options);
  all->options.debug_tensor_watch_opts = all->pointers;
}

/* Watches with one op. */
static Tensorflow__DebugTensorWatch *watch(watches *all, char *node, int32_t slot, char **op) {
  size_t at = all->options.n_debug_tensor_watch_opts++;
  Tensorflow__DebugTensorWatch *item = &all->items[at];
  tensorflow__debug_tensor_watch__init(item);
  all->pointers[at] = item;
  item->node_name = node;
  item->output_slot = slot;
  item->n_debug_ops = 1;
  item->debug_ops = op;
  item->n_debug_urls = 1;
  item->debug_urls = (char **)urls;
  return item;
}

static dp_status *add(dp_graph *graph, const watches *all) {
  return dp_planner_add_debug_nodes(graph, &all->options, "/job:a/task:0/device:CPU:0", "CPU");
}

static char *identity[] = {"DebugIdentity"};

static void puts_a_copy_between(void **state) {
  dp_graph *graph = make_graph("x = Const() dtype=float value=2.5\n"
                               "y = Neg(x) T=float\n"
                               "z = Add(y, y) T=float\n"
                               "later = NoOp(^y)\n");
  watches all = {0};
  init(&all);
  watch(&all, "y", 0, identity);
  watch(&all, "nothing", 0, identity);
  assert_ok(add(graph, &all));
  assert_string_equal(input_of(graph, "__copy_y_0", 0), "y");
  assert_string_equal(input_of(graph, "__dbg_y:0_0_DebugIdentity", 0), "__copy_y_0");
  assert_string_equal(input_of(graph, "z", 0), "__copy_y_0");
  assert_string_equal(input_of(graph, "z", 1), "__copy_y_0");
  assert_true(has_control(graph, node_of(graph, "z"), "__dbg_y:0_0_DebugIdentity"));
  assert_true(has_control(graph, node_of(graph, "later"), "y"));
  assert_int_equal(node_of(graph, "later")->control_count, 1);
  assert_int_equal(count_nodes(graph, "Copy"), 1);
  dp_view text;
  assert_ok(dp_node_get_string(node_of(graph, "__dbg_y:0_0_DebugIdentity"), "tensor_name", &text));
  assert_true(dp_view_equals(text, "y:0"));
  const dp_attr *specs;
  assert_ok(dp_node_get_list(node_of(graph, "__copy_y_0"), "debug_ops_spec", DP_ATTR_LIST_STRING,
                             &specs));
  assert_int_equal(specs->count, 1);
  assert_true(dp_view_equals(specs->strings[0], "DebugIdentity;file:///dump;0"));
  dp_graph_destroy(graph);
}

static void leaves_references_to_their_readers(void **state) {
  dp_graph *graph = make_graph("v = VariableV2() dtype=float shape=(2)\n"
                               "read = Identity(v) T=float\n");
  watches all = {0};
  init(&all);
  watch(&all, "v", 0, identity);
  assert_ok(add(graph, &all));
  assert_string_equal(input_of(graph, "read", 0), "v");
  assert_string_equal(input_of(graph, "__copy_v_0", 0), "v");
  assert_true(has_control(graph, node_of(graph, "read"), "__dbg_v:0_0_DebugIdentity"));
  dp_graph_destroy(graph);
}

static void leaves_loops_their_edges(void **state) {
  dp_graph *graph = make_graph("x = Const() dtype=float value=1.0\n"
                               "e = Enter(x) T=float frame_name='f' parallel_iterations=10\n"
                               "n = Neg(e) T=float\n");
  watches all = {0};
  init(&all);
  watch(&all, "e", 0, identity);
  watch(&all, "*", -1, identity);
  assert_ok(add(graph, &all));
  assert_string_equal(input_of(graph, "n", 0), "e");
  assert_int_equal(node_of(graph, "n")->control_count, 0);
  assert_string_equal(input_of(graph, "e", 0), "__copy_x_0");
  assert_int_equal(count_nodes(graph, "Copy"), 3);
  int64_t parallel;
  assert_ok(dp_node_get_int(node_of(graph, "e"), "parallel_iterations", &parallel));
  assert_int_equal(parallel, 1);
  dp_graph_destroy(graph);
}

static void sets_attributes_of_the_op(void **state) {
  char *ops[] = {"DebugNumericSummary( lower_bound=-1.5 ;mute_if_healthy=T)"};
  dp_graph *graph = make_graph("x = Const() dtype=float value=1.0\n");
  watches all = {0};
  init(&all);
  watch(&all, "x", 0, ops);
  assert_ok(add(graph, &all));
  const dp_node *node = node_of(graph, "__dbg_x:0_0_DebugNumericSummary");
  float bound;
  bool is_muted;
  assert_ok(dp_node_get_float(node, "lower_bound", &bound));
  assert_ok(dp_node_get_bool(node, "mute_if_healthy", &is_muted));
  assert_true(bound == -1.5f && is_muted);
  dp_graph_destroy(graph);
}

static void refuse(char *node, int32_t slot, char *op, const char *part) {
  dp_graph *graph = make_graph("x = Const() dtype=float value=1.0\n");
  watches all = {0};
  init(&all);
  watch(&all, node, slot, &op);
  assert_error(add(graph, &all), DP_FAILED_PRECONDITION, part);
  dp_graph_destroy(graph);
}

static void refuses_what_makes_no_sense(void **state) {
  refuse("*", 0, "DebugIdentity", "output_slot is expected to be -1");
  refuse("x", -1, "DebugIdentity", "A negative output_slot");
  refuse("x", 0, "Nothing", "Failed to create node definition for debug op Nothing");
  refuse("x", 0, "AddV2", "Failed to create node definition for debug op AddV2");
  refuse("x", 0, "DebugIdentity)", "Malformed debug op name");
  refuse("x", 0, ")DebugIdentity(", "Malformed debug op name");
  refuse("x", 0, "DebugIdentity(", "Malformed debug op name");
  refuse("x", 0, "DebugIdentity(=1)", "Malformed attributes");
  refuse("x", 0, "DebugIdentity(a=1;b=2)", "2 attribute key(s) were not valid");
  refuse("x", 0, "DebugNumericSummary(upper_bound=up)", "Invalid value string for float-type");
}

static void does_without_what_cannot_be(void **state) {
  char *op = "Nothing";
  dp_graph *graph = make_graph("x = Const() dtype=float value=1.0\n"
                               "y = Neg(x) T=float\n");
  watches all = {0};
  init(&all);
  watch(&all, "x", 0, &op)->tolerate_debug_op_creation_failures = true;
  assert_ok(add(graph, &all));
  assert_string_equal(input_of(graph, "y", 0), "__copy_x_0");
  assert_int_equal(node_of(graph, "y")->control_count, 0);
  dp_graph_destroy(graph);
}

int main(void) {
  dp_kernels_register();
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(puts_a_copy_between),
      cmocka_unit_test(leaves_references_to_their_readers),
      cmocka_unit_test(leaves_loops_their_edges),
      cmocka_unit_test(sets_attributes_of_the_op),
      cmocka_unit_test(refuses_what_makes_no_sense),
      cmocka_unit_test(does_without_what_cannot_be),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
