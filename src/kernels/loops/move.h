/* Loops that move elements of 1, 2, 4, 8 or 16 bytes; one table for each instruction set. The
 * arrays of the table are indexed by the logarithm of the size. Strides are in elements. Memory
 * need not be aligned to the element, because a run of small elements may be moved as one large
 * element. */
#ifndef DP_KERNELS_LOOPS_MOVE_H
#define DP_KERNELS_LOOPS_MOVE_H

#include <stddef.h>
#include <stdint.h>
#include "kernels/isa/isa.h"

#define DP_MOVE_SIZES 5

/* Two nested loops; the inner one is the second. */
typedef struct dp_move_span {
  int64_t outer, inner;
  int64_t to_outer, to_inner;
  int64_t from_outer, from_inner;
} dp_move_span;

typedef void (*dp_move_strided_fn)(void *to, const void *from, const dp_move_span *span);
/* to[r * to_stride + c] = from[c * from_stride + r] */
typedef void (*dp_move_transpose_fn)(void *to, int64_t to_stride, const void *from,
                                     int64_t from_stride, int64_t rows, int64_t columns);
typedef void (*dp_move_fill_fn)(void *to, const void *value, int64_t count);
/* A source of rows of `bytes` bytes that follow each other. */
typedef struct dp_move_part {
  const char *from;
  int64_t bytes;
} dp_move_part;

typedef struct dp_move_loops {
  dp_move_strided_fn strided[DP_MOVE_SIZES];
  dp_move_transpose_fn transpose[DP_MOVE_SIZES];
  dp_move_fill_fn fill[DP_MOVE_SIZES];
  /* Rows [begin, end) of `to`. Row r of `to` is row r of every part, one behind the other. */
  void (*join)(char *to, const dp_move_part *parts, int64_t count, int64_t begin, int64_t end);
} dp_move_loops;
DP_ISA_TABLE(dp_move_loops, dp_move_table)

#endif
