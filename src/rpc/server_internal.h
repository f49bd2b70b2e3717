/* Inside the server: what server.c (addresses, start, shutdown) and server_call.c (the life of a
 * call) share. */
#ifndef DP_RPC_SERVER_INTERNAL_H
#define DP_RPC_SERVER_INTERNAL_H

#include <grpc/grpc.h>
#include <pthread.h>
#include <stdatomic.h>
#include "rpc/engine_internal.h"
#include "rpc/server.h"

struct dp_rpc_server {
  dp_rpc_engine engine;
  dp_rpc_engine urgent; /* of the urgent path, when there is one */
  const char *urgent_path;
  void *urgent_method; /* as gRPC knows it; NULL: there is none */
  grpc_server *grpc;
  dp_rpc_handler_fn handler;
  void *handler_arg;
  int port;
  bool started;
  atomic_bool stopping; /* no new calls are asked for */

  pthread_mutex_t mutex; /* protects what follows */
  pthread_cond_t changed;
  dp_rpc_call *calls; /* live ones, a doubly linked list */
  size_t live_count;  /* calls that have not been destroyed */
  dp_rpc_event shutdown_event;
  bool shutdown_begun;
  bool shutdown_done;

  atomic_uint_fast64_t call_count, failure_count, request_bytes, response_bytes;
};

struct dp_rpc_call {
  dp_rpc_server *server;
  grpc_call *grpc;
  bool is_urgent;
  gpr_timespec urgent_deadline; /* what the details are to other calls */
  grpc_call_details details;
  grpc_metadata_array metadata;
  dp_rpc_event requested; /* gRPC filled this object with an arrived call */
  dp_rpc_event received;  /* its body is here */
  dp_rpc_event closed;    /* nobody wants an answer any longer, or it has been delivered */
  dp_rpc_event sent;      /* the answer went out or was dropped */
  grpc_byte_buffer *body; /* of the request, then of the reply */
  int cancelled;          /* set by gRPC with `closed` */
  atomic_int references;  /* one for `closed`, one for the answer */
  atomic_bool answered;
  dp_rope request;
  dp_cancel *cancel;
  char *path;
  char *peer; /* made when asked for */
  int64_t deadline, arrival;
  dp_rpc_call *next, *previous; /* in the server's list */
};

/* Gives gRPC an object to fill with the next call (of the urgent path), unless the server is
 * stopping. */
void dp_rpc_call_request_next(dp_rpc_server *server, bool is_urgent);
/* "RunStep": what stands behind the last slash. */
const char *dp_rpc_short_name(const char *path);
/* "10.0.0.7:4242" or "[::1]:4242"; the caller frees it. */
char *dp_rpc_peer_of(grpc_call *call);

#endif
