/* Strings, resource handles and variants of a TensorProto.
 *
 * TensorFlow writes them in two ways and reads both: as string_val, resource_handle_val and
 * variant_val, or as a list in tensor_content: the lengths of all elements as varints, then the
 * bytes of all elements. When there are too few strings, the last one is repeated; missing handles
 * and variants stay NULL. No state, any thread. */
#include "wire/tensor_internal.h"

#include <string.h>
#include "wire/control.h"
#include "wire/shape_message.h"

typedef dp_status *(*element_fn)(const dp_tensor_scan *scan, dp_rope_reader *bytes,
                                 dp_tensor *tensor, size_t index);

/* Calls `fill` for each element in tensor_content. It is an error when bytes are left over. */
static dp_status *fill_from_list(const dp_tensor_scan *scan, dp_tensor *tensor, element_fn fill) {
  size_t count = (size_t)tensor->shape.elements;
  dp_rope_reader lengths = scan->content, bytes = scan->content;
  uint64_t length, total = 0;
  for (size_t i = 0; i < count; i++) {
    if (!dp_wire_read_varint(&bytes, &length) || length > UINT32_MAX)
      return DP_INVALID("tensor_content has no length for element %zu of %zu", i, count);
    total += length;
  }
  if (total != bytes.remaining)
    return DP_INVALID("the elements in tensor_content should take %llu bytes, but there are %zu",
                      (unsigned long long)total, bytes.remaining);
  for (size_t i = 0; i < count; i++) {
    dp_rope_reader element;
    if (!dp_wire_read_varint(&lengths, &length) || !dp_rope_sub_reader(&bytes, length, &element))
      return DP_INVALID("tensor_content is truncated");
    DP_RETURN_IF_ERROR(fill(scan, &element, tensor, i));
  }
  return NULL;
}

/* Calls `fill` for each *_val field, until the tensor's elements are used up. */
static dp_status *fill_from_fields(const dp_tensor_scan *scan, dp_tensor *tensor, element_fn fill,
                                   size_t *filled_out) {
  uint32_t number = dp_wire_value_field(tensor->dtype);
  size_t count = (size_t)tensor->shape.elements, filled = 0;
  dp_rope_reader all = scan->all;
  dp_wire_field field;
  bool more;
  while (filled < count) {
    DP_RETURN_IF_ERROR(dp_wire_next_field(&all, &field, &more));
    if (!more)
      break;
    if (field.number == number && field.type == DP_WIRE_BYTES)
      DP_RETURN_IF_ERROR(fill(scan, &field.bytes, tensor, filled++));
  }
  *filled_out = filled;
  return NULL;
}

/* ---- Strings ----------------------------------------------------------------------------------*/

static dp_status *fill_string(const dp_tensor_scan *scan, dp_rope_reader *bytes, dp_tensor *tensor,
                              size_t index) {
  dp_tstring *string = &dp_tensor_strings(tensor)[index];
  const uint8_t *data;
  size_t length = bytes->remaining;
  if (dp_rope_peek(bytes, &data) == length)
    return dp_tstring_assign(string, data, length);
  char *to = NULL;
  DP_RETURN_IF_ERROR(dp_tstring_resize(string, length, &to));
  dp_rope_copy_out(bytes, to, length);
  return NULL;
}

dp_status *dp_wire_fill_strings(const dp_tensor_scan *scan, dp_tensor *tensor) {
  if (scan->content.remaining > 0)
    return fill_from_list(scan, tensor, fill_string);
  size_t filled = 0, count = (size_t)tensor->shape.elements, total;
  DP_RETURN_IF_ERROR(fill_from_fields(scan, tensor, fill_string, &filled));
  if (filled == 0 || filled == count)
    return NULL;
  dp_tstring *strings = dp_tensor_strings(tensor);
  dp_view last = dp_tstring_view(&strings[filled - 1]);
  if (!dp_multiply_size(count - filled, last.length, &total) || total > DP_WIRE_MAX_EXPANSION)
    return dp_status_create(DP_RESOURCE_EXHAUSTED,
                            "a string of %zu bytes cannot be repeated %zu times", last.length,
                            count - filled);
  for (size_t i = filled; i < count; i++)
    DP_RETURN_IF_ERROR(dp_tstring_assign(&strings[i], last.data, last.length));
  return NULL;
}

/* ---- Resource handles -------------------------------------------------------------------------*/

static dp_status *set_components(const Tensorflow__ResourceHandleProto *message,
                                 dp_resource_handle *handle) {
  size_t count = message->n_dtypes_and_shapes;
  if (count == 0)
    return NULL;
  handle->dtypes = DP_NEW_ARRAY(dp_dtype, count);
  handle->shapes = DP_NEW_ARRAY(dp_partial_shape, count);
  for (size_t i = 0; i < count; i++) {
    const Tensorflow__ResourceHandleProto__DtypeAndShape *component = message->dtypes_and_shapes[i];
    handle->dtypes[i] = (dp_dtype)component->dtype;
    /* An absent shape means a scalar, like an empty message. */
    if (component->shape)
      DP_RETURN_IF_ERROR(dp_wire_partial_shape(component->shape, &handle->shapes[i]));
  }
  handle->component_count = (int32_t)count;
  return NULL;
}

