/* The hot loops against plain references, on every instruction set that this machine has: lengths
 * around the vector sizes, unaligned data, scalar operands, results in place. */
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "kernels/loops/binary.h"
#include "kernels/loops/cast.h"
#include "kernels/loops/clip.h"
#include "kernels/loops/convert.h"
#include "kernels/loops/reduce.h"
#include "kernels/loops/select.h"
#include "kernels/loops/unary.h"
#include "tensor/dtype.h"

#define MOST 600

static uint64_t seed = 1;
static uint32_t next_random(void) {
  seed = seed * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(seed >> 33);
}
static float random_float(void) {
  return (float)((double)next_random() / 2147483648.0 * 8 - 4);
}

#define EACH_ISA(isa)                                                                              \
  for (dp_isa isa = DP_ISA_BASELINE; isa < DP_ISA_COUNT; ++isa)                                    \
    if (dp_isa_has(isa))

/* ---- Two inputs ---- */
typedef float (*float_model)(float, float);
static float model_add(float x, float y) {
  return x + y;
}
static float model_div(float x, float y) {
  return x / y;
}
static float model_maximum(float x, float y) {
  return isnan(x) || isnan(y) ? NAN : x > y ? x : y;
}
static float model_floor_mod(float x, float y) {
  float rest = fmodf(x, y);
  return rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest;
}
static float model_sigmoid_grad(float x, float y) {
  return y * (x * (1 - x));
}

static void check_float_op(dp_isa isa, dp_binary_op op, float_model model) {
  static float a[MOST + 3], b[MOST + 3], to[MOST + 3];
  dp_binary_fn fn = dp_binary_table_of(isa)->fn[op][DP_FLOAT];
  for (int count = 0; count < 70; ++count) {
    for (int mode = 0; mode < 4; ++mode) {
      for (int i = 0; i < MOST; ++i) {
        a[i] = random_float();
        b[i] = random_float();
      }
      a[5] = NAN;
      dp_binary_span span = {
          count, 3, mode != 1, mode != 2, mode == 1 ? 1 : count, mode == 2 ? 1 : count};
      float *x = a + 1, *y = b + 2, *result = mode == 3 ? a + 1 : to + 1;
      static float want[MOST];
      for (int row = 0; row < 3; ++row)
        for (int i = 0; i < count; ++i)
          want[row * count + i] = model(x[row * span.a_outer + i * span.a_inner],
                                        y[row * span.b_outer + i * span.b_inner]);
      assert_true(fn(x, y, result, &span));
      for (int i = 0; i < 3 * count; ++i)
        if (!(isnan(want[i]) && isnan(result[i])) && want[i] != result[i])
          fail_msg("%s op %d count %d mode %d at %d: %g, wanted %g", dp_isa_name(isa), op, count,
                   mode, i, result[i], want[i]);
    }
  }
}

static void test_binary_floats(void **state) {
  EACH_ISA(isa) {
    check_float_op(isa, DP_BINARY_add, model_add);
    check_float_op(isa, DP_BINARY_div, model_div);
    check_float_op(isa, DP_BINARY_maximum, model_maximum);
    check_float_op(isa, DP_BINARY_floor_mod, model_floor_mod);
    check_float_op(isa, DP_BINARY_sigmoid_grad, model_sigmoid_grad);
  }
}

static void test_integer_division(void **state) {
  const int32_t a[] = {7, -7, INT32_MIN, INT32_MAX, -6, 6, INT32_MIN};
  const int32_t b[] = {2, 2, -1, -1, 3, -4, INT32_MAX};
  const int32_t quotient[] = {3, -4, INT32_MIN, -INT32_MAX, -2, -2, -2};
  const int32_t rest[] = {1, 1, 0, 0, 0, -2, INT32_MAX - 1};
  dp_binary_span span = {7, 1, 1, 1, 0, 0};
  EACH_ISA(isa) {
    int32_t to[7];
    const dp_binary_loops *loops = dp_binary_table_of(isa);
    assert_true(loops->fn[DP_BINARY_floor_div][DP_INT32](a, b, to, &span));
    assert_memory_equal(to, quotient, sizeof to);
    assert_true(loops->fn[DP_BINARY_floor_mod][DP_INT32](a, b, to, &span));
    assert_memory_equal(to, rest, sizeof to);
    const int32_t zeros[7] = {1, 1, 1, 0, 1, 1, 1};
    assert_false(loops->fn[DP_BINARY_div][DP_INT32](a, zeros, to, &span));
    assert_false(loops->fn[DP_BINARY_floor_mod][DP_INT32](a, zeros, to, &span));
  }
}

