/* `downpour status` and `downpour stop`: one call to a running server, whose answer is printed. The
 * calls are our own (server/server.h); a task of genuine TensorFlow does not answer them. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "cli/command.h"
#include "cluster/cluster_spec.h"
#include "rpc/client.h"
#include "server/server.h"

static const dp_option options_table[] = {
    {"target", DP_OPTION_STRING, NULL, "grpc://HOST:PORT", "The server to talk to.", 0, 0},
    {"timeout", DP_OPTION_DURATION, "10s", "TIME", "How long to wait for its answer.",
     INT64_C(1000000), INT64_C(86400000000000)},
    {0},
};

static dp_status *find_address(const dp_options *options, const char **address_out) {
  const char *target = dp_options_string(options, "target");
  if (!target)
    return DP_INVALID("give --target grpc://HOST:PORT");
  dp_view address = dp_view_of(target);
  dp_view_consume(&address, "grpc://");
  dp_view host;
  int port;
  if (!dp_cluster_split_address(address.data, &host, &port) || port < 1 ||
      memchr(host.data, '/', host.length))
    return DP_INVALID("--target %s: that is not grpc://HOST:PORT", target);
  *address_out = address.data;
  return NULL;
}

/* One call with an empty request. */
static dp_status *ask(const char *address, const char *path, int64_t timeout, dp_rope *answer_out) {
  dp_rpc_client *client;
  DP_RETURN_IF_ERROR(dp_rpc_client_create(1, &client));
  dp_rpc_channel *channel = dp_rpc_channel_create(client, address, NULL);
  dp_rope request = {0};
  dp_status *status = dp_rpc_channel_call_and_wait(
      channel, path, &request, dp_clock_nanos() + timeout, NULL, DP_RPC_FAIL_FAST, answer_out);
  dp_rpc_channel_release(channel);
  dp_rpc_client_destroy(client);
  return status;
}

static int talk(const dp_options *options, const char *path) {
  const char *address;
  dp_status *status = find_address(options, &address);
  if (status)
    return dp_command_fail(status, DP_EXIT_USAGE);
  dp_rope answer = {0};
  status = ask(address, path, dp_options_int(options, "timeout"), &answer);
  for (size_t i = 0; !status && i < answer.pieces.count; i++)
    fwrite(answer.pieces.items[i].data, 1, answer.pieces.items[i].length, stdout);
  dp_rope_deinit(&answer);
  return status ? dp_command_fail(status, DP_EXIT_FAILURE) : DP_EXIT_OK;
}

static int show_status(const dp_options *options) {
  return talk(options, DP_CONTROL_DESCRIBE);
}

static int stop_server(const dp_options *options) {
  return talk(options, DP_CONTROL_STOP);
}

const dp_command dp_status_command = {
    .name = "status",
    .arguments = "--target grpc://HOST:PORT",
    .summary = "Show what a server is doing and whom it waits for.",
    .options = options_table,
    .run = show_status,
};

const dp_command dp_stop_command = {
    .name = "stop",
    .arguments = "--target grpc://HOST:PORT",
    .summary = "End a server cleanly.",
    .options = options_table,
    .run = stop_server,
};
