/* Tensors that a session keeps between its steps. See session_state.h.
 *
 * The session's map has a lock of its own, and so has the store of each step. The session owns the
 * tensors in its map, a step those that it has not handed over yet. Any thread may enter. */
#include "runtime/session_state.h"

#include "base/memory.h"

struct dp_session_state {
  pthread_mutex_t lock; /* guards what follows */
  dp_map *tensors;      /* handle -> dp_tensor, malloc'd */
  int64_t next_number;
};

/* What one node of a step keeps. */
typedef struct kept_tensor {
  dp_tensor *tensor;
  char *handle;
} kept_tensor;

/* ---- The session's ---- */

dp_session_state *dp_session_state_create(void) {
  dp_session_state *state = DP_NEW(dp_session_state);
  pthread_mutex_init(&state->lock, NULL);
  state->tensors = dp_map_create();
  return state;
}

/* Accepts NULL. */
static void destroy_tensor(dp_tensor *tensor) {
  if (tensor)
    dp_tensor_deinit(tensor);
  dp_free(tensor);
}

void dp_session_state_destroy(dp_session_state *state) {
  if (!state)
    return;
  const char *handle;
  void *tensor;
  for (size_t at = 0; dp_map_next(state->tensors, &at, &handle, &tensor);)
    destroy_tensor(tensor);
  dp_map_destroy(state->tensors);
  pthread_mutex_destroy(&state->lock);
  dp_free(state);
}

dp_status *dp_session_state_find(dp_session_state *state, dp_view handle, dp_tensor *tensor_out) {
  pthread_mutex_lock(&state->lock);
  const dp_tensor *found = dp_map_get_n(state->tensors, handle.data, handle.length);
  if (found)
    *tensor_out = dp_tensor_copy(found);
  pthread_mutex_unlock(&state->lock);
  if (!found)
    return DP_INVALID("The tensor with handle '%.*s' is not in the session store.",
                      (int)handle.length, handle.data);
  return NULL;
}

dp_status *dp_session_state_delete(dp_session_state *state, dp_view handle) {
  pthread_mutex_lock(&state->lock);
  dp_tensor *found = dp_map_remove_n(state->tensors, handle.data, handle.length);
  pthread_mutex_unlock(&state->lock);
  if (!found)
    return DP_INVALID("Failed to delete a tensor with handle '%.*s' in the session store.",
                      (int)handle.length, handle.data);
  destroy_tensor(found);
  return NULL;
}

/* ---- The step's ---- */

void dp_tensor_store_init(dp_tensor_store *store, dp_session_state *state) {
  *store = (dp_tensor_store){.state = state};
  pthread_mutex_init(&store->lock, NULL);
}

static void destroy_kept(kept_tensor *kept) {
  destroy_tensor(kept->tensor);
  dp_free(kept->handle);
  dp_free(kept);
}

void dp_tensor_store_deinit(dp_tensor_store *store) {
  const char *name;
  void *kept;
  for (size_t at = 0; store->kept && dp_map_next(store->kept, &at, &name, &kept);)
    destroy_kept(kept);
  if (store->kept)
    dp_map_destroy(store->kept);
  pthread_mutex_destroy(&store->lock);
}

static kept_tensor *make_kept(dp_session_state *state, const char *name, const char *device,
                              const dp_tensor *tensor) {
  kept_tensor *kept = DP_NEW(kept_tensor);
  pthread_mutex_lock(&state->lock);
  int64_t number = state->next_number++;
  pthread_mutex_unlock(&state->lock);
  dp_text handle = {0};
  dp_text_printf(&handle, "%s;%lld;%s", name, (long long)number, device);
  kept->handle = dp_text_take(&handle);
  kept->tensor = DP_NEW(dp_tensor);
  *kept->tensor = dp_tensor_copy(tensor);
  return kept;
}

dp_status *dp_tensor_store_add(dp_tensor_store *store, const char *name, const char *device,
                               const dp_tensor *tensor, char **handle_out) {
  kept_tensor *kept = make_kept(store->state, name, device, tensor);
  char *handle = dp_strdup(kept->handle);
  pthread_mutex_lock(&store->lock);
  if (!store->kept)
    store->kept = dp_map_create();
  bool is_taken = dp_map_get(store->kept, name) != NULL;
  if (!is_taken)
    dp_map_put(store->kept, name, kept);
  pthread_mutex_unlock(&store->lock);
  if (is_taken) {
    destroy_kept(kept);
    dp_free(handle);
    return DP_INVALID("Failed to add a tensor with name '%s' to the tensor store.", name);
  }
  *handle_out = handle;
  return NULL;
}

static void save(dp_session_state *state, kept_tensor *kept) {
  pthread_mutex_lock(&state->lock);
  dp_tensor *before = dp_map_put(state->tensors, kept->handle, kept->tensor);
  pthread_mutex_unlock(&state->lock);
  destroy_tensor(before);
  kept->tensor = NULL;
}

void dp_tensor_store_save(dp_tensor_store *store, const dp_graph *graph) {
  pthread_mutex_lock(&store->lock);
  for (int32_t i = 0; store->kept && i < graph->node_count; i++) {
    const dp_node *node = graph->nodes[i];
    if (!node || !dp_node_is(node, "_Send"))
      continue;
    kept_tensor *kept = dp_map_get(store->kept, graph->nodes[node->inputs[0].node]->name);
    if (kept && kept->tensor)
      save(store->state, kept);
  }
  pthread_mutex_unlock(&store->lock);
}
