/* Messages of TensorFlow that kernels read and write in strings: fields one after the other, out of
 * contiguous bytes of a stranger. Nothing is copied; views point into the message. */
#ifndef DP_KERNELS_MESSAGE_INTERNAL_H
#define DP_KERNELS_MESSAGE_INTERNAL_H

#include "base/text.h"

typedef enum dp_message_type {
  DP_MESSAGE_VARINT = 0,
  DP_MESSAGE_64 = 1,
  DP_MESSAGE_BYTES = 2,
  DP_MESSAGE_32 = 5,
} dp_message_type;

typedef struct dp_message_field {
  uint32_t number;
  dp_message_type type;
  uint64_t value; /* of a varint, or the bits of a fixed number */
  dp_view bytes;  /* of DP_MESSAGE_BYTES */
} dp_message_field;

/* Takes one varint off the front; false (view untouched) when there is none. */
bool dp_message_varint(dp_view *rest, uint64_t *value_out);
/* Takes the next field off the front. False at the end (nothing is left) and at bytes that are no
 * message (something is). Groups are passed over. */
bool dp_message_next(dp_view *rest, dp_message_field *field);

/* A field of a number; nothing for 0, as proto3 has it. */
void dp_message_add_int(dp_text *text, uint32_t number, int64_t value);
/* Tag and length of a field of bytes, which the caller adds. */
void dp_message_add_head(dp_text *text, uint32_t number, size_t length);
void dp_message_add_bytes(dp_text *text, uint32_t number, dp_view bytes);

#endif
