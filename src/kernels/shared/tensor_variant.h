/* A variant that holds a whole tensor, as TensorFlow's Variant does when a Tensor is put into it.
 * On the wire its type is "tensorflow::Tensor", and its list of tensors has exactly this one. */
#ifndef DP_KERNELS_SHARED_TENSOR_VARIANT_H
#define DP_KERNELS_SHARED_TENSOR_VARIANT_H

#include "tensor/tensor.h"

extern const dp_variant_ops dp_tensor_variant_ops;
/* Shares the tensor's memory. */
dp_variant *dp_tensor_variant_create(const dp_tensor *tensor);
/* The tensor inside, borrowed; NULL when the variant is NULL or something else. */
const dp_tensor *dp_tensor_variant_get(const dp_variant *variant);

#endif
