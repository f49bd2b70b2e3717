/* An edge that the partitioner cut: what its _Send and its _Recv know of each other.
 *
 * Everything that does not change from tensor to tensor is settled once, when the node's kernel is
 * made: the devices, the key's text, whether the other end is on another task, and who that task
 * is. Per tensor only frame and iteration are added. A kernel owns its edge; it does not change
 * after init, so any thread may read it. */
#ifndef DP_RUNTIME_TRANSFER_EDGE_H
#define DP_RUNTIME_TRANSFER_EDGE_H

#include "base/status.h"
#include "base/text.h"
#include "wire/rendezvous_key.h"

/* Where the other end of an edge is. */
typedef struct dp_edge_route {
  bool is_remote; /* on another task */
  void *peer; /* a receiver's source task, for the remote table of the rendezvous. NULL for local
                 edges and for senders: nothing is pushed yet */
} dp_edge_route;

/* How the edges of a graph find their other ends. Filled by the worker, which knows the session's
 * cluster. Used only while kernels are made; the peers that it gives outlive the kernels. */
typedef struct dp_edge_router {
  dp_status *(*resolve)(void *arg, const dp_rendezvous_key *key, bool is_sender,
                        dp_edge_route *route_out);
  void *arg;
} dp_edge_router;

typedef struct dp_transfer_edge {
  char *source, *destination; /* devices */
  char *name;
  uint64_t source_incarnation;
  dp_text key;   /* outside of loops */
  uint64_t hash; /* of that key, as the rendezvous wants it */
  dp_edge_route route;
  /* Set on the sender's end when the value is a variable behind a reference. Such a value goes out
   * only when its receiver asks for it, and is read then: the receiver asks after everything else
   * that its node waits for (planner/partition.c), so what is sent early is an old value. Whatever
   * pushes values must leave these edges alone. */
  bool is_reference;
} dp_transfer_edge;

/* Texts are copied; a name that is no device's is an INVALID_ARGUMENT. `router` NULL: everything is
 * local. The edge must be deinitialized in any case. */
DP_MUST_USE dp_status *dp_transfer_edge_init(dp_transfer_edge *edge, dp_view source,
                                             uint64_t source_incarnation, dp_view destination,
                                             dp_view name, bool is_sender,
                                             const dp_edge_router *router);
void dp_transfer_edge_deinit(dp_transfer_edge *edge);

/* Appends the key of one iteration of a loop. */
void dp_transfer_edge_print_key(const dp_transfer_edge *edge, uint64_t frame_id, int64_t iteration,
                                dp_text *text);

#endif
