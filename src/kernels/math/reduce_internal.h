/* What other files of this room (segment.c, segment_sparse.c) use of the reductions in reduce.c. */
#ifndef DP_KERNELS_MATH_REDUCE_INTERNAL_H
#define DP_KERNELS_MATH_REDUCE_INTERNAL_H

#include <stdint.h>
#include "tensor/dtype.h"

/* values[i] /= n in the dtype itself (integers truncate). Not for 16-bit floats. */
void dp_reduce_divide(dp_dtype dtype, void *values, int64_t count, int64_t n);

#endif
