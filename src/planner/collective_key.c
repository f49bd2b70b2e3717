/* The key of a graph with collective ops (dp_planner_collective_key): a hash of their instance
 * keys. Masters send it to the leader of the group, which gives masters with the same key the same
 * step ids. A master of genuine TensorFlow may be among them, so the key must be TensorFlow's to
 * the bit: the same constants, the same order, and functions looked into one level deep. */
#include <stdlib.h>
#include "base/memory.h"
#include "planner/planner.h"

static const uint64_t first_key = 0x8774aa605c729c72u;

typedef struct found_keys {
  DP_ARRAY(int32_t) keys;
  bool has_inputs; /* some op has its key as an input, so it is not known here */
} found_keys;

static bool is_one_of(const char *op, const char *const *names, size_t count) {
  for (size_t i = 0; i < count; i++) {
    if (strcmp(op, names[i]) == 0)
      return true;
  }
  return false;
}

static bool has_key_as_attribute(const char *op) {
  static const char *const names[] = {"CollectiveReduce", "CollectiveGather", "CollectiveBcastSend",
                                      "CollectiveBcastRecv"};
  return is_one_of(op, names, sizeof(names) / sizeof(*names));
}

static bool has_key_as_input(const char *op) {
  static const char *const names[] = {"CollectiveReduceV2", "CollectiveGatherV2",
                                      "CollectiveBcastSendV2", "CollectiveBcastRecvV2",
                                      "CollectiveAllToAllV2"};
  return is_one_of(op, names, sizeof(names) / sizeof(*names));
}

static void look_at_body(const Tensorflow__FunctionDef *function, found_keys *found) {
  for (size_t i = 0; i < function->n_node_def; i++) {
    const Tensorflow__NodeDef *node = function->node_def[i];
    const Tensorflow__AttrValue *key = dp_wire_node_attr(node, "instance_key");
    if (has_key_as_attribute(node->op) && key)
      DP_ARRAY_PUSH(&found->keys, (int32_t)key->i);
    found->has_inputs |= has_key_as_input(node->op);
  }
}

static void look_at_node(const dp_graph *graph, const dp_node *node, found_keys *found) {
  int64_t key;
  if (has_key_as_attribute(node->op->name)) {
    dp_status *status = dp_node_get_int(node, "instance_key", &key);
    if (!status)
      DP_ARRAY_PUSH(&found->keys, (int32_t)key);
    dp_status_release(status);
  } else if (has_key_as_input(node->op->name)) {
    found->has_inputs = true;
  } else if (node->op->is_function) {
    const dp_function *function = dp_library_find(graph->library, node->op->name);
    if (function)
      look_at_body(function->definition, found);
  }
}

static int compare(const void *a, const void *b) {
  int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
  return (x > y) - (x < y);
}

static uint64_t combine(uint64_t a, uint64_t b) {
  return a ^ (b + 0x9e3779b97f4a7800u + (a << 10) + (a >> 4));
}

/* In ascending order; a key that repeats counts once. */
static uint64_t hash_keys(found_keys *found) {
  uint64_t hash = first_key;
  qsort(found->keys.items, found->keys.count, sizeof(int32_t), compare);
  for (size_t i = 0; i < found->keys.count; i++) {
    if (i == 0 || found->keys.items[i] != found->keys.items[i - 1])
      hash = combine((uint64_t)(int64_t)found->keys.items[i], hash);
  }
  return hash;
}

int64_t dp_planner_collective_key(const dp_graph *graph) {
  found_keys found = {0};
  for (int32_t i = 0; i < graph->node_count; i++) {
    if (graph->nodes[i])
      look_at_node(graph, graph->nodes[i], &found);
  }
  uint64_t key = 0;
  if (found.keys.count > 0)
    key = hash_keys(&found);
  else if (found.has_inputs)
    key = first_key;
  DP_ARRAY_FREE(&found.keys);
  return (int64_t)key;
}
