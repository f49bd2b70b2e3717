/* Bodies go both ways whole, in any size and in any number at once; errors arrive as they were. */
#include "rpc_fixture.h"

/* ThreadSanitizer looks at each byte that a test writes and checks. */
#if defined(__SANITIZE_THREAD__)
enum { LARGEST = 8 << 20 };
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
enum { LARGEST = 8 << 20 };
#else
enum { LARGEST = 64 << 20 };
#endif
#else
enum { LARGEST = 64 << 20 };
#endif

static void echo_sizes(void **state) {
  fixture *test = *state;
  const size_t sizes[] = {0,     1,       23,      24,      512,           513,
                          16383, 1 << 14, 1 << 16, 1 << 20, (4 << 20) + 1, LARGEST};
  for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
    dp_rope response = {0};
    assert_ok(call_with(test, "/test/Echo", patterned_rope(sizes[i], (uint32_t)i), 60, &response));
    if (!has_pattern(&response, sizes[i], (uint32_t)i))
      fail_msg("%zu bytes came back as %zu", sizes[i], response.length);
    dp_rope_deinit(&response);
  }
}

static void large_pieces_are_not_copied(void **state) {
  fixture *test = *state;
  dp_buffer *buffer;
  assert_ok(dp_buffer_create(1 << 20, &buffer));
  memset(buffer->data, 7, buffer->size);
  dp_rope request = {0}, response = {0};
  dp_rope_append_piece(&request, dp_buffer_retain(buffer), buffer->data, buffer->size);
  assert_ok(call_with(test, "/test/Echo", request, 60, &response));
  for (int tries = 0; tries < 1000 && !dp_buffer_is_unique(buffer); tries++)
    dp_clock_sleep(MILLISECOND);
  assert_true(dp_buffer_is_unique(buffer)); /* gRPC has given its reference back */
  dp_buffer_release(buffer);
  dp_rope_deinit(&response);
}

typedef struct one_call {
  fixture *test;
  size_t size;
  uint32_t seed;
} one_call;

static void check_one(void *arg, dp_status *status, dp_rope *response) {
  one_call *call = arg;
  if (status == NULL && !has_pattern(response, call->size, call->seed))
    status = dp_status_create(DP_DATA_LOSS, "the bytes are different");
  count_done(call->test, status, response);
  dp_free(call);
}

static void many_at_once(void **state) {
  fixture *test = *state;
  enum { CALLS = 2000 };
  for (int i = 0; i < CALLS; i++) {
    one_call *call = DP_NEW(one_call);
    *call = (one_call){test, (size_t)(i * 37 % 5000), (uint32_t)i};
    dp_rope request = patterned_rope(call->size, call->seed);
    dp_rpc_channel_call(test->channel, "/test/Echo", &request, DP_FOREVER, NULL, DP_RPC_FAIL_FAST,
                        check_one, call);
  }
  assert_true(wait_for(&test->finished, CALLS));
  assert_int_equal(atomic_load(&test->codes[DP_OK]), CALLS);
  dp_rpc_server_statistics statistics;
  dp_rpc_server_get_statistics(test->server, &statistics);
  assert_int_equal(statistics.calls, CALLS);
  assert_int_equal(statistics.failures, 0);
  dp_rpc_channel_state channel;
  dp_rpc_channel_get_state(test->channel, &channel);
  assert_int_equal(channel.calls, CALLS);
  assert_int_equal(channel.link, DP_RPC_CONNECTED);
  assert_null(channel.last_error);
}

static void replies_from_other_threads(void **state) {
  fixture *test = *state;
  enum { CALLS = 100 };
  for (int i = 0; i < CALLS; i++) {
    one_call *call = DP_NEW(one_call);
    *call = (one_call){test, (size_t)i * 100, (uint32_t)i};
    dp_rope request = patterned_rope(call->size, call->seed);
    dp_rpc_channel_call(test->channel, "/test/Later", &request, DP_FOREVER, NULL, DP_RPC_FAIL_FAST,
                        check_one, call);
  }
  assert_true(wait_for(&test->finished, CALLS));
  assert_int_equal(atomic_load(&test->codes[DP_OK]), CALLS);
}

