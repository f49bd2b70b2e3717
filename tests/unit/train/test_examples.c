/* Examples from files: the formats, batches and orders, and files that are damaged. */
#include <downpour_train.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include <cmocka.h>
#include "storage/record.h"

static char folder[64];

static int make_folder(void **state) {
  strcpy(folder, "/tmp/downpour-examples-XXXXXX");
  return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state) {
  char command[128];
  snprintf(command, sizeof(command), "rm -rf %s", folder);
  return system(command);
}

static const char *write_file(const char *name, const void *data, size_t length) {
  static char paths[4][128];
  static int next;
  char *path = paths[next++ % 4];
  snprintf(path, sizeof(paths[0]), "%s/%s", folder, name);
  FILE *file = fopen(path, "wb");
  assert_int_equal(fwrite(data, 1, length, file), length);
  fclose(file);
  return path;
}

static const char *write_gzip(const char *name, const void *data, size_t length) {
  const char *path = write_file(name, "", 0);
  gzFile file = gzopen(path, "wb");
  assert_int_equal(gzwrite(file, data, (unsigned)length), (int)length);
  gzclose(file);
  return path;
}

static const uint8_t images[] = {0, 0, 8, 3, 0, 0, 0,  3,   0,   0,   0,
                                 1, 0, 0, 0, 2, 0, 51, 102, 153, 204, 255};
static const uint8_t labels[] = {0, 0, 8, 1, 0, 0, 0, 3, 7, 8, 9};

static void expect_error(dp_examples *examples, TF_Status *status, TF_Code code, const char *text) {
  assert_null(examples);
  assert_int_equal(TF_GetCode(status), code);
  if (!strstr(TF_Message(status), text))
    fail_msg("\"%s\" does not say \"%s\"", TF_Message(status), text);
}

static void test_idx(void **state) {
  TF_Status *status = TF_NewStatus();
  for (int packed = 0; packed < 2; packed++) {
    const char *x_path = packed ? write_gzip("x.gz", images, sizeof(images))
                                : write_file("x", images, sizeof(images));
    const char *y_path = packed ? write_gzip("y.gz", labels, sizeof(labels))
                                : write_file("y", labels, sizeof(labels));
    dp_examples *examples = dp_examples_idx(x_path, y_path, status);
    assert_string_equal(TF_Message(status), "");
    assert_int_equal(dp_examples_count(examples), 3);
    TF_Tensor *x, *y;
    dp_examples_batch(examples, 4, &x, &y);
    assert_int_equal(TF_NumDims(x), 3);
    assert_int_equal(TF_Dim(x, 0), 4);
    assert_int_equal(TF_Dim(x, 2), 2);
    assert_true(((float *)TF_TensorData(x))[1] == 51 / 255.0f);
    assert_true(((float *)TF_TensorData(x))[5] == 1);
    assert_memory_equal(TF_TensorData(y), ((int32_t[]){7, 8, 9, 7}), 16);
    TF_DeleteTensor(x);
    TF_DeleteTensor(y);
    dp_examples_destroy(examples);
  }
  TF_DeleteStatus(status);
}

static void test_damaged_idx(void **state) {
  TF_Status *status = TF_NewStatus();
  const char *good_x = write_file("x", images, sizeof(images));
  const char *good_y = write_file("y", labels, sizeof(labels));
  expect_error(dp_examples_idx("/no/such/file", good_y, status), status, TF_NOT_FOUND,
               "/no/such/file");
  const char *cut = write_file("cut", images, sizeof(images) - 1);
  expect_error(dp_examples_idx(cut, good_y, status), status, TF_DATA_LOSS, "1 bytes too early");
  const uint8_t huge[] = {0, 0, 8, 2, 255, 255, 255, 255, 255, 255, 255, 255};
  const char *lies = write_file("huge", huge, sizeof(huge));
  expect_error(dp_examples_idx(lies, good_y, status), status, TF_DATA_LOSS, "more than");
  expect_error(dp_examples_idx(good_y, good_x, status), status, TF_INVALID_ARGUMENT, "labels");
  expect_error(dp_examples_idx(write_file("text", "hello", 5), good_y, status), status,
               TF_DATA_LOSS, "no IDX file");
  TF_DeleteStatus(status);
}

static void test_orders(void **state) {
  uint8_t many[8 + 100] = {0, 0, 8, 1, 0, 0, 0, 100};
  for (int i = 0; i < 100; i++)
    many[8 + i] = (uint8_t)i;
  TF_Status *status = TF_NewStatus();
  const char *path = write_file("many", many, sizeof(many));
  dp_examples *examples = dp_examples_idx(path, path, status);
  assert_non_null(examples);
  dp_examples_shuffle(examples, 5);
  int32_t first[100];
  for (int epoch = 0; epoch < 2; epoch++) {
    bool seen[100] = {false};
    TF_Tensor *x, *y;
    dp_examples_batch(examples, 100, &x, &y);
    const int32_t *values = TF_TensorData(y);
    for (int i = 0; i < 100; i++)
      seen[values[i]] = true;
    for (int i = 0; i < 100; i++)
      assert_true(seen[i]);
    if (epoch == 0)
      memcpy(first, values, sizeof(first));
    else
      assert_memory_not_equal(first, values, sizeof(first));
    TF_DeleteTensor(x);
    TF_DeleteTensor(y);
  }
  dp_examples_destroy(examples);
  TF_DeleteStatus(status);
}

