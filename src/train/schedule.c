/* Learning rates that change with the global step. Each function adds ops to the model's graph that
 * compute the rate, and returns a float scalar for dp_optimizer.rate_output. The formulas are those
 * of tf.train.*_decay. The ops run on this worker; errors stick to the scope. */
#include <math.h>

#include "train/train_internal.h"

static TF_Output number(dp_scope *scope, double value) {
  return dp_const_float(scope, (float)value);
}

static TF_Output step_of(dp_model *model, dp_scope *scope) {
  return dp_cast(scope, dp_model_global_step(model), TF_FLOAT);
}

/* step / steps, rounded down when `staircase`. */
static TF_Output progress(dp_model *model, dp_scope *scope, double steps, bool staircase) {
  if (!(steps > 0))
    dp_scope_fail(scope, TF_INVALID_ARGUMENT, "a schedule over %g steps: give more than 0", steps);
  TF_Output part = dp_div(scope, step_of(model, scope), number(scope, steps));
  return staircase ? dp_floor(scope, part) : part;
}

TF_Output dp_schedule_exponential(dp_model *model, double rate, double steps, double decay,
                                  bool staircase) {
  dp_scope *scope = dp_scope_named(model->worker, "rate");
  TF_Output part = progress(model, scope, steps, staircase);
  return dp_mul(scope, number(scope, rate), dp_pow(scope, number(scope, decay), part));
}

TF_Output dp_schedule_polynomial(dp_model *model, double rate, double steps, double end,
                                 double power) {
  dp_scope *scope = dp_scope_named(model->worker, "rate");
  TF_Output one = number(scope, 1);
  TF_Output part = dp_minimum(scope, progress(model, scope, steps, false), one);
  TF_Output left = dp_pow(scope, dp_sub(scope, one, part), number(scope, power));
  return dp_add_v2(scope, dp_mul(scope, number(scope, rate - end), left), number(scope, end));
}

TF_Output dp_schedule_cosine(dp_model *model, double rate, double steps, double alpha) {
  dp_scope *scope = dp_scope_named(model->worker, "rate");
  TF_Output one = number(scope, 1);
  TF_Output part = dp_minimum(scope, progress(model, scope, steps, false), one);
  TF_Output wave =
      dp_add_v2(scope, one, dp_cos(scope, dp_mul(scope, part, number(scope, acos(-1)))));
  TF_Output factor =
      dp_add_v2(scope, dp_mul(scope, wave, number(scope, (1 - alpha) / 2)), number(scope, alpha));
  return dp_mul(scope, number(scope, rate), factor);
}

TF_Output dp_schedule_inverse_time(dp_model *model, double rate, double steps, double decay,
                                   bool staircase) {
  dp_scope *scope = dp_scope_named(model->worker, "rate");
  TF_Output part = dp_mul(scope, progress(model, scope, steps, staircase), number(scope, decay));
  return dp_div(scope, number(scope, rate), dp_add_v2(scope, part, number(scope, 1)));
}

/* values[i + 1] after the last boundary i with step > boundaries[i]; values[0] before the first. */
TF_Output dp_schedule_piecewise(dp_model *model, dp_ints boundaries, dp_floats values) {
  dp_scope *scope = dp_scope_named(model->worker, "rate");
  if (values.count != boundaries.count + 1) {
    dp_scope_fail(scope, TF_INVALID_ARGUMENT,
                  "a schedule of %d boundaries needs %d values; there are %d", boundaries.count,
                  boundaries.count + 1, values.count);
    return (TF_Output){0};
  }
  TF_Output chosen = number(scope, values.items[0]), step = dp_model_global_step(model);
  for (int i = 0; i < boundaries.count; i++) {
    TF_Output later = dp_greater(scope, step, dp_const_int64(scope, boundaries.items[i]));
    chosen = dp_select(scope, later, number(scope, values.items[i + 1]), chosen);
  }
  return chosen;
}
