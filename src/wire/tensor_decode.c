/* TensorProto to tensor: the shape, and values of plain dtypes. Strings, handles and variants are
 * in tensor_objects.c.
 *
 * Two passes, because fields come in any order. The first finds dtype, shape and tensor_content;
 * then memory is taken; the second reads the *_val field of that dtype. *_val fields of other
 * dtypes are ignored, as are values beyond the number of elements, as in TensorFlow. No state, any
 * thread.
 */
#include "wire/tensor_internal.h"

#include <inttypes.h>
#include <string.h>

uint32_t dp_wire_value_field(dp_dtype dtype) {
  switch (dtype) {
  case DP_FLOAT:
    return TENSOR_FLOAT;
  case DP_DOUBLE:
    return TENSOR_DOUBLE;
  case DP_STRING:
    return TENSOR_STRING;
  case DP_COMPLEX64:
    return TENSOR_SCOMPLEX;
  case DP_INT64:
    return TENSOR_INT64;
  case DP_BOOL:
    return TENSOR_BOOL;
  case DP_COMPLEX128:
    return TENSOR_DCOMPLEX;
  case DP_HALF:
  case DP_BFLOAT16:
    return TENSOR_HALF;
  case DP_RESOURCE:
    return TENSOR_RESOURCE;
  case DP_VARIANT:
    return TENSOR_VARIANT;
  case DP_UINT32:
    return TENSOR_UINT32;
  case DP_UINT64:
    return TENSOR_UINT64;
  case DP_FLOAT8_E5M2:
  case DP_FLOAT8_E4M3FN:
  case DP_FLOAT8_E4M3FNUZ:
  case DP_FLOAT8_E4M3B11FNUZ:
  case DP_FLOAT8_E5M2FNUZ:
    return TENSOR_FLOAT8;
  default:
    return TENSOR_INT;
  }
}

/* ---- The first pass ---------------------------------------------------------------------------*/

typedef struct dims {
  int64_t sizes[DP_MAX_RANK];
  int64_t count; /* may pass DP_MAX_RANK; dp_shape_make refuses it then */
} dims;

static dp_status *scan_dim(dp_rope_reader *reader, int64_t *size_out) {
  dp_wire_field field;
  bool more;
  int64_t size = 0;
  for (;;) {
    DP_RETURN_IF_ERROR(dp_wire_next_field(reader, &field, &more));
    if (!more)
      break;
    if (field.number == 1 && field.type == DP_WIRE_VARINT)
      size = (int64_t)field.value;
  }
  *size_out = size;
  return NULL;
}

/* A shape field that comes several times is merged, as protobuf merges messages. unknown_rank is
 * ignored, as in TensorFlow. */
static dp_status *scan_shape(dp_rope_reader *reader, dims *dims) {
  dp_wire_field field;
  bool more;
  for (;;) {
    DP_RETURN_IF_ERROR(dp_wire_next_field(reader, &field, &more));
    if (!more)
      return NULL;
    if (field.number != 2 || field.type != DP_WIRE_BYTES)
      continue;
    int64_t size = 0;
    DP_RETURN_IF_ERROR(scan_dim(&field.bytes, &size));
    if (dims->count < DP_MAX_RANK)
      dims->sizes[dims->count] = size;
    dims->count++;
  }
}

