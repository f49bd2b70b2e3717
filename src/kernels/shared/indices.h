/* Tensors of indices: reading them, checking them, and reporting a bad one in TensorFlow's words.
 * No state; any thread. */
#ifndef DP_KERNELS_SHARED_INDICES_H
#define DP_KERNELS_SHARED_INDICES_H

#include "kernels/shared/support.h"

/* Element `position` of a tensor of int16, int32 or int64. */
static inline int64_t dp_indices_at(dp_dtype dtype, const void *data, int64_t position) {
  return dtype == DP_INT32   ? ((const int32_t *)data)[position]
         : dtype == DP_INT64 ? ((const int64_t *)data)[position]
                             : ((const int16_t *)data)[position];
}
/* The first position whose index is not in [0, limit), or -1. */
int64_t dp_indices_find_bad(const dp_tensor *indices, int64_t limit);
/* "[1,2]": the coordinates of entry number `position` in the leading `rank` dimensions; "" for a
 * scalar. */
void dp_indices_print_position(const dp_shape *shape, int rank, int64_t position, dp_text *text);
/* "indices[1,2] = 7 is not in [0, 5)" */
DP_MUST_USE dp_status *dp_indices_error(const dp_tensor *indices, int64_t position, int64_t limit);

/* Indices of N dimensions (GatherNd, ScatterNd): each row of the last dimension names an element or
 * a slice of a tensor. */
typedef struct dp_indices_rows {
  const dp_tensor *indices;
  int64_t depth; /* numbers per row */
  int64_t rows;
  int64_t dims[DP_MAX_RANK], strides[DP_MAX_RANK]; /* strides in slices */
} dp_indices_rows;
/* `indices` has rank 1 or more, and its last dimension is at most the shape's rank. */
void dp_indices_rows_init(dp_indices_rows *rows, const dp_tensor *indices, const dp_shape *shape);
/* The slice that a row names, or -1 when it is out of bounds. */
static inline int64_t dp_indices_rows_slice(const dp_indices_rows *rows, int64_t row) {
  dp_dtype dtype = rows->indices->dtype;
  const void *data = rows->indices->data;
  if (rows->depth == 1) {
    int64_t index = dp_indices_at(dtype, data, row);
    return (uint64_t)index < (uint64_t)rows->dims[0] ? index * rows->strides[0] : -1;
  }
  int64_t slice = 0;
  bool fits = true;
  for (int64_t i = 0; i < rows->depth; ++i) {
    int64_t index = dp_indices_at(dtype, data, row * rows->depth + i);
    fits &= (uint64_t)index < (uint64_t)rows->dims[i];
    slice += index * rows->strides[i];
  }
  return fits ? slice : -1;
}
/* "indices[0] = [1, 5] does not index into <what> [2,2]" */
DP_MUST_USE dp_status *dp_indices_rows_error(const dp_indices_rows *rows, int64_t row,
                                             const char *what, const dp_shape *shape);

/* The value of attribute bad_indices_policy; nodes of older graphs have no such attribute. */
typedef enum dp_bad_indices { DP_BAD_INDICES_ERROR, DP_BAD_INDICES_IGNORE } dp_bad_indices;
DP_MUST_USE dp_status *dp_indices_read_policy(const dp_kernel_setup *setup,
                                              dp_bad_indices *policy_out);

#endif
