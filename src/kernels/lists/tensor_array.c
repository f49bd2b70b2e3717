/* The tensor array as an object (contracts in tensor_array_internal.h; the ops are in
 * tensor_array_ops.c): entries by index, growing, sums of several writes, gradient arrays. Every
 * public function takes the array's lock. */
#include "kernels/lists/tensor_array_internal.h"

#include "base/memory.h"
#include "kernels/shared/combine.h"
#include "kernels/shared/pieces.h"

/* ---- Life ---- */
static void drop_entries(dp_tensor_array_object *array) {
  for (int64_t i = 0; i < array->size; ++i)
    if (array->entries[i]) {
      dp_tensor_deinit(&array->entries[i]->value);
      dp_free(array->entries[i]);
    }
  dp_free(array->entries);
  array->entries = NULL;
  array->size = array->capacity = 0;
}

static void destroy(dp_resource *resource) {
  dp_tensor_array_object *array = (dp_tensor_array_object *)resource;
  drop_entries(array);
  pthread_mutex_destroy(&array->lock);
  dp_free(array->key);
  dp_free(array->name);
  dp_free(array);
}

static void describe(dp_resource *resource, dp_text *text) {
  dp_tensor_array_object *array = (dp_tensor_array_object *)resource;
  pthread_mutex_lock(&array->lock);
  dp_text_printf(text, "TensorArray[%lld] of %s%s", (long long)array->size,
                 dp_dtype_name(array->dtype), array->is_closed ? ", closed" : "");
  pthread_mutex_unlock(&array->lock);
}

const dp_resource_ops dp_tensor_array_ops = {"N10tensorflow11TensorArrayE", destroy, describe};

/* Larger sizes are taken for a mistake of the graph. */
#define MAX_SIZE ((int64_t)1 << 27)

/* Called with the lock held, or before the array is published. */
static dp_status *grow(dp_tensor_array_object *array, int64_t size) {
  if (size > array->capacity) {
    int64_t wanted = array->size == 0 ? size : 2 * size;
    dp_tensor_array_entry **entries =
        size > MAX_SIZE ? NULL : dp_try_malloc(sizeof(*entries) * (size_t)(wanted + 1));
    if (!entries)
      return dp_status_create(DP_RESOURCE_EXHAUSTED, "no memory for a TensorArray of %lld elements",
                              (long long)size);
    if (array->size)
      memcpy(entries, array->entries, sizeof(*entries) * (size_t)array->size);
    dp_free(array->entries);
    array->entries = entries;
    array->capacity = wanted;
  }
  if (size > array->size) {
    memset(array->entries + array->size, 0, sizeof(*array->entries) * (size_t)(size - array->size));
    array->size = size;
  }
  return NULL;
}

static dp_tensor_array_object *make(const char *prefix, const char *name, dp_dtype dtype) {
  dp_tensor_array_object *array = DP_NEW(dp_tensor_array_object);
  dp_resource_init(&array->resource, &dp_tensor_array_ops);
  dp_text key = {0};
  dp_text_printf(&key, "%s%s", prefix, name);
  array->key = dp_text_take(&key);
  array->name = dp_strdup(name);
  array->dtype = dtype;
  array->marked_size = -1;
  pthread_mutex_init(&array->lock, NULL);
  return array;
}

dp_status *dp_tensor_array_create(const dp_tensor_array_options *options,
                                  dp_tensor_array_object **array_out) {
  dp_tensor_array_object *array = make(options->prefix, options->name, options->dtype);
  array->has_identical_shapes = options->has_identical_shapes;
  array->is_dynamic = options->is_dynamic;
  array->clears_after_read = options->clears_after_read;
  array->element_shape = *options->element_shape;
  dp_status *status = grow(array, options->size);
  if (status)
    dp_resource_release(array);
  else
    *array_out = array;
  return status;
}

static dp_status *return_if_closed(const dp_tensor_array_object *array) {
  return array->is_closed ? DP_INVALID("TensorArray %s has already been closed.", array->name)
                          : NULL;
}

static dp_tensor_array_entry *entry_at(dp_tensor_array_object *array, int64_t index) {
  if (!array->entries[index])
    array->entries[index] = DP_NEW(dp_tensor_array_entry);
  return array->entries[index];
}

