/* Control messages: unpacking from ropes, packing into ropes, and lookups in maps. unpack.c does
 * the unpacking, from contiguous memory; here a message that lies in several pieces is joined
 * first. Packing is protobuf-c's own. No state, any thread. */
#include "wire/control.h"

#include <string.h>
#include "wire/unpack_internal.h"

dp_status *dp_wire_unpack_bytes(const ProtobufCMessageDescriptor *descriptor, const void *data,
                                size_t length, dp_arena *arena, void *message_out) {
  ProtobufCMessage *message = NULL;
  DP_RETURN_IF_ERROR(dp_wire_unpack_into_arena(descriptor, data, length, arena, &message));
  memcpy(message_out, &message, sizeof message);
  return NULL;
}

dp_status *dp_wire_unpack(const ProtobufCMessageDescriptor *descriptor, const dp_rope *rope,
                          dp_arena *arena, void *message_out) {
  dp_rope_reader reader = dp_rope_read(rope);
  return dp_wire_unpack_part(descriptor, &reader, arena, message_out);
}

dp_status *dp_wire_unpack_part(const ProtobufCMessageDescriptor *descriptor, dp_rope_reader *reader,
                               dp_arena *arena, void *message_out) {
  size_t length = reader->remaining;
  if (length == 0)
    return dp_wire_unpack_bytes(descriptor, "", 0, arena, message_out);
  if (length > DP_WIRE_MAX_BYTES)
    return DP_INVALID("A %s of %zu bytes is larger than 2 GiB", descriptor->name, length);
  const uint8_t *data = NULL;
  if (dp_rope_peek(reader, &data) == length)
    return dp_wire_unpack_bytes(descriptor, data, length, arena, message_out);
  dp_buffer *buffer = NULL;
  DP_RETURN_IF_ERROR(dp_rope_share(reader, length, 1, &buffer, &data));
  dp_status *status = dp_wire_unpack_bytes(descriptor, data, length, arena, message_out);
  dp_buffer_release(buffer);
  return status;
}

size_t dp_wire_packed_size(const void *message) {
  return protobuf_c_message_get_packed_size(message);
}

static dp_status *checked_size(const void *message, size_t *size_out) {
  size_t size = dp_wire_packed_size(message);
  if (size > DP_WIRE_MAX_BYTES)
    return DP_INVALID("A %s of %zu bytes is larger than 2 GiB",
                      ((const ProtobufCMessage *)message)->descriptor->name, size);
  *size_out = size;
  return NULL;
}

dp_status *dp_wire_pack(const void *message, dp_rope *rope) {
  size_t size = 0;
  uint8_t *data = NULL;
  DP_RETURN_IF_ERROR(checked_size(message, &size));
  if (size == 0)
    return NULL;
  DP_RETURN_IF_ERROR(dp_rope_extend(rope, size, &data));
  protobuf_c_message_pack(message, data);
  return NULL;
}

dp_status *dp_wire_pack_bytes(const void *message, dp_arena *arena, uint8_t **data_out,
                              size_t *length_out) {
  size_t size = 0;
  DP_RETURN_IF_ERROR(checked_size(message, &size));
  uint8_t *data = dp_arena_allocate(arena, size);
  protobuf_c_message_pack(message, data);
  *data_out = data;
  *length_out = size;
  return NULL;
}

dp_status *dp_wire_copy(const void *message, dp_arena *arena, void *copy_out) {
  size_t size = 0;
  DP_RETURN_IF_ERROR(checked_size(message, &size));
  uint8_t *data = dp_try_malloc(size + 1);
  if (!data)
    return dp_status_out_of_memory();
  protobuf_c_message_pack(message, data);
  dp_status *status = dp_wire_unpack_bytes(((const ProtobufCMessage *)message)->descriptor, data,
                                           size, arena, copy_out);
  dp_free(data);
  return status;
}

void *dp_wire_new(dp_arena *arena, const ProtobufCMessageDescriptor *descriptor) {
  ProtobufCMessage *message = dp_arena_allocate(arena, descriptor->sizeof_message);
  descriptor->message_init(message);
  return message;
}

const Tensorflow__AttrValue *dp_wire_node_attr(const Tensorflow__NodeDef *node, const char *name) {
  for (size_t i = node->n_attr; i-- > 0;)
    if (strcmp(node->attr[i]->key, name) == 0)
      return node->attr[i]->value;
  return NULL;
}
