/* Cuts tensors into rows and joins them (pieces.h). Joining splits the pieces over the step's pool.
 * Cutting shares memory where that keeps the piece aligned. */
#include "kernels/shared/pieces.h"

#include <string.h>
#include "base/memory.h"
#include "kernels/shared/move.h"

dp_tensor *dp_pieces_create(int64_t count) {
  return DP_NEW_ARRAY(dp_tensor, (size_t)count + 1);
}

void dp_pieces_destroy(dp_tensor *pieces, int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    dp_tensor_deinit(&pieces[i]);
  dp_free(pieces);
}

/* ---- Joining ---- */
typedef struct piece_join_work {
  const dp_tensor *pieces;
  const int64_t *offsets; /* in elements */
  char *to;
  size_t element_size;
} piece_join_work;

static void join_range(void *arg, int64_t begin, int64_t end) {
  const piece_join_work *work = arg;
  for (int64_t i = begin; i < end; ++i) {
    const dp_tensor *piece = &work->pieces[i];
    dp_move_elements(piece->dtype, work->element_size,
                     work->to + (size_t)work->offsets[i] * work->element_size, piece->data,
                     piece->shape.elements);
  }
}

void dp_pieces_join(dp_op_context *context, const dp_tensor *pieces, int64_t count,
                    const dp_tensor *output) {
  if (output->shape.elements == 0)
    return;
  int64_t few[64];
  int64_t *offsets = count <= 64 ? few : DP_NEW_ARRAY(int64_t, (size_t)count);
  int64_t at = 0;
  for (int64_t i = 0; i < count; ++i) {
    offsets[i] = at;
    at += pieces[i].shape.elements;
  }
  piece_join_work work = {pieces, offsets, output->data, dp_dtype_size(output->dtype)};
  int64_t bytes = output->shape.elements * (int64_t)work.element_size / count;
  dp_op_for(context, count, bytes / 8 + 5, join_range, &work);
  if (offsets != few)
    dp_free(offsets);
}

dp_status *dp_pieces_output(dp_op_context *context, int32_t slot, const dp_shape *shape,
                            const dp_tensor *pieces, int64_t count) {
  dp_tensor *output;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, slot, shape, &output));
  dp_pieces_join(context, pieces, count, output);
  return NULL;
}

/* ---- Cutting ---- */
dp_status *dp_pieces_cut(const dp_tensor *tensor, int64_t begin, int64_t end, const dp_shape *shape,
                         dp_tensor *piece_out) {
  dp_tensor rows = dp_tensor_slice(tensor, begin, end);
  int64_t count = tensor->shape.dims[0];
  size_t row = count ? dp_tensor_bytes(tensor) / (size_t)count : 0;
  bool shares = row * (size_t)begin % DP_BUFFER_ALIGNMENT == 0 || !dp_dtype_is_plain(tensor->dtype);
  dp_tensor piece = dp_tensor_reshaped(&rows, shape);
  dp_tensor_deinit(&rows);
  if (shares) {
    *piece_out = piece;
    return NULL;
  }
  dp_status *status = dp_tensor_clone(&piece, piece_out);
  dp_tensor_deinit(&piece);
  return status;
}

/* ---- Shapes ---- */
dp_status *dp_pieces_shape(int64_t count, const dp_shape *shape, dp_shape *shape_out) {
  int64_t dims[DP_MAX_RANK + 1] = {count};
  memcpy(dims + 1, shape->dims, sizeof(int64_t) * (size_t)shape->rank);
  return dp_shape_make(shape->rank + 1, dims, shape_out);
}

dp_status *dp_pieces_merge_shapes(const dp_partial_shape *a, const dp_partial_shape *b,
                                  dp_partial_shape *merged_out) {
  dp_partial_shape merged;
  if (a->rank >= 0 && b->rank >= 0 && a->rank != b->rank)
    return DP_INVALID("PartialTensorShape: Incompatible ranks during merge: %d vs. %d", a->rank,
                      b->rank);
  if (!dp_partial_shape_merge(a, b, &merged))
    return DP_INVALID("PartialTensorShape: Incompatible shapes during merge: %s vs. %s",
                      dp_partial_shape_text(a), dp_partial_shape_text(b));
  *merged_out = merged;
  return NULL;
}
