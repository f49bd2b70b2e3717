/* What families with a product inside share: operands of 16-bit floats (and 8-bit integers) as
 * whole arrays of a type that gemm takes. */
#ifndef DP_KERNELS_MATMUL_INTERNAL_H
#define DP_KERNELS_MATMUL_INTERNAL_H

#include "kernels/products/gemm.h"
#include "kernels/shared/support.h"

/* The type a product of this dtype is computed in. */
static inline dp_dtype dp_gemm_work_type(dp_dtype dtype) {
  return dp_kernel_is_short_float(dtype) ? DP_FLOAT : dtype;
}
/* The tensor's elements in the work type: its own memory (no buffer) when it has that type. The
 * caller releases the buffer. */
DP_MUST_USE dp_status *dp_gemm_widen(dp_op_context *context, const dp_tensor *tensor, dp_dtype work,
                                     const void **data_out, dp_buffer **buffer_out);
/* Which matrix of an operand's batch belongs to matrix `index` of the broadcast batch `result`. */
int64_t dp_gemm_operand(const dp_shape *operand, const dp_shape *result, int64_t index);
/* Fills a tensor of 16-bit floats. */
void dp_gemm_narrow(dp_op_context *context, const float *from, dp_tensor *to);

/* The product of two matrices, with all but its data; whether the inner dimensions agree is the
 * caller's to ask. */
static inline dp_gemm dp_gemm_of(dp_dtype work, const dp_shape *a, bool transpose_a,
                                 const dp_shape *b, bool transpose_b) {
  return (dp_gemm){.dtype = work,
                   .m = a->dims[transpose_a],
                   .k = a->dims[!transpose_a],
                   .n = b->dims[!transpose_b],
                   .a_stride = a->dims[1],
                   .b_stride = b->dims[1],
                   .c_stride = b->dims[!transpose_b],
                   .transpose_a = transpose_a,
                   .transpose_b = transpose_b};
}

#endif
