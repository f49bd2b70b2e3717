/* Calls of library functions (PartitionedCall and related ops, nodes whose op is a function,
 * RemoteCall, SymbolicGradient), choices between functions (If, Case), and small ops that come with
 * them (ToBool, DeviceIndex, FakeParam, _ListToArray).
 *
 * All calls are asynchronous: the function's executor runs within the step, and when it ends, the
 * node ends. No thread waits, and the stack does not grow with the depth of calls. */
#include "kernels/shared/family.h"

#include <string.h>
#include "kernels/shared/function.h"
#include "wire/device_name.h"

static void call_function(dp_op_context *context, const dp_func *function, int32_t first) {
  dp_function_instance *instance;
  dp_status *status = dp_function_of_step(context, function, &instance);
  if (status)
    dp_op_done(context, status);
  else
    dp_function_run(context, instance, first);
}

/* ---- Calls ---- */
/* These kernels are never shared between graphs, so the function that create finds is right for
 * every step. */
typedef struct call_state {
  dp_function_instance *instance;
} call_state;

static dp_status *find_instance(const dp_kernel_setup *setup, const dp_func *function,
                                call_state *state) {
  if (!setup->functions)
    return dp_status_create(DP_INTERNAL, "No function library is provided.");
  return dp_function_get(setup->functions, function, &state->instance);
}

static dp_status *call_create(const dp_kernel_setup *setup, void *memory) {
  const dp_func *function;
  DP_RETURN_IF_ERROR(dp_node_get_func(setup->node, "f", &function));
  return find_instance(setup, function, memory);
}

static dp_status *direct_create(const dp_kernel_setup *setup, void *memory) {
  dp_func function = {setup->node->op->name, setup->node->attr_count, setup->node->attrs};
  return find_instance(setup, &function, memory);
}

static void call_compute(dp_op_context *context, void *memory) {
  dp_function_run(context, ((call_state *)memory)->instance, 0);
}

/* ---- Calls on a named device ---- */
typedef struct function_state {
  const dp_func *function; /* in the kernel's graph */
} function_state;

static dp_status *remote_create(const dp_kernel_setup *setup, void *memory) {
  return dp_node_get_func(setup->node, "f", &((function_state *)memory)->function);
}

/* The runtime of the device that input 0 names; it must be a device of this task. */
static dp_status *find_target(const dp_op_context *context, dp_function_runtime **runtime_out) {
  const dp_tensor *target = dp_op_input(context, 0);
  dp_function_runtime *functions = context->step->functions;
  if (target->shape.elements != 1)
    return DP_INVALID("target must be a scalar, got shape %s", dp_shape_text(&target->shape));
  if (!functions)
    return dp_status_create(DP_INTERNAL, "No function library is provided.");
  dp_view view = dp_tstring_view(dp_tensor_strings(target));
  dp_device_name wanted, name;
  DP_RETURN_IF_ERROR(dp_device_name_parse(view, &wanted));
  dp_device *device;
  for (size_t i = 0; (device = dp_function_runtime_device(functions, i)); ++i) {
    DP_RETURN_IF_ERROR(dp_device_name_parse(dp_view_of(device->name), &name));
    if (dp_device_name_accepts(&wanted, &name)) {
      *runtime_out = dp_function_runtime_on(functions, i);
      return NULL;
    }
  }
  return dp_status_create(
      DP_UNIMPLEMENTED,
      "RemoteCall to %.*s from %s: only calls on devices of the node's own task "
      "are supported",
      (int)view.length, view.data, context->device->name);
}

static void remote_compute(dp_op_context *context, void *memory) {
  dp_function_runtime *runtime;
  dp_function_instance *instance;
  dp_status *status = find_target(context, &runtime);
  if (!status)
    status = dp_function_get(runtime, ((function_state *)memory)->function, &instance);
  if (status)
    dp_op_done(context, status);
  else
    dp_function_run(context, instance, 1);
}

/* ---- Gradients ---- */
static void gradient_compute(dp_op_context *context, void *memory) {
  const dp_func *function = ((function_state *)memory)->function;
  dp_function_runtime *functions = context->step->functions;
  dp_func gradient;
  dp_status *status =
      functions
          ? dp_library_find_gradient(dp_function_runtime_library(functions), function, &gradient)
          : DP_INVALID("There is no library with the function %s", function->name);
  if (status)
    dp_op_done(context, status);
  else
    call_function(context, &gradient, 0);
}

/* ---- Choices ---- */
typedef struct if_state {
  const dp_func *then_branch, *else_branch;
} if_state;

static dp_status *if_create(const dp_kernel_setup *setup, void *memory) {
  if_state *state = memory;
  DP_RETURN_IF_ERROR(dp_node_get_func(setup->node, "then_branch", &state->then_branch));
  return dp_node_get_func(setup->node, "else_branch", &state->else_branch);
}

static void if_compute(dp_op_context *context, void *memory) {
  const if_state *state = memory;
  bool condition;
  dp_status *status = dp_function_to_bool(dp_op_input(context, 0), &condition);
  if (status)
    dp_op_done(context, status);
  else
    call_function(context, condition ? state->then_branch : state->else_branch, 1);
}

typedef struct case_state {
  const dp_func *branches;
  int32_t count;
} case_state;

