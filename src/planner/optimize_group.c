/* Grouping control edges: a node that waits for several nodes of one other device waits for a NoOp
 * there instead, which waits for them: one message instead of several. Nodes that wait for the
 * same nodes share the NoOp. A Merge is left alone: it runs even when what it waits for is dead,
 * and a NoOp does not. */
#include <stdlib.h>
#include <string.h>

#include "planner/optimize_internal.h"

typedef struct group_pass {
  dp_graph_optimizer *o;
  dp_map *groups; /* device and ids -> NoOp */
  dp_text key;
} group_pass;

static int compare_devices(const void *a, const void *b, void *arg) {
  const dp_graph *graph = arg;
  int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
  int order = strcmp(graph->nodes[x]->assigned_device, graph->nodes[y]->assigned_device);
  return order ? order : (x > y) - (x < y);
}

static dp_status *find_group(group_pass *p, const int32_t *ids, size_t count, dp_node **group_out) {
  const dp_node *first = p->o->graph->nodes[ids[0]];
  dp_text_clear(&p->key);
  dp_text_add(&p->key, first->assigned_device);
  dp_text_append(&p->key, ids, sizeof(*ids) * count);
  *group_out = dp_map_get_n(p->groups, p->key.data, p->key.length);
  if (*group_out)
    return NULL;
  const char *name = dp_arena_printf(p->o->arena, "%s/group_deps", first->name);
  DP_RETURN_IF_ERROR(optimizer_add(p->o, first, "NoOp", name, NULL, 0, NULL, 0, group_out));
  dp_planner_add_controls(p->o->graph, *group_out, ids, count);
  dp_map_put_n(p->groups, p->key.data, p->key.length, *group_out);
  p->o->changes++;
  return NULL;
}

/* Whether the node waits for two or more nodes of other devices. */
static bool has_work(const dp_graph *graph, const dp_node *node) {
  int32_t away = 0;
  for (int32_t i = 0; i < node->control_count && away < 2; i++)
    away += !node_same_device(node, graph->nodes[node->controls[i]]);
  return away == 2 && !dp_node_is_merge(node);
}

static dp_status *group_controls(group_pass *p, dp_node *node) {
  dp_graph *graph = p->o->graph;
  int32_t count = node->control_count;
  int32_t *ids = DP_ARENA_ARRAY(p->o->arena, int32_t, count);
  int32_t *kept = DP_ARENA_ARRAY(p->o->arena, int32_t, count);
  size_t kept_count = 0;
  memcpy(ids, node->controls, sizeof(*ids) * (size_t)count);
  qsort_r(ids, (size_t)count, sizeof(*ids), compare_devices, graph);
  for (int32_t begin = 0, end; begin < count; begin = end) {
    const dp_node *first = graph->nodes[ids[begin]];
    for (end = begin + 1; end < count && node_same_device(first, graph->nodes[ids[end]]);)
      end++;
    if (end - begin == 1 || node_same_device(first, node)) {
      memcpy(kept + kept_count, ids + begin, sizeof(*ids) * (size_t)(end - begin));
      kept_count += (size_t)(end - begin);
      continue;
    }
    dp_node *group;
    DP_RETURN_IF_ERROR(find_group(p, ids + begin, (size_t)(end - begin), &group));
    kept[kept_count++] = group->id;
  }
  memcpy(node->controls, kept, sizeof(*kept) * kept_count);
  node->control_count = dp_planner_sort_ids(node->controls, (int32_t)kept_count);
  return NULL;
}

dp_status *dp_optimize_group(dp_graph_optimizer *o) {
  group_pass p = {.o = o, .groups = dp_map_create()};
  dp_status *status = NULL;
  int32_t node_count = o->graph->node_count;
  for (int32_t id = 0; id < node_count && !status; id++) {
    dp_node *node = o->graph->nodes[id];
    if (node && node->assigned_device && has_work(o->graph, node))
      status = group_controls(&p, node);
  }
  dp_text_deinit(&p.key);
  dp_map_destroy(p.groups);
  return status;
}
