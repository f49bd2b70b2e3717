/* Slices (slice.h): text, keys in tables, copying, covering. Error messages are TensorFlow's, which
 * users of partitioned variables know. No state, any thread. */
#include "storage/slice.h"

#include <string.h>

dp_slice dp_slice_full(int rank) {
  dp_slice slice = {.rank = rank};
  for (int i = 0; i < rank; ++i)
    slice.length[i] = DP_SLICE_FULL;
  return slice;
}

bool dp_slice_is_full(const dp_slice *slice) {
  for (int i = 0; i < slice->rank; ++i)
    if (slice->length[i] != DP_SLICE_FULL)
      return false;
  return true;
}

bool dp_slice_equal(const dp_slice *a, const dp_slice *b) {
  if (a->rank != b->rank)
    return false;
  for (int i = 0; i < a->rank; ++i)
    if (a->start[i] != b->start[i] || a->length[i] != b->length[i])
      return false;
  return true;
}

void dp_slice_print(const dp_slice *slice, dp_text *text) {
  for (int i = 0; i < slice->rank; ++i) {
    if (i > 0)
      dp_text_add_char(text, ':');
    if (slice->length[i] == DP_SLICE_FULL)
      dp_text_add_char(text, '-');
    else
      dp_text_printf(text, "%lld,%lld", (long long)slice->start[i], (long long)slice->length[i]);
  }
}

dp_status *dp_slice_shape(const dp_slice *slice, const dp_shape *whole, dp_shape *shape_out) {
  dp_text text = {0};
  dp_slice_print(slice, &text);
  dp_status *status = NULL;
  int64_t dims[DP_MAX_RANK];
  if (whole->rank != slice->rank)
    status = dp_status_create(DP_INTERNAL, "Mismatching ranks: shape = %s, slice = %s",
                              dp_shape_text(whole), dp_text_string(&text));
  for (int i = 0; !status && i < slice->rank; ++i) {
    dims[i] = slice->length[i] == DP_SLICE_FULL ? whole->dims[i] : slice->length[i];
    if (slice->length[i] != DP_SLICE_FULL &&
        (slice->start[i] < 0 || slice->length[i] < 0 || slice->length[i] > whole->dims[i] ||
         slice->start[i] > whole->dims[i] - slice->length[i]))
      status = dp_status_create(DP_INTERNAL,
                                "Extent in dimension %d out of bounds: shape = %s, slice = %s", i,
                                dp_shape_text(whole), dp_text_string(&text));
  }
  if (!status)
    status = dp_shape_make(slice->rank, dims, shape_out);
  dp_text_deinit(&text);
  return status;
}

bool dp_slice_intersect(const dp_slice *a, const dp_slice *b, dp_slice *both_out) {
  if (a->rank != b->rank)
    return false;
  dp_slice both = {.rank = a->rank};
  for (int i = 0; i < a->rank; ++i) {
    const dp_slice *narrow = a->length[i] == DP_SLICE_FULL ? b : a;
    if (a->length[i] == DP_SLICE_FULL || b->length[i] == DP_SLICE_FULL) {
      both.start[i] = narrow->start[i];
      both.length[i] = narrow->length[i];
      continue;
    }
    int64_t a_end = a->start[i] + a->length[i], b_end = b->start[i] + b->length[i];
    both.start[i] = a->start[i] > b->start[i] ? a->start[i] : b->start[i];
    both.length[i] = (a_end < b_end ? a_end : b_end) - both.start[i];
    if (both.length[i] <= 0)
      return false;
  }
  *both_out = both;
  return true;
}

/* ---- Text ---- */
/* The part of *rest up to `separator`; *rest becomes the text behind it. */
static dp_view next_part(dp_view *rest, char separator) {
  const char *at = rest->length ? memchr(rest->data, separator, rest->length) : NULL;
  dp_view part = {rest->data, at ? (size_t)(at - rest->data) : rest->length};
  size_t used = at ? part.length + 1 : part.length;
  rest->data += used;
  rest->length -= used;
  return part;
}

/* Parses a number with white space around the digits, as TensorFlow does. */
static bool parse_number(dp_view text, int64_t *value_out) {
  while (text.length > 0 && (text.data[0] == ' ' || text.data[0] == '\t')) {
    ++text.data;
    --text.length;
  }
  while (text.length > 0 && (text.data[text.length - 1] == ' '))
    --text.length;
  return dp_parse_int64(text, value_out);
}

