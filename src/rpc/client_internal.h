/* Inside the client: what client.c (threads, channels, their state) and client_call.c (the life of
 * a call) share. */
#ifndef DP_RPC_CLIENT_INTERNAL_H
#define DP_RPC_CLIENT_INTERNAL_H

#include <grpc/grpc.h>
#include <pthread.h>
#include <stdatomic.h>
#include "base/refcount.h"
#include "rpc/client.h"
#include "rpc/engine_internal.h"

struct dp_rpc_client {
  dp_rpc_engine engine;
  pthread_mutex_t mutex;
  pthread_cond_t changed;
  dp_rpc_channel *channels; /* all that exist, a doubly linked list */
};

struct dp_rpc_channel {
  dp_rpc_client *client;
  dp_refcount users; /* owners and calls; at zero the link is closed */
  grpc_channel *grpc;
  char *target;
  dp_rpc_event state_changed; /* always waited for; its last call destroys the channel */
  dp_rpc_channel *next, *previous;
  atomic_uint_fast64_t call_count, live_count;

  pthread_mutex_t mutex; /* protects what follows */
  grpc_connectivity_state state;
  int64_t since;
  bool closed;
  dp_status *last_error;
  int64_t last_error_time;
};

/* Remembers an error of the link for status pages; borrows it. */
void dp_rpc_channel_note_error(dp_rpc_channel *channel, const dp_status *status);

#endif
