/* The rendezvous: whoever comes first waits, everything is answered exactly once. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "base/event.h"
#include "base/memory.h"
#include "runtime/rendezvous.h"

typedef struct answer {
  int count;
  dp_code code;
  bool is_dead;
  int64_t value; /* -1 without a tensor */
} answer;

static void remember(void *arg, dp_status *status, dp_tensor *value, bool is_dead) {
  answer *seen = arg;
  seen->count++;
  seen->code = dp_status_code(status);
  seen->is_dead = is_dead;
  seen->value = dp_tensor_is_set(value) ? dp_tensor_int_at(value, 0) : -1;
  dp_status_release(status);
}

static void send_number(dp_rendezvous *rendezvous, const char *key, int64_t number) {
  dp_tensor value = {0};
  assert_null(dp_tensor_scalar_int64(number, &value));
  assert_null(dp_rendezvous_send(rendezvous, dp_view_of(key), &value, false));
}

static void value_first(void **state) {
  dp_rendezvous *rendezvous = dp_rendezvous_create(1, NULL, NULL);
  send_number(rendezvous, "a", 7);
  answer seen = {0};
  dp_rendezvous_receive(rendezvous, dp_view_of("a"), NULL, remember, &seen);
  assert_int_equal(seen.count, 1);
  assert_int_equal(seen.value, 7);
  dp_rendezvous_release(rendezvous);
}

static void receiver_first(void **state) {
  dp_rendezvous *rendezvous = dp_rendezvous_create(1, NULL, NULL);
  dp_cancel *scope = dp_cancel_create(NULL, DP_FOREVER);
  answer seen = {0};
  dp_rendezvous_receive(rendezvous, dp_view_of("a"), scope, remember, &seen);
  assert_int_equal(seen.count, 0);
  send_number(rendezvous, "b", 1);
  assert_int_equal(seen.count, 0);
  send_number(rendezvous, "a", 8);
  assert_int_equal(seen.count, 1);
  assert_int_equal(seen.value, 8);
  dp_cancel_trigger(scope, dp_status_create(DP_CANCELLED, "late"));
  assert_int_equal(seen.count, 1);
  dp_cancel_release(scope);
  dp_rendezvous_release(rendezvous);
}

static void values_of_one_key_come_in_order(void **state) {
  dp_rendezvous *rendezvous = dp_rendezvous_create(1, NULL, NULL);
  send_number(rendezvous, "a", 1);
  send_number(rendezvous, "a", 2);
  answer first = {0}, second = {0};
  dp_rendezvous_receive(rendezvous, dp_view_of("a"), NULL, remember, &first);
  dp_rendezvous_receive(rendezvous, dp_view_of("a"), NULL, remember, &second);
  assert_int_equal(first.value, 1);
  assert_int_equal(second.value, 2);
  dp_rendezvous_release(rendezvous);
}

static void dead_values_arrive_as_dead(void **state) {
  dp_rendezvous *rendezvous = dp_rendezvous_create(1, NULL, NULL);
  dp_tensor nothing = {0};
  assert_null(dp_rendezvous_send(rendezvous, dp_view_of("a"), &nothing, true));
  answer seen = {0};
  dp_rendezvous_receive(rendezvous, dp_view_of("a"), NULL, remember, &seen);
  assert_true(seen.is_dead);
  assert_int_equal(seen.value, -1);
  dp_rendezvous_release(rendezvous);
}

static void cancel_ends_a_wait(void **state) {
  dp_rendezvous *rendezvous = dp_rendezvous_create(1, NULL, NULL);
  dp_cancel *scope = dp_cancel_create(NULL, DP_FOREVER);
  answer seen = {0}, late = {0};
  dp_rendezvous_receive(rendezvous, dp_view_of("a"), scope, remember, &seen);
  dp_cancel_trigger(scope, dp_status_create(DP_DEADLINE_EXCEEDED, "too slow"));
  assert_int_equal(seen.count, 1);
  assert_int_equal(seen.code, DP_DEADLINE_EXCEEDED);
  dp_rendezvous_receive(rendezvous, dp_view_of("a"), scope, remember, &late);
  assert_int_equal(late.code, DP_DEADLINE_EXCEEDED);
  dp_cancel_release(scope);
  dp_rendezvous_release(rendezvous);
}

static void abort_answers_all_and_stays(void **state) {
  dp_rendezvous *rendezvous = dp_rendezvous_create(1, NULL, NULL);
  answer waiting[3] = {{0}};
  const char *keys[] = {"a", "b", "a"};
  for (int i = 0; i < 3; i++)
    dp_rendezvous_receive(rendezvous, dp_view_of(keys[i]), NULL, remember, &waiting[i]);
  send_number(rendezvous, "never asked for", 3);
  dp_rendezvous_abort(rendezvous, dp_status_create(DP_ABORTED, "first"));
  dp_rendezvous_abort(rendezvous, dp_status_create(DP_INTERNAL, "second"));
  for (int i = 0; i < 3; i++) {
    assert_int_equal(waiting[i].count, 1);
    assert_int_equal(waiting[i].code, DP_ABORTED);
  }
  dp_tensor value = {0};
  assert_null(dp_tensor_scalar_int64(1, &value));
  dp_status *status = dp_rendezvous_send(rendezvous, dp_view_of("a"), &value, false);
  assert_int_equal(dp_status_code(status), DP_ABORTED);
  dp_status_release(status);
  dp_rendezvous_release(rendezvous);
}

