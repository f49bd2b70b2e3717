/* Text and code points: UnicodeDecode, UnicodeDecodeWithOffsets, UnicodeEncode, UnicodeTranscode.
 *
 * UTF-8, UTF-16, UTF-32, ASCII and Latin-1 are read here; other encodings by the system's iconv,
 * one character at a time. Each sequence that cannot be completed is one error, which the op
 * replaces, drops or refuses. */
#include "kernels/shared/family.h"

#include <ctype.h>
#include <errno.h>
#include <iconv.h>
#include <string.h>
#include "base/memory.h"
#include "kernels/text/string.h"
#include "kernels/text/unicode.h"

/* ---- Reading ---- */
typedef struct reader {
  /* Takes one code point off the front; false when the bytes are no code point. */
  bool (*next)(struct reader *reader, dp_view *text, uint32_t *point);
  bool is_little;
  iconv_t converter;
} reader;

static uint32_t take_bytes(const reader *r, dp_view *text, size_t count) {
  uint32_t value = 0;
  for (size_t i = 0; i < count; ++i)
    value = value << 8 | (uint8_t)text->data[r->is_little ? count - 1 - i : i];
  text->data += count;
  text->length -= count;
  return value;
}

static bool take_rest(dp_view *text) {
  text->data += text->length;
  text->length = 0;
  return false;
}

static bool next_utf8(reader *r, dp_view *text, uint32_t *point) {
  return dp_utf8_next(text, point);
}

static bool next_utf16(reader *r, dp_view *text, uint32_t *point) {
  if (text->length < 2)
    return take_rest(text);
  uint32_t high = take_bytes(r, text, 2);
  *point = high;
  if (high < 0xd800 || high > 0xdfff)
    return true;
  dp_view ahead = *text;
  if (high > 0xdbff || ahead.length < 2)
    return false;
  uint32_t low = take_bytes(r, &ahead, 2);
  if (low < 0xdc00 || low > 0xdfff)
    return false;
  *text = ahead;
  *point = 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
  return true;
}

static bool next_utf32(reader *r, dp_view *text, uint32_t *point) {
  if (text->length < 4)
    return take_rest(text);
  *point = take_bytes(r, text, 4);
  return dp_is_code_point(*point);
}

static bool next_ascii(reader *r, dp_view *text, uint32_t *point) {
  *point = take_bytes(r, text, 1);
  return *point < 0x80;
}

static bool next_latin1(reader *r, dp_view *text, uint32_t *point) {
  *point = take_bytes(r, text, 1);
  return true;
}

/* Tries more and more bytes until they are one character. */
static bool next_other(reader *r, dp_view *text, uint32_t *point) {
  for (size_t count = 1; count <= text->length && count <= 8; ++count) {
    uint32_t out = 0;
    char *from = (char *)text->data, *to = (char *)&out;
    size_t left = count, room = sizeof out;
    iconv(r->converter, NULL, NULL, NULL, NULL);
    if (iconv(r->converter, &from, &left, &to, &room) != (size_t)-1 && room == 0) {
      text->data += count;
      text->length -= count;
      *point = out;
      return true;
    }
    if (errno != EINVAL && errno != E2BIG)
      break;
    if (count == text->length)
      return take_rest(text);
  }
  ++text->data;
  --text->length;
  return false;
}

/* ---- Encodings by name ---- */
typedef struct encoding {
  const char *name; /* capital letters and digits only */
  bool (*next)(reader *r, dp_view *text, uint32_t *point);
  bool is_little;
  size_t mark; /* bytes of a byte order mark at the beginning */
} encoding;

static const encoding encodings[] = {
    {"UTF8", next_utf8, false, 0},     {"UTF16BE", next_utf16, false, 0},
    {"UTF16LE", next_utf16, true, 0},  {"UTF16", next_utf16, false, 2},
    {"UTF32BE", next_utf32, false, 0}, {"UTF32LE", next_utf32, true, 0},
    {"UTF32", next_utf32, false, 4},   {"USASCII", next_ascii, false, 0},
    {"ASCII", next_ascii, false, 0},   {"ISO88591", next_latin1, false, 0},
    {"LATIN1", next_latin1, false, 0},
};

