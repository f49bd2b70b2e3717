/* Elementary functions of floats as branch-free inline functions, for loops that compilers
 * vectorize. Results are within 2.5 units in the last place of the true value over the whole range,
 * subnormal results and non-finite arguments included; tests/unit/kernels/test_vector_math.c keeps
 * them there. The polynomials are Chebyshev fits made for the ranges that the comments name.
 * dp_fma_float is a fused multiply-add where the instruction set has one, else two roundings:
 * results may differ in the last place between instruction sets. */
#ifndef DP_KERNELS_VECTOR_MATH_INTERNAL_H
#define DP_KERNELS_VECTOR_MATH_INTERNAL_H

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

/* x = n ln 2 + r with |r| <= ln 2 / 2: r, and n both ways. |x| < 2^20. */
static inline float dp_reduce_exp(float x, float *n_out, int32_t *integer_out) {
  const float magic = 12582912.0f; /* 1.5 * 2^23: adding it rounds to an integer */
  float shifted = dp_fma_float(x, 1.44269504f, magic);
  float n = shifted - magic;
  *integer_out = (int32_t)(dp_float_bits(shifted) - 0x4b400000u);
  *n_out = n;
  float r = dp_fma_float(n, -0.693359375f, x); /* exact: 9 bits times an integer below 2^10 */
  return dp_fma_float(n, 2.12194440e-4f, r);
}
/* e^r - 1 for |r| <= 0.35. */
static inline float dp_expm1_reduced(float r) {
  float p = 1.989198063e-04f;
  p = dp_fma_float(p, r, 1.393454149e-03f);
  p = dp_fma_float(p, r, 8.333310485e-03f);
  p = dp_fma_float(p, r, 4.166645557e-02f);
  p = dp_fma_float(p, r, 1.666666716e-01f);
  p = dp_fma_float(p, r, 0.5f);
  return dp_fma_float(p * r, r, r);
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
/* What log gives outside of (0, inf). */
static inline float dp_log_special(float x, float regular) {
  float result = x == 0.0f ? -INFINITY : regular;
  result = x == INFINITY ? INFINITY : result;
  return x >= 0.0f ? result : NAN;
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
  /* What was lost in rounding 1 + x, relative to u. */
  float lost = k > 0.0f ? 1.0f - (u - x) : x - (u - 1.0f);
  float correction = lost / u;
  f = k == 0.0f ? x : f;
  correction = k == 0.0f || x > 1e15f ? 0.0f : correction;
  float low = dp_fma_float(k, -2.12194440e-4f, dp_log1p_tail(f) + correction);
  float result = dp_fma_float(k, 0.693359375f, f + low);
  result = dp_log_special(u, result);
  return x == 0.0f ? x : result;
}

static inline float dp_tanh(float x) {
  float magnitude = dp_abs_float(x);
  magnitude = magnitude > 10.0f ? 10.0f : magnitude;
  float t = dp_expm1(2.0f * magnitude);
  return dp_with_sign(t / (t + 2.0f), x);
}

static inline float dp_sigmoid(float x) {
  float e = dp_exp(-dp_abs_float(x));
  return (x >= 0.0f ? 1.0f : e) / (1.0f + e);
}

static inline float dp_erf(float x) {
  float a = dp_abs_float(x), square = x * x;
  float small = 7.875874871e-05f; /* erf(x) / x on |x| <= 1 */
  small = dp_fma_float(small, square, -8.016864303e-04f);
  small = dp_fma_float(small, square, 5.189087242e-03f);
  small = dp_fma_float(small, square, -2.685421146e-02f);
  small = dp_fma_float(small, square, 1.128359437e-01f);
  small = dp_fma_float(small, square, -3.761262596e-01f);
  small = dp_fma_float(small, square, 1.283791088e-01f); /* 2 / sqrt(pi) - 1 */
  small = dp_fma_float(small, x, x);
  float b = a > 4.0f ? 4.0f : a;
  float large = -1.637151399e-06f; /* -log(1 - erf(x)) on [1, 4] */
  large = dp_fma_float(large, b, 4.605804133e-05f);
  large = dp_fma_float(large, b, -5.968056503e-04f);
  large = dp_fma_float(large, b, 4.759596195e-03f);
  large = dp_fma_float(large, b, -2.642113529e-02f);
  large = dp_fma_float(large, b, 1.100800857e-01f);
  large = dp_fma_float(large, b, 6.318260431e-01f);
  large = dp_fma_float(large, b, 1.130233407e+00f);
  large = dp_fma_float(large, b, -3.201380605e-04f);
  large = dp_with_sign(1.0f - dp_exp(-large), x);
  return a <= 1.0f ? small : a > 1.0f ? large : x;
}

/* The angle of (x, y), as atan2f(y, x). */
static inline float dp_atan2(float y, float x) {
  float a = dp_abs_float(x), b = dp_abs_float(y);
  float top = a > b ? a : b, low = a > b ? b : a;
  /* The tangent is low / top; beyond tan(pi/8), that of the angle less pi/4. */
  int is_wide = low > 0.414213562f * top;
  float numerator = is_wide ? low - top : low, denominator = is_wide ? low + top : top;
  float t = numerator / (top == 0.0f ? 1.0f : denominator), square = t * t;
  float q = -6.459169172e-02f; /* (atan(t) / t - 1) / t^2 */
  q = dp_fma_float(q, square, 1.074623634e-01f);
  q = dp_fma_float(q, square, -1.426422686e-01f);
  q = dp_fma_float(q, square, 1.999954991e-01f);
  q = dp_fma_float(q, square, -3.333333181e-01f);
  float angle = dp_fma_float(q * square, t, t);
  angle = is_wide ? 0.785398185f + (angle - 2.185569414e-08f) : angle;
  float far = low == INFINITY ? 0.785398185f : 0.0f;
  angle = top == INFINITY ? far : angle;
  angle = b > a ? 1.57079637f - (angle + 4.371138829e-08f) : angle;
  angle = dp_float_bits(x) >> 31 ? 3.14159274f - (angle + 8.742277657e-08f) : angle;
  float result = dp_with_sign(angle, y), sum = x + y;
  result = x != x ? sum : result;
  return y != y ? sum : result;
}

/* e^x for -120 <= x <= 1, to nine digits, in double. */
static inline double dp_exp_nine_digits(double x) {
  const double magic = 6755399441055744.0; /* 1.5 * 2^52 */
  double shifted = x * 1.44269504088896340736 + magic, n = shifted - magic;
  double r = x - n * 0.69314718055994530942;
  double p = 1.98993932385739373e-04;
  p = p * r + 1.39337317248051169e-03;
  p = p * r + 8.33329833928580198e-03;
  p = p * r + 4.16664641897515550e-02;
  p = p * r + 1.66666667193277274e-01;
  p = p * r + 5.00000001353650525e-01;
  union {
    uint64_t bits;
    double value;
  } scale = {(dp_double_bits(shifted) + 1023) << 52};
  return (1.0 + r + p * r * r) * scale.value;
}

/* t e^(P(t) - x^2) with t = 1 / (1 + |x| / 2); below zero 2 less that. In double inside. */
static inline float dp_erfc(float x) {
  double a = (double)dp_abs_float(x);
  a = a > 10.5 ? 10.5 : a; /* zero as a float */
  double t = 1.0 / (1.0 + 0.5 * a), p = -1.40617332681242740e-01;
  p = p * t + 9.64371684878607027e-01;
  p = p * t - 2.76850020664901297e+00;
  p = p * t + 4.21076820624333692e+00;
  p = p * t - 3.52917057058308092e+00;
  p = p * t + 1.65558928581460707e+00;
  p = p * t - 7.08129189362874278e-01;
  p = p * t + 2.24958940989517520e-01;
  p = p * t + 3.54627459119812583e-01;
  p = p * t + 1.00167345045907386e+00;
  p = p * t - 1.26557172524856831e+00;
  double tail = t * dp_exp_nine_digits(p - a * a);
  float result = (float)(x < 0.0f ? 2.0 - tail : tail);
  return x != x ? x : result;
}

/* sin and cos of |x| <= DP_TRIGONOMETRY_LIMIT; beyond, use libm's. In double inside. */
#define DP_TRIGONOMETRY_LIMIT 1e5f
/* x = n pi/2 + r. */
static inline double dp_reduce_circle(float x, int32_t *quadrant_out) {
  const double magic = 6755399441055744.0; /* 1.5 * 2^52 */
  double shifted = (double)x * 0.63661977236758134308 + magic;
  double n = shifted - magic;
  *quadrant_out = (int32_t)(uint32_t)dp_double_bits(shifted);
  double r = (double)x - n * 1.57079632673412561417; /* 33 bits of pi/2: the product is exact */
  return r - n * 6.07710050650619224932e-11;
}
static inline double dp_sin_reduced(double r) {
  double square = r * r, p = 2.72437814094612312e-06;
  p = p * square - 1.98400388725567466e-04;
  p = p * square + 8.33333178521769580e-03;
  p = p * square - 1.66666666636228311e-01;
  return r + r * square * p;
}
static inline double dp_cos_reduced(double r) {
  double square = r * r, p = -2.72958308276146168e-07;
  p = p * square + 2.48005604299145047e-05;
  p = p * square - 1.38888875973278104e-03;
  p = p * square + 4.16666666641272096e-02;
  return 1.0 - 0.5 * square + square * square * p;
}
static inline float dp_quarter_turn(double r, int32_t quadrant) {
  double sine = dp_sin_reduced(r), cosine = dp_cos_reduced(r);
  double value = quadrant & 1 ? cosine : sine;
  return (float)(quadrant & 2 ? -value : value);
}
static inline float dp_sin(float x) {
  int32_t quadrant;
  double r = dp_reduce_circle(x, &quadrant);
  float result = dp_quarter_turn(r, quadrant);
  return x == 0.0f ? x : result;
}
static inline float dp_cos(float x) {
  int32_t quadrant;
  double r = dp_reduce_circle(x, &quadrant);
  return dp_quarter_turn(r, quadrant + 1);
}

#endif
