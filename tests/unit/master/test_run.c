/* The road of a run: which plan it takes, when its workers hear of its end, and that sessions are
 * found and watched apart from each other. */
#include "master/master_internal.h"
#include "task_test.h"

/* ---- Clean-up ---- */

typedef struct seen_end {
  waited wait;
  fixture *task;
  size_t steps; /* that the worker knew while the client was answered */
} seen_end;

static void note_end(void *arg, dp_status *status, dp_run_step_response *response) {
  seen_end *seen = arg;
  dp_worker_counts counts;
  dp_worker_get_counts(seen->task->worker, &counts);
  seen->steps = counts.steps;
  step_done(&seen->wait, status, response);
}

static void run_and_look(seen_end *seen, const char *fetch, Tensorflow__RunOptions *options) {
  const char *fetches[] = {fetch};
  dp_run_step_request request = {.session_handle = seen->task->handle,
                                 .fetches = fetches,
                                 .fetch_count = 1,
                                 .options = options,
                                 .partial_run_handle = ""};
  dp_named_tensor feeds[2] = {{.name = "a:0"}, {.name = "b:0"}};
  for (int i = 0; i < 2; i++)
    assert_null(dp_tensor_scalar_int64(5, &feeds[i].tensor));
  request.feeds = feeds;
  request.feed_count = strcmp(fetch, "sum:0") == 0 ? 2 : 0;
  begin_wait(&seen->wait);
  dp_master_run_step(seen->task->master, &request, NULL, note_end, seen);
  end_wait(&seen->wait);
  for (int i = 0; i < 2; i++)
    dp_tensor_deinit(&feeds[i].tensor);
}

static bool steps_become_none(dp_worker *worker) {
  dp_worker_counts counts = {.steps = 1};
  for (int64_t end = dp_clock_deadline_ms(20000); counts.steps > 0 && dp_clock_nanos() < end;) {
    dp_worker_get_counts(worker, &counts);
    dp_clock_sleep(100000);
  }
  return counts.steps == 0;
}

static void workers_clean_up_after_the_answer(void **state) {
  fixture *task = *state;
  seen_end seen = {.task = task};
  run_and_look(&seen, "sum:0", NULL);
  assert_int_equal(seen.wait.number, 10);
  assert_int_equal(seen.steps, 1);
  assert_true(steps_become_none(task->worker));
}

static void a_failed_step_is_cleaned_up_after_the_answer(void **state) {
  fixture *task = *state;
  seen_end seen = {.task = task};
  Tensorflow__RunOptions options = TENSORFLOW__RUN_OPTIONS__INIT;
  options.timeout_in_ms = 50;
  run_and_look(&seen, "never:0", &options);
  assert_int_equal(seen.wait.code, DP_DEADLINE_EXCEEDED);
  assert_true(steps_become_none(task->worker));
}

/* Its id may come back: whoever has it then must not be ended by a late clean-up. */
static void a_failed_step_with_collectives_is_cleaned_up_first(void **state) {
  fixture *task = *state;
  seen_end seen = {.task = task};
  Tensorflow__RunOptions options = TENSORFLOW__RUN_OPTIONS__INIT;
  Tensorflow__RunOptions__Experimental experimental = TENSORFLOW__RUN_OPTIONS__EXPERIMENTAL__INIT;
  experimental.collective_graph_key = 7;
  options.experimental = &experimental;
  options.timeout_in_ms = 50;
  run_and_look(&seen, "never:0", &options);
  assert_int_equal(seen.wait.code, DP_DEADLINE_EXCEEDED);
  assert_int_equal(seen.steps, 0);
  options.timeout_in_ms = 0;
  run_and_look(&seen, "sum:0", &options);
  assert_int_equal(seen.wait.number, 10);
  assert_int_equal(seen.steps, 1);
}

/* ---- Fetches ---- */

static void twice_fetched(void *arg, dp_status *status, dp_run_step_response *response) {
  waited *wait = arg;
  if (response && response->tensor_count == 3) {
    wait->number = 0;
    for (size_t i = 0; i < 3; i++)
      wait->number = wait->number * 100 + dp_tensor_int_at(&response->tensors[i].tensor, 0);
  }
  take_status(wait, status);
  dp_event_notify(&wait->event);
}

static void a_tensor_can_be_fetched_twice(void **state) {
  fixture *task = *state;
  const char *fetches[] = {"sum:0", "twice:0", "sum:0"};
  dp_named_tensor feeds[2] = {{.name = "a:0"}, {.name = "b:0"}};
  for (int i = 0; i < 2; i++)
    assert_null(dp_tensor_scalar_int64(5, &feeds[i].tensor));
  dp_run_step_request request = {.session_handle = task->handle,
                                 .feeds = feeds,
                                 .feed_count = 2,
                                 .fetches = fetches,
                                 .fetch_count = 3,
                                 .partial_run_handle = ""};
  waited wait;
  begin_wait(&wait);
  dp_master_run_step(task->master, &request, NULL, twice_fetched, &wait);
  end_wait(&wait);
  for (int i = 0; i < 2; i++)
    dp_tensor_deinit(&feeds[i].tensor);
  assert_string_equal(wait.message, "");
  assert_int_equal(wait.number, 102010);
}

