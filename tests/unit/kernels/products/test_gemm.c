/* Matrix products against three plain loops: sizes just below and above every limit (tiles, panels,
 * blocks), all layouts of the operands, on every instruction set of the machine. Elements are small
 * integers, so that every order of additions gives the same sum. */
#include <complex.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "kernels/isa/isa.h"
#include "kernels/products/gemm.h"

#define GAP 3 /* elements between rows, which must stay as they are */

static uint64_t random_state = 88172645463325252u;
static int random_digit(void) {
  random_state ^= random_state << 13;
  random_state ^= random_state >> 7;
  random_state ^= random_state << 17;
  return (int)((random_state >> 33) % 7) - 3;
}

static void set(dp_dtype dtype, void *data, int64_t index, int value) {
  if (dtype == DP_FLOAT)
    ((float *)data)[index] = (float)value;
  else if (dtype == DP_DOUBLE)
    ((double *)data)[index] = value;
  else
    ((int32_t *)data)[index] = value;
}

static double get(dp_dtype dtype, const void *data, int64_t index) {
  return dtype == DP_FLOAT    ? (double)((const float *)data)[index]
         : dtype == DP_DOUBLE ? ((const double *)data)[index]
                              : (double)((const int32_t *)data)[index];
}

static void *make_matrix(dp_dtype dtype, int64_t rows, int64_t stride) {
  void *data = malloc((size_t)(rows * stride) * dp_dtype_size(dtype));
  for (int64_t i = 0; i < rows * stride; ++i)
    set(dtype, data, i, random_digit());
  return data;
}

static double expected_at(const dp_gemm *g, const double *a, const double *b, double before,
                          int64_t i, int64_t j) {
  double sum = g->accumulates ? before : 0;
  for (int64_t p = 0; p < g->k; ++p)
    sum += a[g->transpose_a ? p * g->a_stride + i : i * g->a_stride + p] *
           b[g->transpose_b ? j * g->b_stride + p : p * g->b_stride + j];
  return sum;
}

static double *widened(dp_dtype dtype, const void *data, int64_t count) {
  double *wide = malloc((size_t)count * sizeof *wide);
  for (int64_t i = 0; i < count; ++i)
    wide[i] = get(dtype, data, i);
  return wide;
}

/* Every element of short results, and a sample of long ones. */
static void check(const dp_gemm *g, const void *before) {
  int64_t a_count = (g->transpose_a ? g->k : g->m) * g->a_stride;
  int64_t b_count = (g->transpose_b ? g->n : g->k) * g->b_stride, every = 1 + g->k * g->n / 20000;
  double *a = widened(g->dtype, g->a, a_count), *b = widened(g->dtype, g->b, b_count);
  for (int64_t i = 0; i < g->m; ++i) {
    for (int64_t j = i % every; j < g->n; j += every) {
      int64_t at = i * g->c_stride + j;
      double wanted = expected_at(g, a, b, get(g->dtype, before, at), i, j);
      if (get(g->dtype, g->c, at) != wanted)
        fail_msg("dtype %d %ldx%ldx%ld %d%d%d at %ld, %ld", g->dtype, (long)g->m, (long)g->n,
                 (long)g->k, g->transpose_a, g->transpose_b, g->accumulates, (long)i, (long)j);
    }
    for (int64_t at = i * g->c_stride + g->n; at < (i + 1) * g->c_stride; ++at)
      assert_true(get(g->dtype, g->c, at) == get(g->dtype, before, at));
  }
  free(a);
  free(b);
}

