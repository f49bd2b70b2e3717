/* Tensors: small values over shared buffers.
 *
 * A dp_tensor is copied with dp_tensor_copy (which shares the buffer) and ended with
 * dp_tensor_deinit. Zeroed memory is an unset tensor: dtype DP_INVALID_DTYPE, no buffer. Contents
 * are immutable as soon as a tensor is shared; who wants to write must be the only owner
 * (dp_tensor_is_unique) or make a fresh one. Elements of strings are dp_tstring, of resources
 * dp_resource_handle *, of variants dp_variant *; the buffer owns them. */
#ifndef DP_TENSOR_TENSOR_H
#define DP_TENSOR_TENSOR_H

#include "tensor/buffer.h"
#include "tensor/dtype.h"
#include "tensor/shape.h"

typedef struct dp_tensor {
  dp_dtype dtype;
  dp_buffer *buffer;
  void *data; /* inside buffer's memory: slices share a buffer */
  dp_shape shape;
} dp_tensor;

/* Fresh, writable, contents undefined for plain dtypes; strings are empty, handles and variants
 * NULL. */
DP_MUST_USE dp_status *dp_tensor_create(dp_dtype dtype, const dp_shape *shape,
                                        dp_tensor *tensor_out);
/* All bytes zero. */
DP_MUST_USE dp_status *dp_tensor_create_zero(dp_dtype dtype, const dp_shape *shape,
                                             dp_tensor *tensor_out);
/* A string tensor whose elements may be views into `backing`, which it keeps alive; consumes that
 * reference, also on failure. The strings are empty at first. */
DP_MUST_USE dp_status *dp_tensor_create_strings(const dp_shape *shape, dp_buffer *backing,
                                                dp_tensor *tensor_out);
/* Over an existing buffer at byte `offset`; consumes the reference. The caller has checked that it
 * fits. Plain dtypes only. */
dp_tensor dp_tensor_from_buffer(dp_dtype dtype, const dp_shape *shape, dp_buffer *buffer,
                                size_t offset);
/* A tensor that shares `tensor`'s buffer. */
static inline dp_tensor dp_tensor_copy(const dp_tensor *tensor) {
  dp_buffer_retain(tensor->buffer);
  return *tensor;
}
static inline void dp_tensor_deinit(dp_tensor *tensor) {
  dp_buffer_release(tensor->buffer);
  tensor->buffer = NULL;
  tensor->dtype = DP_INVALID_DTYPE;
}
/* Moves *from into the result and unsets *from. */
static inline dp_tensor dp_tensor_take(dp_tensor *from) {
  dp_tensor moved = *from;
  from->buffer = NULL;
  from->dtype = DP_INVALID_DTYPE;
  return moved;
}
static inline bool dp_tensor_is_set(const dp_tensor *tensor) {
  return tensor->dtype != DP_INVALID_DTYPE;
}
static inline bool dp_tensor_is_unique(const dp_tensor *tensor) {
  return dp_buffer_is_unique(tensor->buffer);
}
static inline int64_t dp_tensor_elements(const dp_tensor *tensor) {
  return tensor->shape.elements;
}
static inline size_t dp_tensor_bytes(const dp_tensor *tensor) {
  return (size_t)tensor->shape.elements * dp_dtype_size(tensor->dtype);
}
/* Same buffer, another shape with the same number of elements. */
dp_tensor dp_tensor_reshaped(const dp_tensor *tensor, const dp_shape *shape);
/* Rows [begin, end) of dimension 0, sharing the buffer. Note that the data may then be aligned to
 * the element only. */
dp_tensor dp_tensor_slice(const dp_tensor *tensor, int64_t begin, int64_t end);
/* A fresh tensor with the same contents (strings, handles and variants are copied deeply enough to
 * be independent). */
DP_MUST_USE dp_status *dp_tensor_clone(const dp_tensor *tensor, dp_tensor *tensor_out);
/* Copies `count` elements from one tensor's memory to another's of the same dtype; right for every
 * dtype (strings are duplicated, handles and variants retained). What `to` held is replaced, so it
 * must be initialized. Ends the process when there is no memory for a string. */
