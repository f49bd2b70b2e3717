/* Protobuf's encoding, field by field: reads the fields of a message in a rope one after the other
 * without joining its pieces, and writes single fields. For the codecs of this folder that need
 * more control than protobuf-c gives. No state, any thread. */
#ifndef DP_WIRE_FIELD_INTERNAL_H
#define DP_WIRE_FIELD_INTERNAL_H

#include "base/arena.h"
#include "base/status.h"
#include "tensor/rope.h"

typedef enum dp_wire_type {
  DP_WIRE_VARINT = 0,
  DP_WIRE_64 = 1,
  DP_WIRE_BYTES = 2,
  DP_WIRE_GROUP = 3,
  DP_WIRE_GROUP_END = 4,
  DP_WIRE_32 = 5,
} dp_wire_type;

typedef struct dp_wire_field {
  uint32_t number;
  dp_wire_type type;
  uint64_t value;       /* of a varint, or the bits of a fixed number; the length for bytes */
  dp_rope_reader bytes; /* of DP_WIRE_BYTES: the payload */
} dp_wire_field;

/* False at the end of the bytes, or when the varint has more than 10 bytes; the reader's place is
 * undefined then. */
bool dp_wire_read_varint_slow(dp_rope_reader *reader, uint64_t *value_out);
static inline bool dp_wire_read_varint(dp_rope_reader *reader, uint64_t *value_out) {
  if (reader->remaining > 0 && reader->piece < reader->rope->pieces.count) {
    const dp_piece *piece = &reader->rope->pieces.items[reader->piece];
    /* At least one byte of the piece must follow, so that the reader still stands on a byte. */
    if (reader->offset + 1 < piece->length && piece->data[reader->offset] < 0x80) {
      *value_out = piece->data[reader->offset];
      reader->offset++;
      reader->remaining--;
      return true;
    }
  }
  return dp_wire_read_varint_slow(reader, value_out);
}

/* Reads the next field and moves past it. *more_out is false at the end. Groups are skipped. The
 * text of an INVALID_ARGUMENT does not name the message: the caller annotates it. */
DP_MUST_USE dp_status *dp_wire_next_field(dp_rope_reader *reader, dp_wire_field *field,
                                          bool *more_out);

/* The bytes as a NUL-ended string in `arena`; a NUL inside is an INVALID_ARGUMENT. */
DP_MUST_USE dp_status *dp_wire_field_string(const dp_wire_field *field, dp_arena *arena,
                                            const char **string_out);

static inline size_t dp_wire_varint_size(uint64_t value) {
  return (size_t)(63 - __builtin_clzll(value | 1)) / 7 + 1;
}
/* Writes at most 10 bytes and returns the place behind them. */
static inline uint8_t *dp_wire_put_varint(uint8_t *to, uint64_t value) {
  while (value >= 0x80) {
    *to++ = (uint8_t)(value | 0x80);
    value >>= 7;
  }
  *to++ = (uint8_t)value;
  return to;
}
static inline uint8_t *dp_wire_put_tag(uint8_t *to, uint32_t number, dp_wire_type type) {
  return dp_wire_put_varint(to, (uint64_t)number << 3 | type);
}

/* Append whole fields, even when the value is the default (0 or no bytes). */
DP_MUST_USE dp_status *dp_wire_write_varint_field(dp_rope *rope, uint32_t number, uint64_t value);
/* Appends tag and length; the caller appends the `length` bytes. */
DP_MUST_USE dp_status *dp_wire_write_bytes_head(dp_rope *rope, uint32_t number, size_t length);
DP_MUST_USE dp_status *dp_wire_write_bytes_field(dp_rope *rope, uint32_t number, const void *data,
                                                 size_t length);

#endif
