/* What TensorFlow's debugger (tfdbg) reads: for each debug URL of the form file://ROOT
 *
 *   ROOT/_tfdbg_core_metadata_sessionrun<index>_<time>         one for each run
 *   ROOT/<device>/_tfdbg_graph_hash<hash>_<time>               the graph of a device, when
 * registered ROOT/<device>/<node>_<slot>_<op>_<time>                    one for each watched value
 *
 * where <device> is _tfdbg_device_,job_worker,replica_0,... and each file holds one Event. Times
 * are in microseconds; a path that is taken gets "-1", "-2" and so on at its end. The files are for
 * one look: they are written without a temporary name and nobody waits for the disk.
 * Messages are TensorFlow's. Any thread. */
#ifndef DP_STORAGE_DEBUG_DUMP_H
#define DP_STORAGE_DEBUG_DUMP_H

#include "base/arena.h"
#include "base/status.h"
#include "tensor/tensor.h"
#include "wire/debug.pb-c.h"
#include "wire/graph.pb-c.h"

typedef struct dp_debug_urls {
  const char *const *items;
  size_t count;
} dp_debug_urls;

/* All URLs of a run's watches, each once; in `arena`. Strings are borrowed. */
dp_debug_urls dp_debug_urls_of(const Tensorflow__DebugOptions *options, dp_arena *arena);
/* UNIMPLEMENTED, naming it, when one of them is a grpc:// URL. */
DP_MUST_USE dp_status *dp_debug_check_urls(dp_debug_urls urls);

/* Which value it is. */
typedef struct dp_debug_key {
  const char *device;
  const char *node;
  int32_t slot;
  const char *op; /* that watches it */
  const char
      *io_of_node; /* "": none. Else files are ROOT/node-io-dump/step-<id>/<node>:in:<index> */
  bool is_input;
  int64_t io_index;
} dp_debug_key;
DP_MUST_USE dp_status *dp_debug_dump_tensor(const dp_debug_key *key, const dp_tensor *tensor,
                                            int64_t step_id, dp_debug_urls urls);
DP_MUST_USE dp_status *dp_debug_dump_graph(const char *device, const Tensorflow__GraphDef *graph,
                                           dp_debug_urls urls);

typedef struct dp_debug_run {
  int64_t global_step; /* as the client counts; -1: it does not */
  int64_t index;       /* how often the same was run before */
  const char *const *feeds;
  size_t feed_count;
  const char *const *fetches;
  size_t fetch_count;
  const char *const *targets;
  size_t target_count;
} dp_debug_run;
DP_MUST_USE dp_status *dp_debug_dump_run(const dp_debug_run *run, dp_debug_urls urls);

/* Watched values may take 100 GiB, or TFDBG_DISK_BYTES_LIMIT bytes, until this is called. */
void dp_debug_reset_disk_usage(void);

#endif
