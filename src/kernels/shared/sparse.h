/* Sparse tensors as kernels see them: three inputs (indices, values, dense shape) that belong
 * together, their order, and groups of rows with equal leading coordinates. Everything here borrows
 * the inputs, keeps nothing and may be called from any thread. */
#ifndef DP_KERNELS_SHARED_SPARSE_H
#define DP_KERNELS_SHARED_SPARSE_H

#include "kernels/shared/support.h"

typedef struct dp_sparse {
  const int64_t *indices; /* `count` rows of `rank` coordinates; not checked against dims */
  const dp_tensor *values;
  int64_t count;
  int32_t rank;
  int64_t dims[DP_MAX_RANK]; /* the dense shape as given: sizes may be negative, their product may
                                overflow */
} dp_sparse;

/* The texts of an op's errors about the three inputs. */
typedef struct dp_sparse_words {
  const char *indices, *values, *shape; /* followed by the input's shape, or by its rank */
  const char *both; /* if set, replaces `values` and `shape`; followed by both shapes */
  bool says_rank;
  bool is_tensor; /* sizes that do not fit are reported as by TensorFlow's class SparseTensor */
} dp_sparse_words;
extern const dp_sparse_words dp_sparse_plain_words; /* "Input indices should be a matrix ..." */
extern const dp_sparse_words dp_sparse_rank_words;  /* "Sparse indices must be rank 2 ..." */

/* Opens three inputs: a matrix of indices, a vector of values, a vector of sizes, with sizes that
 * fit. */
DP_MUST_USE dp_status *dp_sparse_open(const dp_op_context *context, int32_t indices, int32_t values,
                                      int32_t shape, const dp_sparse_words *words,
                                      dp_sparse *sparse_out);
/* The dense shape; an error when a size is negative or the product overflows. */
DP_MUST_USE dp_status *dp_sparse_dense_shape(const dp_sparse *sparse, dp_shape *shape_out);

/* The first row that is out of bounds, or -1. */
int64_t dp_sparse_find_outside(const dp_sparse *sparse);
/* INVALID_ARGUMENT if a row is out of bounds. */
DP_MUST_USE dp_status *dp_sparse_check_bounds(const dp_sparse *sparse);
/* The same, and also if the rows do not strictly increase in lexicographic order. */
DP_MUST_USE dp_status *dp_sparse_check_order(const dp_sparse *sparse);

/* Compares two rows of `rank` coordinates: -1, 0 or 1. */
static inline int dp_sparse_compare(const int64_t *a, const int64_t *b, int32_t rank) {
  for (int32_t i = 0; i < rank; ++i) {
    if (a[i] != b[i])
      return a[i] < b[i] ? -1 : 1;
  }
  return 0;
}

/* A permutation of rows: item i is the row that comes i-th. A NULL buffer means that the rows keep
 * their order. */
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
/* Sorts rows by the given dimensions, the first one first. Rows that are equal in these dimensions
 * keep their order. Takes linear time when the rows are inside a dense shape whose product fits. */
DP_MUST_USE dp_status *dp_sparse_sort(const dp_sparse *sparse, const int32_t *dimensions,
                                      int32_t dimension_count, dp_sparse_order *order_out);

/* Values in an order: to[i] = from[order[i]], for any dtype; `to` must be initialized. */
void dp_sparse_gather(dp_dtype dtype, void *to, const void *from, const dp_sparse_order *order,
                      int64_t count);
/* The end of the group that starts at position `begin` of the order: rows that agree with that row
 * in all given dimensions. */
int64_t dp_sparse_group_end(const dp_sparse *sparse, const dp_sparse_order *order, int64_t begin,
                            const int32_t *dimensions, int32_t dimension_count);

/* Allocate outputs: a matrix of coordinates, a vector of numbers. */
DP_MUST_USE dp_status *dp_sparse_allocate_indices(dp_op_context *context, int32_t output,
                                                  int64_t count, int32_t rank,
                                                  int64_t **indices_out);
DP_MUST_USE dp_status *dp_sparse_output_dims(dp_op_context *context, int32_t output,
                                             const int64_t *dims, int32_t rank);

#endif
