/* Groups of nodes that must share a device: a forest with union by rank, with the members' wishes
 * merged at the root. A group has three device specifications, as in TensorFlow: `requested`, what
 * its members asked for; `resource`, what the producer of a resource asked for, which readers
 * cannot override; `assigned`, what has been decided. With soft placement a wish for a device type
 * or number that does not exist is dropped; a wish for a task never is. One thread per placer. */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "planner/place_internal.h"

/* ---- Specifications ---- */

static int32_t add_spec(placer *p, const char *text, const dp_device_name *name) {
  device_spec spec = {.name = *name};
  DP_ARRAY_PUSH(&p->specs, spec);
  dp_map_put(p->spec_texts, text, (void *)(uintptr_t)p->specs.count);
  return (int32_t)p->specs.count - 1;
}

/* The number of a name, by its canonical text. */
static int32_t intern(placer *p, const dp_device_name *name) {
  char text[DP_DEVICE_NAME_SIZE];
  dp_device_name_format(name, text);
  uintptr_t known = (uintptr_t)dp_map_get(p->spec_texts, text);
  return known ? (int32_t)known - 1 : add_spec(p, text, name);
}

static dp_status *parse_spec(placer *p, const char *text, int32_t *spec_out) {
  uintptr_t known = (uintptr_t)dp_map_get(p->spec_texts, text);
  if (known) {
    *spec_out = (int32_t)known - 1;
    return NULL;
  }
  dp_device_name name;
  DP_RETURN_IF_ERROR(dp_device_name_parse(dp_view_of(text), &name));
  *spec_out = intern(p, &name);
  if (!dp_map_get(p->spec_texts, text))
    dp_map_put(p->spec_texts, text, (void *)(uintptr_t)(*spec_out + 1));
  return NULL;
}

static dp_status *merge_specs(placer *p, int32_t a, int32_t b, bool allow_soft,
                              int32_t *merged_out) {
  if (a == b || b == 0) {
    *merged_out = a;
    return NULL;
  }
  if (a == 0) {
    *merged_out = b;
    return NULL;
  }
  dp_device_name name = p->specs.items[a].name;
  DP_RETURN_IF_ERROR(dp_device_name_merge(&name, &p->specs.items[b].name, allow_soft));
  *merged_out = intern(p, &name);
  return NULL;
}

static int32_t override_spec(placer *p, int32_t target, int32_t by) {
  if (target == by || by == 0)
    return target;
  dp_device_name name = p->specs.items[target].name;
  dp_device_name_override(&name, &p->specs.items[by].name);
  return intern(p, &name);
}

/* Whether the parts that both specifications have are equal. */
static bool are_compatible(const placer *p, int32_t a, int32_t b) {
  const dp_device_name *x = &p->specs.items[a].name, *y = &p->specs.items[b].name;
  return !(x->has_job && y->has_job && strcmp(x->job, y->job) != 0) &&
         !(x->has_replica && y->has_replica && x->replica != y->replica) &&
         !(x->has_task && y->has_task && x->task != y->task) &&
         !(x->has_type && y->has_type && strcmp(x->type, y->type) != 0) &&
         !(x->has_id && y->has_id && x->id != y->id);
}

static const char *spec_text(const placer *p, int32_t spec, char buffer[DP_DEVICE_NAME_SIZE]) {
  return dp_device_name_format(&p->specs.items[spec].name, buffer);
}

/* ---- The forest ---- */

static int32_t find_root(placer *p, int32_t id) {
  group_member *members = p->members;
  int32_t root = id;
  while (members[root].parent != root)
    root = members[root].parent;
  while (members[id].parent != root) {
    int32_t next = members[id].parent;
    members[id].parent = root;
    id = next;
  }
  return root;
}

static dp_status *merge_wishes(placer *p, group_member *into, const group_member *from) {
  int32_t assigned, resource, requested;
  DP_RETURN_IF_ERROR(merge_specs(p, into->assigned, from->assigned, false, &assigned));
  DP_RETURN_IF_ERROR(merge_specs(p, into->resource, from->resource, false, &resource));
  DP_RETURN_IF_ERROR(merge_specs(p, into->requested, from->requested,
                                 p->options->allow_soft_placement, &requested));
  requested = override_spec(p, requested, assigned);
  requested = override_spec(p, requested, resource);
  into->assigned = assigned;
  into->resource = resource;
  into->requested = requested;
  return NULL;
}

