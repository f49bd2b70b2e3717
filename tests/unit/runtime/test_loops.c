/* The executor's loops: iterations in parallel or one by one, nested, dead, with constants, with
 * transfers inside, stopped from outside, and malformed. */
#include "executor_test.h"

typedef struct loop {
  dp_node *value;     /* inside: the current value of the counter */
  dp_node *predicate; /* inside */
  dp_node *exit_i, *exit_sum;
} loop;

static const char *label(char *buffer, const char *prefix, const char *name) {
  snprintf(buffer, 64, "%s%s", prefix, name);
  return buffer;
}

/* while i < limit: sum += i; i += 1, with `body` between i and what is added to sum. */
typedef dp_node *(*body_fn)(dp_graph *graph, const char *prefix, dp_node *i, dp_node *limit,
                            dp_node *pivot);

static loop build_loop(dp_graph *graph, const char *prefix, int parallel, dp_input start,
                       dp_input limit, dp_input sum, body_fn body) {
  char text[64], frame[64];
  label(frame, prefix, "frame");
  dp_node *enter_i = enter_node(graph, label(text, prefix, "ei"), frame, parallel, false, start);
  dp_node *enter_s = enter_node(graph, label(text, prefix, "es"), frame, parallel, false, sum);
  dp_node *enter_l = enter_node(graph, label(text, prefix, "el"), frame, parallel, true, limit);
  dp_node *merge_i = typed(graph, label(text, prefix, "mi"), "Merge", DP_INT32, 2,
                           (dp_input[]){out(enter_i, 0), out(enter_i, 0)});
  dp_node *merge_s = typed(graph, label(text, prefix, "ms"), "Merge", DP_INT32, 2,
                           (dp_input[]){out(enter_s, 0), out(enter_s, 0)});
  dp_node *less =
      binary(graph, label(text, prefix, "less"), &op_less, out(merge_i, 0), out(enter_l, 0));
  dp_node *cond = add_node(graph, label(text, prefix, "cond"), dp_op_find("LoopCond"), 1,
                           (dp_input[]){out(less, 0)}, 0, NULL);
  dp_node *switch_i = switch_node(graph, label(text, prefix, "si"), out(merge_i, 0), out(cond, 0));
  dp_node *switch_s = switch_node(graph, label(text, prefix, "ss"), out(merge_s, 0), out(cond, 0));
  dp_node *i = int_node(graph, label(text, prefix, "i"), "Identity", out(switch_i, 1));
  dp_node *added = body ? body(graph, prefix, i, enter_l, cond) : i;
  dp_node *next_sum =
      binary(graph, label(text, prefix, "add"), &op_add, out(switch_s, 1), out(added, 0));
  dp_node *next_i = unary(graph, label(text, prefix, "inc"), &op_increment, out(i, 0));
  dp_node *back_i = int_node(graph, label(text, prefix, "ni"), "NextIteration", out(next_i, 0));
  dp_node *back_s = int_node(graph, label(text, prefix, "ns"), "NextIteration", out(next_sum, 0));
  dp_node_set_input(merge_i, 1, out(back_i, 0));
  dp_node_set_input(merge_s, 1, out(back_s, 0));
  loop loop = {.value = i, .predicate = cond};
  loop.exit_i = int_node(graph, label(text, prefix, "xi"), "Exit", out(switch_i, 0));
  loop.exit_sum = int_node(graph, label(text, prefix, "xs"), "Exit", out(switch_s, 0));
  return loop;
}

static dp_executor *simple_loop(fixture *fixture, int parallel, body_fn body) {
  dp_graph *graph = dp_graph_create(NULL);
  dp_node *start = argument_node(graph, "start", 0, DP_INT32);
  dp_node *limit = argument_node(graph, "limit", 1, DP_INT32);
  loop loop = build_loop(graph, "w_", parallel, out(start, 0), out(limit, 0), out(start, 0), body);
  result_node(graph, "r", 0, DP_INT32, out(loop.exit_sum, 0));
  result_node(graph, "ri", 1, DP_INT32, out(loop.exit_i, 0));
  return compile(fixture, graph);
}

static int32_t sum_below(int32_t limit) {
  return limit * (limit - 1) / 2;
}

