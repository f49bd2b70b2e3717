/* Fills the table of sequence.h. Integers wrap like TensorFlow's, so they are computed unsigned. An
 * element depends on its index alone, so threads can fill any piece. Compiled once for each
 * instruction set. */
#include "kernels/loops/sequence.h"

static void range_int32(int32_t *to, int32_t start, int32_t delta, int64_t begin, int64_t end) {
  DP_INDEPENDENT
  for (int64_t i = begin; i < end; ++i)
    to[i] = (int32_t)((uint32_t)start + (uint32_t)i * (uint32_t)delta);
}

static void range_int64(int64_t *to, int64_t start, int64_t delta, int64_t begin, int64_t end) {
  DP_INDEPENDENT
  for (int64_t i = begin; i < end; ++i)
    to[i] = (int64_t)((uint64_t)start + (uint64_t)i * (uint64_t)delta);
}

/* Indices below 2^31 run as int32, because instruction sets convert 32 bits faster than 64. */
static void line_float(float *to, float start, float step, int64_t begin, int64_t end) {
  int32_t low_end = (int32_t)(end < INT32_MAX ? end : INT32_MAX);
  DP_INDEPENDENT
  for (int32_t i = (int32_t)(begin < low_end ? begin : low_end); i < low_end; ++i)
    to[i] = start + step * (float)i;
  begin = begin > low_end ? begin : low_end;
  DP_INDEPENDENT
  for (int64_t i = begin; i < end; ++i)
    to[i] = start + step * (float)i;
}

static void line_double(double *to, double start, double step, int64_t begin, int64_t end) {
  DP_INDEPENDENT
  for (int64_t i = begin; i < end; ++i)
    to[i] = start + step * (double)i;
}

const dp_sequence_loops DP_ISA_SYMBOL(dp_sequence_table) = {range_int32, range_int64, line_float,
                                                            line_double};
