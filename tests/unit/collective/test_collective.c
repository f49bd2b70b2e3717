/* Meetings of groups: complete ones, ones that time out or are cancelled, members that do not fit,
 * and many at once from several threads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <cmocka.h>
#include "base/memory.h"
#include "base/thread.h"
#include "collective/collective.h"

#define DEVICES 4

typedef struct outcome {
  int value; /* what the member brings */
  dp_event done;
  dp_code code;
  int result;
} outcome;

static const char *const names[DEVICES] = {"/device:CPU:0", "/device:CPU:1", "/device:CPU:2",
                                           "/device:CPU:3"};

/* The digits of all inputs in order. */
static dp_status *join_digits(void *arg, const dp_tensor *inputs, int32_t count,
                              dp_tensor *result_out) {
  int32_t digits = 0;
  for (int32_t i = 0; i < count; ++i)
    digits = digits * 10 + *(const int32_t *)inputs[i].data;
  return dp_tensor_scalar_int32(digits, result_out);
}

static void record(void *arg, dp_status *status, const dp_tensor *result) {
  outcome *one = arg;
  one->code = dp_status_code(status);
  one->result = result ? *(const int32_t *)result->data : -1;
  dp_status_release(status);
  dp_event_notify(&one->done);
}

static void come(dp_collectives *collectives, outcome *one, int device, int size, int instance,
                 double timeout, dp_cancel *cancel) {
  dp_collective_member member = {.kind = "test",
                                 .device = names[device],
                                 .step_id = 1,
                                 .group_size = size,
                                 .group_key = 2,
                                 .instance_key = instance,
                                 .timeout_seconds = timeout,
                                 .cancel = cancel,
                                 .combine = join_digits,
                                 .done = record,
                                 .arg = one};
  dp_event_init(&one->done);
  assert_null(dp_tensor_scalar_int32(one->value, &member.input));
  dp_collectives_join(collectives, &member);
}

static void expect(outcome *one, dp_code code, int result) {
  assert_true(dp_event_wait_until(&one->done, dp_clock_deadline_ms(30000)));
  assert_int_equal(one->code, code);
  assert_int_equal(one->result, result);
  dp_event_deinit(&one->done);
}

static void test_complete(void **unused) {
  dp_collectives *collectives = dp_collectives_create("/job:a", DEVICES);
  outcome members[3] = {{1}, {2}, {3}};
  come(collectives, &members[2], 2, 3, 1, 0, NULL);
  come(collectives, &members[0], 0, 3, 1, 0, NULL);
  come(collectives, &members[1], 1, 3, 1, 0, NULL);
  for (int i = 0; i < 3; ++i)
    expect(&members[i], DP_OK, 123);
  come(collectives, &members[0], 0, 1, 1, 0, NULL); /* the same keys again, and alone */
  expect(&members[0], DP_OK, 1);
  dp_collectives_destroy(collectives);
}

static void test_timeout(void **unused) {
  dp_collectives *collectives = dp_collectives_create("/job:a", DEVICES);
  outcome members[2] = {{1}, {2}};
  for (int i = 0; i < 2; ++i)
    come(collectives, &members[i], i, 3, 1, .05, NULL);
  for (int i = 0; i < 2; ++i)
    expect(&members[i], DP_DEADLINE_EXCEEDED, -1);
  dp_collectives_destroy(collectives);
}

static void test_cancel(void **unused) {
  dp_collectives *collectives = dp_collectives_create("/job:a", DEVICES);
  dp_cancel *cancel = dp_cancel_create(NULL, DP_FOREVER);
  outcome members[3] = {{1}, {2}, {3}};
  come(collectives, &members[0], 0, 3, 1, 60, cancel);
  come(collectives, &members[1], 1, 3, 1, 0, cancel);
  dp_cancel_trigger(cancel, dp_status_create(DP_ABORTED, "enough"));
  expect(&members[0], DP_CANCELLED, -1);
  expect(&members[1], DP_CANCELLED, -1);
  come(collectives, &members[2], 2, 3, 1, 0, cancel);
  expect(&members[2], DP_ABORTED, -1);
  dp_cancel_release(cancel);
  dp_collectives_destroy(collectives);
}

static void test_members_that_do_not_fit(void **unused) {
  dp_collectives *collectives = dp_collectives_create("/job:a", DEVICES);
  outcome first = {1}, other = {2}, last = {3};
  come(collectives, &other, 0, DEVICES + 1, 1, 0, NULL);
  expect(&other, DP_UNIMPLEMENTED, -1);
  come(collectives, &other, 0, 0, 1, 0, NULL);
  expect(&other, DP_INVALID_ARGUMENT, -1);
  come(collectives, &first, 0, 2, 1, 0, NULL);
  come(collectives, &other, 1, 3, 1, 0, NULL); /* another size */
  expect(&other, DP_INVALID_ARGUMENT, -1);
  come(collectives, &other, 0, 2, 1, 0, NULL); /* the same device */
  expect(&other, DP_INVALID_ARGUMENT, -1);
  come(collectives, &last, 3, 2, 1, 0, NULL);
  expect(&first, DP_OK, 13);
  expect(&last, DP_OK, 13);
  dp_collectives_destroy(collectives);
}

/* ---- Many at once ---- */
#define ROUNDS 300

typedef struct crowd {
  dp_collectives *collectives;
  dp_cancel *cancel;
  outcome members[DEVICES][ROUNDS];
} crowd;

static void come_often(void *arg, int64_t begin, int64_t end) {
  crowd *all = arg;
  for (int64_t device = begin; device < end; ++device)
    for (int i = 0; i < ROUNDS; ++i) {
      all->members[device][i].value = (int)device + 1;
      come(all->collectives, &all->members[device][i], (int)device, DEVICES, i, 60, all->cancel);
    }
}

static void test_many(void **unused) {
  dp_pool *pool = dp_pool_create("crowd", DEVICES);
  crowd *all = DP_NEW(crowd);
  all->collectives = dp_collectives_create("/job:a", DEVICES);
  all->cancel = dp_cancel_create(NULL, DP_FOREVER);
  dp_pool_for(pool, DEVICES, 1, come_often, all);
  for (int device = 0; device < DEVICES; ++device)
    for (int i = 0; i < ROUNDS; ++i)
      expect(&all->members[device][i], DP_OK, 1234);
  dp_cancel_release(all->cancel);
  dp_collectives_destroy(all->collectives);
  dp_free(all);
  dp_pool_destroy(pool);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_complete), cmocka_unit_test(test_timeout),
      cmocka_unit_test(test_cancel),   cmocka_unit_test(test_members_that_do_not_fit),
      cmocka_unit_test(test_many),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
