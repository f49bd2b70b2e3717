/* How the readers of this room (JSON, ClusterDef) make a specification: create it, add jobs and
 * their tasks, finish it. Until it is finished a specification has one owner, one thread, and may
 * change.
 */
#ifndef DP_CLUSTER_CLUSTER_INTERNAL_H
#define DP_CLUSTER_CLUSTER_INTERNAL_H

#include "cluster/cluster_spec.h"

dp_cluster_spec *dp_cluster_builder_create(void);
/* The job's index in spec->jobs comes out; valid until dp_cluster_builder_finish sorts them. */
DP_MUST_USE dp_status *dp_cluster_builder_add_job(dp_cluster_spec *spec, const char *name,
                                                  size_t *position_out);
DP_MUST_USE dp_status *dp_cluster_builder_add_task(dp_cluster_job *job, int64_t index,
                                                   const char *address);
/* Ends building. `status` is the first error so far, or NULL. If there is none, the specification
 * is checked as a whole and given out. After an error it is released, and the error is returned. */
DP_MUST_USE dp_status *dp_cluster_builder_finish(dp_cluster_spec *spec, dp_status *status,
                                                 dp_cluster_spec **spec_out);

#endif
