/* Tensor to TensorProto.
 *
 * The length of a TensorProto inside a message comes before its bytes. For plain dtypes and strings
 * the length is computed. Handles and variants are first written to a separate rope, which is then
 * moved behind the length. Large contents are never copied: the rope retains the tensor's buffer.
 * No state, any thread. */
#include "wire/tensor_internal.h"

#include <string.h>
#include "wire/control.h"
#include "wire/shape_message.h"

/* dtype, then at most 2 + 1 + 10 bytes per dimension. */
#define MAX_HEAD (16 + DP_MAX_RANK * 14)

typedef struct plan {
  uint8_t head[MAX_HEAD]; /* dtype and shape */
  size_t head_length;
  size_t body_length; /* tensor_content or *_val fields */
  dp_rope body;       /* of handles and variants only */
} plan;

/* What is written around the TensorProto: nothing, the tag and length of a field, or a
 * NamedTensorProto (with or without tag and length). */
typedef struct place {
  uint32_t field; /* 0: none */
  bool is_named;
  dp_view name;
  bool as_content; /* handles and variants as tensor_content */
} place;

static dp_status *encode_at(const dp_tensor *tensor, int depth, const place *place, dp_rope *rope);

static size_t bytes_field_size(uint32_t number, size_t length) {
  return dp_wire_varint_size((uint64_t)number << 3) + dp_wire_varint_size(length) + length;
}

static void plan_head(const dp_tensor *tensor, plan *plan) {
  size_t sizes[DP_MAX_RANK], shape_length = 0;
  for (int i = 0; i < tensor->shape.rank; i++) {
    /* protobuf leaves a size of 0 out. */
    uint64_t size = (uint64_t)tensor->shape.dims[i];
    sizes[i] = size ? 1 + dp_wire_varint_size(size) : 0;
    shape_length += 2 + sizes[i];
  }
  uint8_t *to = dp_wire_put_tag(plan->head, TENSOR_DTYPE, DP_WIRE_VARINT);
  to = dp_wire_put_varint(to, tensor->dtype);
  to = dp_wire_put_tag(to, TENSOR_SHAPE, DP_WIRE_BYTES);
  to = dp_wire_put_varint(to, shape_length);
  for (int i = 0; i < tensor->shape.rank; i++) {
    to = dp_wire_put_tag(to, 2, DP_WIRE_BYTES);
    to = dp_wire_put_varint(to, sizes[i]);
    if (sizes[i]) {
      to = dp_wire_put_tag(to, 1, DP_WIRE_VARINT);
      to = dp_wire_put_varint(to, (uint64_t)tensor->shape.dims[i]);
    }
  }
  plan->head_length = (size_t)(to - plan->head);
}

/* ---- Plain values and strings -----------------------------------------------------------------*/

static dp_status *append_shared(const dp_tensor *tensor, const void *data, size_t length,
                                dp_rope *rope) {
  if (length < DP_WIRE_REFERENCE_BYTES)
    return dp_rope_append(rope, data, length);
  dp_rope_append_piece(rope, dp_buffer_retain(tensor->buffer), data, length);
  return NULL;
}

static size_t strings_length(const dp_tensor *tensor) {
  size_t length = 0;
  for (int64_t i = 0; i < tensor->shape.elements; i++)
    length += bytes_field_size(TENSOR_STRING, dp_tstring_size(&dp_tensor_strings(tensor)[i]));
  return length;
}

static dp_status *write_strings(const dp_tensor *tensor, dp_rope *rope) {
  for (int64_t i = 0; i < tensor->shape.elements; i++) {
    dp_view view = dp_tstring_view(&dp_tensor_strings(tensor)[i]);
    DP_RETURN_IF_ERROR(dp_wire_write_bytes_head(rope, TENSOR_STRING, view.length));
    DP_RETURN_IF_ERROR(append_shared(tensor, view.data, view.length, rope));
  }
  return NULL;
}

/* ---- Handles ----------------------------------------------------------------------------------*/

static Tensorflow__ResourceHandleProto *handle_message(const dp_resource_handle *handle,
                                                       dp_arena *arena) {
  Tensorflow__ResourceHandleProto *message =
      dp_wire_new(arena, &tensorflow__resource_handle_proto__descriptor);
  if (!handle)
    return message;
  message->device = handle->device;
  message->container = handle->container;
  message->name = handle->name;
  message->hash_code = handle->type_hash;
  message->maybe_type_name = handle->type_name;
  size_t count = (size_t)handle->component_count;
  message->n_dtypes_and_shapes = count;
  message->dtypes_and_shapes =
      DP_ARENA_ARRAY(arena, Tensorflow__ResourceHandleProto__DtypeAndShape *, count);
  for (size_t i = 0; i < count; i++) {
    Tensorflow__ResourceHandleProto__DtypeAndShape *component =
        dp_wire_new(arena, &tensorflow__resource_handle_proto__dtype_and_shape__descriptor);
    component->dtype = (Tensorflow__DataType)handle->dtypes[i];
    component->shape = dp_wire_partial_shape_message(&handle->shapes[i], arena);
    message->dtypes_and_shapes[i] = component;
  }
  return message;
}

