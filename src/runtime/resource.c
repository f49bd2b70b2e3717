/* The resource manager: a map of containers, each a map from "type\nname" to a resource.
 *
 * Look-ups take a shared lock; only adding and removing take it alone. A resource that leaves a
 * container is released outside the lock, because its end may do anything (a queue wakes those who
 * wait in it). Creation goes through a second, recursive lock, so that create() is called once a
 * key while readers go on.
 *
 * A handle remembers what was found by it. The note holds as long as nothing has left the manager
 * it was made in: each removal gives the manager a new state, a number that no other manager of the
 * process has had. Notes are written and read with the lock shared, so the state does not change
 * meanwhile. Sessions that share a process may use one handle with a manager each: a note is
 * BUSY while one of them writes it, and read again after it was used. */
#include "runtime/resource.h"

#include <pthread.h>
#include <stdatomic.h>
#include "base/checksum.h"
#include "base/map.h"
#include "base/memory.h"

struct dp_resources {
  dp_refcount references;
  char *default_container;
  pthread_rwlock_t lock;
  pthread_mutex_t creation;
  dp_map *containers; /* name -> dp_map of resources */
  uint64_t state;     /* another one whenever a resource leaves */
};

#define BUSY UINT64_MAX /* the state of a note that is being written; 0: there is none */

static uint64_t new_state(void) {
  static _Atomic uint64_t last;
  return atomic_fetch_add_explicit(&last, 1, memory_order_relaxed) + 1;
}

dp_resources *dp_resources_create(const char *default_container) {
  dp_resources *resources = DP_NEW(dp_resources);
  dp_refcount_init(&resources->references);
  resources->default_container = dp_strdup(default_container);
  pthread_rwlock_init(&resources->lock, NULL);
  pthread_mutexattr_t recursive;
  pthread_mutexattr_init(&recursive);
  pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE);
  pthread_mutex_init(&resources->creation, &recursive);
  pthread_mutexattr_destroy(&recursive);
  resources->containers = dp_map_create();
  resources->state = new_state();
  return resources;
}

dp_resources *dp_resources_retain(dp_resources *resources) {
  dp_refcount_retain(&resources->references);
  return resources;
}

void dp_resources_release(dp_resources *resources) {
  if (!resources || !dp_refcount_release(&resources->references))
    return;
  dp_resources_clear(resources);
  dp_map_destroy(resources->containers);
  pthread_rwlock_destroy(&resources->lock);
  pthread_mutex_destroy(&resources->creation);
  dp_free(resources->default_container);
  dp_free(resources);
}

const char *dp_resources_default_container(const dp_resources *resources) {
  return resources->default_container;
}

/* ---- Keys ---- */

typedef struct resource_key {
  char *data;
  size_t length;
  char inline_data[224];
} resource_key;

static void key_init(resource_key *key, const char *type_name, const char *name) {
  size_t type_length = strlen(type_name), name_length = strlen(name);
  key->length = type_length + 1 + name_length;
  key->data = key->length <= sizeof(key->inline_data) ? key->inline_data : dp_malloc(key->length);
  memcpy(key->data, type_name, type_length);
  key->data[type_length] = '\n';
  memcpy(key->data + type_length + 1, name, name_length);
}

static void key_deinit(resource_key *key) {
  if (key->data != key->inline_data)
    dp_free(key->data);
}

static const char *container_name(const dp_resources *resources, const char *container) {
  return container && *container ? container : resources->default_container;
}

/* ---- Adding and finding ---- */

static dp_status *already_exists(const char *container, const char *name, const char *type_name) {
  return dp_status_create(DP_ALREADY_EXISTS, "Resource %s/%s/%s", container, name, type_name);
}

static dp_status *does_not_exist(dp_resources *resources, const char *container, const char *name,
                                 const char *type_name) {
  pthread_rwlock_rdlock(&resources->lock);
  bool has_container = dp_map_get(resources->containers, container) != NULL;
  pthread_rwlock_unlock(&resources->lock);
  if (!has_container)
    return dp_status_create(DP_NOT_FOUND,
                            "Container %s does not exist. (Could not find resource: %s/%s)",
                            container, container, name);
  return dp_status_create(DP_NOT_FOUND, "Resource %s/%s/%s does not exist.", container, name,
                          type_name);
}

