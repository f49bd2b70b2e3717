/* Broadcasting: how several operands of different shapes are walked to fill one result.
 *
 * A plan drops dimensions of size 1 and joins neighbouring dimensions that every operand walks with
 * one stride. So equal shapes become one dimension, and a bias added to rows becomes two. A stride
 * is 0 where an operand is repeated. The result is always dense. Kernels pass the two innermost
 * dimensions, a span, to a loop; dp_broadcast_offsets gives the start of each span. */
#ifndef DP_KERNELS_SHARED_BROADCAST_H
#define DP_KERNELS_SHARED_BROADCAST_H

#include "tensor/tensor.h"

#define DP_BROADCAST_MAX 3

typedef struct dp_broadcast {
  dp_shape shape; /* of the result */
  int32_t rank;   /* joined dimensions, at least 1; the last is the innermost */
  int32_t operand_count;
  int64_t dims[DP_MAX_RANK];
  int64_t strides[DP_BROADCAST_MAX][DP_MAX_RANK]; /* in elements of the operand */
} dp_broadcast;

/* False when the shapes do not fit together. */
bool dp_broadcast_plan(const dp_shape *const *shapes, int count, dp_broadcast *plan_out);

/* The two innermost dimensions of a plan. For a plan of one dimension `outer` is 1. Inner strides
 * are 0 or 1. */
typedef struct dp_broadcast_span {
  int64_t inner, outer;
  int64_t inner_stride[DP_BROADCAST_MAX];
  int64_t outer_stride[DP_BROADCAST_MAX];
} dp_broadcast_span;
dp_broadcast_span dp_broadcast_span_of(const dp_broadcast *plan);

/* The offset of span `index` in each operand, in elements. In the result it is index * inner *
 * outer. */
void dp_broadcast_offsets(const dp_broadcast *plan, int64_t index, int64_t *offsets_out);

#endif
