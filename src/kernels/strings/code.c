/* Strings whose bytes encode something: base64, raw numbers (DecodeRaw), compressed data,
 * serialized tensors. Input is not trusted; it is checked before it is decoded. */
#include "kernels/shared/family.h"

#include <string.h>
#include <zlib.h>
#include "kernels/shared/io.h"
#include "kernels/text/string.h"
#include "wire/tensor_codec.h"

/* ---- Base64, in the alphabet that is safe in addresses ---- */
static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

static dp_status *encode_create(const dp_kernel_setup *setup, void *memory) {
  return dp_node_get_bool(setup->node, "pad", memory);
}

/* Writes three bytes as four digits. */
static inline void encode_group(uint32_t group, char *to) {
  uint32_t text = (uint32_t)(uint8_t)alphabet[group >> 18 & 63] |
                  (uint32_t)(uint8_t)alphabet[group >> 12 & 63] << 8 |
                  (uint32_t)(uint8_t)alphabet[group >> 6 & 63] << 16 |
                  (uint32_t)(uint8_t)alphabet[group & 63] << 24;
  memcpy(to, &text, sizeof text);
}

static size_t encoded_length(size_t length, bool pads) {
  return length / 3 * 4 + (length % 3 == 0 ? 0 : pads ? 4 : length % 3 + 1);
}

static void encode(dp_view input, bool pads, char *to) {
  const uint8_t *from = (const uint8_t *)input.data;
  size_t groups = input.length / 3, rest = input.length % 3;
  for (size_t i = 0; i < groups; ++i, from += 3, to += 4)
    encode_group((uint32_t)from[0] << 16 | (uint32_t)from[1] << 8 | from[2], to);
  if (rest == 0)
    return;
  char last[4];
  encode_group((uint32_t)from[0] << 16 | (rest > 1 ? (uint32_t)from[1] << 8 : 0), last);
  memset(last + rest + 1, '=', 3 - rest);
  memcpy(to, last, pads ? 4 : rest + 1);
}

typedef struct encode_work {
  const dp_tensor *input;
  const dp_tensor *output; /* strings of the right lengths */
  bool pads;
} encode_work;

static void encode_range(void *arg, int64_t begin, int64_t end) {
  const encode_work *work = arg;
  for (int64_t i = begin; i < end; ++i)
    encode(dp_string_at(work->input, i), work->pads,
           (char *)dp_tstring_data(&dp_tensor_strings(work->output)[i]));
}

/* All lengths are known beforehand: the strings are views into one buffer. */
static dp_status *encode_compute(dp_op_context *context, void *memory) {
  const dp_tensor *input = dp_op_input(context, 0);
  bool pads = *(bool *)memory;
  size_t total = 0, used = 0;
  for (int64_t i = 0; i < input->shape.elements; ++i)
    total += encoded_length(dp_string_at(input, i).length, pads);
  dp_buffer *buffer;
  dp_tensor output;
  DP_RETURN_IF_ERROR(dp_buffer_create(total, &buffer));
  DP_RETURN_IF_ERROR(dp_tensor_create_strings(&input->shape, buffer, &output));
  for (int64_t i = 0; i < input->shape.elements; ++i) {
    size_t length = encoded_length(dp_string_at(input, i).length, pads);
    dp_tstring_assign_view(&dp_tensor_strings(&output)[i], (char *)buffer->data + used, length);
    used += length;
  }
  encode_work work = {input, &output, pads};
  dp_op_for(context, input->shape.elements, 40, encode_range, &work);
  dp_op_set_output(context, 0, &output);
  return NULL;
}

/* The value of a digit; any other byte has the value NONE, which is more than six bits. */
#define NONE 64
#define NONE_8 NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE
#define NONE_32 NONE_8, NONE_8, NONE_8, NONE_8
/* clang-format off */
static const uint8_t digits[256] = {
    NONE_32, NONE_8,
    NONE, NONE, NONE, NONE, NONE, 62, NONE, NONE,
    52, 53, 54, 55, 56, 57, 58, 59, 60, 61, NONE, NONE, NONE, NONE, NONE, NONE,
    NONE, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24,
    25, NONE, NONE, NONE, NONE, 63,
    NONE, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43, 44, 45, 46, 47,
    48, 49, 50, 51, NONE, NONE, NONE, NONE, NONE,
    NONE_32, NONE_32, NONE_32, NONE_32,
};
/* clang-format on */

