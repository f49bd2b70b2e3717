/* DynamicPartition distributes rows to several tensors; DynamicStitch and ParallelDynamicStitch put
 * rows together again by index. */
#include "kernels/shared/family.h"
#include "kernels/shared/indices.h"
#include "kernels/shared/move.h"

static bool starts_with(const dp_shape *shape, const dp_shape *prefix) {
  if (shape->rank < prefix->rank)
    return false;
  for (int i = 0; i < prefix->rank; ++i)
    if (shape->dims[i] != prefix->dims[i])
      return false;
  return true;
}

/* ---- DynamicPartition ---- */
static dp_status *partition_outputs(dp_op_context *context, const dp_tensor *data,
                                    const dp_tensor *partitions, int64_t *counts) {
  int32_t count = context->output_count;
  for (int64_t i = 0; i < dp_tensor_elements(partitions); ++i) {
    int32_t to = ((const int32_t *)partitions->data)[i];
    if (to < 0 || to >= count) {
      dp_text where = {0};
      dp_indices_print_position(&partitions->shape, partitions->shape.rank, i, &where);
      dp_status *status =
          DP_INVALID("partitions%s = %d is not in [0, %d)", dp_text_string(&where), to, count);
      dp_text_deinit(&where);
      return status;
    }
    ++counts[to];
  }
  for (int32_t p = 0; p < count; ++p) {
    dp_shape shape = {.rank = 1, .elements = counts[p], .dims = {counts[p]}};
    for (int i = partitions->shape.rank; i < data->shape.rank; ++i) {
      shape.dims[shape.rank++] = data->shape.dims[i];
      shape.elements *= data->shape.dims[i];
    }
    dp_tensor *output;
    DP_RETURN_IF_ERROR(dp_op_allocate(context, p, &shape, &output));
    counts[p] = 0;
  }
  return NULL;
}

static dp_status *partition_compute(dp_op_context *context, void *state) {
  const dp_tensor *data = dp_op_input(context, 0), *partitions = dp_op_input(context, 1);
  if (!starts_with(&data->shape, &partitions->shape))
    return DP_INVALID("data.shape must start with partitions.shape, got data.shape = %s, "
                      "partitions.shape = %s",
                      dp_shape_text(&data->shape), dp_shape_text(&partitions->shape));
  if (partitions->shape.rank == 0 && data->shape.rank >= DP_MAX_RANK)
    return DP_INVALID("a tensor has at most %d dimensions", DP_MAX_RANK);
  int64_t *counts = DP_NEW_ARRAY(int64_t, context->output_count);
  dp_status *status = partition_outputs(context, data, partitions, counts);
  int64_t elements = dp_shape_product(&data->shape, partitions->shape.rank, data->shape.rank);
  size_t size = dp_dtype_size(data->dtype), bytes = (size_t)elements * size;
  for (int64_t i = 0; !status && i < dp_tensor_elements(partitions); ++i) {
    int32_t to = ((const int32_t *)partitions->data)[i];
    dp_move_elements(data->dtype, size,
                     (char *)context->outputs[to].tensor.data + (size_t)counts[to]++ * bytes,
                     (const char *)data->data + (size_t)i * bytes, elements);
  }
  dp_free(counts);
  return status;
}

