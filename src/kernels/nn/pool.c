/* MaxPool and AvgPool in two and three dimensions. The work is done one row of output pixels at a
 * time; threads share these rows. Where windows overlap in many rows, the result of each input row
 * is computed once, kept in a ring, and then combined. */
#include "kernels/shared/family.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "kernels/nn/pool_internal.h"
#include "kernels/shared/support.h"
#include "kernels/shared/widen.h"

#define ALIGNMENT 64

/* ---- Attributes ---- */
static dp_status *refuse_sizes(const dp_pooling_state *state, const dp_window_values *sizes) {
  const int64_t *spatial = sizes->spatial;
  if (state->attrs.rank == 5)
    return DP_INVALID("Sliding window ksize field must have non-negative dimensions");
  if (state->is_average)
    return DP_INVALID("ksize must be a positive int32 value, got:%lld",
                      (long long)(spatial[1] <= 0 ? spatial[1] : spatial[2]));
  if (sizes != &state->attrs.sizes)
    return DP_INVALID("Sliding window ksize must be positive.");
  return DP_INVALID("Sliding window ksize must be positive. The specified or inferred ksize is: "
                    "%lld,%lld,%lld,%lld",
                    (long long)sizes->batch, (long long)spatial[1], (long long)spatial[2],
                    (long long)sizes->depth);
}

/* The kernel's name in error messages: "MaxPoolingGrad" or "MaxPooling3dGrad" for MaxPoolGrad. */
const char *dp_pooling_name(const dp_node *node) {
  const char *op = node->op->name, *gradient = strstr(op, "Grad");
  char *text = dp_shape_text_buffer();
  snprintf(text, DP_SHAPE_TEXT_LENGTH, "%.7sing%s%s", op, strstr(op, "3D") ? "3d" : "",
           gradient ? gradient : "");
  return text;
}

static dp_status *check_values(const dp_pooling_state *state, const dp_window_values *sizes,
                               const dp_window_values *strides) {
  bool is_2d = state->attrs.rank == 4;
  bool is_positive = true;
  for (int i = 0; i < DP_WINDOW_DIMS; ++i)
    is_positive &= sizes->spatial[i] > 0;
  if (!is_positive)
    return refuse_sizes(state, sizes);
  if (sizes->depth <= 0 || sizes->batch <= 0)
    return DP_INVALID("Sliding window ksize must be positive.");
  if (sizes->batch != 1 || strides->batch != 1)
    return dp_status_create(DP_UNIMPLEMENTED,
                            "Pooling is not yet supported on the batch dimension.");
  if (!is_2d && (sizes->depth != 1 || strides->depth != 1))
    return dp_status_create(DP_UNIMPLEMENTED,
                            "Pooling is not yet supported on the depth dimension.");
  return NULL;
}

static const dp_pooling_row_fns *row_loops(dp_dtype dtype) {
  return dtype == DP_FLOAT      ? dp_pooling_rows_float()
         : dtype == DP_DOUBLE   ? dp_pooling_rows_double()
         : dtype == DP_HALF     ? dp_pooling_rows_half()
         : dtype == DP_BFLOAT16 ? dp_pooling_rows_bfloat16()
                                : NULL;
}

dp_status *dp_pooling_create(const dp_kernel_setup *setup, void *memory) {
  dp_pooling_state *state = memory;
  const dp_node *node = setup->node;
  const char *op = node->op->name;
  DP_RETURN_IF_ERROR(dp_node_get_type(node, "T", &state->dtype));
  state->work = dp_kernel_work_type(state->dtype);
  state->fns = &dp_pooling_table()->fns[state->work];
  state->rows = row_loops(state->dtype);
  state->is_average = strncmp(op, "AvgPool", 7) == 0;
  DP_RETURN_IF_ERROR(dp_window_read(node, strstr(op, "3D") ? 5 : 4, &state->attrs));
  if (state->attrs.channels_first)
    return DP_INVALID("Default %sOp only supports %s on device type CPU",
                      state->attrs.rank == 5 && !strstr(op, "Grad") ? "Pooling3D"
                                                                    : dp_pooling_name(node),
                      state->attrs.rank == 4 ? "NHWC" : "NDHWC");
  if (dp_node_attr(node, "include_batch_in_index"))
    DP_RETURN_IF_ERROR(dp_node_get_bool(node, "include_batch_in_index", &state->batch_in_index));
  return check_values(state, &state->attrs.sizes, &state->attrs.strides);
}

