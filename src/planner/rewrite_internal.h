/* Rewriting: nodes that leave a graph while their readers still point to them.
 *
 * A pass takes a node out and says what stands for each of its outputs and for its control edges;
 * nobody searches for readers. They are redirected in one walk at the end (or at the end of a
 * pass). What stands for a node may leave in turn: chains are followed. */
#ifndef DP_PLANNER_REWRITE_INTERNAL_H
#define DP_PLANNER_REWRITE_INTERNAL_H

#include "planner/planner_internal.h"

typedef struct dp_rewrite_row {
  bool is_gone;
  int32_t control;
  const dp_input *outputs;
} dp_rewrite_row;

typedef struct dp_rewrite {
  dp_graph *graph;
  dp_arena *arena; /* for whatever lives as long as the rewriting */
  DP_ARRAY(dp_rewrite_row) rows;
  bool has_changes; /* since the last apply */
} dp_rewrite;

void dp_rewrite_init(dp_rewrite *rewrite, dp_graph *graph);
void dp_rewrite_deinit(dp_rewrite *rewrite);
/* Where to read now. */
dp_input dp_rewrite_input(const dp_rewrite *rewrite, dp_input input);
int32_t dp_rewrite_control(const dp_rewrite *rewrite, int32_t id);
/* Takes the node out. `outputs` has an entry for each of its outputs and lives in the arena. */
void dp_rewrite_replace(dp_rewrite *rewrite, dp_node *node, const dp_input *outputs,
                        int32_t control);
/* The same for a node with one output. */
void dp_rewrite_replace_one(dp_rewrite *rewrite, dp_node *node, dp_input output, int32_t control);
/* Lets `to` wait for what `from` waits for. */
void dp_rewrite_take_controls(dp_rewrite *rewrite, dp_node *to, const dp_node *from);
/* Redirects all readers. */
void dp_rewrite_apply(dp_rewrite *rewrite);

/* Nodes that nobody reads: what the graph is for. node_count entries at most; returns how many. */
int32_t dp_graph_find_ends(const dp_graph *graph, int32_t *ends_out);
/* Removes what leads to none of these; readers have been redirected. */
void dp_rewrite_drop_unread(const dp_rewrite *rewrite, const int32_t *ends, int32_t end_count);

#endif
