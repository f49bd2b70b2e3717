/* Variables: the op that holds the value (a reference), the initial value, the assignment of it,
 * and a read beside it. Names are those that TensorFlow's Python gives, so that TensorFlow reads
 * our checkpoints and we read TensorFlow's. The model owns its variables. */
#include <math.h>
#include <string.h>

#include "train/train_internal.h"

int64_t dp_train_elements(dp_dims shape) {
  int64_t elements = 1;
  for (int i = 0; i < shape.count; i++)
    elements *= shape.items[i];
  return elements;
}

/* ---- Initial values ---- */
/* Fan-in and fan-out of a kernel, as TensorFlow counts them: the product of all sizes but the last,
 * and of all but the last but one. */
static void fans(dp_dims shape, double *in_out, double *out_out) {
  double field = 1;
  for (int i = 0; i + 2 < shape.count; i++)
    field *= (double)shape.items[i];
  int64_t last = shape.count > 0 ? shape.items[shape.count - 1] : 1;
  int64_t before = shape.count > 1 ? shape.items[shape.count - 2] : last;
  *in_out = field * (double)before;
  *out_out = field * (double)last;
}

static TF_Output scaled(dp_scope *scope, TF_Output x, TF_DataType dtype, double factor,
                        double offset) {
  if (factor != 1)
    x = dp_mul(scope, x, dp_const_number(scope, dtype, factor));
  return offset == 0 ? x : dp_add_v2(scope, x, dp_const_number(scope, dtype, offset));
}

dp_initializer dp_train_initializer(dp_initializer from, dp_dims shape) {
  double fan_in, fan_out;
  fans(shape, &fan_in, &fan_out);
  if (from.kind == DP_INIT_GLOROT_UNIFORM) {
    double limit = sqrt(6 / fmax(fan_in + fan_out, 1));
    return dp_init_uniform(-limit, limit);
  }
  if (from.kind == DP_INIT_HE_NORMAL) /* the divisor makes up for the truncation */
    return dp_init_truncated_normal(0, sqrt(2 / fmax(fan_in, 1)) / .87962566103423978);
  return from;
}

static TF_Output initial_value(dp_model *model, dp_scope *scope, dp_dims shape, TF_DataType dtype,
                               dp_initializer from) {
  TF_Output dims = dp_const_vector(scope, ((dp_ints){shape.items, shape.count}));
  int64_t seed = model->seed, seed2 = seed ? ++model->next_seed : 0;
  from = dp_train_initializer(from, shape);
  switch (from.kind) {
  case DP_INIT_UNIFORM:
    return scaled(scope, dp_random_uniform(scope, dims, dtype, .seed = seed, .seed2 = seed2), dtype,
                  from.b - from.a, from.a);
  case DP_INIT_NORMAL:
    return scaled(scope,
                  dp_random_standard_normal(scope, dims, dtype, .seed = seed, .seed2 = seed2),
                  dtype, from.b, from.a);
  case DP_INIT_TRUNCATED_NORMAL:
    return scaled(scope, dp_truncated_normal(scope, dims, dtype, .seed = seed, .seed2 = seed2),
                  dtype, from.b, from.a);
  default:
    break;
  }
  return dp_fill(scope, dims, dp_const_number(scope, dtype, from.a));
}

/* ---- Variables ---- */
train_variable *dp_train_variable_find(const dp_model *model, const char *name) {
  for (size_t i = 0; i < model->variables.count; i++)
    if (strcmp(model->variables.items[i]->name, name) == 0)
      return model->variables.items[i];
  return NULL;
}

/* The items of a scalar's shape are not NULL either: that would be a shape that is not given. */
static dp_dims copy_dims(dp_dims shape) {
  int64_t *items = DP_NEW_ARRAY(int64_t, shape.count + 1);
  for (int i = 0; i < shape.count; i++)
    items[i] = shape.items[i];
  return (dp_dims){items, shape.count};
}