/* ---- Callables ---- */

static void a_callable_keeps_its_plan(void **state) {
  fixture *task = *state;
  int64_t handle = make_callable(task);
  assert_int_equal(run_callable(task, handle, 2).number, 40);
  master_session *session = dp_session_table_find(&task->master->sessions, task->handle);
  assert_non_null(session);
  assert_int_equal(session->plans.count, 1);
  dp_master_plans_drop(session); /* the callable's goes on */
  assert_int_equal(run_callable(task, handle, 2).number, 40);
  assert_int_equal(extend(task, 1, "c").code, DP_OK);
  assert_int_equal(run_callable(task, handle, 2).number, 40);
  assert_int_equal(session->plans.count, 0);
  dp_worker_counts counts;
  dp_worker_get_counts(task->worker, &counts);
  assert_int_equal(counts.graphs, 1);
  dp_master_session_release(session);
}

static void a_callable_whose_plan_failed_tries_again(void **state) {
  fixture *task = *state;
  char *targets[] = {"later"};
  Tensorflow__CallableOptions options = TENSORFLOW__CALLABLE_OPTIONS__INIT;
  options.target = targets;
  options.n_target = 1;
  int64_t handle = make_callable_of(task, &options);
  assert_int_equal(run_callable(task, handle, 0).code, DP_NOT_FOUND);
  assert_int_equal(extend(task, 1, "later").code, DP_OK);
  assert_int_equal(run_callable(task, handle, 0).code, DP_OK);
}

static void callables_and_steps_share_a_plan(void **state) {
  fixture *task = *state;
  int64_t handle = make_callable(task);
  assert_int_equal(run_step(task, &sum_of_3_and_4).number, 7);
  assert_int_equal(run_callable(task, handle, 2).number, 40);
  dp_worker_counts counts;
  dp_worker_get_counts(task->worker, &counts);
  assert_int_equal(counts.graphs, 1);
}

/* ---- Partial runs ---- */

static void a_refused_call_ends_the_partial_run_on_its_workers(void **state) {
  fixture *task = *state;
  waited setup = setup_partial(task);
  step_spec first = {
      .feed_names = {"a:0"}, .feed_values = {1}, .feed_count = 1, .partial = setup.text};
  assert_int_equal(run_step(task, &first).code, DP_OK);
  assert_int_equal(run_step(task, &first).code, DP_INVALID_ARGUMENT);
  assert_true(steps_become_none(task->worker));
}

/* ---- Many sessions ---- */

static void *open_run_close(void *arg) {
  fixture own = *(fixture *)arg;
  waited wait;
  for (int i = 0; i < 10; i++) {
    create_session(&own);
    for (int k = 0; k < 5; k++)
      assert_int_equal(run_step(&own, &sum_of_3_and_4).number, 7);
    Tensorflow__CloseSessionRequest request = TENSORFLOW__CLOSE_SESSION_REQUEST__INIT;
    request.session_handle = own.handle;
    begin_wait(&wait);
    dp_master_call(own.master, DP_MASTER_CLOSE_SESSION, &request, NULL, answered, &wait);
    end_wait(&wait);
    assert_int_equal(wait.code, DP_OK);
  }
  return NULL;
}

static void sessions_come_and_go_beside_steps(void **state) {
  fixture *task = *state;
  pthread_t threads[3];
  for (int i = 0; i < 3; i++)
    pthread_create(&threads[i], NULL, open_run_close, task);
  for (int i = 0; i < 50; i++) {
    dp_text text = {0};
    assert_int_equal(run_step(task, &sum_of_3_and_4).number, 7);
    dp_master_describe(task->master, &text);
    assert_non_null(strstr(dp_text_string(&text), task->handle));
    dp_text_deinit(&text);
  }
  for (int i = 0; i < 3; i++)
    pthread_join(threads[i], NULL);
  assert_int_equal(dp_master_session_count(task->master), 1);
}

#define TASK_TEST(name) cmocka_unit_test_setup_teardown(name, start_task, stop_task)

int main(void) {
  const struct CMUnitTest tests[] = {
      TASK_TEST(workers_clean_up_after_the_answer),
      TASK_TEST(a_failed_step_is_cleaned_up_after_the_answer),
      TASK_TEST(a_failed_step_with_collectives_is_cleaned_up_first),
      TASK_TEST(a_tensor_can_be_fetched_twice),
      TASK_TEST(a_callable_keeps_its_plan),
      TASK_TEST(a_callable_whose_plan_failed_tries_again),
      TASK_TEST(callables_and_steps_share_a_plan),
      TASK_TEST(a_refused_call_ends_the_partial_run_on_its_workers),
      TASK_TEST(sessions_come_and_go_beside_steps),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