static dp_status *scan_tensor(dp_rope_reader *reader, dp_tensor_scan *scan) {
  dims dims = {.count = 0};
  dp_wire_field field;
  bool more;
  for (;;) {
    DP_RETURN_IF_ERROR(dp_wire_next_field(reader, &field, &more));
    if (!more)
      break;
    if (field.number == TENSOR_DTYPE && field.type == DP_WIRE_VARINT)
      scan->dtype = (int32_t)field.value;
    else if (field.number == TENSOR_SHAPE && field.type == DP_WIRE_BYTES)
      DP_RETURN_IF_ERROR(scan_shape(&field.bytes, &dims));
    else if (field.number == TENSOR_CONTENT && field.type == DP_WIRE_BYTES)
      scan->content = field.bytes;
    else if (field.number == TENSOR_FLOAT8 && field.type == DP_WIRE_BYTES)
      scan->float8 = field.bytes;
  }
  if (!dp_dtype_is_valid((int)scan->dtype))
    return DP_INVALID("the dtype number %" PRId64 " is not one that a tensor can have",
                      scan->dtype);
  if (dims.count > DP_MAX_RANK)
    return DP_INVALID("%" PRId64 " dimensions are more than the %d that a tensor can have",
                      dims.count, DP_MAX_RANK);
  return dp_shape_make(dims.count, dims.sizes, &scan->shape);
}

/* ---- tensor_content ---------------------------------------------------------------------------*/

/* Whether the tensor should share the message's buffer. It should not when it is small, or less
 * than an eighth of the buffer, which it would keep alive. */
static bool worth_sharing(const dp_rope_reader *content, size_t bytes) {
  if (bytes < DP_WIRE_SHARE_BYTES || content->piece >= content->rope->pieces.count)
    return false;
  const dp_buffer *owner = content->rope->pieces.items[content->piece].owner;
  return owner && owner->size / 8 <= bytes;
}

static bool is_narrow(dp_dtype dtype) {
  return dtype == DP_INT4 || dtype == DP_UINT4 || dtype == DP_INT2 || dtype == DP_UINT2;
}

/* An element of 4 or 2 bits as a byte in memory: the low bits, sign-extended for a signed dtype. */
static uint8_t narrow_value(dp_dtype dtype, uint64_t value) {
  switch (dtype) {
  case DP_INT4:
    return (uint8_t)(((value & 15) ^ 8) - 8);
  case DP_UINT4:
    return value & 15;
  case DP_INT2:
    return (uint8_t)(((value & 3) ^ 2) - 2);
  default:
    return value & 3;
  }
}

static dp_status *check_booleans(const uint8_t *data, size_t count) {
  uint8_t seen = 0;
  for (size_t i = 0; i < count; i++)
    seen |= data[i];
  if (seen > 1)
    return DP_INVALID("tensor_content has a bool that is neither 0 nor 1");
  return NULL;
}

static size_t alignment_of(dp_dtype dtype) {
  size_t size = dp_dtype_size(dtype);
  return size > 8 ? 8 : size;
}

static dp_status *decode_content(const dp_tensor_scan *scan, dp_tensor *tensor_out) {
  dp_dtype dtype = (dp_dtype)scan->dtype;
  size_t bytes;
  dp_rope_reader content = scan->content;
  if (!dp_multiply_size((size_t)scan->shape.elements, dp_dtype_size(dtype), &bytes) ||
      bytes != content.remaining)
    return DP_INVALID("tensor_content has %zu bytes, which is not what shape %s and type %s need",
                      content.remaining, dp_shape_text(&scan->shape), dp_dtype_name(dtype));
  dp_tensor tensor = {.dtype = dtype, .shape = scan->shape};
  if (worth_sharing(&content, bytes) && !is_narrow(dtype)) {
    const uint8_t *data = NULL;
    DP_RETURN_IF_ERROR(dp_rope_share(&content, bytes, alignment_of(dtype), &tensor.buffer, &data));
    tensor.data = (void *)data;
  } else {
    DP_RETURN_IF_ERROR(dp_tensor_create(dtype, &scan->shape, &tensor));
    dp_rope_copy_out(&content, tensor.data, bytes);
  }
  dp_status *status = dtype == DP_BOOL ? check_booleans(tensor.data, bytes) : NULL;
  if (status) {
    dp_tensor_deinit(&tensor);
    return status;
  }
  if (is_narrow(dtype))
    for (size_t i = 0; i < bytes; i++)
      ((uint8_t *)tensor.data)[i] = narrow_value(dtype, ((uint8_t *)tensor.data)[i]);
  *tensor_out = tensor;
  return NULL;
}

