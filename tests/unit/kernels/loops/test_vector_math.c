/* Accuracy of the float functions: a walk over the whole range of floats, each value compared with
 * libm's in double. The error is counted in units in the last place of the float result. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <cmocka.h>
#include "kernels/loops/vector_math_internal.h"
#include "kernels/special/special.h"

static double ulp_error(float got, double want) {
  float rounded = (float)want;
  if (isnan(want))
    return isnan(got) ? 0 : INFINITY;
  if (isinf(rounded) || isinf(got))
    return got == rounded ? 0 : INFINITY;
  int exponent;
  frexpf(rounded, &exponent);
  double unit = ldexp(1.0, (exponent < -125 || rounded == 0 ? -125 : exponent) - 24);
  return fabs((double)got - want) / unit;
}

typedef struct function_case {
  const char *name;
  float (*approximate)(float);
  double (*exact)(double);
  double limit;
  float range;
} function_case;

static double sigmoid_exact(double x) {
  return 1 / (1 + exp(-x));
}

/* Of positive arguments, as theirs. */
static float lgamma_any(float x) {
  return x > 0 && x < INFINITY ? dp_lgamma_positive(x) : (float)lgamma((double)x);
}
static float digamma_any(float x) {
  return x > 0 && x < INFINITY ? dp_digamma_positive(x) : (float)dp_special_digamma((double)x);
}

/* Of arguments whose results are normal. */
static float exp_below_zero_any(float x) {
  return x <= 0 && x >= -87.3f ? dp_exp_below_zero(x) : (float)exp((double)x);
}

static void check_function(const function_case *entry) {
  double worst = 0;
  float worst_at = 0;
  for (uint64_t bits = 0; bits < (1ull << 32); bits += 977) {
    float x = dp_bits_float((uint32_t)bits);
    if (fabsf(x) > entry->range)
      continue;
    double error = ulp_error(entry->approximate(x), entry->exact(x));
    if (error > worst) {
      worst = error;
      worst_at = x;
    }
  }
  print_message("%-8s %.3f ulp at %.9g\n", entry->name, worst, worst_at);
  assert_true(worst <= entry->limit);
}

static void test_accuracy(void **state) {
  const function_case cases[] = {
      {"exp", dp_exp, exp, 2, INFINITY},
      {"exp < 0", exp_below_zero_any, exp, 2, INFINITY},
      {"expm1", dp_expm1, expm1, 2, INFINITY},
      {"log", dp_log, log, 2, INFINITY},
      {"log1p", dp_log1p, log1p, 2, INFINITY},
      {"tanh", dp_tanh, tanh, 5.5, INFINITY},
      {"sigmoid", dp_sigmoid, sigmoid_exact, 2.5, INFINITY},
      {"erf", dp_erf, erf, 5.5, INFINITY},
      {"erfc", dp_erfc, erfc, 1, INFINITY},
      {"sinh", dp_sinh, sinh, 2.5, INFINITY},
      {"cosh", dp_cosh, cosh, 2.5, INFINITY},
      {"lgamma", lgamma_any, lgamma, 1.5, INFINITY},
      {"digamma", digamma_any, dp_special_digamma, 1.5, INFINITY},
      {"sin", dp_sin, sin, 1, DP_TRIGONOMETRY_LIMIT},
      {"cos", dp_cos, cos, 1, DP_TRIGONOMETRY_LIMIT},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i)
    check_function(&cases[i]);
}

static void test_exp_double(void **state) {
  double worst = 0;
  for (double x = -750; x < 715; x += 0.000731) {
    long double want = expl((long double)x);
    double got = dp_exp_double(x), rounded = (double)want;
    if (isinf(rounded) || isinf(got)) {
      assert_true(got == rounded);
      continue;
    }
    double unit = nextafter(rounded, INFINITY) - rounded;
    worst = fmax(worst, (double)fabsl((long double)got - want) / unit);
  }
  print_message("exp of doubles %.3f ulp\n", worst);
  assert_true(worst <= 1.5);
  assert_true(isnan(dp_exp_double(NAN)) && dp_exp_double(INFINITY) == INFINITY);
  assert_true(dp_exp_double(-INFINITY) == 0 && dp_exp_double(0) == 1);
}

static void test_atan2(void **state) {
  const float parts[] = {0.0f, 1e-45f, 1e-40f, 1e-6f, 0.1f,  0.41421f, 0.41422f,
                         0.9f, 1.0f,   1.7f,   1e6f,  1e38f, INFINITY};
  enum { COUNT = sizeof parts / sizeof parts[0] };
  for (int i = 0; i < COUNT * COUNT * 4; ++i) {
    float y = parts[i % COUNT] * (i / COUNT / COUNT % 2 ? -1.0f : 1.0f);
    float x = parts[i / COUNT % COUNT] * (i / COUNT / COUNT / 2 ? -1.0f : 1.0f);
    assert_true(ulp_error(dp_atan2(y, x), atan2((double)y, (double)x)) <= 2.5);
    assert_int_equal(!signbit(dp_atan2(y, x)), !signbit(y));
  }
  assert_true(isnan(dp_atan2(NAN, 1.0f)) && isnan(dp_atan2(1.0f, NAN)));
}

static void test_special_values(void **state) {
  assert_true(isnan(dp_exp(NAN)) && isnan(dp_log(NAN)) && isnan(dp_tanh(NAN)));
  assert_true(isnan(dp_sigmoid(NAN)) && isnan(dp_erf(NAN)) && isnan(dp_log(-1.0f)));
  assert_true(dp_exp_below_zero(-INFINITY) == 0 && isnan(dp_exp_below_zero(NAN)));
  assert_true(dp_exp(INFINITY) == INFINITY && dp_exp(-INFINITY) == 0);
  assert_true(dp_log(0.0f) == -INFINITY && dp_log1p(-1.0f) == -INFINITY);
  assert_true(signbit(dp_tanh(-0.0f)) && signbit(dp_expm1(-0.0f)) && signbit(dp_log1p(-0.0f)));
  assert_true(dp_tanh(INFINITY) == 1 && dp_tanh(-20.0f) == -1);
  assert_true(dp_erf(INFINITY) == 1 && dp_erf(-5.0f) == -1);
  assert_true(dp_sinh(INFINITY) == INFINITY && dp_sinh(-INFINITY) == -INFINITY);
  assert_true(isnan(dp_sinh(NAN)) && isnan(dp_cosh(NAN)) && dp_cosh(-INFINITY) == INFINITY);
  assert_true(dp_sigmoid(INFINITY) == 1 && dp_sigmoid(-INFINITY) == 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_accuracy),
      cmocka_unit_test(test_exp_double),
      cmocka_unit_test(test_atan2),
      cmocka_unit_test(test_special_values),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
