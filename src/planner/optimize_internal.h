/* Optimizing: what the passes share.
 *
 * A pass is a row in optimize.c: a name, the switch that turns it off, a function. It works on a
 * pruned and placed graph: ends (nodes that nobody reads) must stay, everything else may go as long
 * as values, effects and the order that control edges ask for stay as they were. New nodes get the
 * device of those they replace. A pass leaves the graph with its readers redirected. */
#ifndef DP_PLANNER_OPTIMIZE_INTERNAL_H
#define DP_PLANNER_OPTIMIZE_INTERNAL_H

#include "planner/rewrite_internal.h"

typedef struct dp_optimizer {
  dp_graph *graph;
  dp_rewrite rewrite;
  dp_arena *arena;  /* the rewrite's */
  bool *is_end;     /* by id; new nodes are never ends */
  int32_t id_count; /* of is_end */
  int32_t changes;  /* made by the running pass */
} dp_optimizer;

typedef dp_status *(*dp_optimize_fn)(dp_optimizer *o);
DP_MUST_USE dp_status *dp_optimize_fold(dp_optimizer *o);         /* optimize_fold.c */
DP_MUST_USE dp_status *dp_optimize_branches(dp_optimizer *o);     /* optimize_branches.c */
DP_MUST_USE dp_status *dp_optimize_arithmetic(dp_optimizer *o);   /* optimize_arithmetic.c */
DP_MUST_USE dp_status *dp_optimize_duplicates(dp_optimizer *o);   /* optimize_duplicates.c */
DP_MUST_USE dp_status *dp_optimize_dependencies(dp_optimizer *o); /* optimize_dependencies.c */
DP_MUST_USE dp_status *dp_optimize_replicate(dp_optimizer *o);    /* optimize_replicate.c */
DP_MUST_USE dp_status *dp_optimize_group(dp_optimizer *o);        /* optimize_group.c */
DP_MUST_USE dp_status *dp_optimize_fuse(dp_optimizer *o);         /* optimize_fuse.c */
DP_MUST_USE dp_status *dp_optimize_elementwise(dp_optimizer *o);  /* optimize_elementwise.c */

/* Always run by dp_planner_fuse (pair_pools.c). */
void dp_planner_pair_pools(dp_graph *graph);

/* ---- What nodes are ---- */
static inline bool optimizer_is_end(const dp_optimizer *o, const dp_node *node) {
  return node->id < o->id_count && o->is_end[node->id];
}
static inline bool node_is_const(const dp_node *node) {
  return dp_node_is(node, "Const");
}
/* Depends on its inputs only, and does nothing else: may be run early, once, or not at all. */
bool node_is_pure(const dp_node *node);
/* The constant that an input is, or NULL. */
const dp_tensor *input_constant(const dp_graph *graph, dp_input input);
/* The nodes are on one device; both placed or neither. */
bool node_same_device(const dp_node *a, const dp_node *b);

/* ---- Values (evaluate.c) ---- */
/* Runs one node's kernel on the calling thread. UNIMPLEMENTED when it has no synchronous kernel.
 * `outputs` has output_count unset entries. */
DP_MUST_USE dp_status *dp_planner_evaluate(const dp_graph *graph, const dp_node *node,
                                           const dp_tensor *inputs, dp_tensor *outputs);

/* ---- Building ---- */
/* Makes the node's own inputs and controls what earlier changes have made of them. */
void optimizer_refresh(dp_optimizer *o, dp_node *node);
/* A node on the device of `near`, which it stands for. */
DP_MUST_USE dp_status *optimizer_add(dp_optimizer *o, const dp_node *near, const char *op,
                                     const char *name, const dp_input *inputs, int32_t input_count,
                                     const dp_attr *attrs, int32_t attr_count, dp_node **node_out);

#endif
