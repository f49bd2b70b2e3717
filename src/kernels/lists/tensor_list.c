/* Tensor lists as values (tensor_list_internal.h): creating, copying, zeros and sums, and encoding
 * for the wire, which is TensorFlow's. Items are reference-counted, so that lists can share
 * them. */
#include "kernels/lists/tensor_list_internal.h"

#include <string.h>
#include "kernels/shared/variant_math.h"
#include "wire/control.h"
#include "wire/shape_message.h"

/* More elements are taken for a mistake of the graph. */
#define MAX_SIZE ((int64_t)1 << 27)

/* ---- Life ---- */
static void release_item(dp_list_item *item) {
  if (item && dp_refcount_release(&item->references)) {
    dp_tensor_deinit(&item->tensor);
    dp_free(item);
  }
}

static dp_list_item *make_item(dp_tensor *tensor) {
  dp_list_item *item = dp_malloc(sizeof(dp_list_item));
  dp_refcount_init(&item->references);
  item->tensor = dp_tensor_take(tensor);
  return item;
}

dp_list *dp_list_create(dp_dtype dtype, const dp_partial_shape *element_shape) {
  dp_list *list = DP_NEW(dp_list);
  list->dtype = dtype;
  list->element_shape = *element_shape;
  list->limit = -1;
  return list;
}

static void append_shared(dp_list *list, dp_list_item *item) {
  if (item)
    dp_refcount_retain(&item->references);
  DP_ARRAY_PUSH(&list->items, item);
}

dp_list *dp_list_copy(const dp_list *list) {
  dp_list *copy = dp_list_create(list->dtype, &list->element_shape);
  copy->limit = list->limit;
  DP_ARRAY_RESERVE(&copy->items, list->items.count + 1);
  for (size_t i = 0; i < list->items.count; ++i)
    append_shared(copy, list->items.items[i]);
  return copy;
}

void dp_list_destroy(dp_list *list) {
  for (size_t i = 0; i < list->items.count; ++i)
    release_item(list->items.items[i]);
  DP_ARRAY_FREE(&list->items);
  dp_free(list);
}

void dp_list_push(dp_list *list, dp_tensor *tensor) {
  DP_ARRAY_PUSH(&list->items, make_item(tensor));
}

void dp_list_set(dp_list *list, int64_t index, dp_tensor *tensor) {
  release_item(list->items.items[index]);
  list->items.items[index] = make_item(tensor);
}

dp_status *dp_list_resize(dp_list *list, int64_t size) {
  if (size > MAX_SIZE)
    return dp_status_create(DP_RESOURCE_EXHAUSTED, "no memory for a TensorList of %lld elements",
                            (long long)size);
  while (dp_list_size(list) > size)
    release_item(list->items.items[--list->items.count]);
  DP_ARRAY_RESERVE(&list->items, (size_t)size + 1);
  memset(list->items.items + list->items.count, 0,
         sizeof(dp_list_item *) * ((size_t)size - list->items.count));
  list->items.count = (size_t)size;
  return NULL;
}

/* ---- Zeros and sums ---- */
static dp_status *list_zeros(const void *object, void **object_out) {
  const dp_list *list = object;
  dp_list *zeros = dp_list_create(list->dtype, &list->element_shape);
  for (int64_t i = 0; i < dp_list_size(list); ++i) {
    const dp_tensor *tensor = dp_list_at(list, i);
    if (!tensor) {
      DP_ARRAY_PUSH(&zeros->items, NULL);
      continue;
    }
    dp_tensor zero;
    dp_status *status = dp_tensor_zeros_like(tensor, &zero);
    if (status) {
      dp_list_destroy(zeros);
      return status;
    }
    dp_list_push(zeros, &zero);
  }
  *object_out = zeros;
  return NULL;
}

static dp_status *check_addable(const dp_list *a, const dp_list *b, dp_partial_shape *shape_out) {
  if (a->dtype != b->dtype)
    return DP_INVALID("Trying to add two lists of tensors of different dtypes. One is %s and the "
                      "other is %s",
                      dp_dtype_name(a->dtype), dp_dtype_name(b->dtype));
  if (!dp_partial_shape_merge(&a->element_shape, &b->element_shape, shape_out))
    return DP_INVALID("Trying to add two lists of tensors with incompatible element shapes. One "
                      "is %s and the other is %s",
                      dp_partial_shape_text(&a->element_shape),
                      dp_partial_shape_text(&b->element_shape));
  if (a->items.count != b->items.count)
    return DP_INVALID("Trying to add two lists of tensors with different lengths. One is %zu and "
                      "the other is %zu",
                      a->items.count, b->items.count);
  return NULL;
}

