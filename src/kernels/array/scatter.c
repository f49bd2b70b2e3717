/* Scatters into tensors: ScatterNd, TensorScatter*, the Inplace ops and SparseToDense. The result
 * reuses the memory of the updated tensor when that has no other user. Rows are combined in the
 * order of the indices, so that results with repeated indices are the same in every run. */
#include "kernels/loops/index.h"
#include "kernels/loops/move.h"
#include "kernels/shared/combine.h"
#include "kernels/shared/family.h"
#include "kernels/shared/indices.h"
#include "kernels/shared/move.h"

/* ---- Rows of N-dimensional indices ---- */
typedef struct scatter_state {
  dp_combine combine;
  dp_bad_indices policy;
} scatter_state;

static dp_combine_kind kind_of(const dp_node *node) {
  static const struct {
    const char *op;
    dp_combine_kind kind;
  } kinds[] = {
      {"ScatterNd", DP_COMBINE_ADD},
      {"ScatterNdNonAliasingAdd", DP_COMBINE_ADD},
      {"TensorScatterAdd", DP_COMBINE_ADD},
      {"TensorScatterSub", DP_COMBINE_SUBTRACT},
      {"TensorScatterMin", DP_COMBINE_MINIMUM},
      {"TensorScatterMax", DP_COMBINE_MAXIMUM},
      {"InplaceAdd", DP_COMBINE_ADD},
      {"InplaceSub", DP_COMBINE_SUBTRACT},
  };
  for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; ++i)
    if (dp_node_is(node, kinds[i].op))
      return kinds[i].kind;
  return DP_COMBINE_ASSIGN;
}

static dp_status *scatter_create(const dp_kernel_setup *setup, void *memory) {
  scatter_state *state = memory;
  dp_dtype dtype;
  DP_RETURN_IF_ERROR(dp_kernel_type(setup, "T", &dtype));
  DP_RETURN_IF_ERROR(dp_indices_read_policy(setup, &state->policy));
  return dp_combine_init(&state->combine, kind_of(setup->node), dtype);
}

/* The error for indices and updates that do not fit. ScatterNd and the ops that take a tensor have
 * different wordings. */
static dp_status *refuse_outer(const dp_shape *indices, const dp_shape *updates, bool has_tensor) {
  int outer = indices->rank - 1;
  if (has_tensor)
    return DP_INVALID("Outer dimensions of indices and update must match. Indices shape: %s, "
                      "updates shape:%s",
                      dp_shape_text(indices), dp_shape_text(updates));
  return DP_INVALID("Dimensions [0,%d) of indices[shape=%s] must match dimensions [0,%d) of "
                    "updates[shape=%s]",
                    outer, dp_shape_text(indices), outer, dp_shape_text(updates));
}

static dp_status *refuse_inner(const dp_shape *shape, int64_t depth, int outer,
                               const dp_shape *updates, bool has_tensor) {
  int inner = updates->rank - outer;
  if (!has_tensor)
    return DP_INVALID("Dimensions [%lld,%d) of input[shape=%s] must match dimensions [%d,%d) of "
                      "updates[shape=%s]",
                      (long long)depth, shape->rank, dp_shape_text(shape), outer, updates->rank,
                      dp_shape_text(updates));
  if (inner != shape->rank - depth)
    return DP_INVALID("Inner dimensions of output shape must match inner dimensions of updates "
                      "shape. Output: %s updates: %s",
                      dp_shape_text(shape), dp_shape_text(updates));
  return DP_INVALID("The inner %d dimensions of output.shape=%s must match the inner %d dimensions "
                    "of updates.shape=%s",
                    inner, dp_shape_text(shape), inner, dp_shape_text(updates));
}

static dp_status *check_scatter(const dp_shape *shape, const dp_shape *indices,
                                const dp_shape *updates, bool has_tensor) {
  if (indices->rank < 1)
    return DP_INVALID("Indices shape must have rank at least one. Found:%s",
                      dp_shape_text(indices));
  if (updates->rank < 1)
    return DP_INVALID("Updates shape must have rank at least one. Found:%s",
                      dp_shape_text(updates));
  if (shape->elements == 0 && (indices->elements > 0 || updates->elements > 0))
    return DP_INVALID(
        "Indices and updates specified for empty output%s%s",
        has_tensor ? " shape" : ".  indices shape: ", has_tensor ? "" : dp_shape_text(indices));
  int outer = indices->rank - 1;
  int64_t depth = indices->dims[outer];
  for (int i = 0; i < outer; ++i)
    if (i >= updates->rank || indices->dims[i] != updates->dims[i])
      return refuse_outer(indices, updates, has_tensor);
  bool fits = depth <= shape->rank && updates->rank - outer == shape->rank - depth;
  for (int i = 0; fits && i + outer < updates->rank; ++i)
    fits = updates->dims[i + outer] == shape->dims[depth + i];
  return fits ? NULL : refuse_inner(shape, depth, outer, updates, has_tensor);
}

