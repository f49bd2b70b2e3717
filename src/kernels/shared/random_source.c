/* Where random kernels take their generators from (random.h): seeds in attributes, a seed input,
 * key and counter inputs, or a state variable. The checks and their texts are TensorFlow's. */
#include <string.h>
#include "kernels/shared/random.h"
#include "kernels/shared/variable.h"

/* Algorithm numbers as TensorFlow has them. */
enum { PHILOX = 1, THREEFRY = 2, AUTO_SELECT = 3 };
enum { STATE_SIZE = 3 }; /* int64s: two of the counter, one of the key */

static dp_status *init_seeded(dp_random_source *source, const dp_node *node) {
  int64_t seed, seed2;
  DP_RETURN_IF_ERROR(dp_node_get_int(node, "seed", &seed));
  DP_RETURN_IF_ERROR(dp_node_get_int(node, "seed2", &seed2));
  bool is_free = seed == 0 && seed2 == 0;
  source->generator = is_free ? dp_philox_seed(dp_random_seed(), dp_random_seed())
                              : dp_philox_seed((uint64_t)seed, (uint64_t)seed2);
  pthread_mutex_init(&source->lock, NULL);
  source->has_lock = true;
  return NULL;
}

dp_status *dp_random_source_init(dp_random_source *source, const dp_kernel_setup *setup) {
  const dp_op *op = setup->node->op;
  static const struct {
    const char *input;
    dp_random_kind kind;
  } kinds[] = {{"resource", DP_RANDOM_RESOURCE},
               {"key", DP_RANDOM_KEY_COUNTER},
               {"seed", DP_RANDOM_SEED_INPUT}};
  source->counter = dp_op_input_index(op, "counter");
  source->algorithm = dp_op_input_index(op, "alg");
  if (source->algorithm < 0)
    source->algorithm = dp_op_input_index(op, "algorithm");
  for (int i = 0; i < 3; ++i) {
    source->slot = dp_op_input_index(op, kinds[i].input);
    source->kind = kinds[i].kind;
    if (source->slot >= 0)
      return NULL;
  }
  source->kind = DP_RANDOM_SEEDED;
  return init_seeded(source, setup->node);
}

void dp_random_source_deinit(dp_random_source *source) {
  if (source->has_lock)
    pthread_mutex_destroy(&source->lock);
}

/* ---- Seeds and keys ---- */
dp_philox dp_random_from_seeds(uint64_t seed0, uint64_t seed1) {
  dp_philox mixer = {.counter = {(uint32_t)seed0, (uint32_t)(seed0 >> 32), (uint32_t)seed1,
                                 (uint32_t)(seed1 >> 32)},
                     .key = {0x3ec8f720, 0x02461e29}};
  uint32_t mixed[4];
  dp_philox_next(&mixer, mixed);
  return (dp_philox){.counter = {0, 0, mixed[2], mixed[3]}, .key = {mixed[0], mixed[1]}};
}

dp_status *dp_random_from_seed_tensor(const dp_tensor *seed, dp_philox *generator_out) {
  if (seed->shape.rank != 1 || seed->shape.dims[0] != 2)
    return DP_INVALID("seed must have shape [2], not %s", dp_shape_text(&seed->shape));
  if (!dp_dtype_is_integer(seed->dtype) || dp_dtype_size(seed->dtype) < 4)
    return DP_INVALID("Invalid seed type: %s", dp_dtype_name(seed->dtype));
  *generator_out = dp_random_from_seeds((uint64_t)dp_tensor_int_at(seed, 0),
                                        (uint64_t)dp_tensor_int_at(seed, 1));
  return NULL;
}

static dp_status *check_algorithm(int64_t algorithm) {
  if (algorithm != PHILOX && algorithm != AUTO_SELECT)
    return DP_INVALID("Unsupported algorithm id: %lld", (long long)algorithm);
  return NULL;
}

static dp_philox make_philox(uint64_t low, uint64_t high, uint64_t key) {
  return (dp_philox){
      .counter = {(uint32_t)low, (uint32_t)(low >> 32), (uint32_t)high, (uint32_t)(high >> 32)},
      .key = {(uint32_t)key, (uint32_t)(key >> 32)}};
}

static dp_philox load_state(const int64_t *state) {
  return make_philox((uint64_t)state[0], (uint64_t)state[1], (uint64_t)state[2]);
}

void dp_random_store_counter(const dp_philox *generator, int64_t *state) {
  const uint32_t *counter = generator->counter;
  state[0] = (int64_t)(counter[0] | (uint64_t)counter[1] << 32);
  state[1] = (int64_t)(counter[2] | (uint64_t)counter[3] << 32);
}

