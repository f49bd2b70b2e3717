/* Variables on reference edges: the ops that create them, and updates of a whole variable of either
 * kind (assignments, sums, counting).
 *
 * A variable lives in its device's resources under container and name. The kernel keeps only the
 * name, so that after a container is cleared the next run creates a new variable. A temporary
 * variable lives in the step's container. The only lock that these kernels wait for is the
 * variable's own (runtime/variable.h). */
#include <stdio.h>
#include <string.h>
#include "base/memory.h"
#include "kernels/shared/family.h"
#include "kernels/shared/variable.h"

/* ---- Making variables ---- */
typedef struct variable_state {
  dp_resource_name name;
  char *message_name; /* its name in messages: the node's */
  dp_dtype dtype;
  dp_partial_shape shape;
} variable_state;

/* A shape of unknown rank stands for a scalar here, as it does in TensorFlow. */
static dp_status *read_declared_shape(const dp_node *node, dp_partial_shape *shape_out) {
  const dp_partial_shape *shape;
  DP_RETURN_IF_ERROR(dp_node_get_shape(node, "shape", &shape));
  *shape_out = *shape;
  if (shape->rank < 0)
    shape_out->rank = 0;
  if (!dp_partial_shape_is_known(shape_out))
    return DP_INVALID("Shape %s is not fully defined", dp_partial_shape_text(shape));
  return NULL;
}

static dp_status *variable_create(const dp_kernel_setup *setup, void *memory) {
  variable_state *state = memory;
  DP_RETURN_IF_ERROR(read_declared_shape(setup->node, &state->shape));
  DP_RETURN_IF_ERROR(dp_node_get_type(setup->node, "dtype", &state->dtype));
  state->message_name = dp_strdup(setup->node->name);
  return dp_resource_name_init(&state->name, setup, true);
}

static dp_status *make_variable(void *arg, dp_resource **resource_out) {
  const variable_state *state = arg;
  *resource_out =
      &dp_variable_create(&dp_legacy_variable_ops, state->message_name, state->dtype, &state->shape)
           ->resource;
  return NULL;
}

static dp_status *variable_compute(dp_op_context *context, void *memory) {
  variable_state *state = memory;
  dp_resource *resource;
  DP_RETURN_IF_ERROR(dp_resources_find_or_create(context->device->resources, state->name.container,
                                                 state->name.name, &dp_legacy_variable_ops,
                                                 make_variable, state, &resource));
  if (((dp_variable *)resource)->dtype != state->dtype) {
    dp_status *status =
        DP_INVALID("Variable %s has type %s, not %s", state->name.name,
                   dp_dtype_name(((dp_variable *)resource)->dtype), dp_dtype_name(state->dtype));
    dp_resource_release(resource);
    return status;
  }
  context->outputs[0].reference = (dp_variable *)resource;
  return NULL;
}

static void variable_destroy(void *memory) {
  variable_state *state = memory;
  dp_resource_name_deinit(&state->name);
  dp_free(state->message_name);
}

/* ---- Temporary variables ---- */
static void destroy_temporary(dp_resource *resource) {
  dp_legacy_variable_ops.destroy(resource);
}
static const dp_resource_ops temporary_ops = {"N10tensorflow19TemporaryVariableOp6TmpVarE",
                                              destroy_temporary, NULL};

typedef struct temporary_state {
  char *name;
  char *outer_name; /* the resource's name outside of loops */
  dp_dtype dtype;
  dp_partial_shape shape;
} temporary_state;

static char *temporary_name(const char *name, uint64_t frame, int64_t iteration) {
  dp_text text = {0};
  dp_text_printf(&text, "%s/frame:%llu/iter:%lld", name, (unsigned long long)frame,
                 (long long)iteration);
  return dp_text_take(&text);
}

static dp_status *temporary_create(const dp_kernel_setup *setup, void *memory) {
  temporary_state *state = memory;
  dp_view name;
  DP_RETURN_IF_ERROR(dp_node_get_string(setup->node, "var_name", &name));
  bool makes = dp_node_is(setup->node, "TemporaryVariable");
  if (name.length)
    state->name = dp_strndup(name.data, name.length);
  else if (makes)
    state->name = dp_strdup(setup->node->name);
  else
    return DP_INVALID("Missing var_name attribute");
  state->outer_name = temporary_name(state->name, 0, 0);
  if (!makes)
    return NULL;
  DP_RETURN_IF_ERROR(dp_node_get_type(setup->node, "dtype", &state->dtype));
  return read_declared_shape(setup->node, &state->shape);
}

