/* Shapes that are inferred while a graph is built. Uses only the public C API:
 * tests/conformance/client/test_programs.py also runs it with genuine TensorFlow. */
#include "nodes.h"

static TF_Output shaped(TF_Graph *graph, const char *name, const int64_t *dims, int rank) {
  TF_OperationDescription *desc = TF_NewOperation(graph, "Placeholder", name);
  TF_SetAttrType(desc, "dtype", TF_FLOAT);
  TF_SetAttrShape(desc, "shape", dims, rank);
  return finish(desc);
}

static TF_Output integers(TF_Graph *graph, const char *name, int count, const int32_t *values) {
  TF_Status *status = TF_NewStatus();
  int64_t dims[] = {count};
  TF_Tensor *tensor = TF_AllocateTensor(TF_INT32, dims, 1, sizeof(int32_t) * (size_t)count);
  memcpy(TF_TensorData(tensor), values, sizeof(int32_t) * (size_t)count);
  TF_OperationDescription *desc = TF_NewOperation(graph, "Const", name);
  TF_SetAttrType(desc, "dtype", TF_INT32);
  TF_SetAttrTensor(desc, "value", tensor, status);
  expect_ok(status);
  TF_DeleteTensor(tensor);
  TF_DeleteStatus(status);
  return finish(desc);
}

static TF_Output unary(TF_Graph *graph, const char *op, const char *name, TF_Output x) {
  TF_OperationDescription *desc = TF_NewOperation(graph, op, name);
  TF_AddInput(desc, x);
  return finish(desc);
}

static void expect_shape(TF_Graph *graph, TF_Output output, int rank, const int64_t *dims) {
  TF_Status *status = TF_NewStatus();
  assert_int_equal(TF_GraphGetTensorNumDims(graph, output, status), rank);
  expect_ok(status);
  int64_t found[8];
  if (rank >= 0)
    TF_GraphGetTensorShape(graph, output, found, rank, status);
  expect_ok(status);
  for (int i = 0; i < rank; i++)
    assert_int_equal(found[i], dims[i]);
  TF_DeleteStatus(status);
}
#define DIMS(...) ((int64_t[]){__VA_ARGS__})

static void test_shapes(void **state) {
  TF_Graph *graph = TF_NewGraph();
  TF_Output x = shaped(graph, "x", DIMS(-1, 3), 2), w = shaped(graph, "w", DIMS(3, 5), 2);
  TF_Output b = shaped(graph, "b", DIMS(5), 1), any = placeholder(graph, "any");
  expect_shape(graph, x, 2, DIMS(-1, 3));
  expect_shape(graph, any, -1, NULL);
  expect_shape(graph, constant(graph, "c", 1), 0, NULL);
  TF_Output product = binary(graph, "MatMul", "product", x, w);
  expect_shape(graph, product, 2, DIMS(-1, 5));
  TF_Output sum = binary(graph, "AddV2", "sum", product, b);
  expect_shape(graph, unary(graph, "Relu", "relu", sum), 2, DIMS(-1, 5));
  expect_shape(graph, binary(graph, "Mul", "unknown", sum, any), -1, NULL);
  expect_shape(graph, unary(graph, "Shape", "shape", sum), 1, DIMS(2));
  TF_Output zero = integers(graph, "zero", 1, (int32_t[]){0});
  expect_shape(graph, binary(graph, "Mean", "mean", sum, zero), 1, DIMS(5));
  TF_Output flat = integers(graph, "flat", 2, (int32_t[]){-1, 1});
  expect_shape(graph, binary(graph, "Reshape", "column", w, flat), 2, DIMS(15, 1));
  expect_shape(graph, binary(graph, "Reshape", "open", x, flat), 2, DIMS(-1, 1));
  TF_DeleteGraph(graph);
}

/* TF_GraphSetTensorShape merges its shape with the known one; later operations see the result. */
static void test_set(void **state) {
  TF_Graph *graph = TF_NewGraph();
  TF_Status *status = TF_NewStatus();
  TF_Output x = shaped(graph, "x", DIMS(-1, 3), 2);
  TF_GraphSetTensorShape(graph, x, DIMS(7, -1), 2, status);
  expect_ok(status);
  expect_shape(graph, x, 2, DIMS(7, 3));
  expect_shape(graph, unary(graph, "Neg", "neg", x), 2, DIMS(7, 3));
  TF_GraphSetTensorShape(graph, x, DIMS(7, 4), 2, status);
  expect_error(status, TF_INVALID_ARGUMENT, "must be equal");
  TF_DeleteStatus(status);
  TF_DeleteGraph(graph);
}

/* An operation whose inputs do not fit is refused when it is added, and no node stays. */
static void test_refused(void **state) {
  TF_Graph *graph = TF_NewGraph();
  TF_Status *status = TF_NewStatus();
  TF_Output a = shaped(graph, "a", DIMS(2, 3), 2), b = shaped(graph, "b", DIMS(2, 3), 2);
  TF_OperationDescription *desc = TF_NewOperation(graph, "MatMul", "product");
  TF_AddInput(desc, a);
  TF_AddInput(desc, b);
  assert_null(TF_FinishOperation(desc, status));
  expect_error(status, TF_INVALID_ARGUMENT,
               "Dimensions must be equal, but are 3 and 2 for '{{node product}} = MatMul");
  assert_null(TF_GraphOperationByName(graph, "product"));
  desc = TF_NewOperation(graph, "MatMul", "product");
  TF_AddInput(desc, a);
  TF_AddInput(desc, b);
  TF_SetAttrBool(desc, "transpose_b", 1);
  expect_shape(graph, finish(desc), 2, DIMS(2, 2));
  TF_DeleteStatus(status);
  TF_DeleteGraph(graph);
}

/* 100 additions x + x have 2^100 paths from the end to the start: inference must not walk them. */
static void test_many_paths(void **state) {
  TF_Graph *graph = TF_NewGraph();
  TF_Output x = shaped(graph, "x", DIMS(2, 3), 2);
  for (int i = 0; i < 100; i++) {
    char name[16];
    snprintf(name, sizeof(name), "twice%d", i);
    x = binary(graph, "AddV2", name, x, x);
  }
  expect_shape(graph, x, 2, DIMS(2, 3));
  TF_DeleteGraph(graph);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_shapes), cmocka_unit_test(test_set),
                                     cmocka_unit_test(test_refused),
                                     cmocka_unit_test(test_many_paths)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
