/* Strings and numbers: AsString, StringToNumber, StringFormat, and the ops that hash strings to
 * buckets. */
#include "kernels/shared/family.h"

#include <stdio.h>
#include <string.h>
#include "base/checksum.h"
#include "base/memory.h"
#include "kernels/text/string.h"

/* ---- AsString ---- */
typedef struct as_string_state {
  char format[48]; /* for one number; floats are printed as double, integers as long long */
  dp_dtype dtype;
  bool is_plain_integer; /* only digits and perhaps a minus sign */
} as_string_state;

static bool is_float(dp_dtype dtype) {
  return dtype == DP_FLOAT || dtype == DP_DOUBLE || dtype == DP_HALF || dtype == DP_BFLOAT16 ||
         dp_dtype_is_complex(dtype);
}

typedef struct as_string_attrs {
  int64_t precision, width;
  bool scientific, shortest;
  dp_view fill;
} as_string_attrs;

static dp_status *read_attrs(const dp_node *node, as_string_attrs *attrs) {
  DP_RETURN_IF_ERROR(dp_node_get_int(node, "precision", &attrs->precision));
  DP_RETURN_IF_ERROR(dp_node_get_bool(node, "scientific", &attrs->scientific));
  DP_RETURN_IF_ERROR(dp_node_get_bool(node, "shortest", &attrs->shortest));
  DP_RETURN_IF_ERROR(dp_node_get_int(node, "width", &attrs->width));
  return dp_node_get_string(node, "fill", &attrs->fill);
}

static dp_status *check_attrs(const as_string_attrs *attrs, dp_dtype dtype) {
  if (!is_float(dtype) && (attrs->scientific || attrs->shortest))
    return DP_INVALID("scientific and shortest format not supported for datatype %s",
                      dp_dtype_name(dtype));
  if (!is_float(dtype) && attrs->precision >= 0)
    return DP_INVALID("precision not supported for datatype %s", dp_dtype_name(dtype));
  if (attrs->fill.length > 1)
    return DP_INVALID("Fill string must be one or fewer characters");
  if (attrs->scientific && attrs->shortest)
    return DP_INVALID("Cannot select both scientific and shortest notation");
  if (attrs->fill.length == 1 && !strchr(" +-0#", attrs->fill.data[0]))
    return DP_INVALID("Fill argument not supported: \"%.*s\"", (int)attrs->fill.length,
                      attrs->fill.data);
  if (attrs->width > 100000 || attrs->precision > 100000)
    return DP_INVALID("width %lld and precision %lld are too large", (long long)attrs->width,
                      (long long)attrs->precision);
  return NULL;
}

static const char *conversion(const as_string_attrs *attrs, dp_dtype dtype) {
  if (is_float(dtype))
    return attrs->shortest ? "g" : attrs->scientific ? "e" : "f";
  if (dtype == DP_STRING)
    return "s";
  bool is_unsigned =
      dtype == DP_UINT8 || dtype == DP_UINT16 || dtype == DP_UINT32 || dtype == DP_UINT64;
  return is_unsigned ? "llu" : "lld";
}