dp_status *dp_wire_encode_handle(const dp_resource_handle *handle, dp_rope *rope) {
  dp_arena *arena = dp_arena_create();
  dp_status *status = dp_wire_pack(handle_message(handle, arena), rope);
  dp_arena_destroy(arena);
  return status;
}

static dp_status *write_handles(const dp_tensor *tensor, dp_rope *rope) {
  dp_arena *arena = dp_arena_create();
  dp_status *status = NULL;
  for (int64_t i = 0; i < tensor->shape.elements && !status; i++) {
    const Tensorflow__ResourceHandleProto *message =
        handle_message(dp_tensor_handles(tensor)[i], arena);
    status = dp_wire_write_bytes_head(rope, TENSOR_RESOURCE, dp_wire_packed_size(message));
    if (!status)
      status = dp_wire_pack(message, rope);
    dp_arena_reset(arena);
  }
  dp_arena_destroy(arena);
  return status;
}

/* ---- Variants ---------------------------------------------------------------------------------*/

/* VariantTensorDataProto. */
static dp_status *write_variant_parts(const dp_variant *variant, int depth, const dp_text *metadata,
                                      const dp_tensor *tensors, size_t tensor_count,
                                      dp_rope *rope) {
  static const place inside = {.field = 3};
  const char *type_name = variant->ops->type_name;
  DP_RETURN_IF_ERROR(dp_wire_write_bytes_field(rope, 1, type_name, strlen(type_name)));
  if (metadata->length > 0)
    DP_RETURN_IF_ERROR(dp_wire_write_bytes_field(rope, 2, metadata->data, metadata->length));
  for (size_t i = 0; i < tensor_count; i++)
    DP_RETURN_IF_ERROR(encode_at(&tensors[i], depth + 1, &inside, rope));
  return NULL;
}

static dp_status *write_variant(const dp_variant *variant, int depth, dp_rope *rope) {
  if (!variant)
    return NULL;
  if (!variant->ops->encode)
    return DP_INVALID("Variants of type \"%s\" cannot be sent to another task",
                      variant->ops->type_name);
  dp_text metadata = {0};
  dp_tensor *tensors = NULL;
  size_t tensor_count = 0;
  dp_status *status = variant->ops->encode(variant->object, &metadata, &tensors, &tensor_count);
  if (!status) {
    status = write_variant_parts(variant, depth, &metadata, tensors, tensor_count, rope);
    for (size_t i = 0; i < tensor_count; i++)
      dp_tensor_deinit(&tensors[i]);
    dp_free(tensors);
  }
  dp_text_deinit(&metadata);
  return status;
}

static dp_status *write_variants(const dp_tensor *tensor, int depth, dp_rope *rope) {
  if (depth >= DP_WIRE_MAX_TENSOR_DEPTH)
    return DP_INVALID("Tensors inside variants are nested more than %d deep",
                      DP_WIRE_MAX_TENSOR_DEPTH);
  for (int64_t i = 0; i < tensor->shape.elements; i++) {
    dp_rope parts = {0};
    dp_status *status = write_variant(dp_tensor_variants(tensor)[i], depth, &parts);
    if (!status)
      status = dp_wire_write_bytes_head(rope, TENSOR_VARIANT, parts.length);
    if (!status)
      dp_rope_append_rope(rope, &parts);
    dp_rope_deinit(&parts);
    DP_RETURN_IF_ERROR(status);
  }
  return NULL;
}

/* ---- Objects as contents ----------------------------------------------------------------------*/

/* Of a variant that cannot be sent only the name of its type is written. */
static dp_status *write_object(const dp_tensor *tensor, int64_t index, dp_rope *rope) {
  if (tensor->dtype == DP_RESOURCE)
    return dp_wire_encode_handle(dp_tensor_handles(tensor)[index], rope);
  const dp_variant *variant = dp_tensor_variants(tensor)[index];
  if (variant && !variant->ops->encode)
    return dp_wire_write_bytes_field(rope, 1, variant->ops->type_name,
                                     strlen(variant->ops->type_name));
  return write_variant(variant, 0, rope);
}

static dp_status *append_varint(dp_rope *rope, uint64_t value) {
  uint8_t bytes[10];
  return dp_rope_append(rope, bytes, (size_t)(dp_wire_put_varint(bytes, value) - bytes));
}

