/* The optimizers' float loops against their double loops, on every instruction set of this machine:
 * lengths around the vector sizes, updates in place, and sums of squares for which an estimated
 * root is not defined. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "kernels/loops/optimizer.h"

#define MOST 41
#define SLOTS DP_OPTIMIZER_MOST_SLOTS
#define EACH_ISA(isa)                                                                              \
  for (dp_isa isa = DP_ISA_BASELINE; isa < DP_ISA_COUNT; ++isa)                                    \
    if (dp_isa_has(isa))

static uint64_t seed = 1;
static float random_float(float low, float high) {
  seed = seed * 6364136223846793005u + 1442695040888963407u;
  return low + (high - low) * (float)((double)(seed >> 33) / 2147483648.0);
}

static bool is_ftrl(dp_optimizer_loop loop) {
  return loop == DP_OPTIMIZER_ftrl || loop == DP_OPTIMIZER_ftrl_v2;
}

typedef struct example {
  float slots[SLOTS][MOST], gradient[MOST];
  double wide_slots[SLOTS][MOST], wide_gradient[MOST];
  double _Complex scalars[DP_OPTIMIZER_MOST_SCALARS];
} example;

static void widen(example *it) {
  for (int i = 0; i < MOST; ++i) {
    it->wide_gradient[i] = it->gradient[i];
    for (int s = 0; s < SLOTS; ++s)
      it->wide_slots[s][i] = it->slots[s][i];
  }
}

static void fill(example *it, dp_optimizer_loop loop) {
  static const float scalars[] = {0.25f, 0.125f, 0.5f, 0.75f, 0.875f, 0.0625f};
  for (int i = 0; i < DP_OPTIMIZER_MOST_SCALARS; ++i)
    it->scalars[i] = scalars[i];
  if (is_ftrl(loop))
    it->scalars[3] = -0.5;
  for (int i = 0; i < MOST; ++i) {
    it->gradient[i] = random_float(-1, 1);
    it->slots[0][i] = random_float(-1, 1);
    it->slots[1][i] = random_float(0.5f, 1.5f);
    for (int s = 2; s < SLOTS; ++s) /* squares of RMSProp are above the mean's */
      it->slots[s][i] = random_float(4, 9);
  }
  widen(it);
}

static void run(example *it, dp_isa isa, dp_optimizer_loop loop, bool option, bool is_sparse,
                int count) {
  dp_optimizer_call call = {.gradient = it->gradient,
                            .scalars = it->scalars,
                            .option = option,
                            .is_sparse = is_sparse,
                            .count = count};
  dp_optimizer_call wide = call;
  wide.gradient = it->wide_gradient;
  for (int s = 0; s < SLOTS; ++s) {
    call.old[s] = call.target[s] = it->slots[s];
    wide.old[s] = wide.target[s] = it->wide_slots[s];
  }
  dp_optimizer_table_of(isa)->of_float[loop](&call);
  dp_optimizer_table()->of_double[loop](&wide);
}

static bool is_near(float found, double wanted) {
  if (isnan(wanted))
    return isnan(found);
  if (isinf(wanted))
    return found == (float)wanted;
  return fabs(found - wanted) <= 4e-6 * (1 + fabs(wanted));
}

static void compare(const example *it, dp_isa isa, dp_optimizer_loop loop) {
  for (int s = 0; s < SLOTS; ++s)
    for (int i = 0; i < MOST; ++i)
      if (!is_near(it->slots[s][i], it->wide_slots[s][i]))
        fail_msg("%s, optimizer %d, slot %d, element %d: %g, wanted %g", dp_isa_name(isa),
                 (int)loop, s, i, it->slots[s][i], it->wide_slots[s][i]);
}

/* Elements behind the count stay as they are in both. */
static void test_all_lengths(void **state) {
  static example it;
  EACH_ISA(isa)
  for (dp_optimizer_loop loop = 0; loop < DP_OPTIMIZER_COUNT; ++loop)
    for (int form = 0; form < 4; ++form)
      for (int count = 0; count < MOST; ++count) {
        fill(&it, loop);
        run(&it, isa, loop, form & 1, form & 2, count);
        compare(&it, isa, loop);
      }
}

static void test_powers(void **state) {
  static example it;
  EACH_ISA(isa)
  for (int form = 0; form < 4; ++form) {
    fill(&it, DP_OPTIMIZER_ftrl);
    it.scalars[3] = -0.75;
    run(&it, isa, DP_OPTIMIZER_ftrl, form & 1, form & 2, MOST);
    compare(&it, isa, DP_OPTIMIZER_ftrl);
  }
}

/* Sums of squares of 0, infinity, less than 0 and nothing, with and without a gradient. */
static void test_special_sums(void **state) {
  static const float specials[] = {0, INFINITY, -1, NAN, 1e-30f, 1e30f};
  static const dp_optimizer_loop loops[] = {DP_OPTIMIZER_adagrad, DP_OPTIMIZER_adagrad_v2,
                                            DP_OPTIMIZER_proximal_adagrad};
  static example it;
  EACH_ISA(isa)
  for (size_t k = 0; k < sizeof loops / sizeof loops[0]; ++k) {
    fill(&it, loops[k]);
    for (int i = 0; i < MOST; ++i) {
      it.slots[1][i] = specials[i % 6];
      it.gradient[i] = i % 2 ? 1e-3f * (float)i : 0;
    }
    widen(&it);
    run(&it, isa, loops[k], k < 2 && isa % 2, false, MOST);
    compare(&it, isa, loops[k]);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_all_lengths),
      cmocka_unit_test(test_powers),
      cmocka_unit_test(test_special_sums),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
