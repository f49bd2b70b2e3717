/* Gradients of pooling, and MaxPoolWithArgmax. The gradient of a 2-D maximum goes to the first
 * place in the window that holds it; of a 3-D maximum, to all places that hold it. Places are found
 * again from the input; pool_places.c has the gradient that gets them as an input.
 *
 * Floats are done row by row; threads share rows. Integers and a few unusual windows are done pixel
 * by pixel, with 16-bit floats widened; threads then share images and blocks of channels. */
#include "kernels/shared/family.h"

#include <stdatomic.h>
#include <string.h>
#include "kernels/nn/pool_internal.h"
#include "kernels/shared/support.h"
#include "kernels/shared/widen.h"

#define BLOCK 128          /* channels per task */
#define PLACES_AT_ONCE 256 /* places that are checked before any is written to */

typedef struct gradient_work gradient_work;
typedef void (*pixel_fn)(const gradient_work *work, int64_t image, int64_t index, int64_t channel,
                         int64_t count);
struct gradient_work {
  const dp_pooling_state *state;
  const dp_pooling_plan *plan;
  pixel_fn run;     /* NULL: always row by row */
  bool zeroes;      /* the result has the input's shape and must start as zeros */
  int32_t slots[3]; /* which inputs the next three pointers are; negative: none */
  const char *in, *out, *gradient;
  char *to;
  char *places; /* MaxPoolWithArgmax and its gradient only */
  dp_dtype place_type;
  atomic_bool failed; /* a place is out of range */
  dp_buffer *buffers[4];
};

static int64_t place(const gradient_work *work, int64_t image, int64_t pixels, int64_t pixel,
                     int64_t channel) {
  return ((image * pixels + pixel) * work->plan->channels + channel) *
         (int64_t)dp_dtype_size(work->state->work);
}

/* Finds the largest elements of a window: their pixel numbers within the image. */
static void find_largest(const gradient_work *work, int64_t image, int64_t index, int64_t channel,
                         int64_t count, char *best, int32_t *where) {
  const dp_pooling_plan *plan = work->plan;
  dp_pooling_box box = dp_pooling_box_of(plan, index);
  memset(where, 0xff, (size_t)count * sizeof *where);
  work->state->fns->fill_least(best, count);
  for (int64_t z = box.first[0]; z < box.last[0]; ++z)
    for (int64_t y = box.first[1]; y < box.last[1]; ++y)
      for (int64_t x = box.first[2]; x < box.last[2]; ++x) {
        int64_t pixel = (z * plan->dims[1].in + y) * plan->dims[2].in + x;
        work->state->fns->take_place(
            best, where, work->in + place(work, image, dp_pooling_pixels_in(plan), pixel, channel),
            count, (int32_t)pixel);
      }
}

static void scatter_pixel(const gradient_work *work, int64_t image, int64_t index, int64_t channel,
                          int64_t count) {
  char best[BLOCK * 8];
  int32_t where[BLOCK];
  find_largest(work, image, index, channel, count, best, where);
  if (where[0] < 0)
    return;
  const dp_pooling_plan *plan = work->plan;
  work->state->fns->scatter(
      work->to + place(work, image, dp_pooling_pixels_in(plan), 0, channel), where,
      work->gradient + place(work, image, dp_pooling_pixels_out(plan), index, channel), count,
      plan->channels);
}

static void gather_pixel(const gradient_work *work, int64_t image, int64_t index, int64_t channel,
                         int64_t count) {
  char best[BLOCK * 8];
  int32_t where[BLOCK];
  find_largest(work, image, index, channel, count, best, where);
  const dp_pooling_plan *plan = work->plan;
  char *to = work->to + place(work, image, dp_pooling_pixels_out(plan), index, channel);
  if (where[0] < 0)
    memset(to, 0, (size_t)count * dp_dtype_size(work->state->work));
  else
    work->state->fns->gather(
        to, where, work->gradient + place(work, image, dp_pooling_pixels_in(plan), 0, channel),
        count, plan->channels);
}

