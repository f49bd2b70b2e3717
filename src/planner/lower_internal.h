/* What the files of lowering share: the graph that changes, and for each node the chain of
 * functions that it was inlined from.
 *
 *   lower.c        walks the graph, decides what is lowered, builds nodes
 *   lower_cond.c   If and Case      lower_while.c   While      lower_call.c   function calls
 *
 * A lowerer lives for one call of dp_planner_lower, on one thread. */
#ifndef DP_PLANNER_LOWER_INTERNAL_H
#define DP_PLANNER_LOWER_INTERNAL_H

#include "planner/rewrite_internal.h"

/* The functions that a node was inlined from, innermost first. A function that is in the chain
 * already is not inlined again: it stays a call. */
typedef struct call_chain {
  const char *function;
  const struct call_chain *outer;
} call_chain;

/* By id of a node. */
typedef struct lower_row {
  bool must_inline; /* a call that lowering made: each node of the body has its own device */
  const call_chain *chain;
} lower_row;

typedef struct lowerer {
  dp_graph *graph;
  dp_rewrite rewrite;
  dp_arena *arena; /* the rewrite's */
  DP_ARRAY(lower_row) rows;
  bool keep_names; /* leave an IdentityN or NoOp under the name of what is gone */
} lowerer;

/* The row of a node; makes it when the node is new. */
lower_row *lower_row_of(lowerer *l, int32_t id);
/* "<name>/<part>", free in the graph. */
const char *lower_name(lowerer *l, const char *name, const char *part);
/* Adds a node near `origin`: with its chain of calls, and its device unless one is given. Inputs
 * are redirected first. */
typedef struct lower_node {
  const char *op;          /* a built-in op; not used when there is a function */
  const dp_func *function; /* a call of this one; NULL: `op` */
  const char *name;
  const char *device; /* NULL: that of the origin */
  const dp_input *inputs;
  int32_t input_count;
  const dp_attr *attrs;
  int32_t attr_count;
} lower_node;
DP_MUST_USE dp_status *lower_add(lowerer *l, const dp_node *origin, const lower_node *wanted,
                                 dp_node **node_out);
/* Takes the node out. `outputs` has one entry per data output and lives in l->arena. */
DP_MUST_USE dp_status *lower_replace(lowerer *l, dp_node *node, const dp_input *outputs,
                                     int32_t control);

/* Each lowers one node. */
DP_MUST_USE dp_status *lower_branches(lowerer *l, dp_node *node, const dp_func *const *branches,
                                      int32_t branch_count, bool by_predicate);
DP_MUST_USE dp_status *lower_while(lowerer *l, dp_node *node);
/* Leaves the call as it is when the function must not or cannot be inlined. */
DP_MUST_USE dp_status *lower_call(lowerer *l, dp_node *node, const dp_func *function,
                                  bool is_multi_device);

#endif