void dp_tensor_copy_elements(dp_dtype dtype, void *to, const void *from, int64_t count);

/* A scalar of the dtype from a C value; the other direction checks rank 0 or one element and an
 * integer dtype. */
DP_MUST_USE dp_status *dp_tensor_scalar_int32(int32_t value, dp_tensor *tensor_out);
DP_MUST_USE dp_status *dp_tensor_scalar_int64(int64_t value, dp_tensor *tensor_out);
DP_MUST_USE dp_status *dp_tensor_scalar_float(float value, dp_tensor *tensor_out);
DP_MUST_USE dp_status *dp_tensor_scalar_bool(bool value, dp_tensor *tensor_out);
DP_MUST_USE dp_status *dp_tensor_scalar_string(const void *data, size_t length,
                                               dp_tensor *tensor_out);
DP_MUST_USE dp_status *dp_tensor_to_int64(const dp_tensor *tensor, int64_t *value_out);
/* Element `index` of an integer tensor (any width) as int64. */
int64_t dp_tensor_any_int_at(const dp_tensor *tensor, int64_t index);
static inline int64_t dp_tensor_int_at(const dp_tensor *tensor, int64_t index) {
  if (tensor->dtype == DP_INT32)
    return ((const int32_t *)tensor->data)[index];
  if (tensor->dtype == DP_INT64)
    return ((const int64_t *)tensor->data)[index];
  return dp_tensor_any_int_at(tensor, index);
}
/* Sets element `index` of a tensor of int32 or int64. */
static inline void dp_tensor_set_int(dp_tensor *tensor, int64_t index, int64_t value) {
  if (tensor->dtype == DP_INT32)
    ((int32_t *)tensor->data)[index] = (int32_t)value;
  else
    ((int64_t *)tensor->data)[index] = value;
}

/* TensorFlow's SummarizeValue, as Print and Assert show it: "1 2 3..." or "[1 2][3...]...", at most
 * max_entries elements, all if it is negative. */
void dp_tensor_summarize(const dp_tensor *tensor, int64_t max_entries, dp_text *text);
/* Its second form, of PrintV2 and StringFormat: nested brackets and lines, strings quoted, at most
 * edge_entries at both ends of each dimension. */
void dp_tensor_summarize_nested(const dp_tensor *tensor, int64_t edge_entries, dp_text *text);

/* ---- Strings -------------------------------------------------------------------------------
 * 24 bytes, laid out as TensorFlow's TF_TString (its C API exposes it): up to 22 bytes stay inside,
 * longer ones are on the heap or are a view into memory that the tensor's buffer keeps alive. The
 * low two bits of the first byte tell which. */
typedef union dp_tstring {
  struct {
    uint8_t size_and_type; /* size << 2 | 0 */
    char data[23];
  } small;
  struct {
    uint64_t size_and_type; /* size << 2 | 1 (owned, large) */
    uint64_t capacity;
    char *data;
  } large;
  struct {
    uint64_t size_and_type; /* size << 2 | 3 (view) */
    const char *data;
    void *unused;
  } view;
  struct {
    uint32_t size_and_type; /* size << 2 | 2 (offset from this object) */
    uint32_t offset;
    uint32_t count;
    uint32_t unused[3];
  } offset;
  uint64_t raw[3];
} dp_tstring;

