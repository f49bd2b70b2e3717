/* Reading and writing records.
 *
 * Decoding takes two passes: the first counts the elements of lists, so that each array is
 * allocated once with the right size; the second fills them. Tensors are decoded from the rope's
 * pieces without joining them. Everything but the tensors lives in the caller's arena. No state,
 * any thread. */
#include "wire/record_internal.h"

#include <string.h>
#include "wire/control.h"
#include "wire/field_internal.h"
#include "wire/run_messages.h"
#include "wire/tensor_internal.h"

#define MAX_FIELDS 16
/* The most tensors in one list. No real message has as many; an array of dp_tensor is much larger
 * than the bytes that announce its elements, so the limit bounds what a message can make us
 * allocate. */
#define MAX_TENSORS ((size_t)1 << 20)

static void *member(const void *record, size_t offset) {
  return (char *)record + offset;
}
static size_t *count_of(const void *record, const dp_record_field *field) {
  return member(record, field->count_offset);
}
static void *list_of(const void *record, const dp_record_field *field) {
  return *(void **)member(record, field->offset);
}

/* 0 for a kind that is not a list. */
static size_t list_element_size(dp_record_kind kind) {
  switch (kind) {
  case DP_RECORD_STRINGS:
  case DP_RECORD_MESSAGES:
    return sizeof(void *);
  case DP_RECORD_TENSORS:
    return sizeof(dp_tensor);
  case DP_RECORD_NAMED:
    return sizeof(dp_named_tensor);
  default:
    return 0;
  }
}

/* The field of the table with that number; NULL when it is unknown or has another wire type. */
static const dp_record_field *find_field(const dp_record_type *type, const dp_wire_field *raw) {
  for (size_t i = 0; i < type->field_count; i++) {
    const dp_record_field *field = &type->fields[i];
    if (field->number != raw->number)
      continue;
    bool is_number = field->kind == DP_RECORD_BOOL || field->kind == DP_RECORD_INT32 ||
                     field->kind == DP_RECORD_INT64;
    return raw->type == (is_number ? DP_WIRE_VARINT : DP_WIRE_BYTES) ? field : NULL;
  }
  return NULL;
}

/* ---- Decoding ---------------------------------------------------------------------------------*/

static dp_status *count_lists(const dp_record_type *type, dp_rope_reader reader,
                              size_t counts[MAX_FIELDS]) {
  dp_wire_field raw;
  bool more;
  for (;;) {
    DP_RETURN_IF_ERROR(dp_wire_next_field(&reader, &raw, &more));
    if (!more)
      return NULL;
    const dp_record_field *field = find_field(type, &raw);
    if (!field)
      continue;
    size_t count = ++counts[field - type->fields];
    if (count > MAX_TENSORS && list_element_size(field->kind) >= sizeof(dp_tensor))
      return DP_INVALID("%s has more than %zu tensors", field->name, MAX_TENSORS);
  }
}

/* Sets all strings to "" and allocates the arrays of the lists; all counts stay 0. An element takes
 * at least two bytes on the wire, so the message's size bounds the arrays. */
static void prepare(const dp_record_type *type, const size_t counts[MAX_FIELDS], dp_arena *arena,
                    void *record) {
  for (size_t i = 0; i < type->field_count; i++) {
    const dp_record_field *field = &type->fields[i];
    size_t size = list_element_size(field->kind);
    if (field->kind == DP_RECORD_STRING || field->kind == DP_RECORD_TEXT)
      *(const char **)member(record, field->offset) = "";
    else if (size && counts[i])
      *(void **)member(record, field->offset) = dp_arena_allocate_zero(arena, size * counts[i]);
  }
}

static dp_status *decode_named(dp_rope_reader *reader, dp_arena *arena, dp_named_tensor *named) {
  dp_wire_field raw;
  bool more;
  dp_rope_reader tensor = {.rope = reader->rope};
  named->name = "";
  for (;;) {
    DP_RETURN_IF_ERROR(dp_wire_next_field(reader, &raw, &more));
    if (!more)
      break;
    if (raw.type == DP_WIRE_BYTES && raw.number == 1)
      DP_RETURN_IF_ERROR(dp_wire_field_string(&raw, arena, &named->name));
    else if (raw.type == DP_WIRE_BYTES && raw.number == 2)
      tensor = raw.bytes;
  }
  return dp_status_annotate(dp_wire_decode_tensor(&tensor, &named->tensor), "\"%s\"", named->name);
}

static dp_status *decode_list_element(const dp_record_field *field, dp_wire_field *raw,
                                      dp_arena *arena, void *list, size_t index) {
  switch (field->kind) {
  case DP_RECORD_STRINGS:
    return dp_wire_field_string(raw, arena, &((const char **)list)[index]);
  case DP_RECORD_MESSAGES:
    return dp_wire_unpack_part(field->descriptor, &raw->bytes, arena, &((void **)list)[index]);
  case DP_RECORD_TENSORS:
    return dp_wire_decode_tensor(&raw->bytes, &((dp_tensor *)list)[index]);
  default:
    return decode_named(&raw->bytes, arena, &((dp_named_tensor *)list)[index]);
  }
}

