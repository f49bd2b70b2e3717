/* Ops on iterators: making them, starting and restarting a walk, taking elements, handles as text;
 * and the ops that walk through a whole dataset themselves. Whatever may wait runs on a thread of
 * the datasets (dp_dataset_compute). */
#include <string.h>
#include "kernels/data/iterator_internal.h"
#include "kernels/data/optional_internal.h"
#include "kernels/shared/family.h"
#include "kernels/shared/function.h"
#include "kernels/shared/io.h"
#include "storage/record.h"

/* ---- Handles ---- */
typedef struct iterator_state {
  dp_iterator_handle handle;
  const dp_func *factory; /* OneShotIterator only */
} iterator_state;

static dp_status *iterator_create(const dp_kernel_setup *setup, void *state) {
  iterator_state *iterator = state;
  DP_RETURN_IF_ERROR(dp_iterator_handle_init(&iterator->handle, setup, &dp_iterator_one_walk));
  if (dp_node_attr(setup->node, "dataset_factory"))
    return dp_node_get_func(setup->node, "dataset_factory", &iterator->factory);
  return NULL;
}

static dp_status *anonymous_compute(dp_op_context *context, void *state) {
  return dp_iterator_anonymous(context, &dp_iterator_one_walk);
}

static dp_status *to_string_compute(dp_op_context *context, void *state) {
  return dp_iterator_to_text(context, &dp_iterator_one_walk);
}

static dp_status *from_string_compute(dp_op_context *context, void *state) {
  return dp_iterator_from_text(context, &dp_iterator_one_walk);
}

static dp_status *delete_compute(dp_op_context *context, void *state) {
  return NULL; /* the object is destroyed with its last handle */
}

static dp_status *find_iterator(dp_op_context *context, int32_t slot,
                                dp_iterator_resource **resource_out) {
  return dp_op_resource(context, slot, &dp_iterator_resource_ops, (dp_resource **)resource_out);
}

/* ---- Starting ---- */
static dp_status *make_iterator(dp_op_context *context, void *state) {
  dp_dataset *dataset;
  dp_iterator_resource *resource;
  DP_RETURN_IF_ERROR(dp_dataset_input(context, 0, &dataset));
  DP_RETURN_IF_ERROR(find_iterator(context, 1, &resource));
  dp_status *status = dp_iterator_resource_start(resource, dataset);
  dp_resource_release(resource);
  return status;
}

static void make_iterator_compute(dp_op_context *context, void *state) {
  dp_dataset_compute(context, state, make_iterator); /* blocks: it destroys the old walk */
}

/* Calls the factory and makes the dataset that it returns the walk; only once per resource. */
static dp_status *start_one_shot(dp_op_context *context, iterator_state *state,
                                 dp_iterator_resource *resource) {
  dp_captured factory = {.device = context->device, .functions = context->step->functions};
  dp_walk walk = {context->step->cancel};
  DP_RETURN_IF_ERROR(dp_function_of_step(context, state->factory, &factory.instance));
  dp_tensor *results;
  int32_t count;
  DP_RETURN_IF_ERROR(dp_captured_call_wait(&factory, &walk, NULL, 0, &results, &count));
  dp_dataset *dataset;
  dp_status *status = NULL;
  if (count != 1 || results[0].dtype != DP_VARIANT || results[0].shape.rank != 0)
    status = DP_INVALID("The `dataset_factory` function must return a single scalar of dtype "
                        "DT_VARIANT.");
  if (!status)
    status = dp_dataset_of_tensor(&results[0], &dataset);
  if (!status)
    status = dp_iterator_resource_start(resource, dataset);
  dp_element_destroy(results, count);
  return status;
}

static dp_status *one_shot(dp_op_context *context, void *state) {
  static pthread_mutex_t starting = PTHREAD_MUTEX_INITIALIZER;
  iterator_state *iterator = state;
  dp_iterator_base *base;
  DP_RETURN_IF_ERROR(dp_iterator_handle_find(context, &iterator->handle, &base));
  dp_iterator_resource *resource = (dp_iterator_resource *)base;
  pthread_mutex_lock(&starting); /* two steps may come at the same time */
  pthread_mutex_lock(&resource->lock);
  bool has_started = resource->iterator != NULL;
  pthread_mutex_unlock(&resource->lock);
  dp_status *status = has_started ? NULL : start_one_shot(context, iterator, resource);
  pthread_mutex_unlock(&starting);
  if (!status)
    status = dp_iterator_handle_output(context, &iterator->handle);
  dp_resource_release(resource);
  return status;
}

static void one_shot_compute(dp_op_context *context, void *state) {
  dp_dataset_compute(context, state, one_shot);
}

