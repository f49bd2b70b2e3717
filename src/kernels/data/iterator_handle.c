/* What all kinds of iterators share (iterator_internal.h): the components that they declare,
 * handles with a name, without a name and as text, and how iterators are destroyed. */
#include <string.h>
#include "kernels/data/data.h"
#include "kernels/data/iterator_internal.h"
#include "kernels/shared/io.h"
#include "wire/tensor_codec.h"

/* ---- Components ---- */
static dp_status *check_dtype(int32_t index, dp_dtype expected, dp_dtype dtype) {
  if (dtype == expected)
    return NULL;
  return DP_INVALID("Data type mismatch at component %d: expected %s but got %s.", index,
                    dp_dtype_name(expected), dp_dtype_name(dtype));
}

static dp_status *check_shape(int32_t index, const dp_partial_shape *expected,
                              const dp_partial_shape *shape) {
  dp_partial_shape merged;
  if (dp_partial_shape_merge(expected, shape, &merged))
    return NULL;
  return DP_INVALID("Incompatible shapes at component %d: expected %s but got %s.", index,
                    dp_partial_shape_text(expected), dp_partial_shape_text(shape));
}

static dp_status *check_count(int32_t expected, int32_t count) {
  if (count == expected)
    return NULL;
  return DP_INVALID("Number of components does not match: expected %d types but got %d.", expected,
                    count);
}

dp_status *dp_components_check(const dp_components *components, const dp_dataset *dataset) {
  DP_RETURN_IF_ERROR(check_count(components->count, dataset->component_count));
  for (int32_t i = 0; i < components->count; ++i)
    DP_RETURN_IF_ERROR(check_dtype(i, components->dtypes[i], dataset->dtypes[i]));
  for (int32_t i = 0; i < components->count; ++i)
    DP_RETURN_IF_ERROR(check_shape(i, &components->shapes[i], &dataset->shapes[i]));
  return NULL;
}

/* The components that the node declares, if it does, must fit the iterator's. */
static dp_status *check_node(const dp_node *node, const dp_components *components) {
  const dp_attr *types, *shapes;
  DP_RETURN_IF_ERROR(dp_node_get_list(node, "output_types", DP_ATTR_LIST_TYPE, &types));
  DP_RETURN_IF_ERROR(dp_node_get_list(node, "output_shapes", DP_ATTR_LIST_SHAPE, &shapes));
  if (types->count > 0)
    DP_RETURN_IF_ERROR(check_count(types->count, components->count));
  for (int32_t i = 0; i < types->count; ++i)
    DP_RETURN_IF_ERROR(check_dtype(i, (dp_dtype)types->types[i], components->dtypes[i]));
  for (int32_t i = 0; i < shapes->count && i < components->count; ++i)
    DP_RETURN_IF_ERROR(check_shape(i, &shapes->shapes[i], &components->shapes[i]));
  return NULL;
}

dp_status *dp_iterator_output_element(dp_op_context *context, dp_tensor *element, int32_t count) {
  DP_RETURN_IF_ERROR(check_count(context->output_count, count));
  for (int32_t i = 0; i < count; ++i) {
    DP_RETURN_IF_ERROR(check_dtype(i, dp_op_output_type(context, i), element[i].dtype));
    dp_op_set_output(context, i, &element[i]);
  }
  return NULL;
}

/* ---- Handles ---- */
dp_status *dp_iterator_handle_init(dp_iterator_handle *handle, const dp_kernel_setup *setup,
                                   const dp_iterator_kind *kind) {
  handle->kind = kind;
  handle->node = setup->node;
  handle->resources = dp_resources_retain(setup->device->resources);
  return dp_resource_name_init(&handle->name, setup, false);
}

void dp_iterator_handle_deinit(void *memory) {
  dp_iterator_handle *handle = memory;
  if (handle->name.is_private)
    dp_status_release(dp_resources_remove(handle->resources, handle->name.container,
                                          handle->name.name, handle->kind->ops->type_name));
  dp_resources_release(handle->resources);
  dp_resource_name_deinit(&handle->name);
}

static dp_status *make_resource(void *arg, dp_resource **resource_out) {
  dp_iterator_handle *handle = arg;
  return handle->kind->create(handle->node, (dp_iterator_base **)resource_out);
}

dp_status *dp_iterator_handle_find(dp_op_context *context, dp_iterator_handle *handle,
                                   dp_iterator_base **resource_out) {
  dp_resource *resource;
  DP_RETURN_IF_ERROR(dp_resources_find_or_create(context->device->resources, handle->name.container,
                                                 handle->name.name, handle->kind->ops,
                                                 make_resource, handle, &resource));
  *resource_out = (dp_iterator_base *)resource;
  return NULL;
}

/* Consumes the handle. */
static dp_status *output_handle(dp_op_context *context, dp_resource_handle *handle) {
  dp_shape shape = dp_shape_scalar();
  dp_tensor *output;
  dp_status *status = dp_op_allocate(context, 0, &shape, &output);
  if (status)
    dp_resource_handle_release(handle);
  else
    dp_tensor_handles(output)[0] = handle;
  return status;
}

