/* Variables: a tensor behind a read-write lock. See the header for the two rules (snapshots never
 * change, updates hold the lock alone). Readers hold the lock only to take a reference. */
#include "runtime/variable.h"

#include "base/memory.h"
#include "runtime/value.h"

static void destroy_variable(dp_resource *resource) {
  dp_variable *variable = (dp_variable *)resource;
  dp_tensor_deinit(&variable->tensor);
  pthread_rwlock_destroy(&variable->lock);
  dp_free(variable->name);
  dp_free(variable);
}

static void describe_variable(dp_resource *resource, dp_text *text) {
  dp_variable *variable = (dp_variable *)resource;
  pthread_rwlock_rdlock(&variable->lock);
  if (dp_tensor_is_set(&variable->tensor)) {
    dp_text_printf(text, "%s", dp_dtype_name(variable->tensor.dtype));
    dp_shape_print(&variable->tensor.shape, text);
  } else {
    dp_text_printf(text, "%s, not initialized", dp_dtype_name(variable->dtype));
  }
  pthread_rwlock_unlock(&variable->lock);
}

const dp_resource_ops dp_variable_ops = {"N10tensorflow3VarE", destroy_variable, describe_variable};
const dp_resource_ops dp_legacy_variable_ops = {"N10tensorflow9LegacyVarE", destroy_variable,
                                                describe_variable};

dp_variable *dp_variable_create(const dp_resource_ops *ops, const char *name, dp_dtype dtype,
                                const dp_partial_shape *shape) {
  dp_variable *variable = DP_NEW(dp_variable);
  dp_resource_init(&variable->resource, ops);
  pthread_rwlock_init(&variable->lock, NULL);
  variable->dtype = dtype;
  variable->shape = *shape;
  variable->name = dp_strdup(name);
  return variable;
}

bool dp_variable_is_initialized(dp_variable *variable) {
  return atomic_load_explicit(&variable->is_set, memory_order_acquire);
}

static dp_status *uninitialized(const dp_variable *variable) {
  return dp_status_create(DP_FAILED_PRECONDITION, "Attempting to use uninitialized value %s",
                          variable->name);
}

dp_status *dp_variable_read(dp_variable *variable, dp_tensor *snapshot_out) {
  pthread_rwlock_rdlock(&variable->lock);
  bool is_set = dp_tensor_is_set(&variable->tensor);
  if (is_set)
    *snapshot_out = dp_tensor_copy(&variable->tensor);
  pthread_rwlock_unlock(&variable->lock);
  return is_set ? NULL : uninitialized(variable);
}

bool dp_variable_try_read(dp_variable *variable, dp_tensor *snapshot_out) {
  if (pthread_rwlock_tryrdlock(&variable->lock) != 0)
    return false;
  bool is_set = dp_tensor_is_set(&variable->tensor);
  if (is_set)
    *snapshot_out = dp_tensor_copy(&variable->tensor);
  pthread_rwlock_unlock(&variable->lock);
  return is_set;
}

dp_tensor dp_variable_replace(dp_variable *variable, dp_tensor *value) {
  dp_tensor old = dp_tensor_take(&variable->tensor);
  variable->tensor = dp_tensor_take(value);
  atomic_store_explicit(&variable->is_set, dp_tensor_is_set(&variable->tensor),
                        memory_order_release);
  return old;
}

void dp_variable_assign(dp_variable *variable, dp_tensor *value) {
  pthread_rwlock_wrlock(&variable->lock);
  dp_tensor old = dp_variable_replace(variable, value);
  pthread_rwlock_unlock(&variable->lock);
  dp_tensor_deinit(&old);
}

/* ---- Updates ---- */

/* With the lock held. `old` borrows the variable's reference; a fresh target has its own. */
static dp_status *prepare_update(dp_variable *variable, bool partial, dp_variable_update *update) {
  if (!dp_tensor_is_set(&variable->tensor))
    return uninitialized(variable);
  update->variable = variable;
  dp_tensor_copy_fields(&update->old, &variable->tensor);
  update->in_place = dp_tensor_is_unique(&variable->tensor);
  if (update->in_place) {
    dp_tensor_copy_fields(&update->target, &variable->tensor);
    return NULL;
  }
  if (partial)
    return dp_tensor_clone(&variable->tensor, &update->target);
  return dp_tensor_create(variable->tensor.dtype, &variable->tensor.shape, &update->target);
}

