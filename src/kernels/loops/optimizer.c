/* Fills the table of optimizer.h. Three templates hold the formulas: optimizer_light.tmpl.h
 * (updates that wait for memory) and optimizer.tmpl.h for all number types, optimizer_real.tmpl.h
 * for float and double only. Compiled once for each instruction set.
 *
 * A template computes with values of type T, which consist of elements of type E in memory. Usually
 * T is E, in loops that compilers vectorize. Where square roots can be estimated (AVX-512), T is a
 * vector of floats; the templates are then included twice: for whole vectors, and for the partial
 * vector at the end. */
#include "kernels/loops/optimizer.h"

#if defined(__AVX512DQ__)
#include <immintrin.h>
#endif
#include "kernels/loops/stream_internal.h"
#include "kernels/loops/types.h"
#include "kernels/loops/vector_math_internal.h"

#define NUMBER(index) ((E)call->scalars[index])
#define SCALAR(index) OF(NUMBER(index))
#define OLD(index) ((const E *)call->old[index])
#define NEW(index) ((E *)call->target[index])

/* ---- One element at a time ---- */
#define E T
#define OF(element) (element)
#define LOOP                                                                                       \
  const T *gradient = call->gradient;                                                              \
  const int64_t count = call->count;                                                               \
  DP_INDEPENDENT                                                                                   \
  for (int64_t i = 0; i < count; ++i)
#define LOAD(from) (from)[i]
#define STORE(to, value) (to)[i] = (value)
#define SQRT(x) ELEMENT_SQRT(x)
#define OVER_SQRT(x, y) ((x) / ELEMENT_SQRT(y))
#define IF_GREATER(x, y, yes, no) ((x) > (y) ? (yes) : (no))
#define STREAM                                                                                     \
  const T *gradient = call->gradient;                                                              \
  const int64_t count = call->count;                                                               \
  DP_STREAM_LOOP                                                                                   \
  for (int64_t i = 0; i < count; ++i)

#define T dp_complex64
#define SUFFIX complex64
#define ELEMENT_SQRT(x) csqrtf(x)
#include "kernels/loops/optimizer_light.tmpl.h"
#include "kernels/loops/optimizer.tmpl.h"
#undef T
#undef SUFFIX
#undef ELEMENT_SQRT

#define T dp_complex128
#define SUFFIX complex128
#define ELEMENT_SQRT(x) csqrt(x)
#include "kernels/loops/optimizer_light.tmpl.h"
#include "kernels/loops/optimizer.tmpl.h"
#undef T
#undef SUFFIX
#undef ELEMENT_SQRT

#define T double
#define SUFFIX double
#define ELEMENT_SQRT(x) sqrt(x)
#define SIGN(x) (T)(((x) > 0) - ((x) < 0))
#define ABS(x) fabs(x)
#define POW(x, y) pow(x, y)
#define EXP(x) exp(x)
#include "kernels/loops/optimizer_light.tmpl.h"
#include "kernels/loops/optimizer.tmpl.h"
#include "kernels/loops/optimizer_real.tmpl.h"
#undef T
#undef SUFFIX
#undef ELEMENT_SQRT
#undef SIGN
#undef ABS
#undef POW
#undef EXP

#define T float
#define SUFFIX float
#define ELEMENT_SQRT(x) sqrtf(x)
#include "kernels/loops/optimizer_light.tmpl.h"
#if !defined(__AVX512DQ__)
#define SIGN(x) (T)(((x) > 0) - ((x) < 0))
#define ABS(x) fabsf(x)
#define POW(x, y) powf(x, y)
#define EXP(x) dp_exp(x)
#include "kernels/loops/optimizer.tmpl.h"
#include "kernels/loops/optimizer_real.tmpl.h"
#else

/* ---- A vector of floats at a time ---- */
#undef T
#undef SUFFIX
#undef E
#undef OF
#undef LOOP
#undef LOAD
#undef STORE
#undef SQRT
#undef OVER_SQRT
#undef IF_GREATER

#define LANES 16
typedef float vector __attribute__((vector_size(4 * LANES)));

/* Estimates with one step of Newton's method are within 2 units in the last place and take a third
 * of the time of exact roots. The step is not defined at zero and infinity. */
