/* Fills the table of unary.h: element-wise loops with one input. The bodies are in unary*.tmpl.h,
 * which are included once per type; the table at the end says which op has a loop for which type.
 * Compiled once for each instruction set. */
#include "kernels/loops/unary.h"

#include <string.h>
#if defined(__AVX512F__)
#include <immintrin.h>
#endif
#include "kernels/loops/stream_internal.h"
#include "kernels/loops/types.h"
#include "kernels/loops/vector_math_internal.h"
#include "kernels/special/special.h"

/* ---- Reals ---- */
static inline double fast_sigmoid(double x) {
  double e = dp_exp_double(-fabs(x));
  return (x >= 0 ? 1 : e) / (1 + e);
}

#define T float
#define SUFFIX float
#define CALL(name) name##f
#define FAST(name) dp_##name
#include "kernels/loops/unary_float.tmpl.h"
#undef T
#undef SUFFIX
#undef CALL
#undef FAST

#define fast_exp dp_exp_double
#define fast_expm1 expm1
#define fast_log log
#define fast_log1p log1p
#define fast_sinh sinh
#define fast_cosh cosh
#define fast_tanh tanh
#define fast_erf erf
#define fast_erfc erfc
#define T double
#define SUFFIX double
#define CALL(name) name
#define FAST(name) fast_##name
#include "kernels/loops/unary_float.tmpl.h"
#undef T
#undef SUFFIX
#undef CALL
#undef FAST

/* An estimate and one step of Newton's method: within 2 units in the last place, in a third of the
 * time of a square root and a division. At zero and infinity the estimate is exact and the step is
 * not defined. */
#if defined(__AVX512F__)
static inline __m512 better_or_estimate(__m512 better, __m512 estimate) {
  return _mm512_mask_mov_ps(better, _mm512_cmp_ps_mask(better, better, _CMP_UNORD_Q), estimate);
}

static inline __m512 rsqrt_of(__m512 x) {
  __m512 estimate = _mm512_rsqrt14_ps(x), root = _mm512_mul_ps(x, estimate);
  __m512 half = _mm512_mul_ps(estimate, _mm512_set1_ps(0.5f));
  __m512 lack = _mm512_fnmadd_ps(root, estimate, _mm512_set1_ps(1.0f));
  return better_or_estimate(_mm512_fmadd_ps(half, lack, estimate), estimate);
}

static inline __m512 reciprocal_of(__m512 x) {
  __m512 estimate = _mm512_rcp14_ps(x);
  __m512 lack = _mm512_fnmadd_ps(x, estimate, _mm512_set1_ps(1.0f));
  return better_or_estimate(_mm512_fmadd_ps(estimate, lack, estimate), estimate);
}

#define ESTIMATED(name, exact)                                                                     \
  static void name##_float(const void *from, void *to, int64_t count) {                            \
    const float *input = from;                                                                     \
    float *output = to;                                                                            \
    int64_t i = 0;                                                                                 \
    for (; i + 16 <= count; i += 16)                                                               \
      _mm512_storeu_ps(output + i, name##_of(_mm512_loadu_ps(input + i)));                         \
    __mmask16 rest = (__mmask16)((1u << (count - i)) - 1);                                         \
    _mm512_mask_storeu_ps(output + i, rest, name##_of(_mm512_maskz_loadu_ps(rest, input + i)));    \
  }
#else
#define ESTIMATED(name, exact)                                                                     \
  static void name##_float(const void *from, void *to, int64_t count) {                            \
    const float *input = from;                                                                     \
    float *output = to;                                                                            \
    DP_INDEPENDENT                                                                                 \
    for (int64_t i = 0; i < count; ++i) {                                                          \
      float x = input[i];                                                                          \
      output[i] = exact;                                                                           \
    }                                                                                              \
  }
#endif
ESTIMATED(rsqrt, 1 / sqrtf(x))
ESTIMATED(reciprocal, 1 / x)
#undef ESTIMATED

/* Functions of floats whose vectorized form has a limited domain run in blocks: the vectorized form
 * if all arguments of the block are inside the domain, else the exact form. */
#define DOMAIN_BLOCK 256

static bool is_moderate(const float *input, int64_t count) {
  int32_t largest = 0;
  for (int64_t i = 0; i < count; ++i) {
    int32_t bits = (int32_t)(dp_float_bits(input[i]) & 0x7fffffffu);
    largest = bits > largest ? bits : largest;
  }
  return largest <= (int32_t)dp_float_bits(DP_TRIGONOMETRY_LIMIT);
}

