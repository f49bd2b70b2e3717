/* Reductions over segments of rows: SegmentSum, -Mean, -Prod, -Max, -Min (sorted ids) and
 * UnsortedSegmentSum, -Prod, -Max, -Min (any ids, with the number of segments as an input).
 *
 * A row is all dimensions after those that the ids cover. A sorted segment is a run of rows, which
 * the loops of the reductions combine. Rows of unsorted segments are combined one by one with the
 * loops of binary ops. 16-bit floats are widened as a whole and rounded at the end. */
#include "kernels/shared/family.h"

#include <string.h>
#include "kernels/loops/binary.h"
#include "kernels/loops/index.h"
#include "kernels/loops/reduce.h"
#include "kernels/math/reduce_internal.h"
#include "kernels/shared/support.h"

typedef struct segment_state {
  dp_reduce_fns reduce;
  dp_binary_fn join;
  dp_dtype dtype, work; /* work: float for 16-bit floats */
  bool is_mean;
  bool is_product;
} segment_state;

typedef struct segment_name {
  const char *op;
  dp_reduce_op reduce;
  dp_binary_op join;
} segment_name;

static const segment_name names[] = {
    {"SegmentSum", DP_REDUCE_sum, DP_BINARY_add},
    {"SegmentMean", DP_REDUCE_sum, DP_BINARY_add},
    {"SegmentProd", DP_REDUCE_prod, DP_BINARY_mul},
    {"SegmentMin", DP_REDUCE_min, DP_BINARY_minimum},
    {"SegmentMax", DP_REDUCE_max, DP_BINARY_maximum},
    {"UnsortedSegmentSum", DP_REDUCE_sum, DP_BINARY_add},
    {"UnsortedSegmentProd", DP_REDUCE_prod, DP_BINARY_mul},
    {"UnsortedSegmentMin", DP_REDUCE_min, DP_BINARY_minimum},
    {"UnsortedSegmentMax", DP_REDUCE_max, DP_BINARY_maximum},
};

static dp_status *segment_create(const dp_kernel_setup *setup, void *memory) {
  segment_state *state = memory;
  DP_RETURN_IF_ERROR(dp_node_get_type(setup->node, "T", &state->dtype));
  state->work = dp_kernel_is_short_float(state->dtype) ? DP_FLOAT : state->dtype;
  for (size_t i = 0; i < sizeof names / sizeof names[0]; ++i) {
    if (!dp_node_is(setup->node, names[i].op))
      continue;
    state->reduce = dp_reduce_table()->fn[names[i].reduce][state->work];
    state->join = dp_binary_table()->fn[names[i].join][state->work];
    state->is_product = names[i].reduce == DP_REDUCE_prod;
  }
  state->is_mean = dp_node_is(setup->node, "SegmentMean");
  return NULL;
}

/* ---- Data as arrays of the work dtype ---- */
typedef struct wide_rows {
  const char *from;
  char *to;
  dp_buffer *from_buffer, *to_buffer; /* of 16-bit floats */
} wide_rows;

static dp_status *widen(const segment_state *state, const dp_tensor *input, dp_tensor *output,
                        wide_rows *wide) {
  *wide = (wide_rows){input->data, output->data, NULL, NULL};
  if (!dp_kernel_is_short_float(state->dtype))
    return NULL;
  int64_t from_count = input->shape.elements, to_count = output->shape.elements;
  DP_RETURN_IF_ERROR(dp_buffer_create((size_t)from_count * sizeof(float), &wide->from_buffer));
  dp_status *status = dp_buffer_create((size_t)to_count * sizeof(float), &wide->to_buffer);
  if (status) {
    dp_buffer_release(wide->from_buffer);
    return status;
  }
  dp_kernel_widen(state->dtype, input->data, wide->from_buffer->data, from_count);
  wide->from = wide->from_buffer->data;
  wide->to = wide->to_buffer->data;
  return NULL;
}

static void narrow(const segment_state *state, dp_tensor *output, wide_rows *wide) {
  if (!wide->to_buffer)
    return;
  dp_kernel_narrow(state->dtype, wide->to_buffer->data, output->data, output->shape.elements);
  dp_buffer_release(wide->from_buffer);
  dp_buffer_release(wide->to_buffer);
}

/* Fills whole rows with the op's value for empty segments: 1 for products, else 0. */
static void fill_default(const segment_state *state, char *to, int64_t count) {
  if (state->is_product)
    state->reduce.columns(to, to, 0, count, count);
  else
    memset(to, 0, (size_t)count * dp_dtype_size(state->work));
}

