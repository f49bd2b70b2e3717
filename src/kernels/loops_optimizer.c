/* The optimizers' updates; compiled once for each instruction set. The formulas are in the
 * templates: one for all number types, one more for reals. */
#include "kernels/loops_optimizer_internal.h"

#include "kernels/loops_types_internal.h"
#include "kernels/vector_math_internal.h"

#define T float
#define SUFFIX float
#define SQRT(x) sqrtf(x)
#include "kernels/loops_optimizer.tmpl.h"
#define ABS(x) fabsf(x)
#define POW(x, y) powf(x, y)
#define EXP(x) dp_exp(x)
#include "kernels/loops_optimizer_real.tmpl.h"

#define T double
#define SUFFIX double
#define SQRT(x) sqrt(x)
#include "kernels/loops_optimizer.tmpl.h"
#define ABS(x) fabs(x)
#define POW(x, y) pow(x, y)
#define EXP(x) exp(x)
#include "kernels/loops_optimizer_real.tmpl.h"

#define T dp_complex64
#define SUFFIX complex64
#define SQRT(x) csqrtf(x)
#include "kernels/loops_optimizer.tmpl.h"
#undef T
#undef SUFFIX
#undef SQRT

#define T dp_complex128
#define SUFFIX complex128
#define SQRT(x) csqrt(x)
#include "kernels/loops_optimizer.tmpl.h"
#undef T
#undef SUFFIX
#undef SQRT

#define COMMON(suffix)                                                                             \
  [DP_OPTIMIZER_gradient_descent] = gradient_descent_##suffix,                                     \
  [DP_OPTIMIZER_momentum] = momentum_##suffix,                                                     \
  [DP_OPTIMIZER_keras_momentum] = keras_momentum_##suffix,                                         \
  [DP_OPTIMIZER_adagrad] = adagrad_##suffix, [DP_OPTIMIZER_adagrad_v2] = adagrad_v2_##suffix,      \
  [DP_OPTIMIZER_adadelta] = adadelta_##suffix, [DP_OPTIMIZER_adam] = adam_##suffix,                \
  [DP_OPTIMIZER_rmsprop] = rmsprop_##suffix,                                                       \
  [DP_OPTIMIZER_centered_rmsprop] = centered_rmsprop_##suffix
#define REAL(suffix)                                                                               \
  [DP_OPTIMIZER_proximal_gradient_descent] = proximal_gradient_descent_##suffix,                   \
  [DP_OPTIMIZER_adagrad_da] = adagrad_da_##suffix,                                                 \
  [DP_OPTIMIZER_proximal_adagrad] = proximal_adagrad_##suffix,                                     \
  [DP_OPTIMIZER_adamax] = adamax_##suffix, [DP_OPTIMIZER_amsgrad] = amsgrad_##suffix,              \
  [DP_OPTIMIZER_ftrl] = ftrl_##suffix, [DP_OPTIMIZER_ftrl_v2] = ftrl_v2_##suffix,                  \
  [DP_OPTIMIZER_add_sign] = add_sign_##suffix, [DP_OPTIMIZER_power_sign] = power_sign_##suffix

const dp_optimizer_loops DP_ISA_SYMBOL(dp_optimizer_table) = {
    .of_float = {COMMON(float), REAL(float)},
    .of_double = {COMMON(double), REAL(double)},
    .of_complex64 = {COMMON(complex64)},
    .of_complex128 = {COMMON(complex128)},
};