static const encoding *find_encoding(dp_view name) {
  char plain[32];
  size_t length = 0;
  for (size_t i = 0; i < name.length && length + 1 < sizeof plain; ++i)
    if (isalnum((unsigned char)name.data[i]))
      plain[length++] = (char)toupper((unsigned char)name.data[i]);
  plain[length] = 0;
  for (size_t i = 0; i < sizeof encodings / sizeof encodings[0]; ++i)
    if (strcmp(plain, encodings[i].name) == 0)
      return &encodings[i];
  return NULL;
}

/* ---- Attributes ---- */
typedef enum output_form { FORM_UTF8, FORM_UTF16, FORM_UTF32 } output_form;

typedef struct unicode_state {
  const encoding *input; /* NULL: read by iconv */
  char *input_name;
  output_form output;
  bool is_strict, ignores, replaces_controls;
  uint32_t replacement;
} unicode_state;

static dp_status *read_errors(const dp_node *node, unicode_state *state) {
  dp_view policy;
  int64_t replacement;
  DP_RETURN_IF_ERROR(dp_node_get_string(node, "errors", &policy));
  DP_RETURN_IF_ERROR(dp_node_get_int(node, "replacement_char", &replacement));
  state->is_strict = dp_view_equals(policy, "strict");
  state->ignores = dp_view_equals(policy, "ignore");
  if (!state->is_strict && !state->ignores && !dp_view_equals(policy, "replace"))
    return DP_INVALID("errors policy must be one of 'strict', 'replace', or 'ignore'");
  if (replacement < 0 || replacement > 0x10ffff)
    return DP_INVALID("replacement_char out of unicode codepoint range");
  state->replacement = (uint32_t)replacement;
  if (dp_node_attr(node, "replace_control_characters"))
    DP_RETURN_IF_ERROR(
        dp_node_get_bool(node, "replace_control_characters", &state->replaces_controls));
  return NULL;
}

static dp_status *no_encoding(const unicode_state *state) {
  return DP_INVALID("Could not create converter for input encoding: %s", state->input_name);
}

static dp_status *unicode_create(const dp_kernel_setup *setup, void *memory) {
  unicode_state *state = memory;
  const dp_node *node = setup->node;
  dp_view name;
  DP_RETURN_IF_ERROR(read_errors(node, state));
  if (dp_node_attr(node, "output_encoding")) {
    DP_RETURN_IF_ERROR(dp_node_get_string(node, "output_encoding", &name));
    state->output = dp_view_equals(name, "UTF-16-BE")   ? FORM_UTF16
                    : dp_view_equals(name, "UTF-32-BE") ? FORM_UTF32
                                                        : FORM_UTF8;
  }
  if (!dp_node_attr(node, "input_encoding"))
    return NULL;
  DP_RETURN_IF_ERROR(dp_node_get_string(node, "input_encoding", &name));
  state->input_name = dp_strndup(name.data, name.length);
  state->input = find_encoding(name);
  if (state->input)
    return NULL;
  iconv_t converter = iconv_open("UTF-32LE", state->input_name);
  if (converter == (iconv_t)-1)
    return no_encoding(state);
  iconv_close(converter);
  return NULL;
}

static void unicode_destroy(void *memory) {
  dp_free(((unicode_state *)memory)->input_name);
}

static dp_status *reader_init(reader *r, const unicode_state *state) {
  *r = (reader){.next = next_other, .converter = (iconv_t)-1};
  if (state->input) {
    r->next = state->input->next;
    return NULL;
  }
  r->converter = iconv_open("UTF-32LE", state->input_name);
  return r->converter == (iconv_t)-1 ? no_encoding(state) : NULL;
}

static void reader_deinit(reader *r) {
  if (r->converter != (iconv_t)-1)
    iconv_close(r->converter);
}