static dp_status *as_string_create(const dp_kernel_setup *setup, void *memory) {
  as_string_state *state = memory;
  as_string_attrs attrs;
  DP_RETURN_IF_ERROR(dp_node_get_type(setup->node, "T", &state->dtype));
  DP_RETURN_IF_ERROR(read_attrs(setup->node, &attrs));
  DP_RETURN_IF_ERROR(check_attrs(&attrs, state->dtype));
  char width[16] = "", precision[16] = "";
  if (attrs.width > -1)
    snprintf(width, sizeof(width), "%d", (int)attrs.width);
  if (attrs.precision > -1)
    snprintf(precision, sizeof(precision), ".%d", (int)attrs.precision);
  snprintf(state->format, sizeof(state->format), "%%%.*s%s%s%s", (int)attrs.fill.length,
           attrs.fill.data, width, precision, conversion(&attrs, state->dtype));
  state->is_plain_integer =
      dp_dtype_is_integer(state->dtype) && attrs.width < 0 && attrs.fill.length == 0;
  return NULL;
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
#pragma GCC diagnostic ignored "-Wformat-security"
static double part_of(const dp_tensor *input, int64_t index) {
  switch (input->dtype) {
  case DP_FLOAT:
  case DP_COMPLEX64:
    return ((const float *)input->data)[index];
  case DP_HALF:
    return dp_half_to_float(((const uint16_t *)input->data)[index]);
  case DP_BFLOAT16:
    return dp_bfloat16_to_float(((const uint16_t *)input->data)[index]);
  default:
    return ((const double *)input->data)[index];
  }
}

static void print_element(const as_string_state *state, const dp_tensor *input, int64_t index,
                          dp_text *text) {
  const char *format = state->format;
  if (dp_dtype_is_complex(state->dtype)) {
    dp_text_add_char(text, '(');
    dp_text_printf(text, format, part_of(input, 2 * index));
    dp_text_add_char(text, ',');
    dp_text_printf(text, format, part_of(input, 2 * index + 1));
    dp_text_add_char(text, ')');
  } else if (is_float(state->dtype)) {
    dp_text_printf(text, format, part_of(input, index));
  } else if (state->dtype == DP_BOOL) {
    dp_text_add(text, ((const bool *)input->data)[index] ? "true" : "false");
  } else if (state->dtype == DP_VARIANT) {
    const dp_variant *variant = dp_tensor_variants(input)[index];
    dp_text_printf(text, "Variant<type: %s value: ", variant ? variant->ops->type_name : "");
    dp_variant_print(variant, text);
    dp_text_add_char(text, '>');
  } else if (state->dtype == DP_STRING) {
    dp_view view = dp_string_at(input, index);
    char *copy = dp_strndup(view.data, view.length);
    dp_text_printf(text, format, copy);
    dp_free(copy);
  } else {
    dp_text_printf(text, format, (long long)dp_tensor_int_at(input, index));
  }
}
#pragma GCC diagnostic pop

#define MOST_DIGITS 20

/* Writes the digits of element `index` to the end of the buffer; returns where they begin. */
static char *write_integer(const dp_tensor *input, int64_t index, char *end, bool is_unsigned) {
  int64_t value = dp_tensor_int_at(input, index);
  bool is_negative = value < 0 && !is_unsigned;
  uint64_t left = is_negative ? 0 - (uint64_t)value : (uint64_t)value;
  do
    *--end = (char)('0' + left % 10);
  while ((left /= 10) != 0);
  if (is_negative)
    *--end = '-';
  return end;
}

static dp_status *integers_to_strings(const dp_tensor *input, dp_tensor *output) {
  bool is_unsigned = input->dtype == DP_UINT64;
  char digits[MOST_DIGITS + 1], *end = digits + sizeof digits;
  for (int64_t i = 0; i < input->shape.elements; ++i) {
    const char *begin = write_integer(input, i, end, is_unsigned);
    DP_RETURN_IF_ERROR(
        dp_tstring_assign(&dp_tensor_strings(output)[i], begin, (size_t)(end - begin)));
  }
  return NULL;
}

static dp_status *as_string_compute(dp_op_context *context, void *memory) {
  const dp_tensor *input = dp_op_input(context, 0);
  dp_tensor *output;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &input->shape, &output));
  if (((const as_string_state *)memory)->is_plain_integer)
    return integers_to_strings(input, output);
  dp_text text = {0};
  dp_status *status = NULL;
  for (int64_t i = 0; i < input->shape.elements && !status; ++i) {
    dp_text_clear(&text);
    print_element(memory, input, i, &text);
    status = dp_tstring_assign(&dp_tensor_strings(output)[i], dp_text_string(&text), text.length);
  }
  dp_text_deinit(&text);
  return status;
}

/* ---- StringToNumber ---- */
static dp_status *to_number_compute(dp_op_context *context, void *memory) {
  const dp_tensor *input = dp_op_input(context, 0);
  dp_tensor *output;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &input->shape, &output));
  size_t size = dp_dtype_size(output->dtype);
  for (int64_t i = 0; i < input->shape.elements; ++i) {
    dp_view text = dp_string_at(input, i);
    if (!dp_string_to_number(text, output->dtype, (char *)output->data + (size_t)i * size))
      return DP_INVALID("StringToNumberOp could not correctly convert string: %.*s",
                        (int)text.length, text.data);
  }
  return NULL;
}

/* ---- StringFormat ---- */
typedef struct format_state {
  char *pattern, *placeholder; /* with their lengths: either may hold any byte */
  size_t pattern_length, placeholder_length;
  int64_t summarize;
} format_state;

/* The position of the next placeholder from `from` on; the end when there is none. An empty
 * placeholder is found between all bytes. */
static size_t find_placeholder(const format_state *state, size_t from) {
  if (state->placeholder_length == 0)
    return from + 1 < state->pattern_length ? from + 1 : state->pattern_length;
  const char *found = memmem(state->pattern + from, state->pattern_length - from,
                             state->placeholder, state->placeholder_length);
  return found ? (size_t)(found - state->pattern) : state->pattern_length;
}

static int64_t count_placeholders(const format_state *state) {
  int64_t count = 0;
  for (size_t at = find_placeholder(state, 0); at < state->pattern_length; ++count)
    at = find_placeholder(state, at + state->placeholder_length);
  return count;
}

static dp_status *format_create(const dp_kernel_setup *setup, void *memory) {
  format_state *state = memory;
  dp_view pattern, placeholder;
  DP_RETURN_IF_ERROR(dp_node_get_string(setup->node, "template", &pattern));
  DP_RETURN_IF_ERROR(dp_node_get_string(setup->node, "placeholder", &placeholder));
  DP_RETURN_IF_ERROR(dp_node_get_int(setup->node, "summarize", &state->summarize));
  state->pattern = dp_malloc(pattern.length + 1);
  memcpy(state->pattern, pattern.data, pattern.length);
  state->pattern_length = pattern.length;
  state->placeholder = dp_malloc(placeholder.length + 1);
  memcpy(state->placeholder, placeholder.data, placeholder.length);
  state->placeholder_length = placeholder.length;
  int64_t count = count_placeholders(state);
  if (count != setup->node->input_count)
    return DP_INVALID("num placeholders in template and num inputs must match: %lld vs. %d",
                      (long long)count, setup->node->input_count);
  return NULL;
}

