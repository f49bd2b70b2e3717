/* Basic string ops: case, white space, lengths, substrings, joins. Strings are bytes; ops with a
 * `unit` or `encoding` attribute can count UTF-8 characters instead. */
#include "kernels/shared/family.h"

#include <string.h>
#include "base/memory.h"
#include "kernels/text/string.h"
#include "kernels/text/unicode.h"

/* ---- Case and white space ---- */
typedef struct case_state {
  bool is_upper, is_utf8;
} case_state;

static dp_status *case_create(const dp_kernel_setup *setup, void *memory) {
  case_state *state = memory;
  dp_view encoding;
  DP_RETURN_IF_ERROR(dp_node_get_string(setup->node, "encoding", &encoding));
  state->is_upper = dp_node_is(setup->node, "StringUpper");
  state->is_utf8 = dp_view_equals(encoding, "utf-8");
  if (encoding.length && !state->is_utf8)
    return DP_INVALID("only utf-8 or '' (no encoding) is supported, received %.*s",
                      (int)encoding.length, encoding.data);
  return NULL;
}

static dp_status *change_case(const void *memory, dp_view input, dp_text *text) {
  const case_state *state = memory;
  if (state->is_utf8) {
    dp_utf8_change_case(input, state->is_upper, text);
    return NULL;
  }
  dp_text_append(text, input.data, input.length);
  char first = state->is_upper ? 'a' : 'A', last = state->is_upper ? 'z' : 'Z';
  for (size_t i = 0; i < input.length; ++i)
    if (text->data[i] >= first && text->data[i] <= last)
      text->data[i] ^= 0x20;
  return NULL;
}

static dp_status *case_compute(dp_op_context *context, void *memory) {
  return dp_string_map(context, change_case, memory);
}

static dp_status *strip(const void *state, dp_view input, dp_text *text) {
  dp_view inner = dp_string_trim(input);
  dp_text_append(text, inner.data, inner.length);
  return NULL;
}

static dp_status *strip_compute(dp_op_context *context, void *memory) {
  return dp_string_map(context, strip, NULL);
}

/* ---- Lengths ---- */
static dp_status *unit_create(const dp_kernel_setup *setup, void *memory) {
  dp_view unit;
  DP_RETURN_IF_ERROR(dp_node_get_string(setup->node, "unit", &unit));
  *(bool *)memory = dp_view_equals(unit, "UTF8_CHAR");
  return NULL;
}

static int64_t count_utf8(dp_view text) {
  int64_t count = 0;
  for (size_t i = 0; i < text.length; ++i)
    count += !dp_utf8_is_trail(text.data[i]);
  return count;
}

static dp_status *length_compute(dp_op_context *context, void *memory) {
  const dp_tensor *input = dp_op_input(context, 0);
  bool is_utf8 = *(bool *)memory;
  dp_tensor *output;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &input->shape, &output));
  for (int64_t i = 0; i < input->shape.elements; ++i) {
    dp_view text = dp_string_at(input, i);
    ((int32_t *)output->data)[i] = (int32_t)(is_utf8 ? count_utf8(text) : (int64_t)text.length);
  }
  return NULL;
}

/* ---- Parts ---- */
/* Byte position of character `count` from `from` on; false when the text ends before. */
static bool forward(dp_view text, int64_t count, size_t *position) {
  while (count > 0 && *position < text.length) {
    do
      ++*position;
    while (*position < text.length && dp_utf8_is_trail(text.data[*position]));
    --count;
  }
  return count == 0;
}

static bool backward(dp_view text, int64_t count, size_t *position) {
  while (count > 0 && *position > 0) {
    do
      --*position;
    while (*position > 0 && dp_utf8_is_trail(text.data[*position]));
    --count;
  }
  return count == 0;
}

/* Converts a position and a length in characters to bytes. */
static bool find_characters(dp_view text, int64_t position, int64_t length, dp_view *part_out) {
  size_t begin = position < 0 ? text.length : 0;
  if (!(position < 0 ? backward(text, -position, &begin) : forward(text, position, &begin)))
    return false;
  size_t end = begin;
  forward(text, length, &end);
  *part_out = (dp_view){text.data + begin, end - begin};
  return true;
}

static inline bool find_bytes(dp_view text, int64_t position, int64_t length, dp_view *part_out) {
  if (position < 0)
    position += (int64_t)text.length;
  int64_t rest = (int64_t)text.length - position;
  *part_out =
      (dp_view){text.data + position, (size_t)(length < 0 || length > rest ? rest : length)};
  return position >= 0 && rest >= 0;
}

