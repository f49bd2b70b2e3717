/* How the readers of the cluster room make a specification: create, add jobs and their tasks,
 * finish. Until it is finished a specification has one owner and may change. */
#ifndef DP_CLUSTER_CLUSTER_INTERNAL_H
#define DP_CLUSTER_CLUSTER_INTERNAL_H

#include "cluster/cluster_spec.h"

dp_cluster_spec *dp_cluster_builder_create(void);
/* *position_out is where the job is in spec->jobs until the next job is added. */
DP_MUST_USE dp_status *dp_cluster_builder_add_job(dp_cluster_spec *spec, const char *name,
                                                  size_t *position_out);
DP_MUST_USE dp_status *dp_cluster_builder_add_task(dp_cluster_job *job, int64_t index,
                                                   const char *address);
/* Checks the whole; with a status that is not OK already, or one that the check finds, releases
 * the specification and returns it. */
DP_MUST_USE dp_status *dp_cluster_builder_finish(dp_cluster_spec *spec, dp_status *status,
                                                 dp_cluster_spec **spec_out);

#endif
