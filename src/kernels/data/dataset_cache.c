/* Caches: later walks read the elements of the first walk from memory or from a file.
 *
 * In memory the elements belong to the dataset, or to a cache resource (CacheDatasetV2) that lives
 * longer. A file is a checkpoint (bundle.h) with one tensor per element and component, under the
 * names that TensorFlow gives them, so that TensorFlow and we read each other's caches. Only a walk
 * that reached the end leaves a cache. */
#include <string.h>
#include "kernels/data/dataset_internal.h"
#include "kernels/shared/family.h"
#include "kernels/shared/io.h"
#include "storage/bundle.h"
#include "storage/file.h"

typedef DP_ARRAY(dp_tensor *) element_list;

/* ---- Memory ---- */
typedef struct memory_cache {
  dp_resource resource;
  pthread_mutex_t lock;
  bool is_complete;
  element_list elements;
  int32_t components;
} memory_cache;

static void clear_list(element_list *list, int32_t components) {
  for (size_t i = 0; i < list->count; ++i)
    dp_element_destroy(list->items[i], components);
  DP_ARRAY_FREE(list);
}

static void cache_destroy(dp_resource *resource) {
  memory_cache *cache = (memory_cache *)resource;
  clear_list(&cache->elements, cache->components);
  pthread_mutex_destroy(&cache->lock);
  dp_free(cache);
}

static const dp_resource_ops cache_ops = {"N10tensorflow4data18MemoryCacheManagerE", cache_destroy,
                                          NULL};

static memory_cache *cache_create(void) {
  memory_cache *cache = DP_NEW(memory_cache);
  dp_resource_init(&cache->resource, &cache_ops);
  pthread_mutex_init(&cache->lock, NULL);
  return cache;
}

typedef struct cache_dataset {
  dp_dataset base;
  memory_cache *memory; /* retained; NULL when the cache is a file */
  char *prefix;         /* of the file */
  dp_device *device;
} cache_dataset;

typedef struct cache_iterator {
  dp_iterator base;
  bool has_begun, is_reading, ended;
  size_t next;
  element_list written; /* elements that this walk has taken so far */
  dp_bundle_writer *writer;
  dp_bundle_reader *reader;
} cache_iterator;

static void copy_element(const dp_tensor *from, int32_t count, dp_tensor *to) {
  for (int32_t i = 0; i < count; ++i)
    to[i] = dp_tensor_copy(&from[i]);
}

/* The walk has reached the end: others may read its elements now. */
static void publish(cache_iterator *iterator) {
  cache_dataset *dataset = (cache_dataset *)iterator->base.dataset;
  memory_cache *cache = dataset->memory;
  pthread_mutex_lock(&cache->lock);
  if (!cache->is_complete) {
    cache->elements = iterator->written;
    cache->components = dataset->base.component_count;
    iterator->written = (element_list){0};
    cache->is_complete = true;
  }
  pthread_mutex_unlock(&cache->lock);
}

static dp_status *memory_next(dp_iterator *base, const dp_walk *walk, dp_tensor *element,
                              bool *more_out) {
  cache_iterator *iterator = (cache_iterator *)base;
  memory_cache *cache = ((cache_dataset *)base->dataset)->memory;
  int32_t components = base->dataset->component_count;
  if (!iterator->has_begun) {
    iterator->has_begun = true;
    pthread_mutex_lock(&cache->lock);
    iterator->is_reading = cache->is_complete && cache->components == components;
    pthread_mutex_unlock(&cache->lock);
  }
  if (iterator->is_reading) { /* the cache is complete and does not change any more */
    if (iterator->next >= cache->elements.count)
      return NULL;
    copy_element(cache->elements.items[iterator->next++], components, element);
    *more_out = true;
    return NULL;
  }
  if (iterator->ended)
    return NULL;
  DP_RETURN_IF_ERROR(dp_iterator_next_input(base, walk, element, more_out));
  if (*more_out) {
    dp_tensor *kept = dp_element_create(components);
    copy_element(element, components, kept);
    DP_ARRAY_PUSH(&iterator->written, kept);
  } else {
    iterator->ended = true;
    publish(iterator);
  }
  return NULL;
}

/* ---- Files ---- */
/* " 12_3": element and component, with TensorFlow's width and padding. */
static void key_of(const dp_dataset *dataset, size_t element, int32_t component, dp_text *key) {
  int digits = 1;
  for (int32_t rest = dataset->component_count - 1; rest >= 10; rest /= 10)
    ++digits;
  dp_text_clear(key);
  dp_text_printf(key, "%7zu_%*d", element, digits, component);
}

static dp_status *begin_file(cache_iterator *iterator) {
  cache_dataset *dataset = (cache_dataset *)iterator->base.dataset;
  char *index = dp_bundle_index_path(dataset->prefix);
  bool is_there = dp_path_exists(index);
  dp_free(index);
  iterator->is_reading = is_there;
  if (is_there)
    return dp_bundle_reader_open(dataset->prefix, &iterator->reader);
  return dp_bundle_writer_create(dataset->prefix, dataset->device->blocking, &iterator->writer);
}

static dp_status *read_element(cache_iterator *iterator, dp_tensor *element, bool *more_out) {
  dp_dataset *dataset = iterator->base.dataset;
  int32_t count = dataset->component_count;
  dp_bundle_request *requests = DP_NEW_ARRAY(dp_bundle_request, (size_t)count + 1);
  dp_text *keys = DP_NEW_ARRAY(dp_text, (size_t)count + 1);
  for (int32_t i = 0; i < count; ++i) {
    key_of(dataset, iterator->next, i, &keys[i]);
    requests[i].name = (dp_view){keys[i].data, keys[i].length};
  }
  dp_status *status = NULL;
  *more_out = count > 0 && dp_bundle_reader_has(iterator->reader, requests[0].name);
  if (*more_out)
    status = dp_bundle_reader_read(iterator->reader, requests, (size_t)count, NULL);
  for (int32_t i = 0; !status && *more_out && i < count; ++i)
    element[i] = dp_tensor_take(&requests[i].tensor);
  ++iterator->next;
  for (int32_t i = 0; i < count; ++i)
    dp_text_deinit(&keys[i]);
  dp_free(requests);
  dp_free(keys);
  return status;
}

