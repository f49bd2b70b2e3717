/* Numbers from Philox streams: filling tensors in parallel blocks, and drawing one by one. The
 * position of an element in the stream depends only on its index, so blocks may be made in any
 * order and on any thread. */
#include <math.h>
#include "kernels/shared/random.h"

/* ---- One by one ---- */
uint32_t dp_random_below(dp_random_words *words, uint32_t n) {
  if ((n & (n - 1)) == 0)
    return dp_random_word(words) & (n - 1);
  uint32_t skewed = UINT32_MAX % n + 1, word;
  do
    word = dp_random_word(words);
  while (word < skewed);
  return word % n;
}

uint64_t dp_random_below64(dp_random_words *words, uint64_t n) {
  if ((n & (n - 1)) == 0)
    return dp_random_word64(words) & (n - 1);
  uint64_t skewed = UINT64_MAX % n + 1, word;
  do
    word = dp_random_word64(words);
  while (word < skewed);
  return word % n;
}

double dp_random_pair_uniform(dp_random_pairs *pairs) {
  if (pairs->uniforms_left == 0) {
    uint32_t words[4];
    dp_philox_next(&pairs->generator, words);
    pairs->uniforms[0] = dp_philox_double(words[0], words[1]);
    pairs->uniforms[1] = dp_philox_double(words[2], words[3]);
    pairs->uniforms_left = 2;
  }
  return pairs->uniforms[--pairs->uniforms_left];
}

double dp_random_pair_normal(dp_random_pairs *pairs) {
  if (pairs->normals_left == 0) {
    uint32_t words[4];
    dp_philox_next(&pairs->generator, words);
    dp_philox_box_muller_double(words[0], words[1], words[2], words[3], &pairs->normals[0],
                                &pairs->normals[1]);
    pairs->normals_left = 2;
  }
  return pairs->normals[--pairs->normals_left];
}

/* ---- Whole tensors ---- */
enum { BLOCK_GROUPS = 64, BLOCK_WORDS = BLOCK_GROUPS * 4 };

typedef struct random_fill_work {
  dp_random_distribution distribution;
  dp_philox generator;
  dp_dtype dtype;
  int per_group; /* elements from one group of words */
  int64_t count;
  void *data;
} random_fill_work;

static void uniform_floats(const uint32_t *words, float *to, uint32_t mask, float scale,
                           int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    to[i] = (float)(int32_t)(words[i] & mask) * scale; /* exact: the bits fit a mantissa */
}

/* As dp_philox_box_muller_float for each two words, but one function after the other for a block:
 * calls that do not wait for each other overlap. */
static void normal_floats(const uint32_t *words, float *to, int64_t count) {
  int64_t pairs = count / 2;
  float uniform[BLOCK_WORDS], radius[BLOCK_WORDS / 2], angle[BLOCK_WORDS / 2];
  uniform_floats(words, uniform, 0x7fffff, 0x1p-23f, count);
  for (int64_t i = 0; i < pairs; ++i) {
    radius[i] = uniform[2 * i] < 1e-7f ? 1e-7f : uniform[2 * i];
    angle[i] = (float)(2.0 * M_PI * (double)uniform[2 * i + 1]);
  }
  for (int64_t i = 0; i < pairs; ++i)
    radius[i] = logf(radius[i]);
  for (int64_t i = 0; i < pairs; ++i)
    radius[i] = sqrtf(-2.0f * radius[i]);
  for (int64_t i = 0; i < pairs; ++i) {
    float sine, cosine;
    sincosf(angle[i], &sine, &cosine);
    to[2 * i] = sine * radius[i];
    to[2 * i + 1] = cosine * radius[i];
  }
}

/* ---- Normal numbers within two standard deviations ---- */
/* Each group has a place of its own in the stream, where it draws until it is full. */

/* Appends those within the bounds to a group; returns how many it has now. */
static int keep_floats(const float *drawn, int count, float *values, int found) {
  for (int i = 0; i < count && found < 4; ++i) {
    values[found] = drawn[i];
    found += fabsf(drawn[i]) < 2.0f;
  }
  return found;
}

/* The rest of a group of which `found` are there, from the generator's place on. */
static void complete_floats(dp_philox generator, float *values, int found) {
  while (found < 4) {
    uint32_t words[4];
    float drawn[4];
    dp_philox_next(&generator, words);
    for (int i = 0; i < 4 && found < 4; i += 2) {
      dp_philox_box_muller_float(words[i], words[i + 1], &drawn[i], &drawn[i + 1]);
      found = keep_floats(drawn + i, 2, values, found);
    }
  }
}

