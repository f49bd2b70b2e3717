/* Gradients of a model's loss by its variables, and clipping. The ops run on this worker. A sparse
 * gradient (rows and their indices) stays sparse, so that a few rows of a large table cost little
 * to compute and to send. Errors stick to the model's scope. */
#include "client/gradient.h"
#include "train/train_internal.h"

static int gather_variables(dp_model *model, TF_Output *values, train_variable **variables) {
  int count = 0;
  for (size_t i = 0; i < model->variables.count; i++) {
    train_variable *variable = model->variables.items[i];
    if (variable->fixed || variable->dtype == TF_INT32 || variable->dtype == TF_INT64)
      continue;
    values[count] = variable->value;
    variables[count++] = variable;
  }
  return count;
}

int dp_model_gradients(dp_model *model, TF_Output loss, dp_variable_gradient *gradients, int most) {
  size_t all = model->variables.count;
  TF_Output *values = DP_NEW_ARRAY(TF_Output, all + 1);
  train_variable **variables = DP_NEW_ARRAY(train_variable *, all + 1);
  dp_gradient *found = DP_NEW_ARRAY(dp_gradient, all + 1);
  int count = gather_variables(model, values, variables), kept = 0;
  dp_scope *scope = dp_scope_named(model->worker, "gradients");
  if (dp_scope_ok(scope))
    dp_gradients(scope, DP_OUTPUTS(loss), ((dp_outputs){values, count}), NULL, found);
  for (int i = 0; i < count && kept < most && dp_scope_ok(scope); i++)
    if (dp_gradient_exists(&found[i]))
      gradients[kept++] =
          (dp_variable_gradient){variables[i]->name, found[i].values, found[i].indices};
  if (kept == 0)
    dp_scope_fail(scope, TF_INVALID_ARGUMENT,
                  "the loss depends on none of the %d variables that may be trained", count);
  dp_free(values);
  dp_free(variables);
  dp_free(found);
  return kept;
}

/* ---- Clipping ---- */
void dp_clip_gradients(dp_model *model, dp_variable_gradient *gradients, int count, double limit) {
  dp_scope *scope = dp_scope_named(model->worker, "clip");
  for (int i = 0; i < count && dp_scope_ok(scope); i++) {
    TF_DataType dtype = TF_OperationOutputType(gradients[i].values);
    gradients[i].values =
        dp_clip_by_value(scope, gradients[i].values, dp_const_number(scope, dtype, -limit),
                         dp_const_number(scope, dtype, limit));
  }
}

/* L2Loss is half the sum of squares. */
static TF_Output global_norm(dp_scope *scope, const dp_variable_gradient *gradients, int count) {
  TF_Output *halves = DP_NEW_ARRAY(TF_Output, count);
  for (int i = 0; i < count; i++)
    halves[i] = dp_l2_loss(scope, gradients[i].values);
  TF_Output sum = dp_add_n(scope, ((dp_outputs){halves, count}));
  dp_free(halves);
  return dp_sqrt(scope, dp_mul(scope, sum, dp_const_float(scope, 2)), .name = "global_norm");
}

TF_Output dp_clip_gradients_by_norm(dp_model *model, dp_variable_gradient *gradients, int count,
                                    double norm) {
  dp_scope *scope = dp_scope_named(model->worker, "clip");
  if (count == 0 || !dp_scope_ok(scope))
    return (TF_Output){0};
  TF_Output actual = global_norm(scope, gradients, count);
  TF_Output limit = dp_const_float(scope, (float)norm);
  TF_Output scale = dp_div(scope, limit, dp_maximum(scope, actual, limit));
  for (int i = 0; i < count; i++)
    gradients[i].values = dp_mul(scope, gradients[i].values, scale);
  return actual;
}
