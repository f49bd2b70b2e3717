/* Inlining a call: the function's nodes are copied under the call's name, arguments and results
 * become Identity nodes. What waited for the call waits for the function's effects: the nodes it
 * names as control results, and every stateful one, as the called form would run them. Nodes
 * without inputs wait for what the call waited for, so that nothing runs in a branch that is not
 * taken, and all run in the frame of the loop that they belong to.
 *
 * A call of a multi-device function may spread: a node keeps the device it asks for within the
 * call's own task. A plain call stays where it is, and is inlined only when it has no effects. */
#include <string.h>

#include "planner/lower_internal.h"
#include "wire/device_name.h"

typedef struct inlining {
  lowerer *l;
  dp_node *call;
  const dp_func *function;
  bool is_multi_device;
  dp_function_body body;
  int32_t *twins; /* by id in the body */
  dp_node *start; /* what every node without inputs waits for, or NULL */
  const call_chain *chain;
  DP_ARRAY(int32_t) effects; /* ids of twins */
  dp_node *effects_done;     /* or NULL */
} inlining;

/* ---- Whether to ---- */

static bool is_marked(const Tensorflow__FunctionDef *definition) {
  for (size_t i = 0; i < definition->n_attr; i++) {
    const Tensorflow__FunctionDef__AttrEntry *attr = definition->attr[i];
    if (strcmp(attr->key, "api_implements") == 0)
      return true;
    if (strcmp(attr->key, "_noinline") == 0 && attr->value && attr->value->b)
      return true;
  }
  return false;
}

/* Whether the function is being inlined already. A chain of DEEPEST functions counts as that. */
static bool is_within_itself(const call_chain *chain, const char *function) {
  enum { DEEPEST = 200 };
  for (int depth = 0; chain; chain = chain->outer, depth++)
    if (depth == DEEPEST || strcmp(chain->function, function) == 0)
      return true;
  return false;
}

/* Functions that each call the next one twice grow as 2^n. In a graph of this size calls stay. */
#define MOST_NODES 1000000

static bool may_inline(lowerer *l, const dp_node *call, const dp_func *function) {
  const dp_function *found = dp_library_find(l->graph->library, function->name);
  return found && l->graph->node_count < MOST_NODES && !is_marked(found->definition) &&
         !is_within_itself(lower_row_of(l, call->id)->chain, function->name);
}

static bool fits(const inlining *in) {
  const dp_node *call = in->call;
  if (call->input_count != in->body.argument_count || call->output_count != in->body.result_count)
    return false;
  for (int32_t i = 0; i < call->input_count; i++)
    if (dp_dtype_base(call->input_types[i]) != in->body.arguments[i]->output_types[0])
      return false;
  for (int32_t i = 0; i < call->output_count; i++)
    if (call->output_types[i] != in->body.results[i]->input_types[0])
      return false;
  return true;
}

static bool is_argument_or_result(const dp_node *node) {
  return dp_node_is(node, "_Arg") || dp_node_is(node, "_Retval");
}

static bool has_effect(const dp_node *node) {
  return node->op->is_stateful && !is_argument_or_result(node);
}

static bool has_effects(const dp_graph *body) {
  for (int32_t id = 0; id < body->node_count; id++)
    if (body->nodes[id] && has_effect(body->nodes[id]))
      return true;
  return false;
}

/* ---- Devices and names ---- */

static const char *device_of(const inlining *in, const dp_node *node) {
  const char *outer = in->call->device;
  if (!*node->device || !in->is_multi_device)
    return outer;
  dp_device_name own, task;
  dp_status *status = dp_device_name_parse(dp_view_of(outer), &task);
  if (!status)
    status = dp_device_name_parse(dp_view_of(node->device), &own);
  if (status) {
    dp_status_release(status);
    return dp_arena_strdup(in->l->graph->arena, node->device);
  }
  task.has_type = task.has_id = false;
  dp_device_name_override(&own, &task);
  char text[DP_DEVICE_NAME_SIZE];
  return dp_arena_strdup(in->l->graph->arena, dp_device_name_format(&own, text));
}

