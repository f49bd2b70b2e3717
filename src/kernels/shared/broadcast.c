/* Makes the plans that broadcast.h describes. Dimensions are added from the outermost to the
 * innermost; a dimension is joined with the one before it when every operand walks both with one
 * stride. */
#include "kernels/shared/broadcast.h"

static int64_t size_at(const dp_shape *shape, int rank, int axis) {
  int own = axis - (rank - shape->rank);
  return own < 0 ? 1 : shape->dims[own];
}

static bool result_shape(const dp_shape *const *shapes, int count, dp_shape *result) {
  *result = *shapes[0];
  for (int i = 1; i < count; ++i) {
    dp_shape joined;
    if (!dp_shape_broadcast(result, shapes[i], &joined))
      return false;
    *result = joined;
  }
  return true;
}

/* Adds an innermost dimension, or joins it with the last one when every operand walks both with one
 * stride. */
static void add_dimension(dp_broadcast *plan, int64_t size, const int64_t *strides) {
  int last = plan->rank - 1;
  bool joins = plan->rank > 0;
  for (int i = 0; joins && i < plan->operand_count; ++i)
    joins = plan->strides[i][last] == strides[i] * size;
  if (!joins)
    last = plan->rank++;
  plan->dims[last] = joins ? plan->dims[last] * size : size;
  for (int i = 0; i < plan->operand_count; ++i)
    plan->strides[i][last] = strides[i];
}

bool dp_broadcast_plan(const dp_shape *const *shapes, int count, dp_broadcast *plan) {
  plan->rank = 0;
  plan->operand_count = count;
  if (!result_shape(shapes, count, &plan->shape))
    return false;
  int rank = plan->shape.rank;
  int64_t dense[DP_BROADCAST_MAX];
  for (int i = 0; i < count; ++i)
    dense[i] = shapes[i]->elements;
  for (int axis = 0; axis < rank; ++axis) {
    int64_t size = plan->shape.dims[axis], strides[DP_BROADCAST_MAX];
    if (size == 1)
      continue;
    for (int i = 0; i < count; ++i) {
      int64_t own = size_at(shapes[i], rank, axis);
      dense[i] = own > 0 ? dense[i] / own : 0;
      strides[i] = own == 1 ? 0 : dense[i];
    }
    add_dimension(plan, size, strides);
  }
  if (plan->rank == 0)
    add_dimension(plan, 1, (int64_t[DP_BROADCAST_MAX]){0});
  return true;
}

dp_broadcast_span dp_broadcast_span_of(const dp_broadcast *plan) {
  int last = plan->rank - 1;
  dp_broadcast_span span = {.inner = plan->dims[last], .outer = 1};
  if (last > 0)
    span.outer = plan->dims[last - 1];
  for (int i = 0; i < plan->operand_count; ++i) {
    span.inner_stride[i] = plan->strides[i][last];
    span.outer_stride[i] = last > 0 ? plan->strides[i][last - 1] : 0;
  }
  return span;
}

void dp_broadcast_offsets(const dp_broadcast *plan, int64_t index, int64_t *offsets) {
  for (int i = 0; i < plan->operand_count; ++i)
    offsets[i] = 0;
  for (int axis = plan->rank - 3; axis >= 0; --axis) {
    int64_t at = index % plan->dims[axis];
    index /= plan->dims[axis];
    for (int i = 0; i < plan->operand_count; ++i)
      offsets[i] += at * plan->strides[i][axis];
  }
}
