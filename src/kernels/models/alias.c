/* Walker's alias method (alias_internal.h). Building gives each bucket with a share below 1 a
 * partner with a share above 1, in TensorFlow's order; a draw needs one bucket and one
 * comparison. */
#include "kernels/models/alias_internal.h"

#include "base/memory.h"

/* Buckets with a share of at least 1 (high) and below 1 (low), each a stack. */
typedef struct piles {
  double *share;
  int32_t *high, *low;
  int32_t high_count, low_count;
} piles;

static void pile_up(piles *piles, int32_t bucket) {
  if (piles->share[bucket] < 1.0)
    piles->low[piles->low_count++] = bucket;
  else
    piles->high[piles->high_count++] = bucket;
}

static void compute_shares(piles *piles, const float *weights, int32_t count) {
  double sum = 0;
  for (int32_t i = 0; i < count; ++i)
    sum += weights[i];
  for (int32_t i = 0; i < count; ++i) {
    piles->share[i] = (double)(weights[i] * (float)count) / sum;
    pile_up(piles, i);
  }
}

/* Buckets that rounding left without a partner always give their own number. */
static void keep_rest(dp_alias *alias, const int32_t *rest, int32_t count) {
  for (int32_t i = 0; i < count; ++i) {
    alias->keep[rest[i]] = 1;
    alias->other[rest[i]] = rest[i];
  }
}

static void build(dp_alias *alias, piles *piles, const float *weights) {
  compute_shares(piles, weights, alias->count);
  while (piles->high_count && piles->low_count) {
    int32_t small = piles->low[--piles->low_count], large = piles->high[--piles->high_count];
    alias->other[small] = large;
    piles->share[large] -= 1.0 - piles->share[small];
    pile_up(piles, large);
  }
  for (int32_t i = 0; i < alias->count; ++i)
    alias->keep[i] = (float)piles->share[i];
  keep_rest(alias, piles->high, piles->high_count);
  keep_rest(alias, piles->low, piles->low_count);
}

dp_status *dp_alias_init(dp_alias *alias, const float *weights, int32_t count) {
  size_t n = (size_t)count + 1;
  *alias = (dp_alias){.count = count,
                      .keep = dp_try_malloc(n * sizeof(float)),
                      .other = dp_try_malloc(n * sizeof(int32_t))};
  piles piles = {.share = dp_try_malloc(n * sizeof(double)),
                 .high = dp_try_malloc(n * sizeof(int32_t)),
                 .low = dp_try_malloc(n * sizeof(int32_t))};
  bool fits = alias->keep && alias->other && piles.share && piles.high && piles.low;
  if (fits)
    build(alias, &piles, weights);
  dp_free(piles.share);
  dp_free(piles.high);
  dp_free(piles.low);
  return fits ? NULL : dp_status_out_of_memory();
}

void dp_alias_deinit(dp_alias *alias) {
  dp_free(alias->keep);
  dp_free(alias->other);
}

int32_t dp_alias_draw(const dp_alias *alias, dp_random_words *words) {
  float chance = dp_philox_float(dp_random_word(words));
  uint32_t bucket = dp_random_below(words, (uint32_t)alias->count);
  return chance < alias->keep[bucket] ? (int32_t)bucket : alias->other[bucket];
}