static dp_status *list_add(const void *left, const void *right, void **object_out) {
  const dp_list *a = left, *b = right;
  dp_partial_shape shape;
  DP_RETURN_IF_ERROR(check_addable(a, b, &shape));
  dp_list *sum = dp_list_create(a->dtype, &shape);
  for (int64_t i = 0; i < dp_list_size(a); ++i) {
    if (!dp_list_at(a, i) && !dp_list_at(b, i)) {
      DP_ARRAY_PUSH(&sum->items, NULL);
      continue;
    }
    dp_tensor tensor;
    dp_status *status = dp_tensor_add_or_copy(dp_list_at(a, i), dp_list_at(b, i), &tensor);
    if (status) {
      dp_list_destroy(sum);
      return status;
    }
    dp_list_push(sum, &tensor);
  }
  *object_out = sum;
  return NULL;
}

/* ---- On the wire ----
 * Metadata, as varints: the number of unset elements, their indices, the dtype, the limit; then
 * the element shape as a message. The set elements are the tensors. */
static bool take_varint(dp_view *view, uint64_t *value_out) {
  uint64_t value = 0;
  for (unsigned shift = 0; shift < 64 && view->length > 0; shift += 7) {
    uint8_t byte = (uint8_t)view->data[0];
    ++view->data;
    --view->length;
    value |= (uint64_t)(byte & 127) << shift;
    if (byte < 128) {
      *value_out = value;
      return true;
    }
  }
  return false;
}

static dp_status *list_encode(const void *object, dp_text *metadata, dp_tensor **tensors_out,
                              size_t *tensor_count_out) {
  const dp_list *list = object;
  size_t count = 0;
  dp_tensor *tensors = DP_NEW_ARRAY(dp_tensor, list->items.count + 1);
  for (int64_t i = 0; i < dp_list_size(list); ++i)
    if (dp_list_at(list, i))
      tensors[count++] = dp_tensor_copy(dp_list_at(list, i));
  dp_text_add_varint(metadata, list->items.count - count);
  for (int64_t i = 0; i < dp_list_size(list); ++i)
    if (!dp_list_at(list, i))
      dp_text_add_varint(metadata, (uint64_t)i);
  dp_text_add_varint(metadata, list->dtype);
  dp_text_add_varint(metadata, (uint64_t)list->limit);
  dp_arena *arena = dp_arena_create();
  uint8_t *shape;
  size_t length;
  dp_status *status = dp_wire_pack_bytes(dp_wire_partial_shape_message(&list->element_shape, arena),
                                         arena, &shape, &length);
  if (!status)
    dp_text_append(metadata, shape, length);
  dp_arena_destroy(arena);
  if (status) {
    dp_pieces_destroy(tensors, (int64_t)count);
    return status;
  }
  *tensors_out = tensors;
  *tensor_count_out = count;
  return NULL;
}

static dp_status *decode_shape(dp_view bytes, dp_partial_shape *shape_out) {
  dp_arena *arena = dp_arena_create();
  Tensorflow__TensorShapeProto *message;
  dp_status *status = dp_wire_unpack_bytes(&tensorflow__tensor_shape_proto__descriptor, bytes.data,
                                           bytes.length, arena, &message);
  if (!status)
    status = dp_wire_partial_shape(message, shape_out);
  dp_arena_destroy(arena);
  return status;
}

/* The unset indices come first in the metadata, in increasing order. */
static dp_status *decode_items(dp_list *list, dp_view *metadata, const dp_tensor *tensors,
                               size_t count) {
  uint64_t unset, index;
  if (!take_varint(metadata, &unset) || unset > metadata->length)
    return DP_INVALID("a TensorList's metadata is truncated");
  for (uint64_t i = 0; i < unset; ++i) {
    if (!take_varint(metadata, &index) || index < list->items.count ||
        index - list->items.count > count)
      return DP_INVALID("a TensorList's metadata is corrupted");
    for (; list->items.count < index; ++tensors, --count) {
      dp_tensor tensor = dp_tensor_copy(tensors);
      dp_list_push(list, &tensor);
    }
    DP_ARRAY_PUSH(&list->items, NULL);
  }
  for (; count > 0; ++tensors, --count) {
    dp_tensor tensor = dp_tensor_copy(tensors);
    dp_list_push(list, &tensor);
  }
  return NULL;
}

static dp_status *decode_into(dp_list *list, dp_view metadata, const dp_tensor *tensors,
                              size_t count) {
  uint64_t dtype, limit;
  DP_RETURN_IF_ERROR(decode_items(list, &metadata, tensors, count));
  if (!take_varint(&metadata, &dtype) || !take_varint(&metadata, &limit) || dtype > INT32_MAX ||
      !dp_dtype_is_valid((int)dtype))
    return DP_INVALID("a TensorList's metadata has no valid dtype");
  list->dtype = (dp_dtype)dtype;
  list->limit = (int32_t)limit;
  for (int64_t i = 0; i < dp_list_size(list); ++i)
    if (dp_list_at(list, i) && dp_list_at(list, i)->dtype != list->dtype)
      return DP_INVALID("a TensorList of %s holds a tensor of %s", dp_dtype_name(list->dtype),
                        dp_dtype_name(dp_list_at(list, i)->dtype));
  return decode_shape(metadata, &list->element_shape);
}

