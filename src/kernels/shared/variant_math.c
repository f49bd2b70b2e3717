/* Zeros and sums of tensors, element by element for variants: each variant type brings its own
 * functions. Error texts are TensorFlow's. */
#include "kernels/shared/variant_math.h"

#include "kernels/shared/combine.h"

static dp_status *zero_variant(const dp_variant *variant, dp_variant **zero_out) {
  if (!variant || !variant->ops->zeros_like)
    return DP_INVALID("No unary variant unary_op function found for op ZEROS_LIKE and type %s",
                      variant ? variant->ops->type_name : "(none)");
  void *object;
  DP_RETURN_IF_ERROR(variant->ops->zeros_like(variant->object, &object));
  *zero_out = dp_variant_create(variant->ops, object);
  return NULL;
}

dp_status *dp_tensor_zeros_like(const dp_tensor *tensor, dp_tensor *zeros_out) {
  if (tensor->dtype != DP_VARIANT)
    return dp_tensor_create_zero(tensor->dtype, &tensor->shape, zeros_out);
  dp_tensor zeros;
  DP_RETURN_IF_ERROR(dp_tensor_create(DP_VARIANT, &tensor->shape, &zeros));
  dp_status *status = NULL;
  for (int64_t i = 0; i < tensor->shape.elements && !status; ++i)
    status = zero_variant(dp_tensor_variants(tensor)[i], &dp_tensor_variants(&zeros)[i]);
  if (status)
    dp_tensor_deinit(&zeros);
  else
    *zeros_out = zeros;
  return status;
}

static dp_status *add_variant(const dp_variant *a, const dp_variant *b, dp_variant **sum_out) {
  if (!a || !b || a->ops != b->ops || !a->ops->add)
    return DP_INVALID("No unary variant binary_op function found for op ADD and types %s and %s",
                      a ? a->ops->type_name : "(none)", b ? b->ops->type_name : "(none)");
  void *object;
  DP_RETURN_IF_ERROR(a->ops->add(a->object, b->object, &object));
  *sum_out = dp_variant_create(a->ops, object);
  return NULL;
}

static dp_status *add_variants(const dp_tensor *a, const dp_tensor *b, dp_tensor *sum_out) {
  DP_RETURN_IF_ERROR(dp_tensor_create(DP_VARIANT, &a->shape, sum_out));
  for (int64_t i = 0; i < a->shape.elements; ++i)
    DP_RETURN_IF_ERROR(add_variant(dp_tensor_variants(a)[i], dp_tensor_variants(b)[i],
                                   &dp_tensor_variants(sum_out)[i]));
  return NULL;
}

static dp_status *add_numbers(const dp_tensor *a, const dp_tensor *b, dp_tensor *sum_out) {
  dp_combine combine;
  DP_RETURN_IF_ERROR(dp_combine_init(&combine, DP_COMBINE_ADD, a->dtype));
  DP_RETURN_IF_ERROR(dp_tensor_clone(a, sum_out));
  return dp_combine_run(&combine, sum_out->data, b->data, b->shape.elements);
}

dp_status *dp_tensor_add_or_copy(const dp_tensor *a, const dp_tensor *b, dp_tensor *sum_out) {
  if (!a || !b) {
    *sum_out = dp_tensor_copy(a ? a : b);
    return NULL;
  }
  if (a->dtype != b->dtype || !dp_shape_equal(&a->shape, &b->shape))
    return DP_INVALID("Cannot add tensors with different types or shapes: %s%s and %s%s",
                      dp_dtype_name(a->dtype), dp_shape_text(&a->shape), dp_dtype_name(b->dtype),
                      dp_shape_text(&b->shape));
  dp_tensor sum = {0};
  dp_status *status = a->dtype == DP_VARIANT ? add_variants(a, b, &sum) : add_numbers(a, b, &sum);
  if (status)
    dp_tensor_deinit(&sum);
  else
    *sum_out = sum;
  return status;
}
