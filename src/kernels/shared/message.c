/* Reads and writes protobuf fields in contiguous bytes (message.h). The bytes come from users, so
 * every length is checked before it is used, and groups, which TensorFlow never writes, are
 * skipped. */
#include "kernels/shared/message.h"

#define MAX_GROUPS 100 /* nesting depth; deeper groups are refused */

bool dp_message_varint(dp_view *rest, uint64_t *value_out) {
  uint64_t value = 0;
  for (size_t i = 0; i < rest->length && i < 10; ++i) {
    uint8_t byte = (uint8_t)rest->data[i];
    value |= (uint64_t)(byte & 0x7f) << (7 * i);
    if (byte < 0x80) {
      *value_out = value;
      rest->data += i + 1;
      rest->length -= i + 1;
      return true;
    }
  }
  return false;
}

static bool take(dp_view *rest, size_t length, dp_view *taken_out) {
  if (rest->length < length)
    return false;
  *taken_out = (dp_view){rest->data, length};
  rest->data += length;
  rest->length -= length;
  return true;
}

static bool take_fixed(dp_view *rest, size_t length, uint64_t *value_out) {
  dp_view bytes;
  if (!take(rest, length, &bytes))
    return false;
  uint64_t value = 0;
  for (size_t i = 0; i < length; ++i)
    value |= (uint64_t)(uint8_t)bytes.data[i] << (8 * i);
  *value_out = value;
  return true;
}

/* The value of a field, whatever its type; groups have none. */
static bool take_value(dp_view *rest, uint32_t type, dp_message_field *field) {
  uint64_t length;
  switch (type) {
  case DP_MESSAGE_VARINT:
    return dp_message_varint(rest, &field->value);
  case DP_MESSAGE_64:
    return take_fixed(rest, 8, &field->value);
  case DP_MESSAGE_32:
    return take_fixed(rest, 4, &field->value);
  case DP_MESSAGE_BYTES:
    return dp_message_varint(rest, &length) && take(rest, (size_t)length, &field->bytes);
  default:
    return false;
  }
}

bool dp_message_next_any(dp_view *rest, dp_message_field *field) {
  uint32_t open[MAX_GROUPS];
  size_t depth = 0;
  dp_view at = *rest;
  while (at.length > 0) {
    uint64_t tag;
    if (!dp_message_varint(&at, &tag) || tag > UINT32_MAX || tag >> 3 == 0)
      return false;
    uint32_t number = (uint32_t)(tag >> 3), type = tag & 7;
    if (type == 3) {
      if (depth == MAX_GROUPS)
        return false;
      open[depth++] = number;
      continue;
    }
    if (type == 4) {
      if (depth == 0 || open[--depth] != number)
        return false;
      if (depth == 0)
        *rest = at; /* skips a whole group */
      continue;
    }
    dp_message_field found = {.number = number, .type = (dp_message_type)type};
    if (!take_value(&at, type, &found))
      return false;
    if (depth == 0) {
      *field = found;
      *rest = at;
      return true;
    }
  }
  return false;
}

void dp_message_add_int(dp_text *text, uint32_t number, int64_t value) {
  if (value == 0)
    return;
  dp_text_add_varint(text, (uint64_t)number << 3 | DP_MESSAGE_VARINT);
  dp_text_add_varint(text, (uint64_t)value);
}

void dp_message_add_head(dp_text *text, uint32_t number, size_t length) {
  dp_text_add_varint(text, (uint64_t)number << 3 | DP_MESSAGE_BYTES);
  dp_text_add_varint(text, length);
}

void dp_message_add_bytes(dp_text *text, uint32_t number, dp_view bytes) {
  dp_message_add_head(text, number, bytes.length);
  dp_text_append(text, bytes.data, bytes.length);
}
