/* ParameterizedTruncatedNormal and its stateless version: normal numbers within bounds, with
 * parameters per batch.
 *
 * There are three methods, chosen by the bounds: normal numbers that are kept when they fit, or
 * uniform or exponential numbers with rejection. All batches read one stream in order, so a kernel
 * runs on one thread. Arithmetic is rounded to the dtype; half is computed in float and rounded
 * after every operation. */
#include <math.h>
#include <string.h>
#include "kernels/loops/types.h"
#include "kernels/shared/family.h"
#include "kernels/shared/random.h"

enum { MOST_TRIES = 1000, BATCH = 100 };

typedef struct truncated_state {
  dp_random_source source;
  int32_t means; /* input slot of the first parameter */
} truncated_state;

typedef struct truncated_work {
  dp_philox generator;
  const dp_tensor *parameters[4]; /* means, standard deviations, lower and upper bounds */
  dp_shape batch;                 /* the shape that the parameters are broadcast to */
  int64_t batches, per_batch;
  bool is_interleaved; /* sample j of batch b is element j * batches + b, not b * per_batch + j */
  dp_tensor *output;
} truncated_work;

/* The element of a parameter for a batch. */
static int64_t parameter_index(const truncated_work *work, int which, int64_t batch) {
  const dp_shape *shape = &work->parameters[which]->shape;
  int64_t at = 0, stride = 1;
  for (int i = 0; i < shape->rank; ++i) {
    int64_t size = shape->dims[shape->rank - 1 - i];
    int64_t whole = work->batch.dims[work->batch.rank - 1 - i];
    at += size == 1 ? 0 : batch % whole * stride;
    batch /= whole;
    stride *= size;
  }
  return at;
}

static inline int64_t output_index(const truncated_work *work, int64_t batch, int64_t sample) {
  return work->is_interleaved ? sample * work->batches + batch : batch * work->per_batch + sample;
}

static dp_status *exhausted(const char *kind) {
  return dp_status_create(DP_INTERNAL,
                          "TruncatedNormal %s rejection sampler failed to accept a sample.", kind);
}

static inline float round_half(float value) {
  return dp_half_to_float(dp_half_from_float(value));
}

#define T float
#define SUFFIX float
#define ROUND(x) (x)
#define CALL(name) name##f
#define GROUP 4
#define LOAD(tensor, i) ((const float *)(tensor)->data)[i]
#define STORE(tensor, i, value) ((float *)(tensor)->data)[i] = (value)
#define UNIFORM(word, k) dp_philox_float(word[k])
#define NORMAL(word, k, to) dp_philox_box_muller_float(word[k], word[k + 1], &to[k], &to[k + 1])
#include "kernels/random/truncated.tmpl.h"

#define T double
#define SUFFIX double
#define ROUND(x) (x)
#define CALL(name) name
#define GROUP 2
#define LOAD(tensor, i) ((const double *)(tensor)->data)[i]
#define STORE(tensor, i, value) ((double *)(tensor)->data)[i] = (value)
#define UNIFORM(word, k) dp_philox_double((word)[2 * (k)], (word)[2 * (k) + 1])
#define NORMAL(word, k, to)                                                                        \
  dp_philox_box_muller_double(word[2 * k], word[2 * k + 1], word[2 * k + 2], word[2 * k + 3],      \
                              &to[k], &to[k + 1])
#include "kernels/random/truncated.tmpl.h"

#define T float
#define SUFFIX half
#define ROUND(x) round_half(x)
#define CALL(name) name##f
#define GROUP 4
#define LOAD(tensor, i) dp_half_to_float(((const uint16_t *)(tensor)->data)[i])
#define STORE(tensor, i, value) ((uint16_t *)(tensor)->data)[i] = dp_half_from_float(value)
#define UNIFORM(word, k) dp_half_to_float(dp_philox_half_bits((uint16_t)word[k]))
#define NORMAL(word, k, to)                                                                        \
  (dp_philox_box_muller_float(word[k], word[k + 1], &to[k], &to[k + 1]),                           \
   to[k] = round_half(to[k]), to[k + 1] = round_half(to[k + 1]))
#include "kernels/random/truncated.tmpl.h"

/* ---- The kernels ---- */
static dp_status *truncated_create(const dp_kernel_setup *setup, void *memory) {
  truncated_state *state = memory;
  state->means = setup->node->input_count - 4;
  return dp_random_source_init(&state->source, setup);
}

