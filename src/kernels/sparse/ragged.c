/* Ragged tensors: values and row splits. RaggedRange makes rows of ranges, RaggedTensorToSparse
 * gives each value its coordinates. Splits come from users: each starts at 0, never decreases and
 * ends at the size of what it splits. */
#include "kernels/shared/family.h"

#include <math.h>
#include <string.h>
#include "kernels/shared/sparse.h"

/* ---- RaggedRange ---- */
/* One input: a scalar that serves all rows, or a vector. */
static const char *range_at(const dp_tensor *input, int64_t row) {
  size_t size = dp_dtype_size(input->dtype);
  return (const char *)input->data + (input->shape.rank ? (size_t)row * size : 0);
}

static dp_status *range_rows(dp_op_context *context, int64_t *rows_out) {
  static const char *const names[] = {"starts", "limits", "deltas"};
  int64_t rows = -1;
  for (int32_t i = 0; i < 3; ++i) {
    const dp_tensor *input = dp_op_input(context, i);
    if (input->shape.rank > 1)
      return DP_INVALID("%s must be a scalar or vector", names[i]);
    if (input->shape.rank == 0)
      continue;
    if (rows >= 0 && input->shape.dims[0] != rows)
      return DP_INVALID("starts, limits, and deltas must have the same shape");
    rows = input->shape.dims[0];
  }
  *rows_out = rows < 0 ? 1 : rows;
  return NULL;
}

/* Elements in a row; -1 when delta is zero, -2 when there are too many. */
static int64_t range_size(dp_dtype dtype, const char *start, const char *limit, const char *delta) {
  if (dtype == DP_FLOAT || dtype == DP_DOUBLE) {
    bool is_float = dtype == DP_FLOAT;
    double a = is_float ? *(const float *)start : *(const double *)start;
    double b = is_float ? *(const float *)limit : *(const double *)limit;
    double step = is_float ? *(const float *)delta : *(const double *)delta;
    if (step == 0)
      return -1;
    if ((step > 0 && a >= b) || (step < 0 && a <= b))
      return 0;
    /* In the type itself, where rounding may make a difference of one. */
    double size = is_float ? ceil((double)fabsf(((float)b - (float)a) / (float)step))
                           : ceil(fabs((b - a) / step));
    return size < 0x1p62 ? (int64_t)size : -2; /* NaN too is too much */
  }
  bool is_short = dtype == DP_INT32;
  int64_t a = is_short ? *(const int32_t *)start : *(const int64_t *)start;
  int64_t b = is_short ? *(const int32_t *)limit : *(const int64_t *)limit;
  int64_t step = is_short ? *(const int32_t *)delta : *(const int64_t *)delta;
  if (step == 0)
    return -1;
  if ((step > 0 && a >= b) || (step < 0 && a <= b))
    return 0;
  uint64_t distance = step > 0 ? (uint64_t)b - (uint64_t)a : (uint64_t)a - (uint64_t)b;
  uint64_t stride = step > 0 ? (uint64_t)step : 0 - (uint64_t)step;
  uint64_t size = (distance - 1) / stride + 1;
  return size < (uint64_t)1 << 62 ? (int64_t)size : -2;
}

#define FILL(type)                                                                                 \
  {                                                                                                \
    type value = *(const type *)start, step = *(const type *)delta;                                \
    for (int64_t i = 0; i < count; ++i, value += step)                                             \
      ((type *)to)[i] = value;                                                                     \
    return;                                                                                        \
  }

static void range_fill(dp_dtype dtype, const char *start, const char *delta, void *to,
                       int64_t count) {
  switch (dtype) {
  case DP_FLOAT:
    FILL(float)
  case DP_DOUBLE:
    FILL(double)
  case DP_INT32:
    FILL(uint32_t)
  default:
    FILL(uint64_t)
  }
}

static dp_status *range(dp_op_context *context, void *memory) {
  (void)memory;
  const dp_tensor *starts = dp_op_input(context, 0), *limits = dp_op_input(context, 1);
  const dp_tensor *deltas = dp_op_input(context, 2);
  int64_t rows, total = 0;
  DP_RETURN_IF_ERROR(range_rows(context, &rows));
  dp_shape shape = dp_shape_vector(rows + 1);
  dp_tensor *splits, *values;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &shape, &splits));
  dp_tensor_set_int(splits, 0, 0);
  int64_t most = splits->dtype == DP_INT32 ? INT32_MAX : INT64_MAX;
  for (int64_t row = 0; row < rows; ++row) {
    int64_t size = range_size(starts->dtype, range_at(starts, row), range_at(limits, row),
                              range_at(deltas, row));
    if (size == -1)
      return DP_INVALID("Requires delta != 0");
    if (size < 0 || __builtin_add_overflow(total, size, &total) || total > most)
      return DP_INVALID("Requires ((limit - start) / delta) <= %lld", (long long)most);
    dp_tensor_set_int(splits, row + 1, total);
  }
  shape = dp_shape_vector(total);
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 1, &shape, &values));
  size_t size = dp_dtype_size(values->dtype);
  for (int64_t row = 0; row < rows; ++row) {
    int64_t begin = dp_tensor_int_at(splits, row), end = dp_tensor_int_at(splits, row + 1);
    range_fill(values->dtype, range_at(starts, row), range_at(deltas, row),
               (char *)values->data + (size_t)begin * size, end - begin);
  }
  return NULL;
}