static dp_status *check_key_counter(dp_op_context *context, const dp_random_source *source) {
  const dp_tensor *key = dp_op_input(context, source->slot);
  const dp_tensor *counter = dp_op_input(context, source->counter);
  const dp_tensor *algorithm = dp_op_input(context, source->algorithm);
  if (algorithm->shape.rank != 0)
    return DP_INVALID("input %d (0-based) must have shape [], not %s", source->algorithm,
                      dp_shape_text(&algorithm->shape));
  if (key->shape.rank != 1 || key->shape.dims[0] != 1)
    return DP_INVALID("key must have shape [1], not %s. (Note that batched keys are not supported "
                      "yet.)",
                      dp_shape_text(&key->shape));
  /* TensorFlow uses the algorithm's number as the least length. */
  int64_t number = dp_tensor_int_at(algorithm, 0), least = number == AUTO_SELECT ? PHILOX : number;
  if (counter->shape.rank != 1 || counter->shape.dims[0] < least)
    return DP_INVALID("counter must be a vector with length at least %lld; got shape: %s. (Note "
                      "that batched counters are not supported yet.)",
                      (long long)least, dp_shape_text(&counter->shape));
  DP_RETURN_IF_ERROR(check_algorithm(number));
  if (counter->shape.dims[0] < 2)
    return DP_INVALID("counter must be a vector with length at least 2 for the Philox algorithm; "
                      "got shape: %s",
                      dp_shape_text(&counter->shape));
  return NULL;
}

dp_status *dp_random_source_check(dp_op_context *context, const dp_random_source *source) {
  dp_philox unused;
  if (source->kind == DP_RANDOM_KEY_COUNTER)
    return check_key_counter(context, source);
  if (source->kind == DP_RANDOM_SEED_INPUT)
    return dp_random_from_seed_tensor(dp_op_input(context, source->slot), &unused);
  if (source->kind != DP_RANDOM_RESOURCE || source->algorithm < 0)
    return NULL;
  const dp_tensor *algorithm = dp_op_input(context, source->algorithm);
  if (algorithm->shape.rank != 0)
    return DP_INVALID("input %d (0-based) must have shape [], not %s", source->algorithm,
                      dp_shape_text(&algorithm->shape));
  return NULL;
}

/* ---- Taking ---- */
/* Advances the state in a variable. For ops without an algorithm input, the state begins with the
 * algorithm's number. */
static dp_status *advance(dp_op_context *context, const dp_random_source *source, uint64_t groups,
                          const dp_variable_update *update, dp_philox *generator_out) {
  const dp_tensor *state = &update->old;
  if (state->dtype != DP_INT64)
    return DP_INVALID("dtype of RNG state variable must be int64, not %s",
                      dp_dtype_name(state->dtype));
  if (state->shape.rank != 1)
    return DP_INVALID("RNG state must have one and only one dimension, not %d", state->shape.rank);
  const int64_t *old = state->data;
  int64_t tag = source->algorithm < 0 ? 1 : 0;
  if (state->shape.dims[0] < tag)
    return DP_INVALID("Size of tensor must be at least 1");
  int64_t algorithm = tag ? old[0] : dp_tensor_int_at(dp_op_input(context, source->algorithm), 0);
  if (algorithm == THREEFRY)
    return dp_status_create(DP_UNIMPLEMENTED,
                            "Non-XLA devices don't support the ThreeFry algorithm.");
  DP_RETURN_IF_ERROR(check_algorithm(algorithm));
  if (state->shape.dims[0] < tag + STATE_SIZE)
    return DP_INVALID("For the Philox algorithm, the size of state must be at least %lld; got %lld",
                      (long long)tag + STATE_SIZE, (long long)state->shape.dims[0]);
  *generator_out = load_state(old + tag);
  dp_philox next = *generator_out;
  dp_philox_skip(&next, groups);
  if (!update->in_place)
    memcpy(update->target.data, old, dp_tensor_bytes(state));
  dp_random_store_counter(&next, (int64_t *)update->target.data + tag);
  return NULL;
}

static dp_status *take_from_variable(dp_op_context *context, const dp_random_source *source,
                                     uint64_t groups, dp_philox *generator_out) {
  dp_variable *variable;
  DP_RETURN_IF_ERROR(dp_variable_of_input(context, source->slot, &variable));
  dp_variable_update update;
  dp_status *status = dp_variable_begin(variable, &update);
  if (!status) {
    status = advance(context, source, groups, &update, generator_out);
    dp_variable_end(&update, status == NULL);
  }
  dp_variable_drop(context, source->slot, variable);
  return status;
}

dp_status *dp_random_source_take(dp_op_context *context, dp_random_source *source, uint64_t groups,
                                 dp_philox *generator_out) {
  switch (source->kind) {
  case DP_RANDOM_SEED_INPUT:
    return dp_random_from_seed_tensor(dp_op_input(context, source->slot), generator_out);
  case DP_RANDOM_KEY_COUNTER: {
    DP_RETURN_IF_ERROR(check_key_counter(context, source));
    const uint64_t *counter = dp_op_input(context, source->counter)->data;
    const uint64_t *key = dp_op_input(context, source->slot)->data;
    *generator_out = make_philox(counter[0], counter[1], key[0]);
    return NULL;
  }
  case DP_RANDOM_RESOURCE:
    return take_from_variable(context, source, groups, generator_out);
  default:
    pthread_mutex_lock(&source->lock);
    *generator_out = source->generator;
    dp_philox_skip(&source->generator, groups);
    pthread_mutex_unlock(&source->lock);
    return NULL;
  }
}