static void truncated_destroy(void *memory) {
  dp_random_source_deinit(&((truncated_state *)memory)->source);
}

/* The seeded op: a parameter is a scalar, or has one element per row of the output. When all
 * batches have the same parameters, we choose the batch size. */
static dp_status *rows_as_batches(truncated_work *work, const dp_shape *shape) {
  static const char *const names[] = {"means", "stddevs", "minvals", "maxvals"};
  bool is_uniform = work->parameters[2]->shape.rank == 0 && work->parameters[3]->shape.rank == 0;
  int64_t rows = shape->rank ? shape->dims[0] : 1;
  for (int i = 0; i < 4; ++i) {
    const dp_shape *parameter = &work->parameters[i]->shape;
    if (parameter->rank > 1)
      return DP_INVALID("Input %s should be a scalar or vector, got shape: %s", names[i],
                        dp_shape_text(parameter));
    if (parameter->elements != 1 && parameter->elements != rows)
      return DP_INVALID("Input %s should have length 1 or shape[0], got shape: %s", names[i],
                        dp_shape_text(parameter));
    is_uniform &= i > 1 || parameter->elements == 1;
  }
  work->per_batch = is_uniform ? BATCH : dp_shape_product(shape, 1, shape->rank);
  work->batches = is_uniform ? (shape->elements + BATCH - 1) / BATCH : rows;
  work->batch = dp_shape_vector(work->batches);
  return NULL;
}

/* The stateless op: parameters have any shapes that broadcast together and to the end of the
 * output's shape. */
static dp_status *tail_as_batches(truncated_work *work, const dp_shape *shape) {
  work->batch = work->parameters[0]->shape;
  for (int i = 1; i < 4; ++i)
    if (!dp_shape_broadcast(&work->batch, &work->parameters[i]->shape, &work->batch))
      return DP_INVALID(
          "means, stddevs, minvals, maxvals must have compatible batch dimensions: "
          "%s vs. %s vs. %s vs. %s",
          dp_shape_text(&work->parameters[0]->shape), dp_shape_text(&work->parameters[1]->shape),
          dp_shape_text(&work->parameters[2]->shape), dp_shape_text(&work->parameters[3]->shape));
  DP_RETURN_IF_ERROR(dp_random_check_tail(shape, &work->batch));
  work->is_interleaved = true;
  work->batches = work->batch.elements;
  work->per_batch = work->batches ? shape->elements / work->batches : 0;
  return NULL;
}

static dp_status *truncated_compute(dp_op_context *context, void *memory) {
  truncated_state *state = memory;
  truncated_work work = {0};
  for (int i = 0; i < 4; ++i)
    work.parameters[i] = dp_op_input(context, state->means + i);
  dp_shape shape;
  DP_RETURN_IF_ERROR(dp_random_source_check(context, &state->source));
  DP_RETURN_IF_ERROR(dp_random_read_shape(context, 0, &shape));
  if (state->source.kind == DP_RANDOM_SEEDED)
    DP_RETURN_IF_ERROR(rows_as_batches(&work, &shape));
  else
    DP_RETURN_IF_ERROR(tail_as_batches(&work, &shape));
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &shape, &work.output));
  if (shape.elements == 0)
    return NULL;
  uint64_t reserved = (uint64_t)work.batches * 2 * MOST_TRIES * (uint64_t)(work.per_batch + 3) / 4;
  DP_RETURN_IF_ERROR(dp_random_source_take(context, &state->source, reserved, &work.generator));
  switch (work.output->dtype) {
  case DP_DOUBLE:
    return run_batches_double(&work);
  case DP_HALF:
    return run_batches_half(&work);
  default:
    return run_batches_float(&work);
  }
}

/* clang-format off */
#define TRUNCATED(name)                                                                            \
  {.op = name, .types = {{"dtype", DP_SET(HALF) | DP_SET(FLOAT) | DP_SET(DOUBLE)}},                \
   .state_size = sizeof(truncated_state), .create = truncated_create,                              \
   .compute = truncated_compute, .destroy = truncated_destroy}

static const dp_kernel rows[] = {
    TRUNCATED("ParameterizedTruncatedNormal"),
    TRUNCATED("StatelessParameterizedTruncatedNormal"),
};
/* clang-format on */
DP_KERNEL_FAMILY(random_truncated, rows);
