/* The reader of control messages, for control.c only: other code uses wire/control.h, whose
 * functions do not need the message in one piece. */
#ifndef DP_WIRE_UNPACK_INTERNAL_H
#define DP_WIRE_UNPACK_INTERNAL_H

#include "wire/control.h"

DP_MUST_USE dp_status *dp_wire_unpack_into_arena(const ProtobufCMessageDescriptor *descriptor,
                                                 const uint8_t *data, size_t length,
                                                 dp_arena *arena, ProtobufCMessage **message_out);

#endif