/* All quotients of bytes, and random words whose quotients are small, large and near integers. */
static void test_quotients_and_rests(void **state) {
  EACH_ISA(isa) {
    const dp_binary_loops *loops = dp_binary_table_of(isa);
    for (int divisor = -128; divisor < 128; ++divisor) {
      int8_t a[256], b = (int8_t)divisor, quotient[256], rest[256];
      for (int i = 0; i < 256; ++i)
        a[i] = (int8_t)(i - 128);
      dp_binary_span span = {256, 1, 1, 0, 0, 0};
      assert_int_equal(loops->fn[DP_BINARY_div][DP_INT8](a, &b, quotient, &span), divisor != 0);
      assert_int_equal(loops->fn[DP_BINARY_truncate_mod][DP_INT8](a, &b, rest, &span),
                       divisor != 0);
      for (int i = 0; divisor && i < 256; ++i) {
        assert_int_equal(quotient[i], (int8_t)(a[i] / divisor));
        assert_int_equal(rest[i], a[i] % divisor);
      }
    }
    for (int turn = 0; turn < 200; ++turn) {
      int32_t a[67], b[67], quotient[67], rest[67];
      for (int i = 0; i < 67; ++i) {
        b[i] = (int32_t)(next_random() >> next_random() % 31) - 1000;
        b[i] = b[i] == 0 ? 1 : b[i];
        int64_t product = (int64_t)b[i] * (int32_t)(next_random() >> next_random() % 31);
        int64_t near = product % (1 << 30) / b[i] * b[i] + (int)(next_random() % 3) - 1;
        a[i] = (int32_t)(near % INT32_MAX);
      }
      dp_binary_span span = {67, 1, 1, 1, 0, 0};
      assert_true(loops->fn[DP_BINARY_div][DP_INT32](a, b, quotient, &span));
      assert_true(loops->fn[DP_BINARY_truncate_mod][DP_INT32](a, b, rest, &span));
      for (int i = 0; i < 67; ++i) {
        assert_int_equal(quotient[i], a[i] / b[i]);
        assert_int_equal(rest[i], a[i] % b[i]);
      }
    }
  }
}

/* Remainders of floats are exact, bit for bit, whatever the size of the quotient. */
static void test_rests_of_floats(void **state) {
  EACH_ISA(isa) {
    for (int turn = 0; turn < 3000; ++turn) {
      float a[67], b[67], cut[67], floored[67];
      for (int i = 0; i < 67; ++i) {
        int most = turn % 40;
        b[i] = ldexpf(random_float(), turn % 7 == 0 ? -130 : 0);
        a[i] = b[i] * (float)(int32_t)ldexpf(random_float(), most < 28 ? most : 28);
        a[i] = i % 2 ? nextafterf(a[i], 0) : a[i];
      }
      if (turn % 11 == 0)
        b[turn % 67] = turn % 2 ? INFINITY : 0;
      dp_binary_span span = {67, 1, 1, 1, 0, 0};
      assert_true(dp_binary_table_of(isa)->fn[DP_BINARY_truncate_mod][DP_FLOAT](a, b, cut, &span));
      assert_true(dp_binary_table_of(isa)->fn[DP_BINARY_floor_mod][DP_FLOAT](a, b, floored, &span));
      for (int i = 0; i < 67; ++i) {
        float want = fmodf(a[i], b[i]), floor = model_floor_mod(a[i], b[i]);
        if (memcmp(&want, &cut[i], 4) != 0 && !(isnan(want) && isnan(cut[i])))
          fail_msg("%s %a mod %a: %a, wanted %a", dp_isa_name(isa), a[i], b[i], cut[i], want);
        assert_true(floor == floored[i] || (isnan(floor) && isnan(floored[i])));
      }
    }
  }
}

