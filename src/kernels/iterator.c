/* Iterator resources; see iterator_internal.h. */
#include "kernels/iterator_internal.h"

#include <string.h>

static void end_walk(void *iterator) {
  dp_iterator_destroy(iterator);
}

/* The end of a walk waits for its calls: not on a thread that they may need. */
static void resource_destroy(dp_resource *base) {
  dp_iterator_resource *resource = (dp_iterator_resource *)base;
  bool is_pool = dp_pool_is_current(resource->device->compute) ||
                 dp_pool_is_current(resource->device->blocking);
  if (is_pool && resource->iterator)
    dp_dataset_run(end_walk, resource->iterator);
  else
    dp_iterator_destroy(resource->iterator);
  pthread_mutex_destroy(&resource->lock);
  dp_free(resource->dtypes);
  dp_free(resource->shapes);
  DP_ARRAY_FREE(&resource->seeds.numbers);
  dp_free(resource);
}

static void resource_describe(dp_resource *base, dp_text *text) {
  dp_iterator_resource *resource = (dp_iterator_resource *)base;
  dp_text_printf(text, "an iterator of %d components", resource->component_count);
}

const dp_resource_ops dp_iterator_resource_ops = {"N10tensorflow4data16IteratorResourceE",
                                                  resource_destroy, resource_describe};

dp_status *dp_iterator_resource_create(const dp_node *node, dp_device *device,
                                       dp_iterator_resource **resource_out) {
  const dp_attr *types, *shapes;
  DP_RETURN_IF_ERROR(dp_node_get_list(node, "output_types", DP_ATTR_LIST_TYPE, &types));
  DP_RETURN_IF_ERROR(dp_node_get_list(node, "output_shapes", DP_ATTR_LIST_SHAPE, &shapes));
  if (types->count != shapes->count)
    return DP_INVALID("`output_types` and `output_shapes` must be the same length. Got %d vs. %d",
                      types->count, shapes->count);
  dp_iterator_resource *resource = DP_NEW(dp_iterator_resource);
  dp_resource_init(&resource->resource, &dp_iterator_resource_ops);
  pthread_mutex_init(&resource->lock, NULL);
  resource->device = device;
  resource->component_count = types->count;
  resource->dtypes = DP_NEW_ARRAY(dp_dtype, (size_t)types->count + 1);
  resource->shapes = DP_NEW_ARRAY(dp_partial_shape, (size_t)types->count + 1);
  for (int32_t i = 0; i < types->count; ++i) {
    resource->dtypes[i] = (dp_dtype)types->types[i];
    resource->shapes[i] = shapes->shapes[i];
  }
  *resource_out = resource;
  return NULL;
}

dp_status *dp_components_check(int32_t expected_count, const dp_dtype *expected_dtypes,
                               const dp_partial_shape *expected_shapes, int32_t count,
                               const dp_dtype *dtypes, const dp_partial_shape *shapes) {
  if (expected_count != count)
    return DP_INVALID("Number of components does not match: expected %d types but got %d.",
                      expected_count, count);
  for (int32_t i = 0; i < count; ++i)
    if (expected_dtypes[i] != dtypes[i])
      return DP_INVALID("Data type mismatch at component %d: expected %s but got %s.", i,
                        dp_dtype_name(expected_dtypes[i]), dp_dtype_name(dtypes[i]));
  for (int32_t i = 0; i < count; ++i) {
    dp_partial_shape merged;
    if (!dp_partial_shape_merge(&expected_shapes[i], &shapes[i], &merged))
      return DP_INVALID("Incompatible shapes at component %d: expected %s but got %s.", i,
                        dp_partial_shape_text(&expected_shapes[i]),
                        dp_partial_shape_text(&shapes[i]));
  }
  return NULL;
}

/* Consumes the walk and the seeds. */
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
  DP_RETURN_IF_ERROR(dp_components_check(resource->component_count, resource->dtypes,
                                         resource->shapes, dataset->component_count,
                                         dataset->dtypes, dataset->shapes));
  dp_seed_list seeds = {0};
  dp_dataset_save_seeds(dataset, &seeds);
  replace_walk(resource, dp_dataset_iterate(dataset), 0, &seeds);
  return NULL;
}

/* Elements that failed count: asked again, a walk goes on behind them. One that nobody waited for
 * does not. */
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
                            "Restore() failed because the iterator has not been initialized. "
                            "Ensure that you have run the initializer operation for this iterator "
                            "before restoring it.");
  dp_dataset_load_seeds(dataset, seeds);
  dp_iterator *fresh = dp_dataset_iterate(dataset);
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

/* ---- Work that waits ---- */
typedef struct waiting_work {
  dp_op_context *context;
  void *state;
  dp_waiting_fn work;
} waiting_work;

static void run_work(void *arg) {
  waiting_work *work = arg;
  dp_op_context *context = work->context;
  dp_status *status = work->work(context, work->state);
  dp_free(work);
  dp_op_done(context, status);
}

void dp_dataset_compute(dp_op_context *context, void *state, dp_waiting_fn work) {
  waiting_work *waiting = DP_NEW(waiting_work);
  *waiting = (waiting_work){context, state, work};
  dp_dataset_run(run_work, waiting);
}
