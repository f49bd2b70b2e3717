/* The loops of element-wise ops by name, for a kernel that runs several of them on one block. The
 * families that own the ops answer for them. */
#ifndef DP_KERNELS_ELEMENTWISE_INTERNAL_H
#define DP_KERNELS_ELEMENTWISE_INTERNAL_H

#include "kernels/shared/broadcast.h"
#include "kernels/loops/activation.h"
#include "kernels/loops/binary.h"
#include "kernels/loops/unary.h"
#include "runtime/kernel.h"

/* One of the functions is set. */
typedef struct dp_elementwise_loop {
  dp_unary_fn unary;
  dp_activation_fn activation;
  dp_binary_fn binary;
  dp_activation_grad_fn activation_grad;
  bool is_gradient; /* of two operands that must have one shape */
  int64_t cost;     /* of an element, in picoseconds */
} dp_elementwise_loop;

/* `dtype` is float or double; false when the family has no such op. */
bool dp_unary_find_loop(const char *op, dp_dtype dtype, dp_elementwise_loop *loop_out);
bool dp_activation_find_loop(const char *op, dp_dtype dtype, dp_elementwise_loop *loop_out);
bool dp_binary_find_loop(const char *op, dp_dtype dtype, dp_elementwise_loop *loop_out);

/* Fills a result of the plan's shape, on the step's pool. It may be the memory of an operand of
 * that shape. */
void dp_binary_run_broadcast(dp_op_context *context, const dp_elementwise_loop *loop,
                             dp_dtype dtype, const dp_broadcast *plan, const void *a, const void *b,
                             void *to);

#endif
