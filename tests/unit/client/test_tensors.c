/* Tensors from C values and back, of every type that has helpers: values, shapes, and what is said
 * when the type or the size is not what was asked for. */
#include <downpour.h>
#include <math.h>
#include "nodes.h"

static TF_Status *status;

static int set_up(void **state) {
  status = TF_NewStatus();
  return 0;
}

static int tear_down(void **state) {
  TF_DeleteStatus(status);
  return 0;
}

static void expect_message(const char *message) {
  assert_int_equal(TF_GetCode(status), TF_INVALID_ARGUMENT);
  assert_string_equal(TF_Message(status), message);
}

/* A vector and a scalar of one type, there and back. */
#define CHECK_TYPE(name, dtype, type, low, high)                                                   \
  do {                                                                                             \
    const type values[] = {low, high};                                                             \
    TF_Tensor *vector = dp_tensor_of_##name##s(DP_SHAPE(2, 1), values);                            \
    TF_Tensor *scalar = dp_tensor_of_##name(high);                                                 \
    assert_int_equal(TF_TensorType(vector), dtype);                                                \
    assert_int_equal(TF_NumDims(vector), 2);                                                       \
    assert_int_equal(TF_NumDims(scalar), 0);                                                       \
    assert_memory_equal(dp_tensor_get_##name##s(vector, 2, status), values, sizeof(values));       \
    assert_non_null(dp_tensor_get_##name##s(vector, -1, status));                                  \
    expect_ok(status);                                                                             \
    assert_true(dp_tensor_get_##name(scalar, status) == (high));                                   \
    expect_ok(status);                                                                             \
    assert_true(dp_tensor_get_##name(vector, status) == 0);                                        \
    assert_int_equal(TF_GetCode(status), TF_INVALID_ARGUMENT);                                     \
    assert_null(dp_tensor_get_##name##s(NULL, -1, status));                                        \
    assert_int_equal(TF_GetCode(status), TF_INVALID_ARGUMENT);                                     \
    TF_DeleteTensor(vector);                                                                       \
    TF_DeleteTensor(scalar);                                                                       \
  } while (false)

static void test_types(void **state) {
  CHECK_TYPE(float, TF_FLOAT, float, -1.5f, 3e38f);
  CHECK_TYPE(double, TF_DOUBLE, double, -1e-300, 1e300);
  CHECK_TYPE(int32, TF_INT32, int32_t, INT32_MIN, INT32_MAX);
  CHECK_TYPE(int64, TF_INT64, int64_t, INT64_MIN, INT64_MAX);
  CHECK_TYPE(uint8, TF_UINT8, uint8_t, 0, 255);
  CHECK_TYPE(bool, TF_BOOL, bool, false, true);
}

static void test_strings(void **state) {
  const char *long_text = "a text that does not fit into the string itself";
  TF_Tensor *tensor = dp_tensor_of_strings(DP_SHAPE(3), (const char *[]){"a", "", long_text});
  size_t length = 99;
  assert_memory_equal(dp_tensor_get_string(tensor, 2, &length, status), long_text,
                      strlen(long_text));
  assert_int_equal(length, strlen(long_text));
  assert_non_null(dp_tensor_get_string(tensor, 1, &length, status));
  assert_int_equal(length, 0);
  assert_non_null(dp_tensor_get_string(tensor, 0, NULL, status));
  assert_null(dp_tensor_get_string(tensor, 3, &length, status));
  expect_message("there is no string 3 in a tensor with 3");
  assert_null(dp_tensor_get_string(tensor, -1, &length, status));
  TF_DeleteTensor(tensor);

  TF_Tensor *bytes = dp_tensor_of_bytes("a\0b", 3);
  assert_memory_equal(dp_tensor_get_string(bytes, 0, &length, status), "a\0b", 3);
  assert_int_equal(length, 3);
  TF_DeleteTensor(bytes);
}

static void test_numbers(void **state) {
  const TF_DataType types[] = {TF_FLOAT, TF_DOUBLE, TF_HALF,  TF_BFLOAT16, TF_INT8,   TF_INT16,
                               TF_INT32, TF_INT64,  TF_UINT8, TF_UINT16,   TF_UINT32, TF_UINT64};
  const double values[] = {0, 2, 100};
  for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
    TF_Tensor *tensor = dp_tensor_of_numbers(types[i], DP_SHAPE(3), values, status);
    expect_ok(status);
    assert_int_equal(TF_TensorType(tensor), types[i]);
    double back[3];
    assert_true(dp_tensor_get_numbers(tensor, back, 3, status));
    assert_memory_equal(back, values, sizeof(values));
    assert_false(dp_tensor_get_numbers(tensor, back, 2, status));
    TF_DeleteTensor(tensor);
  }
  TF_Tensor *truth = dp_tensor_of_bool(true);
  double one;
  assert_true(dp_tensor_get_numbers(truth, &one, 1, status) && one == 1);
  TF_DeleteTensor(truth);
}

static void test_numbers_that_do_not_fit(void **state) {
  assert_null(dp_tensor_of_numbers(TF_UINT8, DP_SHAPE(2), (double[]){255.5, 256}, status));
  expect_message("256 at 1 does not fit into uint8");
  assert_null(dp_tensor_of_numbers(TF_INT64, DP_SHAPE(), (double[]){0x1p63}, status));
  assert_int_equal(TF_GetCode(status), TF_INVALID_ARGUMENT);
  assert_null(dp_tensor_of_numbers(TF_INT32, DP_SHAPE(), (double[]){NAN}, status));
  assert_int_equal(TF_GetCode(status), TF_INVALID_ARGUMENT);
  assert_null(dp_tensor_of_numbers(TF_STRING, DP_SHAPE(), (double[]){1}, status));
  expect_message("string is no type of numbers");
  TF_Tensor *lowest = dp_tensor_of_numbers(TF_INT8, DP_SHAPE(), (double[]){-128.9}, status);
  expect_ok(status);
  assert_int_equal(*(int8_t *)TF_TensorData(lowest), -128);
  TF_DeleteTensor(lowest);
}

static void test_wrong_type_and_size(void **state) {
  TF_Tensor *tensor = dp_tensor_of_int32s(DP_SHAPE(2, 3), (int32_t[]){1, 2, 3, 4, 5, 6});
  assert_null(dp_tensor_get_floats(tensor, 6, status));
  expect_message("the tensor is int32 [2,3]; a tensor of float with 6 elements was asked for");
  assert_null(dp_tensor_get_int32s(tensor, 5, status));
  expect_message("the tensor is int32 [2,3]; a tensor of int32 with 5 elements was asked for");
  assert_null(dp_tensor_get_string(tensor, 0, NULL, status));
  expect_message("the tensor is int32 [2,3]; a tensor of string was asked for");
  TF_DeleteTensor(tensor);
  assert_null(dp_tensor_get_floats(NULL, 1, status));
  expect_message("there is no tensor to read float from");
}

static void test_shapes(void **state) {
  assert_null(dp_tensor_of_floats(DP_SHAPE(-1), (float[]){1}));
  assert_null(dp_tensor_of_floats(DP_ANY_SHAPE, (float[]){1}));
  assert_null(dp_tensor_of_floats(DP_SHAPE(INT64_MAX, 2), (float[]){1}));
  TF_Tensor *empty = dp_tensor_of_floats(DP_SHAPE(0, 3), NULL);
  assert_int_equal(TF_TensorElementCount(empty), 0);
  assert_non_null(dp_tensor_get_floats(empty, 0, status));
  expect_ok(status);
  TF_DeleteTensor(empty);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_types),
      cmocka_unit_test(test_strings),
      cmocka_unit_test(test_numbers),
      cmocka_unit_test(test_numbers_that_do_not_fit),
      cmocka_unit_test(test_wrong_type_and_size),
      cmocka_unit_test(test_shapes),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
