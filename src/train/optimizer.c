/* Optimizers: which slots a variable gets, and which op applies a gradient to it, dense or sparse
 * (some rows). One row of the table `rows` per optimizer. Slots have the names and first values
 * that TensorFlow gives them. The ops run where the variable is.
 *
 * When a row occurs several times in a sparse gradient, its values are added up first. Plain
 * descent (SGD) needs no such sum: its op adds row by row. */
#include "train/train_internal.h"

enum { MOST_SLOTS = 2 };

/* One update of one variable. Slots are made before it is called. */
typedef struct update {
  dp_scope *scope; /* on the variable's device */
  const train_optimizer *optimizer;
  train_variable *variable;
  TF_Output slots[MOST_SLOTS];
  TF_Output gradient, indices; /* indices.oper NULL: dense */
} update;

static TF_Output number(const update *self, double value) {
  return dp_const_number(self->scope, self->variable->dtype, value);
}

static TF_Output rate(const update *self) {
  const dp_optimizer *settings = &self->optimizer->settings;
  return settings->rate_output.oper
             ? dp_cast(self->scope, settings->rate_output, self->variable->dtype)
             : number(self, settings->rate);
}

static bool is_sparse(const update *self) {
  return self->indices.oper != NULL;
}

/* ---- One function an optimizer ---- */
static TF_Output apply_sgd(const update *self) {
  TF_Output variable = self->variable->reference;
  if (is_sparse(self))
    return dp_scatter_sub(self->scope, variable, self->indices,
                          dp_mul(self->scope, self->gradient, rate(self)));
  return dp_apply_gradient_descent(self->scope, variable, rate(self), self->gradient);
}

static TF_Output apply_momentum(const update *self) {
  const dp_optimizer *settings = &self->optimizer->settings;
  TF_Output variable = self->variable->reference, momentum = number(self, settings->momentum);
  if (is_sparse(self))
    return dp_sparse_apply_momentum(self->scope, variable, self->slots[0], rate(self),
                                    self->gradient, self->indices, momentum,
                                    .use_nesterov = settings->nesterov);
  return dp_apply_momentum(self->scope, variable, self->slots[0], rate(self), self->gradient,
                           momentum, .use_nesterov = settings->nesterov);
}

static TF_Output apply_adagrad(const update *self) {
  TF_Output variable = self->variable->reference;
  if (is_sparse(self))
    return dp_sparse_apply_adagrad(self->scope, variable, self->slots[0], rate(self),
                                   self->gradient, self->indices);
  return dp_apply_adagrad(self->scope, variable, self->slots[0], rate(self), self->gradient);
}

static TF_Output apply_adadelta(const update *self) {
  const dp_optimizer *settings = &self->optimizer->settings;
  TF_Output variable = self->variable->reference, rho = number(self, settings->decay),
            epsilon = number(self, settings->epsilon);
  if (is_sparse(self))
    return dp_sparse_apply_adadelta(self->scope, variable, self->slots[0], self->slots[1],
                                    rate(self), rho, epsilon, self->gradient, self->indices);
  return dp_apply_adadelta(self->scope, variable, self->slots[0], self->slots[1], rate(self), rho,
                           epsilon, self->gradient);
}

static TF_Output apply_rmsprop(const update *self) {
  const dp_optimizer *settings = &self->optimizer->settings;
  TF_Output variable = self->variable->reference, rho = number(self, settings->decay),
            momentum = number(self, settings->momentum), epsilon = number(self, settings->epsilon);
  if (is_sparse(self))
    return dp_sparse_apply_rms_prop(self->scope, variable, self->slots[0], self->slots[1],
                                    rate(self), rho, momentum, epsilon, self->gradient,
                                    self->indices);
  return dp_apply_rms_prop(self->scope, variable, self->slots[0], self->slots[1], rate(self), rho,
                           momentum, epsilon, self->gradient);
}

static TF_Output apply_ftrl(const update *self) {
  const dp_optimizer *settings = &self->optimizer->settings;
  TF_Output variable = self->variable->reference, l1 = number(self, settings->l1),
            l2 = number(self, settings->l2), power = number(self, settings->rate_power);
  if (is_sparse(self))
    return dp_sparse_apply_ftrl(self->scope, variable, self->slots[0], self->slots[1],
                                self->gradient, self->indices, rate(self), l1, l2, power);
  return dp_apply_ftrl(self->scope, variable, self->slots[0], self->slots[1], self->gradient,
                       rate(self), l1, l2, power);
}

/* slot = decay * slot, then rows add (1 - decay) * values; in the variable's own precision. */
static TF_Output decay_and_scatter(const update *self, TF_Output slot, double decay,
                                   TF_Output values) {
  TF_Output factor = number(self, decay);
  TF_Output decayed = dp_assign(self->scope, slot, dp_mul(self->scope, slot, factor));
  dp_scope *after = dp_scope_after(self->scope, &decayed.oper, 1);
  TF_Output rest = dp_sub(self->scope, number(self, 1), factor);
  return dp_scatter_add(after, slot, self->indices, dp_mul(self->scope, values, rest));
}

/* There is no sparse op of Adam. As in TensorFlow, the moments of all rows decay and all rows of
 * the variable change, also those without a gradient. */
