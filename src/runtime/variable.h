/* Variables, of both kinds. A resource variable is one behind a handle; a reference edge of the old
 * kind carries a dp_variable too, so that both share one set of rules:
 *
 *   - dp_variable_read gives a snapshot that never changes: it shares the buffer.
 *   - An update runs with the variable's lock held exclusively. When a snapshot is still held by
 *     somebody, the update writes to a fresh buffer, else in place. Nothing is ever torn.
 * The lock is held for one pass over the memory at the longest, never across a wait. */
#ifndef DP_RUNTIME_VARIABLE_H
#define DP_RUNTIME_VARIABLE_H

#include <pthread.h>
#include <stdatomic.h>
#include "runtime/resource.h"

typedef struct dp_variable {
  dp_resource resource;
  pthread_rwlock_t lock;
  dp_tensor tensor;       /* unset until initialized */
  atomic_bool is_set;     /* the tensor is; for those who only ask, without the lock */
  dp_dtype dtype;         /* declared */
  dp_partial_shape shape; /* declared */
  char *name;             /* for messages */
} dp_variable;

extern const dp_resource_ops dp_variable_ops;        /* behind a handle */
extern const dp_resource_ops dp_legacy_variable_ops; /* on a reference edge */

dp_variable *dp_variable_create(const dp_resource_ops *ops, const char *name, dp_dtype dtype,
                                const dp_partial_shape *shape);

bool dp_variable_is_initialized(dp_variable *variable);
/* FAILED_PRECONDITION "Attempting to use uninitialized value <name>" when unset. */
DP_MUST_USE dp_status *dp_variable_read(dp_variable *variable, dp_tensor *snapshot_out);
/* The same without waiting: false when the variable is just being written, or unset. */
bool dp_variable_try_read(dp_variable *variable, dp_tensor *snapshot_out);
/* Consumes `value`, shape checks are the caller's. */
void dp_variable_assign(dp_variable *variable, dp_tensor *value);
/* The same for a caller who holds the lock exclusively; gives the old contents to release later. */
dp_tensor dp_variable_replace(dp_variable *variable, dp_tensor *value);

/* An update in one pass. Between begin and end the caller holds the lock exclusively:
 *   old     the current contents (may be the same memory as `target`)
 *   target  where every element of the new contents must be written. It is `old` itself when nobody
 *           else holds the buffer, else fresh memory of the same shape (not filled).
 * dp_variable_end installs the target; with `keep` false (an error) everything stays as it was,
 * provided that nothing was written when target == old. */
typedef struct dp_variable_update {
  dp_variable *variable;
  dp_tensor old;
  dp_tensor target;
  bool in_place;
} dp_variable_update;
DP_MUST_USE dp_status *dp_variable_begin(dp_variable *variable, dp_variable_update *update_out);
/* As begin, for updates that touch only a part (scatter, slices): target is filled with the old
 * contents, so only the changed part has to be written. */
DP_MUST_USE dp_status *dp_variable_begin_partial(dp_variable *variable,
                                                 dp_variable_update *update_out);
void dp_variable_end(dp_variable_update *update, bool keep);
/* For several variables at once (optimizers with slots): locks in address order, so that two such
 * updates never block each other for good. The same variable may stand twice. */
DP_MUST_USE dp_status *dp_variable_begin_all(dp_variable *const *variables, int count, bool partial,
                                             dp_variable_update *updates_out);
void dp_variable_end_all(dp_variable_update *updates, int count, bool keep);

#endif