static dp_status *write_element(cache_iterator *iterator, const dp_tensor *element) {
  dp_dataset *dataset = iterator->base.dataset;
  dp_text key = {0};
  dp_status *status = NULL;
  for (int32_t i = 0; i < dataset->component_count && !status; ++i) {
    key_of(dataset, iterator->next, i, &key);
    status = dp_bundle_writer_add(iterator->writer, (dp_view){key.data, key.length}, &element[i]);
  }
  ++iterator->next;
  dp_text_deinit(&key);
  return status;
}

static dp_status *file_next(dp_iterator *base, const dp_walk *walk, dp_tensor *element,
                            bool *more_out) {
  cache_iterator *iterator = (cache_iterator *)base;
  if (iterator->ended)
    return NULL;
  if (!iterator->has_begun)
    DP_RETURN_IF_ERROR(begin_file(iterator));
  iterator->has_begun = true;
  if (iterator->is_reading) {
    DP_RETURN_IF_ERROR(read_element(iterator, element, more_out));
    iterator->ended = !*more_out;
    return NULL;
  }
  DP_RETURN_IF_ERROR(dp_iterator_next_input(base, walk, element, more_out));
  if (*more_out)
    return write_element(iterator, element);
  iterator->ended = true;
  return dp_bundle_writer_finish(iterator->writer);
}

/* ---- Memory and files ---- */
static void cache_iterator_destroy(dp_iterator *base) {
  cache_iterator *iterator = (cache_iterator *)base;
  clear_list(&iterator->written, base->dataset->component_count);
  dp_bundle_writer_destroy(iterator->writer);
  dp_bundle_reader_destroy(iterator->reader);
}

static const dp_iterator_ops memory_iterator_ops = {sizeof(cache_iterator), memory_next,
                                                    cache_iterator_destroy};
static const dp_iterator_ops file_iterator_ops = {sizeof(cache_iterator), file_next,
                                                  cache_iterator_destroy};

static dp_iterator *cache_iterate(dp_dataset *base) {
  cache_dataset *dataset = (cache_dataset *)base;
  return dp_iterator_create(dataset->memory ? &memory_iterator_ops : &file_iterator_ops);
}

static void cache_dataset_destroy(dp_dataset *base) {
  cache_dataset *dataset = (cache_dataset *)base;
  dp_resource_release(dataset->memory);
  dp_free(dataset->prefix);
  dp_device_release(dataset->device);
}

static const dp_dataset_ops cache_dataset_ops = {"Cache", NULL, dp_dataset_input_cardinality,
                                                 cache_dataset_destroy, .iterate = cache_iterate};

static dp_status *cache_compute(dp_op_context *context, void *state) {
  dp_dataset *input;
  DP_RETURN_IF_ERROR(dp_dataset_input(context, 0, &input));
  const dp_tensor *name = dp_op_input(context, 1);
  if (name->shape.rank != 0)
    return DP_INVALID("filename must be a scalar");
  char *prefix;
  DP_RETURN_IF_ERROR(dp_io_path(name, 0, &prefix));
  cache_dataset *dataset = dp_dataset_create(&cache_dataset_ops, sizeof(cache_dataset), input);
  dataset->device = dp_device_retain(context->device);
  dataset->base.label = prefix[0] ? "FileCacheImpl" : "MemoryCacheImpl";
  if (prefix[0]) {
    dataset->prefix = prefix;
    return dp_dataset_output(context, 0, &dataset->base);
  }
  dp_free(prefix);
  dp_resource *shared = NULL;
  if (context->input_count > 2)
    dp_status_release(dp_op_resource(context, 2, &cache_ops, &shared));
  dataset->memory = shared ? (memory_cache *)shared : cache_create();
  return dp_dataset_output(context, 0, &dataset->base);
}

/* ---- Caches as resources ---- */
static void release_object(void *object) {
  dp_resource_release(object);
}

static dp_status *anonymous_compute(dp_op_context *context, void *state) {
  dp_shape shape = dp_shape_scalar();
  dp_tensor *output, *deleter;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &shape, &output));
  dp_resource_handle *handle =
      dp_resource_make_handle(context->device->name, "", "MemoryCache", &cache_ops);
  if (context->output_count >
      1) { /* DummyMemoryCache, with one output, has no object behind its handle */
    handle->object = cache_create();
    handle->object_release = release_object;
  }
  dp_tensor_handles(output)[0] = handle;
  return context->output_count > 1 ? dp_op_allocate(context, 1, &shape, &deleter) : NULL;
}

static dp_status *delete_compute(dp_op_context *context, void *state) {
  return NULL; /* the object is destroyed with its last handle */
}

#define ROW(name, body)                                                                            \
  { .op = name, .flags = DP_KERNEL_CHEAP, .compute = body }
static const dp_kernel rows[] = {
    ROW("CacheDataset", cache_compute),
    ROW("CacheDatasetV2", cache_compute),
    ROW("AnonymousMemoryCache", anonymous_compute),
    ROW("DummyMemoryCache", anonymous_compute),
    ROW("DeleteMemoryCache", delete_compute),
};
DP_KERNEL_FAMILY(dataset_cache, rows);
