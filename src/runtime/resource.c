/* The resource manager: containers by name, each a map from "type\nname" to a resource.
 *
 * There are two tables. Containers of steps (DP_STEP_CONTAINER_PREFIX) come and go with every step
 * that uses one; all others last. Kept apart, the end of a step disturbs nobody who looks up a
 * variable, and a step that put nothing into its container ends with one atomic read.
 *
 * Locks: each table's lock is shared for look-ups and exclusive for adding and removing. A resource
 * that leaves a container is released outside the lock, because its end may do anything (a queue
 * wakes those who wait in it). `creation` is a second, recursive lock, so that create() is called
 * once per key while readers go on.
 *
 * A handle remembers what was found by it. The note holds until something leaves the table it was
 * made in: each removal gives the table a new state, a number that no other table of the process
 * has had. Notes are written and read with the lock shared, so the state does not change meanwhile.
 * Sessions that share a process may use one handle with a manager each: a note is BUSY while one of
 * them writes it, and is read again after it was used. */
#include "runtime/resource.h"

#include <pthread.h>
#include <stdatomic.h>
#include "base/checksum.h"
#include "base/map.h"
#include "base/memory.h"

typedef struct resource_table {
  pthread_rwlock_t lock;
  dp_map *containers; /* name -> dp_map of resources */
  uint64_t state;     /* another one whenever a resource leaves */
  atomic_size_t container_count;
} resource_table;

struct dp_resources {
  dp_refcount references;
  char *default_container;
  pthread_mutex_t creation;
  resource_table lasting;
  resource_table of_steps;
};

#define BUSY UINT64_MAX /* the state of a note that is being written; 0: there is none */

static uint64_t new_state(void) {
  static _Atomic uint64_t last;
  return atomic_fetch_add_explicit(&last, 1, memory_order_relaxed) + 1;
}

static void table_init(resource_table *table) {
  pthread_rwlock_init(&table->lock, NULL);
  table->containers = dp_map_create();
  table->state = new_state();
}

static void table_deinit(resource_table *table) {
  dp_map_destroy(table->containers);
  pthread_rwlock_destroy(&table->lock);
}

dp_resources *dp_resources_create(const char *default_container) {
  dp_resources *resources = DP_NEW(dp_resources);
  dp_refcount_init(&resources->references);
  resources->default_container = dp_strdup(default_container);
  pthread_mutexattr_t recursive;
  pthread_mutexattr_init(&recursive);
  pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE);
  pthread_mutex_init(&resources->creation, &recursive);
  pthread_mutexattr_destroy(&recursive);
  table_init(&resources->lasting);
  table_init(&resources->of_steps);
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
  table_deinit(&resources->lasting);
  table_deinit(&resources->of_steps);
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

static bool is_of_step(const char *container) {
  return strncmp(container, DP_STEP_CONTAINER_PREFIX, strlen(DP_STEP_CONTAINER_PREFIX)) == 0;
}

static resource_table *table_of(dp_resources *resources, const char *container) {
  return is_of_step(container) ? &resources->of_steps : &resources->lasting;
}

/* ---- Adding and finding ---- */

static dp_status *already_exists(const char *container, const char *name, const char *type_name) {
  return dp_status_create(DP_ALREADY_EXISTS, "Resource %s/%s/%s", container, name, type_name);
}

static dp_status *does_not_exist(dp_resources *resources, const char *container, const char *name,
                                 const char *type_name) {
  resource_table *table = table_of(resources, container);
  pthread_rwlock_rdlock(&table->lock);
  bool has_container = dp_map_get(table->containers, container) != NULL;
  pthread_rwlock_unlock(&table->lock);
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
  resource_table *table = table_of(resources, container);
  pthread_rwlock_wrlock(&table->lock);
  dp_map *entries = dp_map_get(table->containers, container);
  if (!entries) {
    entries = dp_map_create();
    dp_map_put(table->containers, container, entries);
    atomic_fetch_add(&table->container_count, 1);
  }
  bool exists = dp_map_get_n(entries, key.data, key.length) != NULL;
  if (!exists)
    dp_map_put_n(entries, key.data, key.length, resource);
  pthread_rwlock_unlock(&table->lock);
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
  resource_table *table = table_of(resources, container);
  pthread_rwlock_rdlock(&table->lock);
  dp_map *entries = dp_map_get(table->containers, container);
  dp_resource *found = entries ? dp_map_get_n(entries, key.data, key.length) : NULL;
  if (found)
    dp_resource_retain(found);
  if (found && handle)
    note_found(handle, found, table->state);
  pthread_rwlock_unlock(&table->lock);
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
  resource_table *table = table_of(resources, container_name(resources, handle->container));
  pthread_rwlock_rdlock(&table->lock);
  dp_resource *found = NULL;
  if (atomic_load_explicit(&handle->found_state, memory_order_acquire) == table->state)
    found = atomic_load_explicit(&handle->found, memory_order_acquire);
  if (found && atomic_load_explicit(&handle->found_state, memory_order_relaxed) == table->state &&
      found->ops == type)
    dp_resource_retain(found);
  else
    found = NULL;
  pthread_rwlock_unlock(&table->lock);
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
  resource_table *table = table_of(resources, container);
  pthread_rwlock_wrlock(&table->lock);
  dp_map *entries = dp_map_get(table->containers, container);
  dp_resource *removed = entries ? dp_map_remove_n(entries, key.data, key.length) : NULL;
  if (removed)
    table->state = new_state();
  pthread_rwlock_unlock(&table->lock);
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

/* A shared look first: most containers that are cleared were never used. */
static bool has_container(resource_table *table, const char *container) {
  if (atomic_load(&table->container_count) == 0)
    return false;
  pthread_rwlock_rdlock(&table->lock);
  bool has_it = dp_map_get(table->containers, container) != NULL;
  pthread_rwlock_unlock(&table->lock);
  return has_it;
}

void dp_resources_clear_container(dp_resources *resources, const char *container) {
  container = container_name(resources, container);
  resource_table *table = table_of(resources, container);
  if (!has_container(table, container))
    return;
  pthread_rwlock_wrlock(&table->lock);
  dp_map *entries = dp_map_remove(table->containers, container);
  if (entries) {
    atomic_fetch_sub(&table->container_count, 1);
    table->state = new_state();
  }
  pthread_rwlock_unlock(&table->lock);
  release_entries(entries);
}

static void table_clear(resource_table *table) {
  dp_map *fresh = dp_map_create();
  pthread_rwlock_wrlock(&table->lock);
  dp_map *old = table->containers;
  table->containers = fresh;
  table->state = new_state();
  atomic_store(&table->container_count, 0);
  pthread_rwlock_unlock(&table->lock);
  const char *key;
  void *value;
  for (size_t at = 0; dp_map_next(old, &at, &key, &value);)
    release_entries(value);
  dp_map_destroy(old);
}

void dp_resources_clear(dp_resources *resources) {
  table_clear(&resources->of_steps);
  table_clear(&resources->lasting);
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

static void list_table(resource_list *list, resource_table *table) {
  pthread_rwlock_rdlock(&table->lock);
  const char *container;
  void *entries;
  for (size_t at = 0; dp_map_next(table->containers, &at, &container, &entries);)
    list_container(list, container, entries);
  pthread_rwlock_unlock(&table->lock);
}

void dp_resources_visit(dp_resources *resources, dp_resource_visit_fn visit, void *arg) {
  resource_list list = {0};
  list_table(&list, &resources->lasting);
  list_table(&list, &resources->of_steps);
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