/* With the lock held. */
static void install_update(dp_variable_update *update, bool keep) {
  if (update->in_place)
    return;
  if (keep) {
    dp_tensor_deinit(&update->variable->tensor);
    update->variable->tensor = dp_tensor_take(&update->target);
  } else {
    dp_tensor_deinit(&update->target);
  }
}

static dp_status *begin_update(dp_variable *variable, bool partial, dp_variable_update *update) {
  pthread_rwlock_wrlock(&variable->lock);
  dp_status *status = prepare_update(variable, partial, update);
  if (status)
    pthread_rwlock_unlock(&variable->lock);
  return status;
}

dp_status *dp_variable_begin(dp_variable *variable, dp_variable_update *update_out) {
  return begin_update(variable, false, update_out);
}

dp_status *dp_variable_begin_partial(dp_variable *variable, dp_variable_update *update_out) {
  return begin_update(variable, true, update_out);
}

void dp_variable_end(dp_variable_update *update, bool keep) {
  install_update(update, keep);
  pthread_rwlock_unlock(&update->variable->lock);
}

/* Each different variable is locked once, in address order. Counts are small (an optimizer has at
 * most five slots), so sorting by insertion is enough. */
#define MOST_VARIABLES 16

static int sorted_unique(dp_variable *const *variables, int count, dp_variable **sorted) {
  int unique = 0;
  for (int i = 0; i < count; i++) {
    int at = unique;
    while (at > 0 && sorted[at - 1] > variables[i])
      at--;
    if (at > 0 && sorted[at - 1] == variables[i])
      continue;
    for (int k = unique++; k > at; k--)
      sorted[k] = sorted[k - 1];
    sorted[at] = variables[i];
  }
  return unique;
}

/* The same variable twice: both updates see one target. */
static bool share_earlier(dp_variable_update *updates, int at, dp_variable *variable) {
  for (int i = 0; i < at; i++) {
    if (updates[i].variable == variable) {
      updates[at] = updates[i];
      updates[at].in_place = true; /* the first one installs */
      return true;
    }
  }
  return false;
}

/* With all locks held. */
static dp_status *prepare_all(dp_variable *const *variables, int count, bool partial,
                              dp_variable_update *updates) {
  for (int i = 0; i < count; i++) {
    if (share_earlier(updates, i, variables[i]))
      continue;
    dp_status *status = prepare_update(variables[i], partial, &updates[i]);
    if (status) {
      for (int k = 0; k < i; k++)
        install_update(&updates[k], false);
      return status;
    }
  }
  return NULL;
}

dp_status *dp_variable_begin_all(dp_variable *const *variables, int count, bool partial,
                                 dp_variable_update *updates_out) {
  if (count > MOST_VARIABLES)
    return dp_status_create(DP_INTERNAL, "an update of %d variables at once; %d is the most", count,
                            MOST_VARIABLES);
  dp_variable *sorted[MOST_VARIABLES];
  int unique = sorted_unique(variables, count, sorted);
  for (int i = 0; i < unique; i++)
    pthread_rwlock_wrlock(&sorted[i]->lock);
  dp_status *status = prepare_all(variables, count, partial, updates_out);
  for (int i = 0; status && i < unique; i++)
    pthread_rwlock_unlock(&sorted[i]->lock);
  return status;
}

static bool stands_before(const dp_variable_update *updates, int at) {
  for (int i = 0; i < at; i++)
    if (updates[i].variable == updates[at].variable)
      return true;
  return false;
}

void dp_variable_end_all(dp_variable_update *updates, int count, bool keep) {
  for (int i = 0; i < count; i++)
    if (!stands_before(updates, i))
      dp_variable_end(&updates[i], keep);
}
