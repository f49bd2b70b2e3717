/* Gradients of poolings, and MaxPoolWithArgmax. The gradient of a maximum goes to the first place
 * in the window that holds it, found again from the input (pool_places.c has the one that is told
 * the place); of a three-dimensional one, to all places that hold it. Images, and blocks of
 * channels within them, are what threads share. */
#include "kernels/families_internal.h"

#include <string.h>
#include "kernels/matmul_internal.h"
#include "kernels/pool_internal.h"
#include "kernels/support_internal.h"

#define BLOCK 128 /* channels of one task */

typedef struct gradient_work gradient_work;
typedef void (*pixel_fn)(const gradient_work *work, int64_t image, int64_t index, int64_t channel,
                         int64_t count);
struct gradient_work {
  const dp_pooling_state *state;
  const dp_pooling_plan *plan;
  pixel_fn run;
  bool zeroes; /* the result, whose pixels are the input's, starts as zeros */
  const char *in, *out, *gradient;
  char *to;
  char *places; /* of MaxPoolWithArgmax */
  dp_dtype place_type;
  dp_buffer *buffers[4];
};

static int64_t place(const gradient_work *work, int64_t image, int64_t pixels, int64_t pixel,
                     int64_t channel) {
  return ((image * pixels + pixel) * work->plan->channels + channel) *
         (int64_t)dp_dtype_size(work->state->work);
}

/* Where the window's largest elements are: pixel numbers within the image. */
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

static void equal_pixel(const gradient_work *work, int64_t image, int64_t index, int64_t channel,
                        int64_t count) {
  const dp_pooling_plan *plan = work->plan;
  dp_pooling_box box = dp_pooling_box_of(plan, index);
  int64_t at = place(work, image, dp_pooling_pixels_out(plan), index, channel);
  for (int64_t z = box.first[0]; z < box.last[0]; ++z)
    for (int64_t y = box.first[1]; y < box.last[1]; ++y)
      for (int64_t x = box.first[2]; x < box.last[2]; ++x) {
        int64_t pixel = (z * plan->dims[1].in + y) * plan->dims[2].in + x;
        int64_t from = place(work, image, dp_pooling_pixels_in(plan), pixel, channel);
        work->state->fns->add_equal(work->to + from, work->in + from, work->out + at,
                                    work->gradient + at, count);
      }
}

/* The window over which TensorFlow spreads the gradient of an average: a window larger than the
 * image is cut at the end only, although the average itself was taken over less. */
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

/* ---- Flat images ---- */
/* Averages over windows larger than the image are spread otherwise (spread_box). */
static bool is_flat(const gradient_work *work) {
  const dp_window *d = work->plan->dims;
  if (d[0].in != 1 || d[1].out == 0 || !work->state->fns->row_gather)
    return false;
  if (work->run == spread_pixel)
    return d[1].size <= d[1].in && d[2].size <= d[2].in;
  return work->run == scatter_pixel || work->run == gather_pixel;
}

/* Row y of the windows of an image, where their first row begins in the input. */
static int64_t row_start(const gradient_work *work, int64_t image, int64_t y) {
  const dp_window *d = work->plan->dims;
  return place(work, image, dp_pooling_pixels_in(work->plan), dp_window_first(&d[1], y) * d[2].in,
               0);
}

/* Rows of output pixels: [batch, height]. */
static void pick_rows(void *arg, int64_t begin, int64_t end) {
  const gradient_work *work = arg;
  const dp_window *d = work->plan->dims;
  for (int64_t i = begin; i < end; ++i) {
    int64_t y = i % d[1].out, image = i / d[1].out, from = row_start(work, image, y);
    dp_pooling_row row = dp_pooling_row_of(work->plan, y);
    work->state->fns->row_picks(&row, work->in + from, work->gradient + from,
                                work->to + place(work, 0, 0, i * d[2].out, 0));
  }
}

/* Rows of input pixels under averages: [batch, height]. What the rows of windows over the current
 * one give to each of their pixels is kept in a ring. */
static void gather_rows(void *arg, int64_t begin, int64_t end) {
  const gradient_work *work = arg;
  const dp_window *d = work->plan->dims;
  int64_t ring = (d[1].size - 1) / d[1].stride + 1, bytes = place(work, 0, 0, d[2].out, 0);
  char *memory = dp_malloc((size_t)(ring * bytes));
  const void **shares = dp_malloc((size_t)ring * sizeof *shares);
  int64_t known = 0; /* rows of windows of this image */
  for (int64_t i = begin; i < end; ++i) {
    int64_t y = i % d[1].in, image = i / d[1].in, count = 0;
    int64_t first = (y + d[1].before - d[1].size + d[1].stride) / d[1].stride;
    int64_t last = (y + d[1].before) / d[1].stride;
    first = y + d[1].before < d[1].size ? 0 : first;
    last = last < d[1].out ? last : d[1].out - 1;
    known = i == begin || y == 0 || known < first ? first : known;
    dp_pooling_row row;
    for (; known <= last; ++known) {
      row = dp_pooling_row_of(work->plan, known);
      int64_t at = place(work, image, dp_pooling_pixels_out(work->plan), known * d[2].out, 0);
      work->state->fns->row_shares(&row, work->gradient + at, memory + known % ring * bytes);
    }
    for (int64_t window = first; window <= last; ++window)
      shares[count++] = memory + window % ring * bytes;
    row = dp_pooling_row_of(work->plan, 0);
    work->state->fns->row_gather(&row, shares, count, work->to + place(work, 0, 0, i * d[2].in, 0));
  }
  dp_free(shares);
  dp_free(memory);
}

