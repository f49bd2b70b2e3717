/* Placement: wishes, groups, neighbours, what was before, and how it refuses. Devices and messages
 * are those that genuine TensorFlow chose and wrote for the same graphs. */
#include "kernels/kernels.h"
#include "planner_test.h"

static dp_status *place(dp_graph *graph, bool allow_soft) {
  dp_planner_place_options options = {.allow_soft_placement = allow_soft};
  return dp_planner_place(graph, &test_devices, &options);
}

#define assert_on(graph, name, device)                                                             \
  assert_string_equal(node_of(graph, name)->assigned_device, device)

static void honours_wishes(void **state) {
  dp_graph *graph = make_graph("a = Const() dtype=float value=1\n"
                               "b = Neg(a) T=float\n"
                               "c = Neg(a) T=float @/job:ps/task:1\n"
                               "d = Neg(a) T=float @/job:worker\n"
                               "e = Neg(a) T=float @/job:ps\n"
                               "f = Neg(a) T=float @/job:worker/task:0/device:CPU:1\n"
                               "g = Neg(a) T=float @/cpu:0\n");
  assert_ok(place(graph, false));
  assert_on(graph, "a", WORKER0);
  assert_on(graph, "b", WORKER0);
  assert_on(graph, "c", PS1);
  assert_on(graph, "d", WORKER0);
  assert_on(graph, "e", PS0);
  assert_on(graph, "f", WORKER0_1);
  assert_on(graph, "g", WORKER0);
  dp_graph_destroy(graph);
}

static void looks_at_neighbours(void **state) {
  dp_graph *graph = make_graph("one = Const() dtype=float value=1\n"
                               "two = Const() dtype=float value=1\n"
                               "b = Neg(one) T=float @/job:ps/task:1\n"
                               "c = Add(two, b) T=float @/job:ps/task:0\n"
                               "d = Neg(two) T=float\n"
                               "s = Shape(b) T=float\n"
                               "i = Identity(b) T=float\n");
  assert_ok(place(graph, false));
  assert_on(graph, "one", PS1);
  assert_on(graph, "two", WORKER0);
  assert_on(graph, "s", PS1);
  assert_on(graph, "i", WORKER0);
  dp_graph_destroy(graph);
}

static void keeps_groups_together(void **state) {
  dp_graph *graph = make_graph("v = VariableV2() dtype=float shape=() @/job:ps/task:1\n"
                               "one = Const() dtype=float value=1\n"
                               "as = Assign(v, one) T=float\n"
                               "on = AssignAdd(v, one) T=float @/job:worker/task:1\n"
                               "h = VarHandleOp() dtype=float shape=() @/job:ps/task:0\n"
                               "r = ReadVariableOp(h) dtype=float @/job:worker/task:1\n"
                               "slot = VariableV2() dtype=float shape=() _class={'loc:@h'}\n"
                               "x = Neg(one) T=float _class={'loc:@slot' 'loc:@other'}\n"
                               "y = Neg(one) T=float _class={'loc:@other'}\n");
  assert_ok(place(graph, false));
  assert_on(graph, "as", PS1);
  assert_on(graph, "on", PS1);
  assert_on(graph, "r", PS0);
  assert_on(graph, "slot", PS0);
  /* Through `x`, which is in both groups. */
  assert_on(graph, "y", PS0);
  dp_graph_destroy(graph);
}

static void softens(void **state) {
  static const char *const text = "a = Const() dtype=float value=1\n"
                                  "g = Neg(a) T=float @/job:ps/task:1/device:GPU:0\n";
  dp_graph *graph = make_graph(text);
  assert_error(place(graph, false), DP_INVALID_ARGUMENT,
               "Cannot assign a device for operation g: {{node g}} was explicitly assigned to "
               "/job:ps/task:1/device:GPU:0 but available devices are [ " PS0 ", " PS1 ", " WORKER0
               ", " WORKER0_1 ", " WORKER1
               " ]. Make sure the device specification refers to a valid device. The requested "
               "device appears to be a GPU, but CUDA is not enabled.\n\t [[g]]");
  dp_graph_destroy(graph);
  graph = make_graph(text);
  assert_ok(place(graph, true));
  assert_on(graph, "g", PS1);
  dp_graph_destroy(graph);
  graph = make_graph("a = Const() dtype=float value=1\ng = Neg(a) T=float @/job:foo/task:3\n");
  assert_error(place(graph, true), DP_INVALID_ARGUMENT, "was explicitly assigned to");
  dp_graph_destroy(graph);
}

static void refuses_contradictions(void **state) {
  static const char *const text = "a = Const() dtype=float value=1 @/job:ps/task:0\n"
                                  "b = Const() dtype=float value=1 _class={'loc:@a'} "
                                  "@/job:ps/task:1\n"
                                  "c = Add(a, b) T=float\n";
  dp_graph *graph = make_graph(text);
  assert_error(place(graph, false), DP_INVALID_ARGUMENT,
               "Cannot colocate nodes {{colocation_node b}} and {{colocation_node a}}: Cannot "
               "merge devices with incompatible tasks: '/job:ps/task:1' and '/job:ps/task:0'\n\t "
               "[[{{node b}}]]");
  dp_graph_destroy(graph);
  graph = make_graph(text);
  assert_ok(place(graph, true));
  assert_on(graph, "a", PS0);
  assert_on(graph, "b", PS1);
  dp_graph_destroy(graph);
  graph = make_graph("a = Const() dtype=float value=1 @/what:is:this\n");
  assert_error(place(graph, false), DP_INVALID_ARGUMENT,
               "Malformed device specification '/what:is:this'");
  dp_graph_destroy(graph);
}

