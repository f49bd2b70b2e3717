/* Common subexpressions: pure nodes with the same op, attributes, inputs, controls and device give
 * the same results, so one of them is enough. Nodes are visited in an order in which inputs come
 * first, so that equal trees collapse from their leaves. Equal inputs and controls also mean the
 * same loop and branch. */
#include <string.h>

#include "planner/optimize_internal.h"

/* Larger constants are not compared: hashing them costs more than it gains. */
#define LARGEST_CONSTANT (256 * 1024)

static uint64_t mix(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) * 0x9e3779b97f4a7c15u;
  return hash ^ hash >> 29;
}

/* An attribute that clients add and no kernel reads: nodes that differ in it are equal. */
static bool is_note(const dp_attr *attr) {
  return strcmp(attr->name, "_output_shapes") == 0 || strcmp(attr->name, "_class") == 0;
}

static uint64_t hash_node(const dp_node *node) {
  uint64_t hash = mix(1, (uintptr_t)node->op);
  for (int32_t i = 0; i < node->input_count; i++)
    hash = mix(hash, (uint64_t)node->inputs[i].node << 32 | (uint32_t)node->inputs[i].output);
  for (int32_t i = 0; i < node->control_count; i++)
    hash = mix(hash, (uint64_t)node->controls[i]);
  for (int32_t i = 0; i < node->attr_count; i++)
    if (!is_note(&node->attrs[i]))
      hash = mix(hash, dp_attr_hash(&node->attrs[i]));
  return hash;
}

static bool are_attrs_equal(const dp_node *a, const dp_node *b) {
  int32_t i = 0, k = 0;
  for (;; i++, k++) {
    while (i < a->attr_count && is_note(&a->attrs[i]))
      i++;
    while (k < b->attr_count && is_note(&b->attrs[k]))
      k++;
    if (i == a->attr_count || k == b->attr_count)
      return i == a->attr_count && k == b->attr_count;
    if (strcmp(a->attrs[i].name, b->attrs[k].name) != 0 ||
        !dp_attr_equal(&a->attrs[i], &b->attrs[k]))
      return false;
  }
}

static bool are_equal(const dp_node *a, const dp_node *b) {
  if (a->op != b->op || a->input_count != b->input_count || a->control_count != b->control_count ||
      !node_same_device(a, b))
    return false;
  for (int32_t i = 0; i < a->input_count; i++)
    if (a->inputs[i].node != b->inputs[i].node || a->inputs[i].output != b->inputs[i].output)
      return false;
  for (int32_t i = 0; i < a->control_count; i++)
    if (a->controls[i] != b->controls[i])
      return false;
  return are_attrs_equal(a, b);
}

static bool can_share(const dp_graph_optimizer *o, const dp_node *node) {
  if (!node_is_pure(node) || optimizer_is_end(o, node))
    return false;
  const dp_attr *value = node_is_const(node) ? dp_node_attr(node, "value") : NULL;
  return !value || dp_tensor_bytes(value->tensor) <= LARGEST_CONSTANT;
}

/* A hash table of node ids, with open addressing. */
typedef struct node_table {
  struct {
    uint64_t hash;
    int32_t id; /* -1: free */
  } * slots;
  uint32_t mask;
} node_table;

/* The equal node in the table; NULL when there was none, and then `node` has been put in. */
static dp_node *find_or_put(const node_table *table, const dp_graph *graph, const dp_node *node) {
  uint64_t hash = hash_node(node);
  uint32_t at = (uint32_t)(hash >> 16) & table->mask;
  for (; table->slots[at].id >= 0; at = (at + 1) & table->mask)
    if (table->slots[at].hash == hash && are_equal(graph->nodes[table->slots[at].id], node))
      return graph->nodes[table->slots[at].id];
  table->slots[at].hash = hash;
  table->slots[at].id = node->id;
  return NULL;
}

static void share(dp_graph_optimizer *o, dp_node *node, const dp_node *twin) {
  dp_input *outputs = DP_ARENA_ARRAY(o->arena, dp_input, node->output_count);
  for (int32_t i = 0; i < node->output_count; i++)
    outputs[i] = (dp_input){twin->id, i};
  dp_rewrite_replace(&o->rewrite, node, outputs, twin->id);
  o->changes++;
}

dp_status *dp_optimize_duplicates(dp_graph_optimizer *o) {
  dp_graph *graph = o->graph;
  int32_t *order = dp_malloc(sizeof(*order) * (size_t)(graph->node_count + 1));
  int32_t count = dp_graph_order(graph, order);
  uint32_t capacity = 16;
  while (capacity < (uint32_t)count * 2)
    capacity *= 2;
  node_table table = {.mask = capacity - 1};
  table.slots = dp_malloc(sizeof(*table.slots) * capacity);
  memset(table.slots, 0xff, sizeof(*table.slots) * capacity);
  for (int32_t i = 0; i < count; i++) {
    dp_node *node = graph->nodes[order[i]];
    optimizer_refresh(o, node);
    const dp_node *twin = can_share(o, node) ? find_or_put(&table, graph, node) : NULL;
    if (twin)
      share(o, node, twin);
  }
  dp_free(table.slots);
  dp_free(order);
  return NULL;
}
