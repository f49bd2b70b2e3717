/* The tensor codec: every encoding of TensorProto, sharing of memory, and malformed or hostile
 * bytes. */
#include <inttypes.h>
#include "wire_test.h"
#include "wire/tensor_codec.h"

/* ---- Helpers ----------------------------------------------------------------------------------
 */

static dp_status *decode(const void *bytes, size_t length, dp_tensor *tensor) {
  return dp_wire_decode_tensor_bytes(bytes, length, tensor);
}
#define DECODE(text, tensor) decode(text, sizeof(text) - 1, tensor)
#define VECTOR4 "\x12\x04\x12\x02\x08\x04"
#define VECTOR2 "\x12\x04\x12\x02\x08\x02"

static void assert_floats(const dp_tensor *tensor, size_t count, const float *expected) {
  assert_int_equal(tensor->dtype, DP_FLOAT);
  assert_int_equal(tensor->shape.elements, count);
  assert_memory_equal(tensor->data, expected, count * sizeof *expected);
}

static dp_tensor round_trip(const dp_tensor *tensor, size_t piece) {
  dp_rope rope = {0};
  assert_ok(dp_wire_encode_tensor(tensor, &rope));
  uint8_t *bytes = bytes_of(&rope);
  dp_rope cut = rope_of(bytes, rope.length, piece);
  dp_rope_reader reader = dp_rope_read(&cut);
  dp_tensor back;
  assert_ok(dp_wire_decode_tensor(&reader, &back));
  assert_int_equal(reader.remaining, 0);
  assert_int_equal(back.dtype, tensor->dtype);
  assert_true(dp_shape_equal(&back.shape, &tensor->shape));
  dp_free(bytes);
  dp_rope_deinit(&cut);
  dp_rope_deinit(&rope);
  return back;
}

/* ---- Typed values -----------------------------------------------------------------------------
 */

static void reads_typed_values(void **state) {
  dp_tensor tensor;
  /* packed, fewer than elements: the last is repeated */
  assert_ok(DECODE("\x08\x01" VECTOR4 "\x2a\x08\0\0\x80\x3f\0\0\0\x40", &tensor));
  assert_floats(&tensor, 4, (float[]){1, 2, 2, 2});
  dp_tensor_deinit(&tensor);
  /* unpacked, more than elements */
  assert_ok(DECODE("\x08\x01" VECTOR2 "\x2d\0\0\x80\x3f\x2d\0\0\0\x40\x2d\0\0\x40\x40", &tensor));
  assert_floats(&tensor, 2, (float[]){1, 2});
  dp_tensor_deinit(&tensor);
  /* none: zeros; values of another dtype do not count */
  assert_ok(DECODE("\x08\x01" VECTOR4 "\x3a\x01\x05", &tensor));
  assert_floats(&tensor, 4, (float[]){0, 0, 0, 0});
  dp_tensor_deinit(&tensor);
  /* a scalar without a shape; the values may stand in front of the dtype */
  assert_ok(DECODE("\x2d\0\0\x80\x3f\x08\x01", &tensor));
  assert_int_equal(tensor.shape.rank, 0);
  assert_floats(&tensor, 1, (float[]){1});
  dp_tensor_deinit(&tensor);
  /* content wins over values, the last content over others */
  assert_ok(DECODE("\x08\x01\x22\x04\0\0\0\0\x2d\0\0\0\x40\x22\x04\0\0\x80\x3f", &tensor));
  assert_floats(&tensor, 1, (float[]){1});
  dp_tensor_deinit(&tensor);
}

