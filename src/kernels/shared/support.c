/* Helpers that every family uses: reading small integer tensors, axes, checks, 16-bit floats, loops
 * over cheap items. Error texts equal TensorFlow's where it has the same check. */
#include "kernels/shared/support.h"

#include <stdio.h>

dp_status *dp_kernel_read_ints(const dp_tensor *tensor, const char *name, int64_t capacity,
                               int64_t *values_out, int64_t *count_out) {
  if (!dp_dtype_is_integer(tensor->dtype))
    return DP_INVALID("%s must be an integer tensor, got %s", name, dp_dtype_name(tensor->dtype));
  int64_t count = dp_tensor_elements(tensor);
  if (count > capacity)
    return DP_INVALID("%s has %lld elements; at most %lld are supported", name, (long long)count,
                      (long long)capacity);
  for (int64_t i = 0; i < count; ++i)
    values_out[i] = dp_tensor_int_at(tensor, i);
  *count_out = count;
  return NULL;
}

static dp_status *expect_scalar(const dp_tensor *tensor, const char *name) {
  if (tensor->shape.rank != 0)
    return DP_INVALID("%s must be a scalar, got shape %s", name, dp_shape_text(&tensor->shape));
  return NULL;
}

static dp_status *expect_vector(const dp_tensor *tensor, const char *name) {
  if (tensor->shape.rank != 1)
    return DP_INVALID("%s must be a vector, got shape %s", name, dp_shape_text(&tensor->shape));
  return NULL;
}

dp_status *dp_kernel_read_int(const dp_tensor *tensor, const char *name, int64_t *value_out) {
  DP_RETURN_IF_ERROR(expect_scalar(tensor, name));
  if (!dp_dtype_is_integer(tensor->dtype))
    return DP_INVALID("%s must be an integer tensor, got %s", name, dp_dtype_name(tensor->dtype));
  *value_out = dp_tensor_int_at(tensor, 0);
  return NULL;
}

const char *dp_kernel_ints_text(const dp_tensor *ints, int64_t begin, int64_t count) {
  char *text = dp_shape_text_buffer();
  size_t length = 0;
  text[0] = 0;
  for (int64_t i = 0; i < count && i < DP_MAX_RANK && length < DP_SHAPE_TEXT_LENGTH; ++i)
    length += (size_t)snprintf(text + length, DP_SHAPE_TEXT_LENGTH - length, "%s%lld",
                               i ? ", " : "", (long long)dp_tensor_int_at(ints, begin + i));
  return text;
}

dp_status *dp_kernel_read_shape(const dp_tensor *tensor, const char *name, dp_shape *shape_out) {
  DP_RETURN_IF_ERROR(expect_vector(tensor, name));
  int64_t dims[DP_MAX_RANK], count;
  DP_RETURN_IF_ERROR(dp_kernel_read_ints(tensor, name, DP_MAX_RANK, dims, &count));
  for (int64_t i = 0; i < count; ++i)
    if (dims[i] < 0)
      return DP_INVALID("Dimension %lld must be >= 0", (long long)dims[i]);
  return dp_shape_make(count, dims, shape_out);
}

dp_status *dp_kernel_make_shape(const dp_tensor *sizes, dp_shape *shape_out) {
  if (sizes->shape.rank != 1)
    return DP_INVALID("shape must be a vector of {int32,int64}, got shape %s",
                      dp_shape_text(&sizes->shape));
  return dp_kernel_read_shape(sizes, "shape", shape_out);
}

dp_status *dp_kernel_read_axes(const dp_tensor *axes, int rank, uint32_t *bits_out) {
  uint32_t bits = 0;
  int64_t count = dp_tensor_elements(axes);
  for (int64_t i = 0; i < count; ++i) {
    int64_t value = dp_tensor_int_at(axes, i);
    int axis;
    if (!dp_kernel_normalize_axis(value, rank, &axis))
      return DP_INVALID("Invalid reduction dimension (%lld for input with %d dimension(s)",
                        (long long)value, rank);
    if (bits & (1u << axis))
      return DP_INVALID("Invalid reduction arguments: Axes contains duplicate dimension: %d", axis);
    bits |= 1u << axis;
  }
  *bits_out = bits;
  return NULL;
}

dp_status *dp_kernel_expect_same_size(const dp_op_context *context, int32_t slot) {
  const dp_shape *first = &dp_op_input(context, 0)->shape;
  const dp_shape *other = &dp_op_input(context, slot)->shape;
  if (!dp_shape_equal(first, other))
    return DP_INVALID("Inputs to operation %s of type %s must have the same size and shape.  Input "
                      "0: %s != input %d: %s",
                      context->node->name, context->node->op->name, dp_shape_text(first), slot,
                      dp_shape_text(other));
  return NULL;
}

dp_status *dp_kernel_type(const dp_kernel_setup *setup, const char *attr, dp_dtype *dtype_out) {
  return dp_node_get_type(setup->node, attr, dtype_out);
}

dp_status *dp_kernel_get_int32(const dp_node *node, const char *attr, int64_t *value_out) {
  DP_RETURN_IF_ERROR(dp_node_get_int(node, attr, value_out));
  if (*value_out < INT32_MIN || *value_out > INT32_MAX)
    return DP_INVALID("Attr %s has value %lld out of range for an int32", attr,
                      (long long)*value_out);
  return NULL;
}

void dp_kernel_widen(dp_dtype dtype, const uint16_t *from, float *to, int64_t count) {
  const dp_convert_loops *loops = dp_convert_table();
  (dtype == DP_HALF ? loops->half_to_float : loops->bfloat16_to_float)(from, to, count);
}

void dp_kernel_narrow(dp_dtype dtype, const float *from, uint16_t *to, int64_t count) {
  const dp_convert_loops *loops = dp_convert_table();
  (dtype == DP_HALF ? loops->half_from_float : loops->bfloat16_from_float)(from, to, count);
}

typedef struct block_work {
  int64_t count;
  dp_range_fn fn;
  void *arg;
} block_work;

static void run_blocks(void *arg, int64_t begin, int64_t end) {
  const block_work *work = arg;
  int64_t last = end * DP_KERNEL_BLOCK;
  work->fn(work->arg, begin * DP_KERNEL_BLOCK, last < work->count ? last : work->count);
}

void dp_kernel_for(dp_op_context *context, int64_t count, int64_t picoseconds, dp_range_fn fn,
                   void *arg) {
  const int64_t worthwhile = 20 * 1000 * 1000; /* 20 us: waking another thread takes about 5 us */
  if (count * picoseconds < worthwhile) {
    if (count > 0)
      fn(arg, 0, count);
    return;
  }
  block_work work = {count, fn, arg};
  dp_op_for(context, (count + DP_KERNEL_BLOCK - 1) / DP_KERNEL_BLOCK,
            picoseconds * DP_KERNEL_BLOCK / 1000 + 1, run_blocks, &work);
}
