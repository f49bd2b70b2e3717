/* TF_Server: a task of a cluster inside the caller's process, over dp_server.
 *
 * A server is new, started, or stopped; stopping is for good, and joins wait for it. Any thread may
 * call; the lock guards the state, and starting and shutting down happen outside of it. */
#include <pthread.h>

#include "base/clock.h"
#include "base/memory.h"
#include "server/server.h"
#include "tensorflow/c/c_api.h"
#include "wire/control.h"
#include "wire/server.pb-c.h"

enum { STOP_GRACE_MS = 2000 };

typedef enum server_state { SERVER_NEW, SERVER_STARTED, SERVER_STOPPED } server_state;

struct TF_Server {
  dp_server *server;
  pthread_mutex_t lock;
  pthread_cond_t stopped;
  server_state state;
};

static void set_status(TF_Status *status, dp_status *from) {
  TF_SetStatus(status, (TF_Code)dp_status_code(from), dp_status_message(from));
  dp_status_release(from);
}

/* ---- Making one ---- */

static int cpu_devices(const Tensorflow__ConfigProto *config) {
  for (size_t i = 0; config && i < config->n_device_count; i++)
    if (dp_view_equals(dp_view_of(config->device_count[i]->key), "CPU"))
      return config->device_count[i]->value;
  return 0;
}

static dp_status *create(const Tensorflow__ServerDef *message, dp_server **server_out) {
  if (!dp_view_equals(dp_view_of(message->protocol), "grpc"))
    return dp_status_create(
        DP_NOT_FOUND,
        "No server factory registered for the given ServerDef: protocol \"%s\". "
        "The available server factories are: [ GRPC_SERVER ]",
        message->protocol);
  if (!message->cluster)
    return DP_INVALID("The ServerDef has no cluster");
  dp_cluster_spec *cluster;
  DP_RETURN_IF_ERROR(dp_cluster_spec_from_message(message->cluster, &cluster));
  const Tensorflow__ConfigProto *config = message->default_session_config;
  dp_server_options options = {
      .cluster = cluster,
      .job = message->job_name,
      .task = message->task_index,
      .port = message->port > 0 ? message->port : -1,
      .cpu_devices = cpu_devices(config),
      .session_lost_nanos = DP_SERVER_SESSION_LOST_NANOS,
      .compute_threads = config ? config->intra_op_parallelism_threads : 0,
  };
  const char *address;
  dp_status *status =
      dp_cluster_spec_lookup(cluster, message->job_name, message->task_index, &address);
  if (!status)
    status = dp_server_create(&options, server_out);
  dp_cluster_spec_release(cluster);
  return status;
}

TF_Server *TF_NewServer(const void *proto, size_t proto_len, TF_Status *status) {
  dp_arena *arena = dp_arena_create();
  Tensorflow__ServerDef *message;
  dp_server *server = NULL;
  dp_status *result =
      dp_wire_unpack_bytes(&tensorflow__server_def__descriptor, proto, proto_len, arena, &message);
  if (result) {
    dp_status_release(result);
    result = DP_INVALID("Could not parse provided bytes into a ServerDef protocol buffer");
  } else {
    result = create(message, &server);
  }
  dp_arena_destroy(arena);
  set_status(status, result);
  if (!server)
    return NULL;
  TF_Server *made = DP_NEW(TF_Server);
  made->server = server;
  pthread_mutex_init(&made->lock, NULL);
  pthread_cond_init(&made->stopped, NULL);
  return made;
}

/* ---- Its life ---- */

/* Makes the step from one state to the next; false when the server was elsewhere. */
static bool advance(TF_Server *server, server_state from, server_state to) {
  pthread_mutex_lock(&server->lock);
  bool is_there = server->state == from;
  if (is_there)
    server->state = to;
  pthread_mutex_unlock(&server->lock);
  return is_there;
}

void TF_ServerStart(TF_Server *server, TF_Status *status) {
  pthread_mutex_lock(&server->lock);
  server_state state = server->state;
  pthread_mutex_unlock(&server->lock);
  if (state == SERVER_STARTED) { /* as TensorFlow: starting twice does nothing */
    TF_SetStatus(status, TF_OK, "");
  } else if (!advance(server, SERVER_NEW, SERVER_STARTED)) {
    TF_SetStatus(status, TF_FAILED_PRECONDITION, "Server has stopped.");
  } else {
    set_status(status, dp_server_start(server->server));
  }
}

static void stop(TF_Server *server) {
  if (advance(server, SERVER_STARTED, SERVER_STOPPED))
    dp_server_shutdown(server->server, dp_clock_deadline_ms(STOP_GRACE_MS));
  else if (!advance(server, SERVER_NEW, SERVER_STOPPED))
    return;
  pthread_mutex_lock(&server->lock);
  pthread_cond_broadcast(&server->stopped);
  pthread_mutex_unlock(&server->lock);
}

void TF_ServerStop(TF_Server *server, TF_Status *status) {
  stop(server);
  TF_SetStatus(status, TF_OK, "");
}

void TF_ServerJoin(TF_Server *server, TF_Status *status) {
  pthread_mutex_lock(&server->lock);
  while (server->state == SERVER_STARTED)
    pthread_cond_wait(&server->stopped, &server->lock);
  pthread_mutex_unlock(&server->lock);
  TF_SetStatus(status, TF_OK, "");
}

const char *TF_ServerTarget(TF_Server *server) {
  return dp_server_target(server->server);
}

void TF_DeleteServer(TF_Server *server) {
  if (!server)
    return;
  stop(server);
  dp_server_destroy(server->server);
  pthread_mutex_destroy(&server->lock);
  pthread_cond_destroy(&server->stopped);
  dp_free(server);
}
