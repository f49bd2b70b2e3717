/* Ops that count values in bins: Bincount, DenseBincount, SparseBincount, RaggedBincount, Bucketize
 * and HistogramFixedWidth. */
#include "kernels/shared/family.h"

#include <math.h>
#include <string.h>
#include "kernels/loops/reduce.h"
#include "kernels/loops/types.h"
#include "kernels/shared/support.h"

/* ---- Bins of any number type ---- */
/* bins[bin] += weights[i], or += 1 without weights, or = 1 when only presence counts. */
typedef void (*count_fn)(void *bins, int64_t bin, const void *weights, int64_t i, bool binary);

#define COUNT(name, type)                                                                          \
  static void count_##name(void *bins, int64_t bin, const void *weights, int64_t i, bool binary) { \
    type *to = (type *)bins + bin;                                                                 \
    *to = binary ? (type)1 : (type)(*to + (weights ? ((const type *)weights)[i] : (type)1));       \
  }
COUNT(float, float)
COUNT(double, double)
COUNT(complex64, dp_complex64)
COUNT(complex128, dp_complex128)
COUNT(uint8, uint8_t)
COUNT(uint16, uint16_t)
COUNT(uint32, uint32_t)
COUNT(uint64, uint64_t)
#undef COUNT

static void count_short(dp_dtype dtype, void *bins, int64_t bin, const void *weights, int64_t i,
                        bool binary) {
  float sum, weight = 1;
  uint16_t *to = (uint16_t *)bins + bin;
  dp_kernel_widen(dtype, to, &sum, 1);
  if (weights)
    dp_kernel_widen(dtype, (const uint16_t *)weights + i, &weight, 1);
  sum = binary ? 1 : sum + weight;
  dp_kernel_narrow(dtype, &sum, to, 1);
}
static void count_half(void *bins, int64_t bin, const void *weights, int64_t i, bool binary) {
  count_short(DP_HALF, bins, bin, weights, i, binary);
}
static void count_bfloat16(void *bins, int64_t bin, const void *weights, int64_t i, bool binary) {
  count_short(DP_BFLOAT16, bins, bin, weights, i, binary);
}

static const count_fn count_fns[DP_DTYPE_END] = {
    [DP_FLOAT] = count_float,         [DP_DOUBLE] = count_double,
    [DP_HALF] = count_half,           [DP_BFLOAT16] = count_bfloat16,
    [DP_COMPLEX64] = count_complex64, [DP_COMPLEX128] = count_complex128,
    [DP_INT8] = count_uint8,          [DP_UINT8] = count_uint8,
    [DP_INT16] = count_uint16,        [DP_UINT16] = count_uint16,
    [DP_INT32] = count_uint32,        [DP_UINT32] = count_uint32,
    [DP_INT64] = count_uint64,        [DP_UINT64] = count_uint64,
};

/* ---- Bincount ---- */
typedef struct bincount_state {
  count_fn count;
  bool binary;
} bincount_state;

static dp_status *bincount_create(const dp_kernel_setup *setup, void *memory) {
  bincount_state *state = memory;
  dp_dtype dtype;
  DP_RETURN_IF_ERROR(dp_node_get_type(setup->node, "T", &dtype));
  state->count = count_fns[dtype];
  if (dp_node_attr(setup->node, "binary_output"))
    return dp_node_get_bool(setup->node, "binary_output", &state->binary);
  return NULL;
}

static dp_status *read_size(const dp_tensor *tensor, int64_t *size) {
  if (tensor->shape.rank != 0)
    return DP_INVALID("Shape must be rank 0 but is rank %d", tensor->shape.rank);
  *size = dp_tensor_int_at(tensor, 0);
  if (*size < 0)
    return DP_INVALID("size (%lld) must be non-negative", (long long)*size);
  return NULL;
}

static dp_status *allocate_bins(dp_op_context *context, int rank, int64_t rows, int64_t size,
                                dp_tensor **output) {
  dp_shape shape;
  int64_t dims[2] = {rows, size};
  DP_RETURN_IF_ERROR(dp_shape_make(rank, dims + 2 - rank, &shape));
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &shape, output));
  memset((*output)->data, 0, dp_tensor_bytes(*output));
  return NULL;
}

