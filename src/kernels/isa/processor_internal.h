/* The best instruction set that the processor runs. The build asks too (meson.build), so the answer
 * stands here once. */
#ifndef DP_KERNELS_ISA_PROCESSOR_INTERNAL_H
#define DP_KERNELS_ISA_PROCESSOR_INTERNAL_H

#include "kernels/isa/isa.h"

#if defined(__x86_64__)
#include <cpuid.h>

static inline bool dp_processor_has_f16c(void) {
  unsigned a, b, c, d;
  return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}

static inline dp_isa dp_processor_best(void) {
  __builtin_cpu_init();
  if (!(__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
        __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") && dp_processor_has_f16c()))
    return DP_ISA_BASELINE;
  bool wide = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
              __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
              __builtin_cpu_supports("avx512vl");
  return wide ? DP_ISA_AVX512 : DP_ISA_AVX2;
}
#else
static inline dp_isa dp_processor_best(void) {
  return DP_ISA_BASELINE;
}
#endif

static const char *const dp_isa_names[DP_ISA_COUNT] = {"baseline", "avx2", "avx512"};

#endif