/* ---- Gradients ---- */
static dp_status *join_shapes(const dp_shape *before, const dp_shape *shape, dp_shape *joined_out) {
  if (!before) {
    *joined_out = *shape;
    return NULL;
  }
  int64_t dims[2 * DP_MAX_RANK];
  memcpy(dims, before->dims, sizeof(int64_t) * (size_t)before->rank);
  memcpy(dims + before->rank, shape->dims, sizeof(int64_t) * (size_t)shape->rank);
  return dp_shape_make(before->rank + shape->rank, dims, joined_out);
}

/* Called with the forward array's lock held. */
static dp_status *copy_shapes(dp_tensor_array_object *array, dp_tensor_array_object *forward,
                              const dp_shape *prepend) {
  DP_RETURN_IF_ERROR(grow(array, forward->size));
  for (int64_t i = 0; i < forward->size; ++i) {
    const dp_tensor_array_entry *from = forward->entries[i];
    if (!from || !from->is_written)
      continue;
    dp_tensor_array_entry *entry = entry_at(array, i);
    DP_RETURN_IF_ERROR(join_shapes(prepend, &from->value.shape, &entry->value.shape));
    entry->is_written = true;
  }
  array->element_shape = forward->element_shape;
  if (!prepend || forward->element_shape.rank < 0)
    return NULL;
  int64_t dims[2 * DP_MAX_RANK];
  const dp_partial_shape *shape = &forward->element_shape;
  memcpy(dims, prepend->dims, sizeof(int64_t) * (size_t)prepend->rank);
  memcpy(dims + prepend->rank, shape->dims, sizeof(int64_t) * (size_t)shape->rank);
  return dp_partial_shape_make(prepend->rank + shape->rank, dims, &array->element_shape);
}

dp_status *dp_tensor_array_create_gradient(dp_tensor_array_object *forward, const char *prefix,
                                           const char *name, const dp_shape *prepend,
                                           dp_tensor_array_object **array_out) {
  dp_tensor_array_object *array = make(prefix, name, forward->dtype);
  array->has_identical_shapes = forward->has_identical_shapes;
  array->aggregates = array->is_gradient = array->clears_after_read = true;
  pthread_mutex_lock(&forward->lock);
  forward->is_dynamic = false;
  array->marked_size = forward->marked_size;
  dp_status *status = return_if_closed(forward);
  if (!status && forward->has_sums)
    status = DP_INVALID("Unable to create a gradients TensorArray for %s.  Perhaps you used the "
                        "multiple_writes_aggregate flag on a previous write?  Gradient "
                        "calculation is impossible when multiple writes are performed to the "
                        "same index.",
                        forward->name);
  if (!status)
    status = copy_shapes(array, forward, prepend);
  pthread_mutex_unlock(&forward->lock);
  if (status)
    dp_resource_release(array);
  else
    *array_out = array;
  return status;
}

/* ---- Writing ---- */
static dp_status *check_value(dp_tensor_array_object *array, int32_t index,
                              const dp_tensor *value) {
  if (value->dtype != array->dtype)
    return DP_INVALID("TensorArray %s: Could not write to TensorArray index %d because the value "
                      "dtype is %s but TensorArray dtype is %s.",
                      array->name, index, dp_dtype_name(value->dtype), dp_dtype_name(array->dtype));
  if (!dp_partial_shape_accepts(&array->element_shape, &value->shape))
    return DP_INVALID("TensorArray %s: Could not write to TensorArray index %d because the value "
                      "shape is %s which is incompatible with the TensorArray's inferred element "
                      "shape: %s (consider setting infer_shape=False).",
                      array->name, index, dp_shape_text(&value->shape),
                      dp_partial_shape_text(&array->element_shape));
  if (array->has_identical_shapes && !dp_partial_shape_is_known(&array->element_shape))
    return dp_partial_shape_make(value->shape.rank, value->shape.dims, &array->element_shape);
  return NULL;
}

