/* Tensors: creation and its failures, sharing, slices, clones, elements that own something. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>
#include "tensor/tensor.h"

static dp_tensor make(dp_dtype dtype, dp_shape shape) {
  dp_tensor tensor;
  assert_null(dp_tensor_create(dtype, &shape, &tensor));
  assert_int_equal(tensor.dtype, dtype);
  assert_true(dp_shape_equal(&tensor.shape, &shape));
  return tensor;
}

static uint64_t live_bytes(void) {
  dp_buffer_statistics statistics;
  dp_buffer_get_statistics(&statistics);
  return statistics.live_bytes;
}

static void test_create(void **state) {
  uint64_t live = live_bytes();
  for (int dtype = 1; dtype < DP_DTYPE_END; dtype++) {
    dp_tensor tensor = make(dtype, dp_shape_matrix(3, 5));
    assert_int_equal(dp_tensor_elements(&tensor), 15);
    assert_int_equal(dp_tensor_bytes(&tensor), 15 * dp_dtype_size(dtype));
    assert_true(dp_tensor_is_set(&tensor) && dp_tensor_is_unique(&tensor));
    dp_tensor_deinit(&tensor);
    assert_false(dp_tensor_is_set(&tensor));
    dp_shape shape = dp_shape_matrix(2, 0);
    assert_null(dp_tensor_create_zero(dtype, &shape, &tensor));
    assert_non_null(tensor.data);
    dp_tensor_deinit(&tensor);
  }
  assert_int_equal(live_bytes(), live);
}

static void expect_code(dp_status *status, dp_code code, const char *part) {
  assert_int_equal(dp_status_code(status), code);
  if (!strstr(dp_status_message(status), part))
    fail_msg("\"%s\" is not in \"%s\"", part, dp_status_message(status));
  dp_status_release(status);
}

static void test_create_failures(void **state) {
  dp_tensor tensor = {0};
  dp_shape scalar = dp_shape_scalar(), huge = dp_shape_vector(INT64_MAX);
  expect_code(dp_tensor_create(0, &scalar, &tensor), DP_INVALID_ARGUMENT, "number 0");
  expect_code(dp_tensor_create(101, &scalar, &tensor), DP_INVALID_ARGUMENT, "101");
  expect_code(dp_tensor_create(-7, &scalar, &tensor), DP_INVALID_ARGUMENT, "-7");
  expect_code(dp_tensor_create(DP_STRING, &huge, &tensor), DP_INVALID_ARGUMENT, "string");
  expect_code(dp_tensor_create(DP_INT8, &huge, &tensor), DP_RESOURCE_EXHAUSTED,
              "[9223372036854775807] and type int8");
  expect_code(dp_tensor_create_zero(DP_COMPLEX128, &huge, &tensor), DP_INVALID_ARGUMENT, "complex");
  dp_buffer *backing;
  uint64_t live = live_bytes();
  assert_null(dp_buffer_create(10, &backing));
  expect_code(dp_tensor_create_strings(&huge, backing, &tensor), DP_INVALID_ARGUMENT, "string");
  assert_int_equal(live_bytes(), live);
  assert_false(dp_tensor_is_set(&tensor));
}

static void test_sharing(void **state) {
  dp_tensor tensor = make(DP_INT32, dp_shape_of(3, (int64_t[]){4, 3, 2}));
  int32_t *values = tensor.data;
  for (int i = 0; i < 24; i++)
    values[i] = i;
  dp_tensor copy = dp_tensor_copy(&tensor);
  assert_false(dp_tensor_is_unique(&tensor));
  dp_tensor slice = dp_tensor_slice(&tensor, 1, 3);
  assert_string_equal(dp_shape_text(&slice.shape), "[2,3,2]");
  assert_int_equal(slice.shape.elements, 12);
  assert_int_equal(((int32_t *)slice.data)[0], 6);
  dp_tensor inner = dp_tensor_slice(&slice, 1, 2);
  assert_int_equal(((int32_t *)inner.data)[5], 17);
  dp_tensor none = dp_tensor_slice(&slice, 2, 2);
  assert_int_equal(none.shape.elements, 0);
  dp_shape flat = dp_shape_vector(12);
  dp_tensor reshaped = dp_tensor_reshaped(&slice, &flat);
  assert_int_equal(dp_tensor_int_at(&reshaped, 11), 17);
  dp_tensor clone;
  assert_null(dp_tensor_clone(&slice, &clone));
  assert_true(dp_tensor_is_unique(&clone));
  assert_memory_equal(clone.data, slice.data, 48);
  dp_tensor moved = dp_tensor_take(&copy);
  assert_false(dp_tensor_is_set(&copy));
  dp_tensor_deinit(&copy); /* does nothing */
  dp_tensor *all[] = {&moved, &slice, &inner, &none, &reshaped, &clone};
  for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
    dp_tensor_deinit(all[i]);
  assert_true(dp_tensor_is_unique(&tensor));
  dp_tensor_deinit(&tensor);
}