static void test_while(void **state) {
  for (int parallel = 1; parallel <= 32; parallel *= 4) {
    dp_executor *executor = simple_loop(*state, parallel, NULL);
    assert_int_equal(run_once(*state, executor, 0, 0), 0);
    assert_int_equal(run_once(*state, executor, 0, 1), 0);
    assert_int_equal(run_once(*state, executor, 0, 10), 45);
    assert_int_equal(run_once(*state, executor, 0, 10000), sum_below(10000));
    dp_executor_release(executor);
  }
}

/* Bodies that let iterations overlap: each takes a thread, or ends elsewhere. */
static dp_node *slow_body(dp_graph *graph, const char *prefix, dp_node *i, dp_node *limit,
                          dp_node *pivot) {
  return unary(graph, "slow", &op_slow, out(i, 0));
}
static dp_node *async_body(dp_graph *graph, const char *prefix, dp_node *i, dp_node *limit,
                           dp_node *pivot) {
  return unary(graph, "async", &op_pool, out(unary(graph, "now", &op_now, out(i, 0)), 0));
}

static void test_parallel_iterations(void **state) {
  for (int parallel = 1; parallel <= 8; parallel += 7) {
    dp_executor *executor = simple_loop(*state, parallel, slow_body);
    for (int i = 0; i < 5; ++i)
      assert_int_equal(run_once(*state, executor, 0, 200), sum_below(200) + 200);
    dp_executor_release(executor);
    executor = simple_loop(*state, parallel, async_body);
    for (int i = 0; i < 5; ++i)
      assert_int_equal(run_once(*state, executor, 0, 1000), sum_below(1000) + 2000);
    dp_executor_release(executor);
  }
}

/* ---- Nested ---- */
/* The inner loop runs from 0 to i and adds up. */
static dp_node *inner_body(dp_graph *graph, const char *prefix, dp_node *i, dp_node *limit,
                           dp_node *pivot) {
  dp_tensor zero_value;
  assert_ok(dp_tensor_scalar_int32(0, &zero_value));
  dp_attr attrs[] = {type_attr("dtype", DP_INT32),
                     {.name = "value", .kind = DP_ATTR_TENSOR, .tensor = &zero_value}};
  dp_node *zero = add_node(graph, "zero", dp_op_find("Const"), 0, NULL, 2, attrs);
  dp_tensor_deinit(&zero_value);
  dp_node_add_control(graph, zero, i->id); /* in the frame */
  loop inner = build_loop(graph, "n_", 3, out(zero, 0), out(i, 0), out(zero, 0), NULL);
  return inner.exit_sum;
}

static void test_nested(void **state) {
  for (int parallel = 1; parallel <= 10; parallel += 9) {
    dp_executor *executor = simple_loop(*state, parallel, inner_body);
    for (int repeat = 0; repeat < 3; ++repeat) {
      int32_t expected = 0;
      for (int i = 0; i < 40; ++i)
        expected += sum_below(i);
      assert_int_equal(run_once(*state, executor, 0, 40), expected);
    }
    dp_executor_release(executor);
  }
}

/* ---- Conditionals inside and around ---- */
/* if i < 5: i else: i + 1 */
static dp_node *branch_body(dp_graph *graph, const char *prefix, dp_node *i, dp_node *limit,
                            dp_node *pivot) {
  dp_tensor five_value;
  assert_ok(dp_tensor_scalar_int32(5, &five_value));
  dp_attr attrs[] = {type_attr("dtype", DP_INT32),
                     {.name = "value", .kind = DP_ATTR_TENSOR, .tensor = &five_value}};
  dp_node *five = add_node(graph, "five", dp_op_find("Const"), 0, NULL, 2, attrs);
  dp_tensor_deinit(&five_value);
  dp_node_add_control(graph, five, i->id);
  dp_node *less = binary(graph, "small", &op_less, out(i, 0), out(five, 0));
  dp_node *choice = switch_node(graph, "choice", out(i, 0), out(less, 0));
  dp_node *large = unary(graph, "large", &op_increment, out(choice, 0));
  return typed(graph, "joined", "Merge", DP_INT32, 2, (dp_input[]){out(large, 0), out(choice, 1)});
}

static void test_branch_in_loop(void **state) {
  dp_executor *executor = simple_loop(*state, 10, branch_body);
  assert_int_equal(run_once(*state, executor, 0, 100), sum_below(100) + 95);
  dp_executor_release(executor);
}

