/* TF_Session without a target, in this process: steps, a graph that grows between steps, partial
 * runs, devices, metadata, many threads, TF_Reset, failures. */
#include <pthread.h>
#include "nodes.h"

static TF_Session *open_session(TF_Graph *graph) {
  TF_Status *status = TF_NewStatus();
  TF_SessionOptions *options = TF_NewSessionOptions();
  TF_Session *session = TF_NewSession(graph, options, status);
  expect_ok(status);
  TF_DeleteSessionOptions(options);
  TF_DeleteStatus(status);
  return session;
}

static void close_session(TF_Session *session) {
  TF_Status *status = TF_NewStatus();
  TF_CloseSession(session, status);
  expect_ok(status);
  TF_DeleteSession(session, status);
  expect_ok(status);
  TF_DeleteStatus(status);
}

static float run(TF_Session *session, TF_Output feed, float value, TF_Output fetch) {
  TF_Status *status = TF_NewStatus();
  TF_Tensor *fed = float_tensor(value), *fetched = NULL;
  TF_SessionRun(session, NULL, &feed, &fed, 1, &fetch, &fetched, 1, NULL, 0, NULL, status);
  expect_ok(status);
  float result = float_value(fetched);
  TF_DeleteTensor(fed);
  TF_DeleteTensor(fetched);
  TF_DeleteStatus(status);
  return result;
}

static void test_growing_graph(void **state) {
  TF_Graph *graph = TF_NewGraph();
  TF_Output x = placeholder(graph, "x");
  TF_Output sum = binary(graph, "AddV2", "sum", x, constant(graph, "two", 2));
  TF_Session *session = open_session(graph);
  assert_true(run(session, x, 3, sum) == 5);
  TF_Output product = binary(graph, "Mul", "product", sum, x);
  assert_true(run(session, x, 3, product) == 15);
  assert_true(run(session, x, 4, sum) == 6);
  TF_DeleteGraph(graph); /* the session keeps it */
  assert_true(run(session, x, 4, product) == 24);
  close_session(session);
}

static void test_targets_and_doubles(void **state) {
  TF_Graph *graph = TF_NewGraph();
  TF_Status *status = TF_NewStatus();
  TF_OperationDescription *desc = TF_NewOperation(graph, "VariableV2", "v");
  TF_SetAttrType(desc, "dtype", TF_FLOAT);
  TF_SetAttrShape(desc, "shape", NULL, 0);
  TF_Output variable = finish(desc);
  assert_int_equal(TF_OperationOutputType(variable), TF_FLOAT + 100);
  TF_Output start = binary(graph, "Assign", "start", variable, constant(graph, "one", 1));
  TF_Output more = binary(graph, "AssignAdd", "more", variable, constant(graph, "ten", 10));
  TF_Session *session = open_session(graph), *other = open_session(graph);
  const TF_Operation *targets[] = {start.oper};
  TF_SessionRun(session, NULL, NULL, NULL, 0, NULL, NULL, 0, targets, 1, NULL, status);
  expect_ok(status);
  TF_Output both[] = {more, more};
  TF_Tensor *values[2];
  TF_SessionRun(session, NULL, NULL, NULL, 0, both, values, 2, NULL, 0, NULL, status);
  expect_ok(status);
  assert_true(float_value(values[0]) == 11 && float_value(values[1]) == 11);
  TF_DeleteTensor(values[0]);
  TF_DeleteTensor(values[1]);
  /* Variables of one session are not those of another. */
  TF_SessionRun(other, NULL, NULL, NULL, 0, both, values, 2, NULL, 0, NULL, status);
  expect_error(status, TF_FAILED_PRECONDITION, "uninitialized value");
  assert_null(values[0]);
  close_session(session);
  close_session(other);
  TF_DeleteStatus(status);
  TF_DeleteGraph(graph);
}

static void note_free(void *data, size_t length, void *arg) {
  ++*(int *)arg;
}

