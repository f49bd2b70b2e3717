/* Resolves strided slices: begin, end, strides and five masks become begin, stride and count per
 * dimension (slice_internal.h). First the sparse entries are expanded to one entry per dimension,
 * then each entry is clamped to the dimension's size. */
#include "kernels/array/slice_internal.h"

dp_status *dp_slice_create(const dp_kernel_setup *setup, void *memory) {
  dp_slice_masks *masks = memory;
  int64_t value;
  DP_RETURN_IF_ERROR(dp_node_get_int(setup->node, "begin_mask", &value));
  masks->begin = (uint32_t)value;
  DP_RETURN_IF_ERROR(dp_node_get_int(setup->node, "end_mask", &value));
  masks->end = (uint32_t)value;
  DP_RETURN_IF_ERROR(dp_node_get_int(setup->node, "ellipsis_mask", &value));
  masks->ellipsis = (uint32_t)value;
  DP_RETURN_IF_ERROR(dp_node_get_int(setup->node, "new_axis_mask", &value));
  masks->new_axis = (uint32_t)value;
  DP_RETURN_IF_ERROR(dp_node_get_int(setup->node, "shrink_axis_mask", &value));
  masks->shrink_axis = (uint32_t)value;
  return NULL;
}

/* One entry per dimension of the tensor, with the ellipsis expanded. */
typedef struct dense {
  int64_t begin[DP_MAX_RANK], end[DP_MAX_RANK], stride[DP_MAX_RANK];
  uint32_t begin_mask, end_mask, shrink_mask;
  /* Where dimensions of the result come from: a dimension, or NEW_AXIS. */
  int sources[2 * DP_MAX_RANK + 32];
  int source_count;
} dense;
#define NEW_AXIS (-1)

static dp_status *check_vectors(const dp_tensor *begin, const dp_tensor *end,
                                const dp_tensor *strides) {
  int64_t count = dp_tensor_elements(strides);
  if (begin->shape.rank == 1 && end->shape.rank == 1 && strides->shape.rank == 1 &&
      dp_tensor_elements(begin) == count && dp_tensor_elements(end) == count && count < 32)
    return NULL;
  return DP_INVALID("Expected begin, end, and strides to be 1D equal size tensors, but got shapes "
                    "%s, %s, and %s instead.",
                    dp_shape_text(&begin->shape), dp_shape_text(&end->shape),
                    dp_shape_text(&strides->shape));
}

/* The number of new axes after the ellipsis. */
static int new_axes_after_ellipsis(const dp_slice_masks *masks, int count) {
  int after = 0;
  bool seen = false;
  for (int i = 0; i < count; ++i) {
    after += seen && (masks->new_axis >> i & 1);
    seen |= masks->ellipsis >> i & 1;
  }
  return after;
}

static void take_whole(dense *dense, int dimension) {
  dense->begin[dimension] = dense->end[dimension] = 0;
  dense->stride[dimension] = 1;
  dense->begin_mask |= 1u << dimension;
  dense->end_mask |= 1u << dimension;
  dense->sources[dense->source_count++] = dimension;
}

static dp_status *spread(const dp_slice_masks *masks, int rank, const dp_tensor *begin,
                         const dp_tensor *end, const dp_tensor *strides, dense *dense) {
  int count = (int)dp_tensor_elements(strides), dimension = 0;
  int after = new_axes_after_ellipsis(masks, count);
  uint32_t ellipsis = masks->ellipsis & ((1u << count) - 1);
  int entries = count + (ellipsis == 0); /* without an ellipsis, one is implied at the end */
  if (ellipsis == 0)
    ellipsis = 1u << count;
  *dense = (struct dense){0};
  for (int i = 0; i < entries; ++i) {
    if (ellipsis >> i & 1) {
      int next = rank - (entries - i) + 1 + after;
      for (next = next < rank ? next : rank; dimension < next; ++dimension)
        take_whole(dense, dimension);
    } else if (masks->new_axis >> i & 1) {
      dense->sources[dense->source_count++] = NEW_AXIS;
    } else {
      if (dimension == rank)
        return DP_INVALID("Index out of range using input dim %d; input has only %d dims",
                          dimension, rank);
      dense->begin[dimension] = dp_tensor_int_at(begin, i);
      dense->end[dimension] = dp_tensor_int_at(end, i);
      dense->stride[dimension] = dp_tensor_int_at(strides, i);
      dense->begin_mask |= (masks->begin >> i & 1) << dimension;
      dense->end_mask |= (masks->end >> i & 1) << dimension;
      if (masks->shrink_axis >> i & 1)
        dense->shrink_mask |= 1u << dimension;
      else
        dense->sources[dense->source_count++] = dimension;
      ++dimension;
    }
  }
  return NULL;
}

