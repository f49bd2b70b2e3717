/* Moving averages of variables, as tf.train.ExponentialMovingAverage keeps them. Each variable gets
 * a second one beside it, which starts with the same value and follows it in each step n:
 *
 *   average -= (1 - d) * (average - variable),  d = min(decay, (1 + n) / (10 + n))
 *
 * The model owns the averages like all its variables. The ops run where the variable is. */
#include "train/train_internal.h"

static TF_Operation *follow(dp_model *model, train_variable *variable, TF_Output rest,
                            TF_Operation *after) {
  variable->average =
      dp_train_variable_beside(model, variable, "ExponentialMovingAverage", variable->shape, 0);
  if (!variable->average)
    return NULL;
  dp_scope *scope = dp_scope_named(dp_train_on(model, variable->device), "average");
  /* The first value is the variable's, so initializing waits for the variable. */
  dp_scope *first = dp_scope_after(scope, &variable->initialize, 1);
  variable->average->initialize =
      dp_assign(scope, variable->average->reference, dp_identity(first, variable->reference)).oper;
  scope = dp_scope_after(scope, &after, 1);
  TF_Output difference =
      dp_sub(scope, variable->average->reference, dp_identity(scope, variable->reference));
  return dp_assign_sub(scope, variable->average->reference, dp_mul(scope, difference, rest)).oper;
}

TF_Operation *dp_train_average_all(dp_model *model, double decay, TF_Operation *after) {
  if (decay <= 0 || !dp_scope_ok(model->root))
    return after;
  dp_scope *scope = dp_scope_named(dp_train_on(model, model->global_step->device), "average");
  TF_Output steps = dp_cast(scope, model->global_step->value, TF_FLOAT);
  TF_Output warm = dp_div(scope, dp_add_v2(scope, steps, dp_const_float(scope, 1)),
                          dp_add_v2(scope, steps, dp_const_float(scope, 10)));
  TF_Output rest = dp_sub(scope, dp_const_float(scope, 1),
                          dp_minimum(scope, dp_const_float(scope, (float)decay), warm));
  size_t count = model->variables.count, made = 0; /* without the averages, which are added below */
  TF_Operation **updates = DP_NEW_ARRAY(TF_Operation *, count + 1);
  for (size_t i = 0; i < count && dp_scope_ok(scope); i++)
    if (!model->variables.items[i]->fixed && model->variables.items[i]->dtype == TF_FLOAT)
      updates[made++] = follow(model, model->variables.items[i], rest, after);
  TF_Operation *last = dp_scope_ok(scope) && made > 0
                           ? dp_train_group(scope, updates, (int)made, "averages")
                           : after;
  dp_free(updates);
  return last;
}

TF_Output dp_model_average(dp_model *model, const char *name) {
  train_variable *variable = dp_train_variable_find(model, name);
  if (variable && variable->average)
    return variable->average->reference;
  dp_scope_fail(model->root, TF_NOT_FOUND, "there is no moving average of %s", name);
  return (TF_Output){0};
}
