/* RaggedGather: the rows of a ragged tensor at given indices. Indices of higher rank add uniform
 * splits in front. First the sizes of all outputs are counted: per index, the range of rows at each
 * level of splits. Then everything is written. */
#include "kernels/shared/family.h"

#include <string.h>

typedef struct gather_call {
  dp_op_context *context;
  int64_t ragged_rank; /* ragged rank of the params */
  const dp_tensor *values, *indices;
  int leading; /* splits that come from the indices; -1 when a scalar takes one away */
} gather_call;

static const dp_tensor *splits_of(const gather_call *call, int64_t level) {
  return dp_op_input(call->context, (int32_t)level);
}

/* ---- Checks ---- */
static dp_status *check_indices(const gather_call *call) {
  int64_t rows = splits_of(call, 0)->shape.elements - 1;
  for (int64_t i = 0; i < call->indices->shape.elements; ++i) {
    int64_t index = dp_tensor_int_at(call->indices, i);
    if (index < 0 || index >= rows)
      return DP_INVALID("indices[%lld] = %lld is not in [0, %lld)", (long long)i, (long long)index,
                        (long long)rows);
  }
  return NULL;
}

static dp_status *check_splits(const gather_call *call) {
  for (int64_t level = 0; level < call->ragged_rank; ++level) {
    const dp_tensor *splits = splits_of(call, level);
    int64_t count = splits->shape.elements;
    int64_t last = level + 1 < call->ragged_rank ? splits_of(call, level + 1)->shape.elements - 1
                                                 : call->values->shape.dims[0];
    if (count == 0)
      return DP_INVALID("Ragged splits may not be empty");
    if (dp_tensor_int_at(splits, 0) < 0)
      return DP_INVALID("Ragged splits must be non-negative");
    if (dp_tensor_int_at(splits, count - 1) > last)
      return DP_INVALID("Ragged splits must not point past values");
    for (int64_t i = 1; i < count; ++i)
      if (dp_tensor_int_at(splits, i - 1) > dp_tensor_int_at(splits, i))
        return DP_INVALID("Ragged splits must be sorted");
  }
  return NULL;
}

/* ---- Counting and writing ---- */
/* Rows [begin, end) of level `level` for one index. */
static void find_range(const gather_call *call, int64_t index, int64_t level, int64_t *begin,
                       int64_t *end) {
  *begin = dp_tensor_int_at(call->indices, index);
  *end = *begin + 1;
  for (int64_t i = 0; i < level; ++i) {
    const dp_tensor *splits = splits_of(call, i);
    *begin = dp_tensor_int_at(splits, *begin);
    *end = dp_tensor_int_at(splits, *end);
  }
}

static int64_t count_rows(const gather_call *call, int64_t level) {
  int64_t total = 0, begin, end;
  for (int64_t i = 0; i < call->indices->shape.elements; ++i) {
    find_range(call, i, level, &begin, &end);
    total += end - begin;
  }
  return total;
}

/* Splits of a dense dimension of the indices: even steps. */
static dp_status *write_even(const gather_call *call, int axis) {
  const dp_shape *shape = &call->indices->shape;
  dp_shape vector = dp_shape_vector(dp_shape_product(shape, 0, axis + 1) + 1);
  dp_tensor *splits;
  DP_RETURN_IF_ERROR(dp_op_allocate(call->context, axis, &vector, &splits));
  for (int64_t i = 0; i < vector.elements; ++i)
    dp_tensor_set_int(splits, i, i * shape->dims[axis + 1]);
  return NULL;
}

static dp_status *write_splits(const gather_call *call, int64_t level) {
  dp_shape vector = dp_shape_vector(count_rows(call, level) + 1);
  const dp_tensor *from = splits_of(call, level);
  dp_tensor *splits;
  DP_RETURN_IF_ERROR(
      dp_op_allocate(call->context, call->leading + (int32_t)level, &vector, &splits));
  int64_t at = 0, last = 0, begin, end;
  dp_tensor_set_int(splits, at++, 0);
  for (int64_t i = 0; i < call->indices->shape.elements; ++i) {
    find_range(call, i, level, &begin, &end);
    for (int64_t row = begin; row < end; ++row) {
      last += dp_tensor_int_at(from, row + 1) - dp_tensor_int_at(from, row);
      dp_tensor_set_int(splits, at++, last);
    }
  }
  return NULL;
}

static dp_status *write_values(const gather_call *call) {
  int64_t rows = count_rows(call, call->ragged_rank), begin, end;
  dp_shape shape = dp_shape_with(&call->values->shape, 0, rows);
  dp_tensor *output;
  int32_t slot = call->leading + (int32_t)call->ragged_rank;
  DP_RETURN_IF_ERROR(dp_op_allocate(call->context, slot, &shape, &output));
  int64_t inner = dp_shape_product(&shape, 1, shape.rank);
  size_t bytes = (size_t)inner * dp_dtype_size(output->dtype);
  char *to = output->data;
  for (int64_t i = 0; i < call->indices->shape.elements; ++i) {
    find_range(call, i, call->ragged_rank, &begin, &end);
    const char *from = (const char *)call->values->data + (size_t)begin * bytes;
    dp_tensor_copy_elements(output->dtype, to, from, (end - begin) * inner);
    to += (size_t)(end - begin) * bytes;
  }
  return NULL;
}

static dp_status *gather_create(const dp_kernel_setup *setup, void *memory) {
  return dp_node_get_int(setup->node, "PARAMS_RAGGED_RANK", memory);
}

static dp_status *gather_compute(dp_op_context *context, void *memory) {
  gather_call call = {.context = context, .ragged_rank = *(int64_t *)memory};
  call.values = dp_op_input(context, (int32_t)call.ragged_rank);
  call.indices = dp_op_input(context, (int32_t)call.ragged_rank + 1);
  call.leading = call.indices->shape.rank - 1;
  if (context->output_count != call.leading + call.ragged_rank + 1)
    return DP_INVALID("OUTPUT_RAGGED_RANK must be %lld for indices of rank %d",
                      (long long)(call.leading + call.ragged_rank), call.indices->shape.rank);
  DP_RETURN_IF_ERROR(check_indices(&call));
  if (call.values->shape.rank == 0)
    return DP_INVALID("params.rank must be nonzero");
  DP_RETURN_IF_ERROR(check_splits(&call));
  for (int axis = 0; axis < call.leading; ++axis)
    DP_RETURN_IF_ERROR(write_even(&call, axis));
  for (int64_t level = call.leading < 0; level < call.ragged_rank; ++level)
    DP_RETURN_IF_ERROR(write_splits(&call, level));
  return write_values(&call);
}

static const dp_kernel rows[] = {
    {.op = "RaggedGather",
     .types = {{"Tindices", DP_SET_INDEX}, {"Tsplits", DP_SET_INDEX}},
     .state_size = sizeof(int64_t),
     .create = gather_create,
     .compute = gather_compute},
};
DP_KERNEL_FAMILY(ragged_gather, rows);
