/* Finds out which instruction set the machine has, and lets the environment ask for less.
 * The answer is a single atomic that is set on first use; two threads that find it unset at the
 * same time write the same value. */
#include "kernels/isa/isa.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

static const char *const names[DP_ISA_COUNT] = {"baseline", "avx2", "avx512"};
static atomic_int chosen = -1;

#if defined(__x86_64__)
static bool has_f16c(void) {
  unsigned a, b, c, d;
  return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}

dp_isa dp_isa_best(void) {
  __builtin_cpu_init();
  if (!(__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
        __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") && has_f16c()))
    return DP_ISA_BASELINE;
  bool wide = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
              __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
              __builtin_cpu_supports("avx512vl");
  return wide ? DP_ISA_AVX512 : DP_ISA_AVX2;
}
#else
dp_isa dp_isa_best(void) {
  return DP_ISA_BASELINE;
}
#endif

static dp_isa choose(void) {
  dp_isa best = dp_isa_best();
  const char *wish = getenv("DOWNPOUR_ISA");
  for (int i = 0; wish && i < DP_ISA_COUNT; ++i)
    if (strcmp(wish, names[i]) == 0)
      return (dp_isa)i < best ? (dp_isa)i : best;
  return best;
}

dp_isa dp_isa_current(void) {
  int isa = atomic_load_explicit(&chosen, memory_order_relaxed);
  if (__builtin_expect(isa < 0, 0)) {
    isa = choose();
    atomic_store_explicit(&chosen, isa, memory_order_relaxed);
  }
  return (dp_isa)isa;
}

bool dp_isa_select(dp_isa isa) {
  if (isa > dp_isa_best())
    return false;
  atomic_store_explicit(&chosen, (int)isa, memory_order_relaxed);
  return true;
}

const char *dp_isa_name(dp_isa isa) {
  return isa < DP_ISA_COUNT ? names[isa] : "unknown";
}