static dp_status *scatter_rows(const scatter_state *state, dp_tensor *output,
                               const dp_tensor *indices, const dp_tensor *updates) {
  if (output->shape.elements == 0 || updates->shape.elements == 0)
    return NULL;
  dp_indices_rows rows;
  dp_indices_rows_init(&rows, indices, &output->shape);
  int64_t elements = dp_shape_product(&output->shape, (int)rows.depth, output->shape.rank);
  size_t bytes = (size_t)elements * state->combine.size;
  for (int64_t i = 0; i < rows.rows; ++i) {
    int64_t slice = dp_indices_rows_slice(&rows, i);
    if (slice < 0 && state->policy == DP_BAD_INDICES_ERROR)
      return dp_indices_rows_error(&rows, i, "shape", &output->shape);
    if (slice >= 0)
      DP_RETURN_IF_ERROR(dp_combine_run(&state->combine, (char *)output->data + slice * bytes,
                                        (const char *)updates->data + i * bytes, elements));
  }
  return NULL;
}

static dp_status *scatter_new_compute(dp_op_context *context, void *state) {
  const dp_tensor *indices = dp_op_input(context, 0), *updates = dp_op_input(context, 1);
  const dp_tensor *sizes = dp_op_input(context, 2);
  if (sizes->shape.rank != 1)
    return DP_INVALID("Shape must be a vector");
  dp_shape shape = {0};
  DP_RETURN_IF_ERROR(dp_kernel_read_shape(sizes, "shape", &shape));
  DP_RETURN_IF_ERROR(check_scatter(&shape, &indices->shape, &updates->shape, false));
  dp_tensor *output;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &shape, &output));
  dp_move_fill(context, output->dtype, output->data, NULL, shape.elements);
  return scatter_rows(state, output, indices, updates);
}

static dp_status *scatter_tensor_compute(dp_op_context *context, void *state) {
  const dp_tensor *indices = dp_op_input(context, 1), *updates = dp_op_input(context, 2);
  DP_RETURN_IF_ERROR(
      check_scatter(&dp_op_input(context, 0)->shape, &indices->shape, &updates->shape, true));
  dp_tensor *output;
  DP_RETURN_IF_ERROR(dp_move_first_to_output(context, &output));
  return scatter_rows(state, output, indices, updates);
}

/* ---- Inplace ops: rows of dimension 0 ---- */
static dp_status *inplace_compute(dp_op_context *context, void *memory) {
  const scatter_state *state = memory;
  const dp_tensor *indices = dp_op_input(context, 1), *values = dp_op_input(context, 2);
  const dp_shape *x = &dp_op_input(context, 0)->shape, *v = &values->shape;
  if (indices->shape.rank != 1)
    return DP_INVALID("i must be a vector. %s", dp_shape_text(&indices->shape));
  if (x->rank != v->rank)
    return DP_INVALID("x and v shape doesn't match (ranks differ): %s vs. %s", dp_shape_text(x),
                      dp_shape_text(v));
  for (int i = 1; i < x->rank; ++i)
    if (x->dims[i] != v->dims[i])
      return DP_INVALID("x and v shape doesn't match at index %d : %s vs. %s", i, dp_shape_text(x),
                        dp_shape_text(v));
  if (v->rank < 1 || indices->shape.dims[0] != v->dims[0])
    return DP_INVALID("i and x shape doesn't match at index 0: %s vs. %s",
                      dp_shape_text(&indices->shape), dp_shape_text(v));
  dp_tensor *output;
  DP_RETURN_IF_ERROR(dp_move_first_to_output(context, &output));
  int64_t count = dp_tensor_elements(indices), rows = output->shape.dims[0];
  if (output->shape.elements == 0 || count == 0)
    return NULL;
  int64_t elements = output->shape.elements / rows;
  size_t bytes = (size_t)elements * state->combine.size;
  for (int64_t i = 0; i < count; ++i) {
    int64_t row = (dp_tensor_int_at(indices, i) % rows + rows) % rows;
    DP_RETURN_IF_ERROR(dp_combine_run(&state->combine, (char *)output->data + row * bytes,
                                      (const char *)values->data + i * bytes, elements));
  }
  return NULL;
}

