/* Resource handles: names of variables, tables, iterators and the like, passed around in tensors.
 * A handle does not change once it is shared, but for `found` and `found_state`, which are atomics
 * for the resource manager. It is reference-counted: any thread may retain and release. The last
 * release frees the strings and, for a handle that owns its resource, the resource. */
#include "base/memory.h"
#include "tensor/tensor.h"

static char *copy_text(const char *text) {
  return dp_strdup(text ? text : "");
}

dp_resource_handle *dp_resource_handle_create(const char *device, const char *container,
                                              const char *name, uint64_t type_hash,
                                              const char *type_name) {
  dp_resource_handle *handle = DP_NEW(dp_resource_handle);
  dp_refcount_init(&handle->references);
  handle->device = copy_text(device);
  handle->container = copy_text(container);
  handle->name = copy_text(name);
  handle->type_hash = type_hash;
  handle->type_name = copy_text(type_name);
  return handle;
}

dp_resource_handle *dp_resource_handle_retain(dp_resource_handle *handle) {
  if (handle)
    dp_refcount_retain(&handle->references);
  return handle;
}

void dp_resource_handle_release(dp_resource_handle *handle) {
  if (!handle || !dp_refcount_release(&handle->references))
    return;
  if (handle->object && handle->object_release)
    handle->object_release(handle->object);
  dp_free(handle->device);
  dp_free(handle->container);
  dp_free(handle->name);
  dp_free(handle->type_name);
  dp_free(handle->dtypes);
  dp_free(handle->shapes);
  dp_free(handle);
}
