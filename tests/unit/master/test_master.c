/* Master and worker of one task, without a network: sessions, steps, callables, partial runs, and
 * what is left when something goes wrong. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>
#include "base/event.h"
#include "base/fault.h"
#include "base/memory.h"
#include "graph/graph.h"
#include "kernels/kernels.h"
#include "master/master.h"
#include "wire/control.h"
#include "wire/master.pb-c.h"

#define TASK "/job:local/replica:0/task:0"

/* ---- A task of our own ---- */

typedef struct fixture {
  dp_pool *compute, *blocking;
  dp_device *devices[2];
  dp_worker *worker;
  dp_master *master;
  char handle[64]; /* of the session */
} fixture;

static size_t one_task(void *cluster, const char *const **names_out) {
  static const char *const names[] = {TASK};
  *names_out = names;
  return 1;
}

static dp_status *no_peer(void *cluster, const char *task, dp_worker_peer **peer_out) {
  return dp_status_create(DP_NOT_FOUND, "%s", task);
}

static const dp_master_cluster_ops cluster = {one_task, no_peer, NULL, NULL};

/* ---- Waiting for answers ---- */

typedef struct waited {
  dp_event event;
  dp_code code;
  char message[512];
  char text[64];  /* a handle */
  int64_t number; /* a version, or the first element of the first tensor */
  size_t count;
} waited;

static void begin_wait(waited *wait) {
  *wait = (waited){.number = -1};
  dp_event_init(&wait->event);
}

static void take_status(waited *wait, dp_status *status) {
  wait->code = dp_status_code(status);
  snprintf(wait->message, sizeof(wait->message), "%s", dp_status_message(status));
  dp_status_release(status);
}

static void end_wait(waited *wait) {
  assert_true(dp_event_wait_until(&wait->event, dp_clock_deadline_ms(20000)));
  dp_event_deinit(&wait->event);
}

static void created(void *arg, dp_status *status, const void *response) {
  waited *wait = arg;
  if (response) {
    const Tensorflow__CreateSessionResponse *answer = response;
    snprintf(wait->text, sizeof(wait->text), "%s", answer->session_handle);
    wait->number = answer->graph_version;
  }
  take_status(wait, status);
  dp_event_notify(&wait->event);
}

static void answered(void *arg, dp_status *status, const void *response) {
  waited *wait = arg;
  take_status(wait, status);
  dp_event_notify(&wait->event);
}

static void extended(void *arg, dp_status *status, const void *response) {
  if (response)
    ((waited *)arg)->number =
        ((const Tensorflow__ExtendSessionResponse *)response)->new_graph_version;
  answered(arg, status, response);
}

static void set_up(void *arg, dp_status *status, const void *response) {
  if (response)
    snprintf(((waited *)arg)->text, sizeof(((waited *)arg)->text), "%s",
             ((const Tensorflow__PartialRunSetupResponse *)response)->partial_run_handle);
  answered(arg, status, response);
}

static void made(void *arg, dp_status *status, const void *response) {
  if (response)
    ((waited *)arg)->number = ((const Tensorflow__MakeCallableResponse *)response)->handle;
  answered(arg, status, response);
}

static void step_done(void *arg, dp_status *status, dp_run_step_response *response) {
  waited *wait = arg;
  if (response) {
    wait->count = response->tensor_count;
    if (response->tensor_count > 0)
      wait->number = dp_tensor_int_at(&response->tensors[0].tensor, 0);
  }
  take_status(wait, status);
  dp_event_notify(&wait->event);
}

static void callable_done(void *arg, dp_status *status, dp_run_callable_response *response) {
  waited *wait = arg;
  if (response)
    wait->number = dp_tensor_int_at(&response->fetches[0], 0);
  take_status(wait, status);
  dp_event_notify(&wait->event);
}

/* ---- A small graph: a, b fed; sum = a + b; twice = sum + sum; never = _Recv of nothing ---- */

static dp_node *add_node(dp_graph *graph, const char *op, const char *name, int32_t input_count,
                         const dp_input *inputs, const dp_attr *attr) {
  dp_node_builder builder = {.name = name,
                             .op = dp_op_find(op),
                             .inputs = inputs,
                             .input_count = input_count,
                             .attrs = attr,
                             .attr_count = attr ? 1 : 0};
  dp_node *node = NULL;
  assert_null(dp_graph_add(graph, &builder, &node));
  return node;
}

