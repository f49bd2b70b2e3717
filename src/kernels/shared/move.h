/* Moving elements: one engine behind every op that only rearranges memory (slices, transposes,
 * pads, concatenations, tiles, space to batch, ...).
 *
 * A move is a nest of loops over dimensions. Each dimension has a stride in the source and a stride
 * in the target, in elements; strides may be negative or 0. dp_move_run joins dimensions, copies
 * runs whole, transposes in tiles and splits large work over the step's pool. It works for every
 * dtype: strings, handles and variants are duplicated, and must be initialized in the target.
 * Elements of the target that the nest does not reach keep their values. */
#ifndef DP_KERNELS_SHARED_MOVE_H
#define DP_KERNELS_SHARED_MOVE_H

#include <string.h>
#include "kernels/loops/move.h"
#include "kernels/shared/support.h"

#define DP_MOVE_MAX_RANK 40

typedef struct dp_move {
  dp_dtype dtype;
  int32_t rank;
  int64_t dims[DP_MOVE_MAX_RANK];
  int64_t from[DP_MOVE_MAX_RANK]; /* strides */
  int64_t to[DP_MOVE_MAX_RANK];
} dp_move;

static inline void dp_move_init(dp_move *move, dp_dtype dtype) {
  move->dtype = dtype;
  move->rank = 0;
}
/* Adds a dimension inside of those added before. Dimensions of size 1 cost nothing. */
static inline void dp_move_add(dp_move *move, int64_t size, int64_t from_stride,
                               int64_t to_stride) {
  if (size == 1)
    return;
  move->dims[move->rank] = size;
  move->from[move->rank] = from_stride;
  move->to[move->rank] = to_stride;
  ++move->rank;
}
/* Runs the move. `to` and `from` point to the elements at index 0 of every dimension. The move
 * cannot be used again. */
void dp_move_run(dp_op_context *context, dp_move *move, void *to, const void *from);
/* Row r of the target is row r of every part, one behind the other. Plain bytes only. */
void dp_move_join(dp_op_context *context, void *to, const dp_move_part *parts, int64_t count,
                  int64_t rows);
/* Output 0 with the contents of input 0; it takes over input 0's memory when nobody else uses
 * it. */
DP_MUST_USE dp_status *dp_move_first_to_output(dp_op_context *context, dp_tensor **output_out);

/* Strides of a dense tensor, in elements. */
static inline void dp_move_strides(const dp_shape *shape, int64_t *strides_out) {
  int64_t stride = 1;
  for (int i = shape->rank - 1; i >= 0; --i) {
    strides_out[i] = stride;
    stride *= shape->dims[i];
  }
}

/* Copies `count` contiguous elements, on the calling thread. */
static inline void dp_move_elements(dp_dtype dtype, size_t size, void *to, const void *from,
                                    int64_t count) {
  if (dp_dtype_is_plain(dtype))
    memcpy(to, from, (size_t)count * size);
  else
    dp_tensor_copy_elements(dtype, to, from, count);
}
/* Fills `count` elements with one value of the dtype; zero bytes when `value` is NULL (strings,
 * handles and variants then stay as they are). Splits large work. */
void dp_move_fill(dp_op_context *context, dp_dtype dtype, void *to, const void *value,
                  int64_t count);

#endif
