/* Optionals: variants that hold an element (a tuple of tensors) or nothing. The iterator ops make
 * them at the end of a walk instead of an error. An optional is immutable and owns its tensors. */
#include "kernels/data/dataset_internal.h"
#include "kernels/data/optional_internal.h"
#include "kernels/shared/family.h"
#include "kernels/shared/variant_math.h"

typedef struct optional {
  bool has_value;
  int32_t count;
  dp_tensor *element;
} optional;

static void optional_destroy(void *object) {
  optional *optional = object;
  dp_element_destroy(optional->element, optional->count);
  dp_free(optional);
}

/* An optional with `count` unset tensors, or, with has_value false, without a value. */
static optional *optional_create(bool has_value, int32_t count) {
  optional *optional = DP_NEW(struct optional);
  *optional = (struct optional){.has_value = has_value};
  if (has_value) {
    optional->count = count;
    optional->element = dp_element_create(count);
  }
  return optional;
}

/* ---- Zeros and sums: what gradients of conditionals need ---- */
static dp_status *optional_zeros(const void *object, void **object_out) {
  const optional *source = object;
  optional *zeros = optional_create(source->has_value, source->count);
  for (int32_t i = 0; i < source->count; ++i) {
    dp_status *status = dp_tensor_zeros_like(&source->element[i], &zeros->element[i]);
    if (status) {
      optional_destroy(zeros);
      return status;
    }
  }
  *object_out = zeros;
  return NULL;
}

static dp_status *optional_add(const void *left, const void *right, void **object_out) {
  const optional *a = left, *b = right;
  if (a->has_value != b->has_value)
    return DP_INVALID("Cannot add optionals because one has a value and the other doesn't.");
  if (a->count != b->count)
    return DP_INVALID("Cannot add optionals because they have different numbers of components: %d "
                      "and %d.",
                      a->count, b->count);
  optional *sum = optional_create(a->has_value, a->count);
  for (int32_t i = 0; i < a->count; ++i) {
    dp_status *status = dp_tensor_add_or_copy(&a->element[i], &b->element[i], &sum->element[i]);
    if (status) {
      optional_destroy(sum);
      return status;
    }
  }
  *object_out = sum;
  return NULL;
}

static const dp_variant_ops optional_ops = {.type_name = "tensorflow::data::Optional",
                                            .destroy = optional_destroy,
                                            .zeros_like = optional_zeros,
                                            .add = optional_add};

dp_status *dp_optional_create(dp_tensor *element, int32_t count, dp_tensor *tensor_out) {
  dp_shape shape = dp_shape_scalar();
  DP_RETURN_IF_ERROR(dp_tensor_create(DP_VARIANT, &shape, tensor_out));
  optional *optional = optional_create(element != NULL, count);
  for (int32_t i = 0; i < optional->count; ++i)
    optional->element[i] = dp_tensor_take(&element[i]);
  dp_tensor_variants(tensor_out)[0] = dp_variant_create(&optional_ops, optional);
  return NULL;
}

static dp_status *find_optional(dp_op_context *context, const char *op, optional **optional_out) {
  const dp_tensor *tensor = dp_op_input(context, 0);
  if (tensor->shape.rank != 0)
    return DP_INVALID("Input to %s must be a scalar tensor containing an OptionalVariant object.",
                      op);
  dp_variant *variant = dp_tensor_variants(tensor)[0];
  if (!variant || variant->ops != &optional_ops)
    return DP_INVALID("Input to %s must be an OptionalVariant object.", op);
  *optional_out = variant->object;
  return NULL;
}

static dp_status *none_compute(dp_op_context *context, void *state) {
  dp_tensor tensor;
  DP_RETURN_IF_ERROR(dp_optional_create(NULL, 0, &tensor));
  dp_op_set_output(context, 0, &tensor);
  return NULL;
}

static dp_status *from_value_compute(dp_op_context *context, void *state) {
  dp_tensor *element = dp_element_create(context->input_count), tensor;
  for (int32_t i = 0; i < context->input_count; ++i)
    element[i] = dp_tensor_copy(dp_op_input(context, i));
  dp_status *status = dp_optional_create(element, context->input_count, &tensor);
  dp_element_destroy(element, context->input_count);
  if (!status)
    dp_op_set_output(context, 0, &tensor);
  return status;
}

static dp_status *has_value_compute(dp_op_context *context, void *state) {
  optional *optional;
  DP_RETURN_IF_ERROR(find_optional(context, "OptionalHasValue", &optional));
  return dp_op_output_bool(context, 0, optional->has_value);
}

static dp_status *get_value_compute(dp_op_context *context, void *state) {
  optional *optional;
  DP_RETURN_IF_ERROR(find_optional(context, "OptionalGetValue", &optional));
  if (!optional->has_value)
    return DP_INVALID("The given optional does not have a value.");
  const dp_attr *shapes;
  DP_RETURN_IF_ERROR(dp_node_get_list(context->node, "output_shapes", DP_ATTR_LIST_SHAPE, &shapes));
  if (optional->count != context->output_count)
    return DP_INVALID("The given optional has %d components, expected %d", optional->count,
                      context->output_count);
  for (int32_t i = 0; i < optional->count; ++i) {
    const dp_tensor *tensor = &optional->element[i];
    if (tensor->dtype != dp_op_output_type(context, i))
      return DP_INVALID("The given optional does not match the expected type for component %d. "
                        "Expected: %s. Actual: %s.",
                        i, dp_dtype_name(dp_op_output_type(context, i)),
                        dp_dtype_name(tensor->dtype));
    if (i < shapes->count && !dp_partial_shape_accepts(&shapes->shapes[i], &tensor->shape))
      return DP_INVALID("The given optional does not match the expected shape for component %d. "
                        "Expected: %s. Actual: %s.",
                        i, dp_partial_shape_text(&shapes->shapes[i]),
                        dp_shape_text(&tensor->shape));
    dp_tensor copy = dp_tensor_copy(tensor);
    dp_op_set_output(context, i, &copy);
  }
  return NULL;
}

static const dp_kernel rows[] = {
    {.op = "OptionalNone", .flags = DP_KERNEL_CHEAP, .compute = none_compute},
    {.op = "OptionalFromValue", .flags = DP_KERNEL_CHEAP, .compute = from_value_compute},
    {.op = "OptionalHasValue", .flags = DP_KERNEL_CHEAP, .compute = has_value_compute},
    {.op = "OptionalGetValue", .flags = DP_KERNEL_CHEAP, .compute = get_value_compute},
};
DP_KERNEL_FAMILY(optional, rows);