static void test_strings_and_own_memory(void **state) {
  TF_Graph *graph = TF_NewGraph();
  TF_Status *status = TF_NewStatus();
  TF_OperationDescription *desc = TF_NewOperation(graph, "Placeholder", "text");
  TF_SetAttrType(desc, "dtype", TF_STRING);
  TF_Output text = finish(desc);
  desc = TF_NewOperation(graph, "Identity", "identity");
  TF_AddInput(desc, text);
  TF_Output identity = finish(desc);
  TF_TString strings[2];
  int frees = 0;
  TF_StringInit(&strings[0]);
  TF_StringInit(&strings[1]);
  TF_StringCopy(&strings[0], "short", 5);
  TF_StringCopy(&strings[1], "rather longer than what fits inside", 35);
  TF_Tensor *fed =
      TF_NewTensor(TF_STRING, (int64_t[]){2}, 1, strings, sizeof(strings), note_free, &frees);
  TF_Session *session = open_session(graph);
  TF_Tensor *fetched;
  TF_SessionRun(session, NULL, &text, &fed, 1, &identity, &fetched, 1, NULL, 0, NULL, status);
  expect_ok(status);
  const TF_TString *got = TF_TensorData(fetched);
  assert_int_equal(TF_StringGetSize(&got[1]), 35);
  assert_memory_equal(TF_StringGetDataPointer(&got[1]), "rather longer than", 18);
  assert_int_equal(frees, 0);
  TF_DeleteTensor(fetched);
  TF_DeleteTensor(fed);
  close_session(session);
  assert_int_equal(frees, 1);
  TF_StringDealloc(&strings[0]);
  TF_StringDealloc(&strings[1]);
  TF_DeleteStatus(status);
  TF_DeleteGraph(graph);
}

static void test_partial_run(void **state) {
  TF_Graph *graph = TF_NewGraph();
  TF_Status *status = TF_NewStatus();
  TF_Output x = placeholder(graph, "x"), y = placeholder(graph, "y");
  TF_Output first = binary(graph, "AddV2", "first", x, constant(graph, "one", 1));
  TF_Output second = binary(graph, "Mul", "second", first, y);
  TF_Session *session = open_session(graph);
  TF_Output inputs[] = {x, y}, outputs[] = {first, second};
  const char *handle;
  TF_SessionPRunSetup(session, inputs, 2, outputs, 2, NULL, 0, &handle, status);
  expect_ok(status);
  TF_Tensor *fed = float_tensor(2), *fetched;
  TF_SessionPRun(session, handle, &x, &fed, 1, &first, &fetched, 1, NULL, 0, status);
  expect_ok(status);
  assert_true(float_value(fetched) == 3);
  TF_DeleteTensor(fetched);
  TF_SessionPRun(session, handle, &y, &fed, 1, &second, &fetched, 1, NULL, 0, status);
  expect_ok(status);
  assert_true(float_value(fetched) == 6);
  TF_DeleteTensor(fetched);
  TF_DeleteTensor(fed);
  TF_DeletePRunHandle(handle);
  close_session(session);
  TF_DeleteStatus(status);
  TF_DeleteGraph(graph);
}

static void test_devices(void **state) {
  TF_Graph *graph = TF_NewGraph();
  TF_Status *status = TF_NewStatus();
  TF_SessionOptions *options = TF_NewSessionOptions();
  TF_SetConfig(options, "\xff", 1, status);
  expect_error(status, TF_INVALID_ARGUMENT, "Unparseable ConfigProto");
  TF_SetConfig(options,
               "\x0a\x07\x0a\x03"
               "CPU\x10\x02",
               9, status); /* two CPU devices */
  expect_ok(status);
  TF_Session *session = TF_NewSession(graph, options, status);
  expect_ok(status);
  TF_DeviceList *list = TF_SessionListDevices(session, status);
  expect_ok(status);
  assert_int_equal(TF_DeviceListCount(list), 2);
  assert_string_equal(TF_DeviceListName(list, 1, status),
                      "/job:localhost/replica:0/task:0/device:CPU:1");
  assert_string_equal(TF_DeviceListType(list, 0, status), "CPU");
  assert_true(TF_DeviceListMemoryBytes(list, 0, status) > 0);
  assert_true(TF_DeviceListIncarnation(list, 0, status) != 0);
  expect_ok(status);
  assert_null(TF_DeviceListName(list, 2, status));
  expect_error(status, TF_INVALID_ARGUMENT, "index out of bounds");
  TF_DeleteDeviceList(list);
  close_session(session);
  TF_SetTarget(options, "nowhere");
  assert_null(TF_NewSession(graph, options, status));
  expect_error(status, TF_NOT_FOUND, "nowhere");
  TF_DeleteSessionOptions(options);
  TF_DeleteStatus(status);
  TF_DeleteGraph(graph);
}

