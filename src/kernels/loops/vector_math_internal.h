/* Elementary functions of floats as branch-free inline functions, for loops that compilers
 * vectorize. Results are within 2.5 units in the last place of the true value over the whole range
 * (5.5 where a rational function does it all), subnormal results and non-finite arguments included;
 * test_vector_math.c of the unit tests keeps them there. The polynomials are Chebyshev fits made
 * for the ranges that the comments name. dp_fma_float is a fused multiply-add where the instruction
 * set has one, else two roundings: results may differ in the last place between instruction sets.
 */
#ifndef DP_KERNELS_LOOPS_VECTOR_MATH_INTERNAL_H
#define DP_KERNELS_LOOPS_VECTOR_MATH_INTERNAL_H

#include <math.h>
#include <stdint.h>

static inline uint32_t dp_float_bits(float value) {
  union {
    float value;
    uint32_t bits;
  } pun = {value};
  return pun.bits;
}
static inline float dp_bits_float(uint32_t bits) {
  union {
    uint32_t bits;
    float value;
  } pun = {bits};
  return pun.value;
}
static inline uint64_t dp_double_bits(double value) {
  union {
    double value;
    uint64_t bits;
  } pun = {value};
  return pun.bits;
}
static inline float dp_fma_float(float a, float b, float c) {
#if defined(__FMA__) || defined(__aarch64__)
  return __builtin_fmaf(a, b, c);
#else
  return a * b + c;
#endif
}
static inline double dp_fma_double(double a, double b, double c) {
#if defined(__FMA__) || defined(__aarch64__)
  return __builtin_fma(a, b, c);
#else
  return a * b + c;
#endif
}
/* `value` with the sign of `sign`. */
static inline float dp_with_sign(float value, float sign) {
  return dp_bits_float((dp_float_bits(value) & 0x7fffffffu) | (dp_float_bits(sign) & 0x80000000u));
}
static inline float dp_abs_float(float value) {
  return dp_bits_float(dp_float_bits(value) & 0x7fffffffu);
}
/* 2^n for -126 <= n <= 127. */
static inline float dp_power_of_two(int32_t n) {
  return dp_bits_float((uint32_t)(n + 127) << 23);
}

/* 2^n for -1022 <= n <= 1023, n in two's complement. */
static inline double dp_power_of_two_double(uint64_t n) {
  union {
    uint64_t bits;
    double value;
  } pun = {(n + 1023) << 52};
  return pun.value;
}

/* x = n ln 2 + r with |r| <= ln 2 / 2, for |x| < 2^20. Returns r; gives n as a float and as an
 * integer. */
static inline float dp_reduce_exp(float x, float *n_out, int32_t *integer_out) {
  const float magic = 12582912.0f; /* 1.5 * 2^23: adding it rounds to an integer */
  float shifted = dp_fma_float(x, 1.44269504f, magic);
  float n = shifted - magic;
  *integer_out = (int32_t)(dp_float_bits(shifted) - 0x4b400000u);
  *n_out = n;
  float r = dp_fma_float(n, -0.693359375f, x); /* exact: 9 bits times an integer below 2^10 */
  return dp_fma_float(n, 2.12194440e-4f, r);
}
/* (e^r - 1 - r) / r^2 for |r| <= 0.35. */
static inline float dp_exp_tail(float r) {
  float p = 1.989198063e-04f;
  p = dp_fma_float(p, r, 1.393454149e-03f);
  p = dp_fma_float(p, r, 8.333310485e-03f);
  p = dp_fma_float(p, r, 4.166645557e-02f);
  p = dp_fma_float(p, r, 1.666666716e-01f);
  return dp_fma_float(p, r, 0.5f);
}
/* e^r - 1 for |r| <= 0.35. */
static inline float dp_expm1_reduced(float r) {
  return dp_fma_float(dp_exp_tail(r) * r, r, r);
}

