/* Bodies that end later, cancellation while they wait, runs that start runs, and many runs at once.
 */
#include "executor_test.h"

/* ---- Ends of all kinds ---- */
static void test_kinds_of_ends(void **state) {
  dp_graph *graph = dp_graph_create(NULL);
  dp_node *a = argument_node(graph, "a", 0, DP_INT32);
  dp_node *now = unary(graph, "now", &op_now, out(a, 0));
  dp_node *pool = unary(graph, "pool", &op_pool, out(now, 0));
  dp_node *block = unary(graph, "block", &op_block, out(pool, 0));
  dp_node *sum = binary(graph, "sum", &op_add, out(block, 0), out(now, 0));
  result_node(graph, "r", 0, DP_INT32, out(sum, 0));
  dp_executor *executor = compile(*state, graph);
  for (int i = 0; i < 200; ++i)
    assert_int_equal(run_once(*state, executor, i, 0), i + 3 + i + 1);
  dp_executor_release(executor);
}

/* Without a pool everything runs on the threads that call and that end bodies. */
static void test_without_pool(void **state) {
  dp_graph *graph = dp_graph_create(NULL);
  dp_node *a = argument_node(graph, "a", 0, DP_INT32);
  dp_node *slow = unary(graph, "slow", &op_slow, out(a, 0));
  dp_node *other = unary(graph, "other", &op_slow, out(a, 0));
  dp_node *pool = unary(graph, "pool", &op_pool, out(slow, 0));
  dp_node *sum = binary(graph, "sum", &op_add, out(pool, 0), out(other, 0));
  result_node(graph, "r", 0, DP_INT32, out(sum, 0));
  dp_executor *executor = compile(*state, graph);
  for (int i = 0; i < 100; ++i) {
    trial trial;
    trial_init(&trial, *state);
    trial.step.pool = NULL;
    trial_feed(&trial, 0, i);
    trial_run(&trial, executor);
    assert_ok(trial.status);
    assert_int_equal(trial_result(&trial, 0), i + 2 + i + 1);
    trial_deinit(&trial);
  }
  dp_executor_release(executor);
}

/* A thread that waits anyway runs the expensive and the blocking nodes itself. */
static void test_lent_thread(void **state) {
  dp_graph *graph = dp_graph_create(NULL);
  dp_node *slow = unary(graph, "slow", &op_slow, out(argument_node(graph, "a", 0, DP_INT32), 0));
  dp_node *block = unary(graph, "block", &op_block, out(slow, 0));
  dp_node *after = unary(graph, "after", &op_slow, out(block, 0));
  result_node(graph, "r", 0, DP_INT32, out(after, 0));
  dp_executor *executor = compile(*state, graph);
  for (int i = 0; i < 100; ++i) {
    trial trial;
    trial_init(&trial, *state);
    trial_feed(&trial, 0, i);
    assert_false(dp_thread_lend(true));
    trial_start(&trial, executor);
    assert_true(dp_thread_lend(false));
    assert_int_equal(trial.done_calls, 1);
    trial_wait(&trial);
    assert_ok(trial.status);
    assert_int_equal(trial_result(&trial, 0), i + 3);
    trial_deinit(&trial);
  }
  dp_executor_release(executor);
}

/* ---- Listing and cancelling ---- */
typedef struct listing {
  int count;
  int64_t step;
  char node[64];
} listing;

static void list(void *arg, int64_t step_id, const dp_node *node, int64_t running_nanos) {
  listing *listing = arg;
  assert_true(running_nanos >= 0);
  listing->count++;
  listing->step = step_id;
  snprintf(listing->node, sizeof(listing->node), "%s", node->name);
}

static dp_executor *build_waiting(fixture *fixture) {
  dp_graph *graph = dp_graph_create(NULL);
  dp_node *a = argument_node(graph, "a", 0, DP_INT32);
  dp_node *later = unary(graph, "later", &op_later, out(a, 0));
  dp_node *sum = binary(graph, "sum", &op_add, out(later, 0), out(a, 0));
  result_node(graph, "r", 0, DP_INT32, out(sum, 0));
  return compile(fixture, graph);
}