/* Called before a new text: finds the byte order and skips the mark. */
static void start_text(reader *r, const unicode_state *state, dp_view *text) {
  r->is_little = state->input && state->input->is_little;
  size_t mark = state->input ? state->input->mark : 0;
  for (int order = 0; order < 2 && mark > 0 && text->length >= mark; ++order) {
    dp_view ahead = *text;
    reader probe = {.is_little = order == 1};
    if (take_bytes(&probe, &ahead, mark) == 0xfeff) {
      r->is_little = order == 1;
      *text = ahead;
      return;
    }
  }
}

/* ---- A text, code point by code point ---- */
/* The next code point after the op's error handling; false when it is dropped. */
static bool next_point(reader *r, const unicode_state *state, dp_view *text, uint32_t *point,
                       bool *is_bad) {
  *is_bad = !r->next(r, text, point);
  bool is_control = !*is_bad && state->replaces_controls && *point <= 0x1f;
  if (!*is_bad && !is_control)
    return true;
  *point = state->replacement;
  return !state->ignores;
}

static void append_point(output_form form, uint32_t point, dp_text *text) {
  if (form == FORM_UTF8) {
    dp_utf8_append(text, point);
    return;
  }
  bool is_pair = form == FORM_UTF16 && point > 0xffff;
  uint32_t rest = point - 0x10000;
  uint32_t value = is_pair ? (0xd800 + (rest >> 10)) << 16 | (0xdc00 + (rest & 0x3ff)) : point;
  for (int shift = form == FORM_UTF16 && !is_pair ? 8 : 24; shift >= 0; shift -= 8)
    dp_text_add_char(text, (char)(value >> shift));
}

static dp_status *refuse(void) {
  return DP_INVALID("Invalid formatting on input string");
}

/* ---- UnicodeTranscode ---- */
static dp_status *transcode(const void *memory, dp_view input, dp_text *text) {
  const unicode_state *state = memory;
  reader r;
  DP_RETURN_IF_ERROR(reader_init(&r, state));
  start_text(&r, state, &input);
  bool any_bad = false;
  while (input.length > 0) {
    uint32_t point;
    bool is_bad;
    if (next_point(&r, state, &input, &point, &is_bad))
      append_point(state->output, point, text);
    any_bad |= is_bad;
  }
  reader_deinit(&r);
  return any_bad && state->is_strict ? refuse() : NULL;
}

static dp_status *transcode_compute(dp_op_context *context, void *memory) {
  return dp_string_map(context, transcode, memory);
}

/* ---- UnicodeDecode ---- */
typedef struct decoded {
  DP_ARRAY(int32_t) points;
  DP_ARRAY(int64_t) offsets;
} decoded;

/* The first character has a mark before it as a part. */
static dp_status *decode_text(reader *r, const unicode_state *state, dp_view text, decoded *to) {
  dp_view rest = text;
  start_text(r, state, &rest);
  for (int64_t offset = 0; rest.length > 0; offset = rest.data - text.data) {
    uint32_t point;
    bool is_bad, keeps = next_point(r, state, &rest, &point, &is_bad);
    if (is_bad && state->is_strict)
      return refuse();
    if (!keeps)
      continue;
    DP_ARRAY_PUSH(&to->points, (int32_t)point);
    DP_ARRAY_PUSH(&to->offsets, offset);
  }
  return NULL;
}

static dp_status *write_decoded(dp_op_context *context, const decoded *from) {
  int64_t count = (int64_t)from->points.count;
  dp_shape shape = dp_shape_vector(count);
  dp_tensor *points, *offsets;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 1, &shape, &points));
  if (count > 0)
    memcpy(points->data, from->points.items, (size_t)count * sizeof(int32_t));
  if (context->output_count < 3)
    return NULL;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 2, &shape, &offsets));
  for (int64_t i = 0; i < count; ++i)
    ((int64_t *)offsets->data)[i] = from->offsets.items[i];
  return NULL;
}

static dp_status *decode_all(dp_op_context *context, const unicode_state *state, dp_tensor *splits,
                             decoded *to) {
  const dp_tensor *input = dp_op_input(context, 0);
  reader r;
  DP_RETURN_IF_ERROR(reader_init(&r, state));
  dp_status *status = NULL;
  dp_tensor_set_int(splits, 0, 0);
  for (int64_t i = 0; i < input->shape.elements && !status; ++i) {
    status = decode_text(&r, state, dp_string_at(input, i), to);
    dp_tensor_set_int(splits, i + 1, (int64_t)to->points.count);
  }
  reader_deinit(&r);
  return status;
}

