/* FusedBatchNorm (all versions) and its gradient, in both layouts, for training and inference.
 *
 * Statistics are always float; 16-bit images are widened as a whole. Images are walked in pieces:
 * `piece` rows of all channels, or one plane when channels come first. Each piece writes its sums
 * to a row of a table; the table is then summed in double. */
#include "kernels/shared/family.h"

#include <math.h>
#include <string.h>
#include "kernels/loops/norm.h"
#include "kernels/shared/widen.h"

#define PIECE 8192 /* values per piece, roughly: they fit the first-level cache */

typedef struct norm_state {
  dp_dtype dtype;
  float epsilon, average_factor;
  bool is_training, channels_first, has_third_space;
  const dp_norm_loops *loops;
} norm_state;

static dp_status *norm_create(const dp_kernel_setup *setup, void *memory) {
  norm_state *state = memory;
  const dp_node *node = setup->node;
  dp_view format;
  DP_RETURN_IF_ERROR(dp_node_get_type(node, "T", &state->dtype));
  DP_RETURN_IF_ERROR(dp_node_get_float(node, "epsilon", &state->epsilon));
  DP_RETURN_IF_ERROR(dp_node_get_bool(node, "is_training", &state->is_training));
  DP_RETURN_IF_ERROR(dp_node_get_string(node, "data_format", &format));
  state->average_factor = 1;
  if (dp_node_attr(node, "exponential_avg_factor"))
    DP_RETURN_IF_ERROR(dp_node_get_float(node, "exponential_avg_factor", &state->average_factor));
  state->channels_first = format.length > 1 && format.data[1] == 'C';
  state->has_third_space = dp_node_is(node, "FusedBatchNormV3");
  state->loops = dp_norm_table();
  return NULL;
}

/* ---- Images in pieces ---- */
typedef struct norm_work {
  const norm_state *state;
  int64_t rows, channels, inner; /* rows: of channels, or images; inner: values per plane */
  int64_t piece, pieces;
  const float *x, *g, *mean;
  const float *factor, *offset, *slope; /* one value per channel */
  float *y;
  float *sums, *products; /* [pieces, channels]; products are squares in statistics */
} norm_work;

static void set_sizes(norm_work *work, const dp_shape *shape) {
  if (work->state->channels_first) {
    work->rows = shape->dims[0];
    work->channels = shape->dims[1];
    work->inner = dp_shape_product(shape, 2, shape->rank);
    work->piece = 1;
  } else {
    work->channels = shape->dims[shape->rank - 1];
    work->rows = dp_shape_product(shape, 0, shape->rank - 1);
    work->inner = 1;
    work->piece = PIECE / (work->channels > 0 ? work->channels : 1);
    work->piece = work->piece < 1 ? 1 : work->piece;
  }
  work->pieces = (work->rows + work->piece - 1) / work->piece;
}

typedef enum step { STEP_STATISTICS, STEP_GRADIENT, STEP_NORMALIZE, STEP_BACK } step;

static void run_rows(const norm_work *work, step step, int64_t piece) {
  const dp_norm_loops *loops = work->state->loops;
  int64_t channels = work->channels, first = piece * work->piece, rows = work->rows - first;
  rows = rows < work->piece ? rows : work->piece;
  const float *x = work->x + first * channels;
  switch (step) {
  case STEP_STATISTICS:
    loops->statistics_rows(x, rows, channels, work->sums + piece * channels,
                           work->products + piece * channels);
    return;
  case STEP_GRADIENT:
    loops->gradient_rows(x, work->g + first * channels, work->mean, rows, channels,
                         work->sums + piece * channels, work->products + piece * channels);
    return;
  case STEP_NORMALIZE:
    loops->normalize_rows(x, work->mean, work->factor, work->offset, rows, channels,
                          work->y + first * channels);
    return;
  case STEP_BACK:
    loops->back_rows(x, work->g + first * channels, work->mean, work->factor, work->offset,
                     work->slope, rows, channels, work->y + first * channels);
    return;
  }
}

