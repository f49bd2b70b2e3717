/* The planner: from a client's graph, and what a step wants of it, to pieces that workers can run.
 * The declarations below are in the order in which the steps run:
 *
 *   in the master, once for each version of the client's graph
 *     prepare    lowers control flow and function calls, then places every node
 *   in the master, once for each signature (feeds, fetches, targets)
 *     prune      keeps what the fetches and targets need; feeds become _Recv, fetches _Send
 *     place      gives the nodes a device that prepare could not place
 *     optimize   folds, merges, removes; the result has TensorFlow's own ops alone
 *     partition  cuts the graph by task and joins the pieces with _Send and _Recv
 *   in the worker, once for each piece that is registered
 *     partition  cuts the piece by device
 *     fuse       joins nodes into ops that only our kernels have; or, when a debugger watches,
 *                add_debug_nodes instead
 *   in the worker, when a function is called first
 *     rewrite_body  lowers, optimizes and fuses the function's body
 *
 * Each function changes the graph that it is given and no other. Nothing is kept between calls.
 * One thread works on a graph at a time; several graphs may be planned at once. */
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
  bool is_foreign; /* on a task of genuine TensorFlow: we do not know which kernels it has */
} dp_planner_device;
typedef struct dp_planner_devices {
  const dp_planner_device *items;
  size_t count;
  size_t client; /* index of the device that feeds come from and fetches go to; also the default */
} dp_planner_devices;

typedef struct dp_planner_place_options {
  bool allow_soft_placement;
  bool log_placement;
  /* Where stateful nodes went in earlier plans of the session: node name -> device name. Read and
   * extended. The planner allocates the strings; the map's owner frees them. NULL: none. */
  dp_map *remembered;
} dp_planner_place_options;

/* ---- Prepare ---- */
/* A copy of a client's whole graph, lowered and placed. TensorFlow places before it prunes: a node
 * goes where its group goes, even when a step needs no other node of that group. Pruning first
 * would put state elsewhere than TensorFlow does. A node that cannot be placed is left without a
 * device; dp_planner_place reports the error when a plan needs that node. */
DP_MUST_USE dp_status *dp_planner_prepare(const dp_graph *graph, const dp_planner_devices *devices,
                                          const dp_planner_place_options *options,
                                          dp_graph **prepared_out);

/* The first half of prepare. Turns If, Case and While nodes that ask for it
 * (_lower_using_switch_merge) into Switch, Merge and frames, and inlines function calls where that
 * keeps the meaning. */
DP_MUST_USE dp_status *dp_planner_lower(dp_graph *graph);

/* ---- Prune ---- */
/* Whoever reads the output `to` reads the output `from` instead: a feed from within the graph. */
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
 * client_terminated set. Their tensor_name is the name as the client wrote it, and both ends are on
 * the client's device. With `as_function` they are _Arg and _Retval instead, numbered in order.
 * Errors are TensorFlow's: a name that is not in the graph, an output that is fed twice, one that
 * is both fed and fetched. */
DP_MUST_USE dp_status *dp_planner_prune(const dp_graph *graph,
                                        const dp_planner_signature *signature,
                                        const dp_planner_devices *devices, bool as_function,
                                        dp_graph **pruned_out);

/* ---- Place ---- */
/* Sets assigned_device of every node: its own wish, else its group's, else the default. The names
 * live in the graph's arena. Devices that dp_planner_prepare chose stay. If it left one of the
 * nodes without a device, all are placed again, so that the error is about what the client asked
 * for. */
DP_MUST_USE dp_status *dp_planner_place(dp_graph *graph, const dp_planner_devices *devices,
                                        const dp_planner_place_options *options);

/* ---- Optimize ---- */
/* Works on a placed graph, in the master. The result has only TensorFlow's own ops, so that workers
 * of Downpour and of TensorFlow can run it; values stay within TensorFlow's own tolerance.
 * `options` says which passes the client allows; NULL, and fields that are NULL, mean TensorFlow's
 * defaults. */
DP_MUST_USE dp_status *dp_planner_optimize(dp_graph *graph,
                                           const Tensorflow__GraphOptions *options);

/* TensorFlow's key of a graph with collective ops in it or in the functions that it calls, made of
 * their instance keys; 0 without such ops. Masters of several tasks that run the same collectives
 * agree on step ids by it. Asked after optimizing. */
int64_t dp_planner_collective_key(const dp_graph *graph);

/* ---- Partition ---- */
typedef struct dp_partition {
  const char *location; /* a device, or a task: "/job:ps/replica:0/task:1"; in `graph`'s arena */
  dp_graph *graph;      /* owned by the caller */
} dp_partition;
typedef struct dp_partitions {
  dp_partition *items;
  size_t count;
} dp_partitions;
typedef enum dp_partition_by { DP_PARTITION_BY_TASK, DP_PARTITION_BY_DEVICE } dp_partition_by;
/* Incarnation of a device by its full name; 0 when unknown. */
typedef uint64_t (*dp_planner_incarnation_fn)(void *arg, const char *device);

/* Cuts a placed graph. A loop whose body spans locations gets the control loops that TensorFlow
 * adds. Edge names, keys and attributes are as TensorFlow makes them, so that workers of
 * Downpour and of TensorFlow can run a piece. `graph` stays the caller's. */
DP_MUST_USE dp_status *dp_planner_partition(const dp_graph *graph, dp_partition_by by,
                                            dp_planner_incarnation_fn incarnation, void *arg,
                                            dp_partitions *partitions_out);
/* Destroys the graphs that the caller has not taken (set to NULL), too. */
void dp_partitions_deinit(dp_partitions *partitions);

/* ---- Fuse, or watch ---- */
/* Joins nodes of one device's graph into ops that have a kernel here, for the worker that will run
 * the graph, whoever planned it. Whatever the options are, max-poolings tell their gradients where
 * the maxima are. */
DP_MUST_USE dp_status *dp_planner_fuse(dp_graph *graph, const Tensorflow__GraphOptions *options);
/* Adds what a debugger watches to the graph of one device. The graph must not be fused: a node that
 * is watched must still be there. A debug node that cannot be made is left out where the watch
 * tolerates that. FAILED_PRECONDITION, in TensorFlow's words, for watches that make no sense;
 * watching a node that the graph lacks is not an error. */
DP_MUST_USE dp_status *dp_planner_add_debug_nodes(dp_graph *graph,
                                                  const Tensorflow__DebugOptions *options,
                                                  const char *device, const char *device_type);

/* ---- Bodies of functions ---- */
/* Lowers, optimizes and fuses the body of a function that is called. A dp_function_rewrite_fn
 * (runtime/function.h); `arg` is a Tensorflow__GraphOptions or NULL. May be called from within a
 * kernel. */
DP_MUST_USE dp_status *dp_planner_rewrite_body(void *arg, dp_graph *graph);

#endif