static dp_status *outside(bool is_utf8, dp_view text, int64_t position, int64_t index) {
  if (is_utf8)
    return DP_INVALID("pos %lld out of range for string at index %lld", (long long)position,
                      (long long)index);
  return DP_INVALID("pos %lld out of range for string b'%.*s' at index %lld", (long long)position,
                    (int)text.length, text.data, (long long)index);
}

/* The element of a tensor that broadcasts to `shape` at position `at`. */
static inline int64_t broadcast_index(const dp_shape *from, const dp_shape *shape, int64_t at) {
  if (from->elements == 1)
    return 0;
  if (from->elements == shape->elements)
    return at;
  int64_t index = 0, stride = 1;
  for (int i = shape->rank - 1, k = from->rank - 1; k >= 0; --i, --k) {
    int64_t position = at % shape->dims[i];
    at /= shape->dims[i];
    index += from->dims[k] == 1 ? 0 : position * stride;
    stride *= from->dims[k];
  }
  return index;
}

static dp_status *substr_compute(dp_op_context *context, void *memory) {
  const dp_tensor *input = dp_op_input(context, 0);
  const dp_tensor *positions = dp_op_input(context, 1), *lengths = dp_op_input(context, 2);
  dp_shape shape;
  if (!dp_shape_equal(&positions->shape, &lengths->shape))
    return DP_INVALID("pos and len should have the same shape, got: %s vs. %s",
                      dp_shape_text(&positions->shape), dp_shape_text(&lengths->shape));
  if (!dp_shape_broadcast(&input->shape, &positions->shape, &shape))
    return DP_INVALID("Incompatible shapes: %s vs. %s", dp_shape_text(&input->shape),
                      dp_shape_text(&positions->shape));
  if (shape.rank > 2 && !dp_shape_equal(&input->shape, &positions->shape) &&
      positions->shape.rank != 0)
    return dp_status_create(DP_UNIMPLEMENTED, "Substr broadcast not implemented for %d dimensions",
                            shape.rank);
  dp_tensor *output;
  bool is_utf8 = *(bool *)memory;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &shape, &output));
  bool is_one_part = positions->shape.elements == 1;
  int64_t position = 0, length = 0;
  for (int64_t i = 0; i < shape.elements; ++i) {
    if (i == 0 || !is_one_part) {
      int64_t at = broadcast_index(&positions->shape, &shape, i);
      position = dp_tensor_int_at(positions, at);
      length = dp_tensor_int_at(lengths, at);
    }
    int64_t row = broadcast_index(&input->shape, &shape, i);
    dp_view text = dp_string_at(input, row), part;
    if (!(is_utf8 ? find_characters(text, position, length, &part)
                  : find_bytes(text, position, length, &part)))
      return outside(is_utf8, text, position, i);
    DP_RETURN_IF_ERROR(dp_tstring_assign(&dp_tensor_strings(output)[i], part.data, part.length));
  }
  return NULL;
}

/* ---- Joins ---- */
static dp_status *separator_create(const dp_kernel_setup *setup, void *memory) {
  dp_view separator;
  DP_RETURN_IF_ERROR(dp_node_get_string(setup->node, "separator", &separator));
  char *copy = dp_malloc(separator.length + 1);
  memcpy(copy, separator.data, separator.length);
  *(dp_view *)memory = (dp_view){copy, separator.length};
  return NULL;
}

static void separator_destroy(void *memory) {
  dp_free((char *)((dp_view *)memory)->data);
}

static void add_part(dp_text *text, bool is_first, const dp_view *separator, dp_view part) {
  if (!is_first)
    dp_text_append(text, separator->data, separator->length);
  dp_text_append(text, part.data, part.length);
}

static dp_status *set_text(dp_tensor *output, int64_t index, const dp_text *text) {
  return dp_tstring_assign(&dp_tensor_strings(output)[index], dp_text_string(text), text->length);
}

static dp_status *join_shape(const dp_op_context *context, dp_shape *shape_out) {
  *shape_out = dp_shape_scalar();
  for (int32_t i = 0; i < context->input_count; ++i) {
    const dp_shape *shape = &dp_op_input(context, i)->shape;
    if (shape->rank == 0)
      continue;
    if (shape_out->rank != 0 && !dp_shape_equal(shape_out, shape))
      return DP_INVALID("Input shapes do not match: %s vs. %s", dp_shape_text(shape_out),
                        dp_shape_text(shape));
    *shape_out = *shape;
  }
  return NULL;
}

