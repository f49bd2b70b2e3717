/* Fault points: the n-th time, each time, delays, and a child process that must die. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fault.h"

static dp_code pass(const char *name) {
  dp_status *status = dp_fault(name);
  dp_code code = dp_status_code(status);
  if (status != NULL)
    assert_non_null(strstr(dp_status_message(status), name));
  dp_status_release(status);
  return code;
}

static void an_unarmed_point_passes(void **state) {
  (void)state;
  assert_int_equal(dp_fault_armed, 0);
  assert_int_equal(pass("storage.rename"), DP_OK);
}

static void errors_come_when_told(void **state) {
  (void)state;
  assert_null(dp_fault_configure("storage.rename=error:DATA_LOSS@3,rpc.send=error"));
  assert_int_equal(dp_fault_armed, 2);
  static const dp_code expected[] = {DP_OK, DP_OK, DP_DATA_LOSS, DP_OK, DP_OK};
  for (int i = 0; i < 5; i++) {
    assert_int_equal(pass("storage.rename"), expected[i]);
    assert_int_equal(pass("rpc.send"), DP_INTERNAL);
    assert_int_equal(pass("rpc.sen"), DP_OK);
  }
  assert_null(dp_fault_configure("rpc.recv=error:UNAVAILABLE@1"));
  assert_int_equal(pass("rpc.recv"), DP_UNAVAILABLE);
  assert_int_equal(pass("rpc.recv"), DP_OK);
  dp_fault_clear();
  assert_int_equal(pass("rpc.send"), DP_OK);
}

static void delays_delay(void **state) {
  (void)state;
  assert_null(dp_fault_configure("a=delay:30ms,a=error:ABORTED@2"));
  int64_t start = dp_clock_nanos();
  assert_int_equal(pass("a"), DP_OK);
  assert_int_equal(pass("a"), DP_ABORTED);
  assert_true(dp_clock_nanos() - start >= 60 * 1000000);
  dp_fault_clear();
}

static void kill_kills(void **state) {
  (void)state;
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    dp_status *status = dp_fault_configure("worker.run_graph=kill@2");
    dp_status_release(status);
    close(STDERR_FILENO);
    dp_status_release(dp_fault("worker.run_graph"));
    if (dp_fault_armed != 1)
      _exit(3);
    dp_status_release(dp_fault("worker.run_graph"));
    _exit(4);
  }
  int result;
  assert_int_equal(waitpid(child, &result, 0), child);
  assert_true(WIFSIGNALED(result));
  assert_int_equal(WTERMSIG(result), SIGKILL);
}

static void a_wrong_specification_arms_nothing(void **state) {
  (void)state;
  static const char *const bad[] = {"a",
                                    "=error",
                                    "a=",
                                    "a=explode",
                                    "a=error:NONSENSE",
                                    "a=error:OK",
                                    "a=delay:5",
                                    "a=delay:",
                                    "a=delay:5s",
                                    "a=error@0",
                                    "a=error@x",
                                    "a=kill@",
                                    "a=error,b=",
                                    "a=error:",
                                    "a=delay:-1ms",
                                    "a=delay:99999999999999999ms"};
  for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
    dp_status *status = dp_fault_configure(bad[i]);
    assert_int_equal(dp_status_code(status), DP_INVALID_ARGUMENT);
    dp_status_release(status);
  }
  assert_int_equal(dp_fault_armed, 0);
  assert_null(dp_fault_configure(""));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(an_unarmed_point_passes),
      cmocka_unit_test(errors_come_when_told),
      cmocka_unit_test(delays_delay),
      cmocka_unit_test(kill_kills),
      cmocka_unit_test(a_wrong_specification_arms_nothing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