/* ---- Taking elements ---- */
static dp_status *next_element(dp_op_context *context, dp_tensor **element_out, int32_t *count_out,
                               bool *more_out) {
  dp_iterator_resource *resource;
  DP_RETURN_IF_ERROR(find_iterator(context, 0, &resource));
  dp_walk walk = {context->step->cancel};
  int32_t count = resource->base.components.count;
  dp_tensor *element = dp_element_create(count);
  dp_status *status = dp_iterator_resource_next(resource, &walk, element, more_out);
  dp_resource_release(resource);
  if (status) {
    dp_free(element);
    return status;
  }
  *element_out = element;
  *count_out = count;
  return NULL;
}

static dp_status *get_next(dp_op_context *context, void *state) {
  dp_tensor *element;
  int32_t count;
  bool more;
  DP_RETURN_IF_ERROR(next_element(context, &element, &count, &more));
  dp_status *status = more ? dp_iterator_output_element(context, element, count)
                           : dp_status_create(DP_OUT_OF_RANGE, "End of sequence");
  dp_element_destroy(element, count);
  return status;
}

static void get_next_compute(dp_op_context *context, void *state) {
  dp_dataset_compute(context, state, get_next);
}

static dp_status *get_optional(dp_op_context *context, void *state) {
  dp_tensor *element, optional;
  int32_t count;
  bool more;
  DP_RETURN_IF_ERROR(next_element(context, &element, &count, &more));
  dp_status *status = dp_optional_create(more ? element : NULL, count, &optional);
  dp_element_destroy(element, count);
  if (!status)
    dp_op_set_output(context, 0, &optional);
  return status;
}

static void get_optional_compute(dp_op_context *context, void *state) {
  dp_dataset_compute(context, state, get_optional);
}

static dp_status *device_compute(dp_op_context *context, void *state) {
  return dp_io_output_string(context, 0, context->device->name, strlen(context->device->name));
}

/* ---- Whole walks ---- */
static dp_status *cardinality_compute(dp_op_context *context, void *state) {
  dp_dataset *dataset;
  DP_RETURN_IF_ERROR(dp_dataset_input(context, 0, &dataset));
  return dp_op_output_int64(context, 0, dp_dataset_cardinality(dataset));
}

static dp_status *single_element(dp_op_context *context, void *state) {
  dp_dataset *dataset;
  DP_RETURN_IF_ERROR(dp_dataset_input(context, 0, &dataset));
  dp_iterator *iterator = dp_dataset_iterate(dataset, "SingleElementIterator");
  int32_t count = dataset->component_count;
  dp_tensor *element = dp_element_create(count), *second = dp_element_create(count);
  dp_walk walk = {context->step->cancel};
  bool more;
  dp_status *status = dp_iterator_next(iterator, &walk, element, &more);
  if (!status && !more)
    status = DP_INVALID("Dataset was empty.");
  if (!status) {
    status = dp_iterator_next(iterator, &walk, second, &more);
    if (!status && more)
      status = DP_INVALID("Dataset had more than one element.");
  }
  if (!status)
    status = dp_iterator_output_element(context, element, count);
  dp_element_destroy(element, count);
  dp_element_destroy(second, count);
  dp_iterator_destroy(iterator);
  return status;
}

static void single_element_compute(dp_op_context *context, void *state) {
  dp_dataset_compute(context, state, single_element);
}

/* Calls the function with state and element until the end; the results are the next state. */
static dp_status *reduce_walk(dp_op_context *context, dp_dataset *dataset,
                              const dp_captured *function, dp_tensor **states, int32_t count) {
  dp_iterator *iterator = dp_dataset_iterate(dataset, "ReduceIterator::Root");
  int32_t components = dataset->component_count;
  dp_tensor *arguments = dp_element_create(count + components);
  dp_walk walk = {context->step->cancel};
  dp_status *status = NULL;
  while (!status) {
    bool more;
    status = dp_iterator_next(iterator, &walk, arguments + count, &more);
    if (status || !more)
      break;
    memcpy(arguments, *states, (size_t)count * sizeof(dp_tensor));
    dp_tensor *results;
    int32_t result_count;
    status = dp_captured_call_wait(function, &walk, arguments, count + components, &results,
                                   &result_count);
    dp_element_clear(arguments + count, components);
    if (status)
      break;
    if (result_count != count)
      status = DP_INVALID("the function of a reduction gave %d results for %d states", result_count,
                          count);
    dp_element_destroy(status ? results : *states, status ? result_count : count);
    if (!status)
      *states = results;
  }
  dp_free(arguments);
  dp_iterator_destroy(iterator);
  return status;
}

static dp_status *reduce(dp_op_context *context, void *state) {
  dp_dataset *dataset;
  int32_t begin, end;
  dp_captured function;
  DP_RETURN_IF_ERROR(dp_dataset_input(context, 0, &dataset));
  DP_RETURN_IF_ERROR(dp_node_input_range(context->node, "initial_state", &begin, &end));
  DP_RETURN_IF_ERROR(dp_captured_init(&function, context, "f", "other_arguments"));
  dp_tensor *states = dp_element_create(end - begin);
  for (int32_t i = begin; i < end; ++i)
    states[i - begin] = dp_tensor_copy(dp_op_input(context, i));
  dp_status *status = reduce_walk(context, dataset, &function, &states, end - begin);
  if (!status)
    status = dp_iterator_output_element(context, states, end - begin);
  dp_element_destroy(states, end - begin);
  dp_captured_deinit(&function);
  return status;
}