static bool has_negative(const dp_tensor *values) {
  union {
    int32_t small;
    int64_t large;
  } least = {0};
  dp_reduce_table()->fn[DP_REDUCE_min][values->dtype].rows(values->data, &least, 1,
                                                           values->shape.elements);
  return values->dtype == DP_INT32 ? least.small < 0 : least.large < 0;
}

static dp_status *check_values(const dp_tensor *values, const dp_tensor *weights) {
  if (has_negative(values))
    return DP_INVALID("Input arr must be non-negative!");
  if (weights->shape.elements && weights->shape.elements != values->shape.elements)
    return DP_INVALID("Input indices and weights must have the same size.");
  return NULL;
}

/* The usual case. Four sets of counters, so that additions for equal neighbours do not wait for
 * each other. */
static void count_ones(const int32_t *values, int64_t count, float *bins, int64_t size) {
  enum { SETS = 4, MOST = 1024 };
  if (size > MOST) {
    for (int64_t i = 0; i < count; ++i)
      if (values[i] < size)
        bins[values[i]] += 1;
    return;
  }
  uint32_t sets[MOST + 1][SETS];
  memset(sets, 0, (size_t)(size + 1) * sizeof sets[0]);
  const int32_t most = (int32_t)size;
  int64_t i = 0;
  for (; i + SETS <= count; i += SETS) {
    const int32_t *v = values + i;
    ++sets[v[0] < most ? v[0] : most][0];
    ++sets[v[1] < most ? v[1] : most][1];
    ++sets[v[2] < most ? v[2] : most][2];
    ++sets[v[3] < most ? v[3] : most][3];
  }
  for (; i < count; ++i)
    ++sets[values[i] < most ? values[i] : most][0];
  for (int64_t bin = 0; bin < size; ++bin)
    bins[bin] += (float)((uint64_t)sets[bin][0] + sets[bin][1] + sets[bin][2] + sets[bin][3]);
}

/* Counts values [begin, end) in the bins of one row. */
static void count_values(const bincount_state *state, const dp_tensor *values,
                         const dp_tensor *weights, char *bins, int64_t size, int64_t begin,
                         int64_t end) {
  const void *weight_data = weights->shape.elements ? weights->data : NULL;
  if (values->dtype == DP_INT32 && !weight_data && !state->binary && state->count == count_float) {
    count_ones((const int32_t *)values->data + begin, end - begin, (float *)bins, size);
    return;
  }
  for (int64_t i = begin; i < end; ++i) {
    int64_t value = dp_tensor_int_at(values, i);
    if (value < size)
      state->count(bins, value, weight_data, i, state->binary);
  }
}

static dp_status *bincount_compute(dp_op_context *context, void *memory) {
  const bincount_state *state = memory;
  const dp_tensor *values = dp_op_input(context, 0), *weights = dp_op_input(context, 2);
  bool is_dense = dp_node_is(context->node, "DenseBincount");
  if (is_dense && (values->shape.rank < 1 || values->shape.rank > 2))
    return DP_INVALID("Shape must be at most rank 2 but is rank %d", values->shape.rank);
  int64_t size;
  DP_RETURN_IF_ERROR(read_size(dp_op_input(context, 1), &size));
  DP_RETURN_IF_ERROR(check_values(values, weights));
  int64_t rows = is_dense && values->shape.rank == 2 ? values->shape.dims[0] : 1;
  dp_tensor *output;
  DP_RETURN_IF_ERROR(
      allocate_bins(context, is_dense ? values->shape.rank : 1, rows, size, &output));
  int64_t columns = rows ? values->shape.elements / rows : 0;
  for (int64_t row = 0; row < rows; ++row)
    count_values(state, values, weights,
                 (char *)output->data + row * size * (int64_t)dp_dtype_size(output->dtype), size,
                 row * columns, (row + 1) * columns);
  return NULL;
}

static dp_status *count_sparse_rows(const bincount_state *state, const dp_tensor *indices,
                                    const dp_tensor *values, const dp_tensor *weights,
                                    dp_tensor *output) {
  int64_t rows = output->shape.dims[0], size = output->shape.dims[1];
  int64_t columns = indices->shape.dims[1];
  for (int64_t i = 0; i < indices->shape.dims[0]; ++i) {
    int64_t row = ((const int64_t *)indices->data)[i * columns], bin = dp_tensor_int_at(values, i);
    if (row < 0 || row >= rows)
      return DP_INVALID("Index out of bound. `batch` (%lld) must be less than the dimension size "
                        "(%lld).",
                        (long long)row, (long long)rows);
    if (bin >= size)
      return DP_INVALID("Index out ouf bound. `bin` (%lld) must be less then the dimension size "
                        "(%lld).",
                        (long long)bin, (long long)size);
    count_values(state, values, weights,
                 (char *)output->data + row * size * (int64_t)dp_dtype_size(output->dtype), size, i,
                 i + 1);
  }
  return NULL;
}

