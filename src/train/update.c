/* The update of a model. Every gradient is applied where its variable lives; when all have been,
 * the moving averages follow, and then the global step is increased by one. dp_model_apply chooses
 * between this (each worker by itself) and the synchronous form (sync.c), which uses it on the
 * chief. */
#include "train/train_internal.h"

TF_Operation *dp_train_apply_all(dp_model *model, dp_optimizer settings,
                                 const dp_variable_gradient *gradients, int count,
                                 double average_decay, TF_Output *step_after_out) {
  train_optimizer optimizer;
  dp_train_optimizer_init(model, settings, &optimizer);
  TF_Operation **updates = DP_NEW_ARRAY(TF_Operation *, count + 1);
  for (int i = 0; i < count && dp_scope_ok(model->root); i++) {
    train_variable *variable = dp_train_variable_find(model, gradients[i].variable);
    if (variable)
      updates[i] = dp_train_optimizer_apply(model, &optimizer, variable, &gradients[i]);
    else
      dp_scope_fail(model->root, TF_NOT_FOUND, "there is no variable %s", gradients[i].variable);
  }
  TF_Operation *last = NULL;
  dp_scope *scope = model->root;
  if (dp_scope_ok(model->root)) {
    scope = dp_scope_named(dp_train_on(model, model->global_step->device), "train");
    last = dp_train_group(scope, updates, count, "updates");
    last = dp_train_optimizer_finish(model, &optimizer, last);
    last = dp_train_average_all(model, average_decay, last);
  }
  dp_free(updates);
  if (!dp_scope_ok(model->root))
    return NULL;
  dp_scope *after = dp_scope_after(scope, &last, 1);
  TF_Output step = dp_assign_add(after, model->global_step->reference, dp_const_int64(scope, 1),
                                 .use_locking = true, .name = "step");
  *step_after_out = dp_identity(scope, step, .name = "step_after");
  return step.oper;
}

void dp_model_apply_with_options(dp_model *model, dp_optimizer optimizer,
                                 const dp_variable_gradient *gradients, int count,
                                 const dp_model_apply_options *given) {
  dp_model_apply_options options = DP_OPTIONS(dp_model_apply);
  dp_train_read_options(model, "dp_model_apply", given, &options, sizeof(options));
  if (model->update)
    dp_scope_fail(model->root, TF_FAILED_PRECONDITION, "the model has an update already");
  if (!dp_scope_ok(model->root))
    return;
  if (options.sync)
    dp_train_sync_make(model, optimizer, gradients, count, options);
  else
    model->update = dp_train_apply_all(model, optimizer, gradients, count, options.average_decay,
                                       &model->step_after);
}

void dp_model_minimize_with_options(dp_model *model, dp_optimizer optimizer, TF_Output loss,
                                    const dp_model_minimize_options *given) {
  dp_model_minimize_options options = DP_OPTIONS(dp_model_minimize);
  dp_train_read_options(model, "dp_model_minimize", given, &options, sizeof(options));
  int most = (int)model->variables.count;
  dp_variable_gradient *gradients = DP_NEW_ARRAY(dp_variable_gradient, most + 1);
  int count = dp_model_gradients(model, loss, gradients, most);
  if (options.clip_norm > 0)
    dp_clip_gradients_by_norm(model, gradients, count, options.clip_norm);
  dp_model_apply(model, optimizer, gradients, count, .sync = options.sync,
                 .replicas = options.replicas, .average_decay = options.average_decay);
  dp_free(gradients);
}
