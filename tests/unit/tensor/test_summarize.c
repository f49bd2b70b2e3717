/* Tensors as text. Every expected string was printed by TensorFlow 2.21 (Assert's message without
 * its outer brackets, and StringFormat). */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>
#include "tensor/tensor.h"

typedef struct expectation {
  int64_t entries;
  const char *text;
} expectation;

typedef void (*summarize_fn)(const dp_tensor *tensor, int64_t entries, dp_text *text);

static void expect(summarize_fn summarize, const dp_tensor *tensor, const expectation *rows,
                   size_t count) {
  for (size_t i = 0; i < count; i++) {
    dp_text text = {0};
    summarize(tensor, rows[i].entries, &text);
    assert_string_equal(dp_text_string(&text), rows[i].text);
    dp_text_deinit(&text);
  }
}

#define EXPECT(summarize, tensor, ...)                                                             \
  expect(summarize, tensor, (const expectation[]){__VA_ARGS__},                                    \
         sizeof((const expectation[]){__VA_ARGS__}) / sizeof(expectation))
#define EXPECT_FLAT(tensor, ...) EXPECT(dp_tensor_summarize, tensor, __VA_ARGS__)
#define EXPECT_NESTED(tensor, ...) EXPECT(dp_tensor_summarize_nested, tensor, __VA_ARGS__)

static dp_tensor make(dp_dtype dtype, dp_shape shape, const void *data) {
  dp_tensor tensor;
  assert_null(dp_tensor_create(dtype, &shape, &tensor));
  if (data)
    memcpy(tensor.data, data, dp_tensor_bytes(&tensor));
  return tensor;
}

static dp_tensor count_up(dp_shape shape) {
  dp_tensor tensor = make(DP_INT64, shape, NULL);
  for (int64_t i = 0; i < shape.elements; i++)
    ((int64_t *)tensor.data)[i] = i;
  return tensor;
}

static void test_matrix(void **state) {
  dp_tensor tensor = count_up(dp_shape_matrix(2, 3));
  EXPECT_FLAT(&tensor, {-1, "[0 1 2][3 4 5]"}, {0, "..."}, {1, "[0...]..."}, {2, "[0 1...]..."},
              {3, "[0 1 2]..."}, {4, "[0 1 2][3...]..."}, {5, "[0 1 2][3 4...]..."},
              {6, "[0 1 2][3 4 5]"}, {7, "[0 1 2][3 4 5]"});
  EXPECT_NESTED(&tensor, {-1, "[[0 1 2]\n [3 4 5]]"}, {0, "[\n ...]"},
                {1, "[[0 ... 2]\n [3 ... 5]]"}, {2, "[[0 1 2]\n [3 4 5]]"});
  dp_tensor_deinit(&tensor);
}

static void test_cube(void **state) {
  dp_tensor tensor = count_up(dp_shape_of(3, (int64_t[]){2, 3, 4}));
  EXPECT_FLAT(&tensor, {0, "..."}, {1, "[[0...]]..."}, {4, "[[0 1 2 3]]..."},
              {5, "[[0 1 2 3][4...]]..."}, {11, "[[0 1 2 3][4 5 6 7][8 9 10...]]..."},
              {12, "[[0 1 2 3][4 5 6 7][8 9 10 11]]..."},
              {13, "[[0 1 2 3][4 5 6 7][8 9 10 11]][[12...]]..."},
              {23, "[[0 1 2 3][4 5 6 7][8 9 10 11]][[12 13 14 15][16 17 18 19][20 21 22...]]..."},
              {24, "[[0 1 2 3][4 5 6 7][8 9 10 11]][[12 13 14 15][16 17 18 19][20 21 22 23]]"});
  EXPECT_NESTED(&tensor, {0, "[\n\n ...]"},
                {1, "[[[0 ... 3]\n  ...\n  [8 ... 11]]\n\n [[12 ... 15]\n  ...\n  [20 ... 23]]]"},
                {-1, "[[[0 1 2 3]\n  [4 5 6 7]\n  [8 9 10 11]]\n\n"
                     " [[12 13 14 15]\n  [16 17 18 19]\n  [20 21 22 23]]]"});
  dp_tensor_deinit(&tensor);
  tensor = count_up(dp_shape_vector(9));
  EXPECT_FLAT(&tensor, {0, "..."}, {3, "0 1 2..."}, {9, "0 1 2 3 4 5 6 7 8"});
  EXPECT_NESTED(&tensor, {3, "[0 1 2 ... 6 7 8]"}, {4, "[0 1 2 3 ... 5 6 7 8]"},
                {5, "[0 1 2 3 4 5 6 7 8]"});
  dp_tensor_deinit(&tensor);
}

