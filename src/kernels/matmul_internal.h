/* What families with a product inside share: operands of 16-bit floats (and 8-bit integers) as
 * whole arrays of a type that gemm takes. */
#ifndef DP_KERNELS_MATMUL_INTERNAL_H
#define DP_KERNELS_MATMUL_INTERNAL_H

#include "kernels/support_internal.h"

/* The type a product of this dtype is computed in. */
static inline dp_dtype dp_gemm_work_type(dp_dtype dtype) {
  return dp_kernel_is_short_float(dtype) ? DP_FLOAT : dtype;
}
/* The tensor's elements in the work type: its own memory (no buffer) when it has that type. The
 * caller releases the buffer. */
DP_MUST_USE dp_status *dp_gemm_widen(dp_op_context *context, const dp_tensor *tensor, dp_dtype work,
                                     const void **data_out, dp_buffer **buffer_out);
/* Fills a tensor of 16-bit floats. */
void dp_gemm_narrow(dp_op_context *context, const float *from, dp_tensor *to);

#endif