static void place_pixel(const gradient_work *work, int64_t image, int64_t index, int64_t channel,
                        int64_t count) {
  const dp_pooling_plan *plan = work->plan;
  int32_t where[BLOCK];
  int64_t pixels = dp_pooling_pixels_out(plan);
  find_largest(work, image, index, channel, count,
               work->to + place(work, image, pixels, index, channel), where);
  int64_t first = work->state->batch_in_index ? image * dp_pooling_pixels_in(plan) : 0;
  int64_t at = (image * pixels + index) * plan->channels + channel;
  for (int64_t c = 0; c < count; ++c) {
    int64_t value = where[c] < 0 ? 0 : (first + where[c]) * plan->channels + channel + c;
    if (work->place_type == DP_INT32)
      ((int32_t *)work->places)[at + c] = (int32_t)value;
    else
      ((int64_t *)work->places)[at + c] = value;
  }
}

/* The window over which TensorFlow spreads the gradient of an average. A window that is larger than
 * the image is cut only at its end, although the average was taken over fewer pixels. */
static dp_pooling_box spread_box(const dp_pooling_plan *plan, int64_t index) {
  dp_pooling_box box = dp_pooling_box_of(plan, index);
  for (int i = 0; i < DP_WINDOW_DIMS; ++i)
    if (box.first[i] + plan->dims[i].size > plan->dims[i].in)
      box.last[i] = plan->dims[i].in;
  return box;
}

static void spread_pixel(const gradient_work *work, int64_t image, int64_t index, int64_t channel,
                         int64_t count) {
  const dp_pooling_plan *plan = work->plan;
  dp_pooling_box box = spread_box(plan, index);
  double factor = 1.0 / (double)dp_pooling_box_size(&box);
  const char *from =
      work->gradient + place(work, image, dp_pooling_pixels_out(plan), index, channel);
  for (int64_t z = box.first[0]; z < box.last[0]; ++z)
    for (int64_t y = box.first[1]; y < box.last[1]; ++y)
      for (int64_t x = box.first[2]; x < box.last[2]; ++x) {
        int64_t pixel = (z * plan->dims[1].in + y) * plan->dims[2].in + x;
        work->state->fns->add_scaled(
            work->to + place(work, image, dp_pooling_pixels_in(plan), pixel, channel), from, count,
            factor);
      }
}

/* ---- Row by row ---- */
/* Rows of output pixels, counted over [batch, depth, height]. */
static void pick_rows(void *arg, int64_t begin, int64_t end) {
  const gradient_work *work = arg;
  const dp_pooling_plan *plan = work->plan;
  const dp_pooling_row row = dp_pooling_row_of(plan);
  int64_t per_image = plan->dims[0].out * plan->dims[1].out, most = dp_pooling_most_rows(plan);
  const void **rows = dp_malloc((size_t)most * 2 * sizeof *rows);
  for (int64_t i = begin; i < end; ++i) {
    dp_pooling_span span = dp_pooling_span_under(plan, i % per_image);
    int64_t image = i / per_image, count;
    count = dp_pooling_list_rows(plan, &span, image, work->in, rows);
    dp_pooling_list_rows(plan, &span, image, work->gradient, rows + most);
    work->state->rows->picks(&row, rows, rows + most, count,
                             work->to + (size_t)(i * row.out) * plan->pixel_bytes);
  }
  dp_free(rows);
}

/* Lists the rows of windows in `span`. */
static void list_sources(const gradient_work *work, int64_t image, const dp_pooling_span *span,
                         dp_pooling_source *sources) {
  const dp_pooling_plan *plan = work->plan;
  const dp_window *d = plan->dims;
  for (int64_t z = span->first[0]; z < span->last[0]; ++z)
    for (int64_t y = span->first[1]; y < span->last[1]; ++y) {
      size_t at = (size_t)dp_pooling_row_start(plan, true, image, z, y) * plan->pixel_bytes;
      int64_t depth = dp_window_last(&d[0], z) - dp_window_first(&d[0], z);
      int64_t height = dp_window_last(&d[1], y) - dp_window_first(&d[1], y);
      *sources++ = (dp_pooling_source){.gradient = work->gradient + at,
                                       .largest = work->out ? work->out + at : NULL,
                                       .rows = depth * height};
    }
}