static void run_plane(const norm_work *work, step step, int64_t image, int64_t channel) {
  const dp_norm_loops *loops = work->state->loops;
  int64_t index = image * work->channels + channel, at = index * work->inner;
  const float *x = work->x + at;
  switch (step) {
  case STEP_STATISTICS:
    loops->statistics_plane(x, work->inner, work->sums + index, work->products + index);
    return;
  case STEP_GRADIENT:
    loops->gradient_plane(x, work->g + at, work->mean[channel], work->inner, work->sums + index,
                          work->products + index);
    return;
  case STEP_NORMALIZE:
    loops->normalize_plane(x, work->mean[channel], work->factor[channel], work->offset[channel],
                           work->inner, work->y + at);
    return;
  case STEP_BACK:
    loops->back_plane(x, work->g + at, work->mean[channel], work->factor[channel],
                      work->offset[channel], work->slope[channel], work->inner, work->y + at);
    return;
  }
}

typedef struct step_work {
  const norm_work *work;
  step step;
} step_work;

static void run_pieces(void *arg, int64_t begin, int64_t end) {
  const step_work *it = arg;
  const norm_work *work = it->work;
  for (int64_t i = begin; i < end; ++i) {
    if (work->state->channels_first)
      run_plane(work, it->step, i / work->channels, i % work->channels);
    else
      run_rows(work, it->step, i);
  }
}

static void run_step(dp_op_context *context, const norm_work *work, step step) {
  step_work it = {work, step};
  if (work->state->channels_first)
    dp_op_for(context, work->rows * work->channels, work->inner / 3 + 10, run_pieces, &it);
  else
    dp_op_for(context, work->pieces, work->piece * work->channels / 3 + 10, run_pieces, &it);
}

/* to[c] = factor * sum of column c of the table. TOGETHER columns at a time, so that their
 * additions do not wait for each other. */
#define TOGETHER 8
static void join(const norm_work *work, const float *table, double factor, float *to) {
  for (int64_t first = 0; first < work->channels; first += TOGETHER) {
    int64_t count = work->channels - first < TOGETHER ? work->channels - first : TOGETHER;
    double sums[TOGETHER] = {0};
    for (int64_t i = 0; i < work->pieces; ++i)
      for (int64_t c = 0; c < count; ++c)
        sums[c] += table[i * work->channels + first + c];
    for (int64_t c = 0; c < count; ++c)
      to[first + c] = (float)(sums[c] * factor);
  }
}

/* Turns sums of squared distances from the mean of a piece into squared distances from the mean of
 * all: squares += count * (mean of the piece - mean of all)^2. */
static void shift_squares(const norm_work *work) {
  for (int64_t i = 0; i < work->pieces; ++i) {
    int64_t rows = work->rows - i * work->piece;
    float count = (float)((rows < work->piece ? rows : work->piece) * work->inner);
    float share = 1 / count;
    const float *sums = work->sums + i * work->channels;
    float *squares = work->products + i * work->channels;
    for (int64_t c = 0; c < work->channels; ++c) {
      float distance = sums[c] * share - work->mean[c];
      squares[c] += distance * distance * count;
    }
  }
}

/* ---- Checks ---- */
static dp_status *check_vector(const dp_tensor *tensor, const char *name, const char *when,
                               int64_t channels) {
  if (tensor->shape.rank != 1)
    return DP_INVALID("%s must be 1-dimensional%s", name, dp_shape_text(&tensor->shape));
  if (tensor->shape.dims[0] != channels)
    return DP_INVALID("%s%s must have the same number of elements as the channels of x, got %lld "
                      "and %lld",
                      when, name, (long long)tensor->shape.dims[0], (long long)channels);
  return NULL;
}

static dp_status *check_images(const dp_tensor *x) {
  if (x->shape.rank != 4 && x->shape.rank != 5)
    return DP_INVALID("input must be 4 or 5-dimensional%s", dp_shape_text(&x->shape));
  return NULL;
}