/* ---- Geometry ---- */
static dp_status *read_four(const dp_tensor *tensor, const char *what, const dp_window_attrs *attrs,
                            dp_window_values *values_out) {
  int64_t values[4], count;
  if (dp_tensor_elements(tensor) != 4)
    return DP_INVALID("Sliding window %s field must specify 4 dimensions", what);
  DP_RETURN_IF_ERROR(dp_kernel_read_ints(tensor, what, 4, values, &count));
  *values_out = dp_window_order(attrs, values);
  return NULL;
}

static dp_status *plan_channels(const dp_window_attrs *attrs, dp_pooling_plan *plan) {
  int64_t window = attrs->sizes.depth;
  if (attrs->sizes.spatial[1] != 1 || attrs->sizes.spatial[2] != 1)
    return dp_status_create(DP_UNIMPLEMENTED, "MaxPooling supports exactly one of pooling across "
                                              "depth or pooling across width/height.");
  if (plan->channels % window != 0)
    return dp_status_create(DP_UNIMPLEMENTED, "Depthwise max pooling requires the depth window to "
                                              "evenly divide the input depth");
  if (attrs->strides.depth != window)
    return dp_status_create(DP_UNIMPLEMENTED, "Depthwise max pooling requires the depth window to "
                                              "equal the depth stride");
  plan->depth_window = window;
  return NULL;
}

static dp_status *plan_pixels(const dp_window_attrs *attrs, dp_pooling_plan *plan) {
  int spatial = attrs->rank - 2;
  for (int i = 0; i < DP_WINDOW_DIMS; ++i) {
    int axis = i - (DP_WINDOW_DIMS - spatial);
    if (axis < 0) {
      plan->dims[i] = (dp_window){1, 1, 1, 1, 1, 0, 1};
      continue;
    }
    int64_t size = attrs->sizes.spatial[i];
    DP_RETURN_IF_ERROR(dp_window_plan(attrs, i, plan->in.dims[axis + 1], size, &plan->dims[i]));
    if (attrs->padding == DP_PADDING_EXPLICIT &&
        (attrs->before[i] >= size || attrs->after[i] >= size))
      return DP_INVALID("%s padding %lld needs to be smaller than the window size %lld",
                        attrs->before[i] >= size ? (i == 1 ? "Top" : "Left")
                                                 : (i == 1 ? "Bottom" : "Right"),
                        (long long)(attrs->before[i] >= size ? attrs->before[i] : attrs->after[i]),
                        (long long)size);
  }
  return NULL;
}

/* TensorFlow starts from the lowest finite number, not from minus infinity. */
static double lowest_number(dp_dtype dtype) {
  return dtype == DP_HALF       ? -65504
         : dtype == DP_BFLOAT16 ? -0x1.fep127
         : dtype == DP_FLOAT    ? -FLT_MAX
                                : -DBL_MAX;
}