static dp_status *case_create(const dp_kernel_setup *setup, void *memory) {
  case_state *state = memory;
  const dp_attr *list;
  DP_RETURN_IF_ERROR(dp_node_get_list(setup->node, "branches", DP_ATTR_LIST_FUNC, &list));
  if (list->count == 0)
    return DP_INVALID("Case needs at least one branch");
  state->branches = list->funcs;
  state->count = list->count;
  return NULL;
}

/* The last branch serves every index that is out of range. */
static void case_compute(dp_op_context *context, void *memory) {
  const case_state *state = memory;
  const dp_tensor *index = dp_op_input(context, 0);
  if (index->shape.rank != 0) {
    dp_op_done(context, DP_INVALID("branch_index must be scalar"));
    return;
  }
  int64_t branch = dp_tensor_int_at(index, 0);
  if (branch < 0 || branch >= state->count)
    branch = state->count - 1;
  call_function(context, &state->branches[branch], 1);
}

/* ---- Small ops ---- */
static dp_status *to_bool_compute(dp_op_context *context, void *memory) {
  bool value;
  DP_RETURN_IF_ERROR(dp_function_to_bool(dp_op_input(context, 0), &value));
  return dp_op_output_bool(context, 0, value);
}

static dp_status *list_compute(dp_op_context *context, void *memory) {
  if (context->input_count != context->output_count)
    return DP_INVALID("%d values cannot become %d", context->input_count, context->output_count);
  for (int32_t i = 0; i < context->input_count; ++i)
    context->outputs[i].tensor = dp_tensor_take(&context->inputs[i].tensor);
  return NULL;
}

/* The index of this device's type in the list; the length of the list if it is not there. */
static dp_status *device_index_create(const dp_kernel_setup *setup, void *memory) {
  const dp_attr *names;
  DP_RETURN_IF_ERROR(dp_node_get_list(setup->node, "device_names", DP_ATTR_LIST_STRING, &names));
  int32_t index = 0;
  while (index < names->count && !dp_view_equals(names->strings[index], setup->device->type))
    ++index;
  *(int32_t *)memory = index;
  return NULL;
}

static dp_status *device_index_compute(dp_op_context *context, void *memory) {
  return dp_op_output_int32(context, 0, *(int32_t *)memory);
}

/* A value of a fitting shape that nobody reads: a branch returns it for an output that only the
 * other branch computes. */
static dp_status *fake_create(const dp_kernel_setup *setup, void *memory) {
  dp_dtype dtype;
  const dp_partial_shape *partial;
  DP_RETURN_IF_ERROR(dp_node_get_type(setup->node, "dtype", &dtype));
  DP_RETURN_IF_ERROR(dp_node_get_shape(setup->node, "shape", &partial));
  int64_t dims[DP_MAX_RANK];
  for (int32_t i = 0; i < partial->rank; ++i)
    dims[i] = partial->dims[i] < 0 ? 0 : partial->dims[i];
  dp_shape shape;
  DP_RETURN_IF_ERROR(dp_shape_make(partial->rank < 0 ? 0 : partial->rank, dims, &shape));
  return dp_tensor_create_zero(dtype, &shape, memory);
}

static dp_status *fake_compute(dp_op_context *context, void *memory) {
  context->outputs[0].tensor = dp_tensor_copy(memory);
  return NULL;
}

static void fake_destroy(void *memory) {
  dp_tensor_deinit(memory);
}

/* clang-format off */
#define CALL(name, maker)                                                                          \
  {.op = name, .state_size = sizeof(call_state), .create = maker, .compute_async = call_compute}
#define IF(name)                                                                                   \
  {.op = name, .state_size = sizeof(if_state), .create = if_create, .compute_async = if_compute}
#define CASE(name)                                                                                 \
  {.op = name, .state_size = sizeof(case_state), .create = case_create,                            \
   .compute_async = case_compute}

static const dp_kernel rows[] = {
    CALL("PartitionedCall", call_create),
    CALL("StatefulPartitionedCall", call_create),
    CALL(DP_KERNEL_FUNCTION_OP, direct_create),
    {.op = "RemoteCall", .state_size = sizeof(function_state), .create = remote_create,
     .compute_async = remote_compute},
    {.op = "SymbolicGradient", .state_size = sizeof(function_state), .create = remote_create,
     .compute_async = gradient_compute},
    IF("If"), IF("StatelessIf"), IF("_If"),
    CASE("Case"), CASE("StatelessCase"),
    {.op = "ToBool", .flags = DP_KERNEL_CHEAP, .compute = to_bool_compute},
    {.op = "_ListToArray", .flags = DP_KERNEL_CHEAP, .compute = list_compute},
    {.op = "_ArrayToList", .flags = DP_KERNEL_CHEAP, .compute = list_compute},
    {.op = "DeviceIndex", .flags = DP_KERNEL_CHEAP, .state_size = sizeof(int32_t),
     .create = device_index_create, .compute = device_index_compute},
    {.op = "FakeParam", .flags = DP_KERNEL_CHEAP, .state_size = sizeof(dp_tensor),
     .create = fake_create, .compute = fake_compute, .destroy = fake_destroy},
};
/* clang-format on */
DP_KERNEL_FAMILY(function_call, rows);
