/* The two services of a task on the network, and a worker on the other side of it.
 *
 * Each service takes calls as bytes, finds the method by its path, reads the request, asks the
 * master or the worker, and writes the answer. Calls that plan or compile (sessions, graphs) go to
 * the blocking pool first; steps start on the network thread that read them, because every
 * hand-over costs more than most steps. */
#ifndef DP_SERVER_SERVICES_INTERNAL_H
#define DP_SERVER_SERVICES_INTERNAL_H

#include "master/master.h"
#include "rpc/client.h"
#include "rpc/server.h"
#include "worker/worker.h"

/* A call under way. */
typedef struct dp_service_call {
  void *room; /* the dp_master or dp_worker that is asked */
  dp_rpc_call *rpc;
  int method;
  bool errors_in_body; /* the caller wants errors inside a response */
} dp_service_call;

/* NULL when no method has the call's path. */
dp_service_call *dp_service_call_create(void *room, dp_rpc_call *rpc, int method_count,
                                        const char *(*path_of)(int method));
/* Answers and destroys the call; consumes `status` and the body. */
void dp_service_call_answer(dp_service_call *call, dp_status *status, dp_rope *body);
/* As above, with a control message; `arg` is the call. */
void dp_service_control_done(void *arg, dp_status *status, const void *response);

/* False when the path belongs to another service. */
bool dp_master_service_handle(dp_master *master, dp_pool *blocking, dp_rpc_call *call);
bool dp_worker_service_handle(dp_worker *worker, dp_pool *blocking, dp_rpc_call *call);

/* A worker at `address`. Release by its ops. A task of a cluster that a client described may have
 * been started under another name. Calls without a scope of their own end with `life`. Workers with
 * the same `table` are tasks of one cluster. */
typedef struct dp_remote_worker_options {
  dp_rpc_client *rpc;
  const char *address, *task;
  bool answers_to_any_name;
  dp_cancel *life;
  struct dp_liveness *liveness; /* outlives the worker */
  const void *table;
} dp_remote_worker_options;
dp_worker_peer *dp_remote_worker_create(const dp_remote_worker_options *options);

typedef struct dp_remote_state {
  const char *address; /* lives as long as the peer */
  dp_rpc_link link;
  int64_t since_nanos; /* when that began */
  uint64_t live_calls;
  uint64_t incarnation; /* that it last told; 0: never asked */
  int64_t seen_nanos;   /* when it last gave a sign of life; 0: never */
  int64_t silent_nanos; /* for how long it has been asked in vain */
  bool is_gone;
  int64_t gone_nanos; /* for how long that is known */
  char *reason;       /* why it cannot be reached, or ""; the caller's to free */
} dp_remote_state;
void dp_remote_worker_get_state(dp_worker_peer *peer, dp_remote_state *state_out);
/* "ps0:2222: Connection refused". */
void dp_remote_worker_describe(dp_worker_peer *peer, dp_text *text);

#endif
