/* Loops that convert arrays between float and the 16-bit floats (half, bfloat16), one table for
 * each instruction set. Rounding is to nearest even. `from` and `to` may not overlap. */
#ifndef DP_KERNELS_LOOPS_CONVERT_H
#define DP_KERNELS_LOOPS_CONVERT_H

#include <stdint.h>
#include "kernels/isa/isa.h"

typedef struct dp_convert_loops {
  void (*half_to_float)(const uint16_t *from, float *to, int64_t count);
  void (*half_from_float)(const float *from, uint16_t *to, int64_t count);
  void (*bfloat16_to_float)(const uint16_t *from, float *to, int64_t count);
  void (*bfloat16_from_float)(const float *from, uint16_t *to, int64_t count);
} dp_convert_loops;
DP_ISA_TABLE(dp_convert_loops, dp_convert_table)

#endif
