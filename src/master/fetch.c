/* Fetched tensors: from a worker's answer to the places that the client asked for.
 *
 * A worker of ours answers in the order of the keys, so each place is tried with the tensor of its
 * own position. Only what is left then is looked up by key: answers in another order, and keys that
 * the client gave twice. No two lists of names are compared pair by pair. Pure; any thread. */
#include "master/master_internal.h"

static size_t take_in_order(const char *const *keys, dp_named_tensor *fetched, size_t count,
                            dp_run_graph_response *response) {
  size_t taken = 0;
  for (size_t i = 0; i < count && i < response->recv_count; i++) {
    if (strcmp(keys[i], response->recvs[i].name) != 0)
      continue;
    fetched[i].tensor = dp_tensor_take(&response->recvs[i].tensor);
    taken++;
  }
  return taken;
}

/* By key: received tensors, wherever take_in_order has put them. */
static dp_map *index_received(dp_named_tensor *fetched, size_t count,
                              dp_run_graph_response *response) {
  dp_map *received = dp_map_create();
  for (size_t i = response->recv_count; i-- > 0;) {
    dp_tensor *tensor = &response->recvs[i].tensor;
    bool was_taken = !dp_tensor_is_set(tensor) && i < count;
    dp_map_put(received, response->recvs[i].name, was_taken ? &fetched[i].tensor : tensor);
  }
  return received;
}

dp_status *dp_master_fetches_take(const char *const *keys, dp_named_tensor *fetched, size_t count,
                                  dp_run_graph_response *response) {
  if (take_in_order(keys, fetched, count, response) == count)
    return NULL;
  dp_status *status = NULL;
  dp_map *received = index_received(fetched, count, response);
  for (size_t i = 0; i < count && !status; i++) {
    if (dp_tensor_is_set(&fetched[i].tensor))
      continue;
    const dp_tensor *tensor = dp_map_get(received, keys[i]);
    if (tensor && dp_tensor_is_set(tensor))
      fetched[i].tensor = dp_tensor_copy(tensor);
    else
      status = dp_status_create(DP_INTERNAL, "the worker's answer has no tensor for the fetch %s",
                                fetched[i].name);
  }
  dp_map_destroy(received);
  return status;
}
