/* Ragged tensors as variants: creating, zeros and sums, encoding for the wire; and the check of row
 * splits. The contract is in ragged.h; the ops are in sparse/ragged_variant.c. */
#include "kernels/shared/ragged.h"

#include <string.h>
#include "base/memory.h"
#include "kernels/shared/variant_math.h"

dp_status *dp_ragged_check_splits(const dp_tensor *splits, int64_t rows_below) {
  if (splits->shape.rank != 1)
    return DP_INVALID("Invalid ragged splits: ragged splits must be rank 1 but is rank %d",
                      splits->shape.rank);
  int64_t count = splits->shape.elements;
  if (count < 1)
    return DP_INVALID("Invalid ragged splits: ragged splits must have at least one splits, but is "
                      "empty");
  if (dp_tensor_int_at(splits, 0) != 0)
    return DP_INVALID("Invalid ragged splits: first element of ragged splits  must be 0 but is "
                      "%lld",
                      (long long)dp_tensor_int_at(splits, 0));
  for (int64_t i = 1; i < count; ++i) {
    int64_t last = dp_tensor_int_at(splits, i - 1), next = dp_tensor_int_at(splits, i);
    if (next < last)
      return DP_INVALID("Invalid ragged splits: ragged splits must be monotonically increasing, "
                        "but ragged_splits[%lld]=%lld is smaller than row_splits[%lld]=%lld",
                        (long long)i, (long long)next, (long long)(i - 1), (long long)last);
  }
  int64_t end = dp_tensor_int_at(splits, count - 1);
  if (end != rows_below)
    return DP_INVALID("Invalid ragged splits: last element of ragged splits must be the number of "
                      "ragged values(%lld) but is %lld",
                      (long long)rows_below, (long long)end);
  return NULL;
}

/* ---- Life ---- */
dp_ragged *dp_ragged_create(int32_t ragged_rank) {
  dp_ragged *ragged = DP_NEW(dp_ragged);
  ragged->ragged_rank = ragged_rank;
  ragged->parts = dp_pieces_create(ragged_rank + 1);
  return ragged;
}

void dp_ragged_destroy(dp_ragged *ragged) {
  dp_pieces_destroy(ragged->parts, ragged->ragged_rank + 1);
  dp_free(ragged);
}

static void destroy_object(void *object) {
  dp_ragged_destroy(object);
}

const dp_ragged *dp_ragged_of_element(const dp_tensor *tensor, int64_t index) {
  const dp_variant *variant = dp_tensor_variants(tensor)[index];
  return variant && variant->ops == &dp_ragged_ops ? variant->object : NULL;
}

/* ---- Zeros and sums ---- */
/* A copy with the same splits and unset values. */
static dp_ragged *copy_splits(const dp_ragged *ragged) {
  dp_ragged *copy = dp_ragged_create(ragged->ragged_rank);
  for (int32_t i = 0; i < ragged->ragged_rank; ++i)
    copy->parts[i] = dp_tensor_copy(&ragged->parts[i]);
  return copy;
}

/* Gives the object to the caller, or destroys it when its values could not be made. */
static dp_status *finish(dp_ragged *ragged, dp_status *status, void **object_out) {
  if (status)
    dp_ragged_destroy(ragged);
  else
    *object_out = ragged;
  return status;
}

static dp_status *ragged_zeros(const void *object, void **object_out) {
  const dp_ragged *ragged = object;
  dp_ragged *zeros = copy_splits(ragged);
  dp_status *status = dp_tensor_zeros_like(dp_ragged_values(ragged), dp_ragged_values(zeros));
  return finish(zeros, status, object_out);
}

static bool same_splits(const dp_tensor *a, const dp_tensor *b) {
  return a->dtype == b->dtype && dp_shape_equal(&a->shape, &b->shape) &&
         memcmp(a->data, b->data, dp_tensor_bytes(a)) == 0;
}

static dp_status *ragged_add(const void *left, const void *right, void **object_out) {
  const dp_ragged *a = left, *b = right;
  if (dp_ragged_values(a)->dtype != dp_ragged_values(b)->dtype)
    return DP_INVALID("Can't add RaggedTensorVariants of different dtypes. One is %s and the other "
                      "is %s",
                      dp_dtype_name(dp_ragged_values(a)->dtype),
                      dp_dtype_name(dp_ragged_values(b)->dtype));
  if (a->ragged_rank != b->ragged_rank)
    return DP_INVALID("Can't add RaggedTensorVariants of different ragged rank. One is %d and the "
                      "other is %d",
                      a->ragged_rank, b->ragged_rank);
  for (int32_t i = 0; i < a->ragged_rank; ++i)
    if (!same_splits(&a->parts[i], &b->parts[i]))
      return DP_INVALID("Can't add RaggedTensorVariants with different row_splits.");
  dp_ragged *sum = copy_splits(a);
  dp_status *status =
      dp_tensor_add_or_copy(dp_ragged_values(a), dp_ragged_values(b), dp_ragged_values(sum));
  return finish(sum, status, object_out);
}

/* ---- On the wire ---- */
static dp_status *ragged_encode(const void *object, dp_text *metadata, dp_tensor **tensors_out,
                                size_t *count_out) {
  (void)metadata;
  const dp_ragged *ragged = object;
  size_t count = (size_t)ragged->ragged_rank + 1;
  dp_tensor *tensors = DP_NEW_ARRAY(dp_tensor, count);
  for (size_t i = 0; i < count; ++i)
    tensors[i] = dp_tensor_copy(&ragged->parts[i]);
  *tensors_out = tensors;
  *count_out = count;
  return NULL;
}

static bool is_split(const dp_tensor *tensor) {
  return tensor->dtype == DP_INT32 || tensor->dtype == DP_INT64;
}

static dp_status *ragged_decode(dp_view metadata, const dp_tensor *tensors, size_t count,
                                void **object_out) {
  (void)metadata;
  if (count < 1 || count > INT32_MAX)
    return DP_INVALID("a RaggedTensorVariant has no values");
  for (size_t i = 0; i + 1 < count; ++i)
    if (!is_split(&tensors[i]))
      return DP_INVALID("a RaggedTensorVariant has row splits of %s",
                        dp_dtype_name(tensors[i].dtype));
  dp_ragged *ragged = dp_ragged_create((int32_t)count - 1);
  for (size_t i = 0; i < count; ++i)
    ragged->parts[i] = dp_tensor_copy(&tensors[i]);
  *object_out = ragged;
  return NULL;
}

const dp_variant_ops dp_ragged_ops = {
    .type_name = "RaggedTensorVariant",
    .destroy = destroy_object,
    .encode = ragged_encode,
    .decode = ragged_decode,
    .zeros_like = ragged_zeros,
    .add = ragged_add,
};