static void test_clip(void **state) {
  static const float specials[] = {-1, 0.5f, 2, INFINITY, -INFINITY, NAN};
  float x[37], low[37], high[37], to[37];
  EACH_ISA(isa) {
    for (int mode = 0; mode < 4; ++mode) {
      for (int i = 0; i < 37; ++i) {
        x[i] = specials[next_random() % 6];
        low[i] = specials[next_random() % 6];
        high[i] = specials[next_random() % 6];
      }
      dp_clip_table_of(isa)->fn[DP_FLOAT](
          &(dp_clip_span){x, low, high, to, 37, mode & 1, mode & 2});
      for (int i = 0; i < 37; ++i) {
        float least = low[mode & 1 ? i : 0], most = high[mode & 2 ? i : 0];
        float want = isnan(most) || most < x[i] ? most : x[i];
        want = isnan(least) || want < least ? least : want;
        assert_true(to[i] == want || (isnan(to[i]) && isnan(want)));
      }
    }
  }
}

static void test_integer_wrapping(void **state) {
  EACH_ISA(isa) {
    const dp_binary_loops *loops = dp_binary_table_of(isa);
    static uint8_t a[256], b[256], sum[256], product[256], smaller[256];
    for (int i = 0; i < 256; ++i) {
      a[i] = (uint8_t)i;
      b[i] = (uint8_t)(i * 7 + 3);
    }
    dp_binary_span span = {256, 1, 1, 1, 0, 0};
    assert_true(loops->fn[DP_BINARY_add][DP_INT8](a, b, sum, &span));
    assert_true(loops->fn[DP_BINARY_mul][DP_INT8](a, b, product, &span));
    assert_true(loops->fn[DP_BINARY_less][DP_INT8](a, b, smaller, &span));
    for (int i = 0; i < 256; ++i) {
      assert_int_equal(sum[i], (uint8_t)(a[i] + b[i]));
      assert_int_equal(product[i], (uint8_t)(a[i] * b[i]));
      assert_int_equal(smaller[i], (int8_t)a[i] < (int8_t)b[i]);
    }
  }
}

/* ---- One input ---- */
static double reciprocal(double x) {
  return 1 / x;
}

static void test_unary(void **state) {
  static const struct {
    dp_unary_op op;
    double (*model)(double);
  } cases[] = {{DP_UNARY_exp, exp},     {DP_UNARY_log, log},
               {DP_UNARY_tanh, tanh},   {DP_UNARY_sin, sin},
               {DP_UNARY_cos, cos},     {DP_UNARY_tan, tan},
               {DP_UNARY_sqrt, sqrt},   {DP_UNARY_erf, erf},
               {DP_UNARY_expm1, expm1}, {DP_UNARY_log1p, log1p},
               {DP_UNARY_rint, rint},   {DP_UNARY_floor, floor},
               {DP_UNARY_erfc, erfc},   {DP_UNARY_reciprocal, reciprocal}};
  EACH_ISA(isa) {
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; ++c) {
      static float input[MOST], output[MOST];
      for (int count = 0; count < 40; ++count) {
        for (int i = 0; i <= count; ++i)
          input[i] = random_float() * (count == 39 ? 1e6f : 1);
        dp_unary_table_of(isa)->fn[cases[c].op][DP_FLOAT](input + 1, output + 1, count);
        for (int i = 1; i <= count; ++i) {
          double want = cases[c].model((double)input[i]);
          double slack = 1e-6 + fabs(want) * 4e-7;
          bool fits = isnan(want)          ? isnan(output[i])
                      : isinf((float)want) ? output[i] == (float)want
                                           : fabs(output[i] - want) <= slack;
          if (!fits)
            fail_msg("%s op %d of %g: %g, wanted %g", dp_isa_name(isa), (int)cases[c].op, input[i],
                     output[i], want);
        }
      }
    }
  }
}

