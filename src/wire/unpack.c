/* Reads a message into protobuf-c's structs, guided by protobuf-c's descriptors.
 *
 * Why not protobuf_c_message_unpack: it has no limit on nesting, it fails where protobuf keeps an
 * unknown field (a known number with another wire type), and it merges a field that comes twice by
 * building a new array each time, which lets a small message take quadratic memory. This reader
 * makes one pass, counts what it takes from the arena and stops at a limit that depends on the
 * message's size. The capacity of an array is the next power of two above its count, so it need not
 * be stored, and growing takes linear time in total. No state, any thread. */
#include "wire/unpack_internal.h"

#include <string.h>

typedef struct unpacker {
  dp_arena *arena;
  size_t memory_left;
  const ProtobufCMessageDescriptor *outermost; /* named in error messages */
} unpacker;

typedef struct cursor {
  const uint8_t *at;
  const uint8_t *end;
} cursor;

/* One field as it is on the wire. */
typedef struct raw_field {
  uint32_t number;
  uint32_t wire_type;
  uint64_t varint;     /* wire type 0; the length for 2 */
  const uint8_t *data; /* wire types 1, 2, 5: the payload */
  const uint8_t *raw;  /* all behind the tag, for unknown fields */
} raw_field;

enum { WIRE_VARINT = 0, WIRE_64 = 1, WIRE_BYTES = 2, WIRE_GROUP = 3, WIRE_END = 4, WIRE_32 = 5 };

static dp_status *unpack_fields(unpacker *u, ProtobufCMessage *message, cursor c, int depth);

static dp_status *malformed(const unpacker *u, const ProtobufCMessageDescriptor *type,
                            const char *what) {
  if (type == u->outermost)
    return DP_INVALID("Could not parse a %s: %s", u->outermost->name, what);
  return DP_INVALID("Could not parse a %s: %s in a %s inside", u->outermost->name, what,
                    type->name);
}

/* Allocates from the arena. NULL when the limit would be passed; the caller then returns too_large.
 */
static void *take(unpacker *u, size_t size) {
  size_t rounded = size + 16;
  if (rounded > u->memory_left)
    return NULL;
  u->memory_left -= rounded;
  return dp_arena_allocate(u->arena, size);
}

static dp_status *too_large(const unpacker *u) {
  return dp_status_create(DP_RESOURCE_EXHAUSTED,
                          "A %s would take far more memory than its size allows",
                          u->outermost->name);
}

static bool read_varint(cursor *c, uint64_t *value_out) {
  uint64_t value = 0;
  for (int shift = 0; shift < 70; shift += 7) {
    if (c->at == c->end)
      return false;
    uint8_t byte = *c->at++;
    value |= (uint64_t)(byte & 0x7f) << shift;
    if (byte < 0x80) {
      *value_out = value;
      return true;
    }
  }
  return false;
}

/* Skips a group whose start tag has been read. */
static bool skip_group(cursor *c, uint32_t number, int depth) {
  if (depth > DP_WIRE_MAX_DEPTH)
    return false;
  for (;;) {
    uint64_t tag, value;
    if (!read_varint(c, &tag) || tag > UINT32_MAX || tag >> 3 == 0)
      return false;
    size_t left = (size_t)(c->end - c->at);
    switch (tag & 7) {
    case WIRE_VARINT:
      if (!read_varint(c, &value))
        return false;
      break;
    case WIRE_64:
      if (left < 8)
        return false;
      c->at += 8;
      break;
    case WIRE_32:
      if (left < 4)
        return false;
      c->at += 4;
      break;
    case WIRE_BYTES:
      if (!read_varint(c, &value) || value > (size_t)(c->end - c->at))
        return false;
      c->at += value;
      break;
    case WIRE_GROUP:
      if (!skip_group(c, (uint32_t)(tag >> 3), depth + 1))
        return false;
      break;
    case WIRE_END:
      return tag >> 3 == number;
    default:
      return false;
    }
  }
}

