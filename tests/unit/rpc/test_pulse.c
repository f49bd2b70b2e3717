/* The pulse: calls to somebody who is gone end, those to somebody who is only busy do not. */
#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>
#include "launch/launch_internal.h"
#include "rpc_fixture.h"

#define GONE (400 * MILLISECOND)
/* gone and two periods, and what a busy machine adds. */
#define LATEST (GONE + GONE / 2 + 5 * SECOND)

typedef struct heart {
  atomic_int answers, deaths, returns, releases;
} heart;

static void answered(void *arg, const dp_rope *response) {
  atomic_fetch_add(&((heart *)arg)->answers, 1);
}

static dp_status *gone(void *arg, int64_t silent_nanos) {
  atomic_fetch_add(&((heart *)arg)->deaths, 1);
  assert_true(silent_nanos >= GONE);
  return dp_status_create(DP_UNAVAILABLE, "it is gone");
}

static void back(void *arg, int64_t silent_nanos) {
  atomic_fetch_add(&((heart *)arg)->returns, 1);
}

static void released(void *arg) {
  atomic_fetch_add(&((heart *)arg)->releases, 1);
}

static dp_rpc_channel *watched_channel(fixture *test, int port, heart *beats) {
  char target[32];
  snprintf(target, sizeof(target), "127.0.0.1:%d", port);
  dp_rpc_pulse pulse = {.path = "/test/Alive",
                        .gone_nanos = GONE,
                        .answered = answered,
                        .gone = gone,
                        .back = back,
                        .released = released,
                        .arg = beats};
  return dp_rpc_channel_create(test->client, target, &pulse);
}

static void start_call(fixture *test, dp_rpc_channel *channel, const char *path,
                       dp_rpc_flags flags) {
  dp_rope request = text_rope("x");
  dp_rpc_channel_call(channel, path, &request, DP_FOREVER, NULL, flags, count_done, test);
}

static void a_waiting_call_of_a_live_server_goes_on(void **state) {
  fixture *test = *state;
  heart beats = {0};
  dp_rpc_channel *channel = watched_channel(test, dp_rpc_server_port(test->server), &beats);
  start_call(test, channel, "/test/Keep", DP_RPC_FAIL_FAST);
  assert_true(wait_for(&beats.answers, 12)); /* three times as long as silence may last */
  assert_int_equal(atomic_load(&test->finished), 0);
  assert_int_equal(atomic_load(&beats.deaths), 0);
  release_kept(test);
  assert_true(wait_for(&test->finished, 1));
  dp_rpc_channel_release(channel);
  assert_true(wait_for(&beats.releases, 1));
}

static void nobody_is_asked_without_need(void **state) {
  fixture *test = *state;
  heart beats = {0};
  dp_rpc_channel *channel = watched_channel(test, dp_rpc_server_port(test->server), &beats);
  dp_clock_sleep(2 * GONE);
  assert_int_equal(atomic_load(&beats.answers), 0);
  dp_rpc_channel_watch(channel);
  assert_true(wait_for(&beats.answers, 2));
  dp_rpc_channel_unwatch(channel);
  dp_rpc_channel_release(channel);
  assert_true(wait_for(&beats.releases, 1));
}

static void calls_to_a_silent_server_end(void **state) {
  fixture *test = *state;
  heart beats = {0};
  dp_rpc_channel *channel = watched_channel(test, dp_rpc_server_port(test->server), &beats);
  start_call(test, channel, "/test/Keep", DP_RPC_FAIL_FAST);
  start_call(test, channel, "/test/Keep", DP_RPC_FAIL_FAST);
  assert_true(wait_for(&beats.answers, 1));
  atomic_store(&test->silent, 1);
  int64_t begin = dp_clock_nanos();
  assert_true(wait_for(&test->finished, 2));
  assert_in_range(dp_clock_nanos() - begin, GONE / 2, LATEST);
  assert_int_equal(atomic_load(&test->codes[DP_UNAVAILABLE]), 2);
  dp_rpc_channel_state state_now;
  dp_rpc_channel_get_state(channel, &state_now);
  assert_string_equal(dp_status_message(state_now.gone), "it is gone");
  assert_true(state_now.silent_nanos >= GONE);
  dp_status_release(state_now.gone);
  dp_status_release(state_now.last_error);

  start_call(test, channel, "/test/Keep", DP_RPC_FAIL_FAST); /* a late one ends too */
  assert_true(wait_for(&test->finished, 3));
  assert_int_equal(atomic_load(&beats.deaths), 1);

  atomic_store(&test->silent, 0);
  assert_true(wait_for(&beats.returns, 1));
  dp_rope request = text_rope("x"), response = {0};
  assert_ok(dp_rpc_channel_call_and_wait(channel, "/test/Echo", &request, seconds_from_now(20),
                                         NULL, DP_RPC_FAIL_FAST, &response));
  dp_rope_deinit(&response);
  release_kept(test);
  dp_rpc_channel_release(channel);
  assert_true(wait_for(&beats.releases, 1));
}