static void release_answers_who_waits(void **state) {
  dp_rendezvous *rendezvous = dp_rendezvous_create(1, NULL, NULL);
  answer seen = {0};
  dp_rendezvous_receive(rendezvous, dp_view_of("a"), NULL, remember, &seen);
  dp_rendezvous_release(rendezvous);
  assert_int_equal(seen.count, 1);
  assert_int_equal(seen.code, DP_CANCELLED);
}

static void count_waiting(void *arg, dp_view key, int64_t waiting_nanos) {
  assert_true(dp_view_equals(key, "a"));
  assert_true(waiting_nanos >= 0);
  ++*(int *)arg;
}

static void waiting_receivers_can_be_listed(void **state) {
  dp_rendezvous *rendezvous = dp_rendezvous_create(1, NULL, NULL);
  answer seen = {0};
  dp_rendezvous_receive(rendezvous, dp_view_of("a"), NULL, remember, &seen);
  send_number(rendezvous, "b", 1);
  int listed = 0;
  dp_rendezvous_visit_waiting(rendezvous, count_waiting, &listed);
  assert_int_equal(listed, 1);
  dp_rendezvous_release(rendezvous);
}

/* ---- Remote keys ---- */

static bool is_far(void *remote, dp_view key) {
  return dp_view_starts_with(key, "far");
}

static void receive_far(void *remote, int64_t step_id, dp_view key, dp_cancel *cancel,
                        dp_rendezvous_done_fn done, void *arg) {
  assert_int_equal(step_id, 42);
  dp_tensor value = {0};
  assert_null(dp_tensor_scalar_int64(99, &value));
  done(arg, NULL, &value, false);
  dp_tensor_deinit(&value);
}

static void remote_keys_leave_through_the_table(void **state) {
  static const dp_rendezvous_remote_ops ops = {is_far, receive_far, NULL};
  dp_rendezvous *rendezvous = dp_rendezvous_create(42, &ops, NULL);
  answer far = {0}, near = {0};
  dp_rendezvous_receive(rendezvous, dp_view_of("far;a"), NULL, remember, &far);
  assert_int_equal(far.value, 99);
  dp_rendezvous_receive_local(rendezvous, dp_view_of("far;a"), NULL, remember, &near);
  assert_int_equal(near.count, 0);
  dp_rendezvous_release(rendezvous);
  assert_int_equal(near.count, 1);
}

/* ---- Threads ---- */

enum { ROUNDS = 300 };

typedef struct race {
  dp_rendezvous *rendezvous;
  dp_cancel *scope;
  int round;
} race;

static void *race_send(void *arg) {
  race *running = arg;
  dp_tensor value = {0};
  assert_null(dp_tensor_scalar_int64(running->round, &value));
  dp_status_release(dp_rendezvous_send(running->rendezvous, dp_view_of("a"), &value, false));
  return NULL;
}

static void *race_cancel(void *arg) {
  race *running = arg;
  dp_cancel_trigger(running->scope, dp_status_create(DP_CANCELLED, "race"));
  return NULL;
}

static void *race_abort(void *arg) {
  race *running = arg;
  dp_rendezvous_abort(running->rendezvous, dp_status_create(DP_ABORTED, "race"));
  return NULL;
}

typedef struct raced_answer {
  dp_event event;
  int count;
} raced_answer;

static void count_answer(void *arg, dp_status *status, dp_tensor *value, bool is_dead) {
  raced_answer *seen = arg;
  seen->count++;
  dp_status_release(status);
  dp_event_notify(&seen->event);
}

static void racing_ends_answer_once(void **state) {
  for (int round = 0; round < ROUNDS; round++) {
    race running = {dp_rendezvous_create(1, NULL, NULL), dp_cancel_create(NULL, DP_FOREVER), round};
    raced_answer seen = {.count = 0};
    dp_event_init(&seen.event);
    pthread_t threads[3];
    pthread_create(&threads[0], NULL, race_send, &running);
    pthread_create(&threads[1], NULL, race_cancel, &running);
    dp_rendezvous_receive(running.rendezvous, dp_view_of("a"), running.scope, count_answer, &seen);
    pthread_create(&threads[2], NULL, race_abort, &running);
    for (int i = 0; i < 3; i++)
      pthread_join(threads[i], NULL);
    dp_event_wait(&seen.event);
    dp_rendezvous_release(running.rendezvous);
    dp_cancel_release(running.scope);
    assert_int_equal(seen.count, 1);
    dp_event_deinit(&seen.event);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(value_first),
      cmocka_unit_test(receiver_first),
      cmocka_unit_test(values_of_one_key_come_in_order),
      cmocka_unit_test(dead_values_arrive_as_dead),
      cmocka_unit_test(cancel_ends_a_wait),
      cmocka_unit_test(abort_answers_all_and_stays),
      cmocka_unit_test(release_answers_who_waits),
      cmocka_unit_test(waiting_receivers_can_be_listed),
      cmocka_unit_test(remote_keys_leave_through_the_table),
      cmocka_unit_test(racing_ends_answer_once),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
