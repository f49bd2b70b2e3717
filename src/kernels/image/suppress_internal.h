/* Non-maximum suppression of one set of boxes. suppress.c implements it; its ops run it once,
 * suppress_combined.c once per image and class. Any thread may call it: all state is the
 * caller's. */
#ifndef DP_KERNELS_IMAGE_SUPPRESS_INTERNAL_H
#define DP_KERNELS_IMAGE_SUPPRESS_INTERNAL_H

#include <stdint.h>

typedef struct dp_suppress_candidate {
  float score;
  int32_t box;
  int32_t compared; /* picked boxes that this one was compared with */
} dp_suppress_candidate;

typedef struct dp_suppression {
  const float *boxes;    /* [count, 4], or NULL */
  const float *overlaps; /* [count, count] instead */
  const float *scores;
  int64_t count, wanted;
  float overlap_threshold, score_threshold, sigma;
  dp_suppress_candidate *heap; /* room for `count` */
  int64_t heap_count;
  int32_t *picked;      /* room for min(count, wanted) */
  float *picked_scores; /* the same */
  int64_t picked_count;
} dp_suppression;

/* Picks the best boxes in the order of their scores. The caller sets all counters to 0 before. */
void dp_suppress_pick(dp_suppression *work);

#endif
