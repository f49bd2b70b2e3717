/* Loops over the special functions, for unary.c and binary.c: element-wise ops that have no vector
 * loop. */
#ifndef DP_KERNELS_MATH_SPECIAL_INTERNAL_H
#define DP_KERNELS_MATH_SPECIAL_INTERNAL_H

#include "kernels/loops/binary.h"
#include "kernels/loops/unary.h"

/* The loop of a special op for float or double; NULL when `op` is not a special op. */
dp_unary_fn dp_special_unary_loop(const char *op, dp_dtype dtype);
dp_binary_fn dp_special_binary_loop(const char *op, dp_dtype dtype);

#endif
