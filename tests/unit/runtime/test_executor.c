/* The executor without loops: order, control edges, deadness, references, memory, errors. */
#include "executor_test.h"

/* ---- Dataflow ---- */
static void test_diamond(void **state) {
  dp_graph *graph = dp_graph_create(NULL);
  dp_node *a = argument_node(graph, "a", 0, DP_INT32);
  dp_node *b = argument_node(graph, "b", 1, DP_INT32);
  dp_node *left = binary(graph, "left", &op_add, out(a, 0), out(b, 0));
  dp_node *right = unary(graph, "right", &op_slow, out(a, 0));
  dp_node *two = unary(graph, "two", &op_two, out(right, 0));
  dp_node *bottom = binary(graph, "bottom", &op_add, out(left, 0), out(two, 1));
  result_node(graph, "r", 0, DP_INT32, out(bottom, 0));
  dp_executor *executor = compile(*state, graph);
  for (int i = 0; i < 50; ++i)
    assert_int_equal(run_once(*state, executor, 10 + i, 5), 10 + i + 5 + 10 + i + 2);
  dp_executor_release(executor);
}

static void test_empty_graph(void **state) {
  dp_executor *executor = compile(*state, dp_graph_create(NULL));
  trial trial;
  trial_init(&trial, *state);
  trial_run(&trial, executor);
  assert_ok(trial.status);
  trial_deinit(&trial);
  dp_executor_release(executor);
}

/* A reading is made when its value is needed: what is to come before an update waits for the node
 * that needs it, not for the reading. */
static void test_control_edges_order(void **state) {
  dp_graph *graph = dp_graph_create(NULL);
  dp_node *variable = add_node(graph, "v", &op_variable, 0, NULL, 0, NULL);
  dp_node *before = int_node(graph, "before", "Identity", out(variable, 0));
  dp_node *twice = binary(graph, "twice", &op_add, out(before, 0), out(before, 0));
  dp_node *bump = unary(graph, "bump", &op_bump, out(variable, 0));
  dp_node *after = int_node(graph, "after", "Identity", out(variable, 0));
  dp_node_add_control(graph, bump, twice->id);
  dp_node_add_control(graph, after, bump->id);
  result_node(graph, "r0", 0, DP_INT32, out(twice, 0));
  result_node(graph, "r1", 1, DP_INT32, out(after, 0));
  dp_executor *executor = compile(*state, graph);
  dp_partial_shape unknown = dp_partial_shape_unknown();
  test_variable = dp_variable_create(&dp_legacy_variable_ops, "v", DP_INT32, &unknown);
  dp_tensor start;
  assert_ok(dp_tensor_scalar_int32(0, &start));
  dp_variable_assign(test_variable, &start);
  for (int i = 0; i < 200; ++i) {
    trial trial;
    trial_init(&trial, *state);
    trial_run(&trial, executor);
    assert_ok(trial.status);
    assert_int_equal(trial_result(&trial, 0), 2 * i);
    assert_int_equal(trial_result(&trial, 1), i + 1);
    trial_deinit(&trial);
  }
  dp_executor_release(executor);
  dp_resource_release(test_variable);
}

static void test_wide_fan_out(void **state) {
  dp_graph *graph = dp_graph_create(NULL);
  dp_node *a = argument_node(graph, "a", 0, DP_INT32);
  dp_node *sum = a;
  char name[32];
  for (int i = 0; i < 300; ++i) {
    snprintf(name, sizeof(name), "slow%d", i);
    dp_node *slow = unary(graph, name, i % 3 ? &op_increment : &op_slow, out(a, 0));
    snprintf(name, sizeof(name), "sum%d", i);
    sum = binary(graph, name, &op_add, out(sum, 0), out(slow, 0));
  }
  result_node(graph, "r", 0, DP_INT32, out(sum, 0));
  dp_executor *executor = compile(*state, graph);
  for (int i = 0; i < 5; ++i)
    assert_int_equal(run_once(*state, executor, 3, 0), 3 + 300 * 4);
  dp_executor_release(executor);
}

/* ---- Memory ---- */
static void run_increments(fixture *fixture, int readers, bool *is_same_out) {
  dp_graph *graph = dp_graph_create(NULL);
  dp_node *a = argument_node(graph, "a", 0, DP_INT32);
  dp_node *made = unary(graph, "made", &op_increment, out(a, 0));
  dp_node *next = unary(graph, "next", &op_increment, out(made, 0));
  if (readers > 1)
    result_node(graph, "other", 1, DP_INT32, out(made, 0));
  dp_node *same = int_node(graph, "same", "Identity", out(next, 0));
  result_node(graph, "r", 0, DP_INT32, out(same, 0));
  dp_executor *executor = compile(fixture, graph);
  trial trial;
  trial_init(&trial, fixture);
  trial_feed(&trial, 0, 1);
  const void *argument = trial.arguments[0].data;
  trial_run(&trial, executor);
  assert_ok(trial.status);
  assert_int_equal(trial_result(&trial, 0), 3);
  assert_int_equal(*(const int32_t *)argument, 1);
  if (readers > 1) {
    assert_int_equal(trial_result(&trial, 1), 2);
    *is_same_out = trial.results[0].data == trial.results[1].data;
  }
  assert_true(dp_tensor_is_unique(&trial.results[0]));
  trial_deinit(&trial);
  dp_executor_release(executor);
}