static void reads_numbers_of_every_width(void **state) {
  dp_tensor tensor;
  assert_ok(DECODE("\x08\x06" VECTOR2 "\x3a\x0c\xac\x02\xff\xfe\xff\xff\xff\xff\xff\xff\xff\x01",
                   &tensor)); /* int8: 300, -129 */
  assert_memory_equal(tensor.data, ((int8_t[]){44, 127}), 2);
  dp_tensor_deinit(&tensor);
  assert_ok(DECODE("\x08\x11" VECTOR2 "\x38\xf0\xa2\x04", &tensor)); /* uint16: 70000 */
  assert_memory_equal(tensor.data, ((uint16_t[]){4464, 4464}), 4);
  dp_tensor_deinit(&tensor);
  assert_ok(DECODE("\x08\x09" VECTOR2 "\x52\x02\x05\x07", &tensor)); /* int64 */
  assert_memory_equal(tensor.data, ((int64_t[]){5, 7}), 16);
  dp_tensor_deinit(&tensor);
  assert_ok(DECODE("\x08\x16" VECTOR2 "\x82\x01\x05\xff\xff\xff\xff\x0f", &tensor)); /* uint32 */
  assert_memory_equal(tensor.data, ((uint32_t[]){UINT32_MAX, UINT32_MAX}), 8);
  dp_tensor_deinit(&tensor);
  assert_ok(DECODE("\x08\x17" VECTOR2 "\x88\x01\x09", &tensor)); /* uint64 */
  assert_memory_equal(tensor.data, ((uint64_t[]){9, 9}), 16);
  dp_tensor_deinit(&tensor);
  assert_ok(DECODE("\x08\x0a" VECTOR2 "\x5a\x01\x02", &tensor)); /* bool: any number is true */
  assert_memory_equal(tensor.data, "\1\1", 2);
  dp_tensor_deinit(&tensor);
  assert_ok(DECODE("\x08\x13" VECTOR2 "\x6a\x02\x80\x78", &tensor)); /* half: 0x3c00 */
  assert_memory_equal(tensor.data, ((uint16_t[]){0x3c00, 0x3c00}), 4);
  dp_tensor_deinit(&tensor);
  assert_ok(DECODE("\x08\x1d" VECTOR4 "\x3a\x03\x01\x0d\x64", &tensor)); /* int4: 1, 13, 100 */
  assert_memory_equal(tensor.data, ((int8_t[]){1, -3, 4, 4}), 4);
  dp_tensor_deinit(&tensor);
  assert_ok(DECODE("\x08\x19" VECTOR4 "\x92\x01\x02\x38\x40", &tensor)); /* float8_e4m3fn */
  assert_memory_equal(tensor.data, "\x38\x40\x40\x40", 4);
  dp_tensor_deinit(&tensor);
}

static void reads_complex_pairs(void **state) {
  dp_tensor tensor;
  /* three floats: one pair, and a rest that does not count */
  assert_ok(DECODE("\x08\x08" VECTOR2 "\x4a\x0c\0\0\x80\x3f\0\0\0\x40\0\0\x40\x40", &tensor));
  assert_memory_equal(tensor.data, ((float[]){1, 2, 1, 2}), 16);
  dp_tensor_deinit(&tensor);
  assert_ok(DECODE("\x08\x08" VECTOR2 "\x4d\0\0\x80\x3f", &tensor));
  assert_memory_equal(tensor.data, ((float[]){0, 0, 0, 0}), 16);
  dp_tensor_deinit(&tensor);
  assert_ok(DECODE("\x08\x12" VECTOR2 "\x61\0\0\0\0\0\0\xf0\x3f\x61\0\0\0\0\0\0\0\x40", &tensor));
  assert_memory_equal(tensor.data, ((double[]){1, 2, 1, 2}), 32);
  dp_tensor_deinit(&tensor);
}

/* ---- Contents ---------------------------------------------------------------------------------
 */

static void round_trips_every_plain_dtype(void **state) {
  for (int dtype = 1; dtype < DP_DTYPE_END; dtype++) {
    if (!dp_dtype_is_plain((dp_dtype)dtype))
      continue;
    for (size_t piece = 1; piece < 40000; piece = piece * 7 + 3) {
      dp_tensor tensor;
      dp_shape shape = dp_shape_of(3, (int64_t[]){7, 11, 13});
      assert_ok(dp_tensor_create((dp_dtype)dtype, &shape, &tensor));
      uint8_t *data = tensor.data;
      for (size_t i = 0; i < dp_tensor_bytes(&tensor); i++)
        data[i] = (uint8_t)(dtype == DP_BOOL || dtype >= DP_INT4 ? i & 1 : i * 31);
      dp_tensor back = round_trip(&tensor, piece);
      assert_memory_equal(back.data, data, dp_tensor_bytes(&tensor));
      dp_tensor_deinit(&back);
      dp_tensor_deinit(&tensor);
    }
  }
}

