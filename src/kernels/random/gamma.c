/* Gamma-distributed numbers by Marsaglia and Tsang's method ("A simple method for generating gamma
 * variables"), and the derivative of a sample with respect to alpha. Numbers are drawn and computed
 * in double for every dtype. Each output has its own position in the random stream, so threads do
 * not depend on each other. */
#include <float.h>
#include <math.h>
#include <string.h>
#include "kernels/shared/family.h"
#include "kernels/shared/random.h"

typedef struct gamma_state {
  dp_random_source source;
  int32_t alpha; /* input slot */
} gamma_state;

static dp_status *gamma_create(const dp_kernel_setup *setup, void *memory) {
  gamma_state *state = memory;
  state->alpha = setup->node->input_count - 1;
  return dp_random_source_init(&state->source, setup);
}

static void gamma_destroy(void *memory) {
  dp_random_source_deinit(&((gamma_state *)memory)->source);
}

typedef struct gamma_work {
  dp_philox generator;
  const dp_tensor *alpha;
} gamma_work;

/* For alpha < 1, a sample of alpha + 1 is scaled by a power of a uniform number. */
static double sample_gamma(void *arg, int64_t parameter, int64_t output) {
  const gamma_work *work = arg;
  double alpha = dp_random_parameter(work->alpha, parameter);
  dp_random_pairs pairs = {.generator = work->generator};
  dp_philox_skip(&pairs.generator, (uint64_t)output * DP_RANDOM_RESERVED);
  if (alpha == 1.0)
    return -log1p(-dp_random_pair_uniform(&pairs));
  if (!(alpha > 0) || isinf(alpha))
    return alpha > 0 ? alpha : NAN; /* the method would never accept a number */
  bool is_small = alpha < 1;
  double d = alpha + (is_small ? 2.0 / 3 : -1.0 / 3), c = 1.0 / 3 / sqrt(d);
  for (;;) {
    double x = dp_random_pair_normal(&pairs), v = 1 + c * x;
    if (v <= 0)
      continue;
    v = v * v * v;
    double u = dp_random_pair_uniform(&pairs);
    bool accepted =
        u < 1 - 0.0331 * (x * x) * (x * x) || log(u) < 0.5 * x * x + d * (1 - v + log(v));
    if (!accepted)
      continue;
    double result = d * v;
    return is_small ? result * pow(dp_random_pair_uniform(&pairs), 1 / alpha) : result;
  }
}

/* The seeded op appends alpha's shape to the given shape; the other ops get the whole shape. */
static dp_status *gamma_shape(dp_op_context *context, const gamma_state *state,
                              const dp_tensor *alpha, dp_shape *shape) {
  DP_RETURN_IF_ERROR(dp_random_read_shape(context, 0, shape));
  if (state->source.kind != DP_RANDOM_SEEDED)
    return dp_random_check_tail(shape, &alpha->shape);
  int64_t dims[2 * DP_MAX_RANK];
  memcpy(dims, shape->dims, sizeof shape->dims);
  memcpy(dims + shape->rank, alpha->shape.dims, sizeof alpha->shape.dims);
  return dp_shape_make(shape->rank + alpha->shape.rank, dims, shape);
}

static dp_status *gamma_compute(dp_op_context *context, void *memory) {
  gamma_state *state = memory;
  const dp_tensor *alpha = dp_op_input(context, state->alpha);
  dp_shape shape;
  DP_RETURN_IF_ERROR(dp_random_source_check(context, &state->source));
  DP_RETURN_IF_ERROR(gamma_shape(context, state, alpha, &shape));
  dp_tensor *output;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &shape, &output));
  if (shape.elements == 0)
    return NULL;
  gamma_work work = {.alpha = alpha};
  DP_RETURN_IF_ERROR(dp_random_source_take(
      context, &state->source, (uint64_t)shape.elements * DP_RANDOM_RESERVED, &work.generator));
  int64_t parameters = alpha->shape.elements;
  dp_random_each(context, parameters, shape.elements / parameters, 150, sample_gamma, &work,
                 output);
  return NULL;
}

/* ---- The derivative of a sample ---- */
static double digamma(double x) {
  double result = 0;
  for (; x < 10; x += 1)
    result -= 1 / x;
  double square = 1 / (x * x);
  double series =
      square *
      (1.0 / 12 -
       square * (1.0 / 120 -
                 square * (1.0 / 252 -
                           square * (1.0 / 240 - square * (1.0 / 132 - square * 691.0 / 32760)))));
  return result + log(x) - 0.5 / x - series;
}

/* d sample / d alpha = -(dF / d alpha) / density, where F is the distribution function. Below
 * alpha, F comes from its power series; above, from the continued fraction of 1 - F. Both are
 * differentiated term by term. */
static double derivative_by_series(double alpha, double x) {
  double r = alpha, term = 1, sum = 1, term_slope = 0, sum_slope = 0;
  for (int i = 0; i < 2000; ++i) {
    r += 1;
    term_slope = term_slope * (x / r) - term * x / (r * r);
    sum_slope += term_slope;
    term *= x / r;
    sum += term;
    if (fabs(term_slope) <= 1e-17 * fabs(sum_slope))
      break;
  }
  double log_slope = log(x) - digamma(alpha + 1);
  return -(sum_slope + sum * log_slope) * x / alpha;
}

