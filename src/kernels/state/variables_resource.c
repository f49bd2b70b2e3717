/* Variables behind handles: creating handles, reading, assigning, querying, destroying.
 *
 * A handle is a name. The variable itself is created by its first assignment, in the resources of
 * the device that the handle names. A read shares the variable's buffer, so it costs only a
 * reference. */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include "base/memory.h"
#include "kernels/shared/family.h"
#include "kernels/shared/variable.h"

/* The shared name that asks for a new variable at every run. */
static const char anonymous_name[] = "cd2c89b7-88b7-44c8-ad83-06c2a9158347";

/* ---- Handles ---- */
typedef struct handle_state {
  dp_value handle; /* unless anonymous */
  char *container;
  dp_dtype dtype;
  dp_partial_shape shape;
} handle_state;

static dp_status *make_handle(const char *device, const char *container, const char *name,
                              dp_dtype dtype, const dp_partial_shape *shape,
                              dp_tensor *tensor_out) {
  dp_shape scalar = dp_shape_scalar();
  DP_RETURN_IF_ERROR(dp_tensor_create(DP_RESOURCE, &scalar, tensor_out));
  dp_resource_handle *handle = dp_resource_make_handle(device, container, name, &dp_variable_ops);
  handle->component_count = 1;
  handle->dtypes = DP_NEW(dp_dtype);
  handle->dtypes[0] = dtype;
  handle->shapes = DP_NEW(dp_partial_shape);
  handle->shapes[0] = *shape;
  dp_tensor_handles(tensor_out)[0] = handle;
  return NULL;
}

static const char *container_or_default(const dp_device *device, dp_view container, char **copy) {
  *copy = dp_strndup(container.data, container.length);
  return container.length ? *copy : dp_resources_default_container(device->resources);
}

static dp_status *handle_create(const dp_kernel_setup *setup, void *memory) {
  handle_state *state = memory;
  const dp_node *node = setup->node;
  const dp_partial_shape *shape;
  dp_view container, name;
  DP_RETURN_IF_ERROR(dp_node_get_string(node, "container", &container));
  DP_RETURN_IF_ERROR(dp_node_get_string(node, "shared_name", &name));
  DP_RETURN_IF_ERROR(dp_node_get_type(node, "dtype", &state->dtype));
  DP_RETURN_IF_ERROR(dp_node_get_shape(node, "shape", &shape));
  state->shape = *shape;
  char *copy;
  state->container = dp_strdup(container_or_default(setup->device, container, &copy));
  dp_free(copy);
  if (name.length == sizeof anonymous_name - 1 &&
      memcmp(name.data, anonymous_name, name.length) == 0)
    return NULL;
  char *text = dp_strndup(name.data, name.length);
  dp_status *status = make_handle(setup->device->name, state->container, text, state->dtype,
                                  &state->shape, &state->handle.tensor);
  dp_free(text);
  return status;
}

static dp_status *handle_compute(dp_op_context *context, void *memory) {
  handle_state *state = memory;
  dp_tensor *output = &context->outputs[0].tensor;
  if (dp_tensor_is_set(&state->handle.tensor)) {
    *output = dp_tensor_copy(&state->handle.tensor);
    return NULL;
  }
  static atomic_ullong unique;
  char name[64];
  snprintf(name, sizeof name, "_AnonymousVar%llu", atomic_fetch_add(&unique, 1));
  return make_handle(context->device->name, state->container, name, state->dtype, &state->shape,
                     output);
}

static void handle_destroy(void *memory) {
  handle_state *state = memory;
  dp_tensor_deinit(&state->handle.tensor);
  dp_free(state->container);
}

/* ---- Several handles at once ---- */
typedef struct handles_state {
  int32_t count;
  dp_tensor *handles;
} handles_state;

static dp_status *expect_length(const dp_attr *list, int64_t count) {
  if (list->count != count)
    return DP_INVALID("Attribute %s has %d elements; %lld were expected", list->name, list->count,
                      (long long)count);
  return NULL;
}

static dp_status *handles_create(const dp_kernel_setup *setup, void *memory) {
  handles_state *state = memory;
  const dp_node *node = setup->node;
  const dp_attr *containers, *names, *dtypes, *shapes;
  DP_RETURN_IF_ERROR(dp_node_get_list(node, "containers", DP_ATTR_LIST_STRING, &containers));
  DP_RETURN_IF_ERROR(dp_node_get_list(node, "shared_names", DP_ATTR_LIST_STRING, &names));
  DP_RETURN_IF_ERROR(dp_node_get_list(node, "dtypes", DP_ATTR_LIST_TYPE, &dtypes));
  DP_RETURN_IF_ERROR(dp_node_get_list(node, "shapes", DP_ATTR_LIST_SHAPE, &shapes));
  int32_t count = node->output_count;
  const dp_attr *lists[] = {containers, names, dtypes, shapes};
  for (int i = 0; i < 4; ++i)
    DP_RETURN_IF_ERROR(expect_length(lists[i], count));
  state->handles = DP_NEW_ARRAY(dp_tensor, count + 1);
  state->count = count;
  for (int32_t i = 0; i < count; ++i) {
    char *copy, *name = dp_strndup(names->strings[i].data, names->strings[i].length);
    const char *container = container_or_default(setup->device, containers->strings[i], &copy);
    dp_status *status =
        make_handle(setup->device->name, container, name, (dp_dtype)dtypes->types[i],
                    &shapes->shapes[i], &state->handles[i]);
    dp_free(copy);
    dp_free(name);
    DP_RETURN_IF_ERROR(status);
  }
  return NULL;
}

