/* A part of the reductions (reduce.c) that the segment ops use as well: a mean is a sum that is
 * divided at the end, with the same rounding. No state; any thread. */
#ifndef DP_KERNELS_MATH_REDUCE_INTERNAL_H
#define DP_KERNELS_MATH_REDUCE_INTERNAL_H

#include <stdint.h>
#include "tensor/dtype.h"

/* values[i] /= n in the dtype itself (integers truncate). Not for 16-bit floats. */
void dp_reduce_divide(dp_dtype dtype, void *values, int64_t count, int64_t n);

#endif
