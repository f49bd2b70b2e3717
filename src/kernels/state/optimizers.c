/* The optimizers' updates: dense and sparse, of reference and resource variables, in one pass over
 * variable, slots and gradient.
 *
 * All forms of an optimizer share one loop (loops/optimizer.h). A sparse update runs it on the rows
 * that the indices name; rows of equal indices are updated in order. The variables of one update
 * are locked together (runtime/variable.h), so no update is ever torn and use_locking changes
 * nothing. Everything is checked before anything is written. Half and bfloat16 are computed in
 * float, in blocks. */
#include <string.h>
#include "kernels/loops/optimizer.h"
#include "kernels/shared/family.h"
#include "kernels/shared/indices.h"
#include "kernels/shared/variable.h"

/* The rule for a scalar's value. Sparse forms, and one dense form, check it. */
typedef enum scalar_rule { ANY, POSITIVE, NOT_NEGATIVE, NOT_POSITIVE } scalar_rule;

typedef struct scalar_input {
  const char *name;
  scalar_rule rule;
} scalar_input;

typedef struct optimizer_kind {
  const char *name; /* the op's name after "Apply" */
  dp_optimizer_loop loop;
  int slots; /* including the variable */
  const char *option;
  bool wants_columns;    /* the sparse form refuses rows without elements */
  bool is_always_strict; /* the dense form checks the values of scalars too */
  scalar_input scalars[DP_OPTIMIZER_MOST_SCALARS];
} optimizer_kind;

#define L1                                                                                         \
  { "l1", NOT_NEGATIVE }
#define L2                                                                                         \
  { "l2", NOT_NEGATIVE }
static const optimizer_kind kinds[] = {
    {"GradientDescent", DP_OPTIMIZER_gradient_descent, 1, NULL, false, false, {{"alpha"}}},
    {"ProximalGradientDescent",
     DP_OPTIMIZER_proximal_gradient_descent,
     1,
     NULL,
     true,
     false,
     {{"alpha"}, {"l1"}, {"l2"}}},
    {"Momentum", DP_OPTIMIZER_momentum, 2, "use_nesterov", false, false, {{"lr"}, {"momentum"}}},
    {"KerasMomentum",
     DP_OPTIMIZER_keras_momentum,
     2,
     "use_nesterov",
     false,
     false,
     {{"lr"}, {"momentum"}}},
    {"Adagrad", DP_OPTIMIZER_adagrad, 2, "update_slots", true, false, {{"lr"}}},
    {"AdagradV2", DP_OPTIMIZER_adagrad_v2, 2, "update_slots", true, false, {{"lr"}, {"epsilon"}}},
    {"AdagradDA",
     DP_OPTIMIZER_adagrad_da,
     3,
     NULL,
     true,
     false,
     {{"lr"}, {"l1"}, {"l2"}, {"global_step"}}},
    {"ProximalAdagrad",
     DP_OPTIMIZER_proximal_adagrad,
     2,
     NULL,
     true,
     true,
     {{"lr", POSITIVE}, L1, L2}},
    {"Adadelta", DP_OPTIMIZER_adadelta, 3, NULL, false, false, {{"lr"}, {"rho"}, {"epsilon"}}},
    {"Adam",
     DP_OPTIMIZER_adam,
     3,
     "use_nesterov",
     false,
     false,
     {{"beta1_power"}, {"beta2_power"}, {"lr"}, {"beta1"}, {"beta2"}, {"epsilon"}}},
    {"AdaMax",
     DP_OPTIMIZER_adamax,
     3,
     NULL,
     false,
     false,
     {{"beta1_power"}, {"lr"}, {"beta1"}, {"beta2"}, {"epsilon"}}},
    {"AdamWithAmsgrad",
     DP_OPTIMIZER_amsgrad,
     4,
     NULL,
     false,
     false,
     {{"beta1_power"}, {"beta2_power"}, {"lr"}, {"beta1"}, {"beta2"}, {"epsilon"}}},
    {"RMSProp",
     DP_OPTIMIZER_rmsprop,
     3,
     NULL,
     false,
     false,
     {{"lr"}, {"rho"}, {"momentum"}, {"epsilon"}}},
    {"CenteredRMSProp",
     DP_OPTIMIZER_centered_rmsprop,
     4,
     NULL,
     false,
     false,
     {{"lr"}, {"rho"}, {"momentum"}, {"epsilon"}}},
    {"Ftrl",
     DP_OPTIMIZER_ftrl,
     3,
     "multiply_linear_by_lr",
     true,
     false,
     {{"lr", POSITIVE}, L1, L2, {"lr_power", NOT_POSITIVE}}},
    {"FtrlV2",
     DP_OPTIMIZER_ftrl_v2,
     3,
     "multiply_linear_by_lr",
     true,
     false,
     {{"lr", POSITIVE}, L1, L2, {"lr_power", NOT_POSITIVE}, {"l2_shrinkage", NOT_NEGATIVE}}},
    {"AddSign",
     DP_OPTIMIZER_add_sign,
     2,
     NULL,
     false,
     false,
     {{"lr"}, {"alpha"}, {"sign_decay"}, {"beta"}}},
    {"PowerSign",
     DP_OPTIMIZER_power_sign,
     2,
     NULL,
     false,
     false,
     {{"lr"}, {"logbase"}, {"sign_decay"}, {"beta"}}},
};

