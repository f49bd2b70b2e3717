/* Finds out which instruction set the machine has, and lets the environment ask for less.
 * The answer is a single atomic that is set on first use; two threads that find it unset at the
 * same time write the same value. */
#include "kernels/isa/isa.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "kernels/isa/processor_internal.h"

static atomic_int chosen = -1;

static void end_without_loops(void) {
  fputs("downpour: this build has no loops for this processor; build it here, or with "
        "-Dinstruction_sets=all\n",
        stderr);
  exit(1);
}

bool dp_isa_has(dp_isa isa) {
  return dp_isa_is_built[isa] && isa <= dp_processor_best();
}

dp_isa dp_isa_best(void) {
  int isa = dp_processor_best();
  while (isa >= 0 && !dp_isa_is_built[isa])
    --isa;
  if (isa < 0)
    end_without_loops();
  return (dp_isa)isa;
}

static dp_isa choose(void) {
  const char *wish = getenv("DOWNPOUR_ISA");
  for (int i = 0; wish && i < DP_ISA_COUNT; ++i)
    if (strcmp(wish, dp_isa_names[i]) == 0 && dp_isa_has((dp_isa)i))
      return (dp_isa)i;
  return dp_isa_best();
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
  if (!dp_isa_has(isa))
    return false;
  atomic_store_explicit(&chosen, (int)isa, memory_order_relaxed);
  return true;
}

const char *dp_isa_name(dp_isa isa) {
  return isa < DP_ISA_COUNT ? dp_isa_names[isa] : "unknown";
}
