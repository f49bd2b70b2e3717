/* SparseReduceSum and -Max with dense and sparse results, and SparseSoftmax over the last
 * dimension. Entries are sorted so that entries with the same kept coordinates are consecutive.
 * Each such group is reduced by the loops of the dense reductions. 16-bit floats are widened as a
 * whole and rounded at the end. */
#include "kernels/shared/family.h"

#include <string.h>
#include "kernels/loops/reduce.h"
#include "kernels/loops/softmax.h"
#include "kernels/shared/sparse.h"
#include "kernels/shared/widen.h"

typedef struct reduce_state {
  dp_dtype dtype, work;
  dp_reduce_fns reduce;
  bool keep_dims;
} reduce_state;

static dp_status *reduce_create(const dp_kernel_setup *setup, void *memory) {
  reduce_state *state = memory;
  DP_RETURN_IF_ERROR(dp_node_get_type(setup->node, "T", &state->dtype));
  state->work = dp_kernel_is_short_float(state->dtype) ? DP_FLOAT : state->dtype;
  bool is_sum = dp_node_is(setup->node, "SparseReduceSum") ||
                dp_node_is(setup->node, "SparseReduceSumSparse");
  state->reduce = dp_reduce_table()->fn[is_sum ? DP_REDUCE_sum : DP_REDUCE_max][state->work];
  return dp_node_get_bool(setup->node, "keep_dims", &state->keep_dims);
}

/* Entries in the order of the kept dimensions, as the work dtype. */
typedef struct sorted_entries {
  dp_sparse sparse;
  dp_sparse_order order;
  int32_t kept[DP_MAX_RANK]; /* dimensions that stay */
  int32_t kept_count;
  dp_tensor values;
  const void *wide;
  dp_buffer *wide_buffer;
} sorted_entries;

static void entries_deinit(sorted_entries *entries) {
  dp_sparse_order_deinit(&entries->order);
  dp_tensor_deinit(&entries->values);
  dp_buffer_release(entries->wide_buffer);
}

/* Sorts by the kept dimensions first, then by the others. */
static dp_status *entries_sort(dp_op_context *context, sorted_entries *entries, dp_dtype work) {
  const dp_sparse *sparse = &entries->sparse;
  int32_t dimensions[DP_MAX_RANK], count = 0;
  bool is_kept[DP_MAX_RANK] = {false};
  for (; count < entries->kept_count; ++count) {
    dimensions[count] = entries->kept[count];
    is_kept[entries->kept[count]] = true;
  }
  for (int32_t i = 0; i < sparse->rank; ++i) {
    if (!is_kept[i])
      dimensions[count++] = i;
  }
  DP_RETURN_IF_ERROR(dp_sparse_sort(sparse, dimensions, sparse->rank, &entries->order));
  if (entries->order.rows) {
    DP_RETURN_IF_ERROR(
        dp_tensor_create(sparse->values->dtype, &sparse->values->shape, &entries->values));
    dp_sparse_gather(sparse->values->dtype, entries->values.data, sparse->values->data,
                     &entries->order, sparse->count);
  } else {
    entries->values = dp_tensor_copy(sparse->values);
  }
  return dp_kernel_widen_tensor(context, &entries->values, work, &entries->wide,
                                &entries->wide_buffer);
}

static int64_t next_group(const sorted_entries *entries, int64_t begin) {
  return dp_sparse_group_end(&entries->sparse, &entries->order, begin, entries->kept,
                             entries->kept_count);
}

static const void *value_at(const sorted_entries *entries, dp_dtype work, int64_t position) {
  return (const char *)entries->wide + (size_t)position * dp_dtype_size(work);
}

/* The coordinates of the group that begins at a position. */
static const int64_t *row_at(const sorted_entries *entries, int64_t position) {
  return entries->sparse.indices +
         dp_sparse_order_at(&entries->order, position) * entries->sparse.rank;
}