static bool check_new(dp_model *model, const char *name, dp_dims shape) {
  if (dp_train_variable_find(model, name))
    dp_scope_fail(model->root, TF_INVALID_ARGUMENT, "there is a variable %s already", name);
  for (int i = 0; i < shape.count; i++)
    if (shape.items[i] < 0)
      dp_scope_fail(model->root, TF_INVALID_ARGUMENT,
                    "the shape of the variable %s must be known; size %d is %lld", name, i,
                    (long long)shape.items[i]);
  if (shape.count < 0)
    dp_scope_fail(model->root, TF_INVALID_ARGUMENT, "the variable %s needs a shape", name);
  return dp_scope_ok(model->root);
}

train_variable *dp_train_variable_make(dp_model *model, const char *name, dp_dims shape,
                                       dp_initializer initializer,
                                       dp_model_variable_options options, const char *device) {
  if (!check_new(model, name, shape))
    return NULL;
  dp_scope *place = device ? dp_train_on(model, device) : model->worker;
  TF_Output reference = dp_variable_v2(place, shape, options.dtype, .name = name);
  if (!dp_scope_ok(model->root))
    return NULL;
  const char *where = TF_OperationDevice(reference.oper);
  dp_text inner = {0};
  dp_text_printf(&inner, "%s/", name);
  dp_scope *scope = dp_scope_named(dp_train_on(model, where), dp_text_string(&inner));
  dp_scope *initial = dp_scope_named(scope, "Initializer");
  dp_text_deinit(&inner);
  TF_Output value = initial_value(model, initial, shape, options.dtype, initializer);
  TF_Output assigned = dp_assign(scope, reference, value, .name = "Assign");
  TF_Output read = dp_identity(scope, reference, .name = "read");
  if (!dp_scope_ok(model->root))
    return NULL;
  train_variable *variable = DP_NEW(train_variable);
  *variable = (train_variable){.name = dp_strdup(name),
                               .shape = copy_dims(shape),
                               .dtype = options.dtype,
                               .device = dp_strdup(where),
                               .reference = reference,
                               .value = read,
                               .initialize = assigned.oper,
                               .fixed = options.fixed || options.local,
                               .local = options.local,
                               .saved_name = dp_strdup(name),
                               .slice = dp_strdup("")};
  DP_ARRAY_PUSH(&model->variables, variable);
  return variable;
}

train_variable *dp_train_variable_beside(dp_model *model, const train_variable *other,
                                         const char *suffix, dp_dims shape, double initial) {
  dp_text name = {0};
  dp_text_printf(&name, "%s/%s", other->name, suffix);
  train_variable *variable = dp_train_variable_make(
      model, dp_text_string(&name), shape, dp_init_constant(initial),
      (dp_model_variable_options){.dtype = other->dtype, .fixed = true}, other->device);
  dp_text_deinit(&name);
  return variable;
}

void dp_train_variable_destroy(train_variable *variable) {
  dp_free(variable->name);
  dp_free(variable->device);
  dp_free(variable->saved_name);
  dp_free(variable->slice);
  dp_free((void *)variable->shape.items);
  dp_free(variable);
}

TF_Output dp_model_variable_with_options(dp_model *model, const char *name, dp_dims shape,
                                         dp_initializer initializer,
                                         const dp_model_variable_options *given) {
  dp_model_variable_options options = DP_OPTIONS(dp_model_variable);
  const char *device = NULL;
  dp_train_read_options(model, "dp_model_variable", given, &options, sizeof(options));
  if (options.local)
    device = model->job ? dp_job_device(model->job) : "";
  train_variable *variable =
      dp_train_variable_make(model, name, shape, initializer, options, device);
  return variable ? variable->value : (TF_Output){0};
}

TF_Output dp_model_reference(dp_model *model, const char *name) {
  train_variable *variable = dp_train_variable_find(model, name);
  if (variable)
    return variable->reference;
  dp_scope_fail(model->root, TF_NOT_FOUND, "there is no variable %s", name);
  return (TF_Output){0};
}