static dp_status *handles_compute(dp_op_context *context, void *memory) {
  const handles_state *state = memory;
  for (int32_t i = 0; i < state->count; ++i)
    context->outputs[i].tensor = dp_tensor_copy(&state->handles[i]);
  return NULL;
}

static void handles_destroy(void *memory) {
  handles_state *state = memory;
  for (int32_t i = 0; i < state->count; ++i)
    dp_tensor_deinit(&state->handles[i]);
  dp_free(state->handles);
}

/* ---- Reading ---- */
static dp_status *read_one(dp_op_context *context, int32_t slot) {
  dp_variable *variable;
  DP_RETURN_IF_ERROR(dp_op_variable(context, slot, &variable));
  dp_tensor *output = &context->outputs[slot].tensor;
  dp_status *status = dp_variable_read(variable, output);
  dp_resource_release(variable);
  DP_RETURN_IF_ERROR(status);
  dp_dtype wanted = dp_op_output_type(context, slot), found = output->dtype;
  if (found == wanted)
    return NULL;
  dp_tensor_deinit(output);
  return DP_INVALID("Trying to read variable with wrong dtype. Expected %s got %s",
                    dp_dtype_name(wanted), dp_dtype_name(found));
}

static dp_status *read_compute(dp_op_context *context, void *memory) {
  return read_one(context, 0);
}

static dp_status *read_all_compute(dp_op_context *context, void *memory) {
  for (int32_t i = 0; i < context->output_count; ++i)
    DP_RETURN_IF_ERROR(read_one(context, i));
  return NULL;
}

static dp_status *shape_compute(dp_op_context *context, void *memory) {
  dp_variable *variable;
  DP_RETURN_IF_ERROR(dp_variable_of_input(context, 0, &variable));
  dp_tensor snapshot = {0};
  dp_status *status = dp_variable_read(variable, &snapshot);
  dp_variable_drop(context, 0, variable);
  DP_RETURN_IF_ERROR(status);
  dp_shape shape = snapshot.shape, vector = dp_shape_vector(shape.rank);
  dp_tensor_deinit(&snapshot);
  dp_tensor *output;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &vector, &output));
  for (int i = 0; i < shape.rank; ++i) {
    dp_tensor_set_int(output, i, shape.dims[i]);
  }
  return NULL;
}

static dp_status *is_initialized_compute(dp_op_context *context, void *memory) {
  dp_variable *variable;
  dp_status *status = dp_variable_of_input(context, 0, &variable);
  bool is_set = !status && dp_variable_is_initialized(variable);
  if (!status)
    dp_variable_drop(context, 0, variable);
  dp_status_release(status);
  return dp_op_output_bool(context, 0, is_set);
}

/* ---- Assigning ---- */
static dp_status *assign_create(const dp_kernel_setup *setup, void *memory) {
  bool *validate_shape = memory;
  return dp_node_attr(setup->node, "validate_shape")
             ? dp_node_get_bool(setup->node, "validate_shape", validate_shape)
             : NULL;
}

typedef struct fresh_variable {
  const dp_resource_handle *handle;
  dp_dtype dtype;
} fresh_variable;

static dp_status *make_variable(void *arg, dp_resource **resource_out) {
  const fresh_variable *fresh = arg;
  dp_partial_shape unknown = dp_partial_shape_unknown();
  const dp_resource_handle *handle = fresh->handle;
  *resource_out = &dp_variable_create(&dp_variable_ops, handle->name, fresh->dtype,
                                      handle->component_count == 1 ? handle->shapes : &unknown)
                       ->resource;
  return NULL;
}

/* Whether the resource manager of this device is responsible for the handle. */
static bool is_managed_here(const dp_op_context *context, const dp_resource_handle *handle) {
  return handle && !handle->object && strcmp(handle->device, context->device->name) == 0;
}

static dp_status *find_or_make(dp_op_context *context, dp_dtype dtype, dp_variable **variable_out) {
  const dp_tensor *input = dp_op_input(context, 0);
  dp_resource_handle *handle =
      input->dtype == DP_RESOURCE && input->shape.elements ? dp_tensor_handles(input)[0] : NULL;
  dp_resource *resource = NULL;
  if (is_managed_here(context, handle)) {
    fresh_variable fresh = {handle, dtype};
    DP_RETURN_IF_ERROR(dp_resources_find_or_create_by_handle(
        context->device->resources, handle, &dp_variable_ops, make_variable, &fresh, &resource));
  } else {
    DP_RETURN_IF_ERROR(dp_op_resource(context, 0, &dp_variable_ops, &resource));
  }
  *variable_out = (dp_variable *)resource;
  return NULL;
}

