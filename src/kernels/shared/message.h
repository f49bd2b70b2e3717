/* Protobuf messages in strings, as kernels for Example and Summary read and write them: one field
 * after the other, from contiguous bytes that are not trusted. Nothing is copied; views point into
 * the message, which must outlive them. */
#ifndef DP_KERNELS_SHARED_MESSAGE_H
#define DP_KERNELS_SHARED_MESSAGE_H

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
  uint64_t value; /* a varint, or the bits of a fixed-size number */
  dp_view bytes;  /* the contents, for DP_MESSAGE_BYTES */
} dp_message_field;

/* Takes one varint off the front; false (view untouched) when there is none. */
bool dp_message_varint(dp_view *rest, uint64_t *value_out);
/* Takes the next field off the front; groups are skipped. False at the end of the message (`rest`
 * is empty) and at bytes that are no field (`rest` is not empty). */
bool dp_message_next_any(dp_view *rest, dp_message_field *field);

/* The same, with a fast path for nearly all fields of examples: a tag of one byte, and bytes whose
 * length takes one or two. The slow path works on copies, so that the caller's view and field can
 * stay in registers. */
static inline bool dp_message_next(dp_view *rest, dp_message_field *field) {
  const uint8_t *at = (const uint8_t *)rest->data;
  size_t left = rest->length, length = 0, head = SIZE_MAX;
  if (left >= 3 && at[1] < 0x80) {
    length = at[1];
    head = 2;
  } else if (left >= 3 && at[2] < 0x80) {
    length = (at[1] & 0x7f) | (size_t)at[2] << 7;
    head = 3;
  }
  if (__builtin_expect(head > left || left - head < length || at[0] >= 0x80 || at[0] < 8 ||
                           (at[0] & 7) != DP_MESSAGE_BYTES,
                       0)) {
    dp_view copy = *rest;
    dp_message_field found;
    if (left == 0)
      return false;
    bool has_one = dp_message_next_any(&copy, &found);
    *rest = copy; /* groups at the end are skipped too */
    if (has_one)
      *field = found;
    return has_one;
  }
  field->number = at[0] >> 3;
  field->type = DP_MESSAGE_BYTES;
  field->value = 0;
  field->bytes = (dp_view){rest->data + head, length};
  *rest = (dp_view){rest->data + head + length, left - head - length};
  return true;
}

/* Adds an integer field; nothing for 0, as in proto3. */
void dp_message_add_int(dp_text *text, uint32_t number, int64_t value);
/* Adds tag and length of a bytes field; the caller adds the bytes. */
void dp_message_add_head(dp_text *text, uint32_t number, size_t length);
void dp_message_add_bytes(dp_text *text, uint32_t number, dp_view bytes);

#endif