/* ---- Typed values -----------------------------------------------------------------------------*/

/* The destination of the values. It counts components as the wire does: a complex number has two.
 */
typedef struct sink {
  dp_dtype dtype;
  void *data;
  size_t component_size;
  size_t components; /* room */
  size_t count;      /* filled */
} sink;

static void put_varint(sink *sink, uint64_t value) {
  if (sink->count >= sink->components)
    return;
  size_t at = sink->count++;
  if (is_narrow(sink->dtype)) {
    ((uint8_t *)sink->data)[at] = narrow_value(sink->dtype, value);
    return;
  }
  if (sink->dtype == DP_BOOL)
    value = value != 0;
  switch (sink->component_size) {
  case 1:
    ((uint8_t *)sink->data)[at] = (uint8_t)value;
    break;
  case 2:
    ((uint16_t *)sink->data)[at] = (uint16_t)value;
    break;
  case 4:
    ((uint32_t *)sink->data)[at] = (uint32_t)value;
    break;
  default:
    ((uint64_t *)sink->data)[at] = value;
  }
}

static dp_status *put_packed_varints(sink *sink, dp_rope_reader bytes) {
  while (bytes.remaining > 0) {
    uint64_t value;
    if (!dp_wire_read_varint(&bytes, &value))
      return DP_INVALID("broken number in a packed field");
    put_varint(sink, value);
  }
  return NULL;
}

static dp_status *put_fixed(sink *sink, dp_rope_reader bytes) {
  if (bytes.remaining % sink->component_size)
    return DP_INVALID("a packed field has a broken length of %zu bytes", bytes.remaining);
  size_t here = bytes.remaining / sink->component_size, room = sink->components - sink->count;
  if (here > room)
    here = room;
  dp_rope_copy_out(&bytes, (char *)sink->data + sink->count * sink->component_size,
                   here * sink->component_size);
  sink->count += here;
  return NULL;
}

static dp_status *read_values(const dp_tensor_scan *scan, sink *sink) {
  uint32_t number = dp_wire_value_field(sink->dtype);
  bool is_fixed = number == TENSOR_FLOAT || number == TENSOR_DOUBLE || number == TENSOR_SCOMPLEX ||
                  number == TENSOR_DCOMPLEX;
  dp_wire_type single =
      !is_fixed ? DP_WIRE_VARINT : (sink->component_size == 4 ? DP_WIRE_32 : DP_WIRE_64);
  dp_rope_reader all = scan->all;
  dp_wire_field field;
  bool more;
  for (;;) {
    DP_RETURN_IF_ERROR(dp_wire_next_field(&all, &field, &more));
    if (!more)
      return NULL;
    if (field.number != number)
      continue;
    if (field.type == single)
      put_varint(sink, field.value);
    else if (field.type == DP_WIRE_BYTES)
      DP_RETURN_IF_ERROR(is_fixed ? put_fixed(sink, field.bytes)
                                  : put_packed_varints(sink, field.bytes));
  }
}

/* Fills the tensor behind its first `filled` elements with copies of the last of them; with zeros
 * when `filled` is 0. */
static void repeat_last(dp_tensor *tensor, size_t filled) {
  size_t size = dp_dtype_size(tensor->dtype), total = dp_tensor_bytes(tensor);
  char *data = tensor->data;
  if (filled == 0) {
    memset(data, 0, total);
    return;
  }
  size_t have = filled * size;
  if (have >= total)
    return;
  /* Copies the last element once, then doubles the copied part. */
  memcpy(data + have, data + have - size, size);
  size_t made = size;
  while (have + made < total) {
    size_t step = made < total - have - made ? made : total - have - made;
    memcpy(data + have + made, data + have, step);
    made += step;
  }
}