/* Above zero and finite. */
static bool is_positive(const float *input, int64_t count) {
  int32_t outside = 0;
  for (int64_t i = 0; i < count; ++i)
    outside |= !(input[i] > 0.0f && input[i] < INFINITY);
  return !outside;
}

static inline float tan_moderate(float x) {
  uint64_t turns;
  double r = dp_reduce_circle(x, &turns);
  double sine = dp_sin_reduced(r), cosine = dp_cos_reduced(r);
  float result = (float)(turns & 1 ? -cosine / sine : sine / cosine);
  return x == 0.0f ? x : result;
}

static float lgamma_exact(float x) {
  return (float)dp_special_lgamma((double)x);
}
static float digamma_exact(float x) {
  return (float)dp_special_digamma((double)x);
}

#define IN_BLOCKS(name, is_inside, inside, exact)                                                  \
  static void name##_float(const void *from, void *to, int64_t count) {                            \
    const float *input = from;                                                                     \
    float *output = to;                                                                            \
    for (int64_t begin = 0; begin < count; begin += DOMAIN_BLOCK) {                                \
      int64_t end = count - begin < DOMAIN_BLOCK ? count : begin + DOMAIN_BLOCK;                   \
      if (is_inside(input + begin, end - begin)) {                                                 \
        DP_INDEPENDENT                                                                             \
        for (int64_t i = begin; i < end; ++i)                                                      \
          output[i] = inside(input[i]);                                                            \
      } else {                                                                                     \
        for (int64_t i = begin; i < end; ++i)                                                      \
          output[i] = exact(input[i]);                                                             \
      }                                                                                            \
    }                                                                                              \
  }
IN_BLOCKS(sin, is_moderate, dp_sin, sinf)
IN_BLOCKS(cos, is_moderate, dp_cos, cosf)
IN_BLOCKS(tan, is_moderate, tan_moderate, tanf)
IN_BLOCKS(lgamma, is_positive, dp_lgamma_positive, lgamma_exact)
IN_BLOCKS(digamma, is_positive, dp_digamma_positive, digamma_exact)
#undef IN_BLOCKS

/* The double loops of functions whose float loops are written above. */
#define DOUBLES(name, expression)                                                                  \
  static void name##_double(const void *from, void *to, int64_t count) {                           \
    const double *input = from;                                                                    \
    double *output = to;                                                                           \
    DP_INDEPENDENT                                                                                 \
    for (int64_t i = 0; i < count; ++i) {                                                          \
      double x = input[i];                                                                         \
      output[i] = expression;                                                                      \
    }                                                                                              \
  }
DOUBLES(rsqrt, 1 / sqrt(x))
DOUBLES(reciprocal, 1 / x)
DOUBLES(sin, sin(x))
DOUBLES(cos, cos(x))
DOUBLES(tan, tan(x))
#undef DOUBLES

/* ---- Complex ---- */
#define T dp_complex64
#define R float
#define SUFFIX complex64
#define OF dp_complex64_of
#define MULTIPLY dp_complex64_multiply
#define CALL(name) name##f
#define CALL_REAL(name) name##f
#define ANGLE dp_atan2
#include "kernels/loops/unary_complex.tmpl.h"
#undef T
#undef R
#undef SUFFIX
#undef OF
#undef MULTIPLY
#undef CALL
#undef CALL_REAL
#undef ANGLE

#define T dp_complex128
#define R double
#define SUFFIX complex128
#define OF dp_complex128_of
#define MULTIPLY dp_complex128_multiply
#define CALL(name) name
#define CALL_REAL(name) name
#define ANGLE atan2
#include "kernels/loops/unary_complex.tmpl.h"
#undef T
#undef R
#undef SUFFIX
#undef OF
#undef MULTIPLY
#undef CALL
#undef CALL_REAL
#undef ANGLE

/* ---- Integers ---- */
#define T int8_t
#define U uint8_t
#define SUFFIX int8
#define IS_SIGNED
#include "kernels/loops/unary_int.tmpl.h"
#define T int16_t
#define U uint16_t
#define SUFFIX int16
#define IS_SIGNED
#include "kernels/loops/unary_int.tmpl.h"
#define T int32_t
#define U uint32_t
#define SUFFIX int32
#define IS_SIGNED
#include "kernels/loops/unary_int.tmpl.h"
#define T int64_t
#define U uint64_t
#define SUFFIX int64
#define IS_SIGNED
#include "kernels/loops/unary_int.tmpl.h"
#define T uint8_t
#define U uint8_t
#define SUFFIX uint8
#include "kernels/loops/unary_int.tmpl.h"
#define T uint16_t
#define U uint16_t
#define SUFFIX uint16
#include "kernels/loops/unary_int.tmpl.h"
#define T uint32_t
#define U uint32_t
#define SUFFIX uint32
#include "kernels/loops/unary_int.tmpl.h"
#define T uint64_t
#define U uint64_t
#define SUFFIX uint64
#include "kernels/loops/unary_int.tmpl.h"