static void format_destroy(void *memory) {
  dp_free(((format_state *)memory)->pattern);
  dp_free(((format_state *)memory)->placeholder);
}

static dp_status *format_compute(dp_op_context *context, void *memory) {
  const format_state *state = memory;
  dp_text text = {0};
  size_t at = 0;
  for (int32_t i = 0; i <= context->input_count; ++i) {
    size_t end = i < context->input_count ? find_placeholder(state, at) : state->pattern_length;
    dp_text_append(&text, state->pattern + at, end - at);
    at = end + state->placeholder_length;
    if (i < context->input_count)
      dp_tensor_summarize_nested(dp_op_input(context, i), state->summarize, &text);
  }
  dp_status *status =
      dp_tensor_scalar_string(dp_text_string(&text), text.length, &context->outputs[0].tensor);
  dp_text_deinit(&text);
  return status;
}

/* ---- Hashes ---- */
typedef struct hash_state {
  uint64_t buckets;
  uint64_t key[2];
} hash_state;

static dp_status *hash_create(const dp_kernel_setup *setup, void *memory) {
  hash_state *state = memory;
  int64_t buckets;
  const dp_attr *key;
  DP_RETURN_IF_ERROR(dp_node_get_int(setup->node, "num_buckets", &buckets));
  state->buckets = (uint64_t)buckets;
  if (!dp_node_attr(setup->node, "key"))
    return NULL;
  DP_RETURN_IF_ERROR(dp_node_get_list(setup->node, "key", DP_ATTR_LIST_INT, &key));
  if (key->count != 2)
    return DP_INVALID("Key must have 2 elements");
  state->key[0] = (uint64_t)key->integers[0];
  state->key[1] = (uint64_t)key->integers[1];
  return NULL;
}

typedef struct hash_work {
  const hash_state *state;
  const dp_tstring *strings;
  int64_t *to;
} hash_work;

/* `hash` is a constant where this is inlined. */
static inline __attribute__((always_inline)) void
hash_range(const hash_work *work, int64_t begin, int64_t end,
           uint64_t (*hash)(const hash_state *state, dp_view text)) {
  const dp_tstring *strings = work->strings;
  int64_t *to = work->to;
  uint64_t buckets = work->state->buckets;
  for (int64_t i = begin; i < end; ++i)
    to[i] = (int64_t)(hash(work->state, dp_tstring_view(&strings[i])) % buckets);
}

static inline uint64_t old_hash(const hash_state *state, dp_view text) {
  return dp_hash64(text.data, text.length, 0xDECAFCAFFE);
}
static inline uint64_t fast_hash(const hash_state *state, dp_view text) {
  return dp_fingerprint64(text.data, text.length);
}
static inline uint64_t strong_hash(const hash_state *state, dp_view text) {
  return dp_string_strong_hash(state->key, text);
}

static void old_hash_range(void *arg, int64_t begin, int64_t end) {
  hash_range(arg, begin, end, old_hash);
}
static void fast_hash_range(void *arg, int64_t begin, int64_t end) {
  hash_range(arg, begin, end, fast_hash);
}
static void strong_hash_range(void *arg, int64_t begin, int64_t end) {
  hash_range(arg, begin, end, strong_hash);
}

static dp_status *hash_all(dp_op_context *context, const hash_state *state, dp_range_fn hash) {
  const dp_tensor *input = dp_op_input(context, 0);
  dp_tensor *output;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &input->shape, &output));
  hash_work work = {state, dp_tensor_strings(input), output->data};
  dp_op_for(context, input->shape.elements, 40, hash, &work);
  return NULL;
}

static dp_status *old_hash_compute(dp_op_context *context, void *memory) {
  return hash_all(context, memory, old_hash_range);
}

static dp_status *fast_hash_compute(dp_op_context *context, void *memory) {
  return hash_all(context, memory, fast_hash_range);
}

static dp_status *strong_hash_compute(dp_op_context *context, void *memory) {
  return hash_all(context, memory, strong_hash_range);
}

/* clang-format off */
#define HASH(name, body)                                                                           \
  {.op = name, .state_size = sizeof(hash_state), .create = hash_create, .compute = body}

static const dp_kernel rows[] = {
    {.op = "AsString", .types = {{"T", DP_SET_NUMBERS | DP_SET(BOOL) | DP_SET(STRING) |
                                          DP_SET(VARIANT)}},
     .state_size = sizeof(as_string_state), .create = as_string_create,
     .compute = as_string_compute},
    {.op = "StringToNumber", .compute = to_number_compute},
    {.op = "StringFormat", .state_size = sizeof(format_state), .create = format_create,
     .compute = format_compute, .destroy = format_destroy},
    HASH("StringToHashBucket", old_hash_compute),
    HASH("StringToHashBucketFast", fast_hash_compute),
    HASH("StringToHashBucketStrong", strong_hash_compute),
};
/* clang-format on */
DP_KERNEL_FAMILY(string_number, rows);
