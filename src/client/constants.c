/* Constants from C values. The tensor is filled and given to a Const node, which keeps a copy. */
#include <string.h>

#include "client/scope_internal.h"

TF_Output dp_const_tensor(dp_scope *scope, TF_Tensor *value) {
  if (!value) {
    dp_scope_fail(scope, TF_INVALID_ARGUMENT, "a constant needs a tensor");
    return (TF_Output){0};
  }
  return dp_const(scope, value, TF_TensorType(value));
}

/* NULL when the shape cannot be or its memory not be had. */
static TF_Tensor *allocate(dp_scope *scope, TF_DataType dtype, dp_dims shape) {
  dp_shape checked;
  dp_status *status = dp_shape_make(shape.count, shape.items, &checked);
  TF_Tensor *tensor =
      status ? NULL
             : TF_AllocateTensor(dtype, shape.items, shape.count,
                                 (size_t)checked.elements * dp_dtype_size((dp_dtype)dtype));
  if (!tensor)
    dp_scope_note(scope, status ? status : dp_status_out_of_memory());
  return tensor;
}

static TF_Output constant(dp_scope *scope, TF_DataType dtype, dp_dims shape, const void *values) {
  TF_Tensor *tensor = dp_scope_ok(scope) ? allocate(scope, dtype, shape) : NULL;
  if (!tensor)
    return (TF_Output){0};
  size_t size = (size_t)TF_TensorElementCount(tensor) * TF_DataTypeSize(dtype);
  if (size)
    memcpy(TF_TensorData(tensor), values, size);
  TF_Output output = dp_const_tensor(scope, tensor);
  TF_DeleteTensor(tensor);
  return output;
}

TF_Output dp_const_float(dp_scope *scope, float value) {
  return constant(scope, TF_FLOAT, DP_SHAPE(), &value);
}

TF_Output dp_const_double(dp_scope *scope, double value) {
  return constant(scope, TF_DOUBLE, DP_SHAPE(), &value);
}

TF_Output dp_const_int32(dp_scope *scope, int32_t value) {
  return constant(scope, TF_INT32, DP_SHAPE(), &value);
}

TF_Output dp_const_int64(dp_scope *scope, int64_t value) {
  return constant(scope, TF_INT64, DP_SHAPE(), &value);
}

TF_Output dp_const_bool(dp_scope *scope, bool value) {
  return constant(scope, TF_BOOL, DP_SHAPE(), &value);
}

TF_Output dp_const_floats(dp_scope *scope, dp_dims shape, const float *values) {
  return constant(scope, TF_FLOAT, shape, values);
}

TF_Output dp_const_doubles(dp_scope *scope, dp_dims shape, const double *values) {
  return constant(scope, TF_DOUBLE, shape, values);
}

TF_Output dp_const_int32s(dp_scope *scope, dp_dims shape, const int32_t *values) {
  return constant(scope, TF_INT32, shape, values);
}

TF_Output dp_const_int64s(dp_scope *scope, dp_dims shape, const int64_t *values) {
  return constant(scope, TF_INT64, shape, values);
}

TF_Output dp_const_strings(dp_scope *scope, dp_dims shape, const char *const *values) {
  TF_Tensor *tensor = dp_scope_ok(scope) ? allocate(scope, TF_STRING, shape) : NULL;
  if (!tensor)
    return (TF_Output){0};
  TF_TString *strings = TF_TensorData(tensor);
  for (int64_t i = 0; i < TF_TensorElementCount(tensor); i++)
    TF_StringCopy(&strings[i], values[i], strlen(values[i]));
  TF_Output output = dp_const_tensor(scope, tensor);
  for (int64_t i = 0; i < TF_TensorElementCount(tensor); i++)
    TF_StringDealloc(&strings[i]);
  TF_DeleteTensor(tensor);
  return output;
}

TF_Output dp_const_string(dp_scope *scope, const char *value) {
  return dp_const_strings(scope, DP_SHAPE(), &value);
}

static dp_status *fill_number(dp_tensor *tensor, double value) {
  void *data = tensor->data;
  switch (tensor->dtype) {
#define CASE(dtype, type)                                                                          \
  case DP_##dtype:                                                                                 \
    *(type *)data = (type)value;                                                                   \
    return NULL;
    CASE(FLOAT, float)
    CASE(DOUBLE, double)
    CASE(INT8, int8_t)
    CASE(INT16, int16_t)
    CASE(INT32, int32_t)
    CASE(INT64, int64_t)
    CASE(UINT8, uint8_t)
    CASE(UINT16, uint16_t)
    CASE(UINT32, uint32_t)
    CASE(UINT64, uint64_t)
    CASE(COMPLEX64, float _Complex)
    CASE(COMPLEX128, double _Complex)
#undef CASE
  case DP_HALF:
    *(uint16_t *)data = dp_half_from_float((float)value);
    return NULL;
  case DP_BFLOAT16:
    *(uint16_t *)data = dp_bfloat16_from_float((float)value);
    return NULL;
  default:
    return DP_INVALID("%s is no type of numbers", dp_dtype_name((int)tensor->dtype));
  }
}

TF_Output dp_const_number(dp_scope *scope, TF_DataType dtype, double value) {
  TF_Tensor *tensor = dp_scope_ok(scope) ? allocate(scope, dtype, DP_SHAPE()) : NULL;
  if (!tensor)
    return (TF_Output){0};
  dp_status *status = fill_number(&tensor->tensor, value);
  TF_Output output = status ? (TF_Output){0} : dp_const_tensor(scope, tensor);
  TF_DeleteTensor(tensor);
  if (status)
    dp_scope_note(scope, status);
  return output;
}

TF_Output dp_const_vector(dp_scope *scope, dp_ints values) {
  int32_t *narrow = DP_NEW_ARRAY(int32_t, values.count + 1);
  for (int i = 0; i < values.count; i++)
    narrow[i] = (int32_t)values.items[i];
  TF_Output output = dp_const_int32s(scope, DP_SHAPE(values.count), narrow);
  dp_free(narrow);
  return output;
}
