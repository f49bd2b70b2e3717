/* Random graphs: whatever the optimizer and the partitioner do, results stay the same to the bit.
 * Graphs have constants worth folding, equal subtrees, chains of Identity and NoOp, branches with
 * known and unknown predicates, a loop, and a variable whose updates are ordered by control edges
 * alone. Each is run as it is, optimized, and optimized twice. */
#include "kernels/kernels.h"
#include "planner_test.h"

typedef struct generator {
  uint64_t state;
  dp_text text;
  int count;      /* of values made so far: v0, v1... */
  char order[32]; /* the last node that touched the variable */
  int updates;
} generator;

static uint32_t pick(generator *g, uint32_t limit) {
  g->state = g->state * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(g->state >> 33) % limit;
}

static int some_value(generator *g) {
  return (int)pick(g, (uint32_t)g->count);
}

static void add_constant(generator *g) {
  static const char *const values[] = {"0", "1", "2", "-1", "0.5"};
  dp_text_printf(&g->text, "v%d = Const() dtype=float value=%s\n", g->count++, values[pick(g, 5)]);
}

static void add_unary(generator *g) {
  static const char *const ops[] = {"Neg", "Abs", "Square", "Identity", "StopGradient", "Identity"};
  const char *op = ops[pick(g, 6)];
  int from = some_value(g);
  if (pick(g, 4) == 0)
    dp_text_printf(&g->text, "v%d = %s(v%d, ^v%d) T=float\n", g->count, op, from, some_value(g));
  else
    dp_text_printf(&g->text, "v%d = %s(v%d) T=float\n", g->count, op, from);
  g->count++;
}

static void add_binary(generator *g) {
  static const char *const ops[] = {"Add", "Sub", "Mul", "Maximum", "AddV2"};
  dp_text_printf(&g->text, "v%d = %s(v%d, v%d) T=float\n", g->count, ops[pick(g, 5)], some_value(g),
                 some_value(g));
  g->count++;
}

/* Waits for some values through NoOps. */
static void add_wait(generator *g) {
  int a = some_value(g), b = some_value(g), n = g->count++;
  dp_text_printf(&g->text, "n%d = NoOp(^v%d)\nm%d = NoOp(^n%d, ^v%d)\n", n, a, n, n, b);
  dp_text_printf(&g->text, "v%d = Identity(v%d, ^m%d) T=float\n", n, a, n);
}

static void add_branch(generator *g) {
  int n = g->count++, a = (int)pick(g, (uint32_t)n), b = (int)pick(g, (uint32_t)n);
  if (pick(g, 2))
    dp_text_printf(&g->text, "p%d = Const() dtype=bool value=%u\n", n, pick(g, 2));
  else
    dp_text_printf(&g->text, "p%d = Less(v%d, v%d) T=float\n", n, a, b);
  dp_text_printf(&g->text,
                 "s%d = Switch(p%d, p%d) T=bool\n"
                 "yes%d = Identity(s%d:1) T=bool\n"
                 "no%d = Identity(s%d) T=bool\n"
                 "a%d = Switch(v%d, p%d) T=float\n"
                 "c%d = Const(^yes%d) dtype=float value=2\n"
                 "d%d = Const(^no%d) dtype=float value=3\n"
                 "t%d = Mul(a%d:1, c%d) T=float\n"
                 "e%d = Sub(a%d, d%d) T=float\n"
                 "v%d = Merge(t%d, e%d) T=float N=2\n",
                 n, n, n, n, n, n, n, n, a, n, n, n, n, n, n, n, n, n, n, n, n, n, n);
}

