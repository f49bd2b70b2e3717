/* DecodeJSONExample: Examples in protobuf's JSON become serialized messages.
 *
 * Each value is written as soon as it is read, in the order of the text and as one field per value,
 * as TensorFlow's converter does. A nested message is first written to a buffer of its own, because
 * its length comes before it. */
#include "kernels/shared/family.h"

#include <float.h>
#include <math.h>
#include "base/map.h"
#include "kernels/data/json_internal.h"
#include "kernels/shared/message.h"
#include "kernels/text/string.h"

/* Reads one value and appends its field to the message. */
typedef bool (*value_fn)(dp_json *json, dp_text *message);

static void add_tag(dp_text *text, uint32_t number, dp_message_type type) {
  dp_text_add_varint(text, number << 3 | (uint32_t)type);
}

static void add_bytes(dp_text *text, uint32_t number, const dp_text *bytes) {
  dp_message_add_bytes(text, number, (dp_view){bytes->data, bytes->length});
}

/* ---- Lists of values: all in field 1 ---- */
/* A number, in quotes or not. */
static bool take_number(dp_json *json, dp_text *quoted, dp_view *digits_out) {
  if (!dp_json_is_string(json))
    return dp_json_number(json, digits_out);
  if (!dp_json_string(json, quoted))
    return false;
  *digits_out = (dp_view){dp_text_string(quoted), quoted->length};
  return true;
}

/* Whole numbers may be written as 1.0 or 1e2. */
static bool parse_int(dp_view digits, int64_t *value_out) {
  double real;
  if (digits.length > 1 && digits.data[0] == '+')
    digits = (dp_view){digits.data + 1, digits.length - 1};
  if (dp_parse_int64(digits, value_out))
    return true;
  if (!dp_parse_double(digits, &real) || !(real >= -0x1p63 && real < 0x1p63) || real != trunc(real))
    return false;
  *value_out = (int64_t)real;
  return true;
}

static bool read_int(dp_json *json, dp_text *message) {
  dp_text quoted = {0};
  dp_view digits;
  int64_t value;
  bool good = take_number(json, &quoted, &digits) && parse_int(digits, &value);
  dp_text_deinit(&quoted);
  if (good) {
    add_tag(message, 1, DP_MESSAGE_VARINT);
    dp_text_add_varint(message, (uint64_t)value);
  }
  return good;
}

static void add_float(dp_text *message, float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  add_tag(message, 1, DP_MESSAGE_32);
  for (int i = 0; i < 4; ++i)
    dp_text_add_char(message, (char)(bits >> (8 * i)));
}

static bool read_float(dp_json *json, dp_text *message) {
  dp_text quoted = {0};
  dp_view digits;
  double value;
  bool good = take_number(json, &quoted, &digits) &&
              dp_parse_double(dp_string_trim(digits), &value) &&
              (isinf(value) || !(fabs(value) > FLT_MAX));
  dp_text_deinit(&quoted);
  if (good)
    add_float(message, (float)value);
  return good;
}

/* -1 when it is no digit of base64. */
static int digit_of(char c) {
  return c >= 'A' && c <= 'Z'   ? c - 'A'
         : c >= 'a' && c <= 'z' ? c - 'a' + 26
         : c >= '0' && c <= '9' ? c - '0' + 52
         : c == '+' || c == '-' ? 62
         : c == '/' || c == '_' ? 63
                                : -1;
}

/* Both alphabets of base64; the '=' at the end may be missing. */
static bool decode_base64(dp_view input, dp_text *bytes) {
  size_t length = input.length;
  if (length > 0 && length % 4 == 0 && input.data[length - 1] == '=')
    length -= input.data[length - 2] == '=' ? 2 : 1;
  uint32_t group = 0;
  for (size_t i = 0; i < length; ++i) {
    int digit = digit_of(input.data[i]);
    if (digit < 0)
      return false;
    group = group << 6 | (uint32_t)digit;
    if (i % 4 > 0)
      dp_text_add_char(bytes, (char)(group >> (6 - 2 * (i % 4))));
  }
  return length % 4 != 1;
}

static bool read_bytes(dp_json *json, dp_text *message) {
  dp_text quoted = {0}, bytes = {0};
  bool good = dp_json_string(json, &quoted) &&
              decode_base64((dp_view){dp_text_string(&quoted), quoted.length}, &bytes);
  if (good)
    add_bytes(message, 1, &bytes);
  dp_text_deinit(&quoted);
  dp_text_deinit(&bytes);
  return good;
}

/* A kind of list. */
typedef struct list_kind {
  const char *names[2];
  value_fn read;
  const char *zero; /* what null means as a value */
} list_kind;

