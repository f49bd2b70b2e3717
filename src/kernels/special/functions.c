/* Special functions outside of the gamma family: inverse error functions, Dawson's, Bessel
 * functions, integrals. Methods: power series where all terms have the same sign; asymptotic series
 * for large arguments; the trapezoidal rule on integral representations, which converges
 * geometrically for them; Halley's iteration for inverses. */
#include "kernels/special/special.h"

#include <complex.h>
#include <float.h>
#include <math.h>
#include <stdbool.h>

#define PI 3.14159265358979323846
#define EULER 0.57721566490153286061

/* ---- Inverses of the error function ---- */
/* y > 0 with erfc(y) = z, 0 < z <= 1. */
static double inverse_erfc(double z) {
  double l = log(z * (2 - z)), a = 0.147, b = 2 / (PI * a) + l / 2;
  double y = sqrt(sqrt(b * b - l / a) - b); /* relative error 2e-3 */
  if (y > 5)
    y = sqrt(-log(z * y * sqrt(PI))); /* a first guess for the tail */
  for (int i = 0; i < 4; ++i) {
    /* Halley's step. `error` is the error divided by the slope 2/sqrt(pi) e^-y^2. */
    double error = (erfc(y) - z) * exp(y * y) * sqrt(PI) / 2;
    y += error / (1 - error * y);
  }
  return y;
}

double dp_special_erfinv(double x) {
  if (!(x >= -1 && x <= 1))
    return NAN;
  double a = fabs(x);
  if (a == 1)
    return copysign(INFINITY, x);
  if (a > 0.5)
    return copysign(inverse_erfc(1 - a), x);
  double y = a * sqrt(PI) / 2;
  for (int i = 0; i < 5; ++i) {
    double error = (erf(y) - a) * exp(y * y) * sqrt(PI) / 2;
    y -= error / (1 + error * y);
  }
  return copysign(y, x);
}

double dp_special_ndtri(double p) {
  if (!(p >= 0 && p <= 1))
    return NAN;
  if (p == 0 || p == 1)
    return p == 0 ? -INFINITY : INFINITY;
  if (p == 0.5)
    return 0;
  return p < 0.5 ? -sqrt(2) * inverse_erfc(2 * p) : sqrt(2) * inverse_erfc(2 * (1 - p));
}

/* e^-x^2 times the integral of e^t^2 from 0 to x. */
double dp_special_dawsn(double x) {
  double a = fabs(x);
  if (isinf(x))
    return copysign(0, x);
  if (a < 7) {
    double square = x * x, power = x, sum = x;
    for (int k = 1; k < 300; ++k) {
      power *= square / k;
      double term = power / (2 * k + 1);
      sum += term;
      if (fabs(term) < fabs(sum) * DBL_EPSILON)
        break;
    }
    return exp(-square) * sum;
  }
  double term = 1, sum = 1, step = 1 / (2 * x * x);
  for (int k = 1; k < 30; ++k) {
    double next = term * (2 * k - 1) * step;
    if (next > term || next < DBL_EPSILON)
      break;
    term = next;
    sum += term;
  }
  return sum / (2 * x);
}

/* ---- Modified Bessel functions ---- */
/* The power series of I(order), 0 or 1, divided by (x/2)^order. */
static double bessel_i_series(int order, double x) {
  double quarter = x * x / 4, term = 1, sum = 1;
  for (int k = 1; k < 500 && term > sum * DBL_EPSILON / 4; ++k) {
    term *= quarter / ((double)k * (k + order));
    sum += term;
  }
  return sum;
}

/* sqrt(2 pi x) e^-x I(order)(x) for large x. */
static double bessel_i_tail(int order, double x) {
  double mu = 4.0 * order * order, term = 1, sum = 1;
  for (int k = 1; k < 60; ++k) {
    double odd = 2 * k - 1, next = -term * (mu - odd * odd) / (k * 8 * x);
    if (fabs(next) > fabs(term) || fabs(next) < DBL_EPSILON / 4)
      break;
    term = next;
    sum += term;
  }
  return sum;
}

#define SERIES_LIMIT 25.0

double dp_special_i0e(double x) {
  double a = fabs(x);
  if (a < SERIES_LIMIT)
    return exp(-a) * bessel_i_series(0, a);
  return isinf(a) ? 0 : bessel_i_tail(0, a) / sqrt(2 * PI * a);
}

double dp_special_i1e(double x) {
  double a = fabs(x);
  double value = a < SERIES_LIMIT ? exp(-a) * a / 2 * bessel_i_series(1, a)
                 : isinf(a)       ? 0
                                  : bessel_i_tail(1, a) / sqrt(2 * PI * a);
  return copysign(value, x);
}

double dp_special_i0(double x) {
  double a = fabs(x);
  if (a < SERIES_LIMIT)
    return bessel_i_series(0, a);
  return exp(a / 2) * dp_special_i0e(a) * exp(a / 2); /* in two steps: no early overflow */
}

double dp_special_i1(double x) {
  double a = fabs(x);
  double value = a < SERIES_LIMIT ? a / 2 * bessel_i_series(1, a)
                                  : exp(a / 2) * dp_special_i1e(a) * exp(a / 2);
  return copysign(value, x);
}

/* e^x K(order)(x) = integral of e^(-x (cosh t - 1)) cosh(order t) over t > 0, for x > 2. */
static double bessel_ke_integral(int order, double x) {
  const double step = 0.125;
  double sum = 0.5;
  for (int i = 1; i < 200; ++i) {
    double c = cosh(i * step), value = exp(-x * (c - 1)) * (order ? c : 1);
    sum += value;
    if (value < sum * DBL_EPSILON / 8)
      break;
  }
  return sum * step;
}

