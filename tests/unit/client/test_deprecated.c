/* TF_DeprecatedSession, the session API from before TF_Graph, and the list of kernels. Uses only
 * the public C API: tests/conformance/client/test_programs.py also runs it with genuine TensorFlow.
 */
#include "nodes.h"

/* a + b, as a serialized GraphDef. */
static TF_Buffer *sum_of_two(void) {
  TF_Graph *graph = TF_NewGraph();
  TF_Status *status = TF_NewStatus();
  binary(graph, "AddV2", "sum", placeholder(graph, "a"), placeholder(graph, "b"));
  TF_Buffer *message = TF_NewBuffer();
  TF_GraphToGraphDef(graph, message, status);
  expect_ok(status);
  TF_DeleteStatus(status);
  TF_DeleteGraph(graph);
  return message;
}

typedef struct fixture {
  TF_DeprecatedSession *session;
  TF_Status *status;
} fixture;

static int set_up(void **state) {
  fixture *f = calloc(1, sizeof(*f));
  f->status = TF_NewStatus();
  TF_SessionOptions *options = TF_NewSessionOptions();
  f->session = TF_NewDeprecatedSession(options, f->status);
  expect_ok(f->status);
  TF_DeleteSessionOptions(options);
  TF_Buffer *message = sum_of_two();
  TF_ExtendGraph(f->session, message->data, message->length, f->status);
  expect_ok(f->status);
  TF_DeleteBuffer(message);
  *state = f;
  return 0;
}

static int tear_down(void **state) {
  fixture *f = *state;
  TF_CloseDeprecatedSession(f->session, f->status);
  expect_ok(f->status);
  TF_DeleteDeprecatedSession(f->session, f->status);
  expect_ok(f->status);
  TF_DeleteStatus(f->status);
  free(f);
  return 0;
}

static void test_run(void **state) {
  fixture *f = *state;
  const char *inputs[] = {"a:0", "b"}, *outputs[] = {"sum:0"}, *targets[] = {"sum"};
  TF_Tensor *fed[] = {float_tensor(2), float_tensor(3)}, *fetched[1];
  TF_Run(f->session, NULL, inputs, fed, 2, outputs, fetched, 1, targets, 1, NULL, f->status);
  expect_ok(f->status);
  assert_true(float_value(fetched[0]) == 5);
  TF_DeleteTensor(fetched[0]);
  const char *unknown[] = {"nobody:0"};
  TF_Run(f->session, NULL, inputs, fed, 2, unknown, fetched, 1, NULL, 0, NULL, f->status);
  assert_int_not_equal(TF_GetCode(f->status), TF_OK);
  assert_non_null(strstr(TF_Message(f->status), "nobody"));
  assert_null(fetched[0]);
  TF_DeleteTensor(fed[0]);
  TF_DeleteTensor(fed[1]);
  TF_DeviceList *devices = TF_DeprecatedSessionListDevices(f->session, f->status);
  expect_ok(f->status);
  assert_true(TF_DeviceListCount(devices) >= 1);
  TF_DeleteDeviceList(devices);
}

static void test_partial_run(void **state) {
  fixture *f = *state;
  const char *inputs[] = {"a:0", "b:0"}, *outputs[] = {"sum:0"}, *handle;
  TF_PRunSetup(f->session, inputs, 2, outputs, 1, NULL, 0, &handle, f->status);
  expect_ok(f->status);
  TF_Tensor *a = float_tensor(4), *b = float_tensor(5), *sum = NULL;
  TF_PRun(f->session, handle, inputs, &a, 1, NULL, NULL, 0, NULL, 0, f->status);
  expect_ok(f->status);
  TF_PRun(f->session, handle, inputs + 1, &b, 1, outputs, &sum, 1, NULL, 0, f->status);
  expect_ok(f->status);
  assert_true(float_value(sum) == 9);
  TF_DeletePRunHandle(handle);
  TF_DeleteTensor(a);
  TF_DeleteTensor(b);
  TF_DeleteTensor(sum);
}

/* The message is a KernelList: field 1 is a kernel, whose field 1 is the op's name. */
static void test_kernels(void **state) {
  fixture *f = *state;
  TF_Buffer *one = TF_GetRegisteredKernelsForOp("MatMul", f->status);
  expect_ok(f->status);
  const unsigned char *bytes = one->data;
  assert_true(one->length > 10 && bytes[0] == 0x0a);
  assert_non_null(memmem(one->data, one->length,
                         "\x0a\x06MatMul\x12\x03"
                         "CPU",
                         13));
  TF_Buffer *all = TF_GetAllRegisteredKernels(f->status);
  expect_ok(f->status);
  assert_true(all->length > 100 * one->length);
  TF_Buffer *none = TF_GetRegisteredKernelsForOp("NoSuchOp", f->status);
  expect_ok(f->status);
  assert_int_equal(none->length, 0);
  TF_DeleteBuffer(one);
  TF_DeleteBuffer(all);
  TF_DeleteBuffer(none);
}

int main(void) {
#define TEST(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
  const struct CMUnitTest tests[] = {TEST(test_run), TEST(test_partial_run), TEST(test_kernels)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
