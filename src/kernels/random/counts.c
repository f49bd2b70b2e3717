/* Poisson- and binomially distributed numbers: by inversion where the mean is small, else by
 * Hoermann's transformed rejection ("The transformed rejection method for generating Poisson random
 * variables", "The generation of binomial random variates"). Computed in double. Each output has
 * its own position in the random stream, so threads do not depend on each other. */
#include <float.h>
#include <math.h>
#include <string.h>
#include "kernels/shared/family.h"
#include "kernels/shared/random.h"

typedef struct count_state {
  dp_random_source source;
  int32_t shape; /* input slot; the parameters are the last inputs */
} count_state;

static dp_status *count_create(const dp_kernel_setup *setup, void *memory) {
  count_state *state = memory;
  const dp_op *op = setup->node->op;
  for (int32_t i = 0; i < op->input_count; ++i)
    if (strcmp(op->inputs[i].name, "shape") == 0)
      state->shape = i;
  return dp_random_source_init(&state->source, setup);
}

static void count_destroy(void *memory) {
  dp_random_source_deinit(&((count_state *)memory)->source);
}

/* ---- Poisson ---- */
typedef struct poisson_work {
  dp_philox generator;
  const dp_tensor *rate;
  double largest; /* largest value of the output's dtype */
} poisson_work;

static double largest_of(dp_dtype dtype) {
  switch (dtype) {
  case DP_HALF:
    return 65504;
  case DP_FLOAT:
    return FLT_MAX;
  case DP_INT32:
    return INT32_MAX;
  case DP_INT64:
    return (double)INT64_MAX;
  default:
    return DBL_MAX;
  }
}

static double small_poisson(double rate, double largest, dp_random_pairs *pairs) {
  double limit = exp(-rate), product = 1, count = 0;
  for (;; count += 1) {
    product *= dp_random_pair_uniform(pairs);
    if (product <= limit && count <= largest)
      return count;
  }
}

static double large_poisson(double rate, double largest, dp_random_pairs *pairs) {
  double log_rate = log(rate);
  double b = 0.931 + 2.53 * sqrt(rate), a = -0.059 + 0.02483 * b;
  double inverse_alpha = 1.1239 + 1.1328 / (b - 3.4);
  for (;;) {
    double u = dp_random_pair_uniform(pairs) - 0.5, v = dp_random_pair_uniform(pairs);
    double shifted = 0.5 - fabs(u);
    double k = floor((2 * a / shifted + b) * u + rate + 0.43);
    if (k > largest)
      continue;
    if (shifted >= 0.07 && v <= 0.9277 - 3.6224 / (b - 2))
      return k;
    if (k < 0 || (shifted < 0.013 && v > shifted))
      continue;
    double s = log(v * inverse_alpha / (a / (shifted * shifted) + b));
    if (s <= -rate + k * log_rate - lgamma(k + 1))
      return k;
  }
}

static double sample_poisson(void *arg, int64_t parameter, int64_t output) {
  const poisson_work *work = arg;
  double rate = dp_random_parameter(work->rate, parameter);
  if (isnan(rate) || isinf(rate))
    return NAN; /* no number would ever be accepted */
  dp_random_pairs pairs = {.generator = work->generator};
  dp_philox_skip(&pairs.generator, (uint64_t)output * DP_RANDOM_RESERVED);
  return rate < 10 ? small_poisson(rate, work->largest, &pairs)
                   : large_poisson(rate, work->largest, &pairs);
}