/* As a stopped process: the system takes the connection, and nobody speaks on it. */
static void who_takes_a_connection_and_says_nothing_is_gone(void **state) {
  fixture *test = *state;
  heart beats = {0};
  int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t length = sizeof(address);
  assert_int_equal(bind(listener, (struct sockaddr *)&address, length), 0);
  assert_int_equal(listen(listener, 100), 0);
  assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &length), 0);
  dp_rpc_channel *channel = watched_channel(test, ntohs(address.sin_port), &beats);
  start_call(test, channel, "/test/Echo", DP_RPC_WAIT_FOR_READY);
  assert_true(wait_for(&test->finished, 1));
  assert_int_equal(atomic_load(&beats.deaths), 1);
  dp_rpc_channel_release(channel);
  assert_true(wait_for(&beats.releases, 1));
  close(listener);
}

static void who_was_never_there_is_waited_for(void **state) {
  fixture *test = *state;
  heart beats = {0};
  int port = 0;
  int held = dp_launch_hold_port(&port);
  assert_true(held >= 0);
  dp_rpc_channel *channel = watched_channel(test, port, &beats);
  start_call(test, channel, "/test/Echo", DP_RPC_WAIT_FOR_READY);
  dp_clock_sleep(4 * GONE);
  assert_int_equal(atomic_load(&beats.deaths), 0);
  assert_int_equal(atomic_load(&test->finished), 0);
  dp_rpc_server *late = start_server(test, port);
  assert_true(wait_for(&test->finished, 1));
  assert_int_equal(atomic_load(&test->codes[DP_OK]), 1);
  dp_rpc_channel_release(channel);
  assert_true(wait_for(&beats.releases, 1));
  dp_rpc_server_destroy(late);
  close(held);
}

/* Both network threads of the server are held; the urgent path is answered nevertheless. */
static void a_busy_server_is_alive(void **state) {
  fixture *test = *state;
  heart beats = {0};
  dp_rpc_channel *channel = watched_channel(test, dp_rpc_server_port(test->server), &beats);
  atomic_store(&test->blocked, 1);
  for (int i = 0; i < 8; i++)
    start_call(test, channel, "/test/Block", DP_RPC_FAIL_FAST);
  assert_true(wait_for(&test->held, 2));
  int before = atomic_load(&beats.answers);
  assert_true(wait_for(&beats.answers, before + 12));
  assert_int_equal(atomic_load(&beats.deaths), 0);
  atomic_store(&test->blocked, 0);
  assert_true(wait_for(&test->finished, 8));
  assert_int_equal(atomic_load(&test->codes[DP_OK]), 8);
  dp_rpc_channel_release(channel);
  assert_true(wait_for(&beats.releases, 1));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(a_waiting_call_of_a_live_server_goes_on, set_up, tear_down),
      cmocka_unit_test_setup_teardown(nobody_is_asked_without_need, set_up, tear_down),
      cmocka_unit_test_setup_teardown(calls_to_a_silent_server_end, set_up, tear_down),
      cmocka_unit_test_setup_teardown(who_takes_a_connection_and_says_nothing_is_gone, set_up,
                                      tear_down),
      cmocka_unit_test_setup_teardown(who_was_never_there_is_waited_for, set_up, tear_down),
      cmocka_unit_test_setup_teardown(a_busy_server_is_alive, set_up, tear_down),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