static dp_status *colocate(placer *p, int32_t x, int32_t y) {
  int32_t into = find_root(p, x), from = find_root(p, y);
  if (into == from)
    return NULL;
  if (p->members[into].rank < p->members[from].rank) {
    int32_t swap = into;
    into = from;
    from = swap;
  }
  dp_status *status = merge_wishes(p, &p->members[into], &p->members[from]);
  if (status)
    return dp_status_annotate(status,
                              "Cannot colocate nodes {{colocation_node %s}} and {{colocation_node "
                              "%s}}",
                              p->graph->nodes[x]->name, p->graph->nodes[y]->name);
  if (p->members[into].rank == p->members[from].rank)
    p->members[into].rank++;
  p->members[from].parent = into;
  return NULL;
}

/* ---- Building ---- */

static dp_status *init_member(placer *p, const dp_node *node) {
  group_member *member = &p->members[node->id];
  *member = (group_member){.parent = node->id};
  if (p->assigned[node->id] >= 0) {
    member->assigned = member->requested = p->device_specs[p->assigned[node->id]];
    return NULL;
  }
  if (!*node->device)
    return NULL;
  dp_status *status = parse_spec(p, node->device, &member->requested);
  if (status) {
    dp_status_release(status);
    return DP_INVALID("Malformed device specification '%s' in node: %s\n\t [[{{node %s}}]]",
                      node->device, node->name, node->name);
  }
  bool makes_resource =
      node->input_count == 0 && node->output_count == 1 &&
      (dp_dtype_is_ref(node->output_types[0]) || node->output_types[0] == DP_RESOURCE);
  if (makes_resource)
    member->resource = member->requested;
  return NULL;
}

/* Ops that may read a resource of another device: they only pass the handle on. */
static bool may_take_foreign_handles(const dp_node *node) {
  static const char *const ops[] = {
      "_Send",
      "_Retval",
      "IdentityN",
      "PartitionedCall",
      "StatefulPartitionedCall",
      "ParallelMapDataset",
      "ParallelInterleaveDatasetV2",
      "MapDataset",
      "InterleaveDataset",
      "DeleteMultiDeviceIterator",
      "GroupByReducerDataset",
      "ExperimentalGroupByReducerDataset",
      "ParallelInterleaveDataset",
      "ExperimentalParallelInterleaveDataset",
      "ScanDataset",
      "ExperimentalScanDataset",
      "MapAndBatchDataset",
      "ExperimentalMapAndBatchDataset",
      "GroupByWindowDataset",
      "ExperimentalGroupByWindowDataset",
      "TakeWhileDataset",
      "ExperimentalTakeWhileDataset",
      "ReduceDataset",
      "FlatMapDataset",
      "FilterDataset",
  };
  for (size_t i = 0; i < sizeof(ops) / sizeof(*ops); i++)
    if (dp_node_is(node, ops[i]))
      return true;
  return false;
}

/* Joins the groups at both ends of a reference or resource. Where wishes differ, the producer's
 * counts. */
static dp_status *colocate_edge(placer *p, const dp_node *source, const dp_node *reader) {
  const group_member *from = &p->members[find_root(p, source->id)];
  group_member *to = &p->members[find_root(p, reader->id)];
  char a[DP_DEVICE_NAME_SIZE], b[DP_DEVICE_NAME_SIZE];
  const char *what = NULL;
  if (!are_compatible(p, from->assigned, to->assigned))
    what = "assigned", spec_text(p, from->assigned, a), spec_text(p, to->assigned, b);
  else if (!are_compatible(p, from->resource, to->resource))
    what = "resource", spec_text(p, from->resource, a), spec_text(p, to->resource, b);
  if (what)
    return DP_INVALID("Cannot place the graph because a reference or resource edge connects "
                      "colocation groups with incompatible %s devices: %s vs %s. The edge src node "
                      "is %s , and the dst node is %s",
                      what, a, b, source->name, reader->name);
  if (!are_compatible(p, from->requested, to->requested)) {
    int32_t wish = override_spec(p, from->requested, to->assigned);
    to->requested = override_spec(p, wish, to->resource);
  }
  dp_status *status = colocate(p, source->id, reader->id);
  if (!status)
    return NULL;
  status = dp_status_annotate(status,
                              "Nodes were connected by a reference connection (requiring them to "
                              "be on the same device), but the two nodes were assigned two "
                              "different devices");
  return dp_status_append(status, "\n\t [[{{node %s}}]]", reader->name);
}

/* When the placer is lenient: marks both nodes as refused and returns NULL instead of the error. */
static dp_status *forgive(placer *p, dp_status *status, int32_t first, int32_t second) {
  if (!status || !p->is_lenient)
    return status;
  dp_status_release(status);
  p->is_refused[first] = p->is_refused[second] = p->has_refused = true;
  return NULL;
}