static void temporary_destroy(void *memory) {
  dp_free(((temporary_state *)memory)->name);
  dp_free(((temporary_state *)memory)->outer_name);
}

/* The resource's name in this run: the state's own, or (inside a loop) one that the caller
 * frees. */
static char *name_now(const dp_op_context *context, const temporary_state *state) {
  bool is_outside = context->frame_id == 0 && context->iteration == 0;
  return is_outside ? state->outer_name
                    : temporary_name(state->name, context->frame_id, context->iteration);
}
static void free_name(const temporary_state *state, char *name) {
  if (name != state->outer_name)
    dp_free(name);
}

static dp_status *temporary_compute(dp_op_context *context, void *memory) {
  temporary_state *state = memory;
  dp_shape shape = dp_shape_of(state->shape.rank, state->shape.dims);
  dp_tensor value;
  DP_RETURN_IF_ERROR(dp_tensor_create_zero(state->dtype, &shape, &value));
  dp_variable *variable =
      dp_variable_create(&temporary_ops, state->name, state->dtype, &state->shape);
  dp_variable_assign(variable, &value);
  char *name = name_now(context, state);
  dp_resource_retain(variable);
  dp_status *status = dp_resources_add(context->device->resources, context->step->container, name,
                                       &variable->resource);
  free_name(state, name);
  if (status)
    dp_resource_release(variable);
  else
    context->outputs[0].reference = variable;
  return status;
}

static dp_status *destroy_temporary_compute(dp_op_context *context, void *memory) {
  temporary_state *state = memory;
  DP_RETURN_IF_ERROR(dp_variable_read(dp_op_reference(context, 0), &context->outputs[0].tensor));
  char *name = name_now(context, state);
  dp_status *status = dp_resources_remove(context->device->resources, context->step->container,
                                          name, temporary_ops.type_name);
  free_name(state, name);
  return status;
}

static dp_status *is_initialized_compute(dp_op_context *context, void *memory) {
  return dp_op_output_bool(context, 0, dp_variable_is_initialized(dp_op_reference(context, 0)));
}

/* ---- Assignment ---- */
static dp_status *assign_create(const dp_kernel_setup *setup, void *memory) {
  return dp_node_get_bool(setup->node, "validate_shape", memory);
}

/* The current shape, or the declared one while there is no value. */
static dp_shape current_shape(dp_variable *variable) {
  pthread_rwlock_rdlock(&variable->lock);
  dp_shape shape = dp_tensor_is_set(&variable->tensor)
                       ? variable->tensor.shape
                       : dp_shape_of(variable->shape.rank, variable->shape.dims);
  pthread_rwlock_unlock(&variable->lock);
  return shape;
}

static dp_status *assign_compute(dp_op_context *context, void *memory) {
  const bool *validate_shape = memory;
  dp_variable *variable = dp_op_reference(context, 0);
  dp_tensor *value = &context->inputs[1].tensor;
  if (*validate_shape) {
    dp_shape shape = current_shape(variable);
    if (!dp_shape_equal(&shape, &value->shape))
      return DP_INVALID("Assign requires shapes of both tensors to match. lhs shape= %s rhs "
                        "shape= %s",
                        dp_shape_text(&shape), dp_shape_text(&value->shape));
  }
  dp_variable_assign(variable, value);
  dp_op_pass_reference(context, 0, 0);
  return NULL;
}

/* ---- Sums and differences of a whole variable ---- */
static dp_status *add_create(const dp_kernel_setup *setup, void *memory) {
  const dp_node *node = setup->node;
  bool adds = dp_node_is(node, "AssignAdd") || dp_node_is(node, "AssignAddVariableOp");
  return dp_row_op_init(memory, adds ? DP_ROW_ADD : DP_ROW_SUB,
                        dp_dtype_base(node->input_types[1]));
}

typedef struct add_work {
  const dp_row_op *op;
  const char *from, *operand;
  char *to;
} add_work;

static void run_add(void *arg, int64_t begin, int64_t end) {
  const add_work *work = arg;
  int64_t offset = begin * (int64_t)work->op->size;
  dp_row_apply(work->op, work->from + offset, work->operand + offset, false, work->to + offset,
               end - begin);
}

