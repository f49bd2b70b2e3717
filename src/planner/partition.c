/* Partitioning: cuts a placed graph by task or by device and joins the pieces with _Send and _Recv.
 *
 * Every node goes to the piece of its device. An edge that leaves a piece becomes one pair, which
 * all readers in the other piece share; a control edge sends an empty tensor. A value behind a
 * reference gets a pair per reader. Its _Recv waits for everything else that the reader waits for,
 * so that the reader sees the value that it would see by reading the reference. Keys and attributes
 * are TensorFlow's, so a worker of either make can run a piece. One thread per graph. */
#include <string.h>

#include "planner/planner_internal.h"
#include "wire/device_name.h"

typedef struct cutter {
  const dp_graph *graph;
  dp_partition_by by;
  dp_planner_incarnation_fn incarnation;
  void *arg;
  char letter;
  DP_ARRAY(dp_partition) pieces;
  dp_map *places;    /* device -> piece + 1 */
  dp_map *locations; /* location -> piece + 1 */
  int32_t *piece_of; /* by id */
  int32_t *twins;    /* by id: id in its piece */
  dp_map *received;  /* received_key -> id of what readers use, + 1 */
  int64_t edge_id;
  dp_arena *arena;
} cutter;

typedef struct received_key {
  int32_t node, output, piece;
} received_key;

/* A reader that is being joined to its inputs. */
typedef struct joint {
  const dp_node *reader;
  dp_node *twin;
  int32_t piece;
  const dp_node *loop;        /* Merge of the control loop it follows, or NULL */
  bool has_cut;               /* an input was cut */
  bool has_local_crossing;    /* an input comes from another device in the same piece */
  DP_ARRAY(int32_t) controls; /* its control inputs, in its piece */
  DP_ARRAY(int32_t) waits;    /* what a read through a reference waits for */
  DP_ARRAY(int32_t) reads;    /* _Recv of values behind references */
} joint;

/* ---- Pieces ---- */

static dp_status *location_of(cutter *c, const char *device, const char **location_out) {
  *location_out = device;
  if (c->by == DP_PARTITION_BY_DEVICE)
    return NULL;
  dp_device_name name;
  DP_RETURN_IF_ERROR(dp_device_name_parse(dp_view_of(device), &name));
  if (!name.has_job || !name.has_replica || !name.has_task)
    return DP_INVALID("Malformed assigned device '%s'", device);
  name = dp_device_name_task(&name);
  char text[DP_DEVICE_NAME_SIZE];
  *location_out = dp_arena_strdup(c->arena, dp_device_name_format(&name, text));
  return NULL;
}

static dp_status *find_piece(cutter *c, const dp_node *node, int32_t *piece_out) {
  if (!node->assigned_device)
    return dp_status_create(DP_INTERNAL, "Node '%s' has no device", node->name);
  uintptr_t known = (uintptr_t)dp_map_get(c->places, node->assigned_device);
  if (known) {
    *piece_out = (int32_t)known - 1;
    return NULL;
  }
  const char *location;
  DP_RETURN_IF_ERROR(location_of(c, node->assigned_device, &location));
  known = (uintptr_t)dp_map_get(c->locations, location);
  if (!known) {
    dp_partition piece = {.location = location};
    DP_ARRAY_PUSH(&c->pieces, piece);
    known = c->pieces.count;
    dp_map_put(c->locations, location, (void *)known);
  }
  dp_map_put(c->places, node->assigned_device, (void *)known);
  *piece_out = (int32_t)known - 1;
  return NULL;
}

static dp_status *find_pieces(cutter *c) {
  for (int32_t id = 0; id < c->graph->node_count; id++)
    if (c->graph->nodes[id])
      DP_RETURN_IF_ERROR(find_piece(c, c->graph->nodes[id], &c->piece_of[id]));
  return NULL;
}

static dp_graph *piece_graph(const cutter *c, int32_t piece) {
  return c->pieces.items[piece].graph;
}

