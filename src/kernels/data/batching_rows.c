/* Rows of batches: the rows of calls are concatenated and padded, and results are cut into rows of
 * calls again (batching_internal.h). There is no state and no lock: a run is the only user of its
 * slots, and a call ends after all its parts. */
#include "kernels/data/batching_internal.h"

#include "base/memory.h"
#include "kernels/shared/pieces.h"

/* The smallest allowed size that holds `rows`; `rows` when there is none. */
static int64_t padded_size(const dp_batch_options *options, int64_t rows) {
  for (size_t i = 0; i < options->allowed.count; ++i)
    if (options->allowed.items[i] >= rows)
      return options->allowed.items[i];
  return rows;
}

/* ---- Joining ---- */
static dp_status *check_piece(const dp_tensor *first, const dp_tensor *piece, int64_t index) {
  if (piece->dtype != first->dtype)
    return DP_INVALID("Types of all input tensors should match: type[0] = %s vs. type[%lld] = %s",
                      dp_dtype_name(first->dtype), (long long)index, dp_dtype_name(piece->dtype));
  if (piece->shape.rank != first->shape.rank)
    return DP_INVALID("Ranks of all input tensors should match: shape[0] = %s vs. shape[%lld] = %s",
                      dp_shape_text(&first->shape), (long long)index, dp_shape_text(&piece->shape));
  for (int32_t i = 1; i < first->shape.rank; ++i)
    if (piece->shape.dims[i] != first->shape.dims[i])
      return DP_INVALID("Dimensions of inputs should match: shape[0] = %s vs. shape[%lld] = %s",
                        dp_shape_text(&first->shape), (long long)index,
                        dp_shape_text(&piece->shape));
  return NULL;
}

static dp_status *joined_shape(const dp_tensor *const *pieces, int64_t count, int64_t padding,
                               dp_shape *shape_out) {
  int64_t dims[DP_MAX_RANK] = {padding};
  for (int32_t i = 1; i < pieces[0]->shape.rank; ++i)
    dims[i] = pieces[0]->shape.dims[i];
  for (int64_t i = 0; i < count; ++i) {
    DP_RETURN_IF_ERROR(check_piece(pieces[0], pieces[i], i));
    dims[0] += pieces[i]->shape.dims[0];
  }
  return dp_shape_make(pieces[0]->shape.rank, dims, shape_out);
}

static void copy_in(const dp_tensor *from, int64_t elements, dp_tensor *to, int64_t *offset) {
  size_t size = dp_dtype_size(to->dtype);
  dp_tensor_copy_elements(to->dtype, (char *)to->data + (size_t)*offset * size, from->data,
                          elements);
  *offset += elements;
}

dp_status *dp_rows_join(const dp_tensor *const *pieces, int64_t count, int64_t padding,
                        dp_tensor *joined_out) {
  if (count == 1 && padding == 0) {
    *joined_out = dp_tensor_copy(pieces[0]);
    return NULL;
  }
  dp_shape shape;
  DP_RETURN_IF_ERROR(joined_shape(pieces, count, padding, &shape));
  DP_RETURN_IF_ERROR(dp_tensor_create(pieces[0]->dtype, &shape, joined_out));
  int64_t offset = 0;
  for (int64_t i = 0; i < count; ++i)
    copy_in(pieces[i], pieces[i]->shape.elements, joined_out, &offset);
  int64_t row = shape.dims[0] ? shape.elements / shape.dims[0] : 0;
  for (int64_t i = 0; i < padding; ++i)
    copy_in(pieces[0], row, joined_out, &offset);
  return NULL;
}

dp_status *dp_batch_join_input(const dp_batch *batch, int32_t index, dp_tensor *joined_out) {
  const dp_tensor **pieces = DP_NEW_ARRAY(const dp_tensor *, (size_t)batch->slot_count);
  for (int64_t i = 0; i < batch->slot_count; ++i)
    pieces[i] = &batch->slots[i].inputs[index];
  int64_t padding = padded_size(&batch->batcher->options, batch->rows) - batch->rows;
  dp_status *status = dp_rows_join(pieces, batch->slot_count, padding, joined_out);
  dp_free(pieces);
  return status;
}

/* ---- Cutting ---- */
dp_status *dp_rows_cut(const dp_tensor *tensor, int64_t begin, int64_t end, dp_tensor *rows_out) {
  dp_shape shape = dp_shape_with(&tensor->shape, 0, end - begin);
  return dp_pieces_cut(tensor, begin, end, &shape, rows_out);
}