dp_status *dp_wire_decode_handle(dp_rope_reader *reader, dp_resource_handle **handle_out) {
  dp_arena *arena = dp_arena_create();
  Tensorflow__ResourceHandleProto *message = NULL;
  dp_resource_handle *handle = NULL;
  dp_status *status;
  DP_GOTO_IF_ERROR(
      status, done,
      dp_wire_unpack_part(&tensorflow__resource_handle_proto__descriptor, reader, arena, &message));
  handle = dp_resource_handle_create(message->device, message->container, message->name,
                                     message->hash_code, message->maybe_type_name);
  status = set_components(message, handle);
done:
  dp_arena_destroy(arena);
  if (status)
    dp_resource_handle_release(handle);
  else
    *handle_out = handle;
  return status;
}

static dp_status *fill_handle(const dp_tensor_scan *scan, dp_rope_reader *bytes, dp_tensor *tensor,
                              size_t index) {
  return dp_wire_decode_handle(bytes, &dp_tensor_handles(tensor)[index]);
}

dp_status *dp_wire_fill_handles(const dp_tensor_scan *scan, dp_tensor *tensor) {
  size_t filled;
  if (scan->content.remaining > 0)
    return fill_from_list(scan, tensor, fill_handle);
  return fill_from_fields(scan, tensor, fill_handle, &filled);
}

/* ---- Variants ---------------------------------------------------------------------------------*/

typedef struct variant_parts {
  dp_text type_name;
  dp_text metadata;
  DP_ARRAY(dp_tensor) tensors;
} variant_parts;

static void deinit_parts(variant_parts *parts) {
  dp_text_deinit(&parts->type_name);
  dp_text_deinit(&parts->metadata);
  for (size_t i = 0; i < parts->tensors.count; i++)
    dp_tensor_deinit(&parts->tensors.items[i]);
  DP_ARRAY_FREE(&parts->tensors);
}

static void set_text(dp_text *text, dp_rope_reader bytes) {
  dp_text_clear(text);
  const uint8_t *data;
  for (size_t here; (here = dp_rope_peek(&bytes, &data)) > 0 && dp_rope_skip(&bytes, here);)
    dp_text_append(text, data, here);
}

static dp_status *read_parts(dp_rope_reader *reader, int depth, variant_parts *parts) {
  dp_wire_field field;
  bool more;
  for (;;) {
    DP_RETURN_IF_ERROR(dp_wire_next_field(reader, &field, &more));
    if (!more)
      return NULL;
    if (field.type != DP_WIRE_BYTES)
      continue;
    if (field.number == 1)
      set_text(&parts->type_name, field.bytes);
    else if (field.number == 2)
      set_text(&parts->metadata, field.bytes);
    else if (field.number == 3) {
      dp_tensor tensor;
      DP_RETURN_IF_ERROR(dp_wire_decode_tensor_at(&field.bytes, depth + 1, &tensor));
      DP_ARRAY_PUSH(&parts->tensors, tensor);
    }
  }
}

static dp_status *build_variant(const variant_parts *parts, dp_variant **variant_out) {
  if (parts->type_name.length == 0) {
    if (parts->metadata.length > 0 || parts->tensors.count > 0)
      return DP_INVALID("a variant has contents but no type name");
    *variant_out = NULL;
    return NULL;
  }
  const dp_variant_ops *ops = dp_variant_find(dp_text_string(&parts->type_name));
  if (!ops || !ops->decode)
    return DP_INVALID("variants of type \"%s\" cannot be decoded here",
                      dp_text_string(&parts->type_name));
  void *object = NULL;
  dp_view metadata = {dp_text_string(&parts->metadata), parts->metadata.length};
  DP_RETURN_IF_ERROR(ops->decode(metadata, parts->tensors.items, parts->tensors.count, &object));
  *variant_out = dp_variant_create(ops, object);
  return NULL;
}

static dp_status *fill_variant(const dp_tensor_scan *scan, dp_rope_reader *bytes, dp_tensor *tensor,
                               size_t index) {
  variant_parts parts = {0};
  dp_status *status = read_parts(bytes, scan->depth, &parts);
  if (!status)
    status = build_variant(&parts, &dp_tensor_variants(tensor)[index]);
  deinit_parts(&parts);
  return status;
}

dp_status *dp_wire_fill_variants(const dp_tensor_scan *scan, dp_tensor *tensor) {
  size_t filled;
  if (scan->content.remaining > 0)
    return fill_from_list(scan, tensor, fill_variant);
  return fill_from_fields(scan, tensor, fill_variant, &filled);
}
