/* Master and worker of one task, without a network: sessions, steps, callables, partial runs, and
 * what is left when something goes wrong. */
#include "base/fault.h"
#include "task_test.h"

static void a_step_gives_what_was_asked(void **state) {
  for (int i = 0; i < 3; i++) {
    waited wait = run_step(*state, &sum_of_3_and_4);
    assert_int_equal(wait.code, DP_OK);
    assert_int_equal(wait.number, 7);
    assert_int_equal(wait.count, 1);
  }
}

/* Whoever answers need not take the fetched tensors; they go all the same. The last steps may still
 * be letting go of theirs. */
static void fetched_tensors_go_with_the_answer(void **state) {
  enum { STEPS = 500 };
  dp_buffer_statistics before, after;
  run_step(*state, &sum_of_3_and_4);
  dp_buffer_get_statistics(&before);
  for (int i = 0; i < STEPS; i++)
    assert_int_equal(run_step(*state, &sum_of_3_and_4).number, 7);
  dp_buffer_get_statistics(&after);
  assert_true(after.live_bytes < before.live_bytes + STEPS);
}

static void feeding_in_the_middle_skips_what_is_before(void **state) {
  step_spec spec = {
      .feed_names = {"sum:0"}, .feed_values = {50}, .feed_count = 1, .fetch = "twice:0"};
  assert_int_equal(run_step(*state, &spec).number, 100);
}

static void targets_run_and_return_nothing(void **state) {
  step_spec spec = sum_of_3_and_4;
  spec.fetch = NULL;
  spec.target = "twice";
  waited wait = run_step(*state, &spec);
  assert_int_equal(wait.code, DP_OK);
  assert_int_equal(wait.count, 0);
}

static void a_missing_feed_names_the_placeholder(void **state) {
  step_spec spec = {.feed_names = {"a:0"}, .feed_values = {1}, .feed_count = 1, .fetch = "sum:0"};
  waited wait = run_step(*state, &spec);
  assert_int_equal(wait.code, DP_INVALID_ARGUMENT);
  assert_non_null(strstr(wait.message, "'b'"));
}

static void unknown_names_are_errors_and_harmless(void **state) {
  step_spec fetch = {.fetch = "nothing_like_this:0"};
  assert_int_equal(run_step(*state, &fetch).code, DP_NOT_FOUND);
  step_spec target = {.target = "nothing_like_this"};
  assert_int_equal(run_step(*state, &target).code, DP_NOT_FOUND);
  assert_int_equal(run_step(*state, &sum_of_3_and_4).number, 7);
}

static void an_unknown_session_is_aborted(void **state) {
  fixture *task = *state;
  char kept[64];
  memcpy(kept, task->handle, sizeof(kept));
  snprintf(task->handle, sizeof(task->handle), "0000000000000000");
  waited wait = run_step(task, &sum_of_3_and_4);
  assert_int_equal(wait.code, DP_ABORTED);
  memcpy(task->handle, kept, sizeof(kept));
}

/* ---- Deadlines and cancellation ---- */

static const step_spec waits_for_ever = {.fetch = "never:0"};

static void a_deadline_ends_a_waiting_step(void **state) {
  step_spec spec = waits_for_ever;
  spec.timeout_ms = 50;
  assert_int_equal(run_step(*state, &spec).code, DP_DEADLINE_EXCEEDED);
  assert_int_equal(run_step(*state, &sum_of_3_and_4).number, 7);
}

static void a_client_that_goes_away_ends_its_step(void **state) {
  dp_cancel *scope = dp_cancel_create(NULL, DP_FOREVER);
  waited wait;
  begin_wait(&wait);
  start_step(*state, &waits_for_ever, scope, &wait);
  dp_clock_sleep(20000000);
  dp_cancel_trigger(scope, dp_status_create(DP_CANCELLED, "the client went away"));
  end_wait(&wait);
  assert_int_equal(wait.code, DP_CANCELLED);
  dp_cancel_release(scope);
}