static void test_running_nodes_are_listed(void **state) {
  dp_executor *executor = build_waiting(*state);
  trial trial;
  trial_init(&trial, *state);
  trial_feed(&trial, 0, 20);
  trial_start(&trial, executor);
  while (!atomic_load(&test_later))
    dp_clock_sleep(100000);
  listing listing = {0};
  dp_executor_visit_running(executor, list, &listing);
  assert_int_equal(listing.count, 1);
  assert_int_equal(listing.step, 7);
  assert_string_equal(listing.node, "later");
  assert_int_equal(atomic_load(&trial.done_calls), 0);
  end_increment(atomic_exchange(&test_later, NULL));
  trial_wait(&trial);
  assert_ok(trial.status);
  assert_int_equal(trial_result(&trial, 0), 41);
  listing.count = 0;
  dp_executor_visit_running(executor, list, &listing);
  assert_int_equal(listing.count, 0);
  trial_deinit(&trial);
  dp_executor_release(executor);
}

static void *cancel_soon(void *arg) {
  trial *trial = arg;
  dp_cancel_trigger(trial->step.cancel, dp_status_create(DP_DEADLINE_EXCEEDED, "too late"));
  return NULL;
}

static void test_cancel_while_waiting(void **state) {
  dp_executor *executor = build_waiting(*state);
  for (int i = 0; i < 200; ++i) {
    trial trial;
    trial_init(&trial, *state);
    trial_feed(&trial, 0, 1);
    pthread_t thread;
    pthread_create(&thread, NULL, cancel_soon, &trial);
    trial_start(&trial, executor);
    trial_wait(&trial);
    assert_int_equal(dp_status_code(trial.status), DP_DEADLINE_EXCEEDED);
    assert_string_equal(dp_status_message(trial.status), "too late");
    pthread_join(thread, NULL);
    trial_deinit(&trial);
  }
  dp_executor_release(executor);
}

/* ---- Transfers between two partitions ---- */
static void add_transfer_attrs(dp_attr *attrs, const char *type, const char *name) {
  attrs[0] = type_attr(type, DP_INT32);
  attrs[1] = string_attr("tensor_name", name);
  attrs[2] = string_attr("send_device", "/job:test/replica:0/task:0/device:CPU:0");
  attrs[3] = int_attr("send_device_incarnation", -2);
  attrs[4] = string_attr("recv_device", "/job:test/replica:0/task:0/device:CPU:0");
}

static void add_send(dp_graph *graph, const char *name, dp_input input) {
  char node[64];
  snprintf(node, sizeof(node), "send_%s", name);
  dp_attr attrs[5];
  add_transfer_attrs(attrs, "T", name);
  add_node(graph, node, dp_op_find("_Send"), 1, &input, 5, attrs);
}
static dp_node *add_receive(dp_graph *graph, const char *name) {
  char node[64];
  snprintf(node, sizeof(node), "recv_%s", name);
  dp_attr attrs[5];
  add_transfer_attrs(attrs, "tensor_type", name);
  return add_node(graph, node, dp_op_find("_Recv"), 0, NULL, 5, attrs);
}

