/* Inner loops of batch normalization, one table for each instruction set. All in float.
 *
 * The `_rows` loops are for channels last: `rows` rows of `channels` values, with one sum, mean and
 * factor per channel. The `_plane` loops are for channels first: `count` values of one channel,
 * whose sum, mean and factor are scalars. */
#ifndef DP_KERNELS_LOOPS_NORM_H
#define DP_KERNELS_LOOPS_NORM_H

#include <stdint.h>
#include "kernels/isa/isa.h"

typedef struct dp_norm_loops {
  /* statistics: sum of x, and sum of (x - m)^2, where m is the mean of these rows. gradient: sum of
   * g, and sum of g * (x - mean). All per channel; the old contents of the sums are overwritten. */
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
