/* The log: the form of a line, and which rooms and levels are written; and the clock. Standard
 * error goes to a file while a line is written. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"

static FILE *capture;
static int saved_stderr;
static char line[65536];

static void start_capture(void) {
  capture = tmpfile();
  assert_non_null(capture);
  saved_stderr = dup(STDERR_FILENO);
  dup2(fileno(capture), STDERR_FILENO);
}

static const char *end_capture(void) {
  dup2(saved_stderr, STDERR_FILENO);
  close(saved_stderr);
  fseek(capture, 0, SEEK_SET);
  line[fread(line, 1, sizeof(line) - 1, capture)] = '\0';
  fclose(capture);
  return line;
}

static void assert_matches(const char *text, const char *pattern) {
  regex_t compiled;
  assert_int_equal(regcomp(&compiled, pattern, REG_EXTENDED | REG_NOSUB), 0);
  if (regexec(&compiled, text, 0, NULL, 0) != 0)
    fail_msg("'%s' does not match '%s'", text, pattern);
  regfree(&compiled);
}

#define TIME "^[0-9]{2}:[0-9]{2}:[0-9]{2}\\.[0-9]{3} "

static void at_first_only_warnings_are_written(void **state) {
  (void)state;
  start_capture();
  DP_LOG(MASTER, INFO, "one");
  DP_LOG(MASTER, WARN, "two");
  end_capture();
  assert_null(strstr(line, "one"));
  assert_non_null(strstr(line, "two"));
}

static void a_line_has_time_level_room_and_task(void **state) {
  (void)state;
  assert_null(dp_log_configure("info"));
  start_capture();
  DP_LOG(MASTER, INFO, "step %d done", 3);
  assert_matches(end_capture(), TIME "I master: step 3 done\n$");
  dp_log_set_task("/job:ps/task:1");
  start_capture();
  DP_LOG(RPC, WARN, "slow");
  assert_matches(end_capture(), TIME "W rpc: slow \\[task /job:ps/task:1\\]\n$");
  start_capture();
  errno = 5;
  DP_LOG(KERNELS, ERROR, "bad");
  assert_int_equal(errno, 5);
  assert_matches(end_capture(), TIME "E kernels: bad \\[task /job:ps/task:1\\]\n$");
  dp_log_set_task(NULL);
}

static void text_cannot_forge_a_line(void **state) {
  (void)state;
  start_capture();
  DP_LOG(BASE, INFO, "a\nb\x1b[0mc");
  assert_matches(end_capture(), TIME "I base: a\\\\nb\\\\033\\[0mc\n$");
  char *large = malloc(40001);
  memset(large, 'x', 40000);
  large[40000] = '\0';
  start_capture();
  DP_LOG(BASE, INFO, "%s", large);
  end_capture();
  assert_true(strlen(line) > 16000 && strlen(line) < 17000);
  assert_true(line[strlen(line) - 1] == '\n');
  free(large);
}

static void levels_are_set_by_room(void **state) {
  (void)state;
  start_capture();
  DP_LOG(RPC, DEBUG, "one");
  assert_null(dp_log_configure("warn,rpc=debug"));
  DP_LOG(RPC, DEBUG, "two");
  DP_LOG(WORKER, INFO, "three");
  DP_LOG(WORKER, WARN, "four");
  assert_null(dp_log_configure("info"));
  DP_LOG(WORKER, INFO, "five");
  DP_LOG(RPC, DEBUG, "six");
  end_capture();
  assert_null(strstr(line, "one"));
  assert_non_null(strstr(line, "two"));
  assert_null(strstr(line, "three"));
  assert_non_null(strstr(line, "four"));
  assert_non_null(strstr(line, "five"));
  assert_null(strstr(line, "six"));
}

static void assert_refused(const char *specification, const char *part) {
  dp_status *status = dp_log_configure(specification);
  assert_int_equal(dp_status_code(status), DP_INVALID_ARGUMENT);
  assert_non_null(strstr(dp_status_message(status), part));
  dp_status_release(status);
}

static void a_wrong_specification_changes_nothing(void **state) {
  (void)state;
  assert_refused("debug,kitchen=info", "kitchen");
  assert_refused("debug,rpc=loud", "loud");
  assert_refused("rpc=", "level");
  assert_int_equal(dp_log_levels[DP_ROOM_RPC], DP_LOG_INFO);
  assert_null(dp_log_configure(""));
}

static void clocks_move_on(void **state) {
  (void)state;
  int64_t start = dp_clock_nanos();
  dp_clock_sleep(2000000);
  dp_clock_sleep(-1);
  assert_true(dp_clock_nanos() - start >= 2000000);
  assert_true(dp_clock_wall_nanos() > INT64_C(1600000000) * 1000000000);
  assert_true(dp_clock_deadline_ms(0) == DP_FOREVER);
  assert_true(dp_clock_deadline_ms(-5) == DP_FOREVER);
  assert_true(dp_clock_deadline_ms(INT64_MAX) == DP_FOREVER);
  assert_true(dp_clock_deadline_ms(INT64_MAX / 1000000) == DP_FOREVER);
  int64_t deadline = dp_clock_deadline_ms(1000);
  assert_true(deadline > start && deadline < dp_clock_nanos() + 1000000000);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(at_first_only_warnings_are_written),
      cmocka_unit_test(a_line_has_time_level_room_and_task),
      cmocka_unit_test(text_cannot_forge_a_line),
      cmocka_unit_test(levels_are_set_by_room),
      cmocka_unit_test(a_wrong_specification_changes_nothing),
      cmocka_unit_test(clocks_move_on),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
