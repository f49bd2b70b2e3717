/* dp_file_read_small: whichever way it chooses, the whole file is read. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fault.h"
#include "storage/file.h"

static char path[] = "/tmp/downpour-file-XXXXXX";

static void make_file(size_t size) {
  FILE *file = fopen(path, "wb");
  assert_non_null(file);
  for (size_t i = 0; i < size; ++i)
    putc((int)(i * 7 % 251), file);
  assert_int_equal(fclose(file), 0);
}

/* All bytes of a file, from memory or from the file, as dp_file_read_small chose. */
static size_t read_all(const char *name, char *to, size_t room) {
  size_t length = 0;
  dp_file *file = NULL;
  assert_true(room >= DP_FILE_SMALL_BYTES);
  assert_null(dp_file_read_small(name, to, &length, &file));
  if (!file) {
    assert_true(length < DP_FILE_SMALL_BYTES);
    return length;
  }
  assert_null(dp_file_read(file, 0, to, room, &length));
  dp_file_discard(file);
  return length;
}

static void all_sizes_come_whole(void **state) {
  (void)state;
  static const size_t sizes[] = {0, 1, 1000, 4095, 4096, 4097, 10000};
  char data[16384];
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; ++i) {
    make_file(sizes[i]);
    assert_int_equal(read_all(path, data, sizeof data), sizes[i]);
    for (size_t k = 0; k < sizes[i]; ++k)
      assert_int_equal((uint8_t)data[k], k * 7 % 251);
  }
}

/* The kernel makes such a file up as it is read: it comes in pieces, and its size is said to be 0.
 */
static void a_file_without_a_size_comes_whole(void **state) {
  (void)state;
  char data[8192], expected[8192];
  FILE *file = fopen("/proc/self/limits", "rb");
  assert_non_null(file);
  size_t length = fread(expected, 1, sizeof expected, file);
  fclose(file);
  assert_int_equal(read_all("/proc/self/limits", data, sizeof data), length);
  assert_memory_equal(data, expected, length);
}

static void assert_fails(const char *name, int code) {
  char data[DP_FILE_SMALL_BYTES];
  size_t length = 0;
  dp_file *file = NULL;
  dp_status *status = dp_file_read_small(name, data, &length, &file);
  assert_int_equal(dp_status_code(status), code);
  assert_null(file);
  dp_status_release(status);
}

static void what_cannot_be_read_is_told(void **state) {
  (void)state;
  assert_fails("/tmp", DP_FAILED_PRECONDITION);
  assert_fails("/tmp/downpour-is-not-there/file", DP_NOT_FOUND);
  make_file(10);
  assert_null(dp_fault_configure("storage.open=error:UNAVAILABLE@1"));
  assert_fails(path, DP_UNAVAILABLE);
  assert_null(dp_fault_configure("storage.read=error:DATA_LOSS@1"));
  assert_fails(path, DP_DATA_LOSS);
  dp_fault_clear();
}

static int make_path(void **state) {
  (void)state;
  int descriptor = mkstemp(path);
  return descriptor < 0 ? -1 : close(descriptor);
}

static int remove_path(void **state) {
  (void)state;
  return unlink(path);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(all_sizes_come_whole),
      cmocka_unit_test(a_file_without_a_size_comes_whole),
      cmocka_unit_test(what_cannot_be_read_is_told),
  };
  return cmocka_run_group_tests(tests, make_path, remove_path);
}