static inline float dp_exp(float x) {
  float n;
  int32_t k;
  float clamped = x < -104.0f ? -104.0f : x; /* both comparisons keep a NaN */
  clamped = clamped > 89.0f ? 89.0f : clamped;
  float r = dp_reduce_exp(clamped, &n, &k);
  float p = 1.0f + dp_expm1_reduced(r);
  int32_t half = k >> 1; /* in two steps: subnormal and infinite results come out right */
  return p * dp_power_of_two(half) * dp_power_of_two(k - half);
}

/* For x <= 0; results that would be subnormal are 0. The scale 2^n is added to the exponent bits: n
 * is in the low bits of the shifted argument. */
static inline float dp_exp_below_zero(float x) {
  const float magic = 12582912.0f; /* as in dp_reduce_exp */
  float clamped = x < -87.3f ? -87.3f : x;
  float shifted = dp_fma_float(clamped, 1.44269504f, magic), n = shifted - magic;
  float r = dp_fma_float(n, 2.12194440e-4f, dp_fma_float(n, -0.693359375f, clamped));
  float p = dp_fma_float(dp_fma_float(dp_exp_tail(r), r, 1.0f), r, 1.0f);
  float result = dp_bits_float(dp_float_bits(p) + (dp_float_bits(shifted) << 23));
  return x < -87.3f ? 0.0f : result;
}

static inline float dp_expm1(float x) {
  float n;
  int32_t k;
  float clamped = x < -30.0f ? -30.0f : x;
  clamped = clamped > 89.0f ? 89.0f : clamped;
  float r = dp_reduce_exp(clamped, &n, &k);
  float p = dp_expm1_reduced(r);
  /* 2^k (1 + p) - 1, with half of 2^k so that k = 128 does not overflow too early. */
  float scale = dp_power_of_two(k - 1);
  float result = 2.0f * dp_fma_float(scale, p, scale - 0.5f);
  return x == 0.0f ? x : result; /* keeps -0 */
}

/* log(1 + f) - f for sqrt(1/2) - 1 <= f <= sqrt(2) - 1. */
static inline float dp_log1p_tail(float f) {
  float q = -6.201500073e-02f;
  q = dp_fma_float(q, f, 1.053086445e-01f);
  q = dp_fma_float(q, f, -1.064619198e-01f);
  q = dp_fma_float(q, f, 1.103778332e-01f);
  q = dp_fma_float(q, f, -1.245074347e-01f);
  q = dp_fma_float(q, f, 1.428652406e-01f);
  q = dp_fma_float(q, f, -1.666800082e-01f);
  q = dp_fma_float(q, f, 2.000001073e-01f);
  q = dp_fma_float(q, f, -2.499998957e-01f);
  q = dp_fma_float(q, f, 3.333333433e-01f);
  float square = f * f;
  return dp_fma_float(q * f, square, -0.5f * square);
}
/* x = 2^k m with sqrt(1/2) <= m < sqrt(2), for normal positive x. Returns m - 1. */
static inline float dp_reduce_log(float x, float *k_out) {
  uint32_t shifted = dp_float_bits(x) - 0x3f3504f3u;
  int32_t k = (int32_t)shifted >> 23;
  *k_out = (float)k;
  return dp_bits_float((shifted & 0x007fffffu) + 0x3f3504f3u) - 1.0f;
}
/* log(x) for any x, if `regular` is the result for x in (0, inf). */
static inline float dp_log_special(float x, float regular) {
  float result = x > 0.0f ? regular : -INFINITY;
  result = x < INFINITY ? result : x;
  return x < 0.0f ? NAN : result;
}

static inline float dp_log(float x) {
  float k, scale = x < 1.17549435e-38f ? 8388608.0f : 1.0f; /* subnormals */
  float f = dp_reduce_log(x * scale, &k);
  k -= x < 1.17549435e-38f ? 23.0f : 0.0f;
  float low = dp_fma_float(k, -2.12194440e-4f, dp_log1p_tail(f));
  float result = dp_fma_float(k, 0.693359375f, f + low);
  return dp_log_special(x, result);
}