static void create_graphs(cutter *c) {
  for (size_t i = 0; i < c->pieces.count; i++) {
    dp_graph *graph = dp_graph_create(c->graph->library);
    graph->producer = c->graph->producer;
    graph->min_consumer = c->graph->min_consumer;
    c->pieces.items[i].location = dp_arena_strdup(graph->arena, c->pieces.items[i].location);
    c->pieces.items[i].graph = graph;
  }
  for (int32_t id = 0; id < c->graph->node_count; id++) {
    const dp_node *node = c->graph->nodes[id];
    if (!node)
      continue;
    dp_node *twin = dp_graph_clone_node(piece_graph(c, c->piece_of[id]), node, node->name);
    twin->device = twin->assigned_device;
    c->twins[id] = twin->id;
  }
}

/* ---- Cutting an edge ---- */

static const char *new_name(cutter *c, const dp_node *source) {
  return dp_planner_new_name(c->graph, c->arena, source->name, c->letter);
}

/* Adds the _Send: of the value, or for a control edge of an empty tensor that waits for the source.
 */
static dp_status *add_sender(cutter *c, const dp_node *source, int32_t output,
                             const dp_transfer *transfer) {
  dp_graph *graph = piece_graph(c, c->piece_of[source->id]);
  dp_input value = {c->twins[source->id], output};
  if (output < 0) {
    dp_node *signal;
    DP_RETURN_IF_ERROR(
        dp_planner_add_signal(graph, new_name(c, source), transfer->send_device, &signal));
    dp_node_add_control(graph, signal, value.node);
    value = (dp_input){signal->id, 0};
  }
  return dp_planner_add_send(graph, new_name(c, source), transfer, value, NULL);
}

static dp_status *add_receiver(cutter *c, const joint *j, const dp_node *source, int32_t output,
                               const dp_transfer *transfer, dp_node **receiver_out,
                               dp_node **used_out) {
  dp_graph *graph = piece_graph(c, j->piece);
  dp_dtype type = output < 0 ? DP_FLOAT : dp_dtype_base(source->output_types[output]);
  DP_RETURN_IF_ERROR(dp_planner_add_recv(graph, new_name(c, source), transfer, type, receiver_out));
  *used_out = *receiver_out;
  if (output >= 0)
    return NULL;
  dp_input value = {(*receiver_out)->id, 0};
  dp_attr attr = attr_type("T", DP_FLOAT);
  return dp_planner_add(graph, "Identity", new_name(c, source), transfer->recv_device, &value, 1,
                        &attr, 1, used_out);
}

/* An edge inside the piece between two devices: the worker's cut by device will cut it, so the
 * reader must keep its control edge from the control loop. */
static void note_crossing(joint *j, const dp_node *source) {
  if (j->loop && strcmp(source->assigned_device, j->reader->assigned_device) != 0)
    j->has_local_crossing = true;
}

static dp_status *cut(cutter *c, joint *j, const dp_node *source, int32_t output,
                      int32_t *used_out) {
  j->has_cut = true;
  received_key key = {source->id, output, j->piece};
  uintptr_t known = (uintptr_t)dp_map_get_n(c->received, &key, sizeof(key));
  if (known) {
    *used_out = (int32_t)known - 1;
    DP_ARRAY_PUSH(&j->waits, *used_out);
    note_crossing(j, piece_graph(c, j->piece)->nodes[*used_out]);
    return NULL;
  }
  char *edge = dp_arena_printf(c->arena, "edge_%lld_%s", (long long)c->edge_id, source->name);
  dp_transfer transfer = {.tensor_name = edge,
                          .send_device = source->assigned_device,
                          .send_incarnation = c->incarnation(c->arg, source->assigned_device),
                          .recv_device = j->reader->assigned_device};
  dp_node *receiver, *used;
  DP_RETURN_IF_ERROR(add_sender(c, source, output, &transfer));
  DP_RETURN_IF_ERROR(add_receiver(c, j, source, output, &transfer, &receiver, &used));
  if (j->loop)
    dp_node_add_control(piece_graph(c, j->piece), receiver, c->twins[j->loop->id]);
  *used_out = used->id;
  if (output >= 0 && dp_dtype_is_ref(source->output_types[output])) {
    DP_ARRAY_PUSH(&j->reads, receiver->id);
    return NULL;
  }
  dp_map_put_n(c->received, &key, sizeof(key), (void *)(uintptr_t)(used->id + 1));
  DP_ARRAY_PUSH(&j->waits, used->id);
  return NULL;
}

