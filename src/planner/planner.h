/* The planner: from a client's graph and what he wants of it to partitions that workers can run.
 *
 *   prune      keeps what the fetches and targets need; feeds become _Recv, fetches _Send
 *   place      gives every node a device: its own wish, its group's, the default
 *   optimize   folds, merges, fuses; results stay within TensorFlow's own tolerance
 *   partition  cuts the graph by task or by device and joins the pieces with _Send and _Recv
 *
 * The master runs all four once for each signature (partition by task); the worker runs the last
 * again to cut by device. Each step changes the graph it is given and no other; no state is kept
 * between calls. One thread a graph. */
#ifndef DP_PLANNER_PLANNER_H
#define DP_PLANNER_PLANNER_H

#include "base/map.h"
#include "graph/graph.h"
#include "wire/config.pb-c.h"

/* ---- Devices to plan for ---- */
typedef struct dp_planner_device {
  const char *name; /* full */
  const char *type;
  uint64_t incarnation;
  /* Runs another make of TensorFlow: which kernels it has is not ours to judge. */
  bool is_foreign;
} dp_planner_device;
typedef struct dp_planner_devices {
  const dp_planner_device *items;
  size_t count;
  size_t client; /* index of the device that feeds come from and fetches go to; also the default */
} dp_planner_devices;

/* ---- Prune ---- */
/* An output that stands for another wherever that one is read: a feed from within the graph. */
typedef struct dp_planner_connection {
  const char *from;
  const char *to;
} dp_planner_connection;
typedef struct dp_planner_signature {
  const char *const *feeds; /* "x:0" or "x" */
  size_t feed_count;
  const char *const *fetches;
  size_t fetch_count;
  const char *const *targets; /* nodes */
  size_t target_count;
  const dp_planner_connection *connections;
  size_t connection_count;
} dp_planner_signature;

/* A new graph with what is needed. Each feed is a _Recv and each fetch a _Send with
 * client_terminated set, tensor_name the name as the client wrote it, and the client's device at
 * both ends. With `as_function` they are _Arg and _Retval instead, numbered in order. Errors are
 * TensorFlow's: unknown names, something both fed and fetched twice, targets that do not exist. */
DP_MUST_USE dp_status *dp_planner_prune(const dp_graph *graph,
                                        const dp_planner_signature *signature,
                                        const dp_planner_devices *devices, bool as_function,
                                        dp_graph **pruned_out);

/* ---- Place ---- */
typedef struct dp_planner_place_options {
  bool allow_soft_placement;
  bool log_placement;
  /* Where stateful nodes went in earlier plans of the session: node name -> device name. Read and
   * extended. The strings are malloc'd by the planner, freed by the map's owner. NULL: none. */
  dp_map *remembered;
} dp_planner_place_options;
/* Sets assigned_device of every node (names live in the graph's arena). */
DP_MUST_USE dp_status *dp_planner_place(dp_graph *graph, const dp_planner_devices *devices,
                                        const dp_planner_place_options *options);

/* ---- Prepare ---- */
/* A copy of a client's whole graph, lowered and placed: made once for each version of the graph,
 * and pruned for each signature. TensorFlow places before it prunes, so that a node goes with its
 * group even when a step needs nothing else of that group; whoever prunes first may see state end
 * up elsewhere. Nodes that cannot be placed are left without a device: dp_planner_place says why
 * when a plan needs them, and leaves alone what has one. */
DP_MUST_USE dp_status *dp_planner_prepare(const dp_graph *graph, const dp_planner_devices *devices,
                                          const dp_planner_place_options *options,
                                          dp_graph **prepared_out);

/* ---- Lower ---- */
/* Turns If, While, Case and calls that ask for it (_lower_using_switch_merge) into Switch, Merge
 * and frames, and inlines function calls where that keeps the meaning. */
DP_MUST_USE dp_status *dp_planner_lower(dp_graph *graph);

/* ---- Optimize ---- */
/* What the client's configuration allows; NULL fields mean TensorFlow's defaults. Of a placed
 * graph, in the master: the result has none but TensorFlow's own ops, so any make of worker can run
 * it. */
DP_MUST_USE dp_status *dp_planner_optimize(dp_graph *graph,
                                           const Tensorflow__GraphOptions *options);
/* Joins nodes into ops that have a kernel here: for the worker that will run the graph, whoever
 * planned it. Whatever the options are, max-poolings tell their gradients where the maxima are. */
DP_MUST_USE dp_status *dp_planner_fuse(dp_graph *graph, const Tensorflow__GraphOptions *options);
/* Adds what a debugger watches to the graph of one device, instead of fusing: what is watched must
 * be there. Nothing is left of the nodes that a watch may do without and that cannot be made.
 * FAILED_PRECONDITION for watches that make no sense, in TensorFlow's words; a node that is not
 * there is none of them. */
DP_MUST_USE dp_status *dp_planner_add_debug_nodes(dp_graph *graph,
                                                  const Tensorflow__DebugOptions *options,
                                                  const char *device, const char *device_type);
/* All of it for the body of a function that is called: lower, optimize, fuse. `arg` is a
 * Tensorflow__GraphOptions or NULL; a dp_function_rewrite_fn. May be called from within a kernel.
 */
DP_MUST_USE dp_status *dp_planner_rewrite_body(void *arg, dp_graph *graph);

/* ---- Partition ---- */
typedef struct dp_partition {
  const char
      *location;   /* the device's name, or "/job:ps/replica:0/task:1"; in this graph's arena */
  dp_graph *graph; /* owned by the caller */
} dp_partition;
typedef struct dp_partitions {
  dp_partition *items;
  size_t count;
} dp_partitions;
typedef enum dp_partition_by { DP_PARTITION_BY_TASK, DP_PARTITION_BY_DEVICE } dp_partition_by;
/* Incarnation of a device by its full name; 0 when unknown. */
typedef uint64_t (*dp_planner_incarnation_fn)(void *arg, const char *device);

/* TensorFlow's key of a graph with collective ops in it or in the functions that it calls, made of
 * their instance keys; 0 without such ops. Masters of several tasks that run the same collectives
 * agree on step ids by it. */
int64_t dp_planner_collective_key(const dp_graph *graph);

/* Cuts a placed graph. Loops whose bodies span locations get the control loops that TensorFlow
 * adds; edge names, keys and attributes are as TensorFlow makes them, so that either make of worker
 * can run a piece. Frees nothing of `graph`. */
DP_MUST_USE dp_status *dp_planner_partition(const dp_graph *graph, dp_partition_by by,
                                            dp_planner_incarnation_fn incarnation, void *arg,
                                            dp_partitions *partitions_out);
void dp_partitions_deinit(dp_partitions *partitions); /* graphs that were not taken, too */

#endif