/* ---- Making the kernel ---- */
typedef struct optimizer_state {
  const optimizer_kind *kind;
  dp_optimizer_fn fn;
  dp_dtype dtype;
  size_t size;
  bool option, is_sparse;
  int32_t scalar_slots[DP_OPTIMIZER_MOST_SCALARS];
  int32_t gradient_slot, indices_slot;
  int scalar_count;
} optimizer_state;

static dp_optimizer_fn find_loop(dp_optimizer_loop loop, dp_dtype dtype) {
  const dp_optimizer_loops *loops = dp_optimizer_table();
  switch (dtype) {
  case DP_DOUBLE:
    return loops->of_double[loop];
  case DP_COMPLEX64:
    return loops->of_complex64[loop];
  case DP_COMPLEX128:
    return loops->of_complex128[loop];
  default:
    return loops->of_float[loop];
  }
}

static dp_status *find_scalars(const dp_op *op, optimizer_state *state) {
  const scalar_input *scalars = state->kind->scalars;
  for (int i = 0; i < DP_OPTIMIZER_MOST_SCALARS && scalars[i].name; ++i) {
    int32_t slot = dp_op_input_index(op, scalars[i].name);
    if (slot < 0 && i == 0) /* the rate has two names */
      slot = dp_op_input_index(op, strcmp(scalars[0].name, "alpha") == 0 ? "lr" : "alpha");
    if (slot < 0)
      return dp_status_create(DP_INTERNAL, "%s has no input %s", op->name, scalars[i].name);
    state->scalar_slots[i] = slot;
    state->scalar_count = i + 1;
  }
  return NULL;
}

static dp_status *optimizer_create(const dp_kernel_setup *setup, void *memory) {
  optimizer_state *state = memory;
  const dp_op *op = setup->node->op;
  const char *name = strstr(op->name, "Apply") + strlen("Apply");
  for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; ++i)
    if (strcmp(kinds[i].name, name) == 0)
      state->kind = &kinds[i];
  DP_RETURN_IF_ERROR(dp_node_get_type(setup->node, "T", &state->dtype));
  state->size = dp_dtype_size(state->dtype);
  state->fn = find_loop(state->kind->loop, state->dtype);
  state->is_sparse = strstr(op->name, "SparseApply") != NULL;
  if (state->kind->option && dp_node_attr(setup->node, state->kind->option))
    DP_RETURN_IF_ERROR(dp_node_get_bool(setup->node, state->kind->option, &state->option));
  state->indices_slot = dp_op_input_index(op, "indices");
  state->gradient_slot = dp_op_input_index(op, "grad");
  if (state->gradient_slot < 0)
    state->gradient_slot = dp_op_input_index(op, "delta");
  return find_scalars(op, state);
}

/* ---- Scalars ---- */
static const char *scalar_words(const optimizer_state *state, const char *name) {
  if (state->is_sparse && strcmp(name, "alpha") == 0)
    return "lr";
  if (strcmp(name, "l1") == 0)
    return "l1 regularization strength";
  if (strcmp(name, "l2") == 0)
    return "l2 regularization strength";
  return strcmp(name, "l2_shrinkage") == 0 ? "l2 shrinkage regularization strength" : name;
}

static double _Complex scalar_value(const dp_tensor *tensor) {
  const void *data = tensor->data;
  switch (tensor->dtype) {
  case DP_FLOAT:
    return *(const float *)data;
  case DP_DOUBLE:
    return *(const double *)data;
  case DP_HALF:
    return dp_half_to_float(*(const uint16_t *)data);
  case DP_BFLOAT16:
    return dp_bfloat16_to_float(*(const uint16_t *)data);
  case DP_COMPLEX64:
    return *(const float _Complex *)data;
  case DP_COMPLEX128:
    return *(const double _Complex *)data;
  default:
    return (double)dp_tensor_int_at(tensor, 0);
  }
}

