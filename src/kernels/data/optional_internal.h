/* Optionals as values: the constructor, for the iterator op that returns one. The ops are in
 * optional.c. */
#ifndef DP_KERNELS_DATA_OPTIONAL_INTERNAL_H
#define DP_KERNELS_DATA_OPTIONAL_INTERNAL_H

#include "tensor/tensor.h"

/* Makes an optional: a variant that holds an element or nothing. Consumes the tensors of `element`,
 * which is NULL for nothing. */
DP_MUST_USE dp_status *dp_optional_create(dp_tensor *element, int32_t count, dp_tensor *tensor_out);

#endif
