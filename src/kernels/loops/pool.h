/* Inner loops of poolings, one table for each instruction set.
 *
 * A pixel is `channels` contiguous elements; a row is the pixels along the width of an image.
 * dp_pooling_row_fns work on whole rows, for float, double, half and bfloat16 (the last two compute
 * in float). dp_pooling_fns work on single pixels, for every other case; there 16-bit floats are
 * widened by the caller. */
#ifndef DP_KERNELS_LOOPS_POOL_H
#define DP_KERNELS_LOOPS_POOL_H

#include <stdbool.h>
#include <stdint.h>
#include "kernels/isa/isa.h"
#include "tensor/dtype.h"

#define DP_POOLING_MOST_PLACES 256
#define DP_POOLING_MOST_MARKS 8

/* A row of windows. The fields describe the dimension along the row, as in dp_window. The
 * largest element of a window counts as at least `lowest`. */
typedef struct dp_pooling_row {
  double lowest;
  int64_t channels;
  int64_t in, out, size, stride, before;
} dp_pooling_row;

/* For gradients: a row of windows that covers the row of pixels in question. */
typedef struct dp_pooling_source {
  const void *gradient;
  const void *largest;   /* the windows' largest elements */
  const uint8_t *places; /* per element: its place in the window, or marks of equal elements */
  int64_t place;         /* the place of this row's first pixel in the window */
  int64_t rows;          /* rows of pixels of the windows that are inside the image */
} dp_pooling_source;

/* Loops over rows, for floating types. `rows` are the `count` rows of pixels that the windows
 * cover. The "work type" is float for half and bfloat16, else the type itself. */
typedef struct dp_pooling_row_fns {
  /* largest: the largest element of each window. average: the mean. picks: the element of `others`
   * at the place of the first largest element. */
  void (*largest)(const dp_pooling_row *row, const void *const *rows, int64_t count, void *to);
  void (*average)(const dp_pooling_row *row, const void *const *rows, int64_t count, void *to);
  void (*picks)(const dp_pooling_row *row, const void *const *rows, const void *const *others,
                int64_t count, void *to);
  /* The same in two steps, for windows that share rows. The first step reduces some rows to a part,
   * in the work type. The second joins `count` parts to windows with `height` rows. */
  void (*largest_part)(const dp_pooling_row *row, const void *const *rows, int64_t count, void *to);
  void (*sum_part)(const dp_pooling_row *row, const void *const *rows, int64_t count, void *to);
  void (*join_largest)(const dp_pooling_row *row, const void *const *parts, int64_t count,
                       int64_t height, void *to);
  void (*join_average)(const dp_pooling_row *row, const void *const *parts, int64_t count,
                       int64_t height, void *to);
  /* As largest, and one byte per element with the place of the first largest element in its window.
   * Places are counted row by row; the first row's begin at `place`. `to` may be NULL. */
  void (*places)(const dp_pooling_row *row, const void *const *rows, int64_t count, int64_t place,
                 void *to, uint8_t *places);
  /* As largest, and one byte per element that has a bit for every pixel with that value. The bits
   * of row i begin at numbers[i]; a window has at most eight places. */
  void (*marks)(const dp_pooling_row *row, const void *const *rows, int64_t count,
                const int64_t *numbers, void *to, uint8_t *marks);
  /* The share of each pixel in the gradients of the averages, gradient / (pixels inside), summed
   * over `count` rows of windows, in the work type. */
  void (*shares)(const dp_pooling_row *row, const dp_pooling_source *sources, int64_t count,
                 void *to);
  /* One row of pixels: the sum of what rows of windows, in order, give back to it. return_shares
   * gives the result of `shares` to all pixels of a window; return_to_places gives the gradient to
   * the place of the largest element, return_to_marks to all marked pixels, return_to_equals to all
   * pixels of the row `from` that equal the largest element. */
  void (*return_shares)(const dp_pooling_row *row, const void *shares, void *to);
  void (*return_to_places)(const dp_pooling_row *row, const dp_pooling_source *sources,
                           int64_t count, void *to);
  void (*return_to_marks)(const dp_pooling_row *row, const dp_pooling_source *sources,
                          int64_t count, void *to);
  void (*return_to_equals)(const dp_pooling_row *row, const dp_pooling_source *sources,
                           int64_t count, const void *from, void *to);
} dp_pooling_row_fns;

typedef struct dp_pooling_fns {
  /* Fills with the least value of the type. */
  void (*fill_least)(void *to, int64_t count);
  /* to[p] = max(to[p], from[p]) for `pixels` pixels, which are `step` elements apart in `from`. */
  void (*take_largest)(void *to, const void *from, int64_t pixels, int64_t channels, int64_t step);
  /* One pixel: where from[c] > best[c], or where[c] < 0, sets best[c] = from[c] and where[c] =
   * index. */
  void (*take_place)(void *best, int32_t *where, const void *from, int64_t channels, int32_t index);
  /* to += from * factor; NULL for integers. */
  void (*add_scaled)(void *to, const void *from, int64_t channels, double factor);
  /* scatter: to[where[c] * stride + c] += from[c]. gather: to[c] = from[where[c] * stride + c]. */
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
