/* The master: sessions of clients, and their steps over the workers of a cluster.
 *
 * A session holds the client's graph, the workers it uses, and a plan for every signature (feeds,
 * fetches, targets) it has seen: the first step of a signature prunes, places, optimizes,
 * partitions and registers; later ones go straight to RunGraph. The calls are those of
 * MasterService: control calls as protobuf-c messages, RunStep and RunCallable with tensors of
 * their own. All functions may be called from any thread; callbacks come exactly once, with no lock
 * held, possibly before the call returns. */
#ifndef DP_MASTER_MASTER_H
#define DP_MASTER_MASTER_H

#include "wire/methods.h"
#include "wire/run_messages.h"
#include "worker/worker.h"

typedef struct dp_master dp_master;

typedef struct dp_master_options {
  dp_worker *worker; /* of the same task; outlives the master */
  const dp_cluster_ops *cluster;
  void *cluster_arg;
  dp_pool *blocking;          /* where plans are made; outlives the master */
  int64_t session_idle_nanos; /* sessions unused for that long are closed; 0: never */
  int64_t session_lost_nanos; /* the same for sessions whose client went away during a call */
} dp_master_options;

dp_master *dp_master_create(const dp_master_options *options);
/* Closes all sessions and waits until the last step and plan have let go of theirs. */
void dp_master_destroy(dp_master *master);

/* `response` is of the method's type and lives during the callback only; NULL with an error. */
typedef void (*dp_master_call_done_fn)(void *arg, dp_status *status, const void *response);
/* The callee may take tensors out of the response. */
typedef void (*dp_master_step_done_fn)(void *arg, dp_status *status,
                                       dp_run_step_response *response);
typedef void (*dp_master_callable_done_fn)(void *arg, dp_status *status,
                                           dp_run_callable_response *response);

/* Types of a control method's messages; NULL for RunStep and RunCallable. */
const ProtobufCMessageDescriptor *dp_master_request_type(dp_master_method method);
const ProtobufCMessageDescriptor *dp_master_response_type(dp_master_method method);
/* Requests are borrowed for the call only. */
void dp_master_call(dp_master *master, dp_master_method method, const void *request,
                    dp_cancel *cancel, dp_master_call_done_fn done, void *arg);
void dp_master_run_step(dp_master *master, const dp_run_step_request *request, dp_cancel *cancel,
                        dp_master_step_done_fn done, void *arg);
void dp_master_run_callable(dp_master *master, const dp_run_callable_request *request,
                            dp_cancel *cancel, dp_master_callable_done_fn done, void *arg);

/* ---- Tasks that are lost ---- */
/* The task behind `peer` is gone, or, with an `incarnation`, has restarted as that one. The running
 * steps of all sessions that use it end with ABORTED and `why`, also those that do not touch it:
 * what they wait for may never come. */
void dp_master_task_lost(dp_master *master, dp_worker_peer *peer, uint64_t incarnation,
                         const dp_status *why);
/* A task that was gone answers again, and has not restarted. */
void dp_master_task_back(dp_master *master, dp_worker_peer *peer);
/* Ends steps of sessions with a lost task that have been waiting for `patience_nanos` since. */
void dp_master_end_late_steps(dp_master *master, int64_t patience_nanos);

/* Sessions of clients that are open. */
size_t dp_master_session_count(dp_master *master);
/* Lines for status pages: sessions, their steps, whom they wait for. */
void dp_master_describe(dp_master *master, dp_text *text);

#endif