static dp_status *decode_values(const dp_tensor_scan *scan, dp_tensor *tensor) {
  size_t element = dp_dtype_size(tensor->dtype);
  if (dp_wire_value_field(tensor->dtype) == TENSOR_FLOAT8) {
    dp_rope_reader bytes = scan->float8;
    size_t total = dp_tensor_bytes(tensor);
    size_t here = bytes.remaining < total ? bytes.remaining : total;
    dp_rope_copy_out(&bytes, tensor->data, here);
    repeat_last(tensor, here);
    return NULL;
  }
  size_t parts = dp_dtype_is_complex(tensor->dtype) ? 2 : 1;
  sink sink = {
      .dtype = tensor->dtype,
      .data = tensor->data,
      .component_size = element / parts,
      .components = (size_t)tensor->shape.elements * parts,
  };
  DP_RETURN_IF_ERROR(read_values(scan, &sink));
  repeat_last(tensor, sink.count / parts);
  return NULL;
}

/* ---- The whole --------------------------------------------------------------------------------*/

static dp_status *check_expansion(const dp_tensor_scan *scan) {
  size_t bytes;
  size_t element = dp_dtype_size((dp_dtype)scan->dtype);
  if (!dp_multiply_size((size_t)scan->shape.elements, element, &bytes) ||
      (bytes > DP_WIRE_MAX_EXPANSION && bytes / 64 > scan->all.remaining))
    return dp_status_create(DP_RESOURCE_EXHAUSTED,
                            "shape %s and type %s take far more memory than the message has bytes",
                            dp_shape_text(&scan->shape), dp_dtype_name((int)scan->dtype));
  return NULL;
}

static dp_status *decode_scanned(const dp_tensor_scan *scan, dp_tensor *tensor_out) {
  dp_dtype dtype = (dp_dtype)scan->dtype;
  if (scan->shape.elements == 0)
    return dp_tensor_create(dtype, &scan->shape, tensor_out);
  if (dp_dtype_is_plain(dtype) && scan->content.remaining > 0)
    return decode_content(scan, tensor_out);
  DP_RETURN_IF_ERROR(check_expansion(scan));
  dp_tensor tensor;
  DP_RETURN_IF_ERROR(dp_tensor_create(dtype, &scan->shape, &tensor));
  dp_status *status;
  switch (dtype) {
  case DP_STRING:
    status = dp_wire_fill_strings(scan, &tensor);
    break;
  case DP_RESOURCE:
    status = dp_wire_fill_handles(scan, &tensor);
    break;
  case DP_VARIANT:
    status = dp_wire_fill_variants(scan, &tensor);
    break;
  default:
    status = decode_values(scan, &tensor);
  }
  if (status)
    dp_tensor_deinit(&tensor);
  else
    *tensor_out = tensor;
  return status;
}

dp_status *dp_wire_decode_tensor_at(dp_rope_reader *reader, int depth, dp_tensor *tensor_out) {
  if (depth > DP_WIRE_MAX_TENSOR_DEPTH)
    return DP_INVALID("tensors inside variants are nested more than %d deep",
                      DP_WIRE_MAX_TENSOR_DEPTH);
  dp_tensor_scan scan = {.all = *reader, .depth = depth};
  scan.content = scan.float8 = (dp_rope_reader){.rope = reader->rope};
  DP_RETURN_IF_ERROR(scan_tensor(reader, &scan));
  return decode_scanned(&scan, tensor_out);
}

dp_status *dp_wire_decode_tensor(dp_rope_reader *reader, dp_tensor *tensor_out) {
  return dp_status_annotate(dp_wire_decode_tensor_at(reader, 0, tensor_out),
                            "Could not parse a tensor");
}

dp_status *dp_wire_decode_tensor_bytes(const void *data, size_t length, dp_tensor *tensor_out) {
  dp_piece piece = {.owner = NULL, .data = data, .length = length};
  dp_rope rope = {.length = length};
  rope.pieces.items = &piece;
  rope.pieces.count = length > 0;
  dp_rope_reader reader = dp_rope_read(&rope);
  return dp_wire_decode_tensor(&reader, tensor_out);
}