/* The message of an error may quote any bytes, so a NUL must not make the whole response invalid.
 */
static const char *decode_text(const dp_wire_field *raw, dp_arena *arena) {
  dp_rope_reader bytes = raw->bytes;
  size_t length = bytes.remaining;
  char *text = dp_arena_allocate_zero(arena, length + 1);
  dp_rope_copy_out(&bytes, text, length);
  for (char *nul = text; (nul = memchr(nul, 0, length - (size_t)(nul - text)));)
    *nul = '?';
  return text;
}

/* When a field that is not a list comes more than once, the last value counts. */
static dp_status *decode_single(const dp_record_field *field, dp_wire_field *raw, dp_arena *arena,
                                void *to) {
  switch (field->kind) {
  case DP_RECORD_STRING:
    return dp_wire_field_string(raw, arena, to);
  case DP_RECORD_TEXT:
    *(const char **)to = decode_text(raw, arena);
    return NULL;
  case DP_RECORD_BOOL:
    *(bool *)to = raw->value != 0;
    return NULL;
  case DP_RECORD_INT32:
    *(int32_t *)to = (int32_t)raw->value;
    return NULL;
  case DP_RECORD_INT64:
    *(int64_t *)to = (int64_t)raw->value;
    return NULL;
  case DP_RECORD_MESSAGE:
    return dp_wire_unpack_part(field->descriptor, &raw->bytes, arena, to);
  default:
    dp_tensor_deinit(to);
    return dp_wire_decode_tensor(&raw->bytes, to);
  }
}

/* What the tensors of a message hold together, and how long the message is. */
typedef struct expansion {
  uint64_t tensor_bytes;
  size_t message_bytes;
} expansion;

/* The bound that each tensor has (tensor_internal.h) holds for all tensors of a message together,
 * or a list of many small ones would pass it. */
static dp_status *check_expansion(const dp_tensor *tensor, expansion *sum) {
  sum->tensor_bytes += dp_tensor_bytes(tensor);
  if (sum->tensor_bytes <= DP_WIRE_MAX_EXPANSION || sum->tensor_bytes / 64 <= sum->message_bytes)
    return NULL;
  return dp_status_create(DP_RESOURCE_EXHAUSTED,
                          "the tensors of the message take far more memory than it has bytes");
}

static dp_status *check_list_element(const dp_record_field *field, const void *list, size_t index,
                                     expansion *sum) {
  if (field->kind == DP_RECORD_TENSORS)
    return check_expansion((const dp_tensor *)list + index, sum);
  if (field->kind == DP_RECORD_NAMED)
    return check_expansion(&((const dp_named_tensor *)list)[index].tensor, sum);
  return NULL;
}

static dp_status *decode_field(const dp_record_field *field, dp_wire_field *raw, dp_arena *arena,
                               expansion *sum, void *record) {
  if (!list_element_size(field->kind))
    return dp_status_annotate(decode_single(field, raw, arena, member(record, field->offset)), "%s",
                              field->name);
  size_t index = *count_of(record, field);
  dp_status *status = decode_list_element(field, raw, arena, list_of(record, field), index);
  if (status)
    return dp_status_annotate(status, "%s[%zu]", field->name, index);
  *count_of(record, field) = index + 1;
  return dp_status_annotate(check_list_element(field, list_of(record, field), index, sum),
                            "%s[%zu]", field->name, index);
}

static dp_status *decode_fields(const dp_record_type *type, dp_rope_reader reader, dp_arena *arena,
                                void *record) {
  dp_wire_field raw;
  expansion sum = {.message_bytes = reader.remaining};
  bool more;
  for (;;) {
    DP_RETURN_IF_ERROR(dp_wire_next_field(&reader, &raw, &more));
    if (!more)
      return NULL;
    const dp_record_field *field = find_field(type, &raw);
    if (field)
      DP_RETURN_IF_ERROR(decode_field(field, &raw, arena, &sum, record));
  }
}

dp_status *dp_record_decode(const dp_record_type *type, const dp_rope *rope, dp_arena *arena,
                            void *record_out) {
  size_t counts[MAX_FIELDS] = {0};
  dp_status *status = count_lists(type, dp_rope_read(rope), counts);
  if (!status) {
    void *record = dp_arena_allocate_zero(arena, type->size);
    prepare(type, counts, arena, record);
    status = decode_fields(type, dp_rope_read(rope), arena, record);
    if (status)
      dp_record_deinit(type, record);
    else
      memcpy(record_out, record, type->size);
  }
  return dp_status_annotate(status, "Could not parse a %s", type->name);
}

