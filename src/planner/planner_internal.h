/* What the planner's files share: builders of nodes and attributes, names of tensors, and the steps
 * that are not called from outside. All work on the caller's graph, on the caller's thread; what
 * they add belongs to the graph's arena. */
#ifndef DP_PLANNER_PLANNER_INTERNAL_H
#define DP_PLANNER_PLANNER_INTERNAL_H

#include "planner/planner.h"

/* ---- Attributes for builders (build.c) ---- */
static inline dp_attr attr_type(const char *name, int32_t type) {
  return (dp_attr){.name = name, .kind = DP_ATTR_TYPE, .type = type};
}
static inline dp_attr attr_int(const char *name, int64_t value) {
  return (dp_attr){.name = name, .kind = DP_ATTR_INT, .integer = value};
}
static inline dp_attr attr_bool(const char *name, bool value) {
  return (dp_attr){.name = name, .kind = DP_ATTR_BOOL, .boolean = value};
}
static inline dp_attr attr_string(const char *name, const char *value) {
  return (dp_attr){.name = name, .kind = DP_ATTR_STRING, .string = dp_view_of(value)};
}

/* What the _Send and the _Recv of one value have in common. */
typedef struct dp_transfer {
  const char *tensor_name;
  const char *send_device;
  uint64_t send_incarnation;
  const char *recv_device;
  bool client_terminated;
} dp_transfer;
/* _Send of `value`, and _Recv of a value of type `type`. Both get `device` as request and
 * assignment. Names must be free. */
DP_MUST_USE dp_status *dp_planner_add_send(dp_graph *graph, const char *name,
                                           const dp_transfer *transfer, dp_input value,
                                           dp_node **node_out);
DP_MUST_USE dp_status *dp_planner_add_recv(dp_graph *graph, const char *name,
                                           const dp_transfer *transfer, dp_dtype type,
                                           dp_node **node_out);
/* A node of a built-in op; attributes that are not given have their defaults. */
DP_MUST_USE dp_status *dp_planner_add(dp_graph *graph, const char *op, const char *name,
                                      const char *device, const dp_input *inputs,
                                      int32_t input_count, const dp_attr *attrs, int32_t attr_count,
                                      dp_node **node_out);
/* The Const float of shape [0] that stands for "it has happened". */
DP_MUST_USE dp_status *dp_planner_add_signal(dp_graph *graph, const char *name, const char *device,
                                             dp_node **node_out);
/* "<prefix>_<letter><number>": not taken in `graph`, and never given out before in this process,
 * since a worker keeps kernels of a session by the name of their node. In `arena`. */
const char *dp_planner_new_name(const dp_graph *graph, dp_arena *arena, const char *prefix,
                                char letter);
/* Adds many control inputs at once; `ids` may be in any order and repeat. */
void dp_planner_add_controls(dp_graph *graph, dp_node *node, const int32_t *ids, size_t count);
/* Sorts ids and drops repeated ones; returns how many are left. */
int32_t dp_planner_sort_ids(int32_t *ids, int32_t count);

/* ---- Control loops (control_loops.c) ---- */
/* Whether a node is the Merge of a control loop. */
bool dp_is_control_loop_merge(const dp_node *node);
/* Moves Switch, Exit, Enter and NextIteration to where their data is, and gives every device that
 * takes part in a loop a control loop that follows it. The graph must be placed. */
DP_MUST_USE dp_status *dp_planner_add_control_loops(dp_graph *graph, char letter);

/* ---- Lowering (lower.c) ---- */
/* As dp_planner_lower; with `keep_names` what is lowered can still be fetched and targeted. */
DP_MUST_USE dp_status *dp_planner_lower_all(dp_graph *graph, bool keep_names);

/* ---- Tensor names ---- */
/* "x:1" is node "x", output 1; "x" output 0; "^x" output -1. The name is copied to `arena`. */
const char *dp_planner_parse_tensor(dp_arena *arena, const char *text, int32_t *output_out);

#endif
