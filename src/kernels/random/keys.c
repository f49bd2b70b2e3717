/* Keys, counters and states of random generators: ops that make them from seeds and advance them.
 * The algorithm is Philox. */
#include "kernels/shared/family.h"
#include "kernels/shared/random.h"

enum { ALGORITHM = 1 }; /* Philox */

static dp_status *key_counter_compute(dp_op_context *context, void *memory) {
  dp_philox generator;
  DP_RETURN_IF_ERROR(dp_random_from_seed_tensor(dp_op_input(context, 0), &generator));
  dp_shape one = dp_shape_vector(1), two = dp_shape_vector(2);
  dp_tensor *key, *counter;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &one, &key));
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 1, &two, &counter));
  *(uint64_t *)key->data = generator.key[0] | (uint64_t)generator.key[1] << 32;
  dp_random_store_counter(&generator, counter->data);
  return context->output_count > 2 ? dp_op_output_int32(context, 2, ALGORITHM) : NULL;
}

static dp_status *algorithm_compute(dp_op_context *context, void *memory) {
  return dp_op_output_int32(context, 0, ALGORITHM);
}

/* ---- States in variables ---- */
static dp_status *source_create(const dp_kernel_setup *setup, void *memory) {
  return dp_random_source_init(memory, setup);
}

static void source_destroy(void *memory) {
  dp_random_source_deinit(memory);
}

static dp_status *skip_state(dp_op_context *context, dp_random_source *source,
                             dp_philox *generator_out) {
  DP_RETURN_IF_ERROR(dp_random_source_check(context, source));
  const dp_tensor *delta = dp_op_input(context, 2);
  if (delta->shape.rank != 0)
    return DP_INVALID("input 2 (0-based) must have shape [], not %s", dp_shape_text(&delta->shape));
  uint64_t count = (uint64_t)dp_tensor_int_at(delta, 0);
  return dp_random_source_take(context, source, count * DP_RANDOM_RESERVED, generator_out);
}

static dp_status *skip_compute(dp_op_context *context, void *memory) {
  dp_philox generator;
  return skip_state(context, memory, &generator);
}

/* Returns the state before it was advanced. */
static dp_status *read_and_skip_compute(dp_op_context *context, void *memory) {
  dp_philox generator;
  DP_RETURN_IF_ERROR(skip_state(context, memory, &generator));
  dp_shape shape = dp_shape_vector(3);
  dp_tensor *output;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &shape, &output));
  int64_t *state = output->data;
  dp_random_store_counter(&generator, state);
  state[2] = (int64_t)(generator.key[0] | (uint64_t)generator.key[1] << 32);
  return NULL;
}

static dp_status *non_deterministic_compute(dp_op_context *context, void *memory) {
  dp_shape shape;
  DP_RETURN_IF_ERROR(dp_random_read_shape(context, 0, &shape));
  dp_tensor *output;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &shape, &output));
  dp_random_distribution bits = {.kind = DP_RANDOM_BITS};
  dp_philox generator = dp_philox_seed(dp_random_seed(), dp_random_seed());
  dp_random_fill(context, &bits, &generator, output);
  return NULL;
}

/* clang-format off */
static const dp_kernel rows[] = {
    {.op = "StatelessRandomGetKeyCounter", .flags = DP_KERNEL_CHEAP,
     .compute = key_counter_compute},
    {.op = "StatelessRandomGetKeyCounterAlg", .flags = DP_KERNEL_CHEAP,
     .compute = key_counter_compute},
    {.op = "StatelessRandomGetAlg", .flags = DP_KERNEL_CHEAP, .compute = algorithm_compute},
    {.op = "RngSkip", .flags = DP_KERNEL_CHEAP, .state_size = sizeof(dp_random_source),
     .create = source_create, .compute = skip_compute, .destroy = source_destroy},
    {.op = "RngReadAndSkip", .flags = DP_KERNEL_CHEAP, .state_size = sizeof(dp_random_source),
     .create = source_create, .compute = read_and_skip_compute, .destroy = source_destroy},
    {.op = "NonDeterministicInts",
     .types = {{"dtype", DP_SET_INDEX | DP_SET(UINT32) | DP_SET(UINT64)}},
     .compute = non_deterministic_compute},
};
/* clang-format on */
DP_KERNEL_FAMILY(random_keys, rows);
