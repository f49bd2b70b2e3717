/* Gradients of elementwise arithmetic, and of casts and complex parts. Complex types follow
 * TensorFlow: the derivative is conjugated before it is multiplied with the gradient. */
#include "client/gradient_internal.h"

/* ---- One input ---- */

/* dy times the conjugate of a derivative. */
static TF_Output times(gradient_call *g, TF_Output derivative) {
  return dp_mul(g->scope, above(g, 0), conjugate(g->scope, derivative));
}

static TF_Output half(gradient_call *g) {
  return number_like(g->scope, input(g, 0), 0.5);
}

static TF_Output one(gradient_call *g) {
  return number_like(g->scope, input(g, 0), 1);
}

static void negated(gradient_call *g) {
  GIVE(g, 0, dp_neg(g->scope, above(g, 0)));
}

static void passed_on(gradient_call *g) {
  GIVE(g, 0, above(g, 0));
}

/* The derivative is 0 wherever it exists. */
static void flat(gradient_call *g) {
  GIVE(g, 0, dp_zeros_like(g->scope, input(g, 0)));
}

static void absolute(gradient_call *g) {
  GIVE(g, 0, dp_mul(g->scope, above(g, 0), dp_sign(g->scope, input(g, 0))));
}

static void complex_absolute(gradient_call *g) {
  dp_scope *s = g->scope;
  TF_Output dy =
      dp_complex(s, above(g, 0), dp_zeros_like(s, above(g, 0)), .tout = type_of(input(g, 0)));
  GIVE(g, 0, dp_mul(s, dy, dp_sign(s, input(g, 0))));
}

static void square(gradient_call *g) {
  GIVE(g, 0, times(g, dp_mul(g->scope, input(g, 0), number_like(g->scope, input(g, 0), 2))));
}

static void square_root(gradient_call *g) {
  GIVE(g, 0, dp_sqrt_grad(g->scope, output(g, 0), above(g, 0)));
}

static void reciprocal_root(gradient_call *g) {
  GIVE(g, 0, dp_rsqrt_grad(g->scope, output(g, 0), above(g, 0)));
}

static void reciprocal(gradient_call *g) {
  GIVE(g, 0, dp_reciprocal_grad(g->scope, output(g, 0), above(g, 0)));
}

static void exponential(gradient_call *g) {
  GIVE(g, 0, times(g, output(g, 0)));
}

static void exponential_minus_one(gradient_call *g) {
  GIVE(g, 0, times(g, dp_exp(g->scope, input(g, 0))));
}

static void logarithm(gradient_call *g) {
  GIVE(g, 0, times(g, dp_reciprocal(g->scope, input(g, 0))));
}

static void logarithm_of_one_plus(gradient_call *g) {
  GIVE(g, 0, times(g, dp_reciprocal(g->scope, dp_add(g->scope, one(g), input(g, 0)))));
}

static void sine(gradient_call *g) {
  GIVE(g, 0, times(g, dp_cos(g->scope, input(g, 0))));
}

static void cosine(gradient_call *g) {
  GIVE(g, 0, dp_neg(g->scope, times(g, dp_sin(g->scope, input(g, 0)))));
}

static void tangent(gradient_call *g) {
  TF_Output secant = dp_reciprocal(g->scope, dp_cos(g->scope, input(g, 0)));
  GIVE(g, 0, times(g, dp_square(g->scope, secant)));
}

static void hyperbolic_sine(gradient_call *g) {
  GIVE(g, 0, times(g, dp_cosh(g->scope, input(g, 0))));
}

static void hyperbolic_cosine(gradient_call *g) {
  GIVE(g, 0, times(g, dp_sinh(g->scope, input(g, 0))));
}

/* 1 / sqrt(1 - x^2) */
static TF_Output arc_derivative(gradient_call *g) {
  dp_scope *s = g->scope;
  return dp_reciprocal(s, dp_sqrt(s, dp_sub(s, one(g), dp_square(s, input(g, 0)))));
}

static void arc_sine(gradient_call *g) {
  GIVE(g, 0, times(g, arc_derivative(g)));
}

static void arc_cosine(gradient_call *g) {
  GIVE(g, 0, dp_neg(g->scope, times(g, arc_derivative(g))));
}

static void arc_tangent(gradient_call *g) {
  dp_scope *s = g->scope;
  GIVE(g, 0, times(g, dp_reciprocal(s, dp_add(s, one(g), dp_square(s, input(g, 0))))));
}

static void area_sine(gradient_call *g) {
  dp_scope *s = g->scope;
  GIVE(g, 0, dp_div(s, above(g, 0), conjugate(s, dp_cosh(s, output(g, 0)))));
}

