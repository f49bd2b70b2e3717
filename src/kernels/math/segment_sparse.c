/* SparseSegmentSum, -Mean and -SqrtN, and their gradients: rows are chosen by index and grouped by
 * sorted segment ids. Embedding lookups become these ops.
 *
 * Forward: result[s] = scale(n_s) * sum of data[indices[i]] over the n_s positions i of segment s.
 * Backward: result[r] = sum of scale(n_s) * gradient[s] over positions i with indices[i] = r. The
 * V2 gradients give only the rows that occur, and their indices. For 16-bit floats, sums are kept
 * in float. */
#include "kernels/shared/family.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/memory.h"
#include "kernels/loops/binary.h"
#include "kernels/math/reduce_internal.h"
#include "kernels/shared/support.h"

typedef enum scale_kind { SCALE_NONE, SCALE_MEAN, SCALE_SQRT } scale_kind;

typedef struct sparse_state {
  dp_binary_fn add;
  dp_dtype dtype, work;
  scale_kind scale;
  bool has_segment_count;
} sparse_state;

static dp_status *sparse_create(const dp_kernel_setup *setup, void *memory) {
  sparse_state *state = memory;
  const char *op = setup->node->op->name;
  DP_RETURN_IF_ERROR(dp_node_get_type(setup->node, "T", &state->dtype));
  state->work = dp_kernel_is_short_float(state->dtype) ? DP_FLOAT : state->dtype;
  state->add = dp_binary_table()->fn[DP_BINARY_add][state->work];
  state->scale = strstr(op, "Mean") ? SCALE_MEAN : strstr(op, "SqrtN") ? SCALE_SQRT : SCALE_NONE;
  state->has_segment_count = strstr(op, "WithNumSegments") != NULL;
  return NULL;
}

/* ---- Checks that all forms share ---- */
static dp_status *check_inputs(const dp_tensor *data, const dp_tensor *indices,
                               const dp_tensor *ids) {
  if (data->shape.rank < 1)
    return DP_INVALID("Shape must be at least rank 1");
  if (indices->shape.rank != 1)
    return DP_INVALID("indices should be a vector.");
  if (ids->shape.rank != 1)
    return DP_INVALID("segment_ids should be a vector.");
  if (indices->shape.elements != ids->shape.elements)
    return DP_INVALID("segment_ids and indices should have same size.");
  return NULL;
}

static dp_status *shape_with_rows(const dp_tensor *data, int64_t rows, dp_shape *shape) {
  int64_t dims[DP_MAX_RANK];
  memcpy(dims, data->shape.dims, sizeof dims);
  dims[0] = rows;
  return dp_shape_make(data->shape.rank, dims, shape);
}

static double scale_of(scale_kind kind, int64_t count) {
  double n = count > 1 ? (double)count : 1.0;
  return kind == SCALE_MEAN ? 1.0 / n : kind == SCALE_SQRT ? 1.0 / sqrt(n) : 1.0;
}

/* ---- Rows of the work dtype ---- */
/* Copies a row of the tensor, times `scale`, in the work dtype. */
static void read_row(const sparse_state *state, const void *data, int64_t row, int64_t inner,
                     double scale, void *to) {
  const char *from = (const char *)data + row * inner * (int64_t)dp_dtype_size(state->dtype);
  if (dp_kernel_is_short_float(state->dtype))
    dp_kernel_widen(state->dtype, (const uint16_t *)from, to, inner);
  else
    memcpy(to, from, (size_t)inner * dp_dtype_size(state->dtype));
  if (scale == 1.0)
    return;
  if (state->work == DP_FLOAT)
    for (int64_t i = 0; i < inner; ++i)
      ((float *)to)[i] *= (float)scale;
  else if (state->work == DP_DOUBLE)
    for (int64_t i = 0; i < inner; ++i)
      ((double *)to)[i] *= scale;
}

static void add_row(const sparse_state *state, void *sum, const void *row, int64_t inner) {
  state->add(sum, row, sum, &(dp_binary_span){inner, 1, 1, 1, 0, 0});
}

