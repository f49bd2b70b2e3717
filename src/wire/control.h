/* Control messages: everything of TensorFlow's that carries no tensor of consequence, through
 * protobuf-c and an arena.
 *
 * The generated headers are "wire/<file>.pb-c.h", one for each file in proto/. A message that was
 * unpacked lives in the arena it was given and is never freed alone; nobody may call protobuf-c's
 * free functions on it. Strings are never NULL (absent is ""), sub-messages are NULL when absent:
 * this holds for the value of a map's entry too. Fields that we do not know are kept and packed
 * again. Fields of type TensorProto are bytes here; wire/tensor_codec.h reads them.
 * No state, any thread. */
#ifndef DP_WIRE_CONTROL_H
#define DP_WIRE_CONTROL_H

#include <protobuf-c/protobuf-c.h>
#include "base/arena.h"
#include "base/status.h"
#include "tensor/rope.h"
#include "wire/attr.pb-c.h"
#include "wire/graph.pb-c.h"

/* What TensorFlow's own library takes: 2 GiB, 100 messages inside each other. */
#define DP_WIRE_MAX_BYTES ((size_t)INT32_MAX)
#define DP_WIRE_MAX_DEPTH 100
/* The most that one unpacked message may take in memory, whatever its size on the wire. */
#define DP_WIRE_MAX_MEMORY ((size_t)8 << 30)

/* Unpacks a message of the type `descriptor` (say, &tensorflow__graph_def__descriptor) into
 * `arena`. `message_out` is the address of a pointer to that type:
 *   Tensorflow__GraphDef *graph;
 *   DP_RETURN_IF_ERROR(dp_wire_unpack(&tensorflow__graph_def__descriptor, rope, arena, &graph));
 * INVALID_ARGUMENT names the message type and what is wrong: malformed, nested too deeply, a string
 * field with a NUL byte in it. RESOURCE_EXHAUSTED when it would take too much memory. The bytes are
 * not needed afterwards. */
DP_MUST_USE dp_status *dp_wire_unpack(const ProtobufCMessageDescriptor *descriptor,
                                      const dp_rope *rope, dp_arena *arena, void *message_out);
/* The same from one piece of memory, and from the next bytes of a reader (all that remain). */
DP_MUST_USE dp_status *dp_wire_unpack_bytes(const ProtobufCMessageDescriptor *descriptor,
                                            const void *data, size_t length, dp_arena *arena,
                                            void *message_out);
DP_MUST_USE dp_status *dp_wire_unpack_part(const ProtobufCMessageDescriptor *descriptor,
                                           dp_rope_reader *reader, dp_arena *arena,
                                           void *message_out);

/* Appends any generated message. Fields come in the order of their numbers. */
DP_MUST_USE dp_status *dp_wire_pack(const void *message, dp_rope *rope);
/* Packs into `arena`; *data_out has *length_out bytes. */
DP_MUST_USE dp_status *dp_wire_pack_bytes(const void *message, dp_arena *arena, uint8_t **data_out,
                                          size_t *length_out);
size_t dp_wire_packed_size(const void *message);

/* A deep copy in `arena`; copy_out is the address of a pointer to the message's type. The copy of a
 * message that was built by hand. */
DP_MUST_USE dp_status *dp_wire_copy(const void *message, dp_arena *arena, void *copy_out);

/* A zeroed, initialized message in `arena`: Tensorflow__NodeDef *node =
 * dp_wire_new(arena, &tensorflow__node_def__descriptor). */
void *dp_wire_new(dp_arena *arena, const ProtobufCMessageDescriptor *descriptor)
    __attribute__((returns_nonnull));

/* The attribute `name` of a node; NULL when absent or without a value.
 * As in a map of protobuf's, the last of several entries with one key counts. */
const Tensorflow__AttrValue *dp_wire_node_attr(const Tensorflow__NodeDef *node, const char *name);

#endif