static void area_cosine(gradient_call *g) {
  dp_scope *s = g->scope;
  GIVE(g, 0, dp_div(s, above(g, 0), conjugate(s, dp_sinh(s, output(g, 0)))));
}

static void area_tangent(gradient_call *g) {
  dp_scope *s = g->scope;
  GIVE(g, 0, times(g, dp_reciprocal(s, dp_sub(s, one(g), dp_square(s, input(g, 0))))));
}

static void hyperbolic_tangent(gradient_call *g) {
  GIVE(g, 0, dp_tanh_grad(g->scope, output(g, 0), above(g, 0)));
}

static void sigmoid(gradient_call *g) {
  GIVE(g, 0, dp_sigmoid_grad(g->scope, output(g, 0), above(g, 0)));
}

/* scale * exp(-x^2) */
static TF_Output bell(gradient_call *g, double scale) {
  dp_scope *s = g->scope;
  TF_Output curve = dp_exp(s, dp_neg(s, dp_square(s, input(g, 0))));
  return dp_mul(s, number_like(s, input(g, 0), scale), curve);
}

static void error_function(gradient_call *g) {
  GIVE(g, 0, times(g, bell(g, 1.1283791670955126)));
}

static void error_complement(gradient_call *g) {
  GIVE(g, 0, times(g, bell(g, -1.1283791670955126)));
}

static void log_gamma(gradient_call *g) {
  GIVE(g, 0, times(g, dp_digamma(g->scope, input(g, 0))));
}

static void digamma(gradient_call *g) {
  TF_Output second = dp_polygamma(g->scope, one(g), input(g, 0));
  GIVE(g, 0, times(g, second));
}

/* ---- Gradients of gradients: y = f'(x) * dy, given as a function of f(x) ---- */

static void sigmoid_again(gradient_call *g) {
  dp_scope *s = g->scope;
  TF_Output y = conjugate(s, input(g, 0)), dy = conjugate(s, input(g, 1)), above0 = above(g, 0);
  TF_Output product = dp_mul(s, above0, dy);
  TF_Output slope = dp_sub(s, product, dp_mul(s, number_like(s, y, 2), dp_mul(s, product, y)));
  GIVE(g, 0, slope);
  GIVE(g, 1, dp_sigmoid_grad(s, y, above0));
}

static void tanh_again(gradient_call *g) {
  dp_scope *s = g->scope;
  TF_Output y = conjugate(s, input(g, 0)), dy = conjugate(s, input(g, 1)), above0 = above(g, 0);
  GIVE(g, 0, dp_mul(s, dp_mul(s, number_like(s, y, -2), above0), dp_mul(s, dy, y)));
  GIVE(g, 1, dp_tanh_grad(s, y, above0));
}

/* RsqrtGrad(y, dy) = -0.5 dy y^3 */
static void reciprocal_root_again(gradient_call *g) {
  dp_scope *s = g->scope;
  TF_Output y = conjugate(s, input(g, 0)), dy = conjugate(s, input(g, 1)), above0 = above(g, 0);
  TF_Output slope = dp_mul(s, dp_mul(s, number_like(s, y, -1.5), above0), dy);
  GIVE(g, 0, dp_mul(s, slope, dp_square(s, y)));
  GIVE(g, 1, dp_rsqrt_grad(s, y, above0));
}

/* SqrtGrad(y, dy) = 0.5 dy / y */
static void square_root_again(gradient_call *g) {
  dp_scope *s = g->scope;
  TF_Output y = input(g, 0), ratio = dp_div(s, above(g, 0), y);
  GIVE(g, 0, dp_neg(s, dp_mul(s, conjugate(s, ratio), output(g, 0))));
  GIVE(g, 1, dp_mul(s, half(g), ratio));
}

/* ReciprocalGrad(y, dy) = -dy y^2 */
static void reciprocal_again(gradient_call *g) {
  dp_scope *s = g->scope;
  TF_Output y = conjugate(s, input(g, 0)), dy = conjugate(s, input(g, 1)), above0 = above(g, 0);
  GIVE(g, 0, dp_mul(s, dp_mul(s, number_like(s, y, -2), above0), dp_mul(s, dy, y)));
  GIVE(g, 1, dp_reciprocal_grad(s, y, above0));
}

/* ---- Two inputs, broadcast ---- */

/* Gives both gradients of a broadcasting op. a and b are gradients in the shape of the result; they
 * are summed to the shapes of the inputs. */