static dp_status *check_estimates(const dp_op_context *context, const norm_state *state,
                                  int64_t channels) {
  const char *when = !state->is_training          ? "When is_training=false, "
                     : state->average_factor != 1 ? "When exponential_avg_factor != 1, "
                                                  : NULL;
  static const char *const names[] = {"mean", "variance"};
  for (int i = 0; i < 2; ++i) {
    const dp_tensor *estimate = dp_op_input(context, 3 + i);
    if (estimate->shape.rank != 1)
      return DP_INVALID("%s must be 1-dimensional%s", names[i], dp_shape_text(&estimate->shape));
    if (when)
      DP_RETURN_IF_ERROR(check_vector(estimate, names[i], when, channels));
  }
  return NULL;
}

/* ---- Forward ---- */
typedef struct norm_outputs {
  dp_tensor *y, *mean, *variance, *saved_mean, *saved_variance;
} norm_outputs;

static dp_status *allocate_outputs(dp_op_context *context, const norm_state *state,
                                   const dp_shape *shape, int64_t channels, norm_outputs *out) {
  dp_shape vector = dp_shape_vector(channels), scalar = dp_shape_scalar();
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, shape, &out->y));
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 1, &vector, &out->mean));
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 2, &vector, &out->variance));
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 3, &vector, &out->saved_mean));
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 4, &vector, &out->saved_variance));
  if (state->has_third_space) {
    dp_tensor *space;
    DP_RETURN_IF_ERROR(dp_op_allocate(context, 5, &scalar, &space));
    *(float *)space->data = 0;
  }
  return NULL;
}

static void fill_nan(const norm_outputs *out) {
  dp_tensor *const all[] = {out->mean, out->variance, out->saved_mean, out->saved_variance};
  for (int i = 0; i < 4; ++i)
    for (int64_t c = 0; c < dp_tensor_elements(all[i]); ++c)
      ((float *)all[i]->data)[c] = NAN;
}

/* Writes mean and variance of the images to the saved outputs, and updates the running ones. */
static void find_statistics(dp_op_context *context, norm_work *work, const norm_outputs *out) {
  const norm_state *state = work->state;
  double count = (double)work->rows * (double)work->inner;
  float *mean = out->saved_mean->data, *variance = out->saved_variance->data;
  run_step(context, work, STEP_STATISTICS);
  join(work, work->sums, 1 / count, mean);
  work->mean = mean;
  shift_squares(work);
  join(work, work->products, 1 / count, variance);
  float *new_mean = out->mean->data, *new_variance = out->variance->data;
  const float *old_mean = dp_op_input(context, 3)->data;
  const float *old_variance = dp_op_input(context, 4)->data;
  float by = state->average_factor, bessel = (float)(count / (count > 1 ? count - 1 : 1));
  for (int64_t c = 0; c < work->channels; ++c) {
    float unbiased = variance[c] * bessel;
    new_mean[c] = by == 1 ? mean[c] : (1 - by) * old_mean[c] + by * mean[c];
    new_variance[c] = by == 1 ? unbiased : (1 - by) * old_variance[c] + by * unbiased;
  }
}

static void take_estimates(dp_op_context *context, norm_work *work, const norm_outputs *out) {
  size_t bytes = (size_t)work->channels * sizeof(float);
  const void *mean = dp_op_input(context, 3)->data, *variance = dp_op_input(context, 4)->data;
  memcpy(out->mean->data, mean, bytes);
  memcpy(out->saved_mean->data, mean, bytes);
  memcpy(out->variance->data, variance, bytes);
  memcpy(out->saved_variance->data, variance, bytes);
  work->mean = out->saved_mean->data;
}