static dp_status *list_decode(dp_view metadata, const dp_tensor *tensors, size_t count,
                              void **object_out) {
  dp_partial_shape unknown = dp_partial_shape_unknown();
  dp_list *list = dp_list_create(DP_INVALID_DTYPE, &unknown);
  dp_status *status = decode_into(list, metadata, tensors, count);
  if (status)
    dp_list_destroy(list);
  else
    *object_out = list;
  return status;
}

static void destroy_object(void *object) {
  dp_list_destroy(object);
}

const dp_variant_ops dp_list_ops = {.type_name = "tensorflow::TensorList",
                                    .destroy = destroy_object,
                                    .encode = list_encode,
                                    .decode = list_decode,
                                    .zeros_like = list_zeros,
                                    .add = list_add};

/* ---- In kernels ---- */
const dp_list *dp_list_of_element(const dp_tensor *tensor, int64_t index) {
  const dp_variant *variant =
      tensor->dtype == DP_VARIANT ? dp_tensor_variants(tensor)[index] : NULL;
  return variant && variant->ops == &dp_list_ops ? variant->object : NULL;
}

dp_status *dp_list_input(const dp_op_context *context, int32_t slot, const dp_list **list_out) {
  const dp_tensor *tensor = dp_op_input(context, slot);
  if (tensor->shape.rank != 0)
    return DP_INVALID("Input list must be a scalar saw: %s", dp_shape_text(&tensor->shape));
  const dp_list *list = dp_list_of_element(tensor, 0);
  if (!list) {
    const dp_variant *variant = dp_tensor_variants(tensor)[0];
    return DP_INVALID("Input handle is not a list. Saw: '%s'",
                      variant ? variant->ops->type_name : "<unset>");
  }
  *list_out = list;
  return NULL;
}

dp_status *dp_list_input_of(const dp_op_context *context, int32_t slot, dp_dtype dtype,
                            const dp_list **list_out) {
  DP_RETURN_IF_ERROR(dp_list_input(context, slot, list_out));
  if ((*list_out)->dtype != dtype)
    return DP_INVALID("Invalid data types; op elements %s but list elements %s",
                      dp_dtype_name(dtype), dp_dtype_name((*list_out)->dtype));
  return NULL;
}

dp_status *dp_list_output(dp_op_context *context, dp_list *list) {
  dp_shape scalar = dp_shape_scalar();
  dp_tensor *output;
  dp_status *status = dp_op_allocate(context, 0, &scalar, &output);
  if (status)
    dp_list_destroy(list);
  else
    dp_tensor_variants(output)[0] = dp_variant_create(&dp_list_ops, list);
  return status;
}

dp_status *dp_list_forward(dp_op_context *context, dp_list **list_out) {
  dp_tensor *input = &context->inputs[0].tensor;
  const dp_list *list;
  DP_RETURN_IF_ERROR(dp_list_input(context, 0, &list));
  dp_variant *variant = dp_tensor_variants(input)[0];
  if (dp_tensor_is_unique(input) && dp_refcount_is_one(&variant->references)) {
    *list_out = variant->object;
    dp_op_set_output(context, 0, input);
    return NULL;
  }
  dp_list *copy = dp_list_copy(list);
  DP_RETURN_IF_ERROR(dp_list_output(context, copy));
  *list_out = copy;
  return NULL;
}

dp_status *dp_list_read_shape(const dp_tensor *tensor, dp_partial_shape *shape_out) {
  if (tensor->shape.rank == 0) {
    if (dp_tensor_int_at(tensor, 0) != -1)
      return DP_INVALID("The only valid scalar shape tensor is the fully unknown shape specified "
                        "as -1.");
    *shape_out = dp_partial_shape_unknown();
    return NULL;
  }
  if (tensor->shape.rank != 1)
    return DP_INVALID("Shape must be at most rank 1 but is rank %d", tensor->shape.rank);
  int64_t dims[DP_MAX_RANK], count;
  DP_RETURN_IF_ERROR(dp_kernel_read_ints(tensor, "element_shape", DP_MAX_RANK, dims, &count));
  return dp_partial_shape_make(count, dims, shape_out);
}

dp_status *dp_list_element_shape(const dp_op_context *context, const dp_list *list, int32_t slot,
                                 dp_partial_shape *shape_out) {
  dp_partial_shape given;
  DP_RETURN_IF_ERROR(dp_list_read_shape(dp_op_input(context, slot), &given));
  return dp_pieces_merge_shapes(&given, &list->element_shape, shape_out);
}