/* The most rows of windows over one row of pixels. */
static int64_t most_sources(const dp_pooling_plan *plan) {
  return dp_pooling_most_over(&plan->dims[0]) * dp_pooling_most_over(&plan->dims[1]);
}

/* Rows of input pixels, counted over [batch, depth, height]. Shares are recomputed only when the
 * windows change. */
static void return_rows(void *arg, int64_t begin, int64_t end) {
  const gradient_work *work = arg;
  const dp_pooling_plan *plan = work->plan;
  const dp_pooling_row_fns *fns = work->state->rows;
  const dp_pooling_row row = dp_pooling_row_of(plan);
  int64_t per_image = plan->dims[0].in * plan->dims[1].in;
  size_t bytes = (size_t)row.in * plan->pixel_bytes;
  dp_pooling_source *sources = dp_malloc((size_t)most_sources(plan) * sizeof *sources);
  void *shares = dp_malloc((size_t)(row.out * row.channels) * dp_dtype_size(work->state->work));
  dp_pooling_span known = {{0}, {0}};
  for (int64_t i = begin; i < end; ++i) {
    dp_pooling_span span = dp_pooling_span_over(plan, i % per_image);
    bool is_known = i > begin && i % per_image > 0 && memcmp(&span, &known, sizeof span) == 0;
    int64_t count = dp_pooling_span_size(&span);
    char *to = work->to + (size_t)i * bytes;
    known = span;
    if (!is_known)
      list_sources(work, i / per_image, &span, sources);
    if (count > 0 && !is_known && !work->in)
      fns->shares(&row, sources, count, shares);
    if (count == 0)
      memset(to, 0, bytes);
    else if (work->in)
      fns->return_to_equals(&row, sources, count, work->in + (size_t)i * bytes, to);
    else
      fns->return_shares(&row, shares, to);
  }
  dp_free(shares);
  dp_free(sources);
}

/* Writes the places of a row of windows as indices. `first` is the first pixel of the row, padding
 * not counted. */
static void write_indices(const gradient_work *work, const uint8_t *places, const int64_t *offsets,
                          int64_t first, int64_t at) {
  int64_t channels = work->plan->channels, step = work->plan->dims[2].stride * channels;
  int32_t *small = (int32_t *)work->places + at;
  int64_t *large = (int64_t *)work->places + at;
  first *= channels;
  for (int64_t x = 0; x < work->plan->dims[2].out; ++x, first += step)
    for (int64_t c = 0; c < channels; ++c) {
      int64_t index = first + c + offsets[*places++];
      if (work->place_type == DP_INT32)
        *small++ = (int32_t)index;
      else
        *large++ = index;
    }
}

/* Rows of output pixels with their places, counted over [batch, height]. */
static void index_rows(void *arg, int64_t begin, int64_t end) {
  const gradient_work *work = arg;
  const dp_pooling_plan *plan = work->plan;
  const dp_window *d = plan->dims;
  const dp_pooling_row row = dp_pooling_row_of(plan);
  int64_t offsets[DP_POOLING_MOST_PLACES], width = row.out * row.channels;
  const void *rows[DP_POOLING_MOST_PLACES];
  uint8_t *places = dp_malloc((size_t)width);
  for (int64_t i = 0; i < d[1].size * d[2].size; ++i)
    offsets[i] = (i / d[2].size * d[2].in + i % d[2].size) * row.channels;
  for (int64_t i = begin; i < end; ++i) {
    int64_t y = i % d[1].out, image = i / d[1].out, start = y * d[1].stride - d[1].before;
    dp_pooling_span span = dp_pooling_span_under(plan, y);
    int64_t count = dp_pooling_list_rows(plan, &span, image, work->in, rows);
    work->state->rows->places(&row, rows, count, (span.first[1] - start) * row.size,
                              work->to + (size_t)(i * row.out) * plan->pixel_bytes, places);
    int64_t first = (work->state->batch_in_index ? image * d[1].in : 0) + start;
    write_indices(work, places, offsets, first * d[2].in - d[2].before, i * width);
  }
  dp_free(places);
}

