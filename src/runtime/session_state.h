/* Tensors that a session keeps between its steps (GetSessionHandle, GetSessionTensor).
 *
 * A dp_session_state holds them by handle, one for each task that a session uses; it goes with the
 * session. What a step makes is collected in a dp_tensor_store first and moves to the session when
 * the step has gone well, and only if its handle leaves the graph: a handle that nobody was told is
 * of no use. All functions may be called from any thread. */
#ifndef DP_RUNTIME_SESSION_STATE_H
#define DP_RUNTIME_SESSION_STATE_H

#include <pthread.h>
#include "base/map.h"
#include "graph/graph.h"
#include "runtime/step.h"

/* The container of handles that are resources. */
#define DP_TENSOR_HANDLE_CONTAINER "TensorHandle"

dp_session_state *dp_session_state_create(void);
void dp_session_state_destroy(dp_session_state *state);
/* *tensor_out shares the tensor's memory. */
DP_MUST_USE dp_status *dp_session_state_find(dp_session_state *state, dp_view handle,
                                             dp_tensor *tensor_out);
DP_MUST_USE dp_status *dp_session_state_delete(dp_session_state *state, dp_view handle);

/* Embedded in the step's owner. */
struct dp_tensor_store {
  dp_session_state *state; /* borrowed: the step's session outlives it */
  pthread_mutex_t lock;    /* guards what follows */
  dp_map *kept;            /* by the node's name; NULL before the first */
};
void dp_tensor_store_init(dp_tensor_store *store, dp_session_state *state);
void dp_tensor_store_deinit(dp_tensor_store *store);
/* Keeps the tensor for node `name` on `device`; a node may do that once per step. *handle_out is
 * "name;number;device", malloc'd. */
DP_MUST_USE dp_status *dp_tensor_store_add(dp_tensor_store *store, const char *name,
                                           const char *device, const dp_tensor *tensor,
                                           char **handle_out);
/* Hands over to the session what a _Send of the graph carries a handle of. */
void dp_tensor_store_save(dp_tensor_store *store, const dp_graph *graph);

#endif