dp_status *dp_batch_cut_output(dp_batch *batch, int32_t index, const dp_tensor *result) {
  if (result->shape.rank == 0)
    return dp_status_create(DP_FAILED_PRECONDITION, "Batched output tensor has 0 dimensions");
  int64_t padding = padded_size(&batch->batcher->options, batch->rows) - batch->rows;
  if (result->shape.dims[0] != batch->rows + padding)
    return dp_status_create(
        DP_FAILED_PRECONDITION,
        "Batched output tensor's 0th dimension does not equal the sum of the 0th dimension "
        "sizes of the input tensors. 0th dimension size: %lld; batch size: %lld; unbatched tasks "
        "size: 0; padding size: %lld",
        (long long)result->shape.dims[0], (long long)batch->rows, (long long)padding);
  int64_t begin = 0;
  for (int64_t i = 0; i < batch->slot_count; ++i) {
    dp_batch_slot *slot = &batch->slots[i];
    DP_RETURN_IF_ERROR(dp_rows_cut(result, begin, begin + slot->rows, &slot->outputs[index]));
    begin += slot->rows;
  }
  return NULL;
}

/* ---- Calls ---- */
dp_batch_call *dp_batch_call_create(dp_op_context *context, int32_t input_count, int64_t rows) {
  dp_batch_call *call = DP_NEW(dp_batch_call);
  call->context = context;
  call->rows = rows;
  call->input_count = input_count;
  call->inputs = dp_pieces_create(input_count);
  for (int32_t i = 0; i < input_count; ++i)
    call->inputs[i] = dp_tensor_copy(dp_op_input(context, i));
  return call;
}

static dp_status *fill_part(const dp_batch_call *call, dp_batch_part *part, int64_t begin) {
  part->inputs = dp_pieces_create(call->input_count);
  for (int32_t i = 0; i < call->input_count; ++i)
    DP_RETURN_IF_ERROR(dp_rows_cut(&call->inputs[i], begin, begin + part->rows, &part->inputs[i]));
  return NULL;
}

dp_status *dp_batch_call_split(dp_batch_call *call, int64_t room, int64_t limit) {
  int64_t first = room <= 0 ? limit : room;
  first = first < call->rows ? first : call->rows;
  int64_t count = 1 + (call->rows - first + limit - 1) / limit;
  if (count > INT32_MAX)
    return dp_status_create(DP_RESOURCE_EXHAUSTED, "Too many batches for one call: %lld",
                            (long long)count);
  call->part_count = (int32_t)count;
  call->parts = DP_NEW_ARRAY(dp_batch_part, (size_t)count);
  int64_t begin = 0;
  for (int32_t i = 0; i < call->part_count; ++i) {
    dp_batch_part *part = &call->parts[i];
    int64_t most = i == 0 ? first : limit;
    part->call = call;
    part->rows = most < call->rows - begin ? most : call->rows - begin;
    DP_RETURN_IF_ERROR(fill_part(call, part, begin));
    begin += part->rows;
  }
  return NULL;
}

/* ---- The end of a call ---- */
static dp_status *set_output(dp_batch_call *call, int32_t index) {
  dp_tensor output;
  if (call->part_count == 1) {
    output = dp_tensor_take(&call->parts[0].outputs[index]);
  } else {
    const dp_tensor **pieces = DP_NEW_ARRAY(const dp_tensor *, (size_t)call->part_count);
    for (int32_t i = 0; i < call->part_count; ++i)
      pieces[i] = &call->parts[i].outputs[index];
    dp_status *status = dp_rows_join(pieces, call->part_count, 0, &output);
    dp_free(pieces);
    DP_RETURN_IF_ERROR(status);
  }
  dp_dtype expected = dp_op_output_type(call->context, index);
  if (output.dtype != expected) {
    dp_status *status = DP_INVALID("Output %d of the batched function is of type %s, expected %s",
                                   index, dp_dtype_name(output.dtype), dp_dtype_name(expected));
    dp_tensor_deinit(&output);
    return status;
  }
  dp_op_set_output(call->context, index, &output);
  return NULL;
}

static void free_call(dp_batch_call *call) {
  for (int32_t i = 0; i < call->part_count; ++i) {
    if (call->parts[i].inputs)
      dp_pieces_destroy(call->parts[i].inputs, call->input_count);
    if (call->parts[i].outputs)
      dp_pieces_destroy(call->parts[i].outputs, call->context->output_count);
  }
  dp_free(call->parts);
  dp_pieces_destroy(call->inputs, call->input_count);
  dp_captured_deinit(&call->function);
  dp_free(call);
}

void dp_batch_call_finish(dp_batch_call *call) {
  dp_op_context *context = call->context;
  dp_batcher *batcher = call->batcher;
  dp_waiter_settle(&call->waiter);
  dp_status *status = call->status;
  for (int32_t i = 0; i < context->output_count && !status; ++i)
    status = set_output(call, i);
  free_call(call);
  dp_op_done(context, status);
  dp_resource_release(batcher);
}
