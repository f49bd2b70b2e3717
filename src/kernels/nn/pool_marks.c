/* _MaxPool3DWithMarks and _MaxPool3DGradFromMarks: MaxPool3D and its gradient, which the planner
 * makes a pair. The forward op also gives one byte per result: a bit for every pixel of the window
 * that equals the maximum, because all of them get the gradient. So the gradient reads only these
 * bytes and the incoming gradient, not the input. Windows have at most 8 pixels. Results equal
 * those of MaxPool3D and MaxPool3DGrad bit for bit. Threads share rows of pixels. */
#include "kernels/shared/family.h"

#include "kernels/nn/pool_internal.h"
#include "kernels/shared/support.h"

typedef struct marks_work {
  const dp_pooling_state *state;
  const dp_pooling_plan *plan;
  const char *from; /* forward: the input; backward: the gradient of the output */
  char *to;
  uint8_t *marks;
} marks_work;

/* In the windows at (z, y): the number of the first pixel of row (at_z, at_y). */
static int64_t number_of(const dp_window *d, int64_t z, int64_t y, int64_t at_z, int64_t at_y) {
  int64_t depth = at_z + d[0].before - z * d[0].stride;
  int64_t height = at_y + d[1].before - y * d[1].stride;
  return (depth * d[1].size + height) * d[2].size;
}

/* Lists the rows of pixels of `span` under the windows (z, y), with the number of the first pixel
 * of each. The order is MaxPool3D's, which matters for zeros with different signs: the first one is
 * the result. */
static int64_t list_rows(const marks_work *work, const dp_pooling_span *span, int64_t image,
                         int64_t z, int64_t y, const void **rows_out, int64_t *numbers_out) {
  const dp_pooling_plan *plan = work->plan;
  int64_t depth = span->last[0] - span->first[0], height = span->last[1] - span->first[1];
  bool has_parts = dp_pooling_has_parts(plan);
  for (int64_t i = 0; i < depth * height; ++i) {
    int64_t at_z = span->first[0] + (has_parts ? i % depth : i / height);
    int64_t at_y = span->first[1] + (has_parts ? i / depth : i % height);
    int64_t pixel = dp_pooling_row_start(plan, false, image, at_z, at_y);
    rows_out[i] = work->from + (size_t)pixel * plan->pixel_bytes;
    numbers_out[i] = number_of(plan->dims, z, y, at_z, at_y);
  }
  return depth * height;
}

/* Rows of output pixels, counted over [batch, depth, height]. */
static void mark_rows(void *arg, int64_t begin, int64_t end) {
  const marks_work *work = arg;
  const dp_pooling_plan *plan = work->plan;
  const dp_window *d = plan->dims;
  const dp_pooling_row row = dp_pooling_row_of(plan);
  const void *rows[DP_POOLING_MOST_MARKS];
  int64_t numbers[DP_POOLING_MOST_MARKS], per_image = d[0].out * d[1].out;
  for (int64_t i = begin; i < end; ++i) {
    int64_t index = i % per_image;
    dp_pooling_span span = dp_pooling_span_under(plan, index);
    int64_t count =
        list_rows(work, &span, i / per_image, index / d[1].out, index % d[1].out, rows, numbers);
    work->state->rows->marks(&row, rows, count, numbers,
                             work->to + (size_t)(i * row.out) * plan->pixel_bytes,
                             work->marks + i * row.out * row.channels);
  }
}

/* Rows of input pixels, counted over [batch, depth, height]. */
static void return_rows(void *arg, int64_t begin, int64_t end) {
  const marks_work *work = arg;
  const dp_pooling_plan *plan = work->plan;
  const dp_window *d = plan->dims;
  const dp_pooling_row row = dp_pooling_row_of(plan);
  dp_pooling_source sources[DP_POOLING_MOST_MARKS];
  int64_t per_image = d[0].in * d[1].in;
  for (int64_t i = begin; i < end; ++i) {
    int64_t index = i % per_image, count = 0;
    dp_pooling_span span = dp_pooling_span_over(plan, index);
    for (int64_t z = span.first[0]; z < span.last[0]; ++z)
      for (int64_t y = span.first[1]; y < span.last[1]; ++y) {
        int64_t pixel = dp_pooling_row_start(plan, true, i / per_image, z, y);
        sources[count++] =
            (dp_pooling_source){.gradient = work->from + (size_t)pixel * plan->pixel_bytes,
                                .places = work->marks + pixel * row.channels,
                                .place = number_of(d, z, y, index / d[1].in, index % d[1].in)};
      }
    work->state->rows->return_to_marks(&row, sources, count,
                                       work->to + (size_t)(i * row.in) * plan->pixel_bytes);
  }
}