/* ---- Joining a reader ---- */

static dp_status *join(cutter *c, joint *j, int32_t source_id, int32_t output, int32_t *used_out) {
  const dp_node *source = c->graph->nodes[source_id];
  c->edge_id++;
  if (c->piece_of[source_id] != j->piece)
    return cut(c, j, source, output, used_out);
  *used_out = c->twins[source_id];
  note_crossing(j, source);
  if (output < 0 || !dp_dtype_is_ref(source->output_types[output]))
    DP_ARRAY_PUSH(&j->waits, *used_out);
  return NULL;
}

static void find_loop(const cutter *c, joint *j) {
  j->loop = NULL;
  for (int32_t i = 0; i < j->reader->control_count && !j->loop; i++)
    if (dp_is_control_loop_merge(c->graph->nodes[j->reader->controls[i]]))
      j->loop = c->graph->nodes[j->reader->controls[i]];
}

static void set_controls(dp_graph *graph, dp_node *node, const int32_t *ids, size_t count) {
  int32_t *controls = dp_arena_allocate(graph->arena, sizeof(int32_t) * (count + 1));
  if (count)
    memcpy(controls, ids, sizeof(int32_t) * count);
  node->controls = controls;
  node->control_count = dp_planner_sort_ids(controls, (int32_t)count);
}

static dp_status *join_reader(cutter *c, joint *j) {
  const dp_node *reader = j->reader;
  find_loop(c, j);
  for (int32_t i = 0; i < reader->input_count; i++) {
    bool was_cut = c->piece_of[reader->inputs[i].node] != j->piece;
    int32_t used;
    DP_RETURN_IF_ERROR(join(c, j, reader->inputs[i].node, reader->inputs[i].output, &used));
    j->twin->inputs[i] = (dp_input){used, was_cut ? 0 : reader->inputs[i].output};
  }
  for (int32_t i = 0; i < reader->control_count; i++) {
    if (j->loop && reader->controls[i] == j->loop->id)
      continue;
    int32_t used;
    DP_RETURN_IF_ERROR(join(c, j, reader->controls[i], -1, &used));
    DP_ARRAY_PUSH(&j->controls, used);
  }
  dp_graph *graph = piece_graph(c, j->piece);
  /* After a cut the _Recv wait for the control loop instead of the reader. The reader keeps the
   * edge when nothing was cut, or when the cut by device is still to come. */
  if (j->loop && (!j->has_cut || j->has_local_crossing))
    DP_ARRAY_PUSH(&j->controls, c->twins[j->loop->id]);
  set_controls(graph, j->twin, j->controls.items, j->controls.count);
  for (size_t i = 0; i < j->reads.count; i++)
    dp_planner_add_controls(graph, graph->nodes[j->reads.items[i]], j->waits.items, j->waits.count);
  return NULL;
}

static dp_status *join_all(cutter *c) {
  joint j = {0};
  dp_status *status = NULL;
  for (int32_t id = 0; id < c->graph->node_count && !status; id++) {
    if (!c->graph->nodes[id])
      continue;
    j.reader = c->graph->nodes[id];
    j.piece = c->piece_of[id];
    j.twin = piece_graph(c, j.piece)->nodes[c->twins[id]];
    j.has_cut = j.has_local_crossing = false;
    j.controls.count = j.waits.count = j.reads.count = 0;
    status = join_reader(c, &j);
  }
  DP_ARRAY_FREE(&j.controls);
  DP_ARRAY_FREE(&j.waits);
  DP_ARRAY_FREE(&j.reads);
  return status;
}

/* ---- The whole ---- */

/* Sets send_device_incarnation of _Send and _Recv nodes that the graph had before, if it is known.
 */
