/* InitializeTableFromDataset: fills a lookup table from a dataset of pairs. All pairs are read
 * first, on a thread of dp_dataset_run; then the table is filled in one call. A table that is
 * filled already stays as it is. */
#include "kernels/data/dataset_internal.h"
#include "kernels/shared/family.h"
#include "kernels/tables/lookup.h"

/* ---- Pairs ---- */
typedef DP_ARRAY(dp_tensor) tensor_list;

static void list_deinit(tensor_list *list) {
  for (size_t i = 0; i < list->count; ++i)
    dp_tensor_deinit(&list->items[i]);
  DP_ARRAY_FREE(list);
}

/* All elements of all tensors, as a vector. */
static dp_status *list_join(const tensor_list *list, dp_dtype dtype, dp_tensor *joined_out) {
  int64_t total = 0, at = 0;
  for (size_t i = 0; i < list->count; ++i)
    total += list->items[i].shape.elements;
  dp_shape shape = dp_shape_vector(total);
  DP_RETURN_IF_ERROR(dp_tensor_create(dtype, &shape, joined_out));
  for (size_t i = 0; i < list->count; ++i) {
    const dp_tensor *tensor = &list->items[i];
    dp_tensor_copy_elements(dtype, (char *)joined_out->data + (size_t)at * dp_dtype_size(dtype),
                            tensor->data, tensor->shape.elements);
    at += tensor->shape.elements;
  }
  return NULL;
}

static dp_status *check_pair(const dp_lookup *table, const dp_tensor *pair) {
  if (pair[0].dtype != table->key_dtype || pair[1].dtype != table->value_dtype)
    return DP_INVALID("A dataset gave %s -> %s for a table of %s -> %s",
                      dp_dtype_name(pair[0].dtype), dp_dtype_name(pair[1].dtype),
                      dp_dtype_name(table->key_dtype), dp_dtype_name(table->value_dtype));
  if (pair[0].shape.elements != pair[1].shape.elements)
    return DP_INVALID("A dataset gave %lld values for %lld keys", (long long)pair[1].shape.elements,
                      (long long)pair[0].shape.elements);
  return NULL;
}

static dp_status *gather(const dp_lookup *table, dp_dataset *dataset, const dp_walk *walk,
                         tensor_list *keys, tensor_list *values) {
  dp_iterator *iterator = dp_dataset_iterate(dataset, "LookupTable::Root");
  dp_status *status = NULL;
  for (bool more = true; more && !status;) {
    dp_tensor pair[2] = {0};
    status = dp_iterator_next(iterator, walk, pair, &more);
    if (!status && more)
      status = check_pair(table, pair);
    if (!status && more) {
      DP_ARRAY_PUSH(keys, pair[0]);
      DP_ARRAY_PUSH(values, pair[1]);
    } else {
      dp_element_clear(pair, 2);
    }
  }
  dp_iterator_destroy(iterator);
  if (!status && keys->count == 0)
    return dp_status_create(DP_OUT_OF_RANGE, "end of iterator");
  return status;
}

/* ---- Tables ---- */
static dp_status *check_dataset(const dp_lookup *table, const dp_dataset *dataset) {
  if (table->kind != DP_LOOKUP_FIXED)
    return DP_INVALID("Table %s is not initializable", table->name);
  if (dataset->component_count != 2)
    return DP_INVALID("Dataset should have two output types only");
  if (dataset->dtypes[0] != table->key_dtype)
    return DP_INVALID("Key dtype expected: %d but obtained: %d from the dataset", table->key_dtype,
                      dataset->dtypes[0]);
  if (dataset->dtypes[1] != table->value_dtype)
    return DP_INVALID("Value dtype expected: %d but obtained: %d from the dataset",
                      table->value_dtype, dataset->dtypes[1]);
  for (int i = 0; i < 2; ++i)
    if (dataset->shapes[i].rank > 0)
      return DP_INVALID("Expected scalar for key. Obtained: %s",
                        dp_partial_shape_text(&dataset->shapes[i]));
  return NULL;
}

static bool is_filled(dp_lookup *table) {
  pthread_rwlock_rdlock(&table->lock);
  bool filled = table->is_filled;
  pthread_rwlock_unlock(&table->lock);
  return filled;
}

static dp_status *fill(dp_lookup *table, dp_dataset *dataset, const dp_walk *walk) {
  tensor_list keys = {0}, values = {0};
  dp_tensor key_tensor = {0}, value_tensor = {0};
  dp_status *status = gather(table, dataset, walk, &keys, &values);
  if (!status)
    status = list_join(&keys, table->key_dtype, &key_tensor);
  if (!status)
    status = list_join(&values, table->value_dtype, &value_tensor);
  if (!status)
    status = dp_lookup_fill(table, &key_tensor, &value_tensor);
  dp_tensor_deinit(&key_tensor);
  dp_tensor_deinit(&value_tensor);
  list_deinit(&keys);
  list_deinit(&values);
  return status;
}

static dp_status *fill_table(dp_op_context *context, void *state) {
  dp_dataset *dataset;
  dp_resource *resource;
  DP_RETURN_IF_ERROR(dp_handle_input(context, 0, &dp_lookup_ops, DP_LOOKUP_HANDLE_RULE, &resource));
  dp_lookup *table = (dp_lookup *)resource;
  dp_walk walk = {context->step->cancel};
  dp_status *status = dp_dataset_input(context, 1, &dataset);
  if (!status)
    status = check_dataset(table, dataset);
  if (!status && !is_filled(table))
    status = fill(table, dataset, &walk);
  dp_resource_release(resource);
  return status;
}

static void fill_compute(dp_op_context *context, void *state) {
  dp_dataset_compute(context, state, fill_table);
}

static const dp_kernel rows[] = {
    {.op = "InitializeTableFromDataset", .compute_async = fill_compute},
};
DP_KERNEL_FAMILY(lookup_dataset, rows);