static dp_status *join_compute(dp_op_context *context, void *memory) {
  dp_shape shape;
  dp_tensor *output;
  DP_RETURN_IF_ERROR(join_shape(context, &shape));
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &shape, &output));
  dp_text text = {0};
  dp_status *status = NULL;
  for (int64_t i = 0; i < shape.elements && !status; ++i) {
    dp_text_clear(&text);
    for (int32_t k = 0; k < context->input_count; ++k) {
      const dp_tensor *input = dp_op_input(context, k);
      add_part(&text, k == 0, memory, dp_string_at(input, input->shape.rank == 0 ? 0 : i));
    }
    status = set_text(output, i, &text);
  }
  dp_text_deinit(&text);
  return status;
}

/* ---- Joins over dimensions ---- */
typedef struct reduce_state {
  dp_view separator; /* first: separator_create fills it */
  bool keeps_dims;
} reduce_state;

static dp_status *reduce_create(const dp_kernel_setup *setup, void *memory) {
  DP_RETURN_IF_ERROR(separator_create(setup, memory));
  return dp_node_get_bool(setup->node, "keep_dims", &((reduce_state *)memory)->keeps_dims);
}

/* Dimensions in a given order, the last one running fastest. */
typedef struct walk {
  int32_t count;
  int64_t dims[DP_MAX_RANK], strides[DP_MAX_RANK];
  int64_t elements;
} walk;

static void walk_add(walk *over, const dp_shape *shape, const int64_t *strides, int axis) {
  over->dims[over->count] = shape->dims[axis];
  over->strides[over->count++] = strides[axis];
  over->elements *= shape->dims[axis];
}

static int64_t walk_offset(const walk *over, int64_t at) {
  int64_t offset = 0;
  for (int32_t i = over->count - 1; i >= 0; --i) {
    offset += at % over->dims[i] * over->strides[i];
    at /= over->dims[i];
  }
  return offset;
}

/* Plans the dimensions that are joined (of the given indices, the first runs fastest) and those
 * that stay. */
static dp_status *plan_reduction(const dp_tensor *input, const dp_tensor *axes, bool keeps_dims,
                                 walk *joined, walk *kept, dp_shape *shape_out) {
  const dp_shape *shape = &input->shape;
  int64_t strides[DP_MAX_RANK], stride = 1, dims[DP_MAX_RANK];
  bool is_joined[DP_MAX_RANK] = {false};
  for (int i = shape->rank - 1; i >= 0; --i) {
    strides[i] = stride;
    stride *= shape->dims[i];
  }
  for (int64_t i = 0; i < axes->shape.elements; ++i) {
    int64_t given = dp_tensor_int_at(axes, i);
    int axis;
    if (!dp_kernel_normalize_axis(given, shape->rank, &axis))
      return dp_status_create(DP_OUT_OF_RANGE,
                              "Invalid reduction dimension %lld for input with %d dimension(s)",
                              (long long)given, shape->rank);
    if (is_joined[axis])
      return DP_INVALID("Duplicate reduction dimension %lld", (long long)given);
    is_joined[axis] = true;
  }
  for (int64_t i = axes->shape.elements - 1; i >= 0; --i) {
    int64_t axis = dp_tensor_int_at(axes, i);
    walk_add(joined, shape, strides, (int)(axis < 0 ? axis + shape->rank : axis));
  }
  int rank = 0;
  for (int i = 0; i < shape->rank; ++i) {
    if (!is_joined[i])
      walk_add(kept, shape, strides, i);
    if (!is_joined[i] || keeps_dims)
      dims[rank++] = is_joined[i] ? 1 : shape->dims[i];
  }
  *shape_out = dp_shape_of(rank, dims);
  return NULL;
}