static dp_status *decode_compute(dp_op_context *context, void *memory) {
  dp_shape shape = dp_shape_vector(dp_op_input(context, 0)->shape.elements + 1);
  dp_tensor *splits;
  decoded found = {0};
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &shape, &splits));
  dp_status *status = decode_all(context, memory, splits, &found);
  if (!status)
    status = write_decoded(context, &found);
  DP_ARRAY_FREE(&found.points);
  DP_ARRAY_FREE(&found.offsets);
  return status;
}

/* ---- UnicodeEncode ---- */
static dp_status *check_splits(const dp_tensor *values, const dp_tensor *splits) {
  int64_t count = splits->shape.elements;
  if (values->shape.rank != 1 || splits->shape.rank != 1)
    return DP_INVALID("input_values and input_splits must be vectors, got shapes %s and %s",
                      dp_shape_text(&values->shape), dp_shape_text(&splits->shape));
  if (count == 0)
    return DP_INVALID("Input_splits should contain elements, but given input_values has 0 "
                      "elements");
  if (dp_tensor_int_at(splits, 0) != 0)
    return DP_INVALID("First value in input_splits must be zero.");
  if (dp_tensor_int_at(splits, count - 1) != values->shape.elements)
    return DP_INVALID("Last value in input_splits must be equal to length of input_tensor.");
  for (int64_t i = 1; i < count; ++i)
    if (dp_tensor_int_at(splits, i) > values->shape.elements)
      return DP_INVALID(
          "Values in input_splits must be less than or equal to input_tensor length.");
  for (int64_t i = 1; i < count; ++i)
    if (dp_tensor_int_at(splits, i) < dp_tensor_int_at(splits, i - 1))
      return DP_INVALID("Values in input_splits must be equal or in ascending order.");
  return NULL;
}

static dp_status *encode_row(const unicode_state *state, const int32_t *points, int64_t count,
                             dp_text *text) {
  for (int64_t i = 0; i < count; ++i) {
    bool is_good = dp_is_code_point(points[i]);
    if (!is_good && state->is_strict)
      return DP_INVALID("Code point is out of range for Unicode, or is a surrogate.");
    if (is_good || !state->ignores)
      append_point(state->output, is_good ? (uint32_t)points[i] : state->replacement, text);
  }
  return NULL;
}

static dp_status *encode_compute(dp_op_context *context, void *memory) {
  const dp_tensor *values = dp_op_input(context, 0), *splits = dp_op_input(context, 1);
  DP_RETURN_IF_ERROR(check_splits(values, splits));
  dp_shape shape = dp_shape_vector(splits->shape.elements - 1);
  dp_tensor *output;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &shape, &output));
  dp_text text = {0};
  dp_status *status = NULL;
  for (int64_t i = 0; i < shape.elements && !status; ++i) {
    int64_t begin = dp_tensor_int_at(splits, i), end = dp_tensor_int_at(splits, i + 1);
    dp_text_clear(&text);
    status = encode_row(memory, (const int32_t *)values->data + begin, end - begin, &text);
    if (!status)
      status = dp_tstring_assign(&dp_tensor_strings(output)[i], dp_text_string(&text), text.length);
  }
  dp_text_deinit(&text);
  return status;
}

#define ROW(name, body)                                                                            \
  {                                                                                                \
    .op = name, .state_size = sizeof(unicode_state), .create = unicode_create, .compute = body,    \
    .destroy = unicode_destroy                                                                     \
  }
static const dp_kernel rows[] = {
    ROW("UnicodeTranscode", transcode_compute),
    ROW("UnicodeDecode", decode_compute),
    ROW("UnicodeDecodeWithOffsets", decode_compute),
    ROW("UnicodeEncode", encode_compute),
};
DP_KERNEL_FAMILY(unicode_ops, rows);
