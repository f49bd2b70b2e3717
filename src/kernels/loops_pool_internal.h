/* Inner loops of poolings, one table for each instruction set. A pixel is `channels` contiguous
 * elements. Half and bfloat16 have none: they are widened. */
#ifndef DP_KERNELS_LOOPS_POOL_INTERNAL_H
#define DP_KERNELS_LOOPS_POOL_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>
#include "kernels/isa/isa_internal.h"
#include "tensor/dtype.h"

/* A row of windows over a flat image. What of the windows lies inside the image has `rows` rows,
 * `row_step` elements apart, below `above` rows that lie outside; the other fields are of the
 * dimension along the row, as in dp_window. Largest elements are `lowest` at least. */
typedef struct dp_pooling_row {
  double lowest;
  int64_t channels, rows, above, row_step;
  int64_t in, out, size, stride, before;
} dp_pooling_row;

/* A row of windows over a row of pixels: the gradients of their largest elements, where in the
 * window those were, and which place the window's first pixel of this row is. */
typedef struct dp_pooling_source {
  const void *gradient;
  const uint8_t *places;
  int64_t place;
} dp_pooling_source;

typedef struct dp_pooling_fns {
  /* The least value of the type, everywhere. */
  void (*fill_least)(void *to, int64_t count);
  /* `pixels` pixels that are `step` elements apart in `from`, each into its own of `to`. */
  void (*take_largest)(void *to, const void *from, int64_t pixels, int64_t channels, int64_t step);
  void (*add)(void *to, const void *from, int64_t pixels, int64_t channels, int64_t step);
  /* One pixel: where `from` is larger than `best`, or where[c] < 0, takes it and `index`. */
  void (*take_place)(void *best, int32_t *where, const void *from, int64_t channels, int32_t index);
  /* to += from * factor (floats only; elsewhere NULL), and values *= factor. */
  void (*add_scaled)(void *to, const void *from, int64_t channels, double factor);
  void (*scale)(void *values, int64_t count, double factor);
  /* to[c] += gradient[c] where in[c] == out[c]. */
  void (*add_equal)(void *to, const void *in, const void *out, const void *gradient,
                    int64_t channels);
  /* to[where[c] * channels + c] += from[c]; and the other way, without adding. `stride` is that
   * of the pixels of `to` (`from`). */
  void (*scatter)(void *to, const int32_t *where, const void *from, int64_t channels,
                  int64_t stride);
  void (*gather)(void *to, const int32_t *where, const void *from, int64_t channels,
                 int64_t stride);
  /* Rows of windows (float and double; elsewhere NULL), whose first row inside the image `from` is:
   * their largest elements, averages, and what `other` has where the first largest ones are. */
  void (*row_largest)(const dp_pooling_row *row, const void *from, void *to);
  void (*row_average)(const dp_pooling_row *row, const void *from, void *to);
  void (*row_picks)(const dp_pooling_row *row, const void *from, const void *other, void *to);
  /* And back: what an average's gradient gives to each pixel of its window; a row of pixels as the
   * sum of what `count` rows of windows give it. */
  void (*row_shares)(const dp_pooling_row *row, const void *gradient, void *to);
  void (*row_gather)(const dp_pooling_row *row, const void *const *shares, int64_t count, void *to);
  /* Adds the gradients of a row of maxima to the rows of pixels below it, to[i] for row i; the last
   * `fresh` of them hold nothing yet. */
  void (*row_spread)(const dp_pooling_row *row, const void *from, const void *gradient,
                     void *const *to, int64_t fresh);
  /* As row_largest, and the places in the window (row by row, from 0) of the first largest
   * elements, one byte each; a row of pixels as the sum of what `count` rows of windows, in order,
   * give back to such places. */
  void (*row_places)(const dp_pooling_row *row, const void *from, void *to, uint8_t *places);
  void (*row_return)(const dp_pooling_row *row, const dp_pooling_source *sources, int64_t count,
                     void *to);
} dp_pooling_fns;

typedef struct dp_pooling_loops {
  dp_pooling_fns fns[DP_DTYPE_END];
} dp_pooling_loops;
DP_ISA_TABLE(dp_pooling_loops, dp_pooling_table)

#endif
