/* Fuzzes the decoders of control messages: a graph, a configuration, a request of each service. The
 * first byte chooses the message. A message that is accepted must pack and unpack again, to the
 * same number of bytes. */
#include <stdlib.h>
#include "wire/control.h"
#include "wire/meta_graph.pb-c.h"
#include "wire/shape_message.h"
#include "wire/worker.pb-c.h"
#include "wire/config.pb-c.h"
#include "wire/collections.pb-c.h"

static const ProtobufCMessageDescriptor *const types[] = {
    &tensorflow__graph_def__descriptor,
    &tensorflow__config_proto__descriptor,
    &tensorflow__register_graph_request__descriptor,
    &tensorflow__meta_graph_def__descriptor,
    &tensorflow__complete_instance_request__descriptor,
    &tensorflow__control_flow_context_def__descriptor,
    &tensorflow__tensor_shape_proto__descriptor,
};

static void try_shape(const Tensorflow__TensorShapeProto *message) {
  dp_shape shape;
  dp_partial_shape partial;
  dp_status_release(dp_wire_shape(message, &shape));
  dp_status_release(dp_wire_partial_shape(message, &partial));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size == 0)
    return 0;
  const ProtobufCMessageDescriptor *type = types[data[0] % (sizeof types / sizeof *types)];
  dp_arena *arena = dp_arena_create();
  void *message = NULL, *copy = NULL;
  dp_status *status = dp_wire_unpack_bytes(type, data + 1, size - 1, arena, &message);
  if (!status) {
    if (dp_wire_copy(message, arena, &copy) ||
        dp_wire_packed_size(copy) != dp_wire_packed_size(message))
      abort();
    if (type == &tensorflow__tensor_shape_proto__descriptor)
      try_shape(message);
  }
  dp_status_release(status);
  dp_arena_destroy(arena);
  return 0;
}
