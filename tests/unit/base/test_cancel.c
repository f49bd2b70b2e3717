/* Cancel scopes: the tree, the deadline, the exact answers of deregister, and races between
 * trigger, register, deregister and release. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/cancel.h"
#include "base/event.h"

enum { MILLISECOND = 1000000 };

static dp_status *reason(void) {
  return dp_status_create(DP_ABORTED, "first error");
}

static void note(void *arg, const dp_status *why) {
  int *order = arg;
  static int next;
  assert_non_null(why);
  if (order != NULL)
    *order = ++next;
}

static void the_first_trigger_wins(void **state) {
  (void)state;
  dp_cancel *scope = dp_cancel_create(NULL, DP_FOREVER);
  assert_false(dp_cancel_is_triggered(scope));
  assert_null(dp_cancel_status(scope));
  int first = 0, second = 0, third = 0;
  dp_cancel_token tokens[3];
  assert_true(dp_cancel_register(scope, note, &first, &tokens[0]));
  assert_true(dp_cancel_register(scope, note, &second, &tokens[1]));
  assert_true(dp_cancel_register(scope, note, &third, &tokens[2]));
  assert_true(dp_cancel_deregister(scope, tokens[1]));
  dp_cancel_trigger(scope, reason());
  dp_cancel_trigger(scope, dp_status_create(DP_INTERNAL, "second error"));
  assert_true(first > 0 && third > first && second == 0);
  assert_true(dp_cancel_is_triggered(scope));
  dp_status *status = dp_cancel_status(scope);
  assert_int_equal(dp_status_code(status), DP_ABORTED);
  assert_string_equal(dp_status_message(status), "first error");
  dp_status_release(status);
  assert_false(dp_cancel_deregister(scope, tokens[0]));
  dp_cancel_token late = 99;
  assert_false(dp_cancel_register(scope, note, &second, &late));
  assert_int_equal(late, 99);
  dp_cancel_release(scope);
}

static void an_old_token_is_recognized(void **state) {
  (void)state;
  dp_cancel *scope = dp_cancel_create(NULL, DP_FOREVER);
  dp_cancel_token old, new;
  int called = 0;
  assert_true(dp_cancel_register(scope, note, NULL, &old));
  assert_true(dp_cancel_deregister(scope, old));
  assert_true(dp_cancel_register(scope, note, &called, &new));
  assert_int_not_equal(old, new);
  assert_false(dp_cancel_deregister(scope, old));
  dp_cancel_trigger(scope, reason());
  assert_true(called > 0);
  dp_cancel_release(scope);
}

static void children_follow_their_parent(void **state) {
  (void)state;
  dp_cancel *root = dp_cancel_create(NULL, DP_FOREVER);
  dp_cancel *child = dp_cancel_create(root, DP_FOREVER);
  dp_cancel *gone = dp_cancel_create(root, DP_FOREVER);
  dp_cancel *sibling = dp_cancel_create(root, DP_FOREVER);
  dp_cancel *grandchild = dp_cancel_create(child, DP_FOREVER);
  dp_cancel_release(gone);
  dp_cancel_trigger(sibling, dp_status_create(DP_CANCELLED, "sibling"));
  assert_false(dp_cancel_is_triggered(root));
  int called = 0;
  dp_cancel_token token;
  assert_true(dp_cancel_register(grandchild, note, &called, &token));
  dp_cancel_trigger(root, reason());
  assert_true(called > 0);
  dp_status *status = dp_cancel_status(grandchild);
  assert_string_equal(dp_status_message(status), "first error");
  dp_status_release(status);
  status = dp_cancel_status(sibling);
  assert_string_equal(dp_status_message(status), "sibling");
  dp_status_release(status);
  dp_cancel *late = dp_cancel_create(root, dp_clock_deadline_ms(1));
  assert_true(dp_cancel_is_triggered(late));
  dp_cancel_release(late);
  dp_cancel_release(root);
  dp_cancel_release(child);
  dp_cancel_release(sibling);
  dp_cancel_release(grandchild);
}

static void notify(void *arg, const dp_status *why) {
  assert_int_equal(dp_status_code(why), DP_DEADLINE_EXCEEDED);
  dp_event_notify(arg);
}

static void a_deadline_triggers(void **state) {
  (void)state;
  dp_event event;
  dp_event_init(&event);
  int64_t deadline = dp_clock_deadline_ms(20);
  dp_cancel *scope = dp_cancel_create(NULL, deadline);
  dp_cancel_token token;
  assert_true(dp_cancel_register(scope, notify, &event, &token));
  assert_true(dp_event_wait_until(&event, dp_clock_deadline_ms(20000)));
  assert_true(dp_clock_nanos() >= deadline);
  assert_false(dp_cancel_deregister(scope, token));
  dp_cancel_release(scope);
  dp_event_deinit(&event);
  scope = dp_cancel_create(NULL, dp_clock_nanos() - 5);
  assert_true(dp_cancel_is_triggered(scope));
  dp_cancel_release(scope);
  scope = dp_cancel_create(NULL, dp_clock_deadline_ms(100000));
  dp_cancel_release(scope);
}

typedef struct slow_call {
  dp_cancel *scope;
  dp_event started;
  int value; /* not atomic: the wait in deregister must order it, which TSan checks */
} slow_call;

static void slow(void *arg, const dp_status *why) {
  (void)why;
  slow_call *call = arg;
  dp_event_notify(&call->started);
  dp_clock_sleep(50 * MILLISECOND);
  call->value = 17;
}