/* A whole loop in the untaken branch: nothing in it runs, and what follows its exits is dead. */
static void test_dead_loop(void **state) {
  dp_graph *graph = dp_graph_create(NULL);
  dp_node *x = argument_node(graph, "x", 0, DP_INT32);
  dp_node *t = argument_node(graph, "t", 1, DP_BOOL);
  dp_node *choice = switch_node(graph, "choice", out(x, 0), out(t, 0));
  dp_node *counted = unary(graph, "counted", &op_count, out(choice, 1));
  loop loop = build_loop(graph, "w_", 4, out(counted, 0), out(counted, 0), out(counted, 0), NULL);
  dp_node *after = unary(graph, "after", &op_count, out(loop.exit_i, 0));
  dp_node *merge =
      typed(graph, "merge", "Merge", DP_INT32, 2, (dp_input[]){out(choice, 0), out(after, 0)});
  result_node(graph, "r", 0, DP_INT32, out(merge, 0));
  result_node(graph, "i", 1, DP_INT32, out(merge, 1));
  dp_executor *executor = compile(*state, graph);
  for (int i = 0; i < 40; ++i) {
    int taken = i % 2;
    trial trial;
    trial_init(&trial, *state);
    trial_feed(&trial, 0, 6);
    trial_feed_truth(&trial, 1, taken);
    atomic_store(&test_runs, 0);
    trial_run(&trial, executor);
    assert_ok(trial.status);
    assert_int_equal(trial_result(&trial, 0), 6);
    assert_int_equal(trial_result(&trial, 1), taken);
    assert_int_equal(atomic_load(&test_runs), taken ? 2 : 0);
    trial_deinit(&trial);
  }
  dp_executor_release(executor);
}

/* ---- Transfers inside: each iteration has a key of its own ---- */
static dp_node *transfer_body(dp_graph *graph, const char *prefix, dp_node *i, dp_node *limit,
                              dp_node *pivot) {
  dp_attr attrs[] = {type_attr("T", DP_INT32), string_attr("tensor_name", "edge"),
                     string_attr("send_device", "/job:test/replica:0/task:0/device:CPU:0"),
                     int_attr("send_device_incarnation", 1),
                     string_attr("recv_device", "/job:test/replica:0/task:0/device:CPU:1")};
  dp_node *copy = int_node(graph, "copy", "Identity", out(i, 0));
  dp_input from = out(copy, 0);
  add_node(graph, "send", dp_op_find("_Send"), 1, &from, 5, attrs);
  attrs[0] = type_attr("tensor_type", DP_INT32);
  dp_node *receive = add_node(graph, "recv", dp_op_find("_Recv"), 0, NULL, 5, attrs);
  dp_node_add_control(graph, receive, copy->id);
  return receive;
}

static void test_transfer_in_loop(void **state) {
  dp_executor *executor = simple_loop(*state, 5, transfer_body);
  for (int i = 0; i < 10; ++i)
    assert_int_equal(run_once(*state, executor, 0, 300), sum_below(300));
  dp_executor_release(executor);
}

/* ---- Stopped ---- */
static dp_node *fail_at_end_body(dp_graph *graph, const char *prefix, dp_node *i, dp_node *limit,
                                 dp_node *pivot) {
  dp_node *branch = branch_body(graph, prefix, i, limit, pivot);
  dp_node *large = dp_graph_find(graph, "large");
  dp_node *bad = unary(graph, "bad", &op_fail, out(large, 0));
  return binary(graph, "both", &op_add, out(branch, 0), out(bad, 0));
}

static void test_error_in_iteration(void **state) {
  dp_executor *executor = simple_loop(*state, 1, fail_at_end_body);
  for (int i = 0; i < 20; ++i) {
    trial trial;
    trial_init(&trial, *state);
    trial_feed(&trial, 0, 5);
    trial_feed(&trial, 1, 100);
    trial_run(&trial, executor);
    assert_int_equal(dp_status_code(trial.status), DP_OUT_OF_RANGE);
    assert_string_equal(dp_status_message(trial.status), "no more of 6\n\t [[{{node bad}}]]");
    trial_deinit(&trial);
  }
  dp_executor_release(executor);
}

