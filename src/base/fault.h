/* Named fault points: places where a test, or an operator with --fault, can make the product fail.
 *
 * In the code:  DP_RETURN_IF_ERROR(dp_fault("storage.rename"));
 * On a server:  --fault storage.rename=error:DATA_LOSS@3   the third time it passes
 *               --fault rpc.recv_tensor=delay:200ms        each time
 *               --fault worker.run_graph=kill@10           the process ends itself (SIGKILL)
 *               --fault worker.run_graph=hold:/tmp/here    waits there while that file exists
 * Unarmed, a point costs one load and one compare. */
#ifndef DP_BASE_FAULT_H
#define DP_BASE_FAULT_H

#include "base/status.h"

extern int dp_fault_armed; /* number of armed points; read without a lock */

/* Arms points from "name=action[@nth][,name=action...]"; actions: error[:CODE], delay:<n>ms,
 * kill, hold:FILE. Adds to what is armed already; nothing is armed when a part is wrong. error
 * means INTERNAL. */
DP_MUST_USE dp_status *dp_fault_configure(const char *specification);
void dp_fault_clear(void);
DP_MUST_USE dp_status *dp_fault_check(const char *name);

static inline DP_MUST_USE dp_status *dp_fault(const char *name) {
  bool armed = __atomic_load_n(&dp_fault_armed, __ATOMIC_RELAXED) != 0;
  return __builtin_expect(armed, 0) ? dp_fault_check(name) : NULL;
}

#endif
