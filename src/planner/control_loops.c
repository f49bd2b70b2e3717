/* Loops that span devices. The device that computes a loop's condition leads; every other device
 * that takes part gets a control loop,
 *
 *     Enter -> Merge -> Switch -> NextIteration -> (Merge)
 *
 * whose Switch reads the leader's LoopCond, so that the device starts and ends iterations in step.
 * The Merge has a control edge to every node that reads from another device in the same loop; when
 * the edge is cut, the partitioner hands it to the _Recv, which thus runs once per iteration. Loops
 * within loops are chained: the outer Merge feeds the inner Enter. */
#include <string.h>

#include "planner/frames_internal.h"

typedef struct loop_builder {
  dp_graph *graph;
  dp_frames frames;
  dp_map *loops; /* "frame$$device" -> Merge */
  char letter;
} loop_builder;

bool dp_is_control_loop_merge(const dp_node *node) {
  return strncmp(node->name, "_cloop", 6) == 0 && dp_node_is_merge(node);
}

/* ---- Where control flow runs ---- */

/* The first reader of the node's data, or NULL. */
static const dp_node *first_reader(const dp_graph *graph, const dp_fanout *fanout, int32_t id) {
  for (int32_t e = fanout->first[id]; e < fanout->first[id + 1]; e++)
    if (fanout->edges[e].input >= 0)
      return graph->nodes[fanout->edges[e].node];
  return NULL;
}

/* Enter and NextIteration move to the device of their reader, then Switch and Exit to the device of
 * what they read. So a conditional read of a remote variable sends the value only when the
 * condition holds. */
static void move_control_flow(dp_graph *graph) {
  dp_fanout fanout;
  dp_fanout_init(&fanout, graph);
  for (int32_t id = 0; id < graph->node_count; id++) {
    dp_node *node = graph->nodes[id];
    if (!node || !((dp_node_is_enter(node) && !dp_dtype_is_ref(node->input_types[0])) ||
                   dp_node_is_next_iteration(node)))
      continue;
    const dp_node *reader = first_reader(graph, &fanout, id);
    if (reader)
      node->assigned_device = reader->assigned_device;
  }
  dp_fanout_deinit(&fanout);
  int32_t *order = dp_malloc(sizeof(*order) * (size_t)(graph->node_count + 1));
  int32_t count = dp_graph_order(graph, order);
  for (int32_t i = 0; i < count; i++) {
    dp_node *node = graph->nodes[order[i]];
    if (dp_node_is_switch(node) || dp_node_is_exit(node))
      node->assigned_device = graph->nodes[node->inputs[0].node]->assigned_device;
  }
  dp_free(order);
}

/* ---- Control loops ---- */

static dp_status *add_node(loop_builder *b, const char *op, const char *near, const char *device,
                           const dp_input *inputs, int32_t input_count, const dp_attr *attrs,
                           int32_t attr_count, int32_t frame, dp_node **node_out) {
  const char *name = dp_planner_new_name(b->graph, b->graph->arena, near, b->letter);
  name = dp_arena_printf(b->graph->arena, "_cloop%s", name);
  DP_RETURN_IF_ERROR(
      dp_planner_add(b->graph, op, name, device, inputs, input_count, attrs, attr_count, node_out));
  dp_frames_set(&b->frames, (*node_out)->id, frame);
  return NULL;
}

static dp_status *get_loop(loop_builder *b, int32_t frame, const char *device, const char *near,
                           dp_node **merge_out);

/* What starts a control loop: the Merge of the control loop around it on the same device, or a
 * constant when there is no loop around it. */
static dp_status *get_start(loop_builder *b, int32_t parent, const char *device, const char *near,
                            dp_input *start_out) {
  dp_node *start;
  if (parent >= 0) {
    DP_RETURN_IF_ERROR(get_loop(b, parent, device, near, &start));
  } else {
    const char *name = dp_planner_new_name(b->graph, b->graph->arena, near, b->letter);
    DP_RETURN_IF_ERROR(dp_planner_add_signal(b->graph, name, device, &start));
    dp_frames_set(&b->frames, start->id, -1);
  }
  *start_out = (dp_input){start->id, 0};
  return NULL;
}

