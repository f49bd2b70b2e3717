/* The type of variants that hold a map of tensors (tensor_map.c), for the registry of types that
 * come from the wire. */
#ifndef DP_KERNELS_TENSOR_MAP_INTERNAL_H
#define DP_KERNELS_TENSOR_MAP_INTERNAL_H

#include "tensor/tensor.h"

extern const dp_variant_ops dp_tensor_map_ops; /* "tensorflow::TensorMap" */

#endif