static dp_status *reduce_compute(dp_op_context *context, void *memory) {
  const reduce_state *state = memory;
  const dp_tensor *input = dp_op_input(context, 0);
  walk joined = {.elements = 1}, kept = {.elements = 1};
  dp_shape shape;
  dp_tensor *output;
  DP_RETURN_IF_ERROR(
      plan_reduction(input, dp_op_input(context, 1), state->keeps_dims, &joined, &kept, &shape));
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &shape, &output));
  dp_text text = {0};
  dp_status *status = NULL;
  for (int64_t i = 0; i < shape.elements && !status; ++i) {
    int64_t base = walk_offset(&kept, i);
    dp_text_clear(&text);
    for (int64_t k = 0; k < joined.elements; ++k)
      add_part(&text, k == 0, &state->separator,
               dp_string_at(input, base + walk_offset(&joined, k)));
    status = set_text(output, i, &text);
  }
  dp_text_deinit(&text);
  return status;
}

/* ---- Joins by segment ---- */
static dp_status *check_segments(const dp_tensor *input, const dp_tensor *ids, int64_t count) {
  if (ids->shape.rank == 0)
    return DP_INVALID("Segment_id cannot have rank 0");
  if (ids->shape.rank > input->shape.rank)
    return dp_status_create(DP_OUT_OF_RANGE,
                            "Invalid segment_id rank %d for input with %d dimension(s)",
                            ids->shape.rank, input->shape.rank);
  for (int i = 0; i < ids->shape.rank; ++i)
    if (ids->shape.dims[i] != input->shape.dims[i])
      return DP_INVALID("Segment dimension is %lld while input dimension is %d in rank %d",
                        (long long)ids->shape.dims[i], input->shape.rank, i);
  for (int64_t i = 0; i < ids->shape.elements; ++i) {
    int64_t id = dp_tensor_int_at(ids, i);
    if (id < 0 || id >= count)
      return DP_INVALID("segment_ids are not allowed to exceed num_segments or to have negative "
                        "values.");
  }
  return NULL;
}

static dp_status *append_to(dp_tstring *string, const dp_view *separator, dp_view part) {
  size_t length = dp_tstring_size(string);
  dp_text text = {0};
  dp_text_append(&text, dp_tstring_data(string), length);
  add_part(&text, length == 0, separator, part);
  dp_status *status = dp_tstring_assign(string, dp_text_string(&text), text.length);
  dp_text_deinit(&text);
  return status;
}

static dp_status *segment_compute(dp_op_context *context, void *memory) {
  const dp_tensor *input = dp_op_input(context, 0), *ids = dp_op_input(context, 1);
  int64_t count;
  DP_RETURN_IF_ERROR(dp_tensor_to_int64(dp_op_input(context, 2), &count));
  if (count < 0)
    return DP_INVALID("Number of segments must be non-negative but got %lld", (long long)count);
  DP_RETURN_IF_ERROR(check_segments(input, ids, count));
  int64_t dims[DP_MAX_RANK + 1] = {count};
  int rank = input->shape.rank - ids->shape.rank;
  memcpy(dims + 1, input->shape.dims + ids->shape.rank, sizeof(int64_t) * (size_t)rank);
  dp_shape shape;
  dp_tensor *output;
  DP_RETURN_IF_ERROR(dp_shape_make(rank + 1, dims, &shape));
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &shape, &output));
  int64_t inner = dp_shape_product(&input->shape, ids->shape.rank, input->shape.rank);
  for (int64_t i = 0; i < ids->shape.elements; ++i)
    for (int64_t k = 0; k < inner; ++k)
      DP_RETURN_IF_ERROR(append_to(&dp_tensor_strings(output)[dp_tensor_int_at(ids, i) * inner + k],
                                   memory, dp_string_at(input, i * inner + k)));
  return NULL;
}

/* clang-format off */
#define CASE(name)                                                                                 \
  {.op = name, .state_size = sizeof(case_state), .create = case_create, .compute = case_compute}
#define JOIN(name, body)                                                                           \
  {.op = name, .state_size = sizeof(dp_view), .create = separator_create, .compute = body,         \
   .destroy = separator_destroy}

static const dp_kernel rows[] = {
    CASE("StringLower"), CASE("StringUpper"),
    {.op = "StringStrip", .compute = strip_compute},
    {.op = "StringLength", .state_size = sizeof(bool), .create = unit_create,
     .compute = length_compute},
    {.op = "Substr", .state_size = sizeof(bool), .create = unit_create,
     .compute = substr_compute},
    JOIN("StringJoin", join_compute),
    JOIN("UnsortedSegmentJoin", segment_compute),
    {.op = "ReduceJoin", .state_size = sizeof(reduce_state), .create = reduce_create,
     .compute = reduce_compute, .destroy = separator_destroy},
};
/* clang-format on */
DP_KERNEL_FAMILY(string_basic, rows);