static void test_csv(void **state) {
  static const char good[] = "a,b,y\n1, 2.5,3\n\n-4,5e1,6\r\n";
  TF_Status *status = TF_NewStatus();
  dp_examples *examples = dp_examples_csv(write_file("good", good, strlen(good)), status);
  assert_string_equal(TF_Message(status), "");
  TF_Tensor *x, *y;
  dp_examples_batch(examples, 2, &x, &y);
  assert_memory_equal(TF_TensorData(x), ((float[]){1, 2.5f, -4, 50}), 16);
  assert_memory_equal(TF_TensorData(y), ((float[]){3, 6}), 8);
  TF_DeleteTensor(x);
  TF_DeleteTensor(y);
  dp_examples_destroy(examples);
  expect_error(dp_examples_csv(write_file("a", "1,2\n3,x\n", 8), status), status,
               TF_INVALID_ARGUMENT, "line 2: \"x\" is not a number");
  expect_error(dp_examples_csv(write_file("zero", "1,2\n3,4\0,5\n", 11), status), status,
               TF_INVALID_ARGUMENT, "line 2: \"4");
  expect_error(dp_examples_csv(write_file("b", "1,2\n3\n", 6), status), status, TF_INVALID_ARGUMENT,
               "line 2 has 1 numbers");
  expect_error(dp_examples_csv(write_file("c", "", 0), status), status, TF_INVALID_ARGUMENT,
               "no examples");
  TF_DeleteStatus(status);
}

static void test_cifar(void **state) {
  enum { RECORD = 1 + 32 * 32 * 3 };
  static uint8_t records[2 * RECORD];
  records[0] = 3;
  records[1 + 5] = 255; /* red of pixel 5 */
  records[RECORD] = 9;
  records[RECORD + 1 + 2 * 1024] = 51; /* blue of pixel 0 */
  TF_Status *status = TF_NewStatus();
  const char *path = write_file("cifar", records, sizeof(records));
  dp_examples *examples = dp_examples_cifar(DP_STRINGS(path, path), status);
  assert_string_equal(TF_Message(status), "");
  assert_int_equal(dp_examples_count(examples), 4);
  TF_Tensor *x, *y;
  dp_examples_batch(examples, 2, &x, &y);
  const float *pixels = TF_TensorData(x);
  assert_true(pixels[5 * 3] == 1);
  assert_true(pixels[3072 + 2] == 0.2f);
  assert_memory_equal(TF_TensorData(y), ((int32_t[]){3, 9}), 8);
  TF_DeleteTensor(x);
  TF_DeleteTensor(y);
  dp_examples_destroy(examples);
  expect_error(dp_examples_cifar(DP_STRINGS(write_file("cut", records, RECORD + 7)), status),
               status, TF_DATA_LOSS, "inside a record");
  TF_DeleteStatus(status);
}

static void test_records(void **state) {
  TF_Status *status = TF_NewStatus();
  const char *path = write_file("records", "", 0);
  dp_file *file;
  dp_record_writer *writer;
  assert_null(dp_file_open(path, DP_FILE_CREATE, &file));
  assert_null(dp_record_writer_create(file, DP_COMPRESSION_NONE, &writer));
  assert_null(dp_record_writer_add(writer, "one that is longer than a small string", 38));
  assert_null(dp_record_writer_add(writer, "", 0));
  assert_null(dp_record_writer_finish(writer));
  assert_null(dp_file_close(file));
  dp_examples *examples = dp_examples_records(path, "", status);
  assert_string_equal(TF_Message(status), "");
  assert_int_equal(dp_examples_count(examples), 2);
  TF_Tensor *x, *y;
  dp_examples_batch(examples, 2, &x, &y);
  const TF_TString *strings = TF_TensorData(x);
  assert_int_equal(TF_StringGetSize(&strings[0]), 38);
  assert_memory_equal(TF_StringGetDataPointer(&strings[0]), "one that is", 11);
  assert_int_equal(TF_StringGetSize(&strings[1]), 0);
  TF_DeleteTensor(x);
  TF_DeleteTensor(y);
  dp_examples_destroy(examples);
  expect_error(dp_examples_records("/no/such/file", "", status), status, TF_NOT_FOUND, "/no/such");
  expect_error(dp_examples_records("/no/such/file", "LZ", status), status, TF_INVALID_ARGUMENT,
               "LZ");
  expect_error(dp_examples_records(write_file("bad", "123456789012345", 15), "", status), status,
               TF_DATA_LOSS, "corrupted record");
  TF_DeleteStatus(status);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_idx),    cmocka_unit_test(test_damaged_idx),
      cmocka_unit_test(test_orders), cmocka_unit_test(test_csv),
      cmocka_unit_test(test_cifar),  cmocka_unit_test(test_records),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
