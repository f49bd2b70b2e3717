/* Frames: which loop each node runs in. A walk along the edges from the nodes without inputs
 * carries the frame with it; an Enter opens the frame it names within the one it is reached in, an
 * Exit goes back to the one around. A node reached from two different frames is a broken graph. */
#include <string.h>

#include "planner/frames_internal.h"

enum { OUTSIDE = -1, UNVISITED = -2 };
/* Control loops are built by recursion over those around. */
enum { DEEPEST_LOOP = 1000 };

typedef struct frame_walk {
  dp_frames *frames;
  const dp_graph *graph;
  dp_fanout fanout;
  dp_map *by_name; /* name -> index + 1 */
  int32_t *queue;
  int32_t *reached_from;
  int32_t tail;
} frame_walk;

bool dp_graph_has_loops(const dp_graph *graph) {
  for (int32_t id = 0; id < graph->node_count; id++)
    if (graph->nodes[id] && dp_node_is_enter(graph->nodes[id]))
      return true;
  return false;
}

int32_t dp_frames_input(const dp_frames *frames, const dp_node *node) {
  int32_t frame = frames->of_node.items[node->id];
  return frame >= 0 && dp_node_is_enter(node) ? frames->items.items[frame].parent : frame;
}

int32_t dp_frames_output(const dp_frames *frames, const dp_node *node) {
  int32_t frame = frames->of_node.items[node->id];
  return frame >= 0 && dp_node_is_exit(node) ? frames->items.items[frame].parent : frame;
}

void dp_frames_set(dp_frames *frames, int32_t node, int32_t frame) {
  while (frames->of_node.count <= (size_t)node)
    DP_ARRAY_PUSH(&frames->of_node, OUTSIDE);
  frames->of_node.items[node] = frame;
}

static const char *frame_text(const dp_frames *frames, int32_t frame) {
  return frame < 0 ? "" : frames->items.items[frame].name;
}

static dp_status *frames_differ(const frame_walk *walk, const dp_node *node, int32_t source,
                                int32_t frame, int32_t known) {
  return DP_INVALID("{{node %s}} has inputs from different frames. The input {{node %s}} is in "
                    "frame '%s'. The input {{node %s}} is in frame '%s'.",
                    node->name, walk->graph->nodes[source]->name, frame_text(walk->frames, frame),
                    walk->graph->nodes[walk->reached_from[node->id]]->name,
                    frame_text(walk->frames, known));
}

/* The frame that an Enter opens when it is reached in `parent`. */
static dp_status *open_frame(frame_walk *walk, const dp_node *enter, int32_t parent,
                             int32_t *frame_out) {
  dp_view name;
  DP_RETURN_IF_ERROR(dp_node_get_string(enter, "frame_name", &name));
  if (name.length == 0)
    return DP_INVALID("The Enter {{node %s}} must have a frame name.", enter->name);
  uintptr_t known = (uintptr_t)dp_map_get_n(walk->by_name, name.data, name.length);
  if (known) {
    *frame_out = (int32_t)known - 1;
    if (walk->frames->items.items[*frame_out].parent != parent)
      return dp_status_create(
          DP_INTERNAL,
          "Invalid loop structure: Mismatched parent frames for \"%.*s\": "
          "\"%s\" vs \"%s\". The node giving this error: {{node %s}}.",
          (int)name.length, name.data, frame_text(walk->frames, parent),
          frame_text(walk->frames, walk->frames->items.items[*frame_out].parent), enter->name);
    return NULL;
  }
  int32_t depth = parent < 0 ? 0 : walk->frames->items.items[parent].depth + 1;
  if (depth > DEEPEST_LOOP)
    return DP_INVALID("The loop \"%.*s\" lies within more than %d others", (int)name.length,
                      name.data, DEEPEST_LOOP);
  dp_graph_frame frame = {.depth = depth,
                          .name = dp_arena_strndup(walk->frames->arena, name.data, name.length),
                          .parent = parent,
                          .enter = enter->id,
                          .condition = -1};
  DP_ARRAY_PUSH(&walk->frames->items, frame);
  dp_map_put_n(walk->by_name, name.data, name.length, (void *)(uintptr_t)walk->frames->items.count);
  *frame_out = (int32_t)walk->frames->items.count - 1;
  return NULL;
}

static dp_status *reach(frame_walk *walk, int32_t source, int32_t frame, const dp_node *node) {
  int32_t *slot = &walk->frames->of_node.items[node->id];
  if (*slot != UNVISITED) {
    int32_t known = dp_frames_input(walk->frames, node);
    return known == frame ? NULL : frames_differ(walk, node, source, frame, known);
  }
  walk->reached_from[node->id] = source;
  walk->queue[walk->tail++] = node->id;
  *slot = frame;
  if (dp_node_is_enter(node))
    return open_frame(walk, node, frame, slot);
  if (frame >= 0 && dp_node_is(node, "LoopCond"))
    walk->frames->items.items[frame].condition = node->id;
  return NULL;
}

static dp_status *walk_frames(frame_walk *walk) {
  int32_t *of_node = walk->frames->of_node.items;
  for (int32_t id = 0; id < walk->graph->node_count; id++) {
    const dp_node *node = walk->graph->nodes[id];
    of_node[id] = UNVISITED;
    if (!node || node->input_count > 0 || node->control_count > 0)
      continue;
    of_node[id] = OUTSIDE;
    walk->queue[walk->tail++] = id;
  }
  for (int32_t head = 0; head < walk->tail; head++) {
    int32_t id = walk->queue[head];
    int32_t frame = dp_frames_output(walk->frames, walk->graph->nodes[id]);
    for (int32_t e = walk->fanout.first[id]; e < walk->fanout.first[id + 1]; e++)
      DP_RETURN_IF_ERROR(reach(walk, id, frame, walk->graph->nodes[walk->fanout.edges[e].node]));
  }
  for (int32_t id = 0; id < walk->graph->node_count; id++)
    if (of_node[id] == UNVISITED)
      of_node[id] = OUTSIDE;
  return NULL;
}

dp_status *dp_frames_init(dp_frames *frames, const dp_graph *graph) {
  *frames = (dp_frames){.arena = dp_arena_create()};
  size_t count = (size_t)graph->node_count + 1;
  DP_ARRAY_RESERVE(&frames->of_node, count);
  frames->of_node.count = (size_t)graph->node_count;
  frame_walk walk = {.frames = frames, .graph = graph, .by_name = dp_map_create()};
  walk.queue = dp_malloc(sizeof(int32_t) * count * 2);
  walk.reached_from = walk.queue + count;
  dp_fanout_init(&walk.fanout, graph);
  dp_status *status = walk_frames(&walk);
  dp_fanout_deinit(&walk.fanout);
  dp_free(walk.queue);
  dp_map_destroy(walk.by_name);
  if (status)
    dp_frames_deinit(frames);
  return status;
}

void dp_frames_deinit(dp_frames *frames) {
  DP_ARRAY_FREE(&frames->items);
  DP_ARRAY_FREE(&frames->of_node);
  if (frames->arena)
    dp_arena_destroy(frames->arena);
  frames->arena = NULL;
}