#define GIVE_BROADCAST(g, a, b)                                                                    \
  do {                                                                                             \
    broadcast_pair pair = broadcast_of((g)->scope, input(g, 0), input(g, 1));                      \
    GIVE(g, 0, unbroadcast((g)->scope, &pair, 0, a));                                              \
    GIVE(g, 1, unbroadcast((g)->scope, &pair, 1, b));                                              \
  } while (0)

static void sum(gradient_call *g) {
  GIVE_BROADCAST(g, above(g, 0), above(g, 0));
}

static void difference(gradient_call *g) {
  GIVE_BROADCAST(g, above(g, 0), dp_neg(g->scope, above(g, 0)));
}

static void product(gradient_call *g) {
  GIVE_BROADCAST(g, times(g, input(g, 1)), times(g, input(g, 0)));
}

static void product_no_nan(gradient_call *g) {
  dp_scope *s = g->scope;
  GIVE_BROADCAST(g, dp_mul_no_nan(s, above(g, 0), input(g, 1)),
                 dp_mul_no_nan(s, input(g, 0), above(g, 0)));
}

/* dy * -x / y / y */
static TF_Output denominator(gradient_call *g) {
  dp_scope *s = g->scope;
  TF_Output x = conjugate(s, input(g, 0)), y = conjugate(s, input(g, 1));
  return dp_mul(s, above(g, 0), dp_real_div(s, dp_real_div(s, dp_neg(s, x), y), y));
}

static void quotient(gradient_call *g) {
  dp_scope *s = g->scope;
  GIVE_BROADCAST(g, dp_real_div(s, above(g, 0), conjugate(s, input(g, 1))), denominator(g));
}

static TF_Output denominator_or_zero(gradient_call *g) {
  dp_scope *s = g->scope;
  TF_Output x = conjugate(s, input(g, 0)), y = conjugate(s, input(g, 1));
  return dp_mul(s, above(g, 0), dp_div_no_nan(s, dp_div_no_nan(s, dp_neg(s, x), y), y));
}

static void quotient_or_zero(gradient_call *g) {
  dp_scope *s = g->scope;
  GIVE_BROADCAST(g, dp_div_no_nan(s, above(g, 0), conjugate(s, input(g, 1))),
                 denominator_or_zero(g));
}

static void squared_difference(gradient_call *g) {
  dp_scope *s = g->scope;
  TF_Output twice = dp_mul(s, number_like(s, above(g, 0), 2), above(g, 0));
  TF_Output slope = dp_mul(s, twice, dp_sub(s, input(g, 0), input(g, 1)));
  GIVE_BROADCAST(g, slope, dp_neg(s, slope));
}

/* dy * log(x) * x^y, and 0 where x is not positive (for complex numbers: where it is 0). */
static TF_Output exponent(gradient_call *g) {
  dp_scope *s = g->scope;
  TF_Output x = conjugate(s, input(g, 0)), z = conjugate(s, output(g, 0)),
            zero = dp_zeros_like(s, x);
  bool is_complex = type_of(x) == TF_COMPLEX64 || type_of(x) == TF_COMPLEX128;
  TF_Output has_log = is_complex ? dp_not_equal(s, x, zero) : dp_greater(s, x, zero);
  TF_Output safe = dp_select(s, has_log, x, dp_ones_like(s, x));
  TF_Output log = dp_select(s, has_log, dp_log(s, safe), zero);
  return dp_mul(s, dp_mul(s, above(g, 0), z), log);
}

static TF_Output base(gradient_call *g) {
  dp_scope *s = g->scope;
  TF_Output x = conjugate(s, input(g, 0)), y = conjugate(s, input(g, 1));
  TF_Output lower = dp_pow(s, x, dp_sub(s, y, number_like(s, y, 1)));
  return dp_mul(s, dp_mul(s, above(g, 0), y), lower);
}

static void power(gradient_call *g) {
  GIVE_BROADCAST(g, base(g), exponent(g));
}

static TF_Output where(gradient_call *g, TF_Output condition, bool is_inverted) {
  TF_Output dy = above(g, 0), zero = dp_zeros_like(g->scope, dy);
  return is_inverted ? dp_select(g->scope, condition, zero, dy)
                     : dp_select(g->scope, condition, dy, zero);
}

static void maximum(gradient_call *g) {
  TF_Output is_first = dp_greater_equal(g->scope, input(g, 0), input(g, 1));
  GIVE_BROADCAST(g, where(g, is_first, false), where(g, is_first, true));
}

static void minimum(gradient_call *g) {
  TF_Output is_first = dp_less_equal(g->scope, input(g, 0), input(g, 1));
  GIVE_BROADCAST(g, where(g, is_first, false), where(g, is_first, true));
}

