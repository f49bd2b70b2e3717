/* Fills the table of softmax.h, for float and double. The bodies are in softmax.tmpl.h. Compiled
 * once for each instruction set. */
#include "kernels/loops/softmax.h"

#include <math.h>
#include <stdbool.h>
#include "kernels/loops/types.h"
#include "kernels/loops/vector_math_internal.h"

#define BLOCK 2048   /* elements of one pass of exponentials */
#define LONG_ROW 128 /* classes from which a row gets passes of its own */

#define T float
#define SUFFIX float
#define LANES 16
#define FAST(name) dp_##name
#include "kernels/loops/softmax.tmpl.h"
#undef T
#undef SUFFIX
#undef LANES
#undef FAST

#define double_exp_below_zero dp_exp_double
#define double_log log
#define T double
#define SUFFIX double
#define LANES 8
#define FAST(name) double_##name
#include "kernels/loops/softmax.tmpl.h"
#undef T
#undef SUFFIX
#undef LANES
#undef FAST

const dp_softmax_loops DP_ISA_SYMBOL(dp_softmax_table) = {
    .float_fns = {softmax_float, log_softmax_float, cross_entropy_float,
                  sparse_cross_entropy_float},
    .double_fns = {softmax_double, log_softmax_double, cross_entropy_double,
                   sparse_cross_entropy_double},
};