/* Rows [begin, end) of the windows of an image, which write the rows of pixels from where theirs
 * begin to where those of `end` do. What rows of windows before them give is found out again; rows
 * of pixels that are others' are `spare`. */
static void spread_image(const gradient_work *work, int64_t image, int64_t begin, int64_t end,
                         char *spare, void **to) {
  const dp_window *d = work->plan->dims;
  int64_t own = begin > 0 ? dp_window_first(&d[1], begin) : 0, ready = own;
  int64_t limit = end < d[1].out ? dp_window_first(&d[1], end) : d[1].in, y = begin;
  int64_t bytes = place(work, 0, 0, d[2].in, 0);
  char *pixels = work->to + place(work, image, dp_pooling_pixels_in(work->plan), 0, 0);
  while (y > 0 && dp_window_last(&d[1], y - 1) > own)
    --y;
  for (; y < end; ++y) {
    int64_t first = dp_window_first(&d[1], y), last = dp_window_last(&d[1], y);
    for (; ready < first && ready < limit; ++ready)
      memset(pixels + ready * bytes, 0, (size_t)bytes);
    for (int64_t i = first; i < last; ++i)
      to[i - first] = i >= own && i < limit ? pixels + i * bytes : spare;
    int64_t fresh = last - (first > ready ? first : ready);
    dp_pooling_row row = dp_pooling_row_of(work->plan, y);
    work->state->fns->row_spread(
        &row, work->in + row_start(work, image, y),
        work->gradient + place(work, image, dp_pooling_pixels_out(work->plan), y * d[2].out, 0), to,
        fresh > 0 ? fresh : 0);
    ready = last > ready ? last : ready;
  }
  for (; ready < limit; ++ready)
    memset(pixels + ready * bytes, 0, (size_t)bytes);
}

/* Rows of windows: [batch, height]. */
static void spread_rows(void *arg, int64_t begin, int64_t end) {
  const gradient_work *work = arg;
  const dp_window *height = &work->plan->dims[1];
  size_t bytes = (size_t)place(work, 0, 0, work->plan->dims[2].in, 0);
  char *spare = dp_malloc(bytes);
  void **to = dp_malloc((size_t)height->size * sizeof *to);
  memset(spare, 0, bytes);
  while (begin < end) {
    int64_t first = begin % height->out, last = first + end - begin;
    last = last < height->out ? last : height->out;
    spread_image(work, begin / height->out, first, last, spare, to);
    begin += last - first;
  }
  dp_free(to);
  dp_free(spare);
}

static void run_flat(dp_op_context *context, const gradient_work *work) {
  const dp_window *d = work->plan->dims;
  int64_t row = d[2].out * (work->plan->channels * d[1].size * d[2].size / 8 + 20);
  if (work->run == gather_pixel)
    dp_op_for(context, work->plan->batch * d[1].out, row, pick_rows, (void *)work);
  else if (work->in)
    dp_op_for(context, work->plan->batch * d[1].out, row * 2, spread_rows, (void *)work);
  else
    dp_op_for(context, work->plan->batch * d[1].in, row * 2 / d[1].stride + 20, gather_rows,
              (void *)work);
}

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

static void run_all(dp_op_context *context, const gradient_work *work) {
  const dp_pooling_plan *plan = work->plan;
  if (is_flat(work)) {
    run_flat(context, work);
    return;
  }
  int64_t taps = plan->dims[0].size * plan->dims[1].size * plan->dims[2].size;
  int64_t channels = plan->channels < BLOCK ? plan->channels : BLOCK;
  int64_t cost = dp_pooling_pixels_out(plan) * taps * (channels / 4 + 5) + 100;
  dp_op_for(context, plan->batch * ((plan->channels + BLOCK - 1) / BLOCK), cost, run_blocks,
            (void *)work);
}

/* ---- Operands in the work type ---- */
static dp_status *widen(dp_op_context *context, gradient_work *work, int32_t slot, int buffer,
                        const char **data_out) {
  const void *data;
  DP_RETURN_IF_ERROR(dp_gemm_widen(context, dp_op_input(context, slot), work->state->work, &data,
                                   &work->buffers[buffer]));
  *data_out = data;
  return NULL;
}

static void release_buffers(gradient_work *work) {
  for (int i = 0; i < 4; ++i)
    dp_buffer_release(work->buffers[i]);
}