static void test_endless_loop_is_cancelled(void **state) {
  dp_executor *executor = simple_loop(*state, 10, NULL);
  for (int i = 0; i < 3; ++i) {
    trial trial;
    trial_init(&trial, *state);
    trial_feed(&trial, 0, INT32_MIN);
    trial_feed(&trial, 1, INT32_MAX);
    trial_start(&trial, executor);
    dp_clock_sleep(20000000);
    dp_cancel_trigger(trial.step.cancel, dp_status_create(DP_CANCELLED, "enough"));
    trial_wait(&trial);
    assert_int_equal(dp_status_code(trial.status), DP_CANCELLED);
    assert_string_equal(dp_status_message(trial.status), "enough");
    trial_deinit(&trial);
  }
  dp_executor_release(executor);
}

/* ---- Malformed ---- */
static void expect_refusal(fixture *fixture, dp_graph *graph, const char *message) {
  dp_executor_options options = {.device = fixture->device};
  dp_executor *executor = NULL;
  dp_status *status = dp_executor_create(graph, &options, &executor);
  assert_int_equal(dp_status_code(status), DP_INVALID_ARGUMENT);
  assert_non_null(strstr(dp_status_message(status), message));
  dp_status_release(status);
}

static void test_malformed_graphs(void **state) {
  dp_graph *graph = dp_graph_create(NULL);
  dp_node *x = argument_node(graph, "x", 0, DP_INT32);
  dp_node *inside = enter_node(graph, "enter", "f", 1, false, out(x, 0));
  binary(graph, "mixed", &op_add, out(x, 0), out(inside, 0));
  expect_refusal(*state, graph, "{{node mixed}} has inputs from different frames");

  graph = dp_graph_create(NULL);
  x = argument_node(graph, "x", 0, DP_INT32);
  int_node(graph, "exit", "Exit", out(x, 0));
  expect_refusal(*state, graph, "Cannot find a corresponding Enter op");

  graph = dp_graph_create(NULL);
  x = argument_node(graph, "x", 0, DP_INT32);
  dp_node *merge = typed(graph, "merge", "Merge", DP_INT32, 2, (dp_input[]){out(x, 0), out(x, 0)});
  dp_node *next = int_node(graph, "next", "NextIteration", out(merge, 0));
  dp_node_set_input(merge, 0, out(next, 0));
  dp_node_set_input(merge, 1, out(next, 0));
  expect_refusal(*state, graph, "{{node merge}} can never run");

  graph = dp_graph_create(NULL);
  x = argument_node(graph, "x", 0, DP_INT32);
  enter_node(graph, "enter", "f", 0, false, out(x, 0));
  expect_refusal(*state, graph, "parallel_iterations must be at least 1");
}

/* An Exit that is live in every iteration: refused when it happens. */
static void test_exit_twice(void **state) {
  dp_graph *graph = dp_graph_create(NULL);
  dp_node *start = argument_node(graph, "start", 0, DP_INT32);
  dp_node *limit = argument_node(graph, "limit", 1, DP_INT32);
  loop loop = build_loop(graph, "w_", 4, out(start, 0), out(limit, 0), out(start, 0), NULL);
  dp_node *leak = int_node(graph, "leak", "Exit", out(loop.value, 0));
  unary(graph, "after", &op_count, out(leak, 0));
  dp_executor *executor = compile(*state, graph);
  trial trial;
  trial_init(&trial, *state);
  trial_feed(&trial, 0, 0);
  trial_feed(&trial, 1, 10);
  trial_run(&trial, executor);
  assert_int_equal(dp_status_code(trial.status), DP_INVALID_ARGUMENT);
  assert_non_null(strstr(dp_status_message(trial.status), "Exit {{node leak}} is live in two"));
  trial_deinit(&trial);
  dp_executor_release(executor);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_while),
      cmocka_unit_test(test_parallel_iterations),
      cmocka_unit_test(test_nested),
      cmocka_unit_test(test_branch_in_loop),
      cmocka_unit_test(test_dead_loop),
      cmocka_unit_test(test_transfer_in_loop),
      cmocka_unit_test(test_error_in_iteration),
      cmocka_unit_test(test_endless_loop_is_cancelled),
      cmocka_unit_test(test_malformed_graphs),
      cmocka_unit_test(test_exit_twice),
  };
  return cmocka_run_group_tests(tests, fixture_setup, fixture_teardown);
}
