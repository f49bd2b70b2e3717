/* One task of a cluster: pools, devices, a worker and a master, put together in one place.
 *
 * The server puts a network in front of one and gives it the table of its peers; a session without
 * target uses one alone. A task knows no address and no network: who is where comes from above, in
 * the dp_cluster_ops. It has one owner. Its worker and master may be called from any thread. */
#ifndef DP_TASK_TASK_H
#define DP_TASK_TASK_H

#include "master/master.h"
#include "worker/worker.h"

typedef struct dp_task dp_task;

typedef struct dp_task_options {
  const char *name;              /* "/job:worker/replica:0/task:0" */
  int cpu_devices;               /* at least 1 */
  int compute_threads;           /* 0: one per core */
  bool shares_threads;           /* with all tasks of the process that say so; one per core then */
  const dp_cluster_ops *cluster; /* with this task in it. NULL: it is alone */
  void *cluster_arg;             /* outlives the task */
  int64_t session_idle_nanos;    /* sessions unused for that long are closed; 0: never */
  int64_t session_lost_nanos;    /* the same when their client went away during a call */
} dp_task_options;

/* Everything but the cluster is copied from the options. */
DP_MUST_USE dp_status *dp_task_create(const dp_task_options *options, dp_task **task_out);
/* No call may be under way: the network has been shut down and doors (door.h) are closed. */
void dp_task_destroy(dp_task *task);

const char *dp_task_name(const dp_task *task);
dp_worker *dp_task_worker(dp_task *task);
dp_master *dp_task_master(dp_task *task);
/* Where calls that plan or wait for files run. */
dp_pool *dp_task_blocking(dp_task *task);

#endif