static void add_loop(generator *g) {
  int n = g->count++, a = (int)pick(g, (uint32_t)n);
  dp_text_printf(&g->text,
                 "z%d = Const() dtype=int32 value=0\n"
                 "ei%d = Enter(z%d) T=int32 frame_name='f%d'\n"
                 "ex%d = Enter(v%d) T=float frame_name='f%d'\n"
                 "mi%d = Merge(ei%d, ni%d) T=int32 N=2\n"
                 "mx%d = Merge(ex%d, nx%d) T=float N=2\n",
                 n, n, n, n, n, a, n, n, n, n, n, n, n);
  dp_text_printf(&g->text,
                 "li%d = Const(^mi%d) dtype=int32 value=3\n"
                 "less%d = Less(mi%d, li%d) T=int32\n"
                 "lc%d = LoopCond(less%d)\n"
                 "si%d = Switch(mi%d, lc%d) T=int32\n"
                 "sx%d = Switch(mx%d, lc%d) T=float\n"
                 "i%d = Identity(si%d:1) T=int32\n"
                 "x%d = Identity(sx%d:1) T=float\n",
                 n, n, n, n, n, n, n, n, n, n, n, n, n, n, n, n, n);
  dp_text_printf(&g->text,
                 "o%d = Const(^i%d) dtype=int32 value=1\n"
                 "ai%d = Add(i%d, o%d) T=int32\n"
                 "h%d = Const(^i%d) dtype=float value=0.5\n"
                 "k%d = Const(^i%d) dtype=float value=1\n"
                 "hk%d = Add(h%d, k%d) T=float\n"
                 "ax%d = Mul(x%d, hk%d) T=float\n"
                 "ni%d = NextIteration(ai%d) T=int32\n"
                 "nx%d = NextIteration(ax%d) T=float\n"
                 "v%d = Exit(sx%d) T=float\n",
                 n, n, n, n, n, n, n, n, n, n, n, n, n, n, n, n, n, n, n, n, n);
}

/* Reads the variable, or adds to it, behind whatever touched it last. */
static void add_effect(generator *g) {
  int n = g->count;
  if (pick(g, 2)) {
    dp_text_printf(&g->text, "v%d = ReadVariableOp(h, ^%s) dtype=float\n", n, g->order);
    g->count++;
    snprintf(g->order, sizeof(g->order), "v%d", n);
  } else {
    int u = g->updates++;
    dp_text_printf(&g->text, "u%d = AssignAddVariableOp(h, v%d, ^%s) dtype=float\n", u,
                   some_value(g), g->order);
    snprintf(g->order, sizeof(g->order), "u%d", u);
  }
}

static void generate(generator *g, int steps) {
  dp_text_add(&g->text, "h = VarHandleOp() dtype=float shape=() shared_name='v'\n"
                        "one = Const() dtype=float value=1\n"
                        "set = AssignVariableOp(h, one) dtype=float\n"
                        "v0 = ReadVariableOp(h, ^set) dtype=float\n");
  g->count = 1;
  snprintf(g->order, sizeof(g->order), "v0");
  for (int i = 0; i < steps; i++) {
    uint32_t kind = pick(g, 20);
    if (kind < 4)
      add_constant(g);
    else if (kind < 9)
      add_unary(g);
    else if (kind < 14)
      add_binary(g);
    else if (kind < 15)
      add_wait(g);
    else if (kind < 17)
      add_branch(g);
    else if (kind < 18)
      add_loop(g);
    else
      add_effect(g);
  }
  dp_text_printf(&g->text, "last = ReadVariableOp(h, ^%s) dtype=float\n", g->order);
  dp_text_add(&g->text, "r0 = _Retval(last) T=float index=0\n");
  for (int i = 1; i < 4; i++)
    dp_text_printf(&g->text, "r%d = _Retval(v%d) T=float index=%d\n", i, some_value(g), i);
}

enum { RESULTS = 4 };

static void run(dp_graph *graph, uint32_t *bits) {
  dp_tensor results[RESULTS] = {{0}};
  assert_ok(run_graph(graph, results, RESULTS));
  for (int i = 0; i < RESULTS; i++) {
    memcpy(&bits[i], results[i].data, sizeof(bits[i]));
    dp_tensor_deinit(&results[i]);
  }
}

static void check(uint64_t seed) {
  generator g = {.state = seed * 77 + 1};
  generate(&g, 10 + (int)(seed % 60));
  uint32_t before[RESULTS], after[RESULTS];
  dp_graph *graph = make_graph(g.text.data);
  dp_graph *better = dp_graph_copy(graph);
  int32_t size = count_nodes(graph, NULL);
  run(graph, before);
  for (int times = 1; times <= 2; times++) {
    assert_ok(dp_planner_optimize(better, NULL));
    assert_true(count_nodes(better, NULL) <= size);
    run(dp_graph_copy(better), after);
    if (memcmp(before, after, sizeof(before)) != 0)
      fail_msg("seed %llu, optimized %d times:\n%s", (unsigned long long)seed, times, g.text.data);
  }
  dp_graph_destroy(better);
  dp_text_deinit(&g.text);
}

/* ---- Over devices ---- */

