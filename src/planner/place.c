/* Placement: a device for every node, chosen as TensorFlow's placer chooses.
 *
 * Nodes that must stay together form groups (place_groups.c): a reference or a resource with its
 * readers, and nodes that name each other in `_class`. A group takes the first device that its
 * members' wishes allow: devices of the client's own task first, then by name. Two kinds of nodes
 * look at their neighbours first: Shape, Size and Rank go with their input, and a node without
 * inputs goes with its readers when all of those are on one device. Devices that were assigned
 * before (feeds, fetches, state of earlier plans) stay. One thread per graph. */
#include <string.h>

#include "base/log.h"
#include "planner/place_internal.h"
#include "runtime/kernel.h"

static bool is_generator(const dp_node *node) {
  return node->input_count == 0 && node->output_count == 1 &&
         !dp_dtype_is_ref(node->output_types[0]);
}

static bool is_metadata(const dp_node *node) {
  return dp_node_is(node, "Shape") || dp_node_is(node, "Size") || dp_node_is(node, "Rank");
}

/* The message has "{{node x}}" in its first part. TensorFlow's Python replaces that by the stack of
 * calls that made x. At the end the name stands without "{{node }}", as in TensorFlow; else the
 * stack would be printed twice. */
static dp_status *refuse_node(placer *p, const dp_node *node, dp_status *why) {
  if (p->is_lenient) {
    dp_status_release(why);
    p->has_refused = true;
    return NULL;
  }
  why = dp_status_annotate(why, "Cannot assign a device for operation %s", node->name);
  return dp_status_append(why, "\n\t [[%s]]", node->name);
}

static dp_status *assign(placer *p, dp_node *node, int32_t device) {
  node->assigned_device = p->devices->items[device].name;
  p->assigned[node->id] = device;
  if (p->options->log_placement)
    DP_LOG(PLANNER, INFO, "%s: (%s): %s", node->name, node->op->name, node->assigned_device);
  return dp_groups_limit(p, node->id, device);
}

static dp_status *place_node(placer *p, dp_node *node) {
  const device_list *candidates;
  dp_status *status = dp_groups_candidates(p, node, &candidates);
  if (status)
    return refuse_node(p, node, status);
  int32_t device = candidates->items[0];
  if (is_metadata(node)) {
    int32_t wanted = p->assigned[node->inputs[0].node];
    if (wanted >= 0 && device_list_has(candidates, wanted))
      device = wanted;
  }
  return assign(p, node, device);
}

static dp_status *place_generator(placer *p, dp_node *node) {
  const device_list *candidates;
  dp_status *status = dp_groups_candidates(p, node, &candidates);
  if (status)
    return refuse_node(p, node, status);
  int32_t device = candidates->items[0];
  int32_t begin = p->fanout.first[node->id], end = p->fanout.first[node->id + 1];
  if (begin < end) {
    int32_t wanted = p->assigned[p->fanout.edges[begin].node];
    bool agree = wanted >= 0 && device_list_has(candidates, wanted);
    for (int32_t i = begin + 1; i < end && agree; i++)
      agree = p->assigned[p->fanout.edges[i].node] == wanted;
    if (agree)
      device = wanted;
  }
  return assign(p, node, device);
}

static dp_status *place_nodes(placer *p) {
  dp_graph *graph = p->graph;
  for (int32_t id = 0; id < graph->node_count; id++) {
    dp_node *node = graph->nodes[id];
    if (!node || p->is_refused[id])
      continue;
    if (p->assigned[id] >= 0)
      DP_RETURN_IF_ERROR(dp_groups_limit(p, id, p->assigned[id]));
    else if (!is_generator(node))
      DP_RETURN_IF_ERROR(place_node(p, node));
  }
  for (int32_t id = 0; id < graph->node_count; id++)
    if (graph->nodes[id] && !p->is_refused[id] && p->assigned[id] < 0 &&
        is_generator(graph->nodes[id]))
      DP_RETURN_IF_ERROR(place_generator(p, graph->nodes[id]));
  return NULL;
}

/* ---- What is there before ---- */

static bool is_client_end(const dp_node *node) {
  return dp_node_is(node, "_Recv") || dp_node_is(node, "_Send") || dp_node_is(node, "_Arg") ||
         dp_node_is(node, "_Retval");
}

static int32_t find_device(const placer *p, const char *name) {
  for (size_t i = 0; i < p->devices->count; i++)
    if (strcmp(p->devices->items[i].name, name) == 0)
      return (int32_t)i;
  return -1;
}

static void recall(placer *p, dp_node *node) {
  if (node->assigned_device || !p->options->remembered || !node->op->is_stateful)
    return;
  const char *device = dp_map_get(p->options->remembered, node->name);
  if (device && find_device(p, device) >= 0)
    node->assigned_device = device;
}

/* When dp_planner_prepare left a node without a device, all nodes lose theirs and are placed again.
 * So the error says what the client asked for, not what prepare made of it. */
