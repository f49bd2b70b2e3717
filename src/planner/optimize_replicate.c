/* Replicating constants: a small constant that is read on other devices gets a copy on each of
 * them. A copy costs nothing at run time; sending the value would cost a message per step. Only
 * constants that wait for nothing are copied: others belong to a branch or a loop, which may not
 * have a part on that device. */
#include "planner/optimize_internal.h"

#define MOST_ELEMENTS 16

typedef struct replica_list {
  DP_ARRAY(dp_node *) items; /* copies of the present constant, one per device */
} replica_list;

static bool can_replicate(const dp_node *node) {
  if (!node_is_const(node) || node->control_count > 0 || !node->assigned_device)
    return false;
  const dp_attr *value = dp_node_attr(node, "value");
  return value && value->kind == DP_ATTR_TENSOR && value->tensor->shape.elements <= MOST_ELEMENTS;
}

/* The copy on the reader's device; makes it when there is none. */
static dp_status *find_replica(dp_graph_optimizer *o, replica_list *replicas,
                               const dp_node *constant, const dp_node *reader,
                               dp_node **replica_out) {
  for (size_t i = 0; i < replicas->items.count; i++)
    if (node_same_device(replicas->items.items[i], reader)) {
      *replica_out = replicas->items.items[i];
      return NULL;
    }
  const char *name =
      dp_arena_printf(o->arena, "%s/replicate/_%zu", constant->name, replicas->items.count);
  DP_RETURN_IF_ERROR(optimizer_add(o, constant, "Const", name, NULL, 0, constant->attrs,
                                   constant->attr_count, replica_out));
  (*replica_out)->device = reader->device;
  (*replica_out)->assigned_device = reader->assigned_device;
  DP_ARRAY_PUSH(&replicas->items, *replica_out);
  return NULL;
}

static dp_status *replicate(dp_graph_optimizer *o, const dp_fanout *fanout, replica_list *replicas,
                            const dp_node *constant) {
  replicas->items.count = 0;
  for (int32_t e = fanout->first[constant->id]; e < fanout->first[constant->id + 1]; e++) {
    const dp_fanout_edge *edge = &fanout->edges[e];
    dp_node *reader = o->graph->nodes[edge->node], *replica;
    if (edge->input < 0 || node_same_device(constant, reader))
      continue;
    DP_RETURN_IF_ERROR(find_replica(o, replicas, constant, reader, &replica));
    dp_node_set_input(reader, edge->input, (dp_input){replica->id, 0});
    o->changes++;
  }
  return NULL;
}

dp_status *dp_optimize_replicate(dp_graph_optimizer *o) {
  dp_fanout fanout;
  dp_fanout_init(&fanout, o->graph);
  replica_list replicas = {0};
  dp_status *status = NULL;
  int32_t node_count = o->graph->node_count;
  for (int32_t id = 0; id < node_count && !status; id++)
    if (o->graph->nodes[id] && can_replicate(o->graph->nodes[id]))
      status = replicate(o, &fanout, &replicas, o->graph->nodes[id]);
  DP_ARRAY_FREE(&replicas.items);
  dp_fanout_deinit(&fanout);
  return status;
}
