/* Cumsum, Cumprod and CumulativeLogsumexp: running results along an axis.
 *
 * An element of the result combines the element before it with an element of the input. So the work
 * goes row by row: a row of `inner` elements is combined with the row before. Outer slices are
 * split over the pool. 16-bit floats are kept as floats until the end of a slice. */
#include "kernels/shared/family.h"

#include <math.h>
#include "base/memory.h"
#include "kernels/loops/types.h"
#include "kernels/shared/support.h"

/* x and result are [n, inner]. */
typedef struct scan {
  int64_t n, inner;
  bool exclusive, reverse;
} scan;

static inline int64_t row_at(const scan *scan, int64_t i) {
  return scan->reverse ? scan->n - 1 - i : i;
}

static inline float log_add_float(float a, float b) {
  float high = a > b ? a : b, low = a > b ? b : a;
  return high == -INFINITY || low == -INFINITY ? high : high + log1pf(expf(low - high));
}
static inline double log_add_double(double a, double b) {
  double high = a > b ? a : b, low = a > b ? b : a;
  return high == -INFINITY || low == -INFINITY ? high : high + log1p(exp(low - high));
}

#define T float
#define NAME sum_float
#define IDENTITY 0
#define JOIN(a, b) ((a) + (b))
#include "kernels/math/cumulative.tmpl.h"
#define T float
#define NAME prod_float
#define IDENTITY 1
#define JOIN(a, b) ((a) * (b))
#include "kernels/math/cumulative.tmpl.h"
#define T float
#define NAME log_sum_float
#define IDENTITY -INFINITY
#define JOIN(a, b) log_add_float(a, b)
#include "kernels/math/cumulative.tmpl.h"
#define T double
#define NAME sum_double
#define IDENTITY 0
#define JOIN(a, b) ((a) + (b))
#include "kernels/math/cumulative.tmpl.h"
#define T double
#define NAME prod_double
#define IDENTITY 1
#define JOIN(a, b) ((a) * (b))
#include "kernels/math/cumulative.tmpl.h"
#define T double
#define NAME log_sum_double
#define IDENTITY -INFINITY
#define JOIN(a, b) log_add_double(a, b)
#include "kernels/math/cumulative.tmpl.h"
#define T uint8_t
#define NAME sum_uint8
#define IDENTITY 0
#define JOIN(a, b) ((uint8_t)((a) + (b)))
#include "kernels/math/cumulative.tmpl.h"
#define T uint8_t
#define NAME prod_uint8
#define IDENTITY 1
#define JOIN(a, b) ((uint8_t)((uint64_t)(a) * (b)))
#include "kernels/math/cumulative.tmpl.h"
#define T uint16_t
#define NAME sum_uint16
#define IDENTITY 0
#define JOIN(a, b) ((uint16_t)((a) + (b)))
#include "kernels/math/cumulative.tmpl.h"
#define T uint16_t
#define NAME prod_uint16
#define IDENTITY 1
#define JOIN(a, b) ((uint16_t)((uint64_t)(a) * (b)))
#include "kernels/math/cumulative.tmpl.h"
#define T uint32_t
#define NAME sum_uint32
#define IDENTITY 0
#define JOIN(a, b) ((uint32_t)((a) + (b)))
#include "kernels/math/cumulative.tmpl.h"
#define T uint32_t
#define NAME prod_uint32
#define IDENTITY 1
#define JOIN(a, b) ((uint32_t)((uint64_t)(a) * (b)))
#include "kernels/math/cumulative.tmpl.h"
#define T uint64_t
#define NAME sum_uint64
#define IDENTITY 0
#define JOIN(a, b) ((uint64_t)((a) + (b)))
#include "kernels/math/cumulative.tmpl.h"
#define T uint64_t
#define NAME prod_uint64
#define IDENTITY 1
#define JOIN(a, b) ((uint64_t)((uint64_t)(a) * (b)))
#include "kernels/math/cumulative.tmpl.h"
#define T dp_complex64
#define NAME sum_complex64
#define IDENTITY 0
#define JOIN(a, b) ((a) + (b))
#include "kernels/math/cumulative.tmpl.h"
#define T dp_complex64
#define NAME prod_complex64
#define IDENTITY 1
#define JOIN(a, b) dp_complex64_multiply(a, b)
#include "kernels/math/cumulative.tmpl.h"
#define T dp_complex128
#define NAME sum_complex128
#define IDENTITY 0
#define JOIN(a, b) ((a) + (b))
#include "kernels/math/cumulative.tmpl.h"
#define T dp_complex128
#define NAME prod_complex128
#define IDENTITY 1
#define JOIN(a, b) dp_complex128_multiply(a, b)
#include "kernels/math/cumulative.tmpl.h"