static bool follows_rule(const optimizer_state *state, scalar_rule rule, double value) {
  bool zero_is_fine = state->option && value == 0; /* a rate of 0 with multiply_linear_by_lr */
  switch (rule) {
  case POSITIVE:
    return value > 0 || zero_is_fine;
  case NOT_NEGATIVE:
    return value >= 0;
  case NOT_POSITIVE:
    return value <= 0;
  default:
    return true;
  }
}

static dp_status *refuse_scalar(const optimizer_state *state, scalar_rule rule, const char *name,
                                const dp_shape *shape) {
  static const char *const rules[] = {
      [POSITIVE] = "positive ", [NOT_NEGATIVE] = "non-negative ", [NOT_POSITIVE] = "non-positive "};
  bool may_be_zero = rule == POSITIVE && state->kind->option;
  return DP_INVALID(
      "%s is not a %sscalar%s: %s", scalar_words(state, name), rules[rule] ? rules[rule] : "",
      may_be_zero ? " (or zero if multiply_linear_by_lr is set)" : "", dp_shape_text(shape));
}

static dp_status *read_scalars(dp_op_context *context, const optimizer_state *state,
                               double _Complex *values) {
  bool is_strict = state->is_sparse || state->kind->is_always_strict;
  for (int i = 0; i < state->scalar_count; ++i) {
    scalar_rule rule = is_strict ? state->kind->scalars[i].rule : ANY;
    const dp_tensor *tensor = dp_op_input(context, state->scalar_slots[i]);
    const char *name = context->node->op->inputs[state->scalar_slots[i]].name;
    bool is_scalar =
        tensor->shape.rank == 0 || (tensor->shape.elements == 1 && strcmp(name, "sign_decay") == 0);
    values[i] = is_scalar ? scalar_value(tensor) : 0;
    if (!is_scalar || !follows_rule(state, rule, __real__ values[i]))
      return refuse_scalar(state, rule, name, &tensor->shape);
  }
  return NULL;
}

/* ---- Checks of variables and gradient ---- */
/* The name of a variable input in messages; for some ops it is not the input's name. */
static const char *slot_words(const optimizer_state *state, const char *name) {
  if (strncmp(name, "gradient_", 9) == 0)
    return "accum";
  bool is_adadelta = state->kind->loop == DP_OPTIMIZER_adadelta;
  return is_adadelta && state->is_sparse && strcmp(name, "accum") == 0 ? "accum_grad" : name;
}

static dp_status *check_slots(dp_op_context *context, const optimizer_state *state,
                              const dp_variable_update *updates) {
  const dp_op_arg *inputs = context->node->op->inputs;
  const dp_shape *shape = &updates[0].old.shape;
  for (int i = 0; i < state->kind->slots; ++i) {
    const dp_tensor *slot = &updates[i].old;
    DP_RETURN_IF_ERROR(dp_variable_expect_type(slot, state->dtype));
    if (!dp_shape_equal(shape, &slot->shape))
      return DP_INVALID("var and %s do not have the same shape%s %s",
                        slot_words(state, inputs[i].name), dp_shape_text(shape),
                        dp_shape_text(&slot->shape));
  }
  return NULL;
}

static dp_status *check_dense(dp_op_context *context, const optimizer_state *state,
                              const dp_shape *shape) {
  const dp_tensor *gradient = dp_op_input(context, state->gradient_slot);
  if (dp_shape_equal(shape, &gradient->shape))
    return NULL;
  return DP_INVALID("var and %s do not have the same shape%s %s",
                    context->node->op->inputs[state->gradient_slot].name, dp_shape_text(shape),
                    dp_shape_text(&gradient->shape));
}

