/* Fault points: the n-th time, each time, delays, and a child process that must die. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
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

typedef struct holding {
  const char *point;
  atomic_bool passed;
} holding;

static void *pass_point(void *arg) {
  holding *held = arg;
  dp_status_release(dp_fault(held->point));
  atomic_store(&held->passed, true);
  return NULL;
}

static void hold_waits_for_a_file_to_go(void **state) {
  (void)state;
  char file[] = "/tmp/downpour-hold-XXXXXX";
  int descriptor = mkstemp(file);
  assert_true(descriptor >= 0);
  close(descriptor);
  char specification[100];
  snprintf(specification, sizeof(specification), "worker.run_graph=hold:%s", file);
  assert_null(dp_fault_configure(specification));
  holding held = {.point = "worker.run_graph"};
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, pass_point, &held), 0);
  dp_clock_sleep(30000000);
  assert_false(atomic_load(&held.passed));
  unlink(file);
  assert_int_equal(pthread_join(thread, NULL), 0);
  assert_true(atomic_load(&held.passed));
  assert_null(dp_fault("worker.run_graph")); /* nothing to wait for */
  dp_fault_clear();
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
                                    "a=hold:",
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
      cmocka_unit_test(hold_waits_for_a_file_to_go),
      cmocka_unit_test(a_wrong_specification_arms_nothing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