static void write_row(const sparse_state *state, const void *from, dp_tensor *output, int64_t row,
                      int64_t inner) {
  char *to = (char *)output->data + row * inner * (int64_t)dp_dtype_size(state->dtype);
  if (dp_kernel_is_short_float(state->dtype))
    dp_kernel_narrow(state->dtype, from, (uint16_t *)to, inner);
  else
    memcpy(to, from, (size_t)inner * dp_dtype_size(state->dtype));
}

/* ---- Forward ---- */
static void finish_sum(const sparse_state *state, void *sum, int64_t inner, int64_t count) {
  if (state->scale == SCALE_MEAN) {
    dp_reduce_divide(state->work, sum, inner, count);
  } else if (state->scale == SCALE_SQRT) {
    double root = sqrt((double)count);
    for (int64_t i = 0; i < inner; ++i) {
      if (state->work == DP_FLOAT)
        ((float *)sum)[i] /= (float)root;
      else
        ((double *)sum)[i] /= root;
    }
  }
}

static dp_status *check_position(const dp_tensor *data, const dp_tensor *indices,
                                 const dp_tensor *ids, int64_t i, int64_t rows) {
  int64_t id = dp_tensor_int_at(ids, i), index = dp_tensor_int_at(indices, i);
  if (i > 0 && id < dp_tensor_int_at(ids, i - 1))
    return DP_INVALID("segment ids are not increasing");
  if (id < 0 || id >= rows)
    return DP_INVALID("Segment id %lld out of range [0, %lld), possibly because 'segment_ids' "
                      "input is not sorted.",
                      (long long)id, (long long)rows);
  if (index < 0 || index >= data->shape.dims[0])
    return DP_INVALID("Bad: indices[%lld] == %lld out of range [0, %lld)", (long long)i,
                      (long long)index, (long long)data->shape.dims[0]);
  return NULL;
}

static dp_status *segment_rows(const sparse_state *state, const dp_op_context *context,
                               int64_t *rows_out) {
  const dp_tensor *ids = dp_op_input(context, 2);
  int64_t count = ids->shape.elements;
  int64_t last = count ? dp_tensor_int_at(ids, count - 1) : -1;
  if (!state->has_segment_count) {
    if (count && (last < 0 || last == INT64_MAX))
      return DP_INVALID("segment ids must be >= 0");
    *rows_out = last + 1;
    return NULL;
  }
  const dp_tensor *segments = dp_op_input(context, 3);
  if (segments->shape.rank > 1 || segments->shape.elements != 1)
    return DP_INVALID("num_segments should be a scalar, not shape %s",
                      dp_shape_text(&segments->shape));
  *rows_out = dp_tensor_int_at(segments, 0);
  if (*rows_out < 0)
    return DP_INVALID("segment ids must be >= 0");
  if (last >= *rows_out)
    return DP_INVALID("segment ids must be < num_segments");
  return NULL;
}

static dp_status *sum_segments(const sparse_state *state, const dp_op_context *context,
                               dp_tensor *output, void *space) {
  const dp_tensor *data = dp_op_input(context, 0), *indices = dp_op_input(context, 1);
  const dp_tensor *ids = dp_op_input(context, 2);
  int64_t inner = dp_shape_product(&output->shape, 1, output->shape.rank);
  size_t row_bytes = (size_t)inner * dp_dtype_size(state->work);
  void *sum = space, *row = (char *)space + row_bytes;
  for (int64_t begin = 0, end; begin < ids->shape.elements; begin = end) {
    int64_t id = dp_tensor_int_at(ids, begin);
    for (end = begin; end < ids->shape.elements && dp_tensor_int_at(ids, end) == id; ++end) {
      DP_RETURN_IF_ERROR(check_position(data, indices, ids, end, output->shape.dims[0]));
      bool is_first = end == begin;
      read_row(state, data->data, dp_tensor_int_at(indices, end), inner, 1.0, is_first ? sum : row);
      if (!is_first)
        add_row(state, sum, row, inner);
    }
    finish_sum(state, sum, inner, end - begin);
    write_row(state, sum, output, id, inner);
  }
  return NULL;
}

