/* TF_Tensor and TF_TString over the runtime's own tensors and strings. The layouts are the same, so
 * nothing is converted on the way in or out. Memory of the caller is wrapped if it is aligned; its
 * deallocator runs when the last reader has released it. Numbers that are not aligned are copied,
 * and the deallocator runs at once. A TF_Tensor belongs to one thread at a time; its buffer is
 * counted and may be shared with steps. */
#include <string.h>

#include "client/client_internal.h"

_Static_assert(sizeof(TF_TString) == sizeof(dp_tstring), "one layout");
_Static_assert(TF_TString_SmallCapacity == 22, "one layout");

size_t TF_DataTypeSize(TF_DataType dtype) {
  return dp_dtype_is_valid(dtype) && dp_dtype_is_plain((dp_dtype)dtype)
             ? dp_dtype_size((dp_dtype)dtype)
             : 0;
}

/* ---- Life ---- */

typedef void (*deallocator_fn)(void *data, size_t length, void *arg);

typedef struct user_memory {
  deallocator_fn deallocator;
  void *arg;
} user_memory;

static void release_user_memory(void *arg, void *data, size_t size) {
  user_memory *memory = arg;
  if (memory->deallocator)
    memory->deallocator(data, size, memory->arg);
  dp_free(memory);
}

static dp_buffer *wrap(void *data, size_t length, deallocator_fn deallocator, void *arg) {
  user_memory *memory = DP_NEW(user_memory);
  *memory = (user_memory){deallocator, arg};
  return dp_buffer_wrap(data, length, release_user_memory, memory);
}

static bool is_aligned(const void *data) {
  return (uintptr_t)data % DP_BUFFER_ALIGNMENT == 0;
}

/* Whether a tensor of that type and shape fits into `length` bytes. */
static bool check(TF_DataType dtype, const int64_t *dims, int rank, size_t length,
                  dp_shape *shape_out) {
  if (!dp_dtype_is_valid(dtype))
    return false;
  dp_status *status = dp_shape_make(rank, dims, shape_out);
  dp_status_release(status);
  size_t needed;
  return !status &&
         dp_multiply_size((size_t)shape_out->elements, dp_dtype_size((dp_dtype)dtype), &needed) &&
         needed <= length;
}

static TF_Tensor *over_buffer(TF_DataType dtype, const dp_shape *shape, dp_buffer *buffer) {
  TF_Tensor *tensor = DP_NEW(TF_Tensor);
  tensor->tensor = (dp_tensor){(dp_dtype)dtype, buffer, buffer->data, *shape};
  tensor->byte_size = buffer->size;
  return tensor;
}

TF_Tensor *TF_AllocateTensor(TF_DataType dtype, const int64_t *dims, int num_dims, size_t length) {
  dp_shape shape;
  dp_buffer *buffer = NULL;
  if (!check(dtype, dims, num_dims, length, &shape))
    return NULL;
  dp_status *status = dp_buffer_create(length, &buffer);
  dp_status_release(status);
  if (status)
    return NULL;
  if (!dp_dtype_is_plain((dp_dtype)dtype))
    memset(buffer->data, 0, length); /* empty strings, no handles */
  TF_Tensor *tensor = over_buffer(dtype, &shape, buffer);
  tensor->byte_size = length;
  return tensor;
}

TF_Tensor *TF_NewTensor(TF_DataType dtype, const int64_t *dims, int num_dims, void *data,
                        size_t length, deallocator_fn deallocator, void *deallocator_arg) {
  dp_shape shape;
  bool fits = check(dtype, dims, num_dims, length, &shape);
  if (fits && (is_aligned(data) || !dp_dtype_is_plain((dp_dtype)dtype)))
    return over_buffer(dtype, &shape, wrap(data, length, deallocator, deallocator_arg));
  TF_Tensor *tensor = fits ? TF_AllocateTensor(dtype, dims, num_dims, length) : NULL;
  if (tensor && length)
    memcpy(tensor->tensor.data, data, length);
  if (deallocator)
    deallocator(data, length, deallocator_arg);
  return tensor;
}

TF_Tensor *dp_client_tensor(dp_tensor from) {
  TF_Tensor *tensor = DP_NEW(TF_Tensor);
  tensor->tensor = from;
  tensor->byte_size = dp_tensor_bytes(&from);
  return tensor;
}

TF_Tensor *TF_TensorMaybeMove(TF_Tensor *tensor) {
  if (!tensor->tensor.buffer || !dp_refcount_is_one(&tensor->tensor.buffer->references))
    return NULL;
  TF_Tensor *moved = dp_memdup(tensor, sizeof(*tensor));
  dp_free(tensor);
  return moved;
}

