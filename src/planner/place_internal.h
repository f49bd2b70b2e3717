/* Placement's own: groups of nodes that share a device, and what devices a group may have. */
#ifndef DP_PLANNER_PLACE_INTERNAL_H
#define DP_PLANNER_PLACE_INTERNAL_H

#include "planner/planner_internal.h"
#include "wire/device_name.h"

/* Indices of devices, best first. */
typedef struct device_list {
  int32_t *items;
  int32_t count;
} device_list;
static inline bool device_list_has(const device_list *list, int32_t device) {
  for (int32_t i = 0; i < list->count; i++)
    if (list->items[i] == device)
      return true;
  return false;
}

/* Specifications are few and nodes are many: each is kept once, under a number. 0 says nothing. */
typedef struct device_spec {
  dp_device_name name;
  device_list devices; /* that match; made when first asked for */
  bool has_devices;
} device_spec;

/* A node's place in the forest of groups; the wishes count at roots. A requested device always
 * has the parts of the assigned one and of the resource's. */
typedef struct group_member {
  int32_t parent;
  int32_t rank;
  int32_t requested, assigned, resource; /* numbers of specifications */
} group_member;

typedef struct placer {
  dp_graph *graph;
  const dp_planner_devices *devices;
  const dp_planner_place_options *options;
  /* Leave what cannot be placed without a device, and contradicting groups apart: an error is due
   * only when a plan needs such a node. */
  bool is_lenient;
  bool *is_refused; /* by id: what may have to be an error later */
  bool has_refused;
  int32_t *assigned; /* by id: index of a device, or -1 */
  dp_fanout fanout;
  dp_arena *arena;
  group_member *members;
  dp_map *spec_texts; /* text -> number + 1 */
  DP_ARRAY(device_spec) specs;
  int32_t *device_specs; /* by device */
} placer;

void dp_groups_init(placer *p);
void dp_groups_deinit(placer *p);
/* Wishes of nodes, then references and resources, then `_class`. */
DP_MUST_USE dp_status *dp_groups_build(placer *p);
/* Where the node's group may go; never empty. */
DP_MUST_USE dp_status *dp_groups_candidates(placer *p, const dp_node *node,
                                            const device_list **candidates_out);
/* A member has gone to this device: so do the others. */
DP_MUST_USE dp_status *dp_groups_limit(placer *p, int32_t node, int32_t device);

#endif