static inline float dp_log1p(float x) {
  float k, u = 1.0f + x;
  float f = dp_reduce_log(u, &k);
  /* What was lost in rounding 1 + x. */
  float whole = u - 1.0f, lost = (1.0f - (u - whole)) + (x - whole);
  float low = dp_fma_float(k, -2.12194440e-4f, dp_log1p_tail(f) + lost / u);
  float result = dp_fma_float(k, 0.693359375f, f + low);
  result = dp_log_special(u, result);
  return x == 0.0f ? x : result;
}

/* x P(x^2) / Q(x^2): one division and no exponential. */
static inline float dp_tanh(float x) {
  float bounded = x > 9.02f ? 9.02f : x; /* 1 as a float from here */
  bounded = bounded < -9.02f ? -9.02f : bounded;
  float square = bounded * bounded;
  float p = 1.331922128e-08f, q = 7.762069458e-07f;
  p = dp_fma_float(p, square, 2.058356768e-05f);
  q = dp_fma_float(q, square, 3.283102415e-04f);
  p = dp_fma_float(p, square, 3.494041041e-03f);
  q = dp_fma_float(q, square, 2.587109804e-02f);
  p = dp_fma_float(p, square, 1.337972432e-01f);
  q = dp_fma_float(q, square, 4.671304524e-01f);
  p = dp_fma_float(p, square, 1.0f);
  q = dp_fma_float(q, square, 1.0f);
  return bounded * p / q;
}

/* The argument of sinh and cosh, split into k ln 2 + r. */
typedef struct dp_hyperbolic {
  float sinh_whole, cosh_whole; /* of k ln 2, halved so that the largest results do not overflow */
  float sinh_rest, cosh_rest;   /* of r, cosh less 1: the exact 1 is added last */
} dp_hyperbolic;
static inline dp_hyperbolic dp_reduce_hyperbolic(float magnitude) {
  float n;
  int32_t k;
  float bounded = magnitude > 89.5f ? 89.5f : magnitude; /* infinite from here */
  float r = dp_reduce_exp(bounded, &n, &k), square = r * r;
  float s = dp_fma_float(1.990510498e-04f, square, 8.333288753e-03f);
  s = dp_fma_float(s, square, 1.666666676e-01f);
  float c = dp_fma_float(1.393551010e-03f, square, 4.166645854e-02f);
  c = dp_fma_float(c, square, 0.5f);
  float up = dp_power_of_two(k - 2), down = dp_power_of_two(-k - 2 < -126 ? -126 : -k - 2);
  return (dp_hyperbolic){up - down, up + down, dp_fma_float(s * square, r, r), c * square};
}
static inline float dp_sinh(float x) {
  dp_hyperbolic h = dp_reduce_hyperbolic(dp_abs_float(x));
  float rest = dp_fma_float(h.sinh_whole, h.cosh_rest, h.cosh_whole * h.sinh_rest);
  float result = dp_with_sign(2.0f * (h.sinh_whole + rest), x);
  return dp_abs_float(x) < 1e-4f ? x : result; /* half of a small one may be subnormal */
}
static inline float dp_cosh(float x) {
  dp_hyperbolic h = dp_reduce_hyperbolic(dp_abs_float(x));
  float rest = dp_fma_float(h.cosh_whole, h.cosh_rest, h.sinh_whole * h.sinh_rest);
  return 2.0f * (h.cosh_whole + rest);
}

static inline float dp_sigmoid(float x) {
  float e = dp_exp(-dp_abs_float(x));
  return (x >= 0.0f ? 1.0f : e) / (1.0f + e);
}

