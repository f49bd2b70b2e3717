/* Loops that convert between number types, one table for each instruction set. There is an entry
 * for every pair of types that C has (a bool source is read as uint8). math/cast.c adds the 16-bit
 * and smaller floats, which it converts before or after. */
#ifndef DP_KERNELS_LOOPS_CAST_H
#define DP_KERNELS_LOOPS_CAST_H

#include <stdint.h>
#include "kernels/isa/isa.h"
#include "tensor/dtype.h"

typedef void (*dp_cast_fn)(const void *from, void *to, int64_t count);

typedef struct dp_cast_loops {
  dp_cast_fn fn[DP_DTYPE_END][DP_DTYPE_END]; /* [from][to] */
} dp_cast_loops;
DP_ISA_TABLE(dp_cast_loops, dp_cast_table)

#endif