typedef void (*scan_fn)(const void *from, void *to, const scan *scan);
static const scan_fn sum_fns[DP_DTYPE_END] = {
    [DP_FLOAT] = sum_float,   [DP_DOUBLE] = sum_double,       [DP_UINT8] = sum_uint8,
    [DP_INT8] = sum_uint8,    [DP_UINT16] = sum_uint16,       [DP_INT16] = sum_uint16,
    [DP_UINT32] = sum_uint32, [DP_INT32] = sum_uint32,        [DP_UINT64] = sum_uint64,
    [DP_INT64] = sum_uint64,  [DP_COMPLEX64] = sum_complex64, [DP_COMPLEX128] = sum_complex128,
};
static const scan_fn prod_fns[DP_DTYPE_END] = {
    [DP_FLOAT] = prod_float,   [DP_DOUBLE] = prod_double,       [DP_UINT8] = prod_uint8,
    [DP_INT8] = prod_uint8,    [DP_UINT16] = prod_uint16,       [DP_INT16] = prod_uint16,
    [DP_UINT32] = prod_uint32, [DP_INT32] = prod_uint32,        [DP_UINT64] = prod_uint64,
    [DP_INT64] = prod_uint64,  [DP_COMPLEX64] = prod_complex64, [DP_COMPLEX128] = prod_complex128,
};
static const scan_fn log_sum_fns[DP_DTYPE_END] = {
    [DP_FLOAT] = log_sum_float,
    [DP_DOUBLE] = log_sum_double,
};

typedef struct scan_state {
  scan_fn fn;
  dp_dtype dtype;
  bool exclusive, reverse;
} scan_state;

static dp_status *scan_create(const dp_kernel_setup *setup, void *memory) {
  scan_state *state = memory;
  DP_RETURN_IF_ERROR(dp_node_get_type(setup->node, "T", &state->dtype));
  DP_RETURN_IF_ERROR(dp_node_get_bool(setup->node, "exclusive", &state->exclusive));
  DP_RETURN_IF_ERROR(dp_node_get_bool(setup->node, "reverse", &state->reverse));
  dp_dtype type = dp_kernel_is_short_float(state->dtype) ? DP_FLOAT : state->dtype;
  state->fn = dp_node_is(setup->node, "Cumsum")    ? sum_fns[type]
              : dp_node_is(setup->node, "Cumprod") ? prod_fns[type]
                                                   : log_sum_fns[type];
  return NULL;
}

typedef struct scan_work {
  const scan_state *state;
  const char *from;
  char *to;
  scan scan;
} scan_work;

static void run(void *arg, int64_t begin, int64_t end) {
  const scan_work *work = arg;
  int64_t count = work->scan.n * work->scan.inner;
  size_t size = dp_dtype_size(work->state->dtype);
  bool is_short = dp_kernel_is_short_float(work->state->dtype);
  float *wide = is_short ? dp_malloc((size_t)count * 2 * sizeof(float)) : NULL;
  for (int64_t i = begin; i < end; ++i) {
    const char *from = work->from + i * count * size;
    char *to = work->to + i * count * size;
    if (!is_short) {
      work->state->fn(from, to, &work->scan);
      continue;
    }
    dp_kernel_widen(work->state->dtype, (const uint16_t *)from, wide, count);
    work->state->fn(wide, wide + count, &work->scan);
    dp_kernel_narrow(work->state->dtype, wide + count, (uint16_t *)to, count);
  }
  dp_free(wide);
}

static dp_status *scan_compute(dp_op_context *context, void *memory) {
  const scan_state *state = memory;
  const dp_tensor *input = dp_op_input(context, 0), *axis_tensor = dp_op_input(context, 1);
  if (axis_tensor->shape.rank != 0)
    return DP_INVALID("ScanOp: axis must be a scalar, not %s", dp_shape_text(&axis_tensor->shape));
  int64_t given = dp_tensor_int_at(axis_tensor, 0);
  int rank = input->shape.rank, axis;
  if (!dp_kernel_normalize_axis(given, rank, &axis))
    return DP_INVALID("ScanOp: Expected scan axis in the range [%d, %d), but got %lld", -rank, rank,
                      (long long)given);
  dp_tensor *output;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &input->shape, &output));
  if (input->shape.elements == 0)
    return NULL;
  scan_work work = {state,
                    input->data,
                    output->data,
                    {input->shape.dims[axis], dp_shape_product(&input->shape, axis + 1, rank),
                     state->exclusive, state->reverse}};
  dp_op_for(context, dp_shape_product(&input->shape, 0, axis), work.scan.n * work.scan.inner + 5,
            run, &work);
  return NULL;
}

#define SCAN(name, set)                                                                            \
  {                                                                                                \
    .op = #name, .types = {{"T", set}, {"Tidx", DP_SET_INDEX}}, .state_size = sizeof(scan_state),  \
    .create = scan_create, .compute = scan_compute                                                 \
  }
static const dp_kernel rows[] = {
    SCAN(Cumsum, DP_SET_NUMBERS),
    SCAN(Cumprod, DP_SET_NUMBERS),
    SCAN(CumulativeLogsumexp, DP_SET_FLOATS),
};
DP_KERNEL_FAMILY(cumulative, rows);
