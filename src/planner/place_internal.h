/* What the files of placement share: groups of nodes that must share a device, and which devices a
 * group may have. place.c assigns devices node by node; place_groups.c keeps the groups. A placer
 * lives for one call, on one thread; its arena holds everything but the device names. */
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

/* A device specification, maybe partial ("/job:ps"). Few differ, so each is kept once and named by
 * a number. Number 0 is the empty specification. */
typedef struct device_spec {
  dp_device_name name;
  device_list devices; /* that match; made when first asked for */
  bool has_devices;
} device_spec;

/* A node in the forest of groups. The specifications of a group are those of its root. `requested`
 * always includes the parts of `assigned` and of `resource`. */
typedef struct group_member {
  int32_t parent;
  int32_t rank;
  int32_t requested, assigned, resource; /* numbers of specifications */
} group_member;

typedef struct placer {
  dp_graph *graph;
  const dp_planner_devices *devices;
  const dp_planner_place_options *options;
  /* Nodes that cannot be placed get no device, and groups that contradict each other are not
   * joined. It is an error only when a plan needs such a node. */
  bool is_lenient;
  bool *is_refused; /* by id: could not be placed; an error if a plan needs it */
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
/* Reads the devices that nodes ask for, then joins groups: by references and resources, then by
 * `_class`. */
DP_MUST_USE dp_status *dp_groups_build(placer *p);
/* Where the node's group may go; never empty. */
DP_MUST_USE dp_status *dp_groups_candidates(placer *p, const dp_node *node,
                                            const device_list **candidates_out);
/* The node has been assigned this device: its whole group gets it. */
DP_MUST_USE dp_status *dp_groups_limit(placer *p, int32_t node, int32_t device);

#endif