static void copy_four(const void *from, void *to, int64_t count) {
  if (from != to)
    memcpy(to, from, (size_t)count * 4);
}

static void copy_eight(const void *from, void *to, int64_t count) {
  if (from != to)
    memcpy(to, from, (size_t)count * 8);
}

static void logical_not(const void *from, void *to, int64_t count) {
  const uint8_t *input = from;
  uint8_t *output = to;
  DP_INDEPENDENT
  for (int64_t i = 0; i < count; ++i)
    output[i] = !input[i];
}

/* ---- The table ---- */
#define REALS(name) [DP_FLOAT] = name##_float, [DP_DOUBLE] = name##_double
#define COMPLEX(name) [DP_COMPLEX64] = name##_complex64, [DP_COMPLEX128] = name##_complex128
#define SIGNED(name)                                                                               \
  [DP_INT8] = name##_int8, [DP_INT16] = name##_int16, [DP_INT32] = name##_int32,                   \
  [DP_INT64] = name##_int64
#define UNSIGNED(name)                                                                             \
  [DP_UINT8] = name##_uint8, [DP_UINT16] = name##_uint16, [DP_UINT32] = name##_uint32,             \
  [DP_UINT64] = name##_uint64
#define FLOATS_AND_COMPLEX(name) [DP_UNARY_##name] = {REALS(name), COMPLEX(name)}
#define FLOATS(name) [DP_UNARY_##name] = {REALS(name)}

const dp_unary_loops DP_ISA_SYMBOL(dp_unary_table) = {
    .fn =
        {
            [DP_UNARY_abs] = {REALS(abs), SIGNED(abs)},
            [DP_UNARY_neg] = {REALS(neg), COMPLEX(neg), SIGNED(neg)},
            [DP_UNARY_sign] = {REALS(sign), COMPLEX(sign), SIGNED(sign)},
            [DP_UNARY_square] = {REALS(square), COMPLEX(square), SIGNED(square), UNSIGNED(square)},
            FLOATS_AND_COMPLEX(reciprocal),
            FLOATS_AND_COMPLEX(sqrt),
            FLOATS_AND_COMPLEX(rsqrt),
            FLOATS_AND_COMPLEX(exp),
            FLOATS_AND_COMPLEX(expm1),
            FLOATS_AND_COMPLEX(log),
            FLOATS_AND_COMPLEX(log1p),
            FLOATS_AND_COMPLEX(sin),
            FLOATS_AND_COMPLEX(cos),
            FLOATS_AND_COMPLEX(tan),
            FLOATS_AND_COMPLEX(asin),
            FLOATS_AND_COMPLEX(acos),
            FLOATS_AND_COMPLEX(atan),
            FLOATS_AND_COMPLEX(sinh),
            FLOATS_AND_COMPLEX(cosh),
            FLOATS_AND_COMPLEX(tanh),
            FLOATS_AND_COMPLEX(asinh),
            FLOATS_AND_COMPLEX(acosh),
            FLOATS_AND_COMPLEX(atanh),
            FLOATS_AND_COMPLEX(sigmoid),
            [DP_UNARY_lgamma] = {[DP_FLOAT] = lgamma_float},
            [DP_UNARY_digamma] = {[DP_FLOAT] = digamma_float},
            FLOATS(erf),
            FLOATS(erfc),
            FLOATS(ceil),
            FLOATS(floor),
            FLOATS(trunc),
            FLOATS(rint),
            [DP_UNARY_round] = {REALS(rint), [DP_INT32] = copy_four, [DP_INT64] = copy_eight},
            FLOATS(is_nan),
            FLOATS(is_inf),
            FLOATS(is_finite),
            [DP_UNARY_logical_not] = {[DP_BOOL] = logical_not},
            [DP_UNARY_invert] = {SIGNED(invert), UNSIGNED(invert)},
            [DP_UNARY_population_count] = {SIGNED(population_count), UNSIGNED(population_count)},
            [DP_UNARY_conj] = {COMPLEX(conj)},
            [DP_UNARY_real] = {COMPLEX(real)},
            [DP_UNARY_imag] = {COMPLEX(imag)},
            [DP_UNARY_angle] = {COMPLEX(angle)},
            [DP_UNARY_complex_abs] = {COMPLEX(complex_abs)},
        },
};
