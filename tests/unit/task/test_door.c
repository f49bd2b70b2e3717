/* Doors: found by address from opening to closing; whoever is inside keeps the task; a closed door
 * lets nobody in and is safe to hold. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>
#include "base/clock.h"
#include "base/event.h"
#include "base/memory.h"
#include "task/door.h"

static dp_task *make_task(void) {
  dp_task_options options = {
      .name = "/job:local/replica:0/task:0", .cpu_devices = 1, .shares_threads = true};
  dp_task *task = NULL;
  assert_null(dp_task_create(&options, &task));
  return task;
}

static void a_task_without_devices_is_refused(void **state) {
  dp_task_options options = {.name = "/job:local/replica:0/task:0"};
  dp_task *task = NULL;
  dp_status *status = dp_task_create(&options, &task);
  assert_int_equal(dp_status_code(status), DP_INVALID_ARGUMENT);
  dp_status_release(status);
  assert_null(task);
}

static void a_door_is_found_while_it_is_open(void **state) {
  dp_task *task = make_task();
  const char *addresses[] = {"localhost:1", "127.0.0.1:1"};
  assert_null(dp_door_find("localhost:1"));
  dp_door *door = dp_door_open(task, addresses, 2);
  dp_door *found = dp_door_find("127.0.0.1:1");
  assert_ptr_equal(found, door);
  assert_null(dp_door_find("127.0.0.1:2"));
  assert_ptr_equal(dp_door_enter(found), task);
  dp_door_leave(found);
  dp_door_close(door, 0);
  dp_door_close(door, 0); /* twice is no mistake */
  dp_task_destroy(task);
  dp_door_release(door);
  /* The one who found it may still hold it. */
  assert_null(dp_door_find("localhost:1"));
  assert_null(dp_door_enter(found));
  dp_door_release(found);
}

static void an_address_may_come_back(void **state) {
  dp_task *tasks[] = {make_task(), make_task()};
  const char *address = "localhost:1";
  for (int i = 0; i < 2; i++) {
    dp_door *door = dp_door_open(tasks[i], &address, 1);
    dp_door *found = dp_door_find(address);
    assert_ptr_equal(dp_door_enter(found), tasks[i]);
    dp_door_leave(found);
    dp_door_release(found);
    dp_door_close(door, 0);
    dp_door_release(door);
    dp_task_destroy(tasks[i]);
  }
}

typedef struct caller {
  dp_door *door;
  dp_event inside;
  dp_event cancelled;
  dp_code why;
} caller;

static void be_told(void *arg, const dp_status *why) {
  caller *one = arg;
  one->why = dp_status_code(why);
  dp_event_notify(&one->cancelled);
}

static void *stay_until_cancelled(void *arg) {
  caller *one = arg;
  assert_non_null(dp_door_enter(one->door));
  dp_cancel_token token;
  assert_true(dp_cancel_register(dp_door_life(one->door), be_told, one, &token));
  dp_event_notify(&one->inside);
  dp_event_wait(&one->cancelled);
  dp_door_leave(one->door);
  return NULL;
}

static void closing_cancels_who_stays_too_long(void **state) {
  dp_task *task = make_task();
  const char *address = "localhost:1";
  caller one = {.door = dp_door_open(task, &address, 1)};
  dp_event_init(&one.inside);
  dp_event_init(&one.cancelled);
  pthread_t thread;
  pthread_create(&thread, NULL, stay_until_cancelled, &one);
  dp_event_wait(&one.inside);
  int64_t before = dp_clock_nanos();
  dp_door_close(one.door, before + 50000000);
  assert_true(dp_clock_nanos() - before >= 50000000);
  assert_int_equal(one.why, DP_UNAVAILABLE);
  pthread_join(thread, NULL);
  dp_task_destroy(task);
  dp_door_release(one.door);
  dp_event_deinit(&one.inside);
  dp_event_deinit(&one.cancelled);
}

/* Threads go in and out while the door closes: each either had the task or was refused. */
static void *go_in_and_out(void *arg) {
  dp_door *door = arg;
  for (;;) {
    dp_task *task = dp_door_enter(door);
    if (!task)
      return NULL;
    assert_non_null(dp_task_master(task));
    dp_door_leave(door);
  }
}

static void closing_under_traffic(void **state) {
  enum { THREADS = 4, ROUNDS = 30 };
  const char *address = "localhost:1";
  for (int round = 0; round < ROUNDS; round++) {
    dp_task *task = make_task();
    dp_door *door = dp_door_open(task, &address, 1);
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
      pthread_create(&threads[i], NULL, go_in_and_out, door);
    dp_door_close(door, dp_clock_deadline_ms(20000));
    dp_task_destroy(task);
    for (int i = 0; i < THREADS; i++)
      pthread_join(threads[i], NULL);
    dp_door_release(door);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_task_without_devices_is_refused),
      cmocka_unit_test(a_door_is_found_while_it_is_open),
      cmocka_unit_test(an_address_may_come_back),
      cmocka_unit_test(closing_cancels_who_stays_too_long),
      cmocka_unit_test(closing_under_traffic),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