static void *trigger_in_thread(void *arg) {
  dp_cancel_trigger(arg, reason());
  return NULL;
}

static void deregister_waits_for_a_running_callback(void **state) {
  (void)state;
  slow_call call = {dp_cancel_create(NULL, DP_FOREVER), .value = 0};
  dp_event_init(&call.started);
  dp_cancel_token token, behind;
  int called = 0;
  assert_true(dp_cancel_register(call.scope, slow, &call, &token));
  assert_true(dp_cancel_register(call.scope, note, &called, &behind));
  pthread_t thread;
  pthread_create(&thread, NULL, trigger_in_thread, call.scope);
  dp_event_wait(&call.started);
  assert_true(dp_cancel_deregister(call.scope, behind)); /* not called yet: never will be */
  assert_false(dp_cancel_deregister(call.scope, token));
  assert_int_equal(call.value, 17);
  pthread_join(thread, NULL);
  assert_int_equal(called, 0);
  dp_cancel_release(call.scope);
  dp_event_deinit(&call.started);
}

typedef struct self_call {
  dp_cancel *scope;
  dp_cancel_token token;
  bool answered;
} self_call;

static void deregister_itself_and_release(void *arg, const dp_status *why) {
  (void)why;
  self_call *call = arg;
  call->answered = !dp_cancel_deregister(call->scope, call->token);
  dp_cancel_release(call->scope);
}

static void a_callback_may_deregister_itself_and_release(void **state) {
  (void)state;
  self_call call = {dp_cancel_create(NULL, dp_clock_deadline_ms(100000)), 0, false};
  assert_true(dp_cancel_register(call.scope, deregister_itself_and_release, &call, &call.token));
  dp_cancel_trigger(call.scope, reason());
  assert_true(call.answered);
}

static void no_scope_is_never_cancelled(void **state) {
  (void)state;
  dp_cancel_token token;
  assert_false(dp_cancel_is_triggered(NULL));
  assert_null(dp_cancel_status(NULL));
  assert_true(dp_cancel_register(NULL, note, NULL, &token));
  assert_true(dp_cancel_deregister(NULL, token));
  dp_cancel_trigger(NULL, reason());
  assert_null(dp_cancel_retain(NULL));
  dp_cancel_release(NULL);
}

/* ---- races ---- */

typedef struct racer {
  dp_cancel *scope;
  atomic_int *called, *removed, *refused;
} racer;

static void count_call(void *arg, const dp_status *why) {
  (void)why;
  atomic_fetch_add((atomic_int *)arg, 1);
}

static void *register_and_deregister(void *arg) {
  racer *self = arg;
  for (int i = 0; i < 200; i++) {
    dp_cancel *child = i % 3 == 0 ? dp_cancel_create(self->scope, dp_clock_nanos() + 1000000)
                                  : dp_cancel_retain(self->scope);
    atomic_int mine = 0;
    dp_cancel_token token;
    if (!dp_cancel_register(child, count_call, &mine, &token)) {
      atomic_fetch_add(self->refused, 1);
    } else if (dp_cancel_deregister(child, token)) {
      assert_int_equal(atomic_load(&mine), 0);
      atomic_fetch_add(self->removed, 1);
    } else {
      assert_int_equal(atomic_load(&mine), 1);
      atomic_fetch_add(self->called, 1);
    }
    dp_cancel_release(child);
  }
  return NULL;
}

static void everything_races_with_trigger(void **state) {
  (void)state;
  for (int round = 0; round < 60; round++) {
    atomic_int called = 0, removed = 0, refused = 0;
    racer work = {dp_cancel_create(NULL, DP_FOREVER), &called, &removed, &refused};
    pthread_t threads[3], trigger;
    for (int i = 0; i < 3; i++)
      pthread_create(&threads[i], NULL, register_and_deregister, &work);
    dp_clock_sleep(round * 5000);
    pthread_create(&trigger, NULL, trigger_in_thread, work.scope);
    for (int i = 0; i < 3; i++)
      pthread_join(threads[i], NULL);
    pthread_join(trigger, NULL);
    assert_int_equal(called + removed + refused, 600);
    dp_cancel_release(work.scope);
  }
}

static void *release_in_thread(void *arg) {
  dp_cancel_release(arg);
  return NULL;
}

/* The deadline comes, the parent is cancelled and the last reference goes, all at once. */
static void release_races_with_deadline_and_parent(void **state) {
  (void)state;
  for (int round = 0; round < 300; round++) {
    dp_cancel *parent = dp_cancel_create(NULL, DP_FOREVER);
    dp_cancel *child = dp_cancel_create(parent, dp_clock_nanos() + 50000 + round * 100);
    pthread_t release, trigger;
    pthread_create(&release, NULL, release_in_thread, child);
    pthread_create(&trigger, NULL, trigger_in_thread, parent);
    pthread_join(release, NULL);
    pthread_join(trigger, NULL);
    dp_cancel_release(parent);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_first_trigger_wins),
      cmocka_unit_test(an_old_token_is_recognized),
      cmocka_unit_test(children_follow_their_parent),
      cmocka_unit_test(a_deadline_triggers),
      cmocka_unit_test(deregister_waits_for_a_running_callback),
      cmocka_unit_test(a_callback_may_deregister_itself_and_release),
      cmocka_unit_test(no_scope_is_never_cancelled),
      cmocka_unit_test(everything_races_with_trigger),
      cmocka_unit_test(release_races_with_deadline_and_parent),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
