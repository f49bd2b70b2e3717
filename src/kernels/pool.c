/* MaxPool and AvgPool in two and three dimensions. A row of output pixels is filled tap by tap: for
 * each place in the window one loop goes over the pixels for which that place is inside the image,
 * all channels together. 16-bit floats are widened to float. */
#include "kernels/families_internal.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "kernels/matmul_internal.h"
#include "kernels/pool_internal.h"
#include "kernels/support_internal.h"

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

/* "MaxPoolingGrad" or "MaxPooling3dGrad", as messages name the kernel of MaxPoolGrad. */
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

dp_status *dp_pooling_create(const dp_kernel_setup *setup, void *memory) {
  dp_pooling_state *state = memory;
  const dp_node *node = setup->node;
  const char *op = node->op->name;
  DP_RETURN_IF_ERROR(dp_node_get_type(node, "T", &state->dtype));
  state->work = dp_gemm_work_type(state->dtype);
  state->fns = &dp_pooling_table()->fns[state->work];
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

/* TensorFlow starts from the lowest number, infinities aside. */
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

/* ---- Forward ---- */
typedef struct pool_work {
  const dp_pooling_state *state;
  const dp_pooling_plan *plan;
  const char *from;
  char *to;
} pool_work;

/* Place x of the window for a whole row of output pixels. */
static void take_place_in_row(const pool_work *work, const char *row, char *to, int64_t x) {
  const dp_window *w = &work->plan->dims[2];
  size_t size = dp_dtype_size(work->state->work);
  int64_t channels = work->plan->channels, offset = x - w->before;
  int64_t begin = offset < 0 ? (-offset + w->stride - 1) / w->stride : 0;
  int64_t end = offset >= w->in ? 0 : (w->in - 1 - offset) / w->stride + 1;
  end = end < w->out ? end : w->out;
  if (begin >= end)
    return;
  const dp_pooling_fns *fns = work->state->fns;
  (work->state->is_average ? fns->add : fns->take_largest)(
      to + (size_t)(begin * channels) * size,
      row + (size_t)((begin * w->stride + offset) * channels) * size, end - begin, channels,
      w->stride * channels);
}

static void divide_row(const pool_work *work, char *to, int64_t rows) {
  const dp_window *w = &work->plan->dims[2];
  size_t pixel = (size_t)work->plan->channels * dp_dtype_size(work->state->work);
  for (int64_t x = 0; x < w->out; ++x) {
    int64_t count = rows * (dp_window_last(w, x) - dp_window_first(w, x));
    work->state->fns->scale(to + (size_t)x * pixel, work->plan->channels, 1.0 / (double)count);
  }
}

/* The same rows of flat images, where nothing is stored before it is whole. */
static void run_flat_rows(void *arg, int64_t begin, int64_t end) {
  const pool_work *work = arg;
  const dp_window *d = work->plan->dims;
  const dp_pooling_fns *fns = work->state->fns;
  size_t pixel = (size_t)work->plan->channels * dp_dtype_size(work->state->work);
  for (int64_t i = begin; i < end; ++i) {
    int64_t y = i % d[1].out, image = i / d[1].out;
    dp_pooling_row row = dp_pooling_row_of(work->plan, y);
    int64_t first = (image * d[1].in + dp_window_first(&d[1], y)) * d[2].in;
    (work->state->is_average ? fns->row_average : fns->row_largest)(
        &row, work->from + (size_t)first * pixel, work->to + (size_t)(i * d[2].out) * pixel);
  }
}

/* Rows of output pixels: [batch, depth, height]. */
static void run_rows(void *arg, int64_t begin, int64_t end) {
  const pool_work *work = arg;
  const dp_window *d = work->plan->dims;
  size_t size = dp_dtype_size(work->state->work);
  int64_t in_row = d[2].in * work->plan->channels, out_row = d[2].out * work->plan->channels;
  for (int64_t i = begin; i < end; ++i) {
    int64_t y = i % d[1].out, z = i / d[1].out % d[0].out, image = i / d[1].out / d[0].out;
    char *to = work->to + (size_t)(i * out_row) * size;
    if (work->state->is_average)
      memset(to, 0, (size_t)out_row * size);
    else
      work->state->fns->fill_least(to, out_row);
    int64_t z_first = dp_window_first(&d[0], z), z_last = dp_window_last(&d[0], z);
    int64_t y_first = dp_window_first(&d[1], y), y_last = dp_window_last(&d[1], y);
    for (int64_t from_z = z_first; from_z < z_last; ++from_z)
      for (int64_t from_y = y_first; from_y < y_last; ++from_y) {
        int64_t row = (image * d[0].in + from_z) * d[1].in + from_y;
        for (int64_t x = 0; x < d[2].size; ++x)
          take_place_in_row(work, work->from + (size_t)(row * in_row) * size, to, x);
      }
    if (work->state->is_average)
      divide_row(work, to, (z_last - z_first) * (y_last - y_first));
  }
}

/* Groups of neighbouring channels. */
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

static void run_pool(dp_op_context *context, const pool_work *work) {
  const dp_pooling_plan *plan = work->plan;
  if (plan->depth_window > 1) {
    dp_op_for(context, plan->out.elements, plan->depth_window, run_channels, (void *)work);
    return;
  }
  int64_t taps = plan->dims[0].size * plan->dims[1].size * plan->dims[2].size;
  int64_t row = plan->dims[2].out * plan->channels * (int64_t)dp_dtype_size(work->state->work);
  dp_op_for(context, plan->batch * plan->dims[0].out * plan->dims[1].out,
            row * taps / 16 + 20 * taps,
            plan->dims[0].in == 1 && work->state->fns->row_largest ? run_flat_rows : run_rows,
            (void *)work);
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
  pool_work work = {.state = state, .plan = &plan, .to = output->data};
  const void *from;
  dp_buffer *widened = NULL, *result = NULL;
  dp_status *status;
  DP_RETURN_IF_ERROR(dp_gemm_widen(context, input, state->work, &from, &widened));
  work.from = from;
  if (state->dtype == state->work) {
    run_pool(context, &work);
    return NULL;
  }
  DP_GOTO_IF_ERROR(status, done,
                   dp_buffer_create((size_t)plan.out.elements * sizeof(float), &result));
  work.to = result->data;
  run_pool(context, &work);
  dp_gemm_narrow(context, result->data, output);
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
