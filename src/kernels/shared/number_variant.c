/* Variants of one number (number_variant.h). The object is a malloc'd dp_number, which knows its
 * dtype; so only decoding needs a function per type. The metadata on the wire is the number's bytes
 * as the processor has them, and no tensors. */
#include "kernels/shared/number_variant.h"

#include <string.h>
#include "base/memory.h"
#include "tensor/tensor.h"

typedef struct dp_number {
  dp_dtype dtype;
  union {
    int32_t whole;
    float single;
    double precise;
    bool truth;
  } value;
} dp_number;

static dp_number *make(dp_dtype dtype) {
  dp_number *number = DP_NEW(dp_number);
  number->dtype = dtype;
  return number;
}

static void destroy(void *object) {
  dp_free(object);
}

static dp_status *encode(const void *object, dp_text *metadata, dp_tensor **tensors_out,
                         size_t *count_out) {
  const dp_number *number = object;
  dp_text_append(metadata, (const char *)&number->value, dp_dtype_size(number->dtype));
  *tensors_out = NULL;
  *count_out = 0;
  return NULL;
}

static dp_status *decode(dp_dtype dtype, dp_view metadata, void **object_out) {
  if (metadata.length != dp_dtype_size(dtype))
    return DP_INVALID("A variant that holds one %s has %zu bytes of metadata, not %zu",
                      dp_dtype_name(dtype), dp_dtype_size(dtype), metadata.length);
  dp_number *number = make(dtype);
  if (dtype == DP_BOOL) /* any byte may come; a bool is 0 or 1 */
    number->value.truth = metadata.data[0] != 0;
  else
    memcpy(&number->value, metadata.data, metadata.length);
  *object_out = number;
  return NULL;
}

static dp_status *zeros_like(const void *object, void **object_out) {
  *object_out = make(((const dp_number *)object)->dtype);
  return NULL;
}

static dp_status *add(const void *left, const void *right, void **object_out) {
  const dp_number *a = left, *b = right;
  dp_number *sum = make(a->dtype);
  switch (a->dtype) {
  case DP_INT32:
    sum->value.whole = (int32_t)((uint32_t)a->value.whole + (uint32_t)b->value.whole);
    break;
  case DP_FLOAT:
    sum->value.single = a->value.single + b->value.single;
    break;
  case DP_DOUBLE:
    sum->value.precise = a->value.precise + b->value.precise;
    break;
  default:
    sum->value.truth = a->value.truth || b->value.truth;
  }
  *object_out = sum;
  return NULL;
}

static void print(const void *object, dp_text *text) {
  const dp_number *number = object;
  switch (number->dtype) {
  case DP_INT32:
    dp_text_printf(text, "%d", number->value.whole);
    break;
  case DP_FLOAT:
    dp_text_printf(text, "%g", (double)number->value.single);
    break;
  case DP_DOUBLE:
    dp_text_printf(text, "%g", number->value.precise);
    break;
  default:
    dp_text_printf(text, "%d", number->value.truth);
  }
}

#define NUMBER_TYPE(name, dtype)                                                                   \
  static dp_status *decode_##name(dp_view metadata, const dp_tensor *tensors, size_t count,        \
                                  void **object_out) {                                             \
    return decode(dtype, metadata, object_out);                                                    \
  }                                                                                                \
  static const dp_variant_ops name##_ops = {.type_name = #name,                                    \
                                            .destroy = destroy,                                    \
                                            .encode = encode,                                      \
                                            .decode = decode_##name,                               \
                                            .zeros_like = zeros_like,                              \
                                            .add = add,                                            \
                                            .print = print};
NUMBER_TYPE(int, DP_INT32)
NUMBER_TYPE(float, DP_FLOAT)
NUMBER_TYPE(double, DP_DOUBLE)
NUMBER_TYPE(bool, DP_BOOL)
#undef NUMBER_TYPE

void dp_number_variants_register(void) {
  dp_variant_register(&int_ops);
  dp_variant_register(&float_ops);
  dp_variant_register(&double_ops);
  dp_variant_register(&bool_ops);
}
