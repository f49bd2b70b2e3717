/* _MaxPoolWithPlaces and _MaxPoolGradFromPlaces: MaxPool and its gradient, which the planner makes
 * a pair. The forward op also gives one byte per result: the place of the maximum in its window. So
 * the gradient reads only these bytes and the incoming gradient, a quarter of what it reads when it
 * must find the places again from the input. Windows have at most 256 pixels. Results equal those
 * of MaxPool and MaxPoolGrad bit for bit. Threads share rows of pixels. */
#include "kernels/shared/family.h"

#include <string.h>
#include "kernels/nn/pool_internal.h"
#include "kernels/shared/support.h"

/* ---- Forward ---- */
bool dp_pooling_has_places(const dp_pooling_plan *plan) {
  const dp_window *d = plan->dims;
  return d[1].size <= DP_POOLING_MOST_PLACES && d[2].size <= DP_POOLING_MOST_PLACES &&
         d[1].size * d[2].size <= DP_POOLING_MOST_PLACES;
}

static uint8_t *places_of(const dp_pooling_places_work *work, int64_t image, int64_t window) {
  const dp_window *d = work->plan->dims;
  int64_t row = work->ring ? window % work->ring : image * d[1].out + window;
  return work->places + (size_t)(row * d[2].out * work->plan->channels);
}

/* Writes the places of row y of an image's windows, and the maxima unless `to` is NULL. */
static void place_row(const dp_pooling_places_work *work, const dp_pooling_row *row, int64_t image,
                      int64_t y, char *to) {
  const dp_window *height = &work->plan->dims[1];
  const void *rows[DP_POOLING_MOST_PLACES];
  dp_pooling_span span = {{0, dp_window_first(height, y)}, {1, dp_window_last(height, y)}};
  int64_t above = span.first[1] - (y * height->stride - height->before);
  int64_t count = dp_pooling_list_rows(work->plan, &span, image, work->in, rows);
  uint8_t *places = places_of(work, image, y);
  if (work->plan->in.elements > 0) {
    work->state->rows->places(row, rows, count, above * row->size, to, places);
  } else { /* windows over padding only */
    work->state->rows->largest(row, rows, count, to);
    memset(places, 0, (size_t)(row->out * row->channels));
  }
}

/* Rows of output pixels, counted over [batch, height]. */
static void place_rows(void *arg, int64_t begin, int64_t end) {
  const dp_pooling_places_work *work = arg;
  const dp_pooling_row row = dp_pooling_row_of(work->plan);
  int64_t height = work->plan->dims[1].out;
  for (int64_t i = begin; i < end; ++i)
    place_row(work, &row, i / height, i % height,
              work->to + (size_t)(i * row.out) * work->plan->pixel_bytes);
}

/* The costs that dp_op_for is told: per row of windows, and per row of pixels of the gradient. */
static int64_t place_cost(const dp_pooling_places_work *work) {
  const dp_window *d = work->plan->dims;
  int64_t taps = d[1].size * d[2].size, row = d[2].out * (int64_t)work->plan->pixel_bytes;
  return row * taps / 32 + 20 * taps;
}
static int64_t return_cost(const dp_pooling_places_work *work) {
  const dp_window *d = work->plan->dims;
  int64_t overlap = (d[1].size / d[1].stride + 1) * (d[2].size / d[2].stride + 1);
  return d[2].in * (int64_t)work->plan->pixel_bytes * overlap / 32 + 20;
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
                                 .in = dp_op_input(context, 0)->data,
                                 .to = output->data,
                                 .places = places->data};
  dp_op_for(context, plan.batch * plan.dims[1].out, place_cost(&work), place_rows, &work);
  return NULL;
}

/* ---- Gradient ---- */
/* Row y of an image's pixels, from the places of the rows of windows [first, last) over it. */
static void return_row(const dp_pooling_places_work *work, const dp_pooling_row *row, int64_t image,
                       int64_t y, int64_t first, int64_t last) {
  const dp_window *height = &work->plan->dims[1];
  dp_pooling_source sources[DP_POOLING_MOST_PLACES];
  for (int64_t window = first; window < last; ++window) {
    int64_t pixel = dp_pooling_row_start(work->plan, true, image, 0, window);
    dp_pooling_source *source = &sources[window - first];
    source->gradient = work->gradient + (size_t)pixel * work->plan->pixel_bytes;
    source->places = places_of(work, image, window);
    source->place = (y + height->before - window * height->stride) * row->size;
  }
  int64_t pixel = dp_pooling_row_start(work->plan, false, image, 0, y);
  work->state->rows->return_to_places(row, sources, last - first,
                                      work->to + (size_t)pixel * work->plan->pixel_bytes);
}

/* Rows of input pixels, counted over [batch, height]. */
static void return_rows(void *arg, int64_t begin, int64_t end) {
  const dp_pooling_places_work *work = arg;
  const dp_window *height = &work->plan->dims[1];
  const dp_pooling_row row = dp_pooling_row_of(work->plan);
  for (int64_t i = begin; i < end; ++i) {
    int64_t y = i % height->in, first, last;
    dp_pooling_windows_over(height, y, &first, &last);
    return_row(work, &row, i / height->in, y, first, last);
  }
}

/* ---- Both in one pass, for a gradient that does not get the places ---- */
/* A band is the rows of pixels from the beginning of a row of windows to the beginning of the
 * next. */
static int64_t bands_of(const dp_window *height) {
  return (height->in + height->before + height->stride - 1) / height->stride;
}

/* Bands, counted over [batch, bands]. Places are kept in a ring with as many rows of windows as
 * share pixels, so that the input is read while the gradient is written. */
static void spread_bands(void *arg, int64_t begin, int64_t end) {
  dp_pooling_places_work work = *(const dp_pooling_places_work *)arg;
  const dp_window *height = &work.plan->dims[1];
  const dp_pooling_row row = dp_pooling_row_of(work.plan);
  int64_t bands = bands_of(height), known = 0, first, last;
  work.ring = dp_pooling_most_over(height);
  work.places = dp_malloc((size_t)(work.ring * row.out * row.channels));
  for (int64_t i = begin; i < end; ++i) {
    int64_t image = i / bands, band = i % bands, start = band * height->stride - height->before;
    int64_t limit = start + height->stride < height->in ? start + height->stride : height->in;
    known = i == begin || band == 0 ? 0 : known;
    for (int64_t y = start < 0 ? 0 : start; y < limit; ++y) {
      dp_pooling_windows_over(height, y, &first, &last);
      for (known = known < first ? first : known; known < last; ++known)
        place_row(&work, &row, image, known, NULL);
      return_row(&work, &row, image, y, first, last);
    }
  }
  dp_free(work.places);
}

void dp_pooling_spread(dp_op_context *context, const dp_pooling_places_work *work) {
  const dp_window *height = &work->plan->dims[1];
  dp_op_for(context, work->plan->batch * bands_of(height),
            place_cost(work) + height->stride * return_cost(work), spread_bands, (void *)work);
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
                                 .gradient = gradient->data,
                                 .to = output->data,
                                 .places = places->data};
  dp_op_for(context, plan.batch * plan.dims[1].in, return_cost(&work), return_rows, &work);
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
