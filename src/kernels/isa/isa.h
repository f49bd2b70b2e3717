/* Run-time choice of the instruction set.
 *
 * Hot loops live in files loops/<family>.c, which meson compiles once for each instruction set,
 * with -DDP_ISA=<name>. Each copy exports one constant table of function pointers, whose name
 * carries the set (DP_ISA_SYMBOL). DP_ISA_TABLE declares all copies of a table, and a function with
 * the table's plain name that returns the copy for this machine:
 *
 *   loops/thing.h:  typedef struct { void (*run)(...); } dp_thing_loops;
 *                   DP_ISA_TABLE(dp_thing_loops, dp_thing_table)
 *   loops/thing.c:  const dp_thing_loops DP_ISA_SYMBOL(dp_thing_table) = {.run = run};
 *   math/thing.c:   dp_thing_table()->run(...);
 *
 * Kernels ask once, in create, and keep the pointer. The environment variable DOWNPOUR_ISA
 * (baseline, avx2, avx512) asks for less than the machine has, where the build has it. Any thread
 * may call. */
#ifndef DP_KERNELS_ISA_ISA_H
#define DP_KERNELS_ISA_ISA_H

#include <stdbool.h>

typedef enum dp_isa {
  DP_ISA_BASELINE = 0, /* what every machine of the architecture has */
  DP_ISA_AVX2 = 1,     /* with FMA, F16C, BMI */
  DP_ISA_AVX512 = 2,   /* F, BW, CD, DQ, VL */
  DP_ISA_COUNT = 3,
} dp_isa;

/* The set that this process uses; determined on the first call. */
dp_isa dp_isa_current(void);
/* The best set that the machine can run and the build has; the environment does not matter. */
dp_isa dp_isa_best(void);
/* Whether the build has the set and the machine runs it. */
bool dp_isa_has(dp_isa isa);
/* For tests and benchmarks; false without such a set. Kernels that exist already keep their loops.
 */
bool dp_isa_select(dp_isa isa);
const char *dp_isa_name(dp_isa isa);
/* A build for one machine (-Dinstruction_sets=host) has one set; the others' tables are empty. */
extern const bool dp_isa_is_built[DP_ISA_COUNT];

#define DP_ISA_JOIN_(name, isa) name##_##isa
#define DP_ISA_JOIN(name, isa) DP_ISA_JOIN_(name, isa)
#ifdef DP_ISA
#define DP_ISA_SYMBOL(name) DP_ISA_JOIN(name, DP_ISA)
#endif

#if defined(__x86_64__)
#define DP_ISA_TABLE(type, name)                                                                   \
  extern const type name##_baseline, name##_avx2, name##_avx512;                                   \
  static inline const type *name##_of(dp_isa isa) {                                                \
    return isa == DP_ISA_AVX512 ? &name##_avx512                                                   \
           : isa == DP_ISA_AVX2 ? &name##_avx2                                                     \
                                : &name##_baseline;                                                \
  }                                                                                                \
  static inline const type *name(void) {                                                           \
    return name##_of(dp_isa_current());                                                            \
  }
#else
#define DP_ISA_TABLE(type, name)                                                                   \
  extern const type name##_baseline;                                                               \
  static inline const type *name##_of(dp_isa isa) {                                                \
    return (void)isa, &name##_baseline;                                                            \
  }                                                                                                \
  static inline const type *name(void) {                                                           \
    return &name##_baseline;                                                                       \
  }
#endif

/* Before a loop: its iterations do not depend on each other. Exact aliasing of an output with an
 * input (in-place work) is allowed, a shifted overlap is not. */
#if defined(__clang__)
#define DP_INDEPENDENT _Pragma("clang loop vectorize(assume_safety) interleave(enable)")
#else
#define DP_INDEPENDENT _Pragma("GCC ivdep")
#endif

#endif