dp_status *dp_pooling_plan_make(dp_op_context *context, const dp_pooling_state *state,
                                const dp_shape *in, int32_t slot, dp_pooling_plan *plan_out) {
  dp_window_attrs attrs = state->attrs;
  int rank = attrs.rank;
  if (in->rank != rank)
    return rank == 4 ? DP_INVALID("tensor_in_shape must have 2 spatial dimensions. %d 0", in->rank)
                     : DP_INVALID("tensor_in must be 5-dimensional");
  if (slot < context->input_count) {
    DP_RETURN_IF_ERROR(read_four(dp_op_input(context, slot), "ksize", &attrs, &attrs.sizes));
    DP_RETURN_IF_ERROR(
        read_four(dp_op_input(context, slot + 1), "strides", &attrs, &attrs.strides));
    DP_RETURN_IF_ERROR(check_values(state, &attrs.sizes, &attrs.strides));
  }
  dp_pooling_plan plan = {.batch = in->dims[0],
                          .channels = in->dims[rank - 1],
                          .pixel_bytes = (size_t)in->dims[rank - 1] * dp_dtype_size(state->dtype),
                          .depth_window = 1,
                          .in = *in,
                          .lowest = rank == 4 ? lowest_number(state->dtype) : -INFINITY};
  DP_RETURN_IF_ERROR(plan_pixels(&attrs, &plan));
  if (attrs.sizes.depth > 1 || attrs.strides.depth > 1)
    DP_RETURN_IF_ERROR(plan_channels(&attrs, &plan));
  if (dp_pooling_pixels_in(&plan) > INT32_MAX)
    return DP_INVALID("images of %lld pixels are too large for pooling",
                      (long long)dp_pooling_pixels_in(&plan));
  plan.out = *in;
  for (int i = 1; i < rank - 1; ++i)
    plan.out = dp_shape_with(&plan.out, i, plan.dims[DP_WINDOW_DIMS - (rank - 2) + i - 1].out);
  plan.out = dp_shape_with(&plan.out, rank - 1, plan.channels / plan.depth_window);
  *plan_out = plan;
  return NULL;
}

dp_pooling_box dp_pooling_box_of(const dp_pooling_plan *plan, int64_t index) {
  dp_pooling_box box;
  for (int i = DP_WINDOW_DIMS - 1; i >= 0; --i) {
    const dp_window *window = &plan->dims[i];
    box.first[i] = dp_window_first(window, index % window->out);
    box.last[i] = dp_window_last(window, index % window->out);
    index /= window->out;
  }
  return box;
}

/* ---- Rows ---- */
dp_pooling_span dp_pooling_span_under(const dp_pooling_plan *plan, int64_t index) {
  const dp_window *d = plan->dims;
  int64_t at[] = {index / d[1].out, index % d[1].out};
  dp_pooling_span span;
  for (int i = 0; i < 2; ++i) {
    span.first[i] = dp_window_first(&d[i], at[i]);
    span.last[i] = dp_window_last(&d[i], at[i]);
  }
  return span;
}

dp_pooling_span dp_pooling_span_over(const dp_pooling_plan *plan, int64_t index) {
  const dp_window *d = plan->dims;
  int64_t at[] = {index / d[1].in, index % d[1].in};
  dp_pooling_span span;
  for (int i = 0; i < 2; ++i)
    dp_pooling_windows_over(&d[i], at[i], &span.first[i], &span.last[i]);
  return span;
}

/* The most pixels that a window has along its dimension. */
static int64_t most_under(const dp_window *window) {
  return window->size < window->in ? window->size : window->in;
}

int64_t dp_pooling_most_rows(const dp_pooling_plan *plan) {
  return most_under(&plan->dims[0]) * most_under(&plan->dims[1]);
}

int64_t dp_pooling_list_rows(const dp_pooling_plan *plan, const dp_pooling_span *span,
                             int64_t image, const void *data, const void **rows_out) {
  int64_t count = 0;
  for (int64_t z = span->first[0]; z < span->last[0]; ++z)
    for (int64_t y = span->first[1]; y < span->last[1]; ++y)
      rows_out[count++] =
          (const char *)data +
          (size_t)dp_pooling_row_start(plan, false, image, z, y) * plan->pixel_bytes;
  return count;
}

/* ---- Forward ---- */
typedef struct pool_work {
  const dp_pooling_state *state;
  const dp_pooling_plan *plan;
  const char *from;
  char *to;
} pool_work;

/* Rows of output pixels, counted over [batch, depth, height]. */
static void run_rows(void *arg, int64_t begin, int64_t end) {
  const pool_work *work = arg;
  const dp_pooling_plan *plan = work->plan;
  const dp_pooling_row_fns *fns = work->state->rows;
  const dp_pooling_row row = dp_pooling_row_of(plan);
  int64_t per_image = plan->dims[0].out * plan->dims[1].out;
  const void **rows = dp_malloc((size_t)dp_pooling_most_rows(plan) * sizeof *rows);
  for (int64_t i = begin; i < end; ++i) {
    dp_pooling_span span = dp_pooling_span_under(plan, i % per_image);
    int64_t count = dp_pooling_list_rows(plan, &span, i / per_image, work->from, rows);
    (work->state->is_average ? fns->average : fns->largest)(
        &row, rows, count, work->to + (size_t)(i * row.out) * plan->pixel_bytes);
  }
  dp_free(rows);
}

