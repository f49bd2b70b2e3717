/* The filters of PNG's rows, which replace bytes by their distance from a guess; one table for each
 * instruction set. A row's neighbour to the left is `step` bytes before; `above` is the row before
 * it, zeros for the first. */
#ifndef DP_KERNELS_LOOPS_PNG_INTERNAL_H
#define DP_KERNELS_LOOPS_PNG_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "kernels/isa/isa.h"

#define DP_PNG_FILTERS 5 /* none, left, above, mean of both, Paeth's */

#define DP_PNG_BLOCK ((size_t)64)
static inline size_t dp_png_padded(size_t length) {
  return (length + DP_PNG_BLOCK - 1) & ~(DP_PNG_BLOCK - 1);
}

/* Filters a row; gives the sum of the distances, up or down. Both rows have `step` zeros in front;
 * all three have memory for dp_png_padded(length) bytes. */
typedef uint64_t (*dp_png_filter_fn)(const uint8_t *row, const uint8_t *above, size_t length,
                                     size_t step, uint8_t *to);
/* The way back, in place. */
typedef void (*dp_png_unfilter_fn)(uint8_t *row, const uint8_t *above, size_t length, size_t step);

/* Whether no more than `most` places in the bytes have the same key in zlib's hash table, be that
 * of 2^13 or of 2^16 entries. The bytes are at most DP_PNG_MOST_VARIED. */
#define DP_PNG_MOST_VARIED ((size_t)4096)
typedef bool (*dp_png_varied_fn)(const uint8_t *data, size_t length, int most);

typedef struct dp_png_loops {
  dp_png_filter_fn filter[DP_PNG_FILTERS];
  dp_png_unfilter_fn unfilter[DP_PNG_FILTERS];
  dp_png_varied_fn is_varied;
} dp_png_loops;
DP_ISA_TABLE(dp_png_loops, dp_png_table)

#endif