/* "loc:@x" in the body means the body's own x, which is "<call>/x" here. */
static void rename_groups(inlining *in, dp_node *twin) {
  const dp_attr *classes = dp_node_attr(twin, "_class");
  if (!classes || classes->kind != DP_ATTR_LIST_STRING)
    return;
  dp_view *renamed = DP_ARENA_ARRAY(in->l->arena, dp_view, classes->count + 1);
  for (int32_t i = 0; i < classes->count; i++) {
    dp_view group = classes->strings[i];
    renamed[i] = group;
    if (dp_view_consume(&group, "loc:@"))
      renamed[i] = dp_view_of(dp_arena_printf(in->l->arena, "loc:@%s/%.*s", in->call->name,
                                              (int)group.length, group.data));
  }
  dp_attr attr = {
      .name = "_class", .kind = DP_ATTR_LIST_STRING, .count = classes->count, .strings = renamed};
  dp_node_set_attr(in->l->graph, twin, &attr);
}

static void rename_frame(inlining *in, dp_node *twin) {
  const dp_attr *name = dp_node_attr(twin, "frame_name");
  if (!dp_node_is_enter(twin) || !name)
    return;
  dp_attr attr =
      attr_string("frame_name", dp_arena_printf(in->l->arena, "%s/%.*s", in->call->name,
                                                (int)name->string.length, name->string.data));
  dp_node_set_attr(in->l->graph, twin, &attr);
}

/* ---- Copying ---- */

static dp_status *add(inlining *in, const char *op, const char *part, const char *device,
                      const dp_input *value, int32_t type, dp_node **node_out) {
  dp_attr attr = attr_type("T", type);
  lower_node wanted = {.op = op,
                       .name = lower_name(in->l, in->call->name, part),
                       .device = device,
                       .inputs = value,
                       .input_count = value ? 1 : 0,
                       .attrs = &attr,
                       .attr_count = value ? 1 : 0};
  return lower_add(in->l, in->call, &wanted, node_out);
}

static dp_status *add_start(inlining *in) {
  if (in->call->control_count == 0)
    return NULL;
  DP_RETURN_IF_ERROR(add(in, "NoOp", "input_control_node", NULL, NULL, 0, &in->start));
  dp_rewrite_take_controls(&in->l->rewrite, in->start, in->call);
  return NULL;
}

static dp_status *add_arguments(inlining *in) {
  for (int32_t i = 0; i < in->call->input_count; i++) {
    dp_input value = dp_rewrite_input(&in->l->rewrite, in->call->inputs[i]);
    const char *device = in->is_multi_device ? in->l->graph->nodes[value.node]->device : NULL;
    dp_node *node;
    DP_RETURN_IF_ERROR(add(in, "Identity", "input", device, &value,
                           dp_dtype_base(in->call->input_types[i]), &node));
    if (in->start)
      dp_node_add_control(in->l->graph, node, in->start->id);
    in->twins[in->body.arguments[i]->id] = node->id;
  }
  return NULL;
}

static void copy_nodes(inlining *in) {
  dp_graph *graph = in->l->graph;
  for (int32_t id = 0; id < in->body.graph->node_count; id++) {
    const dp_node *node = in->body.graph->nodes[id];
    if (!node || is_argument_or_result(node))
      continue;
    const char *name = lower_name(in->l, in->call->name, node->name);
    dp_node *twin = dp_graph_clone_node(graph, node, name);
    twin->device = device_of(in, node);
    twin->original_name = dp_node_client_name(in->call);
    rename_groups(in, twin);
    rename_frame(in, twin);
    lower_row_of(in->l, twin->id)->chain = in->chain;
    in->twins[id] = twin->id;
    if (has_effect(node))
      DP_ARRAY_PUSH(&in->effects, twin->id);
  }
}

static void join_nodes(inlining *in) {
  dp_graph *graph = in->l->graph;
  for (int32_t id = 0; id < in->body.graph->node_count; id++) {
    const dp_node *node = in->body.graph->nodes[id];
    if (!node || is_argument_or_result(node))
      continue;
    dp_node *twin = graph->nodes[in->twins[id]];
    for (int32_t i = 0; i < node->input_count; i++)
      twin->inputs[i] = (dp_input){in->twins[node->inputs[i].node], node->inputs[i].output};
    for (int32_t i = 0; i < node->control_count; i++)
      twin->controls[i] = in->twins[node->controls[i]];
    twin->control_count = dp_planner_sort_ids(twin->controls, node->control_count);
    /* A call waits for it too: its own body may have nodes without inputs. */
    bool is_call = node->op->is_function || dp_node_is(node, "PartitionedCall") ||
                   dp_node_is(node, "StatefulPartitionedCall");
    if (in->start && (is_call || node->input_count + node->control_count == 0))
      dp_node_add_control(graph, twin, in->start->id);
  }
}

