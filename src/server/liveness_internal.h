/* Which other tasks are alive, and what follows when one is not.
 *
 * Asking is done by the pulse of each link (rpc/pulse.c), which also ends the calls to a task that
 * is gone. The liveness of a server hears of it and does the rest, on a thread of its own that
 * never waits for the network or for a pool:
 *
 *   a task is gone, or has restarted   steps of this task's sessions that use it end
 * (master/lost.c) a master of sessions here is gone  its steps here end; its sessions too when it
 * is surely dead the job is over                    a server with --exit-when-done leaves
 *
 * The server owns it. Any thread may call. */
#ifndef DP_SERVER_LIVENESS_INTERNAL_H
#define DP_SERVER_LIVENESS_INTERNAL_H

#include "base/text.h"
#include "master/master.h"
#include "worker/worker.h"

typedef struct dp_liveness dp_liveness;
typedef struct dp_remote_worker dp_remote_worker;

/* The beginning: links may be made. Who is silent for `gone_nanos` is gone. */
dp_liveness *dp_liveness_create(int64_t gone_nanos);
/* After all links have ended. */
void dp_liveness_destroy(dp_liveness *liveness);
int64_t dp_liveness_gone_nanos(const dp_liveness *liveness);

typedef struct dp_liveness_options {
  const char *task;             /* this one */
  const dp_cluster_ops *tables; /* dp_links_ops */
  void *links;                  /* of this task's own cluster */
  dp_worker *worker;
  dp_master *master;
  void (*leave)(void *arg); /* called once, when every session has closed and no task of another job
                               was alive for gone_nanos; NULL: stay for ever */
  void *leave_arg;
} dp_liveness_options;
/* From now on what is heard has consequences. All of the options outlives the stop. */
DP_MUST_USE dp_status *dp_liveness_start(dp_liveness *liveness, const dp_liveness_options *options);
/* Does nothing when it was never started. */
void dp_liveness_stop(dp_liveness *liveness);

/* ---- For the links ---- */
void dp_liveness_add(dp_liveness *liveness, dp_remote_worker *worker);
void dp_liveness_remove(dp_liveness *liveness, dp_remote_worker *worker);

typedef enum dp_peer_change { DP_PEER_GONE, DP_PEER_BACK, DP_PEER_RESTARTED } dp_peer_change;
/* Quick: it is handed to the liveness's thread. Consumes `what`, which says it in words;
 * `incarnation` is the new one of a task that has restarted. */
void dp_liveness_tell(dp_liveness *liveness, dp_peer_change change, dp_remote_worker *worker,
                      uint64_t incarnation, dp_status *what);
/* Adds "; TASK and 2 others answer": the other tasks of that worker's cluster that are fine. */
void dp_liveness_name_others(dp_liveness *liveness, const dp_remote_worker *worker, dp_text *text);

#endif