/* Whether the work can go row by row. Integers cannot, nor averages over windows larger than the
 * image (spread_box), nor places that do not fit a byte. */
static bool has_rows(const gradient_work *work) {
  const dp_window *d = work->plan->dims;
  if (!work->state->rows || work->plan->in.elements == 0 || work->plan->out.elements == 0)
    return false;
  if (work->run == spread_pixel)
    return d[0].size <= d[0].in && d[1].size <= d[1].in && d[2].size <= d[2].in;
  return (work->run != scatter_pixel && work->run != place_pixel) ||
         dp_pooling_has_places(work->plan);
}

static void run_rows(dp_op_context *context, const gradient_work *work) {
  const dp_pooling_plan *plan = work->plan;
  const dp_window *d = plan->dims;
  int64_t taps = d[0].size * d[1].size * d[2].size;
  int64_t overlap = most_sources(plan) * (work->in ? dp_pooling_most_over(&d[2]) : 1);
  const dp_pooling_places_work spread = {.state = work->state,
                                         .plan = plan,
                                         .in = work->in,
                                         .gradient = work->gradient,
                                         .to = work->to};
  if (work->run == scatter_pixel)
    dp_pooling_spread(context, &spread);
  else if (work->run == gather_pixel || work->run == place_pixel)
    dp_op_for(context, plan->batch * d[0].out * d[1].out,
              d[2].out * (plan->channels * (taps + 8) / 16 + 20),
              work->run == gather_pixel ? pick_rows : index_rows, (void *)work);
  else
    dp_op_for(context, plan->batch * d[0].in * d[1].in,
              d[2].in * plan->channels * (overlap + 8) / 32 + 50, return_rows, (void *)work);
}

/* ---- Pixel by pixel ---- */
/* Task i: block i % blocks of the channels of image i / blocks. */
static void run_blocks(void *arg, int64_t begin, int64_t end) {
  const gradient_work *work = arg;
  const dp_pooling_plan *plan = work->plan;
  int64_t blocks = (plan->channels + BLOCK - 1) / BLOCK, pixels = dp_pooling_pixels_out(plan);
  size_t size = dp_dtype_size(work->state->work);
  for (int64_t i = begin; i < end; ++i) {
    int64_t image = i / blocks, channel = i % blocks * BLOCK, count = plan->channels - channel;
    count = count < BLOCK ? count : BLOCK;
    if (work->zeroes)
      for (int64_t p = 0; p < dp_pooling_pixels_in(plan); ++p)
        memset(work->to + place(work, image, dp_pooling_pixels_in(plan), p, channel), 0,
               (size_t)count * size);
    for (int64_t index = 0; index < pixels; ++index)
      work->run(work, image, index, channel, count);
  }
}

static void run_pixels(dp_op_context *context, const gradient_work *work) {
  const dp_pooling_plan *plan = work->plan;
  int64_t taps = plan->dims[0].size * plan->dims[1].size * plan->dims[2].size;
  int64_t channels = plan->channels < BLOCK ? plan->channels : BLOCK;
  int64_t cost = dp_pooling_pixels_out(plan) * taps * (channels / 4 + 5) + 100;
  dp_op_for(context, plan->batch * ((plan->channels + BLOCK - 1) / BLOCK), cost, run_blocks,
            (void *)work);
}

static void release_buffers(gradient_work *work) {
  for (int i = 0; i < 4; ++i)
    dp_buffer_release(work->buffers[i]);
}

