/* Optimizing: what the passes share.
 *
 * A pass is a row in optimize.c: a name, the switch that turns it off, a function. It works on a
 * pruned and placed graph. Ends (nodes that nobody reads) must stay. Everything else may go as long
 * as values, effects and the order of control edges stay as they were. A new node gets the device
 * of the node that it replaces. After a pass, dp_rewrite_apply redirects the readers. One thread
 * per graph. */
#ifndef DP_PLANNER_OPTIMIZE_INTERNAL_H
#define DP_PLANNER_OPTIMIZE_INTERNAL_H

#include "planner/rewrite_internal.h"

typedef struct dp_graph_optimizer {
  dp_graph *graph;
  dp_rewrite rewrite;
  dp_arena *arena;  /* the rewrite's */
  bool *is_end;     /* by id; new nodes are never ends */
  int32_t id_count; /* of is_end */
  int32_t changes;  /* made by the running pass */
} dp_graph_optimizer;

typedef dp_status *(*dp_optimize_fn)(dp_graph_optimizer *o);
DP_MUST_USE dp_status *dp_optimize_fold(dp_graph_optimizer *o);       /* optimize_fold.c */
DP_MUST_USE dp_status *dp_optimize_branches(dp_graph_optimizer *o);   /* optimize_branches.c */
DP_MUST_USE dp_status *dp_optimize_arithmetic(dp_graph_optimizer *o); /* optimize_arithmetic.c */
DP_MUST_USE dp_status *dp_optimize_duplicates(dp_graph_optimizer *o); /* optimize_duplicates.c */
DP_MUST_USE dp_status *
dp_optimize_dependencies(dp_graph_optimizer *o);                       /* optimize_dependencies.c */
DP_MUST_USE dp_status *dp_optimize_replicate(dp_graph_optimizer *o);   /* optimize_replicate.c */
DP_MUST_USE dp_status *dp_optimize_group(dp_graph_optimizer *o);       /* optimize_group.c */
DP_MUST_USE dp_status *dp_optimize_fuse(dp_graph_optimizer *o);        /* optimize_fuse.c */
DP_MUST_USE dp_status *dp_optimize_elementwise(dp_graph_optimizer *o); /* optimize_elementwise.c */

/* Not a pass: dp_planner_fuse calls it whatever the options are (pair_pools.c). */
void dp_planner_pair_pools(dp_graph *graph);

/* ---- What nodes are ---- */
static inline bool optimizer_is_end(const dp_graph_optimizer *o, const dp_node *node) {
  return node->id < o->id_count && o->is_end[node->id];
}
static inline bool node_is_const(const dp_node *node) {
  return dp_node_is(node, "Const");
}
/* Its results depend on its inputs alone and it has no effects: it may run early, once, or never.
 */
bool node_is_pure(const dp_node *node);
/* The value of an input that is a Const; else NULL. */
const dp_tensor *input_constant(const dp_graph *graph, dp_input input);
/* The nodes are on one device; both placed or neither. */
bool node_same_device(const dp_node *a, const dp_node *b);

/* ---- Values (evaluate.c) ---- */
/* Runs one node's kernel on the calling thread. UNIMPLEMENTED when it has no synchronous kernel.
 * `outputs` has output_count unset entries. */
DP_MUST_USE dp_status *dp_planner_evaluate(const dp_graph *graph, const dp_node *node,
                                           const dp_tensor *inputs, dp_tensor *outputs);

/* ---- Building ---- */
/* Redirects the node's own inputs and controls past the nodes that this pass has taken out. */
void optimizer_refresh(dp_graph_optimizer *o, dp_node *node);
/* Adds a node that replaces `near`, on its device. */
DP_MUST_USE dp_status *optimizer_add(dp_graph_optimizer *o, const dp_node *near, const char *op,
                                     const char *name, const dp_input *inputs, int32_t input_count,
                                     const dp_attr *attrs, int32_t attr_count, dp_node **node_out);

#endif