/* ---- Sorted ids ---- */
static dp_status *check_sorted(const dp_tensor *ids, int64_t output_rows) {
  int64_t count = dp_tensor_elements(ids);
  const dp_index_loops *loops = dp_index_loops_of(ids->dtype == DP_INT32);
  if (loops->order(ids->data, count) != DP_INDEX_UNSORTED && dp_tensor_int_at(ids, 0) >= 0)
    return NULL;                        /* the last is within bounds */
  for (int64_t i = 0; i < count; ++i) { /* a run of equal ids is checked at its end */
    int64_t id = dp_tensor_int_at(ids, i), next = i + 1 < count ? dp_tensor_int_at(ids, i + 1) : id;
    if (next == id && i + 1 < count)
      continue;
    if (next < id)
      return DP_INVALID("segment ids are not increasing");
    if (id < 0 || id >= output_rows)
      return DP_INVALID("Segment id %lld out of range [0, %lld), possibly because 'segment_ids' "
                        "input is not sorted.",
                        (long long)id, (long long)output_rows);
  }
  return NULL;
}

static void reduce_runs(const segment_state *state, const dp_tensor *ids, const wide_rows *wide,
                        int64_t inner) {
  int64_t count = dp_tensor_elements(ids), next_row = 0;
  size_t row_bytes = (size_t)inner * dp_dtype_size(state->work);
  for (int64_t begin = 0, end; begin < count; begin = end) {
    int64_t id = dp_tensor_int_at(ids, begin);
    for (end = begin + 1; end < count && dp_tensor_int_at(ids, end) == id;)
      ++end;
    fill_default(state, wide->to + next_row * row_bytes, (id - next_row) * inner);
    char *to = wide->to + id * row_bytes;
    state->reduce.columns(wide->from + begin * row_bytes, to, end - begin, inner, inner);
    if (state->is_mean)
      dp_reduce_divide(state->work, to, inner, end - begin);
    next_row = id + 1;
  }
}

static dp_status *segment_compute(dp_op_context *context, void *memory) {
  const segment_state *state = memory;
  const dp_tensor *input = dp_op_input(context, 0), *ids = dp_op_input(context, 1);
  if (input->shape.rank < 1)
    return DP_INVALID("Shape must be at least rank 1");
  if (ids->shape.rank != 1)
    return DP_INVALID("segment_ids should be a vector.");
  if (ids->shape.elements != input->shape.dims[0])
    return DP_INVALID("segment_ids should be the same size as dimension 0 of input.");
  int64_t count = ids->shape.elements;
  int64_t last = count ? dp_tensor_int_at(ids, count - 1) : -1;
  if (count && (last < 0 || last == INT64_MAX))
    return DP_INVALID("segment ids must be >= 0");
  if (count)
    DP_RETURN_IF_ERROR(check_sorted(ids, last + 1));
  int64_t dims[DP_MAX_RANK];
  memcpy(dims, input->shape.dims, sizeof dims);
  dims[0] = last + 1;
  dp_shape shape;
  DP_RETURN_IF_ERROR(dp_shape_make(input->shape.rank, dims, &shape));
  dp_tensor *output;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &shape, &output));
  if (shape.elements == 0)
    return NULL;
  wide_rows wide;
  DP_RETURN_IF_ERROR(widen(state, input, output, &wide));
  reduce_runs(state, ids, &wide, dp_shape_product(&shape, 1, shape.rank));
  narrow(state, output, &wide);
  return NULL;
}

/* ---- Unsorted ids ---- */
static dp_status *unsorted_shape(const dp_tensor *data, const dp_tensor *ids,
                                 const dp_tensor *segments, dp_shape *shape) {
  if (segments->shape.elements != 1 || segments->shape.rank > 1)
    return DP_INVALID("num_segments should be a scalar, not shape %s",
                      dp_shape_text(&segments->shape));
  bool starts = data->shape.rank >= ids->shape.rank;
  for (int i = 0; starts && i < ids->shape.rank; ++i)
    starts = data->shape.dims[i] == ids->shape.dims[i];
  if (!starts)
    return DP_INVALID("data.shape = %s does not start with segment_ids.shape = %s",
                      dp_shape_text(&data->shape), dp_shape_text(&ids->shape));
  int64_t dims[DP_MAX_RANK + 1] = {dp_tensor_int_at(segments, 0)};
  if (dims[0] < 0)
    return DP_INVALID("Input num_segments == %lld must not be negative.", (long long)dims[0]);
  int rank = 1;
  for (int i = ids->shape.rank; i < data->shape.rank; ++i)
    dims[rank++] = data->shape.dims[i];
  return dp_shape_make(rank, dims, shape);
}

