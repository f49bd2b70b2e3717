/* The files that TensorFlow's debugger (tfdbg) reads. For each debug URL file://ROOT:
 *
 *   ROOT/_tfdbg_core_metadata_sessionrun<index>_<time>   one per run
 *   ROOT/<device>/_tfdbg_graph_hash<hash>_<time>         a device's graph, when it is registered
 *   ROOT/<device>/<node>_<slot>_<op>_<time>              one per watched value
 *
 * <device> is _tfdbg_device_,job_worker,replica_0,... and each file holds one Event. Times are in
 * microseconds; "-1", "-2" and so on is appended to a path that exists. The files are not meant to
 * last: they are written without a temporary name and are not synced. Error messages are
 * TensorFlow's. Any thread may call. */
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

/* All URLs in the watches of a run, each once. The list is in `arena`; the strings are borrowed
 * from `options`. */
dp_debug_urls dp_debug_urls_of(const Tensorflow__DebugOptions *options, dp_arena *arena);
/* UNIMPLEMENTED, with the URL in the message, when one of them is a grpc:// URL. */
DP_MUST_USE dp_status *dp_debug_check_urls(dp_debug_urls urls);

/* Names a watched value. */
typedef struct dp_debug_key {
  const char *device;
  const char *node;
  int32_t slot;
  const char *op; /* the debug op that watches it */
  /* "" or the name of a node, whose inputs and outputs are watched. Then the files are
   * ROOT/node-io-dump/step-<id>/<node>:in:<index>. */
  const char *io_of_node;
  bool is_input;
  int64_t io_index;
} dp_debug_key;
DP_MUST_USE dp_status *dp_debug_dump_tensor(const dp_debug_key *key, const dp_tensor *tensor,
                                            int64_t step_id, dp_debug_urls urls);
DP_MUST_USE dp_status *dp_debug_dump_graph(const char *device, const Tensorflow__GraphDef *graph,
                                           dp_debug_urls urls);

typedef struct dp_debug_run {
  int64_t global_step; /* as the client counts; -1 when it does not count */
  int64_t index;       /* how often these feeds, fetches and targets were run before */
  const char *const *feeds;
  size_t feed_count;
  const char *const *fetches;
  size_t fetch_count;
  const char *const *targets;
  size_t target_count;
} dp_debug_run;
DP_MUST_USE dp_status *dp_debug_dump_run(const dp_debug_run *run, dp_debug_urls urls);

/* All watched values together may take 100 GiB, or TFDBG_DISK_BYTES_LIMIT bytes. This sets the
 * count to 0. */
void dp_debug_reset_disk_usage(void);

#endif