static void test_from_buffer(void **state) {
  dp_buffer *buffer;
  assert_null(dp_buffer_create(64, &buffer));
  ((uint8_t *)buffer->data)[9] = 42;
  dp_shape shape = dp_shape_vector(3);
  dp_tensor tensor = dp_tensor_from_buffer(DP_UINT8, &shape, buffer, 8);
  assert_int_equal(dp_tensor_int_at(&tensor, 1), 42);
  dp_tensor_deinit(&tensor);
}

static void test_strings(void **state) {
  static const char longer[] = "a string that is longer than twenty-two bytes";
  uint64_t live = live_bytes();
  dp_buffer *backing;
  assert_null(dp_buffer_create(100, &backing));
  memcpy(backing->data, longer, sizeof longer);
  dp_shape shape = dp_shape_vector(4);
  dp_tensor tensor, clone;
  assert_null(dp_tensor_create_strings(&shape, backing, &tensor));
  dp_tstring *strings = dp_tensor_strings(&tensor);
  assert_int_equal(dp_tstring_size(&strings[0]), 0);
  assert_null(dp_tstring_assign(&strings[0], longer, 30));
  assert_null(dp_tstring_assign(&strings[1], "small", 5));
  dp_tstring_assign_view(&strings[2], backing->data, sizeof longer - 1);
  dp_tensor slice = dp_tensor_slice(&tensor, 1, 3);
  dp_tensor_deinit(&tensor);
  assert_null(dp_tensor_clone(&slice, &clone));
  dp_tensor_deinit(&slice); /* frees the backing too: the clone must not need it */
  dp_tstring *cloned = dp_tensor_strings(&clone);
  assert_true(dp_view_equals(dp_tstring_view(&cloned[0]), "small"));
  assert_true(dp_view_equals(dp_tstring_view(&cloned[1]), longer));
  /* Copies replace what is there and may overlap with themselves. */
  dp_tensor_copy_elements(DP_STRING, &cloned[0], &cloned[1], 1);
  dp_tensor_copy_elements(DP_STRING, &cloned[1], &cloned[1], 1);
  assert_true(dp_view_equals(dp_tstring_view(&cloned[0]), longer));
  dp_tensor_deinit(&clone);
  assert_null(dp_tensor_scalar_string(longer, sizeof longer, &tensor));
  assert_int_equal(dp_tstring_size(dp_tensor_strings(&tensor)), sizeof longer);
  dp_tensor_deinit(&tensor);
  assert_int_equal(live_bytes(), live);
}

static void count_release(void *object) {
  ++*(int *)object;
}

static void test_handles(void **state) {
  int released = 0;
  dp_resource_handle *handle = dp_resource_handle_create("/cpu:0", NULL, "weights", 5, "Var");
  assert_string_equal(handle->container, "");
  assert_string_equal(handle->name, "weights");
  handle->object = &released;
  handle->object_release = count_release;
  dp_tensor tensor = make(DP_RESOURCE, dp_shape_vector(3)), clone;
  assert_null(dp_tensor_handles(&tensor)[2]);
  dp_tensor_handles(&tensor)[1] = dp_resource_handle_retain(handle);
  assert_null(dp_tensor_clone(&tensor, &clone));
  assert_ptr_equal(dp_tensor_handles(&clone)[1], handle);
  dp_tensor_copy_elements(DP_RESOURCE, dp_tensor_handles(&clone), dp_tensor_handles(&tensor) + 1,
                          2);
  assert_null(dp_tensor_handles(&clone)[1]);
  dp_resource_handle_release(handle);
  dp_tensor_deinit(&tensor);
  assert_int_equal(released, 0);
  dp_tensor_deinit(&clone);
  assert_int_equal(released, 1);
  dp_resource_handle_release(NULL);
}

