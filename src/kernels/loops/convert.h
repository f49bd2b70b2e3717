/* Loops that convert arrays of 16-bit floats, one table for each instruction set. */
#ifndef DP_KERNELS_LOOPS_CONVERT_INTERNAL_H
#define DP_KERNELS_LOOPS_CONVERT_INTERNAL_H

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
