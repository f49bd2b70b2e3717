/* Gamma, beta and zeta functions and their incomplete forms. Methods: recurrence and asymptotic
 * series for digamma, power series and Lentz's continued fraction for the incomplete functions,
 * Euler-Maclaurin summation for zeta. */
#include "kernels/special/special.h"

#include <complex.h>
#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>

#define PI 3.14159265358979323846
#define TINY 1e-300
#define MAX_STEPS 5000

double dp_special_lgamma(double x) {
  int sign;
  return lgamma_r(x, &sign);
}

double dp_special_digamma(double x) {
  /* B(2k) / 2k of the asymptotic series */
  static const double terms[] = {1.0 / 12,  -1.0 / 120,     1.0 / 252, -1.0 / 240,
                                 1.0 / 132, -691.0 / 32760, 1.0 / 12};
  double result = 0;
  if (x <= 0) {
    if (x == floor(x))
      return x == 0 && !signbit(x) ? -INFINITY : x == 0 ? INFINITY : NAN;
    result = -PI / tan(PI * (x - floor(x)));
    x = 1 - x;
  }
  while (x < 10) {
    result -= 1 / x;
    x += 1;
  }
  double inverse_square = 1 / (x * x), power = inverse_square, tail = 0;
  for (size_t k = 0; k < sizeof terms / sizeof terms[0]; ++k) {
    tail += terms[k] * power;
    power *= inverse_square;
  }
  return result + log(x) - 0.5 / x - tail;
}

/* ---- Incomplete gamma ---- */
/* log of x^a e^-x / Gamma(a) */
static double log_prefactor(double a, double x) {
  return a * log(x) - x - dp_special_lgamma(a);
}

/* sum of x^n / (a (a+1) ... (a+n)), and its derivative by a */
static double lower_series(double a, double x, double *derivative_out) {
  double term = 1 / a, sum = term, rate = -1 / a, derivative = term * rate;
  for (int n = 1; n < MAX_STEPS; ++n) {
    term *= x / (a + n);
    rate -= 1 / (a + n);
    sum += term;
    derivative += term * rate;
    if (fabs(term * rate) < fabs(derivative) * DBL_EPSILON && term < sum * DBL_EPSILON)
      break;
  }
  *derivative_out = derivative;
  return sum;
}

/* The continued fraction of the upper incomplete gamma function. `a` is complex: for a + ih with a
 * small h, the imaginary part of the result divided by h is the derivative by a. */
static double complex upper_fraction(double complex a, double x) {
  double complex b = x + 1 - a, c = 1 / TINY, d = 1 / b, h = d;
  for (int i = 1; i < MAX_STEPS; ++i) {
    double complex numerator = -i * (i - a);
    b += 2;
    d = numerator * d + b;
    d = cabs(d) < TINY ? TINY : d;
    c = b + numerator / c;
    c = cabs(c) < TINY ? TINY : c;
    d = 1 / d;
    double complex factor = d * c;
    h *= factor;
    if (cabs(factor - 1) < DBL_EPSILON)
      break;
  }
  return h;
}

static bool igamma_edge(double a, double x, double *result) {
  if (isnan(a) || isnan(x) || x < 0 || a <= 0)
    *result = NAN;
  else if (x == 0)
    *result = 0;
  else if (isinf(x))
    *result = isinf(a) ? NAN : 1;
  else if (isinf(a))
    *result = 0;
  else
    return false;
  return true;
}

double dp_special_igamma(double a, double x) {
  double edge, derivative;
  if (igamma_edge(a, x, &edge))
    return edge;
  if (x < a + 1)
    return exp(log_prefactor(a, x)) * lower_series(a, x, &derivative);
  return 1 - exp(log_prefactor(a, x)) * creal(upper_fraction(a, x));
}

double dp_special_igammac(double a, double x) {
  double edge, derivative;
  if (igamma_edge(a, x, &edge))
    return 1 - edge;
  if (x < a + 1)
    return 1 - exp(log_prefactor(a, x)) * lower_series(a, x, &derivative);
  return exp(log_prefactor(a, x)) * creal(upper_fraction(a, x));
}

double dp_special_igamma_grad_a(double a, double x) {
  double edge, derivative;
  if (igamma_edge(a, x, &edge))
    return isnan(edge) ? NAN : 0;
  double rate = log(x) - dp_special_digamma(a), factor = exp(log_prefactor(a, x));
  if (x < a + 1) {
    double sum = lower_series(a, x, &derivative);
    return factor * (rate * sum + derivative);
  }
  const double step = 1e-40;
  double complex fraction = upper_fraction(a + step * I, x);
  return -factor * (rate * creal(fraction) + cimag(fraction) / step);
}

/* ---- Zeta ---- */
double dp_special_zeta(double s, double q) {
  /* B(2k) / (2k)! */
  static const double terms[] = {1.0 / 12,
                                 -1.0 / 720,
                                 1.0 / 30240,
                                 -1.0 / 1209600,
                                 1.0 / 47900160,
                                 -691.0 / 1307674368000.0,
                                 1.0 / 74724249600.0,
                                 -3617.0 / 10670622842880000.0};
  if (isnan(s) || isnan(q) || s < 1)
    return NAN;
  if (s == 1)
    return INFINITY;
  if (q <= 0) {
    if (q == floor(q))
      return INFINITY;
    if (s != floor(s))
      return NAN;
  }
  double sum = 0;
  for (int n = 0; n < 10 || q < 10; ++n) {
    sum += pow(q, -s);
    q += 1;
  }
  double power = pow(q, -s), rising = s, inverse_square = 1 / (q * q);
  sum += power * q / (s - 1) + power / 2;
  power /= q;
  for (size_t k = 0; k < sizeof terms / sizeof terms[0]; ++k) {
    sum += terms[k] * rising * power;
    rising *= (s + 2 * (double)k + 1) * (s + 2 * (double)k + 2);
    power *= inverse_square;
  }
  return sum;
}

double dp_special_polygamma(double n, double x) {
  if (n != floor(n) || n < 0)
    return NAN;
  if (n == 0)
    return dp_special_digamma(x);
  double sign = fmod(n, 2) == 0 ? -1 : 1;
  return sign * exp(dp_special_lgamma(n + 1)) * dp_special_zeta(n + 1, x);
}

/* ---- Incomplete beta ---- */
static double beta_fraction(double a, double b, double x) {
  double c = 1, d = 1 - (a + b) * x / (a + 1);
  d = 1 / (fabs(d) < TINY ? TINY : d);
  double h = d;
  for (int m = 1; m < MAX_STEPS; ++m) {
    double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
    double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
    double before = h;
    d = 1 / (1 + even * d);
    c = 1 + even / c;
    h *= d * c;
    d = 1 / (1 + odd * d);
    c = 1 + odd / c;
    h *= d * c;
    if (fabs(h - before) < fabs(h) * DBL_EPSILON)
      break;
  }
  return h;
}

double dp_special_betainc(double a, double b, double x) {
  if (!(a > 0) || !(b > 0) || !(x >= 0 && x <= 1))
    return NAN;
  if (x == 0 || x == 1)
    return x;
  double factor = exp(dp_special_lgamma(a + b) - dp_special_lgamma(a) - dp_special_lgamma(b) +
                      a * log(x) + b * log1p(-x));
  if (x < (a + 1) / (a + b + 2))
    return factor * beta_fraction(a, b, x) / a;
  return 1 - factor * beta_fraction(b, a, 1 - x) / b;
}