static void close_session(fixture *task, waited *wait) {
  Tensorflow__CloseSessionRequest request = TENSORFLOW__CLOSE_SESSION_REQUEST__INIT;
  request.session_handle = task->handle;
  begin_wait(wait);
  dp_master_call(task->master, DP_MASTER_CLOSE_SESSION, &request, NULL, answered, wait);
  end_wait(wait);
}

static void closing_a_session_ends_its_steps(void **state) {
  waited step, closing;
  begin_wait(&step);
  start_step(*state, &waits_for_ever, NULL, &step);
  dp_clock_sleep(20000000);
  close_session(*state, &closing);
  assert_int_equal(closing.code, DP_OK);
  end_wait(&step);
  assert_int_equal(step.code, DP_CANCELLED);
  close_session(*state, &closing);
  assert_int_equal(closing.code, DP_ABORTED);
}

static void stopping_a_task_ends_what_waits(void **state) {
  static waited step; /* answered by the tear-down */
  begin_wait(&step);
  start_step(*state, &waits_for_ever, NULL, &step);
  dp_clock_sleep(20000000);
}

static bool says_who_waits(fixture *task) {
  const char *signs[] = {task->handle, "waits for " TASK "\n", "never (_Recv)",
                         "nothing  for " TASK};
  size_t found = 0;
  dp_text text = {0};
  dp_master_describe(task->master, &text);
  dp_worker_describe(task->worker, &text);
  for (size_t i = 0; i < sizeof(signs) / sizeof(*signs); i++)
    found += strstr(dp_text_string(&text), signs[i]) != NULL;
  dp_text_deinit(&text);
  return found == sizeof(signs) / sizeof(*signs);
}

static void a_waiting_step_can_be_seen(void **state) {
  fixture *task = *state;
  dp_cancel *scope = dp_cancel_create(NULL, DP_FOREVER);
  waited wait;
  begin_wait(&wait);
  start_step(task, &waits_for_ever, scope, &wait);
  int64_t deadline = dp_clock_deadline_ms(20000);
  while (!says_who_waits(task) && dp_clock_nanos() < deadline)
    dp_clock_sleep(1000000);
  assert_true(says_who_waits(task));
  dp_cancel_trigger(scope, dp_status_create(DP_CANCELLED, "enough"));
  end_wait(&wait);
  dp_cancel_release(scope);
}

/* ---- Extending ---- */

static void a_graph_grows_by_version(void **state) {
  waited first = extend(*state, 1, "c");
  assert_int_equal(first.code, DP_OK);
  assert_int_equal(first.number, 2);
  assert_int_equal(extend(*state, 1, "d").code, DP_ABORTED);
  assert_int_not_equal(extend(*state, 2, "c").code, DP_OK);
  step_spec spec = {.target = "c"};
  assert_int_equal(run_step(*state, &spec).code, DP_OK);
}

/* ---- Callables ---- */

static void callables_run_by_number(void **state) {
  fixture *task = *state;
  int64_t handle = make_callable(task);
  assert_int_equal(run_callable(task, handle, 2).number, 40);
  assert_int_equal(run_callable(task, handle, 1).code, DP_INVALID_ARGUMENT);
  assert_int_equal(run_callable(task, handle + 1, 2).code, DP_INVALID_ARGUMENT);
  Tensorflow__ReleaseCallableRequest release = TENSORFLOW__RELEASE_CALLABLE_REQUEST__INIT;
  release.session_handle = task->handle;
  release.handle = handle;
  waited wait;
  begin_wait(&wait);
  dp_master_call(task->master, DP_MASTER_RELEASE_CALLABLE, &release, NULL, answered, &wait);
  end_wait(&wait);
  assert_int_equal(wait.code, DP_OK);
  assert_int_equal(run_callable(task, handle, 2).code, DP_INVALID_ARGUMENT);
}

/* ---- Partial runs ---- */

