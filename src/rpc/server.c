/* The server: addresses, threads, start and end. It keeps REQUESTED_CALLS objects waiting in gRPC,
 * so that a burst of calls finds somewhere to arrive; each arrival puts a new one there.
 *
 * The end: gRPC stops listening and tells when the last call is over. At the deadline the rest is
 * cancelled, which triggers the calls' scopes; their owners answer, and that ends them. */
#include "rpc/server_internal.h"

#include <errno.h>
#include <grpc/grpc_security.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"

enum { REQUESTED_CALLS = 32, URGENT_CALLS = 8, PRINTED_CALLS = 5 };
static const int64_t report_interval = INT64_C(10000000000);

/* ---- Addresses --------------------------------------------------------------------------------*/

/* Where "host:port" and "[::1]:port" are divided; NULL when it is neither. */
static const char *find_port(const char *address) {
  const char *colon = strrchr(address, ':');
  if (colon == NULL || colon == address || colon[1] == '\0')
    return NULL;
  if (address[0] == '[')
    return colon[-1] == ']' ? colon + 1 : NULL;
  return strchr(address, ':') == colon ? colon + 1 : NULL;
}

static dp_status *check_address(const char *address, int64_t *port_out) {
  const char *port = find_port(address);
  if (port == NULL)
    return DP_INVALID("cannot listen on \"%s\": not of the form host:port", address);
  if (!dp_parse_int64(dp_view_of(port), port_out) || *port_out < 0 || *port_out > 65535)
    return DP_INVALID("cannot listen on \"%s\": \"%s\" is not a port", address, port);
  return NULL;
}

/* gRPC only says that it could not bind. Tries the same and returns the system's reason. */
static const char *why_not_bound(const char *address) {
  const char *port = find_port(address);
  size_t host_length = (size_t)(port - 1 - address);
  bool bracketed = address[0] == '[';
  char *host = dp_strndup(address + bracketed, host_length - 2 * bracketed);
  struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE}, *found = NULL;
  int error = getaddrinfo(host, port, &hints, &found);
  dp_free(host);
  if (error != 0)
    return gai_strerror(error);
  const char *reason = "gRPC could not bind it";
  for (struct addrinfo *at = found; at != NULL; at = at->ai_next) {
    int descriptor = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int reuse = 1;
    bool bound = descriptor >= 0 &&
                 setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &reuse, sizeof(reuse)) == 0 &&
                 bind(descriptor, at->ai_addr, at->ai_addrlen) == 0 && listen(descriptor, 1) == 0;
    if (!bound)
      reason = strerror(errno);
    if (descriptor >= 0)
      close(descriptor);
    if (!bound)
      break;
  }
  freeaddrinfo(found);
  return reason;
}

static dp_status *bind_address(dp_rpc_server *server, const char *address) {
  int64_t port;
  DP_RETURN_IF_ERROR(check_address(address, &port));
  dp_text full = {0};
  if (port == 0 && server->port != 0)
    dp_text_printf(&full, "%.*s%d", (int)(find_port(address) - address), address, server->port);
  else
    dp_text_add(&full, address);
  grpc_server_credentials *credentials = grpc_insecure_server_credentials_create();
  int bound = grpc_server_add_http2_port(server->grpc, dp_text_string(&full), credentials);
  grpc_server_credentials_release(credentials);
  dp_status *status = NULL;
  if (bound <= 0)
    status = dp_status_create(DP_UNAVAILABLE, "cannot listen on %s: %s", dp_text_string(&full),
                              why_not_bound(dp_text_string(&full)));
  else if (server->port == 0)
    server->port = bound;
  dp_text_deinit(&full);
  return status;
}

/* ---- Beginning --------------------------------------------------------------------------------*/

/* gRPC's probing for the bandwidth stays on. Without it a stream's window stays at 1 MiB, and a
 * sender of more waits for an update of the window after each MiB.
 *
 * Clients may ping as often as they like. Keepalive ends the connections of clients whose machine
 * is gone, and with them their calls. It is patient: a client that a user has stopped and goes on
 * with later keeps its connection for 5 minutes. */