/* Rows as in run_rows, with parts. A part is the result of the windows over one row of the height,
 * in the whole depth of the window. */
static void run_parts(void *arg, int64_t begin, int64_t end) {
  const pool_work *work = arg;
  const dp_pooling_plan *plan = work->plan;
  const dp_pooling_row_fns *fns = work->state->rows;
  bool is_average = work->state->is_average;
  const dp_pooling_row row = dp_pooling_row_of(plan);
  int64_t height = plan->dims[1].out, depth = plan->dims[0].out, known = 0;
  int64_t ring = most_under(&plan->dims[1]);
  size_t bytes = (size_t)(row.out * row.channels) * dp_dtype_size(work->state->work);
  const void **rows = dp_malloc((size_t)(dp_pooling_most_rows(plan) + ring) * sizeof *rows);
  const void **parts = rows + dp_pooling_most_rows(plan);
  bytes = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  char *memory = dp_malloc((size_t)ring * bytes + ALIGNMENT);
  char *start = memory + (ALIGNMENT - (uintptr_t)memory % ALIGNMENT);
  for (int64_t i = begin; i < end; ++i) {
    dp_pooling_span span = dp_pooling_span_under(plan, i % (depth * height)), one = span;
    int64_t image = i / (depth * height), first = span.first[1], last = span.last[1];
    known = i == begin || i % height == 0 || known < first ? first : known;
    for (; known < last; ++known) {
      one.first[1] = known;
      one.last[1] = known + 1;
      int64_t count = dp_pooling_list_rows(plan, &one, image, work->from, rows);
      (is_average ? fns->sum_part : fns->largest_part)(&row, rows, count,
                                                       start + (size_t)(known % ring) * bytes);
    }
    for (int64_t y = first; y < last; ++y)
      parts[y - first] = start + (size_t)(y % ring) * bytes;
    (is_average ? fns->join_average
                : fns->join_largest)(&row, parts, last - first, dp_pooling_span_size(&span),
                                     work->to + (size_t)(i * row.out) * plan->pixel_bytes);
  }
  dp_free(memory);
  dp_free(rows);
}

/* Combines position x of the windows into a whole row of output pixels, for integers. */
static void take_place_in_row(const pool_work *work, const char *row, char *to, int64_t x) {
  const dp_window *w = &work->plan->dims[2];
  size_t size = dp_dtype_size(work->state->work);
  int64_t channels = work->plan->channels, offset = x - w->before;
  int64_t begin = offset < 0 ? (-offset + w->stride - 1) / w->stride : 0;
  int64_t end = offset >= w->in ? 0 : (w->in - 1 - offset) / w->stride + 1;
  end = end < w->out ? end : w->out;
  if (begin < end)
    work->state->fns->take_largest(to + (size_t)(begin * channels) * size,
                                   row + (size_t)((begin * w->stride + offset) * channels) * size,
                                   end - begin, channels, w->stride * channels);
}

/* Rows of output pixels of integers, counted over [batch, height]. */
static void run_integers(void *arg, int64_t begin, int64_t end) {
  const pool_work *work = arg;
  const dp_window *d = work->plan->dims;
  size_t size = dp_dtype_size(work->state->work);
  int64_t in_row = d[2].in * work->plan->channels, out_row = d[2].out * work->plan->channels;
  for (int64_t i = begin; i < end; ++i) {
    int64_t y = i % d[1].out, image = i / d[1].out;
    char *to = work->to + (size_t)(i * out_row) * size;
    work->state->fns->fill_least(to, out_row);
    for (int64_t from_y = dp_window_first(&d[1], y); from_y < dp_window_last(&d[1], y); ++from_y)
      for (int64_t x = 0; x < d[2].size; ++x)
        take_place_in_row(work, work->from + (size_t)((image * d[1].in + from_y) * in_row) * size,
                          to, x);
  }
}