static dp_status *build_loop(loop_builder *b, int32_t frame, const char *device, const char *near,
                             dp_node **merge_out) {
  dp_graph_frame info = b->frames.items.items[frame];
  if (info.condition < 0)
    return DP_INVALID("A cross-device loop must have a pivot predicate: %s", info.name);
  dp_input start;
  DP_RETURN_IF_ERROR(get_start(b, info.parent, device, near, &start));
  int64_t parallel = 1;
  DP_RETURN_IF_ERROR(
      dp_node_get_int(b->graph->nodes[info.enter], "parallel_iterations", &parallel));
  dp_attr type = attr_type("T", DP_FLOAT);
  dp_attr enter_attrs[] = {type, attr_string("frame_name", info.name),
                           attr_int("parallel_iterations", parallel)};
  dp_attr merge_attrs[] = {type, attr_int("N", 2)};
  dp_node *enter, *merge, *fork, *next;
  DP_RETURN_IF_ERROR(add_node(b, "Enter", near, device, &start, 1, enter_attrs, 3, frame, &enter));
  dp_input entered[] = {{enter->id, 0}, {enter->id, 0}};
  DP_RETURN_IF_ERROR(add_node(b, "Merge", near, device, entered, 2, merge_attrs, 2, frame, &merge));
  dp_input forked[] = {{merge->id, 0}, {info.condition, 0}};
  DP_RETURN_IF_ERROR(add_node(b, "Switch", near, device, forked, 2, &type, 1, frame, &fork));
  dp_input again = {fork->id, 1};
  DP_RETURN_IF_ERROR(add_node(b, "NextIteration", near, device, &again, 1, &type, 1, frame, &next));
  dp_node_set_input(merge, 1, (dp_input){next->id, 0});
  *merge_out = merge;
  return NULL;
}

static dp_status *get_loop(loop_builder *b, int32_t frame, const char *device, const char *near,
                           dp_node **merge_out) {
  dp_text key = {0};
  dp_text_printf(&key, "%s$$%s", b->frames.items.items[frame].name, device);
  *merge_out = dp_map_get(b->loops, key.data);
  dp_status *status = NULL;
  if (!*merge_out) {
    status = build_loop(b, frame, device, near, merge_out);
    if (!status)
      dp_map_put(b->loops, key.data, *merge_out);
  }
  dp_text_deinit(&key);
  return status;
}

/* The frame that an edge between devices runs in, or -1 when it needs no control loop. */
static int32_t crossing(const loop_builder *b, int32_t source, const dp_node *reader) {
  const dp_node *from = b->graph->nodes[source];
  if (strcmp(from->assigned_device, reader->assigned_device) == 0)
    return -1;
  int32_t frame = dp_frames_output(&b->frames, from);
  return frame == dp_frames_input(&b->frames, reader) ? frame : -1;
}

static int32_t crossing_of(const loop_builder *b, const dp_node *reader) {
  int32_t frame = -1;
  for (int32_t i = 0; i < reader->input_count && frame < 0; i++)
    frame = crossing(b, reader->inputs[i].node, reader);
  for (int32_t i = 0; i < reader->control_count && frame < 0; i++)
    frame = crossing(b, reader->controls[i], reader);
  return frame;
}

static dp_status *add_loops(loop_builder *b) {
  /* The Switches of new control loops read from other devices too: node_count grows meanwhile, and
   * the nodes that are added are visited as well. */
  for (int32_t id = 0; id < b->graph->node_count; id++) {
    dp_node *reader = b->graph->nodes[id];
    int32_t frame = reader ? crossing_of(b, reader) : -1;
    if (frame < 0)
      continue;
    dp_node *merge;
    DP_RETURN_IF_ERROR(get_loop(b, frame, reader->assigned_device, reader->name, &merge));
    dp_node_add_control(b->graph, b->graph->nodes[id], merge->id);
  }
  return NULL;
}

dp_status *dp_planner_add_control_loops(dp_graph *graph, char letter) {
  move_control_flow(graph);
  if (!dp_graph_has_loops(graph))
    return NULL;
  loop_builder b = {.graph = graph, .letter = letter};
  DP_RETURN_IF_ERROR(dp_frames_init(&b.frames, graph));
  b.loops = dp_map_create();
  dp_status *status = add_loops(&b);
  dp_map_destroy(b.loops);
  dp_frames_deinit(&b.frames);
  return status;
}