/* As dp_tanh: x P(x^2) / Q(x^2). */
static inline float dp_erf(float x) {
  float bounded = x > 3.95f ? 3.95f : x; /* 1 as a float from here */
  bounded = bounded < -3.95f ? -3.95f : bounded;
  float square = bounded * bounded;
  float p = 2.025922413e-06f, q = 3.783187640e-05f;
  p = dp_fma_float(p, square, 2.846870630e-04f);
  q = dp_fma_float(q, square, 1.170717529e-03f);
  p = dp_fma_float(p, square, 3.808128415e-03f);
  q = dp_fma_float(q, square, 1.505502872e-02f);
  p = dp_fma_float(p, square, 5.287534744e-02f);
  q = dp_fma_float(q, square, 1.145592779e-01f);
  p = dp_fma_float(p, square, 1.915495247e-01f);
  q = dp_fma_float(q, square, 5.030890703e-01f);
  p = dp_fma_float(p, square, 1.128379107e+00f);
  q = dp_fma_float(q, square, 1.0f);
  return bounded * p / q;
}

/* The angle of (x, y), as atan2f(y, x). */
static inline float dp_atan2(float y, float x) {
  float a = dp_abs_float(x), b = dp_abs_float(y);
  float top = a > b ? a : b, low = a > b ? b : a; /* a NaN ends up in one of them */
  float t = low / top, equal = top > 0.0f ? 1.0f : 0.0f;
  t = low == top ? equal : t; /* 0 / 0 and infinity / infinity too */
  float square = t * t;
  float q = 2.920680234e-03f; /* (atan(t) / t - 1) / t^2 */
  q = dp_fma_float(q, square, -1.636788013e-02f);
  q = dp_fma_float(q, square, 4.321178328e-02f);
  q = dp_fma_float(q, square, -7.552207759e-02f);
  q = dp_fma_float(q, square, 1.066600161e-01f);
  q = dp_fma_float(q, square, -1.421105455e-01f);
  q = dp_fma_float(q, square, 1.999377274e-01f);
  q = dp_fma_float(q, square, -3.333315273e-01f);
  float angle = dp_fma_float(q * square, t, t);
  angle = b > a ? 1.57079637f - (angle + 4.371138829e-08f) : angle;
  angle = dp_float_bits(x) >> 31 ? 3.14159274f - (angle + 8.742277657e-08f) : angle;
  return dp_with_sign(angle, y);
}

/* e^x for -120 <= x <= 1, to eight digits, in double. */
static inline double dp_exp_eight_digits(double x) {
  const double magic = 6755399441055744.0; /* 1.5 * 2^52 */
  double shifted = dp_fma_double(x, 1.44269504088896340736, magic), n = shifted - magic;
  double r = dp_fma_double(n, -0.69314718055994530942, x);
  double p = 1.38131310131403193e-03;
  p = dp_fma_double(p, r, 8.36942452748666577e-03);
  p = dp_fma_double(p, r, 4.16684573753618517e-02);
  p = dp_fma_double(p, r, 1.66665147430417826e-01);
  p = dp_fma_double(p, r, 4.99999930473285836e-01);
  union {
    uint64_t bits;
    double value;
  } scale = {(dp_double_bits(shifted) + 1023) << 52};
  return dp_fma_double(p * r, r, 1.0 + r) * scale.value;
}

/* t P(t) e^(-x^2) with t = 1 / (1 + 0.3 |x|), and 2 minus that for x < 0. Computed in double. */
static inline float dp_erfc(float x) {
  float magnitude = dp_abs_float(x);
  magnitude = magnitude > 10.5f ? 10.5f : magnitude; /* zero as a float */
  double a = (double)magnitude, t = 1.0 / dp_fma_double(0.3, a, 1.0);
  double p = -1.29529191494717755e-01;
  p = dp_fma_double(p, t, 4.85596238042075412e-01);
  p = dp_fma_double(p, t, -5.12352470488944611e-01);
  p = dp_fma_double(p, t, 5.47813680485222720e-01);
  p = dp_fma_double(p, t, -9.47227153270434330e-02);
  p = dp_fma_double(p, t, 2.14960599398270752e-01);
  p = dp_fma_double(p, t, 1.48329084033542891e-01);
  p = dp_fma_double(p, t, 1.70716863316219991e-01);
  p = dp_fma_double(p, t, 1.69187892440513882e-01);
  double tail = t * p * dp_exp_eight_digits(-a * a);
  return (float)(x < 0.0f ? 2.0 - tail : tail);
}

