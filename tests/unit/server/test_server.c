/* A whole task inside the test's process: it answers its services, refuses what it does not know,
 * and ends while clients are connected. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "base/clock.h"
#include "base/memory.h"
#include "rpc/client.h"
#include "server/server.h"
#include "wire/control.h"
#include "wire/methods.h"
#include "wire/worker.pb-c.h"

static void assert_ok(dp_status *status) {
  if (status != NULL)
    fail_msg("%s: %s", dp_code_name(dp_status_code(status)), dp_status_message(status));
}

static dp_server *start(const dp_server_options *options) {
  dp_server *server;
  assert_ok(dp_server_create(options, &server));
  assert_ok(dp_server_start(server));
  return server;
}

static dp_status *call(const dp_server *server, const char *path, dp_rope *response) {
  dp_rpc_client *client;
  assert_ok(dp_rpc_client_create(1, &client));
  char target[32];
  snprintf(target, sizeof(target), "127.0.0.1:%d", dp_server_port(server));
  dp_rpc_channel *channel = dp_rpc_channel_create(client, target, NULL);
  dp_rope request = {0};
  dp_status *status = dp_rpc_channel_call_and_wait(
      channel, path, &request, dp_clock_deadline_ms(20000), NULL, DP_RPC_FAIL_FAST, response);
  dp_rpc_channel_release(channel);
  dp_rpc_client_destroy(client);
  return status;
}

/* Asks for the devices; there must be one, of this name. */
static void check_device(const dp_server *server, const char *name) {
  dp_rope response = {0};
  assert_ok(call(server, dp_worker_method_path(DP_WORKER_GET_STATUS), &response));
  dp_arena *arena = dp_arena_create();
  Tensorflow__GetStatusResponse *message;
  assert_ok(
      dp_wire_unpack(&tensorflow__get_status_response__descriptor, &response, arena, &message));
  assert_int_equal(message->n_device_attributes, 1);
  assert_string_equal(message->device_attributes[0]->name, name);
  dp_arena_destroy(arena);
  dp_rope_deinit(&response);
}

static void alone(void **state) {
  dp_server_options options = {.port = 0};
  dp_server *server = start(&options);
  char target[64];
  snprintf(target, sizeof(target), "grpc://127.0.0.1:%d", dp_server_port(server));
  assert_string_equal(dp_server_target(server), target);
  check_device(server, "/job:local/replica:0/task:0/device:CPU:0");
  dp_text text = {0};
  dp_server_describe(server, &text);
  assert_non_null(strstr(dp_text_string(&text), "ever: 1 calls, 0 failed"));
  dp_text_deinit(&text);
  dp_server_shutdown(server, dp_clock_deadline_ms(1000));
  dp_server_destroy(server);
}

static void unknown_methods(void **state) {
  dp_server_options options = {.port = 0};
  dp_server *server = start(&options);
  const char *paths[] = {"/tensorflow.MasterService/Fly", "/tensorflow.EagerService/CreateContext",
                         "/nothing"};
  for (int i = 0; i < 3; i++) {
    dp_rope response = {0};
    dp_status *status = call(server, paths[i], &response);
    assert_int_equal(dp_status_code(status), DP_UNIMPLEMENTED);
    assert_non_null(strstr(dp_status_message(status), paths[i]));
    dp_status_release(status);
  }
  dp_server_destroy(server);
}

static void in_a_cluster(void **state) {
  dp_cluster_spec *cluster;
  const char *json = "{\"ps\":[\"localhost:2222\"],\"worker\":{\"4\":\"localhost:2223\"}}";
  assert_ok(dp_cluster_spec_parse(dp_view_of(json), &cluster));
  dp_server_options options = {.cluster = cluster, .job = "worker", .task = 4, .port = 0};
  dp_server *server = start(&options);
  check_device(server, "/job:worker/replica:0/task:4/device:CPU:0");
  char target[64];
  snprintf(target, sizeof(target), "grpc://localhost:%d", dp_server_port(server));
  assert_string_equal(dp_server_target(server), target);
  dp_server_destroy(server);
  dp_cluster_spec_release(cluster);
}

static void check_failure(const dp_server_options *options, dp_code code, const char *expected) {
  dp_server *server = NULL;
  dp_status *status = dp_server_create(options, &server);
  assert_int_equal(dp_status_code(status), code);
  if (strstr(dp_status_message(status), expected) == NULL)
    fail_msg("\"%s\" does not say \"%s\"", dp_status_message(status), expected);
  assert_null(server);
  dp_status_release(status);
}

static void failures(void **state) {
  dp_server_options options = {.port = 0};
  dp_server *server = start(&options);
  options.port = dp_server_port(server);
  check_failure(&options, DP_UNAVAILABLE, "Address already in use");
  dp_server_destroy(server);
  dp_cluster_spec *cluster;
  assert_ok(dp_cluster_spec_parse(dp_view_of("{\"ps\":[\"192.0.2.1:2222\"]}"), &cluster));
  options = (dp_server_options){.cluster = cluster, .job = "ps", .task = 0, .port = -1};
  check_failure(&options, DP_UNAVAILABLE, "--bind");
  options.task = 1;
  check_failure(&options, DP_INVALID_ARGUMENT, "no task 1");
  dp_cluster_spec_release(cluster);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(alone),
      cmocka_unit_test(unknown_methods),
      cmocka_unit_test(in_a_cluster),
      cmocka_unit_test(failures),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