/* Runs into output 0, through a buffer when it has 16-bit floats. */
static dp_status *run_to_output(dp_op_context *context, gradient_work *work, dp_tensor *output) {
  if (work->state->dtype == work->state->work) {
    work->to = output->data;
    run_all(context, work);
    return NULL;
  }
  size_t bytes = (size_t)dp_tensor_elements(output) * sizeof(float);
  DP_RETURN_IF_ERROR(dp_buffer_create(bytes, &work->buffers[3]));
  work->to = work->buffers[3]->data;
  run_all(context, work);
  dp_gemm_narrow(context, work->buffers[3]->data, output);
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

/* orig_input, orig_output, and the gradient of the output (of the input, when it is the gradient's
 * own gradient). */
static dp_status *run_three(dp_op_context *context, const dp_pooling_state *state, pixel_fn run,
                            bool is_second) {
  dp_pooling_plan plan;
  gradient_work work = {.state = state, .plan = &plan, .run = run, .zeroes = !is_second};
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
  dp_status *status;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, is_second ? &plan.out : &plan.in, &output));
  if (dp_tensor_elements(output) == 0)
    return NULL;
  DP_GOTO_IF_ERROR(status, done, widen(context, &work, 0, 0, &work.in));
  DP_GOTO_IF_ERROR(status, done, widen(context, &work, 1, 1, &work.out));
  DP_GOTO_IF_ERROR(status, done, widen(context, &work, 2, 2, &work.gradient));
  status = run_to_output(context, &work, output);
done:
  release_buffers(&work);
  return status;
}

static dp_status *max_gradient_compute(dp_op_context *context, void *state) {
  return run_three(context, state, scatter_pixel, false);
}
static dp_status *max_gradient_3d_compute(dp_op_context *context, void *state) {
  return run_three(context, state, equal_pixel, false);
}
static dp_status *max_second_gradient_compute(dp_op_context *context, void *state) {
  return run_three(context, state, gather_pixel, true);
}

/* ---- Averages: the input's shape and the gradient ---- */
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
  gradient_work work = {.state = state, .plan = &plan, .run = spread_pixel, .zeroes = true};
  dp_tensor *output;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &plan.in, &output));
  if (plan.in.elements == 0)
    return NULL;
  dp_status *status;
  DP_GOTO_IF_ERROR(status, done, widen(context, &work, 1, 0, &work.gradient));
  status = run_to_output(context, &work, output);
done:
  release_buffers(&work);
  return status;
}

/* ---- Largest elements with their places ---- */
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
                        .place_type = dp_op_output_type(context, 1)};
  dp_tensor *output, *places;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &plan.out, &output));
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 1, &plan.out, &places));
  work.places = places->data;
  if (plan.out.elements == 0)
    return NULL;
  dp_status *status;
  DP_GOTO_IF_ERROR(status, done, widen(context, &work, 0, 0, &work.in));
  status = run_to_output(context, &work, output);
done:
  release_buffers(&work);
  return status;
}

/* The gradient from places that are given. */
static dp_status *place_gradient_compute(dp_op_context *context, void *memory) {
  const dp_pooling_state *state = memory;
  dp_pooling_plan plan;
  DP_RETURN_IF_ERROR(plan_gradient(context, state, context->input_count, &plan));
  const dp_tensor *gradient = dp_op_input(context, 1), *places = dp_op_input(context, 2);
  DP_RETURN_IF_ERROR(dp_pooling_check_shape("grad", &plan.out, &gradient->shape));
  DP_RETURN_IF_ERROR(dp_pooling_check_shape("argmax", &plan.out, &places->shape));
  dp_tensor *output;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &plan.in, &output));
  gradient_work work = {.state = state, .plan = &plan};
  dp_status *status = NULL;
  DP_RETURN_IF_ERROR(widen(context, &work, 1, 0, &work.gradient));
  char *to = output->data;
  size_t size = dp_dtype_size(state->work);
  if (state->dtype != state->work) {
    DP_GOTO_IF_ERROR(status, done,
                     dp_buffer_create((size_t)plan.in.elements * size, &work.buffers[3]));
    to = work.buffers[3]->data;
  }
  memset(to, 0, (size_t)plan.in.elements * size);
  int64_t per_image = plan.batch > 0 ? plan.in.elements / plan.batch : 0;
  int64_t out_image = plan.batch > 0 ? plan.out.elements / plan.batch : 0;
  for (int64_t i = 0; i < plan.out.elements; ++i) {
    int64_t at = dp_tensor_int_at(places, i);
    at += state->batch_in_index ? 0 : i / out_image * per_image;
    if (at < i / out_image * per_image || at >= (i / out_image + 1) * per_image) {
      status = DP_INVALID("MaxPoolGradWithArgmax: Invalid input index %lld is outside of image "
                          "%lld",
                          (long long)at, (long long)(i / out_image));
      goto done;
    }
    state->fns->add(to + (size_t)at * size, work.gradient + (size_t)i * size, 1, 1, 1);
  }
  if (state->dtype != state->work)
    dp_gemm_narrow(context, (const float *)to, output);
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
