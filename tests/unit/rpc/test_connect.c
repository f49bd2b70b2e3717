/* Links that are not there, that come late and that come back. */
#include "launch/launch_internal.h"
#include "rpc_fixture.h"

/* A port at which nobody is, and which nobody else is given as long as this program runs. */
static int free_port(void) {
  int port = 0;
  assert_true(dp_launch_hold_port(&port) >= 0);
  return port;
}

static void dead_address_fails_fast(void **state) {
  fixture *test = *state;
  dp_rpc_channel *channel = channel_to(test->client, free_port());
  dp_rpc_channel_state before;
  dp_rpc_channel_get_state(channel, &before);
  assert_int_equal(before.link, DP_RPC_IDLE);
  dp_rope request = text_rope("x"), response = {0};
  int64_t begin = dp_clock_nanos();
  dp_status *status = dp_rpc_channel_call_and_wait(
      channel, "/test/Echo", &request, seconds_from_now(20), NULL, DP_RPC_FAIL_FAST, &response);
  assert_true(dp_clock_nanos() - begin < 10 * SECOND);
  assert_int_equal(dp_status_code(status), DP_UNAVAILABLE);
  assert_non_null(strstr(dp_status_message(status), dp_rpc_channel_target(channel)));
  assert_non_null(strstr(dp_status_message(status), "Connection refused"));
  dp_rpc_channel_state after;
  dp_rpc_channel_get_state(channel, &after);
  assert_string_equal(dp_status_message(after.last_error), dp_status_message(status));
  assert_true(after.last_error_nanos >= begin);
  assert_int_equal(after.live_calls, 0);
  dp_status_release(after.last_error);
  dp_status_release(status);
  dp_rpc_channel_release(channel);
}

static void unknown_name_fails_fast(void **state) {
  fixture *test = *state;
  dp_rpc_channel *channel = dp_rpc_channel_create(test->client, "no-such-host.invalid:2222", NULL);
  dp_rope request = text_rope("x"), response = {0};
  dp_status *status = dp_rpc_channel_call_and_wait(
      channel, "/test/Echo", &request, seconds_from_now(20), NULL, DP_RPC_FAIL_FAST, &response);
  assert_int_equal(dp_status_code(status), DP_UNAVAILABLE);
  assert_non_null(strstr(dp_status_message(status), "no-such-host.invalid:2222"));
  dp_status_release(status);
  dp_rpc_channel_release(channel);
}

static void waiting_ends_with_the_deadline(void **state) {
  fixture *test = *state;
  dp_rpc_channel *channel = channel_to(test->client, free_port());
  dp_rope request = text_rope("x"), response = {0};
  int64_t begin = dp_clock_nanos();
  dp_status *status =
      dp_rpc_channel_call_and_wait(channel, "/test/Echo", &request, seconds_from_now(0.5), NULL,
                                   DP_RPC_WAIT_FOR_READY, &response);
  assert_in_range(dp_clock_nanos() - begin, 450 * MILLISECOND, 10 * SECOND);
  assert_int_equal(dp_status_code(status), DP_DEADLINE_EXCEEDED);
  assert_non_null(strstr(dp_status_message(status), dp_rpc_channel_target(channel)));
  dp_status_release(status);
  dp_rpc_channel_release(channel);
}

static void waiting_finds_a_late_server(void **state) {
  fixture *test = *state;
  int port = free_port();
  dp_rpc_channel *channel = channel_to(test->client, port);
  dp_rope request = text_rope("hello");
  dp_rpc_channel_call(channel, "/test/Echo", &request, seconds_from_now(60), NULL,
                      DP_RPC_WAIT_FOR_READY, count_done, test);
  dp_clock_sleep(300 * MILLISECOND);
  assert_int_equal(atomic_load(&test->finished), 0);
  dp_rpc_server *server = start_server(test, port);
  assert_true(wait_for(&test->finished, 1));
  assert_int_equal(atomic_load(&test->codes[DP_OK]), 1);
  dp_rpc_channel_state now;
  dp_rpc_channel_get_state(channel, &now);
  assert_null(now.last_error);
  dp_rpc_channel_release(channel);
  dp_rpc_server_destroy(server);
}