typedef struct fraction {
  double p, q, p_slope, q_slope; /* numerator and denominator, and their derivatives by alpha */
} fraction;

static double derivative_by_fraction(double alpha, double x) {
  double y = 1 - alpha, z = x + y + 1, value = 0, slope = 0;
  fraction before = {1, x, 0, 0}, now = {x + 1, z * x, 0, -x};
  value = now.p / now.q;
  slope = (now.p_slope - value * now.q_slope) / now.q;
  for (int c = 1; c < 2000; ++c) {
    y += 1;
    z += 2;
    double yc = y * c;
    fraction next = {now.p * z - before.p * yc, now.q * z - before.q * yc,
                     now.p_slope * z - now.p - before.p_slope * yc + before.p * c,
                     now.q_slope * z - now.q - before.q_slope * yc + before.q * c};
    before = now;
    now = next;
    if (next.q != 0) {
      double last = slope;
      value = next.p / next.q;
      slope = (next.p_slope - value * next.q_slope) / next.q;
      if (fabs(slope - last) <= 1e-16)
        break;
    }
    if (fabs(next.p) > 1e15) {
      const double down = 1e-15;
      before = (fraction){before.p * down, before.q * down, before.p_slope * down,
                          before.q_slope * down};
      now = (fraction){now.p * down, now.q * down, now.p_slope * down, now.q_slope * down};
    }
  }
  return (slope + value * (log(x) - digamma(alpha))) * x;
}

/* TensorFlow gives 0 where the density is too small for the dtype. */
static double sample_derivative(double alpha, double x, double largest_log) {
  if (x == 0)
    return 0;
  if (!(x > 0) || !(alpha > 0))
    return NAN;
  if (alpha * log(x) - x - lgamma(alpha) < -largest_log)
    return 0;
  return x > 1 && x > alpha ? derivative_by_fraction(alpha, x) : derivative_by_series(alpha, x);
}

typedef struct derivative_work {
  const dp_tensor *alpha, *sample;
  dp_tensor *output;
  int64_t alpha_strides[DP_MAX_RANK], sample_strides[DP_MAX_RANK];
} derivative_work;

/* Strides of an operand per dimension of the result; 0 where it is repeated. */
static void operand_strides(const dp_shape *operand, const dp_shape *result, int64_t *strides) {
  int64_t stride = 1;
  for (int i = 0; i < result->rank; ++i) {
    int axis = operand->rank - 1 - i, place = result->rank - 1 - i;
    bool is_there = axis >= 0 && operand->dims[axis] != 1;
    strides[place] = is_there ? stride : 0;
    if (axis >= 0)
      stride *= operand->dims[axis];
  }
}

static void derive_range(void *arg, int64_t begin, int64_t end) {
  const derivative_work *work = arg;
  const dp_shape *shape = &work->output->shape;
  for (int64_t i = begin; i < end; ++i) {
    int64_t rest = i, a = 0, s = 0;
    for (int axis = shape->rank - 1; axis >= 0; --axis) {
      int64_t at = rest % shape->dims[axis];
      rest /= shape->dims[axis];
      a += at * work->alpha_strides[axis];
      s += at * work->sample_strides[axis];
    }
    bool is_float = work->output->dtype == DP_FLOAT;
    double value =
        sample_derivative(dp_random_parameter(work->alpha, a), dp_random_parameter(work->sample, s),
                          is_float ? log(FLT_MAX) : log(DBL_MAX));
    if (is_float)
      ((float *)work->output->data)[i] = (float)value;
    else
      ((double *)work->output->data)[i] = value;
  }
}

static dp_status *derivative_compute(dp_op_context *context, void *memory) {
  derivative_work work = {.alpha = dp_op_input(context, 0), .sample = dp_op_input(context, 1)};
  dp_shape shape;
  if (!dp_shape_broadcast(&work.alpha->shape, &work.sample->shape, &shape))
    return DP_INVALID("Incompatible shapes: %s vs. %s", dp_shape_text(&work.alpha->shape),
                      dp_shape_text(&work.sample->shape));
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &shape, &work.output));
  operand_strides(&work.alpha->shape, &shape, work.alpha_strides);
  operand_strides(&work.sample->shape, &shape, work.sample_strides);
  dp_op_for(context, shape.elements, 400, derive_range, &work);
  return NULL;
}

/* clang-format off */
#define GAMMA(name, attr)                                                                          \
  {.op = name, .types = {{attr, DP_SET_FLOATS}}, .state_size = sizeof(gamma_state),                \
   .create = gamma_create, .compute = gamma_compute, .destroy = gamma_destroy}

static const dp_kernel rows[] = {
    GAMMA("RandomGamma", "T"),
    GAMMA("StatelessRandomGammaV2", "dtype"),
    GAMMA("StatelessRandomGammaV3", "dtype"),
    {.op = "RandomGammaGrad", .types = {{"T", DP_SET(FLOAT) | DP_SET(DOUBLE)}},
     .compute = derivative_compute},
};
/* clang-format on */
DP_KERNEL_FAMILY(random_gamma, rows);