static void test_failures(void **state) {
  TF_Graph *graph = TF_NewGraph();
  TF_Status *status = TF_NewStatus();
  TF_Output x = placeholder(graph, "x");
  TF_Session *session = open_session(graph);
  TF_Tensor *fetched = (TF_Tensor *)status, *none = NULL;
  TF_SessionRun(session, NULL, NULL, NULL, 0, &x, &fetched, 1, NULL, 0, NULL, status);
  expect_error(status, TF_INVALID_ARGUMENT, "You must feed a value for placeholder");
  assert_null(fetched);
  TF_SessionRun(session, NULL, &x, &none, 1, &x, &fetched, 1, NULL, 0, NULL, status);
  expect_error(status, TF_INVALID_ARGUMENT, "x:0");
  TF_Buffer broken = {.data = "\xff", .length = 1};
  TF_SessionRun(session, &broken, NULL, NULL, 0, &x, &fetched, 1, NULL, 0, NULL, status);
  expect_error(status, TF_INVALID_ARGUMENT, "Unparseable RunOptions proto");
  TF_SessionRun(session, NULL, NULL, NULL, 0, &x, &fetched, 1, NULL, 0, &broken, status);
  expect_error(status, TF_INVALID_ARGUMENT, "Passing non-empty run_metadata is invalid.");
  TF_CloseSession(session, status);
  expect_ok(status);
  TF_SessionRun(session, NULL, NULL, NULL, 0, &x, &fetched, 1, NULL, 0, NULL, status);
  expect_error(status, TF_CANCELLED, "Session has been closed.");
  TF_DeleteSession(session, status);
  expect_ok(status);
  TF_DeleteStatus(status);
  TF_DeleteGraph(graph);
}

static void test_metadata(void **state) {
  TF_Graph *graph = TF_NewGraph();
  TF_Status *status = TF_NewStatus();
  TF_Output one = constant(graph, "one", 1);
  TF_Session *session = open_session(graph);
  TF_Buffer options = {.data = "\x08\x03", .length = 2}; /* trace_level: FULL_TRACE */
  TF_Buffer *metadata = TF_NewBuffer();
  TF_Tensor *fetched;
  TF_SessionRun(session, &options, NULL, NULL, 0, &one, &fetched, 1, NULL, 0, metadata, status);
  expect_ok(status);
  assert_true(metadata->length > 0);
  assert_true(float_value(fetched) == 1);
  TF_DeleteTensor(fetched);
  TF_DeleteBuffer(metadata);
  close_session(session);
  TF_DeleteStatus(status);
  TF_DeleteGraph(graph);
}

typedef struct racer {
  TF_Graph *graph;
  TF_Session *session;
  TF_Output x;
  int number;
} racer;

static void *race(void *arg) {
  racer *racer = arg;
  TF_Output value = racer->x;
  for (int i = 0; i < 10; i++) {
    char name[32];
    snprintf(name, sizeof(name), "sum_%d_%d", racer->number, i);
    value = binary(racer->graph, "AddV2", name, value, racer->x);
    assert_true(run(racer->session, racer->x, 2, value) == 2 * (i + 2));
    TF_OperationOutputNumConsumers(racer->x);
  }
  return NULL;
}

static void test_threads(void **state) {
  enum { count = 4 };
  TF_Graph *graph = TF_NewGraph();
  TF_Output x = placeholder(graph, "x");
  TF_Session *session = open_session(graph);
  pthread_t threads[count];
  racer racers[count];
  for (int i = 0; i < count; i++) {
    racers[i] = (racer){graph, session, x, i};
    pthread_create(&threads[i], NULL, race, &racers[i]);
  }
  for (int i = 0; i < count; i++)
    pthread_join(threads[i], NULL);
  close_session(session);
  TF_DeleteGraph(graph);
}

/* TF_Reset ends the sessions of the process; a session that is made later works. */
static void test_reset(void **state) {
  TF_Graph *graph = TF_NewGraph();
  TF_Status *status = TF_NewStatus();
  TF_Output x = placeholder(graph, "x");
  TF_Output sum = binary(graph, "AddV2", "sum", x, constant(graph, "two", 2));
  TF_Session *session = open_session(graph);
  assert_true(run(session, x, 3, sum) == 5);
  TF_SessionOptions *options = TF_NewSessionOptions();
  TF_Reset(options, NULL, 0, status);
  expect_ok(status);
  TF_Tensor *fed = float_tensor(1), *fetched = NULL;
  TF_SessionRun(session, NULL, &x, &fed, 1, &sum, &fetched, 1, NULL, 0, NULL, status);
  assert_int_not_equal(TF_GetCode(status), TF_OK);
  assert_null(fetched);
  TF_DeleteTensor(fed);
  TF_Session *other = open_session(graph);
  assert_true(run(other, x, 4, sum) == 6);
  close_session(other);
  TF_DeleteSession(session, status);
  TF_SetTarget(options, "nowhere://");
  TF_Reset(options, NULL, 0, status);
  expect_error(status, TF_NOT_FOUND, "No session factory registered");
  TF_DeleteSessionOptions(options);
  TF_DeleteGraph(graph);
  TF_DeleteStatus(status);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_growing_graph),
      cmocka_unit_test(test_targets_and_doubles),
      cmocka_unit_test(test_strings_and_own_memory),
      cmocka_unit_test(test_partial_run),
      cmocka_unit_test(test_devices),
      cmocka_unit_test(test_failures),
      cmocka_unit_test(test_metadata),
      cmocka_unit_test(test_threads),
      cmocka_unit_test(test_reset),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
