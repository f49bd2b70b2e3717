/* What all kinds of datasets and iterators share (dataset_internal.h): creation and reference
 * counts, components, cardinality, datasets as variants between ops, and the calls that go down to
 * a kind's functions. A kind itself is a pair of tables in one of the files dataset_*.c. */
#include "kernels/data/dataset_internal.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

/* ---- Datasets ---- */
void *dp_dataset_create(const dp_dataset_ops *ops, size_t size, dp_dataset *input) {
  static atomic_uint_fast64_t last_number;
  dp_dataset *dataset = dp_calloc(1, size);
  dp_refcount_init(&dataset->references);
  dataset->ops = ops;
  dataset->number = atomic_fetch_add_explicit(&last_number, 1, memory_order_relaxed);
  if (input) {
    dataset->input = dp_dataset_retain(input);
    dp_dataset_set_components(dataset, input->component_count, input->dtypes, input->shapes);
  }
  return dataset;
}

void dp_dataset_add_other(dp_dataset *dataset, dp_dataset *other) {
  DP_ARRAY_PUSH(&dataset->others, dp_dataset_retain(other));
}

dp_dataset *dp_dataset_retain(dp_dataset *dataset) {
  dp_refcount_retain(&dataset->references);
  return dataset;
}

void dp_dataset_release(dp_dataset *dataset) {
  while (dataset &&
         dp_refcount_release(
             &dataset->references)) { /* a loop, so that a long chain needs no recursion */
    dp_dataset *input = dataset->input;
    if (dataset->ops->destroy)
      dataset->ops->destroy(dataset);
    for (size_t i = 0; i < dataset->others.count; ++i)
      dp_dataset_release(dataset->others.items[i]);
    DP_ARRAY_FREE(&dataset->others);
    dp_dataset_forget(dataset);
    dp_free(dataset->dtypes);
    dp_free(dataset->shapes);
    dp_free(dataset);
    dataset = input;
  }
}

void dp_dataset_set_components(dp_dataset *dataset, int32_t count, const dp_dtype *dtypes,
                               const dp_partial_shape *shapes) {
  dp_free(dataset->dtypes);
  dp_free(dataset->shapes);
  dataset->component_count = count;
  dataset->dtypes = DP_NEW_ARRAY(dp_dtype, (size_t)count + 1);
  dataset->shapes = DP_NEW_ARRAY(dp_partial_shape, (size_t)count + 1);
  if (count > 0) {
    memcpy(dataset->dtypes, dtypes, (size_t)count * sizeof *dtypes);
    memcpy(dataset->shapes, shapes, (size_t)count * sizeof *shapes);
  }
}

dp_status *dp_components_read(const dp_node *node, dp_components *components_out) {
  const dp_attr *types, *shapes;
  DP_RETURN_IF_ERROR(dp_node_get_list(node, "output_types", DP_ATTR_LIST_TYPE, &types));
  DP_RETURN_IF_ERROR(dp_node_get_list(node, "output_shapes", DP_ATTR_LIST_SHAPE, &shapes));
  if (types->count != shapes->count)
    return DP_INVALID("`output_types` and `output_shapes` must be the same length. Got %d vs. %d",
                      types->count, shapes->count);
  dp_components components = {
      .count = types->count,
      .dtypes = DP_NEW_ARRAY(dp_dtype, (size_t)types->count + 1),
      .shapes = DP_NEW_ARRAY(dp_partial_shape, (size_t)types->count + 1),
  };
  for (int32_t i = 0; i < types->count; ++i) {
    components.dtypes[i] = (dp_dtype)types->types[i];
    components.shapes[i] = shapes->shapes[i];
  }
  *components_out = components;
  return NULL;
}

void dp_components_deinit(dp_components *components) {
  dp_free(components->dtypes);
  dp_free(components->shapes);
  *components = (dp_components){0};
}

dp_status *dp_dataset_components_from_node(dp_dataset *dataset, const dp_node *node) {
  dp_components components;
  DP_RETURN_IF_ERROR(dp_components_read(node, &components));
  dp_dataset_set_components(dataset, components.count, components.dtypes, components.shapes);
  dp_components_deinit(&components);
  return NULL;
}

