/* Loops that convert between number types, one table for each instruction set. Entries exist for
 * the C types (bool counts as uint8 on the left); cast.c puts 16-bit and smaller floats around
 * them. */
#ifndef DP_KERNELS_LOOPS_CAST_INTERNAL_H
#define DP_KERNELS_LOOPS_CAST_INTERNAL_H

#include <stdint.h>
#include "kernels/isa/isa.h"
#include "tensor/dtype.h"

typedef void (*dp_cast_fn)(const void *from, void *to, int64_t count);

typedef struct dp_cast_loops {
  dp_cast_fn fn[DP_DTYPE_END][DP_DTYPE_END]; /* [from][to] */
} dp_cast_loops;
DP_ISA_TABLE(dp_cast_loops, dp_cast_table)

#endif
