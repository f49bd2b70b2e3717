/* Loops that choose between two operands element by element, by the size of an element (1, 2, 4, 8,
 * 16 bytes); one table for each instruction set. */
#ifndef DP_KERNELS_LOOPS_SELECT_INTERNAL_H
#define DP_KERNELS_LOOPS_SELECT_INTERNAL_H

#include <stdint.h>
#include "kernels/isa/isa.h"

/* Strides are 0 or 1: an operand stands still or runs along. The result may be the memory of an
 * operand that runs along. */
typedef void (*dp_select_fn)(const uint8_t *condition, const void *a, const void *b, void *to,
                             int64_t count, int64_t condition_stride, int64_t a_stride,
                             int64_t b_stride);

typedef struct dp_select_loops {
  dp_select_fn by_size[17]; /* index: bytes of an element */
} dp_select_loops;
DP_ISA_TABLE(dp_select_loops, dp_select_table)

#endif