/* Widens the operands, runs into a buffer of floats and narrows the result. */
static dp_status *run_widened(dp_op_context *context, gradient_work *work, dp_tensor *output) {
  const char **operands[] = {&work->in, &work->out, &work->gradient};
  dp_status *status = NULL;
  for (int i = 0; i < 3; ++i) {
    const void *data = NULL;
    if (*operands[i])
      DP_GOTO_IF_ERROR(status, done,
                       dp_kernel_widen_tensor(context, dp_op_input(context, work->slots[i]),
                                              work->state->work, &data, &work->buffers[i]));
    *operands[i] = data;
  }
  DP_GOTO_IF_ERROR(
      status, done,
      dp_buffer_create((size_t)dp_tensor_elements(output) * sizeof(float), &work->buffers[3]));
  work->to = work->buffers[3]->data;
  run_pixels(context, work);
  dp_kernel_narrow_tensor(context, work->buffers[3]->data, output);
done:
  release_buffers(work);
  return status;
}

/* Runs on the inputs slots[0 .. 2] (negative: none) and writes `output`. */
static dp_status *run_all(dp_op_context *context, gradient_work *work, dp_tensor *output) {
  const char **operands[] = {&work->in, &work->out, &work->gradient};
  for (int i = 0; i < 3; ++i)
    if (work->slots[i] >= 0)
      *operands[i] = dp_op_input(context, work->slots[i])->data;
  work->to = output->data;
  if (!has_rows(work) && work->state->dtype != work->state->work)
    return run_widened(context, work, output);
  (has_rows(work) ? run_rows : run_pixels)(context, work);
  return NULL;
}

dp_status *dp_pooling_check_shape(const char *what, const dp_shape *wanted, const dp_shape *shape) {
  if (dp_shape_equal(wanted, shape))
    return NULL;
  return DP_INVALID("Expected %s shape to be %s, but got %s", what, dp_shape_text(wanted),
                    dp_shape_text(shape));
}

static dp_status *plan_gradient(dp_op_context *context, const dp_pooling_state *state, int32_t slot,
                                dp_pooling_plan *plan) {
  DP_RETURN_IF_ERROR(
      dp_pooling_plan_make(context, state, &dp_op_input(context, 0)->shape, slot, plan));
  if (plan->depth_window > 1)
    return dp_status_create(DP_UNIMPLEMENTED, "%s is not yet supported on the depth dimension.",
                            dp_pooling_name(context->node));
  return NULL;
}

/* Inputs: orig_input, orig_output and the gradient of the output; with `is_second`, the gradient of
 * the input. */
static dp_status *run_three(dp_op_context *context, const dp_pooling_state *state, pixel_fn run,
                            bool is_second) {
  dp_pooling_plan plan;
  gradient_work work = {
      .state = state, .plan = &plan, .run = run, .zeroes = !is_second, .slots = {0, 1, 2}};
  const char *const names[] = {"tensor_in", "tensor_out",
                               is_second ? "out_grad_backprop" : "out_backprop"};
  for (int i = 0; i < 3; ++i)
    if (dp_op_input(context, i)->shape.rank != state->attrs.rank)
      return DP_INVALID("%s must be %d-dimensional", names[i], state->attrs.rank);
  DP_RETURN_IF_ERROR(plan_gradient(context, state, 3, &plan));
  DP_RETURN_IF_ERROR(
      dp_pooling_check_shape("orig_output", &plan.out, &dp_op_input(context, 1)->shape));
  DP_RETURN_IF_ERROR(dp_pooling_check_shape("grad", is_second ? &plan.in : &plan.out,
                                            &dp_op_input(context, 2)->shape));
  dp_tensor *output;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, is_second ? &plan.out : &plan.in, &output));
  return dp_tensor_elements(output) > 0 ? run_all(context, &work, output) : NULL;
}

static dp_status *max_gradient_compute(dp_op_context *context, void *state) {
  return run_three(context, state, scatter_pixel, false);
}
static dp_status *max_gradient_3d_compute(dp_op_context *context, void *state) {
  return run_three(context, state, NULL, false);
}
static dp_status *max_second_gradient_compute(dp_op_context *context, void *state) {
  return run_three(context, state, gather_pixel, true);
}

