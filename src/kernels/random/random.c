/* Uniform, normal, truncated normal and integer random numbers. There are three kinds of ops: with
 * seeds in the node, stateless (two versions), and with a generator's state in a variable. They
 * differ only in where the generator comes from and how far it is advanced. */
#include <string.h>
#include "kernels/shared/family.h"
#include "kernels/shared/random.h"

typedef struct random_state {
  dp_random_source source;
  dp_random_distribution distribution;
  int32_t shape, low, high; /* input slots; low is -1 when there is no range */
} random_state;

static dp_random_shape_kind kind_of(const char *op) {
  if (strstr(op, "FullInt"))
    return DP_RANDOM_BITS;
  if (strstr(op, "UniformInt"))
    return DP_RANDOM_RANGE;
  if (strstr(op, "Truncated"))
    return DP_RANDOM_TRUNCATED;
  return strstr(op, "Normal") ? DP_RANDOM_NORMAL : DP_RANDOM_UNIFORM;
}

static dp_status *random_create(const dp_kernel_setup *setup, void *memory) {
  random_state *state = memory;
  const dp_op *op = setup->node->op;
  state->distribution.kind = kind_of(op->name);
  state->shape = dp_op_input_index(op, "shape");
  state->low = dp_op_input_index(op, "minval");
  state->high = dp_op_input_index(op, "maxval");
  return dp_random_source_init(&state->source, setup);
}

static void random_destroy(void *memory) {
  dp_random_source_deinit(&((random_state *)memory)->source);
}

static dp_status *read_range(dp_op_context *context, const random_state *state,
                             dp_random_distribution *distribution) {
  const dp_tensor *low = dp_op_input(context, state->low);
  const dp_tensor *high = dp_op_input(context, state->high);
  if (low->shape.rank != 0)
    return DP_INVALID("minval must be 0-D, got shape %s", dp_shape_text(&low->shape));
  if (high->shape.rank != 0)
    return DP_INVALID("maxval must be 0-D, got shape %s", dp_shape_text(&high->shape));
  int64_t first = dp_tensor_int_at(low, 0), limit = dp_tensor_int_at(high, 0);
  if (first >= limit)
    return DP_INVALID("Need minval < maxval, got %lld >= %lld", (long long)first, (long long)limit);
  distribution->low = first;
  distribution->range = (uint64_t)limit - (uint64_t)first;
  return NULL;
}

static dp_status *random_compute(dp_op_context *context, void *memory) {
  random_state *state = memory;
  dp_shape shape;
  DP_RETURN_IF_ERROR(dp_random_source_check(context, &state->source));
  DP_RETURN_IF_ERROR(dp_random_read_shape(context, state->shape, &shape));
  dp_tensor *output;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &shape, &output));
  dp_random_distribution distribution = state->distribution;
  bool keeps_state = state->source.kind == DP_RANDOM_RESOURCE;
  if (shape.elements == 0 && !keeps_state)
    return NULL;
  if (state->low >= 0)
    DP_RETURN_IF_ERROR(read_range(context, state, &distribution));
  dp_philox generator;
  DP_RETURN_IF_ERROR(dp_random_source_take(
      context, &state->source, (uint64_t)shape.elements * DP_RANDOM_RESERVED, &generator));
  dp_random_fill(context, &distribution, &generator, output);
  return NULL;
}

/* clang-format off */
#define RANDOM(name, attr, set)                                                                    \
  {.op = name, .types = {{attr, set}}, .state_size = sizeof(random_state),                         \
   .create = random_create, .compute = random_compute, .destroy = random_destroy}
#define FULL_INT (DP_SET_INDEX | DP_SET(UINT32) | DP_SET(UINT64))

static const dp_kernel rows[] = {
    RANDOM("RandomUniform", "dtype", DP_SET_FLOATS),
    RANDOM("RandomStandardNormal", "dtype", DP_SET_FLOATS),
    RANDOM("TruncatedNormal", "dtype", DP_SET_FLOATS),
    RANDOM("RandomUniformInt", "Tout", DP_SET_INDEX),
    RANDOM("StatelessRandomUniform", "dtype", DP_SET_FLOATS),
    RANDOM("StatelessRandomUniformV2", "dtype", DP_SET_FLOATS),
    RANDOM("StatelessRandomNormal", "dtype", DP_SET_FLOATS),
    RANDOM("StatelessRandomNormalV2", "dtype", DP_SET_FLOATS),
    RANDOM("StatelessTruncatedNormal", "dtype", DP_SET_FLOATS),
    RANDOM("StatelessTruncatedNormalV2", "dtype", DP_SET_FLOATS),
    RANDOM("StatelessRandomUniformInt", "dtype", DP_SET_INDEX),
    RANDOM("StatelessRandomUniformIntV2", "dtype", DP_SET_INDEX),
    RANDOM("StatelessRandomUniformFullInt", "dtype", FULL_INT),
    RANDOM("StatelessRandomUniformFullIntV2", "dtype", FULL_INT),
    RANDOM("StatefulUniform", "dtype", DP_SET_FLOATS),
    RANDOM("StatefulStandardNormal", "dtype", DP_SET_FLOATS),
    RANDOM("StatefulStandardNormalV2", "dtype", DP_SET_FLOATS),
    RANDOM("StatefulTruncatedNormal", "dtype", DP_SET_FLOATS),
    RANDOM("StatefulUniformInt", "dtype", DP_SET_INDEX),
    RANDOM("StatefulUniformFullInt", "dtype", FULL_INT),
};
/* clang-format on */
DP_KERNEL_FAMILY(random, rows);
