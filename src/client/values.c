/* Tensors from C values, and back. A tensor owns a copy of its values, strings included, so that
 * TF_DeleteTensor is all that ends it. Reading gives the tensor's own memory, after a check of its
 * type and size. No state, any thread. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "client/values.h"

/* ---- Making ---- */

static dp_status *allocate(TF_DataType dtype, dp_dims dims, TF_Tensor **tensor_out) {
  dp_shape shape;
  dp_tensor tensor;
  DP_RETURN_IF_ERROR(dp_shape_make(dims.count, dims.items, &shape));
  DP_RETURN_IF_ERROR(dp_tensor_create((dp_dtype)dtype, &shape, &tensor));
  *tensor_out = dp_client_tensor(tensor);
  return NULL;
}

dp_status *dp_client_tensor_make(TF_DataType dtype, dp_dims shape, const void *values,
                                 TF_Tensor **tensor_out) {
  TF_Tensor *tensor;
  DP_RETURN_IF_ERROR(allocate(dtype, shape, &tensor));
  if (tensor->byte_size)
    memcpy(tensor->tensor.data, values, tensor->byte_size);
  *tensor_out = tensor;
  return NULL;
}

dp_status *dp_client_tensor_make_strings(dp_dims shape, const char *const *values,
                                         TF_Tensor **tensor_out) {
  TF_Tensor *tensor;
  DP_RETURN_IF_ERROR(allocate(TF_STRING, shape, &tensor));
  dp_tstring *strings = tensor->tensor.data;
  dp_status *status = NULL;
  for (int64_t i = 0; !status && i < tensor->tensor.shape.elements; i++)
    status = dp_tstring_assign(&strings[i], values[i], strlen(values[i]));
  if (status)
    TF_DeleteTensor(tensor);
  else
    *tensor_out = tensor;
  return status;
}

/* Integers cut off the fraction; 2^bits is the first number above the largest. */
static bool fits(double value, double lowest, double above) {
  return value > lowest - 1 && value < above;
}

static dp_status *put_number(dp_dtype dtype, void *data, int64_t i, double value) {
  switch (dtype) {
#define INTEGER(dtype, type, lowest, above)                                                        \
  case DP_##dtype:                                                                                 \
    if (!fits(value, lowest, above))                                                               \
      break;                                                                                       \
    ((type *)data)[i] = (type)value;                                                               \
    return NULL;
    INTEGER(INT8, int8_t, -0x1p7, 0x1p7)
    INTEGER(INT16, int16_t, -0x1p15, 0x1p15)
    INTEGER(INT32, int32_t, -0x1p31, 0x1p31)
    INTEGER(UINT8, uint8_t, 0, 0x1p8)
    INTEGER(UINT16, uint16_t, 0, 0x1p16)
    INTEGER(UINT32, uint32_t, 0, 0x1p32)
    INTEGER(UINT64, uint64_t, 0, 0x1p64)
#undef INTEGER
  case DP_INT64: /* -2^63 - 1 is no double */
    if (!(value >= -0x1p63 && value < 0x1p63))
      break;
    ((int64_t *)data)[i] = (int64_t)value;
    return NULL;
#define FLOATING(dtype, type, convert)                                                             \
  case DP_##dtype:                                                                                 \
    ((type *)data)[i] = convert(value);                                                            \
    return NULL;
    FLOATING(FLOAT, float, (float))
    FLOATING(DOUBLE, double, )
    FLOATING(HALF, uint16_t, dp_half_from_float)
    FLOATING(BFLOAT16, uint16_t, dp_bfloat16_from_float)
    FLOATING(COMPLEX64, float _Complex, (float))
    FLOATING(COMPLEX128, double _Complex, )
#undef FLOATING
  default:
    return DP_INVALID("%s is no type of numbers", dp_dtype_name((int)dtype));
  }
  return DP_INVALID("%g at %lld does not fit into %s", value, (long long)i,
                    dp_dtype_name((int)dtype));
}

