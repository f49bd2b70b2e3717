/* The dp_const* constructors of downpour.h: Const nodes from C values. Each fills a tensor, makes a
 * Const node, which keeps a copy, and deletes the tensor. Errors go to the scope. One thread at a
 * time per scope. */
#include "client/scope_internal.h"
#include "client/values.h"

TF_Output dp_const_tensor(dp_scope *scope, TF_Tensor *value) {
  if (!value) {
    dp_scope_fail(scope, TF_INVALID_ARGUMENT, "a constant needs a tensor");
    return (TF_Output){0};
  }
  return dp_const(scope, value, TF_TensorType(value));
}

/* Takes both: the tensor if there is no error. */
static TF_Output finish(dp_scope *scope, dp_status *status, TF_Tensor *tensor) {
  if (status) {
    dp_scope_note(scope, status);
    return (TF_Output){0};
  }
  TF_Output output = dp_const_tensor(scope, tensor);
  TF_DeleteTensor(tensor);
  return output;
}

#define CONSTANTS(name, dtype, type)                                                               \
  TF_Output dp_const_##name(dp_scope *scope, type value) {                                         \
    return dp_const_##name##s(scope, DP_SHAPE(), &value);                                          \
  }                                                                                                \
  TF_Output dp_const_##name##s(dp_scope *scope, dp_dims shape, const type *values) {               \
    TF_Tensor *tensor = NULL;                                                                      \
    dp_status *status = dp_client_tensor_make(dtype, shape, values, &tensor);                      \
    return finish(scope, status, tensor);                                                          \
  }
CONSTANTS(float, TF_FLOAT, float)
CONSTANTS(double, TF_DOUBLE, double)
CONSTANTS(int32, TF_INT32, int32_t)
CONSTANTS(int64, TF_INT64, int64_t)
CONSTANTS(uint8, TF_UINT8, uint8_t)
CONSTANTS(bool, TF_BOOL, bool)
#undef CONSTANTS

TF_Output dp_const_strings(dp_scope *scope, dp_dims shape, const char *const *values) {
  TF_Tensor *tensor = NULL;
  dp_status *status = dp_client_tensor_make_strings(shape, values, &tensor);
  return finish(scope, status, tensor);
}

TF_Output dp_const_string(dp_scope *scope, const char *value) {
  return dp_const_strings(scope, DP_SHAPE(), &value);
}

TF_Output dp_const_numbers(dp_scope *scope, TF_DataType dtype, dp_dims shape,
                           const double *values) {
  TF_Tensor *tensor = NULL;
  dp_status *status = dp_client_tensor_make_numbers(dtype, shape, values, &tensor);
  return finish(scope, status, tensor);
}

TF_Output dp_const_number(dp_scope *scope, TF_DataType dtype, double value) {
  return dp_const_numbers(scope, dtype, DP_SHAPE(), &value);
}

TF_Output dp_const_vector(dp_scope *scope, dp_ints values) {
  int32_t *narrow = DP_NEW_ARRAY(int32_t, values.count + 1);
  for (int i = 0; i < values.count; i++)
    narrow[i] = (int32_t)values.items[i];
  TF_Output output = dp_const_int32s(scope, DP_SHAPE(values.count), narrow);
  dp_free(narrow);
  return output;
}
