/* One task of a cluster: its worker, its master, the network in front of them and the links to the
 * other tasks.
 *
 * dp_server_run is the whole life of a task's process; the other functions are for programs that
 * hold a task inside (tests, the C library). A server has one owner. */
#ifndef DP_SERVER_SERVER_H
#define DP_SERVER_SERVER_H

#include <stdbool.h>
#include <stdint.h>
#include "base/status.h"
#include "base/text.h"
#include "cluster/cluster_spec.h"

typedef struct dp_server dp_server;

/* What session_lost_nanos is where nobody says otherwise. */
#define DP_SERVER_SESSION_LOST_NANOS INT64_C(60000000000)

typedef struct dp_server_options {
  const dp_cluster_spec *cluster; /* NULL: alone, as task 0 of the job "local" */
  const char *job;                /* of this task; not used when alone */
  int32_t task;
  const char *bind;    /* host to listen on. NULL: the task's own in the cluster, or 127.0.0.1 when
                          that is this machine's loopback or the task is alone */
  int port;            /* to listen on; 0 picks one. -1: the task's own in the cluster */
  int network_threads; /* that wait for events; 0: chosen by the machine (rpc/network.h) */
  int compute_threads; /* 0: one per core */
  int cpu_devices;     /* 0: 1 */
  int64_t session_idle_nanos; /* sessions unused for that long are closed; 0: never */
  int64_t session_lost_nanos; /* the same for sessions whose client went away during a call */
  bool exit_when_done;        /* calls `stop` when every session has closed and no task of another
                                 job was alive for the time below; not before the first session */
  int64_t gone_nanos;         /* a task that was silent for that long is gone: what waits for it
                                 fails. 0: 10 s */
  void (*stop)(void *arg);    /* what `downpour stop` calls; NULL: it is refused */
  void *stop_arg;
} dp_server_options;

/* Calls of our own that every server answers; empty requests. Describe answers with plain text. */
#define DP_CONTROL_DESCRIBE "/downpour.TaskService/Describe"
#define DP_CONTROL_STOP "/downpour.TaskService/Stop"

/* Everything but answering: the port is bound, clients may connect and wait. */
DP_MUST_USE dp_status *dp_server_create(const dp_server_options *options, dp_server **server_out);
DP_MUST_USE dp_status *dp_server_start(dp_server *server);
/* "grpc://host:port", as clients reach it. */
const char *dp_server_target(const dp_server *server);
int dp_server_port(const dp_server *server);
/* Of this process's task: no other process has the same. Never 0. */
uint64_t dp_server_incarnation(const dp_server *server);
/* Stops listening; calls in flight may end until the deadline, then they are cancelled. */
void dp_server_shutdown(dp_server *server, int64_t deadline_nanos);
/* Shuts down without grace if nobody did. */
void dp_server_destroy(dp_server *server);
/* Lines for people: who this is, its calls, what its master and worker are waiting for. */
void dp_server_describe(dp_server *server, dp_text *text);

/* Creates and starts a server, says so on standard output ("Started server with target: ..."), and
 * ends it on SIGTERM or SIGINT, with up to `grace_nanos` for calls in flight; a second signal ends
 * the process at once. SIGUSR1 writes the description to standard error. Blocks these signals in
 * the calling thread; to be called before other threads exist. */
DP_MUST_USE dp_status *dp_server_run(const dp_server_options *options, int64_t grace_nanos);

#endif