static void test_empty(void **state) {
  dp_tensor tensor = make(DP_FLOAT, dp_shape_vector(0), NULL);
  EXPECT_FLAT(&tensor, {-1, ""}, {0, ""}, {3, ""});
  EXPECT_NESTED(&tensor, {-1, "[]"}, {0, "[]"}, {3, "[]"});
  dp_tensor_deinit(&tensor);
  tensor = make(DP_FLOAT, dp_shape_matrix(2, 0), NULL);
  EXPECT_FLAT(&tensor, {-1, ""}, {0, ""}, {3, ""});
  EXPECT_NESTED(&tensor, {-1, "[\n ...]"}, {0, "[\n ...]"}, {3, "[\n ...]"});
  dp_tensor_deinit(&tensor);
  tensor = make(DP_FLOAT, dp_shape_of(3, (int64_t[]){2, 0, 2}), NULL);
  EXPECT_FLAT(&tensor, {3, ""});
  EXPECT_NESTED(&tensor, {3, "[\n\n ...]"});
  dp_tensor_deinit(&tensor);
  dp_tensor unset = {0};
  EXPECT_FLAT(&unset, {3, "uninitialized Tensor of 0 elements of type 0"});
}

static void test_scalars(void **state) {
  float value = 3.5f;
  dp_tensor tensor = make(DP_FLOAT, dp_shape_scalar(), &value);
  EXPECT_FLAT(&tensor, {-1, "3.5"}, {0, "..."}, {1, "3.5"}, {3, "3.5"});
  EXPECT_NESTED(&tensor, {-1, "3.5"}, {0, "..."}, {1, "3.5"}, {3, "3.5"});
  dp_tensor_deinit(&tensor);
}

static void test_floats(void **state) {
  const float floats[] = {0.1f,       1e10f,     1e20f, 1e-5f, 1.0f,  123456.789f, 1234567.0f,
                          INFINITY,   -INFINITY, NAN,   -NAN,  -0.0f, 3.1415927f,  1 / 3.f,
                          16777216.f, 1e15f,     1e16f, 1e6f,  1e5f,  1e-7f};
  dp_tensor tensor = make(DP_FLOAT, dp_shape_vector(sizeof floats / sizeof floats[0]), floats);
  EXPECT_FLAT(&tensor, {100, "0.1 1e+10 1e+20 1e-05 1 123456.789 1234567 inf -inf nan -nan -0 "
                             "3.14159274 0.333333343 16777216 1e+15 1e+16 1e+06 100000 1e-07"});
  dp_tensor_deinit(&tensor);
  const double doubles[] = {0.1,  1e10, 1e20, 1234567890123456789., 3.141592653589793, 1 / 3.,
                            1e15, 1e16, 1e300};
  tensor = make(DP_DOUBLE, dp_shape_vector(sizeof doubles / sizeof doubles[0]), doubles);
  EXPECT_FLAT(&tensor, {100, "0.1 10000000000 1e+20 1.2345678901234568e+18 3.1415926535897931 "
                             "0.33333333333333331 1e+15 1e+16 1e+300"});
  dp_tensor_deinit(&tensor);
}

static void test_small_floats(void **state) {
  const float values[] = {0.1f, 1.0f, 65504.0f, 6e-8f, INFINITY, NAN, 1 / 3.f, -2048.0f};
  uint16_t bits[8];
  for (int i = 0; i < 8; i++)
    bits[i] = dp_half_from_float(values[i]);
  dp_tensor tensor = make(DP_HALF, dp_shape_vector(8), bits);
  EXPECT_FLAT(&tensor, {9, "0.0999755859 1 65504 5.96046448e-08 inf nan 0.333251953 -2048"});
  dp_tensor_deinit(&tensor);
  for (int i = 0; i < 8; i++)
    bits[i] = dp_bfloat16_from_float(values[i]);
  tensor = make(DP_BFLOAT16, dp_shape_vector(8), bits);
  EXPECT_FLAT(&tensor, {9, "0.100097656 1 65536 6.00703061e-08 inf nan 0.333984375 -2048"});
  dp_tensor_deinit(&tensor);
  static const struct {
    int dtype;
    const char *text;
  } rows[] = {{DP_FLOAT8_E4M3FN, "0.1015625 1 -2 448 nan"},
              {DP_FLOAT8_E5M2, "0.09375 1 -2 448 nan"},
              {DP_FLOAT8_E4M3B11FNUZ, "0.1015625 1 -2 -nan -nan"},
              {DP_FLOAT8_E4M3FNUZ, "? ? ? ? ?"},
              {DP_FLOAT8_E5M2FNUZ, "? ? ? ? ?"}};
  const float few[] = {0.1f, 1.0f, -2.0f, 448.0f, NAN};
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    uint8_t bytes[5];
    for (int k = 0; k < 5; k++)
      bytes[k] = dp_float8_from_float(rows[i].dtype, few[k]);
    tensor = make(rows[i].dtype, dp_shape_vector(5), bytes);
    EXPECT_FLAT(&tensor, {100, rows[i].text});
    dp_tensor_deinit(&tensor);
  }
}