/* "[1,2]" for an index into the ids. */
static const char *index_text(const dp_shape *shape, int64_t index) {
  dp_shape position = *shape;
  for (int i = shape->rank - 1; i >= 0; --i) {
    position.dims[i] = index % shape->dims[i];
    index /= shape->dims[i];
  }
  return dp_shape_text(&position);
}

static dp_status *join_rows(const segment_state *state, const dp_tensor *ids, const wide_rows *wide,
                            int64_t segments, int64_t inner) {
  size_t row_bytes = (size_t)inner * dp_dtype_size(state->work);
  dp_binary_span span = {inner, 1, 1, 1, 0, 0};
  for (int64_t i = 0; i < ids->shape.elements; ++i) {
    int64_t id = dp_tensor_int_at(ids, i);
    if (id < 0)
      continue;
    if (id >= segments)
      return DP_INVALID("segment_ids%s = %lld is out of range [0, %lld)",
                        index_text(&ids->shape, i), (long long)id, (long long)segments);
    char *to = wide->to + id * row_bytes;
    state->join(to, wide->from + i * row_bytes, to, &span);
  }
  return NULL;
}

/* Max and Min start from the lowest and highest finite number, not from infinity. */
static void make_finite(const segment_state *state, char *data, int64_t count, dp_dtype dtype) {
  float limit = dtype == DP_HALF       ? 65504.0f
                : dtype == DP_BFLOAT16 ? 3.38953139e38f
                                       : 3.40282347e38f;
  for (int64_t i = 0; state->work == DP_FLOAT && i < count; ++i) {
    float *value = (float *)data + i;
    *value = *value > limit ? limit : *value < -limit ? -limit : *value;
  }
  for (int64_t i = 0; state->work == DP_DOUBLE && i < count; ++i) {
    double *value = (double *)data + i;
    *value = *value > 1.7976931348623157e308    ? 1.7976931348623157e308
             : *value < -1.7976931348623157e308 ? -1.7976931348623157e308
                                                : *value;
  }
}

static dp_status *unsorted_compute(dp_op_context *context, void *memory) {
  const segment_state *state = memory;
  const dp_tensor *data = dp_op_input(context, 0), *ids = dp_op_input(context, 1);
  dp_shape shape;
  DP_RETURN_IF_ERROR(unsorted_shape(data, ids, dp_op_input(context, 2), &shape));
  dp_tensor *output;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &shape, &output));
  if (shape.elements == 0 && (shape.dims[0] > 0 || data->shape.elements == 0))
    return NULL;
  wide_rows wide;
  DP_RETURN_IF_ERROR(widen(state, data, output, &wide));
  int64_t inner = dp_shape_product(&shape, 1, shape.rank);
  state->reduce.columns(wide.to, wide.to, 0, shape.elements, shape.elements);
  make_finite(state, wide.to, shape.elements, state->dtype);
  dp_status *status = NULL;
  if (data->shape.elements)
    status = join_rows(state, ids, &wide, shape.dims[0], inner);
  narrow(state, output, &wide);
  return status;
}

#define SEGMENT(name, set)                                                                         \
  {                                                                                                \
    .op = #name, .types = {{"T", set}, {"Tindices", DP_SET_INDEX}},                                \
    .state_size = sizeof(segment_state), .create = segment_create, .compute = segment_compute      \
  }
#define UNSORTED(name, set)                                                                        \
  {                                                                                                \
    .op = #name,                                                                                   \
    .types = {{"T", set},                                                                          \
              {"Tindices", DP_SET_INDEX | DP_SET(INT16)},                                          \
              {"Tnumsegments", DP_SET_INDEX}},                                                     \
    .state_size = sizeof(segment_state), .create = segment_create, .compute = unsorted_compute     \
  }

static const dp_kernel rows[] = {
    SEGMENT(SegmentSum, DP_SET_NUMBERS),
    SEGMENT(SegmentMean, DP_SET_NUMBERS),
    SEGMENT(SegmentProd, DP_SET_NUMBERS),
    SEGMENT(SegmentMin, DP_SET_REALS),
    SEGMENT(SegmentMax, DP_SET_REALS),
    UNSORTED(UnsortedSegmentSum, DP_SET_NUMBERS),
    UNSORTED(UnsortedSegmentProd, DP_SET_NUMBERS),
    UNSORTED(UnsortedSegmentMin, DP_SET_REALS),
    UNSORTED(UnsortedSegmentMax, DP_SET_REALS),
};
DP_KERNEL_FAMILY(segment, rows);