static dp_status *run_forward(dp_op_context *context, norm_work *work, const norm_outputs *out) {
  const norm_state *state = work->state;
  dp_buffer *table;
  int64_t table_size = work->pieces * work->channels;
  DP_RETURN_IF_ERROR(
      dp_buffer_create((size_t)(2 * table_size + work->channels) * sizeof(float), &table));
  work->sums = table->data;
  work->products = work->sums + table_size;
  float *factor = work->products + table_size;
  if (state->is_training)
    find_statistics(context, work, out);
  else
    take_estimates(context, work, out);
  const float *scale = dp_op_input(context, 1)->data, *variance = out->saved_variance->data;
  for (int64_t c = 0; c < work->channels; ++c)
    factor[c] = scale[c] / sqrtf(variance[c] + state->epsilon);
  work->factor = factor;
  work->offset = dp_op_input(context, 2)->data;
  run_step(context, work, STEP_NORMALIZE);
  dp_buffer_release(table);
  return NULL;
}

static dp_status *norm_compute(dp_op_context *context, void *memory) {
  const norm_state *state = memory;
  const dp_tensor *x = dp_op_input(context, 0);
  DP_RETURN_IF_ERROR(check_images(x));
  norm_work work = {.state = state};
  dp_shape shape = x->shape;
  set_sizes(&work, &shape);
  DP_RETURN_IF_ERROR(check_vector(dp_op_input(context, 1), "scale", "", work.channels));
  DP_RETURN_IF_ERROR(check_vector(dp_op_input(context, 2), "offset", "", work.channels));
  DP_RETURN_IF_ERROR(check_estimates(context, state, work.channels));
  norm_outputs out;
  DP_RETURN_IF_ERROR(allocate_outputs(context, state, &shape, work.channels, &out));
  if (shape.elements == 0) {
    fill_nan(&out);
    return NULL;
  }
  const void *data;
  dp_buffer *widened = NULL, *result = NULL;
  dp_status *status;
  DP_RETURN_IF_ERROR(dp_kernel_widen_tensor(context, x, DP_FLOAT, &data, &widened));
  work.x = data;
  work.y = widened ? widened->data : out.y->data;
  DP_GOTO_IF_ERROR(status, done, run_forward(context, &work, &out));
  if (widened)
    dp_kernel_narrow_tensor(context, work.y, out.y);
done:
  dp_buffer_release(widened);
  dp_buffer_release(result);
  return status;
}

/* ---- Gradient ---- */
static dp_status *check_gradient(const dp_op_context *context, int64_t channels) {
  const dp_tensor *g = dp_op_input(context, 0), *x = dp_op_input(context, 1);
  if (!dp_shape_equal(&g->shape, &x->shape))
    return DP_INVALID("x and y_backprop must have same shape, but x has shape %s and y_backprop "
                      "has shape %s",
                      dp_shape_text(&x->shape), dp_shape_text(&g->shape));
  DP_RETURN_IF_ERROR(check_vector(dp_op_input(context, 2), "scale", "", channels));
  DP_RETURN_IF_ERROR(check_vector(dp_op_input(context, 3), "reserve_space_1", "", channels));
  return check_vector(dp_op_input(context, 4), "reserve_space_2", "", channels);
}

static dp_status *run_gradient(dp_op_context *context, norm_work *work, float *scale_gradient,
                               float *offset_gradient) {
  const norm_state *state = work->state;
  int64_t table_size = work->pieces * work->channels, channels = work->channels;
  dp_buffer *table;
  DP_RETURN_IF_ERROR(
      dp_buffer_create((size_t)(2 * table_size + 3 * channels) * sizeof(float), &table));
  work->sums = table->data;
  work->products = work->sums + table_size;
  float *factor = work->products + table_size, *shift = factor + channels;
  float *slope = shift + channels;
  const float *scale = dp_op_input(context, 2)->data, *variance = dp_op_input(context, 4)->data;
  work->mean = dp_op_input(context, 3)->data;
  run_step(context, work, STEP_GRADIENT);
  join(work, work->sums, 1, offset_gradient);
  join(work, work->products, 1, scale_gradient);
  float count = (float)((double)work->rows * (double)work->inner);
  for (int64_t c = 0; c < channels; ++c) {
    float inverse = 1 / sqrtf(variance[c] + state->epsilon);
    factor[c] = scale[c] * inverse;
    shift[c] = state->is_training ? offset_gradient[c] / count : 0;
    slope[c] = state->is_training ? scale_gradient[c] / count * inverse * inverse : 0;
    scale_gradient[c] *= inverse;
  }
  work->factor = factor;
  work->offset = shift;
  work->slope = slope;
  run_step(context, work, STEP_BACK);
  dp_buffer_release(table);
  return NULL;
}