static void test_memory_is_forwarded_only_to_the_last_reader(void **state) {
  bool is_same = false;
  run_increments(*state, 1, &is_same);
  run_increments(*state, 2, &is_same);
  assert_false(is_same);
}

/* ---- Deadness ---- */

/* if t: x + 1 else: count(x); result 0 is the value, 1 the index; a NoOp in the untaken branch must
 * not let its reader run, a ControlTrigger must. */
static dp_executor *build_branches(fixture *fixture) {
  dp_graph *graph = dp_graph_create(NULL);
  dp_node *x = argument_node(graph, "x", 0, DP_INT32);
  dp_node *t = argument_node(graph, "t", 1, DP_BOOL);
  dp_node *choice = switch_node(graph, "switch", out(x, 0), out(t, 0));
  dp_node *no = unary(graph, "no", &op_count, out(choice, 0));
  dp_node *yes = unary(graph, "yes", &op_increment, out(choice, 1));
  dp_node *merge =
      typed(graph, "merge", "Merge", DP_INT32, 2, (dp_input[]){out(no, 0), out(yes, 0)});
  result_node(graph, "r", 0, DP_INT32, out(merge, 0));
  result_node(graph, "i", 1, DP_INT32, out(merge, 1));
  dp_node *nothing = plain_node(graph, "nothing", "NoOp");
  dp_node_add_control(graph, nothing, no->id);
  dp_node *below = unary(graph, "below", &op_count, out(x, 0));
  dp_node_add_control(graph, below, nothing->id);
  dp_node *trigger = plain_node(graph, "trigger", "ControlTrigger");
  dp_node_add_control(graph, trigger, no->id);
  dp_node *always = unary(graph, "always", &op_count, out(x, 0));
  dp_node_add_control(graph, always, trigger->id);
  return compile(fixture, graph);
}

static void test_branches(void **state) {
  dp_executor *executor = build_branches(*state);
  for (int taken = 0; taken < 2; ++taken)
    for (int i = 0; i < 20; ++i) {
      trial trial;
      trial_init(&trial, *state);
      trial_feed(&trial, 0, 40);
      trial_feed_truth(&trial, 1, taken);
      atomic_store(&test_runs, 0);
      trial_run(&trial, executor);
      assert_ok(trial.status);
      assert_int_equal(trial_result(&trial, 0), taken ? 41 : 40);
      assert_int_equal(trial_result(&trial, 1), taken);
      assert_int_equal(atomic_load(&test_runs), taken ? 1 : 3);
      trial_deinit(&trial);
    }
  dp_executor_release(executor);
}

/* A Merge below two dead branches is dead; a Merge waits for its control inputs. */
static void test_dead_merge_and_controls(void **state) {
  dp_graph *graph = dp_graph_create(NULL);
  dp_node *x = argument_node(graph, "x", 0, DP_INT32);
  dp_node *t = argument_node(graph, "t", 1, DP_BOOL);
  dp_node *outer = switch_node(graph, "outer", out(x, 0), out(t, 0));
  dp_node *inner = switch_node(graph, "inner", out(outer, 1), out(t, 0));
  dp_node *dead_merge =
      typed(graph, "dead_merge", "Merge", DP_INT32, 2, (dp_input[]){out(inner, 0), out(inner, 1)});
  dp_node *counted = unary(graph, "counted", &op_count, out(dead_merge, 0));
  dp_node *last =
      typed(graph, "last", "Merge", DP_INT32, 2, (dp_input[]){out(counted, 0), out(outer, 0)});
  dp_node *slow = unary(graph, "slow", &op_pool, out(x, 0));
  dp_node *after = unary(graph, "after", &op_count, out(slow, 0));
  dp_node_add_control(graph, last, after->id);
  result_node(graph, "r", 0, DP_INT32, out(last, 0));
  dp_executor *executor = compile(*state, graph);
  for (int taken = 0; taken < 2; ++taken)
    for (int i = 0; i < 50; ++i) {
      trial trial;
      trial_init(&trial, *state);
      trial_feed(&trial, 0, 9);
      trial_feed_truth(&trial, 1, taken);
      atomic_store(&test_runs, 0);
      trial_run(&trial, executor);
      assert_ok(trial.status);
      assert_int_equal(trial_result(&trial, 0), 9);
      assert_int_equal(atomic_load(&test_runs), 1 + taken);
      trial_deinit(&trial);
    }
  dp_executor_release(executor);
}