static void test_integers(void **state) {
  const uint64_t large[] = {1, UINT64_MAX};
  dp_tensor tensor = make(DP_UINT64, dp_shape_vector(2), large);
  EXPECT_FLAT(&tensor, {5, "1 18446744073709551615"});
  dp_tensor_deinit(&tensor);
  const int8_t bytes[] = {1, -5, 100};
  static const struct {
    int dtype;
    const char *text;
  } rows[] = {{DP_INT8, "1 -5 100"},    {DP_QINT8, "1 -5 100"}, {DP_UINT8, "1 251 100"},
              {DP_QUINT8, "1 251 100"}, {DP_INT4, "1 -5 4"},    {DP_UINT4, "1 11 4"},
              {DP_INT2, "1 -1 0"},      {DP_UINT2, "1 3 0"}};
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    tensor = make(rows[i].dtype, dp_shape_vector(3), bytes);
    EXPECT_FLAT(&tensor, {5, rows[i].text});
    dp_tensor_deinit(&tensor);
  }
  const uint8_t bools[] = {1, 0, 1, 1};
  tensor = make(DP_BOOL, dp_shape_matrix(2, 2), bools);
  EXPECT_FLAT(&tensor, {2, "[1 0]..."}, {3, "[1 0][1...]..."}, {9, "[1 0][1 1]"});
  EXPECT_NESTED(&tensor, {2, "[[1 0]\n [1 1]]"});
  dp_tensor_deinit(&tensor);
}

static void test_unshown(void **state) {
  dp_shape shape = dp_shape_matrix(2, 2);
  dp_tensor tensor;
  assert_null(dp_tensor_create_zero(DP_COMPLEX64, &shape, &tensor));
  EXPECT_FLAT(&tensor, {0, "..."}, {1, "?..."}, {4, "? ? ? ?"}, {-1, "? ? ? ?"});
  EXPECT_NESTED(&tensor, {0, "[...]"}, {1, "[?...]"}, {-1, "[? ? ? ?]"});
  dp_tensor_deinit(&tensor);
  shape = dp_shape_scalar();
  assert_null(dp_tensor_create_zero(DP_QINT32, &shape, &tensor));
  EXPECT_FLAT(&tensor, {3, "?"});
  EXPECT_NESTED(&tensor, {3, "?"});
  dp_tensor_deinit(&tensor);
}

static void test_strings(void **state) {
  dp_tensor tensor = make(DP_STRING, dp_shape_vector(3), NULL);
  static const char odd[] = "b\n\"'\\\001\xff\x80 z";
  assert_null(dp_tstring_assign(&dp_tensor_strings(&tensor)[0], "a", 1));
  assert_null(dp_tstring_assign(&dp_tensor_strings(&tensor)[1], odd, sizeof odd - 1));
  EXPECT_FLAT(&tensor, {1, "a..."}, {9, "a b\\n\\\"\\'\\\\\\001\xff\x80 z "});
  EXPECT_NESTED(&tensor, {1, "[\"a\" ... \"\"]"},
                {9, "[\"a\" \"b\\n\\\"\\'\\\\\\001\xff\x80 z\" \"\"]"});
  dp_tensor_deinit(&tensor);
}

static const dp_variant_ops list_ops = {.type_name = "tensorflow::TensorList"};

static void test_objects(void **state) {
  dp_tensor tensor = make(DP_RESOURCE, dp_shape_scalar(), NULL);
  dp_resource_handle *handle = dp_resource_handle_create(
      "/job:localhost/replica:0/task:0/device:CPU:0", "cc", "vv", 0, "tensorflow::Var");
  dp_tensor_handles(&tensor)[0] = handle;
  handle->component_count = 1;
  handle->dtypes = malloc(sizeof *handle->dtypes);
  handle->shapes = malloc(sizeof *handle->shapes);
  handle->dtypes[0] = DP_FLOAT;
  assert_null(dp_partial_shape_make(2, (int64_t[]){2, 3}, &handle->shapes[0]));
  const char *text = "<ResourceHandle(name=\"vv\", "
                     "device=\"/job:localhost/replica:0/task:0/device:CPU:0\", container=\"cc\", "
                     "type=\"tensorflow::Var\", dtype and shapes : \"[ DType enum: 1, Shape: "
                     "[2,3] ]\")>";
  EXPECT_FLAT(&tensor, {3, text});
  EXPECT_NESTED(&tensor, {3, text});
  dp_tensor_deinit(&tensor);
  tensor = make(DP_VARIANT, dp_shape_vector(2), NULL);
  dp_tensor_variants(&tensor)[0] = dp_variant_create(&list_ops, NULL);
  dp_tensor_variants(&tensor)[1] = dp_variant_create(&list_ops, NULL);
  EXPECT_FLAT(&tensor, {1, "<TensorList>..."}, {2, "<TensorList> <TensorList>"});
  EXPECT_NESTED(&tensor, {1, "[<TensorList>...]"}, {2, "[<TensorList> <TensorList>]"});
  dp_tensor_deinit(&tensor);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_matrix),   cmocka_unit_test(test_cube),
      cmocka_unit_test(test_empty),    cmocka_unit_test(test_scalars),
      cmocka_unit_test(test_floats),   cmocka_unit_test(test_small_floats),
      cmocka_unit_test(test_integers), cmocka_unit_test(test_unshown),
      cmocka_unit_test(test_strings),  cmocka_unit_test(test_objects),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