dp_status *dp_iterator_handle_output(dp_op_context *context, const dp_iterator_handle *handle) {
  return output_handle(context,
                       dp_resource_make_handle(context->device->name, handle->name.container,
                                               handle->name.name, handle->kind->ops));
}

dp_status *dp_iterator_handle_compute(dp_op_context *context, void *state) {
  dp_iterator_base *resource;
  DP_RETURN_IF_ERROR(dp_iterator_handle_find(context, state, &resource));
  dp_resource_release(resource);
  return dp_iterator_handle_output(context, state);
}

dp_status *dp_iterator_anonymous(dp_op_context *context, const dp_iterator_kind *kind) {
  dp_iterator_base *resource;
  DP_RETURN_IF_ERROR(kind->create(context->node, &resource));
  dp_resource_handle *handle =
      dp_resource_make_handle(context->device->name, "", kind->anonymous_name, kind->ops);
  handle->object = resource;
  handle->object_release = dp_resource_release;
  DP_RETURN_IF_ERROR(output_handle(context, handle));
  dp_shape shape = dp_shape_scalar();
  dp_tensor *deleter;
  return context->output_count > 1 ? dp_op_allocate(context, 1, &shape, &deleter) : NULL;
}

/* ---- Handles as text: a serialized ResourceHandleProto ---- */
dp_status *dp_iterator_to_text(dp_op_context *context, const dp_iterator_kind *kind) {
  const dp_tensor *handle = dp_op_input(context, 0);
  if (handle->shape.rank != 0)
    return DP_INVALID("resource_handle must be a scalar");
  dp_resource *resource; /* only to check that it exists */
  DP_RETURN_IF_ERROR(dp_op_resource(context, 0, kind->ops, &resource));
  dp_resource_release(resource);
  dp_rope rope = {0};
  dp_status *status = dp_wire_encode_handle(dp_tensor_handles(handle)[0], &rope);
  char *bytes = status ? NULL : dp_malloc(rope.length + 1);
  if (!status) {
    dp_rope_flatten(&rope, bytes);
    status = dp_io_output_string(context, 0, bytes, rope.length);
  }
  dp_free(bytes);
  dp_rope_deinit(&rope);
  return status;
}

static dp_status *parse_handle(dp_view bytes, dp_resource_handle **handle_out) {
  dp_rope rope = {0};
  dp_rope_append_piece(&rope, NULL, bytes.data, bytes.length);
  dp_rope_reader reader = dp_rope_read(&rope);
  dp_status *status = dp_wire_decode_handle(&reader, handle_out);
  dp_rope_deinit(&rope);
  if (!status)
    return NULL;
  dp_status_release(status);
  return DP_INVALID("Could not parse string_handle as a valid ResourceHandle");
}

static dp_status *check_handle(dp_op_context *context, const dp_iterator_kind *kind,
                               const dp_resource_handle *handle) {
  if (strcmp(handle->device, context->device->name) != 0)
    return DP_INVALID("Attempted create an iterator on device \"%s\" from handle defined on "
                      "device \"%s\"",
                      context->device->name, handle->device);
  dp_resource *resource;
  DP_RETURN_IF_ERROR(dp_resources_find(context->device->resources, handle->container, handle->name,
                                       kind->ops, &resource));
  dp_status *status = check_node(context->node, &((dp_iterator_base *)resource)->components);
  dp_resource_release(resource);
  return status;
}

dp_status *dp_iterator_from_text(dp_op_context *context, const dp_iterator_kind *kind) {
  const dp_tensor *text = dp_op_input(context, 0);
  if (text->shape.rank != 0)
    return DP_INVALID("string_handle must be a scalar");
  dp_resource_handle *handle;
  DP_RETURN_IF_ERROR(parse_handle(dp_io_string(text, 0), &handle));
  dp_status *status = check_handle(context, kind, handle);
  if (!status)
    return output_handle(context, handle);
  dp_resource_handle_release(handle);
  return status;
}

/* ---- The end ---- */
static struct {
  pthread_mutex_t lock;
  pthread_cond_t changed;
  int64_t count; /* iterators that are being destroyed in the background */
} endings = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static void count_endings(int64_t difference) {
  pthread_mutex_lock(&endings.lock);
  endings.count += difference;
  pthread_cond_broadcast(&endings.changed);
  pthread_mutex_unlock(&endings.lock);
}

static void end_walk(void *iterator) {
  dp_iterator_destroy(iterator);
  count_endings(-1);
}

void dp_iterator_end(dp_iterator *iterator) {
  if (!iterator)
    return;
  count_endings(1);
  dp_dataset_run(end_walk, iterator);
}

void dp_iterators_settle(void) {
  pthread_mutex_lock(&endings.lock);
  while (endings.count > 0)
    pthread_cond_wait(&endings.changed, &endings.lock);
  pthread_mutex_unlock(&endings.lock);
}
