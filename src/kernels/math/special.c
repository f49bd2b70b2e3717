/* Loops over the special functions (Digamma, Erfinv, Igamma, Zeta and so on), found by the op's
 * name. unary.c and binary.c use them for ops without a vector loop. Floats are computed in double.
 * Betainc, with three inputs, is a family of its own. */
#include "kernels/math/special_internal.h"

#include <math.h>
#include <string.h>
#include "kernels/shared/family.h"
#include "kernels/special/special.h"

/* ---- One input ---- */
#define UNARY_OPS(X)                                                                               \
  X(Lgamma, dp_special_lgamma)                                                                     \
  X(Digamma, dp_special_digamma)                                                                   \
  X(Erfinv, dp_special_erfinv)                                                                     \
  X(Ndtri, dp_special_ndtri)                                                                       \
  X(Dawsn, dp_special_dawsn)                                                                       \
  X(BesselI0, dp_special_i0)                                                                       \
  X(BesselI1, dp_special_i1)                                                                       \
  X(BesselI0e, dp_special_i0e)                                                                     \
  X(BesselI1e, dp_special_i1e)                                                                     \
  X(BesselK0, dp_special_k0)                                                                       \
  X(BesselK1, dp_special_k1)                                                                       \
  X(BesselK0e, dp_special_k0e)                                                                     \
  X(BesselK1e, dp_special_k1e)                                                                     \
  X(BesselJ0, j0)                                                                                  \
  X(BesselJ1, j1)                                                                                  \
  X(BesselY0, y0)                                                                                  \
  X(BesselY1, y1)                                                                                  \
  X(Expint, dp_special_expint)                                                                     \
  X(FresnelCos, dp_special_fresnel_cos)                                                            \
  X(FresnelSin, dp_special_fresnel_sin)                                                            \
  X(Spence, dp_special_spence)

#define UNARY_LOOPS(op, function)                                                                  \
  static void op##_float(const void *from, void *to, int64_t count) {                              \
    for (int64_t i = 0; i < count; ++i)                                                            \
      ((float *)to)[i] = (float)function((double)((const float *)from)[i]);                        \
  }                                                                                                \
  static void op##_double(const void *from, void *to, int64_t count) {                             \
    for (int64_t i = 0; i < count; ++i)                                                            \
      ((double *)to)[i] = function(((const double *)from)[i]);                                     \
  }
UNARY_OPS(UNARY_LOOPS)
#undef UNARY_LOOPS

dp_unary_fn dp_special_unary_loop(const char *op, dp_dtype dtype) {
  static const struct {
    const char *op;
    dp_unary_fn float_fn, double_fn;
  } table[] = {
#define UNARY_ROW(op, function) {#op, op##_float, op##_double},
      UNARY_OPS(UNARY_ROW)
#undef UNARY_ROW
  };
  for (size_t i = 0; i < sizeof table / sizeof table[0]; ++i)
    if (strcmp(table[i].op, op) == 0)
      return dtype == DP_FLOAT ? table[i].float_fn : dtype == DP_DOUBLE ? table[i].double_fn : NULL;
  return NULL;
}

/* ---- Two inputs ---- */
#define BINARY_OPS(X)                                                                              \
  X(Igamma, dp_special_igamma)                                                                     \
  X(Igammac, dp_special_igammac)                                                                   \
  X(IgammaGradA, dp_special_igamma_grad_a)                                                         \
  X(Zeta, dp_special_zeta)                                                                         \
  X(Polygamma, dp_special_polygamma)

#define BINARY_LOOP(name, type, function)                                                          \
  static bool name(const void *a_data, const void *b_data, void *to_data,                          \
                   const dp_binary_span *span) {                                                   \
    const type *a = a_data, *b = b_data;                                                           \
    type *to = to_data;                                                                            \
    for (int64_t row = 0; row < span->outer; ++row) {                                              \
      for (int64_t i = 0; i < span->inner; ++i)                                                    \
        *to++ = (type)function((double)a[i * span->a_inner], (double)b[i * span->b_inner]);        \
      a += span->a_outer;                                                                          \
      b += span->b_outer;                                                                          \
    }                                                                                              \
    return true;                                                                                   \
  }
#define BINARY_LOOPS(op, function)                                                                 \
  BINARY_LOOP(op##_float, float, function)                                                         \
  BINARY_LOOP(op##_double, double, function)
BINARY_OPS(BINARY_LOOPS)
#undef BINARY_LOOPS

dp_binary_fn dp_special_binary_loop(const char *op, dp_dtype dtype) {
  static const struct {
    const char *op;
    dp_binary_fn float_fn, double_fn;
  } table[] = {
#define BINARY_ROW(op, function) {#op, op##_float, op##_double},
      BINARY_OPS(BINARY_ROW)
#undef BINARY_ROW
  };
  for (size_t i = 0; i < sizeof table / sizeof table[0]; ++i)
    if (strcmp(table[i].op, op) == 0)
      return dtype == DP_FLOAT ? table[i].float_fn : dtype == DP_DOUBLE ? table[i].double_fn : NULL;
  return NULL;
}

/* ---- Betainc ---- */
typedef struct beta_work {
  const dp_tensor *inputs[3];
  dp_tensor *output;
} beta_work;

static double real_at(const dp_tensor *tensor, int64_t i) {
  i = tensor->shape.rank == 0 ? 0 : i;
  return tensor->dtype == DP_FLOAT ? (double)((const float *)tensor->data)[i]
                                   : ((const double *)tensor->data)[i];
}

static void run_beta(void *arg, int64_t begin, int64_t end) {
  const beta_work *work = arg;
  for (int64_t i = begin; i < end; ++i) {
    double value = dp_special_betainc(real_at(work->inputs[0], i), real_at(work->inputs[1], i),
                                      real_at(work->inputs[2], i));
    if (work->output->dtype == DP_FLOAT)
      ((float *)work->output->data)[i] = (float)value;
    else
      ((double *)work->output->data)[i] = value;
  }
}

/* Inputs are scalars or have one common shape. */
static dp_status *beta_compute(dp_op_context *context, void *memory) {
  static const char *const names[] = {"a", "b", "x"};
  beta_work work = {{dp_op_input(context, 0), dp_op_input(context, 1), dp_op_input(context, 2)}};
  const dp_tensor *shaped = NULL;
  int which = 0;
  for (int i = 0; i < 3; ++i) {
    const dp_tensor *input = work.inputs[i];
    if (input->shape.rank == 0)
      continue;
    if (shaped && !dp_shape_equal(&shaped->shape, &input->shape))
      return DP_INVALID("Shapes of %s and %s are inconsistent: %s vs. %s", names[which], names[i],
                        dp_shape_text(&shaped->shape), dp_shape_text(&input->shape));
    shaped = input;
    which = i;
  }
  dp_shape shape = shaped ? shaped->shape : dp_shape_scalar();
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &shape, &work.output));
  dp_op_for(context, shape.elements, 200, run_beta, &work);
  return NULL;
}

static const dp_kernel rows[] = {
    {.op = "Betainc", .types = {{"T", DP_SET(FLOAT) | DP_SET(DOUBLE)}}, .compute = beta_compute},
};
DP_KERNEL_FAMILY(special, rows);
