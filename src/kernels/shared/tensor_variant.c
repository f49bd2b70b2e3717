/* The variant type of whole tensors (tensor_variant.h): its table of functions for destroying,
 * encoding, decoding, zeros and sums. The object is a malloc'd dp_tensor that the variant owns. */
#include "kernels/shared/tensor_variant.h"

#include "base/memory.h"
#include "kernels/shared/variant_math.h"

static void *box(dp_tensor *tensor) {
  dp_tensor *object = dp_malloc(sizeof *object);
  *object = dp_tensor_take(tensor);
  return object;
}

static void destroy(void *object) {
  dp_tensor_deinit(object);
  dp_free(object);
}

static dp_status *encode(const void *object, dp_text *metadata, dp_tensor **tensors_out,
                         size_t *count_out) {
  (void)metadata;
  dp_tensor *tensors = dp_malloc(sizeof *tensors);
  *tensors = dp_tensor_copy(object);
  *tensors_out = tensors;
  *count_out = 1;
  return NULL;
}

static dp_status *decode(dp_view metadata, const dp_tensor *tensors, size_t count,
                         void **object_out) {
  (void)metadata;
  if (count != 1)
    return DP_INVALID("A variant of type tensorflow::Tensor holds one tensor, not %zu", count);
  dp_tensor copy = dp_tensor_copy(tensors);
  *object_out = box(&copy);
  return NULL;
}

static dp_status *zeros_like(const void *object, void **object_out) {
  dp_tensor zeros;
  DP_RETURN_IF_ERROR(dp_tensor_zeros_like(object, &zeros));
  *object_out = box(&zeros);
  return NULL;
}

static dp_status *add(const void *a, const void *b, void **object_out) {
  dp_tensor sum;
  DP_RETURN_IF_ERROR(dp_tensor_add_or_copy(a, b, &sum));
  *object_out = box(&sum);
  return NULL;
}

const dp_variant_ops dp_tensor_variant_ops = {
    .type_name = "tensorflow::Tensor",
    .destroy = destroy,
    .encode = encode,
    .decode = decode,
    .zeros_like = zeros_like,
    .add = add,
};

dp_variant *dp_tensor_variant_create(const dp_tensor *tensor) {
  dp_tensor copy = dp_tensor_copy(tensor);
  return dp_variant_create(&dp_tensor_variant_ops, box(&copy));
}

const dp_tensor *dp_tensor_variant_get(const dp_variant *variant) {
  return variant && variant->ops == &dp_tensor_variant_ops ? variant->object : NULL;
}