/* Called with the variable's lock held. */
static dp_status *check_assignment(const dp_variable *variable, const dp_tensor *value,
                                   bool validate_shape) {
  const dp_tensor *old = &variable->tensor;
  dp_dtype dtype = dp_tensor_is_set(old) ? old->dtype : variable->dtype;
  if (dtype != value->dtype)
    return DP_INVALID("Trying to assign variable with wrong dtype. Expected %s got %s",
                      dp_dtype_name(dtype), dp_dtype_name(value->dtype));
  if (validate_shape && dp_tensor_is_set(old) && !dp_shape_equal(&old->shape, &value->shape))
    return DP_INVALID("Trying to assign to variable with tensor with wrong shape. Expected %s got "
                      "%s",
                      dp_shape_text(&old->shape), dp_shape_text(&value->shape));
  return NULL;
}

static dp_status *assign_compute(dp_op_context *context, void *memory) {
  const bool *validate_shape = memory;
  dp_tensor *value = &context->inputs[1].tensor, old = {0};
  dp_variable *variable;
  DP_RETURN_IF_ERROR(find_or_make(context, value->dtype, &variable));
  pthread_rwlock_wrlock(&variable->lock);
  dp_status *status = check_assignment(variable, value, *validate_shape);
  if (!status)
    old = dp_variable_replace(variable, value);
  pthread_rwlock_unlock(&variable->lock);
  dp_tensor_deinit(&old);
  dp_resource_release(variable);
  return status;
}

/* ---- The end ---- */
static dp_status *destroy_create(const dp_kernel_setup *setup, void *memory) {
  return dp_node_get_bool(setup->node, "ignore_lookup_error", memory);
}

static dp_status *destroy_compute(dp_op_context *context, void *memory) {
  const bool *ignore = memory;
  const dp_tensor *input = dp_op_input(context, 0);
  dp_resource_handle *handle = input->shape.elements == 1 ? dp_tensor_handles(input)[0] : NULL;
  if (!handle)
    return DP_INVALID("Input 0 must be a scalar resource handle, got shape %s",
                      dp_shape_text(&input->shape));
  if (handle->object)
    return NULL; /* lives as long as its handles */
  if (strcmp(handle->device, context->device->name) != 0)
    return DP_INVALID("Trying to access resource %s located in device %s from device %s",
                      handle->name, handle->device, context->device->name);
  dp_status *status = dp_resources_remove(context->device->resources, handle->container,
                                          handle->name, handle->type_name);
  if (*ignore && dp_status_code(status) == DP_NOT_FOUND) {
    dp_status_release(status);
    return NULL;
  }
  return status;
}

/* DisableCopyOnRead does nothing: every update copies only when somebody holds a snapshot, so there
 * is no other mode. */
static dp_status *disable_copy_compute(dp_op_context *context, void *memory) {
  dp_variable *variable;
  DP_RETURN_IF_ERROR(dp_op_variable(context, 0, &variable));
  dp_resource_release(variable);
  return NULL;
}

/* clang-format off */
static const dp_kernel rows[] = {
    {.op = "VarHandleOp", .flags = DP_KERNEL_CHEAP | DP_KERNEL_NOTHING,
     .state_size = sizeof(handle_state),
     .create = handle_create, .compute = handle_compute, .destroy = handle_destroy},
    {.op = "_VarHandlesOp", .flags = DP_KERNEL_CHEAP, .state_size = sizeof(handles_state),
     .create = handles_create, .compute = handles_compute, .destroy = handles_destroy},
    {.op = "ReadVariableOp", .flags = DP_KERNEL_CHEAP, .compute = read_compute},
    {.op = "_ReadVariablesOp", .flags = DP_KERNEL_CHEAP, .compute = read_all_compute},
    {.op = "VariableShape", .types = {{"out_type", DP_SET_INDEX}}, .flags = DP_KERNEL_CHEAP,
     .compute = shape_compute},
    {.op = "VarIsInitializedOp", .flags = DP_KERNEL_CHEAP, .compute = is_initialized_compute},
    {.op = "AssignVariableOp", .flags = DP_KERNEL_CHEAP, .state_size = sizeof(bool),
     .create = assign_create, .compute = assign_compute},
    {.op = "DestroyResourceOp", .flags = DP_KERNEL_CHEAP, .state_size = sizeof(bool),
     .create = destroy_create, .compute = destroy_compute},
    {.op = "DisableCopyOnRead", .flags = DP_KERNEL_CHEAP, .compute = disable_copy_compute},
};
/* clang-format on */
DP_KERNEL_FAMILY(variables_resource, rows);
