/* Inside the client: what client.c (threads, channels, their state), client_call.c (the life of a
 * call) and pulse.c (who is alive) share. */
#ifndef DP_RPC_CLIENT_INTERNAL_H
#define DP_RPC_CLIENT_INTERNAL_H

#include <grpc/grpc.h>
#include <pthread.h>
#include <stdatomic.h>
#include "base/refcount.h"
#include "rpc/client.h"
#include "rpc/engine_internal.h"

typedef struct client_call client_call;

struct dp_rpc_client {
  dp_rpc_engine engine;
  grpc_completion_queue *pulse_queue; /* of questions; NULL until a channel has a pulse */
  pthread_t pulse_thread;
  bool has_pulse_thread;
  pthread_mutex_t mutex;
  pthread_cond_t changed;
  int64_t pulse_period;     /* 0: no pulse yet. With the channels, guarded by the mutex */
  dp_rpc_channel *channels; /* all that exist, a doubly linked list */
};

struct dp_rpc_channel {
  dp_rpc_client *client;
  dp_refcount users;   /* owners and calls; at zero questions end */
  dp_refcount holders; /* questions, and one for all users; at zero the link is closed */
  grpc_channel *grpc;
  char *target;
  dp_rpc_event state_changed; /* always waited for; its last call destroys the channel */
  dp_rpc_channel *next, *previous;
  atomic_uint_fast64_t call_count, live_count;
  dp_rpc_pulse pulse;       /* path is NULL without one */
  dp_cancel *questions;     /* scope of all questions; NULL without a pulse */
  atomic_int_fast64_t seen; /* the last sign of life; 0: never */
  atomic_int_fast64_t watches;

  pthread_mutex_t mutex; /* protects what follows */
  grpc_connectivity_state state;
  int64_t since;
  bool closed;
  dp_status *last_error;
  int64_t last_error_time;
  client_call *live;      /* calls under way but questions, a doubly linked list */
  int64_t asked_since;    /* when it was last begun to be asked; 0: nobody asks */
  bool takes_connections; /* its system took a connection, on which it has said nothing */
  int64_t gone_since;     /* 0: it is not gone */
  dp_status *gone;        /* with what calls fail */
};

/* Remembers an error of the link for status pages; borrows it. */
void dp_rpc_channel_note_error(dp_rpc_channel *channel, const dp_status *status);

/* A reference of the second kind. */
void dp_rpc_channel_drop(dp_rpc_channel *channel);

/* A question: a call that is on no list, and whose `done` runs on the thread of the pulse. */
void dp_rpc_channel_ask(dp_rpc_channel *channel, int64_t deadline_nanos, dp_rpc_done_fn done,
                        void *arg);
/* Ends every call under way with `why` (borrowed). No lock may be held. */
void dp_rpc_channel_fail_calls(dp_rpc_channel *channel, const dp_status *why);

/* ---- pulse.c ---- */
/* Starts the thread with the first channel that has a pulse. */
void dp_rpc_pulse_start(dp_rpc_client *client, int64_t gone_nanos);
/* After the last channel. */
void dp_rpc_pulse_stop(dp_rpc_client *client);
/* With the channel's mutex held: how long it has been silent although it was asked. */
int64_t dp_rpc_pulse_silence(const dp_rpc_channel *channel, int64_t now);

#endif
