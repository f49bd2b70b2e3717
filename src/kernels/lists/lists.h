/* The variant types of tensor lists and tensor maps. families.c registers them, so that values of
 * these types can be decoded from the wire. */
#ifndef DP_KERNELS_LISTS_LISTS_H
#define DP_KERNELS_LISTS_LISTS_H

#include "tensor/tensor.h"

extern const dp_variant_ops dp_list_ops;       /* "tensorflow::TensorList" */
extern const dp_variant_ops dp_tensor_map_ops; /* "tensorflow::TensorMap" */

#endif
