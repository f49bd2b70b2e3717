/* String and variant tensors in V2 checkpoints.
 *
 *   strings   the varint lengths of all strings; the masked CRC32C of the lengths (as 32-bit
 *             numbers; a length that does not fit as a 64-bit number); the bytes of all strings
 *   variants  for each: varint length, VariantTensorDataProto, masked CRC32C of all bytes before
 *
 * The tensor's checksum covers the lengths as numbers, the inner checksums and the bytes. No state,
 * any thread. */
#include <string.h>
#include "base/checksum.h"
#include "storage/bundle_internal.h"
#include "storage/table_internal.h"
#include "wire/tensor_codec.h"

static uint32_t add_length(uint32_t crc, uint64_t length, bool swapped) {
  uint32_t narrow = (uint32_t)length;
  if (length <= UINT32_MAX) {
    if (swapped)
      narrow = __builtin_bswap32(narrow);
    return dp_crc32c_extend(crc, &narrow, sizeof narrow);
  }
  if (swapped)
    length = __builtin_bswap64(length);
  return dp_crc32c_extend(crc, &length, sizeof length);
}

static void add_checksum(dp_text *bytes, uint32_t *crc) {
  uint8_t masked[4];
  dp_put_fixed32(masked, dp_crc32c_mask(*crc));
  dp_text_append(bytes, masked, 4);
  *crc = dp_crc32c_extend(*crc, masked, 4);
}

static void encode_strings(const dp_tensor *tensor, dp_text *bytes, uint32_t *crc_out) {
  const dp_tstring *strings = dp_tensor_strings(tensor);
  uint32_t crc = 0;
  for (int64_t i = 0; i < dp_tensor_elements(tensor); ++i) {
    uint8_t varint[10];
    size_t length = dp_tstring_size(&strings[i]);
    dp_text_append(bytes, varint, dp_put_varint(varint, length));
    crc = add_length(crc, length, false);
  }
  add_checksum(bytes, &crc);
  for (int64_t i = 0; i < dp_tensor_elements(tensor); ++i) {
    dp_view view = dp_tstring_view(&strings[i]);
    dp_text_append(bytes, view.data, view.length);
    crc = dp_crc32c_extend(crc, view.data, view.length);
  }
  *crc_out = crc;
}

/* ---- Variants: the tensor codec encodes each as a scalar tensor; field 15 (variant_val) of that
 * TensorProto is the message in the file. ---- */
#define VARIANT_FIELD 15

static dp_status *encode_variant(dp_variant *variant, dp_rope *rope) {
  dp_shape shape = dp_shape_scalar();
  dp_tensor scalar;
  DP_RETURN_IF_ERROR(dp_tensor_create(DP_VARIANT, &shape, &scalar));
  dp_tensor_variants(&scalar)[0] = variant ? dp_variant_retain(variant) : NULL;
  dp_status *status = dp_wire_encode_tensor(&scalar, rope);
  dp_tensor_deinit(&scalar);
  return status;
}

/* The payload of the field within an encoded TensorProto. */
static bool find_variant_field(const uint8_t *at, const uint8_t *end, dp_view *payload_out) {
  while (at < end) {
    uint64_t tag, value;
    if (!(at = dp_get_varint(at, end, &tag)) || !(at = dp_get_varint(at, end, &value)))
      return false;
    if ((tag & 7) == 0)
      continue;
    if ((tag & 7) != 2 || value > (uint64_t)(end - at))
      return false;
    if (tag >> 3 == VARIANT_FIELD) {
      *payload_out = (dp_view){(const char *)at, (size_t)value};
      return true;
    }
    at += value;
  }
  return false;
}

static dp_status *encode_variants(const dp_tensor *tensor, dp_text *bytes, uint32_t *crc_out) {
  uint32_t crc = 0;
  for (int64_t i = 0; i < dp_tensor_elements(tensor); ++i) {
    dp_rope rope = {0};
    dp_status *status = encode_variant(dp_tensor_variants(tensor)[i], &rope);
    uint8_t *flat = status ? NULL : dp_try_malloc(rope.length + 1);
    if (!status && !flat)
      status = dp_status_out_of_memory();
    if (!status) {
      dp_rope_flatten(&rope, flat);
      dp_view payload = {"", 0};
      find_variant_field(flat, flat + rope.length, &payload); /* absent: an empty variant */
      uint8_t varint[10];
      uint64_t length = payload.length;
      dp_text_append(bytes, varint, dp_put_varint(varint, length));
      crc = dp_crc32c_extend(crc, &length, sizeof length);
      dp_text_append(bytes, payload.data, payload.length);
      crc = dp_crc32c_extend(crc, payload.data, payload.length);
      add_checksum(bytes, &crc);
    }
    dp_free(flat);
    dp_rope_deinit(&rope);
    DP_RETURN_IF_ERROR(status);
  }
  *crc_out = crc;
  return NULL;
}