/* All lengths, then all objects, in one tensor_content. */
static dp_status *write_objects(const dp_tensor *tensor, dp_rope *rope) {
  dp_rope lengths = {0}, objects = {0};
  dp_status *status = NULL;
  for (int64_t i = 0; i < tensor->shape.elements && !status; i++) {
    dp_rope object = {0};
    status = write_object(tensor, i, &object);
    if (!status)
      status = append_varint(&lengths, object.length);
    dp_rope_append_rope(&objects, &object);
    dp_rope_deinit(&object);
  }
  if (!status && lengths.length > 0)
    status = dp_wire_write_bytes_head(rope, TENSOR_CONTENT, lengths.length + objects.length);
  dp_rope_append_rope(rope, &lengths);
  dp_rope_append_rope(rope, &objects);
  dp_rope_deinit(&lengths);
  dp_rope_deinit(&objects);
  return status;
}

/* ---- The whole --------------------------------------------------------------------------------*/

static dp_status *plan_objects(const dp_tensor *tensor, int depth, bool as_content, plan *plan) {
  if (as_content)
    DP_RETURN_IF_ERROR(write_objects(tensor, &plan->body));
  else if (tensor->dtype == DP_RESOURCE)
    DP_RETURN_IF_ERROR(write_handles(tensor, &plan->body));
  else
    DP_RETURN_IF_ERROR(write_variants(tensor, depth, &plan->body));
  plan->body_length = plan->body.length;
  return NULL;
}

static dp_status *plan_body(const dp_tensor *tensor, int depth, bool as_content, plan *plan) {
  if (!tensor->data) /* not initialized */
    return NULL;
  switch (tensor->dtype) {
  case DP_STRING:
    plan->body_length = strings_length(tensor);
    return NULL;
  case DP_RESOURCE:
  case DP_VARIANT:
    return plan_objects(tensor, depth, as_content, plan);
  default: {
    size_t bytes = dp_tensor_bytes(tensor);
    plan->body_length = bytes ? bytes_field_size(TENSOR_CONTENT, bytes) : 0;
    return NULL;
  }
  }
}

static dp_status *write_body(const dp_tensor *tensor, plan *plan, dp_rope *rope) {
  if (plan->body_length == 0)
    return NULL;
  if (tensor->dtype == DP_STRING)
    return write_strings(tensor, rope);
  if (!dp_dtype_is_plain(tensor->dtype)) {
    dp_rope_append_rope(rope, &plan->body);
    return NULL;
  }
  size_t bytes = dp_tensor_bytes(tensor);
  DP_RETURN_IF_ERROR(dp_wire_write_bytes_head(rope, TENSOR_CONTENT, bytes));
  return append_shared(tensor, tensor->data, bytes, rope);
}

static dp_status *write_place(const place *place, size_t length, dp_rope *rope) {
  if (place->is_named) {
    size_t name = place->name.length ? bytes_field_size(1, place->name.length) : 0;
    if (place->field > 0)
      DP_RETURN_IF_ERROR(
          dp_wire_write_bytes_head(rope, place->field, name + bytes_field_size(2, length)));
    if (name)
      DP_RETURN_IF_ERROR(dp_wire_write_bytes_field(rope, 1, place->name.data, place->name.length));
    return dp_wire_write_bytes_head(rope, 2, length);
  }
  return place->field > 0 ? dp_wire_write_bytes_head(rope, place->field, length) : NULL;
}

static dp_status *write_planned(const dp_tensor *tensor, plan *plan, const place *place,
                                dp_rope *rope) {
  DP_RETURN_IF_ERROR(write_place(place, plan->head_length + plan->body_length, rope));
  DP_RETURN_IF_ERROR(dp_rope_append(rope, plan->head, plan->head_length));
  return write_body(tensor, plan, rope);
}

static dp_status *encode_at(const dp_tensor *tensor, int depth, const place *place, dp_rope *rope) {
  dp_tensor nothing = {.dtype = DP_FLOAT, .shape = dp_shape_vector(0)};
  if (!dp_tensor_is_set(tensor))
    tensor = &nothing;
  plan plan = {.head_length = 0};
  plan_head(tensor, &plan);
  dp_status *status = plan_body(tensor, depth, place->as_content, &plan);
  if (!status)
    status = write_planned(tensor, &plan, place, rope);
  dp_rope_deinit(&plan.body);
  return status;
}

dp_status *dp_wire_encode_tensor(const dp_tensor *tensor, dp_rope *rope) {
  return encode_at(tensor, 0, &(place){.field = 0}, rope);
}

dp_status *dp_wire_encode_tensor_field(uint32_t number, const dp_tensor *tensor, dp_rope *rope) {
  return encode_at(tensor, 0, &(place){.field = number}, rope);
}

dp_status *dp_wire_encode_tensor_content_field(uint32_t number, const dp_tensor *tensor,
                                               dp_rope *rope) {
  return encode_at(tensor, 0, &(place){.field = number, .as_content = true}, rope);
}

dp_status *dp_wire_encode_named_tensor(uint32_t number, dp_view name, const dp_tensor *tensor,
                                       dp_rope *rope) {
  return encode_at(tensor, 0, &(place){number, true, name}, rope);
}
