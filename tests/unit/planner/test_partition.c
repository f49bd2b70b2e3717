/* Cutting: pairs where edges leave a piece, one for all readers, control edges as empty tensors,
 * reads through references, loops over devices. */
#include "planner_test.h"

static dp_partitions cut(dp_graph *graph, dp_partition_by by) {
  dp_planner_place_options options = {0};
  dp_partitions pieces;
  assert_ok(dp_planner_place(graph, &test_devices, &options));
  assert_ok(dp_planner_partition(graph, by, test_incarnation, NULL, &pieces));
  dp_graph_destroy(graph);
  /* Pieces are whole graphs: they survive the way to a worker and back. */
  for (size_t i = 0; i < pieces.count; i++) {
    dp_arena *arena = dp_arena_create();
    dp_graph *again = dp_graph_create(NULL);
    assert_ok(dp_graph_import(again, dp_graph_export(pieces.items[i].graph, arena, true)));
    dp_graph_destroy(again);
    dp_arena_destroy(arena);
  }
  return pieces;
}

static dp_graph *piece(const dp_partitions *pieces, const char *location) {
  for (size_t i = 0; i < pieces->count; i++)
    if (strcmp(pieces->items[i].location, location) == 0)
      return pieces->items[i].graph;
  fail_msg("no piece %s", location);
  return NULL;
}

static dp_view text_of(const dp_node *node, const char *attr) {
  dp_view text;
  assert_ok(dp_node_get_string(node, attr, &text));
  return text;
}

static void leaves_one_piece_whole(void **state) {
  dp_partitions pieces = cut(make_graph("a = Const() dtype=float value=1\n"
                                        "b = Neg(a) T=float\n"),
                             DP_PARTITION_BY_TASK);
  assert_int_equal(pieces.count, 1);
  assert_string_equal(pieces.items[0].location, "/job:worker/replica:0/task:0");
  assert_string_equal(node_of(pieces.items[0].graph, "b")->device, WORKER0);
  assert_int_equal(count_nodes(pieces.items[0].graph, NULL), 2);
  dp_partitions_deinit(&pieces);
}

static void joins_by_send_and_recv(void **state) {
  dp_partitions pieces = cut(make_graph("a = Const() dtype=float value=1 @/job:ps/task:1\n"
                                        "b = Neg(a) T=float\n"
                                        "c = Add(a, b) T=float\n"
                                        "d = Neg(a) T=float @/job:worker/task:0/device:CPU:1\n"),
                             DP_PARTITION_BY_TASK);
  assert_int_equal(pieces.count, 2);
  dp_graph *ps = piece(&pieces, "/job:ps/replica:0/task:1");
  dp_graph *worker = piece(&pieces, "/job:worker/replica:0/task:0");
  assert_int_equal(count_nodes(ps, "_Send"), 1);
  assert_int_equal(count_nodes(worker, "_Recv"), 1);
  dp_node *send = find_op(ps, "_Send"), *recv = find_op(worker, "_Recv");
  assert_true(dp_view_equal(text_of(send, "tensor_name"), text_of(recv, "tensor_name")));
  assert_true(dp_view_starts_with(text_of(send, "tensor_name"), "edge_"));
  assert_true(dp_view_equals(text_of(recv, "send_device"), PS1));
  assert_true(dp_view_equals(text_of(send, "recv_device"), WORKER0));
  assert_string_equal(recv->device, WORKER0);
  assert_string_equal(send->device, PS1);
  int64_t incarnation;
  assert_ok(dp_node_get_int(recv, "send_device_incarnation", &incarnation));
  assert_int_equal(incarnation, 2);
  assert_string_equal(input_of(worker, "b", 0), recv->name);
  assert_string_equal(input_of(worker, "c", 0), recv->name);
  assert_string_equal(input_of(worker, "d", 0), recv->name);
  dp_partitions_deinit(&pieces);
}

static void cuts_by_device(void **state) {
  dp_partitions pieces = cut(make_graph("a = Const() dtype=float value=1\n"
                                        "b = Neg(a) T=float @/job:worker/task:0/device:CPU:1\n"
                                        "c = Neg(a) T=float @/job:worker/task:0/device:CPU:0\n"),
                             DP_PARTITION_BY_DEVICE);
  assert_int_equal(pieces.count, 2);
  assert_int_equal(count_nodes(piece(&pieces, WORKER0), "_Send"), 1);
  assert_int_equal(count_nodes(piece(&pieces, WORKER0_1), "_Recv"), 1);
  dp_partitions_deinit(&pieces);
}