static void remembers_state(void **state) {
  dp_planner_place_options options = {.remembered = dp_map_create()};
  dp_graph *graph = make_graph("v = VariableV2() dtype=float shape=() @/job:ps/task:1\n"
                               "one = Const() dtype=float value=1\n");
  assert_ok(dp_planner_place(graph, &test_devices, &options));
  dp_graph_destroy(graph);
  assert_int_equal(dp_map_count(options.remembered), 1);
  graph = make_graph("v = VariableV2() dtype=float shape=()\none = Const() dtype=float value=1\n"
                     "as = Assign(v, one) T=float\n");
  assert_ok(dp_planner_place(graph, &test_devices, &options));
  assert_on(graph, "as", PS1);
  dp_graph_destroy(graph);
  const char *key;
  void *value;
  for (size_t at = 0; dp_map_next(options.remembered, &at, &key, &value);)
    dp_free(value);
  dp_map_destroy(options.remembered);
}

/* A fetch of a handle, or of what an Assign returns, goes to the client wherever the state is. */
static void sends_handles_away(void **state) {
  dp_graph *graph = make_graph("h = VarHandleOp() dtype=float shape=() @/job:ps/task:0\n"
                               "one = Const() dtype=float value=1\n"
                               "set = AssignVariableOp(h, one) dtype=float\n");
  const char *fetch = "h:0", *target = "set";
  dp_planner_signature signature = {NULL, 0, &fetch, 1, &target, 1};
  dp_planner_place_options options = {0};
  dp_graph *pruned;
  assert_ok(dp_planner_prune(graph, &signature, &test_devices, false, &pruned));
  assert_ok(dp_planner_place(pruned, &test_devices, &options));
  assert_on(pruned, "_send_h_0", WORKER0);
  assert_on(pruned, "set", PS0);
  dp_graph_destroy(pruned);
  dp_graph_destroy(graph);
}

/* A step that needs only `slot` finds it where the whole graph puts it. */
static void places_whole_graphs(void **state) {
  dp_graph *graph = make_graph("v = VariableV2() dtype=float shape=() @/job:ps/task:1\n"
                               "slot = VariableV2() dtype=float shape=() _class={'loc:@v'}\n"
                               "read = Identity(slot) T=float\n"
                               "gpu = Neg(read) T=float @/device:GPU:0\n"
                               "a = Const() dtype=float value=1 @/job:ps/task:0\n"
                               "b = Const() dtype=float value=1 _class={'loc:@a'} "
                               "@/job:ps/task:1\n"
                               "c = Add(a, b) T=float\n");
  dp_planner_place_options options = {0};
  dp_graph *prepared, *pruned;
  assert_ok(dp_planner_prepare(graph, &test_devices, &options, &prepared));
  assert_on(prepared, "slot", PS1);
  assert_null(node_of(prepared, "gpu")->assigned_device);
  const char *fetches[] = {"read:0", "gpu:0", "c:0"};
  dp_planner_signature signature = {NULL, 0, &fetches[0], 1, NULL, 0};
  assert_ok(dp_planner_prune(prepared, &signature, &test_devices, false, &pruned));
  assert_ok(dp_planner_place(pruned, &test_devices, &options));
  assert_on(pruned, "slot", PS1);
  dp_graph_destroy(pruned);
  signature.fetches = &fetches[1];
  assert_ok(dp_planner_prune(prepared, &signature, &test_devices, false, &pruned));
  assert_error(dp_planner_place(pruned, &test_devices, &options), DP_INVALID_ARGUMENT,
               "Cannot assign a device for operation gpu");
  dp_graph_destroy(pruned);
  signature.fetches = &fetches[2];
  assert_ok(dp_planner_prune(prepared, &signature, &test_devices, false, &pruned));
  assert_error(dp_planner_place(pruned, &test_devices, &options), DP_INVALID_ARGUMENT,
               "Cannot merge devices with incompatible tasks: '/job:ps/task:1' and "
               "'/job:ps/task:0'");
  dp_graph_destroy(pruned);
  dp_graph_destroy(prepared);
  dp_graph_destroy(graph);
}

static void lists_missing_kernels(void **state) {
  dp_planner_device ours[] = {{WORKER0, "CPU", 1, false}};
  dp_planner_devices devices = {ours, 1, 0};
  dp_planner_place_options options = {0};
  dp_graph *graph = make_graph("a = Const() dtype=float value=1\n"
                               "b = OutfeedEnqueue(a) dtype=float\n"
                               "c = Neg(a) T=float\n"
                               "d = OutfeedEnqueue(a) dtype=float\n"
                               "e = TPUReplicatedInput(a) N=1 T=float\n");
  dp_status *status = dp_planner_place(graph, &devices, &options);
  assert_int_equal(dp_status_code(status), DP_UNIMPLEMENTED);
  const char *first = strstr(dp_status_message(status), "OutfeedEnqueue");
  assert_non_null(first);
  assert_non_null(strstr(dp_status_message(status), "TPUReplicatedInput"));
  dp_status_release(status);
  dp_graph_destroy(graph);
}

int main(void) {
  dp_kernels_register();
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(honours_wishes),         cmocka_unit_test(looks_at_neighbours),
      cmocka_unit_test(keeps_groups_together),  cmocka_unit_test(softens),
      cmocka_unit_test(refuses_contradictions), cmocka_unit_test(remembers_state),
      cmocka_unit_test(places_whole_graphs),    cmocka_unit_test(sends_handles_away),
      cmocka_unit_test(lists_missing_kernels),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
