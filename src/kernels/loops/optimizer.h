/* Loops of the optimizers' updates, one table for each instruction set.
 *
 * A loop computes `count` elements of a variable and its slots from their old values and the
 * gradient in one pass. Old and new memory may be the same. `scalars` has the order of the op's
 * scalar inputs, which the templates name above each formula; real types use the real parts. */
#ifndef DP_KERNELS_LOOPS_OPTIMIZER_H
#define DP_KERNELS_LOOPS_OPTIMIZER_H

#include <complex.h>
#include <stdbool.h>
#include <stdint.h>
#include "kernels/isa/isa.h"

#define DP_OPTIMIZER_MOST_SLOTS 4 /* the variable itself and up to three slots */
#define DP_OPTIMIZER_MOST_SCALARS 6

typedef struct dp_optimizer_call {
  const void *old[DP_OPTIMIZER_MOST_SLOTS];
  void *target[DP_OPTIMIZER_MOST_SLOTS];
  const void *gradient;
  const double _Complex *scalars;
  bool option; /* use_nesterov, update_slots or multiply_linear_by_lr */
  bool is_sparse;
  int64_t count;
} dp_optimizer_call;

/* Light updates wait for memory, heavy ones for arithmetic. */
#define DP_LIGHT_OPTIMIZERS(X)                                                                     \
  X(gradient_descent)                                                                              \
  X(momentum)                                                                                      \
  X(keras_momentum)
#define DP_HEAVY_OPTIMIZERS(X)                                                                     \
  X(proximal_gradient_descent)                                                                     \
  X(adagrad)                                                                                       \
  X(adagrad_v2)                                                                                    \
  X(adagrad_da)                                                                                    \
  X(proximal_adagrad)                                                                              \
  X(adadelta)                                                                                      \
  X(adam)                                                                                          \
  X(adamax)                                                                                        \
  X(amsgrad)                                                                                       \
  X(rmsprop)                                                                                       \
  X(centered_rmsprop)                                                                              \
  X(ftrl)                                                                                          \
  X(ftrl_v2)                                                                                       \
  X(add_sign)                                                                                      \
  X(power_sign)
#define DP_OPTIMIZERS(X) DP_LIGHT_OPTIMIZERS(X) DP_HEAVY_OPTIMIZERS(X)

typedef enum dp_optimizer_loop {
#define DP_OPTIMIZER_ENUM(name) DP_OPTIMIZER_##name,
  DP_OPTIMIZERS(DP_OPTIMIZER_ENUM)
#undef DP_OPTIMIZER_ENUM
      DP_OPTIMIZER_COUNT,
} dp_optimizer_loop;

typedef void (*dp_optimizer_fn)(const dp_optimizer_call *call);

/* NULL where an optimizer has no loop for a type. */
typedef struct dp_optimizer_loops {
  dp_optimizer_fn of_float[DP_OPTIMIZER_COUNT];
  dp_optimizer_fn of_double[DP_OPTIMIZER_COUNT];
  dp_optimizer_fn of_complex64[DP_OPTIMIZER_COUNT];
  dp_optimizer_fn of_complex128[DP_OPTIMIZER_COUNT];
} dp_optimizer_loops;
DP_ISA_TABLE(dp_optimizer_loops, dp_optimizer_table)

#endif