static void add_waiting_node(dp_graph *graph) {
  const dp_attr attrs[] = {
      {.name = "tensor_type", .kind = DP_ATTR_TYPE, .type = DP_INT64},
      {.name = "tensor_name", .kind = DP_ATTR_STRING, .string = {"nothing", 7}},
      {.name = "send_device", .kind = DP_ATTR_STRING, .string = {TASK "/device:CPU:0", 41}},
      {.name = "recv_device", .kind = DP_ATTR_STRING, .string = {TASK "/device:CPU:0", 41}},
      {.name = "send_device_incarnation", .kind = DP_ATTR_INT, .integer = 1},
  };
  dp_node_builder builder = {
      .name = "never", .op = dp_op_find("_Recv"), .attrs = attrs, .attr_count = 5};
  dp_node *node = NULL;
  assert_null(dp_graph_add(graph, &builder, &node));
}

static dp_graph *make_graph(void) {
  dp_graph *graph = dp_graph_create(NULL);
  dp_attr dtype = {.name = "dtype", .kind = DP_ATTR_TYPE, .type = DP_INT64};
  dp_attr type = {.name = "T", .kind = DP_ATTR_TYPE, .type = DP_INT64};
  dp_node *a = add_node(graph, "Placeholder", "a", 0, NULL, &dtype);
  dp_node *b = add_node(graph, "Placeholder", "b", 0, NULL, &dtype);
  dp_node *sum = add_node(graph, "AddV2", "sum", 2, (dp_input[]){{a->id, 0}, {b->id, 0}}, &type);
  add_node(graph, "AddV2", "twice", 2, (dp_input[]){{sum->id, 0}, {sum->id, 0}}, &type);
  add_waiting_node(graph);
  return graph;
}

static void create_session(fixture *task) {
  dp_arena *arena = dp_arena_create();
  dp_graph *graph = make_graph();
  Tensorflow__CreateSessionRequest request = TENSORFLOW__CREATE_SESSION_REQUEST__INIT;
  request.graph_def = dp_graph_export(graph, arena, true);
  waited wait;
  begin_wait(&wait);
  dp_master_call(task->master, DP_MASTER_CREATE_SESSION, &request, NULL, created, &wait);
  end_wait(&wait);
  assert_int_equal(wait.code, DP_OK);
  snprintf(task->handle, sizeof(task->handle), "%s", wait.text);
  dp_graph_destroy(graph);
  dp_arena_destroy(arena);
}

static int start_task(void **state) {
  dp_kernels_register();
  fixture *task = DP_NEW(fixture);
  task->compute = dp_pool_create("compute", 2);
  task->blocking = dp_pool_create("blocking", 2);
  task->devices[0] = dp_device_create(TASK "/device:CPU:0", "CPU", task->compute, task->blocking);
  task->devices[1] = dp_device_create(TASK "/device:CPU:1", "CPU", task->compute, task->blocking);
  dp_worker_options worker = {.task = TASK,
                              .devices = task->devices,
                              .device_count = 2,
                              .compute = task->compute,
                              .blocking = task->blocking};
  task->worker = dp_worker_create(&worker);
  dp_master_options master = {
      .worker = task->worker, .cluster = &cluster, .blocking = task->blocking};
  task->master = dp_master_create(&master);
  create_session(task);
  *state = task;
  return 0;
}

static int stop_task(void **state) {
  fixture *task = *state;
  dp_master_destroy(task->master);
  dp_worker_destroy(task->worker);
  dp_device_release(task->devices[0]);
  dp_device_release(task->devices[1]);
  dp_pool_destroy(task->compute);
  dp_pool_destroy(task->blocking);
  dp_free(task);
  return 0;
}

/* ---- Running ---- */

typedef struct step_spec {
  const char *feed_names[2];
  int64_t feed_values[2];
  size_t feed_count;
  const char *fetch;
  const char *target;
  const char *partial;
  int64_t timeout_ms;
} step_spec;

