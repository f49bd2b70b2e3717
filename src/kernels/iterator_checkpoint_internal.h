/* States of iterators as variants, which checkpoints and the wire carry. */
#ifndef DP_KERNELS_ITERATOR_CHECKPOINT_INTERNAL_H
#define DP_KERNELS_ITERATOR_CHECKPOINT_INTERNAL_H

#include "tensor/tensor.h"

extern const dp_variant_ops dp_iterator_state_ops; /* "tensorflow::Iterator" */

#endif
