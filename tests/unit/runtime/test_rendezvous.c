/* The rendezvous: whoever comes first waits, everything is answered exactly once. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>
#include "base/event.h"
#include "base/memory.h"
#include "runtime/kernel.h"
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

/* ---- Edges ---- */

#define HERE "/job:worker/replica:0/task:0/device:CPU:0"
#define THERE "/job:ps/replica:0/task:1/device:CPU:0"

typedef struct asked {
  int count;
  char key[256];
} asked;

/* Everything of the job "ps" is far; its peer is the router's argument. */
static dp_status *resolve(void *arg, const dp_rendezvous_key *key, bool is_sender,
                          dp_edge_route *route_out) {
  const dp_device_name *other = is_sender ? &key->destination : &key->source;
  route_out->is_remote = strcmp(other->job, "ps") == 0;
  route_out->peer = route_out->is_remote && !is_sender ? arg : NULL;
  return NULL;
}

static void make_edge(dp_transfer_edge *edge, const char *from, const char *to, bool is_sender,
                      void *peer) {
  dp_edge_router router = {resolve, peer};
  assert_null(dp_transfer_edge_init(edge, dp_view_of(from), 0xab, dp_view_of(to),
                                    dp_view_of("edge_1_w"), is_sender, &router));
}

static void receive_far(void *remote, int64_t step_id, const dp_transfer_edge *edge, dp_view key,
                        dp_cancel *cancel, dp_rendezvous_done_fn done, void *arg) {
  asked *peer = edge->route.peer;
  assert_int_equal(step_id, 42);
  peer->count++;
  snprintf(peer->key, sizeof(peer->key), "%.*s", (int)key.length, key.data);
  dp_tensor value = {0};
  assert_null(dp_tensor_scalar_int64(99, &value));
  done(arg, NULL, &value, false);
  dp_tensor_deinit(&value);
}

static const dp_rendezvous_remote_ops far_ops = {.receive = receive_far};

static void a_far_edge_leaves_through_the_table(void **state) {
  dp_rendezvous *rendezvous = dp_rendezvous_create(42, &far_ops, NULL);
  asked peer = {0};
  dp_transfer_edge edge;
  make_edge(&edge, THERE, HERE, false, &peer);
  assert_true(edge.route.is_remote);
  answer far = {0}, looped = {0}, near = {0};
  dp_rendezvous_receive_along(rendezvous, &edge, 0, 0, NULL, remember, &far);
  assert_int_equal(far.value, 99);
  assert_string_equal(peer.key, THERE ";00000000000000ab;" HERE ";edge_1_w;0:0");
  dp_rendezvous_receive_along(rendezvous, &edge, 7, 3, NULL, remember, &looped);
  assert_int_equal(looped.value, 99);
  assert_string_equal(peer.key, THERE ";00000000000000ab;" HERE ";edge_1_w;7:3");
  /* A peer that asks for the same key is answered from here. */
  dp_rendezvous_receive(rendezvous, dp_view_of(peer.key), NULL, remember, &near);
  assert_int_equal(near.count, 0);
  assert_int_equal(peer.count, 2);
  dp_rendezvous_release(rendezvous);
  assert_int_equal(near.count, 1);
  dp_transfer_edge_deinit(&edge);
}

/* What is sent along an edge is found by the text of its key: so ask peers and fetches. */
static void a_sender_parks_its_value_under_the_key(void **state) {
  dp_rendezvous *rendezvous = dp_rendezvous_create(42, &far_ops, NULL);
  dp_transfer_edge edge;
  make_edge(&edge, HERE, THERE, true, NULL);
  assert_true(edge.route.is_remote);
  assert_null(edge.route.peer);
  for (int64_t i = 0; i < 2; i++) {
    dp_value value = {0};
    assert_null(dp_tensor_scalar_int64(i + 5, &value.tensor));
    assert_null(dp_rendezvous_send_along(rendezvous, &edge, (uint64_t)i, i, &value, false));
  }
  answer outside = {0}, inside = {0};
  const char *keys[] = {HERE ";00000000000000ab;" THERE ";edge_1_w;0:0",
                        HERE ";00000000000000ab;" THERE ";edge_1_w;1:1"};
  dp_rendezvous_receive(rendezvous, dp_view_of(keys[0]), NULL, remember, &outside);
  dp_rendezvous_receive(rendezvous, dp_view_of(keys[1]), NULL, remember, &inside);
  assert_int_equal(outside.value, 5);
  assert_int_equal(inside.value, 6);
  dp_transfer_edge_deinit(&edge);
  dp_rendezvous_release(rendezvous);
}