static bool read_element(dp_json *json, dp_text *message, const list_kind *kind) {
  if (!dp_json_take_null(json))
    return kind->read(json, message);
  dp_json zero = {kind->zero, kind->zero + strlen(kind->zero)};
  return kind->read(&zero, message);
}

static bool read_values(dp_json *json, dp_text *message, const list_kind *kind) {
  if (!dp_json_take(json, '['))
    return read_element(json, message, kind);
  bool more;
  for (bool is_first = true;; is_first = false) {
    if (!dp_json_next(json, ']', is_first, &more))
      return false;
    if (!more)
      return true;
    if (!read_element(json, message, kind))
      return false;
  }
}

/* ---- Messages ---- */
typedef struct object_reader {
  /* Reads the value of member `name`. */
  bool (*member)(struct object_reader *reader, dp_json *json, dp_view name, dp_text *message);
  const list_kind *kind; /* of lists */
  dp_map *seen;          /* maps: the names so far */
  bool is_set;           /* oneofs: whether a member was set */
} object_reader;

static bool read_object(object_reader *reader, dp_json *json, dp_text *message) {
  dp_text name = {0};
  bool good = dp_json_take(json, '{'), more = true;
  for (bool is_first = true; good; is_first = false) {
    good = dp_json_next(json, '}', is_first, &more);
    if (!more || !good)
      break;
    dp_text_clear(&name);
    good = dp_json_name(json, &name) &&
           reader->member(reader, json, (dp_view){dp_text_string(&name), name.length}, message);
  }
  dp_text_deinit(&name);
  return good;
}

/* Reads an object into a buffer and appends that as field `number`. */
static bool add_object(object_reader *reader, dp_json *json, uint32_t number, dp_text *message) {
  dp_text inner = {0};
  bool good = read_object(reader, json, &inner);
  if (good)
    add_bytes(message, number, &inner);
  dp_text_deinit(&inner);
  return good;
}

static bool list_member(object_reader *reader, dp_json *json, dp_view name, dp_text *message) {
  return dp_view_equals(name, "value") &&
         (dp_json_take_null(json) || read_values(json, message, reader->kind));
}

static bool feature_member(object_reader *reader, dp_json *json, dp_view name, dp_text *message) {
  static const list_kind kinds[] = {{{"bytesList", "bytes_list"}, read_bytes, "''"},
                                    {{"floatList", "float_list"}, read_float, "0"},
                                    {{"int64List", "int64_list"}, read_int, "0"}};
  for (uint32_t i = 0; i < 3; ++i) {
    if (!dp_view_equals(name, kinds[i].names[0]) && !dp_view_equals(name, kinds[i].names[1]))
      continue;
    if (dp_json_take_null(json))
      return true;
    if (reader->is_set)
      return false;
    reader->is_set = true;
    object_reader list = {.member = list_member, .kind = &kinds[i]};
    return add_object(&list, json, i + 1, message);
  }
  return false;
}

/* An entry of the map: the name and, unless it is null, the feature. */
static bool map_member(object_reader *reader, dp_json *json, dp_view name, dp_text *message) {
  if (dp_map_put_n(reader->seen, name.data, name.length, reader))
    return false;
  dp_text entry = {0}, key = {0};
  dp_text_append(&key, name.data, name.length);
  add_bytes(&entry, 1, &key);
  object_reader feature = {.member = feature_member};
  bool good = dp_json_take_null(json) || add_object(&feature, json, 2, &entry);
  if (good)
    add_bytes(message, 1, &entry);
  dp_text_deinit(&entry);
  dp_text_deinit(&key);
  return good;
}

static bool features_member(object_reader *reader, dp_json *json, dp_view name, dp_text *message) {
  if (!dp_view_equals(name, "feature"))
    return false;
  if (dp_json_take_null(json))
    return true;
  object_reader map = {.member = map_member, .seen = dp_map_create()};
  bool good = read_object(&map, json, message);
  dp_map_destroy(map.seen);
  return good;
}

static bool example_member(object_reader *reader, dp_json *json, dp_view name, dp_text *message) {
  if (!dp_view_equals(name, "features"))
    return false;
  object_reader features = {.member = features_member};
  return dp_json_take_null(json) || add_object(&features, json, 1, message);
}

static dp_status *convert(const void *state, dp_view input, dp_text *text) {
  dp_json json = {input.data, input.data + input.length};
  object_reader example = {.member = example_member};
  if (read_object(&example, &json, text) && dp_json_at_end(&json))
    return NULL;
  return DP_INVALID("Error while parsing JSON: not an Example, near offset %lld",
                    (long long)(json.at - input.data));
}

static dp_status *convert_compute(dp_op_context *context, void *memory) {
  return dp_string_map(context, convert, NULL);
}

static const dp_kernel rows[] = {
    {.op = "DecodeJSONExample", .compute = convert_compute},
};
DP_KERNEL_FAMILY(example_json, rows);