/* ---- SparseReduce* ---- */
static dp_status *reduce_open(dp_op_context *context, const reduce_state *state,
                              sorted_entries *entries, dp_shape *reduced) {
  const dp_tensor *axes = dp_op_input(context, 3);
  dp_sparse *sparse = &entries->sparse;
  dp_shape dense;
  bool is_reduced[DP_MAX_RANK] = {false};
  static const dp_sparse_words words = {.indices = "indices must be a matrix, but got: ",
                                        .values = "vals must be a vec, but got: ",
                                        .shape = "Expected input_shape to be a vector; got shape: ",
                                        .is_tensor = true};
  DP_RETURN_IF_ERROR(dp_sparse_open(context, 0, 1, 2, &words, sparse));
  if (axes->shape.rank > 1)
    return DP_INVALID("Expected reduction_axes to be a scalar or a vector; got shape: %s",
                      dp_shape_text(&axes->shape));
  for (int64_t i = 0; i < axes->shape.elements; ++i) {
    int axis;
    if (!dp_kernel_normalize_axis(dp_tensor_int_at(axes, i), sparse->rank, &axis))
      return DP_INVALID("Invalid reduction dimension %lld, for input with %d dimensions.",
                        (long long)dp_tensor_int_at(axes, i), sparse->rank);
    is_reduced[axis] = true;
  }
  DP_RETURN_IF_ERROR(dp_sparse_dense_shape(sparse, &dense));
  DP_RETURN_IF_ERROR(dp_sparse_check_bounds(sparse));
  int64_t dims[DP_MAX_RANK];
  int rank = 0;
  for (int32_t i = 0; i < sparse->rank; ++i) {
    if (!is_reduced[i])
      entries->kept[entries->kept_count++] = i;
    if (!is_reduced[i] || state->keep_dims)
      dims[rank++] = is_reduced[i] ? 1 : sparse->dims[i];
  }
  return dp_shape_make(rank, dims, reduced);
}

static dp_status *reduce_to_dense(dp_op_context *context, const reduce_state *state,
                                  sorted_entries *entries, const dp_shape *reduced) {
  dp_tensor *output;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, reduced, &output));
  memset(output->data, 0, dp_tensor_bytes(output));
  DP_RETURN_IF_ERROR(entries_sort(context, entries, state->work));
  size_t size = dp_dtype_size(state->dtype);
  for (int64_t begin = 0, end; begin < entries->sparse.count; begin = end) {
    end = next_group(entries, begin);
    const int64_t *row = row_at(entries, begin);
    int64_t at = 0;
    for (int32_t i = 0; i < entries->kept_count; ++i)
      at = at * entries->sparse.dims[entries->kept[i]] + row[entries->kept[i]];
    const void *from = value_at(entries, state->work, begin);
    char *to = (char *)output->data + (size_t)at * size;
    float wide;
    state->reduce.rows(from, state->work == state->dtype ? (void *)to : &wide, 1, end - begin);
    if (state->work != state->dtype)
      dp_kernel_narrow(state->dtype, &wide, (uint16_t *)(void *)to, 1);
  }
  return NULL;
}

static dp_status *reduce_dense(dp_op_context *context, void *memory) {
  sorted_entries entries = {0};
  dp_shape reduced;
  DP_RETURN_IF_ERROR(reduce_open(context, memory, &entries, &reduced));
  dp_status *status = reduce_to_dense(context, memory, &entries, &reduced);
  entries_deinit(&entries);
  return status;
}

static dp_status *reduce_to_sparse(dp_op_context *context, const reduce_state *state,
                                   sorted_entries *entries, const dp_shape *reduced) {
  DP_RETURN_IF_ERROR(entries_sort(context, entries, state->work));
  int64_t groups = 0, *indices, group = 0;
  for (int64_t begin = 0; begin < entries->sparse.count; begin = next_group(entries, begin))
    ++groups;
  dp_shape shape = dp_shape_vector(groups);
  dp_tensor *values;
  DP_RETURN_IF_ERROR(dp_sparse_allocate_indices(context, 0, groups, reduced->rank, &indices));
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 1, &shape, &values));
  DP_RETURN_IF_ERROR(dp_sparse_output_dims(context, 2, reduced->dims, reduced->rank));
  memset(indices, 0, (size_t)(groups * reduced->rank) * sizeof *indices);
  size_t size = dp_dtype_size(state->dtype);
  for (int64_t begin = 0, end; begin < entries->sparse.count; begin = end, ++group) {
    end = next_group(entries, begin);
    const int64_t *row = row_at(entries, begin);
    for (int32_t i = 0; i < entries->kept_count; ++i)
      indices[group * reduced->rank + (state->keep_dims ? entries->kept[i] : i)] =
          row[entries->kept[i]];
    char *to = (char *)values->data + (size_t)group * size;
    float wide;
    state->reduce.rows(value_at(entries, state->work, begin),
                       state->work == state->dtype ? (void *)to : &wide, 1, end - begin);
    if (state->work != state->dtype)
      dp_kernel_narrow(state->dtype, &wide, (uint16_t *)(void *)to, 1);
  }
  return NULL;
}