static dp_status *poisson_compute(dp_op_context *context, void *memory) {
  count_state *state = memory;
  poisson_work work = {.rate = dp_op_input(context, context->input_count - 1)};
  const dp_shape *rates = &work.rate->shape;
  dp_shape shape;
  DP_RETURN_IF_ERROR(dp_random_source_check(context, &state->source));
  DP_RETURN_IF_ERROR(dp_random_read_shape(context, state->shape, &shape));
  if (state->source.kind == DP_RANDOM_SEEDED) {
    int64_t dims[2 * DP_MAX_RANK];
    memcpy(dims, shape.dims, sizeof shape.dims);
    memcpy(dims + shape.rank, rates->dims, sizeof rates->dims);
    DP_RETURN_IF_ERROR(dp_shape_make(shape.rank + rates->rank, dims, &shape));
  } else {
    DP_RETURN_IF_ERROR(dp_random_check_tail(&shape, rates));
  }
  dp_tensor *output;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &shape, &output));
  if (shape.elements == 0)
    return NULL;
  DP_RETURN_IF_ERROR(dp_random_source_take(
      context, &state->source, (uint64_t)shape.elements * DP_RANDOM_RESERVED, &work.generator));
  work.largest = largest_of(output->dtype);
  dp_random_each(context, rates->elements, shape.elements / rates->elements, 200, sample_poisson,
                 &work, output);
  return NULL;
}

/* ---- Binomial ---- */
static double binomial_inversion(double count, double probability, dp_random_pairs *pairs) {
  double sum = 0, successes = 0;
  for (;; successes += 1) {
    sum += ceil(log(dp_random_pair_uniform(pairs)) / log1p(-probability));
    if (sum > count)
      return successes;
  }
}

/* log(k!) minus Stirling's approximation. */
static double stirling_tail(double k) {
  static const double tails[] = {0.0810614667953272,  0.0413406959554092, 0.0276779256849983,
                                 0.02079067210376509, 0.0166446911898211, 0.0138761288230707,
                                 0.0118967099458917,  0.0104112652619720, 0.00925546218271273,
                                 0.00833056343336287};
  if (k <= 9)
    return tails[(int)k];
  double square = (k + 1) * (k + 1);
  return (1.0 / 12 - (1.0 / 360 + 1.0 / 1260 / square) / square) / (k + 1);
}

static double binomial_rejection(double count, double probability, dp_random_pairs *pairs) {
  double deviation = sqrt(count * probability * (1 - probability));
  double b = 1.15 + 2.53 * deviation, a = -0.0873 + 0.0248 * b + 0.01 * probability;
  double c = count * probability + 0.5, v_limit = 0.92 - 4.2 / b;
  double r = probability / (1 - probability);
  double alpha = (2.83 + 5.1 / b) * deviation, m = floor((count + 1) * probability);
  for (;;) {
    double u = dp_random_pair_uniform(pairs), v = dp_random_pair_uniform(pairs);
    u = u - 0.5;
    double us = 0.5 - fabs(u), k = floor((2 * a / us + b) * u + c);
    if (us >= 0.07 && v <= v_limit)
      return k;
    if (k < 0 || k > count)
      continue;
    double bound = ((m + 0.5) * log((m + 1) / (r * (count - m + 1))) +
                    (count + 1) * log((count - m + 1) / (count - k + 1)) +
                    (k + 0.5) * log(r * (count - k + 1) / (k + 1)) + stirling_tail(m) +
                    stirling_tail(count - m) - stirling_tail(k) - stirling_tail(count - k));
    if (log(v * alpha / (a / (us * us) + b)) <= bound)
      return k;
  }
}

typedef struct binomial_work {
  dp_philox generator;
  const dp_tensor *counts, *probabilities;
  dp_shape batch; /* the broadcast shape of both parameters */
} binomial_work;

/* The element of an operand that is broadcast to the batch's shape. */
static double batch_parameter(const dp_tensor *tensor, const dp_shape *batch, int64_t index) {
  int64_t at = 0, stride = 1;
  for (int i = 0; i < tensor->shape.rank; ++i) {
    int64_t size = tensor->shape.dims[tensor->shape.rank - 1 - i];
    int64_t place = index % batch->dims[batch->rank - 1 - i];
    index /= batch->dims[batch->rank - 1 - i];
    at += size == 1 ? 0 : place * stride;
    stride *= size;
  }
  return dp_random_parameter(tensor, at);
}

