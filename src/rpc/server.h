/* The server side of unary gRPC calls: bytes in, bytes out, nothing known about what they mean.
 *
 * One handler gets every call. A request is a rope over the memory it arrived in, a reply is a rope
 * whose pieces are sent from where they lie. Network threads call the handler and must not be held
 * up: whoever has long work hands it to a pool and answers from there. Each call that a handler
 * accepts is answered exactly once, from any thread; its cancel scope tells when the answer is no
 * longer wanted (the client cancelled, went away, or its deadline passed), but the call must be
 * answered even then. */
#ifndef DP_RPC_SERVER_H
#define DP_RPC_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/cancel.h"
#include "base/status.h"
#include "base/text.h"
#include "tensor/rope.h"

typedef struct dp_rpc_server dp_rpc_server;
typedef struct dp_rpc_call dp_rpc_call;

/* False refuses the call: the server answers UNIMPLEMENTED with the path, and the handler must not
 * touch the call again. True accepts it. */
typedef bool (*dp_rpc_handler_fn)(void *arg, dp_rpc_call *call);

typedef struct dp_rpc_server_options {
  const char *const *addresses; /* "host:port" each; port 0 picks a free one for the first address
                                   and the same one for every later address with port 0 */
  size_t address_count;
  int network_threads;     /* that wait for events; 0: chosen by the machine (rpc/network.h) */
  const char *urgent_path; /* calls of this path have a thread of their own, so that they are
                              answered however busy the network threads are; NULL: none. Static */
} dp_rpc_server_options;

/* Binds every address; clients may connect from now on but nothing is answered before the start.
 * UNAVAILABLE says which address failed and why. */
DP_MUST_USE dp_status *dp_rpc_server_create(const dp_rpc_server_options *options,
                                            dp_rpc_handler_fn handler, void *arg,
                                            dp_rpc_server **server_out);
/* The port of the first address. */
int dp_rpc_server_port(const dp_rpc_server *server);
DP_MUST_USE dp_status *dp_rpc_server_start(dp_rpc_server *server);
/* Stops listening at once, lets the calls in flight end until the deadline (base/clock.h), then
 * cancels what is left and waits until each has been answered; every ten seconds of that wait the
 * log names the calls. Not callable from a handler. Callable again; the later calls only wait. */
void dp_rpc_server_shutdown(dp_rpc_server *server, int64_t deadline_nanos);
/* Shuts down without grace if nobody did, and ends the threads. */
void dp_rpc_server_destroy(dp_rpc_server *server);

typedef struct dp_rpc_server_statistics {
  uint64_t calls;          /* that have arrived */
  uint64_t failures;       /* answered with an error */
  uint64_t request_bytes;  /* bodies received */
  uint64_t response_bytes; /* bodies handed to the network */
  uint64_t live_calls;     /* arrived and not yet over */
} dp_rpc_server_statistics;
void dp_rpc_server_get_statistics(dp_rpc_server *server, dp_rpc_server_statistics *statistics_out);
/* One line for each live call ("RunStep from 10.0.0.7:4242, 12.3 s"), at most `limit`. */
void dp_rpc_server_print_calls(dp_rpc_server *server, size_t limit, dp_text *text);

/* ---- A call. All of this is valid until the call is answered. ---------------------------------*/

/* "/tensorflow.MasterService/RunStep". */
const char *dp_rpc_call_path(const dp_rpc_call *call);
/* The body, unpacked if it came compressed. The handler may empty it (dp_rope_append_rope). */
dp_rope *dp_rpc_call_request(dp_rpc_call *call);
/* "10.0.0.7:4242", "[::1]:4242"; from one thread at a time. */
const char *dp_rpc_call_peer(dp_rpc_call *call);
/* Monotonic; DP_FOREVER when the client set none. */
int64_t dp_rpc_call_deadline(const dp_rpc_call *call);
/* Borrowed; retain it to keep it longer than the call. */
dp_cancel *dp_rpc_call_cancel(const dp_rpc_call *call);

/* Sends `body` (emptied) with status OK. The call is gone afterwards. */
void dp_rpc_call_reply(dp_rpc_call *call, dp_rope *body);
/* Sends an error; consumes `status` (not OK). A message that gRPC's headers could not carry is cut,
 * and ends in "..." then. */
void dp_rpc_call_fail(dp_rpc_call *call, dp_status *status);

#endif