/* ---- RaggedTensorToSparse ---- */
static dp_status *check_splits(const dp_tensor *splits, int64_t *end_out) {
  if (splits->shape.rank != 1)
    return DP_INVALID("Expected each split of rt_nested_splits to be a vector, got shape %s",
                      dp_shape_text(&splits->shape));
  int64_t count = splits->shape.elements;
  if (count < 1)
    return DP_INVALID("ragged splits may not be empty.");
  if (dp_tensor_int_at(splits, 0) != 0)
    return DP_INVALID("First value of ragged splits must be 0.");
  for (int64_t i = 1; i < count; ++i) {
    int64_t before = dp_tensor_int_at(splits, i - 1), now = dp_tensor_int_at(splits, i);
    if (now < before)
      return DP_INVALID("Ragged splits should be non decreasing, but we got %lld followed by %lld",
                        (long long)before, (long long)now);
  }
  *end_out = dp_tensor_int_at(splits, count - 1);
  return NULL;
}

/* Each level's splits end where the next level has rows, the last where the values end. */
static dp_status *check_levels(dp_op_context *context, int32_t levels) {
  for (int32_t level = 0; level < levels; ++level) {
    int64_t end;
    DP_RETURN_IF_ERROR(check_splits(dp_op_input(context, level), &end));
    const dp_tensor *next = dp_op_input(context, level + 1);
    if (next->shape.rank < 1)
      return DP_INVALID("The %s must have rank 1 or more",
                        level + 1 < levels ? "splits" : "values");
    int64_t rows = next->shape.dims[0] - (level + 1 < levels);
    if (rows != end)
      return DP_INVALID("Final value of ragged splits must match the length the corresponding "
                        "ragged values.");
  }
  return NULL;
}

/* The dense shape: the longest row of each level, then the values' own dimensions. */
static dp_status *dense_shape(dp_op_context *context, int32_t levels, int64_t *dims,
                              int32_t *rank_out) {
  const dp_tensor *values = dp_op_input(context, levels);
  int32_t rank = levels + values->shape.rank;
  if (rank > DP_MAX_RANK)
    return DP_INVALID("A sparse tensor has at most %d dimensions, not %d", DP_MAX_RANK, rank);
  dims[0] = dp_op_input(context, 0)->shape.dims[0] - 1;
  for (int32_t level = 0; level < levels; ++level) {
    const dp_tensor *splits = dp_op_input(context, level);
    dims[level + 1] = 0;
    for (int64_t i = 1; i < splits->shape.elements; ++i) {
      int64_t length = dp_tensor_int_at(splits, i) - dp_tensor_int_at(splits, i - 1);
      dims[level + 1] = length > dims[level + 1] ? length : dims[level + 1];
    }
  }
  for (int i = 1; i < values->shape.rank; ++i)
    dims[levels + i] = values->shape.dims[i];
  *rank_out = rank;
  return NULL;
}

static dp_status *to_sparse(dp_op_context *context, void *memory) {
  (void)memory;
  int32_t levels = context->input_count - 1, rank;
  int64_t dims[DP_MAX_RANK] = {0}, *to, rows[DP_MAX_RANK] = {0};
  if (levels < 1 || levels >= DP_MAX_RANK)
    return DP_INVALID("A ragged tensor has 1 to %d levels of splits, not %d", DP_MAX_RANK - 1,
                      levels);
  DP_RETURN_IF_ERROR(check_levels(context, levels));
  DP_RETURN_IF_ERROR(dense_shape(context, levels, dims, &rank));
  const dp_tensor *values = dp_op_input(context, levels);
  int64_t count = values->shape.elements;
  int64_t inner = values->shape.dims[0] ? count / values->shape.dims[0] : 0;
  DP_RETURN_IF_ERROR(dp_sparse_allocate_indices(context, 0, count, rank, &to));
  dp_shape flat = dp_shape_vector(count);
  dp_tensor shared = dp_tensor_reshaped(values, &flat);
  dp_op_set_output(context, 1, &shared);
  DP_RETURN_IF_ERROR(dp_sparse_output_dims(context, 2, dims, rank));
  for (int64_t i = 0; i < count; ++i, to += rank) {
    int64_t at = i / inner, left = i % inner;
    for (int32_t j = rank - 1; j > levels; --j) {
      to[j] = left % dims[j];
      left /= dims[j];
    }
    for (int32_t level = levels - 1; level >= 0; --level) {
      const dp_tensor *splits = dp_op_input(context, level);
      while (dp_tensor_int_at(splits, rows[level] + 1) <= at)
        ++rows[level];
      to[level + 1] = at - dp_tensor_int_at(splits, rows[level]);
      at = rows[level];
    }
    to[0] = at;
  }
  return NULL;
}

static const dp_kernel rows[] = {
    {.op = "RaggedRange",
     .types = {{"T", DP_SET(FLOAT) | DP_SET(DOUBLE) | DP_SET_INDEX}, {"Tsplits", DP_SET_INDEX}},
     .compute = range},
    {.op = "RaggedTensorToSparse", .types = {{"Tsplits", DP_SET_INDEX}}, .compute = to_sparse},
};
DP_KERNEL_FAMILY(ragged, rows);
