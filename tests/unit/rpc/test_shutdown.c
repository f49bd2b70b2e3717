/* The end of a server: it waits for its calls as long as it was told, then cancels them, and in any
 * case every client gets an answer. */
#include "rpc_fixture.h"

static void start_calls(fixture *test, const char *path, int count) {
  for (int i = 0; i < count; i++) {
    dp_rope request = text_rope("x");
    dp_rpc_channel_call(test->channel, path, &request, DP_FOREVER, NULL, DP_RPC_FAIL_FAST,
                        count_done, test);
  }
}

static void idle_server_ends_at_once(void **state) {
  fixture *test = *state;
  dp_rope response = {0};
  assert_ok(call_with(test, "/test/Echo", text_rope("x"), 10, &response));
  dp_rope_deinit(&response);
  int64_t begin = dp_clock_nanos();
  dp_rpc_server_shutdown(test->server, seconds_from_now(20));
  dp_rpc_server_shutdown(test->server, seconds_from_now(20));
  assert_true(dp_clock_nanos() - begin < 5 * SECOND);
  assert_code(call_with(test, "/test/Echo", text_rope("x"), 10, &response), DP_UNAVAILABLE);
}

static void calls_in_flight_may_end(void **state) {
  fixture *test = *state;
  start_calls(test, "/test/Later", 20);
  dp_rpc_server_statistics statistics = {0};
  while (statistics.calls < 20)
    dp_rpc_server_get_statistics(test->server, &statistics);
  dp_rpc_server_shutdown(test->server, seconds_from_now(20));
  assert_true(wait_for(&test->finished, 20));
  assert_int_equal(atomic_load(&test->codes[DP_OK]), 20);
}

static void the_rest_is_cancelled(void **state) {
  fixture *test = *state;
  start_calls(test, "/test/Hold", 10);
  assert_true(wait_for(&test->held, 10));
  dp_text text = {0};
  dp_rpc_server_print_calls(test->server, 3, &text);
  assert_non_null(strstr(dp_text_string(&text), "Hold from 127.0.0.1:"));
  dp_text_deinit(&text);
  int64_t begin = dp_clock_nanos();
  dp_rpc_server_shutdown(test->server, seconds_from_now(0.2));
  assert_in_range(dp_clock_nanos() - begin, 150 * MILLISECOND, 10 * SECOND);
  assert_int_equal(atomic_load(&test->cancelled), 10);
  assert_true(wait_for(&test->finished, 10));
  assert_int_equal(atomic_load(&test->codes[DP_OK]), 0);
}

static void *release_soon(void *arg) {
  dp_clock_sleep(300 * MILLISECOND);
  release_kept(arg);
  return NULL;
}

static void unanswered_calls_are_waited_for(void **state) {
  fixture *test = *state;
  start_calls(test, "/test/Keep", 3);
  while (kept_count(test) < 3)
    dp_clock_sleep(MILLISECOND);
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, release_soon, test), 0);
  dp_rpc_server_shutdown(test->server, 0);
  assert_int_equal(kept_count(test), 0);
  pthread_join(thread, NULL);
  assert_true(wait_for(&test->finished, 3));
}

static void never_started(void **state) {
  fixture *test = *state;
  const char *addresses[] = {"127.0.0.1:0", "127.0.0.1:0"};
  dp_rpc_server_options options = {.addresses = addresses, .address_count = 1};
  dp_rpc_server *server;
  assert_ok(dp_rpc_server_create(&options, handle, test, &server));
  assert_true(dp_rpc_server_port(server) > 0);
  dp_rpc_server_destroy(server);
}

static dp_status *try_address(const char *address) {
  const char *addresses[] = {address};
  dp_rpc_server_options options = {.addresses = addresses, .address_count = 1};
  dp_rpc_server *server;
  dp_status *status = dp_rpc_server_create(&options, handle, NULL, &server);
  if (status == NULL)
    dp_rpc_server_destroy(server);
  return status;
}

static void check_address(const char *address, dp_code code, const char *expected) {
  dp_status *status = try_address(address);
  assert_int_equal(dp_status_code(status), code);
  if (strstr(dp_status_message(status), expected) == NULL)
    fail_msg("\"%s\" does not say \"%s\"", dp_status_message(status), expected);
  dp_status_release(status);
}

static void bad_addresses(void **state) {
  fixture *test = *state;
  char taken[32];
  snprintf(taken, sizeof(taken), "127.0.0.1:%d", dp_rpc_server_port(test->server));
  check_address(taken, DP_UNAVAILABLE, "Address already in use");
  check_address("localhost", DP_INVALID_ARGUMENT, "host:port");
  check_address("::1", DP_INVALID_ARGUMENT, "host:port");
  check_address("localhost:", DP_INVALID_ARGUMENT, "host:port");
  check_address("localhost:x1", DP_INVALID_ARGUMENT, "\"x1\" is not a port");
  check_address("localhost:70000", DP_INVALID_ARGUMENT, "\"70000\" is not a port");
  check_address("192.0.2.1:0", DP_UNAVAILABLE, "Cannot assign requested address");
  assert_ok(try_address("localhost:0"));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(idle_server_ends_at_once, set_up, tear_down),
      cmocka_unit_test_setup_teardown(calls_in_flight_may_end, set_up, tear_down),
      cmocka_unit_test_setup_teardown(the_rest_is_cancelled, set_up, tear_down),
      cmocka_unit_test_setup_teardown(unanswered_calls_are_waited_for, set_up, tear_down),
      cmocka_unit_test_setup_teardown(never_started, set_up, tear_down),
      cmocka_unit_test_setup_teardown(bad_addresses, set_up, tear_down),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
