/* Special functions in double precision, for the ops in math/special.c and some loops in
 * loops/unary.c. The relative error is about 1e-13 away from zeros and poles. Pure functions: any
 * thread, no state. */
#ifndef DP_KERNELS_SPECIAL_SPECIAL_H
#define DP_KERNELS_SPECIAL_SPECIAL_H

/* ---- Gamma and friends ---- */
double dp_special_lgamma(double x);
double dp_special_digamma(double x);
double dp_special_igamma(double a, double x);        /* regularized, lower */
double dp_special_igammac(double a, double x);       /* regularized, upper */
double dp_special_igamma_grad_a(double a, double x); /* d igamma / d a */
double dp_special_zeta(double s, double q);          /* Hurwitz */
double dp_special_polygamma(double n, double x);
double dp_special_betainc(double a, double b, double x);

/* ---- Error function and normal distribution ---- */
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

#endif