/* Adds control inputs: the twins of these nodes of the body. */
static void wait_for(inlining *in, dp_node *node, const int32_t *body_ids, int32_t count) {
  int32_t *ids = DP_ARENA_ARRAY(in->l->arena, int32_t, count + 1);
  for (int32_t i = 0; i < count; i++)
    ids[i] = in->twins[body_ids[i]];
  dp_planner_add_controls(in->l->graph, node, ids, (size_t)count);
}

/* One node that waits for all effects, so that results need not name each of them. */
static dp_status *add_effects_done(inlining *in) {
  if (in->effects.count == 0)
    return NULL;
  DP_RETURN_IF_ERROR(add(in, "NoOp", "effects", NULL, NULL, 0, &in->effects_done));
  dp_planner_add_controls(in->l->graph, in->effects_done, in->effects.items, in->effects.count);
  return NULL;
}

static dp_status *add_results(inlining *in, dp_input *outputs) {
  dp_graph *graph = in->l->graph;
  for (int32_t i = 0; i < in->body.result_count; i++) {
    const dp_node *result = in->body.results[i];
    dp_input value = {in->twins[result->inputs[0].node], result->inputs[0].output};
    dp_node *node;
    DP_RETURN_IF_ERROR(add(in, "Identity", "output", graph->nodes[value.node]->device, &value,
                           in->call->output_types[i], &node));
    wait_for(in, node, result->controls, result->control_count);
    if (in->effects_done)
      dp_node_add_control(graph, node, in->effects_done->id);
    outputs[i] = (dp_input){node->id, 0};
  }
  return NULL;
}

static dp_status *add_end(inlining *in, const dp_input *outputs, dp_node **end_out) {
  dp_graph *graph = in->l->graph;
  DP_RETURN_IF_ERROR(add(in, "NoOp", "output_control_node", NULL, NULL, 0, end_out));
  int32_t most = in->body.control_result_count + in->body.result_count + 1;
  int32_t *ids = DP_ARENA_ARRAY(in->l->arena, int32_t, most);
  size_t count = 0;
  for (int32_t i = 0; i < in->body.control_result_count; i++)
    ids[count++] = in->twins[in->body.control_results[i]->id];
  for (int32_t i = 0; i < in->body.result_count && !in->is_multi_device; i++)
    ids[count++] = outputs[i].node;
  if (in->effects_done)
    ids[count++] = in->effects_done->id;
  dp_planner_add_controls(graph, *end_out, ids, count);
  /* A node that waits for nothing would run outside the branch and the loop of the call. */
  if (count == 0 && in->start)
    dp_node_add_control(graph, *end_out, in->start->id);
  return NULL;
}

static dp_status *inline_body(inlining *in) {
  lowerer *l = in->l;
  call_chain *chain = DP_ARENA_NEW(l->arena, call_chain);
  *chain = (call_chain){dp_arena_strdup(l->arena, in->function->name),
                        lower_row_of(l, in->call->id)->chain};
  in->chain = chain;
  dp_input *outputs = DP_ARENA_ARRAY(l->arena, dp_input, in->call->output_count + 1);
  dp_node *end;
  DP_RETURN_IF_ERROR(add_start(in));
  DP_RETURN_IF_ERROR(add_arguments(in));
  copy_nodes(in);
  join_nodes(in);
  DP_RETURN_IF_ERROR(add_effects_done(in));
  DP_RETURN_IF_ERROR(add_results(in, outputs));
  DP_RETURN_IF_ERROR(add_end(in, outputs, &end));
  return lower_replace(l, in->call, outputs, end->id);
}

dp_status *lower_call(lowerer *l, dp_node *call, const dp_func *function, bool is_multi_device) {
  if (!may_inline(l, call, function))
    return NULL;
  inlining in = {.l = l, .call = call, .function = function, .is_multi_device = is_multi_device};
  DP_RETURN_IF_ERROR(dp_function_instantiate(l->graph->library, function, &in.body));
  dp_status *status = NULL;
  if (fits(&in) && (is_multi_device || !has_effects(in.body.graph))) {
    in.twins = DP_NEW_ARRAY(int32_t, (size_t)in.body.graph->node_count + 1);
    status = inline_body(&in);
  }
  DP_ARRAY_FREE(&in.effects);
  dp_free(in.twins);
  dp_graph_destroy(in.body.graph);
  return status;
}
