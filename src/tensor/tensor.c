/* Tensors over buffers: creating, slicing, cloning, and copying elements of every dtype.
 *
 * The buffer of a string, resource or variant tensor has a release function that ends its elements.
 * Slices and copies only count references to the buffer, so the last of them to go ends the
 * elements. A tensor is a plain value of its holder; only the buffer is shared between threads. */
#include "tensor/tensor.h"

#include <stdlib.h>
#include "base/log.h"
#include "base/memory.h"

_Static_assert(sizeof(dp_tstring) == 24, "the table of dtypes says so");

static void release_strings(void *arg, void *data, size_t size) {
  dp_tstring *strings = data;
  for (size_t i = 0; i < size / sizeof *strings; i++)
    if (dp_tstring_type_of(&strings[i]) == DP_TSTRING_LARGE)
      free(strings[i].large.data);
  dp_buffer_release(arg); /* the memory that views point into */
}

static void release_handles(void *arg, void *data, size_t size) {
  dp_resource_handle **handles = data;
  for (size_t i = 0; i < size / sizeof *handles; i++)
    dp_resource_handle_release(handles[i]);
}

static void release_variants(void *arg, void *data, size_t size) {
  dp_variant **variants = data;
  for (size_t i = 0; i < size / sizeof *variants; i++)
    dp_variant_release(variants[i]);
}

static dp_buffer_release_fn element_release(dp_dtype dtype) {
  switch (dtype) {
  case DP_STRING:
    return release_strings;
  case DP_RESOURCE:
    return release_handles;
  case DP_VARIANT:
    return release_variants;
  default:
    return NULL;
  }
}

static dp_status *byte_count(dp_dtype dtype, const dp_shape *shape, size_t *bytes_out) {
  if (!dp_dtype_is_valid((int)dtype))
    return DP_INVALID("A tensor cannot have the dtype number %d", (int)dtype);
  if (shape->elements < 0 ||
      !dp_multiply_size((size_t)shape->elements, dp_dtype_size(dtype), bytes_out))
    return DP_INVALID("A tensor of shape %s and type %s has more bytes than can be counted",
                      dp_shape_text(shape), dp_dtype_name(dtype));
  return NULL;
}

static void set_tensor(dp_tensor *tensor, dp_dtype dtype, const dp_shape *shape,
                       dp_buffer *buffer) {
  tensor->dtype = dtype;
  tensor->buffer = buffer;
  tensor->data = buffer->data;
  tensor->shape = *shape;
}

static dp_status *create_with(dp_dtype dtype, const dp_shape *shape, void *release_arg,
                              dp_tensor *tensor_out) {
  size_t bytes = 0;
  DP_RETURN_IF_ERROR(byte_count(dtype, shape, &bytes));
  dp_buffer *buffer;
  dp_buffer_release_fn release = element_release(dtype);
  dp_status *status = release ? dp_buffer_create_owning(bytes, release, release_arg, &buffer)
                              : dp_buffer_create(bytes, &buffer);
  if (status)
    return dp_status_append(status, " (tensor of shape %s and type %s)", dp_shape_text(shape),
                            dp_dtype_name(dtype));
  if (release)
    memset(buffer->data, 0, bytes);
  set_tensor(tensor_out, dtype, shape, buffer);
  return NULL;
}

dp_status *dp_tensor_create(dp_dtype dtype, const dp_shape *shape, dp_tensor *tensor_out) {
  return create_with(dtype, shape, NULL, tensor_out);
}

dp_status *dp_tensor_create_zero(dp_dtype dtype, const dp_shape *shape, dp_tensor *tensor_out) {
  DP_RETURN_IF_ERROR(create_with(dtype, shape, NULL, tensor_out));
  memset(tensor_out->data, 0, dp_tensor_bytes(tensor_out));
  return NULL;
}

dp_status *dp_tensor_create_strings(const dp_shape *shape, dp_buffer *backing,
                                    dp_tensor *tensor_out) {
  dp_status *status = create_with(DP_STRING, shape, backing, tensor_out);
  if (status)
    dp_buffer_release(backing);
  return status;
}

dp_tensor dp_tensor_from_buffer(dp_dtype dtype, const dp_shape *shape, dp_buffer *buffer,
                                size_t offset) {
  dp_tensor tensor;
  set_tensor(&tensor, dtype, shape, buffer);
  if (offset)
    tensor.data = (char *)buffer->data + offset;
  return tensor;
}

dp_tensor dp_tensor_reshaped(const dp_tensor *tensor, const dp_shape *shape) {
  dp_tensor result = dp_tensor_copy(tensor);
  result.shape = *shape;
  return result;
}

dp_tensor dp_tensor_slice(const dp_tensor *tensor, int64_t begin, int64_t end) {
  dp_tensor result = dp_tensor_copy(tensor);
  result.shape = dp_shape_with(&tensor->shape, 0, end - begin);
  int64_t row = dp_shape_product(&tensor->shape, 1, tensor->shape.rank);
  size_t offset = (size_t)(begin * row) * dp_dtype_size(tensor->dtype);
  if (offset)
    result.data = (char *)tensor->data + offset;
  return result;
}

/* ---- Copies -----------------------------------------------------------------------------------
 */

static dp_status *copy_strings(dp_tstring *to, const dp_tstring *from, int64_t count) {
  for (int64_t i = 0; i < count; i++) {
    dp_view view = dp_tstring_view(&from[i]);
    DP_RETURN_IF_ERROR(dp_tstring_assign(&to[i], view.data, view.length));
  }
  return NULL;
}