/* Two partitions that hand a value back and forth many times; one link can be dead. */
static void test_ping_pong(void **state) {
  enum { ROUNDS = 500 };
  dp_graph *ping = dp_graph_create(NULL), *pong = dp_graph_create(NULL);
  dp_node *value = argument_node(ping, "a", 0, DP_INT32);
  char name[32];
  for (int i = 0; i < ROUNDS; ++i) {
    snprintf(name, sizeof(name), "there%d", i);
    add_send(ping, name, out(value, 0));
    dp_node *arrived = add_receive(pong, name);
    snprintf(name, sizeof(name), "add%d", i);
    dp_node *added = unary(pong, name, &op_increment, out(arrived, 0));
    snprintf(name, sizeof(name), "back%d", i);
    add_send(pong, name, out(added, 0));
    value = add_receive(ping, name);
  }
  result_node(ping, "r", 0, DP_INT32, out(value, 0));
  dp_executor *executors[] = {compile(*state, ping), compile(*state, pong)};
  for (int i = 0; i < 10; ++i) {
    trial parts[2];
    trial_init(&parts[0], *state);
    trial_init(&parts[1], *state);
    dp_rendezvous_release(parts[1].step.rendezvous);
    parts[1].step.rendezvous = dp_rendezvous_retain(parts[0].step.rendezvous);
    trial_feed(&parts[0], 0, 5);
    trial_start(&parts[i % 2], executors[i % 2]);
    trial_start(&parts[1 - i % 2], executors[1 - i % 2]);
    trial_wait(&parts[0]);
    trial_wait(&parts[1]);
    assert_ok(parts[0].status);
    assert_ok(parts[1].status);
    assert_int_equal(trial_result(&parts[0], 0), 5 + ROUNDS);
    trial_deinit(&parts[0]);
    trial_deinit(&parts[1]);
  }
  dp_executor_release(executors[0]);
  dp_executor_release(executors[1]);
}

static void test_dead_transfer(void **state) {
  dp_graph *graph = dp_graph_create(NULL);
  dp_node *x = argument_node(graph, "x", 0, DP_INT32);
  dp_node *t = argument_node(graph, "t", 1, DP_BOOL);
  dp_node *choice = switch_node(graph, "choice", out(x, 0), out(t, 0));
  add_send(graph, "edge", out(choice, 1));
  dp_node *received = add_receive(graph, "edge");
  dp_node *counted = unary(graph, "counted", &op_count, out(received, 0));
  dp_node *merge =
      typed(graph, "merge", "Merge", DP_INT32, 2, (dp_input[]){out(choice, 0), out(counted, 0)});
  result_node(graph, "i", 0, DP_INT32, out(merge, 1));
  dp_executor *executor = compile(*state, graph);
  for (int i = 0; i < 40; ++i) {
    trial trial;
    trial_init(&trial, *state);
    trial_feed(&trial, 0, 6);
    trial_feed_truth(&trial, 1, i % 2);
    atomic_store(&test_runs, 0);
    trial_run(&trial, executor);
    assert_ok(trial.status);
    assert_int_equal(trial_result(&trial, 0), i % 2);
    assert_int_equal(atomic_load(&test_runs), i % 2);
    trial_deinit(&trial);
  }
  dp_executor_release(executor);
}

/* A receiver in another partition hears of an error as the same error. */
static void test_error_reaches_receiver(void **state) {
  dp_graph *graph = dp_graph_create(NULL);
  dp_node *a = argument_node(graph, "a", 0, DP_INT32);
  dp_node *slow = unary(graph, "slow", &op_slow, out(a, 0));
  add_send(graph, "edge", out(unary(graph, "bad", &op_fail, out(slow, 0)), 0));
  dp_executor *sender = compile(*state, graph);
  graph = dp_graph_create(NULL);
  result_node(graph, "r", 0, DP_INT32, out(add_receive(graph, "edge"), 0));
  dp_executor *receiver = compile(*state, graph);
  for (int i = 0; i < 100; ++i) {
    trial parts[2];
    trial_init(&parts[0], *state);
    trial_init(&parts[1], *state);
    dp_rendezvous_release(parts[1].step.rendezvous);
    parts[1].step.rendezvous = dp_rendezvous_retain(parts[0].step.rendezvous);
    dp_cancel_release(parts[1].step.cancel);
    parts[1].step.cancel = dp_cancel_retain(parts[0].step.cancel);
    trial_feed(&parts[0], 0, 5);
    trial_start(&parts[1], receiver);
    trial_start(&parts[0], sender);
    trial_wait(&parts[0]);
    trial_wait(&parts[1]);
    for (int part = 0; part < 2; ++part)
      assert_string_equal(dp_status_message(parts[part].status),
                          "no more of 6\n\t [[{{node bad}}]]");
    trial_deinit(&parts[0]);
    trial_deinit(&parts[1]);
  }
  dp_executor_release(sender);
  dp_executor_release(receiver);
}