static TF_Output apply_adam_sparse(const update *self) {
  const dp_optimizer *settings = &self->optimizer->settings;
  dp_scope *scope = self->scope;
  TF_Output one = number(self, 1);
  TF_Output m = decay_and_scatter(self, self->slots[0], settings->beta1, self->gradient);
  TF_Output v = decay_and_scatter(self, self->slots[1], settings->beta2,
                                  dp_mul(scope, self->gradient, self->gradient));
  TF_Output power1 = dp_sub(scope, one, self->optimizer->beta1_power->value);
  TF_Output power2 = dp_sub(scope, one, self->optimizer->beta2_power->value);
  TF_Output step = dp_div(scope, dp_mul(scope, rate(self), dp_sqrt(scope, power2)), power1);
  TF_Output root = dp_add_v2(scope, dp_sqrt(scope, v), number(self, settings->epsilon));
  return dp_assign_sub(scope, self->variable->reference,
                       dp_div(scope, dp_mul(scope, step, m), root));
}

static TF_Output apply_adam(const update *self) {
  const dp_optimizer *settings = &self->optimizer->settings;
  if (is_sparse(self))
    return apply_adam_sparse(self);
  return dp_apply_adam(self->scope, self->variable->reference, self->slots[0], self->slots[1],
                       self->optimizer->beta1_power->value, self->optimizer->beta2_power->value,
                       rate(self), number(self, settings->beta1), number(self, settings->beta2),
                       number(self, settings->epsilon), self->gradient);
}

/* ---- The table ---- */
static double zero(const dp_optimizer *settings) {
  return 0;
}
static double one(const dp_optimizer *settings) {
  return 1;
}
static double accumulator(const dp_optimizer *settings) {
  return settings->initial_accumulator;
}

typedef struct optimizer_row {
  const char *slots[MOST_SLOTS]; /* NULL: no more */
  double (*initial[MOST_SLOTS])(const dp_optimizer *settings);
  TF_Output (*apply)(const update *self);
  bool adds_rows; /* takes gradients in which a row occurs several times */
} optimizer_row;

static const optimizer_row rows[] = {
    [DP_SGD] = {.apply = apply_sgd, .adds_rows = true},
    [DP_MOMENTUM] = {{"Momentum"}, {zero}, apply_momentum},
    [DP_ADAGRAD] = {{"Adagrad"}, {accumulator}, apply_adagrad},
    [DP_ADADELTA] = {{"Adadelta", "Adadelta_1"}, {zero, zero}, apply_adadelta},
    [DP_ADAM] = {{"Adam", "Adam_1"}, {zero, zero}, apply_adam},
    [DP_RMSPROP] = {{"RMSProp", "RMSProp_1"}, {one, zero}, apply_rmsprop},
    [DP_FTRL] = {{"Ftrl", "Ftrl_1"}, {accumulator, zero}, apply_ftrl},
};

/* ---- What the others call ---- */
void dp_train_optimizer_init(dp_model *model, dp_optimizer settings, train_optimizer *self) {
  *self = (train_optimizer){.settings = settings};
  if (settings.kind < DP_SGD || settings.kind > DP_FTRL)
    dp_scope_fail(model->root, TF_INVALID_ARGUMENT, "there is no optimizer %d", settings.kind);
}

/* Adam's powers of beta1 and beta2 live beside the first variable. */
static void make_powers(dp_model *model, train_optimizer *self, const train_variable *first) {
  dp_model_variable_options options = {.dtype = first->dtype, .fixed = true};
  if (self->settings.kind != DP_ADAM || self->beta1_power)
    return;
  self->beta1_power =
      dp_train_variable_make(model, "beta1_power", DP_SHAPE(),
                             dp_init_constant(self->settings.beta1), options, first->device);
  self->beta2_power =
      dp_train_variable_make(model, "beta2_power", DP_SHAPE(),
                             dp_init_constant(self->settings.beta2), options, first->device);
}

static void add_equal_rows(update *self) {
  dp_unique_outputs unique = dp_unique(self->scope, self->indices);
  self->gradient = dp_unsorted_segment_sum(self->scope, self->gradient, unique.idx,
                                           dp_size(self->scope, unique.y));
  self->indices = unique.y;
}

TF_Operation *dp_train_optimizer_apply(dp_model *model, train_optimizer *self,
                                       train_variable *variable,
                                       const dp_variable_gradient *gradient) {
  if (!dp_scope_ok(model->root))
    return NULL;
  const optimizer_row *row = &rows[self->settings.kind];
  update one_update = {.scope = dp_scope_named(dp_train_on(model, variable->device), "train"),
                       .optimizer = self,
                       .variable = variable,
                       .gradient = gradient->values,
                       .indices = gradient->indices};
  make_powers(model, self, variable);
  for (int i = 0; i < MOST_SLOTS && row->slots[i]; i++) {
    train_variable *slot = dp_train_variable_beside(model, variable, row->slots[i], variable->shape,
                                                    row->initial[i](&self->settings));
    one_update.slots[i] = slot ? slot->reference : (TF_Output){0};
  }
  if (is_sparse(&one_update) && !row->adds_rows)
    add_equal_rows(&one_update);
  return dp_scope_ok(model->root) ? row->apply(&one_update).oper : NULL;
}

TF_Operation *dp_train_optimizer_finish(dp_model *model, train_optimizer *self,
                                        TF_Operation *updates) {
  if (!self->beta1_power || !self->beta2_power || !dp_scope_ok(model->root))
    return updates;
  const train_variable *powers[] = {self->beta1_power, self->beta2_power};
  const double betas[] = {self->settings.beta1, self->settings.beta2};
  TF_Operation *last[2];
  dp_scope *scope = dp_scope_named(dp_train_on(model, powers[0]->device), "train");
  scope = dp_scope_after(scope, &updates, 1);
  for (int i = 0; i < 2; i++) {
    TF_Output next =
        dp_mul(scope, powers[i]->value, dp_const_number(scope, powers[i]->dtype, betas[i]));
    last[i] = dp_assign(scope, powers[i]->reference, next).oper;
  }
  return dp_train_group(scope, last, 2, "powers");
}