/* Clamps a bound; `low` and `high` are the smallest and largest valid values. */
static int64_t clamp_bound(int64_t value, int64_t size, int64_t low, int64_t high) {
  if (value < 0)
    value += size;
  return value < low ? low : value > high ? high : value;
}

static dp_status *plan_dimension(const dense *dense, int i, int64_t size, dp_slice_bounds *slice) {
  int64_t stride = dense->stride[i], begin = dense->begin[i], end = dense->end[i];
  if (stride == 0)
    return DP_INVALID("strides[%d] must be non-zero", i);
  if (dense->shrink_mask >> i & 1) {
    if (stride < 0)
      return DP_INVALID("only stride 1 allowed on non-range indexing.");
    int64_t index = begin < 0 ? begin + size : begin;
    if (index < 0 || index >= size)
      return DP_INVALID("slice index %lld of dimension %d out of bounds.", (long long)index, i);
    begin = index;
    end = index + 1;
  } else {
    int64_t low = stride > 0 ? 0 : -1, high = stride > 0 ? size : size - 1;
    begin = dense->begin_mask >> i & 1 ? (stride > 0 ? low : high)
                                       : clamp_bound(begin, size, low, high);
    end = dense->end_mask >> i & 1 ? (stride > 0 ? high : low) : clamp_bound(end, size, low, high);
  }
  int64_t length = end - begin, count = 0;
  if (length != 0 && (length < 0) == (stride < 0))
    count = length / stride + (length % stride != 0);
  slice->begin[i] = begin;
  slice->stride[i] = count > 1 ? stride : 1; /* a stride that is never used may be huge */
  slice->size[i] = count;
  bool whole = stride == 1 && begin == 0 && end == size;
  slice->is_identity &= whole;
  slice->is_first_only &= whole || (i == 0 && stride == 1);
  slice->elements *= count;
  return NULL;
}

dp_status *dp_slice_plan(const dp_slice_masks *masks, const dp_shape *shape, const dp_tensor *begin,
                         const dp_tensor *end, const dp_tensor *strides, dp_slice_bounds *slice) {
  DP_RETURN_IF_ERROR(check_vectors(begin, end, strides));
  if (masks->ellipsis & (masks->ellipsis - 1))
    return DP_INVALID("Multiple ellipses in slice spec not allowed");
  dense dense;
  DP_RETURN_IF_ERROR(spread(masks, shape->rank, begin, end, strides, &dense));
  slice->rank = shape->rank;
  slice->is_identity = slice->is_first_only = true;
  slice->elements = 1;
  for (int i = 0; i < shape->rank; ++i)
    DP_RETURN_IF_ERROR(plan_dimension(&dense, i, shape->dims[i], slice));
  if (dense.source_count > DP_MAX_RANK)
    return DP_INVALID("the slice has %d dimensions; at most %d are supported", dense.source_count,
                      DP_MAX_RANK);
  slice->result.rank = dense.source_count;
  slice->result.elements = slice->elements;
  for (int i = 0; i < dense.source_count; ++i)
    slice->result.dims[i] = dense.sources[i] == NEW_AXIS ? 1 : slice->size[dense.sources[i]];
  return NULL;
}