/* Reads four digits as three bytes (a fourth byte is written too, in the same store). Returns a
 * number above 63 when one of them is no digit. */
static inline uint32_t decode_group(const uint8_t *from, char *to) {
  uint32_t a = digits[from[0]], b = digits[from[1]], c = digits[from[2]], d = digits[from[3]];
  uint32_t bytes = __builtin_bswap32(a << 26 | b << 20 | c << 14 | d << 8);
  memcpy(to, &bytes, sizeof bytes);
  return a | b | c | d;
}

#define BLOCK_GROUPS 256
static dp_status *decode(const void *state, dp_view input, dp_text *text) {
  size_t length = input.length;
  if (length > 0 && length % 4 == 0) {
    const char *tail = input.data + length - 4;
    if (tail[3] == '=')
      length -= tail[2] == '=' ? 2 : 1;
  }
  if (length % 4 == 1)
    return DP_INVALID("Base64 string length cannot be 1 modulo 4.");
  const uint8_t *from = (const uint8_t *)input.data;
  char block[3 * BLOCK_GROUPS + 1];
  uint32_t seen = 0;
  size_t groups = length / 4, rest = length % 4;
  do { /* `rest` goes into the last block, which is not full */
    size_t whole = groups < BLOCK_GROUPS ? groups : BLOCK_GROUPS, used = 3 * whole;
    for (size_t i = 0; i < whole; ++i, from += 4)
      seen |= decode_group(from, block + 3 * i);
    groups -= whole;
    if (whole < BLOCK_GROUPS && rest > 0) {
      uint8_t last[4] = {from[0], from[1], rest > 2 ? from[2] : 'A', 'A'};
      seen |= decode_group(last, block + used);
      used += rest - 1;
      rest = 0;
    }
    dp_text_append(text, block, used);
  } while (groups > 0 || rest > 0);
  return seen > 63 ? DP_INVALID("Invalid character found in base64.") : NULL;
}

static dp_status *decode_compute(dp_op_context *context, void *memory) {
  return dp_string_map(context, decode, NULL);
}

/* ---- Raw numbers ---- */
typedef struct raw_state {
  bool is_little;
  size_t unit; /* bytes that are reversed for the other byte order */
} raw_state;

static dp_status *raw_create(const dp_kernel_setup *setup, void *memory) {
  raw_state *state = memory;
  dp_dtype dtype;
  DP_RETURN_IF_ERROR(dp_node_get_bool(setup->node, "little_endian", &state->is_little));
  DP_RETURN_IF_ERROR(dp_node_get_type(setup->node, "out_type", &dtype));
  size_t size = dp_dtype_size(dtype);
  state->unit = dp_dtype_is_complex(dtype) ? size / 2 : size;
  return NULL;
}

static void put_in_order(const raw_state *state, char *to, size_t length) {
  if (state->is_little || state->unit == 1)
    return;
  for (size_t i = 0; i + state->unit <= length; i += state->unit)
    for (size_t a = i, b = i + state->unit - 1; a < b; ++a, --b) {
      char kept = to[a];
      to[a] = to[b];
      to[b] = kept;
    }
}

/* The shape of `input` with a last dimension of `count` added. */
static dp_status *raw_shape(const dp_tensor *input, int64_t count, dp_shape *shape_out) {
  int64_t dims[DP_MAX_RANK + 1];
  memcpy(dims, input->shape.dims, sizeof(int64_t) * (size_t)input->shape.rank);
  dims[input->shape.rank] = count;
  return dp_shape_make(input->shape.rank + 1, dims, shape_out);
}

typedef struct raw_work {
  const dp_tensor *input;
  char *to;
  size_t length; /* of every string */
} raw_work;

