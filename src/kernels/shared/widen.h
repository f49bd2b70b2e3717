/* Whole tensors of 16-bit floats (and 8-bit integers) in the type that a kernel computes in, and
 * back. support.h has the same for blocks on the stack. Large tensors are converted on all threads
 * of the step's pool. */
#ifndef DP_KERNELS_SHARED_WIDEN_H
#define DP_KERNELS_SHARED_WIDEN_H

#include "kernels/shared/support.h"

/* The type in which a kernel without loops for 16-bit floats computes `dtype`. */
static inline dp_dtype dp_kernel_work_type(dp_dtype dtype) {
  return dp_kernel_is_short_float(dtype) ? DP_FLOAT : dtype;
}
/* The tensor's elements in the work type. If the tensor has that type, this is its own memory and
 * there is no buffer; otherwise the caller releases the buffer. */
DP_MUST_USE dp_status *dp_kernel_widen_tensor(dp_op_context *context, const dp_tensor *tensor,
                                              dp_dtype work, const void **data_out,
                                              dp_buffer **buffer_out);
/* Fills a tensor of 16-bit floats. */
void dp_kernel_narrow_tensor(dp_op_context *context, const float *from, dp_tensor *to);

#endif
