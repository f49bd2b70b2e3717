/* The value types of the C API: TF_Status, TF_Buffer, TF_TString and TF_Tensor, with what each
 * function promises about ownership and alignment. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "tensorflow/c/c_api.h"

static void count_payload(const char *key, const char *value, void *capture) {
  assert_string_equal(key, "where");
  assert_string_equal(value, "there");
  ++*(int *)capture;
}

static void test_status(void **state) {
  TF_Status *status = TF_NewStatus();
  assert_int_equal(TF_GetCode(status), TF_OK);
  assert_string_equal(TF_Message(status), "");
  TF_SetStatus(status, TF_ABORTED, "100% gone");
  assert_int_equal(TF_GetCode(status), TF_ABORTED);
  assert_string_equal(TF_Message(status), "100% gone");
  int payloads = 0;
  TF_SetPayload(status, "where", "here");
  TF_SetPayload(status, "where", "there");
  TF_ForEachPayload(status, count_payload, &payloads);
  assert_int_equal(payloads, 1);
  TF_SetStatus(status, TF_OK, "not kept");
  assert_string_equal(TF_Message(status), "");
  TF_SetPayload(status, "where", "there");
  TF_ForEachPayload(status, count_payload, &payloads);
  assert_int_equal(payloads, 1);
  TF_SetStatusFromIOError(status, ENOENT, "file.txt");
  assert_int_equal(TF_GetCode(status), TF_NOT_FOUND);
  assert_string_equal(TF_Message(status), "file.txt; No such file or directory");
  TF_DeleteStatus(status);
  TF_DeleteStatus(NULL);
}

static void test_buffer(void **state) {
  TF_Buffer *buffer = TF_NewBufferFromString("abc", 3);
  TF_Buffer inside = TF_GetBuffer(buffer);
  assert_int_equal(inside.length, 3);
  assert_memory_equal(inside.data, "abc", 3);
  TF_DeleteBuffer(buffer);
  buffer = TF_NewBuffer();
  assert_null(buffer->data);
  assert_int_equal(buffer->length, 0);
  TF_DeleteBuffer(buffer);
  TF_DeleteBuffer(NULL);
}

static void test_data_type_size(void **state) {
  assert_int_equal(TF_DataTypeSize(TF_FLOAT), 4);
  assert_int_equal(TF_DataTypeSize(TF_COMPLEX128), 16);
  assert_int_equal(TF_DataTypeSize(TF_BOOL), 1);
  assert_int_equal(TF_DataTypeSize(TF_STRING), 0);
  assert_int_equal(TF_DataTypeSize(TF_RESOURCE), 0);
  assert_int_equal(TF_DataTypeSize((TF_DataType)0), 0);
  assert_int_equal(TF_DataTypeSize((TF_DataType)1000), 0);
}

static void test_strings(void **state) {
  char text[] = "a string that is longer than twenty-two bytes";
  TF_TString string;
  memset(&string, 0xff, sizeof(string));
  TF_StringInit(&string);
  assert_int_equal(TF_StringGetSize(&string), 0);
  assert_int_equal(TF_StringGetType(&string), TF_TSTR_SMALL);
  assert_int_equal(TF_StringGetCapacity(&string), 22);
  TF_StringCopy(&string, "small", 5);
  assert_int_equal(TF_StringGetSize(&string), 5);
  assert_string_equal(TF_StringGetDataPointer(&string), "small");
  assert_int_equal(string.u.smll.size, 5 << 2);
  TF_StringCopy(&string, text, sizeof(text) - 1);
  assert_int_equal(TF_StringGetType(&string), TF_TSTR_LARGE);
  assert_string_equal(TF_StringGetDataPointer(&string), text);
  assert_true(TF_StringGetCapacity(&string) >= sizeof(text) - 1);
  assert_int_equal(string.u.large.size >> 2, sizeof(text) - 1);
  TF_StringAssignView(&string, text, 8);
  assert_int_equal(TF_StringGetType(&string), TF_TSTR_VIEW);
  assert_ptr_equal(TF_StringGetDataPointer(&string), text);
  assert_int_equal(TF_StringGetSize(&string), 8);
  TF_StringDealloc(&string);
  assert_int_equal(TF_StringGetSize(&string), 8);
  TF_StringCopy(&string, text, sizeof(text) - 1);
  TF_StringDealloc(&string);
  assert_int_equal(TF_StringGetSize(&string), 0);
}

static void count_free(void *data, size_t length, void *arg) {
  free(data);
  ++*(int *)arg;
}

static void test_new_tensor(void **state) {
  int frees = 0;
  int64_t dims[] = {2, 3};
  float *data = aligned_alloc(64, 64);
  TF_Tensor *tensor = TF_NewTensor(TF_FLOAT, dims, 2, data, 24, count_free, &frees);
  assert_ptr_equal(TF_TensorData(tensor), data);
  assert_int_equal(TF_TensorType(tensor), TF_FLOAT);
  assert_int_equal(TF_NumDims(tensor), 2);
  assert_int_equal(TF_Dim(tensor, 1), 3);
  assert_int_equal(TF_TensorByteSize(tensor), 24);
  assert_int_equal(TF_TensorElementCount(tensor), 6);
  assert_true(TF_TensorIsAligned(tensor));
  TF_SetShape(tensor, (int64_t[]){6}, 1);
  assert_int_equal(TF_NumDims(tensor), 1);
  assert_int_equal(frees, 0);
  TF_DeleteTensor(tensor);
  assert_int_equal(frees, 1);
  assert_null(TF_NewTensor(TF_FLOAT, dims, 2, malloc(23), 23, count_free, &frees));
  assert_int_equal(frees, 2);
  assert_null(TF_NewTensor((TF_DataType)99, dims, 2, malloc(24), 24, count_free, &frees));
  assert_null(TF_NewTensor(TF_FLOAT, (int64_t[]){-1}, 1, malloc(24), 24, count_free, &frees));
  assert_int_equal(frees, 4);
}

static void note_free(void *data, size_t length, void *arg) {
  ++*(int *)arg;
}

static void test_unaligned_is_copied(void **state) {
  int frees = 0;
  _Alignas(64) char bytes[64] = {0};
  int32_t value = 7;
  memcpy(bytes + 4, &value, 4);
  TF_Tensor *tensor = TF_NewTensor(TF_INT32, NULL, 0, bytes + 4, 4, note_free, &frees);
  assert_int_equal(frees, 1);
  memset(bytes, 0, sizeof(bytes));
  assert_int_equal(*(int32_t *)TF_TensorData(tensor), 7);
  TF_DeleteTensor(tensor);
  assert_int_equal(frees, 1);
}

static void test_move_and_bitcast(void **state) {
  TF_Status *status = TF_NewStatus();
  TF_Tensor *from = TF_AllocateTensor(TF_INT32, (int64_t[]){2}, 1, 8);
  TF_Tensor *to = TF_AllocateTensor(TF_FLOAT, NULL, 0, 4);
  TF_TensorBitcastFrom(from, TF_INT64, to, NULL, 0, status);
  assert_int_equal(TF_GetCode(status), TF_OK);
  assert_int_equal(TF_TensorType(to), TF_INT64);
  assert_ptr_equal(TF_TensorData(to), TF_TensorData(from));
  TF_TensorBitcastFrom(from, TF_INT32, to, (int64_t[]){3}, 1, status);
  assert_int_equal(TF_GetCode(status), TF_INVALID_ARGUMENT);
  TF_TensorBitcastFrom(from, TF_STRING, to, NULL, 0, status);
  assert_int_equal(TF_GetCode(status), TF_INVALID_ARGUMENT);
  assert_null(TF_TensorMaybeMove(from));
  TF_DeleteTensor(to);
  void *data = TF_TensorData(from);
  TF_Tensor *moved = TF_TensorMaybeMove(from);
  assert_non_null(moved);
  assert_ptr_equal(TF_TensorData(moved), data);
  TF_DeleteTensor(moved);
  TF_DeleteStatus(status);
}

static void test_tensor_from_proto(void **state) {
  TF_Status *status = TF_NewStatus();
  TF_Tensor *tensor = TF_AllocateTensor(TF_FLOAT, NULL, 0, 4);
  TF_Buffer good = {.data = "\x08\x03\x12\x00\x3a\x01\x05", .length = 7}; /* int32 scalar 5 */
  TF_TensorFromProto(&good, tensor, status);
  assert_int_equal(TF_GetCode(status), TF_OK);
  assert_int_equal(TF_TensorType(tensor), TF_INT32);
  assert_int_equal(*(int32_t *)TF_TensorData(tensor), 5);
  TF_Buffer bad = {.data = "\xff", .length = 1};
  TF_TensorFromProto(&bad, tensor, status);
  assert_int_equal(TF_GetCode(status), TF_INVALID_ARGUMENT);
  TF_DeleteTensor(tensor);
  TF_DeleteStatus(status);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_status),           cmocka_unit_test(test_buffer),
      cmocka_unit_test(test_data_type_size),   cmocka_unit_test(test_strings),
      cmocka_unit_test(test_new_tensor),       cmocka_unit_test(test_unaligned_is_copied),
      cmocka_unit_test(test_move_and_bitcast), cmocka_unit_test(test_tensor_from_proto),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
