/* Control messages: TensorFlow's messages that carry no large tensors, as protobuf-c's structs in
 * an arena. Messages that carry tensors are in wire/run_messages.h.
 *
 * The generated headers are "wire/<file>.pb-c.h", one for each file in proto/. An unpacked message
 * lives in the arena that the caller passes; protobuf-c's free functions must not be called on it.
 * An absent string is "", never NULL; an absent sub-message is NULL, also as the value of a map's
 * entry. Unknown fields are kept and packed again, except groups. Fields of type TensorProto are
 * bytes here; wire/tensor_codec.h reads them. No state, any thread. */
#ifndef DP_WIRE_CONTROL_H
#define DP_WIRE_CONTROL_H

#include <protobuf-c/protobuf-c.h>
#include "base/arena.h"
#include "base/status.h"
#include "tensor/rope.h"
#include "wire/attr.pb-c.h"
#include "wire/graph.pb-c.h"

/* The limits of TensorFlow's own protobuf library: 2 GiB, and 100 messages inside each other. */
#define DP_WIRE_MAX_BYTES ((size_t)INT32_MAX)
#define DP_WIRE_MAX_DEPTH 100
/* The most memory that one unpacked message may take. A small message may take less: 64 MiB and 16
 * times its size on the wire. */
#define DP_WIRE_MAX_MEMORY ((size_t)8 << 30)

/* Unpacks a message of the type `descriptor` (say, &tensorflow__graph_def__descriptor) into
 * `arena`. `message_out` is the address of a pointer to that type:
 *   Tensorflow__GraphDef *graph;
 *   DP_RETURN_IF_ERROR(dp_wire_unpack(&tensorflow__graph_def__descriptor, rope, arena, &graph));
 * INVALID_ARGUMENT names the message type and what is wrong: malformed, nested too deeply, a string
 * field with a NUL byte in it. RESOURCE_EXHAUSTED when the message would take more memory than it
 * may. The message holds no reference to the rope's bytes. */
DP_MUST_USE dp_status *dp_wire_unpack(const ProtobufCMessageDescriptor *descriptor,
                                      const dp_rope *rope, dp_arena *arena, void *message_out);
/* As dp_wire_unpack, from contiguous memory, and from all bytes that remain in a reader. The reader
 * must not be used afterwards: it may or may not have moved. */
DP_MUST_USE dp_status *dp_wire_unpack_bytes(const ProtobufCMessageDescriptor *descriptor,
                                            const void *data, size_t length, dp_arena *arena,
                                            void *message_out);
DP_MUST_USE dp_status *dp_wire_unpack_part(const ProtobufCMessageDescriptor *descriptor,
                                           dp_rope_reader *reader, dp_arena *arena,
                                           void *message_out);

/* Appends a message of any generated type. Fields come in the order of their numbers. */
DP_MUST_USE dp_status *dp_wire_pack(const void *message, dp_rope *rope);
/* Packs into `arena`; *data_out has *length_out bytes. */
DP_MUST_USE dp_status *dp_wire_pack_bytes(const void *message, dp_arena *arena, uint8_t **data_out,
                                          size_t *length_out);
size_t dp_wire_packed_size(const void *message);

/* A deep copy in `arena`; copy_out is the address of a pointer to the message's type. The message
 * may be one that was built by hand in memory of any kind. */
DP_MUST_USE dp_status *dp_wire_copy(const void *message, dp_arena *arena, void *copy_out);

/* A zeroed, initialized message in `arena`: Tensorflow__NodeDef *node =
 * dp_wire_new(arena, &tensorflow__node_def__descriptor). */
void *dp_wire_new(dp_arena *arena, const ProtobufCMessageDescriptor *descriptor)
    __attribute__((returns_nonnull));

/* The attribute `name` of a node; NULL when it is absent or has no value. When several entries have
 * that key, the last one counts, as in a protobuf map. */
const Tensorflow__AttrValue *dp_wire_node_attr(const Tensorflow__NodeDef *node, const char *name);

#endif
