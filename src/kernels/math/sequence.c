/* Range and LinSpace. Integers of Range go through vector loops; floats are added step by step,
 * because TensorFlow's results depend on that rounding. */
#include "kernels/shared/family.h"

#include <math.h>
#include "kernels/loops/sequence.h"
#include "kernels/shared/support.h"

static dp_status *range_error(bool grows, double start, double limit) {
  dp_text text = {0};
  dp_text_printf(
      &text, "Requires start %s limit when delta %s 0: ", grows ? "<=" : ">=", grows ? ">" : "<");
  dp_text_add_double(&text, start);
  dp_text_add(&text, "/");
  dp_text_add_double(&text, limit);
  dp_status *status = DP_INVALID("%s", dp_text_string(&text));
  dp_text_deinit(&text);
  return status;
}

static double integer_steps(int64_t start, int64_t limit, int64_t delta) {
  uint64_t distance =
      limit > start ? (uint64_t)limit - (uint64_t)start : (uint64_t)start - (uint64_t)limit;
  uint64_t step = delta > 0 ? (uint64_t)delta : (uint64_t)0 - (uint64_t)delta;
  return (double)(distance / step + (distance % step != 0));
}

#define T int32_t
#define NAME range_int32
#define SIZE integer_steps
#define LOOP range_int32
#include "kernels/math/range.tmpl.h"
#define T int64_t
#define NAME range_int64
#define SIZE integer_steps
#define LOOP range_int64
#include "kernels/math/range.tmpl.h"
#define T float
#define NAME range_float
#define SIZE(start, limit, delta) (double)ceilf(fabsf((limit - start) / delta))
#include "kernels/math/range.tmpl.h"
#define T double
#define NAME range_double
#define SIZE(start, limit, delta) ceil(fabs((limit - start) / delta))
#include "kernels/math/range.tmpl.h"

static float round_short(dp_dtype dtype, float value) {
  uint16_t bits;
  dp_kernel_narrow(dtype, &value, &bits, 1);
  dp_kernel_widen(dtype, &bits, &value, 1);
  return value;
}

/* 16-bit floats: every step is rounded. */
static dp_status *range_short(dp_op_context *context, dp_dtype dtype) {
  float ends[3];
  for (int i = 0; i < 3; ++i)
    dp_kernel_widen(dtype, dp_op_input(context, i)->data, &ends[i], 1);
  float start = ends[0], limit = ends[1], delta = ends[2];
  if (delta == 0)
    return DP_INVALID("Requires delta != 0: 0");
  if (delta > 0 ? start > limit : start < limit)
    return range_error(delta > 0, start, limit);
  float quotient = round_short(dtype, fabsf(round_short(dtype, limit - start) / delta));
  if (!(quotient <= 1e9f))
    return DP_INVALID("Requires ((limit - start) / delta) <= 9223372036854775807");
  dp_shape shape = dp_shape_vector((int64_t)ceilf(quotient));
  dp_tensor *output;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &shape, &output));
  float value = start;
  for (int64_t i = 0; i < shape.elements; ++i) {
    dp_kernel_narrow(dtype, &value, (uint16_t *)output->data + i, 1);
    value = round_short(dtype, value + delta);
  }
  return NULL;
}

static dp_status *range_compute(dp_op_context *context, void *memory) {
  static const char *const names[] = {"start", "limit", "delta"};
  const void *data[3];
  for (int i = 0; i < 3; ++i) {
    const dp_tensor *input = dp_op_input(context, i);
    if (input->shape.rank > 1 || input->shape.elements != 1)
      return DP_INVALID("%s must be a scalar, not shape %s", names[i],
                        dp_shape_text(&input->shape));
    data[i] = input->data;
  }
  dp_dtype dtype = dp_op_input(context, 0)->dtype;
  switch (dtype) {
  case DP_INT32:
    return range_int32(context, data[0], data[1], data[2]);
  case DP_INT64:
    return range_int64(context, data[0], data[1], data[2]);
  case DP_FLOAT:
    return range_float(context, data[0], data[1], data[2]);
  case DP_DOUBLE:
    return range_double(context, data[0], data[1], data[2]);
  default:
    return range_short(context, dtype);
  }
}

/* ---- LinSpace ---- */
static void fill_line_float(float *to, float start, float stop, int64_t count) {
  float step = count > 1 ? (stop - start) / (float)(count - 1) : 0;
  dp_sequence_table()->line_float(to, start, step, 0, count);
  if (count > 1)
    to[count - 1] = stop; /* exact, whatever the rounding */
}

static void fill_line_double(double *to, double start, double stop, int64_t count) {
  double step = count > 1 ? (stop - start) / (double)(count - 1) : 0;
  dp_sequence_table()->line_double(to, start, step, 0, count);
  if (count > 1)
    to[count - 1] = stop;
}

static dp_status *linspace_compute(dp_op_context *context, void *memory) {
  static const char *const names[] = {"start", "stop", "num"};
  for (int i = 0; i < 3; ++i)
    if (dp_op_input(context, i)->shape.rank != 0)
      return DP_INVALID("%s must be a scalar, not shape %s", names[i],
                        dp_shape_text(&dp_op_input(context, i)->shape));
  const dp_tensor *start = dp_op_input(context, 0), *stop = dp_op_input(context, 1);
  int64_t count = dp_tensor_int_at(dp_op_input(context, 2), 0);
  if (count <= 0)
    return DP_INVALID("Requires num > 0: %lld", (long long)count);
  dp_shape shape;
  DP_RETURN_IF_ERROR(dp_shape_make(1, &count, &shape));
  dp_tensor *output;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &shape, &output));
  if (output->dtype == DP_FLOAT)
    fill_line_float(output->data, *(float *)start->data, *(float *)stop->data, count);
  else
    fill_line_double(output->data, *(double *)start->data, *(double *)stop->data, count);
  return NULL;
}

static const dp_kernel rows[] = {
    {.op = "Range", .types = {{"Tidx", DP_SET_FLOATS | DP_SET_INDEX}}, .compute = range_compute},
    {.op = "LinSpace",
     .types = {{"T", DP_SET(FLOAT) | DP_SET(DOUBLE)}, {"Tidx", DP_SET_INDEX}},
     .compute = linspace_compute},
};
DP_KERNEL_FAMILY(sequence, rows);