void dp_record_deinit(const dp_record_type *type, void *record) {
  for (size_t i = 0; i < type->field_count; i++) {
    const dp_record_field *field = &type->fields[i];
    if (field->kind == DP_RECORD_TENSOR)
      dp_tensor_deinit(member(record, field->offset));
    if (field->kind == DP_RECORD_TENSORS)
      for (size_t j = 0; j < *count_of(record, field); j++)
        dp_tensor_deinit((dp_tensor *)list_of(record, field) + j);
    if (field->kind == DP_RECORD_NAMED)
      for (size_t j = 0; j < *count_of(record, field); j++)
        dp_tensor_deinit(&((dp_named_tensor *)list_of(record, field))[j].tensor);
  }
  memset(record, 0, type->size);
}

/* ---- Encoding ---------------------------------------------------------------------------------*/

static dp_status *encode_string(uint32_t number, const char *string, dp_rope *rope) {
  return dp_wire_write_bytes_field(rope, number, string ? string : "", string ? strlen(string) : 0);
}

static dp_status *encode_message(uint32_t number, const void *message, dp_rope *rope) {
  DP_RETURN_IF_ERROR(dp_wire_write_bytes_head(rope, number, dp_wire_packed_size(message)));
  return dp_wire_pack(message, rope);
}

static dp_view name_of(const dp_named_tensor *named) {
  return dp_view_of(named->name ? named->name : "");
}

static dp_status *encode_named(uint32_t number, const dp_named_tensor *named, dp_rope *rope) {
  return dp_status_annotate(
      dp_wire_encode_named_tensor(number, name_of(named), &named->tensor, rope), "\"%s\"",
      name_of(named).data);
}

static dp_status *encode_list_element(const dp_record_field *field, const void *list, size_t index,
                                      dp_rope *rope) {
  switch (field->kind) {
  case DP_RECORD_STRINGS:
    return encode_string(field->number, ((const char *const *)list)[index], rope);
  case DP_RECORD_MESSAGES:
    return encode_message(field->number, ((void *const *)list)[index], rope);
  case DP_RECORD_TENSORS:
    return dp_wire_encode_tensor_field(field->number, (const dp_tensor *)list + index, rope);
  default:
    return encode_named(field->number, (const dp_named_tensor *)list + index, rope);
  }
}

static dp_status *encode_single(const dp_record_field *field, const void *from, dp_rope *rope) {
  switch (field->kind) {
  case DP_RECORD_STRING:
  case DP_RECORD_TEXT: {
    const char *string = *(const char *const *)from;
    return string && *string ? encode_string(field->number, string, rope) : NULL;
  }
  case DP_RECORD_BOOL:
    return *(const bool *)from ? dp_wire_write_varint_field(rope, field->number, 1) : NULL;
  case DP_RECORD_INT32: {
    int64_t value = *(const int32_t *)from;
    return value ? dp_wire_write_varint_field(rope, field->number, (uint64_t)value) : NULL;
  }
  case DP_RECORD_INT64: {
    int64_t value = *(const int64_t *)from;
    return value ? dp_wire_write_varint_field(rope, field->number, (uint64_t)value) : NULL;
  }
  case DP_RECORD_MESSAGE: {
    const void *message = *(void *const *)from;
    return message ? encode_message(field->number, message, rope) : NULL;
  }
  default:
    return dp_wire_encode_tensor_field(field->number, from, rope);
  }
}

dp_status *dp_record_encode(const dp_record_type *type, const void *record, dp_rope *rope) {
  for (size_t i = 0; i < type->field_count; i++) {
    const dp_record_field *field = &type->fields[i];
    dp_status *status = NULL;
    if (!list_element_size(field->kind))
      status = encode_single(field, member(record, field->offset), rope);
    else
      for (size_t j = 0; j < *count_of(record, field) && !status; j++)
        status = encode_list_element(field, list_of(record, field), j, rope);
    if (status)
      return dp_status_annotate(status, "Could not write %s.%s", type->name, field->name);
  }
  return NULL;
}

/* ---- NamedTensorProto alone -------------------------------------------------------------------*/

dp_status *dp_named_tensor_encode(const dp_named_tensor *named, dp_rope *rope) {
  return dp_wire_encode_named_tensor(0, name_of(named), &named->tensor, rope);
}

dp_status *dp_named_tensor_decode(const dp_rope *rope, dp_arena *arena,
                                  dp_named_tensor *named_out) {
  dp_rope_reader reader = dp_rope_read(rope);
  dp_named_tensor named = {0};
  DP_RETURN_IF_ERROR(
      dp_status_annotate(decode_named(&reader, arena, &named), "Could not parse a NamedTensor"));
  *named_out = named;
  return NULL;
}