/* Pools groups of neighbouring channels instead of pixels. */
static void run_channels(void *arg, int64_t begin, int64_t end) {
  const pool_work *work = arg;
  int64_t window = work->plan->depth_window;
  size_t size = dp_dtype_size(work->state->work);
  char *to = work->to + (size_t)begin * size;
  work->state->fns->fill_least(to, end - begin);
  for (int64_t c = 0; c < window; ++c)
    work->state->fns->take_largest(to, work->from + (size_t)(begin * window + c) * size,
                                   end - begin, 1, window);
}

/* The cost per output vector in loads and stores: whole windows, or with parts. */
static int64_t whole_cost(const dp_window *d) {
  return d[0].size * d[1].size * d[2].size + 1;
}
static int64_t parts_cost(const dp_window *d) {
  return d[1].stride * (d[0].size * d[2].size + 1) + d[1].size + 1;
}

bool dp_pooling_has_parts(const dp_pooling_plan *plan) {
  return parts_cost(plan->dims) < whole_cost(plan->dims) && plan->in.elements > 0;
}

static void run_pool(dp_op_context *context, const pool_work *work) {
  const dp_pooling_plan *plan = work->plan;
  const dp_window *d = plan->dims;
  int64_t row = d[2].out * plan->channels * (int64_t)dp_dtype_size(work->state->work);
  int64_t count = plan->batch * d[0].out * d[1].out;
  int64_t whole = whole_cost(d);
  bool has_parts = dp_pooling_has_parts(plan);
  if (plan->depth_window > 1)
    dp_op_for(context, plan->out.elements, plan->depth_window, run_channels, (void *)work);
  else if (!work->state->rows)
    dp_op_for(context, count, row * whole / 16 + 20 * whole, run_integers, (void *)work);
  else
    dp_op_for(context, count, row * ((has_parts ? parts_cost(d) : whole) + 8) / 128 + 50,
              has_parts ? run_parts : run_rows, (void *)work);
}

static dp_status *pool_compute(dp_op_context *context, void *memory) {
  const dp_pooling_state *state = memory;
  const dp_tensor *input = dp_op_input(context, 0);
  dp_pooling_plan plan;
  DP_RETURN_IF_ERROR(dp_pooling_plan_make(context, state, &input->shape, 1, &plan));
  if (state->is_average && plan.depth_window > 1)
    return dp_status_create(DP_UNIMPLEMENTED,
                            "Non-spatial pooling is not yet supported. Volunteers? :)");
  dp_tensor *output;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &plan.out, &output));
  if (plan.out.elements == 0)
    return NULL;
  pool_work work = {.state = state, .plan = &plan, .from = input->data, .to = output->data};
  if (state->dtype == state->work || plan.depth_window == 1) {
    run_pool(context, &work);
    return NULL;
  }
  const void *from;
  dp_buffer *widened = NULL, *result = NULL;
  dp_status *status;
  DP_RETURN_IF_ERROR(dp_kernel_widen_tensor(context, input, state->work, &from, &widened));
  work.from = from;
  DP_GOTO_IF_ERROR(status, done,
                   dp_buffer_create((size_t)plan.out.elements * sizeof(float), &result));
  work.to = result->data;
  run_pool(context, &work);
  dp_kernel_narrow_tensor(context, result->data, output);
done:
  dp_buffer_release(widened);
  dp_buffer_release(result);
  return status;
}

#define ROW(name, set)                                                                             \
  {                                                                                                \
    .op = name, .types = {{"T", set}}, .state_size = sizeof(dp_pooling_state),                     \
    .create = dp_pooling_create, .compute = pool_compute                                           \
  }
static const dp_kernel rows[] = {
    ROW("MaxPool", DP_SET_REALS),    ROW("MaxPoolV2", DP_SET_REALS),  ROW("AvgPool", DP_SET_FLOATS),
    ROW("MaxPool3D", DP_SET_FLOATS), ROW("AvgPool3D", DP_SET_FLOATS),
};
DP_KERNEL_FAMILY(pool, rows);
