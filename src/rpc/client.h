/* The client side of unary gRPC calls.
 *
 * A client is a set of network threads that all channels share; a channel is a link to one address,
 * made when first used, kept, and made again after a failure (the name is resolved again each time,
 * with pauses of 0.1 to 2 seconds, so that a restarted task is found quickly). Calls are
 * asynchronous: `done` is called exactly once, with no lock held, from a network thread or, when
 * the call ends before it began, from inside dp_rpc_channel_call. It must be quick. Everything may
 * be used from any thread. */
#ifndef DP_RPC_CLIENT_H
#define DP_RPC_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/cancel.h"
#include "base/status.h"
#include "tensor/rope.h"

typedef struct dp_rpc_client dp_rpc_client;
typedef struct dp_rpc_channel dp_rpc_channel;

/* `network_threads` is how many wait for events; 0: chosen by the machine (rpc/network.h). */
DP_MUST_USE dp_status *dp_rpc_client_create(int network_threads, dp_rpc_client **client_out);
/* Waits until every channel has been released and every call is done; while that takes long, the
 * log names the channels. Not callable from a `done`. */
void dp_rpc_client_destroy(dp_rpc_client *client);

/* How a channel notices that the other side is gone. While somebody needs the other side (a call is
 * under way, or dp_rpc_channel_watch says so) it is asked a question, over the same connection as
 * the calls, on a thread that does nothing else (pulse.c). Who gives no sign of life for
 * `gone_nanos` is gone: all calls under way fail, and so does every later one, until it answers.
 * The functions are called on that thread, with no lock held, and must be quick. */
typedef struct dp_rpc_pulse {
  const char *path; /* of the question, whose body is empty; any answer will do. Static */
  int64_t gone_nanos;
  void (*answered)(void *arg, const dp_rope *response); /* may be NULL */
  /* Makes the status that calls fail with. */
  dp_status *(*gone)(void *arg, int64_t silent_nanos);
  void (*back)(void *arg, int64_t silent_nanos); /* it answered after all; may be NULL */
  /* The channel's last owner has let go: none of the above is called from now on. May be NULL. */
  void (*released)(void *arg);
  void *arg;
} dp_rpc_pulse;

/* `target` is "host:port". Does not connect yet and never fails: a bad target shows in its calls.
 * `pulse` is copied; NULL: calls wait for the other side as long as the connection lives. */
dp_rpc_channel *dp_rpc_channel_create(dp_rpc_client *client, const char *target,
                                      const dp_rpc_pulse *pulse);
dp_rpc_channel *dp_rpc_channel_retain(dp_rpc_channel *channel);
/* Calls that are under way keep the channel until they are done. */
void dp_rpc_channel_release(dp_rpc_channel *channel);
const char *dp_rpc_channel_target(const dp_rpc_channel *channel);

typedef enum dp_rpc_flags {
  DP_RPC_FAIL_FAST = 0,      /* UNAVAILABLE as soon as an attempt to connect fails */
  DP_RPC_WAIT_FOR_READY = 1, /* keeps trying to connect until the deadline or a cancellation */
} dp_rpc_flags;

/* `status` is the callee's to release. `response` is empty after a failure; it is released after
 * `done` returns, so `done` moves out what it wants to keep (dp_rope_append_rope). */
typedef void (*dp_rpc_done_fn)(void *arg, dp_status *status, dp_rope *response);

/* Calls `path` with the bytes of `request` (emptied). `cancel` may be NULL; when it is triggered
 * the call ends with the scope's status. Errors of the link itself (UNAVAILABLE, DEADLINE_EXCEEDED)
 * name the target. */
void dp_rpc_channel_call(dp_rpc_channel *channel, const char *path, dp_rope *request,
                         int64_t deadline_nanos, dp_cancel *cancel, dp_rpc_flags flags,
                         dp_rpc_done_fn done, void *arg);
/* The same, and waits for its end. Not for network threads. *response_out must be an empty rope. */
DP_MUST_USE dp_status *dp_rpc_channel_call_and_wait(dp_rpc_channel *channel, const char *path,
                                                    dp_rope *request, int64_t deadline_nanos,
                                                    dp_cancel *cancel, dp_rpc_flags flags,
                                                    dp_rope *response_out);

/* From the first to the last watch the other side is asked whether it is alive, also without a call
 * under way. */
void dp_rpc_channel_watch(dp_rpc_channel *channel);
void dp_rpc_channel_unwatch(dp_rpc_channel *channel);

typedef enum dp_rpc_link {
  DP_RPC_IDLE, /* never used, or idle for long */
  DP_RPC_CONNECTING,
  DP_RPC_CONNECTED,
  DP_RPC_BROKEN, /* the last attempt failed; another one follows */
} dp_rpc_link;

typedef struct dp_rpc_channel_state {
  dp_rpc_link link;
  int64_t since_nanos;   /* when that began, monotonic */
  uint64_t calls;        /* started ever */
  uint64_t live_calls;   /* under way */
  dp_status *last_error; /* the last UNAVAILABLE or DEADLINE_EXCEEDED of a call, or NULL; yours */
  int64_t last_error_nanos; /* when, monotonic; 0 without */
  int64_t seen_nanos;       /* the last sign of life, monotonic; 0: none */
  int64_t silent_nanos;     /* since when the other side has been asked in vain, as a duration; 0:
                               it answers, or nobody asks */
  dp_status *gone;          /* what calls fail with while it is gone; else NULL; yours */
  int64_t gone_nanos;       /* for how long it has been gone */
} dp_rpc_channel_state;

void dp_rpc_channel_get_state(dp_rpc_channel *channel, dp_rpc_channel_state *state_out);
/* Whether an attempt to connect ended because the other side took the connection and said nothing,
 * as a stopped process does. */
bool dp_rpc_is_silence(const dp_status *status);
/* "idle", "connecting", "connected", "broken". */
const char *dp_rpc_link_name(dp_rpc_link link);
/* Asks for a connection now, without a call and without waiting for a pause to pass. */
void dp_rpc_channel_connect(dp_rpc_channel *channel);

#endif
