/* Sparse tensors as objects of their own, apart from inputs: kept in maps, serialized, cut from the
 * rows of a batch and joined again along new first dimensions. */
#ifndef DP_KERNELS_SPARSE_PIECE_INTERNAL_H
#define DP_KERNELS_SPARSE_PIECE_INTERNAL_H

#include "kernels/shared/support.h"

typedef struct dp_sparse_piece {
  dp_tensor indices, values; /* a matrix and a vector of as many rows */
  dp_shape shape;            /* the dense one */
} dp_sparse_piece;

void dp_sparse_piece_deinit(dp_sparse_piece *piece);
/* Inputs 0, 1 and 2 of the node: indices, values, dense shape. */
DP_MUST_USE dp_status *dp_sparse_piece_read(dp_op_context *context, dp_sparse_piece *piece_out);

/* Calls `take` for each row of the first dimension with a piece that lacks it, which the callee
 * takes over: first for those that have entries, in the order of these, then for the others.
 * Entries of a row must stand together; the batch has two dimensions or more. */
typedef dp_status *(*dp_sparse_row_fn)(void *arg, int64_t row, dp_sparse_piece *piece);
DP_MUST_USE dp_status *dp_sparse_piece_rows(const dp_sparse_piece *batch, dp_sparse_row_fn take,
                                            void *arg);

/* Outputs 0, 1 and 2: the pieces joined, with the dimensions of `lead` (as many elements as pieces)
 * in front. All must be of one rank and of the output's dtype; the sizes are the largest. */
DP_MUST_USE dp_status *dp_sparse_piece_output(dp_op_context *context, const dp_sparse_piece *pieces,
                                              const dp_shape *lead);

#endif
