/* A session whose target is a server of this process: it makes no call over the network, and
 * results, errors, deadlines and memory are as over the network. The same program runs both ways;
 * the way over the network is taken under an address that the server does not list as its own. */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include <downpour.h>
#include "base/clock.h"
#include "server/server.h"

static dp_server *start(int port) {
  dp_server_options options = {.port = port};
  dp_server *server = NULL;
  dp_status *status = dp_server_create(&options, &server);
  if (!status)
    status = dp_server_start(server);
  if (status)
    fail_msg("%s", dp_status_message(status));
  return server;
}

/* Calls that came over the network. */
static int network_calls(dp_server *server) {
  dp_text text = {0};
  dp_server_describe(server, &text);
  const char *at = strstr(dp_text_string(&text), "ever: ");
  int calls = -1;
  assert_int_equal(sscanf(at, "ever: %d calls", &calls), 1);
  dp_text_deinit(&text);
  return calls;
}

static void own_target(dp_server *server, char target[64]) {
  snprintf(target, 64, "%s", dp_server_target(server));
}

/* The resolver knows this spelling of the host, the list of doors does not. */
static void network_target(dp_server *server, char target[64]) {
  snprintf(target, 64, "grpc://LOCALHOST:%d", dp_server_port(server));
}

/* ---- A program ---- */

typedef struct program {
  TF_Graph *graph;
  TF_Output x, product, read, constant, dequeued, bad;
  TF_Operation *assign, *enqueue;
  TF_Session *session;
  TF_Status *status;
} program;

static void open_program(program *self, const char *target) {
  self->status = TF_NewStatus();
  self->graph = TF_NewGraph();
  dp_scope *scope = dp_scope_create(self->graph);
  self->x = dp_placeholder(scope, TF_FLOAT);
  self->constant = dp_const_floats(scope, DP_SHAPE(2), (float[]){6, 7});
  self->product = dp_mul(scope, self->x, self->constant);
  TF_Output variable =
      dp_variable_v2(scope, DP_SHAPE(2), TF_FLOAT, .shared_name = "in_process_variable");
  self->assign = dp_assign(scope, variable, self->x).oper;
  self->read = dp_identity(scope, variable);
  TF_Output queue = dp_fifo_queue_v2(scope, DP_TYPES(TF_FLOAT), .shared_name = target);
  self->enqueue = dp_queue_enqueue_v2(scope, queue, DP_OUTPUTS(self->x));
  self->dequeued = dp_output_at(dp_queue_dequeue_v2(scope, queue, DP_TYPES(TF_FLOAT)), 0);
  self->bad = dp_mat_mul(scope, self->x, self->x);
  if (!dp_scope_ok(scope))
    fail_msg("%s", dp_scope_message(scope));
  TF_SessionOptions *options = TF_NewSessionOptions();
  TF_SetTarget(options, target);
  self->session = TF_NewSession(self->graph, options, self->status);
  assert_int_equal(TF_GetCode(self->status), TF_OK);
  TF_DeleteSessionOptions(options);
  dp_scope_destroy(scope);
}

static void close_program(program *self) {
  TF_DeleteSession(self->session, self->status);
  TF_DeleteGraph(self->graph);
  TF_DeleteStatus(self->status);
}

static void ok(const program *self) {
  if (TF_GetCode(self->status) != TF_OK)
    fail_msg("%d %s", TF_GetCode(self->status), TF_Message(self->status));
}

static TF_Tensor *pair(float a, float b) {
  TF_Tensor *tensor = TF_AllocateTensor(TF_FLOAT, (int64_t[]){2}, 1, 2 * sizeof(float));
  float *values = TF_TensorData(tensor);
  values[0] = a;
  values[1] = b;
  return tensor;
}

static void expect_pair(const TF_Tensor *tensor, float a, float b) {
  const float *values = TF_TensorData(tensor);
  assert_true(values[0] == a && values[1] == b);
}

static TF_Tensor *fetch(program *self, TF_Tensor *fed, TF_Output output) {
  TF_Tensor *value = NULL;
  TF_SessionRun(self->session, NULL, &self->x, &fed, fed ? 1 : 0, &output, &value, 1, NULL, 0, NULL,
                self->status);
  return value;
}

static void run(program *self, TF_Tensor *fed, TF_Operation *target) {
  TF_SessionRun(self->session, NULL, &self->x, &fed, 1, NULL, NULL, 0,
                (const TF_Operation *const[]){target}, 1, NULL, self->status);
}

/* ---- The same both ways ---- */