dp_status *dp_bundle_encode_objects(const dp_tensor *tensor, dp_text *bytes, uint32_t *crc_out) {
  if (tensor->dtype == DP_VARIANT)
    return encode_variants(tensor, bytes, crc_out);
  if (tensor->dtype != DP_STRING)
    return DP_INVALID("tensors of dtype %s cannot be saved", dp_dtype_name(tensor->dtype));
  encode_strings(tensor, bytes, crc_out);
  return NULL;
}

/* ---- Reading ---- */
static dp_status *too_short(void) {
  return dp_status_create(DP_DATA_LOSS, "String lengths longer than the stored size");
}

static dp_status *read_checksum(const uint8_t **at, const uint8_t *end, bool swapped,
                                uint32_t *crc) {
  if (end - *at < 4)
    return too_short();
  uint32_t stored = dp_get_fixed32(*at);
  if (swapped)
    stored = __builtin_bswap32(stored);
  if (dp_crc32c_unmask(stored) != *crc)
    return dp_status_create(DP_DATA_LOSS,
                            "The length checksum does not match: expected %08u but actual is %08u",
                            dp_crc32c_unmask(stored), *crc);
  *crc = dp_crc32c_extend(*crc, *at, 4);
  *at += 4;
  return NULL;
}

static dp_status *decode_strings(const uint8_t *bytes, size_t size, bool swapped, dp_tensor *tensor,
                                 uint32_t *crc_out) {
  const uint8_t *at = bytes, *end = bytes + size;
  int64_t count = dp_tensor_elements(tensor);
  uint32_t crc = 0;
  uint64_t length, total = 0;
  for (int64_t i = 0; i < count; ++i) {
    if (!(at = dp_get_varint(at, end, &length)) || length > size - total)
      return too_short();
    total += length;
    crc = add_length(crc, length, swapped);
  }
  if (size == 0) {
    *crc_out = 0;
    return NULL;
  }
  DP_RETURN_IF_ERROR(read_checksum(&at, end, swapped, &crc));
  if (total > (uint64_t)(end - at))
    return too_short();
  const uint8_t *lengths = bytes;
  for (int64_t i = 0; i < count; ++i) {
    lengths = dp_get_varint(lengths, end, &length);
    DP_RETURN_IF_ERROR(dp_tstring_assign(&dp_tensor_strings(tensor)[i], at, (size_t)length));
    crc = dp_crc32c_extend(crc, at, (size_t)length);
    at += length;
  }
  *crc_out = crc;
  return NULL;
}

/* Makes a TensorProto whose only element is the stored message, and decodes it. */
static dp_status *decode_variant(const uint8_t *data, size_t length, dp_variant **variant_out) {
  static const uint8_t head[] = {0x08, DP_VARIANT, 0x12, 0x00, VARIANT_FIELD << 3 | 2};
  dp_text message = {0};
  uint8_t varint[10];
  dp_text_append(&message, head, sizeof head);
  dp_text_append(&message, varint, dp_put_varint(varint, length));
  dp_text_append(&message, data, length);
  dp_tensor scalar;
  dp_status *status = dp_wire_decode_tensor_bytes(message.data, message.length, &scalar);
  dp_text_deinit(&message);
  DP_RETURN_IF_ERROR(status);
  dp_variant *variant = dp_tensor_variants(&scalar)[0];
  *variant_out = variant ? dp_variant_retain(variant) : NULL;
  dp_tensor_deinit(&scalar);
  return NULL;
}

static dp_status *decode_variants(const uint8_t *bytes, size_t size, bool swapped,
                                  dp_tensor *tensor, uint32_t *crc_out) {
  if (swapped)
    return dp_status_create(DP_UNIMPLEMENTED,
                            "variants of a checkpoint of the other byte order cannot be read");
  const uint8_t *at = bytes, *end = bytes + size;
  uint32_t crc = 0;
  for (int64_t i = 0; i < dp_tensor_elements(tensor); ++i) {
    uint64_t length;
    if (!(at = dp_get_varint(at, end, &length)) || length > (uint64_t)(end - at))
      return too_short();
    crc = dp_crc32c_extend(crc, &length, sizeof length);
    crc = dp_crc32c_extend(crc, at, (size_t)length);
    DP_RETURN_IF_ERROR(decode_variant(at, (size_t)length, &dp_tensor_variants(tensor)[i]));
    at += length;
    DP_RETURN_IF_ERROR(read_checksum(&at, end, false, &crc));
  }
  *crc_out = crc;
  return NULL;
}

dp_status *dp_bundle_decode_objects(const uint8_t *bytes, size_t length, bool swapped,
                                    dp_tensor *tensor, uint32_t *crc_out) {
  return tensor->dtype == DP_VARIANT ? decode_variants(bytes, length, swapped, tensor, crc_out)
                                     : decode_strings(bytes, length, swapped, tensor, crc_out);
}
