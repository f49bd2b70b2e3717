/* For the random ops: the source of a kernel's generator, drawing single words and numbers, filling
 * whole tensors.
 *
 * Streams are TensorFlow's bit for bit (Philox 4x32-10), and every output reserves as much of the
 * stream as in TensorFlow, so a graph gives the same numbers on both. The unit of a reservation is
 * a group of 128 bits. A kernel with seed attributes keeps its position between runs, behind a
 * lock; other kernels take the position from their inputs. */
#ifndef DP_KERNELS_SHARED_RANDOM_H
#define DP_KERNELS_SHARED_RANDOM_H

#include <pthread.h>
#include "base/philox.h"
#include "kernels/shared/support.h"

/* Groups reserved for each element of an output, however many it uses. */
#define DP_RANDOM_RESERVED 256

/* ---- The source of a kernel's generator ---- */
typedef enum dp_random_kind {
  DP_RANDOM_SEEDED,      /* attributes seed and seed2; both 0: different in every process */
  DP_RANDOM_SEED_INPUT,  /* input seed, two integers */
  DP_RANDOM_KEY_COUNTER, /* inputs key, counter and alg */
  DP_RANDOM_RESOURCE,    /* inputs resource (a variable with counter and key) and algorithm */
} dp_random_kind;

typedef struct dp_random_source {
  dp_random_kind kind;
  int32_t slot;    /* input slot of seed, key or resource */
  int32_t counter; /* input slots of counter and algorithm; -1 if absent */
  int32_t algorithm;
  bool has_lock;
  pthread_mutex_t lock;
  dp_philox generator; /* DP_RANDOM_SEEDED */
} dp_random_source;

/* The inputs and attributes of the op decide the kind. */
DP_MUST_USE dp_status *dp_random_source_init(dp_random_source *source,
                                             const dp_kernel_setup *setup);
void dp_random_source_deinit(dp_random_source *source);
/* Checks the inputs that make up the source. */
DP_MUST_USE dp_status *dp_random_source_check(dp_op_context *context,
                                              const dp_random_source *source);
/* A generator at the source's position. A position that is kept (seeded kernels, resources)
 * advances by `groups`. */
DP_MUST_USE dp_status *dp_random_source_take(dp_op_context *context, dp_random_source *source,
                                             uint64_t groups, dp_philox *generator_out);

/* TensorFlow's scrambling of two seeds. */
dp_philox dp_random_from_seeds(uint64_t seed0, uint64_t seed1);
/* Checks for shape [2], then scrambles. */
DP_MUST_USE dp_status *dp_random_from_seed_tensor(const dp_tensor *seed, dp_philox *generator_out);
/* Writes the generator's counter as two int64 to `state`; the key, which follows them, stays as it
 * is. */
void dp_random_store_counter(const dp_philox *generator, int64_t *state);

/* ---- Single words and numbers ---- */
typedef struct dp_random_words {
  dp_philox generator;
  uint32_t words[4];
  int used; /* 4: none left */
} dp_random_words;

static inline dp_random_words dp_random_words_of(const dp_philox *generator) {
  return (dp_random_words){.generator = *generator, .used = 4};
}
static inline uint32_t dp_random_word(dp_random_words *words) {
  if (words->used == 4) {
    dp_philox_next(&words->generator, words->words);
    words->used = 0;
  }
  return words->words[words->used++];
}
static inline uint64_t dp_random_word64(dp_random_words *words) {
  uint32_t low = dp_random_word(words);
  return low | (uint64_t)dp_random_word(words) << 32;
}
static inline double dp_random_double(dp_random_words *words) {
  uint32_t first = dp_random_word(words);
  return dp_philox_double(first, dp_random_word(words));
}
/* Uniform in [0, n) without bias; rejects and draws again where needed. */
uint32_t dp_random_below(dp_random_words *words, uint32_t n);
uint64_t dp_random_below64(dp_random_words *words, uint64_t n);

/* Uniform and normal doubles, drawn in pairs from one generator. The second number of a pair is
 * given first. */
typedef struct dp_random_pairs {
  dp_philox generator;
  double uniforms[2], normals[2];
  int uniforms_left, normals_left;
} dp_random_pairs;
double dp_random_pair_uniform(dp_random_pairs *pairs);
double dp_random_pair_normal(dp_random_pairs *pairs);

/* ---- Whole tensors ---- */
typedef enum dp_random_shape_kind {
  DP_RANDOM_UNIFORM,
  DP_RANDOM_NORMAL,
  DP_RANDOM_TRUNCATED, /* normal, within two standard deviations */
  DP_RANDOM_RANGE,     /* integers in [low, low + range) */
  DP_RANDOM_BITS,      /* integers, all values */
} dp_random_shape_kind;

typedef struct dp_random_distribution {
  dp_random_shape_kind kind;
  int64_t low;
  uint64_t range;
} dp_random_distribution;

/* Fills a tensor of any dtype that the distribution supports; blocks run in parallel. */
void dp_random_fill(dp_op_context *context, const dp_random_distribution *distribution,
                    const dp_philox *generator, dp_tensor *output);

/* Calls sample(arg, p, i) for i = p * samples + s, with p < parameters and s < samples, in
 * parallel. The result goes to element s * parameters + p, converted to the tensor's dtype. */
typedef double (*dp_random_sample_fn)(void *arg, int64_t parameter, int64_t output);
void dp_random_each(dp_op_context *context, int64_t parameters, int64_t samples, int64_t nanos,
                    dp_random_sample_fn sample, void *arg, dp_tensor *output);
/* Element `index` of a float or integer tensor. */
double dp_random_parameter(const dp_tensor *tensor, int64_t index);

/* The output's shape from input `slot`, a vector of sizes; scalars and negative sizes are
 * refused. */
DP_MUST_USE dp_status *dp_random_read_shape(dp_op_context *context, int32_t slot,
                                            dp_shape *shape_out);
/* "Shape passed in must end with broadcasted shape." unless `shape` ends with `tail`. */
DP_MUST_USE dp_status *dp_random_check_tail(const dp_shape *shape, const dp_shape *tail);

#endif