static inline __mmask16 is_zero_or_infinite(vector x) {
  return _mm512_fpclass_ps_mask(x, 0x02 | 0x04 | 0x08);
}

static inline vector estimated_reciprocal_sqrt(vector x) {
  vector estimate = _mm512_rsqrt14_ps(x), half = estimate * _mm512_set1_ps(0.5f);
  vector lack = _mm512_fnmadd_ps(x * estimate, estimate, _mm512_set1_ps(1.0f));
  vector better = _mm512_fmadd_ps(half, lack, estimate);
  return _mm512_mask_mov_ps(better, is_zero_or_infinite(x), estimate);
}

static inline vector estimated_sqrt(vector x) {
  vector estimate = _mm512_rsqrt14_ps(x), root = x * estimate;
  vector lack = _mm512_fnmadd_ps(root, estimate, _mm512_set1_ps(1.0f));
  vector better = _mm512_fmadd_ps(root * _mm512_set1_ps(0.5f), lack, root);
  return _mm512_mask_mov_ps(better, is_zero_or_infinite(x), x);
}

static inline vector signs(vector x) {
  __mmask16 has_sign = _mm512_cmp_ps_mask(x, _mm512_setzero_ps(), _CMP_NEQ_OQ);
  vector sign_bits = _mm512_and_ps(x, _mm512_set1_ps(-0.0f));
  return _mm512_maskz_or_ps(has_sign, sign_bits, _mm512_set1_ps(1.0f));
}

static inline vector select_greater(vector x, vector y, vector yes, vector no) {
  return _mm512_mask_mov_ps(no, _mm512_cmp_ps_mask(x, y, _CMP_GT_OQ), yes);
}

static inline vector powers(vector base, vector exponent) {
  for (int i = 0; i < LANES; ++i)
    base[i] = powf(base[i], exponent[i]);
  return base;
}

static inline vector exponentials(vector x) {
  float lanes[LANES];
  _mm512_storeu_ps(lanes, x);
  for (int i = 0; i < LANES; ++i)
    lanes[i] = dp_exp(lanes[i]);
  return _mm512_loadu_ps(lanes);
}

#define T vector
#define E float
#define OF(element) _mm512_set1_ps(element)
#define SQRT(x) estimated_sqrt(x)
#define OVER_SQRT(x, y) ((x)*estimated_reciprocal_sqrt(y))
#define IF_GREATER(x, y, yes, no) select_greater(x, y, yes, no)
#define SIGN(x) signs(x)
#define ABS(x) _mm512_andnot_ps(_mm512_set1_ps(-0.0f), x)
#define POW(x, y) powers(x, y)
#define EXP(x) exponentials(x)

#define SUFFIX whole
#define LOOP                                                                                       \
  const float *gradient = call->gradient;                                                          \
  const int64_t count = call->count;                                                               \
  for (int64_t i = 0; i + LANES <= count; i += LANES)
#define LOAD(from) (vector) _mm512_loadu_ps((from) + i)
#define STORE(to, value) _mm512_storeu_ps((to) + i, value)
#include "kernels/loops/optimizer.tmpl.h"
#include "kernels/loops/optimizer_real.tmpl.h"
#undef SUFFIX
#undef LOOP
#undef LOAD
#undef STORE

#define SUFFIX rest
#define LOOP                                                                                       \
  const float *gradient = call->gradient;                                                          \
  const int64_t i = call->count - call->count % LANES;                                             \
  const __mmask16 left = (__mmask16)((1u << call->count % LANES) - 1);
#define LOAD(from) (vector) _mm512_maskz_loadu_ps(left, (from) + i)
#define STORE(to, value) _mm512_mask_storeu_ps((to) + i, left, value)
#include "kernels/loops/optimizer.tmpl.h"
#include "kernels/loops/optimizer_real.tmpl.h"

#define WHOLE_AND_REST(name)                                                                       \
  static void name##_float(const dp_optimizer_call *call) {                                        \
    name##_whole(call);                                                                            \
    if (call->count % LANES)                                                                       \
      name##_rest(call);                                                                           \
  }
DP_HEAVY_OPTIMIZERS(WHOLE_AND_REST)
#endif

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