int64_t dp_dataset_cardinality(dp_dataset *dataset) {
  return dataset->ops->cardinality ? dataset->ops->cardinality(dataset) : DP_CARDINALITY_UNKNOWN;
}

int64_t dp_dataset_input_cardinality(dp_dataset *dataset) {
  return dp_dataset_cardinality(dataset->input);
}

int64_t dp_cardinality_repeat(int64_t input, int64_t count) {
  int64_t product;
  if (count < 0)
    return input == 0 ? 0 : DP_CARDINALITY_INFINITE;
  if (count == 0 || input < 0)
    return count == 0 ? 0 : input;
  return __builtin_mul_overflow(input, count, &product) ? DP_CARDINALITY_UNKNOWN : product;
}

const char *dp_dataset_types_text(const dp_dataset *dataset) {
  char *text = dp_shape_text_buffer();
  size_t length = 0;
  text[0] = 0;
  for (int32_t i = 0; i < dataset->component_count && length < DP_SHAPE_TEXT_LENGTH; ++i)
    length += (size_t)snprintf(text + length, DP_SHAPE_TEXT_LENGTH - length, "%s%s", i ? ", " : "",
                               dp_dtype_name(dataset->dtypes[i]));
  return text;
}

bool dp_dataset_same_dtypes(const dp_dataset *a, const dp_dataset *b) {
  bool same = a->component_count == b->component_count;
  for (int32_t i = 0; same && i < a->component_count; ++i)
    same = a->dtypes[i] == b->dtypes[i];
  return same;
}

dp_partial_shape dp_dataset_common_shape(const dp_partial_shape *a, const dp_partial_shape *b) {
  if (a->rank < 0 || a->rank != b->rank)
    return dp_partial_shape_unknown();
  dp_partial_shape common = *a;
  for (int i = 0; i < a->rank; ++i)
    if (a->dims[i] != b->dims[i])
      common.dims[i] = -1;
  return common;
}

void dp_dataset_save_seeds(dp_dataset *dataset, dp_seed_list *seeds) {
  for (; dataset; dataset = dataset->input) {
    if (dataset->ops->save_seeds)
      dataset->ops->save_seeds(dataset, seeds);
    for (size_t i = 0; i < dataset->others.count; ++i)
      dp_dataset_save_seeds(dataset->others.items[i], seeds);
  }
}

void dp_dataset_load_seeds(dp_dataset *dataset, dp_seed_list *seeds) {
  for (; dataset; dataset = dataset->input) {
    if (dataset->ops->load_seeds)
      dataset->ops->load_seeds(dataset, seeds);
    for (size_t i = 0; i < dataset->others.count; ++i)
      dp_dataset_load_seeds(dataset->others.items[i], seeds);
  }
}

/* ---- Between ops ---- */
static void variant_destroy(void *object) {
  dp_dataset_release(object);
}

static const dp_variant_ops dataset_variant = {
    .type_name = "tensorflow::DatasetVariantWrapper",
    .destroy = variant_destroy,
};

dp_status *dp_dataset_of_tensor(const dp_tensor *tensor, dp_dataset **dataset_out) {
  if (tensor->dtype != DP_VARIANT || tensor->shape.rank != 0)
    return DP_INVALID("Dataset tensor must be a scalar of dtype DT_VARIANT.");
  dp_variant *variant = dp_tensor_variants(tensor)[0];
  if (!variant || variant->ops != &dataset_variant)
    return DP_INVALID("Tensor must be a Dataset object.");
  *dataset_out = variant->object;
  return NULL;
}

dp_status *dp_dataset_input(dp_op_context *context, int32_t slot, dp_dataset **dataset_out) {
  return dp_dataset_of_tensor(dp_op_input(context, slot), dataset_out);
}

dp_status *dp_dataset_to_tensor(dp_dataset *dataset, dp_tensor *tensor_out) {
  dp_shape shape = dp_shape_scalar();
  dp_status *status = dp_tensor_create(DP_VARIANT, &shape, tensor_out);
  if (status) {
    dp_dataset_release(dataset);
    return status;
  }
  dp_tensor_variants(tensor_out)[0] = dp_variant_create(&dataset_variant, dataset);
  return NULL;
}

