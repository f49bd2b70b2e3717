/* Gradients of special functions (Bessel, Fresnel, gamma, beta, zeta...) and of random samples with
 * respect to their parameters. At points where a formula is undefined, such as 0 / 0 at x = 0, the
 * gradient is the number that TensorFlow gives. */
#include "client/gradient_internal.h"

/* ---- One input: `x` and `y` are the op's input and output ---- */

static TF_Output times(gradient_call *g, TF_Output derivative) {
  return dp_mul(g->scope, above(g, 0), derivative);
}

static TF_Output number(gradient_call *g, double value) {
  return number_like(g->scope, input(g, 0), value);
}

static TF_Output minus(gradient_call *g, TF_Output a, TF_Output b) {
  return dp_sub(g->scope, a, b);
}

/* y / x */
static TF_Output ratio(gradient_call *g) {
  return dp_div(g->scope, output(g, 0), input(g, 0));
}

/* `derivative`, and `at_zero` where x is 0. */
static TF_Output unless_zero(gradient_call *g, double at_zero, TF_Output derivative) {
  dp_scope *s = g->scope;
  return dp_select_v2(s, dp_equal(s, input(g, 0), number(g, 0)), number(g, at_zero), derivative);
}

/* scale * exp(factor * y^2) */
static TF_Output widening(gradient_call *g, double scale, double factor) {
  dp_scope *s = g->scope;
  TF_Output exponent = dp_mul(s, dp_square(s, output(g, 0)), number(g, factor));
  return dp_mul(s, number(g, scale), dp_exp(s, exponent));
}

static void inverse_error(gradient_call *g) {
  GIVE(g, 0, times(g, widening(g, 0.886226925452758, 1)));
}

static void normal_quantile(gradient_call *g) {
  GIVE(g, 0, times(g, widening(g, 2.5066282746310002, 0.5)));
}

/* 1 - 2 x y */
static void dawson(gradient_call *g) {
  dp_scope *s = g->scope;
  TF_Output product = dp_mul(s, input(g, 0), output(g, 0));
  GIVE(g, 0, times(g, minus(g, number(g, 1), dp_mul(s, number(g, 2), product))));
}

static void exponential_integral(gradient_call *g) {
  dp_scope *s = g->scope;
  GIVE(g, 0, times(g, dp_div(s, dp_exp(s, input(g, 0)), input(g, 0))));
}

/* pi / 2 x^2 */
static TF_Output fresnel_angle(gradient_call *g) {
  return dp_mul(g->scope, number(g, 1.5707963267948966), dp_square(g->scope, input(g, 0)));
}

static void fresnel_cosine(gradient_call *g) {
  GIVE(g, 0, times(g, dp_cos(g->scope, fresnel_angle(g))));
}

static void fresnel_sine(gradient_call *g) {
  GIVE(g, 0, times(g, dp_sin(g->scope, fresnel_angle(g))));
}

/* log(x) / (1 - x), which goes to -1 at 1 */
static void spence(gradient_call *g) {
  dp_scope *s = g->scope;
  TF_Output x = input(g, 0), one = number(g, 1);
  TF_Output slope = dp_div(s, dp_log(s, x), dp_sub(s, one, x));
  GIVE(g, 0, times(g, dp_select_v2(s, dp_equal(s, x, one), number(g, -1), slope)));
}

static void bessel_i0(gradient_call *g) {
  GIVE(g, 0, times(g, dp_bessel_i1(g->scope, input(g, 0))));
}

static void bessel_i0e(gradient_call *g) {
  dp_scope *s = g->scope;
  TF_Output scaled = dp_mul(s, dp_sign(s, input(g, 0)), output(g, 0));
  GIVE(g, 0, times(g, minus(g, dp_bessel_i1e(s, input(g, 0)), scaled)));
}

static void bessel_i1(gradient_call *g) {
  TF_Output slope = minus(g, dp_bessel_i0(g->scope, input(g, 0)), ratio(g));
  GIVE(g, 0, times(g, unless_zero(g, 1, slope)));
}

static void bessel_i1e(gradient_call *g) {
  dp_scope *s = g->scope;
  TF_Output x = input(g, 0);
  TF_Output factor = dp_add(s, dp_sign(s, x), dp_reciprocal(s, x));
  TF_Output slope = minus(g, dp_bessel_i0e(s, x), dp_mul(s, output(g, 0), factor));
  GIVE(g, 0, times(g, unless_zero(g, 0.5, slope)));
}