/* sin and cos for |x| <= DP_TRIGONOMETRY_LIMIT; use libm's beyond. Computed in double. */
#define DP_TRIGONOMETRY_LIMIT 1e5f
/* x = n pi/2 + r. Returns r; the last two bits of `turns` are the last two bits of n. */
static inline double dp_reduce_circle(float x, uint64_t *turns_out) {
  const double magic = 6755399441055744.0; /* 1.5 * 2^52 */
  double shifted = dp_fma_double((double)x, 0.63661977236758134308, magic);
  double n = shifted - magic;
  *turns_out = dp_double_bits(shifted);
  /* 33 bits of pi/2: the product is exact */
  double r = dp_fma_double(n, -1.57079632673412561417, (double)x);
  return dp_fma_double(n, -6.07710050650619224932e-11, r);
}
static inline double dp_sin_reduced(double r) {
  double square = r * r, p = -1.95108689116940096e-04;
  p = dp_fma_double(p, square, 8.33213170943999763e-03);
  p = dp_fma_double(p, square, -1.66666542287197100e-01);
  return dp_fma_double(r * square, p, r);
}
static inline double dp_cos_reduced(double r) {
  double square = r * r, p = 2.44257144947774713e-05;
  p = dp_fma_double(p, square, -1.38872517666085234e-03);
  p = dp_fma_double(p, square, 4.16666443733616429e-02);
  return dp_fma_double(square * square, p, dp_fma_double(-0.5, square, 1.0));
}
/* Choices are made by masks, which compilers keep in vectors of doubles. */
static inline float dp_quarter_turn(double r, uint64_t turns) {
  uint64_t sine = dp_double_bits(dp_sin_reduced(r)), cosine = dp_double_bits(dp_cos_reduced(r));
  uint64_t is_odd = 0 - (turns & 1);
  union {
    uint64_t bits;
    double value;
  } turned = {((cosine & is_odd) | (sine & ~is_odd)) ^ ((turns & 2) << 62)};
  return (float)turned.value;
}
static inline float dp_sin(float x) {
  uint64_t turns;
  double r = dp_reduce_circle(x, &turns);
  float result = dp_quarter_turn(r, turns);
  return x == 0.0f ? x : result;
}
static inline float dp_cos(float x) {
  uint64_t turns;
  double r = dp_reduce_circle(x, &turns);
  return dp_quarter_turn(r, turns + 1);
}

/* ---- Doubles ---- */
/* The series of e^r to r^13 for |r| <= ln 2 / 2: within 1.5 units in the last place. */
static inline double dp_exp_double(double x) {
  const double magic = 6755399441055744.0;  /* 1.5 * 2^52 */
  double bounded = x < -746.0 ? -746.0 : x; /* both comparisons keep a NaN */
  bounded = bounded > 710.0 ? 710.0 : bounded;
  double shifted = dp_fma_double(bounded, 1.44269504088896340736, magic), n = shifted - magic;
  double r = dp_fma_double(n, -6.93147180369123816490e-01, bounded); /* 33 bits: exact */
  r = dp_fma_double(n, -1.90821492927058770002e-10, r);
  double p = 1.60590438368216133e-10;
  p = dp_fma_double(p, r, 2.08767569878681002e-09);
  p = dp_fma_double(p, r, 2.50521083854417202e-08);
  p = dp_fma_double(p, r, 2.75573192239858883e-07);
  p = dp_fma_double(p, r, 2.75573192239858925e-06);
  p = dp_fma_double(p, r, 2.48015873015873016e-05);
  p = dp_fma_double(p, r, 1.98412698412698413e-04);
  p = dp_fma_double(p, r, 1.38888888888888894e-03);
  p = dp_fma_double(p, r, 8.33333333333333322e-03);
  p = dp_fma_double(p, r, 4.16666666666666644e-02);
  p = dp_fma_double(p, r, 1.66666666666666657e-01);
  p = dp_fma_double(p, r, 5.00000000000000000e-01);
  p = dp_fma_double(p * r, r, r) + 1.0;
  /* In two steps, as for floats; the shift is of a positive number. */
  uint64_t k = dp_double_bits(shifted) - 0x4338000000000000u, half = ((k + 2048) >> 1) - 1024;
  return p * dp_power_of_two_double(half) * dp_power_of_two_double(k - half);
}

