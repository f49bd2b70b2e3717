/* Dependencies: nodes that only pass a value on, and control edges without effect.
 *
 * Identity and similar nodes go when their readers can read the source instead. They stay in three
 * cases: they read a reference; a control edge from them tells which side of a Switch is alive;
 * they save transfers between devices. A NoOp goes when its readers can wait for what it waits for
 * without more edges than before. A control edge goes when its reader also reads data from the same
 * node, or when it comes from a constant that waits for nothing. */
#include <string.h>

#include "planner/optimize_internal.h"

typedef struct dependency_pass {
  dp_graph_optimizer *o;
  dp_fanout fanout; /* as it was when the pass began */
} dependency_pass;

static int32_t reader_count(const dependency_pass *p, const dp_node *node) {
  return p->fanout.first[node->id + 1] - p->fanout.first[node->id];
}

/* ---- Identity ---- */

static bool is_pass_through(const dp_node *node) {
  return dp_node_is(node, "Identity") || dp_node_is(node, "IdentityN") ||
         dp_node_is(node, "StopGradient") || dp_node_is(node, "PreventGradient") ||
         dp_node_is(node, "Snapshot");
}

/* A control edge from the source would mean something else than one from the node: a Switch has run
 * whichever side is alive, and an Enter may run once for all iterations. */
static bool reads_control_flow(const dp_graph_optimizer *o, const dp_node *node) {
  for (int32_t i = 0; i < node->input_count; i++) {
    const dp_node *source = o->graph->nodes[node->inputs[i].node];
    if (dp_node_is_switch(source) || dp_node_is_enter(source))
      return true;
  }
  return false;
}

static bool reads_reference(const dp_graph_optimizer *o, const dp_node *node) {
  for (int32_t i = 0; i < node->input_count; i++)
    if (dp_dtype_is_ref(
            o->graph->nodes[node->inputs[i].node]->output_types[node->inputs[i].output]))
      return true;
  return false;
}

static bool is_near_sources(const dp_graph_optimizer *o, const dp_node *node) {
  for (int32_t i = 0; i < node->input_count; i++)
    if (!node_same_device(node, o->graph->nodes[node->inputs[i].node]))
      return false;
  return true;
}

/* Whether the readers can wait for what the node waits for: with no more edges than before, and
 * with no Merge and no other device among the readers. */
static bool can_move_controls(const dependency_pass *p, const dp_node *node) {
  int32_t readers = reader_count(p, node), controls = node->control_count;
  if (controls == 0)
    return true;
  if ((int64_t)readers * controls > readers + controls)
    return false;
  for (int32_t e = p->fanout.first[node->id]; e < p->fanout.first[node->id + 1]; e++) {
    const dp_node *reader = p->o->graph->nodes[p->fanout.edges[e].node];
    if (reader && (dp_node_is_merge(reader) || !node_same_device(reader, node)))
      return false;
  }
  return true;
}

static bool can_pass(const dependency_pass *p, const dp_node *node) {
  if (reads_reference(p->o, node) || !is_near_sources(p->o, node) || !can_move_controls(p, node))
    return false;
  bool has_many_sources = false;
  for (int32_t i = 1; i < node->input_count; i++)
    has_many_sources |= node->inputs[i].node != node->inputs[0].node;
  if (!reads_control_flow(p->o, node) && !has_many_sources)
    return true;
  for (int32_t e = p->fanout.first[node->id]; e < p->fanout.first[node->id + 1]; e++)
    if (p->fanout.edges[e].input < 0)
      return false;
  return true;
}

static void move_controls(dependency_pass *p, const dp_node *node) {
  for (int32_t e = p->fanout.first[node->id]; e < p->fanout.first[node->id + 1]; e++) {
    dp_node *reader = p->o->graph->nodes[p->fanout.edges[e].node];
    if (reader)
      dp_rewrite_take_controls(&p->o->rewrite, reader, node);
  }
}

static void pass_through(dependency_pass *p, dp_node *node) {
  move_controls(p, node);
  dp_input *outputs = DP_ARENA_ARRAY(p->o->arena, dp_input, node->output_count);
  memcpy(outputs, node->inputs, sizeof(dp_input) * (size_t)node->output_count);
  dp_rewrite_replace(&p->o->rewrite, node, outputs, node->inputs[0].node);
  p->o->changes++;
}

/* ---- NoOp ---- */

static bool can_dissolve(const dependency_pass *p, const dp_node *node) {
  for (int32_t i = 0; i < node->control_count; i++)
    if (!node_same_device(node, p->o->graph->nodes[node->controls[i]]))
      return false;
  return can_move_controls(p, node);
}

static void dissolve(dependency_pass *p, dp_node *node) {
  for (int32_t e = p->fanout.first[node->id]; e < p->fanout.first[node->id + 1]; e++) {
    dp_node *reader = p->o->graph->nodes[p->fanout.edges[e].node];
    if (!reader)
      continue;
    dp_node_remove_control(reader, node->id);
    dp_rewrite_take_controls(&p->o->rewrite, reader, node);
  }
  dp_graph_remove(p->o->graph, node);
  p->o->changes++;
}

/* ---- Control edges ---- */

static bool is_read(const dp_node *node, int32_t source) {
  for (int32_t i = 0; i < node->input_count; i++)
    if (node->inputs[i].node == source)
      return true;
  return false;
}

static bool says_nothing(const dp_graph_optimizer *o, const dp_node *node, int32_t control) {
  const dp_node *source = o->graph->nodes[control];
  if (node_is_const(source) && source->control_count == 0)
    return true;
  return !dp_node_is_merge(node) && is_read(node, control);
}

static void drop_controls(dp_graph_optimizer *o, dp_node *node) {
  int32_t kept = 0;
  for (int32_t i = 0; i < node->control_count; i++)
    if (!says_nothing(o, node, node->controls[i]))
      node->controls[kept++] = node->controls[i];
  node->control_count = kept;
}

dp_status *dp_optimize_dependencies(dp_graph_optimizer *o) {
  dependency_pass p = {.o = o};
  dp_fanout_init(&p.fanout, o->graph);
  int32_t *order = dp_malloc(sizeof(*order) * (size_t)(o->graph->node_count + 1));
  int32_t count = dp_graph_order(o->graph, order);
  for (int32_t i = 0; i < count; i++) {
    dp_node *node = o->graph->nodes[order[i]];
    optimizer_refresh(o, node);
    drop_controls(o, node);
    if (optimizer_is_end(o, node))
      continue;
    if (is_pass_through(node) && can_pass(&p, node))
      pass_through(&p, node);
    else if (dp_node_is(node, "NoOp") && can_dissolve(&p, node))
      dissolve(&p, node);
  }
  dp_free(order);
  dp_fanout_deinit(&p.fanout);
  return NULL;
}
