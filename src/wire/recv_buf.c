/* RecvBufResponse, written and read by hand: its bytes may be a large tensor, which protobuf-c
 * would copy. The encoder computes the lengths of the three nested messages first and appends the
 * tensor's memory by reference. The decoder copies from the rope's pieces straight to the
 * destination. No state, any thread. */
#include "wire/recv_buf.h"

#include <string.h>
#include "base/clock.h"
#include "wire/field_internal.h"
#include "wire/tensor_codec.h"

enum {
  RESPONSE_TRANSPORT_OPTIONS = 4,
  RESPONSE_SEND_START_MICROS = 5,
  ANY_TYPE_URL = 1,
  ANY_VALUE = 2,
  EXTRA_CONTENT = 1,
};

static const char type_url[] = "type.googleapis.com/tensorflow.RecvBufRespExtra";

static size_t field_size(size_t length) {
  return 1 + dp_wire_varint_size(length) + length;
}

static dp_status *append_content(const dp_tensor *tensor, size_t bytes, dp_rope *rope) {
  if (bytes < DP_WIRE_REFERENCE_BYTES)
    return dp_rope_append(rope, tensor->data, bytes);
  dp_rope_append_piece(rope, dp_buffer_retain(tensor->buffer), tensor->data, bytes);
  return NULL;
}

dp_status *dp_recv_buf_response_encode(const dp_tensor *tensor, dp_rope *rope) {
  size_t bytes = dp_tensor_bytes(tensor);
  size_t extra = bytes > 0 ? field_size(bytes) : 0;
  size_t any = field_size(sizeof(type_url) - 1) + field_size(extra);
  DP_RETURN_IF_ERROR(dp_wire_write_bytes_head(rope, RESPONSE_TRANSPORT_OPTIONS, any));
  DP_RETURN_IF_ERROR(dp_wire_write_bytes_field(rope, ANY_TYPE_URL, type_url, sizeof(type_url) - 1));
  DP_RETURN_IF_ERROR(dp_wire_write_bytes_head(rope, ANY_VALUE, extra));
  if (bytes > 0) {
    DP_RETURN_IF_ERROR(dp_wire_write_bytes_head(rope, EXTRA_CONTENT, bytes));
    DP_RETURN_IF_ERROR(append_content(tensor, bytes, rope));
  }
  return dp_wire_write_varint_field(rope, RESPONSE_SEND_START_MICROS,
                                    (uint64_t)(dp_clock_wall_nanos() / 1000));
}

/* The destination. `seen` counts all bytes of the response, also those beyond `room`, which are not
 * copied. */
typedef struct content_target {
  char *to;
  size_t room;
  uint64_t seen;
} content_target;

typedef dp_status *(*field_fn)(dp_wire_field *field, content_target *target);

/* Calls fn for each field with that number whose wire type is bytes. */
static dp_status *visit_fields(dp_rope_reader *reader, uint32_t number, field_fn fn,
                               content_target *target) {
  dp_wire_field field;
  bool has_more;
  for (;;) {
    DP_RETURN_IF_ERROR(dp_wire_next_field(reader, &field, &has_more));
    if (!has_more)
      return NULL;
    if (field.number == number && field.type == DP_WIRE_BYTES)
      DP_RETURN_IF_ERROR(fn(&field, target));
  }
}

static dp_status *copy_content(dp_wire_field *field, content_target *target) {
  size_t length = field->bytes.remaining;
  target->seen += length;
  if (target->seen > target->room)
    return NULL;
  dp_rope_copy_out(&field->bytes, target->to + target->seen - length, length);
  return NULL;
}

static dp_status *read_extra(dp_wire_field *field, content_target *target) {
  return visit_fields(&field->bytes, EXTRA_CONTENT, copy_content, target);
}

static dp_status *read_any(dp_wire_field *field, content_target *target) {
  return visit_fields(&field->bytes, ANY_VALUE, read_extra, target);
}

dp_status *dp_recv_buf_response_decode(const dp_rope *rope, void *to, size_t bytes) {
  content_target target = {.to = to, .room = bytes};
  dp_rope_reader reader = dp_rope_read(rope);
  DP_RETURN_IF_ERROR(dp_status_annotate(
      visit_fields(&reader, RESPONSE_TRANSPORT_OPTIONS, read_any, &target), "RecvBufResponse"));
  if (target.seen != bytes)
    return dp_status_create(DP_INTERNAL,
                            "Tensor Size Mismatch: RecvBufResponse returned %llu bytes, expected: "
                            "%zu",
                            (unsigned long long)target.seen, bytes);
  return NULL;
}