/* ---- Gamma, computed in double ---- */
static inline double dp_log_double(double x) { /* x is normal and positive */
  union {
    uint64_t bits;
    double value;
  } mantissa, exponent;
  uint64_t shifted = dp_double_bits(x) - 0x3fe6a09e667f3bcdu; /* sqrt(1/2) */
  mantissa.bits = (shifted & 0x000fffffffffffffu) + 0x3fe6a09e667f3bcdu;
  /* The exponent, made positive, as the low bits of the double 2^52 + exponent. */
  exponent.bits = ((shifted + (1ull << 62)) >> 52) | 0x4330000000000000u;
  double k = exponent.value - (4503599627370496.0 + 1024.0);
  double s = (mantissa.value - 1.0) / (mantissa.value + 1.0), square = s * s;
  double p = 8.41012426721377132e-02; /* (atanh(s) / s - 1) / s^2 */
  p = dp_fma_double(p, square, 9.06180352990571952e-02);
  p = dp_fma_double(p, square, 1.11116863902683313e-01);
  p = dp_fma_double(p, square, 1.42857085572240194e-01);
  p = dp_fma_double(p, square, 2.00000000261822186e-01);
  p = dp_fma_double(p, square, 3.33333333332935355e-01);
  double twice = s + s;
  return dp_fma_double(k, 0.69314718055994530942, dp_fma_double(twice * square, p, twice));
}
/* The two functions below step from x to x + 8 when x < 8. They need the product of x, x + 1, ...,
 * x + 7; its factors in pairs are u, u + 6, u + 10 and u + 12 with u = x (x + 7). From 8 on
 * Stirling's series is enough. For 0 < x < infinity; callers handle other arguments. */
static inline float dp_lgamma_positive(float argument) {
  double x = (double)argument, u = dp_fma_double(x, x, 7.0 * x);
  double product = (u * (u + 6.0)) * ((u + 10.0) * (u + 12.0));
  double y = x < 8.0 ? x + 8.0 : x, z = 1.0 / y, square = z * z;
  product = x < 8.0 ? product : 1.0;
  double p = 8.41750841750841751e-04;
  p = dp_fma_double(p, square, -5.95238095238095238e-04);
  p = dp_fma_double(p, square, 7.93650793650793651e-04);
  p = dp_fma_double(p, square, -2.77777777777777778e-03);
  p = dp_fma_double(p, square, 8.33333333333333333e-02);
  double stirling = dp_fma_double(y - 0.5, dp_log_double(y), 9.18938533204672742e-01 - y);
  return (float)(dp_fma_double(p, z, stirling) - dp_log_double(product));
}
static inline float dp_digamma_positive(float argument) {
  double x = (double)argument, u = dp_fma_double(x, x, 7.0 * x);
  double product = (u * (u + 6.0)) * ((u + 10.0) * (u + 12.0));
  double slope = dp_fma_double(dp_fma_double(dp_fma_double(4.0, u, 84.0), u, 504.0), u, 720.0);
  double y = x < 8.0 ? x + 8.0 : x, z = 1.0 / y, square = z * z;
  double step = x < 8.0 ? dp_fma_double(2.0, x, 7.0) * slope / product : 0.0;
  double p = -7.57575757575757576e-03;
  p = dp_fma_double(p, square, 4.16666666666666667e-03);
  p = dp_fma_double(p, square, -3.96825396825396825e-03);
  p = dp_fma_double(p, square, 8.33333333333333333e-03);
  p = dp_fma_double(p, square, -8.33333333333333333e-02);
  return (float)(dp_fma_double(p, square, dp_fma_double(-0.5, z, dp_log_double(y))) - step);
}

#endif
