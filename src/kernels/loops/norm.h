/* Inner loops of batch normalization, one table for each instruction set. All in float.
 *
 * Channels last: `rows` rows of `channels` values, sums a channel. Channels first: one plane of
 * `count` values of one channel at a time, so the channel's numbers are scalars. */
#ifndef DP_KERNELS_LOOPS_NORM_INTERNAL_H
#define DP_KERNELS_LOOPS_NORM_INTERNAL_H

#include <stdint.h>
#include "kernels/isa/isa.h"

typedef struct dp_norm_loops {
  /* Sums a channel: of x, and of the squares of its distance from these rows' own mean; of g, and
   * of g * (x - mean). Overwrites the sums. */
  void (*statistics_rows)(const float *x, int64_t rows, int64_t channels, float *sums,
                          float *squares);
  void (*gradient_rows)(const float *x, const float *g, const float *mean, int64_t rows,
                        int64_t channels, float *sums, float *products);
  /* y = (x - mean) * factor + offset. */
  void (*normalize_rows)(const float *x, const float *mean, const float *factor,
                         const float *offset, int64_t rows, int64_t channels, float *y);
  /* y = factor * (g - shift - (x - mean) * slope). */
  void (*back_rows)(const float *x, const float *g, const float *mean, const float *factor,
                    const float *shift, const float *slope, int64_t rows, int64_t channels,
                    float *y);
  void (*statistics_plane)(const float *x, int64_t count, float *sum, float *square);
  void (*gradient_plane)(const float *x, const float *g, float mean, int64_t count, float *sum,
                         float *product);
  void (*normalize_plane)(const float *x, float mean, float factor, float offset, int64_t count,
                          float *y);
  void (*back_plane)(const float *x, const float *g, float mean, float factor, float shift,
                     float slope, int64_t count, float *y);
} dp_norm_loops;
DP_ISA_TABLE(dp_norm_loops, dp_norm_table)

#endif