static dp_status *sparse_bincount_compute(dp_op_context *context, void *memory) {
  const bincount_state *state = memory;
  const dp_tensor *indices = dp_op_input(context, 0), *values = dp_op_input(context, 1);
  const dp_tensor *dense_shape = dp_op_input(context, 2), *weights = dp_op_input(context, 4);
  int64_t size;
  DP_RETURN_IF_ERROR(read_size(dp_op_input(context, 3), &size));
  DP_RETURN_IF_ERROR(check_values(values, weights));
  int64_t rank = dense_shape->shape.elements;
  if (rank < 1 || rank > 2)
    return DP_INVALID("Shape must be at most rank 2 but is rank %lld", (long long)rank);
  if (indices->shape.rank != 2 || indices->shape.dims[0] != values->shape.elements ||
      indices->shape.dims[1] != rank)
    return DP_INVALID(
        "Input indices must be a matrix with one row of %lld for each of %lld values, "
        "got shape %s",
        (long long)rank, (long long)values->shape.elements, dp_shape_text(&indices->shape));
  dp_tensor *output;
  int64_t rows = rank == 2 ? dp_tensor_int_at(dense_shape, 0) : 1;
  DP_RETURN_IF_ERROR(allocate_bins(context, (int)rank, rows, size, &output));
  if (rank == 2)
    return count_sparse_rows(state, indices, values, weights, output);
  count_values(state, values, weights, output->data, size, 0, values->shape.elements);
  return NULL;
}

static dp_status *check_splits(const dp_tensor *splits, int64_t values) {
  if (splits->shape.rank != 1 || splits->shape.elements < 1)
    return DP_INVALID("Splits must be a vector of at least one element");
  const int64_t *at = splits->data;
  int64_t count = splits->shape.elements;
  if (at[0] != 0)
    return DP_INVALID("Splits must start with 0, not with %lld", (long long)at[0]);
  for (int64_t i = 1; i < count; ++i)
    if (at[i] < at[i - 1])
      return DP_INVALID("Splits must be in increasing order");
  if (at[count - 1] != values)
    return DP_INVALID("Splits must end with the number of values, got %lld instead of %lld",
                      (long long)at[count - 1], (long long)values);
  return NULL;
}

static dp_status *ragged_bincount_compute(dp_op_context *context, void *memory) {
  const bincount_state *state = memory;
  const dp_tensor *splits = dp_op_input(context, 0), *values = dp_op_input(context, 1);
  const dp_tensor *weights = dp_op_input(context, 3);
  int64_t size;
  DP_RETURN_IF_ERROR(read_size(dp_op_input(context, 2), &size));
  DP_RETURN_IF_ERROR(check_splits(splits, values->shape.elements));
  DP_RETURN_IF_ERROR(check_values(values, weights));
  int64_t rows = splits->shape.elements - 1;
  const int64_t *at = splits->data;
  dp_tensor *output;
  DP_RETURN_IF_ERROR(allocate_bins(context, 2, rows, size, &output));
  for (int64_t row = 0; row < rows; ++row)
    count_values(state, values, weights,
                 (char *)output->data + row * size * (int64_t)dp_dtype_size(output->dtype), size,
                 at[row], at[row + 1]);
  return NULL;
}

/* ---- Bucketize ---- */
typedef struct bucketize_state {
  const float *boundaries;
  int64_t count;
} bucketize_state;

static dp_status *bucketize_create(const dp_kernel_setup *setup, void *memory) {
  bucketize_state *state = memory;
  const dp_attr *boundaries;
  DP_RETURN_IF_ERROR(dp_node_get_list(setup->node, "boundaries", DP_ATTR_LIST_FLOAT, &boundaries));
  for (int32_t i = 1; i < boundaries->count; ++i)
    if (boundaries->numbers[i] < boundaries->numbers[i - 1])
      return DP_INVALID("Expected sorted boundaries");
  state->boundaries = boundaries->numbers;
  state->count = boundaries->count;
  return NULL;
}

