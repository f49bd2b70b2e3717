/* MaxPool and its gradient as the planner pairs them: _MaxPoolWithPlaces gives, beside the largest
 * elements, one byte for each that says where in its window it is, and _MaxPoolGradFromPlaces needs
 * to read only these bytes and the gradient, a quarter of what finding the places again from the
 * input reads. Windows have 256 pixels at most. Values are those of MaxPool and MaxPoolGrad to the
 * bit. Rows of pixels are what threads share. */
#include "kernels/families_internal.h"

#include <string.h>
#include "kernels/pool_internal.h"
#include "kernels/support_internal.h"

/* ---- Forward ---- */
bool dp_pooling_has_places(const dp_pooling_plan *plan) {
  const dp_window *d = plan->dims;
  return d[1].size <= DP_POOLING_MOST_PLACES && d[2].size <= DP_POOLING_MOST_PLACES &&
         d[1].size * d[2].size <= DP_POOLING_MOST_PLACES;
}

static size_t pixel_size(const dp_pooling_places_work *work) {
  return (size_t)work->plan->channels * dp_dtype_size(work->state->dtype);
}

/* Rows of output pixels: [batch, height]. */
static void place_rows(void *arg, int64_t begin, int64_t end) {
  const dp_pooling_places_work *work = arg;
  const dp_window *height = &work->plan->dims[1];
  const dp_pooling_row row = dp_pooling_row_of(work->plan);
  size_t pixel = pixel_size(work), bytes = (size_t)(row.out * row.channels);
  const void *rows[DP_POOLING_MOST_PLACES];
  for (int64_t i = begin; i < end; ++i) {
    int64_t y = i % height->out;
    dp_pooling_span span = dp_pooling_span_under(work->plan, y);
    int64_t above = span.first[1] - (y * height->stride - height->before);
    int64_t count =
        dp_pooling_list_rows(work->plan, &span, i / height->out, work->from, pixel, rows);
    char *to = work->to ? work->to + (size_t)(i * row.out) * pixel : NULL;
    uint8_t *places = work->places + (size_t)i * bytes;
    if (work->plan->in.elements > 0) {
      work->state->rows->places(&row, rows, count, above * row.size, to, places);
    } else { /* windows over padding alone */
      work->state->rows->largest(&row, rows, count, to);
      memset(places, 0, bytes);
    }
  }
}

void dp_pooling_find_places(dp_op_context *context, const dp_pooling_places_work *work) {
  const dp_window *d = work->plan->dims;
  int64_t taps = d[1].size * d[2].size, row = d[2].out * (int64_t)pixel_size(work);
  dp_op_for(context, work->plan->batch * d[1].out, row * taps / 32 + 20 * taps, place_rows,
            (void *)work);
}

static dp_status *make_plan(dp_op_context *context, const dp_pooling_state *state,
                            dp_pooling_plan *plan_out) {
  DP_RETURN_IF_ERROR(dp_pooling_plan_make(context, state, &dp_op_input(context, 0)->shape,
                                          context->input_count, plan_out));
  if (plan_out->depth_window > 1 || !dp_pooling_has_places(plan_out))
    return DP_INVALID("%s needs windows of at most %d pixels", context->node->op->name,
                      DP_POOLING_MOST_PLACES);
  return NULL;
}

static dp_status *pool_compute(dp_op_context *context, void *state) {
  dp_pooling_plan plan;
  dp_tensor *output, *places;
  DP_RETURN_IF_ERROR(make_plan(context, state, &plan));
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &plan.out, &output));
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 1, &plan.out, &places));
  if (plan.out.elements == 0)
    return NULL;
  dp_pooling_places_work work = {.state = state,
                                 .plan = &plan,
                                 .from = dp_op_input(context, 0)->data,
                                 .to = output->data,
                                 .places = places->data};
  dp_pooling_find_places(context, &work);
  return NULL;
}

/* ---- Gradient ---- */
/* The rows of windows over row y of an image's pixels; returns how many. */
static int64_t find_sources(const dp_pooling_places_work *work, int64_t image, int64_t y,
                            dp_pooling_source *sources) {
  const dp_window *height = &work->plan->dims[1];
  dp_pooling_span span = dp_pooling_span_over(work->plan, y);
  int64_t count = 0;
  for (int64_t window = span.first[1]; window < span.last[1]; ++window) {
    int64_t pixel = dp_pooling_row_start(work->plan, true, image, 0, window);
    sources[count++] = (dp_pooling_source){
        .gradient = work->from + (size_t)pixel * pixel_size(work),
        .places = work->places + pixel * work->plan->channels,
        .place = (y + height->before - window * height->stride) * work->plan->dims[2].size};
  }
  return count;
}

/* Rows of input pixels: [batch, height]. */
static void return_rows(void *arg, int64_t begin, int64_t end) {
  const dp_pooling_places_work *work = arg;
  const dp_window *height = &work->plan->dims[1];
  const dp_pooling_row row = dp_pooling_row_of(work->plan);
  dp_pooling_source sources[DP_POOLING_MOST_PLACES];
  for (int64_t i = begin; i < end; ++i) {
    int64_t count = find_sources(work, i / height->in, i % height->in, sources);
    work->state->rows->return_to_places(&row, sources, count,
                                        work->to + (size_t)(i * row.in) * pixel_size(work));
  }
}

void dp_pooling_return_to_places(dp_op_context *context, const dp_pooling_places_work *work) {
  const dp_window *d = work->plan->dims;
  int64_t overlap = (d[1].size / d[1].stride + 1) * (d[2].size / d[2].stride + 1);
  int64_t row = d[2].in * (int64_t)pixel_size(work);
  dp_op_for(context, work->plan->batch * d[1].in, row * overlap / 32 + 20, return_rows,
            (void *)work);
}

static dp_status *gradient_compute(dp_op_context *context, void *state) {
  dp_pooling_plan plan;
  dp_tensor *output;
  const dp_tensor *gradient = dp_op_input(context, 2), *places = dp_op_input(context, 3);
  DP_RETURN_IF_ERROR(make_plan(context, state, &plan));
  DP_RETURN_IF_ERROR(
      dp_pooling_check_shape("orig_output", &plan.out, &dp_op_input(context, 1)->shape));
  DP_RETURN_IF_ERROR(dp_pooling_check_shape("grad", &plan.out, &gradient->shape));
  DP_RETURN_IF_ERROR(dp_pooling_check_shape("places", &plan.out, &places->shape));
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &plan.in, &output));
  if (plan.in.elements == 0)
    return NULL;
  dp_pooling_places_work work = {.state = state,
                                 .plan = &plan,
                                 .from = gradient->data,
                                 .to = output->data,
                                 .places = places->data};
  dp_pooling_return_to_places(context, &work);
  return NULL;
}

#define ROW(name, run)                                                                             \
  {                                                                                                \
    .op = name, .types = {{"T", DP_SET_FLOATS}}, .state_size = sizeof(dp_pooling_state),           \
    .create = dp_pooling_create, .compute = run                                                    \
  }
static const dp_kernel rows[] = {
    ROW("_MaxPoolWithPlaces", pool_compute),
    ROW("_MaxPoolGradFromPlaces", gradient_compute),
};
DP_KERNEL_FAMILY(pool_places, rows);
