/* Committed files: complete under their names at once, synced later; a failed sync is reported. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fault.h"
#include "storage/file.h"

static char folder[] = "/tmp/downpour-settle-XXXXXX";

static const char *in_folder(const char *name) {
  static char path[4][256];
  static int turn;
  turn = (turn + 1) % 4;
  snprintf(path[turn], sizeof path[turn], "%s/%s", folder, name);
  return path[turn];
}

static void assert_contents(const char *path, const char *expected) {
  char *data;
  size_t length;
  assert_null(dp_file_read_whole(path, 1 << 20, &data, &length));
  assert_string_equal(data, expected);
  dp_free(data);
}

static size_t count_files(void) {
  dp_name_list names = {0};
  assert_null(dp_path_list(folder, &names));
  size_t count = names.count;
  dp_name_list_deinit(&names);
  return count;
}

static void a_commit_does_not_wait_for_the_disk(void **state) {
  (void)state;
  const char *gate = in_folder("gate");
  assert_int_equal(close(open(gate, O_CREAT | O_WRONLY, 0600)), 0);
  char fault[300];
  snprintf(fault, sizeof fault, "storage.sync=hold:%s@1", gate);
  assert_null(dp_fault_configure(fault));
  assert_null(dp_file_write_whole(in_folder("model"), "new", 3));
  assert_contents(in_folder("model"), "new");
  assert_int_equal(unlink(gate), 0);
  assert_null(dp_storage_settle());
  assert_int_equal(count_files(), 1);
}

static void what_does_not_reach_the_disk_is_told(void **state) {
  (void)state;
  assert_null(dp_fault_configure("storage.sync=error:DATA_LOSS@1"));
  assert_null(dp_file_write_whole(in_folder("lost"), "a", 1));
  dp_status *status = dp_storage_settle();
  assert_int_equal(dp_status_code(status), DP_DATA_LOSS);
  assert_non_null(strstr(dp_status_message(status), in_folder("lost")));
  dp_status_release(status);
  assert_null(dp_storage_settle());
}

static void the_next_commit_tells_it_too(void **state) {
  (void)state;
  size_t before = count_files();
  assert_null(dp_fault_configure("storage.sync=error:DATA_LOSS@1"));
  assert_null(dp_file_write_whole(in_folder("first"), "a", 1));
  dp_status *status = NULL;
  for (int i = 0; i < 10000 && !status; ++i) {
    usleep(1000);
    status = dp_file_write_whole(in_folder("second"), "b", 1);
  }
  assert_int_equal(dp_status_code(status), DP_DATA_LOSS);
  dp_status_release(status);
  assert_null(dp_file_write_whole(in_folder("second"), "c", 1));
  assert_contents(in_folder("second"), "c");
  assert_null(dp_storage_settle());
  assert_int_equal(count_files(), before + 2);
}

static void a_strict_commit_fails_with_its_sync(void **state) {
  (void)state;
  size_t before = count_files();
  dp_storage_sync_commits(true);
  assert_null(dp_fault_configure("storage.sync=error:DATA_LOSS@1"));
  dp_status *status = dp_file_write_whole(in_folder("strict"), "a", 1);
  assert_int_equal(dp_status_code(status), DP_DATA_LOSS);
  dp_status_release(status);
  assert_int_equal(count_files(), before);
  assert_null(dp_file_write_whole(in_folder("strict"), "b", 1));
  dp_storage_sync_commits(false);
  assert_contents(in_folder("strict"), "b");
}

static void many_commits_hold_few_files_open(void **state) {
  (void)state;
  for (int i = 0; i < 2000; ++i) {
    char text[16];
    snprintf(text, sizeof text, "%d", i);
    assert_null(dp_file_write_whole(in_folder("often"), text, strlen(text)));
  }
  assert_contents(in_folder("often"), "1999");
  assert_null(dp_storage_settle());
}

static int make_folder(void **state) {
  (void)state;
  return mkdtemp(folder) == NULL;
}

static int remove_folder(void **state) {
  (void)state;
  dp_name_list names = {0};
  dp_status_release(dp_path_list(folder, &names));
  for (size_t i = 0; i < names.count; ++i)
    unlink(in_folder(names.items[i]));
  dp_name_list_deinit(&names);
  return rmdir(folder);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_commit_does_not_wait_for_the_disk),
      cmocka_unit_test(what_does_not_reach_the_disk_is_told),
      cmocka_unit_test(the_next_commit_tells_it_too),
      cmocka_unit_test(a_strict_commit_fails_with_its_sync),
      cmocka_unit_test(many_commits_hold_few_files_open),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
