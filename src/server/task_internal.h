/* One task's inside: pools, devices, worker, master and the links to the other tasks, put together.
 * The server owns one and hands it every call that arrives. */
#ifndef DP_SERVER_TASK_INTERNAL_H
#define DP_SERVER_TASK_INTERNAL_H

#include "cluster/cluster_spec.h"
#include "master/master.h"
#include "rpc/client.h"
#include "rpc/server.h"
#include "worker/worker.h"

typedef struct dp_task dp_task;

typedef struct dp_task_options {
  const char *task;               /* this one's name */
  const dp_cluster_spec *cluster; /* with this task in it */
  int cpu_devices;                /* at least 1 */
  int compute_threads;            /* 0: one a core */
  int64_t session_idle_nanos;     /* 0: sessions stay until they are closed */
  int64_t gone_nanos;             /* a task that was silent for that long is gone */
  void (*leave)(void *arg);       /* when the job is done (keeper_internal.h); NULL: never */
  void *leave_arg;
  int64_t session_lost_nanos; /* the same when their client went away during a call */
} dp_task_options;

/* Everything is copied from the options. */
DP_MUST_USE dp_status *dp_task_create(const dp_task_options *options, dp_task **task_out);
/* After the network has been shut down: no call may be under way. */
void dp_task_destroy(dp_task *task);
/* Answers a call of either service; false when it is of neither. */
bool dp_task_handle(dp_task *task, dp_rpc_call *call);
/* Lines for status pages: the other tasks and the links to them. */
void dp_task_describe_peers(dp_task *task, dp_text *text);
dp_worker *dp_task_worker(dp_task *task);
dp_master *dp_task_master(dp_task *task);

#endif