/* The value of a number of any real dtype. */
static double number_at(const dp_tensor *tensor, int64_t i) {
  switch (tensor->dtype) {
  case DP_FLOAT:
    return (double)((const float *)tensor->data)[i];
  case DP_DOUBLE:
    return ((const double *)tensor->data)[i];
  case DP_HALF:
    return (double)dp_half_to_float(((const uint16_t *)tensor->data)[i]);
  case DP_BFLOAT16:
    return (double)dp_bfloat16_to_float(((const uint16_t *)tensor->data)[i]);
  case DP_UINT64:
    return (double)((const uint64_t *)tensor->data)[i];
  default:
    return (double)dp_tensor_int_at(tensor, i);
  }
}

static dp_status *bucketize_compute(dp_op_context *context, void *memory) {
  const bucketize_state *state = memory;
  const dp_tensor *input = dp_op_input(context, 0);
  dp_tensor *output;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &input->shape, &output));
  for (int64_t i = 0; i < input->shape.elements; ++i) {
    double value = number_at(input, i);
    int64_t low = 0, high = state->count; /* finds the first boundary above the value */
    while (low < high) {
      int64_t middle = (low + high) / 2;
      if (value < (double)state->boundaries[middle])
        high = middle;
      else
        low = middle + 1;
    }
    ((int32_t *)output->data)[i] = (int32_t)low;
  }
  return NULL;
}

/* ---- HistogramFixedWidth ---- */
static dp_status *histogram_compute(dp_op_context *context, void *memory) {
  const dp_tensor *values = dp_op_input(context, 0), *range = dp_op_input(context, 1);
  const dp_tensor *bins = dp_op_input(context, 2);
  if (range->shape.rank != 1)
    return DP_INVALID("value_range should be a vector.");
  if (range->shape.elements != 2)
    return DP_INVALID("value_range should be a vector of 2 elements.");
  if (bins->shape.rank != 0)
    return DP_INVALID("nbins should be a scalar.");
  double low = number_at(range, 0), high = number_at(range, 1);
  int64_t count = dp_tensor_int_at(bins, 0);
  if (!(low < high))
    return DP_INVALID("value_range should satisfy value_range[0] < value_range[1], but got '[%g, "
                      "%g]'",
                      low, high);
  if (count <= 0)
    return DP_INVALID("nbins should be a positive number, but got '%lld'", (long long)count);
  dp_shape shape = dp_shape_vector(count);
  dp_tensor *output;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &shape, &output));
  memset(output->data, 0, dp_tensor_bytes(output));
  double step = (high - low) / (double)count;
  for (int64_t i = 0; i < values->shape.elements; ++i) {
    double value = number_at(values, i), at = (value > low ? value - low : 0) / step;
    int64_t bin = at < (double)(count - 1) ? (int64_t)at : count - 1;
    if (isnan(value))
      return DP_INVALID("values must not contain NaN");
    if (output->dtype == DP_INT32)
      ++((int32_t *)output->data)[bin];
    else
      ++((int64_t *)output->data)[bin];
  }
  return NULL;
}

#define BINCOUNT(name, function, ...)                                                              \
  {                                                                                                \
    .op = #name, .types = {{"T", DP_SET_NUMBERS}, __VA_ARGS__},                                    \
    .state_size = sizeof(bincount_state), .create = bincount_create, .compute = function           \
  }
static const dp_kernel rows[] = {
    BINCOUNT(Bincount, bincount_compute, {0}),
    BINCOUNT(DenseBincount, bincount_compute, {"Tidx", DP_SET_INDEX}),
    BINCOUNT(SparseBincount, sparse_bincount_compute, {"Tidx", DP_SET_INDEX}),
    BINCOUNT(RaggedBincount, ragged_bincount_compute, {"Tidx", DP_SET_INDEX}),
    {.op = "Bucketize",
     .types = {{"T", DP_SET(FLOAT) | DP_SET(DOUBLE) | DP_SET_INDEX}},
     .state_size = sizeof(bucketize_state),
     .create = bucketize_create,
     .compute = bucketize_compute},
    {.op = "HistogramFixedWidth",
     .types = {{"T", DP_SET_REALS}, {"dtype", DP_SET_INDEX}},
     .compute = histogram_compute},
};
DP_KERNEL_FAMILY(histogram, rows);
