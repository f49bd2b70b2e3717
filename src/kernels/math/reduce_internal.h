/* What other families use of the reductions. */
#ifndef DP_KERNELS_REDUCE_INTERNAL_H
#define DP_KERNELS_REDUCE_INTERNAL_H

#include <stdint.h>
#include "tensor/dtype.h"

/* values[i] / n, in the dtype itself (integers truncate). Not for 16-bit floats. */
void dp_reduce_divide(dp_dtype dtype, void *values, int64_t count, int64_t n);

#endif
