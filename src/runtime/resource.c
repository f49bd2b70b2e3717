/* The resource manager: a map of containers, each a map from "type\nname" to a resource.
 *
 * Look-ups take a shared lock; only adding and removing take it alone. A resource that leaves a
 * container is released outside the lock, because its end may do anything (a queue wakes those who
 * wait in it). Creation goes through a second, recursive lock, so that create() is called once a
 * key while readers go on. */
#include "runtime/resource.h"

#include <pthread.h>
#include "base/checksum.h"
#include "base/map.h"
#include "base/memory.h"

struct dp_resources {
  dp_refcount references;
  char *default_container;
  pthread_rwlock_t lock;
  pthread_mutex_t creation;
  dp_map *containers; /* name -> dp_map of resources */
};

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

static dp_status *does_not_exist(const char *container, const char *name, const char *type_name) {
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

/* Retained, or NULL. */
static dp_resource *find_retained(dp_resources *resources, const char *container, const char *name,
                                  const char *type_name) {
  resource_key key;
  key_init(&key, type_name, name);
  pthread_rwlock_rdlock(&resources->lock);
  dp_map *entries = dp_map_get(resources->containers, container);
  dp_resource *found = entries ? dp_map_get_n(entries, key.data, key.length) : NULL;
  if (found)
    dp_resource_retain(found);
  pthread_rwlock_unlock(&resources->lock);
  key_deinit(&key);
  return found;
}

dp_status *dp_resources_find(dp_resources *resources, const char *container, const char *name,
                             const dp_resource_ops *type, dp_resource **resource_out) {
  container = container_name(resources, container);
  dp_resource *found = find_retained(resources, container, name, type->type_name);
  if (!found)
    return does_not_exist(container, name, type->type_name);
  *resource_out = found;
  return NULL;
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

dp_status *dp_resources_find_or_create(dp_resources *resources, const char *container,
                                       const char *name, const dp_resource_ops *type,
                                       dp_resource_create_fn create, void *arg,
                                       dp_resource **resource_out) {
  container = container_name(resources, container);
  dp_resource *found = find_retained(resources, container, name, type->type_name);
  dp_status *status = NULL;
  if (!found) {
    pthread_mutex_lock(&resources->creation);
    found = find_retained(resources, container, name, type->type_name);
    if (!found)
      status = create_and_add(resources, container, name, create, arg, &found);
    pthread_mutex_unlock(&resources->creation);
  }
  if (!status)
    *resource_out = found;
  return status;
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
  pthread_rwlock_unlock(&resources->lock);
  key_deinit(&key);
  if (!removed)
    return does_not_exist(container, name, type_name);
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
  pthread_rwlock_unlock(&resources->lock);
  release_entries(entries);
}

void dp_resources_clear(dp_resources *resources) {
  dp_map *fresh = dp_map_create();
  pthread_rwlock_wrlock(&resources->lock);
  dp_map *old = resources->containers;
  resources->containers = fresh;
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
