/* Makes edges when their kernels are made. See transfer_edge.h. The key is printed and parsed once
 * here, so that names which are no devices' are refused before a step runs. No state of its own;
 * any thread may enter. */
#include "runtime/transfer_edge.h"

#include "base/map.h"
#include "base/memory.h"

void dp_transfer_edge_print_key(const dp_transfer_edge *edge, uint64_t frame_id, int64_t iteration,
                                dp_text *text) {
  dp_rendezvous_key_print(text, edge->source, edge->source_incarnation, edge->destination,
                          edge->name, frame_id, iteration);
}

dp_status *dp_transfer_edge_init(dp_transfer_edge *edge, dp_view source,
                                 uint64_t source_incarnation, dp_view destination, dp_view name,
                                 bool is_sender, const dp_edge_router *router) {
  *edge = (dp_transfer_edge){.source = dp_strndup(source.data, source.length),
                             .destination = dp_strndup(destination.data, destination.length),
                             .name = dp_strndup(name.data, name.length),
                             .source_incarnation = source_incarnation};
  dp_transfer_edge_print_key(edge, 0, 0, &edge->key);
  edge->hash = dp_hash_bytes(edge->key.data, edge->key.length);
  dp_rendezvous_key parsed;
  DP_RETURN_IF_ERROR(dp_rendezvous_key_parse((dp_view){edge->key.data, edge->key.length}, &parsed));
  return router ? router->resolve(router->arg, &parsed, is_sender, &edge->route) : NULL;
}

void dp_transfer_edge_deinit(dp_transfer_edge *edge) {
  dp_free(edge->source);
  dp_free(edge->destination);
  dp_free(edge->name);
  dp_text_deinit(&edge->key);
}