/* ---- SparseToDense ---- */
static dp_status *sparse_create(const dp_kernel_setup *setup, void *state) {
  return dp_node_get_bool(setup->node, "validate_indices", state);
}

static dp_status *sparse_check(dp_op_context *context, int64_t *count_out, int64_t *depth_out) {
  const dp_shape *indices = &dp_op_input(context, 0)->shape;
  const dp_shape *sizes = &dp_op_input(context, 1)->shape;
  const dp_shape *values = &dp_op_input(context, 2)->shape;
  if (indices->rank > 2)
    return DP_INVALID("sparse_indices should be a scalar, vector, or matrix, got shape %s",
                      dp_shape_text(indices));
  int64_t count = indices->rank > 0 ? indices->dims[0] : 1;
  int64_t depth = indices->rank > 1 ? indices->dims[1] : 1;
  if (sizes->rank != 1)
    return DP_INVALID("output_shape must be rank 1, got shape %s", dp_shape_text(sizes));
  if (sizes->elements != depth)
    return DP_INVALID("output_shape has incorrect number of elements: %lld should be: %lld",
                      (long long)sizes->elements, (long long)depth);
  if (values->rank != 0 && !(values->rank == 1 && values->elements == count))
    return DP_INVALID("sparse_values has incorrect shape %s, should be [] or [%lld]",
                      dp_shape_text(values), (long long)count);
  if (dp_op_input(context, 3)->shape.rank != 0)
    return DP_INVALID("default_value should be a scalar.");
  *count_out = count;
  *depth_out = depth;
  return NULL;
}

/* Whether a vector of indices increases and stays within bounds. */
static bool increases(const dp_indices_rows *rows) {
  const dp_tensor *indices = rows->indices;
  return rows->depth == 1 && rows->rows > 0 &&
         dp_index_loops_of(indices->dtype == DP_INT32)->order(indices->data, rows->rows) ==
             DP_INDEX_INCREASES &&
         dp_tensor_int_at(indices, 0) >= 0 &&
         dp_tensor_int_at(indices, rows->rows - 1) < rows->dims[0];
}

/* With validation, rows must be in order, without repeats, and within bounds. */
static dp_status *sparse_check_order(const dp_indices_rows *rows, const dp_shape *shape) {
  int64_t previous = -1;
  for (int64_t i = 0; i < rows->rows; ++i) {
    int64_t slice = dp_indices_rows_slice(rows, i);
    if (slice > previous) {
      previous = slice;
      continue;
    }
    dp_text values = {0};
    for (int64_t d = 0; d < rows->depth; ++d)
      dp_text_printf(&values, "%s%lld", d ? "," : "",
                     (long long)dp_tensor_int_at(rows->indices, i * rows->depth + d));
    dp_status *status = DP_INVALID(
        "indices[%lld] = [%s] is %s%s", (long long)i, dp_text_string(&values),
        slice < 0          ? "out of bounds: need 0 <= index < "
        : slice < previous ? "out of order. Many sparse ops require sorted indices.\n"
                             "    Use `tf.sparse.reorder` to create a correctly ordered copy.\n\n"
                           : "repeated",
        slice < 0 ? dp_shape_text(shape) : "");
    dp_text_deinit(&values);
    return status;
  }
  return NULL;
}

/* Copies the values, or the one value, to their places. False when a place is out of bounds. */
static bool sparse_place(const dp_indices_rows *rows, const dp_tensor *values,
                         const dp_shape *shape, dp_tensor *output) {
  size_t size = dp_dtype_size(output->dtype), step = values->shape.rank == 0 ? 0 : size;
  bool is_word = size == sizeof(uint32_t) && dp_dtype_is_plain(output->dtype);
  const char *from = values->data;
  for (int64_t i = 0; i < rows->rows; ++i, from += step) {
    int64_t slice = dp_indices_rows_slice(rows, i);
    if (slice < 0)
      return false;
    if (is_word)
      ((uint32_t *)output->data)[slice] = *(const uint32_t *)from;
    else
      dp_move_elements(output->dtype, size, (char *)output->data + slice * size, from, 1);
  }
  return true;
}

/* ---- A vector of increasing indices: a part of the result is filled, and gets its values while it
 * is in the cache ---- */
#define PART_BYTES ((int64_t)128 << 10)