static void sends_control_edges(void **state) {
  dp_partitions pieces = cut(make_graph("a = NoOp() @/job:ps/task:1\n"
                                        "b = NoOp(^a)\n"
                                        "c = NoOp(^a)\n"),
                             DP_PARTITION_BY_TASK);
  dp_graph *ps = piece(&pieces, "/job:ps/replica:0/task:1");
  dp_graph *worker = piece(&pieces, "/job:worker/replica:0/task:0");
  assert_int_equal(count_nodes(ps, NULL), 3);
  assert_int_equal(count_nodes(worker, NULL), 4);
  dp_node *signal = find_op(ps, "Const"), *identity = find_op(worker, "Identity");
  const dp_tensor *value;
  assert_ok(dp_node_get_tensor(signal, "value", &value));
  assert_int_equal(value->dtype, DP_FLOAT);
  assert_int_equal(value->shape.dims[0], 0);
  assert_true(has_control(ps, signal, "a"));
  assert_true(has_control(worker, node_of(worker, "b"), identity->name));
  assert_true(has_control(worker, node_of(worker, "c"), identity->name));
  dp_partitions_deinit(&pieces);
}

static void reads_references_late(void **state) {
  dp_partitions pieces = cut(make_graph("v = VariableV2() dtype=float shape=() @/job:ps/task:1\n"
                                        "x = Const() dtype=float value=1\n"
                                        "first = NoOp()\n"
                                        "b = Add(v, x, ^first) T=float\n"
                                        "c = Neg(v) T=float\n"),
                             DP_PARTITION_BY_TASK);
  dp_graph *worker = piece(&pieces, "/job:worker/replica:0/task:0");
  /* Each reader has its own, behind whatever else it waits for. */
  assert_int_equal(count_nodes(worker, "_Recv"), 2);
  dp_node *recv = node_of(worker, input_of(worker, "b", 0));
  assert_true(has_control(worker, recv, "first"));
  assert_true(has_control(worker, recv, "x"));
  dp_partitions_deinit(&pieces);
}

static const char *const loop_text =
    "zero = Const() dtype=int32 value=0\n"
    "one = Const() dtype=float value=1\n"
    "enter = Enter(zero) T=int32 frame_name='f' parallel_iterations=7\n"
    "enter1 = Enter(one) T=float frame_name='f' parallel_iterations=7\n"
    "merge = Merge(enter, next) T=int32 N=2\n"
    "merge1 = Merge(enter1, next1) T=float N=2\n"
    "limit = Const(^merge) dtype=int32 value=3\n"
    "less = Less(merge, limit) T=int32\n"
    "cond = LoopCond(less)\n"
    "switch = Switch(merge, cond) T=int32\n"
    "switch1 = Switch(merge1, cond) T=float\n"
    "i = Identity(switch:1) T=int32\n"
    "x = Identity(switch1:1) T=float\n"
    "step = Const(^i) dtype=int32 value=1\n"
    "add = Add(i, step) T=int32\n"
    "two = Const(^i) dtype=float value=2 @/job:ps/task:0\n"
    "mul = Mul(x, two) T=float @/job:ps/task:0\n"
    "next = NextIteration(add) T=int32\n"
    "next1 = NextIteration(mul) T=float\n"
    "exit = Exit(switch) T=int32\n"
    "exit1 = Exit(switch1) T=float\n";

/* The same pieces as genuine TensorFlow makes of this loop. */
static void gives_devices_control_loops(void **state) {
  dp_partitions pieces = cut(make_graph(loop_text), DP_PARTITION_BY_TASK);
  assert_int_equal(pieces.count, 2);
  dp_graph *ps = piece(&pieces, "/job:ps/replica:0/task:0");
  dp_graph *worker = piece(&pieces, "/job:worker/replica:0/task:0");
  assert_int_equal(count_nodes(ps, NULL), 12);
  assert_int_equal(count_nodes(ps, "Enter"), 1);
  assert_int_equal(count_nodes(ps, "_Recv"), 3);
  assert_int_equal(count_nodes(ps, "_Send"), 1);
  int64_t parallel;
  assert_ok(dp_node_get_int(find_op(ps, "Enter"), "parallel_iterations", &parallel));
  assert_int_equal(parallel, 7);
  const char *merge = find_op(ps, "Merge")->name;
  assert_int_equal(strncmp(merge, "_cloop", 6), 0);
  for (int32_t id = 0; id < ps->node_count; id++)
    if (dp_node_is(ps->nodes[id], "_Recv"))
      assert_true(has_control(ps, ps->nodes[id], merge));
  assert_false(has_control(ps, node_of(ps, "mul"), merge));
  assert_int_equal(count_nodes(worker, "Enter"), 3);
  assert_int_equal(count_nodes(worker, "_Recv"), 1);
  assert_int_equal(count_nodes(worker, "_Send"), 3);
  dp_partitions_deinit(&pieces);
}

