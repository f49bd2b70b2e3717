/* Writes and reads handles in their three forms (handle.h). A handle given out as a reference needs
 * a variable to refer to: dp_handle_output makes one that holds the two strings and passes it to
 * the output. */
#include "kernels/shared/handle.h"

#include "base/memory.h"

/* ---- Writing ---- */
static dp_status *make_strings(const char *first, const char *second, dp_tensor *tensor_out) {
  dp_shape shape = dp_shape_vector(2);
  dp_tensor tensor;
  DP_RETURN_IF_ERROR(dp_tensor_create(DP_STRING, &shape, &tensor));
  dp_tstring *strings = dp_tensor_strings(&tensor);
  dp_status *status = dp_tstring_assign(&strings[0], first, strlen(first));
  if (!status)
    status = dp_tstring_assign(&strings[1], second, strlen(second));
  if (status)
    dp_tensor_deinit(&tensor);
  else
    *tensor_out = tensor;
  return status;
}

static dp_status *output_resource(dp_op_context *context, int32_t output, dp_resource *resource,
                                  const char *container, const char *name, bool holds_object) {
  dp_shape shape = dp_shape_scalar();
  dp_tensor *tensor;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, output, &shape, &tensor));
  dp_resource_handle *handle =
      dp_resource_make_handle(context->device->name, container, name, resource->ops);
  if (holds_object) {
    handle->object = dp_resource_retain(resource);
    handle->object_release = dp_resource_release;
  }
  dp_tensor_handles(tensor)[0] = handle;
  return NULL;
}

dp_status *dp_handle_output(dp_op_context *context, int32_t output, dp_resource *resource,
                            const char *container, const char *name, bool holds_object) {
  if (dp_op_output_type(context, output) == DP_RESOURCE)
    return output_resource(context, output, resource, container, name, holds_object);
  dp_tensor strings;
  DP_RETURN_IF_ERROR(make_strings(container, name, &strings));
  if (!dp_dtype_is_ref(context->node->output_types[output])) {
    dp_op_set_output(context, output, &strings);
    return NULL;
  }
  dp_partial_shape shape = {.rank = 1, .dims = {2}};
  dp_variable *variable =
      dp_variable_create(&dp_legacy_variable_ops, context->node->name, DP_STRING, &shape);
  dp_variable_assign(variable, &strings);
  context->outputs[output].reference = variable;
  return NULL;
}

/* ---- Reading ---- */
static char *copy_string(const dp_tstring *string) {
  dp_view view = dp_tstring_view(string);
  return dp_strndup(view.data, view.length);
}

/* The two strings of a handle that is not a resource handle; they are malloc'd. */
static dp_status *read_strings(dp_op_context *context, int32_t slot, const char *rule,
                               char **first_out, char **second_out) {
  dp_variable *reference = dp_op_reference(context, slot);
  dp_tensor strings;
  if (reference)
    DP_RETURN_IF_ERROR(dp_variable_read(reference, &strings));
  else
    strings = dp_tensor_copy(dp_op_input(context, slot));
  dp_status *status = NULL;
  if (strings.dtype != DP_STRING || strings.shape.elements != 2) {
    status = DP_INVALID("%s, but had shape: %s", rule, dp_shape_text(&strings.shape));
  } else {
    *first_out = copy_string(&dp_tensor_strings(&strings)[0]);
    *second_out = copy_string(&dp_tensor_strings(&strings)[1]);
  }
  dp_tensor_deinit(&strings);
  return status;
}

static bool is_resource(const dp_op_context *context, int32_t slot) {
  return !context->inputs[slot].reference && dp_op_input(context, slot)->dtype == DP_RESOURCE;
}

dp_status *dp_handle_input(dp_op_context *context, int32_t slot, const dp_resource_ops *type,
                           const char *rule, dp_resource **resource_out) {
  if (is_resource(context, slot))
    return dp_op_resource(context, slot, type, resource_out);
  char *container, *name;
  DP_RETURN_IF_ERROR(read_strings(context, slot, rule, &container, &name));
  dp_status *status =
      dp_resources_find(context->device->resources, container, name, type, resource_out);
  dp_free(container);
  dp_free(name);
  return status;
}

dp_status *dp_handle_step_input(dp_op_context *context, int32_t slot, const dp_resource_ops *type,
                                const char *rule, dp_resource **resource_out) {
  if (is_resource(context, slot))
    return dp_op_resource(context, slot, type, resource_out);
  char *first, *second;
  DP_RETURN_IF_ERROR(read_strings(context, slot, rule, &first, &second));
  dp_text key = {0};
  dp_text_printf(&key, "%s%s", first, second);
  dp_status *status = dp_resources_find(context->device->resources, context->step->container,
                                        dp_text_string(&key), type, resource_out);
  dp_text_deinit(&key);
  dp_free(first);
  dp_free(second);
  return status;
}