/* Returns NULL, or a text that says what is wrong. */
static const char *read_field(cursor *c, raw_field *field, int depth) {
  uint64_t tag;
  if (!read_varint(c, &tag) || tag > UINT32_MAX)
    return "broken tag";
  field->number = (uint32_t)tag >> 3;
  field->wire_type = tag & 7;
  field->raw = c->at;
  if (field->number == 0)
    return "field number 0";
  size_t left = (size_t)(c->end - c->at);
  switch (field->wire_type) {
  case WIRE_VARINT:
    return read_varint(c, &field->varint) ? NULL : "broken number";
  case WIRE_64:
  case WIRE_32: {
    size_t size = field->wire_type == WIRE_64 ? 8 : 4;
    if (left < size)
      return "truncated field";
    field->data = c->at;
    field->varint = size;
    c->at += size;
    return NULL;
  }
  case WIRE_BYTES:
    if (!read_varint(c, &field->varint))
      return "broken length";
    if (field->varint > (size_t)(c->end - c->at))
      return "truncated field";
    field->data = c->at;
    c->at += field->varint;
    return NULL;
  case WIRE_GROUP:
    return skip_group(c, field->number, depth) ? NULL : "broken group";
  default:
    return "unknown wire type";
  }
}

static size_t power_of_two_from(size_t count) {
  return count <= 1 ? count : (size_t)1 << (64 - __builtin_clzll(count - 1));
}

/* Makes room for `more` elements behind the `count` that *array has. */
static dp_status *grow(unpacker *u, void **array, size_t count, size_t more, size_t element_size) {
  size_t wanted = power_of_two_from(count + more);
  if (wanted == power_of_two_from(count))
    return NULL;
  void *grown = take(u, wanted * element_size);
  if (!grown)
    return too_large(u);
  if (count)
    memcpy(grown, *array, count * element_size);
  *array = grown;
  return NULL;
}

static size_t element_size(ProtobufCType type) {
  switch (type) {
  case PROTOBUF_C_TYPE_INT32:
  case PROTOBUF_C_TYPE_SINT32:
  case PROTOBUF_C_TYPE_SFIXED32:
  case PROTOBUF_C_TYPE_UINT32:
  case PROTOBUF_C_TYPE_FIXED32:
  case PROTOBUF_C_TYPE_FLOAT:
  case PROTOBUF_C_TYPE_ENUM:
    return 4;
  case PROTOBUF_C_TYPE_BOOL:
    return sizeof(protobuf_c_boolean);
  case PROTOBUF_C_TYPE_BYTES:
    return sizeof(ProtobufCBinaryData);
  default:
    return 8;
  }
}

static uint32_t wire_type_of(ProtobufCType type) {
  switch (type) {
  case PROTOBUF_C_TYPE_SFIXED32:
  case PROTOBUF_C_TYPE_FIXED32:
  case PROTOBUF_C_TYPE_FLOAT:
    return WIRE_32;
  case PROTOBUF_C_TYPE_SFIXED64:
  case PROTOBUF_C_TYPE_FIXED64:
  case PROTOBUF_C_TYPE_DOUBLE:
    return WIRE_64;
  case PROTOBUF_C_TYPE_STRING:
  case PROTOBUF_C_TYPE_BYTES:
  case PROTOBUF_C_TYPE_MESSAGE:
    return WIRE_BYTES;
  default:
    return WIRE_VARINT;
  }
}

static void store_varint(ProtobufCType type, uint64_t value, void *member) {
  switch (type) {
  case PROTOBUF_C_TYPE_SINT32:
    *(int32_t *)member = (int32_t)((uint32_t)value >> 1) ^ -(int32_t)(value & 1);
    break;
  case PROTOBUF_C_TYPE_SINT64:
    *(int64_t *)member = (int64_t)(value >> 1) ^ -(int64_t)(value & 1);
    break;
  case PROTOBUF_C_TYPE_INT64:
  case PROTOBUF_C_TYPE_UINT64:
    *(uint64_t *)member = value;
    break;
  case PROTOBUF_C_TYPE_BOOL:
    *(protobuf_c_boolean *)member = value != 0;
    break;
  default:
    *(uint32_t *)member = (uint32_t)value;
  }
}

static dp_status *store_string(unpacker *u, const ProtobufCMessageDescriptor *type,
                               const ProtobufCFieldDescriptor *field, const raw_field *raw,
                               void *member) {
  if (memchr(raw->data, 0, raw->varint))
    return DP_INVALID("Could not parse a %s: the string %s.%s has a NUL byte", u->outermost->name,
                      type->name, field->name);
  char *copy = take(u, raw->varint + 1);
  if (!copy)
    return too_large(u);
  memcpy(copy, raw->data, raw->varint);
  copy[raw->varint] = 0;
  *(char **)member = copy;
  return NULL;
}