static void truncated_floats(const random_fill_work *work, int64_t begin, int64_t groups,
                             float *values) {
  uint32_t words[BLOCK_WORDS];
  float drawn[BLOCK_WORDS];
  dp_philox start = work->generator;
  dp_philox_skip(&start, (uint64_t)begin * DP_RANDOM_RESERVED);
  dp_philox generator = start;
  dp_philox_fill_spaced(&generator, DP_RANDOM_RESERVED, words, groups);
  normal_floats(words, drawn, groups * 4);
  for (int64_t i = 0; i < groups; ++i) {
    int found = keep_floats(drawn + i * 4, 4, values + i * 4, 0);
    if (found == 4)
      continue;
    generator = start;
    dp_philox_skip(&generator, (uint64_t)i * DP_RANDOM_RESERVED + 1);
    complete_floats(generator, values + i * 4, found);
  }
}

static void truncated_doubles(const random_fill_work *work, int64_t group, double *values) {
  dp_philox generator = work->generator;
  dp_philox_skip(&generator, (uint64_t)group * DP_RANDOM_RESERVED / 2);
  for (int found = 0; found < 2;) {
    uint32_t words[4];
    double drawn[2];
    dp_philox_next(&generator, words);
    dp_philox_box_muller_double(words[0], words[1], words[2], words[3], &drawn[0], &drawn[1]);
    for (int i = 0; i < 2 && found < 2; ++i)
      if (fabs(drawn[i]) < 2.0)
        values[found++] = drawn[i];
  }
}

/* Four-byte and two-byte floats: groups [begin, begin + groups) of which `count` elements count. */
static void fill_floats(const random_fill_work *work, dp_philox *generator, int64_t begin,
                        int64_t groups, int64_t count) {
  uint32_t words[BLOCK_WORDS];
  float values[BLOCK_WORDS];
  if (work->distribution.kind == DP_RANDOM_TRUNCATED) {
    truncated_floats(work, begin, groups, values);
  } else {
    dp_philox_fill(generator, words, groups);
    if (work->distribution.kind == DP_RANDOM_NORMAL)
      normal_floats(words, values, groups * 4);
    else if (work->dtype == DP_FLOAT)
      uniform_floats(words, values, 0x7fffff, 0x1p-23f, groups * 4);
    else if (work->dtype == DP_HALF)
      uniform_floats(words, values, 0x3ff, 0x1p-10f, groups * 4);
    else
      uniform_floats(words, values, 0x7f, 0x1p-7f, groups * 4);
  }
  if (work->dtype == DP_FLOAT)
    __builtin_memcpy((float *)work->data + begin * 4, values, (size_t)count * sizeof(float));
  else
    dp_kernel_narrow(work->dtype, values, (uint16_t *)work->data + begin * 4, count);
}

static void fill_doubles(const random_fill_work *work, dp_philox *generator, int64_t begin,
                         int64_t groups, int64_t count) {
  uint32_t words[BLOCK_WORDS];
  double values[BLOCK_GROUPS * 2];
  if (work->distribution.kind == DP_RANDOM_TRUNCATED) {
    for (int64_t i = 0; i < groups; ++i)
      truncated_doubles(work, begin + i, values + i * 2);
  } else {
    dp_philox_fill(generator, words, groups);
    for (int64_t i = 0; i < groups; ++i) {
      const uint32_t *w = words + i * 4;
      if (work->distribution.kind == DP_RANDOM_NORMAL) {
        dp_philox_box_muller_double(w[0], w[1], w[2], w[3], &values[i * 2], &values[i * 2 + 1]);
      } else {
        values[i * 2] = dp_philox_double(w[0], w[1]);
        values[i * 2 + 1] = dp_philox_double(w[2], w[3]);
      }
    }
  }
  __builtin_memcpy((double *)work->data + begin * 2, values, (size_t)count * sizeof(double));
}

static void fill_integers(const random_fill_work *work, dp_philox *generator, int64_t begin,
                          int64_t groups, int64_t count) {
  uint32_t words[BLOCK_WORDS];
  dp_philox_fill(generator, words, groups);
  bool is_range = work->distribution.kind == DP_RANDOM_RANGE;
  if (work->per_group == 4) {
    uint32_t *to = (uint32_t *)work->data + begin * 4;
    uint32_t low = (uint32_t)work->distribution.low, range = (uint32_t)work->distribution.range;
    for (int64_t i = 0; i < count; ++i)
      to[i] = is_range ? low + words[i] % range : words[i];
    return;
  }
  uint64_t *to = (uint64_t *)work->data + begin * 2;
  uint64_t low = (uint64_t)work->distribution.low, range = work->distribution.range;
  for (int64_t i = 0; i < count; ++i) {
    uint64_t bits = words[i * 2] | (uint64_t)words[i * 2 + 1] << 32;
    to[i] = is_range ? low + bits % range : bits;
  }
}

