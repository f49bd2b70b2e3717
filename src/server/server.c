/* A task on the network.
 *
 * The port is bound first, because a task alone on port 0 learns its address there. Then the links
 * to the other tasks are made, the task itself (task/task.h) with those links as its cluster, and
 * what looks after it. Starting lets calls in: from the network, and by the door (task/door.h) from
 * clients in this process. The end goes the other way: calls are let out, then the parts end. */
#include "server/server.h"

#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "client/differentiate.h"
#include "server/control_service_internal.h"
#include "server/server_internal.h"
#include "server/services_internal.h"
#include "storage/file.h"

#define TASK_NAME "/job:%s/replica:0/task:%d"

enum { PRINTED_CALLS = 100 };
static const int64_t default_gone_nanos = INT64_C(10000000000);

/* ---- Addresses --------------------------------------------------------------------------------*/

/* "host:port", with brackets around an IPv6 host; the caller frees it. */
static char *join_address(dp_view host, int port) {
  bool brackets = memchr(host.data, ':', host.length) != NULL;
  dp_text address = {0};
  dp_text_printf(&address, brackets ? "[%.*s]:%d" : "%.*s:%d", (int)host.length, host.data, port);
  return dp_text_take(&address);
}

typedef struct own_address {
  dp_view host; /* as clients reach it */
  dp_view bind;
  int port; /* to bind */
} own_address;

static bool is_wildcard(dp_view host) {
  return dp_view_equals(host, "0.0.0.0") || dp_view_equals(host, "::");
}

static void add_address(dp_server *server, const char *host) {
  server->addresses[server->address_count++] =
      join_address(dp_view_of(host), dp_rpc_server_port(server->listener));
}

/* All addresses under which a client on this machine means this server. */
static void list_addresses(dp_server *server, const own_address *own) {
  bool is_wildcard_bind = is_wildcard(own->bind);
  bool is_four = is_wildcard_bind || dp_view_equals(own->bind, "127.0.0.1");
  bool is_six = dp_view_equals(own->bind, "::") || dp_view_equals(own->bind, "::1");
  server->addresses = DP_NEW_ARRAY(char *, 5);
  server->addresses[server->address_count++] =
      join_address(own->host, dp_rpc_server_port(server->listener));
  server->addresses[server->address_count++] =
      join_address(own->bind, dp_rpc_server_port(server->listener));
  if (is_four || is_six)
    add_address(server, "localhost");
  if (is_four)
    add_address(server, "127.0.0.1");
  if (is_six)
    add_address(server, "::1");
}

static dp_status *find_own_address(const dp_server_options *options, own_address *own_out) {
  own_address own = {.host = dp_view_of("127.0.0.1"), .port = options->port};
  int port = 0;
  if (options->cluster != NULL) {
    const char *address;
    DP_RETURN_IF_ERROR(
        dp_cluster_spec_lookup(options->cluster, options->job, options->task, &address));
    dp_cluster_split_address(address, &own.host, &port);
  }
  if (own.port < 0)
    own.port = port;
  if (options->bind != NULL)
    own.bind = dp_view_of(options->bind);
  else
    own.bind = dp_view_equals(own.host, "localhost") ? dp_view_of("127.0.0.1") : own.host;
  if (options->cluster == NULL && options->bind != NULL)
    own.host = is_wildcard(own.bind) ? dp_view_of("localhost") : own.bind;
  *own_out = own;
  return NULL;
}

/* ---- Making -----------------------------------------------------------------------------------*/

/* TensorFlow 2 clients connect by GetStatus, which TensorFlow 1 has too; every call after it is of
 * this service. So the first call that tells them apart is the one to say it. */
static bool refuse_eager(dp_rpc_call *call) {
  static const char service[] = "/tensorflow.eager.EagerService/";
  if (strncmp(dp_rpc_call_path(call), service, sizeof(service) - 1) != 0)
    return false;
  dp_rpc_call_fail(
      call, dp_status_create(
                DP_UNIMPLEMENTED,
                "this Downpour server speaks TensorFlow 1 sessions, not TensorFlow 2's eager calls "
                "(%s): use tf.compat.v1.Session(\"grpc://host:port\") after "
                "tf.compat.v1.disable_eager_execution(), in place of "
                "tf.config.experimental_connect_to_cluster or ParameterServerStrategy",
                dp_rpc_call_path(call) + sizeof(service) - 1));
  return true;
}