static dp_status *colocate_edges(placer *p) {
  for (int32_t id = 0; id < p->graph->node_count; id++) {
    const dp_node *node = p->graph->nodes[id];
    for (int32_t i = 0; node && i < node->input_count; i++) {
      int32_t type = node->input_types[i];
      if ((type != DP_RESOURCE && !dp_dtype_is_ref(type)) || may_take_foreign_handles(node))
        continue;
      int32_t source = node->inputs[i].node;
      dp_status *status = colocate_edge(p, p->graph->nodes[source], node);
      DP_RETURN_IF_ERROR(forgive(p, status, source, id));
    }
  }
  return NULL;
}

static dp_status *join_group(placer *p, dp_map *groups, const dp_node *node, dp_view group) {
  const dp_node *first = dp_map_get_n(groups, group.data, group.length);
  if (!first) {
    dp_map_put_n(groups, group.data, group.length, (void *)node);
    return NULL;
  }
  dp_status *status = colocate(p, node->id, first->id);
  if (!status)
    return NULL;
  if (!p->options->allow_soft_placement)
    return forgive(p, dp_status_append(status, "\n\t [[{{node %s}}]]", node->name), node->id,
                   first->id);
  if (p->options->log_placement)
    DP_LOG(PLANNER, INFO,
           "Ignoring request to colocate node '%s' with nodes in colocation group '%.*s' because "
           "soft placement is on: %s",
           node->name, (int)group.length, group.data, dp_status_message(status));
  dp_status_release(status);
  return NULL;
}

/* Joins the node to the groups that its `_class` names and to the group of its own name. */
static dp_status *join_groups(placer *p, dp_map *groups, const dp_node *node) {
  const dp_attr *classes = dp_node_attr(node, "_class");
  for (int32_t i = 0; classes && classes->kind == DP_ATTR_LIST_STRING && i < classes->count; i++) {
    dp_view group = classes->strings[i];
    if (dp_view_consume(&group, "loc:@"))
      DP_RETURN_IF_ERROR(join_group(p, groups, node, group));
  }
  return join_group(p, groups, node, dp_view_of(node->name));
}

/* Whether a node has a `_class`. Without one there is nothing to join. */
static bool has_classes(const dp_graph *graph) {
  for (int32_t id = 0; id < graph->node_count; id++)
    if (graph->nodes[id] && dp_node_attr(graph->nodes[id], "_class"))
      return true;
  return false;
}

static dp_status *colocate_classes(placer *p) {
  if (!has_classes(p->graph))
    return NULL;
  dp_map *groups = dp_map_create();
  dp_map_reserve(groups, (size_t)p->graph->node_count);
  dp_status *status = NULL;
  for (int32_t id = 0; id < p->graph->node_count && !status; id++)
    if (p->graph->nodes[id])
      status = join_groups(p, groups, p->graph->nodes[id]);
  dp_map_destroy(groups);
  return status;
}

void dp_groups_init(placer *p) {
  p->arena = dp_arena_create();
  p->members = DP_NEW_ARRAY(group_member, (size_t)p->graph->node_count + 1);
  p->is_refused = DP_ARENA_ARRAY(p->arena, bool, p->graph->node_count + 1);
  p->spec_texts = dp_map_create();
  add_spec(p, "", &(dp_device_name){0});
}

void dp_groups_deinit(placer *p) {
  DP_ARRAY_FREE(&p->specs);
  dp_map_destroy(p->spec_texts);
  dp_free(p->members);
  dp_arena_destroy(p->arena);
}

dp_status *dp_groups_build(placer *p) {
  p->device_specs = DP_ARENA_ARRAY(p->arena, int32_t, p->devices->count);
  for (size_t i = 0; i < p->devices->count; i++)
    DP_RETURN_IF_ERROR(parse_spec(p, p->devices->items[i].name, &p->device_specs[i]));
  for (int32_t id = 0; id < p->graph->node_count; id++)
    if (p->graph->nodes[id])
      DP_RETURN_IF_ERROR(forgive(p, init_member(p, p->graph->nodes[id]), id, id));
  DP_RETURN_IF_ERROR(colocate_edges(p));
  return colocate_classes(p);
}

dp_status *dp_groups_limit(placer *p, int32_t node, int32_t device) {
  group_member *root = &p->members[find_root(p, node)];
  int32_t spec = p->device_specs[device];
  int32_t merged = spec;
  dp_status *status = merge_specs(p, root->assigned, spec, false, &merged);
  if (status)
    return dp_status_annotate(status,
                              "Node '%s' cannot be on %s, where a node that must be with it is not",
                              p->graph->nodes[node]->name, p->devices->items[device].name);
  root->assigned = root->resource = root->requested = spec; /* a full name overrides all */
  return NULL;
}

/* ---- Candidates ---- */