static dp_status *sparse_compute(dp_op_context *context, void *memory) {
  const sparse_state *state = memory;
  const dp_tensor *data = dp_op_input(context, 0);
  DP_RETURN_IF_ERROR(check_inputs(data, dp_op_input(context, 1), dp_op_input(context, 2)));
  int64_t rows = 0;
  DP_RETURN_IF_ERROR(segment_rows(state, context, &rows));
  dp_shape shape;
  DP_RETURN_IF_ERROR(shape_with_rows(data, rows, &shape));
  dp_tensor *output;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &shape, &output));
  memset(output->data, 0, dp_tensor_bytes(output));
  int64_t inner = dp_shape_product(&shape, 1, shape.rank);
  dp_buffer *space;
  DP_RETURN_IF_ERROR(dp_buffer_create((size_t)inner * 2 * dp_dtype_size(state->work), &space));
  dp_status *status = sum_segments(state, context, output, space->data);
  dp_buffer_release(space);
  return status;
}

/* ---- Gradients ---- */
/* The number of positions of each segment. */
static dp_status *count_segments(const dp_tensor *ids, int64_t segments, int64_t *counts) {
  for (int64_t i = 0; i < ids->shape.elements; ++i) {
    int64_t id = dp_tensor_int_at(ids, i);
    if (id < 0 || id >= segments)
      return DP_INVALID("Invalid number of segments");
    ++counts[id];
  }
  return NULL;
}

/* Adds scaled gradient rows; position i goes to row places[i] of `sums` (work dtype). */
static void scatter(const sparse_state *state, const dp_op_context *context, const int64_t *counts,
                    const int64_t *places, char *sums, char *row, int64_t inner) {
  const dp_tensor *gradient = dp_op_input(context, 0), *ids = dp_op_input(context, 2);
  size_t row_bytes = (size_t)inner * dp_dtype_size(state->work);
  for (int64_t i = 0; i < ids->shape.elements; ++i) {
    int64_t id = dp_tensor_int_at(ids, i);
    read_row(state, gradient->data, id, inner, scale_of(state->scale, counts[id]), row);
    add_row(state, sums + places[i] * row_bytes, row, inner);
  }
}

static dp_status *scatter_into(const sparse_state *state, const dp_op_context *context,
                               const int64_t *counts, const int64_t *places, dp_tensor *output) {
  int64_t inner = dp_shape_product(&output->shape, 1, output->shape.rank);
  size_t row_bytes = (size_t)inner * dp_dtype_size(state->work);
  bool is_short = dp_kernel_is_short_float(state->dtype);
  size_t sum_bytes = is_short ? row_bytes * (size_t)output->shape.dims[0] : 0;
  dp_buffer *space;
  DP_RETURN_IF_ERROR(dp_buffer_create(sum_bytes + row_bytes, &space));
  char *sums = is_short ? space->data : output->data;
  memset(sums, 0, row_bytes * (size_t)output->shape.dims[0]);
  scatter(state, context, counts, places, sums, (char *)space->data + sum_bytes, inner);
  if (is_short)
    dp_kernel_narrow(state->dtype, (float *)sums, output->data, output->shape.elements);
  dp_buffer_release(space);
  return NULL;
}

/* number_distinct sorts the distinct indices and replaces each place by its position among them. */
static int compare_ints(const void *a, const void *b) {
  int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x > y) - (x < y);
}

static void number_distinct(int64_t *places, int64_t count, int64_t *distinct,
                            int64_t *distinct_count) {
  memcpy(distinct, places, sizeof(int64_t) * (size_t)count);
  qsort(distinct, (size_t)count, sizeof(int64_t), compare_ints);
  int64_t kept = 0;
  for (int64_t i = 0; i < count; ++i)
    if (i == 0 || distinct[i] != distinct[i - 1])
      distinct[kept++] = distinct[i];
  for (int64_t i = 0; i < count; ++i) {
    const int64_t *found =
        bsearch(&places[i], distinct, (size_t)kept, sizeof(int64_t), compare_ints);
    places[i] = found - distinct;
  }
  *distinct_count = kept;
}

static dp_status *output_distinct(dp_op_context *context, const int64_t *distinct, int64_t count) {
  dp_shape shape = dp_shape_vector(count);
  dp_tensor *output;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 1, &shape, &output));
  for (int64_t i = 0; i < count; ++i) {
    dp_tensor_set_int(output, i, distinct[i]);
  }
  return NULL;
}

