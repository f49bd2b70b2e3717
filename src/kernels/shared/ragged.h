/* Ragged tensors: the check of row splits that come from users, and ragged tensors as variants:
 * nested row splits and the values below them, in one immutable box. On the wire the type is
 * "RaggedTensorVariant", with the splits as tensors and the values last. What a variant's splits
 * say is not checked before somebody follows them. */
#ifndef DP_KERNELS_RAGGED_INTERNAL_H
#define DP_KERNELS_RAGGED_INTERNAL_H

#include "kernels/shared/pieces.h"

/* A vector that starts with 0, never falls, and ends with the number of rows below it. */
DP_MUST_USE dp_status *dp_ragged_check_splits(const dp_tensor *splits, int64_t rows_below);
typedef struct dp_ragged {
  int32_t ragged_rank; /* how many splits */
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
