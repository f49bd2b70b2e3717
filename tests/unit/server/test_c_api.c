/* TF_Server by its header's contract: a task in this process that a session of this process uses.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include <downpour.h>
#include "base/memory.h"
#include "wire/control.h"
#include "wire/server.pb-c.h"

/* A cluster of one task on a free port. */
static TF_Server *make(char *job, char *protocol, TF_Status *status) {
  Tensorflow__JobDef__TasksEntry task = TENSORFLOW__JOB_DEF__TASKS_ENTRY__INIT;
  task.value = "localhost:0";
  Tensorflow__JobDef__TasksEntry *tasks = &task;
  Tensorflow__JobDef local = TENSORFLOW__JOB_DEF__INIT;
  local.name = "local";
  local.n_tasks = 1;
  local.tasks = &tasks;
  Tensorflow__JobDef *jobs = &local;
  Tensorflow__ClusterDef cluster = TENSORFLOW__CLUSTER_DEF__INIT;
  cluster.n_job = 1;
  cluster.job = &jobs;
  Tensorflow__ServerDef server = TENSORFLOW__SERVER_DEF__INIT;
  server.cluster = &cluster;
  server.job_name = job;
  server.protocol = protocol;
  size_t size = protobuf_c_message_get_packed_size(&server.base);
  uint8_t *bytes = dp_malloc(size);
  protobuf_c_message_pack(&server.base, bytes);
  TF_Server *made = TF_NewServer(bytes, size, status);
  dp_free(bytes);
  return made;
}

static void expect(TF_Status *status, TF_Code code, const char *part) {
  if (TF_GetCode(status) != code || !strstr(TF_Message(status), part))
    fail_msg("%d %s", TF_GetCode(status), TF_Message(status));
  TF_SetStatus(status, TF_OK, "");
}

static void *join(void *server) {
  TF_Status *status = TF_NewStatus();
  TF_ServerJoin(server, status);
  TF_DeleteStatus(status);
  return NULL;
}

static void test_life(void **state) {
  TF_Status *status = TF_NewStatus();
  TF_Server *server = make("local", "grpc", status);
  expect(status, TF_OK, "");
  TF_ServerStart(server, status);
  TF_ServerStart(server, status); /* once is enough, twice is no mistake */
  expect(status, TF_OK, "");
  TF_Graph *graph = TF_NewGraph();
  dp_scope *scope = dp_scope_create(graph);
  TF_Output y = dp_mul(scope, dp_const_float(scope, 6), dp_const_float(scope, 7));
  TF_SessionOptions *options = TF_NewSessionOptions();
  TF_SetTarget(options, TF_ServerTarget(server));
  TF_Session *session = TF_NewSession(graph, options, status);
  TF_Tensor *value = NULL;
  TF_SessionRun(session, NULL, NULL, NULL, 0, &y, &value, 1, NULL, 0, NULL, status);
  expect(status, TF_OK, "");
  assert_true(*(float *)TF_TensorData(value) == 42);
  TF_DeleteTensor(value);
  TF_DeleteSession(session, status);
  pthread_t joiner;
  pthread_create(&joiner, NULL, join, server);
  TF_ServerStop(server, status);
  expect(status, TF_OK, "");
  pthread_join(joiner, NULL);
  TF_ServerStart(server, status);
  expect(status, TF_FAILED_PRECONDITION, "stopped");
  TF_DeleteServer(server);
  TF_DeleteServer(NULL);
  TF_DeleteSessionOptions(options);
  dp_scope_destroy(scope);
  TF_DeleteGraph(graph);
  TF_DeleteStatus(status);
}

static void test_mistakes(void **state) {
  TF_Status *status = TF_NewStatus();
  assert_null(TF_NewServer("\377", 1, status));
  expect(status, TF_INVALID_ARGUMENT, "Could not parse");
  assert_null(make("worker", "grpc", status));
  expect(status, TF_INVALID_ARGUMENT, "no job \"worker\"");
  assert_null(make("local", "tin-can", status));
  expect(status, TF_NOT_FOUND, "No server factory");
  TF_Server *server = make("local", "grpc", status); /* never started */
  TF_DeleteServer(server);
  TF_DeleteStatus(status);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_life), cmocka_unit_test(test_mistakes)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