/* ---- References ---- */
static void test_references(void **state) {
  dp_graph *graph = dp_graph_create(NULL);
  dp_node *variable = add_node(graph, "v", &op_variable, 0, NULL, 0, NULL);
  dp_node *is_set = unary(graph, "is_set", &op_is_set, out(variable, 0));
  result_node(graph, "r", 0, DP_BOOL, out(is_set, 0));
  dp_executor *asks = compile(*state, graph);
  graph = dp_graph_create(NULL);
  variable = add_node(graph, "v", &op_variable, 0, NULL, 0, NULL);
  dp_node *reads = int_node(graph, "v/read", "Identity", out(variable, 0));
  result_node(graph, "r", 0, DP_INT32, out(reads, 0));
  dp_executor *reads_it = compile(*state, graph);
  graph = dp_graph_create(NULL);
  variable = add_node(graph, "v", &op_variable, 0, NULL, 0, NULL);
  unary(graph, "bump", &op_bump, out(variable, 0));
  dp_executor *bumps = compile(*state, graph);

  dp_partial_shape unknown = dp_partial_shape_unknown();
  test_variable = dp_variable_create(&dp_legacy_variable_ops, "v", DP_INT32, &unknown);
  trial trial;
  trial_init(&trial, *state);
  trial_run(&trial, asks);
  assert_ok(trial.status);
  assert_false(*(const bool *)trial.results[0].data);
  trial_deinit(&trial);
  trial_init(&trial, *state);
  trial_run(&trial, reads_it);
  assert_int_equal(dp_status_code(trial.status), DP_FAILED_PRECONDITION);
  assert_string_equal(dp_status_message(trial.status),
                      "Attempting to use uninitialized value v\n\t [[{{node v/read}}]]");
  trial_deinit(&trial);
  trial_init(&trial, *state);
  trial_run(&trial, bumps);
  assert_string_equal(dp_status_message(trial.status),
                      "Attempting to use uninitialized value v\n\t [[{{node bump}}]]");
  trial_deinit(&trial);

  dp_executor_release(asks);
  dp_executor_release(reads_it);
  dp_executor_release(bumps);
  dp_resource_release(test_variable);
}

/* ---- Errors ---- */
static void expect_error(fixture *fixture, dp_graph *graph, dp_code code, const char *message) {
  dp_executor *executor = compile(fixture, graph);
  for (int i = 0; i < 20; ++i) {
    trial trial;
    trial_init(&trial, fixture);
    trial_feed(&trial, 0, 3);
    trial_run(&trial, executor);
    assert_int_equal(dp_status_code(trial.status), code);
    assert_string_equal(dp_status_message(trial.status), message);
    assert_true(dp_cancel_is_triggered(trial.step.cancel));
    trial_deinit(&trial);
  }
  dp_executor_release(executor);
}

static void test_error_names_node_and_stops(void **state) {
  dp_graph *graph = dp_graph_create(NULL);
  dp_node *a = argument_node(graph, "a", 0, DP_INT32);
  dp_node *waits = unary(graph, "waits", &op_later, out(a, 0));
  dp_node *slow = unary(graph, "slow", &op_slow, out(a, 0));
  dp_node *bad = unary(graph, "scope/bad", &op_fail, out(slow, 0));
  dp_node *sum = binary(graph, "sum", &op_add, out(bad, 0), out(waits, 0));
  result_node(graph, "r", 0, DP_INT32, out(sum, 0));
  expect_error(*state, graph, DP_OUT_OF_RANGE, "no more of 4\n\t [[{{node scope/bad}}]]");
}

static void test_missing_and_wrong_outputs(void **state) {
  dp_graph *graph = dp_graph_create(NULL);
  unary(graph, "lazy", &op_lazy, out(argument_node(graph, "a", 0, DP_INT32), 0));
  expect_error(*state, graph, DP_INTERNAL, "Missing 0-th output from {{node lazy}}\n\t [[lazy]]");
  graph = dp_graph_create(NULL);
  unary(graph, "liar", &op_liar, out(argument_node(graph, "a", 0, DP_INT32), 0));
  expect_error(*state, graph, DP_INTERNAL,
               "Output 0 of type float does not match declared output type int32 for node {{node "
               "liar}}\n\t [[liar]]");
}

static void test_unfed_placeholder(void **state) {
  dp_graph *graph = dp_graph_create(NULL);
  dp_partial_shape shape = {.rank = 2, .dims = {-1, 3}};
  dp_attr attrs[] = {type_attr("dtype", DP_FLOAT),
                     {.name = "shape", .kind = DP_ATTR_SHAPE, .shape = &shape}};
  add_node(graph, "ph", dp_op_find("Placeholder"), 0, NULL, 2, attrs);
  expect_error(*state, graph, DP_INVALID_ARGUMENT,
               "You must feed a value for placeholder tensor 'ph' with dtype float and shape [?,3]"
               "\n\t [[{{node ph}}]]");
}

