/* Rendezvous: where Send meets Recv within a step.
 *
 * A key pairs one value with one receiver; either may come first. Nodes send and receive along an
 * edge (transfer_edge.h), which knows whether its other end is on another task: a receive of such a
 * value leaves through the remote table, which the worker fills (RecvTensor). Feeds, fetches and
 * peers that ask for a value come by the text of the key and are always local. An aborted
 * rendezvous answers every waiting and later call with the reason. All functions may be called from
 * any thread; callbacks run with no lock held. */
#ifndef DP_RUNTIME_RENDEZVOUS_H
#define DP_RUNTIME_RENDEZVOUS_H

#include "base/cancel.h"
#include "base/status.h"
#include "base/text.h"
#include "base/thread.h"
#include "runtime/transfer_edge.h"
#include "tensor/tensor.h"

typedef struct dp_rendezvous dp_rendezvous;
typedef struct dp_value dp_value; /* kernel.h */

/* Exactly one call. On success the callee owns *value (take it) unless is_dead. */
typedef void (*dp_rendezvous_done_fn)(void *arg, dp_status *status, dp_tensor *value, bool is_dead);

/* What happens to values of edges whose other end is on another task; filled by the worker. Senders
 * park their values until a peer asks; a table that pushes them would get a `send` here, called for
 * edges with route.is_remote. It must never push along an edge with is_reference
 * (transfer_edge.h). */
typedef struct dp_rendezvous_remote_ops {
  /* Fetches the value of `key` from the edge's source. The edge outlives the call, the key not. */
  void (*receive)(void *remote, int64_t step_id, const dp_transfer_edge *edge, dp_view key,
                  dp_cancel *cancel, dp_rendezvous_done_fn done, void *arg);
  /* Calls fn(fn_arg) on a thread that may wait for a variable's lock. NULL: the caller waits. */
  void (*run_later)(void *remote, dp_task_fn fn, void *fn_arg);
} dp_rendezvous_remote_ops;

/* `ops` may be NULL: everything is local. */
dp_rendezvous *dp_rendezvous_create(int64_t step_id, const dp_rendezvous_remote_ops *ops,
                                    void *remote);
dp_rendezvous *dp_rendezvous_retain(dp_rendezvous *rendezvous);
void dp_rendezvous_release(dp_rendezvous *rendezvous);

/* ---- By the text of a key: feeds, fetches, peers that ask. Never leaves the task. ---- */
/* Consumes *value (unset when dead). */
DP_MUST_USE dp_status *dp_rendezvous_send(dp_rendezvous *rendezvous, dp_view key, dp_tensor *value,
                                          bool is_dead);
/* `cancel` may be NULL. */
void dp_rendezvous_receive(dp_rendezvous *rendezvous, dp_view key, dp_cancel *cancel,
                           dp_rendezvous_done_fn done, void *arg);

/* ---- Along an edge: nodes. Frame and iteration are 0 outside of loops. ---- */
/* Consumes *value (unset when dead). A reference to a variable is read when a receiver takes it,
 * not before: TensorFlow parks a tensor that shares the variable's memory, and programs rely on
 * what that shows. */
DP_MUST_USE dp_status *dp_rendezvous_send_along(dp_rendezvous *rendezvous,
                                                const dp_transfer_edge *edge, uint64_t frame_id,
                                                int64_t iteration, dp_value *value, bool is_dead);
/* The edge must stay until `done`. */
void dp_rendezvous_receive_along(dp_rendezvous *rendezvous, const dp_transfer_edge *edge,
                                 uint64_t frame_id, int64_t iteration, dp_cancel *cancel,
                                 dp_rendezvous_done_fn done, void *arg);

/* Consumes `why`; the first one counts. */
void dp_rendezvous_abort(dp_rendezvous *rendezvous, dp_status *why);

/* Who waits here: calls visit for each pending receive, with its age. */
typedef void (*dp_rendezvous_visit_fn)(void *arg, dp_view key, int64_t waiting_nanos);
void dp_rendezvous_visit_waiting(dp_rendezvous *rendezvous, dp_rendezvous_visit_fn visit,
                                 void *arg);

#endif