/* ---- Runs that start runs ---- */
typedef struct chain {
  dp_executor *executor;
  trial *trial;
  int left;
} chain;

static void run_again(void *arg, dp_status *status) {
  chain *chain = arg;
  if (--chain->left == 0 || status)
    trial_done(chain->trial, status);
  else
    dp_executor_run(chain->executor, &chain->trial->step, run_again, chain);
}

static void test_chained_runs_keep_the_stack_flat(void **state) {
  dp_graph *graph = dp_graph_create(NULL);
  unary(graph, "now", &op_now, out(argument_node(graph, "a", 0, DP_INT32), 0));
  dp_executor *executor = compile(*state, graph);
  for (int with_pool = 0; with_pool < 2; ++with_pool) {
    trial trial;
    trial_init(&trial, *state);
    trial_feed(&trial, 0, 1);
    if (!with_pool)
      trial.step.pool = NULL;
    chain chain = {executor, &trial, 100000};
    dp_executor_run(executor, &trial.step, run_again, &chain);
    trial_wait(&trial);
    assert_ok(trial.status);
    trial_deinit(&trial);
  }
  dp_executor_release(executor);
}

/* ---- Many at once ---- */
static void test_concurrent_runs(void **state) {
  enum { STEPS = 400 };
  dp_graph *graph = dp_graph_create(NULL);
  dp_node *a = argument_node(graph, "a", 0, DP_INT32);
  dp_node *b = argument_node(graph, "b", 1, DP_INT32);
  dp_node *sum = binary(graph, "sum", &op_add, out(a, 0), out(b, 0));
  char name[32];
  for (int i = 0; i < 12; ++i) {
    static const dp_op *const ops[] = {&op_slow, &op_pool, &op_block, &op_increment};
    snprintf(name, sizeof(name), "part%d", i);
    dp_node *part = unary(graph, name, ops[i % 4], out(i % 3 ? a : sum, 0));
    snprintf(name, sizeof(name), "sum%d", i);
    sum = binary(graph, name, &op_add, out(sum, 0), out(part, 0));
  }
  result_node(graph, "r", 0, DP_INT32, out(sum, 0));
  dp_executor *executor = compile(*state, graph);
  int32_t expected = run_once(*state, executor, 2, 1), unit = run_once(*state, executor, 3, 1);
  trial *trials = calloc(STEPS, sizeof(trial));
  for (int i = 0; i < STEPS; ++i) {
    trial_init(&trials[i], *state);
    trial_feed(&trials[i], 0, i);
    trial_feed(&trials[i], 1, 1);
    trial_start(&trials[i], executor);
  }
  for (int i = 0; i < STEPS; ++i) {
    trial_wait(&trials[i]);
    assert_ok(trials[i].status);
    assert_int_equal(trial_result(&trials[i], 0), expected + (i - 2) * (unit - expected));
    trial_deinit(&trials[i]);
  }
  free(trials);
  dp_executor_release(executor);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_kinds_of_ends),
      cmocka_unit_test(test_without_pool),
      cmocka_unit_test(test_lent_thread),
      cmocka_unit_test(test_running_nodes_are_listed),
      cmocka_unit_test(test_cancel_while_waiting),
      cmocka_unit_test(test_ping_pong),
      cmocka_unit_test(test_dead_transfer),
      cmocka_unit_test(test_error_reaches_receiver),
      cmocka_unit_test(test_chained_runs_keep_the_stack_flat),
      cmocka_unit_test(test_concurrent_runs),
  };
  return cmocka_run_group_tests(tests, fixture_setup, fixture_teardown);
}
