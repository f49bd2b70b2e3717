/* Who is in the job: named jobs, each with tasks at "host:port". The text forms are those that
 * TensorFlow's users write (the argument of tf.train.ClusterSpec as JSON, TF_CONFIG), the message
 * is ClusterDef. Task numbers may have gaps.
 *
 * A specification is made once, checked as a whole, and never changes: share it by retain and
 * release, read it from any thread. Errors are INVALID_ARGUMENT and say which job and task is wrong
 * and why. */
#ifndef DP_CLUSTER_CLUSTER_SPEC_H
#define DP_CLUSTER_CLUSTER_SPEC_H

#include <stddef.h>
#include <stdint.h>
#include "base/arena.h"
#include "base/refcount.h"
#include "base/status.h"
#include "base/text.h"
#include "wire/cluster.pb-c.h"

typedef struct dp_cluster_task {
  int32_t index;
  char *address; /* "host:port", "[::1]:port" */
} dp_cluster_task;

typedef struct dp_cluster_job {
  char *name;
  dp_cluster_task *tasks; /* at least one, in order of index */
  size_t task_count;
} dp_cluster_job;

typedef struct dp_cluster_spec {
  dp_refcount references;
  dp_cluster_job *jobs; /* at least one, in order of name */
  size_t job_count;
} dp_cluster_spec;

/* {"ps": ["h1:2222"], "worker": {"0": "h2:2222", "3": "h3:2222"}} */
DP_MUST_USE dp_status *dp_cluster_spec_parse(dp_view json, dp_cluster_spec **spec_out);
/* The same text, or "@FILE" with it in a file. */
DP_MUST_USE dp_status *dp_cluster_spec_load(const char *text, dp_cluster_spec **spec_out);
/* One job with one task 0. */
DP_MUST_USE dp_status *dp_cluster_spec_single(const char *job, const char *address,
                                              dp_cluster_spec **spec_out);
DP_MUST_USE dp_status *dp_cluster_spec_from_message(const Tensorflow__ClusterDef *message,
                                                    dp_cluster_spec **spec_out);

/* Parses TF_CONFIG: {"cluster": {...}, "task": {"type": "worker", "index": 0}}. The caller frees
 * the job's name. A TF_CONFIG without "cluster" is an error. */
DP_MUST_USE dp_status *dp_cluster_parse_tf_config(const char *text, dp_cluster_spec **spec_out,
                                                  char **job_out, int32_t *index_out);

dp_cluster_spec *dp_cluster_spec_retain(const dp_cluster_spec *spec);
void dp_cluster_spec_release(dp_cluster_spec *spec);

/* The address of a task; NULL when there is no such task. */
const char *dp_cluster_spec_find(const dp_cluster_spec *spec, const char *job, int32_t index);
/* The same, with an error that lists what there is. */
DP_MUST_USE dp_status *dp_cluster_spec_lookup(const dp_cluster_spec *spec, const char *job,
                                              int32_t index, const char **address_out);
size_t dp_cluster_spec_task_count(const dp_cluster_spec *spec);

/* Splits "host:port" or "[::1]:port"; the host comes without brackets. False when the text has
 * neither form, when the host is empty, or when the port is not a number from 0 to 65535. */
bool dp_cluster_split_address(const char *address, dp_view *host_out, int *port_out);
/* Whether the host is this machine's loopback: localhost, 127.x.x.x, ::1. */
bool dp_cluster_host_is_loopback(dp_view host);

#endif
