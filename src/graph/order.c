/* Walks over whole graphs: the readers of each node, an order in which nodes follow their inputs,
 * and the search for cycles that are not loops. All are linear in nodes and edges. The graph is
 * only read. */

#include "graph/graph_internal.h"

void dp_fanout_init(dp_fanout *fanout, const dp_graph *graph) {
  size_t count = (size_t)graph->node_count;
  int32_t *first = DP_NEW_ARRAY(int32_t, count + 2);
  /* first[n + 2] counts the readers of n; two sums later first[n] is where they start. */
  for (int32_t id = 0; id < graph->node_count; id++) {
    const dp_node *node = graph->nodes[id];
    if (!node)
      continue;
    for (int32_t i = 0; i < node->input_count; i++)
      first[node->inputs[i].node + 2]++;
    for (int32_t i = 0; i < node->control_count; i++)
      first[node->controls[i] + 2]++;
  }
  for (size_t i = 2; i < count + 2; i++)
    first[i] += first[i - 1];
  dp_fanout_edge *edges = dp_malloc(sizeof(*edges) * (size_t)(first[count + 1] + 1));
  for (int32_t id = 0; id < graph->node_count; id++) {
    const dp_node *node = graph->nodes[id];
    if (!node)
      continue;
    for (int32_t i = 0; i < node->input_count; i++)
      edges[first[node->inputs[i].node + 1]++] =
          (dp_fanout_edge){.node = id, .input = i, .output = node->inputs[i].output};
    for (int32_t i = 0; i < node->control_count; i++)
      edges[first[node->controls[i] + 1]++] =
          (dp_fanout_edge){.node = id, .input = -1, .output = -1};
  }
  *fanout = (dp_fanout){.first = first, .edges = edges};
}

void dp_fanout_deinit(dp_fanout *fanout) {
  dp_free(fanout->first);
  dp_free(fanout->edges);
  *fanout = (dp_fanout){0};
}

/* A data edge from NextIteration to Merge closes a loop; the order ignores it. */
static bool is_back_edge(const dp_graph *graph, int32_t from, const dp_fanout_edge *edge) {
  return edge->input >= 0 && dp_node_is_next_iteration(graph->nodes[from]) &&
         dp_node_is_merge(graph->nodes[edge->node]);
}

/* Kahn's algorithm, with a queue: first all nodes without inputs by id, then each node when its
 * last input has been taken. Nodes on a cycle are left out. */
static int32_t sort_nodes(const dp_graph *graph, int32_t *ids_out) {
  dp_fanout fanout;
  dp_fanout_init(&fanout, graph);
  int32_t *pending = DP_NEW_ARRAY(int32_t, (size_t)graph->node_count + 1);
  for (int32_t id = 0; id < graph->node_count; id++)
    for (int32_t e = fanout.first[id]; graph->nodes[id] && e < fanout.first[id + 1]; e++)
      pending[fanout.edges[e].node] += !is_back_edge(graph, id, &fanout.edges[e]);
  int32_t done = 0, found = 0;
  for (int32_t id = 0; id < graph->node_count; id++)
    if (graph->nodes[id] && pending[id] == 0)
      ids_out[found++] = id;
  for (; done < found; done++) {
    int32_t id = ids_out[done];
    for (int32_t e = fanout.first[id]; e < fanout.first[id + 1]; e++)
      if (!is_back_edge(graph, id, &fanout.edges[e]) && --pending[fanout.edges[e].node] == 0)
        ids_out[found++] = fanout.edges[e].node;
  }
  dp_free(pending);
  dp_fanout_deinit(&fanout);
  return found;
}

/* Whether the nodes from `first` on already follow their inputs, as in most graphs. */
static bool is_ordered(const dp_graph *graph, int32_t first) {
  for (int32_t id = first; id < graph->node_count; id++) {
    const dp_node *node = graph->nodes[id];
    if (!node)
      continue;
    for (int32_t i = 0; i < node->input_count; i++) {
      int32_t from = node->inputs[i].node;
      if (from >= id && !(dp_node_is_merge(node) && dp_node_is_next_iteration(graph->nodes[from])))
        return false;
    }
    for (int32_t i = 0; i < node->control_count; i++)
      if (node->controls[i] >= id)
        return false;
  }
  return true;
}

int32_t dp_graph_order(const dp_graph *graph, int32_t *ids_out) {
  if (!is_ordered(graph, 0))
    return sort_nodes(graph, ids_out);
  int32_t count = 0;
  for (int32_t id = 0; id < graph->node_count; id++)
    if (graph->nodes[id])
      ids_out[count++] = id;
  return count;
}

int32_t dp_graph_count_cyclic(const dp_graph *graph, int32_t first) {
  if (is_ordered(graph, first))
    return 0;
  int32_t *ids = dp_malloc(sizeof(*ids) * (size_t)(graph->node_count + 1));
  int32_t present = 0;
  for (int32_t id = 0; id < graph->node_count; id++)
    present += graph->nodes[id] != NULL;
  int32_t cyclic = present - sort_nodes(graph, ids);
  dp_free(ids);
  return cyclic;
}