static bool route(void *arg, dp_rpc_call *call) {
  dp_server *server = arg;
  dp_pool *blocking = dp_task_blocking(server->task);
  return dp_master_service_handle(dp_task_master(server->task), blocking, call) ||
         dp_worker_service_handle(dp_task_worker(server->task), blocking, call) ||
         dp_control_service_handle(server, call) || refuse_eager(call);
}

static dp_status *listen_on(dp_server *server, const dp_server_options *options,
                            const own_address *own) {
  char *address = join_address(own->bind, own->port);
  const char *const addresses[] = {address};
  dp_rpc_server_options network = {.addresses = addresses,
                                   .address_count = 1,
                                   .network_threads = options->network_threads,
                                   .urgent_path = dp_worker_method_path(DP_WORKER_GET_STATUS)};
  dp_status *status = dp_rpc_server_create(&network, route, server, &server->listener);
  dp_free(address);
  if (status != NULL && options->bind == NULL && options->cluster != NULL &&
      !dp_cluster_host_is_loopback(own->host))
    status = dp_status_append(status, " (--bind chooses another address to listen on)");
  return status;
}

static void warn_of_open_files(const own_address *own) {
  if (!dp_cluster_host_is_loopback(own->bind) && !dp_storage_has_roots())
    DP_LOG(SERVER, WARN,
           "whoever reaches %.*s can read and write every file that this user can; --file-roots "
           "names folders to stay in",
           (int)own->bind.length, own->bind.data);
}

/* The cluster as it was given, or one of this task alone, now that its port is known. */
static dp_status *settle_cluster(dp_server *server, const dp_server_options *options,
                                 const own_address *own) {
  char *address = join_address(own->host, dp_rpc_server_port(server->listener));
  dp_text target = {0};
  dp_text_printf(&target, "grpc://%s", address);
  server->target = dp_text_take(&target);
  dp_status *status = NULL;
  if (options->cluster != NULL)
    server->cluster = dp_cluster_spec_retain(options->cluster);
  else
    status = dp_cluster_spec_single("local", address, &server->cluster);
  dp_free(address);
  dp_text name = {0};
  dp_text_printf(&name, TASK_NAME, options->cluster != NULL ? options->job : "local",
                 options->cluster != NULL ? options->task : 0);
  server->name = dp_text_take(&name);
  return status;
}

static dp_status *make_task(dp_server *server, const dp_server_options *options) {
  server->liveness =
      dp_liveness_create(options->gone_nanos > 0 ? options->gone_nanos : default_gone_nanos);
  server->link_client = dp_link_client_create(server->liveness);
  server->links = dp_links_create(server->link_client, server->cluster);
  dp_differentiate_register();
  dp_task_options task = {
      .name = server->name,
      .cluster = &dp_links_ops,
      .cluster_arg = server->links,
      .cpu_devices = options->cpu_devices > 0 ? options->cpu_devices : 1,
      .compute_threads = options->compute_threads,
      .session_idle_nanos = options->session_idle_nanos,
      .session_lost_nanos = options->session_lost_nanos,
  };
  return dp_task_create(&task, &server->task);
}

static dp_status *start_keeping(dp_server *server, const dp_server_options *options) {
  server->trim = dp_memory_trim_start(dp_task_blocking(server->task));
  dp_liveness_options liveness = {
      .task = server->name,
      .tables = &dp_links_ops,
      .links = server->links,
      .worker = dp_task_worker(server->task),
      .master = dp_task_master(server->task),
      .leave = options->exit_when_done ? options->stop : NULL,
      .leave_arg = options->stop_arg,
  };
  return dp_liveness_start(server->liveness, &liveness);
}

static dp_status *assemble(dp_server *server, const dp_server_options *options) {
  own_address own;
  DP_RETURN_IF_ERROR(find_own_address(options, &own));
  DP_RETURN_IF_ERROR(listen_on(server, options, &own));
  DP_RETURN_IF_ERROR(settle_cluster(server, options, &own));
  dp_log_set_task(server->name);
  list_addresses(server, &own);
  warn_of_open_files(&own);
  DP_RETURN_IF_ERROR(make_task(server, options));
  return start_keeping(server, options);
}

