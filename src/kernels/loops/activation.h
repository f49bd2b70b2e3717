/* Loops of the activations of neural networks and of their gradients, one table for each
 * instruction set.
 *
 * `alpha` is LeakyRelu's slope; the other activations ignore it. A gradient loop takes the incoming
 * gradient and the forward op's input; for Elu and Selu it takes the forward op's output instead.
 * The result may be the memory of an operand. Half and bfloat16 have no loops of their own. */
#ifndef DP_KERNELS_LOOPS_ACTIVATION_H
#define DP_KERNELS_LOOPS_ACTIVATION_H

#include <stdint.h>
#include "kernels/isa/isa.h"
#include "tensor/dtype.h"

/* X(symbol, op, cost per element in picoseconds) */
#define DP_ACTIVATIONS(X)                                                                          \
  X(relu, Relu, 250)                                                                               \
  X(relu6, Relu6, 250)                                                                             \
  X(leaky_relu, LeakyRelu, 300)                                                                    \
  X(elu, Elu, 1200)                                                                                \
  X(selu, Selu, 1200)                                                                              \
  X(softplus, Softplus, 2500)                                                                      \
  X(softsign, Softsign, 600)

typedef enum dp_activation_loop {
#define DP_ACTIVATION_ENUM(symbol, op, cost) DP_ACTIVATION_##symbol,
  DP_ACTIVATIONS(DP_ACTIVATION_ENUM)
#undef DP_ACTIVATION_ENUM
      DP_ACTIVATION_COUNT,
} dp_activation_loop;

typedef void (*dp_activation_fn)(const void *from, void *to, int64_t count, double alpha);
typedef void (*dp_activation_grad_fn)(const void *gradient, const void *feature, void *to,
                                      int64_t count, double alpha);

typedef struct dp_activation_loops {
  dp_activation_fn fn[DP_ACTIVATION_COUNT][DP_DTYPE_END];
  dp_activation_grad_fn grad[DP_ACTIVATION_COUNT][DP_DTYPE_END];
} dp_activation_loops;
DP_ISA_TABLE(dp_activation_loops, dp_activation_table)

#endif
