/* The row filters of PNG, which replace bytes by their difference from a guess; one table for each
 * instruction set. The guess is made from the byte to the left, which is `step` bytes before, from
 * the byte in the row above, and from the byte to the left of that one. `above` is zeros for the
 * first row. */
#ifndef DP_KERNELS_LOOPS_PNG_H
#define DP_KERNELS_LOOPS_PNG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "kernels/isa/isa.h"

#define DP_PNG_FILTERS 5 /* none, left, above, mean of both, Paeth's */

#define DP_PNG_BLOCK ((size_t)64)
static inline size_t dp_png_padded(size_t length) {
  return (length + DP_PNG_BLOCK - 1) & ~(DP_PNG_BLOCK - 1);
}

/* Filters a row; returns the sum of the absolute differences. `row` and `above` have `step` zeros
 * before them; all three arrays have memory for dp_png_padded(length) bytes. */
typedef uint64_t (*dp_png_filter_fn)(const uint8_t *row, const uint8_t *above, size_t length,
                                     size_t step, uint8_t *to);
/* The inverse of the filter, in place. */
typedef void (*dp_png_unfilter_fn)(uint8_t *row, const uint8_t *above, size_t length, size_t step);

/* True only if at most `most` positions of `data` share a key in zlib's hash table, whether it has
 * 2^13 or 2^16 entries; false may be wrong. `length` is at most DP_PNG_MOST_VARIED. */
#define DP_PNG_MOST_VARIED ((size_t)4096)
typedef bool (*dp_png_varied_fn)(const uint8_t *data, size_t length, int most);

typedef struct dp_png_loops {
  dp_png_filter_fn filter[DP_PNG_FILTERS];
  dp_png_unfilter_fn unfilter[DP_PNG_FILTERS];
  dp_png_varied_fn is_varied;
} dp_png_loops;
DP_ISA_TABLE(dp_png_loops, dp_png_table)

#endif