static void shares_large_contents(void **state) {
  dp_tensor tensor, back;
  dp_shape shape = dp_shape_vector(10000);
  assert_ok(dp_tensor_create_zero(DP_FLOAT, &shape, &tensor));
  dp_rope rope = {0};
  assert_ok(dp_wire_encode_tensor(&tensor, &rope));
  assert_int_equal(rope.pieces.count, 2);
  assert_ptr_equal(rope.pieces.items[1].data, tensor.data);
  dp_rope_reader reader = dp_rope_read(&rope);
  assert_ok(dp_wire_decode_tensor(&reader, &back));
  assert_ptr_equal(back.data, tensor.data);
  assert_false(dp_tensor_is_unique(&back));
  dp_tensor_deinit(&back);
  dp_rope_deinit(&rope);
  /* A piece at an odd address is copied. */
  uint8_t *message = dp_malloc(40100);
  dp_rope encoded = {0};
  assert_ok(dp_wire_encode_tensor(&tensor, &encoded));
  dp_rope_flatten(&encoded, message);
  for (size_t shift = 0; shift < 4; shift++) {
    dp_buffer *buffer = NULL;
    assert_ok(dp_buffer_create(encoded.length + shift, &buffer));
    memcpy((char *)buffer->data + shift, message, encoded.length);
    dp_rope one = {0};
    dp_rope_append_piece(&one, buffer, (char *)buffer->data + shift, encoded.length);
    reader = dp_rope_read(&one);
    assert_ok(dp_wire_decode_tensor(&reader, &back));
    bool aligned = (shift + encoded.length - 40000) % 4 == 0;
    assert_int_equal(back.buffer == buffer, aligned);
    assert_int_equal((uintptr_t)back.data % 4, 0);
    dp_tensor_deinit(&back);
    dp_rope_deinit(&one);
  }
  dp_free(message);
  dp_rope_deinit(&encoded);
  dp_tensor_deinit(&tensor);
}

static void small_parts_of_large_buffers_are_copied(void **state) {
  dp_buffer *buffer = NULL;
  assert_ok(dp_buffer_create(1 << 20, &buffer));
  uint8_t *data = buffer->data;
  memcpy(data, "\x08\x04\x12\x05\x12\x03\x08\x80\x10\x22\x80\x10", 12);
  memset(data + 12, 7, 2048);
  dp_rope rope = {0};
  dp_rope_append_piece(&rope, buffer, data, 12 + 2048);
  dp_rope_reader reader = dp_rope_read(&rope);
  dp_tensor tensor;
  assert_ok(dp_wire_decode_tensor(&reader, &tensor));
  assert_ptr_not_equal(tensor.buffer, buffer);
  assert_int_equal(((uint8_t *)tensor.data)[2047], 7);
  dp_tensor_deinit(&tensor);
  dp_rope_deinit(&rope);
}

static void writes_what_protobuf_would(void **state) {
  dp_tensor tensor;
  dp_shape shape = dp_shape_of(2, (int64_t[]){1, 0});
  assert_ok(dp_tensor_create(DP_INT32, &shape, &tensor));
  dp_rope rope = {0};
  assert_ok(dp_wire_encode_tensor(&tensor, &rope));
  uint8_t *bytes = bytes_of(&rope);
  assert_int_equal(rope.length, 10);
  assert_memory_equal(bytes, "\x08\x03\x12\x06\x12\x02\x08\x01\x12\x00", 10);
  dp_free(bytes);
  dp_rope_deinit(&rope);
  dp_tensor_deinit(&tensor);
  /* an unset tensor: empty floats */
  dp_tensor unset = {0};
  assert_ok(dp_wire_encode_tensor_field(1, &unset, &rope));
  bytes = bytes_of(&rope);
  assert_int_equal(rope.length, 8);
  assert_memory_equal(bytes, "\x0a\x06\x08\x01\x12\x02\x12\x00", 8);
  dp_free(bytes);
  dp_rope_deinit(&rope);
}

/* ---- Objects ----------------------------------------------------------------------------------
 */