dp_status *dp_client_tensor_make_numbers(TF_DataType dtype, dp_dims shape, const double *values,
                                         TF_Tensor **tensor_out) {
  TF_Tensor *tensor;
  if (!dp_dtype_is_valid(dtype) || !dp_dtype_is_plain((dp_dtype)dtype))
    return DP_INVALID("%s is no type of numbers", dp_dtype_name((int)dtype));
  DP_RETURN_IF_ERROR(allocate(dtype, shape, &tensor));
  dp_status *status = NULL;
  for (int64_t i = 0; !status && i < tensor->tensor.shape.elements; i++)
    status = put_number((dp_dtype)dtype, tensor->tensor.data, i, values[i]);
  if (status)
    TF_DeleteTensor(tensor);
  else
    *tensor_out = tensor;
  return status;
}

/* Those without a status argument: NULL says that it failed. */
static TF_Tensor *or_null(dp_status *status, TF_Tensor *tensor) {
  dp_status_release(status);
  return tensor;
}

#define MAKERS(name, dtype, type)                                                                  \
  TF_Tensor *dp_tensor_of_##name(type value) {                                                     \
    return dp_tensor_of_##name##s(DP_SHAPE(), &value);                                             \
  }                                                                                                \
  TF_Tensor *dp_tensor_of_##name##s(dp_dims shape, const type *values) {                           \
    TF_Tensor *tensor = NULL;                                                                      \
    dp_status *status = dp_client_tensor_make(dtype, shape, values, &tensor);                      \
    return or_null(status, tensor);                                                                \
  }
MAKERS(float, TF_FLOAT, float)
MAKERS(double, TF_DOUBLE, double)
MAKERS(int32, TF_INT32, int32_t)
MAKERS(int64, TF_INT64, int64_t)
MAKERS(uint8, TF_UINT8, uint8_t)
MAKERS(bool, TF_BOOL, bool)
#undef MAKERS

TF_Tensor *dp_tensor_of_strings(dp_dims shape, const char *const *values) {
  TF_Tensor *tensor = NULL;
  dp_status *status = dp_client_tensor_make_strings(shape, values, &tensor);
  return or_null(status, tensor);
}

TF_Tensor *dp_tensor_of_string(const char *value) {
  return dp_tensor_of_bytes(value, strlen(value));
}

TF_Tensor *dp_tensor_of_bytes(const void *bytes, size_t length) {
  dp_tensor tensor;
  dp_status *status = dp_tensor_scalar_string(bytes, length, &tensor);
  return or_null(status, status ? NULL : dp_client_tensor(tensor));
}

TF_Tensor *dp_tensor_of_numbers(TF_DataType dtype, dp_dims shape, const double *values,
                                TF_Status *status) {
  TF_Tensor *tensor = NULL;
  dp_client_set_status(status, dp_client_tensor_make_numbers(dtype, shape, values, &tensor));
  return tensor;
}

/* ---- Reading ---- */

/* The tensor in words, and what was wanted of it. A dtype of 0 is not named. */
static dp_status *mismatch(const TF_Tensor *tensor, TF_DataType dtype, int64_t count) {
  dp_text shape = {0}, wanted = {0};
  dp_shape_print(&tensor->tensor.shape, &shape);
  if (dtype)
    dp_text_printf(&wanted, " of %s", dp_dtype_name((int)dtype));
  if (count >= 0)
    dp_text_printf(&wanted, " with %lld element%s", (long long)count, count == 1 ? "" : "s");
  dp_status *status = DP_INVALID("the tensor is %s %s; a tensor%s was asked for",
                                 dp_dtype_name((int)tensor->tensor.dtype), dp_text_string(&shape),
                                 dp_text_string(&wanted));
  dp_text_deinit(&shape);
  dp_text_deinit(&wanted);
  return status;
}

