/* Pieces: sparse tensors as objects that own their tensors, independent of inputs. They are kept in
 * maps, serialized, cut from the rows of a batch, and joined again along new first dimensions. */
#ifndef DP_KERNELS_SPARSE_PIECE_INTERNAL_H
#define DP_KERNELS_SPARSE_PIECE_INTERNAL_H

#include "kernels/shared/support.h"

typedef struct dp_sparse_piece {
  dp_tensor indices, values; /* a matrix and a vector of as many rows */
  dp_shape shape;            /* the dense shape */
} dp_sparse_piece;

void dp_sparse_piece_deinit(dp_sparse_piece *piece);
/* Reads inputs 0, 1 and 2 of the node: indices, values, dense shape. */
DP_MUST_USE dp_status *dp_sparse_piece_read(dp_op_context *context, dp_sparse_piece *piece_out);

/* Calls `take` once per row of the first dimension, with a piece that lacks this dimension and that
 * the callee owns: first for rows with entries, in the order of the entries, then for the other
 * rows. The entries of a row must be consecutive; the batch has at least two dimensions. */
typedef dp_status *(*dp_sparse_row_fn)(void *arg, int64_t row, dp_sparse_piece *piece);
DP_MUST_USE dp_status *dp_sparse_piece_rows(const dp_sparse_piece *batch, dp_sparse_row_fn take,
                                            void *arg);

/* Writes the joined pieces to outputs 0, 1 and 2. The dimensions of `lead`, whose product is the
 * number of pieces, come first. All pieces must have one rank and the output's dtype; each size is
 * the largest of the pieces. */
DP_MUST_USE dp_status *dp_sparse_piece_output(dp_op_context *context, const dp_sparse_piece *pieces,
                                              const dp_shape *lead);

#endif
