/* Resources: what outlives a step under a name - variables, queues, tables, iterators, tensor
 * arrays.
 *
 * A dp_resources holds them by container, type and name, as TensorFlow's resource manager does: the
 * same name may stand for a variable and for a queue; clearing a container (Session.reset) drops
 * all in it. A resource embeds dp_resource first and is reference-counted; the manager holds one
 * reference, whoever looked it up another. All functions may be called from any thread. */
#ifndef DP_RUNTIME_RESOURCE_H
#define DP_RUNTIME_RESOURCE_H

#include "base/refcount.h"
#include "base/status.h"
#include "base/text.h"
#include "tensor/tensor.h"

typedef struct dp_resource dp_resource;
typedef struct dp_resources dp_resources;

typedef struct dp_resource_ops {
  const char *type_name; /* as TensorFlow's handles and messages call it: "N10tensorflow3VarE" */
  void (*destroy)(dp_resource *resource);
  /* One line for status pages: shape, fill, who waits. May be NULL. */
  void (*describe)(dp_resource *resource, dp_text *text);
} dp_resource_ops;

struct dp_resource {
  dp_refcount references;
  const dp_resource_ops *ops;
};

static inline void dp_resource_init(dp_resource *resource, const dp_resource_ops *ops) {
  dp_refcount_init(&resource->references);
  resource->ops = ops;
}
static inline void *dp_resource_retain(void *resource) {
  dp_refcount_retain(&((dp_resource *)resource)->references);
  return resource;
}
/* Accepts NULL. */
static inline void dp_resource_release(void *resource) {
  dp_resource *base = (dp_resource *)resource;
  if (base && dp_refcount_release(&base->references))
    base->ops->destroy(base);
}

/* Containers whose name begins so hold what dies with one step; the worker makes the names. */
#define DP_STEP_CONTAINER_PREFIX "__per_step_"

/* `default_container` names the container used for "" (the job, as in TensorFlow). */
dp_resources *dp_resources_create(const char *default_container);
dp_resources *dp_resources_retain(dp_resources *resources);
void dp_resources_release(dp_resources *resources);
const char *dp_resources_default_container(const dp_resources *resources);

/* Adds; the manager takes over the caller's reference. ALREADY_EXISTS releases it. */
DP_MUST_USE dp_status *dp_resources_add(dp_resources *resources, const char *container,
                                        const char *name, dp_resource *resource);
/* *resource_out is retained. NOT_FOUND: "Resource <container>/<name>/<type> does not exist." */
DP_MUST_USE dp_status *dp_resources_find(dp_resources *resources, const char *container,
                                         const char *name, const dp_resource_ops *type,
                                         dp_resource **resource_out);
/* What was found by the handle before, if that still holds and has the type; retained, or NULL. */
dp_resource *dp_resources_recall(dp_resources *resources, const dp_resource_handle *handle,
                                 const dp_resource_ops *type);
/* As find, by the handle's container and name; notes the resource in the handle. */
DP_MUST_USE dp_status *dp_resources_find_by_handle(dp_resources *resources,
                                                   dp_resource_handle *handle,
                                                   const dp_resource_ops *type,
                                                   dp_resource **resource_out);
/* Finds, or makes by create(arg) and adds; create is called at most once, under no lock of the
 * container's readers but exclusively for this key. */
typedef dp_status *(*dp_resource_create_fn)(void *arg, dp_resource **resource_out);
DP_MUST_USE dp_status *dp_resources_find_or_create(dp_resources *resources, const char *container,
                                                   const char *name, const dp_resource_ops *type,
                                                   dp_resource_create_fn create, void *arg,
                                                   dp_resource **resource_out);
/* The same with the handle's names; recalls and notes. */
DP_MUST_USE dp_status *dp_resources_find_or_create_by_handle(dp_resources *resources,
                                                             dp_resource_handle *handle,
                                                             const dp_resource_ops *type,
                                                             dp_resource_create_fn create,
                                                             void *arg, dp_resource **resource_out);
DP_MUST_USE dp_status *dp_resources_remove(dp_resources *resources, const char *container,
                                           const char *name, const char *type_name);
/* One that was never used costs a shared look, and a step's costs one atomic read when no step has
 * anything in its container. */
void dp_resources_clear_container(dp_resources *resources, const char *container);
void dp_resources_clear(dp_resources *resources);
/* Calls visit for each (no lock held; each retained during the call). */
typedef void (*dp_resource_visit_fn)(void *arg, const char *container, const char *name,
                                     dp_resource *resource);
void dp_resources_visit(dp_resources *resources, dp_resource_visit_fn visit, void *arg);

/* A fresh handle (one reference) for a resource of that name on that device. */
dp_resource_handle *dp_resource_make_handle(const char *device, const char *container,
                                            const char *name, const dp_resource_ops *type);

#endif