/* x - floor(x / y) * y */
static void floor_mod(gradient_call *g) {
  dp_scope *s = g->scope;
  GIVE_BROADCAST(g, above(g, 0),
                 dp_mul(s, above(g, 0), dp_neg(s, dp_floor_div(s, input(g, 0), input(g, 1)))));
}

static void truncate_mod(gradient_call *g) {
  dp_scope *s = g->scope;
  TF_Output whole = dp_truncate_div(s, input(g, 0), input(g, 1));
  GIVE_BROADCAST(g, above(g, 0), dp_mul(s, above(g, 0), dp_neg(s, whole)));
}

static void arc_tangent_of_two(gradient_call *g) {
  dp_scope *s = g->scope;
  TF_Output y = input(g, 0), x = input(g, 1);
  TF_Output norm = dp_add(s, dp_square(s, x), dp_square(s, y));
  TF_Output scaled = dp_div(s, above(g, 0), norm);
  GIVE_BROADCAST(g, dp_mul(s, x, scaled), dp_mul(s, dp_neg(s, y), scaled));
}

static TF_Output as_number(gradient_call *g, TF_Output truth) {
  return dp_cast(g->scope, truth, type_of(above(g, 0)));
}

/* x log y, and 0 where x is 0 */
static void x_log_y(gradient_call *g) {
  dp_scope *s = g->scope;
  TF_Output x = input(g, 0), y = input(g, 1);
  TF_Output not_zero = as_number(g, dp_not_equal(s, x, number_like(s, x, 0)));
  GIVE_BROADCAST(g, dp_mul(s, dp_xlogy(s, not_zero, y), above(g, 0)),
                 dp_mul(s, dp_xdivy(s, x, y), above(g, 0)));
}

static void x_over_y(gradient_call *g) {
  dp_scope *s = g->scope;
  TF_Output x = input(g, 0), y = input(g, 1);
  TF_Output not_zero = as_number(g, dp_not_equal(s, x, number_like(s, x, 0)));
  GIVE_BROADCAST(g, dp_mul(s, dp_xdivy(s, not_zero, y), above(g, 0)),
                 dp_mul(s, dp_xdivy(s, dp_neg(s, x), dp_square(s, y)), above(g, 0)));
}

/* ---- Several inputs ---- */

static void add_n(gradient_call *g) {
  for (int i = 0; i < input_count(g); i++)
    GIVE(g, i, above(g, 0));
}

static void select_rows(gradient_call *g) {
  dp_scope *s = g->scope;
  TF_Output condition = input(g, 0), dy = above(g, 0), zero = dp_zeros_like(s, dy);
  GIVE(g, 1, dp_select(s, condition, dy, zero));
  GIVE(g, 2, dp_select(s, condition, zero, dy));
}

static void select_broadcast(gradient_call *g) {
  dp_scope *s = g->scope;
  TF_Output condition = input(g, 0), dy = above(g, 0), zero = number_like(s, dy, 0);
  for (int side = 0; side < 2; side++) {
    broadcast_pair pair = broadcast_of(s, input(g, 1 + side), output(g, 0));
    TF_Output kept =
        side ? dp_select_v2(s, condition, zero, dy) : dp_select_v2(s, condition, dy, zero);
    GIVE(g, 1 + side, unbroadcast(s, &pair, 0, kept));
  }
}

static void clip_by_value(gradient_call *g) {
  dp_scope *s = g->scope;
  TF_Output x = input(g, 0), low = input(g, 1), high = input(g, 2), dy = above(g, 0);
  TF_Output is_low = dp_less(s, x, low), is_high = dp_greater(s, x, high);
  TF_Output zero = number_like(s, dy, 0), is_out = dp_logical_or(s, is_low, is_high);
  broadcast_pair lower = broadcast_of(s, x, low), upper = broadcast_of(s, x, high);
  GIVE(g, 0, unbroadcast(s, &lower, 0, dp_select_v2(s, is_out, zero, dy)));
  GIVE(g, 1, unbroadcast(s, &lower, 1, dp_select_v2(s, is_low, dy, zero)));
  GIVE(g, 2, unbroadcast(s, &upper, 1, dp_select_v2(s, is_high, dy, zero)));
}

/* ---- Types ---- */

static bool is_numeric(TF_DataType type) {
  return type == TF_FLOAT || type == TF_DOUBLE || type == TF_HALF || type == TF_BFLOAT16 ||
         type == TF_COMPLEX64 || type == TF_COMPLEX128;
}