static dp_status *add(dp_tensor_array_object *array, int32_t index, dp_tensor_array_entry *entry,
                      const dp_tensor *value) {
  if (!dp_shape_equal(&value->shape, &entry->value.shape))
    return DP_INVALID("TensorArray %s: Could not aggregate to TensorArray index %d because the "
                      "existing shape is %s but the new input shape is %s.",
                      array->name, index, dp_shape_text(&entry->value.shape),
                      dp_shape_text(&value->shape));
  if (!entry->value.buffer || entry->value.shape.elements == 0) {
    dp_tensor_deinit(&entry->value);
    entry->value = dp_tensor_copy(value);
    return NULL;
  }
  dp_combine sum;
  dp_status *status = dp_combine_init(&sum, DP_COMBINE_ADD, array->dtype);
  if (status || !dp_dtype_is_plain(array->dtype) || array->dtype == DP_BOOL) {
    dp_status_release(status);
    return DP_INVALID("tensor_array::AddToTensor type not supported: %s",
                      dp_dtype_name(array->dtype));
  }
  if (!entry->is_sum) {
    dp_tensor own;
    DP_RETURN_IF_ERROR(dp_tensor_clone(&entry->value, &own));
    dp_tensor_deinit(&entry->value);
    entry->value = own;
    entry->is_sum = true;
  }
  array->has_sums = true;
  return dp_combine_run(&sum, entry->value.data, value->data, value->shape.elements);
}

static dp_status *write_one(dp_tensor_array_object *array, int32_t index, const dp_tensor *value) {
  DP_RETURN_IF_ERROR(return_if_closed(array));
  if (index < 0 || (!array->is_dynamic && index >= array->size))
    return DP_INVALID("TensorArray %s: Tried to write to index %d but array is not resizeable and "
                      "size is: %lld",
                      array->name, index, (long long)array->size);
  if (index >= array->size)
    DP_RETURN_IF_ERROR(grow(array, (int64_t)index + 1));
  DP_RETURN_IF_ERROR(check_value(array, index, value));
  dp_tensor_array_entry *entry = entry_at(array, index);
  if (entry->is_read)
    return DP_INVALID("TensorArray %s: Could not write to TensorArray index %d because it has "
                      "already been read.",
                      array->name, index);
  if (entry->is_written && !array->aggregates)
    return DP_INVALID("TensorArray %s: Could not write to TensorArray index %d because it has "
                      "already been written to.",
                      array->name, index);
  if (entry->is_written)
    return add(array, index, entry, value);
  entry->value = dp_tensor_copy(value);
  entry->is_written = true;
  return NULL;
}

dp_status *dp_tensor_array_write(dp_tensor_array_object *array, const int32_t *indices,
                                 const dp_tensor *values, int64_t count) {
  dp_status *status = NULL;
  pthread_mutex_lock(&array->lock);
  for (int64_t i = 0; i < count && !status; ++i)
    status = write_one(array, indices ? indices[i] : (int32_t)i, &values[i]);
  pthread_mutex_unlock(&array->lock);
  return status;
}

/* ---- Reading ---- */
/* The shape of the zeros that an index without a value reads as. */
static dp_status *shape_of_zeros(dp_tensor_array_object *array, int32_t index,
                                 dp_shape *shape_out) {
  const dp_tensor_array_entry *entry = index < array->size ? array->entries[index] : NULL;
  if (array->is_gradient && entry && entry->value.shape.rank > 0) {
    *shape_out = entry->value.shape;
    return NULL;
  }
  if (!dp_partial_shape_is_known(&array->element_shape))
    return DP_INVALID(
        "TensorArray %s: Could not read from TensorArray index %d.  Furthermore, the element shape "
        "is not fully defined: %s.  It is possible you are working with a resizeable TensorArray "
        "and stop_gradients is not allowing the gradients to be written.  If you set the full "
        "element_shape property on the forward TensorArray, the proper all-zeros tensor will be "
        "returned instead of incurring this error.",
        array->name, index, dp_partial_shape_text(&array->element_shape));
  return dp_shape_make(array->element_shape.rank, array->element_shape.dims, shape_out);
}

static dp_status *mark_zeros(dp_tensor_array_object *array, int32_t index) {
  dp_shape shape;
  DP_RETURN_IF_ERROR(shape_of_zeros(array, index, &shape));
  int64_t first = index < array->size ? index : array->size;
  DP_RETURN_IF_ERROR(grow(array, (int64_t)index + 1));
  for (int64_t i = first; i <= index; ++i) {
    dp_tensor_array_entry *entry = entry_at(array, i);
    entry->value.shape = shape;
    entry->is_written = true;
  }
  return NULL;
}