/* ---- Average: inputs are the input's shape and the gradient ---- */
static dp_status *average_gradient_compute(dp_op_context *context, void *memory) {
  const dp_pooling_state *state = memory;
  const dp_tensor *sizes = dp_op_input(context, 0), *gradient = dp_op_input(context, 1);
  int rank = state->attrs.rank;
  if (sizes->shape.rank != 1 || sizes->shape.dims[0] != rank)
    return DP_INVALID("%s must be 1-dimensional and %d elements",
                      rank == 4 ? "out_backprop" : "tensor_in", rank);
  if (gradient->shape.rank != rank)
    return DP_INVALID("out_backprop must be %d-dimensional", rank);
  dp_shape in;
  dp_pooling_plan plan;
  DP_RETURN_IF_ERROR(dp_kernel_read_shape(sizes, "orig_input_shape", &in));
  DP_RETURN_IF_ERROR(dp_pooling_plan_make(context, state, &in, context->input_count, &plan));
  if (plan.depth_window > 1)
    return dp_status_create(DP_UNIMPLEMENTED,
                            "Non-spatial pooling is not yet supported. Volunteers? :)");
  DP_RETURN_IF_ERROR(dp_pooling_check_shape("grad", &plan.out, &gradient->shape));
  gradient_work work = {
      .state = state, .plan = &plan, .run = spread_pixel, .zeroes = true, .slots = {-1, -1, 1}};
  dp_tensor *output;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &plan.in, &output));
  return plan.in.elements > 0 ? run_all(context, &work, output) : NULL;
}

/* ---- MaxPoolWithArgmax ---- */
static dp_status *argmax_compute(dp_op_context *context, void *memory) {
  const dp_pooling_state *state = memory;
  dp_pooling_plan plan;
  if (dp_op_input(context, 0)->shape.rank != 4)
    return DP_INVALID("tensor_in must be 4-dimensional (2)");
  DP_RETURN_IF_ERROR(plan_gradient(context, state, context->input_count, &plan));
  if (plan.in.elements == 0)
    return DP_INVALID("tensor_in must not be empty (2)");
  gradient_work work = {.state = state,
                        .plan = &plan,
                        .run = place_pixel,
                        .slots = {0, -1, -1},
                        .place_type = dp_op_output_type(context, 1)};
  dp_tensor *output, *places;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &plan.out, &output));
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 1, &plan.out, &places));
  work.places = places->data;
  return plan.out.elements > 0 ? run_all(context, &work, output) : NULL;
}

/* ---- MaxPoolGradWithArgmax: places are an input ---- */
/* Reads `count` places from element `first` of the output on, relative to their image. False when
 * one is outside. */
static bool read_places(const gradient_work *work, int64_t first, int64_t count, int64_t *at) {
  int64_t in = work->plan->in.elements / work->plan->batch;
  int64_t out = work->plan->out.elements / work->plan->batch;
  int64_t start = work->state->batch_in_index ? first / out * in : 0;
  bool is_inside = true;
  for (int64_t i = 0; i < count; ++i) {
    at[i] = (work->place_type == DP_INT32 ? ((const int32_t *)work->places)[first + i]
                                          : ((const int64_t *)work->places)[first + i]) -
            start;
    is_inside &= (uint64_t)at[i] < (uint64_t)in;
  }
  return is_inside;
}

/* Images [begin, end). An image with a wrong place is left incomplete. */
static void add_images(void *arg, int64_t begin, int64_t end) {
  gradient_work *work = arg;
  int64_t in = work->plan->in.elements / work->plan->batch, at[PLACES_AT_ONCE];
  int64_t out = work->plan->out.elements / work->plan->batch;
  int64_t size = (int64_t)dp_dtype_size(work->state->work);
  for (int64_t image = begin; image < end; ++image) {
    char *to = work->to + image * in * size;
    memset(to, 0, (size_t)(in * size));
    for (int64_t i = 0, count; i < out; i += count) {
      count = out - i < PLACES_AT_ONCE ? out - i : PLACES_AT_ONCE;
      if (!read_places(work, image * out + i, count, at)) {
        atomic_store_explicit(&work->failed, true, memory_order_relaxed);
        break;
      }
      work->state->fns->add_at(to, at, work->gradient + (image * out + i) * size, count);
    }
  }
}

