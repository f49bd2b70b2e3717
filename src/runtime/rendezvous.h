/* Rendezvous: where Send meets Recv within a step.
 *
 * A key pairs one value with one receiver; either may come first. Keys whose source is another task
 * leave through the remote table, which the worker fills (RecvTensor). An aborted rendezvous
 * answers every waiting and later call with the reason. All functions may be called from any
 * thread; callbacks run with no lock held. */
#ifndef DP_RUNTIME_RENDEZVOUS_H
#define DP_RUNTIME_RENDEZVOUS_H

#include "base/cancel.h"
#include "base/status.h"
#include "base/text.h"
#include "tensor/tensor.h"

typedef struct dp_rendezvous dp_rendezvous;

/* Exactly one call. On success the callee owns *value (take it) unless is_dead. */
typedef void (*dp_rendezvous_done_fn)(void *arg, dp_status *status, dp_tensor *value, bool is_dead);

/* How a receive from another task is made; filled by the worker. */
typedef struct dp_rendezvous_remote_ops {
  /* Whether the full key belongs to another task, so that receive() must fetch it. */
  bool (*is_remote)(void *remote, dp_view key);
  void (*receive)(void *remote, int64_t step_id, dp_view key, dp_cancel *cancel,
                  dp_rendezvous_done_fn done, void *arg);
  void (*release)(void *remote);
} dp_rendezvous_remote_ops;

/* `ops` may be NULL: everything is local. */
dp_rendezvous *dp_rendezvous_create(int64_t step_id, const dp_rendezvous_remote_ops *ops,
                                    void *remote);
dp_rendezvous *dp_rendezvous_retain(dp_rendezvous *rendezvous);
void dp_rendezvous_release(dp_rendezvous *rendezvous);

/* Consumes *value (unset when dead). */
DP_MUST_USE dp_status *dp_rendezvous_send(dp_rendezvous *rendezvous, dp_view key, dp_tensor *value,
                                          bool is_dead);
/* `cancel` may be NULL. */
void dp_rendezvous_receive(dp_rendezvous *rendezvous, dp_view key, dp_cancel *cancel,
                           dp_rendezvous_done_fn done, void *arg);
/* As above for keys that a peer asks this task for: never goes out again. */
void dp_rendezvous_receive_local(dp_rendezvous *rendezvous, dp_view key, dp_cancel *cancel,
                                 dp_rendezvous_done_fn done, void *arg);
/* Consumes `why`; the first one counts. */
void dp_rendezvous_abort(dp_rendezvous *rendezvous, dp_status *why);

/* Who waits here: calls visit for each pending receive, with its age. */
typedef void (*dp_rendezvous_visit_fn)(void *arg, dp_view key, int64_t waiting_nanos);
void dp_rendezvous_visit_waiting(dp_rendezvous *rendezvous, dp_rendezvous_visit_fn visit,
                                 void *arg);

#endif