static const dp_variant_ops counting_ops = {.type_name = "tensorflow::Counting",
                                            .destroy = count_release};
static const dp_variant_ops other_ops = {.type_name = "tensorflow::Other"};

static void test_variants(void **state) {
  int destroyed = 0;
  dp_tensor tensor = make(DP_VARIANT, dp_shape_scalar()), clone;
  dp_tensor_variants(&tensor)[0] = dp_variant_create(&counting_ops, &destroyed);
  assert_null(dp_tensor_clone(&tensor, &clone));
  dp_tensor_deinit(&tensor);
  assert_int_equal(destroyed, 0);
  dp_tensor_deinit(&clone);
  assert_int_equal(destroyed, 1);
  dp_variant_release(dp_variant_create(&other_ops, NULL));
  dp_variant_release(dp_variant_retain(NULL));
  assert_null(dp_variant_find("tensorflow::Counting"));
  dp_variant_register(&counting_ops);
  dp_variant_register(&other_ops);
  dp_variant_register(&counting_ops);
  assert_ptr_equal(dp_variant_find("tensorflow::Counting"), &counting_ops);
  assert_ptr_equal(dp_variant_find("tensorflow::Other"), &other_ops);
  assert_null(dp_variant_find("tensorflow::"));
}

static void test_scalars(void **state) {
  dp_tensor tensor;
  int64_t value = 0;
  assert_null(dp_tensor_scalar_int32(-5, &tensor));
  assert_null(dp_tensor_to_int64(&tensor, &value));
  assert_int_equal(value, -5);
  dp_tensor_deinit(&tensor);
  assert_null(dp_tensor_scalar_int64(INT64_MIN, &tensor));
  assert_true(dp_tensor_int_at(&tensor, 0) == INT64_MIN);
  dp_tensor_deinit(&tensor);
  assert_null(dp_tensor_scalar_bool(true, &tensor));
  assert_int_equal(*(uint8_t *)tensor.data, 1);
  expect_code(dp_tensor_to_int64(&tensor, &value), DP_INVALID_ARGUMENT, "bool");
  dp_tensor_deinit(&tensor);
  assert_null(dp_tensor_scalar_float(1.5f, &tensor));
  assert_true(*(float *)tensor.data == 1.5f);
  dp_tensor_deinit(&tensor);
  tensor = make(DP_INT16, dp_shape_vector(2));
  expect_code(dp_tensor_to_int64(&tensor, &value), DP_INVALID_ARGUMENT, "[2]");
  dp_tensor_deinit(&tensor);
}

static void test_int_at(void **state) {
  static const struct {
    int dtype;
    int64_t expected; /* of a byte pattern of all 0xf9 */
  } rows[] = {{DP_INT8, -7},     {DP_UINT8, 0xf9},
              {DP_INT16, -1543}, {DP_UINT16, 0xf9f9},
              {DP_INT4, -7},     {DP_UINT4, 9},
              {DP_INT2, 1},      {DP_UINT2, 1},
              {DP_QINT8, -7},    {DP_QUINT8, 0xf9},
              {DP_BOOL, 1},      {DP_UINT32, 0xf9f9f9f9},
              {DP_FLOAT, 0},     {DP_INT32, (int32_t)0xf9f9f9f9}};
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    dp_tensor tensor = make(rows[i].dtype, dp_shape_vector(2));
    memset(tensor.data, 0xf9, dp_tensor_bytes(&tensor));
    assert_true(dp_tensor_int_at(&tensor, 1) == rows[i].expected);
    dp_tensor_deinit(&tensor);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_create),   cmocka_unit_test(test_create_failures),
      cmocka_unit_test(test_sharing),  cmocka_unit_test(test_from_buffer),
      cmocka_unit_test(test_strings),  cmocka_unit_test(test_handles),
      cmocka_unit_test(test_variants), cmocka_unit_test(test_scalars),
      cmocka_unit_test(test_int_at),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
