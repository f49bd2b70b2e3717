/* Inner loops of poolings, one table for each instruction set. A pixel is `channels` contiguous
 * elements, a row is pixels along the width of an image. Half and bfloat16 have loops over rows
 * only, which compute in float: elsewhere they are widened. */
#ifndef DP_KERNELS_LOOPS_POOL_INTERNAL_H
#define DP_KERNELS_LOOPS_POOL_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>
#include "kernels/isa/isa.h"
#include "tensor/dtype.h"

#define DP_POOLING_MOST_PLACES 256
#define DP_POOLING_MOST_MARKS 8

/* A row of windows: the fields are of the dimension along the row, as in dp_window. Largest
 * elements are `lowest` at least. */
typedef struct dp_pooling_row {
  double lowest;
  int64_t channels;
  int64_t in, out, size, stride, before;
} dp_pooling_row;

/* A row of windows over a row of pixels, with the gradients of what the windows gave. */
typedef struct dp_pooling_source {
  const void *gradient;
  const void *largest;   /* elements */
  const uint8_t *places; /* where in the window those were, or marks of all such */
  int64_t place;         /* of the window's first pixel of this row */
  int64_t rows;          /* of pixels that the windows have inside the image */
} dp_pooling_source;

/* Loops over rows, of floating types; `rows` are rows of pixels that the same windows have, `count`
 * of them. */
typedef struct dp_pooling_row_fns {
  /* Largest elements, averages, and what `others` have where the first largest ones are. */
  void (*largest)(const dp_pooling_row *row, const void *const *rows, int64_t count, void *to);
  void (*average)(const dp_pooling_row *row, const void *const *rows, int64_t count, void *to);
  void (*picks)(const dp_pooling_row *row, const void *const *rows, const void *const *others,
                int64_t count, void *to);
  /* The same in two steps, for windows that share rows: parts are in the work type, and joined they
   * are of windows with `height` rows. */
  void (*largest_part)(const dp_pooling_row *row, const void *const *rows, int64_t count, void *to);
  void (*sum_part)(const dp_pooling_row *row, const void *const *rows, int64_t count, void *to);
  void (*join_largest)(const dp_pooling_row *row, const void *const *parts, int64_t count,
                       int64_t height, void *to);
  void (*join_average)(const dp_pooling_row *row, const void *const *parts, int64_t count,
                       int64_t height, void *to);
  /* As largest, and the places in the window of the first largest elements, one byte each: pixels
   * are counted row by row, those of the first row from `place` on. `to` may be NULL. */
  void (*places)(const dp_pooling_row *row, const void *const *rows, int64_t count, int64_t place,
                 void *to, uint8_t *places);
  /* As largest, and a byte for each with a bit for every pixel that is as large: those of row i are
   * counted from numbers[i] on, at most eight. */
  void (*marks)(const dp_pooling_row *row, const void *const *rows, int64_t count,
                const int64_t *numbers, void *to, uint8_t *marks);
  /* What the gradients of averages give each pixel of their windows, added up over `count` rows of
   * windows, in the work type. */
  void (*shares)(const dp_pooling_row *row, const dp_pooling_source *sources, int64_t count,
                 void *to);
  /* A row of pixels as the sum of what rows of windows, in order, give back: such shares (of one
   * row) to all pixels, gradients to the places of the largest elements, to the pixels that are
   * marked, and to all that are as large as these in the row `from`. */
  void (*return_shares)(const dp_pooling_row *row, const void *shares, void *to);
  void (*return_to_places)(const dp_pooling_row *row, const dp_pooling_source *sources,
                           int64_t count, void *to);
  void (*return_to_marks)(const dp_pooling_row *row, const dp_pooling_source *sources,
                          int64_t count, void *to);
  void (*return_to_equals)(const dp_pooling_row *row, const dp_pooling_source *sources,
                           int64_t count, const void *from, void *to);
} dp_pooling_row_fns;

typedef struct dp_pooling_fns {
  /* The least value of the type, everywhere. */
  void (*fill_least)(void *to, int64_t count);
  /* `pixels` pixels that are `step` elements apart in `from`, each into its own of `to`. */
  void (*take_largest)(void *to, const void *from, int64_t pixels, int64_t channels, int64_t step);
  /* One pixel: where `from` is larger than `best`, or where[c] < 0, takes it and `index`. */
  void (*take_place)(void *best, int32_t *where, const void *from, int64_t channels, int32_t index);
  /* to += from * factor (floats only; elsewhere NULL). */
  void (*add_scaled)(void *to, const void *from, int64_t channels, double factor);
  /* to[where[c] * channels + c] += from[c]; and the other way, without adding. `stride` is that
   * of the pixels of `to` (`from`). */
  void (*scatter)(void *to, const int32_t *where, const void *from, int64_t channels,
                  int64_t stride);
  void (*gather)(void *to, const int32_t *where, const void *from, int64_t channels,
                 int64_t stride);
  /* to[at[i]] += from[i]. */
  void (*add_at)(void *to, const int64_t *at, const void *from, int64_t count);
} dp_pooling_fns;

typedef struct dp_pooling_loops {
  dp_pooling_fns fns[DP_DTYPE_END];
} dp_pooling_loops;
DP_ISA_TABLE(dp_pooling_loops, dp_pooling_table)
DP_ISA_TABLE(dp_pooling_row_fns, dp_pooling_rows_float)
DP_ISA_TABLE(dp_pooling_row_fns, dp_pooling_rows_double)
DP_ISA_TABLE(dp_pooling_row_fns, dp_pooling_rows_half)
DP_ISA_TABLE(dp_pooling_row_fns, dp_pooling_rows_bfloat16)

#endif