static void round_trips_strings(void **state) {
  dp_tensor tensor;
  dp_shape shape = dp_shape_vector(5);
  char *large = dp_malloc(5000);
  memset(large, 'x', 5000);
  assert_ok(dp_tensor_create(DP_STRING, &shape, &tensor));
  dp_tstring *strings = dp_tensor_strings(&tensor);
  assert_ok(dp_tstring_assign(&strings[0], "a\0b", 3));
  assert_ok(dp_tstring_assign(&strings[2], large, 5000));
  assert_ok(dp_tstring_assign(&strings[3], large, 100));
  assert_ok(dp_tstring_assign(&strings[4], large, 22));
  for (size_t piece = 1; piece < 9000; piece = piece * 5 + 2) {
    dp_tensor back = round_trip(&tensor, piece);
    for (int i = 0; i < 5; i++)
      assert_true(dp_view_equal(dp_tstring_view(&dp_tensor_strings(&back)[i]),
                                dp_tstring_view(&strings[i])));
    dp_tensor_deinit(&back);
  }
  dp_tensor_deinit(&tensor);
  dp_free(large);
}

static void reads_string_lists(void **state) {
  dp_tensor tensor;
  assert_ok(DECODE("\x08\x07" VECTOR2 "\x22\x05\x01\x02"
                   "abb",
                   &tensor));
  assert_true(dp_view_equals(dp_tstring_view(&dp_tensor_strings(&tensor)[0]), "a"));
  assert_true(dp_view_equals(dp_tstring_view(&dp_tensor_strings(&tensor)[1]), "bb"));
  dp_tensor_deinit(&tensor);
  assert_ok(DECODE("\x08\x07" VECTOR4 "\x42\x01"
                   "a"
                   "\x42\x02"
                   "bb",
                   &tensor));
  assert_true(dp_view_equals(dp_tstring_view(&dp_tensor_strings(&tensor)[3]), "bb"));
  dp_tensor_deinit(&tensor);
  assert_ok(DECODE("\x08\x07" VECTOR2 "\x42\x01"
                   "a"
                   "\x42\x01"
                   "b"
                   "\x42\x01"
                   "c",
                   &tensor));
  assert_true(dp_view_equals(dp_tstring_view(&dp_tensor_strings(&tensor)[1]), "b"));
  dp_tensor_deinit(&tensor);
  assert_code(DP_INVALID_ARGUMENT, DECODE("\x08\x07" VECTOR2 "\x22\x05\x01\x01"
                                          "abb",
                                          &tensor));
  assert_code(DP_INVALID_ARGUMENT, DECODE("\x08\x07" VECTOR2 "\x22\x01\x01", &tensor));
  assert_code(
      DP_INVALID_ARGUMENT,
      DECODE("\x08\x07" VECTOR2 "\x22\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", &tensor));
}

static void round_trips_handles(void **state) {
  dp_tensor tensor;
  dp_shape shape = dp_shape_vector(3);
  assert_ok(dp_tensor_create(DP_RESOURCE, &shape, &tensor));
  dp_resource_handle *handle =
      dp_resource_handle_create("/job:ps/task:0/cpu:0", "box", "w", 0xfedcba9876543210, "Var");
  handle->component_count = 2;
  handle->dtypes = DP_NEW_ARRAY(dp_dtype, 2);
  handle->shapes = DP_NEW_ARRAY(dp_partial_shape, 2);
  handle->dtypes[0] = DP_FLOAT;
  handle->dtypes[1] = DP_INT64;
  handle->shapes[0] = (dp_partial_shape){.rank = 2, .dims = {-1, 3}};
  handle->shapes[1] = dp_partial_shape_unknown();
  dp_tensor_handles(&tensor)[0] = handle;
  dp_tensor_handles(&tensor)[2] = dp_resource_handle_retain(handle);
  dp_tensor back = round_trip(&tensor, 13);
  dp_resource_handle *got = dp_tensor_handles(&back)[2];
  assert_string_equal(got->device, handle->device);
  assert_string_equal(got->container, "box");
  assert_string_equal(got->name, "w");
  assert_string_equal(got->type_name, "Var");
  assert_true(got->type_hash == handle->type_hash);
  assert_int_equal(got->component_count, 2);
  assert_int_equal(got->dtypes[1], DP_INT64);
  assert_int_equal(got->shapes[0].dims[0], -1);
  assert_int_equal(got->shapes[1].rank, -1);
  assert_non_null(dp_tensor_handles(&back)[1]); /* an empty handle is a handle with empty names */
  assert_string_equal(dp_tensor_handles(&back)[1]->name, "");
  dp_tensor_deinit(&back);
  dp_tensor_deinit(&tensor);
  /* Fewer handles than elements: the rest stays empty. In a list they come as strings do. */
  assert_ok(DECODE("\x08\x14" VECTOR2 "\x72\x03\x1a\x01"
                   "n",
                   &tensor));
  assert_string_equal(dp_tensor_handles(&tensor)[0]->name, "n");
  assert_null(dp_tensor_handles(&tensor)[1]);
  dp_tensor_deinit(&tensor);
  assert_ok(DECODE("\x08\x14" VECTOR2 "\x22\x05\x03\x00\x1a\x01"
                   "n",
                   &tensor));
  assert_string_equal(dp_tensor_handles(&tensor)[0]->name, "n");
  dp_tensor_deinit(&tensor);
  assert_code(DP_INVALID_ARGUMENT, DECODE("\x08\x14" VECTOR2 "\x72\x03\x1a\x04"
                                          "n",
                                          &tensor));
}