static dp_status *fill_zeros(dp_tensor_array_object *array, dp_tensor_array_entry *entry) {
  dp_shape shape = entry->value.shape;
  if (shape.elements > 0 && !dp_dtype_is_plain(array->dtype))
    return DP_INVALID("tensor_array::TensorSetZero type not supported: %s",
                      dp_dtype_name(array->dtype));
  dp_tensor zeros;
  DP_RETURN_IF_ERROR(dp_tensor_create_zero(array->dtype, &shape, &zeros));
  dp_tensor_deinit(&entry->value);
  entry->value = zeros;
  return NULL;
}

static dp_status *read_one(dp_tensor_array_object *array, int32_t index, dp_tensor *value_out) {
  DP_RETURN_IF_ERROR(return_if_closed(array));
  if (index < 0 || (!array->is_gradient && index >= array->size))
    return DP_INVALID("Tried to read from index %d but array size is: %lld", index,
                      (long long)array->size);
  if (index >= array->size || !array->entries[index] || !array->entries[index]->is_written)
    DP_RETURN_IF_ERROR(mark_zeros(array, index));
  dp_tensor_array_entry *entry = array->entries[index];
  if (entry->is_cleared)
    return DP_INVALID("TensorArray %s: Could not read index %d twice because it was cleared after "
                      "a previous read (perhaps try setting clear_after_read = false?).",
                      array->name, index);
  if (!entry->value.buffer)
    DP_RETURN_IF_ERROR(fill_zeros(array, entry));
  *value_out = dp_tensor_copy(&entry->value);
  if (array->clears_after_read) {
    dp_shape shape = entry->value.shape;
    dp_tensor_deinit(&entry->value);
    entry->value.shape = shape;
    entry->is_cleared = true;
  }
  entry->is_read = true;
  return NULL;
}

dp_status *dp_tensor_array_read(dp_tensor_array_object *array, const int32_t *indices,
                                dp_tensor *values_out, int64_t count) {
  dp_status *status = NULL;
  int64_t done = 0;
  pthread_mutex_lock(&array->lock);
  while (done < count && !status) {
    status = read_one(array, indices ? indices[done] : (int32_t)done, &values_out[done]);
    done += status == NULL;
  }
  pthread_mutex_unlock(&array->lock);
  if (status)
    for (int64_t i = 0; i < done; ++i)
      dp_tensor_deinit(&values_out[i]);
  return status;
}

/* ---- Sizes ---- */
static dp_status *get_size(dp_tensor_array_object *array, bool for_pack, int64_t *size_out) {
  pthread_mutex_lock(&array->lock);
  dp_status *status = return_if_closed(array);
  if (!status)
    *size_out = for_pack && array->is_gradient ? array->marked_size : array->size;
  pthread_mutex_unlock(&array->lock);
  return status;
}

dp_status *dp_tensor_array_size(dp_tensor_array_object *array, int64_t *size_out) {
  return get_size(array, false, size_out);
}

dp_status *dp_tensor_array_pack_size(dp_tensor_array_object *array, int64_t *size_out) {
  return get_size(array, true, size_out);
}

dp_status *dp_tensor_array_mark_size(dp_tensor_array_object *array, int64_t size) {
  pthread_mutex_lock(&array->lock);
  dp_status *status = return_if_closed(array);
  if (!status && !array->is_gradient)
    array->marked_size = size;
  pthread_mutex_unlock(&array->lock);
  return status;
}

dp_status *dp_tensor_array_merge_shape(dp_tensor_array_object *array,
                                       const dp_partial_shape *shape) {
  pthread_mutex_lock(&array->lock);
  dp_status *status = dp_pieces_merge_shapes(&array->element_shape, shape, &array->element_shape);
  pthread_mutex_unlock(&array->lock);
  return status;
}

void dp_tensor_array_close(dp_tensor_array_object *array) {
  pthread_mutex_lock(&array->lock);
  drop_entries(array);
  array->is_closed = true;
  pthread_mutex_unlock(&array->lock);
}