static dp_status *run_gradient(dp_op_context *context, const sparse_state *state, int64_t rows,
                               int64_t *places, int64_t *counts, int64_t *distinct) {
  const dp_tensor *gradient = dp_op_input(context, 0), *indices = dp_op_input(context, 1);
  int64_t count = indices->shape.elements;
  DP_RETURN_IF_ERROR(count_segments(dp_op_input(context, 2), gradient->shape.dims[0], counts));
  for (int64_t i = 0; i < count; ++i) {
    places[i] = dp_tensor_int_at(indices, i);
    if (places[i] < 0 || places[i] >= rows)
      return DP_INVALID("Index %lld out of range [0, %lld).", (long long)places[i],
                        (long long)rows);
  }
  if (context->output_count > 1) {
    number_distinct(places, count, distinct, &rows);
    DP_RETURN_IF_ERROR(output_distinct(context, distinct, rows));
  }
  dp_shape shape;
  DP_RETURN_IF_ERROR(shape_with_rows(gradient, rows, &shape));
  dp_tensor *output;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &shape, &output));
  return scatter_into(state, context, counts, places, output);
}

static dp_status *gradient_compute(dp_op_context *context, void *memory) {
  const dp_tensor *gradient = dp_op_input(context, 0), *indices = dp_op_input(context, 1);
  const dp_tensor *rows_tensor = dp_op_input(context, 3);
  DP_RETURN_IF_ERROR(check_inputs(gradient, indices, dp_op_input(context, 2)));
  if (rows_tensor->shape.rank > 1 || rows_tensor->shape.elements != 1)
    return DP_INVALID("output_dim0 should be a scalar.");
  int64_t rows = dp_tensor_int_at(rows_tensor, 0);
  if (rows < 0)
    return DP_INVALID("output_dim0 must be >= 0, got %lld", (long long)rows);
  int64_t count = indices->shape.elements, segments = gradient->shape.dims[0];
  int64_t *numbers = dp_try_malloc(sizeof(int64_t) * (size_t)(2 * count + segments + 1));
  if (!numbers)
    return dp_status_out_of_memory();
  memset(numbers + 2 * count, 0, sizeof(int64_t) * (size_t)(segments + 1));
  dp_status *status =
      run_gradient(context, memory, rows, numbers, numbers + 2 * count, numbers + count);
  dp_free(numbers);
  return status;
}

#define FORWARD(name, set)                                                                         \
  {                                                                                                \
    .op = name, .types = {{"T", set}, {"Tidx", DP_SET_INDEX}, {"Tsegmentids", DP_SET_INDEX}},      \
    .state_size = sizeof(sparse_state), .create = sparse_create, .compute = sparse_compute         \
  }
#define BACKWARD(name)                                                                             \
  {                                                                                                \
    .op = name,                                                                                    \
    .types = {{"T", DP_SET_FLOATS}, {"Tidx", DP_SET_INDEX}, {"Tsegmentids", DP_SET_INDEX}},        \
    .state_size = sizeof(sparse_state), .create = sparse_create, .compute = gradient_compute       \
  }

static const dp_kernel rows[] = {
    FORWARD("SparseSegmentSum", DP_SET_REALS),
    FORWARD("SparseSegmentMean", DP_SET_FLOATS),
    FORWARD("SparseSegmentSqrtN", DP_SET_FLOATS),
    FORWARD("SparseSegmentSumWithNumSegments", DP_SET_REALS),
    FORWARD("SparseSegmentMeanWithNumSegments", DP_SET_FLOATS),
    FORWARD("SparseSegmentSqrtNWithNumSegments", DP_SET_FLOATS),
    BACKWARD("SparseSegmentSumGrad"),
    BACKWARD("SparseSegmentMeanGrad"),
    BACKWARD("SparseSegmentSqrtNGrad"),
    BACKWARD("SparseSegmentSumGradV2"),
    BACKWARD("SparseSegmentMeanGradV2"),
    BACKWARD("SparseSegmentSqrtNGradV2"),
};
DP_KERNEL_FAMILY(sparse_segment, rows);