static void check_memory(program *self) {
  TF_Tensor *fed = pair(1, 2);
  run(self, fed, self->assign);
  ok(self);
  run(self, fed, self->enqueue);
  ok(self);
  /* The client uses its memory again. */
  ((float *)TF_TensorData(fed))[0] = 100;
  TF_Tensor *read = fetch(self, NULL, self->read), *dequeued = fetch(self, NULL, self->dequeued);
  ok(self);
  expect_pair(read, 1, 2);
  expect_pair(dequeued, 1, 2);
  /* What was fetched stays, and is the client's to write. */
  run(self, fed, self->assign);
  ok(self);
  expect_pair(read, 1, 2);
  ((float *)TF_TensorData(read))[1] = 55;
  TF_DeleteTensor(read);
  read = fetch(self, NULL, self->read);
  ((float *)TF_TensorData(read))[0] = 55;
  TF_Tensor *again = fetch(self, NULL, self->read);
  expect_pair(again, 100, 2);
  TF_Tensor *constant = fetch(self, NULL, self->constant);
  ((float *)TF_TensorData(constant))[0] = 55;
  TF_DeleteTensor(constant);
  constant = fetch(self, NULL, self->constant);
  expect_pair(constant, 6, 7);
  TF_DeleteTensor(constant);
  TF_DeleteTensor(again);
  TF_DeleteTensor(read);
  TF_DeleteTensor(dequeued);
  TF_DeleteTensor(fed);
}

static void check_values(program *self) {
  for (int i = 0; i < 20; i++) {
    TF_Tensor *fed = pair((float)i, 1), *value = fetch(self, fed, self->product);
    ok(self);
    expect_pair(value, (float)(6 * i), 7);
    TF_DeleteTensor(value);
    TF_DeleteTensor(fed);
  }
}

/* A step that fails, and one that runs out of time; the text is compared between the ways. */
static void check_errors(program *self, char text[2048]) {
  TF_Tensor *fed = pair(1, 2);
  assert_null(fetch(self, fed, self->bad));
  int length = snprintf(text, 1024, "%d %s\n", TF_GetCode(self->status), TF_Message(self->status));
  assert_int_equal(TF_GetCode(self->status), TF_INVALID_ARGUMENT);
  assert_null(fetch(self, NULL, self->product)); /* nothing is fed */
  snprintf(text + length, 1024, "%d %s\n", TF_GetCode(self->status), TF_Message(self->status));
  TF_Buffer *limit = TF_NewBufferFromString("\x10\x64", 2); /* timeout_in_ms: 100 */
  TF_Tensor *value = NULL;
  int64_t before = dp_clock_nanos();
  TF_SessionRun(self->session, limit, NULL, NULL, 0, &self->dequeued, &value, 1, NULL, 0, NULL,
                self->status);
  assert_int_equal(TF_GetCode(self->status), TF_DEADLINE_EXCEEDED);
  assert_true(dp_clock_nanos() - before < INT64_C(5000000000));
  TF_SetStatus(self->status, TF_OK, "");
  TF_DeleteBuffer(limit);
  TF_DeleteTensor(fed);
}

/* Names of nodes and tasks are the same both ways; numbers of steps are not in these texts. */
static void both_ways_are_the_same(void **state) {
  dp_server *server = start(0);
  char targets[2][64], texts[2][2048];
  own_target(server, targets[0]);
  network_target(server, targets[1]);
  for (int i = 0; i < 2; i++) {
    int before = network_calls(server);
    program self;
    open_program(&self, targets[i]);
    check_values(&self);
    check_memory(&self);
    check_errors(&self, texts[i]);
    check_values(&self);
    close_program(&self);
    if (i == 0)
      assert_int_equal(network_calls(server), 0);
    else
      assert_true(network_calls(server) > before + 20);
  }
  assert_string_equal(texts[0], texts[1]);
  dp_server_destroy(server);
}

static void other_spellings_mean_it_too(void **state) {
  dp_server *server = start(0);
  const char *forms[] = {"grpc://localhost:%d", "grpc://127.0.0.1:%d"};
  for (int i = 0; i < 2; i++) {
    char target[64];
    snprintf(target, sizeof(target), forms[i], dp_server_port(server));
    program self;
    open_program(&self, target);
    check_values(&self);
    close_program(&self);
  }
  assert_int_equal(network_calls(server), 0);
  dp_server_destroy(server);
}

/* ---- Lives of different length ---- */

static void a_session_outlives_its_server(void **state) {
  dp_server *server = start(0);
  int port = dp_server_port(server);
  program used, unused;
  open_program(&used, dp_server_target(server));
  open_program(&unused, dp_server_target(server));
  check_values(&used);
  dp_server_shutdown(server, dp_clock_deadline_ms(1000));
  TF_Tensor *fed = pair(1, 2);
  assert_null(fetch(&used, fed, used.product));
  assert_int_equal(TF_GetCode(used.status), TF_UNAVAILABLE);
  dp_server_destroy(server);
  assert_null(fetch(&used, fed, used.product));
  assert_int_equal(TF_GetCode(used.status), TF_UNAVAILABLE);
  assert_non_null(strstr(TF_Message(used.status), "has stopped"));
  /* Another server at the same address: it does not know the old session, but takes a new one. */
  server = start(port);
  assert_null(fetch(&used, fed, used.product));
  assert_int_equal(TF_GetCode(used.status), TF_ABORTED);
  check_values(&unused);
  assert_int_equal(network_calls(server), 0);
  close_program(&unused);
  dp_server_destroy(server);
  close_program(&used);
  TF_DeleteTensor(fed);
}

