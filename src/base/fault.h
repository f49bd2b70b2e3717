/* Named fault points: places where a test, or an operator with --fault, can make the product fail.
 *
 * In the code:  DP_RETURN_IF_ERROR(dp_fault("storage.rename"));
 * On a server:  --fault storage.rename=error:DATA_LOSS@3   fails the third time it is reached
 *               --fault rpc.recv_tensor=delay:200ms        sleeps each time
 *               --fault worker.run_graph=kill@10           the process ends itself (SIGKILL)
 *               --fault worker.run_graph=hold:/tmp/here    waits while the file /tmp/here exists
 * While no point is armed, a point costs one load and one compare. */
#ifndef DP_BASE_FAULT_H
#define DP_BASE_FAULT_H

#include "base/status.h"

extern int dp_fault_armed; /* number of armed points; read without a lock */

/* Arms points from "name=action[@nth][,name=action...]". Actions: error[:CODE] (INTERNAL without a
 * code), delay:<n>ms, kill, hold:FILE. Points that are armed already stay armed. When one part is
 * wrong, none is armed. */
DP_MUST_USE dp_status *dp_fault_configure(const char *specification);
void dp_fault_clear(void);
DP_MUST_USE dp_status *dp_fault_check(const char *name);

static inline DP_MUST_USE dp_status *dp_fault(const char *name) {
  bool armed = __atomic_load_n(&dp_fault_armed, __ATOMIC_RELAXED) != 0;
  return __builtin_expect(armed, 0) ? dp_fault_check(name) : NULL;
}

#endif