static void a_near_edge_meets_here(void **state) {
  dp_rendezvous *rendezvous = dp_rendezvous_create(42, &far_ops, NULL);
  dp_transfer_edge edge;
  make_edge(&edge, HERE, HERE, false, NULL);
  assert_false(edge.route.is_remote);
  answer seen = {0};
  dp_rendezvous_receive_along(rendezvous, &edge, 0, 0, NULL, remember, &seen);
  assert_int_equal(seen.count, 0);
  dp_value value = {0};
  assert_null(dp_tensor_scalar_int64(8, &value.tensor));
  assert_null(dp_rendezvous_send_along(rendezvous, &edge, 0, 0, &value, false));
  assert_int_equal(seen.value, 8);
  dp_transfer_edge_deinit(&edge);
  dp_rendezvous_release(rendezvous);
}

static void a_device_that_is_none_is_refused(void **state) {
  dp_transfer_edge edge;
  dp_status *status = dp_transfer_edge_init(&edge, dp_view_of("nonsense"), 1, dp_view_of(HERE),
                                            dp_view_of("e"), false, NULL);
  assert_int_equal(dp_status_code(status), DP_INVALID_ARGUMENT);
  dp_status_release(status);
  dp_transfer_edge_deinit(&edge);
}

/* ---- References ---- */

static void set_number(dp_variable *variable, int64_t number) {
  dp_tensor value = {0};
  assert_null(dp_tensor_scalar_int64(number, &value));
  dp_variable_assign(variable, &value);
}

static dp_variable *make_number(int64_t number) {
  dp_partial_shape scalar = {.rank = 0};
  dp_variable *variable = dp_variable_create(&dp_legacy_variable_ops, "v", DP_INT64, &scalar);
  set_number(variable, number);
  return variable;
}

static void send_variable(dp_rendezvous *rendezvous, const dp_transfer_edge *edge,
                          dp_variable *variable) {
  dp_value value = {.reference = dp_resource_retain(variable)};
  assert_null(dp_rendezvous_send_along(rendezvous, edge, 0, 0, &value, false));
}

static void a_variable_is_read_when_it_is_asked_for(void **state) {
  dp_rendezvous *rendezvous = dp_rendezvous_create(42, &far_ops, NULL);
  dp_variable *variable = make_number(1);
  dp_transfer_edge edge;
  make_edge(&edge, HERE, THERE, true, NULL);
  dp_view key = {edge.key.data, edge.key.length};
  send_variable(rendezvous, &edge, variable);
  set_number(variable, 2);
  answer parked = {0}, waited = {0}, dropped = {0};
  dp_rendezvous_receive(rendezvous, key, NULL, remember, &parked);
  assert_int_equal(parked.value, 2);
  dp_rendezvous_receive(rendezvous, key, NULL, remember, &waited);
  set_number(variable, 3);
  send_variable(rendezvous, &edge, variable);
  assert_int_equal(waited.value, 3);
  send_variable(rendezvous, &edge, variable); /* nobody asks: it goes with the step */
  dp_rendezvous_abort(rendezvous, dp_status_create(DP_ABORTED, "stop"));
  dp_rendezvous_receive(rendezvous, key, NULL, remember, &dropped);
  assert_int_equal(dropped.code, DP_ABORTED);
  dp_rendezvous_release(rendezvous);
  dp_transfer_edge_deinit(&edge);
  dp_resource_release(variable);
}

typedef struct later {
  dp_task_fn fn;
  void *arg;
} later;

static void keep_for_later(void *remote, dp_task_fn fn, void *arg) {
  *(later *)remote = (later){fn, arg};
}

/* Who asks may be a thread of the network, which must not wait for an update. */
static void a_variable_that_is_being_written_is_read_later(void **state) {
  static const dp_rendezvous_remote_ops ops = {.receive = receive_far, .run_later = keep_for_later};
  later kept = {0};
  dp_rendezvous *rendezvous = dp_rendezvous_create(42, &ops, &kept);
  dp_variable *variable = make_number(1);
  dp_transfer_edge edge;
  make_edge(&edge, HERE, THERE, true, NULL);
  send_variable(rendezvous, &edge, variable);
  dp_variable_update update = {0};
  assert_null(dp_variable_begin(variable, &update));
  answer seen = {0};
  dp_rendezvous_receive(rendezvous, (dp_view){edge.key.data, edge.key.length}, NULL, remember,
                        &seen);
  assert_int_equal(seen.count, 0);
  assert_non_null(kept.fn);
  *(int64_t *)update.target.data = 2;
  dp_variable_end(&update, true);
  kept.fn(kept.arg);
  assert_int_equal(seen.count, 1);
  assert_int_equal(seen.value, 2);
  dp_rendezvous_release(rendezvous);
  dp_transfer_edge_deinit(&edge);
  dp_resource_release(variable);
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
      cmocka_unit_test(a_far_edge_leaves_through_the_table),
      cmocka_unit_test(a_sender_parks_its_value_under_the_key),
      cmocka_unit_test(a_near_edge_meets_here),
      cmocka_unit_test(a_device_that_is_none_is_refused),
      cmocka_unit_test(a_variable_is_read_when_it_is_asked_for),
      cmocka_unit_test(a_variable_that_is_being_written_is_read_later),
      cmocka_unit_test(racing_ends_answer_once),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
