/* Numbers at equal distances (Range, LinSpace); one table for each instruction set. A call fills
 * elements [begin, end) of `to`. */
#ifndef DP_KERNELS_LOOPS_SEQUENCE_H
#define DP_KERNELS_LOOPS_SEQUENCE_H

#include <stdint.h>
#include "kernels/isa/isa.h"

typedef struct dp_sequence_loops {
  /* to[i] = start + i * delta, wrapping, for i in [begin, end). */
  void (*range_int32)(int32_t *to, int32_t start, int32_t delta, int64_t begin, int64_t end);
  void (*range_int64)(int64_t *to, int64_t start, int64_t delta, int64_t begin, int64_t end);
  /* to[i] = start + step * i, rounded after each operation. */
  void (*line_float)(float *to, float start, float step, int64_t begin, int64_t end);
  void (*line_double)(double *to, double start, double step, int64_t begin, int64_t end);
} dp_sequence_loops;
DP_ISA_TABLE(dp_sequence_loops, dp_sequence_table)

#endif
