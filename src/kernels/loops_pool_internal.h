/* Inner loops of poolings, one table for each instruction set. A pixel is `channels` contiguous
 * elements. Half and bfloat16 have none: they are widened. */
#ifndef DP_KERNELS_LOOPS_POOL_INTERNAL_H
#define DP_KERNELS_LOOPS_POOL_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>
#include "kernels/isa/isa_internal.h"
#include "tensor/dtype.h"

/* What of a window lies inside the image: pixels `row_step` and `column_step` elements apart. */
typedef struct dp_pooling_view {
  int64_t rows, row_step, columns, column_step;
  bool is_alone; /* no other window has any of these pixels: gradients need not be added up */
} dp_pooling_view;

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
  /* One output pixel, all channels at once (float and double; elsewhere NULL): the largest of the
   * window, its sum times `factor`, and the gradients of both, added to a window of `to`. `from`
   * and `to` are the windows' first pixels. */
  void (*view_largest)(void *to, const void *from, const dp_pooling_view *view, int64_t channels);
  void (*view_average)(void *to, const void *from, const dp_pooling_view *view, int64_t channels,
                       double factor);
  void (*view_scatter)(void *to, const void *from, const void *gradient,
                       const dp_pooling_view *view, int64_t channels);
  void (*view_spread)(void *to, const void *gradient, const dp_pooling_view *view, int64_t channels,
                      double factor);
} dp_pooling_fns;

typedef struct dp_pooling_loops {
  dp_pooling_fns fns[DP_DTYPE_END];
} dp_pooling_loops;
DP_ISA_TABLE(dp_pooling_loops, dp_pooling_table)

#endif
