/* Tensors: small values over shared buffers.
 *
 * dp_tensor_copy makes a second tensor that shares the buffer; dp_tensor_deinit ends each of them.
 * Zeroed memory is an unset tensor: dtype DP_INVALID_DTYPE, no buffer. The contents must not change
 * once a tensor is shared: to write, be the only owner (dp_tensor_is_unique) or make a new tensor.
 * The elements of a string tensor are dp_tstring, of a resource tensor dp_resource_handle *, of a
 * variant tensor dp_variant *; the buffer owns them. A dp_tensor value belongs to one thread at a
 * time; its buffer may be shared by many. */
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

/* A new, writable tensor. The contents are undefined for plain dtypes; strings are empty, handles
 * and variants are NULL. */
DP_MUST_USE dp_status *dp_tensor_create(dp_dtype dtype, const dp_shape *shape,
                                        dp_tensor *tensor_out);
/* All bytes zero. */
DP_MUST_USE dp_status *dp_tensor_create_zero(dp_dtype dtype, const dp_shape *shape,
                                             dp_tensor *tensor_out);
/* A string tensor whose elements may be views into `backing`, which the tensor keeps alive.
 * Consumes the reference to `backing`, on failure too. The strings are empty at first. */
DP_MUST_USE dp_status *dp_tensor_create_strings(const dp_shape *shape, dp_buffer *backing,
                                                dp_tensor *tensor_out);
/* A tensor over an existing buffer, from byte `offset` on; consumes the reference. The caller has
 * checked that the buffer is large enough. Plain dtypes only. */
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
/* The same buffer with another shape of the same number of elements. */
dp_tensor dp_tensor_reshaped(const dp_tensor *tensor, const dp_shape *shape);
/* Rows [begin, end) of dimension 0, sharing the buffer. The data of the result may be aligned to
 * the element size only. */
dp_tensor dp_tensor_slice(const dp_tensor *tensor, int64_t begin, int64_t end);
/* A new tensor with the same contents: strings are duplicated, handles and variants retained. */
DP_MUST_USE dp_status *dp_tensor_clone(const dp_tensor *tensor, dp_tensor *tensor_out);
/* Copies `count` elements of any dtype: strings are duplicated, handles and variants retained. The
 * elements at `to` are replaced, so they must be initialized. Aborts when there is no memory for a
 * string. */
void dp_tensor_copy_elements(dp_dtype dtype, void *to, const void *from, int64_t count);

/* A scalar from a C value. dp_tensor_to_int64 reads one back: INVALID_ARGUMENT unless the tensor
 * has exactly one element and an integer dtype. */
DP_MUST_USE dp_status *dp_tensor_scalar_int32(int32_t value, dp_tensor *tensor_out);
DP_MUST_USE dp_status *dp_tensor_scalar_int64(int64_t value, dp_tensor *tensor_out);
DP_MUST_USE dp_status *dp_tensor_scalar_float(float value, dp_tensor *tensor_out);
DP_MUST_USE dp_status *dp_tensor_scalar_bool(bool value, dp_tensor *tensor_out);
DP_MUST_USE dp_status *dp_tensor_scalar_string(const void *data, size_t length,
                                               dp_tensor *tensor_out);
DP_MUST_USE dp_status *dp_tensor_to_int64(const dp_tensor *tensor, int64_t *value_out);
/* Element `index` of a tensor of any integer, quantized or bool dtype as int64. The first is the
 * general form, the second has a short way for int32 and int64. */
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
/* TensorFlow's SummarizeValue as PrintV2 and StringFormat show it: nested brackets and lines,
 * strings quoted, at most edge_entries at each end of each dimension. */
void dp_tensor_summarize_nested(const dp_tensor *tensor, int64_t edge_entries, dp_text *text);

/* ---- Strings -------------------------------------------------------------------------------
 * 24 bytes, laid out as TensorFlow's TF_TString, which its C API exposes. A string of up to 22
 * bytes is inside the object; a longer one is on the heap, or is a view into memory that the
 * tensor's buffer keeps alive. The low two bits of the first byte are the dp_tstring_type. */
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
/* Makes the string a view of memory that must outlive it. */
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
  /* dtypes and shapes of the resource's contents, when known (variables, iterators) */
  int32_t component_count;
  dp_dtype *dtypes;
  dp_partial_shape *shapes;
  /* A handle that owns its resource directly (anonymous resources); else NULL. */
  void *object;
  void (*object_release)(void *object);
  /* A cache of the resource manager: the resource that it last found by this handle, and the state
   * of its table at that time. It does not change which resource the handle names. */
  _Atomic(void *) found;
  _Atomic uint64_t found_state;
};
dp_resource_handle *dp_resource_handle_create(const char *device, const char *container,
                                              const char *name, uint64_t type_hash,
                                              const char *type_name);
dp_resource_handle *dp_resource_handle_retain(dp_resource_handle *handle);
void dp_resource_handle_release(dp_resource_handle *handle);

/* ---- Variants ---------------------------------------------------------------------------------
 * A reference-counted box over a C object. A table of functions describes the object's type. */
typedef struct dp_variant dp_variant;
typedef struct dp_variant_ops {
  const char *type_name; /* as TensorFlow writes it in VariantTensorDataProto */
  void (*destroy)(void *object);
  /* Each may be NULL, for a type that cannot be sent, received, zeroed or added. */
  dp_status *(*encode)(const void *object, dp_text *metadata, dp_tensor **tensors_out,
                       size_t *tensor_count_out);
  dp_status *(*decode)(dp_view metadata, const dp_tensor *tensors, size_t tensor_count,
                       void **object_out);
  dp_status *(*zeros_like)(const void *object, void **object_out);
  dp_status *(*add)(const void *a, const void *b, void **object_out);
  /* Adds the value as TensorFlow shows it; NULL for a type that shows its name alone. */
  void (*print)(const void *object, dp_text *text);
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
/* Adds what TensorFlow shows of a variant's value, which may be NULL: "5", "TensorList". */
void dp_variant_print(const dp_variant *variant, dp_text *text);
/* Types that can be decoded from the wire register here once, at start-up. */
void dp_variant_register(const dp_variant_ops *ops);
const dp_variant_ops *dp_variant_find(const char *type_name);

/* The elements of a tensor, which must have the dtype in question. */
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