/* ---- Reductions ---- */
static void check_rows(dp_isa isa, int64_t outer, int64_t n) {
  float *x = malloc(sizeof(float) * (size_t)(outer * n + 1)), result[8];
  for (int64_t i = 0; i < outer * n; ++i)
    x[i] = random_float();
  const dp_reduce_loops *loops = dp_reduce_table_of(isa);
  for (int op = 0; op < DP_REDUCE_COUNT; ++op) {
    if (op == DP_REDUCE_prod)
      continue;
    loops->fn[op][DP_FLOAT].rows(x, result, outer, n);
    for (int64_t row = 0; row < outer; ++row) {
      double sum = 0, squares = 0, high = -INFINITY, low = INFINITY, size = 0;
      for (int64_t i = 0; i < n; ++i) {
        double value = x[row * n + i];
        sum += value;
        squares += value * value;
        size += fabs(value);
        high = fmax(high, value);
        low = fmin(low, value);
      }
      double want = op == DP_REDUCE_sum   ? sum
                    : op == DP_REDUCE_max ? high
                    : op == DP_REDUCE_min ? low
                                          : squares;
      double slack = op == DP_REDUCE_sum          ? size * 2e-6
                     : op == DP_REDUCE_square_sum ? squares * 2e-6
                                                  : 0;
      if (want != result[row] && !(fabs(result[row] - want) <= slack))
        fail_msg("%s rows op %d n %lld: %.9g, wanted %.9g", dp_isa_name(isa), op, (long long)n,
                 result[row], want);
    }
  }
  free(x);
}

static void check_columns(dp_isa isa, int64_t n, int64_t inner) {
  int32_t *x = malloc(sizeof(int32_t) * (size_t)(n * inner + 1));
  int32_t *result = malloc(sizeof(int32_t) * (size_t)(inner + 1));
  for (int64_t i = 0; i < n * inner; ++i)
    x[i] = (int32_t)next_random() - (1 << 30);
  const dp_reduce_loops *loops = dp_reduce_table_of(isa);
  for (int op = 0; op < DP_REDUCE_COUNT; ++op) {
    loops->fn[op][DP_INT32].columns(x, result, n, inner, inner);
    for (int64_t j = 0; j < inner; ++j) {
      uint32_t sum = 0, product = 1, squares = 0;
      int32_t high = INT32_MIN, low = INT32_MAX;
      for (int64_t i = 0; i < n; ++i) {
        int32_t value = x[i * inner + j];
        sum += (uint32_t)value;
        product *= (uint32_t)value;
        squares += (uint32_t)value * (uint32_t)value;
        high = value > high ? value : high;
        low = value < low ? value : low;
      }
      int32_t wants[DP_REDUCE_COUNT] = {(int32_t)sum, (int32_t)product, high, low,
                                        (int32_t)squares};
      if (result[j] != wants[op])
        fail_msg("%s columns op %d n %lld inner %lld: %d, wanted %d", dp_isa_name(isa), op,
                 (long long)n, (long long)inner, result[j], wants[op]);
    }
  }
  free(x);
  free(result);
}

static void test_reduce(void **state) {
  const int64_t sizes[] = {0,  1,  2,  7,   8,   15,  31,   32,   33,
                           63, 64, 65, 127, 129, 257, 1000, 4097, 9001};
  const int64_t inners[] = {1, 2, 3, 10, 31, 63, 64, 65, 255, 256, 257, 600};
  EACH_ISA(isa) {
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; ++i) {
      check_rows(isa, 3, sizes[i]);
      for (size_t j = 0; j < sizeof inners / sizeof inners[0]; ++j)
        if (sizes[i] * inners[j] < 100000)
          check_columns(isa, sizes[i], inners[j]);
    }
  }
}

static void test_reciprocal_of_specials(void **state) {
  const float input[] = {0.0f, -0.0f, INFINITY, -INFINITY, NAN, 1e-40f, 1e38f, -3e38f, 1, 3};
  EACH_ISA(isa) {
    float output[10];
    dp_unary_table_of(isa)->fn[DP_UNARY_reciprocal][DP_FLOAT](input, output, 10);
    for (int i = 0; i < 10; ++i) {
      float want = 1 / input[i];
      bool is_near = fabsf(output[i] - want) <= fabsf(want) * 2e-7f + FLT_MIN * 1e-6f;
      if (!(isnan(want) && isnan(output[i])) && output[i] != want && !is_near)
        fail_msg("%s: 1 / %g is %g, not %g", dp_isa_name(isa), input[i], output[i], want);
    }
  }
}