static double bessel_k0_series(double x) {
  double quarter = x * x / 4, term = 1, harmonic = 0, sum = 0;
  for (int k = 1; k < 60; ++k) {
    term *= quarter / ((double)k * k);
    harmonic += 1.0 / k;
    sum += term * harmonic;
    if (term * harmonic < sum * DBL_EPSILON)
      break;
  }
  return -(log(x / 2) + EULER) * bessel_i_series(0, x) + sum;
}

static double bessel_k1_series(double x) {
  double quarter = x * x / 4, term = 1, psi = -EULER, next_psi = 1 - EULER, sum = 0;
  for (int k = 0; k < 60; ++k) {
    sum += term * (psi + next_psi);
    psi = next_psi;
    next_psi += 1.0 / (k + 2);
    term *= quarter / ((k + 1.0) * (k + 2.0));
    if (term < DBL_EPSILON / 16)
      break;
  }
  return 1 / x + log(x / 2) * x / 2 * bessel_i_series(1, x) - x / 4 * sum;
}

static double bessel_k(int order, double x, bool scaled) {
  if (isnan(x) || x < 0)
    return NAN;
  if (x == 0)
    return INFINITY;
  if (x <= 2) {
    double value = order ? bessel_k1_series(x) : bessel_k0_series(x);
    return scaled ? value * exp(x) : value;
  }
  if (isinf(x))
    return 0;
  double value;
  if (x < 1e3) {
    value = bessel_ke_integral(order, x);
  } else { /* asymptotic series: as for I, without the factors (-1)^k */
    double mu = 4.0 * order, term = 1;
    value = 1;
    for (int k = 1; k < 10; ++k) {
      term *= (mu - (2.0 * k - 1) * (2.0 * k - 1)) / (k * 8 * x);
      value += term;
    }
    value *= sqrt(PI / (2 * x));
  }
  return scaled ? value : value * exp(-x);
}

double dp_special_k0(double x) {
  return bessel_k(0, x, false);
}
double dp_special_k1(double x) {
  return bessel_k(1, x, false);
}
double dp_special_k0e(double x) {
  return bessel_k(0, x, true);
}
double dp_special_k1e(double x) {
  return bessel_k(1, x, true);
}

/* ---- Integrals ---- */
double dp_special_expint(double x) {
  if (isnan(x) || x < 0)
    return NAN;
  if (x == 0)
    return -INFINITY;
  if (isinf(x))
    return INFINITY;
  if (x < 40) {
    double power = 1, sum = 0;
    for (int k = 1; k < 300; ++k) {
      power *= x / k;
      sum += power / k;
      if (power / k < sum * DBL_EPSILON)
        break;
    }
    return EULER + log(x) + sum;
  }
  double term = 1, sum = 1;
  for (int k = 1; k < 60; ++k) {
    double next = term * k / x;
    if (next > term || next < DBL_EPSILON)
      break;
    term = next;
    sum += term;
  }
  return exp(x) / x * sum;
}

/* C + iS for x > 0: series near 0, the continued fraction of the complementary error function
 * elsewhere. */
static double complex fresnel(double x) {
  if (isinf(x))
    return 0.5 + 0.5 * I;
  double angle = PI / 2 * x * x;
  if (x < 1.5) {
    /* sum of i^n angle^n x / (n! (2n + 1)) */
    double complex term = x, sum = x;
    for (int n = 1; n < 100; ++n) {
      term *= I * angle / n;
      sum += term / (2 * n + 1);
      if (cabs(term) < DBL_EPSILON * x / 4)
        break;
    }
    return sum;
  }
  double complex b = 1 - 2 * angle * I, c = 1e300, d = 1 / b, h = d;
  for (int k = 2, n = 1; k < 500; ++k, n += 2) {
    double a = -(double)n * (n + 1);
    b += 4;
    d = 1 / (a * d + b);
    c = b + a / c;
    double complex factor = c * d;
    h *= factor;
    if (cabs(factor - 1) < DBL_EPSILON)
      break;
  }
  h *= x * (1 - I);
  return (0.5 + 0.5 * I) * (1 - (cos(angle) + I * sin(angle)) * h);
}

double dp_special_fresnel_cos(double x) {
  return isnan(x) ? x : copysign(creal(fresnel(fabs(x))), x);
}
double dp_special_fresnel_sin(double x) {
  return isnan(x) ? x : copysign(cimag(fresnel(fabs(x))), x);
}

/* sum of z^k / k^2 for |z| <= 1/2 */
static double dilogarithm_series(double z) {
  double power = 1, sum = 0;
  for (int k = 1; k < 80; ++k) {
    power *= z;
    sum += power / ((double)k * k);
    if (fabs(power) < DBL_EPSILON / 8)
      break;
  }
  return sum;
}

double dp_special_spence(double x) {
  if (isnan(x) || x < 0)
    return NAN;
  if (x == 0)
    return PI * PI / 6;
  if (isinf(x))
    return -INFINITY;
  if (x > 1.5) {
    double l = log(x);
    return -l * l / 2 - dp_special_spence(1 / x);
  }
  if (x < 0.5)
    return PI * PI / 6 - log(x) * log1p(-x) - dilogarithm_series(x);
  return dilogarithm_series(1 - x);
}
