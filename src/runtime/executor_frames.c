/* Finds the loop frames of a graph: walks from the nodes without inputs along all edges; an Enter
 * leads into the frame it names, an Exit back to the frame around it. A node gets the frame in
 * which it is first met, and every other way to it must agree, so that at run time each edge leads
 * to counters of the right frame. Runs once for an executor, in the thread that creates it. */
#include "runtime/executor_internal.h"

#include <string.h>
#include "base/checksum.h"
#include "base/map.h"
#include "base/memory.h"

#define MOST_PARALLEL_ITERATIONS 4096
#define MOST_NESTING 1000 /* ends of runs go down the frames recursively */
/* The seed of TensorFlow's Hash64(string). */
#define NAME_SEED 0xDECAFCAFFEu

typedef struct search {
  const dp_graph *graph;
  const dp_fanout *fanout;
  dp_frame_plans *frames;
  dp_map *names;     /* frame name -> its number, as a pointer */
  int32_t *frame_of; /* -1: not met yet */
  int32_t *child_of;
  int32_t *queue;
  int32_t head, tail;
} search;

static dp_status *add_frame(search *search, const dp_node *node, dp_view name, int32_t parent,
                            int32_t *frame_out) {
  int64_t parallel = 0;
  DP_RETURN_IF_ERROR(dp_node_get_int(node, "parallel_iterations", &parallel));
  if (parallel < 1)
    return DP_INVALID("{{node %s}}: parallel_iterations must be at least 1, got %lld", node->name,
                      (long long)parallel);
  dp_frame_plan plan = {.name = dp_arena_strndup(search->graph->arena, name.data, name.length),
                        .name_hash = dp_hash64(name.data, name.length, NAME_SEED),
                        .parent = parent,
                        .depth = search->frames->items[parent].depth + 1};
  if (plan.depth > MOST_NESTING)
    return DP_INVALID("{{node %s}}: loops are nested more than %d deep", node->name, MOST_NESTING);
  plan.parallel_iterations =
      (int32_t)(parallel < MOST_PARALLEL_ITERATIONS ? parallel : MOST_PARALLEL_ITERATIONS);
  *frame_out = (int32_t)search->frames->count;
  DP_ARRAY_PUSH(search->frames, plan);
  dp_map_put_n(search->names, name.data, name.length, (void *)(intptr_t)*frame_out);
  return NULL;
}

static dp_status *enter_frame(search *search, const dp_node *node, int32_t parent,
                              int32_t *frame_out) {
  dp_view name = {0};
  DP_RETURN_IF_ERROR(dp_node_get_string(node, "frame_name", &name));
  if (name.length == 0)
    return DP_INVALID("{{node %s}} enters a frame without a name", node->name);
  int32_t known = (int32_t)(intptr_t)dp_map_get_n(search->names, name.data, name.length);
  if (!known)
    return add_frame(search, node, name, parent, frame_out);
  const dp_frame_plan *plan = &search->frames->items[known];
  if (plan->parent != parent)
    return DP_INVALID("{{node %s}} enters frame '%s' from frame '%s', but that frame was entered "
                      "from frame '%s' elsewhere",
                      node->name, plan->name, search->frames->items[parent].name,
                      search->frames->items[plan->parent].name);
  *frame_out = known;
  return NULL;
}

/* The frame that a node's outputs belong to. */
static dp_status *output_frame(search *search, const dp_node *node, int32_t *frame_out) {
  int32_t frame = search->frame_of[node->id];
  if (dp_node_is_enter(node))
    return enter_frame(search, node, frame, frame_out);
  if (frame == 0 && (dp_node_is_exit(node) || dp_node_is_next_iteration(node)))
    return DP_INVALID("Invalid %s op {{node %s}}: Cannot find a corresponding Enter op.",
                      node->op->name, node->name);
  *frame_out = dp_node_is_exit(node) ? search->frames->items[frame].parent : frame;
  return NULL;
}

static dp_status *visit(search *search, const dp_node *node) {
  int32_t frame = 0;
  DP_RETURN_IF_ERROR(output_frame(search, node, &frame));
  search->child_of[node->id] = frame;
  const dp_fanout *fanout = search->fanout;
  for (int32_t i = fanout->first[node->id]; i < fanout->first[node->id + 1]; ++i) {
    int32_t reader = fanout->edges[i].node;
    if (search->frame_of[reader] < 0) {
      search->frame_of[reader] = frame;
      search->queue[search->tail++] = reader;
    } else if (search->frame_of[reader] != frame) {
      return DP_INVALID("{{node %s}} has inputs from different frames. The input {{node %s}} is in "
                        "frame '%s', another one in frame '%s'.",
                        dp_graph_node(search->graph, reader)->name, node->name,
                        search->frames->items[frame].name,
                        search->frames->items[search->frame_of[reader]].name);
    }
  }
  return NULL;
}

static dp_status *walk(search *search) {
  const dp_graph *graph = search->graph;
  for (int32_t id = 0; id < graph->node_count; ++id) {
    const dp_node *node = dp_graph_node(graph, id);
    search->frame_of[id] = -1;
    if (node && node->input_count == 0 && node->control_count == 0) {
      search->frame_of[id] = 0;
      search->queue[search->tail++] = id;
    }
  }
  while (search->head < search->tail)
    DP_RETURN_IF_ERROR(visit(search, dp_graph_node(graph, search->queue[search->head++])));
  for (int32_t id = 0; id < graph->node_count; ++id)
    if (dp_graph_node(graph, id) && search->frame_of[id] < 0)
      return DP_INVALID("{{node %s}} can never run: no node without inputs leads to it",
                        dp_graph_node(graph, id)->name);
  return NULL;
}

dp_status *dp_executor_find_frames(const dp_graph *graph, const dp_fanout *fanout,
                                   dp_frame_search *result_out) {
  size_t count = (size_t)graph->node_count + 1;
  result_out->frame_of = DP_NEW_ARRAY(int32_t, count);
  result_out->child_of = DP_NEW_ARRAY(int32_t, count);
  search search = {.graph = graph,
                   .fanout = fanout,
                   .frames = &result_out->frames,
                   .names = dp_map_create(),
                   .frame_of = result_out->frame_of,
                   .child_of = result_out->child_of,
                   .queue = DP_NEW_ARRAY(int32_t, count)};
  DP_ARRAY_PUSH(search.frames,
                ((dp_frame_plan){.name = "", .parent = -1, .parallel_iterations = 1}));
  dp_status *status = walk(&search);
  dp_free(search.queue);
  dp_map_destroy(search.names);
  return status;
}