static dp_status *allocate_gradients(dp_op_context *context, const dp_shape *shape,
                                     int64_t channels, dp_tensor **outputs) {
  dp_shape vector = dp_shape_vector(channels), none = dp_shape_vector(0);
  dp_tensor *space;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, shape, &outputs[0]));
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 1, &vector, &outputs[1]));
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 2, &vector, &outputs[2]));
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 3, &none, &space));
  return dp_op_allocate(context, 4, &none, &space);
}

static dp_status *gradient_compute(dp_op_context *context, void *memory) {
  const norm_state *state = memory;
  const dp_tensor *g = dp_op_input(context, 0), *x = dp_op_input(context, 1);
  DP_RETURN_IF_ERROR(check_images(x));
  norm_work work = {.state = state};
  dp_shape shape = x->shape;
  set_sizes(&work, &shape);
  DP_RETURN_IF_ERROR(check_gradient(context, work.channels));
  if (!state->is_training && state->channels_first)
    return DP_INVALID("The implementation of FusedBatchNormGrad with is_training=False only "
                      "support NHWC tensor format for now.");
  dp_tensor *outputs[3];
  DP_RETURN_IF_ERROR(allocate_gradients(context, &shape, work.channels, outputs));
  if (shape.elements == 0) {
    memset(outputs[1]->data, 0, dp_tensor_bytes(outputs[1]));
    memset(outputs[2]->data, 0, dp_tensor_bytes(outputs[2]));
    return NULL;
  }
  const void *data;
  dp_buffer *x_buffer = NULL, *g_buffer = NULL;
  dp_status *status;
  DP_GOTO_IF_ERROR(status, done, dp_kernel_widen_tensor(context, x, DP_FLOAT, &data, &x_buffer));
  work.x = data;
  DP_GOTO_IF_ERROR(status, done, dp_kernel_widen_tensor(context, g, DP_FLOAT, &data, &g_buffer));
  work.g = data;
  work.y = x_buffer ? x_buffer->data : outputs[0]->data;
  DP_GOTO_IF_ERROR(status, done, run_gradient(context, &work, outputs[1]->data, outputs[2]->data));
  if (x_buffer)
    dp_kernel_narrow_tensor(context, work.y, outputs[0]);
done:
  dp_buffer_release(x_buffer);
  dp_buffer_release(g_buffer);
  return status;
}

#define SET_IMAGES (DP_SET(FLOAT) | DP_SET(HALF) | DP_SET(BFLOAT16))
#define ROW(name, set, run)                                                                        \
  {                                                                                                \
    .op = name, .types = {{"T", set}}, .state_size = sizeof(norm_state), .create = norm_create,    \
    .compute = run                                                                                 \
  }
static const dp_kernel rows[] = {
    ROW("FusedBatchNorm", DP_SET(FLOAT), norm_compute),
    ROW("FusedBatchNormV2", SET_IMAGES, norm_compute),
    ROW("FusedBatchNormV3", SET_IMAGES, norm_compute),
    ROW("FusedBatchNormGrad", DP_SET(FLOAT), gradient_compute),
    ROW("FusedBatchNormGradV2", SET_IMAGES, gradient_compute),
    ROW("FusedBatchNormGradV3", SET_IMAGES, gradient_compute),
};
DP_KERNEL_FAMILY(norm, rows);