dp_status *dp_server_create(const dp_server_options *options, dp_server **server_out) {
  dp_server *server = DP_NEW(dp_server);
  server->created = dp_clock_nanos();
  server->stop = options->stop;
  server->stop_arg = options->stop_arg;
  dp_status *status = assemble(server, options);
  if (status != NULL) {
    dp_server_destroy(server);
    return status;
  }
  *server_out = server;
  return NULL;
}

dp_status *dp_server_start(dp_server *server) {
  DP_RETURN_IF_ERROR(dp_rpc_server_start(server->listener));
  server->door =
      dp_door_open(server->task, (const char *const *)server->addresses, server->address_count);
  return NULL;
}

const char *dp_server_target(const dp_server *server) {
  return server->target;
}

int dp_server_port(const dp_server *server) {
  return dp_rpc_server_port(server->listener);
}

uint64_t dp_server_incarnation(const dp_server *server) {
  return dp_worker_device(dp_task_worker(server->task), 0)->incarnation;
}

/* ---- Ending -----------------------------------------------------------------------------------*/

void dp_server_shutdown(dp_server *server, int64_t deadline_nanos) {
  dp_rpc_server_shutdown(server->listener, deadline_nanos);
  if (server->door)
    dp_door_close(server->door, deadline_nanos);
}

/* After the last call. The peers that worker and master hold live in the links. */
static void end_parts(dp_server *server) {
  if (server->trim)
    dp_memory_trim_stop(server->trim);
  dp_liveness_stop(server->liveness);
  dp_task_destroy(server->task);
  if (server->links)
    dp_links_destroy(server->links);
  if (server->link_client)
    dp_link_client_destroy(server->link_client);
  dp_liveness_destroy(server->liveness);
}

void dp_server_destroy(dp_server *server) {
  if (server == NULL)
    return;
  if (server->listener != NULL)
    dp_server_shutdown(server, 0);
  end_parts(server);
  dp_rpc_server_destroy(server->listener);
  dp_cluster_spec_release(server->cluster);
  dp_door_release(server->door);
  for (size_t i = 0; i < server->address_count; i++)
    dp_free(server->addresses[i]);
  dp_free(server->addresses);
  dp_free(server->target);
  dp_free(server->name);
  dp_free(server);
}

/* ---- Looking at it ----------------------------------------------------------------------------*/

static void print_calls(dp_server *server, dp_text *text) {
  dp_text calls = {0};
  dp_rpc_server_print_calls(server->listener, PRINTED_CALLS, &calls);
  if (calls.length > 0)
    dp_text_add(text, "\ncalls under way\n");
  for (char *line = calls.data, *end; line && *line; line = *end ? end + 1 : end) {
    end = strchr(line, '\n');
    if (!end)
      end = line + strlen(line);
    dp_text_printf(text, "  %.*s\n", (int)(end - line), line);
  }
  dp_text_deinit(&calls);
}

void dp_server_describe(dp_server *server, dp_text *text) {
  dp_rpc_server_statistics calls;
  dp_rpc_server_get_statistics(server->listener, &calls);
  dp_worker_counts counts;
  dp_worker_get_counts(dp_task_worker(server->task), &counts);
  dp_text_printf(text, "%s at %s, up %.1f s\n", server->name, server->target,
                 (double)(dp_clock_nanos() - server->created) / 1e9);
  dp_text_printf(
      text, "live: %zu sessions of clients, %zu of masters, %zu graphs, %zu steps, %llu calls\n",
      dp_master_session_count(dp_task_master(server->task)), counts.sessions, counts.graphs,
      counts.steps, (unsigned long long)calls.live_calls);
  dp_text_printf(text, "ever: %llu calls, %llu failed; %llu bytes in, %llu bytes out\n",
                 (unsigned long long)calls.calls, (unsigned long long)calls.failures,
                 (unsigned long long)calls.request_bytes, (unsigned long long)calls.response_bytes);
  dp_links_describe(server->links, server->name, text);
  dp_master_describe(dp_task_master(server->task), text);
  print_calls(server, text);
  dp_worker_describe(dp_task_worker(server->task), text);
}