static void fill_incarnations(cutter *c, dp_graph *graph) {
  for (int32_t id = 0; id < graph->node_count; id++) {
    dp_node *node = graph->nodes[id];
    if (!node || (!dp_node_is(node, "_Send") && !dp_node_is(node, "_Recv")))
      continue;
    const dp_attr *device = dp_node_attr(node, "send_device");
    const dp_attr *known = dp_node_attr(node, "send_device_incarnation");
    if (!device || !known || device->string.length == 0 || known->integer != 0)
      continue;
    const char *name = dp_arena_strndup(c->arena, device->string.data, device->string.length);
    dp_attr attr = attr_int("send_device_incarnation", (int64_t)c->incarnation(c->arg, name));
    dp_node_set_attr(graph, node, &attr);
  }
}

/* Nothing to cut: a copy with the devices filled in. */
static void copy_whole(cutter *c) {
  dp_graph *graph = dp_graph_copy(c->graph);
  c->pieces.items[0].graph = graph;
  c->pieces.items[0].location = dp_arena_strdup(graph->arena, c->pieces.items[0].location);
  for (int32_t id = 0; id < graph->node_count; id++)
    if (graph->nodes[id])
      graph->nodes[id]->device = graph->nodes[id]->assigned_device;
}

static dp_status *run_cutter(cutter *c) {
  DP_RETURN_IF_ERROR(find_pieces(c));
  if (c->pieces.count == 1) {
    copy_whole(c);
  } else {
    create_graphs(c);
    DP_RETURN_IF_ERROR(join_all(c));
  }
  for (size_t i = 0; i < c->pieces.count; i++)
    fill_incarnations(c, c->pieces.items[i].graph);
  return NULL;
}

static dp_status *cut_graph(const dp_graph *graph, dp_partition_by by,
                            dp_planner_incarnation_fn incarnation, void *arg,
                            dp_partitions *partitions_out) {
  size_t count = (size_t)graph->node_count + 1;
  cutter c = {.graph = graph,
              .by = by,
              .incarnation = incarnation,
              .arg = arg,
              .letter = by == DP_PARTITION_BY_TASK ? 'S' : 'G',
              .places = dp_map_create(),
              .locations = dp_map_create(),
              .received = dp_map_create(),
              .piece_of = DP_NEW_ARRAY(int32_t, count * 2),
              .arena = dp_arena_create()};
  c.twins = c.piece_of + count;
  dp_status *status = run_cutter(&c);
  dp_partitions partitions = {c.pieces.items, c.pieces.count};
  if (status)
    dp_partitions_deinit(&partitions);
  else
    *partitions_out = partitions;
  dp_map_destroy(c.places);
  dp_map_destroy(c.locations);
  dp_map_destroy(c.received);
  dp_free(c.piece_of);
  dp_arena_destroy(c.arena);
  return status;
}

/* Whether there is control flow over several devices that has no control loops yet. */
static bool needs_control_loops(const dp_graph *graph) {
  const char *device = NULL;
  bool has_control_flow = false, has_devices = false;
  for (int32_t id = 0; id < graph->node_count; id++) {
    const dp_node *node = graph->nodes[id];
    if (!node || !node->assigned_device)
      continue;
    if (dp_is_control_loop_merge(node))
      return false;
    has_control_flow |= dp_node_is_switch(node) || dp_node_is_enter(node);
    has_devices |=
        device && device != node->assigned_device && strcmp(device, node->assigned_device) != 0;
    device = node->assigned_device;
  }
  return has_control_flow && has_devices;
}

dp_status *dp_planner_partition(const dp_graph *graph, dp_partition_by by,
                                dp_planner_incarnation_fn incarnation, void *arg,
                                dp_partitions *partitions_out) {
  if (!needs_control_loops(graph))
    return cut_graph(graph, by, incarnation, arg, partitions_out);
  dp_graph *copy = dp_graph_copy(graph);
  dp_status *status = dp_planner_add_control_loops(copy, by == DP_PARTITION_BY_TASK ? 'S' : 'G');
  if (!status)
    status = cut_graph(copy, by, incarnation, arg, partitions_out);
  dp_graph_destroy(copy);
  return status;
}

void dp_partitions_deinit(dp_partitions *partitions) {
  for (size_t i = 0; i < partitions->count; i++)
    if (partitions->items[i].graph)
      dp_graph_destroy(partitions->items[i].graph);
  dp_free(partitions->items);
  *partitions = (dp_partitions){0};
}
