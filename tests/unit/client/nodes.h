/* Short ways to make nodes and tensors, for the tests of the C API. Every function asserts that it
 * succeeds. */
#ifndef DP_TESTS_CLIENT_NODES_H
#define DP_TESTS_CLIENT_NODES_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "tensorflow/c/c_api.h"

static inline void expect_ok(const TF_Status *status) {
  if (TF_GetCode(status) != TF_OK)
    fail_msg("code %d: %s", TF_GetCode(status), TF_Message(status));
}

/* Also clears the status: genuine TensorFlow does not clear an old error when a call succeeds. */
static inline void expect_error(TF_Status *status, TF_Code code, const char *part) {
  assert_int_equal(TF_GetCode(status), code);
  if (!strstr(TF_Message(status), part))
    fail_msg("\"%s\" is not in \"%s\"", part, TF_Message(status));
  TF_SetStatus(status, TF_OK, "");
}

static inline TF_Tensor *float_tensor(float value) {
  TF_Tensor *tensor = TF_AllocateTensor(TF_FLOAT, NULL, 0, sizeof(float));
  *(float *)TF_TensorData(tensor) = value;
  return tensor;
}

static inline float float_value(const TF_Tensor *tensor) {
  assert_non_null(tensor);
  assert_int_equal(TF_TensorType(tensor), TF_FLOAT);
  return *(float *)TF_TensorData(tensor);
}

static inline int count_operations(TF_Graph *graph) {
  size_t at = 0;
  int count = 0;
  while (TF_GraphNextOperation(graph, &at))
    count++;
  return count;
}

static inline TF_Output finish(TF_OperationDescription *desc) {
  TF_Status *status = TF_NewStatus();
  TF_Operation *operation = TF_FinishOperation(desc, status);
  expect_ok(status);
  assert_non_null(operation);
  TF_DeleteStatus(status);
  return (TF_Output){operation, 0};
}

static inline TF_Output constant(TF_Graph *graph, const char *name, float value) {
  TF_Status *status = TF_NewStatus();
  TF_Tensor *tensor = float_tensor(value);
  TF_OperationDescription *desc = TF_NewOperation(graph, "Const", name);
  TF_SetAttrType(desc, "dtype", TF_FLOAT);
  TF_SetAttrTensor(desc, "value", tensor, status);
  expect_ok(status);
  TF_DeleteTensor(tensor);
  TF_DeleteStatus(status);
  return finish(desc);
}

static inline TF_Output placeholder(TF_Graph *graph, const char *name) {
  TF_OperationDescription *desc = TF_NewOperation(graph, "Placeholder", name);
  TF_SetAttrType(desc, "dtype", TF_FLOAT);
  return finish(desc);
}

static inline TF_Output binary(TF_Graph *graph, const char *op, const char *name, TF_Output a,
                               TF_Output b) {
  TF_OperationDescription *desc = TF_NewOperation(graph, op, name);
  TF_AddInput(desc, a);
  TF_AddInput(desc, b);
  return finish(desc);
}

#endif