/* Products and differences of the parameters are rounded to their dtype. */
static double rounded(dp_dtype dtype, double value) {
  if (dtype == DP_HALF)
    return dp_half_to_float(dp_half_from_float((float)value));
  return dtype == DP_FLOAT ? (float)value : value;
}

static double sample_binomial(void *arg, int64_t parameter, int64_t output) {
  const binomial_work *work = arg;
  dp_dtype dtype = work->counts->dtype;
  double count = batch_parameter(work->counts, &work->batch, parameter);
  double probability = batch_parameter(work->probabilities, &work->batch, parameter);
  if (count <= 0 || probability <= 0)
    return 0;
  if (probability >= 1)
    return count;
  if (isnan(probability) || isnan(count) || isinf(count))
    return NAN;
  bool is_likely = probability > 0.5;
  double p = is_likely ? rounded(dtype, 1 - probability) : probability;
  bool is_large = rounded(dtype, count * p) >= 10;
  dp_random_pairs pairs = {.generator = work->generator};
  dp_philox_skip(&pairs.generator, (uint64_t)output * (is_large ? DP_RANDOM_RESERVED : 42));
  double successes =
      is_large ? binomial_rejection(count, p, &pairs) : binomial_inversion(count, p, &pairs);
  return is_likely ? count - successes : successes;
}

static dp_status *binomial_compute(dp_op_context *context, void *memory) {
  count_state *state = memory;
  binomial_work work = {.counts = dp_op_input(context, context->input_count - 2),
                        .probabilities = dp_op_input(context, context->input_count - 1)};
  dp_shape shape;
  DP_RETURN_IF_ERROR(dp_random_source_check(context, &state->source));
  if (!dp_shape_broadcast(&work.counts->shape, &work.probabilities->shape, &work.batch))
    return DP_INVALID("counts and probs must have compatible batch dimensions: %s vs. %s",
                      dp_shape_text(&work.counts->shape),
                      dp_shape_text(&work.probabilities->shape));
  DP_RETURN_IF_ERROR(dp_random_read_shape(context, state->shape, &shape));
  DP_RETURN_IF_ERROR(dp_random_check_tail(&shape, &work.batch));
  dp_tensor *output;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &shape, &output));
  if (shape.elements == 0)
    return NULL;
  int64_t batches = work.batch.elements, samples = shape.elements / batches;
  uint64_t reserved = (uint64_t)(batches * 2 * 100 * (samples + 3) / 4);
  DP_RETURN_IF_ERROR(dp_random_source_take(context, &state->source, reserved * DP_RANDOM_RESERVED,
                                           &work.generator));
  dp_random_each(context, batches, samples, 300, sample_binomial, &work, output);
  return NULL;
}

/* clang-format off */
#define OUTPUTS (DP_SET(HALF) | DP_SET(FLOAT) | DP_SET(DOUBLE) | DP_SET_INDEX)
#define FLOATS (DP_SET(HALF) | DP_SET(FLOAT) | DP_SET(DOUBLE))
#define COUNT(name, first, first_set, second, second_set, body)                                    \
  {.op = name, .types = {{first, first_set}, {second, second_set}},                                \
   .state_size = sizeof(count_state), .create = count_create, .compute = body,                     \
   .destroy = count_destroy}

static const dp_kernel rows[] = {
    COUNT("RandomPoisson", "dtype", FLOATS, "dtype", FLOATS, poisson_compute),
    COUNT("RandomPoissonV2", "R", OUTPUTS, "dtype", OUTPUTS, poisson_compute),
    COUNT("StatelessRandomPoisson", "Rtype", OUTPUTS, "dtype", OUTPUTS, poisson_compute),
    COUNT("StatefulRandomBinomial", "T", FLOATS, "dtype", OUTPUTS, binomial_compute),
    COUNT("StatelessRandomBinomial", "T", FLOATS, "dtype", OUTPUTS, binomial_compute),
};
/* clang-format on */
DP_KERNEL_FAMILY(random_counts, rows);