dp_status *dp_resources_add(dp_resources *resources, const char *container, const char *name,
                            dp_resource *resource) {
  container = container_name(resources, container);
  resource_key key;
  key_init(&key, resource->ops->type_name, name);
  pthread_rwlock_wrlock(&resources->lock);
  dp_map *entries = dp_map_get(resources->containers, container);
  if (!entries) {
    entries = dp_map_create();
    dp_map_put(resources->containers, container, entries);
  }
  bool exists = dp_map_get_n(entries, key.data, key.length) != NULL;
  if (!exists)
    dp_map_put_n(entries, key.data, key.length, resource);
  pthread_rwlock_unlock(&resources->lock);
  key_deinit(&key);
  if (!exists)
    return NULL;
  dp_status *status = already_exists(container, name, resource->ops->type_name);
  dp_resource_release(resource);
  return status;
}

static void note_found(dp_resource_handle *handle, dp_resource *found, uint64_t state) {
  uint64_t before = atomic_load_explicit(&handle->found_state, memory_order_relaxed);
  if (before == BUSY ||
      !atomic_compare_exchange_strong_explicit(&handle->found_state, &before, BUSY,
                                               memory_order_acquire, memory_order_relaxed))
    return; /* somebody else's note is as good */
  atomic_store_explicit(&handle->found, found, memory_order_release);
  atomic_store_explicit(&handle->found_state, state, memory_order_release);
}

/* Retained, or NULL. `handle` (may be NULL) is the one that the names are from. */
static dp_resource *find_retained(dp_resources *resources, const char *container, const char *name,
                                  const char *type_name, dp_resource_handle *handle) {
  resource_key key;
  key_init(&key, type_name, name);
  pthread_rwlock_rdlock(&resources->lock);
  dp_map *entries = dp_map_get(resources->containers, container);
  dp_resource *found = entries ? dp_map_get_n(entries, key.data, key.length) : NULL;
  if (found)
    dp_resource_retain(found);
  if (found && handle)
    note_found(handle, found, resources->state);
  pthread_rwlock_unlock(&resources->lock);
  key_deinit(&key);
  return found;
}

static dp_status *find(dp_resources *resources, const char *container, const char *name,
                       dp_resource_handle *handle, const dp_resource_ops *type,
                       dp_resource **resource_out) {
  container = container_name(resources, container);
  dp_resource *found = find_retained(resources, container, name, type->type_name, handle);
  if (!found)
    return does_not_exist(resources, container, name, type->type_name);
  *resource_out = found;
  return NULL;
}

dp_status *dp_resources_find(dp_resources *resources, const char *container, const char *name,
                             const dp_resource_ops *type, dp_resource **resource_out) {
  return find(resources, container, name, NULL, type, resource_out);
}

dp_resource *dp_resources_recall(dp_resources *resources, const dp_resource_handle *handle,
                                 const dp_resource_ops *type) {
  pthread_rwlock_rdlock(&resources->lock);
  dp_resource *found = NULL;
  if (atomic_load_explicit(&handle->found_state, memory_order_acquire) == resources->state)
    found = atomic_load_explicit(&handle->found, memory_order_acquire);
  if (found &&
      atomic_load_explicit(&handle->found_state, memory_order_relaxed) == resources->state &&
      found->ops == type)
    dp_resource_retain(found);
  else
    found = NULL;
  pthread_rwlock_unlock(&resources->lock);
  return found;
}

dp_status *dp_resources_find_by_handle(dp_resources *resources, dp_resource_handle *handle,
                                       const dp_resource_ops *type, dp_resource **resource_out) {
  return find(resources, handle->container, handle->name, handle, type, resource_out);
}

static dp_status *create_and_add(dp_resources *resources, const char *container, const char *name,
                                 dp_resource_create_fn create, void *arg,
                                 dp_resource **resource_out) {
  dp_resource *created = NULL;
  DP_RETURN_IF_ERROR(create(arg, &created));
  dp_resource_retain(created); /* one for the manager, one for the caller */
  dp_status *status = dp_resources_add(resources, container, name, created);
  if (status) {
    dp_resource_release(created);
    return status;
  }
  *resource_out = created;
  return NULL;
}

static dp_status *find_or_create(dp_resources *resources, const char *container, const char *name,
                                 dp_resource_handle *handle, const dp_resource_ops *type,
                                 dp_resource_create_fn create, void *arg,
                                 dp_resource **resource_out) {
  container = container_name(resources, container);
  dp_resource *found = find_retained(resources, container, name, type->type_name, handle);
  dp_status *status = NULL;
  if (!found) {
    pthread_mutex_lock(&resources->creation);
    found = find_retained(resources, container, name, type->type_name, handle);
    if (!found)
      status = create_and_add(resources, container, name, create, arg, &found);
    pthread_mutex_unlock(&resources->creation);
  }
  if (!status)
    *resource_out = found;
  return status;
}

