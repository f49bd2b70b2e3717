/* Rewriting: taking nodes out of a graph without searching for their readers.
 *
 * A pass takes a node out and says which outputs replace its outputs and which node replaces it as
 * a control input. The readers keep pointing to the node until dp_rewrite_apply redirects all of
 * them in one walk, at the end of a pass. A replacement may be taken out in turn: chains are
 * followed. One thread per graph; the owner of the dp_rewrite frees it by dp_rewrite_deinit. */
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
  dp_arena *arena; /* freed by dp_rewrite_deinit */
  DP_ARRAY(dp_rewrite_row) rows;
  bool has_changes; /* since the last apply */
} dp_rewrite;

void dp_rewrite_init(dp_rewrite *rewrite, dp_graph *graph);
void dp_rewrite_deinit(dp_rewrite *rewrite);
/* The output, or the control input, to read instead of this one; itself when nothing replaced it.
 */
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

/* The ends of a graph: the nodes that nobody reads. `ends_out` has room for node_count ids; returns
 * how many there are. */
int32_t dp_graph_find_ends(const dp_graph *graph, int32_t *ends_out);
/* Removes all nodes that lead to none of `ends`. To be called after dp_rewrite_apply. */
void dp_rewrite_drop_unread(const dp_rewrite *rewrite, const int32_t *ends, int32_t end_count);

#endif
