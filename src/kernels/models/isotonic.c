/* IsotonicRegression: for each row, the non-increasing sequence with the least squared distance. It
 * is found by pooling neighbours that increase into their mean. Sums of 16-bit floats are rounded
 * after every step as in TensorFlow, because the rounding decides which neighbours are pooled. */
#include "kernels/shared/family.h"

/* A pool: neighbours from its `begin` to the next pool's, which share a mean. */
typedef struct pool {
  int64_t begin, count;
  double sum, mean;
} pool;

typedef struct isotonic_call {
  dp_tensor *output;
  const dp_tensor *input;
  int32_t *segments;
  int64_t columns;
  pool *pools; /* one per element, so that every row has its own */
} isotonic_call;

/* Rounds to the precision of the output's dtype. */
static double round_to(dp_dtype dtype, double value) {
  switch (dtype) {
  case DP_DOUBLE:
    return value;
  case DP_HALF:
    return (double)dp_half_to_float(dp_half_from_float((float)value));
  case DP_BFLOAT16:
    return (double)dp_bfloat16_to_float(dp_bfloat16_from_float((float)value));
  default:
    return (double)(float)value;
  }
}

static double read_value(const dp_tensor *input, int64_t at) {
  switch (input->dtype) {
  case DP_DOUBLE:
    return ((const double *)input->data)[at];
  case DP_FLOAT:
    return (double)((const float *)input->data)[at];
  case DP_HALF:
    return (double)dp_half_to_float(((const uint16_t *)input->data)[at]);
  case DP_BFLOAT16:
    return (double)dp_bfloat16_to_float(((const uint16_t *)input->data)[at]);
  default:
    return (double)dp_tensor_any_int_at(input, at);
  }
}

static void write_value(dp_tensor *output, int64_t at, double value) {
  switch (output->dtype) {
  case DP_DOUBLE:
    ((double *)output->data)[at] = value;
    break;
  case DP_FLOAT:
    ((float *)output->data)[at] = (float)value;
    break;
  case DP_HALF:
    ((uint16_t *)output->data)[at] = dp_half_from_float((float)value);
    break;
  default:
    ((uint16_t *)output->data)[at] = dp_bfloat16_from_float((float)value);
  }
}

static void merge(dp_dtype dtype, pool *into, const pool *other) {
  into->count += other->count;
  into->sum = round_to(dtype, into->sum + other->sum);
  into->mean = round_to(dtype, into->sum / round_to(dtype, (double)into->count));
}

static void solve_row(const isotonic_call *call, int64_t row) {
  int64_t first = row * call->columns, count = 0;
  pool *pools = call->pools + first;
  dp_dtype dtype = call->output->dtype;
  for (int64_t column = 0; column < call->columns; ++column) {
    double value = round_to(dtype, read_value(call->input, first + column));
    pools[count++] = (pool){.begin = column, .count = 1, .sum = value, .mean = value};
    for (; count > 1 && pools[count - 1].mean > pools[count - 2].mean; --count)
      merge(dtype, &pools[count - 2], &pools[count - 1]);
  }
  for (int64_t i = 0; i < count; ++i) {
    for (int64_t j = 0; j < pools[i].count; ++j) {
      write_value(call->output, first + pools[i].begin + j, pools[i].mean);
      call->segments[first + pools[i].begin + j] = (int32_t)i;
    }
  }
}

static void solve_rows(void *arg, int64_t begin, int64_t end) {
  for (int64_t row = begin; row < end; ++row)
    solve_row(arg, row);
}

static dp_status *isotonic_compute(dp_op_context *context, void *memory) {
  (void)memory;
  const dp_tensor *input = dp_op_input(context, 0);
  const dp_shape *shape = &input->shape;
  int64_t columns = shape->rank ? shape->dims[shape->rank - 1] : 1;
  int64_t count = shape->elements, row_count = columns ? count / columns : 0;
  if (columns > INT32_MAX || row_count > INT32_MAX)
    return DP_INVALID("Tensor too large");
  dp_tensor *output, *segments;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, shape, &output));
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 1, shape, &segments));
  dp_buffer *pools;
  DP_RETURN_IF_ERROR(dp_buffer_create((size_t)count * sizeof(pool), &pools));
  isotonic_call call = {.output = output,
                        .input = input,
                        .segments = segments->data,
                        .columns = columns,
                        .pools = pools->data};
  dp_op_for(context, row_count, columns * 20, solve_rows, &call);
  dp_buffer_release(pools);
  return NULL;
}

#define ISOTONIC(from, to)                                                                         \
  {                                                                                                \
    .op = "IsotonicRegression", .types = {{"T", from}, {"output_dtype", to}},                      \
    .compute = isotonic_compute                                                                    \
  }
static const dp_kernel rows[] = {
    ISOTONIC(DP_SET(FLOAT) | DP_SET(INT16) | DP_SET(INT8), DP_SET(FLOAT)),
    ISOTONIC(DP_SET(DOUBLE) | DP_SET(INT32) | DP_SET(INT64), DP_SET(DOUBLE)),
    ISOTONIC(DP_SET(HALF), DP_SET(HALF)),
    ISOTONIC(DP_SET(BFLOAT16), DP_SET(BFLOAT16)),
};
DP_KERNEL_FAMILY(isotonic, rows);
