/* Local response normalization over neighbouring channels, and its gradient:
 *
 *   N_j = bias + alpha * (sum of x_k^2 over |k - j| <= radius)
 *   y_j = x_j / N_j^beta
 *
 * Sums slide along the channels of a pixel, in double, so that the cost per channel does not depend
 * on the radius. */
#include "kernels/shared/family.h"

#include <math.h>
#include <string.h>
#include "kernels/shared/widen.h"

typedef struct lrn_state {
  dp_dtype dtype;
  int64_t radius;
  double bias, alpha, beta;
} lrn_state;

static dp_status *lrn_create(const dp_kernel_setup *setup, void *memory) {
  lrn_state *state = memory;
  float bias, alpha, beta;
  DP_RETURN_IF_ERROR(dp_node_get_type(setup->node, "T", &state->dtype));
  DP_RETURN_IF_ERROR(dp_node_get_int(setup->node, "depth_radius", &state->radius));
  DP_RETURN_IF_ERROR(dp_node_get_float(setup->node, "bias", &bias));
  DP_RETURN_IF_ERROR(dp_node_get_float(setup->node, "alpha", &alpha));
  DP_RETURN_IF_ERROR(dp_node_get_float(setup->node, "beta", &beta));
  if (state->radius < 0 || state->radius > INT32_MAX)
    return DP_INVALID("depth_radius = %lld larger than int max", (long long)state->radius);
  state->bias = bias;
  state->alpha = alpha;
  state->beta = beta;
  return NULL;
}

typedef struct lrn_work {
  const lrn_state *state;
  int64_t channels;
  const float *x, *y, *g;
  float *to;
} lrn_work;

static void run_pixels(void *arg, int64_t begin, int64_t end) {
  const lrn_work *work = arg;
  const lrn_state *state = work->state;
  int64_t channels = work->channels, radius = state->radius;
  for (int64_t i = begin; i < end; ++i) {
    const float *x = work->x + i * channels;
    float *to = work->to + i * channels;
    double sum = 0;
    for (int64_t k = 0; k < channels && k < radius; ++k)
      sum += (double)x[k] * x[k];
    for (int64_t j = 0; j < channels; ++j) {
      if (j + radius < channels)
        sum += (double)x[j + radius] * x[j + radius];
      if (j - radius - 1 >= 0)
        sum -= (double)x[j - radius - 1] * x[j - radius - 1];
      to[j] = (float)(x[j] * pow(state->bias + state->alpha * sum, -state->beta));
    }
  }
}

/* dx_k = g_k N_k^-beta - 2 alpha beta x_k (sum of g_j y_j / N_j over |k - j| <= radius). `powers`
 * holds N_j^-beta and `terms` holds g_j y_j / N_j. */
static void run_gradient_pixels(void *arg, int64_t begin, int64_t end) {
  const lrn_work *work = arg;
  const lrn_state *state = work->state;
  int64_t channels = work->channels, radius = state->radius;
  double *powers = dp_malloc(2 * (size_t)channels * sizeof(double)), *terms = powers + channels;
  for (int64_t i = begin; i < end; ++i) {
    const float *x = work->x + i * channels, *y = work->y + i * channels,
                *g = work->g + i * channels;
    float *to = work->to + i * channels;
    double sum = 0, tail = 0;
    for (int64_t k = 0; k < channels && k < radius; ++k)
      sum += (double)x[k] * x[k];
    for (int64_t j = 0; j < channels; ++j) {
      if (j + radius < channels)
        sum += (double)x[j + radius] * x[j + radius];
      if (j - radius - 1 >= 0)
        sum -= (double)x[j - radius - 1] * x[j - radius - 1];
      double norm = state->bias + state->alpha * sum;
      powers[j] = pow(norm, -state->beta);
      terms[j] = g[j] * (double)y[j] / norm;
    }
    for (int64_t k = 0; k < channels && k < radius; ++k)
      tail += terms[k];
    for (int64_t k = 0; k < channels; ++k) {
      tail += k + radius < channels ? terms[k + radius] : 0;
      tail -= k - radius - 1 >= 0 ? terms[k - radius - 1] : 0;
      to[k] = (float)(g[k] * powers[k] - 2 * state->alpha * state->beta * x[k] * tail);
    }
  }
  dp_free(powers);
}

/* Runs into output 0, through a buffer of floats when the output has 16-bit floats. */
static dp_status *run_all(dp_op_context *context, lrn_work *work, const dp_shape *shape,
                          dp_range_fn run) {
  dp_tensor *output;
  dp_buffer *result = NULL;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, shape, &output));
  if (shape->elements == 0)
    return NULL;
  work->to = output->data;
  if (output->dtype != DP_FLOAT) {
    DP_RETURN_IF_ERROR(dp_buffer_create((size_t)shape->elements * sizeof(float), &result));
    work->to = result->data;
  }
  dp_op_for(context, shape->elements / work->channels, work->channels * 40, run, work);
  if (result)
    dp_kernel_narrow_tensor(context, result->data, output);
  dp_buffer_release(result);
  return NULL;
}

static dp_status *lrn_compute(dp_op_context *context, void *memory) {
  const dp_tensor *input = dp_op_input(context, 0);
  dp_shape shape = input->shape;
  if (shape.rank != 4)
    return DP_INVALID("in must be 4-dimensional");
  lrn_work work = {.state = memory, .channels = shape.dims[3]};
  const void *data;
  dp_buffer *buffer;
  DP_RETURN_IF_ERROR(dp_kernel_widen_tensor(context, input, DP_FLOAT, &data, &buffer));
  work.x = data;
  dp_status *status = run_all(context, &work, &shape, run_pixels);
  dp_buffer_release(buffer);
  return status;
}

static dp_status *lrn_gradient_compute(dp_op_context *context, void *memory) {
  dp_shape shape = dp_op_input(context, 0)->shape;
  if (shape.rank != 4 || dp_op_input(context, 1)->shape.rank != 4)
    return DP_INVALID("inputs must be 4-dimensional");
  if (!dp_shape_equal(&shape, &dp_op_input(context, 1)->shape) ||
      !dp_shape_equal(&shape, &dp_op_input(context, 2)->shape))
    return DP_INVALID("input_grads, input_image, and out_image should have the same shape");
  lrn_work work = {.state = memory, .channels = shape.dims[3]};
  const float **const operands[] = {&work.g, &work.x, &work.y};
  dp_buffer *buffers[3] = {NULL};
  dp_status *status = NULL;
  for (int i = 0; i < 3 && !status; ++i) {
    const void *data = NULL;
    status = dp_kernel_widen_tensor(context, dp_op_input(context, i), DP_FLOAT, &data, &buffers[i]);
    *operands[i] = data;
  }
  if (!status)
    status = run_all(context, &work, &shape, run_gradient_pixels);
  for (int i = 0; i < 3; ++i)
    dp_buffer_release(buffers[i]);
  return status;
}

#define SET_IMAGES (DP_SET(FLOAT) | DP_SET(HALF) | DP_SET(BFLOAT16))
static const dp_kernel rows[] = {
    {.op = "LRN",
     .types = {{"T", SET_IMAGES}},
     .state_size = sizeof(lrn_state),
     .create = lrn_create,
     .compute = lrn_compute},
    {.op = "LRNGrad",
     .types = {{"T", SET_IMAGES}},
     .state_size = sizeof(lrn_state),
     .create = lrn_create,
     .compute = lrn_gradient_compute},
};
DP_KERNEL_FAMILY(lrn, rows);