static grpc_server *make_grpc_server(void) {
  grpc_arg args[] = {
      {GRPC_ARG_INTEGER, GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, {.integer = -1}},
      {GRPC_ARG_INTEGER, GRPC_ARG_MAX_SEND_MESSAGE_LENGTH, {.integer = -1}},
      {GRPC_ARG_INTEGER, GRPC_ARG_ALLOW_REUSEPORT, {.integer = 0}},
      {GRPC_ARG_INTEGER, GRPC_ARG_ENABLE_CHANNELZ, {.integer = 0}},
      {GRPC_ARG_INTEGER, GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, {.integer = 1000}},
      {GRPC_ARG_INTEGER, GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, {.integer = 1}},
      {GRPC_ARG_INTEGER, GRPC_ARG_KEEPALIVE_TIME_MS, {.integer = 300000}},
      {GRPC_ARG_INTEGER, GRPC_ARG_KEEPALIVE_TIMEOUT_MS, {.integer = 60000}},
  };
  grpc_channel_args all = {sizeof(args) / sizeof(args[0]), args};
  return grpc_server_create(&all, NULL);
}

static void on_shutdown(dp_rpc_event *event, bool ok) {
  dp_rpc_server *server = DP_RPC_EVENT_OWNER(event, dp_rpc_server, shutdown_event);
  pthread_mutex_lock(&server->mutex);
  server->shutdown_done = true;
  pthread_cond_broadcast(&server->changed);
  pthread_mutex_unlock(&server->mutex);
}

static void open_urgent_way(dp_rpc_server *server, const char *path) {
  dp_rpc_engine_init_single(&server->urgent, "dp-rpc-urgent");
  server->urgent_path = path;
  server->urgent_method =
      grpc_server_register_method(server->grpc, path, NULL, GRPC_SRM_PAYLOAD_NONE, 0);
  grpc_server_register_completion_queue(server->grpc, server->urgent.queue, NULL);
}

dp_status *dp_rpc_server_create(const dp_rpc_server_options *options, dp_rpc_handler_fn handler,
                                void *arg, dp_rpc_server **server_out) {
  dp_rpc_server *server = DP_NEW(dp_rpc_server);
  dp_rpc_engine_init(&server->engine, "dp-rpc-server", options->network_threads);
  server->handler = handler;
  server->handler_arg = arg;
  server->shutdown_event.fn = on_shutdown;
  pthread_mutex_init(&server->mutex, NULL);
  pthread_condattr_t monotonic;
  pthread_condattr_init(&monotonic);
  pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
  pthread_cond_init(&server->changed, &monotonic);
  pthread_condattr_destroy(&monotonic);
  server->grpc = make_grpc_server();
  grpc_server_register_completion_queue(server->grpc, server->engine.queue, NULL);
  if (options->urgent_path != NULL)
    open_urgent_way(server, options->urgent_path);
  dp_status *status =
      options->address_count == 0 ? DP_INVALID("a server needs an address to listen on") : NULL;
  for (size_t i = 0; i < options->address_count && status == NULL; i++)
    status = bind_address(server, options->addresses[i]);
  if (status != NULL) {
    dp_rpc_server_destroy(server);
    return status;
  }
  *server_out = server;
  return NULL;
}

int dp_rpc_server_port(const dp_rpc_server *server) {
  return server->port;
}

dp_status *dp_rpc_server_start(dp_rpc_server *server) {
  DP_RETURN_IF_ERROR(dp_rpc_engine_start(&server->engine));
  if (server->urgent_method != NULL)
    DP_RETURN_IF_ERROR(dp_rpc_engine_start(&server->urgent));
  grpc_server_start(server->grpc);
  server->started = true;
  for (int i = 0; i < REQUESTED_CALLS; i++)
    dp_rpc_call_request_next(server, false);
  for (int i = 0; server->urgent_method != NULL && i < URGENT_CALLS; i++)
    dp_rpc_call_request_next(server, true);
  return NULL;
}