/* A variant type for the test: a list of tensors with a text. */
typedef struct bundle {
  char *text;
  size_t count;
  dp_tensor tensors[4];
} bundle;

static void bundle_destroy(void *object) {
  bundle *self = object;
  for (size_t i = 0; i < self->count; i++)
    dp_tensor_deinit(&self->tensors[i]);
  dp_free(self->text);
  dp_free(self);
}
static dp_status *bundle_encode(const void *object, dp_text *metadata, dp_tensor **tensors_out,
                                size_t *count_out) {
  const bundle *self = object;
  dp_text_add(metadata, self->text);
  *tensors_out = DP_NEW_ARRAY(dp_tensor, self->count + 1);
  for (size_t i = 0; i < self->count; i++)
    (*tensors_out)[i] = dp_tensor_copy(&self->tensors[i]);
  *count_out = self->count;
  return NULL;
}
static dp_status *bundle_decode(dp_view metadata, const dp_tensor *tensors, size_t count,
                                void **object_out) {
  if (count > 4)
    return DP_INVALID("too many tensors in a bundle");
  bundle *self = DP_NEW(bundle);
  self->text = dp_strndup(metadata.data, metadata.length);
  self->count = count;
  for (size_t i = 0; i < count; i++)
    self->tensors[i] = dp_tensor_copy(&tensors[i]);
  *object_out = self;
  return NULL;
}
static const dp_variant_ops bundle_ops = {
    .type_name = "test::Bundle",
    .destroy = bundle_destroy,
    .encode = bundle_encode,
    .decode = bundle_decode,
};

static dp_tensor bundle_tensor(int depth) {
  dp_tensor tensor;
  dp_shape shape = dp_shape_vector(2);
  assert_ok(dp_tensor_create(DP_VARIANT, &shape, &tensor));
  bundle *object = DP_NEW(bundle);
  object->text = dp_strdup("meta");
  object->count = 1;
  if (depth > 1)
    object->tensors[0] = bundle_tensor(depth - 1);
  else
    assert_ok(dp_tensor_scalar_float(3, &object->tensors[0]));
  dp_tensor_variants(&tensor)[0] = dp_variant_create(&bundle_ops, object);
  return tensor;
}

static void round_trips_variants(void **state) {
  dp_variant_register(&bundle_ops);
  dp_tensor tensor = bundle_tensor(3), back = round_trip(&tensor, 5);
  assert_null(dp_tensor_variants(&back)[1]);
  const bundle *object = dp_tensor_variants(&back)[0]->object;
  assert_string_equal(object->text, "meta");
  const dp_tensor *inner = &object->tensors[0];
  object = dp_tensor_variants(inner)[0]->object;
  object = dp_tensor_variants(&object->tensors[0])[0]->object;
  assert_floats(&object->tensors[0], 1, (float[]){3});
  dp_tensor_deinit(&back);
  dp_tensor_deinit(&tensor);
  tensor = bundle_tensor(DP_WIRE_MAX_TENSOR_DEPTH + 2);
  dp_rope rope = {0};
  assert_error(DP_INVALID_ARGUMENT, "nested", dp_wire_encode_tensor(&tensor, &rope));
  dp_rope_deinit(&rope);
  dp_tensor_deinit(&tensor);
  assert_error(DP_INVALID_ARGUMENT, "\"no::Such\"",
               DECODE("\x08\x15\x7a\x0a\x0a\x08"
                      "no::Such",
                      &tensor));
  assert_error(DP_INVALID_ARGUMENT, "no type name",
               DECODE("\x08\x15\x7a\x03\x12\x01"
                      "m",
                      &tensor));
  assert_ok(DECODE("\x08\x15\x7a\x00", &tensor));
  assert_null(dp_tensor_variants(&tensor)[0]);
  dp_tensor_deinit(&tensor);
}