static void restarted_server_is_found(void **state) {
  fixture *test = *state;
  dp_rope response = {0};
  int port = free_port();
  dp_rpc_server_destroy(test->server);
  test->server = start_server(test, port);
  dp_rpc_channel_release(test->channel);
  test->channel = channel_to(test->client, port);
  for (int round = 0; round < 3; round++) {
    assert_ok(call_with(test, "/test/Echo", text_rope("x"), 10, &response));
    dp_rope_deinit(&response);
    dp_rpc_server_destroy(test->server);
    dp_clock_sleep(250 * MILLISECOND);
    test->server = start_server(test, port);
    int64_t begin = dp_clock_nanos();
    dp_rope request = text_rope("y");
    assert_ok(dp_rpc_channel_call_and_wait(test->channel, "/test/Echo", &request,
                                           seconds_from_now(20), NULL, DP_RPC_WAIT_FOR_READY,
                                           &response));
    assert_true(dp_clock_nanos() - begin < 5 * SECOND);
    dp_rope_deinit(&response);
  }
}

static void vanished_server_ends_calls(void **state) {
  fixture *test = *state;
  dp_rope request = text_rope("x");
  dp_rpc_channel_call(test->channel, "/test/Keep", &request, DP_FOREVER, NULL, DP_RPC_FAIL_FAST,
                      count_done, test);
  while (kept_count(test) < 1)
    dp_clock_sleep(MILLISECOND);
  release_kept(test);
  dp_rpc_server_destroy(test->server);
  test->server = NULL;
  assert_true(wait_for(&test->finished, 1));
  dp_rope response = {0};
  assert_code(call_with(test, "/test/Echo", text_rope("x"), 10, &response), DP_UNAVAILABLE);
}

static void channel_may_go_before_its_calls(void **state) {
  fixture *test = *state;
  dp_rpc_channel *channel = channel_to(test->client, dp_rpc_server_port(test->server));
  for (int i = 0; i < 10; i++) {
    dp_rope request = text_rope("x");
    dp_rpc_channel_call(channel, "/test/Later", &request, DP_FOREVER, NULL, DP_RPC_FAIL_FAST,
                        count_done, test);
  }
  dp_rpc_channel_release(channel);
  assert_true(wait_for(&test->finished, 10));
  assert_int_equal(atomic_load(&test->codes[DP_OK]), 10);
}

static void connect_without_a_call(void **state) {
  fixture *test = *state;
  dp_rpc_channel_connect(test->channel);
  dp_rpc_channel_state now = {0};
  for (int tries = 0; tries < 5000 && now.link != DP_RPC_CONNECTED; tries++) {
    dp_clock_sleep(MILLISECOND);
    dp_rpc_channel_get_state(test->channel, &now);
  }
  assert_string_equal(dp_rpc_link_name(now.link), "connected");
}

static void many_channels(void **state) {
  fixture *test = *state;
  enum { CHANNELS = 30 };
  dp_rpc_channel *channels[CHANNELS];
  for (int i = 0; i < CHANNELS; i++) {
    channels[i] = channel_to(test->client, dp_rpc_server_port(test->server));
    dp_rope request = text_rope("x");
    dp_rpc_channel_call(channels[i], "/test/Echo", &request, DP_FOREVER, NULL, DP_RPC_FAIL_FAST,
                        count_done, test);
  }
  assert_true(wait_for(&test->finished, CHANNELS));
  assert_int_equal(atomic_load(&test->codes[DP_OK]), CHANNELS);
  for (int i = 0; i < CHANNELS; i++)
    dp_rpc_channel_release(channels[i]);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(dead_address_fails_fast, set_up, tear_down),
      cmocka_unit_test_setup_teardown(unknown_name_fails_fast, set_up, tear_down),
      cmocka_unit_test_setup_teardown(waiting_ends_with_the_deadline, set_up, tear_down),
      cmocka_unit_test_setup_teardown(waiting_finds_a_late_server, set_up, tear_down),
      cmocka_unit_test_setup_teardown(restarted_server_is_found, set_up, tear_down),
      cmocka_unit_test_setup_teardown(vanished_server_ends_calls, set_up, tear_down),
      cmocka_unit_test_setup_teardown(channel_may_go_before_its_calls, set_up, tear_down),
      cmocka_unit_test_setup_teardown(connect_without_a_call, set_up, tear_down),
      cmocka_unit_test_setup_teardown(many_channels, set_up, tear_down),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