static dp_status *store_bytes(unpacker *u, const raw_field *raw, void *member) {
  ProtobufCBinaryData *bytes = member;
  if (raw->varint) {
    bytes->data = take(u, raw->varint);
    if (!bytes->data)
      return too_large(u);
    memcpy(bytes->data, raw->data, raw->varint);
  }
  bytes->len = raw->varint;
  return NULL;
}

/* `member` is the address of the pointer to the sub-message. When there is a sub-message already,
 * the new one is merged into it. */
static dp_status *store_message(unpacker *u, const ProtobufCFieldDescriptor *field,
                                const raw_field *raw, void *member, int depth) {
  ProtobufCMessage *inner = *(ProtobufCMessage **)member;
  if (!inner) {
    const ProtobufCMessageDescriptor *type = field->descriptor;
    inner = take(u, type->sizeof_message);
    if (!inner)
      return too_large(u);
    type->message_init(inner);
    *(ProtobufCMessage **)member = inner;
  }
  return unpack_fields(u, inner, (cursor){raw->data, raw->data + raw->varint}, depth + 1);
}

static dp_status *store_value(unpacker *u, const ProtobufCMessageDescriptor *type,
                              const ProtobufCFieldDescriptor *field, const raw_field *raw,
                              void *member, int depth) {
  switch (field->type) {
  case PROTOBUF_C_TYPE_STRING:
    return store_string(u, type, field, raw, member);
  case PROTOBUF_C_TYPE_BYTES:
    return store_bytes(u, raw, member);
  case PROTOBUF_C_TYPE_MESSAGE:
    return store_message(u, field, raw, member, depth);
  default:
    if (raw->wire_type == WIRE_VARINT)
      store_varint(field->type, raw->varint, member);
    else
      memcpy(member, raw->data, raw->varint);
    return NULL;
  }
}

static dp_status *store_packed(unpacker *u, const ProtobufCMessageDescriptor *type,
                               const ProtobufCFieldDescriptor *field, const raw_field *raw,
                               size_t *count, void **array) {
  size_t size = element_size(field->type), length = raw->varint, added = 0;
  if (wire_type_of(field->type) != WIRE_VARINT) {
    if (length % size)
      return malformed(u, type, "packed field of a broken length");
    added = length / size;
    DP_RETURN_IF_ERROR(grow(u, array, *count, added, size));
    if (added)
      memcpy((char *)*array + *count * size, raw->data, length);
    *count += added;
    return NULL;
  }
  for (size_t i = 0; i < length; i++)
    added += raw->data[i] < 0x80;
  DP_RETURN_IF_ERROR(grow(u, array, *count, added, size));
  cursor c = {raw->data, raw->data + length};
  while (c.at != c.end) {
    uint64_t value;
    if (!read_varint(&c, &value))
      return malformed(u, type, "broken number in a packed field");
    store_varint(field->type, value, (char *)*array + (*count)++ * size);
  }
  return NULL;
}

static dp_status *store_repeated(unpacker *u, ProtobufCMessage *message,
                                 const ProtobufCFieldDescriptor *field, const raw_field *raw,
                                 int depth) {
  size_t *count = (size_t *)((char *)message + field->quantifier_offset);
  void **array = (void **)((char *)message + field->offset);
  if (raw->wire_type != wire_type_of(field->type))
    return store_packed(u, message->descriptor, field, raw, count, array);
  size_t size = element_size(field->type);
  DP_RETURN_IF_ERROR(grow(u, array, *count, 1, size));
  void *member = (char *)*array + *count * size;
  memset(member, 0, size);
  ++*count;
  return store_value(u, message->descriptor, field, raw, member, depth);
}

static dp_status *store_single(unpacker *u, ProtobufCMessage *message,
                               const ProtobufCFieldDescriptor *field, const raw_field *raw,
                               int depth) {
  void *member = (char *)message + field->offset;
  if (field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) {
    uint32_t *which = (uint32_t *)((char *)message + field->quantifier_offset);
    if (*which != field->id) {
      memset(member, 0, element_size(field->type));
      *which = field->id;
    }
  }
  return store_value(u, message->descriptor, field, raw, member, depth);
}