void TF_DeleteTensor(TF_Tensor *tensor) {
  if (!tensor)
    return;
  dp_tensor_deinit(&tensor->tensor);
  dp_free(tensor);
}

/* ---- Queries ---- */

TF_DataType TF_TensorType(const TF_Tensor *tensor) {
  return (TF_DataType)tensor->tensor.dtype;
}

void TF_SetShape(TF_Tensor *tensor, const int64_t *dims, int num_dims) {
  dp_shape shape;
  dp_status *status = dp_shape_make(num_dims, dims, &shape);
  if (!status && shape.elements == tensor->tensor.shape.elements)
    tensor->tensor.shape = shape;
  dp_status_release(status);
}

int TF_NumDims(const TF_Tensor *tensor) {
  return tensor->tensor.shape.rank;
}

int64_t TF_Dim(const TF_Tensor *tensor, int dim_index) {
  return tensor->tensor.shape.dims[dim_index];
}

size_t TF_TensorByteSize(const TF_Tensor *tensor) {
  return tensor->byte_size;
}

void *TF_TensorData(const TF_Tensor *tensor) {
  return tensor->tensor.data;
}

int64_t TF_TensorElementCount(const TF_Tensor *tensor) {
  return tensor->tensor.shape.elements;
}

size_t TF_TensorDefaultAlignment(void) {
  return DP_BUFFER_ALIGNMENT;
}

bool TF_TensorIsAligned(const TF_Tensor *tensor) {
  return is_aligned(tensor->tensor.data);
}

static dp_status *bitcast(const TF_Tensor *from, TF_DataType type, TF_Tensor *to,
                          const int64_t *dims, int num_dims) {
  dp_shape shape;
  size_t bytes;
  DP_RETURN_IF_ERROR(dp_shape_make(num_dims, dims, &shape));
  if (!dp_dtype_is_valid(type) || (dp_dtype)type == DP_INVALID_DTYPE)
    return DP_INVALID("%d is no data type", type);
  if ((!dp_dtype_is_plain((dp_dtype)type) || !dp_dtype_is_plain(from->tensor.dtype)) &&
      (dp_dtype)type != from->tensor.dtype)
    return DP_INVALID("%s cannot be bitcast to %s", dp_dtype_name(from->tensor.dtype),
                      dp_dtype_name(type));
  if (!dp_multiply_size((size_t)shape.elements, dp_dtype_size((dp_dtype)type), &bytes) ||
      bytes != dp_tensor_bytes(&from->tensor))
    return DP_INVALID("input and output shapes/data type sizes are not compatible");
  dp_tensor cast = dp_tensor_copy(&from->tensor);
  cast.dtype = (dp_dtype)type;
  cast.shape = shape;
  dp_tensor_deinit(&to->tensor);
  to->tensor = cast;
  to->byte_size = from->byte_size;
  return NULL;
}

void TF_TensorBitcastFrom(const TF_Tensor *from, TF_DataType type, TF_Tensor *to,
                          const int64_t *new_dims, int num_new_dims, TF_Status *status) {
  dp_client_set_status(status, bitcast(from, type, to, new_dims, num_new_dims));
}

/* ---- Strings ---- */

static dp_tstring *inside(const TF_TString *string) {
  return (dp_tstring *)string;
}

void TF_StringInit(TF_TString *string) {
  memset(string, 0, sizeof(*string));
}

void TF_StringCopy(TF_TString *to, const char *from, size_t size) {
  /* There is no status in which to report that memory is out; the string is empty then. */
  dp_status_release(dp_tstring_assign(inside(to), from, size));
}

void TF_StringAssignView(TF_TString *to, const char *from, size_t size) {
  dp_tstring_assign_view(inside(to), from, size);
}

const char *TF_StringGetDataPointer(const TF_TString *string) {
  return dp_tstring_data(inside(string));
}

TF_TString_Type TF_StringGetType(const TF_TString *string) {
  return (TF_TString_Type)(string->u.raw.raw[0] & TF_TSTR_TYPE_MASK);
}

size_t TF_StringGetSize(const TF_TString *string) {
  return dp_tstring_size(inside(string));
}

size_t TF_StringGetCapacity(const TF_TString *string) {
  switch (TF_StringGetType(string)) {
  case TF_TSTR_SMALL:
    return TF_TString_SmallCapacity;
  case TF_TSTR_LARGE:
    return string->u.large.cap;
  default:
    return 0;
  }
}

void TF_StringDealloc(TF_TString *string) {
  if (TF_StringGetType(string) == TF_TSTR_LARGE)
    dp_tstring_deinit(inside(string)); /* which leaves it empty */
}