static dp_status *check_sparse(dp_op_context *context, const optimizer_state *state,
                               const dp_shape *shape) {
  const dp_tensor *gradient = dp_op_input(context, state->gradient_slot);
  const dp_tensor *indices = dp_op_input(context, state->indices_slot);
  if (shape->rank < 1)
    return DP_INVALID("var must be at least 1 dimensional");
  if (indices->shape.rank != 1)
    return DP_INVALID("indices must be one-dimensional");
  for (int i = 1; i < shape->rank; ++i)
    if (i >= gradient->shape.rank || gradient->shape.dims[i] != shape->dims[i])
      return DP_INVALID("var and grad must match in dimension %d", i);
  int64_t count = indices->shape.elements, inner = dp_shape_product(shape, 1, shape->rank);
  if (gradient->shape.rank < 1 || gradient->shape.dims[0] != count ||
      gradient->shape.elements != count * inner)
    return DP_INVALID("grad must be the same size as indices in the first dimension.");
  if (state->kind->wants_columns && inner == 0)
    return DP_INVALID("Inner dimension should be greater than zero.");
  int64_t bad = dp_indices_find_bad(indices, shape->dims[0]);
  if (bad >= 0 && state->kind->loop == DP_OPTIMIZER_keras_momentum)
    return dp_indices_error(indices, bad, shape->dims[0]);
  if (bad >= 0)
    return DP_INVALID("Index %lld at offset %lld in indices is out of range",
                      (long long)dp_index_at(indices, bad), (long long)bad);
  return NULL;
}

/* ---- Running the loop ---- */
typedef struct optimizer_work {
  const optimizer_state *state;
  const dp_variable_update *updates;
  const char *gradient;
  const double _Complex *scalars;
  int64_t inner; /* elements per row, for sparse updates */
} optimizer_work;

/* Updates elements [at, at + count) of the variables with the gradient elements from `from` on. */
static void run_wide(const optimizer_work *work, int64_t at, int64_t from, int64_t count) {
  const optimizer_state *state = work->state;
  int64_t size = (int64_t)state->size;
  dp_optimizer_call call = {.gradient = work->gradient + from * size,
                            .scalars = work->scalars,
                            .option = state->option,
                            .is_sparse = state->is_sparse,
                            .count = count};
  for (int i = 0; i < state->kind->slots; ++i) {
    const dp_variable_update *update = &work->updates[i];
    call.target[i] = (char *)update->target.data + at * size;
    call.old[i] = state->is_sparse ? call.target[i] : (const char *)update->old.data + at * size;
  }
  state->fn(&call);
}

static void run_short(const optimizer_work *work, int64_t at, int64_t from, int64_t count) {
  const optimizer_state *state = work->state;
  float blocks[DP_OPTIMIZER_MOST_SLOTS + 1][DP_KERNEL_BLOCK];
  float *gradient = blocks[DP_OPTIMIZER_MOST_SLOTS];
  for (int64_t done = 0; done < count; done += DP_KERNEL_BLOCK) {
    int64_t part = count - done < DP_KERNEL_BLOCK ? count - done : DP_KERNEL_BLOCK;
    dp_optimizer_call call = {.gradient = gradient,
                              .scalars = work->scalars,
                              .option = state->option,
                              .is_sparse = state->is_sparse,
                              .count = part};
    dp_kernel_widen(state->dtype, (const uint16_t *)work->gradient + from + done, gradient, part);
    for (int i = 0; i < state->kind->slots; ++i) {
      const dp_variable_update *update = &work->updates[i];
      const uint16_t *old = state->is_sparse ? update->target.data : update->old.data;
      dp_kernel_widen(state->dtype, old + at + done, blocks[i], part);
      call.old[i] = call.target[i] = blocks[i];
    }
    state->fn(&call);
    for (int i = 0; i < state->kind->slots; ++i)
      dp_kernel_narrow(state->dtype, blocks[i],
                       (uint16_t *)work->updates[i].target.data + at + done, part);
  }
}

static void run_part(const optimizer_work *work, int64_t at, int64_t from, int64_t count) {
  if (dp_kernel_is_short_float(work->state->dtype))
    run_short(work, at, from, count);
  else
    run_wide(work, at, from, count);
}

static void run_range(void *arg, int64_t begin, int64_t end) {
  run_part(arg, begin, begin, end - begin);
}

static void run_row(void *arg, int64_t position, int64_t row) {
  const optimizer_work *work = arg;
  run_part(work, row * work->inner, position * work->inner, work->inner);
}

/* Picoseconds per element when memory is the limit. */
static int64_t element_cost(const optimizer_state *state) {
  return (2 * state->kind->slots + 1) * (int64_t)state->size * 80;
}

