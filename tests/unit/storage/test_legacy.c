/* Readers of V1 checkpoints are used again, and notice when the files change. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "storage/legacy.h"

static char folder[] = "/tmp/downpour-legacy-XXXXXX";
static char shard_0[256], shard_1[256], pattern[256];

static void save(const char *path, const char *name, float value) {
  dp_tensor tensor;
  dp_shape shape = dp_shape_vector(1);
  assert_null(dp_tensor_create(DP_FLOAT, &shape, &tensor));
  *(float *)tensor.data = value;
  dp_slice slice = dp_slice_full(1);
  dp_legacy_writer *writer = dp_legacy_writer_create(path);
  assert_null(dp_legacy_writer_add(writer, dp_view_of(name), &shape, &slice, &tensor));
  assert_null(dp_legacy_writer_finish(writer));
  dp_legacy_writer_destroy(writer);
  dp_tensor_deinit(&tensor);
}

/* The value, or -1 when there is no such tensor. */
static float restore(const char *from, const char *name) {
  dp_legacy_reader *reader;
  assert_null(dp_legacy_reader_take(from, &reader));
  dp_dtype dtype;
  dp_shape shape;
  float value = -1;
  if (dp_legacy_reader_find(reader, dp_view_of(name), &dtype, &shape)) {
    dp_slice slice = dp_slice_full(1);
    dp_tensor tensor;
    assert_null(dp_legacy_reader_read(reader, dp_view_of(name), &slice, &tensor));
    value = *(float *)tensor.data;
    dp_tensor_deinit(&tensor);
  }
  dp_legacy_reader_give(reader);
  return value;
}

static void a_reader_waits_for_the_next(void **state) {
  (void)state;
  save(shard_0, "a", 1);
  dp_legacy_reader *first, *second, *other;
  assert_null(dp_legacy_reader_take(shard_0, &first));
  assert_null(dp_legacy_reader_take(shard_0, &other));
  assert_ptr_not_equal(first, other); /* one user at a time */
  dp_legacy_reader_give(first);
  assert_null(dp_legacy_reader_take(shard_0, &second));
  assert_ptr_equal(first, second);
  dp_legacy_reader_give(second);
  dp_legacy_reader_give(other);
}

static void a_replaced_file_is_read_anew(void **state) {
  (void)state;
  for (int i = 0; i < 100; ++i) {
    save(shard_0, "a", (float)i);
    assert_true(restore(shard_0, "a") == (float)i);
    assert_true(restore(shard_0, "a") == (float)i);
  }
}

static void a_new_shard_is_found(void **state) {
  (void)state;
  save(shard_0, "a", 5);
  assert_true(restore(pattern, "a") == 5);
  assert_true(restore(pattern, "b") == -1);
  save(shard_1, "b", 7);
  assert_true(restore(pattern, "b") == 7);
  assert_true(restore(pattern, "a") == 5);
}

static void a_removed_file_is_gone(void **state) {
  (void)state;
  assert_int_equal(unlink(shard_1), 0);
  assert_true(restore(pattern, "b") == -1);
  assert_true(restore(shard_0, "a") == 5);
  assert_int_equal(unlink(shard_0), 0);
  dp_legacy_reader *reader;
  dp_status *status = dp_legacy_reader_take(shard_0, &reader);
  assert_int_equal(dp_status_code(status), DP_NOT_FOUND);
  dp_status_release(status);
}

static int make_folder(void **state) {
  (void)state;
  if (!mkdtemp(folder))
    return 1;
  snprintf(shard_0, sizeof shard_0, "%s/model-00000", folder);
  snprintf(shard_1, sizeof shard_1, "%s/model-00001", folder);
  snprintf(pattern, sizeof pattern, "%s/model-?????", folder);
  return 0;
}

static int remove_folder(void **state) {
  (void)state;
  return rmdir(folder);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_reader_waits_for_the_next),
      cmocka_unit_test(a_replaced_file_is_read_anew),
      cmocka_unit_test(a_new_shard_is_found),
      cmocka_unit_test(a_removed_file_is_gone),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
