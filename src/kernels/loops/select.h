/* Loops of Select and Where: to[i] = condition[i] ? a[i] : b[i]. There is one loop per element size
 * (1, 2, 4, 8, 16 bytes), and one table for each instruction set. */
#ifndef DP_KERNELS_LOOPS_SELECT_H
#define DP_KERNELS_LOOPS_SELECT_H

#include <stdint.h>
#include "kernels/isa/isa.h"

/* Strides are 0 (the operand is one value) or 1. The result may be the memory of an operand with
 * stride 1. */
typedef void (*dp_select_fn)(const uint8_t *condition, const void *a, const void *b, void *to,
                             int64_t count, int64_t condition_stride, int64_t a_stride,
                             int64_t b_stride);

typedef struct dp_select_loops {
  dp_select_fn by_size[17]; /* index: bytes per element */
} dp_select_loops;
DP_ISA_TABLE(dp_select_loops, dp_select_table)

#endif