static dp_status *add_to(dp_op_context *context, const dp_row_op *op, dp_variable *variable) {
  const dp_tensor *value = dp_op_input(context, 1);
  dp_variable_update update;
  DP_RETURN_IF_ERROR(dp_variable_begin(variable, &update));
  dp_status *status = dp_variable_expect_type(&update.old, op->dtype);
  if (!status && !dp_shape_equal(&update.old.shape, &value->shape))
    status = dp_op_reference(context, 0)
                 ? DP_INVALID("Parameters and update must be the same size")
                 : DP_INVALID("Cannot update variable with shape %s using a Tensor with shape %s, "
                              "shapes must be equal.",
                              dp_shape_text(&update.old.shape), dp_shape_text(&value->shape));
  if (!status) {
    add_work work = {op, update.old.data, value->data, update.target.data};
    dp_kernel_for(context, value->shape.elements, (int64_t)op->size * 80, run_add, &work);
  }
  dp_variable_end(&update, status == NULL);
  return status;
}

static dp_status *add_compute(dp_op_context *context, void *memory) {
  dp_variable *variable;
  DP_RETURN_IF_ERROR(dp_variable_of_input(context, 0, &variable));
  dp_status *status = add_to(context, memory, variable);
  dp_variable_drop(context, 0, variable);
  if (!status)
    dp_variable_output(context);
  return status;
}

/* ---- Counting ---- */
static dp_status *count_create(const dp_kernel_setup *setup, void *memory) {
  return dp_node_get_int(setup->node, "limit", memory);
}

/* Called with the variable's lock held. */
static dp_status *count_once(dp_op_context *context, int64_t limit, dp_variable_update *update) {
  DP_RETURN_IF_ERROR(dp_variable_expect_type(&update->old, dp_op_output_type(context, 0)));
  if (update->old.shape.rank != 0)
    return DP_INVALID("input is not a scalar: %s", dp_shape_text(&update->old.shape));
  int64_t before = dp_tensor_int_at(&update->old, 0);
  if (before >= limit)
    return dp_status_create(DP_OUT_OF_RANGE, "Reached limit of %lld", (long long)limit);
  if (update->old.dtype == DP_INT32) {
    DP_RETURN_IF_ERROR(dp_op_output_int32(context, 0, (int32_t)before));
    *(int32_t *)update->target.data = (int32_t)before + 1;
  } else {
    DP_RETURN_IF_ERROR(dp_op_output_int64(context, 0, before));
    *(int64_t *)update->target.data = before + 1;
  }
  return NULL;
}

static dp_status *count_compute(dp_op_context *context, void *memory) {
  dp_variable *variable;
  DP_RETURN_IF_ERROR(dp_variable_of_input(context, 0, &variable));
  dp_variable_update update;
  dp_status *status = dp_variable_begin(variable, &update);
  if (!status) {
    status = count_once(context, *(const int64_t *)memory, &update);
    dp_variable_end(&update, status == NULL);
  }
  dp_variable_drop(context, 0, variable);
  return status;
}

/* clang-format off */
#define VARIABLE(name)                                                                             \
  {.op = name, .flags = DP_KERNEL_CHEAP, .state_size = sizeof(variable_state),                     \
   .create = variable_create, .compute = variable_compute, .destroy = variable_destroy}
#define ADD(name, attr)                                                                            \
  {.op = name, .types = {{attr, DP_SET_NUMBERS}}, .state_size = sizeof(dp_row_op),                 \
   .create = add_create, .compute = add_compute}
#define COUNT(name)                                                                                \
  {.op = name, .types = {{"T", DP_SET_INDEX}}, .flags = DP_KERNEL_CHEAP,                           \
   .state_size = sizeof(int64_t), .create = count_create, .compute = count_compute}

static const dp_kernel rows[] = {
    VARIABLE("Variable"),
    VARIABLE("VariableV2"),
    {.op = "TemporaryVariable", .state_size = sizeof(temporary_state), .create = temporary_create,
     .compute = temporary_compute, .destroy = temporary_destroy},
    {.op = "DestroyTemporaryVariable", .state_size = sizeof(temporary_state),
     .create = temporary_create, .compute = destroy_temporary_compute,
     .destroy = temporary_destroy},
    {.op = "IsVariableInitialized", .flags = DP_KERNEL_CHEAP, .compute = is_initialized_compute},
    {.op = "Assign", .flags = DP_KERNEL_CHEAP, .state_size = sizeof(bool), .create = assign_create,
     .compute = assign_compute},
    ADD("AssignAdd", "T"),
    ADD("AssignSub", "T"),
    ADD("AssignAddVariableOp", "dtype"),
    ADD("AssignSubVariableOp", "dtype"),
    COUNT("CountUpTo"),
    COUNT("ResourceCountUpTo"),
};
/* clang-format on */
DP_KERNEL_FAMILY(variables, rows);