/* Asks for some device or none, node by node. */
static void scatter(dp_graph *graph, uint64_t seed) {
  static const char *const devices[] = {"", "", WORKER0, WORKER0_1, PS0, PS1, WORKER1};
  generator g = {.state = seed * 31 + 7};
  for (int32_t id = 0; id < graph->node_count; id++)
    if (!dp_node_is(graph->nodes[id], "_Retval"))
      graph->nodes[id]->device = devices[pick(&g, 7)];
}

typedef struct piece_run {
  dp_device *device;
  dp_executor *executor;
  dp_step step;
  dp_status *status;
  bool is_done;
} piece_run;

static void piece_done(void *arg, dp_status *status) {
  piece_run *run = arg;
  run->status = status;
  run->is_done = true;
}

static void start_piece(piece_run *run, dp_partition *piece) {
  run->device = dp_device_create(piece->location, "CPU", NULL, NULL);
  dp_executor_options options = {.device = run->device, .session_handle = ""};
  dp_graph *graph = piece->graph;
  piece->graph = NULL;
  assert_ok(dp_executor_create(graph, &options, &run->executor));
  dp_executor_run(run->executor, &run->step, piece_done, run);
}

/* By task, then by device, as master and workers do; then all at once on one rendezvous. */
static void run_pieces(dp_graph *graph, uint32_t *bits) {
  dp_tensor results[RESULTS] = {{0}};
  dp_call_frame frame = {.result_count = RESULTS, .results = results};
  dp_rendezvous *rendezvous = dp_rendezvous_create(1, NULL, NULL);
  dp_cancel *cancel = dp_cancel_create(NULL, DP_FOREVER);
  dp_partitions tasks, pieces;
  piece_run runs[8] = {{0}};
  size_t count = 0;
  assert_ok(dp_planner_partition(graph, DP_PARTITION_BY_TASK, test_incarnation, NULL, &tasks));
  for (size_t t = 0; t < tasks.count; t++) {
    assert_ok(dp_planner_partition(tasks.items[t].graph, DP_PARTITION_BY_DEVICE, test_incarnation,
                                   NULL, &pieces));
    for (size_t i = 0; i < pieces.count; i++, count++) {
      runs[count].step = (dp_step){.id = 1, .session_handle = "", .container = "", .frame = &frame};
      runs[count].step.rendezvous = rendezvous;
      runs[count].step.cancel = cancel;
      start_piece(&runs[count], &pieces.items[i]);
    }
    dp_partitions_deinit(&pieces);
  }
  dp_partitions_deinit(&tasks);
  for (size_t i = 0; i < count; i++) {
    assert_true(runs[i].is_done);
    assert_ok(runs[i].status);
    dp_executor_release(runs[i].executor);
    dp_device_release(runs[i].device);
  }
  for (int i = 0; i < RESULTS; i++) {
    memcpy(&bits[i], results[i].data, sizeof(bits[i]));
    dp_tensor_deinit(&results[i]);
  }
  dp_cancel_release(cancel);
  dp_rendezvous_release(rendezvous);
}

static void check_scattered(uint64_t seed) {
  generator g = {.state = seed * 77 + 1};
  generate(&g, 10 + (int)(seed % 60));
  uint32_t before[RESULTS], after[RESULTS];
  run(make_graph(g.text.data), before);
  dp_planner_place_options options = {0};
  for (int is_optimized = 0; is_optimized < 2; is_optimized++) {
    dp_graph *graph = make_graph(g.text.data);
    scatter(graph, seed);
    assert_ok(dp_planner_place(graph, &test_devices, &options));
    if (is_optimized)
      assert_ok(dp_planner_optimize(graph, NULL));
    run_pieces(graph, after);
    dp_graph_destroy(graph);
    if (memcmp(before, after, sizeof(before)) != 0)
      fail_msg("seed %llu, optimized %d:\n%s", (unsigned long long)seed, is_optimized, g.text.data);
  }
  dp_text_deinit(&g.text);
}

static void cutting_changes_nothing(void **state) {
  if (!dp_kernel_exists("ReadVariableOp"))
    skip();
  for (uint64_t seed = 0; seed < 150; seed++)
    check_scattered(seed);
}

static void optimizing_changes_nothing(void **state) {
  if (!dp_kernel_exists("ReadVariableOp"))
    skip();
  for (uint64_t seed = 0; seed < 300; seed++)
    check(seed);
}

int main(void) {
  dp_kernels_register();
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(optimizing_changes_nothing),
      cmocka_unit_test(cutting_changes_nothing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