dp_status *dp_resources_find_or_create(dp_resources *resources, const char *container,
                                       const char *name, const dp_resource_ops *type,
                                       dp_resource_create_fn create, void *arg,
                                       dp_resource **resource_out) {
  return find_or_create(resources, container, name, NULL, type, create, arg, resource_out);
}

dp_status *dp_resources_find_or_create_by_handle(dp_resources *resources,
                                                 dp_resource_handle *handle,
                                                 const dp_resource_ops *type,
                                                 dp_resource_create_fn create, void *arg,
                                                 dp_resource **resource_out) {
  *resource_out = dp_resources_recall(resources, handle, type);
  if (*resource_out)
    return NULL;
  return find_or_create(resources, handle->container, handle->name, handle, type, create, arg,
                        resource_out);
}

/* ---- Removing ---- */

dp_status *dp_resources_remove(dp_resources *resources, const char *container, const char *name,
                               const char *type_name) {
  container = container_name(resources, container);
  resource_key key;
  key_init(&key, type_name, name);
  pthread_rwlock_wrlock(&resources->lock);
  dp_map *entries = dp_map_get(resources->containers, container);
  dp_resource *removed = entries ? dp_map_remove_n(entries, key.data, key.length) : NULL;
  resources->state = new_state();
  pthread_rwlock_unlock(&resources->lock);
  key_deinit(&key);
  if (!removed)
    return does_not_exist(resources, container, name, type_name);
  dp_resource_release(removed);
  return NULL;
}

static void release_entries(dp_map *entries) {
  if (!entries)
    return;
  const char *key;
  void *value;
  for (size_t at = 0; dp_map_next(entries, &at, &key, &value);)
    dp_resource_release(value);
  dp_map_destroy(entries);
}

void dp_resources_clear_container(dp_resources *resources, const char *container) {
  container = container_name(resources, container);
  pthread_rwlock_wrlock(&resources->lock);
  dp_map *entries = dp_map_remove(resources->containers, container);
  resources->state = new_state();
  pthread_rwlock_unlock(&resources->lock);
  release_entries(entries);
}

void dp_resources_clear(dp_resources *resources) {
  dp_map *fresh = dp_map_create();
  pthread_rwlock_wrlock(&resources->lock);
  dp_map *old = resources->containers;
  resources->containers = fresh;
  resources->state = new_state();
  pthread_rwlock_unlock(&resources->lock);
  const char *key;
  void *value;
  for (size_t at = 0; dp_map_next(old, &at, &key, &value);)
    release_entries(value);
  dp_map_destroy(old);
}

/* ---- Listing ---- */

typedef struct listed_resource {
  char *container;
  char *name;
  dp_resource *resource;
} listed_resource;

typedef DP_ARRAY(listed_resource) resource_list;

static void list_container(resource_list *list, const char *container, const dp_map *entries) {
  const char *key;
  void *value;
  for (size_t at = 0; dp_map_next(entries, &at, &key, &value);) {
    dp_resource *resource = value;
    listed_resource item = {dp_strdup(container),
                            dp_strdup(key + strlen(resource->ops->type_name) + 1),
                            dp_resource_retain(resource)};
    DP_ARRAY_PUSH(list, item);
  }
}

void dp_resources_visit(dp_resources *resources, dp_resource_visit_fn visit, void *arg) {
  resource_list list = {0};
  pthread_rwlock_rdlock(&resources->lock);
  const char *container;
  void *entries;
  for (size_t at = 0; dp_map_next(resources->containers, &at, &container, &entries);)
    list_container(&list, container, entries);
  pthread_rwlock_unlock(&resources->lock);
  for (size_t i = 0; i < list.count; i++) {
    listed_resource *item = &list.items[i];
    visit(arg, item->container, item->name, item->resource);
    dp_resource_release(item->resource);
    dp_free(item->container);
    dp_free(item->name);
  }
  DP_ARRAY_FREE(&list);
}

dp_resource_handle *dp_resource_make_handle(const char *device, const char *container,
                                            const char *name, const dp_resource_ops *type) {
  uint64_t type_hash = dp_fingerprint64(type->type_name, strlen(type->type_name));
  return dp_resource_handle_create(device, container, name, type_hash, type->type_name);
}
