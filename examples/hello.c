/* TensorFlow's C API in one page: hello [grpc://HOST:PORT]
 *
 * Builds a graph with a greeting and a sum of two numbers, one of which each run feeds, and runs it
 * on the server that is named, or in this process. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tensorflow/c/c_api.h>

static TF_Status *status;

static void check(const char *what) {
  if (TF_GetCode(status) == TF_OK)
    return;
  fprintf(stderr, "hello: %s: %s\n", what, TF_Message(status));
  exit(1);
}

/* A node that has always the same value. */
static TF_Output constant(TF_Graph *graph, const char *name, TF_Tensor *value) {
  TF_OperationDescription *node = TF_NewOperation(graph, "Const", name);
  TF_SetAttrType(node, "dtype", TF_TensorType(value));
  TF_SetAttrTensor(node, "value", value, status);
  check(name);
  TF_Output output = {TF_FinishOperation(node, status), 0};
  check(name);
  TF_DeleteTensor(value);
  return output;
}

static TF_Tensor *number(float value) {
  TF_Tensor *tensor = TF_AllocateTensor(TF_FLOAT, NULL, 0, sizeof(float));
  *(float *)TF_TensorData(tensor) = value;
  return tensor;
}

static TF_Output greeting(TF_Graph *graph) {
  TF_Tensor *text = TF_AllocateTensor(TF_STRING, NULL, 0, sizeof(TF_TString));
  TF_TString *string = TF_TensorData(text);
  TF_StringInit(string);
  TF_StringCopy(string, "hello, world", 12);
  return constant(graph, "greeting", text);
}

static TF_Output placeholder(TF_Graph *graph, const char *name) {
  TF_OperationDescription *node = TF_NewOperation(graph, "Placeholder", name);
  TF_SetAttrType(node, "dtype", TF_FLOAT);
  TF_Output output = {TF_FinishOperation(node, status), 0};
  check(name);
  return output;
}

static TF_Output add(TF_Graph *graph, const char *name, TF_Output a, TF_Output b) {
  TF_OperationDescription *node = TF_NewOperation(graph, "AddV2", name);
  TF_AddInput(node, a);
  TF_AddInput(node, b);
  TF_Output output = {TF_FinishOperation(node, status), 0};
  check(name);
  return output;
}

static void print_devices(TF_Session *session) {
  TF_DeviceList *devices = TF_SessionListDevices(session, status);
  check("devices");
  for (int i = 0; i < TF_DeviceListCount(devices); i++)
    printf("device: %s\n", TF_DeviceListName(devices, i, status));
  TF_DeleteDeviceList(devices);
}

/* A server that does not answer within ten seconds is given up: a serialized ConfigProto with
 * operation_timeout_in_ms = 10000, its field 11. */
static const unsigned char limits[] = {11 << 3, 0x90, 0x4e};

int main(int argc, char **argv) {
  if (argc > 2 || (argc == 2 && strncmp(argv[1], "grpc://", 7) != 0)) {
    fprintf(stderr, "usage: hello [grpc://HOST:PORT]\n");
    return 2;
  }
  status = TF_NewStatus();
  TF_Graph *graph = TF_NewGraph();
  TF_Output text = greeting(graph);
  TF_Output x = placeholder(graph, "x");
  TF_Output sum = add(graph, "sum", x, constant(graph, "forty", number(40)));

  TF_SessionOptions *options = TF_NewSessionOptions();
  TF_SetTarget(options, argc > 1 ? argv[1] : "");
  TF_SetConfig(options, limits, sizeof(limits), status);
  check("options");
  TF_Session *session = TF_NewSession(graph, options, status);
  TF_DeleteSessionOptions(options);
  check("session");
  print_devices(session);
  for (int i = 0; i < 3; i++) {
    TF_Tensor *fed = number((float)i), *fetched[2];
    TF_SessionRun(session, NULL, &x, &fed, 1, (TF_Output[]){text, sum}, fetched, 2, NULL, 0, NULL,
                  status);
    check("run");
    const TF_TString *string = TF_TensorData(fetched[0]);
    printf("%.*s: %d + 40 = %g\n", (int)TF_StringGetSize(string), TF_StringGetDataPointer(string),
           i, *(float *)TF_TensorData(fetched[1]));
    TF_DeleteTensor(fed);
    TF_DeleteTensor(fetched[0]);
    TF_DeleteTensor(fetched[1]);
  }
  TF_CloseSession(session, status);
  check("close");
  TF_DeleteSession(session, status);
  TF_DeleteGraph(graph);
  TF_DeleteStatus(status);
  return 0;
}