typedef struct device_rank {
  const dp_planner_devices *devices;
  const dp_device_name *client;
  const device_spec *specs;
  const int32_t *device_specs;
} device_rank;

/* CPUs first, since we do not know which ops another device has. Then the client's task, then by
 * name. */
static int compare_devices(const void *a, const void *b, void *arg) {
  const device_rank *rank = arg;
  int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
  bool x_cpu = strcmp(rank->devices->items[x].type, "CPU") == 0;
  bool y_cpu = strcmp(rank->devices->items[y].type, "CPU") == 0;
  if (x_cpu != y_cpu)
    return x_cpu ? -1 : 1;
  bool x_near = dp_device_name_same_task(&rank->specs[rank->device_specs[x]].name, rank->client);
  bool y_near = dp_device_name_same_task(&rank->specs[rank->device_specs[y]].name, rank->client);
  if (x_near != y_near)
    return x_near ? -1 : 1;
  return strcmp(rank->devices->items[x].name, rank->devices->items[y].name);
}

static const device_list *matching_devices(placer *p, int32_t spec) {
  device_spec *wanted = &p->specs.items[spec];
  if (wanted->has_devices)
    return &wanted->devices;
  device_list list = {.items = DP_ARENA_ARRAY(p->arena, int32_t, p->devices->count)};
  for (size_t i = 0; i < p->devices->count; i++)
    if (dp_device_name_accepts(&wanted->name, &p->specs.items[p->device_specs[i]].name))
      list.items[list.count++] = (int32_t)i;
  device_rank rank = {p->devices, &p->specs.items[p->device_specs[p->devices->client]].name,
                      p->specs.items, p->device_specs};
  qsort_r(list.items, (size_t)list.count, sizeof(*list.items), compare_devices, &rank);
  wanted->devices = list;
  wanted->has_devices = true;
  return &wanted->devices;
}

/* The requested specification without device type and number. A part stays when it was assigned, or
 * when a resource asked for it and `keep_resource` is set. */
static int32_t soften(placer *p, const group_member *root, bool keep_resource) {
  dp_device_name soft = p->specs.items[root->requested].name;
  const dp_device_name *assigned = &p->specs.items[root->assigned].name;
  const dp_device_name *resource = &p->specs.items[root->resource].name;
  if (!assigned->has_type && !(keep_resource && resource->has_type)) {
    soft.has_type = false;
    soft.type[0] = 0;
  }
  if (!assigned->has_id && !(keep_resource && resource->has_id)) {
    soft.has_id = false;
    soft.id = 0;
  }
  return intern(p, &soft);
}

static int compare_names(const void *a, const void *b) {
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void list_devices(const placer *p, dp_text *text) {
  const char **names = DP_ARENA_ARRAY(p->arena, const char *, p->devices->count);
  for (size_t i = 0; i < p->devices->count; i++)
    names[i] = p->devices->items[i].name;
  qsort(names, p->devices->count, sizeof(*names), compare_names);
  for (size_t i = 0; i < p->devices->count; i++)
    dp_text_printf(text, "%s%s", i ? ", " : "", names[i]);
}

static dp_status *no_candidates(placer *p, const dp_node *node, const group_member *root) {
  dp_text list = {0};
  list_devices(p, &list);
  int32_t own = 0;
  dp_status *status = parse_spec(p, node->device, &own);
  dp_status_release(status);
  char wanted[DP_DEVICE_NAME_SIZE];
  if (own == root->requested) {
    bool is_gpu = strcasecmp(p->specs.items[own].name.type, "gpu") == 0;
    status = DP_INVALID("{{node %s}} was explicitly assigned to %s but available devices are [ %s "
                        "]. Make sure the device specification refers to a valid device.%s",
                        node->name, node->device, list.data,
                        is_gpu ? " The requested device appears to be a GPU, but CUDA is not "
                                 "enabled."
                               : "");
  } else {
    status = DP_INVALID("Could not satisfy explicit device specification '%s' because the node "
                        "{{colocation_node %s}} was colocated with a group of nodes that required "
                        "incompatible device '%s'. All available devices [%s]. ",
                        node->device, node->name, spec_text(p, root->requested, wanted), list.data);
  }
  dp_text_deinit(&list);
  return status;
}

dp_status *dp_groups_candidates(placer *p, const dp_node *node,
                                const device_list **candidates_out) {
  const group_member *root = &p->members[find_root(p, node->id)];
  const device_list *list = matching_devices(p, root->requested);
  if (list->count == 0 && p->options->allow_soft_placement) {
    list = matching_devices(p, soften(p, root, true));
    if (list->count == 0)
      list = matching_devices(p, soften(p, root, false));
  }
  if (list->count == 0)
    return no_candidates(p, node, root);
  *candidates_out = list;
  return NULL;
}
