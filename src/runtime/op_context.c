/* What a kernel's body calls: outputs, forwarding of memory, references, resources, parallel loops.
 *
 * Everything here works on one dp_op_context, which one thread uses at a time; only the objects
 * behind it (device, resources, variables) are shared, and they have locks of their own. */
#include "runtime/kernel.h"

#include <stdatomic.h>
#include <string.h>
#include "base/memory.h"

/* ---- Outputs ---- */
dp_status *dp_op_allocate(dp_op_context *context, int32_t output, const dp_shape *shape,
                          dp_tensor **tensor_out) {
  dp_tensor *tensor = &context->outputs[output].tensor;
  DP_RETURN_IF_ERROR(dp_tensor_create(dp_op_output_type(context, output), shape, tensor));
  *tensor_out = tensor;
  return NULL;
}

/* Only memory of the pool may be written over: wrapped memory (a client's, a mapped file's) and
 * memory whose elements own something has a release function. */
static bool can_forward(const dp_tensor *input, dp_dtype dtype, const dp_shape *shape) {
  return input->buffer && !input->buffer->release && input->data == input->buffer->data &&
         input->shape.elements == shape->elements &&
         dp_dtype_size(input->dtype) == dp_dtype_size(dtype) && dp_dtype_is_plain(dtype) &&
         dp_tensor_is_unique(input);
}

static bool forward(dp_op_context *context, int32_t slot, int32_t output, const dp_shape *shape) {
  dp_tensor *input = &context->inputs[slot].tensor;
  dp_dtype dtype = dp_op_output_type(context, output);
  if (context->inputs[slot].reference || !can_forward(input, dtype, shape))
    return false;
  dp_tensor *tensor = &context->outputs[output].tensor;
  tensor->dtype = dtype;
  tensor->buffer = input->buffer;
  tensor->data = input->data;
  tensor->shape = *shape;
  input->buffer = NULL; /* dtype, data and shape stay for the body to read */
  return true;
}

dp_status *dp_op_allocate_or_forward(dp_op_context *context, int32_t slot, int32_t output,
                                     const dp_shape *shape, dp_tensor **tensor_out) {
  if (!forward(context, slot, output, shape))
    return dp_op_allocate(context, output, shape, tensor_out);
  *tensor_out = &context->outputs[output].tensor;
  return NULL;
}

dp_status *dp_op_allocate_or_forward_any(dp_op_context *context, const int32_t *slots,
                                         int32_t slot_count, int32_t output, const dp_shape *shape,
                                         dp_tensor **tensor_out) {
  for (int32_t i = 0; i < slot_count; ++i)
    if (forward(context, slots[i], output, shape)) {
      *tensor_out = &context->outputs[output].tensor;
      return NULL;
    }
  return dp_op_allocate(context, output, shape, tensor_out);
}

dp_status *dp_op_output_int32(dp_op_context *context, int32_t output, int32_t value) {
  return dp_tensor_scalar_int32(value, &context->outputs[output].tensor);
}
dp_status *dp_op_output_int64(dp_op_context *context, int32_t output, int64_t value) {
  return dp_tensor_scalar_int64(value, &context->outputs[output].tensor);
}
dp_status *dp_op_output_bool(dp_op_context *context, int32_t output, bool value) {
  return dp_tensor_scalar_bool(value, &context->outputs[output].tensor);
}

/* ---- Parallel loops ---- */
/* A piece worth another thread takes at least this long. */
#define PIECE_NANOS 20000

/* Loops that follow each other walk in turns forwards and backwards, so that each begins where the
 * one before ended: what that left in the core's cache is met first, and not last, when it is gone.
 * Passing over 4 MiB again and again takes 15 % less time so with 2 MiB of cache a core. */
static bool turn_around(void) {
  static _Thread_local bool walks_back;
  return walks_back = !walks_back;
}

void dp_op_for(dp_op_context *context, int64_t count, int64_t cost, dp_range_fn fn, void *arg) {
  if (count <= 0)
    return;
  cost = cost < 1 ? 1 : cost;
  int64_t grain = PIECE_NANOS / cost;
  grain = grain < 1 ? 1 : grain;
  dp_pool *pool = context->step->pool;
  if (!pool || count < 2 * grain)
    fn(arg, 0, count);
  else
    dp_pool_walk(pool, count, grain, turn_around(), fn, arg);
}

/* ---- Resources ---- */
static dp_status *input_handle(dp_op_context *context, int32_t slot,
                               dp_resource_handle **handle_out) {
  const dp_tensor *tensor = dp_op_input(context, slot);
  if (tensor->dtype != DP_RESOURCE || tensor->shape.elements < 1)
    return DP_INVALID("Input %d must be a scalar resource handle, got %s of shape %s", slot,
                      dp_dtype_name(tensor->dtype), dp_shape_text(&tensor->shape));
  dp_resource_handle *handle = dp_tensor_handles(tensor)[0];
  if (!handle)
    return DP_INVALID("Input %d is an empty resource handle", slot);
  *handle_out = handle;
  return NULL;
}