static dp_status *parse_extent(dp_view part, dp_view whole, int64_t *start_out,
                               int64_t *length_out) {
  if (dp_view_equals(part, "-")) {
    *start_out = 0;
    *length_out = DP_SLICE_FULL;
    return NULL;
  }
  dp_view rest = part, numbers[3];
  int count = 0;
  while (rest.length > 0 && count < 3) {
    dp_view number = next_part(&rest, ',');
    if (number.length > 0)
      numbers[count++] = number;
  }
  if (count != 2 || !parse_number(numbers[0], start_out) || !parse_number(numbers[1], length_out))
    return DP_INVALID("Expected a pair of numbers or '-' but got '%.*s': string = %.*s",
                      (int)part.length, part.data, (int)whole.length, whole.data);
  if (*start_out < 0 || *length_out <= 0)
    return DP_INVALID("Expected non-negative start and positive length but got start = %lld, "
                      "length = %lld: string = %.*s",
                      (long long)*start_out, (long long)*length_out, (int)whole.length, whole.data);
  return NULL;
}

static dp_status *parse_extents(dp_view text, dp_slice *slice_out) {
  dp_slice slice = {0};
  dp_view rest = text;
  while (rest.length > 0) {
    dp_view part = next_part(&rest, ':');
    if (part.length == 0)
      continue;
    if (slice.rank == DP_MAX_RANK)
      return DP_INVALID("A slice may have at most %d dimensions: string = %.*s", DP_MAX_RANK,
                        (int)text.length, text.data);
    DP_RETURN_IF_ERROR(
        parse_extent(part, text, &slice.start[slice.rank], &slice.length[slice.rank]));
    ++slice.rank;
  }
  *slice_out = slice;
  return NULL;
}

dp_status *dp_slice_parse(dp_view text, dp_shape *whole_out, dp_slice *slice_out,
                          dp_shape *shape_out) {
  const char *space = text.length ? memrchr(text.data, ' ', text.length) : NULL;
  if (!space)
    return DP_INVALID("Need least two elements in shape_and_slice specification: %.*s",
                      (int)text.length, text.data);
  size_t head = (size_t)(space - text.data);
  dp_slice slice;
  DP_RETURN_IF_ERROR(parse_extents((dp_view){space + 1, text.length - head - 1}, &slice));
  dp_view rest = {text.data, head};
  int64_t dims[DP_MAX_RANK], rank = 0;
  do {
    dp_view part = next_part(&rest, ' ');
    if (rank == DP_MAX_RANK || !parse_number(part, &dims[rank]))
      return DP_INVALID("Non numerical dimension in shape_and_slice: %.*s", (int)text.length,
                        text.data);
    ++rank;
  } while (rest.length > 0);
  dp_shape whole, shape;
  DP_RETURN_IF_ERROR(dp_shape_make(rank, dims, &whole));
  DP_RETURN_IF_ERROR(dp_slice_shape(&slice, &whole, &shape));
  *whole_out = whole;
  *slice_out = slice;
  *shape_out = shape;
  return NULL;
}

/* ---- Keys: encodings whose bytes sort in the same order as the numbers and strings ---- */
static void encode_unsigned(uint64_t value, dp_text *key) {
  uint8_t bytes[9];
  int length = 0;
  for (; value > 0; value >>= 8)
    bytes[8 - length++] = (uint8_t)value;
  bytes[8 - length] = (uint8_t)length;
  dp_text_append(key, bytes + 8 - length, (size_t)length + 1);
}

/* Byte 0 is written as 0 255, and 255 as 255 0; the bytes 0 1 end the string. */
static void encode_string(dp_view text, dp_text *key) {
  for (size_t i = 0; i < text.length; ++i) {
    dp_text_add_char(key, text.data[i]);
    if (text.data[i] == '\0')
      dp_text_add_char(key, '\xff');
    else if (text.data[i] == '\xff')
      dp_text_add_char(key, '\0');
  }
  dp_text_append(key, "\0\1", 2);
}

/* n bytes, big-endian. For a value that is not negative: n one bits, a zero bit, and the value in
 * the other 7 n - 1 bits. For a negative one: all bits of the encoding of ~value inverted. n is the
 * smallest number of bytes that suffices. */
