/* Reading and writing single protobuf fields in ropes (see field_internal.h). Every length is
 * checked against the bytes that remain, and the nesting of skipped groups is bounded. No state,
 * any thread. */
#include "wire/field_internal.h"

#include <string.h>

#define MAX_GROUP_DEPTH 32

bool dp_wire_read_varint_slow(dp_rope_reader *reader, uint64_t *value_out) {
  uint64_t value = 0;
  int shift = 0;
  while (shift < 70) {
    const uint8_t *data;
    size_t length = dp_rope_peek(reader, &data);
    if (length == 0)
      return false;
    for (size_t i = 0; i < length && shift < 70; i++, shift += 7) {
      value |= (uint64_t)(data[i] & 0x7f) << shift;
      if (data[i] < 0x80) {
        *value_out = value;
        return dp_rope_skip(reader, i + 1);
      }
      if (i + 1 == length || shift == 63) {
        if (!dp_rope_skip(reader, i + 1))
          return false;
      }
    }
  }
  return false;
}

static bool skip_group(dp_rope_reader *reader, uint32_t number, int depth) {
  if (depth > MAX_GROUP_DEPTH)
    return false;
  for (;;) {
    uint64_t tag, value;
    if (!dp_wire_read_varint(reader, &tag) || tag > UINT32_MAX || tag >> 3 == 0)
      return false;
    switch ((dp_wire_type)(tag & 7)) {
    case DP_WIRE_VARINT:
      if (!dp_wire_read_varint(reader, &value))
        return false;
      break;
    case DP_WIRE_64:
      if (!dp_rope_skip(reader, 8))
        return false;
      break;
    case DP_WIRE_32:
      if (!dp_rope_skip(reader, 4))
        return false;
      break;
    case DP_WIRE_BYTES:
      if (!dp_wire_read_varint(reader, &value) || value > reader->remaining ||
          !dp_rope_skip(reader, value))
        return false;
      break;
    case DP_WIRE_GROUP:
      if (!skip_group(reader, (uint32_t)(tag >> 3), depth + 1))
        return false;
      break;
    case DP_WIRE_GROUP_END:
      return tag >> 3 == number;
    default:
      return false;
    }
  }
}

static dp_status *read_payload(dp_rope_reader *reader, dp_wire_field *field) {
  uint32_t bits;
  switch (field->type) {
  case DP_WIRE_VARINT:
    if (!dp_wire_read_varint(reader, &field->value))
      return DP_INVALID("broken number in field %u", field->number);
    return NULL;
  case DP_WIRE_64:
    if (!dp_rope_copy_out(reader, &field->value, 8))
      return DP_INVALID("field %u is truncated", field->number);
    return NULL;
  case DP_WIRE_32:
    if (!dp_rope_copy_out(reader, &bits, 4))
      return DP_INVALID("field %u is truncated", field->number);
    field->value = bits;
    return NULL;
  case DP_WIRE_BYTES:
    if (!dp_wire_read_varint(reader, &field->value))
      return DP_INVALID("broken length of field %u", field->number);
    if (field->value > reader->remaining ||
        !dp_rope_sub_reader(reader, field->value, &field->bytes))
      return DP_INVALID("field %u is truncated", field->number);
    return NULL;
  default:
    return DP_INVALID("field %u has the unknown wire type %d", field->number, (int)field->type);
  }
}

dp_status *dp_wire_next_field(dp_rope_reader *reader, dp_wire_field *field, bool *more_out) {
  while (reader->remaining > 0) {
    uint64_t tag;
    if (!dp_wire_read_varint(reader, &tag) || tag > UINT32_MAX || tag >> 3 == 0)
      return DP_INVALID("broken tag");
    field->number = (uint32_t)(tag >> 3);
    field->type = (dp_wire_type)(tag & 7);
    if (field->type == DP_WIRE_GROUP) {
      if (!skip_group(reader, field->number, 0))
        return DP_INVALID("broken group in field %u", field->number);
      continue;
    }
    *more_out = true;
    return read_payload(reader, field);
  }
  *more_out = false;
  return NULL;
}

dp_status *dp_wire_field_string(const dp_wire_field *field, dp_arena *arena,
                                const char **string_out) {
  dp_rope_reader bytes = field->bytes;
  size_t length = bytes.remaining;
  char *string = dp_arena_allocate(arena, length + 1);
  if (!dp_rope_copy_out(&bytes, string, length))
    return DP_INVALID("field %u is truncated", field->number);
  string[length] = 0;
  if (memchr(string, 0, length))
    return DP_INVALID("the string has a NUL byte");
  *string_out = string;
  return NULL;
}

dp_status *dp_wire_write_varint_field(dp_rope *rope, uint32_t number, uint64_t value) {
  uint8_t bytes[20];
  uint8_t *end = dp_wire_put_varint(dp_wire_put_tag(bytes, number, DP_WIRE_VARINT), value);
  return dp_rope_append(rope, bytes, (size_t)(end - bytes));
}

dp_status *dp_wire_write_bytes_head(dp_rope *rope, uint32_t number, size_t length) {
  uint8_t bytes[20];
  uint8_t *end = dp_wire_put_varint(dp_wire_put_tag(bytes, number, DP_WIRE_BYTES), length);
  return dp_rope_append(rope, bytes, (size_t)(end - bytes));
}

dp_status *dp_wire_write_bytes_field(dp_rope *rope, uint32_t number, const void *data,
                                     size_t length) {
  DP_RETURN_IF_ERROR(dp_wire_write_bytes_head(rope, number, length));
  return dp_rope_append(rope, data, length);
}
