/* Loops for drawing classes by their logits (Multinomial), one table for each instruction set. They
 * turn logits into weights; the draw itself is in the random family. */
#ifndef DP_KERNELS_LOOPS_CHOICE_H
#define DP_KERNELS_LOOPS_CHOICE_H

#include <stdint.h>
#include "kernels/isa/isa.h"

typedef struct dp_choice_loops {
  /* In place, for each of the rows: exp(logit - largest finite logit of the row), and 0 for logits
   * that are not finite. */
  void (*weights)(double *logits, int64_t rows, int64_t classes);
} dp_choice_loops;
DP_ISA_TABLE(dp_choice_loops, dp_choice_table)

#endif