static void partial_runs_come_in_parts(void **state) {
  waited setup = setup_partial(*state);
  step_spec first = {
      .feed_names = {"a:0"}, .feed_values = {1}, .feed_count = 1, .partial = setup.text};
  assert_int_equal(run_step(*state, &first).code, DP_OK);
  step_spec second = {.feed_names = {"b:0"},
                      .feed_values = {2},
                      .feed_count = 1,
                      .fetch = "sum:0",
                      .partial = setup.text};
  assert_int_equal(run_step(*state, &second).number, 3);
  assert_int_equal(run_step(*state, &second).code, DP_INVALID_ARGUMENT);
}

static void a_partial_fetch_without_its_feed_is_refused(void **state) {
  waited setup = setup_partial(*state);
  step_spec early = {.feed_names = {"a:0"},
                     .feed_values = {1},
                     .feed_count = 1,
                     .fetch = "sum:0",
                     .partial = setup.text};
  waited wait = run_step(*state, &early);
  assert_int_equal(wait.code, DP_INVALID_ARGUMENT);
  assert_non_null(strstr(wait.message, "can't be computed"));
}

static void an_unfinished_partial_run_does_not_outlive_its_session(void **state) {
  waited setup = setup_partial(*state);
  step_spec first = {
      .feed_names = {"a:0"}, .feed_values = {1}, .feed_count = 1, .partial = setup.text};
  assert_int_equal(run_step(*state, &first).code, DP_OK);
}

/* ---- Faults ---- */

static void a_fault_in_a_worker_is_what_the_client_sees(void **state) {
  assert_int_equal(run_step(*state, &sum_of_3_and_4).number, 7);
  assert_null(dp_fault_configure("worker.run_graph=error:DATA_LOSS@1"));
  assert_int_equal(run_step(*state, &sum_of_3_and_4).code, DP_DATA_LOSS);
  dp_fault_clear();
  assert_int_equal(run_step(*state, &sum_of_3_and_4).number, 7);
}

/* ---- Threads ---- */

static void *run_many(void *arg) {
  for (int i = 0; i < 50; i++) {
    step_spec spec = sum_of_3_and_4;
    spec.feed_values[0] = i;
    spec.fetch = i % 3 ? "sum:0" : "twice:0";
    waited wait = run_step(arg, &spec);
    assert_int_equal(wait.code, DP_OK);
    assert_int_equal(wait.number, i % 3 ? i + 4 : 2 * (i + 4));
  }
  return NULL;
}

static void many_steps_at_once(void **state) {
  pthread_t threads[4];
  for (int i = 0; i < 4; i++)
    pthread_create(&threads[i], NULL, run_many, *state);
  for (int i = 0; i < 4; i++)
    pthread_join(threads[i], NULL);
}

#define TASK_TEST(name) cmocka_unit_test_setup_teardown(name, start_task, stop_task)

int main(void) {
  const struct CMUnitTest tests[] = {
      TASK_TEST(a_step_gives_what_was_asked),
      TASK_TEST(fetched_tensors_go_with_the_answer),
      TASK_TEST(feeding_in_the_middle_skips_what_is_before),
      TASK_TEST(targets_run_and_return_nothing),
      TASK_TEST(a_missing_feed_names_the_placeholder),
      TASK_TEST(unknown_names_are_errors_and_harmless),
      TASK_TEST(an_unknown_session_is_aborted),
      TASK_TEST(a_deadline_ends_a_waiting_step),
      TASK_TEST(a_client_that_goes_away_ends_its_step),
      TASK_TEST(closing_a_session_ends_its_steps),
      TASK_TEST(stopping_a_task_ends_what_waits),
      TASK_TEST(a_waiting_step_can_be_seen),
      TASK_TEST(a_graph_grows_by_version),
      TASK_TEST(callables_run_by_number),
      TASK_TEST(partial_runs_come_in_parts),
      TASK_TEST(a_partial_fetch_without_its_feed_is_refused),
      TASK_TEST(an_unfinished_partial_run_does_not_outlive_its_session),
      TASK_TEST(a_fault_in_a_worker_is_what_the_client_sees),
      TASK_TEST(many_steps_at_once),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