static void cast(gradient_call *g) {
  TF_DataType from = type_of(input(g, 0)), to = type_of(output(g, 0));
  if (is_numeric(from) && is_numeric(to))
    GIVE(g, 0, dp_cast(g->scope, above(g, 0), from));
}

static void complex(gradient_call *g) {
  dp_scope *s = g->scope;
  broadcast_pair pair = broadcast_of(s, input(g, 0), input(g, 1));
  TF_DataType part = type_of(input(g, 0));
  GIVE(g, 0, unbroadcast(s, &pair, 0, dp_real(s, above(g, 0), .tout = part)));
  GIVE(g, 1, unbroadcast(s, &pair, 1, dp_imag(s, above(g, 0), .tout = part)));
}

static void real_part(gradient_call *g) {
  dp_scope *s = g->scope;
  TF_Output dy = above(g, 0), zero = number_like(s, dy, 0);
  GIVE(g, 0, dp_complex(s, dy, zero, .tout = type_of(input(g, 0))));
}

static void imaginary_part(gradient_call *g) {
  dp_scope *s = g->scope;
  TF_Output dy = above(g, 0), zero = number_like(s, dy, 0);
  GIVE(g, 0, dp_complex(s, zero, dy, .tout = type_of(input(g, 0))));
}

/* d/dz arg z, as TensorFlow has it: -dy / (im z + i re z) */
static void angle(gradient_call *g) {
  dp_scope *s = g->scope;
  TF_Output z = input(g, 0), dy = above(g, 0);
  TF_DataType part = type_of(dy);
  TF_Output turned =
      dp_complex(s, dp_imag(s, z, .tout = part), dp_real(s, z, .tout = part), .tout = type_of(z));
  TF_Output wide = dp_complex(s, dy, number_like(s, dy, 0), .tout = type_of(z));
  GIVE(g, 0, dp_mul(s, dp_neg(s, wide), dp_reciprocal(s, turned)));
}

static void conjugated(gradient_call *g) {
  GIVE(g, 0, dp_conj(g->scope, above(g, 0)));
}

const gradient_row dp_gradient_math[] = {
    {"Abs", absolute},
    {"AccumulateNV2", add_n},
    {"Acos", arc_cosine},
    {"Acosh", area_cosine},
    {"Add", sum},
    {"AddN", add_n},
    {"AddV2", sum},
    {"Angle", angle},
    {"Asin", arc_sine},
    {"Asinh", area_sine},
    {"Atan", arc_tangent},
    {"Atan2", arc_tangent_of_two},
    {"Atanh", area_tangent},
    {"Cast", cast},
    {"ClipByValue", clip_by_value},
    {"Complex", complex},
    {"ComplexAbs", complex_absolute},
    {"Conj", conjugated},
    {"Cos", cosine},
    {"Cosh", hyperbolic_cosine},
    {"Digamma", digamma},
    {"Div", quotient},
    {"DivNoNan", quotient_or_zero},
    {"Erf", error_function},
    {"Erfc", error_complement},
    {"Exp", exponential},
    {"Expm1", exponential_minus_one},
    {"FloorMod", floor_mod},
    {"Imag", imaginary_part},
    {"Inv", reciprocal},
    {"InvGrad", reciprocal_again},
    {"Lgamma", log_gamma},
    {"Log", logarithm},
    {"Log1p", logarithm_of_one_plus},
    {"Maximum", maximum},
    {"Minimum", minimum},
    {"Mod", truncate_mod},
    {"Mul", product},
    {"MulNoNan", product_no_nan},
    {"Neg", negated},
    {"Pow", power},
    {"Real", real_part},
    {"RealDiv", quotient},
    {"Reciprocal", reciprocal},
    {"ReciprocalGrad", reciprocal_again},
    {"Rsqrt", reciprocal_root},
    {"RsqrtGrad", reciprocal_root_again},
    {"Select", select_rows},
    {"SelectV2", select_broadcast},
    {"Sigmoid", sigmoid},
    {"SigmoidGrad", sigmoid_again},
    {"Sign", flat},
    {"Sin", sine},
    {"Sinh", hyperbolic_sine},
    {"Snapshot", passed_on},
    {"Sqrt", square_root},
    {"SqrtGrad", square_root_again},
    {"Square", square},
    {"SquaredDifference", squared_difference},
    {"Sub", difference},
    {"Tan", tangent},
    {"Tanh", hyperbolic_tangent},
    {"TanhGrad", tanh_again},
    {"TruncateMod", truncate_mod},
    {"Xdivy", x_over_y},
    {"Xlogy", x_log_y},
    {NULL, NULL},
};