static void reduce_compute(dp_op_context *context, void *state) {
  dp_dataset_compute(context, state, reduce);
}

/* All elements, each one string, as records of a file. */
static dp_status *write_elements(dp_op_context *context, dp_dataset *dataset,
                                 dp_record_writer *writer) {
  dp_iterator *iterator = dp_dataset_iterate(dataset, "ToTFRecordOpIterator::Root");
  dp_walk walk = {context->step->cancel};
  dp_tensor *element = dp_element_create(dataset->component_count);
  dp_status *status = NULL;
  for (bool more = true; more && !status;) {
    status = dp_iterator_next(iterator, &walk, element, &more);
    if (status || !more)
      break;
    for (int64_t i = 0; i < dp_tensor_elements(&element[0]) && !status; ++i) {
      dp_view record = dp_io_string(&element[0], i);
      status = dp_record_writer_add(writer, record.data, record.length);
    }
    dp_element_clear(element, dataset->component_count);
  }
  dp_element_destroy(element, dataset->component_count);
  dp_iterator_destroy(iterator);
  return status;
}

static dp_status *to_records(dp_op_context *context, void *state) {
  dp_dataset *dataset;
  DP_RETURN_IF_ERROR(dp_dataset_input(context, 0, &dataset));
  if (dataset->component_count > 0 && dataset->dtypes[0] != DP_STRING)
    return DP_INVALID("ToTFRecordOp currently only supports DT_STRING dataypes, but got %s",
                      dp_dtype_name(dataset->dtypes[0]));
  if (dataset->component_count != 1)
    return DP_INVALID("ToTFRecordOp currently only support datasets of 1 single column, but got %d",
                      dataset->component_count);
  dp_compression compression;
  DP_RETURN_IF_ERROR(dp_dataset_record_compression(context, 2, &compression));
  char *path;
  DP_RETURN_IF_ERROR(dp_io_path(dp_op_input(context, 1), 0, &path));
  dp_file *file;
  dp_status *status = dp_file_create_atomic(path, &file);
  dp_free(path);
  DP_RETURN_IF_ERROR(status);
  dp_record_writer *writer;
  status = dp_record_writer_create(file, compression, &writer);
  if (!status) {
    status = write_elements(context, dataset, writer);
    dp_status_update(&status, dp_record_writer_finish(writer));
  }
  if (status) {
    dp_file_abandon(file);
    return status;
  }
  return dp_file_commit(file);
}

static void to_records_compute(dp_op_context *context, void *state) {
  dp_dataset_compute(context, state, to_records);
}

#define HANDLE(name, body)                                                                         \
  {                                                                                                \
    .op = name, .flags = DP_KERNEL_CHEAP, .state_size = sizeof(iterator_state),                    \
    .create = iterator_create, .compute = body, .destroy = dp_iterator_handle_deinit               \
  }
#define CHEAP(name, body)                                                                          \
  { .op = name, .flags = DP_KERNEL_CHEAP, .compute = body }
#define WAITS(name, body)                                                                          \
  { .op = name, .compute_async = body }
static const dp_kernel rows[] = {
    HANDLE("Iterator", dp_iterator_handle_compute),
    HANDLE("IteratorV2", dp_iterator_handle_compute),
    {.op = "OneShotIterator",
     .state_size = sizeof(iterator_state),
     .create = iterator_create,
     .compute_async = one_shot_compute,
     .destroy = dp_iterator_handle_deinit},
    CHEAP("AnonymousIterator", anonymous_compute),
    CHEAP("AnonymousIteratorV2", anonymous_compute),
    CHEAP("AnonymousIteratorV3", anonymous_compute),
    CHEAP("DeleteIterator", delete_compute),
    WAITS("MakeIterator", make_iterator_compute),
    WAITS("IteratorGetNext", get_next_compute),
    WAITS("IteratorGetNextSync", get_next_compute),
    WAITS("IteratorGetNextAsOptional", get_optional_compute),
    CHEAP("IteratorToStringHandle", to_string_compute),
    CHEAP("IteratorFromStringHandle", from_string_compute),
    CHEAP("IteratorFromStringHandleV2", from_string_compute),
    CHEAP("IteratorGetDevice", device_compute),
    CHEAP("ExperimentalIteratorGetDevice", device_compute),
    CHEAP("DatasetCardinality", cardinality_compute),
    CHEAP("ExperimentalDatasetCardinality", cardinality_compute),
    WAITS("DatasetToSingleElement", single_element_compute),
    WAITS("ReduceDataset", reduce_compute),
    WAITS("DatasetToTFRecord", to_records_compute),
    WAITS("ExperimentalDatasetToTFRecord", to_records_compute),
};
DP_KERNEL_FAMILY(iterator_ops, rows);
