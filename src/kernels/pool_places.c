/* MaxPool and its gradient as the planner pairs them: _MaxPoolWithPlaces gives, beside the largest
 * elements, one byte for each that says where in its window it is, and _MaxPoolGradFromPlaces needs
 * to read only these bytes and the gradient, a quarter of what finding the places again from the
 * input reads. Windows have 256 pixels at most. Values are those of MaxPool and MaxPoolGrad to the
 * bit. Rows of pixels are what threads share; 16-bit floats are widened to float. */
#include "kernels/families_internal.h"

#include <string.h>
#include "kernels/matmul_internal.h"
#include "kernels/pool_internal.h"
#include "kernels/support_internal.h"

#define MOST_PLACES 256

typedef struct places_work {
  const dp_pooling_state *state;
  const dp_pooling_plan *plan;
  const char *from; /* the input, or the gradient of the output */
  char *to;
  uint8_t *places;
} places_work;

typedef void (*run_fn)(dp_op_context *context, const places_work *work);

static size_t pixel_size(const places_work *work) {
  return (size_t)work->plan->channels * dp_dtype_size(work->state->work);
}

static dp_status *make_plan(dp_op_context *context, const dp_pooling_state *state,
                            dp_pooling_plan *plan_out) {
  DP_RETURN_IF_ERROR(dp_pooling_plan_make(context, state, &dp_op_input(context, 0)->shape,
                                          context->input_count, plan_out));
  const dp_window *d = plan_out->dims;
  if (plan_out->depth_window > 1 || d[1].size > MOST_PLACES || d[2].size > MOST_PLACES ||
      d[1].size * d[2].size > MOST_PLACES)
    return DP_INVALID("%s needs windows of at most %d pixels", context->node->op->name,
                      MOST_PLACES);
  return NULL;
}

/* Runs on input `slot` into `output`, both in the work type on the way. */
static dp_status *run_widened(dp_op_context *context, places_work *work, int32_t slot,
                              dp_tensor *output, run_fn run) {
  const dp_pooling_state *state = work->state;
  dp_buffer *widened = NULL, *result = NULL;
  const void *from;
  dp_status *status;
  DP_RETURN_IF_ERROR(
      dp_gemm_widen(context, dp_op_input(context, slot), state->work, &from, &widened));
  work->from = from;
  work->to = output->data;
  if (state->dtype == state->work) {
    run(context, work);
    return NULL;
  }
  size_t bytes = (size_t)dp_tensor_elements(output) * sizeof(float);
  DP_GOTO_IF_ERROR(status, done, dp_buffer_create(bytes, &result));
  work->to = result->data;
  run(context, work);
  dp_gemm_narrow(context, result->data, output);
done:
  dp_buffer_release(widened);
  dp_buffer_release(result);
  return status;
}

/* ---- Forward ---- */
/* Rows of output pixels: [batch, height]. */
static void place_rows(void *arg, int64_t begin, int64_t end) {
  const places_work *work = arg;
  const dp_window *d = work->plan->dims;
  const dp_pooling_fns *fns = work->state->fns;
  size_t pixel = pixel_size(work), bytes = (size_t)(d[2].out * work->plan->channels);
  for (int64_t i = begin; i < end; ++i) {
    int64_t y = i % d[1].out, image = i / d[1].out;
    dp_pooling_row row = dp_pooling_row_of(work->plan, y);
    int64_t first = (image * d[1].in + dp_window_first(&d[1], y)) * d[2].in;
    const char *from = work->from + (size_t)first * pixel;
    char *to = work->to + (size_t)(i * d[2].out) * pixel;
    uint8_t *places = work->places + (size_t)i * bytes;
    if (work->plan->in.elements > 0) {
      fns->row_places(&row, from, to, places);
    } else { /* windows over padding alone */
      fns->row_largest(&row, from, to);
      memset(places, 0, bytes);
    }
  }
}

static void run_forward(dp_op_context *context, const places_work *work) {
  const dp_pooling_plan *plan = work->plan;
  const dp_window *d = plan->dims;
  int64_t taps = d[1].size * d[2].size, row = d[2].out * (int64_t)pixel_size(work);
  dp_op_for(context, plan->batch * d[1].out, row * taps / 16 + 20 * taps, place_rows, (void *)work);
}

static dp_status *pool_compute(dp_op_context *context, void *state) {
  dp_pooling_plan plan;
  dp_tensor *output, *places;
  DP_RETURN_IF_ERROR(make_plan(context, state, &plan));
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &plan.out, &output));
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 1, &plan.out, &places));
  if (plan.out.elements == 0)
    return NULL;
  places_work work = {.state = state, .plan = &plan, .places = places->data};
  return run_widened(context, &work, 0, output, run_forward);
}

/* ---- Gradient ---- */
/* The rows of windows over row y of an image's pixels; returns how many. */
static int64_t find_sources(const places_work *work, int64_t image, int64_t y,
                            dp_pooling_source *sources) {
  const dp_window *d = work->plan->dims;
  int64_t at = y + d[1].before, last = at / d[1].stride, count = 0;
  int64_t first = at < d[1].size ? 0 : (at - d[1].size) / d[1].stride + 1;
  last = last < d[1].out ? last : d[1].out - 1;
  for (int64_t window = first; window <= last; ++window) {
    int64_t pixel = (image * d[1].out + window) * d[2].out;
    sources[count++] =
        (dp_pooling_source){.gradient = work->from + (size_t)pixel * pixel_size(work),
                            .places = work->places + pixel * work->plan->channels,
                            .place = (at - window * d[1].stride) * d[2].size};
  }
  return count;
}

/* Rows of input pixels: [batch, height]. */
static void return_rows(void *arg, int64_t begin, int64_t end) {
  const places_work *work = arg;
  const dp_window *d = work->plan->dims;
  dp_pooling_row row = dp_pooling_row_of(work->plan, 0);
  dp_pooling_source sources[MOST_PLACES];
  for (int64_t i = begin; i < end; ++i) {
    int64_t count = find_sources(work, i / d[1].in, i % d[1].in, sources);
    work->state->fns->row_return(&row, sources, count,
                                 work->to + (size_t)(i * d[2].in) * pixel_size(work));
  }
}

static void run_gradient(dp_op_context *context, const places_work *work) {
  const dp_pooling_plan *plan = work->plan;
  const dp_window *d = plan->dims;
  int64_t overlap = (d[1].size / d[1].stride + 1) * (d[2].size / d[2].stride + 1);
  int64_t row = d[2].in * (int64_t)pixel_size(work);
  dp_op_for(context, plan->batch * d[1].in, row * overlap / 32 + 20, return_rows, (void *)work);
}

static dp_status *gradient_compute(dp_op_context *context, void *state) {
  dp_pooling_plan plan;
  dp_tensor *output;
  const dp_tensor *places = dp_op_input(context, 3);
  DP_RETURN_IF_ERROR(make_plan(context, state, &plan));
  DP_RETURN_IF_ERROR(
      dp_pooling_check_shape("orig_output", &plan.out, &dp_op_input(context, 1)->shape));
  DP_RETURN_IF_ERROR(dp_pooling_check_shape("grad", &plan.out, &dp_op_input(context, 2)->shape));
  DP_RETURN_IF_ERROR(dp_pooling_check_shape("places", &plan.out, &places->shape));
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &plan.in, &output));
  if (plan.in.elements == 0)
    return NULL;
  places_work work = {.state = state, .plan = &plan, .places = places->data};
  return run_widened(context, &work, 2, output, run_gradient);
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