/* Many nodes fail at once in two partitions: every run reports the same first reason. */
static void test_first_error_wins_across_partitions(void **state) {
  dp_executor *executors[2];
  for (int part = 0; part < 2; ++part) {
    dp_graph *graph = dp_graph_create(NULL);
    dp_node *a = argument_node(graph, "a", 0, DP_INT32);
    char name[32];
    for (int i = 0; i < 20; ++i) {
      snprintf(name, sizeof(name), "bad%d_%d", part, i);
      unary(graph, name, &op_fail, out(a, 0));
    }
    executors[part] = compile(*state, graph);
  }
  for (int i = 0; i < 100; ++i) {
    trial parts[2];
    trial_init(&parts[0], *state);
    trial_init(&parts[1], *state);
    dp_cancel_release(parts[1].step.cancel);
    parts[1].step.cancel = dp_cancel_retain(parts[0].step.cancel);
    for (int part = 0; part < 2; ++part) {
      trial_feed(&parts[part], 0, 1);
      trial_start(&parts[part], executors[part]);
    }
    trial_wait(&parts[0]);
    trial_wait(&parts[1]);
    assert_string_equal(dp_status_message(parts[0].status), dp_status_message(parts[1].status));
    trial_deinit(&parts[0]);
    trial_deinit(&parts[1]);
  }
  dp_executor_release(executors[0]);
  dp_executor_release(executors[1]);
}

static void test_unknown_kernel(void **state) {
  static const dp_op nobody = {.name = "TestNobody"};
  dp_graph *graph = dp_graph_create(NULL);
  add_node(graph, "n", &nobody, 0, NULL, 0, NULL);
  dp_executor_options options = {.device = ((fixture *)*state)->device};
  dp_executor *executor = NULL;
  dp_status *status = dp_executor_create(graph, &options, &executor);
  assert_int_equal(dp_status_code(status), DP_UNIMPLEMENTED);
  assert_non_null(strstr(dp_status_message(status), "'TestNobody' used by {{node n}}"));
  dp_status_release(status);
}

/* ---- Statistics ---- */
typedef struct recorded {
  pthread_mutex_t mutex;
  int count;
  char labels[16][128];
} recorded;

static void record(void *arg, const dp_node_timing *timing) {
  recorded *recorded = arg;
  pthread_mutex_lock(&recorded->mutex);
  assert_true(timing->scheduled > 0 && timing->scheduled <= timing->started);
  assert_true(timing->started <= timing->ended);
  snprintf(recorded->labels[recorded->count++], 128, "%s", timing->label);
  pthread_mutex_unlock(&recorded->mutex);
}

static void test_statistics(void **state) {
  dp_graph *graph = dp_graph_create(NULL);
  dp_node *a = argument_node(graph, "a", 0, DP_INT32);
  dp_node *two = unary(graph, "two", &op_two, out(a, 0));
  dp_node *later = unary(graph, "pool", &op_pool, out(two, 1));
  dp_node_add_control(graph, later, a->id);
  dp_executor *executor = compile(*state, graph);
  recorded recorded = {.mutex = PTHREAD_MUTEX_INITIALIZER};
  dp_step_stats stats = {record, &recorded};
  trial trial;
  trial_init(&trial, *state);
  trial_feed(&trial, 0, 1);
  trial.step.stats = &stats;
  trial_run(&trial, executor);
  assert_ok(trial.status);
  assert_int_equal(recorded.count, 3);
  assert_string_equal(recorded.labels[1], "two = TestTwo(a)");
  assert_string_equal(recorded.labels[2], "pool = TestPool(two:1, ^a)");
  trial_deinit(&trial);
  dp_executor_release(executor);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_diamond),
      cmocka_unit_test(test_empty_graph),
      cmocka_unit_test(test_control_edges_order),
      cmocka_unit_test(test_wide_fan_out),
      cmocka_unit_test(test_memory_is_forwarded_only_to_the_last_reader),
      cmocka_unit_test(test_branches),
      cmocka_unit_test(test_dead_merge_and_controls),
      cmocka_unit_test(test_references),
      cmocka_unit_test(test_error_names_node_and_stops),
      cmocka_unit_test(test_missing_and_wrong_outputs),
      cmocka_unit_test(test_unfed_placeholder),
      cmocka_unit_test(test_first_error_wins_across_partitions),
      cmocka_unit_test(test_unknown_kernel),
      cmocka_unit_test(test_statistics),
  };
  return cmocka_run_group_tests(tests, fixture_setup, fixture_teardown);
}