typedef enum dp_tstring_type {
  DP_TSTRING_SMALL,
  DP_TSTRING_LARGE,
  DP_TSTRING_OFFSET,
  DP_TSTRING_VIEW,
} dp_tstring_type;
static inline dp_tstring_type dp_tstring_type_of(const dp_tstring *string) {
  return (dp_tstring_type)(string->small.size_and_type & 3);
}
static inline dp_view dp_tstring_view(const dp_tstring *string) {
  switch (dp_tstring_type_of(string)) {
  case DP_TSTRING_SMALL:
    return (dp_view){string->small.data, string->small.size_and_type >> 2};
  case DP_TSTRING_LARGE:
    return (dp_view){string->large.data, string->large.size_and_type >> 2};
  case DP_TSTRING_OFFSET:
    return (dp_view){(const char *)string + string->offset.offset,
                     string->offset.size_and_type >> 2};
  default:
    return (dp_view){string->view.data, string->view.size_and_type >> 2};
  }
}
static inline size_t dp_tstring_size(const dp_tstring *string) {
  return dp_tstring_view(string).length;
}
static inline const char *dp_tstring_data(const dp_tstring *string) {
  return dp_tstring_view(string).data;
}
/* The string must be initialized (zeroed memory is an empty string). Replaces the contents.
 * RESOURCE_EXHAUSTED when there is no memory. */
DP_MUST_USE dp_status *dp_tstring_assign(dp_tstring *string, const void *data, size_t length);
/* Room for `length` bytes to be written by the caller. */
DP_MUST_USE dp_status *dp_tstring_resize(dp_tstring *string, size_t length, char **data_out);
/* Points to memory that outlives the string. */
void dp_tstring_assign_view(dp_tstring *string, const void *data, size_t length);
void dp_tstring_deinit(dp_tstring *string);

/* ---- Resource handles ----------------------------------------------------------------------- */
typedef struct dp_resource_handle dp_resource_handle;
struct dp_resource_handle {
  dp_refcount references;
  char *device;
  char *container;
  char *name;
  uint64_t type_hash;
  char *type_name;
  /* dtypes and shapes of what is behind, when known (variables, iterators) */
  int32_t component_count;
  dp_dtype *dtypes;
  dp_partial_shape *shapes;
  /* A handle that owns its resource directly (anonymous resources); else NULL. */
  void *object;
  void (*object_release)(void *object);
  /* The resource manager's note of what it found by this handle, and in which of its states; what
   * the handle means does not depend on it. */
  _Atomic(void *) found;
  _Atomic uint64_t found_state;
};
dp_resource_handle *dp_resource_handle_create(const char *device, const char *container,
                                              const char *name, uint64_t type_hash,
                                              const char *type_name);
dp_resource_handle *dp_resource_handle_retain(dp_resource_handle *handle);
void dp_resource_handle_release(dp_resource_handle *handle);

/* ---- Variants ---------------------------------------------------------------------------------
 * A reference-counted box over a C object of a type that is registered by a table of functions. */
typedef struct dp_variant dp_variant;
typedef struct dp_variant_ops {
  const char *type_name; /* as TensorFlow writes it in VariantTensorDataProto */
  void (*destroy)(void *object);
  /* May be NULL where a type cannot be sent or zeroed or added. */
  dp_status *(*encode)(const void *object, dp_text *metadata, dp_tensor **tensors_out,
                       size_t *tensor_count_out);
  dp_status *(*decode)(dp_view metadata, const dp_tensor *tensors, size_t tensor_count,
                       void **object_out);
  dp_status *(*zeros_like)(const void *object, void **object_out);
  dp_status *(*add)(const void *a, const void *b, void **object_out);
} dp_variant_ops;
struct dp_variant {
  dp_refcount references;
  const dp_variant_ops *ops;
  void *object;
};
/* Consumes `object`. */
dp_variant *dp_variant_create(const dp_variant_ops *ops, void *object);
dp_variant *dp_variant_retain(dp_variant *variant);
void dp_variant_release(dp_variant *variant);
/* Types that can be decoded from the wire register here once, at start-up. */
void dp_variant_register(const dp_variant_ops *ops);
const dp_variant_ops *dp_variant_find(const char *type_name);

/* Element access without casts at every place. */
static inline dp_tstring *dp_tensor_strings(const dp_tensor *tensor) {
  return (dp_tstring *)tensor->data;
}
static inline dp_resource_handle **dp_tensor_handles(const dp_tensor *tensor) {
  return (dp_resource_handle **)tensor->data;
}
static inline dp_variant **dp_tensor_variants(const dp_tensor *tensor) {
  return (dp_variant **)tensor->data;
}

#endif
