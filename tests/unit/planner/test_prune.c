/* Pruning keeps what is needed, puts feeds and fetches at its borders, and refuses as TensorFlow
 * does. */
#include "planner_test.h"

static dp_status *prune(const dp_graph *graph, const char *feed, const char *fetch,
                        const char *target, dp_graph **pruned_out) {
  dp_planner_signature signature = {&feed,         feed ? 1 : 0, &fetch,
                                    fetch ? 1 : 0, &target,      target ? 1 : 0};
  return dp_planner_prune(graph, &signature, &test_devices, false, pruned_out);
}

static void keeps_what_is_needed(void **state) {
  dp_graph *graph = make_graph("x = Placeholder() dtype=float\n"
                               "w = Const() dtype=float value=2\n"
                               "y = Mul(x, w) T=float\n"
                               "unused = Neg(y) T=float\n"
                               "z = Add(y, w) T=float\n");
  dp_graph *pruned;
  assert_ok(prune(graph, "x:0", "z:0", NULL, &pruned));
  assert_int_equal(count_nodes(pruned, NULL), 5);
  assert_null(dp_graph_find(pruned, "unused"));
  assert_null(dp_graph_find(pruned, "x"));
  assert_string_equal(input_of(pruned, "y", 0), "_recv_x_0");
  assert_string_equal(input_of(pruned, "_send_z_0", 0), "z");
  dp_graph_destroy(pruned);
  dp_graph_destroy(graph);
}

static void names_the_ends(void **state) {
  dp_graph *graph = make_graph("x = Placeholder() dtype=float\ny = Neg(x) T=float\n");
  dp_graph *pruned;
  assert_ok(prune(graph, "x:0", "y:0", NULL, &pruned));
  dp_node *recv = node_of(pruned, "_recv_x_0"), *send = node_of(pruned, "_send_y_0");
  dp_view text;
  int64_t number;
  bool truth;
  assert_string_equal(recv->op->name, "_Recv");
  assert_string_equal(recv->assigned_device, WORKER0);
  assert_ok(dp_node_get_string(recv, "tensor_name", &text));
  assert_true(dp_view_equals(text, "x:0"));
  assert_ok(dp_node_get_string(send, "recv_device", &text));
  assert_true(dp_view_equals(text, WORKER0));
  assert_ok(dp_node_get_int(send, "send_device_incarnation", &number));
  assert_int_equal(number, 3);
  assert_ok(dp_node_get_bool(send, "client_terminated", &truth));
  assert_true(truth);
  dp_graph_destroy(pruned);
  dp_graph_destroy(graph);
}

static void stops_at_fed_outputs_only(void **state) {
  dp_graph *graph = make_graph("a = Const() dtype=int32 value=0\n"
                               "b = Const() dtype=float value=[1 2]\n"
                               "s = Split(a, b) T=float num_split=2\n"
                               "y = Add(s, s:1) T=float\n"
                               "n = NoOp(^s)\n");
  dp_graph *pruned;
  assert_ok(prune(graph, "s:1", "y:0", NULL, &pruned));
  assert_string_equal(input_of(pruned, "y", 0), "s");
  assert_string_equal(input_of(pruned, "y", 1), "_recv_s_1");
  dp_graph_destroy(pruned);
  assert_ok(prune(graph, "s", "y", NULL, &pruned));
  assert_string_equal(input_of(pruned, "y", 0), "_recv_s_0");
  dp_graph_destroy(pruned);
  /* Control edges of anything but a Placeholder stay. */
  assert_ok(prune(graph, "s", NULL, "n", &pruned));
  assert_int_equal(count_nodes(pruned, NULL), 4);
  dp_graph_destroy(pruned);
  dp_graph_destroy(graph);
}

static void placeholders_hand_over_controls(void **state) {
  dp_graph *graph = make_graph("x = Placeholder() dtype=float\n"
                               "after = NoOp(^x)\n");
  dp_graph *pruned;
  assert_ok(prune(graph, "x:0", NULL, "after", &pruned));
  assert_int_equal(count_nodes(pruned, NULL), 2);
  assert_true(has_control(pruned, node_of(pruned, "after"), "_recv_x_0"));
  dp_graph_destroy(pruned);
  dp_graph_destroy(graph);
}

static void makes_functions(void **state) {
  dp_graph *graph = make_graph("x = Placeholder() dtype=float\n"
                               "u = Placeholder() dtype=float\n"
                               "y = Neg(x) T=float\n");
  const char *feeds[] = {"u:0", "x:0"}, *fetches[] = {"y:0", "y:0"};
  dp_planner_signature signature = {feeds, 2, fetches, 2, NULL, 0};
  dp_graph *pruned;
  assert_ok(dp_planner_prune(graph, &signature, &test_devices, true, &pruned));
  assert_int_equal(count_nodes(pruned, "_Arg"), 2);
  assert_int_equal(count_nodes(pruned, "_Retval"), 2);
  int64_t index;
  assert_ok(dp_node_get_int(node_of(pruned, "_arg_x_0_1"), "index", &index));
  assert_int_equal(index, 1);
  dp_graph_destroy(pruned);
  dp_graph_destroy(graph);
}

static void refuses(void **state) {
  dp_graph *graph = make_graph("x = Placeholder() dtype=float\ny = Neg(x) T=float\nn = NoOp()\n");
  dp_graph *pruned = NULL;
  assert_error(prune(graph, NULL, NULL, NULL, &pruned), DP_INVALID_ARGUMENT,
               "Must specify at least one target to fetch or execute.");
  assert_error(prune(graph, NULL, "q:0", NULL, &pruned), DP_NOT_FOUND,
               "FetchOutputs node q:0: not found");
  assert_error(prune(graph, NULL, "y:1", NULL, &pruned), DP_INVALID_ARGUMENT,
               "FetchOutputs y:1: output index too large, must be < 1");
  assert_error(prune(graph, NULL, "n:0", NULL, &pruned), DP_INVALID_ARGUMENT,
               "which produces no output");
  assert_error(prune(graph, "q:0", "y:0", NULL, &pruned), DP_NOT_FOUND,
               "FeedInputs: unable to find feed output q:0");
  assert_error(prune(graph, "x:7", "y:0", NULL, &pruned), DP_INVALID_ARGUMENT,
               "FeedInputs: x:7 should have output index < 1");
  assert_error(prune(graph, "y:0", "y:0", NULL, &pruned), DP_INVALID_ARGUMENT,
               "y:0 is both fed and fetched.");
  assert_error(prune(graph, NULL, NULL, "q", &pruned), DP_NOT_FOUND,
               "PruneForTargets: Some target nodes not found: q ");
  assert_error(prune(graph, NULL, "^y", NULL, &pruned), DP_INVALID_ARGUMENT, "^y");
  const char *twice[] = {"x:0", "x:0"}, *fetch = "y:0";
  dp_planner_signature signature = {twice, 2, &fetch, 1, NULL, 0};
  assert_error(dp_planner_prune(graph, &signature, &test_devices, false, &pruned),
               DP_INVALID_ARGUMENT, "Endpoint \"x:0\" fed more than once.");
  assert_null(pruned);
  dp_graph_destroy(graph);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(keeps_what_is_needed),
      cmocka_unit_test(names_the_ends),
      cmocka_unit_test(stops_at_fed_outputs_only),
      cmocka_unit_test(placeholders_hand_over_controls),
      cmocka_unit_test(makes_functions),
      cmocka_unit_test(refuses),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
