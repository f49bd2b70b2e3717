/* Special functions in double precision, and loops over them for the element-wise families.
 * Relative error is some 1e-13 away from zeros and poles. Pure functions, any thread. */
#ifndef DP_KERNELS_SPECIAL_INTERNAL_H
#define DP_KERNELS_SPECIAL_INTERNAL_H

#include "kernels/loops/binary.h"
#include "kernels/loops/unary.h"

/* ---- Gamma and friends ---- */
double dp_special_lgamma(double x);
double dp_special_digamma(double x);
double dp_special_igamma(double a, double x);        /* regularized, lower */
double dp_special_igammac(double a, double x);       /* regularized, upper */
double dp_special_igamma_grad_a(double a, double x); /* d igamma / d a */
double dp_special_zeta(double s, double q);          /* Hurwitz */
double dp_special_polygamma(double n, double x);
double dp_special_betainc(double a, double b, double x);

/* ---- Of the normal distribution ---- */
double dp_special_erfinv(double x);
double dp_special_ndtri(double p);
double dp_special_dawsn(double x);

/* ---- Bessel ---- */
double dp_special_i0(double x);
double dp_special_i1(double x);
double dp_special_i0e(double x); /* exp(-|x|) i0(x), and so on */
double dp_special_i1e(double x);
double dp_special_k0(double x);
double dp_special_k1(double x);
double dp_special_k0e(double x);
double dp_special_k1e(double x);

/* ---- Integrals ---- */
double dp_special_expint(double x); /* Ei */
double dp_special_fresnel_cos(double x);
double dp_special_fresnel_sin(double x);
double dp_special_spence(double x); /* dilogarithm of 1 - x */

/* The loop of a special op for float or double; NULL when it is none. */
dp_unary_fn dp_special_unary_loop(const char *op, dp_dtype dtype);
dp_binary_fn dp_special_binary_loop(const char *op, dp_dtype dtype);

#endif
