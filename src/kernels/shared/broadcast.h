/* Broadcasting: how several operands of different shapes are walked to fill one result.
 *
 * A plan joins neighbouring dimensions that all operands walk alike and drops those of size 1, so
 * that equal shapes become one dimension, a bias added to rows becomes two, and so on. A stride is
 * 0 where an operand is repeated. The result is always dense. Kernels give the two innermost
 * dimensions, a span, to a loop; dp_broadcast_offsets says where each span begins. */
#ifndef DP_KERNELS_BROADCAST_INTERNAL_H
#define DP_KERNELS_BROADCAST_INTERNAL_H

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

/* The innermost two dimensions of a plan. With a plan of one dimension `outer` is 1. An inner
 * stride is 0 or 1. */
typedef struct dp_broadcast_span {
  int64_t inner, outer;
  int64_t inner_stride[DP_BROADCAST_MAX];
  int64_t outer_stride[DP_BROADCAST_MAX];
} dp_broadcast_span;
dp_broadcast_span dp_broadcast_span_of(const dp_broadcast *plan);

/* The operands' offsets (in elements) of the index-th span; the result's is index * inner * outer.
 */
void dp_broadcast_offsets(const dp_broadcast *plan, int64_t index, int64_t *offsets_out);

#endif
