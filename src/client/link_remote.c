/* A link to a master behind gRPC. The network threads are shared by all such links and go with the
 * last one. Like TensorFlow's client it waits for a server that is not up yet, or that is coming
 * back, until the deadline of the call. */
#include "client/client_internal.h"

#include "master/master.h"
#include "rpc/client.h"

/* ---- The network ---- */

static pthread_mutex_t network_lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
  int users;
  dp_rpc_client *client;
} network; /* guarded by network_lock */

static dp_status *enter_network(void) {
  pthread_mutex_lock(&network_lock);
  dp_status *status = network.client ? NULL : dp_rpc_client_create(0, &network.client);
  if (!status)
    network.users++;
  pthread_mutex_unlock(&network_lock);
  return status;
}

static void leave_network(void) {
  pthread_mutex_lock(&network_lock);
  if (--network.users == 0) {
    dp_rpc_client_destroy(network.client);
    network.client = NULL;
  }
  pthread_mutex_unlock(&network_lock);
}

/* ---- Calls ---- */

typedef struct remote_link {
  client_link link;
  dp_rpc_channel *channel;
} remote_link;

/* Consumes the body. A session is closed without waiting for a server that is gone. */
static dp_status *exchange(client_link *base, dp_master_method method, dp_rope *body,
                           int64_t deadline, dp_rope *response_out) {
  remote_link *link = (remote_link *)base;
  dp_rpc_flags flags = method == DP_MASTER_CLOSE_SESSION ? DP_RPC_FAIL_FAST : DP_RPC_WAIT_FOR_READY;
  dp_status *status = dp_rpc_channel_call_and_wait(link->channel, dp_master_method_path(method),
                                                   body, deadline, NULL, flags, response_out);
  dp_rope_deinit(body);
  return status;
}

static dp_status *remote_control(client_link *base, dp_master_method method, const void *request,
                                 int64_t deadline, dp_arena *arena, void *response_out) {
  dp_rope body = {0}, response = {0};
  dp_status *status = dp_wire_pack(request, &body);
  if (status) {
    dp_rope_deinit(&body);
    return status;
  }
  status = exchange(base, method, &body, deadline, &response);
  if (!status && response_out)
    status = dp_wire_unpack(dp_master_response_type(method), &response, arena, response_out);
  dp_rope_deinit(&response);
  return status;
}

static dp_status *remote_run(client_link *base, const dp_run_step_request *request,
                             int64_t deadline, dp_arena *arena,
                             dp_run_step_response *response_out) {
  dp_rope body = {0}, response = {0};
  dp_run_step_request with_errors_inside = *request;
  with_errors_inside.store_errors_in_response_body = true;
  dp_status *status = dp_run_step_request_encode(&with_errors_inside, &body);
  if (status) {
    dp_rope_deinit(&body);
    return status;
  }
  status = exchange(base, DP_MASTER_RUN_STEP, &body, deadline, &response);
  if (!status)
    status = dp_run_step_response_decode(&response, arena, response_out);
  dp_rope_deinit(&response);
  if (!status && response_out->status_code != DP_OK) {
    status = dp_status_create((dp_code)response_out->status_code, "%s",
                              response_out->status_error_message);
    dp_run_step_response_deinit(response_out);
    *response_out = (dp_run_step_response){0};
  }
  return status;
}

/* ---- Life ---- */

static void remote_destroy(client_link *base) {
  remote_link *link = (remote_link *)base;
  dp_rpc_channel_release(link->channel);
  leave_network();
  dp_free(link);
}

static const client_link_ops remote_ops = {remote_control, remote_run, remote_destroy};

dp_status *dp_client_link_remote(const char *address, client_link **link_out) {
  DP_RETURN_IF_ERROR(enter_network());
  remote_link *link = DP_NEW(remote_link);
  link->link.ops = &remote_ops;
  link->channel = dp_rpc_channel_create(network.client, address, NULL);
  *link_out = &link->link;
  return NULL;
}
