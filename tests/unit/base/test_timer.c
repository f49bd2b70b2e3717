/* Timers: order, never early, and the three answers of cancel: before, during and after the call.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <pthread.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "base/event.h"
#include "base/timer.h"

enum { MILLISECOND = 1000000 };

typedef struct shot {
  dp_event event;
  int64_t wanted, fired;
  int order;
} shot;

static int fired_count;

static void fire(void *arg) {
  shot *self = arg;
  self->fired = dp_clock_nanos();
  self->order = fired_count++;
  dp_event_notify(&self->event);
}

/* Starts ten timers, waits for all, and checks that none came early. False when starting them took
 * so long on a busy machine that the first was due before the last was known. */
static bool fire_ten(shot *shots, const int *after) {
  fired_count = 0;
  int64_t start = dp_clock_nanos() + 20 * MILLISECOND;
  for (int i = 0; i < 10; i++) {
    dp_event_init(&shots[i].event);
    shots[i].wanted = start + (int64_t)after[i] * MILLISECOND;
    assert_true(dp_timer_start(shots[i].wanted, fire, &shots[i]) != 0);
  }
  bool in_time = dp_clock_nanos() < start;
  for (int i = 0; i < 10; i++) {
    assert_true(dp_event_wait_until(&shots[i].event, dp_clock_deadline_ms(20000)));
    assert_true(shots[i].fired >= shots[i].wanted);
    dp_event_deinit(&shots[i].event);
  }
  return in_time;
}

static void timers_fire_in_order_and_not_early(void **state) {
  (void)state;
  static const int after[] = {30, 5, 20, 0, 40, 10, 25, 15, 35, 1};
  static const int order[] = {7, 2, 5, 0, 9, 3, 6, 4, 8, 1};
  shot shots[10];
  while (!fire_ten(shots, after))
    continue;
  for (int i = 0; i < 10; i++)
    assert_int_equal(shots[i].order, order[i]);
}

static atomic_int calls;

static void count_call(void *arg) {
  (void)arg;
  atomic_fetch_add(&calls, 1);
}

static void a_cancelled_timer_never_runs(void **state) {
  (void)state;
  atomic_store(&calls, 0);
  dp_timer timers[100];
  int64_t at = dp_clock_nanos() + 2000 * MILLISECOND;
  for (int i = 0; i < 100; i++)
    timers[i] = dp_timer_start(at + (i * 37 % 100) * 1000, count_call, NULL);
  for (int i = 0; i < 100; i += 2)
    assert_true(dp_timer_cancel(timers[i]));
  for (int i = 0; i < 100; i += 2)
    assert_false(dp_timer_cancel(timers[i]));
  int64_t deadline = dp_clock_deadline_ms(20000);
  while (atomic_load(&calls) < 50 && dp_clock_nanos() < deadline)
    dp_clock_sleep(MILLISECOND);
  dp_clock_sleep(20 * MILLISECOND);
  assert_int_equal(atomic_load(&calls), 50);
  for (int i = 0; i < 100; i++)
    assert_false(dp_timer_cancel(timers[i]));
  assert_false(dp_timer_cancel(0));
  dp_timer never = dp_timer_start(DP_FOREVER, count_call, NULL);
  assert_true(dp_timer_cancel(never));
}

static dp_event slow_started;
static int slow_value; /* not atomic: cancel's wait must order it, which TSan checks */

static void slow(void *arg) {
  (void)arg;
  dp_event_notify(&slow_started);
  dp_clock_sleep(50 * MILLISECOND);
  slow_value = 17;
}

static void cancel_waits_for_a_running_callback(void **state) {
  (void)state;
  dp_event_init(&slow_started);
  dp_timer timer = dp_timer_start(0, slow, NULL);
  dp_event_wait(&slow_started);
  assert_false(dp_timer_cancel(timer));
  assert_int_equal(slow_value, 17);
  dp_event_deinit(&slow_started);
}

static dp_timer own_timer;
static dp_event own_known, own_done;

static void cancel_itself(void *arg) {
  (void)arg;
  dp_event_wait(&own_known);
  assert_false(dp_timer_cancel(own_timer));
  dp_event_notify(&own_done);
}

static void a_callback_may_cancel_itself(void **state) {
  (void)state;
  dp_event_init(&own_known);
  dp_event_init(&own_done);
  own_timer = dp_timer_start(dp_clock_nanos(), cancel_itself, NULL);
  dp_event_notify(&own_known);
  assert_true(dp_event_wait_until(&own_done, dp_clock_deadline_ms(20000)));
  dp_timer_cancel(own_timer);
  dp_event_deinit(&own_known);
  dp_event_deinit(&own_done);
}

/* Each timer either runs or is cancelled, never both and never neither. */
static void *race(void *arg) {
  unsigned seed = (unsigned)(intptr_t)arg;
  for (int i = 0; i < 2000; i++) {
    seed = seed * 1664525u + 1013904223u;
    dp_timer timer = dp_timer_start(dp_clock_nanos() + (seed >> 16) % 20000, count_call, NULL);
    seed = seed * 1664525u + 1013904223u;
    dp_clock_sleep((seed >> 16) % 20000);
    if (dp_timer_cancel(timer))
      atomic_fetch_add(&calls, 1);
  }
  return NULL;
}

static void timers_race_with_cancel(void **state) {
  (void)state;
  atomic_store(&calls, 0);
  pthread_t threads[3];
  for (intptr_t i = 0; i < 3; i++)
    pthread_create(&threads[i], NULL, race, (void *)(i + 1));
  for (int i = 0; i < 3; i++)
    pthread_join(threads[i], NULL);
  assert_int_equal(atomic_load(&calls), 6000);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(timers_fire_in_order_and_not_early),
      cmocka_unit_test(a_cancelled_timer_never_runs),
      cmocka_unit_test(cancel_waits_for_a_running_callback),
      cmocka_unit_test(a_callback_may_cancel_itself),
      cmocka_unit_test(timers_race_with_cancel),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
