/* Combines runs of elements with elements in memory: assign, add, subtract, minimum, maximum. Used
 * by scatters, by gradients of ops that rearrange elements, and by sums of variants. Adding bools
 * is "or", adding strings is appending; half and bfloat16 are computed in float. */
#ifndef DP_KERNELS_SHARED_COMBINE_H
#define DP_KERNELS_SHARED_COMBINE_H

#include "kernels/loops/binary.h"
#include "kernels/shared/move.h"

typedef enum dp_combine_kind {
  DP_COMBINE_ASSIGN,
  DP_COMBINE_ADD,
  DP_COMBINE_SUBTRACT,
  DP_COMBINE_MINIMUM,
  DP_COMBINE_MAXIMUM,
} dp_combine_kind;

typedef struct dp_combine {
  dp_combine_kind kind;
  dp_dtype dtype;
  size_t size; /* bytes per element */
  dp_binary_fn fn;
} dp_combine;

/* UNIMPLEMENTED when the dtype does not support the operation. */
DP_MUST_USE dp_status *dp_combine_init(dp_combine *combine, dp_combine_kind kind, dp_dtype dtype);
/* to[i] = to[i] (op) from[i], on the calling thread. */
DP_MUST_USE dp_status *dp_combine_run(const dp_combine *combine, void *to, const void *from,
                                      int64_t count);

#endif