static void bessel_k0(gradient_call *g) {
  GIVE(g, 0, times(g, dp_neg(g->scope, dp_bessel_k1(g->scope, input(g, 0)))));
}

static void bessel_k0e(gradient_call *g) {
  GIVE(g, 0, times(g, minus(g, output(g, 0), dp_bessel_k1e(g->scope, input(g, 0)))));
}

static void bessel_k1(gradient_call *g) {
  dp_scope *s = g->scope;
  GIVE(g, 0, times(g, dp_neg(s, dp_add(s, dp_bessel_k0(s, input(g, 0)), ratio(g)))));
}

/* y (1 - 1 / x) - k0e(x) */
static void bessel_k1e(gradient_call *g) {
  TF_Output rest = minus(g, output(g, 0), ratio(g));
  GIVE(g, 0, times(g, minus(g, rest, dp_bessel_k0e(g->scope, input(g, 0)))));
}

static void bessel_j0(gradient_call *g) {
  GIVE(g, 0, times(g, dp_neg(g->scope, dp_bessel_j1(g->scope, input(g, 0)))));
}

static void bessel_j1(gradient_call *g) {
  TF_Output slope = minus(g, dp_bessel_j0(g->scope, input(g, 0)), ratio(g));
  GIVE(g, 0, times(g, unless_zero(g, 0.5, slope)));
}

static void bessel_y0(gradient_call *g) {
  GIVE(g, 0, times(g, dp_neg(g->scope, dp_bessel_y1(g->scope, input(g, 0)))));
}

static void bessel_y1(gradient_call *g) {
  GIVE(g, 0, times(g, minus(g, dp_bessel_y0(g->scope, input(g, 0)), ratio(g))));
}

/* ---- Several inputs, broadcast ---- */

/* Gives input `index` the gradient for the derivative `value`, which has the broadcast shape. */
static void give_side(gradient_call *g, int index, TF_Output value) {
  broadcast_pair pair = broadcast_of(g->scope, input(g, index), output(g, 0));
  GIVE(g, index, unbroadcast(g->scope, &pair, 0, times(g, value)));
}

/* x^(a - 1) exp(-x) / gamma(a) */
static TF_Output gamma_density(gradient_call *g) {
  dp_scope *s = g->scope;
  TF_Output a = input(g, 0), x = input(g, 1);
  TF_Output power = dp_mul(s, dp_sub(s, a, number(g, 1)), dp_log(s, x));
  return dp_exp(s, dp_sub(s, dp_sub(s, power, x), dp_lgamma(s, a)));
}

static void lower_gamma(gradient_call *g) {
  give_side(g, 0, dp_igamma_grad_a(g->scope, input(g, 0), input(g, 1)));
  give_side(g, 1, gamma_density(g));
}

static void upper_gamma(gradient_call *g) {
  dp_scope *s = g->scope;
  give_side(g, 0, dp_neg(s, dp_igamma_grad_a(s, input(g, 0), input(g, 1))));
  give_side(g, 1, dp_neg(s, gamma_density(g)));
}

/* For x alone: x^(a - 1) (1 - x)^(b - 1) / beta(a, b) */
static void incomplete_beta(gradient_call *g) {
  dp_scope *s = g->scope;
  TF_Output a = input(g, 0), b = input(g, 1), x = input(g, 2), one = number(g, 1);
  TF_Output beta =
      dp_sub(s, dp_add(s, dp_lgamma(s, a), dp_lgamma(s, b)), dp_lgamma(s, dp_add(s, a, b)));
  TF_Output power =
      dp_add(s, dp_xlog1py(s, dp_sub(s, b, one), dp_neg(s, x)), dp_xlogy(s, dp_sub(s, a, one), x));
  give_side(g, 2, dp_exp(s, dp_sub(s, power, beta)));
}

/* For q alone: -x zeta(x + 1, q) */
static void zeta(gradient_call *g) {
  dp_scope *s = g->scope;
  TF_Output x = input(g, 0);
  TF_Output next = dp_zeta(s, dp_add(s, x, number(g, 1)), input(g, 1));
  give_side(g, 1, dp_neg(s, dp_mul(s, x, next)));
}

/* For x alone: the polygamma function of the next order. */
static void polygamma(gradient_call *g) {
  dp_scope *s = g->scope;
  give_side(g, 1, dp_polygamma(s, dp_add(s, input(g, 0), number(g, 1)), input(g, 1)));
}