static dp_status *make_plan(dp_op_context *context, const dp_pooling_state *state,
                            dp_pooling_plan *plan_out) {
  DP_RETURN_IF_ERROR(dp_pooling_plan_make(context, state, &dp_op_input(context, 0)->shape,
                                          context->input_count, plan_out));
  const dp_window *d = plan_out->dims;
  for (int i = 0; i < DP_WINDOW_DIMS; ++i)
    if (d[i].size > DP_POOLING_MOST_MARKS ||
        d[0].size * d[1].size * d[2].size > DP_POOLING_MOST_MARKS)
      return DP_INVALID("%s needs windows of at most %d pixels", context->node->op->name,
                        DP_POOLING_MOST_MARKS);
  return NULL;
}

static dp_status *pool_compute(dp_op_context *context, void *state) {
  dp_pooling_plan plan;
  dp_tensor *output, *marks;
  DP_RETURN_IF_ERROR(make_plan(context, state, &plan));
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &plan.out, &output));
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 1, &plan.out, &marks));
  if (plan.out.elements == 0)
    return NULL;
  marks_work work = {.state = state,
                     .plan = &plan,
                     .from = dp_op_input(context, 0)->data,
                     .to = output->data,
                     .marks = marks->data};
  const dp_window *d = plan.dims;
  int64_t taps = d[0].size * d[1].size * d[2].size;
  dp_op_for(context, plan.batch * d[0].out * d[1].out,
            d[2].out * (int64_t)plan.pixel_bytes * (taps + 1) / 64 + 50, mark_rows, &work);
  return NULL;
}

static dp_status *gradient_compute(dp_op_context *context, void *state) {
  dp_pooling_plan plan;
  dp_tensor *output;
  const dp_tensor *gradient = dp_op_input(context, 2), *marks = dp_op_input(context, 3);
  for (int i = 1; i < 3; ++i)
    if (dp_op_input(context, i)->shape.rank != 5)
      return DP_INVALID("%s must be 5-dimensional", i == 1 ? "tensor_out" : "out_backprop");
  DP_RETURN_IF_ERROR(make_plan(context, state, &plan));
  DP_RETURN_IF_ERROR(
      dp_pooling_check_shape("orig_output", &plan.out, &dp_op_input(context, 1)->shape));
  DP_RETURN_IF_ERROR(dp_pooling_check_shape("grad", &plan.out, &gradient->shape));
  DP_RETURN_IF_ERROR(dp_pooling_check_shape("marks", &plan.out, &marks->shape));
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &plan.in, &output));
  if (plan.in.elements == 0)
    return NULL;
  marks_work work = {.state = state,
                     .plan = &plan,
                     .from = gradient->data,
                     .to = output->data,
                     .marks = marks->data};
  const dp_window *d = plan.dims;
  int64_t over = dp_pooling_most_over(&d[0]) * dp_pooling_most_over(&d[1]);
  dp_op_for(context, plan.batch * d[0].in * d[1].in,
            d[2].in * (int64_t)plan.pixel_bytes * (over + 1) / 64 + 50, return_rows, &work);
  return NULL;
}

#define ROW(name, run)                                                                             \
  {                                                                                                \
    .op = name, .types = {{"T", DP_SET_FLOATS}}, .state_size = sizeof(dp_pooling_state),           \
    .create = dp_pooling_create, .compute = run                                                    \
  }
static const dp_kernel rows[] = {
    ROW("_MaxPool3DWithMarks", pool_compute),
    ROW("_MaxPool3DGradFromMarks", gradient_compute),
};
DP_KERNEL_FAMILY(pool_marks, rows);