typedef struct sparse_work {
  const dp_tensor *indices, *values, *blank;
  char *to;
  size_t size;
  dp_move_fill_fn fill;
  const dp_index_loops *loops;
} sparse_work;

/* The first position whose index is not below `limit`. */
static int64_t first_from(const dp_tensor *indices, int64_t limit) {
  int64_t low = 0, high = indices->shape.elements;
  while (low < high) {
    int64_t middle = low + (high - low) / 2;
    if (dp_tensor_int_at(indices, middle) < limit)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

static void fill_and_place(void *arg, int64_t begin, int64_t end) {
  const sparse_work *work = arg;
  int64_t size = (int64_t)work->size, part = PART_BYTES / size;
  size_t index_size = dp_dtype_size(work->indices->dtype);
  for (int64_t at = begin; at < end; at += part) {
    int64_t stop = end - at < part ? end : at + part;
    work->fill(work->to + at * size, work->blank->data, stop - at);
    int64_t first = first_from(work->indices, at), last = first_from(work->indices, stop);
    work->loops->scatter(work->to, (const char *)work->values->data + first * size,
                         (const char *)work->indices->data + (size_t)first * index_size,
                         last - first, size);
  }
}

static void run_increasing(dp_op_context *context, dp_tensor *output) {
  sparse_work work = {.indices = dp_op_input(context, 0),
                      .values = dp_op_input(context, 2),
                      .blank = dp_op_input(context, 3),
                      .to = output->data,
                      .size = dp_dtype_size(output->dtype)};
  work.fill = dp_move_table()->fill[__builtin_ctzll(work.size)];
  work.loops = dp_index_loops_of(work.indices->dtype == DP_INT32);
  dp_kernel_for(context, output->shape.elements, 50 * (int64_t)work.size, fill_and_place, &work);
}

static dp_status *sparse_compute(dp_op_context *context, void *state) {
  const dp_tensor *indices = dp_op_input(context, 0), *values = dp_op_input(context, 2);
  int64_t count = 0, depth = 0;
  DP_RETURN_IF_ERROR(sparse_check(context, &count, &depth));
  dp_shape shape = {0};
  DP_RETURN_IF_ERROR(dp_kernel_read_shape(dp_op_input(context, 1), "output_shape", &shape));
  dp_indices_rows rows = {.indices = indices, .depth = depth, .rows = count};
  dp_move_strides(&shape, rows.strides);
  memcpy(rows.dims, shape.dims, sizeof rows.dims);
  bool is_simple = increases(&rows);
  if (*(const bool *)state && !is_simple)
    DP_RETURN_IF_ERROR(sparse_check_order(&rows, &shape));
  dp_tensor *output;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &shape, &output));
  if (is_simple && values->shape.rank == 1 && dp_dtype_is_plain(output->dtype)) {
    run_increasing(context, output);
    return NULL;
  }
  dp_move_fill(context, output->dtype, output->data, dp_op_input(context, 3)->data, shape.elements);
  return sparse_place(&rows, values, &shape, output)
             ? NULL
             : DP_INVALID("Indices are not valid (out of bounds).  Shape: %s",
                          dp_shape_text(&shape));
}

#define SCATTER(name, body)                                                                        \
  {                                                                                                \
    .op = name, .types = {{"Tindices", DP_SET_INDEX}}, .state_size = sizeof(scatter_state),        \
    .create = scatter_create, .compute = body                                                      \
  }
#define INPLACE(name)                                                                              \
  {                                                                                                \
    .op = name, .state_size = sizeof(scatter_state), .create = scatter_create,                     \
    .compute = inplace_compute                                                                     \
  }
static const dp_kernel rows[] = {
    SCATTER("ScatterNd", scatter_new_compute),
    SCATTER("ScatterNdNonAliasingAdd", scatter_tensor_compute),
    SCATTER("TensorScatterUpdate", scatter_tensor_compute),
    SCATTER("TensorScatterAdd", scatter_tensor_compute),
    SCATTER("TensorScatterSub", scatter_tensor_compute),
    SCATTER("TensorScatterMin", scatter_tensor_compute),
    SCATTER("TensorScatterMax", scatter_tensor_compute),
    INPLACE("InplaceUpdate"),
    INPLACE("InplaceAdd"),
    INPLACE("InplaceSub"),
    {.op = "SparseToDense",
     .types = {{"Tindices", DP_SET_INDEX}},
     .state_size = sizeof(bool),
     .create = sparse_create,
     .compute = sparse_compute},
};
DP_KERNEL_FAMILY(array_scatter, rows);