static void who_yields_holds_nobody_up(void **state) {
  fixture *test = *state;
  dp_rope request = text_rope("x"), response = {0};
  dp_rpc_channel_call(test->channel, "/test/Slow", &request, DP_FOREVER, NULL, DP_RPC_FAIL_FAST,
                      count_done, test);
  assert_true(wait_for(&test->held, 1));
  for (int i = 0; i < 5; i++) {
    assert_ok(call_with(test, "/test/Echo", text_rope("y"), 10, &response));
    dp_rope_deinit(&response);
  }
  assert_int_equal(atomic_load(&test->finished), 0);
  assert_true(wait_for(&test->finished, 1));
  dp_rpc_yield(); /* nothing happens on a thread that is not of the network */
}

static void errors_arrive(void **state) {
  fixture *test = *state;
  dp_rope none = {0};
  dp_status *status = call_with(test, "/test/Fail", text_rope("node 'a/b' has 3 €\n"), 10, &none);
  assert_int_equal(dp_status_code(status), DP_INVALID_ARGUMENT);
  assert_string_equal(dp_status_message(status), "node 'a/b' has 3 €\n");
  dp_status_release(status);
  status = call_with(test, "/test/Unheard", text_rope("x"), 10, &none);
  assert_int_equal(dp_status_code(status), DP_UNIMPLEMENTED);
  assert_non_null(strstr(dp_status_message(status), "/test/Unheard"));
  dp_status_release(status);
}

/* Fails with `count` times `unit` and checks that what arrives is a whole beginning of it. */
static void check_long_message(fixture *test, const char *unit, int count, size_t least) {
  dp_rope request = {0}, none = {0};
  for (int i = 0; i < count; i++)
    assert_ok(dp_rope_append(&request, unit, strlen(unit)));
  dp_status *status = call_with(test, "/test/Fail", request, 10, &none);
  assert_int_equal(dp_status_code(status), DP_INVALID_ARGUMENT);
  const char *message = dp_status_message(status);
  size_t length = strlen(message);
  assert_true(length <= 3072 && length >= least);
  assert_string_equal(message + length - 3, "...");
  assert_int_equal((length - 3) % strlen(unit), 0);
  for (size_t i = 0; i < length - 3; i++)
    assert_int_equal(message[i], unit[i % strlen(unit)]);
  dp_status_release(status);
}

static void long_messages_are_cut(void **state) {
  fixture *test = *state;
  dp_rope request = {0}, none = {0};
  for (int i = 0; i < 3072; i++)
    assert_ok(dp_rope_append(&request, "x", 1));
  dp_status *status = call_with(test, "/test/Fail", request, 10, &none);
  assert_int_equal(strlen(dp_status_message(status)), 3072);
  assert_int_equal(dp_status_message(status)[3071], 'x');
  dp_status_release(status);
  check_long_message(test, "x", 3073, 3070);
  check_long_message(test, "x", 200000, 3070);
  check_long_message(test, "€", 2000, 2000); /* three bytes, nine when encoded */
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(echo_sizes, set_up, tear_down),
      cmocka_unit_test_setup_teardown(large_pieces_are_not_copied, set_up, tear_down),
      cmocka_unit_test_setup_teardown(many_at_once, set_up, tear_down),
      cmocka_unit_test_setup_teardown(replies_from_other_threads, set_up, tear_down),
      cmocka_unit_test_setup_teardown(who_yields_holds_nobody_up, set_up, tear_down),
      cmocka_unit_test_setup_teardown(errors_arrive, set_up, tear_down),
      cmocka_unit_test_setup_teardown(long_messages_are_cut, set_up, tear_down),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
