/* The public header of kernels/data: what the registry (families.c) needs of datasets and
 * iterators. Functions may be called from any thread. */
#ifndef DP_KERNELS_DATA_DATA_H
#define DP_KERNELS_DATA_DATA_H

#include "tensor/tensor.h"

/* Saved states of iterators as variants of type "tensorflow::Iterator". Checkpoints hold them, and
 * they travel between tasks. */
extern const dp_variant_ops dp_iterator_state_ops;
/* Waits for iterators that are being destroyed in the background; see dp_kernels_settle. */
void dp_iterators_settle(void);

#endif