static void copy_range(void *arg, int64_t begin, int64_t end) {
  const raw_work *work = arg;
  for (int64_t i = begin; i < end; ++i)
    memcpy(work->to + (size_t)i * work->length, dp_string_at(work->input, i).data, work->length);
}

static dp_status *raw_compute(dp_op_context *context, void *memory) {
  const dp_tensor *input = dp_op_input(context, 0);
  dp_dtype dtype = dp_op_output_type(context, 0);
  int64_t count = input->shape.elements;
  size_t length = count > 0 ? dp_string_at(input, 0).length : 0, size = dp_dtype_size(dtype);
  for (int64_t i = 1; i < count; ++i)
    if (dp_string_at(input, i).length != length)
      return DP_INVALID("DecodeRaw requires input strings to all be the same size, but element "
                        "%lld has size %zu != %zu",
                        (long long)i, length, dp_string_at(input, i).length);
  if (length % size != 0)
    return DP_INVALID("Input to DecodeRaw has length %zu that is not a multiple of %zu, the size "
                      "of %s",
                      length, size, dp_dtype_name(dtype));
  dp_shape shape;
  dp_tensor *output;
  DP_RETURN_IF_ERROR(raw_shape(input, (int64_t)(length / size), &shape));
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &shape, &output));
  raw_work work = {input, output->data, length};
  if (length > 0)
    dp_op_for(context, count, (int64_t)(length / 40) + 1, copy_range, &work);
  put_in_order(memory, output->data, dp_tensor_bytes(output));
  return NULL;
}

static dp_status *padded_compute(dp_op_context *context, void *memory) {
  const dp_tensor *input = dp_op_input(context, 0);
  dp_dtype dtype = dp_op_output_type(context, 0);
  int64_t length;
  if (dp_op_input(context, 1)->shape.rank != 0)
    return DP_INVALID("k must be scalar, got shape %s",
                      dp_shape_text(&dp_op_input(context, 1)->shape));
  length = dp_tensor_int_at(dp_op_input(context, 1), 0);
  int64_t size = (int64_t)dp_dtype_size(dtype), width = length / size;
  if (length % size != 0)
    return DP_INVALID("fixed_length (%lld) must be a multiple of the size of out_type (%lld)",
                      (long long)length, (long long)size);
  if (length <= 0)
    return DP_INVALID("fixed_length (%lld) must be greater than zero.", (long long)length);
  dp_shape shape;
  dp_tensor *output;
  DP_RETURN_IF_ERROR(raw_shape(input, width, &shape));
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &shape, &output));
  memset(output->data, 0, dp_tensor_bytes(output));
  for (int64_t i = 0; i < input->shape.elements; ++i) {
    dp_view bytes = dp_string_at(input, i);
    size_t used = bytes.length < (size_t)length ? bytes.length : (size_t)length;
    memcpy((char *)output->data + (size_t)(i * length), bytes.data, used);
  }
  put_in_order(memory, output->data, dp_tensor_bytes(output));
  return NULL;
}

/* ---- Compressed data ---- */
typedef enum compression { PLAIN, ZLIB, GZIP } compression;
/* More than this from one string is taken for an attack. */
#define MAX_UNPACKED ((size_t)1 << 31)

static dp_status *compressed_create(const dp_kernel_setup *setup, void *memory) {
  dp_view type;
  DP_RETURN_IF_ERROR(dp_node_get_string(setup->node, "compression_type", &type));
  compression *kind = memory;
  *kind = type.length == 0 ? PLAIN : dp_view_equals(type, "ZLIB") ? ZLIB : GZIP;
  if (*kind == GZIP && !dp_view_equals(type, "GZIP"))
    return DP_INVALID("Only ZLIB, GZIP or NONE are supported compressions");
  return NULL;
}