static void limits_nesting_of_variants(void **state) {
  /* a tensor in a variant in a tensor ..., innermost first */
  uint8_t bytes[4096];
  size_t at = sizeof bytes;
  for (int i = 0; i < 30; i++) {
    static const char name[] = "\x0a\x0c"
                               "test::Bundle";
    size_t length = sizeof bytes - at;
    if (i > 0) {
      bytes[--at] = (uint8_t)(length >> 7);
      bytes[--at] = (uint8_t)(length | 0x80);
      bytes[--at] = 0x1a; /* tensors */
    }
    at -= sizeof name - 1;
    memcpy(bytes + at, name, sizeof name - 1);
    length = sizeof bytes - at;
    bytes[--at] = (uint8_t)(length >> 7);
    bytes[--at] = (uint8_t)(length | 0x80);
    bytes[--at] = 0x7a; /* variant_val */
    bytes[--at] = 0x15;
    bytes[--at] = 0x08;
    dp_tensor tensor;
    dp_status *status = decode(bytes + at, sizeof bytes - at, &tensor);
    assert_int_equal(dp_status_code(status),
                     i <= DP_WIRE_MAX_TENSOR_DEPTH ? DP_OK : DP_INVALID_ARGUMENT);
    if (!status)
      dp_tensor_deinit(&tensor);
    dp_status_release(status);
  }
}

/* ---- Bytes of strangers -----------------------------------------------------------------------
 */

static void refuses_what_does_not_fit(void **state) {
  dp_tensor tensor;
  assert_error(DP_INVALID_ARGUMENT, "dtype number 0", DECODE("", &tensor));
  assert_error(DP_INVALID_ARGUMENT, "dtype number 101", DECODE("\x08\x65", &tensor));
  assert_error(DP_INVALID_ARGUMENT, "dtype number 99", DECODE("\x08\x63\x12\x02\x12\x00", &tensor));
  assert_error(DP_INVALID_ARGUMENT, "4 bytes",
               DECODE("\x08\x01" VECTOR2 "\x22\x04"
                      "1234",
                      &tensor));
  assert_error(DP_INVALID_ARGUMENT, "neither 0 nor 1",
               DECODE("\x08\x0a" VECTOR2 "\x22\x02\x00\x02", &tensor));
  /* dim -1 */
  assert_code(
      DP_INVALID_ARGUMENT,
      DECODE("\x08\x01\x12\x0d\x12\x0b\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", &tensor));
  /* 2^40 x 2^40 */
  assert_code(DP_INVALID_ARGUMENT,
              DECODE("\x08\x01\x12\x12\x12\x07\x08\x80\x80\x80\x80\x80\x20\x12\x07\x08\x80\x80\x80"
                     "\x80\x80\x20",
                     &tensor));
  /* 2^40 elements out of nothing */
  assert_code(DP_RESOURCE_EXHAUSTED,
              DECODE("\x08\x01\x12\x09\x12\x07\x08\x80\x80\x80\x80\x80\x20", &tensor));
  /* 2^62 elements of 8 bytes */
  assert_code(
      DP_INVALID_ARGUMENT,
      DECODE("\x08\x02\x12\x0c\x12\x0a\x08\x80\x80\x80\x80\x80\x80\x80\x80\x40\x22\x01x", &tensor));
  assert_code(DP_INVALID_ARGUMENT, DECODE("\x08\x01" VECTOR2 "\x2a\x03"
                                          "123",
                                          &tensor));
  assert_code(DP_INVALID_ARGUMENT, DECODE("\x08\x03" VECTOR2 "\x3a\x02\xff\xff", &tensor));
  /* 17 dimensions */
  char many[2 + 2 + 17 * 4] = "\x08\x01\x12\x44";
  for (int i = 0; i < 17; i++)
    memcpy(many + 4 + i * 4, "\x12\x02\x08\x01", 4);
  assert_error(DP_INVALID_ARGUMENT, "17 dimensions", decode(many, sizeof many, &tensor));
  /* one string of 1 KiB, repeated until memory would end */
  char repeated[14 + 1024] = "\x08\x07\x12\x07\x12\x05\x08\x80\x80\x80\x02\x42\x80\x08";
  assert_error(DP_RESOURCE_EXHAUSTED, "repeated", decode(repeated, sizeof repeated, &tensor));
}

