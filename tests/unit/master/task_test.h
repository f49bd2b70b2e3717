/* A task of its own, master and worker without a network, with one session over a small graph; and
 * calls that wait for their answer. Each test starts and stops one. */
#ifndef DP_TEST_MASTER_TASK_TEST_H
#define DP_TEST_MASTER_TASK_TEST_H

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>
#include "base/event.h"
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

static inline size_t one_task(void *cluster, const char *const **names_out) {
  static const char *const names[] = {TASK};
  *names_out = names;
  return 1;
}

static inline dp_status *no_peer(void *cluster, const char *task, dp_worker_peer **peer_out) {
  return dp_status_create(DP_NOT_FOUND, "%s", task);
}

static const dp_cluster_ops cluster = {.tasks = one_task, .find = no_peer};

/* ---- Waiting for answers ---- */

typedef struct waited {
  dp_event event;
  dp_code code;
  char message[512];
  char text[64];  /* a handle */
  int64_t number; /* a version, or the first element of the first tensor */
  size_t count;
} waited;

static inline void begin_wait(waited *wait) {
  *wait = (waited){.number = -1};
  dp_event_init(&wait->event);
}

static inline void take_status(waited *wait, dp_status *status) {
  wait->code = dp_status_code(status);
  snprintf(wait->message, sizeof(wait->message), "%s", dp_status_message(status));
  dp_status_release(status);
}

static inline void end_wait(waited *wait) {
  assert_true(dp_event_wait_until(&wait->event, dp_clock_deadline_ms(20000)));
  dp_event_deinit(&wait->event);
}

static inline void created(void *arg, dp_status *status, const void *response) {
  waited *wait = arg;
  if (response) {
    const Tensorflow__CreateSessionResponse *answer = response;
    snprintf(wait->text, sizeof(wait->text), "%s", answer->session_handle);
    wait->number = answer->graph_version;
  }
  take_status(wait, status);
  dp_event_notify(&wait->event);
}

static inline void answered(void *arg, dp_status *status, const void *response) {
  waited *wait = arg;
  take_status(wait, status);
  dp_event_notify(&wait->event);
}

static inline void extended(void *arg, dp_status *status, const void *response) {
  if (response)
    ((waited *)arg)->number =
        ((const Tensorflow__ExtendSessionResponse *)response)->new_graph_version;
  answered(arg, status, response);
}

static inline void set_up(void *arg, dp_status *status, const void *response) {
  if (response)
    snprintf(((waited *)arg)->text, sizeof(((waited *)arg)->text), "%s",
             ((const Tensorflow__PartialRunSetupResponse *)response)->partial_run_handle);
  answered(arg, status, response);
}

static inline void made(void *arg, dp_status *status, const void *response) {
  if (response)
    ((waited *)arg)->number = ((const Tensorflow__MakeCallableResponse *)response)->handle;
  answered(arg, status, response);
}

static inline void step_done(void *arg, dp_status *status, dp_run_step_response *response) {
  waited *wait = arg;
  if (response) {
    wait->count = response->tensor_count;
    if (response->tensor_count > 0)
      wait->number = dp_tensor_int_at(&response->tensors[0].tensor, 0);
  }
  take_status(wait, status);
  dp_event_notify(&wait->event);
}

static inline void callable_done(void *arg, dp_status *status, dp_run_callable_response *response) {
  waited *wait = arg;
  if (response && response->fetch_count > 0)
    wait->number = dp_tensor_int_at(&response->fetches[0], 0);
  take_status(wait, status);
  dp_event_notify(&wait->event);
}

/* ---- A small graph: a, b fed; sum = a + b; twice = sum + sum; never = _Recv of nothing ---- */

static inline dp_node *add_node(dp_graph *graph, const char *op, const char *name,
                                int32_t input_count, const dp_input *inputs, const dp_attr *attr) {
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

static inline void add_waiting_node(dp_graph *graph) {
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

static inline dp_graph *make_graph(void) {
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

static inline void create_session(fixture *task) {
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

static inline int start_task(void **state) {
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

static inline int stop_task(void **state) {
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

static inline void start_step(fixture *task, const step_spec *spec, dp_cancel *cancel,
                              waited *wait) {
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

static inline waited run_step(fixture *task, const step_spec *spec) {
  waited wait;
  begin_wait(&wait);
  start_step(task, spec, NULL, &wait);
  end_wait(&wait);
  return wait;
}

static const step_spec sum_of_3_and_4 = {
    .feed_names = {"a:0", "b:0"}, .feed_values = {3, 4}, .feed_count = 2, .fetch = "sum:0"};

/* ---- Extending, callables ---- */

static inline waited extend(fixture *task, int64_t version, const char *name) {
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

static inline int64_t make_callable_of(fixture *task, Tensorflow__CallableOptions *options) {
  Tensorflow__MakeCallableRequest request = TENSORFLOW__MAKE_CALLABLE_REQUEST__INIT;
  request.session_handle = task->handle;
  request.options = options;
  waited wait;
  begin_wait(&wait);
  dp_master_call(task->master, DP_MASTER_MAKE_CALLABLE, &request, NULL, made, &wait);
  end_wait(&wait);
  assert_int_equal(wait.code, DP_OK);
  return wait.number;
}

/* sum of a and b */
static inline int64_t make_callable(fixture *task) {
  Tensorflow__CallableOptions options = TENSORFLOW__CALLABLE_OPTIONS__INIT;
  char *feeds[] = {"a:0", "b:0"}, *fetches[] = {"sum:0"};
  options.feed = feeds;
  options.n_feed = 2;
  options.fetch = fetches;
  options.n_fetch = 1;
  return make_callable_of(task, &options);
}

static inline waited run_callable(fixture *task, int64_t handle, size_t feed_count) {
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

/* a and b, then their sum */
static inline waited setup_partial(fixture *task) {
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

#endif