static void fill_groups(void *arg, int64_t begin, int64_t end) {
  const random_fill_work *work = arg;
  dp_philox generator = work->generator;
  dp_philox_skip(&generator, (uint64_t)begin);
  for (int64_t at = begin; at < end; at += BLOCK_GROUPS) {
    int64_t groups = end - at < BLOCK_GROUPS ? end - at : BLOCK_GROUPS;
    int64_t left = work->count - at * work->per_group, count = groups * work->per_group;
    count = left < count ? left : count;
    if (dp_dtype_is_integer(work->dtype))
      fill_integers(work, &generator, at, groups, count);
    else if (work->dtype == DP_DOUBLE)
      fill_doubles(work, &generator, at, groups, count);
    else
      fill_floats(work, &generator, at, groups, count);
  }
}

void dp_random_fill(dp_op_context *context, const dp_random_distribution *distribution,
                    const dp_philox *generator, dp_tensor *output) {
  static const int64_t group_nanos[] = {[DP_RANDOM_UNIFORM] = 4,
                                        [DP_RANDOM_NORMAL] = 35,
                                        [DP_RANDOM_TRUNCATED] = 50,
                                        [DP_RANDOM_RANGE] = 8,
                                        [DP_RANDOM_BITS] = 3};
  random_fill_work work = {.distribution = *distribution,
                           .generator = *generator,
                           .dtype = output->dtype,
                           .per_group = dp_dtype_size(output->dtype) == 8 ? 2 : 4,
                           .count = output->shape.elements,
                           .data = output->data};
  int64_t groups = (work.count + work.per_group - 1) / work.per_group;
  dp_op_for(context, groups, group_nanos[distribution->kind], fill_groups, &work);
}

/* ---- A number for each output ---- */
double dp_random_parameter(const dp_tensor *tensor, int64_t index) {
  switch (tensor->dtype) {
  case DP_FLOAT:
    return ((const float *)tensor->data)[index];
  case DP_DOUBLE:
    return ((const double *)tensor->data)[index];
  case DP_HALF:
    return dp_half_to_float(((const uint16_t *)tensor->data)[index]);
  case DP_BFLOAT16:
    return dp_bfloat16_to_float(((const uint16_t *)tensor->data)[index]);
  default:
    return (double)dp_tensor_int_at(tensor, index);
  }
}

/* Integers have no NaN: it becomes what x86 makes of it. */
static void store_number(dp_tensor *tensor, int64_t index, double value) {
  bool is_nan = value != value;
  switch (tensor->dtype) {
  case DP_FLOAT:
    ((float *)tensor->data)[index] = (float)value;
    break;
  case DP_DOUBLE:
    ((double *)tensor->data)[index] = value;
    break;
  case DP_HALF:
    ((uint16_t *)tensor->data)[index] = dp_half_from_float((float)value);
    break;
  case DP_BFLOAT16:
    ((uint16_t *)tensor->data)[index] = dp_bfloat16_from_float((float)value);
    break;
  case DP_INT32:
    ((int32_t *)tensor->data)[index] = is_nan ? INT32_MIN : (int32_t)value;
    break;
  default:
    ((int64_t *)tensor->data)[index] = is_nan ? INT64_MIN : (int64_t)value;
    break;
  }
}

typedef struct each_work {
  int64_t parameters, samples;
  dp_random_sample_fn sample;
  void *arg;
  dp_tensor *output;
} each_work;

static void sample_range(void *arg, int64_t begin, int64_t end) {
  const each_work *work = arg;
  for (int64_t i = begin; i < end; ++i) {
    int64_t parameter = i / work->samples, number = i % work->samples;
    store_number(work->output, number * work->parameters + parameter,
                 work->sample(work->arg, parameter, i));
  }
}

void dp_random_each(dp_op_context *context, int64_t parameters, int64_t samples, int64_t nanos,
                    dp_random_sample_fn sample, void *arg, dp_tensor *output) {
  each_work work = {parameters, samples, sample, arg, output};
  dp_op_for(context, parameters * samples, nanos, sample_range, &work);
}

/* ---- Shapes ---- */
dp_status *dp_random_read_shape(dp_op_context *context, int32_t slot, dp_shape *shape_out) {
  return dp_kernel_make_shape(dp_op_input(context, slot), shape_out);
}

dp_status *dp_random_check_tail(const dp_shape *shape, const dp_shape *tail) {
  bool fits = shape->rank >= tail->rank;
  for (int i = 0; fits && i < tail->rank; ++i)
    fits = shape->dims[shape->rank - tail->rank + i] == tail->dims[i];
  return fits ? NULL : DP_INVALID("Shape passed in must end with broadcasted shape.");
}