/* ---- DynamicStitch ---- */
static dp_status *check_stitch(dp_op_context *context, int32_t count, int64_t *rows_out,
                               int64_t *total_out) {
  const dp_tensor *first_indices = dp_op_input(context, 0), *first = dp_op_input(context, count);
  int first_rank = first_indices->shape.rank;
  int64_t rows = 0, total = 0;
  for (int32_t n = 0; n < count; ++n) {
    const dp_tensor *indices = dp_op_input(context, n), *data = dp_op_input(context, count + n);
    if (!starts_with(&data->shape, &indices->shape))
      return DP_INVALID("data[%d].shape = %s does not start with indices[%d].shape = %s", n,
                        dp_shape_text(&data->shape), n, dp_shape_text(&indices->shape));
    int rank = indices->shape.rank;
    bool fits = data->shape.rank - rank == first->shape.rank - first_rank;
    for (int i = 0; fits && rank + i < data->shape.rank; ++i)
      fits = data->shape.dims[rank + i] == first->shape.dims[first_rank + i];
    if (!fits)
      return DP_INVALID("Need data[0].shape[%d:] = data[%d].shape[%d:], got data[0].shape = %s, "
                        "data[%d].shape = %s, indices[0].shape = %s, indices[%d].shape = %s",
                        first_rank, n, rank, dp_shape_text(&first->shape), n,
                        dp_shape_text(&data->shape), dp_shape_text(&first_indices->shape), n,
                        dp_shape_text(&indices->shape));
    int64_t bad = dp_indices_find_bad(indices, INT32_MAX);
    if (bad >= 0)
      return DP_INVALID("indices[%d] is out of range", n);
    for (int64_t i = 0; i < dp_tensor_elements(indices); ++i) {
      int64_t index = ((const int32_t *)indices->data)[i];
      rows = index >= rows ? index + 1 : rows;
    }
    total += dp_tensor_elements(indices);
  }
  *rows_out = rows;
  *total_out = total;
  return NULL;
}

/* Rows that no index names are zero. */
static void clear_gaps(dp_op_context *context, int32_t count, dp_tensor *output, int64_t rows,
                       size_t bytes) {
  uint8_t *seen = dp_try_malloc((size_t)rows + 1);
  if (!seen || !dp_dtype_is_plain(output->dtype)) {
    dp_free(seen);
    dp_move_fill(context, output->dtype, output->data, NULL, output->shape.elements);
    return;
  }
  memset(seen, 0, (size_t)rows);
  for (int32_t n = 0; n < count; ++n) {
    const dp_tensor *indices = dp_op_input(context, n);
    for (int64_t i = 0; i < dp_tensor_elements(indices); ++i)
      seen[((const int32_t *)indices->data)[i]] = 1;
  }
  for (int64_t row = 0; row < rows; ++row)
    if (!seen[row])
      memset((char *)output->data + (size_t)row * bytes, 0, bytes);
  dp_free(seen);
}

static dp_status *stitch_compute(dp_op_context *context, void *state) {
  int32_t count = context->input_count / 2;
  int64_t rows = 0, total = 0;
  DP_RETURN_IF_ERROR(check_stitch(context, count, &rows, &total));
  const dp_tensor *first = dp_op_input(context, count);
  dp_shape shape = {.rank = 1, .dims = {rows}};
  int64_t dims[DP_MAX_RANK + 1] = {rows};
  int rank = 1;
  for (int i = dp_op_input(context, 0)->shape.rank; i < first->shape.rank; ++i)
    dims[rank++] = first->shape.dims[i];
  DP_RETURN_IF_ERROR(dp_shape_make(rank, dims, &shape));
  dp_tensor *output;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &shape, &output));
  if (shape.elements == 0)
    return NULL;
  int64_t elements = shape.elements / rows;
  size_t size = dp_dtype_size(output->dtype), bytes = (size_t)elements * size;
  clear_gaps(context, count, output, rows, bytes);
  for (int32_t n = 0; n < count; ++n) {
    const dp_tensor *indices = dp_op_input(context, n), *data = dp_op_input(context, count + n);
    for (int64_t i = 0; i < dp_tensor_elements(indices); ++i)
      dp_move_elements(output->dtype, size,
                       (char *)output->data + (size_t)((const int32_t *)indices->data)[i] * bytes,
                       (const char *)data->data + (size_t)i * bytes, elements);
  }
  return NULL;
}

static const dp_kernel rows[] = {
    {.op = "DynamicPartition", .compute = partition_compute},
    {.op = "DynamicStitch", .compute = stitch_compute},
    {.op = "ParallelDynamicStitch", .compute = stitch_compute},
};
DP_KERNEL_FAMILY(array_partition, rows);