static const void *get(const TF_Tensor *tensor, TF_DataType dtype, int64_t count,
                       TF_Status *status) {
  dp_status *result = NULL;
  if (!tensor)
    result = DP_INVALID("there is no tensor to read %s from", dp_dtype_name((int)dtype));
  else if ((TF_DataType)tensor->tensor.dtype != dtype ||
           (count >= 0 && tensor->tensor.shape.elements != count))
    result = mismatch(tensor, dtype, count);
  static const char nothing = 0; /* what an empty tensor's memory is, as NULL means an error */
  const void *data = !result && tensor->tensor.data ? tensor->tensor.data : &nothing;
  bool failed = result;
  dp_client_set_status(status, result);
  return failed ? NULL : data;
}

#define READERS(name, dtype, type)                                                                 \
  const type *dp_tensor_get_##name##s(const TF_Tensor *tensor, int64_t count, TF_Status *status) { \
    return get(tensor, dtype, count, status);                                                      \
  }                                                                                                \
  type dp_tensor_get_##name(const TF_Tensor *tensor, TF_Status *status) {                          \
    const type *value = get(tensor, dtype, 1, status);                                             \
    return value ? *value : 0;                                                                     \
  }
READERS(float, TF_FLOAT, float)
READERS(double, TF_DOUBLE, double)
READERS(int32, TF_INT32, int32_t)
READERS(int64, TF_INT64, int64_t)
READERS(uint8, TF_UINT8, uint8_t)
READERS(bool, TF_BOOL, bool)
#undef READERS

const char *dp_tensor_get_string(const TF_Tensor *tensor, int64_t index, size_t *length_out,
                                 TF_Status *status) {
  const dp_tstring *strings = get(tensor, TF_STRING, -1, status);
  if (!strings)
    return NULL;
  if (index < 0 || index >= tensor->tensor.shape.elements) {
    dp_client_set_status(status,
                         DP_INVALID("there is no string %lld in a tensor with %lld",
                                    (long long)index, (long long)tensor->tensor.shape.elements));
    return NULL;
  }
  if (length_out)
    *length_out = dp_tstring_size(&strings[index]);
  return dp_tstring_data(&strings[index]);
}

static dp_status *take_number(dp_dtype dtype, const void *data, int64_t i, double *value_out) {
  switch (dtype) {
#define NUMBER(dtype, type, convert)                                                               \
  case DP_##dtype:                                                                                 \
    *value_out = (double)convert(((const type *)data)[i]);                                         \
    return NULL;
    NUMBER(FLOAT, float, )
    NUMBER(DOUBLE, double, )
    NUMBER(HALF, uint16_t, dp_half_to_float)
    NUMBER(BFLOAT16, uint16_t, dp_bfloat16_to_float)
    NUMBER(INT8, int8_t, )
    NUMBER(INT16, int16_t, )
    NUMBER(INT32, int32_t, )
    NUMBER(INT64, int64_t, )
    NUMBER(UINT8, uint8_t, )
    NUMBER(UINT16, uint16_t, )
    NUMBER(UINT32, uint32_t, )
    NUMBER(UINT64, uint64_t, )
    NUMBER(BOOL, bool, )
#undef NUMBER
  default:
    return DP_INVALID("a tensor of %s has no real numbers", dp_dtype_name((int)dtype));
  }
}

dp_status *dp_client_tensor_numbers(const TF_Tensor *tensor, double *values, int64_t count) {
  dp_status *status = NULL;
  for (int64_t i = 0; !status && i < count; i++)
    status = take_number(tensor->tensor.dtype, tensor->tensor.data, i, &values[i]);
  return status;
}

bool dp_tensor_get_numbers(const TF_Tensor *tensor, double *values, int64_t count,
                           TF_Status *status) {
  dp_status *result = NULL;
  if (!tensor)
    result = DP_INVALID("there is no tensor to read numbers from");
  else if (count < 0 || tensor->tensor.shape.elements != count)
    result = mismatch(tensor, (TF_DataType)0, count);
  else
    result = dp_client_tensor_numbers(tensor, values, count);
  bool done = !result;
  dp_client_set_status(status, result);
  return done;
}