static void copy_handles(dp_resource_handle **to, dp_resource_handle *const *from, int64_t count) {
  for (int64_t i = 0; i < count; i++) {
    dp_resource_handle *old = to[i];
    to[i] = dp_resource_handle_retain(from[i]);
    dp_resource_handle_release(old);
  }
}

static void copy_variants(dp_variant **to, dp_variant *const *from, int64_t count) {
  for (int64_t i = 0; i < count; i++) {
    dp_variant *old = to[i];
    to[i] = dp_variant_retain(from[i]);
    dp_variant_release(old);
  }
}

static dp_status *copy_elements(dp_dtype dtype, void *to, const void *from, int64_t count) {
  switch (dtype) {
  case DP_STRING:
    return copy_strings(to, from, count);
  case DP_RESOURCE:
    copy_handles(to, from, count);
    return NULL;
  case DP_VARIANT:
    copy_variants(to, from, count);
    return NULL;
  default:
    if (count > 0)
      memmove(to, from, (size_t)count * dp_dtype_size(dtype));
    return NULL;
  }
}

dp_status *dp_tensor_clone(const dp_tensor *tensor, dp_tensor *tensor_out) {
  dp_tensor clone;
  DP_RETURN_IF_ERROR(dp_tensor_create(tensor->dtype, &tensor->shape, &clone));
  dp_status *status =
      copy_elements(tensor->dtype, clone.data, tensor->data, tensor->shape.elements);
  if (status)
    dp_tensor_deinit(&clone);
  else
    *tensor_out = clone;
  return status;
}

void dp_tensor_copy_elements(dp_dtype dtype, void *to, const void *from, int64_t count) {
  dp_status *status = copy_elements(dtype, to, from, count);
  if (!status)
    return;
  /* There was no memory for a string and this function returns no status: abort, as dp_malloc
   * would. */
  DP_LOG(TENSOR, ERROR, "%s", dp_status_message(status));
  abort();
}

/* ---- Scalars ----------------------------------------------------------------------------------
 */

static dp_status *create_scalar(dp_dtype dtype, const void *value, dp_tensor *tensor_out) {
  dp_shape shape = dp_shape_scalar();
  DP_RETURN_IF_ERROR(dp_tensor_create(dtype, &shape, tensor_out));
  memcpy(tensor_out->data, value, dp_dtype_size(dtype));
  return NULL;
}

dp_status *dp_tensor_scalar_int32(int32_t value, dp_tensor *tensor_out) {
  return create_scalar(DP_INT32, &value, tensor_out);
}

dp_status *dp_tensor_scalar_int64(int64_t value, dp_tensor *tensor_out) {
  return create_scalar(DP_INT64, &value, tensor_out);
}

dp_status *dp_tensor_scalar_float(float value, dp_tensor *tensor_out) {
  return create_scalar(DP_FLOAT, &value, tensor_out);
}

dp_status *dp_tensor_scalar_bool(bool value, dp_tensor *tensor_out) {
  uint8_t byte = value ? 1 : 0;
  return create_scalar(DP_BOOL, &byte, tensor_out);
}

dp_status *dp_tensor_scalar_string(const void *data, size_t length, dp_tensor *tensor_out) {
  dp_shape shape = dp_shape_scalar();
  dp_tensor tensor;
  DP_RETURN_IF_ERROR(dp_tensor_create(DP_STRING, &shape, &tensor));
  dp_status *status = dp_tstring_assign(dp_tensor_strings(&tensor), data, length);
  if (status)
    dp_tensor_deinit(&tensor);
  else
    *tensor_out = tensor;
  return status;
}

#define ELEMENT(type) ((const type *)tensor->data)[index]

int64_t dp_tensor_any_int_at(const dp_tensor *tensor, int64_t index) {
  switch (tensor->dtype) {
  case DP_INT8:
  case DP_QINT8:
    return ELEMENT(int8_t);
  case DP_UINT8:
  case DP_QUINT8:
    return ELEMENT(uint8_t);
  case DP_INT16:
  case DP_QINT16:
    return ELEMENT(int16_t);
  case DP_UINT16:
  case DP_QUINT16:
    return ELEMENT(uint16_t);
  case DP_INT32:
  case DP_QINT32:
    return ELEMENT(int32_t);
  case DP_UINT32:
    return ELEMENT(uint32_t);
  case DP_INT64:
    return ELEMENT(int64_t);
  case DP_UINT64:
    return (int64_t)ELEMENT(uint64_t);
  case DP_BOOL:
    return ELEMENT(uint8_t) != 0;
  case DP_INT4: /* the low bits of the byte; the high bits are ignored */
    return (int64_t)((ELEMENT(uint8_t) & 15) ^ 8) - 8;
  case DP_UINT4:
    return ELEMENT(uint8_t) & 15;
  case DP_INT2:
    return (int64_t)((ELEMENT(uint8_t) & 3) ^ 2) - 2;
  case DP_UINT2:
    return ELEMENT(uint8_t) & 3;
  default:
    return 0;
  }
}

dp_status *dp_tensor_to_int64(const dp_tensor *tensor, int64_t *value_out) {
  if (!dp_dtype_is_integer(tensor->dtype))
    return DP_INVALID("Expected an integer, got a tensor of type %s", dp_dtype_name(tensor->dtype));
  if (tensor->shape.elements != 1)
    return DP_INVALID("Expected a scalar, got a tensor of shape %s", dp_shape_text(&tensor->shape));
  *value_out = dp_tensor_int_at(tensor, 0);
  return NULL;
}
