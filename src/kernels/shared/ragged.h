/* Ragged tensors: the check of row splits that come from users, and ragged tensors as variants.
 *
 * A dp_ragged holds nested row splits and the values below them; it never changes once it is in a
 * variant. On the wire its type is "RaggedTensorVariant", with the splits first and the values
 * last. The splits of a variant are not checked until an op uses them. */
#ifndef DP_KERNELS_SHARED_RAGGED_H
#define DP_KERNELS_SHARED_RAGGED_H

#include "kernels/shared/pieces.h"

/* A vector that starts with 0, never falls, and ends with the number of rows below it. */
DP_MUST_USE dp_status *dp_ragged_check_splits(const dp_tensor *splits, int64_t rows_below);
typedef struct dp_ragged {
  int32_t ragged_rank; /* number of splits */
  dp_tensor *parts;    /* ragged_rank splits, then the values */
} dp_ragged;

extern const dp_variant_ops dp_ragged_ops;

/* All parts unset. */
dp_ragged *dp_ragged_create(int32_t ragged_rank);
void dp_ragged_destroy(dp_ragged *ragged);
static inline dp_tensor *dp_ragged_values(const dp_ragged *ragged) {
  return &ragged->parts[ragged->ragged_rank];
}
/* The ragged tensor of element `index` of a variant tensor, or NULL. */
const dp_ragged *dp_ragged_of_element(const dp_tensor *tensor, int64_t index);

#endif