/* ---- Ending -----------------------------------------------------------------------------------*/

static bool has_ended(const dp_rpc_server *server) {
  return server->shutdown_done && server->live_count == 0;
}

/* Waits for the end of the shutdown; false when `until` came first. gRPC's word alone is not
 * enough: it forgets cancelled calls that their owners still hold. */
static bool wait_for_shutdown(dp_rpc_server *server, int64_t until) {
  struct timespec time = {until / 1000000000, until % 1000000000};
  int error = 0;
  pthread_mutex_lock(&server->mutex);
  while (!has_ended(server) && error != ETIMEDOUT)
    error = until == DP_FOREVER ? pthread_cond_wait(&server->changed, &server->mutex)
                                : pthread_cond_timedwait(&server->changed, &server->mutex, &time);
  bool done = has_ended(server);
  pthread_mutex_unlock(&server->mutex);
  return done;
}

static void report_stuck_calls(dp_rpc_server *server) {
  dp_text text = {0};
  dp_rpc_server_print_calls(server, PRINTED_CALLS, &text);
  DP_LOG(RPC, WARN, "the end of the server waits for cancelled calls to be answered: %s",
         dp_text_string(&text));
  dp_text_deinit(&text);
}

void dp_rpc_server_shutdown(dp_rpc_server *server, int64_t deadline_nanos) {
  atomic_store(&server->stopping, true);
  pthread_mutex_lock(&server->mutex);
  bool first = !server->shutdown_begun;
  server->shutdown_begun = true;
  pthread_mutex_unlock(&server->mutex);
  if (first)
    grpc_server_shutdown_and_notify(server->grpc, server->engine.queue,
                                    dp_rpc_event_hand_over(&server->shutdown_event));
  while (server->engine.thread_count == 0 && !server->shutdown_done)
    dp_rpc_engine_step(&server->engine); /* never started: this thread alone is here */
  if (wait_for_shutdown(server, deadline_nanos))
    return;
  grpc_server_cancel_all_calls(server->grpc);
  while (!wait_for_shutdown(server, dp_clock_nanos() + report_interval))
    report_stuck_calls(server);
}

void dp_rpc_server_destroy(dp_rpc_server *server) {
  if (server == NULL)
    return;
  dp_rpc_server_shutdown(server, 0);
  grpc_server_destroy(server->grpc);
  if (server->urgent_method != NULL)
    dp_rpc_engine_deinit(&server->urgent);
  dp_rpc_engine_deinit(&server->engine);
  pthread_cond_destroy(&server->changed);
  pthread_mutex_destroy(&server->mutex);
  dp_free(server);
}

/* ---- Looking at it ----------------------------------------------------------------------------*/

void dp_rpc_server_get_statistics(dp_rpc_server *server, dp_rpc_server_statistics *statistics_out) {
  pthread_mutex_lock(&server->mutex);
  size_t live = server->live_count;
  pthread_mutex_unlock(&server->mutex);
  *statistics_out = (dp_rpc_server_statistics){
      .calls = atomic_load_explicit(&server->call_count, memory_order_relaxed),
      .failures = atomic_load_explicit(&server->failure_count, memory_order_relaxed),
      .request_bytes = atomic_load_explicit(&server->request_bytes, memory_order_relaxed),
      .response_bytes = atomic_load_explicit(&server->response_bytes, memory_order_relaxed),
      .live_calls = live,
  };
}

void dp_rpc_server_print_calls(dp_rpc_server *server, size_t limit, dp_text *text) {
  int64_t now = dp_clock_nanos();
  size_t printed = 0;
  pthread_mutex_lock(&server->mutex);
  for (dp_rpc_call *call = server->calls; call != NULL && printed < limit; call = call->next) {
    char *peer = dp_rpc_peer_of(call->grpc);
    dp_text_printf(text, "%s%s from %s, %.1f s", printed++ > 0 ? "\n" : "",
                   dp_rpc_short_name(call->path), peer, (double)(now - call->arrival) / 1e9);
    dp_free(peer);
  }
  pthread_mutex_unlock(&server->mutex);
}