/* The error for the first place that is wrong. */
static dp_status *refuse_places(const gradient_work *work, const dp_tensor *places) {
  int64_t at, i = 0;
  while (read_places(work, i, 1, &at))
    ++i;
  return DP_INVALID("MaxPoolGradWithArgmax: Invalid input index %lld is outside of image %lld",
                    (long long)dp_tensor_int_at(places, i),
                    (long long)(i / (work->plan->out.elements / work->plan->batch)));
}

static dp_status *place_gradient_compute(dp_op_context *context, void *memory) {
  const dp_pooling_state *state = memory;
  dp_pooling_plan plan;
  DP_RETURN_IF_ERROR(plan_gradient(context, state, context->input_count, &plan));
  const dp_tensor *gradient = dp_op_input(context, 1), *places = dp_op_input(context, 2);
  DP_RETURN_IF_ERROR(dp_pooling_check_shape("grad", &plan.out, &gradient->shape));
  DP_RETURN_IF_ERROR(dp_pooling_check_shape("argmax", &plan.out, &places->shape));
  dp_tensor *output;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &plan.in, &output));
  if (plan.in.elements == 0)
    return NULL;
  gradient_work work = {.state = state,
                        .plan = &plan,
                        .to = output->data,
                        .places = places->data,
                        .place_type = places->dtype};
  dp_status *status = NULL;
  const void *widened;
  DP_RETURN_IF_ERROR(
      dp_kernel_widen_tensor(context, gradient, state->work, &widened, &work.buffers[0]));
  work.gradient = widened;
  if (state->dtype != state->work) {
    DP_GOTO_IF_ERROR(status, done,
                     dp_buffer_create((size_t)plan.in.elements * sizeof(float), &work.buffers[3]));
    work.to = work.buffers[3]->data;
  }
  dp_op_for(context, plan.batch, (plan.in.elements / 16 + plan.out.elements * 2) / plan.batch,
            add_images, &work);
  if (atomic_load_explicit(&work.failed, memory_order_relaxed))
    status = refuse_places(&work, places);
  else if (state->dtype != state->work)
    dp_kernel_narrow_tensor(context, (const float *)work.to, output);
done:
  release_buffers(&work);
  return status;
}

#define ROW(name, set, run)                                                                        \
  {                                                                                                \
    .op = name, .types = {{"T", set}}, .state_size = sizeof(dp_pooling_state),                     \
    .create = dp_pooling_create, .compute = run                                                    \
  }
static const dp_kernel rows[] = {
    ROW("MaxPoolGrad", DP_SET_REALS, max_gradient_compute),
    ROW("MaxPoolGradV2", DP_SET_REALS, max_gradient_compute),
    ROW("MaxPoolGradGrad", DP_SET_REALS, max_second_gradient_compute),
    ROW("MaxPoolGradGradV2", DP_SET_REALS, max_second_gradient_compute),
    ROW("MaxPool3DGrad", DP_SET_FLOATS, max_gradient_3d_compute),
    ROW("MaxPool3DGradGrad", DP_SET_FLOATS, max_second_gradient_compute),
    ROW("AvgPoolGrad", DP_SET_FLOATS, average_gradient_compute),
    ROW("AvgPool3DGrad", DP_SET_FLOATS, average_gradient_compute),
    ROW("MaxPoolWithArgmax", DP_SET_REALS, argmax_compute),
    ROW("MaxPoolGradWithArgmax", DP_SET_REALS, place_gradient_compute),
};
DP_KERNEL_FAMILY(pool_grad, rows);
