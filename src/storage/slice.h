/* Slices of tensors, as checkpoints of partitioned variables name them: a start and a length per
 * dimension, or the whole dimension. As text, "0,2:-" is rows 0 and 1 of a matrix; "4 3 0,2:-" is
 * the same of a tensor of shape [4,3]. No state, any thread. */
#ifndef DP_STORAGE_SLICE_H
#define DP_STORAGE_SLICE_H

#include "base/text.h"
#include "tensor/tensor.h"

#define DP_SLICE_FULL (-1)

typedef struct dp_slice {
  int32_t rank;
  int64_t start[DP_MAX_RANK];
  int64_t length[DP_MAX_RANK]; /* DP_SLICE_FULL: the whole dimension; start is 0 then */
} dp_slice;

dp_slice dp_slice_full(int rank);
bool dp_slice_is_full(const dp_slice *slice);
bool dp_slice_equal(const dp_slice *a, const dp_slice *b);
/* The shape of a slice of a tensor of shape `whole`. INTERNAL, as in TensorFlow, when the slice
 * does not fit. */
DP_MUST_USE dp_status *dp_slice_shape(const dp_slice *slice, const dp_shape *whole,
                                      dp_shape *shape_out);
/* False when the slices do not overlap. Both must fit the same shape. */
bool dp_slice_intersect(const dp_slice *a, const dp_slice *b, dp_slice *both_out);
/* "0,2:-" */
void dp_slice_print(const dp_slice *slice, dp_text *text);
/* Parses "4 3 0,2:-": gives the shape of the whole, the slice, and the shape of the slice. */
DP_MUST_USE dp_status *dp_slice_parse(dp_view text, dp_shape *whole_out, dp_slice *slice_out,
                                      dp_shape *shape_out);
/* The key of a slice in a checkpoint's table. Keys are ordered by name, then by position. */
void dp_slice_encode_key(dp_view name, const dp_slice *slice, dp_text *key);

/* Copies the elements that both slices of a tensor of shape `whole` have in common from the memory
 * of the first slice to that of the second; any dtype. */
void dp_slice_copy(dp_dtype dtype, const dp_shape *whole, const dp_slice *from_slice,
                   const void *from, const dp_slice *to_slice, void *to);

/* Which stored slices to read for `wanted`: the one that is equal to it, or else all that overlap
 * it. Returns false when these do not cover it. The stored slices must not overlap each other.
 * indices_out has room for stored_count indices. */
bool dp_slices_cover(const dp_shape *whole, const dp_slice *stored, size_t stored_count,
                     const dp_slice *wanted, size_t *indices_out, size_t *count_out);

#endif