/* Keeps the bytes behind the tag: protobuf-c writes the tag itself when it packs the field again.
 * Groups are dropped, because protobuf-c cannot write them. */
static dp_status *keep_unknown(unpacker *u, ProtobufCMessage *message, const raw_field *raw,
                               const uint8_t *end) {
  if (raw->wire_type == WIRE_GROUP)
    return NULL;
  void *array = message->unknown_fields;
  size_t count = message->n_unknown_fields, length = (size_t)(end - raw->raw);
  DP_RETURN_IF_ERROR(grow(u, &array, count, 1, sizeof(ProtobufCMessageUnknownField)));
  uint8_t *copy = take(u, length);
  if (!copy)
    return too_large(u);
  memcpy(copy, raw->raw, length);
  message->unknown_fields = array;
  message->unknown_fields[count] = (ProtobufCMessageUnknownField){
      .tag = raw->number,
      .wire_type = (ProtobufCWireType)raw->wire_type,
      .len = length,
      .data = copy,
  };
  message->n_unknown_fields = (unsigned)count + 1;
  return NULL;
}

/* The field with that number; NULL when it is unknown or has another wire type. `guess` is the
 * index of the last field found: fields usually come in ascending order, so the next one is near.
 */
static const ProtobufCFieldDescriptor *find_field(const ProtobufCMessageDescriptor *type,
                                                  const raw_field *raw, unsigned *guess) {
  const ProtobufCFieldDescriptor *field = NULL;
  for (unsigned i = *guess; i < type->n_fields && i < *guess + 2; i++)
    if (type->fields[i].id == raw->number)
      field = &type->fields[i];
  if (!field)
    field = protobuf_c_message_descriptor_get_field(type, raw->number);
  if (!field)
    return NULL;
  *guess = (unsigned)(field - type->fields);
  uint32_t wanted = wire_type_of(field->type);
  bool may_be_packed = field->label == PROTOBUF_C_LABEL_REPEATED && wanted != WIRE_BYTES;
  if (raw->wire_type == wanted || (may_be_packed && raw->wire_type == WIRE_BYTES))
    return field;
  return NULL;
}

static dp_status *unpack_fields(unpacker *u, ProtobufCMessage *message, cursor c, int depth) {
  const ProtobufCMessageDescriptor *type = message->descriptor;
  if (depth > DP_WIRE_MAX_DEPTH)
    return malformed(u, type, "messages nested too deeply");
  unsigned guess = 0;
  while (c.at != c.end) {
    raw_field raw = {0};
    const char *what = read_field(&c, &raw, depth);
    if (what)
      return malformed(u, type, what);
    const ProtobufCFieldDescriptor *field = find_field(type, &raw, &guess);
    if (!field)
      DP_RETURN_IF_ERROR(keep_unknown(u, message, &raw, c.at));
    else if (field->label == PROTOBUF_C_LABEL_REPEATED)
      DP_RETURN_IF_ERROR(store_repeated(u, message, field, &raw, depth));
    else
      DP_RETURN_IF_ERROR(store_single(u, message, field, &raw, depth));
  }
  return NULL;
}

dp_status *dp_wire_unpack_into_arena(const ProtobufCMessageDescriptor *descriptor,
                                     const uint8_t *data, size_t length, dp_arena *arena,
                                     ProtobufCMessage **message_out) {
  if (length > DP_WIRE_MAX_BYTES)
    return DP_INVALID("A %s of %zu bytes is larger than 2 GiB", descriptor->name, length);
  /* Real messages take two to six times their size. */
  size_t limit = ((size_t)64 << 20) + 16 * length;
  unpacker u = {
      .arena = arena,
      .memory_left = limit < DP_WIRE_MAX_MEMORY ? limit : DP_WIRE_MAX_MEMORY,
      .outermost = descriptor,
  };
  ProtobufCMessage *message = take(&u, descriptor->sizeof_message);
  if (!message)
    return too_large(&u);
  descriptor->message_init(message);
  DP_RETURN_IF_ERROR(unpack_fields(&u, message, (cursor){data, data + length}, 0));
  *message_out = message;
  return NULL;
}