static dp_status *update_all(dp_op_context *context, const optimizer_state *state,
                             dp_variable_update *updates) {
  double _Complex scalars[DP_OPTIMIZER_MOST_SCALARS] = {0};
  DP_RETURN_IF_ERROR(check_slots(context, state, updates));
  DP_RETURN_IF_ERROR(read_scalars(context, state, scalars));
  const dp_shape *shape = &updates[0].old.shape;
  optimizer_work work = {.state = state,
                         .updates = updates,
                         .gradient = dp_op_input(context, state->gradient_slot)->data,
                         .scalars = scalars};
  if (!state->is_sparse) {
    DP_RETURN_IF_ERROR(check_dense(context, state, shape));
    dp_kernel_for(context, shape->elements, element_cost(state), run_range, &work);
    return NULL;
  }
  DP_RETURN_IF_ERROR(check_sparse(context, state, shape));
  work.inner = dp_shape_product(shape, 1, shape->rank);
  if (work.inner > 0)
    dp_rows_for(context, dp_op_input(context, state->indices_slot),
                10 + work.inner * element_cost(state) / 1000, run_row, &work);
  return NULL;
}

static void drop_variables(const dp_op_context *context, int count, dp_variable **variables) {
  for (int i = 0; i < count; ++i)
    dp_variable_drop(context, i, variables[i]);
}

static dp_status *find_variables(dp_op_context *context, int count, dp_variable **variables) {
  for (int i = 0; i < count; ++i) {
    dp_status *status = dp_variable_of_input(context, i, &variables[i]);
    if (!status)
      continue;
    drop_variables(context, i, variables);
    if (dp_status_code(status) != DP_NOT_FOUND)
      return status;
    dp_status_release(status);
    return dp_status_create(DP_INTERNAL, "Invalid variable reference.");
  }
  return NULL;
}

static dp_status *optimizer_compute(dp_op_context *context, void *memory) {
  const optimizer_state *state = memory;
  int count = state->kind->slots;
  dp_variable *variables[DP_OPTIMIZER_MOST_SLOTS] = {0};
  DP_RETURN_IF_ERROR(find_variables(context, count, variables));
  dp_variable_update updates[DP_OPTIMIZER_MOST_SLOTS];
  dp_status *status = dp_variable_begin_all(variables, count, state->is_sparse, updates);
  if (!status) {
    status = update_all(context, state, updates);
    dp_variable_end_all(updates, count, status == NULL);
  }
  drop_variables(context, count, variables);
  if (!status)
    dp_variable_output(context);
  return status;
}

/* clang-format off */
#define APPLY(name, set)                                                                           \
  {.op = name, .types = {{"T", set}}, .state_size = sizeof(optimizer_state),                       \
   .create = optimizer_create, .compute = optimizer_compute}
#define DENSE(name, set) APPLY("Apply" name, set), APPLY("ResourceApply" name, set)
#define SPARSE(name, set) APPLY("SparseApply" name, set), APPLY("ResourceSparseApply" name, set)
#define WIDE (DP_SET(FLOAT) | DP_SET(DOUBLE))
#define ALL (DP_SET_FLOATS | DP_SET_COMPLEX)

static const dp_kernel rows[] = {
    DENSE("GradientDescent", ALL),
    DENSE("ProximalGradientDescent", WIDE),
    DENSE("Momentum", ALL),
    APPLY("ResourceApplyKerasMomentum", ALL),
    DENSE("Adagrad", ALL),
    DENSE("AdagradV2", ALL),
    DENSE("AdagradDA", WIDE),
    DENSE("ProximalAdagrad", WIDE),
    DENSE("Adadelta", ALL),
    DENSE("Adam", ALL),
    DENSE("AdaMax", DP_SET_FLOATS),
    APPLY("ResourceApplyAdamWithAmsgrad", DP_SET_FLOATS),
    DENSE("RMSProp", ALL),
    DENSE("CenteredRMSProp", ALL),
    DENSE("Ftrl", DP_SET_FLOATS),
    DENSE("FtrlV2", DP_SET_FLOATS),
    DENSE("AddSign", DP_SET_FLOATS),
    DENSE("PowerSign", DP_SET_FLOATS),
    SPARSE("ProximalGradientDescent", WIDE),
    SPARSE("Momentum", ALL),
    APPLY("ResourceSparseApplyKerasMomentum", ALL),
    SPARSE("Adagrad", ALL),
    SPARSE("AdagradV2", ALL),
    SPARSE("AdagradDA", WIDE),
    SPARSE("ProximalAdagrad", WIDE),
    SPARSE("Adadelta", ALL),
    SPARSE("RMSProp", ALL),
    SPARSE("CenteredRMSProp", ALL),
    SPARSE("Ftrl", DP_SET_FLOATS),
    SPARSE("FtrlV2", DP_SET_FLOATS),
};
/* clang-format on */
DP_KERNEL_FAMILY(optimizers, rows);