static void start_step(fixture *task, const step_spec *spec, dp_cancel *cancel, waited *wait) {
  dp_named_tensor feeds[2] = {{0}};
  for (size_t i = 0; i < spec->feed_count; i++) {
    feeds[i].name = spec->feed_names[i];
    assert_null(dp_tensor_scalar_int64(spec->feed_values[i], &feeds[i].tensor));
  }
  Tensorflow__RunOptions options = TENSORFLOW__RUN_OPTIONS__INIT;
  options.timeout_in_ms = spec->timeout_ms;
  const char *fetches[] = {spec->fetch};
  const char *targets[] = {spec->target};
  dp_run_step_request request = {.session_handle = task->handle,
                                 .feeds = feeds,
                                 .feed_count = spec->feed_count,
                                 .fetches = fetches,
                                 .fetch_count = spec->fetch ? 1 : 0,
                                 .targets = targets,
                                 .target_count = spec->target ? 1 : 0,
                                 .options = &options,
                                 .partial_run_handle = spec->partial ? spec->partial : ""};
  dp_master_run_step(task->master, &request, cancel, step_done, wait);
  for (size_t i = 0; i < spec->feed_count; i++)
    dp_tensor_deinit(&feeds[i].tensor);
}

static waited run_step(fixture *task, const step_spec *spec) {
  waited wait;
  begin_wait(&wait);
  start_step(task, spec, NULL, &wait);
  end_wait(&wait);
  return wait;
}

static const step_spec sum_of_3_and_4 = {
    .feed_names = {"a:0", "b:0"}, .feed_values = {3, 4}, .feed_count = 2, .fetch = "sum:0"};

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

static waited extend(fixture *task, int64_t version, const char *name) {
  dp_arena *arena = dp_arena_create();
  dp_graph *graph = dp_graph_create(NULL);
  add_node(graph, "NoOp", name, 0, NULL, NULL);
  Tensorflow__ExtendSessionRequest request = TENSORFLOW__EXTEND_SESSION_REQUEST__INIT;
  request.session_handle = task->handle;
  request.current_graph_version = version;
  request.graph_def = dp_graph_export(graph, arena, true);
  waited wait;
  begin_wait(&wait);
  dp_master_call(task->master, DP_MASTER_EXTEND_SESSION, &request, NULL, extended, &wait);
  end_wait(&wait);
  dp_graph_destroy(graph);
  dp_arena_destroy(arena);
  return wait;
}

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

static int64_t make_callable(fixture *task) {
  Tensorflow__CallableOptions options = TENSORFLOW__CALLABLE_OPTIONS__INIT;
  char *feeds[] = {"a:0", "b:0"}, *fetches[] = {"sum:0"};
  options.feed = feeds;
  options.n_feed = 2;
  options.fetch = fetches;
  options.n_fetch = 1;
  Tensorflow__MakeCallableRequest request = TENSORFLOW__MAKE_CALLABLE_REQUEST__INIT;
  request.session_handle = task->handle;
  request.options = &options;
  waited wait;
  begin_wait(&wait);
  dp_master_call(task->master, DP_MASTER_MAKE_CALLABLE, &request, NULL, made, &wait);
  end_wait(&wait);
  assert_int_equal(wait.code, DP_OK);
  return wait.number;
}

static waited run_callable(fixture *task, int64_t handle, size_t feed_count) {
  dp_tensor feeds[2] = {{0}};
  for (size_t i = 0; i < 2; i++)
    assert_null(dp_tensor_scalar_int64(20, &feeds[i]));
  dp_run_callable_request request = {
      .session_handle = task->handle, .handle = handle, .feeds = feeds, .feed_count = feed_count};
  waited wait;
  begin_wait(&wait);
  dp_master_run_callable(task->master, &request, NULL, callable_done, &wait);
  end_wait(&wait);
  dp_tensor_deinit(&feeds[0]);
  dp_tensor_deinit(&feeds[1]);
  return wait;
}

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

static waited setup_partial(fixture *task) {
  Tensorflow__PartialRunSetupRequest request = TENSORFLOW__PARTIAL_RUN_SETUP_REQUEST__INIT;
  char *feeds[] = {"a:0", "b:0"}, *fetches[] = {"a:0", "sum:0"};
  request.session_handle = task->handle;
  request.feed = feeds;
  request.n_feed = 2;
  request.fetch = fetches + 1;
  request.n_fetch = 1;
  waited wait;
  begin_wait(&wait);
  dp_master_call(task->master, DP_MASTER_PARTIAL_RUN_SETUP, &request, NULL, set_up, &wait);
  end_wait(&wait);
  assert_int_equal(wait.code, DP_OK);
  return wait;
}

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