static dp_status *reduce_sparse(dp_op_context *context, void *memory) {
  sorted_entries entries = {0};
  dp_shape reduced;
  DP_RETURN_IF_ERROR(reduce_open(context, memory, &entries, &reduced));
  dp_status *status = reduce_to_sparse(context, memory, &entries, &reduced);
  entries_deinit(&entries);
  return status;
}

/* ---- SparseSoftmax ---- */
static dp_status *softmax_groups(dp_op_context *context, sorted_entries *entries) {
  dp_dtype dtype = entries->sparse.values->dtype;
  bool is_double = dtype == DP_DOUBLE;
  dp_dtype work = is_double ? DP_DOUBLE : DP_FLOAT;
  dp_tensor *output;
  dp_buffer *wide = NULL;
  DP_RETURN_IF_ERROR(entries_sort(context, entries, work));
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &entries->sparse.values->shape, &output));
  char *to = output->data;
  if (dtype != work) {
    DP_RETURN_IF_ERROR(dp_buffer_create((size_t)entries->sparse.count * sizeof(float), &wide));
    to = wide->data;
  }
  const dp_softmax_fns *fns =
      is_double ? &dp_softmax_table()->double_fns : &dp_softmax_table()->float_fns;
  for (int64_t begin = 0, end; begin < entries->sparse.count; begin = end) {
    end = next_group(entries, begin);
    fns->softmax(value_at(entries, work, begin), to + (size_t)begin * dp_dtype_size(work), 1,
                 end - begin);
  }
  if (wide)
    dp_kernel_narrow(dtype, wide->data, output->data, entries->sparse.count);
  dp_buffer_release(wide);
  return NULL;
}

static dp_status *softmax(dp_op_context *context, void *state) {
  (void)state;
  sorted_entries entries = {0};
  dp_shape dense;
  static const dp_sparse_words words = {
      .indices = "Input sp_indices should be a matrix but received shape: ",
      .both = "Inputs sp_values and sp_shape should be vectors but received shapes: ",
      .is_tensor = true};
  DP_RETURN_IF_ERROR(dp_sparse_open(context, 0, 1, 2, &words, &entries.sparse));
  if (entries.sparse.rank < 2)
    return DP_INVALID("Input should have rank >= 2, but received rank: %d", entries.sparse.rank);
  DP_RETURN_IF_ERROR(dp_sparse_dense_shape(&entries.sparse, &dense));
  DP_RETURN_IF_ERROR(dp_sparse_check_bounds(&entries.sparse));
  for (int32_t i = 0; i < entries.sparse.rank - 1; ++i)
    entries.kept[entries.kept_count++] = i;
  dp_status *status = softmax_groups(context, &entries);
  entries_deinit(&entries);
  return status;
}

#define REDUCE(name, set, body)                                                                    \
  {                                                                                                \
    .op = name, .types = {{"T", set}}, .state_size = sizeof(reduce_state),                         \
    .create = reduce_create, .compute = body                                                       \
  }
static const dp_kernel rows[] = {
    REDUCE("SparseReduceSum", DP_SET_NUMBERS, reduce_dense),
    REDUCE("SparseReduceMax", DP_SET_REALS, reduce_dense),
    REDUCE("SparseReduceSumSparse", DP_SET_NUMBERS, reduce_sparse),
    REDUCE("SparseReduceMaxSparse", DP_SET_REALS, reduce_sparse),
    {.op = "SparseSoftmax",
     .types = {{"T", DP_SET(HALF) | DP_SET(FLOAT) | DP_SET(DOUBLE)}},
     .compute = softmax},
};
DP_KERNEL_FAMILY(sparse_reduce, rows);
