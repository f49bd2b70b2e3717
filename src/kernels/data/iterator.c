/* Iterator resources: one walk under a lock (iterator_internal.h). Taking an element blocks with
 * the lock held, so all callers are on threads of dp_dataset_run. */
#include "kernels/data/iterator_internal.h"

#include <string.h>

static void resource_destroy(dp_resource *base) {
  dp_iterator_resource *resource = (dp_iterator_resource *)base;
  dp_iterator_end(resource->iterator);
  pthread_mutex_destroy(&resource->lock);
  dp_components_deinit(&resource->base.components);
  DP_ARRAY_FREE(&resource->seeds.numbers);
  dp_free(resource);
}

static void resource_describe(dp_resource *base, dp_text *text) {
  dp_iterator_resource *resource = (dp_iterator_resource *)base;
  dp_text_printf(text, "an iterator of %d components", resource->base.components.count);
}

const dp_resource_ops dp_iterator_resource_ops = {"N10tensorflow4data16IteratorResourceE",
                                                  resource_destroy, resource_describe};

static dp_status *resource_create(const dp_node *node, dp_iterator_base **resource_out) {
  dp_components components;
  DP_RETURN_IF_ERROR(dp_components_read(node, &components));
  dp_iterator_resource *resource = DP_NEW(dp_iterator_resource);
  dp_resource_init(&resource->base.resource, &dp_iterator_resource_ops);
  resource->base.components = components;
  pthread_mutex_init(&resource->lock, NULL);
  *resource_out = &resource->base;
  return NULL;
}

const dp_iterator_kind dp_iterator_one_walk = {&dp_iterator_resource_ops, "AnonymousIterator",
                                               resource_create};

/* Consumes `fresh` and the seeds. */
static void replace_walk(dp_iterator_resource *resource, dp_iterator *fresh, int64_t position,
                         dp_seed_list *seeds) {
  pthread_mutex_lock(&resource->lock);
  dp_iterator *old = resource->iterator;
  dp_seed_list old_seeds = resource->seeds;
  resource->iterator = fresh;
  resource->position = position;
  resource->seeds = *seeds;
  pthread_mutex_unlock(&resource->lock);
  *seeds = (dp_seed_list){0};
  DP_ARRAY_FREE(&old_seeds.numbers);
  dp_iterator_destroy(old);
}

dp_status *dp_iterator_resource_start(dp_iterator_resource *resource, dp_dataset *dataset) {
  DP_RETURN_IF_ERROR(dp_components_check(&resource->base.components, dataset));
  dp_seed_list seeds = {0};
  dp_dataset_save_seeds(dataset, &seeds);
  replace_walk(resource, dp_dataset_iterate(dataset, DP_WALKER), 0, &seeds);
  return NULL;
}

/* Whether the call moved the walk. An element that failed counts, because the next call goes on
 * after it. A cancelled call does not. */
static bool is_taken(const dp_status *status, bool more) {
  int code = dp_status_code(status);
  return status ? code != DP_CANCELLED && code != DP_DEADLINE_EXCEEDED : more;
}

static dp_status *skip(dp_iterator *iterator, const dp_walk *walk, int64_t count) {
  int32_t components = iterator->dataset->component_count;
  dp_tensor *element = dp_element_create(components);
  dp_status *status = NULL;
  for (bool more = true; count > 0 && more && !status; --count) {
    status = dp_iterator_next(iterator, walk, element, &more);
    if (status && is_taken(status, more)) {
      dp_status_release(status);
      status = NULL;
      more = true;
    }
    dp_element_clear(element, components);
  }
  dp_element_destroy(element, components);
  return status;
}

dp_status *dp_iterator_resource_resume(dp_iterator_resource *resource, const dp_walk *walk,
                                       int64_t position, dp_seed_list *seeds) {
  pthread_mutex_lock(&resource->lock);
  dp_dataset *dataset = resource->iterator ? dp_dataset_retain(resource->iterator->dataset) : NULL;
  pthread_mutex_unlock(&resource->lock);
  if (!dataset)
    return dp_status_create(DP_FAILED_PRECONDITION,
                            "Failed to restore dataset iterator from checkpoint: Restore() failed "
                            "because the iterator has not been initialized. Ensure that you have "
                            "run the initializer operation for this iterator before restoring it.. "
                            "Make sure the dataset definition has not changed between the process "
                            "that saved the checkpoint and the process that is restoring it.");
  dp_dataset_load_seeds(dataset, seeds);
  dp_iterator *fresh = dp_dataset_iterate(dataset, DP_WALKER);
  dp_dataset_release(dataset);
  dp_status *status = skip(fresh, walk, position);
  if (status)
    dp_iterator_destroy(fresh);
  else
    replace_walk(resource, fresh, position, seeds);
  return status;
}

dp_status *dp_iterator_resource_next(dp_iterator_resource *resource, const dp_walk *walk,
                                     dp_tensor *element, bool *more_out) {
  dp_status *status;
  *more_out = false;
  pthread_mutex_lock(&resource->lock);
  if (resource->iterator) {
    status = dp_iterator_next(resource->iterator, walk, element, more_out);
    resource->position += is_taken(status, *more_out);
  } else
    status = dp_status_create(DP_FAILED_PRECONDITION,
                              "GetNext() failed because the iterator has not been initialized. "
                              "Ensure that you have run the initializer operation for this "
                              "iterator before getting the next element.");
  pthread_mutex_unlock(&resource->lock);
  return status;
}
