/* Fills the table of choice.h. The largest logit of a row is found in several lanes, and the
 * exponentials run over all rows at once, so that compilers vectorize both. Compiled once for each
 * instruction set. */
#include "kernels/loops/choice.h"

#include <float.h>
#include "kernels/loops/vector_math_internal.h"

#define LANES 8 /* accumulators, so that none waits for the one before it */

static inline double larger_finite(double best, double value) {
  double finite = value <= DBL_MAX ? value : -DBL_MAX;
  return finite > best ? finite : best;
}

static double largest_finite(const double *values, int64_t count) {
  double lanes[LANES];
  int64_t i = 0;
  for (int k = 0; k < LANES; ++k)
    lanes[k] = -DBL_MAX;
  for (; i + LANES <= count; i += LANES)
    for (int k = 0; k < LANES; ++k)
      lanes[k] = larger_finite(lanes[k], values[i + k]);
  for (int k = 0; i + k < count; ++k)
    lanes[k] = larger_finite(lanes[k], values[i + k]);
  for (int half = LANES / 2; half > 0; half /= 2)
    for (int k = 0; k < half; ++k)
      lanes[k] = lanes[k] > lanes[k + half] ? lanes[k] : lanes[k + half];
  return lanes[0];
}

static void weights(double *logits, int64_t rows, int64_t classes) {
  for (int64_t row = 0; row < rows; ++row) {
    double *values = logits + row * classes, largest = largest_finite(values, classes);
    DP_INDEPENDENT
    for (int64_t i = 0; i < classes; ++i) {
      double x = values[i];
      values[i] = x >= -DBL_MAX && x <= DBL_MAX ? x - largest : -INFINITY;
    }
  }
  DP_INDEPENDENT
  for (int64_t i = 0; i < rows * classes; ++i)
    logits[i] = dp_exp_double(logits[i]);
}

const dp_choice_loops DP_ISA_SYMBOL(dp_choice_table) = {.weights = weights};