static void test_reduce_nan(void **state) {
  static float x[500];
  EACH_ISA(isa) {
    for (int at = 0; at < 500; at += 13) {
      for (int i = 0; i < 500; ++i)
        x[i] = random_float();
      x[at] = NAN;
      float high, low;
      dp_reduce_table_of(isa)->fn[DP_REDUCE_max][DP_FLOAT].rows(x, &high, 1, 500);
      dp_reduce_table_of(isa)->fn[DP_REDUCE_min][DP_FLOAT].columns(x, &low, 500, 1, 1);
      assert_true(isnan(high) && isnan(low));
    }
  }
}

/* A million equal numbers that no float sum in sequence gets right. */
static void test_sum_accuracy(void **state) {
  const int64_t count = 1 << 22;
  float *x = malloc(sizeof(float) * (size_t)count), sum;
  for (int64_t i = 0; i < count; ++i)
    x[i] = 0.1f;
  EACH_ISA(isa) {
    dp_reduce_table_of(isa)->fn[DP_REDUCE_sum][DP_FLOAT].rows(x, &sum, 1, count);
    assert_true(fabs(sum - (double)0.1f * count) < 1e-5 * (double)sum);
    dp_reduce_table_of(isa)->fn[DP_REDUCE_sum][DP_FLOAT].columns(x, &sum, count, 1, 1);
    assert_true(fabs(sum - (double)0.1f * count) < 1e-4 * (double)sum);
  }
  free(x);
}

/* ---- Conversions and selection ---- */
static void test_convert(void **state) {
  static uint16_t bits[65536 + 8], back[65536 + 8];
  static float wide[65536 + 8];
  for (int i = 0; i < 65536; ++i)
    bits[i] = (uint16_t)i;
  EACH_ISA(isa) {
    const dp_convert_loops *loops = dp_convert_table_of(isa);
    loops->half_to_float(bits, wide, 65536);
    for (int i = 0; i < 65536; ++i) {
      float want = dp_half_to_float((uint16_t)i);
      assert_true(isnan(want) ? isnan(wide[i]) : want == wide[i]);
    }
    for (int i = 0; i < 65536; ++i)
      wide[i] = ldexpf(random_float(), (int)(next_random() % 50) - 30);
    loops->half_from_float(wide, back, 65535);
    for (int i = 0; i < 65535; ++i)
      assert_int_equal(back[i], dp_half_from_float(wide[i]));
    loops->bfloat16_from_float(wide, back, 65535);
    for (int i = 0; i < 65535; ++i)
      assert_int_equal(back[i], dp_bfloat16_from_float(wide[i]));
  }
}

static void test_cast_and_select(void **state) {
  EACH_ISA(isa) {
    static float x[MOST], chosen[MOST];
    static int16_t small[MOST];
    static int64_t large[MOST];
    static uint8_t flags[MOST];
    for (int count = 0; count < 70; ++count) {
      for (int i = 0; i < count; ++i)
        x[i] = random_float() * 1000;
      dp_cast_table_of(isa)->fn[DP_FLOAT][DP_INT16](x, small, count);
      dp_cast_table_of(isa)->fn[DP_INT16][DP_INT64](small, large, count);
      dp_cast_table_of(isa)->fn[DP_FLOAT][DP_BOOL](x, flags, count);
      for (int i = 0; i < count; ++i) {
        assert_int_equal(small[i], (int16_t)x[i]);
        assert_int_equal(large[i], (int64_t)(int16_t)x[i]);
        assert_int_equal(flags[i], x[i] != 0);
        flags[i] = next_random() & 1;
      }
      float other = 5;
      dp_select_table_of(isa)->by_size[4](flags, x, &other, chosen, count, 1, 1, 0);
      for (int i = 0; i < count; ++i)
        assert_true(chosen[i] == (flags[i] ? x[i] : 5));
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_binary_floats),
      cmocka_unit_test(test_integer_division),
      cmocka_unit_test(test_integer_wrapping),
      cmocka_unit_test(test_unary),
      cmocka_unit_test(test_reduce),
      cmocka_unit_test(test_reduce_nan),
      cmocka_unit_test(test_sum_accuracy),
      cmocka_unit_test(test_convert),
      cmocka_unit_test(test_cast_and_select),
      cmocka_unit_test(test_quotients_and_rests),
      cmocka_unit_test(test_rests_of_floats),
      cmocka_unit_test(test_clip),
      cmocka_unit_test(test_reciprocal_of_specials),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