dp_status *dp_op_resource(dp_op_context *context, int32_t slot, const dp_resource_ops *type,
                          dp_resource **resource_out) {
  dp_resource_handle *handle = NULL;
  DP_RETURN_IF_ERROR(input_handle(context, slot, &handle));
  if (handle->object) {
    dp_resource *resource = handle->object;
    if (resource->ops != type)
      return DP_INVALID("Trying to access resource '%s' using the wrong type. Expected %s got %s",
                        handle->name, type->type_name, resource->ops->type_name);
    *resource_out = dp_resource_retain(resource);
    return NULL;
  }
  dp_resource *known = dp_resources_recall(context->device->resources, handle, type);
  if (known) {
    *resource_out = known;
    return NULL;
  }
  if (strcmp(handle->device, context->device->name) != 0)
    return DP_INVALID("Trying to access resource %s located in device %s from device %s",
                      handle->name, handle->device, context->device->name);
  return dp_resources_find_by_handle(context->device->resources, handle, type, resource_out);
}

static dp_status *missing_variable(dp_op_context *context, int32_t slot, const char *why) {
  const dp_resource_handle *handle = dp_tensor_handles(dp_op_input(context, slot))[0];
  return dp_status_create(
      DP_FAILED_PRECONDITION,
      "Could not find variable %s. This could mean that the variable has been deleted. In TF1, it "
      "can also mean the variable is uninitialized. Debug info: container=%s, status error "
      "message=%s",
      handle->name, handle->container, why);
}

dp_status *dp_op_variable(dp_op_context *context, int32_t slot, dp_variable **variable_out) {
  if (context->inputs[slot].reference) {
    *variable_out = dp_resource_retain(context->inputs[slot].reference);
    return NULL;
  }
  dp_resource *resource;
  dp_status *status = dp_op_resource(context, slot, &dp_variable_ops, &resource);
  if (dp_status_code(status) == DP_NOT_FOUND) {
    dp_status *better = missing_variable(context, slot, dp_status_message(status));
    dp_status_release(status);
    return better;
  }
  DP_RETURN_IF_ERROR(status);
  if (!dp_variable_is_initialized((dp_variable *)resource)) {
    dp_resource_release(resource);
    return missing_variable(context, slot, "the variable has no value yet");
  }
  *variable_out = (dp_variable *)resource;
  return NULL;
}

/* ---- Names of resources ---- */
static bool is_letter_or_digit(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

static bool is_container_name(dp_view name) {
  for (size_t i = 0; i < name.length; ++i) {
    char c = name.data[i];
    if (!is_letter_or_digit(c) && c != '.' && (i == 0 || !strchr("_-/", c) || c == '\0'))
      return false;
  }
  return name.length > 0;
}

static dp_status *optional_string(const dp_node *node, const char *name, dp_view *value_out) {
  *value_out = (dp_view){"", 0};
  return dp_node_attr(node, name) ? dp_node_get_string(node, name, value_out) : NULL;
}

dp_status *dp_resource_name_init(dp_resource_name *name, const dp_kernel_setup *setup,
                                 bool use_node_name) {
  static atomic_uint_fast64_t unique;
  const dp_node *node = setup->node;
  dp_view container, shared;
  *name = (dp_resource_name){0};
  DP_RETURN_IF_ERROR(optional_string(node, "container", &container));
  DP_RETURN_IF_ERROR(optional_string(node, "shared_name", &shared));
  if (container.length && !is_container_name(container))
    return DP_INVALID("container contains invalid characters: %.*s", (int)container.length,
                      container.data);
  if (shared.length && shared.data[0] == '_')
    return DP_INVALID("shared_name cannot start with '_':%.*s", (int)shared.length, shared.data);
  name->container = container.length
                        ? dp_strndup(container.data, container.length)
                        : dp_strdup(dp_resources_default_container(setup->device->resources));
  if (shared.length) {
    name->name = dp_strndup(shared.data, shared.length);
  } else if (use_node_name) {
    name->name = dp_strdup(node->name);
  } else {
    dp_text text = {0};
    dp_text_printf(&text, "_%llu_%s", (unsigned long long)atomic_fetch_add(&unique, 1), node->name);
    name->name = dp_text_take(&text);
    name->is_private = true;
  }
  return NULL;
}

void dp_resource_name_deinit(dp_resource_name *name) {
  dp_free(name->container);
  dp_free(name->name);
  *name = (dp_resource_name){0};
}