static void try_product(dp_dtype dtype, int64_t m, int64_t n, int64_t k, int ways) {
  dp_gemm g = {.dtype = dtype, .m = m, .n = n, .k = k, .c_stride = n + GAP};
  g.transpose_a = ways & 1;
  g.transpose_b = ways & 2;
  g.accumulates = ways & 4;
  g.a_stride = (g.transpose_a ? m : k) + (ways & 8 ? GAP : 0);
  g.b_stride = (g.transpose_b ? k : n) + (ways & 8 ? GAP : 0);
  void *a = make_matrix(dtype, g.transpose_a ? k : m, g.a_stride);
  void *b = make_matrix(dtype, g.transpose_b ? n : k, g.b_stride);
  void *before = make_matrix(dtype, m, g.c_stride);
  size_t bytes = (size_t)(m * g.c_stride) * dp_dtype_size(dtype);
  g.a = a;
  g.b = b;
  g.c = malloc(bytes);
  memcpy(g.c, before, bytes);
  dp_gemm_run(&g);
  check(&g, before);
  memcpy(g.c, before, bytes);
  assert_true(dp_gemm_run_tiles(&g));
  check(&g, before);
  memcpy(g.c, before, bytes);
  dp_step step = {0};
  dp_op_context context = {.step = &step};
  dp_gemm_run_split(&context, &g);
  check(&g, before);
  free(a);
  free(b);
  free(g.c);
  free(before);
}

static void test_products(void **state) {
  static const int64_t shapes[][3] = {
      {1, 1, 1},       {1, 40, 7},       {1, 600, 9},      {1, 1025, 530}, {1, 2100, 1000},
      {5, 64, 20},     {6, 65, 31},      {7, 33, 16},      {13, 200, 17},  {50, 130, 33},
      {64, 128, 1030}, {97, 513, 40},    {128, 1000, 100}, {300, 300, 90}, {530, 64, 20},
      {700, 260, 530}, {1300, 150, 520}, {40, 2100, 520},  {15, 200, 40},  {29, 200, 40},
      {270, 200, 20},
  };
  static const dp_dtype dtypes[] = {DP_FLOAT, DP_DOUBLE, DP_INT32};
  for (int isa = 0; isa < DP_ISA_COUNT; ++isa) {
    if (!dp_isa_select((dp_isa)isa))
      continue;
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; ++i)
      for (int ways = 0; ways < 16; ++ways) {
        bool is_long = shapes[i][0] * shapes[i][1] * shapes[i][2] > 4000000;
        if (is_long && ways % 5 != 0 && ways != 3 && ways != 6)
          continue;
        for (int d = 0; d < (is_long ? 1 : 3); ++d)
          try_product(dtypes[d], shapes[i][0], shapes[i][1], shapes[i][2], ways);
      }
  }
  assert_true(dp_isa_select(dp_isa_best()));
}

/* ---- Several threads at once ---- */
enum { THREADS = 4, ROUNDS = 50000, SIDE = 6 };

static bool is_product(const double _Complex *a, const double _Complex *b,
                       const double _Complex *c) {
  for (int i = 0; i < SIDE; ++i)
    for (int j = 0; j < SIDE; ++j) {
      double _Complex sum = 0;
      for (int k = 0; k < SIDE; ++k)
        sum += a[i * SIDE + k] * b[k * SIDE + j];
      if (sum != c[i * SIDE + j])
        return false;
    }
  return true;
}

static void *multiply_many(void *arg) {
  unsigned seed = *(unsigned *)arg;
  uintptr_t wrong = 0;
  for (int round = 0; round < ROUNDS; ++round) {
    double _Complex a[SIDE * SIDE], b[SIDE * SIDE], c[SIDE * SIDE];
    for (int i = 0; i < SIDE * SIDE; ++i) {
      a[i] = rand_r(&seed) % 100;
      b[i] = rand_r(&seed) % 100;
    }
    dp_gemm_run(&(dp_gemm){.dtype = DP_COMPLEX128,
                           .m = SIDE,
                           .n = SIDE,
                           .k = SIDE,
                           .a = a,
                           .b = b,
                           .c = c,
                           .a_stride = SIDE,
                           .b_stride = SIDE,
                           .c_stride = SIDE});
    wrong += !is_product(a, b, c);
  }
  return (void *)wrong;
}

static void test_threads_do_not_disturb_each_other(void **state) {
  (void)state;
  pthread_t threads[THREADS];
  unsigned seeds[THREADS];
  for (unsigned i = 0; i < THREADS; ++i) {
    seeds[i] = i + 1;
    assert_int_equal(pthread_create(&threads[i], NULL, multiply_many, &seeds[i]), 0);
  }
  for (int i = 0; i < THREADS; ++i) {
    void *wrong;
    pthread_join(threads[i], &wrong);
    assert_null(wrong);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_products),
                                     cmocka_unit_test(test_threads_do_not_disturb_each_other)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
