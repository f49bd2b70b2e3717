/* RandomIndexShuffle: the position of one index in a random permutation of [0, max_index], without
 * making the permutation. A block cipher (Simon with few rounds, keyed by the seed) permutes all
 * numbers of a fixed width. A result above max_index is encrypted again until it is inside; that
 * ends, because a permutation consists of cycles. */
#include "kernels/shared/family.h"

#include <math.h>

#define MAX_ROUNDS 1024

typedef struct cipher {
  int bits; /* bits of half a block: 8 to 32 */
  uint64_t mask;
  int64_t rounds;
  uint64_t keys[MAX_ROUNDS];
} cipher;

static uint64_t rotate_left(const cipher *cipher, uint64_t x, int by) {
  return (x << by | x >> (cipher->bits - by)) & cipher->mask;
}

static uint64_t mix(const cipher *cipher, uint64_t x) {
  return (rotate_left(cipher, x, 1) & rotate_left(cipher, x, 8)) ^ rotate_left(cipher, x, 2);
}

/* The smallest even number of bits, at least 16, that can hold max_index, or nearly. */
static int half_block(uint64_t max_index) {
  int bits = (int)ceil(log2((double)max_index));
  bits += bits % 2;
  return (bits < 16 ? 16 : bits) / 2;
}

static void cipher_init(cipher *cipher, const uint32_t seed[3], uint64_t max_index,
                        int64_t rounds) {
  uint64_t z = 0x7369f885192c0ef5ULL;
  cipher->bits = half_block(max_index);
  cipher->mask = (1ULL << cipher->bits) - 1;
  cipher->rounds = rounds;
  z &= cipher->mask;
  for (int64_t i = 0; i < rounds; ++i) {
    if (i < 3) {
      cipher->keys[i] = seed[i] & cipher->mask;
      continue;
    }
    uint64_t last = cipher->keys[i - 1];
    cipher->keys[i] = (0xfffffffcU & cipher->mask) ^ (z & 1) ^ cipher->keys[i - 3] ^
                      rotate_left(cipher, last, cipher->bits - 3) ^
                      rotate_left(cipher, last, cipher->bits - 4);
    z >>= 1;
  }
}

static uint64_t encipher(const cipher *cipher, uint64_t value) {
  uint64_t left = value >> cipher->bits & cipher->mask, right = value & cipher->mask;
  for (int64_t i = 0; i < cipher->rounds; i += 2) {
    left ^= mix(cipher, right) ^ cipher->keys[i];
    right ^= mix(cipher, left) ^ cipher->keys[i + 1];
  }
  return left << cipher->bits | right;
}

static uint64_t shuffle(uint64_t index, const uint32_t seed[3], uint64_t max_index,
                        int64_t rounds) {
  if (max_index == 0)
    return 0;
  cipher cipher;
  cipher_init(&cipher, seed, max_index, rounds);
  do {
    index = encipher(&cipher, index);
  } while (index > max_index);
  return index;
}

/* ---- The op ---- */
static dp_status *index_create(const dp_kernel_setup *setup, void *memory) {
  int64_t *rounds = memory;
  DP_RETURN_IF_ERROR(dp_node_get_int(setup->node, "rounds", rounds));
  if (*rounds < 4 || *rounds % 2 || *rounds > MAX_ROUNDS)
    return DP_INVALID("rounds must be even and in [4, %d], but is %lld", MAX_ROUNDS,
                      (long long)*rounds);
  return NULL;
}

/* A scalar serves all outputs; a vector has one number per output. */
static bool fits(const dp_shape *shape, int64_t count) {
  return shape->rank == 0 || (shape->rank == 1 && shape->dims[0] == count);
}

static dp_status *check_shapes(dp_op_context *context, int64_t count) {
  const dp_tensor *index = dp_op_input(context, 0), *seed = dp_op_input(context, 1);
  const dp_tensor *max_index = dp_op_input(context, 2);
  const dp_shape *shape = &seed->shape;
  if (!fits(&index->shape, count))
    return DP_INVALID("Index bust be a scalar or vector.");
  if (!(shape->rank == 1 && shape->dims[0] == 3) &&
      !(shape->rank == 2 && shape->dims[0] == count && shape->dims[1] == 3))
    return DP_INVALID("Seed must be a vector of size [3] or a matrix of size [%lld, 3] but got %s.",
                      (long long)count, dp_shape_text(shape));
  if (!fits(&max_index->shape, count))
    return DP_INVALID("Maxval must be a scalar or a vector of the same size as index but got %s",
                      dp_shape_text(&max_index->shape));
  return NULL;
}

static dp_status *check_range(dp_dtype dtype, int64_t index, int64_t max_index) {
  bool has_sign = dtype == DP_INT32 || dtype == DP_INT64;
  if (has_sign && index < 0)
    return DP_INVALID("index must be >= 0 but was %lld", (long long)index);
  if (has_sign && max_index < 0)
    return DP_INVALID("max_index must be >= 0 but was %lld", (long long)max_index);
  if ((uint64_t)max_index < (uint64_t)index)
    return DP_INVALID("max_index must be >= index, but %llu < %llu", (unsigned long long)max_index,
                      (unsigned long long)index);
  return NULL;
}

static dp_status *shuffle_one(dp_op_context *context, int64_t rounds, int64_t at,
                              dp_tensor *output) {
  const dp_tensor *index = dp_op_input(context, 0), *seed = dp_op_input(context, 1);
  const dp_tensor *max_index = dp_op_input(context, 2);
  int64_t from = dp_tensor_any_int_at(index, index->shape.rank ? at : 0);
  int64_t most = dp_tensor_any_int_at(max_index, max_index->shape.rank ? at : 0);
  int64_t row = seed->shape.rank == 1 ? 0 : 3 * at;
  uint32_t key[3];
  DP_RETURN_IF_ERROR(check_range(index->dtype, from, most));
  for (int i = 0; i < 3; ++i)
    key[i] = (uint32_t)dp_tensor_any_int_at(seed, row + i);
  uint64_t to = shuffle((uint64_t)from, key, (uint64_t)most, rounds);
  if (dp_dtype_size(output->dtype) == 4)
    ((uint32_t *)output->data)[at] = (uint32_t)to;
  else
    ((uint64_t *)output->data)[at] = to;
  return NULL;
}

static int64_t largest(int64_t a, int64_t b) {
  return a > b ? a : b;
}

static dp_status *index_compute(dp_op_context *context, void *memory) {
  const dp_tensor *index = dp_op_input(context, 0), *seed = dp_op_input(context, 1);
  const dp_tensor *max_index = dp_op_input(context, 2);
  int64_t count =
      largest(largest(index->shape.elements, max_index->shape.elements), seed->shape.elements / 3);
  DP_RETURN_IF_ERROR(check_shapes(context, count));
  bool is_scalar = !index->shape.rank && seed->shape.rank == 1 && !max_index->shape.rank;
  dp_shape shape = is_scalar ? dp_shape_scalar() : dp_shape_vector(count);
  dp_tensor *output;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &shape, &output));
  for (int64_t i = 0; i < count; ++i)
    DP_RETURN_IF_ERROR(shuffle_one(context, *(int64_t *)memory, i, output));
  return NULL;
}

static const dp_kernel rows[] = {
    {.op = "RandomIndexShuffle",
     .types = {{"dtype", DP_SET_INDEX | DP_SET(UINT32) | DP_SET(UINT64)}},
     .state_size = sizeof(int64_t),
     .create = index_create,
     .compute = index_compute},
};
DP_KERNEL_FAMILY(random_index, rows);