typedef struct waiting_step {
  program *self;
  TF_Code code;
} waiting_step;

static void *wait_for_element(void *arg) {
  waiting_step *step = arg;
  assert_null(fetch(step->self, NULL, step->self->dequeued));
  step->code = TF_GetCode(step->self->status);
  return NULL;
}

static bool is_waiting(dp_server *server) {
  dp_text text = {0};
  dp_server_describe(server, &text);
  bool is_there = strstr(dp_text_string(&text), "QueueDequeueV2") != NULL;
  dp_text_deinit(&text);
  return is_there;
}

/* A step that waits in a queue does not hold up the end for longer than the grace. */
static void a_server_ends_under_a_step(void **state) {
  dp_server *server = start(0);
  program self;
  open_program(&self, dp_server_target(server));
  waiting_step step = {&self, TF_OK};
  pthread_t thread;
  pthread_create(&thread, NULL, wait_for_element, &step);
  while (!is_waiting(server))
    sched_yield();
  int64_t before = dp_clock_nanos();
  dp_server_shutdown(server, before + 100000000);
  dp_server_destroy(server);
  assert_true(dp_clock_nanos() - before < INT64_C(10000000000));
  pthread_join(thread, NULL);
  assert_int_equal(step.code, TF_UNAVAILABLE);
  close_program(&self);
}

/* ---- A cluster of two in one process ---- */

static void a_step_over_two_tasks(void **state) {
  dp_server *reserved[2] = {start(0), start(0)};
  char json[128];
  snprintf(json, sizeof(json), "{\"ps\":[\"localhost:%d\"],\"worker\":[\"localhost:%d\"]}",
           dp_server_port(reserved[0]), dp_server_port(reserved[1]));
  dp_server_destroy(reserved[0]);
  dp_server_destroy(reserved[1]);
  dp_cluster_spec *cluster;
  assert_null(dp_cluster_spec_parse(dp_view_of(json), &cluster));
  dp_server *servers[2];
  const char *jobs[] = {"ps", "worker"};
  for (int i = 0; i < 2; i++) {
    dp_server_options options = {.cluster = cluster, .job = jobs[i], .port = -1};
    assert_null(dp_server_create(&options, &servers[i]));
    assert_null(dp_server_start(servers[i]));
  }
  TF_Status *status = TF_NewStatus();
  TF_Graph *graph = TF_NewGraph();
  dp_scope *scope = dp_scope_create(graph);
  dp_scope *ps = dp_scope_on(scope, "/job:ps"), *worker = dp_scope_on(scope, "/job:worker");
  TF_Output x = dp_placeholder(worker, TF_FLOAT, .shape = DP_SHAPE());
  TF_Output there = dp_mul(ps, x, dp_const_float(ps, 3));
  TF_Output back = dp_add(worker, there, dp_const_float(worker, 1));
  assert_true(dp_scope_ok(scope));
  TF_SessionOptions *options = TF_NewSessionOptions();
  TF_SetTarget(options, dp_server_target(servers[1]));
  TF_Session *session = TF_NewSession(graph, options, status);
  for (int i = 0; i < 200; i++) {
    TF_Tensor *fed = TF_AllocateTensor(TF_FLOAT, NULL, 0, sizeof(float)), *value = NULL;
    *(float *)TF_TensorData(fed) = (float)i;
    TF_SessionRun(session, NULL, &x, &fed, 1, &back, &value, 1, NULL, 0, NULL, status);
    if (TF_GetCode(status) != TF_OK)
      fail_msg("%s", TF_Message(status));
    assert_true(*(float *)TF_TensorData(value) == (float)(3 * i + 1));
    TF_DeleteTensor(value);
    TF_DeleteTensor(fed);
  }
  TF_DeleteSession(session, status);
  TF_DeleteSessionOptions(options);
  dp_scope_destroy(scope);
  TF_DeleteGraph(graph);
  TF_DeleteStatus(status);
  for (int i = 1; i >= 0; i--)
    dp_server_destroy(servers[i]);
  dp_cluster_spec_release(cluster);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(both_ways_are_the_same),
      cmocka_unit_test(other_spellings_mean_it_too),
      cmocka_unit_test(a_session_outlives_its_server),
      cmocka_unit_test(a_server_ends_under_a_step),
      cmocka_unit_test(a_step_over_two_tasks),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
