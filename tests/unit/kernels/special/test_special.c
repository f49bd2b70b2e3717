/* The special functions against values that are known exactly. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "kernels/special/special.h"

static void assert_near(double got, double want) {
  if (!(fabs(got - want) <= 1e-12 * fabs(want) + 1e-13))
    fail_msg("%.17g, wanted %.17g", got, want);
}

static void test_special_values(void **state) {
  const double pi = 3.14159265358979323846;
  assert_near(dp_special_digamma(1), -0.57721566490153286);
  assert_near(dp_special_digamma(0.5), -1.9635100260214235);
  assert_near(dp_special_zeta(2, 1), pi * pi / 6);
  assert_near(dp_special_polygamma(1, 1), pi * pi / 6);
  assert_near(dp_special_spence(2), -pi * pi / 12);
  assert_near(dp_special_igamma(1, 2), 1 - exp(-2));
  assert_near(dp_special_igammac(1, 30), exp(-30));
  assert_near(dp_special_betainc(2, 3, 0.5), 0.6875);
  assert_near(dp_special_i0(1), 1.2660658777520084);
  assert_near(dp_special_k0(1), 0.42102443824070834);
  assert_near(dp_special_k1(3), 0.040156431128194184);
  assert_near(dp_special_dawsn(1), 0.53807950691276841);
  assert_near(dp_special_expint(1), 1.8951178163559368);
  assert_near(dp_special_fresnel_cos(1), 0.77989340037682283);
  assert_near(dp_special_fresnel_sin(2), 0.34341567836369824);
  for (double p = 1e-12; p < 1; p = p < 0.5 ? p * 3 : p + 0.07)
    assert_near(erfc(-dp_special_ndtri(p) / sqrt(2)) / 2, p);
  for (double x = -0.99; x < 1; x += 0.09)
    assert_near(erf(dp_special_erfinv(x)), x);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_special_values),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