static void takes_what_tensorflow_takes(void **state) {
  dp_tensor tensor;
  /* no elements: contents and values are ignored */
  assert_ok(DECODE("\x08\x01\x12\x02\x12\x00\x22\x03"
                   "abc",
                   &tensor));
  assert_int_equal(tensor.shape.elements, 0);
  dp_tensor_deinit(&tensor);
  /* unknown_rank is not looked at */
  assert_ok(DECODE("\x08\x01\x12\x02\x18\x01", &tensor));
  assert_int_equal(tensor.shape.rank, 0);
  dp_tensor_deinit(&tensor);
  /* the shape in two parts; unknown fields, one a group */
  assert_ok(DECODE("\xf8\x07\x01\x0b\x08\x01\x0c\x08\x01" VECTOR2 "\x12\x05\x12\x03\x08\x83\x00",
                   &tensor));
  assert_int_equal(tensor.shape.rank, 2);
  assert_int_equal(tensor.shape.elements, 6);
  dp_tensor_deinit(&tensor);
}

/* Every prefix, and every byte changed: whatever comes out, nothing is read or written beyond. */
static void survives_noise(void **state) {
  static const char *const seeds[] = {
      "\x08\x01" VECTOR4 "\x2a\x08"
      "12345678",
      "\x08\x03" VECTOR4 "\x3a\x03\x01\x02\x03",
      "\x08\x07" VECTOR4 "\x42\x01"
      "a"
      "\x42\x02"
      "bb",
      "\x08\x07" VECTOR2 "\x22\x05\x01\x02"
      "abb",
      "\x08\x14" VECTOR2 "\x72\x09\x1a\x01"
      "n"
      "\x32\x04\x08\x01\x12\x01"
      "\x12",
      "\x08\x15" VECTOR2 "\x7a\x14\x0a\x0c"
      "test::Bundle"
      "\x1a\x04\x08\x01\x2d"
      "1",
      "\x08\x12" VECTOR2 "\x61"
      "12345678"
      "\x61"
      "87654321",
  };
  for (size_t seed = 0; seed < sizeof seeds / sizeof *seeds; seed++) {
    size_t length = strlen(seeds[seed]);
    for (size_t i = 0; i < length; i++)
      for (int change = 0; change < 256; change += 3) {
        uint8_t *bytes = dp_memdup(seeds[seed], length);
        bytes[i] = (uint8_t)change;
        dp_rope rope = rope_of(bytes, length, 3);
        dp_rope_reader reader = dp_rope_read(&rope);
        dp_tensor tensor;
        dp_status *status = dp_wire_decode_tensor(&reader, &tensor);
        if (!status)
          dp_tensor_deinit(&tensor);
        dp_status_release(status);
        dp_rope_deinit(&rope);
        status = decode(bytes, i, &tensor);
        if (!status)
          dp_tensor_deinit(&tensor);
        dp_status_release(status);
        dp_free(bytes);
      }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(reads_typed_values),
      cmocka_unit_test(reads_numbers_of_every_width),
      cmocka_unit_test(reads_complex_pairs),
      cmocka_unit_test(round_trips_every_plain_dtype),
      cmocka_unit_test(shares_large_contents),
      cmocka_unit_test(small_parts_of_large_buffers_are_copied),
      cmocka_unit_test(writes_what_protobuf_would),
      cmocka_unit_test(round_trips_strings),
      cmocka_unit_test(reads_string_lists),
      cmocka_unit_test(round_trips_handles),
      cmocka_unit_test(round_trips_variants),
      cmocka_unit_test(limits_nesting_of_variants),
      cmocka_unit_test(refuses_what_does_not_fit),
      cmocka_unit_test(takes_what_tensorflow_takes),
      cmocka_unit_test(survives_noise),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