static dp_status *inflate_all(z_stream *stream, dp_text *text) {
  char block[16384];
  int result = Z_OK;
  while (result == Z_OK) {
    stream->next_out = (Bytef *)block;
    stream->avail_out = sizeof(block);
    result = inflate(stream, Z_NO_FLUSH);
    size_t made = sizeof(block) - stream->avail_out;
    if (text->length + made > MAX_UNPACKED)
      return dp_status_create(DP_RESOURCE_EXHAUSTED, "the data unpack to more than %zu bytes",
                              MAX_UNPACKED);
    dp_text_append(text, block, made);
    if (result == Z_BUF_ERROR || (result == Z_OK && made == 0 && stream->avail_in == 0))
      return NULL; /* truncated input: TensorFlow gives the bytes that it has */
  }
  if (result != Z_STREAM_END)
    return dp_status_create(DP_DATA_LOSS, "inflate() failed with error %d%s%s", result,
                            stream->msg ? ": " : "", stream->msg ? stream->msg : "");
  return NULL;
}

static dp_status *unpack(const void *state, dp_view input, dp_text *text) {
  compression kind = *(const compression *)state;
  if (kind == PLAIN || input.length == 0) {
    dp_text_append(text, input.data, input.length);
    return NULL;
  }
  z_stream stream = {.next_in = (Bytef *)input.data, .avail_in = (uInt)input.length};
  if (inflateInit2(&stream, kind == ZLIB ? MAX_WBITS : MAX_WBITS + 16) != Z_OK)
    return dp_status_out_of_memory();
  dp_status *status = inflate_all(&stream, text);
  inflateEnd(&stream);
  return status;
}

static dp_status *compressed_compute(dp_op_context *context, void *memory) {
  return dp_string_map(context, unpack, memory);
}

/* ---- Tensors ---- */
static dp_status *serialize_compute(dp_op_context *context, void *memory) {
  dp_rope rope = {0};
  dp_status *status = dp_wire_encode_tensor(dp_op_input(context, 0), &rope);
  if (!status)
    status = dp_io_output_rope(context, 0, &rope);
  dp_rope_deinit(&rope);
  return status;
}

static dp_status *parse_compute(dp_op_context *context, void *memory) {
  const dp_tensor *input = dp_op_input(context, 0);
  dp_dtype wanted = dp_op_output_type(context, 0);
  if (input->shape.rank != 0)
    return DP_INVALID("Expected `serialized` to be a scalar, got shape: %s",
                      dp_shape_text(&input->shape));
  dp_view bytes = dp_string_at(input, 0);
  dp_tensor tensor;
  dp_status *status = dp_wire_decode_tensor_bytes(bytes.data, bytes.length, &tensor);
  if (status)
    return dp_status_annotate(status, "Could not parse `serialized` as TensorProto");
  if (tensor.dtype != wanted) {
    status = DP_INVALID("Type mismatch between parsed tensor (%s) and dtype (%s)",
                        dp_dtype_name(tensor.dtype), dp_dtype_name(wanted));
    dp_tensor_deinit(&tensor);
    return status;
  }
  dp_op_set_output(context, 0, &tensor);
  return NULL;
}

/* clang-format off */
#define RAW (DP_SET_FLOATS | DP_SET_SIGNED | DP_SET(UINT8) | DP_SET(UINT16))

static const dp_kernel rows[] = {
    {.op = "EncodeBase64", .state_size = sizeof(bool), .create = encode_create,
     .compute = encode_compute},
    {.op = "DecodeBase64", .compute = decode_compute},
    {.op = "DecodeRaw", .types = {{"out_type", RAW | DP_SET_COMPLEX | DP_SET(BOOL)}},
     .state_size = sizeof(raw_state), .create = raw_create, .compute = raw_compute},
    {.op = "DecodePaddedRaw", .types = {{"out_type", RAW}}, .state_size = sizeof(raw_state),
     .create = raw_create, .compute = padded_compute},
    {.op = "DecodeCompressed", .state_size = sizeof(compression), .create = compressed_create,
     .compute = compressed_compute},
    {.op = "SerializeTensor", .compute = serialize_compute},
    {.op = "ParseTensor", .compute = parse_compute},
};
/* clang-format on */
DP_KERNEL_FAMILY(string_code, rows);