static void encode_signed(int64_t value, dp_text *key) {
  uint64_t magnitude = value < 0 ? ~(uint64_t)value : (uint64_t)value;
  int length = 1;
  while (length < 10 && magnitude >> (7 * length - 1 > 63 ? 63 : 7 * length - 1))
    ++length;
  uint8_t bytes[10];
  for (int i = 0; i < length; ++i) {
    int shift = 8 * (length - 1 - i);
    bytes[i] = shift >= 64 ? 0 : (uint8_t)(magnitude >> shift);
  }
  for (int bit = 0; bit < length; ++bit) /* the `length` one bits */
    bytes[bit / 8] |= (uint8_t)(0x80 >> (bit % 8));
  if (value < 0)
    for (int i = 0; i < length; ++i)
      bytes[i] = (uint8_t)~bytes[i];
  dp_text_append(key, bytes, (size_t)length);
}

void dp_slice_encode_key(dp_view name, const dp_slice *slice, dp_text *key) {
  encode_unsigned(0, key);
  encode_string(name, key);
  encode_unsigned((uint64_t)slice->rank, key);
  for (int i = 0; i < slice->rank; ++i) {
    encode_signed(slice->start[i], key);
    encode_signed(slice->length[i], key);
  }
}

/* ---- Copying ---- */
typedef struct copy_plan {
  dp_dtype dtype;
  size_t size; /* of an element */
  int rank;
  int64_t count[DP_MAX_RANK], from_stride[DP_MAX_RANK], to_stride[DP_MAX_RANK];
} copy_plan;

static void copy_dimension(const copy_plan *plan, int axis, const char *from, char *to) {
  if (axis == plan->rank) {
    dp_tensor_copy_elements(plan->dtype, to, from, 1);
  } else if (axis == plan->rank - 1) { /* contiguous in both slices */
    dp_tensor_copy_elements(plan->dtype, to, from, plan->count[axis]);
  } else {
    for (int64_t i = 0; i < plan->count[axis]; ++i)
      copy_dimension(plan, axis + 1, from + i * plan->from_stride[axis] * (int64_t)plan->size,
                     to + i * plan->to_stride[axis] * (int64_t)plan->size);
  }
}

void dp_slice_copy(dp_dtype dtype, const dp_shape *whole, const dp_slice *from_slice,
                   const void *from, const dp_slice *to_slice, void *to) {
  dp_slice both;
  if (whole->elements == 0 || !dp_slice_intersect(from_slice, to_slice, &both))
    return;
  copy_plan plan = {.dtype = dtype, .size = dp_dtype_size(dtype), .rank = whole->rank};
  int64_t from_stride = 1, to_stride = 1, from_offset = 0, to_offset = 0;
  for (int i = whole->rank - 1; i >= 0; --i) {
    plan.count[i] = both.length[i] == DP_SLICE_FULL ? whole->dims[i] : both.length[i];
    plan.from_stride[i] = from_stride;
    plan.to_stride[i] = to_stride;
    from_offset += (both.start[i] - from_slice->start[i]) * from_stride;
    to_offset += (both.start[i] - to_slice->start[i]) * to_stride;
    from_stride *= from_slice->length[i] == DP_SLICE_FULL ? whole->dims[i] : from_slice->length[i];
    to_stride *= to_slice->length[i] == DP_SLICE_FULL ? whole->dims[i] : to_slice->length[i];
  }
  copy_dimension(&plan, 0, (const char *)from + from_offset * (int64_t)plan.size,
                 (char *)to + to_offset * (int64_t)plan.size);
}

/* ---- Covering ---- */
static int64_t elements_of(const dp_slice *slice, const dp_shape *whole) {
  int64_t elements = 1;
  for (int i = 0; i < slice->rank; ++i)
    elements *= slice->length[i] == DP_SLICE_FULL ? whole->dims[i] : slice->length[i];
  return elements;
}

bool dp_slices_cover(const dp_shape *whole, const dp_slice *stored, size_t stored_count,
                     const dp_slice *wanted, size_t *indices_out, size_t *count_out) {
  size_t count = 0;
  int64_t covered = 0;
  for (size_t i = 0; i < stored_count; ++i) {
    if (dp_slice_equal(&stored[i], wanted)) {
      indices_out[0] = i;
      *count_out = 1;
      return true;
    }
  }
  for (size_t i = 0; i < stored_count; ++i) {
    dp_slice both;
    if (!dp_slice_intersect(&stored[i], wanted, &both))
      continue;
    covered += elements_of(&both, whole);
    indices_out[count++] = i;
  }
  *count_out = count;
  return covered == elements_of(wanted, whole);
}
