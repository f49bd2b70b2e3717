/* Finds the loop of an element-wise op by the op's name, for _FusedElementwise, which runs several
 * loops on one block. unary.c and binary.c implement the lookups. */
#ifndef DP_KERNELS_MATH_ELEMENTWISE_INTERNAL_H
#define DP_KERNELS_MATH_ELEMENTWISE_INTERNAL_H

#include "kernels/loops/activation.h"
#include "kernels/loops/binary.h"
#include "kernels/loops/unary.h"
#include "kernels/shared/broadcast.h"
#include "runtime/kernel.h"

/* Exactly one of the functions is set. */
typedef struct dp_elementwise_loop {
  dp_unary_fn unary;
  dp_activation_fn activation;
  dp_binary_fn binary;
  dp_activation_grad_fn activation_grad;
  bool is_gradient; /* both operands must have the same shape */
  int64_t cost;     /* per element, in picoseconds */
} dp_elementwise_loop;

/* `dtype` is float or double. False when there is no such op. */
bool dp_unary_find_loop(const char *op, dp_dtype dtype, dp_elementwise_loop *loop_out);
bool dp_activation_find_loop(const char *op, dp_dtype dtype, dp_elementwise_loop *loop_out);
bool dp_binary_find_loop(const char *op, dp_dtype dtype, dp_elementwise_loop *loop_out);

/* Fills a result of the plan's shape, on the step's pool. The result may be the memory of an
 * operand that has that shape. */
void dp_binary_run_broadcast(dp_op_context *context, const dp_elementwise_loop *loop,
                             dp_dtype dtype, const dp_broadcast *plan, const void *a, const void *b,
                             void *to);

#endif
