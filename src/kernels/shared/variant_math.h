/* Zeros and sums of whole tensors, also of tensors of variants. Variant types that contain tensors
 * (lists, optionals) use them for their own zeros and sums. */
#ifndef DP_KERNELS_SHARED_VARIANT_MATH_H
#define DP_KERNELS_SHARED_VARIANT_MATH_H

#include "tensor/tensor.h"

DP_MUST_USE dp_status *dp_tensor_zeros_like(const dp_tensor *tensor, dp_tensor *zeros_out);
/* a + b, where NULL stands for zero; at most one of the two is NULL. */
DP_MUST_USE dp_status *dp_tensor_add_or_copy(const dp_tensor *a, const dp_tensor *b,
                                             dp_tensor *sum_out);

#endif