static void forget_partial_placement(dp_graph *graph) {
  bool is_partial = false, has_any = false;
  for (int32_t id = 0; id < graph->node_count; id++) {
    const dp_node *node = graph->nodes[id];
    if (!node || is_client_end(node))
      continue;
    is_partial |= !node->assigned_device;
    has_any |= node->assigned_device != NULL;
  }
  for (int32_t id = 0; is_partial && has_any && id < graph->node_count; id++)
    if (graph->nodes[id] && !is_client_end(graph->nodes[id]))
      graph->nodes[id]->assigned_device = NULL;
}

static dp_status *read_assignments(placer *p) {
  for (int32_t id = 0; id < p->graph->node_count; id++) {
    dp_node *node = p->graph->nodes[id];
    p->assigned[id] = -1;
    if (!node)
      continue;
    recall(p, node);
    if (!node->assigned_device)
      continue;
    p->assigned[id] = find_device(p, node->assigned_device);
    if (p->assigned[id] < 0)
      return dp_status_create(DP_INTERNAL, "Assigned device '%s' does not match any device",
                              node->assigned_device);
  }
  return NULL;
}

/* Keeps where stateful nodes went. Names that begin with '_' are the planner's own and change from
 * plan to plan. */
static void remember(placer *p) {
  if (!p->options->remembered)
    return;
  for (int32_t id = 0; id < p->graph->node_count; id++) {
    const dp_node *node = p->graph->nodes[id];
    if (!node || p->assigned[id] < 0 || !node->op->is_stateful || node->name[0] == '_' ||
        dp_map_get(p->options->remembered, node->name))
      continue;
    dp_map_put(p->options->remembered, node->name, dp_strdup(node->assigned_device));
  }
}

/* ---- Kernels ---- */

static void add_missing(dp_text *missing, dp_map *seen, const char *line) {
  if (!dp_map_put(seen, line, seen))
    dp_text_printf(missing, "\n  %s", line);
}

/* UNIMPLEMENTED with all ops that lack a kernel, in one message. */
static dp_status *check_kernels(placer *p) {
  dp_map *seen = dp_map_create();
  dp_text missing = {0};
  for (int32_t id = 0; id < p->graph->node_count; id++) {
    const dp_node *node = p->graph->nodes[id];
    if (!node || p->devices->items[p->assigned[id]].is_foreign)
      continue;
    const dp_kernel *kernel;
    dp_status *status = dp_kernel_find(node, p->devices->items[p->assigned[id]].type, &kernel);
    if (!status)
      continue;
    add_missing(&missing, seen, dp_status_message(status));
    dp_status_release(status);
  }
  dp_map_destroy(seen);
  dp_status *status = NULL;
  if (missing.length)
    status = dp_status_create(DP_UNIMPLEMENTED, "The graph needs ops that have no kernel:%s",
                              missing.data);
  dp_text_deinit(&missing);
  return status;
}

/* ---- The whole ---- */

/* Copies the device names into the graph's arena: the caller's strings may be freed before it. */
static void own_names(placer *p) {
  const char **names = DP_ARENA_ARRAY(p->graph->arena, const char *, p->devices->count);
  for (int32_t id = 0; id < p->graph->node_count; id++) {
    if (!p->graph->nodes[id] || p->assigned[id] < 0)
      continue;
    int32_t device = p->assigned[id];
    if (!names[device])
      names[device] = dp_arena_strdup(p->graph->arena, p->devices->items[device].name);
    p->graph->nodes[id]->assigned_device = names[device];
  }
}

static dp_status *place(dp_graph *graph, const dp_planner_devices *devices,
                        const dp_planner_place_options *options, bool is_lenient) {
  if (devices->count == 0)
    return dp_status_create(DP_FAILED_PRECONDITION, "No devices are registered");
  placer p = {.graph = graph, .devices = devices, .options = options, .is_lenient = is_lenient};
  p.assigned = DP_NEW_ARRAY(int32_t, (size_t)graph->node_count + 1);
  dp_fanout_init(&p.fanout, graph);
  dp_groups_init(&p);
  dp_status *status;
  DP_GOTO_IF_ERROR(status, done, read_assignments(&p));
  DP_GOTO_IF_ERROR(status, done, dp_groups_build(&p));
  DP_GOTO_IF_ERROR(status, done, place_nodes(&p));
  if (!is_lenient)
    DP_GOTO_IF_ERROR(status, done, check_kernels(&p));
  own_names(&p);
  if (!p.has_refused)
    remember(&p);
done:
  dp_groups_deinit(&p);
  dp_fanout_deinit(&p.fanout);
  dp_free(p.assigned);
  return status;
}

dp_status *dp_planner_place(dp_graph *graph, const dp_planner_devices *devices,
                            const dp_planner_place_options *options) {
  forget_partial_placement(graph);
  return place(graph, devices, options, false);
}

dp_status *dp_planner_prepare(const dp_graph *graph, const dp_planner_devices *devices,
                              const dp_planner_place_options *options, dp_graph **prepared_out) {
  dp_graph *prepared = dp_graph_copy(graph);
  dp_status *status = dp_planner_lower_all(prepared, true);
  if (!status)
    status = place(prepared, devices, options, true);
  if (status)
    dp_graph_destroy(prepared);
  else
    *prepared_out = prepared;
  return status;
}
