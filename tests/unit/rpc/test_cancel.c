/* A cancelled client, a client without time left and a client that is gone all reach the server's
 * scope, and the caller gets the reason he gave. */
#include "rpc_fixture.h"
#include "base/event.h"
#include "base/fault.h"

typedef struct outcome {
  dp_event over;
  dp_code code;
  char message[200];
} outcome;

static void note(void *arg, dp_status *status, dp_rope *response) {
  outcome *result = arg;
  result->code = dp_status_code(status);
  snprintf(result->message, sizeof(result->message), "%s", dp_status_message(status));
  dp_status_release(status);
  dp_event_notify(&result->over);
}

static void start_call(fixture *test, const char *path, double seconds, dp_cancel *cancel,
                       outcome *result) {
  dp_event_init(&result->over);
  dp_rope request = text_rope("x");
  dp_rpc_channel_call(test->channel, path, &request,
                      seconds > 0 ? seconds_from_now(seconds) : DP_FOREVER, cancel,
                      DP_RPC_FAIL_FAST, note, result);
}

static void wait_for_end(outcome *result) {
  assert_true(dp_event_wait_until(&result->over, seconds_from_now(20)));
  dp_event_deinit(&result->over);
}

static void client_cancels(void **state) {
  fixture *test = *state;
  dp_cancel *scope = dp_cancel_create(NULL, DP_FOREVER);
  outcome result;
  start_call(test, "/test/Hold", 0, scope, &result);
  assert_true(wait_for(&test->held, 1));
  dp_cancel_trigger(scope, dp_status_create(DP_ABORTED, "step 7 failed elsewhere"));
  wait_for_end(&result);
  assert_int_equal(result.code, DP_ABORTED);
  assert_string_equal(result.message, "step 7 failed elsewhere");
  assert_true(wait_for(&test->cancelled, 1));
  assert_int_equal(atomic_load(&test->cancel_code), DP_CANCELLED);
  dp_cancel_release(scope);
}

static void already_cancelled(void **state) {
  fixture *test = *state;
  dp_cancel *scope = dp_cancel_create(NULL, DP_FOREVER);
  dp_cancel_trigger(scope, dp_status_create(DP_CANCELLED, "too late"));
  outcome result;
  start_call(test, "/test/Hold", 0, scope, &result);
  wait_for_end(&result);
  assert_int_equal(result.code, DP_CANCELLED);
  assert_string_equal(result.message, "too late");
  assert_int_equal(atomic_load(&test->held), 0);
  dp_cancel_release(scope);
}

static void deadline_passes(void **state) {
  fixture *test = *state;
  outcome result;
  int64_t begin = dp_clock_nanos();
  start_call(test, "/test/Hold", 0.2, NULL, &result);
  wait_for_end(&result);
  assert_in_range(dp_clock_nanos() - begin, 190 * MILLISECOND, 10 * SECOND);
  assert_int_equal(result.code, DP_DEADLINE_EXCEEDED);
  assert_non_null(strstr(result.message, dp_rpc_channel_target(test->channel)));
  assert_non_null(strstr(result.message, "/test/Hold"));
  assert_true(wait_for(&test->cancelled, 1));
  int code =
      atomic_load(&test->cancel_code); /* whichever is first: our clock or the client's news */
  assert_true(code == DP_DEADLINE_EXCEEDED || code == DP_CANCELLED);
}

static bool note_deadline(void *arg, dp_rpc_call *call) {
  int64_t deadline = dp_rpc_call_deadline(call);
  atomic_store((atomic_llong *)arg,
               deadline == DP_FOREVER ? deadline : deadline - dp_clock_nanos());
  assert_true(dp_view_starts_with(dp_view_of(dp_rpc_call_peer(call)), "127.0.0.1:"));
  echo(call);
  return true;
}

static void deadline_is_readable(void **state) {
  fixture *test = *state;
  atomic_llong left = 0;
  const char *addresses[] = {"127.0.0.1:0", "localhost:0"};
  dp_rpc_server_options options = {.addresses = addresses, .address_count = 1};
  dp_rpc_server *server;
  assert_ok(dp_rpc_server_create(&options, note_deadline, &left, &server));
  assert_ok(dp_rpc_server_start(server));
  dp_rpc_channel *channel = channel_to(test->client, dp_rpc_server_port(server));
  dp_rope request = text_rope("x"), response = {0};
  assert_ok(dp_rpc_channel_call_and_wait(channel, "/a/b", &request, seconds_from_now(100), NULL,
                                         DP_RPC_FAIL_FAST, &response));
  assert_in_range(atomic_load(&left), 80 * SECOND, 101 * SECOND);
  dp_rope_deinit(&response);
  request = text_rope("x");
  assert_ok(dp_rpc_channel_call_and_wait(channel, "/a/b", &request, DP_FOREVER, NULL,
                                         DP_RPC_FAIL_FAST, &response));
  assert_true(atomic_load(&left) == DP_FOREVER);
  dp_rope_deinit(&response);
  dp_rpc_channel_release(channel);
  dp_rpc_server_destroy(server);
}

/* The scope of a call is triggered while answers race with it. */
static void cancel_races_with_replies(void **state) {
  fixture *test = *state;
  enum { CALLS = 300 };
  dp_cancel *scopes[CALLS];
  for (int i = 0; i < CALLS; i++) {
    scopes[i] = dp_cancel_create(NULL, DP_FOREVER);
    dp_rope request = text_rope("x");
    dp_rpc_channel_call(test->channel, i % 2 ? "/test/Echo" : "/test/Hold", &request, DP_FOREVER,
                        scopes[i], DP_RPC_FAIL_FAST, count_done, test);
    if (i >= 10)
      dp_cancel_trigger(scopes[i - 10], dp_status_create(DP_CANCELLED, "test"));
  }
  for (int i = CALLS - 10; i < CALLS; i++)
    dp_cancel_trigger(scopes[i], dp_status_create(DP_CANCELLED, "test"));
  assert_true(wait_for(&test->finished, CALLS));
  assert_int_equal(atomic_load(&test->codes[DP_OK]) + atomic_load(&test->codes[DP_CANCELLED]),
                   CALLS);
  for (int i = 0; i < CALLS; i++)
    dp_cancel_release(scopes[i]);
}

static void faults_show(void **state) {
  fixture *test = *state;
  dp_rope none = {0};
  assert_ok(dp_fault_configure("rpc.call=error:UNAVAILABLE@1,rpc.receive=error:DATA_LOSS@1"));
  assert_code(call_with(test, "/test/Echo", text_rope("x"), 10, &none), DP_UNAVAILABLE);
  assert_code(call_with(test, "/test/Echo", text_rope("x"), 10, &none), DP_DATA_LOSS);
  assert_ok(call_with(test, "/test/Echo", text_rope("x"), 10, &none));
  dp_rope_deinit(&none);
  dp_fault_clear();
  assert_ok(dp_fault_configure("rpc.reply=error:INTERNAL@1"));
  assert_code(call_with(test, "/test/Echo", text_rope("x"), 10, &none), DP_INTERNAL);
  dp_fault_clear();
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(client_cancels, set_up, tear_down),
      cmocka_unit_test_setup_teardown(already_cancelled, set_up, tear_down),
      cmocka_unit_test_setup_teardown(deadline_passes, set_up, tear_down),
      cmocka_unit_test_setup_teardown(deadline_is_readable, set_up, tear_down),
      cmocka_unit_test_setup_teardown(cancel_races_with_replies, set_up, tear_down),
      cmocka_unit_test_setup_teardown(faults_show, set_up, tear_down),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