dp_status *dp_dataset_output(dp_op_context *context, int32_t output, dp_dataset *dataset) {
  dp_tensor tensor;
  dp_dataset_remember(dataset, context);
  DP_RETURN_IF_ERROR(dp_dataset_to_tensor(dataset, &tensor));
  dp_op_set_output(context, output, &tensor);
  return NULL;
}

dp_status *dp_dataset_finish(dp_op_context *context, dp_dataset *dataset, dp_status *status) {
  if (!status)
    return dp_dataset_output(context, 0, dataset);
  dp_dataset_release(dataset);
  return status;
}

dp_status *dp_dataset_scalar(dp_op_context *context, int32_t slot, const char *name,
                             int64_t *value_out) {
  const dp_tensor *tensor = dp_op_input(context, slot);
  if (tensor->shape.rank != 0)
    return DP_INVALID("%s must be a scalar", name);
  *value_out = dp_tensor_int_at(tensor, 0);
  return NULL;
}

dp_status *dp_dataset_bool(dp_op_context *context, int32_t slot, const char *name,
                           bool *value_out) {
  int64_t value;
  DP_RETURN_IF_ERROR(dp_dataset_scalar(context, slot, name, &value));
  *value_out = value != 0;
  return NULL;
}

/* ---- Iterators ---- */
void *dp_iterator_create(const dp_iterator_ops *ops) {
  dp_iterator *iterator = dp_calloc(1, ops->size);
  iterator->ops = ops;
  iterator->place = -1;
  return iterator;
}

dp_iterator *dp_dataset_iterate(dp_dataset *dataset, const char *walker) {
  const dp_dataset_ops *ops = dataset->ops;
  dp_iterator *iterator = ops->iterate ? ops->iterate(dataset) : dp_iterator_create(ops->iterator);
  if (!iterator->dataset)
    iterator->dataset = dp_dataset_retain(dataset);
  iterator->walker = walker;
  return iterator;
}

dp_iterator *dp_iterator_over(const dp_iterator *parent, dp_dataset *dataset, int64_t place) {
  dp_iterator *iterator = dp_dataset_iterate(dataset, NULL);
  iterator->parent = parent;
  iterator->place = place;
  return iterator;
}

void dp_iterator_destroy(dp_iterator *iterator) {
  if (!iterator)
    return;
  if (iterator->ops->destroy)
    iterator->ops->destroy(iterator);
  for (size_t i = 0; iterator->others && i < iterator->dataset->others.count; ++i)
    dp_iterator_destroy(iterator->others[i]);
  dp_free(iterator->others);
  dp_iterator_destroy(iterator->input);
  dp_dataset_release(iterator->dataset);
  dp_free(iterator);
}

dp_status *dp_iterator_next(dp_iterator *iterator, const dp_walk *walk, dp_tensor *element,
                            bool *more_out) {
  *more_out = false;
  dp_status *status = dp_cancel_status(walk->cancel);
  if (!status)
    status = iterator->ops->next(iterator, walk, element, more_out);
  if (status || !*more_out)
    dp_element_clear(element, iterator->dataset->component_count);
  if (status)
    *more_out = false;
  return status;
}

void dp_iterator_open_others(dp_iterator *iterator, dp_dataset *dataset, int64_t first) {
  iterator->others = DP_NEW_ARRAY(dp_iterator *, dataset->others.count + 1);
  for (size_t i = 0; i < dataset->others.count; ++i)
    iterator->others[i] = dp_iterator_over(iterator, dataset->others.items[i], first + (int64_t)i);
}

dp_status *dp_iterator_next_input(dp_iterator *iterator, const dp_walk *walk, dp_tensor *element,
                                  bool *more_out) {
  if (!iterator->input)
    iterator->input = dp_iterator_over(iterator, iterator->dataset->input, -1);
  return dp_iterator_next(iterator->input, walk, element, more_out);
}

/* ---- Elements ---- */
dp_tensor *dp_element_create(int32_t count) {
  return DP_NEW_ARRAY(dp_tensor, (size_t)count + 1);
}

void dp_element_clear(dp_tensor *element, int32_t count) {
  for (int32_t i = 0; i < count; ++i)
    dp_tensor_deinit(&element[i]);
}

void dp_element_destroy(dp_tensor *element, int32_t count) {
  if (!element)
    return;
  dp_element_clear(element, count);
  dp_free(element);
}
