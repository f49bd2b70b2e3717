/* Which loop each node of a graph runs in. A loop is called a frame, as in TensorFlow: from Enter
 * to Exit. The frames are found once (dp_frames_init), by a walk over the graph; whoever adds nodes
 * afterwards says in which frame they run. The owner has one thread. */
#ifndef DP_PLANNER_FRAMES_INTERNAL_H
#define DP_PLANNER_FRAMES_INTERNAL_H

#include "planner/planner_internal.h"

/* A frame is known by the first Enter found that starts it; -1 is the frame outside all loops. */
typedef struct dp_graph_frame {
  const char *name;  /* NUL-ended, in the frames' arena */
  int32_t parent;    /* index of the frame around it, or -1 */
  int32_t enter;     /* an Enter of it */
  int32_t condition; /* its LoopCond, or -1 */
  int32_t depth;     /* how many frames are around it */
} dp_graph_frame;

typedef struct dp_frames {
  dp_arena *arena;
  DP_ARRAY(dp_graph_frame) items;
  DP_ARRAY(int32_t)
  of_node; /* by id: index of the frame a node runs in, or -1. The inputs of an
              Enter and the outputs of an Exit are in the frame around it. */
} dp_frames;

/* INVALID_ARGUMENT when a node reads from two frames. Nodes that nothing starts are outside. */
DP_MUST_USE dp_status *dp_frames_init(dp_frames *frames, const dp_graph *graph);
void dp_frames_deinit(dp_frames *frames);
/* The frame that the node's inputs come from, and the one that its outputs go to. */
int32_t dp_frames_input(const dp_frames *frames, const dp_node *node);
int32_t dp_frames_output(const dp_frames *frames, const dp_node *node);
/* For a node added since: it runs in `frame`. */
void dp_frames_set(dp_frames *frames, int32_t node, int32_t frame);

/* Whether the graph has an Enter at all. */
bool dp_graph_has_loops(const dp_graph *graph);

#endif
