/* Sparse tensors in coordinates as kernels see them: three inputs (indices, values, dense shape)
 * that belong together, their order, and the groups of rows that share leading coordinates.
 * Everything here borrows the inputs, keeps nothing and may be called from any thread. */
#ifndef DP_KERNELS_SPARSE_INTERNAL_H
#define DP_KERNELS_SPARSE_INTERNAL_H

#include "kernels/shared/support.h"

typedef struct dp_sparse {
  const int64_t *indices; /* count rows of rank coordinates; not checked against dims */
  const dp_tensor *values;
  int64_t count;
  int32_t rank;
  int64_t dims[DP_MAX_RANK]; /* of the dense shape, as given: may be negative or overflow */
} dp_sparse;

/* How an op words what is wrong with the three inputs. */
typedef struct dp_sparse_words {
  const char *indices, *values, *shape; /* before a shape, or before a rank */
  const char *both;                     /* instead of the last two, before both their shapes */
  bool says_rank;
  bool is_tensor; /* counts that do not fit: the words of TensorFlow's class of sparse tensors */
} dp_sparse_words;
extern const dp_sparse_words dp_sparse_plain_words; /* "Input indices should be a matrix ..." */
extern const dp_sparse_words dp_sparse_rank_words;  /* "Sparse indices must be rank 2 ..." */

/* A matrix, a vector and a vector whose sizes fit. The slots need not be neighbours. */
DP_MUST_USE dp_status *dp_sparse_open(const dp_op_context *context, int32_t indices, int32_t values,
                                      int32_t shape, const dp_sparse_words *words,
                                      dp_sparse *sparse_out);
/* The dense shape, when it is one: no negative size, a product that fits. */
DP_MUST_USE dp_status *dp_sparse_dense_shape(const dp_sparse *sparse, dp_shape *shape_out);

/* The first row that is out of bounds, or -1. */
int64_t dp_sparse_find_outside(const dp_sparse *sparse);
/* INVALID_ARGUMENT for that row. */
DP_MUST_USE dp_status *dp_sparse_check_bounds(const dp_sparse *sparse);
/* The same, and rows must increase strictly in the order of the dimensions. */
DP_MUST_USE dp_status *dp_sparse_check_order(const dp_sparse *sparse);

/* -1, 0, 1 as two rows of `rank` coordinates compare. */
static inline int dp_sparse_compare(const int64_t *a, const int64_t *b, int32_t rank) {
  for (int32_t i = 0; i < rank; ++i) {
    if (a[i] != b[i])
      return a[i] < b[i] ? -1 : 1;
  }
  return 0;
}

/* A permutation of rows: item i is the row that comes i-th. A NULL buffer stands for the order in
 * which the rows are. */
typedef struct dp_sparse_order {
  dp_buffer *buffer;
  const int64_t *rows;
} dp_sparse_order;
static inline int64_t dp_sparse_order_at(const dp_sparse_order *order, int64_t position) {
  return order->rows ? order->rows[position] : position;
}
static inline void dp_sparse_order_deinit(dp_sparse_order *order) {
  dp_buffer_release(order->buffer);
}
/* Sorts rows by the given dimensions, the first one first; rows that are equal in these keep their
 * order. Linear time when the rows lie within a dense shape whose product fits. */
DP_MUST_USE dp_status *dp_sparse_sort(const dp_sparse *sparse, const int32_t *dimensions,
                                      int32_t dimension_count, dp_sparse_order *order_out);

/* Values in an order: to[i] = from[order[i]], for any dtype; `to` must be initialized. */
void dp_sparse_gather(dp_dtype dtype, void *to, const void *from, const dp_sparse_order *order,
                      int64_t count);
/* The end of the group that begins at `begin`: the rows that follow in this order and agree with it
 * in all the given dimensions. */
int64_t dp_sparse_group_end(const dp_sparse *sparse, const dp_sparse_order *order, int64_t begin,
                            const int32_t *dimensions, int32_t dimension_count);

/* Outputs: a fresh matrix of coordinates, a vector of numbers. */
DP_MUST_USE dp_status *dp_sparse_allocate_indices(dp_op_context *context, int32_t output,
                                                  int64_t count, int32_t rank,
                                                  int64_t **indices_out);
DP_MUST_USE dp_status *dp_sparse_output_dims(dp_op_context *context, int32_t output,
                                             const int64_t *dims, int32_t rank);

#endif
