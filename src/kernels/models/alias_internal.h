/* Drawing from [0, n) by given weights in constant time: Walker's alias method. Buckets and random
 * words are used as in TensorFlow, so the draws are the same. A table never changes once it is
 * made. */
#ifndef DP_KERNELS_MODELS_ALIAS_INTERNAL_H
#define DP_KERNELS_MODELS_ALIAS_INTERNAL_H

#include "kernels/shared/random.h"

typedef struct dp_alias {
  int32_t count;
  float *keep;    /* probability of a bucket's own number */
  int32_t *other; /* the number that is drawn otherwise */
} dp_alias;

DP_MUST_USE dp_status *dp_alias_init(dp_alias *alias, const float *weights, int32_t count);
void dp_alias_deinit(dp_alias *alias);
/* `count` must not be 0. */
int32_t dp_alias_draw(const dp_alias *alias, dp_random_words *words);

#endif