/* The worker cuts once more: control loops are there already. */
static void adds_control_loops_once(void **state) {
  dp_graph *graph = make_graph(loop_text);
  node_of(graph, "mul")->device = node_of(graph, "two")->device =
      "/job:worker/replica:0/task:0/device:CPU:1";
  dp_partitions tasks = cut(graph, DP_PARTITION_BY_TASK);
  assert_int_equal(tasks.count, 1);
  int32_t loops = count_nodes(tasks.items[0].graph, "Enter");
  assert_int_equal(loops, 4);
  dp_partitions pieces;
  assert_ok(dp_planner_partition(tasks.items[0].graph, DP_PARTITION_BY_DEVICE, test_incarnation,
                                 NULL, &pieces));
  dp_graph *other = piece(&pieces, WORKER0_1);
  assert_int_equal(count_nodes(other, "Enter"), 1);
  assert_int_equal(count_nodes(other, "_Recv"), 3);
  const char *merge = find_op(other, "Merge")->name;
  for (int32_t id = 0; id < other->node_count; id++)
    if (dp_node_is(other->nodes[id], "_Recv"))
      assert_true(has_control(other, other->nodes[id], merge));
  dp_partitions_deinit(&pieces);
  dp_partitions_deinit(&tasks);
}

static void nests_control_loops(void **state) {
  dp_graph *graph = make_graph("t = Const() dtype=bool value=1\n"
                               "outer = Enter(t) T=bool frame_name='outer'\n"
                               "om = Merge(outer, on) T=bool N=2\n"
                               "oc = LoopCond(om)\n"
                               "os = Switch(om, oc) T=bool\n"
                               "inner = Enter(os:1) T=bool frame_name='inner'\n"
                               "im = Merge(inner, in) T=bool N=2\n"
                               "ic = LoopCond(im)\n"
                               "is = Switch(im, ic) T=bool\n"
                               "not = LogicalNot(is:1) @/job:ps/task:1\n"
                               "in = NextIteration(not) T=bool\n"
                               "ix = Exit(is) T=bool\n"
                               "on = NextIteration(ix) T=bool\n"
                               "ox = Exit(os) T=bool\n");
  dp_partitions pieces = cut(graph, DP_PARTITION_BY_TASK);
  dp_graph *ps = piece(&pieces, "/job:ps/replica:0/task:1");
  assert_int_equal(count_nodes(ps, "Enter"), 2);
  assert_int_equal(count_nodes(ps, "Merge"), 2);
  assert_int_equal(count_nodes(ps, "Switch"), 2);
  /* Both conditions and the value. */
  assert_int_equal(count_nodes(ps, "_Recv"), 3);
  dp_partitions_deinit(&pieces);
}

static void refuses_mixed_frames(void **state) {
  dp_graph *graph = make_graph("t = Const() dtype=bool value=1\n"
                               "e = Enter(t) T=bool frame_name='f'\n"
                               "bad = LogicalAnd(t, e) @/job:ps/task:1\n");
  dp_planner_place_options options = {0};
  dp_partitions pieces;
  assert_ok(dp_planner_place(graph, &test_devices, &options));
  assert_error(dp_planner_partition(graph, DP_PARTITION_BY_TASK, test_incarnation, NULL, &pieces),
               DP_INVALID_ARGUMENT, "{{node bad}} has inputs from different frames.");
  dp_graph_destroy(graph);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(leaves_one_piece_whole),  cmocka_unit_test(joins_by_send_and_recv),
      cmocka_unit_test(cuts_by_device),          cmocka_unit_test(sends_control_edges),
      cmocka_unit_test(reads_references_late),   cmocka_unit_test(gives_devices_control_loops),
      cmocka_unit_test(adds_control_loops_once), cmocka_unit_test(nests_control_loops),
      cmocka_unit_test(refuses_mixed_frames),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
