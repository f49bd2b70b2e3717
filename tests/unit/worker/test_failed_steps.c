/* What a peer hears that asks for a chunk of a step which has failed here. Two clean up after such
 * a step, the master's CleanupGraph and the end of its cancelled run, in any order; the peer may
 * come before, between or after them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>
#include "base/clock.h"
#include "base/event.h"
#include "base/memory.h"
#include "graph/graph.h"
#include "kernels/kernels.h"
#include "worker/worker.h"

#define TASK "/job:local/replica:0/task:0"
#define DEVICE TASK "/device:CPU:0"

enum { STEP = 77 };

/* ---- A task of our own, with a graph that fails ---- */

typedef struct fixture {
  dp_pool *compute, *blocking;
  dp_device *device;
  dp_worker *worker;
  char graph[64]; /* its handle */
} fixture;

static void registered(void *arg, dp_status *status, const void *response) {
  assert_null(status);
  const Tensorflow__RegisterGraphResponse *answer = response;
  snprintf(((fixture *)arg)->graph, sizeof(((fixture *)arg)->graph), "%s", answer->graph_handle);
}

/* One placeholder, which nobody feeds. */
static void register_graph(fixture *task) {
  dp_arena *arena = dp_arena_create();
  dp_graph *graph = dp_graph_create(NULL);
  dp_attr dtype = {.name = "dtype", .kind = DP_ATTR_TYPE, .type = DP_INT64};
  dp_node_builder builder = {.name = "a",
                             .op = dp_op_find("Placeholder"),
                             .device = DEVICE,
                             .attrs = &dtype,
                             .attr_count = 1};
  dp_node *node = NULL;
  assert_null(dp_graph_add(graph, &builder, &node));
  Tensorflow__RegisterGraphRequest request = TENSORFLOW__REGISTER_GRAPH_REQUEST__INIT;
  request.graph_def = dp_graph_export(graph, arena, true);
  request.collective_graph_key = 1;
  dp_worker_call(task->worker, DP_WORKER_REGISTER_GRAPH, &request, NULL, registered, task);
  assert_true(task->graph[0]);
  dp_graph_destroy(graph);
  dp_arena_destroy(arena);
}

static int start_task(void **state) {
  dp_kernels_register();
  fixture *task = DP_NEW(fixture);
  task->compute = dp_pool_create("compute", 2);
  task->blocking = dp_pool_create("blocking", 1);
  task->device = dp_device_create(DEVICE, "CPU", task->compute, task->blocking);
  dp_worker_options options = {.task = TASK,
                               .devices = &task->device,
                               .device_count = 1,
                               .compute = task->compute,
                               .blocking = task->blocking};
  task->worker = dp_worker_create(&options);
  register_graph(task);
  *state = task;
  return 0;
}

static int stop_task(void **state) {
  fixture *task = *state;
  dp_worker_destroy(task->worker);
  dp_device_release(task->device);
  dp_pool_destroy(task->compute);
  dp_pool_destroy(task->blocking);
  dp_free(task);
  return 0;
}

/* ---- A peer that asks for a chunk ---- */

typedef struct peer {
  dp_event event;
  dp_code code;
  char message[256];
} peer;

static void chunk_answered(void *arg, dp_status *status, dp_tensor *value) {
  peer *one = arg;
  one->code = dp_status_code(status);
  snprintf(one->message, sizeof(one->message), "%s", dp_status_message(status));
  dp_status_release(status);
  dp_event_notify(&one->event);
}

static void ask_for_chunk(fixture *task, peer *one) {
  Tensorflow__RecvBufRequest request = TENSORFLOW__RECV_BUF_REQUEST__INIT;
  request.step_id = STEP;
  request.buf_rendezvous_key = (char *)"a chunk";
  request.src_device = (char *)DEVICE;
  dp_event_init(&one->event);
  dp_worker_receive_buffer(task->worker, &request, NULL, chunk_answered, one);
}

static void expect_reason(peer *one) {
  assert_true(dp_event_wait_until(&one->event, dp_clock_deadline_ms(20000)));
  dp_event_deinit(&one->event);
  assert_int_equal(one->code, DP_ABORTED);
  assert_non_null(strstr(one->message, "The step has failed on " TASK ": "));
}

/* ---- The step ---- */

typedef struct run {
  fixture *task;
  dp_event event;
  dp_cancel *cancel; /* triggered before the run is answered, as a master does; or NULL */
  peer *late;        /* asks after a clean-up, before the run is let go; or NULL */
} run;

static void ignore_answer(void *arg, dp_status *status, const void *response) {
  assert_null(status);
}

static void clean_up(fixture *task) {
  Tensorflow__CleanupGraphRequest request = TENSORFLOW__CLEANUP_GRAPH_REQUEST__INIT;
  request.step_id = STEP;
  dp_worker_call(task->worker, DP_WORKER_CLEANUP_GRAPH, &request, NULL, ignore_answer, NULL);
}

static void run_done(void *arg, dp_status *status, dp_run_graph_response *response) {
  run *one = arg;
  assert_int_equal(dp_status_code(status), DP_INVALID_ARGUMENT);
  if (one->cancel)
    dp_cancel_trigger(one->cancel, dp_status_retain(status));
  dp_status_release(status);
  if (one->late) {
    clean_up(one->task);
    ask_for_chunk(one->task, one->late);
  }
  dp_event_notify(&one->event);
}

static void run_failing_step(run *one) {
  dp_event_init(&one->event);
  dp_run_graph_request request = {
      .session_handle = "", .graph_handle = one->task->graph, .step_id = STEP};
  dp_worker_run_graph(one->task->worker, &request, one->cancel, run_done, one);
  assert_true(dp_event_wait_until(&one->event, dp_clock_deadline_ms(20000)));
  dp_event_deinit(&one->event);
}

static void who_comes_before_a_clean_up_hears_why(void **state) {
  run one = {.task = *state};
  peer chunk;
  ask_for_chunk(*state, &chunk);
  run_failing_step(&one);
  expect_reason(&chunk);
}

static void who_comes_between_two_clean_ups_hears_why(void **state) {
  run one = {.task = *state};
  peer chunk;
  run_failing_step(&one);
  clean_up(*state);
  ask_for_chunk(*state, &chunk);
  clean_up(*state);
  expect_reason(&chunk);
}

/* A peer that comes late waits for the step to be run again, and the end of the old run is not the
 * end of that wait. */
static void a_run_cleans_up_its_own_step_alone(void **state) {
  peer chunk;
  run one = {.task = *state, .cancel = dp_cancel_create(NULL, DP_FOREVER), .late = &chunk};
  int64_t before = dp_clock_nanos();
  run_failing_step(&one);
  expect_reason(&chunk);
  assert_true(dp_clock_nanos() - before >= INT64_C(1900000000));
  dp_cancel_release(one.cancel);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(who_comes_before_a_clean_up_hears_why, start_task, stop_task),
      cmocka_unit_test_setup_teardown(who_comes_between_two_clean_ups_hears_why, start_task,
                                      stop_task),
      cmocka_unit_test_setup_teardown(a_run_cleans_up_its_own_step_alone, start_task, stop_task),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