/* x log(1 + y), and 0 where x is 0 */
static void x_log_one_plus_y(gradient_call *g) {
  dp_scope *s = g->scope;
  TF_Output x = input(g, 0), y = input(g, 1);
  TF_Output not_zero = dp_cast(s, dp_not_equal(s, x, number(g, 0)), type_of(x));
  give_side(g, 0, dp_xlog1py(s, not_zero, y));
  give_side(g, 1, dp_xdivy(s, x, dp_add(s, y, number(g, 1))));
}

/* The derivative for x1 is 1; for x2, which only gives the direction, it is 0. */
static void next_after(gradient_call *g) {
  give_side(g, 0, filled_like(g->scope, output(g, 0), 1));
  give_side(g, 1, dp_zeros_like(g->scope, output(g, 0)));
}

/* ---- Samples, as functions of their parameter alpha ---- */

static void follow_alpha(gradient_call *g, int index) {
  give_side(g, index, dp_random_gamma_grad(g->scope, input(g, index), output(g, 0)));
}

static void random_gamma(gradient_call *g) {
  follow_alpha(g, 1);
}

static void stateless_gamma_v2(gradient_call *g) {
  follow_alpha(g, 2);
}

static void stateless_gamma_v3(gradient_call *g) {
  follow_alpha(g, 4);
}

/* The normal distribution function: erfc(-x / sqrt(2)) / 2 */
static TF_Output normal_up_to(dp_scope *s, TF_Output x) {
  TF_Output far = dp_erfc(s, dp_mul(s, x, number_like(s, x, -0.70710678118654752)));
  return dp_mul(s, far, number_like(s, x, 0.5));
}

/* The derivative of a sample for a bound: exp((x^2 - bound^2) / 2) * share. x and bound are counted
 * in standard deviations from the mean. */
static TF_Output follow_bound(gradient_call *g, TF_Output x, TF_Output bound, TF_Output share) {
  dp_scope *s = g->scope;
  TF_Output squares = minus(g, dp_square(s, x), dp_square(s, bound));
  return dp_mul(s, dp_exp(s, dp_mul(s, squares, number_like(s, x, 0.5))), share);
}

/* (shape, seed, mean, deviation, low, high). When a bound moves, a sample stays at the same
 * quantile between the bounds. */
static void truncated_normal(gradient_call *g) {
  dp_scope *s = g->scope;
  TF_Output standard[3], values[] = {output(g, 0), input(g, 4), input(g, 5)}, up_to[3];
  for (int i = 0; i < 3; i++) {
    standard[i] = dp_div(s, minus(g, values[i], input(g, 2)), input(g, 3));
    up_to[i] = normal_up_to(s, standard[i]);
  }
  TF_Output all = minus(g, up_to[2], up_to[1]);
  TF_Output below = dp_div(s, minus(g, up_to[0], up_to[1]), all);
  TF_Output rest = dp_div(s, minus(g, up_to[2], up_to[0]), all);
  give_side(g, 2, filled_like(s, output(g, 0), 1));
  give_side(g, 3, standard[0]);
  give_side(g, 4, follow_bound(g, standard[0], standard[1], rest));
  give_side(g, 5, follow_bound(g, standard[0], standard[2], below));
}

const gradient_row dp_gradient_special[] = {
    {"BesselI0", bessel_i0},
    {"BesselI0e", bessel_i0e},
    {"BesselI1", bessel_i1},
    {"BesselI1e", bessel_i1e},
    {"BesselJ0", bessel_j0},
    {"BesselJ1", bessel_j1},
    {"BesselK0", bessel_k0},
    {"BesselK0e", bessel_k0e},
    {"BesselK1", bessel_k1},
    {"BesselK1e", bessel_k1e},
    {"BesselY0", bessel_y0},
    {"BesselY1", bessel_y1},
    {"Betainc", incomplete_beta},
    {"Dawsn", dawson},
    {"Erfinv", inverse_error},
    {"Expint", exponential_integral},
    {"FresnelCos", fresnel_cosine},
    {"FresnelSin", fresnel_sine},
    {"Igamma", lower_gamma},
    {"Igammac", upper_gamma},
    {"Ndtri", normal_quantile},
    {"NextAfter", next_after},
    {"Polygamma", polygamma},
    {"RandomGamma", random_gamma},
    {"Spence", spence},
    {"StatelessParameterizedTruncatedNormal", truncated_normal},
    {"StatelessRandomGammaV2", stateless_gamma_v2},
    {"StatelessRandomGammaV3", stateless_gamma_v3},
    {"Xlog1py", x_log_one_plus_y},
    {"Zeta", zeta},
    {NULL, NULL},
};
