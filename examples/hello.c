/* A graph and a session in one page: hello [grpc://HOST:PORT]
 *
 * Builds a graph with a greeting and a sum of two numbers, one of which each run feeds, and runs it
 * on the server that is named, or in this process. The session is TensorFlow's C API (TF_...); the
 * constructors of nodes and tensors are Downpour's (dp_...). */
#include <downpour.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static TF_Status *status;

static void check(const char *what) {
  if (TF_GetCode(status) == TF_OK)
    return;
  fprintf(stderr, "hello: %s: %s\n", what, TF_Message(status));
  exit(1);
}

/* A server that does not answer within ten seconds is given up. */
static TF_Session *open_session(TF_Graph *graph, const char *target) {
  TF_SessionOptions *options = TF_NewSessionOptions();
  TF_SetTarget(options, target);
  dp_session_configure(options, status, .timeout_seconds = 10);
  check("options");
  TF_Session *session = TF_NewSession(graph, options, status);
  TF_DeleteSessionOptions(options);
  check("session");
  return session;
}

static void print_devices(TF_Session *session) {
  TF_DeviceList *devices = TF_SessionListDevices(session, status);
  check("devices");
  for (int i = 0; i < TF_DeviceListCount(devices); i++)
    printf("device: %s\n", TF_DeviceListName(devices, i, status));
  TF_DeleteDeviceList(devices);
}

static void print_sum(TF_Session *session, TF_Output text, TF_Output x, TF_Output sum, int number) {
  TF_Tensor *fed = dp_tensor_of_float((float)number), *fetched[2];
  TF_SessionRun(session, NULL, &x, &fed, 1, (TF_Output[]){text, sum}, fetched, 2, NULL, 0, NULL,
                status);
  check("run");
  size_t length;
  const char *greeting = dp_tensor_get_string(fetched[0], 0, &length, status);
  check("greeting");
  float value = dp_tensor_get_float(fetched[1], status);
  check("sum");
  printf("%.*s: %d + 40 = %g\n", (int)length, greeting, number, value);
  TF_DeleteTensor(fed);
  TF_DeleteTensor(fetched[0]);
  TF_DeleteTensor(fetched[1]);
}

int main(int argc, char **argv) {
  if (argc > 2 || (argc == 2 && strncmp(argv[1], "grpc://", 7) != 0)) {
    fprintf(stderr, "usage: hello [grpc://HOST:PORT]\n");
    return 2;
  }
  status = TF_NewStatus();
  TF_Graph *graph = TF_NewGraph();
  dp_scope *scope = dp_scope_create(graph);
  TF_Output text = dp_const_string(scope, "hello, world");
  TF_Output x = dp_placeholder(scope, TF_FLOAT, .name = "x");
  TF_Output sum = dp_add_v2(scope, x, dp_const_float(scope, 40), .name = "sum");
  if (!dp_scope_ok(scope)) {
    fprintf(stderr, "hello: %s\n", dp_scope_message(scope));
    return 1;
  }

  TF_Session *session = open_session(graph, argc > 1 ? argv[1] : "");
  print_devices(session);
  for (int i = 0; i < 3; i++)
    print_sum(session, text, x, sum, i);
  TF_CloseSession(session, status);
  check("close");
  TF_DeleteSession(session, status);
  dp_scope_destroy(scope);
  TF_DeleteGraph(graph);
  TF_DeleteStatus(status);
  return 0;
}
