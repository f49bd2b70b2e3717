/* Batch and PaddedBatch, which stack consecutive elements, and Unbatch, which gives the rows of
 * each element one by one. Stacking allocates one tensor per component and copies the elements into
 * it; PaddedBatch first finds the largest shape in the batch. */
#include <string.h>
#include "kernels/data/dataset_internal.h"
#include "kernels/shared/family.h"

#define AUTOTUNE (-1)

/* ---- Stacking ---- */
dp_status *dp_elements_stack(dp_dataset *dataset, dp_tensor *const *elements, int64_t count,
                             dp_tensor *element_out) {
  for (int32_t i = 0; i < dataset->component_count; ++i) {
    const dp_tensor *first = &elements[0][i];
    if (first->shape.rank >= DP_MAX_RANK)
      return DP_INVALID("Cannot batch tensors of rank %d", first->shape.rank);
    dp_shape shape = dp_shape_insert(&first->shape, 0, count);
    DP_RETURN_IF_ERROR(dp_tensor_create(first->dtype, &shape, &element_out[i]));
    size_t size = (size_t)first->shape.elements * dp_dtype_size(first->dtype);
    for (int64_t j = 0; j < count; ++j) {
      const dp_tensor *part = &elements[j][i];
      if (!dp_shape_equal(&part->shape, &first->shape))
        return DP_INVALID("Cannot batch tensors with different shapes in component %d. First "
                          "element had shape %s and element %lld had shape %s.",
                          i, dp_shape_text(&first->shape), (long long)j,
                          dp_shape_text(&part->shape));
      if (part->dtype != first->dtype)
        return DP_INVALID("Cannot batch tensors with different dtypes in component %d", i);
      dp_tensor_copy_elements(first->dtype, (char *)element_out[i].data + (size_t)j * size,
                              part->data, part->shape.elements);
    }
  }
  return NULL;
}

void dp_element_list_clear(dp_element_list *list, int32_t components) {
  for (size_t i = 0; i < list->count; ++i)
    dp_element_destroy(list->items[i], components);
  DP_ARRAY_FREE(list);
}

dp_status *dp_iterator_gather(dp_iterator *iterator, const dp_walk *walk, int64_t size,
                              dp_element_list *list, bool *ended_out) {
  int32_t components = iterator->dataset->input->component_count;
  *ended_out = false;
  while ((int64_t)list->count < size) {
    dp_tensor *element = dp_element_create(components);
    bool more;
    dp_status *status = dp_iterator_next_input(iterator, walk, element, &more);
    if (status || !more) {
      dp_free(element);
      *ended_out = !status;
      return status;
    }
    DP_ARRAY_PUSH(list, element);
  }
  return NULL;
}

/* ---- Batch ---- */
typedef struct batch_dataset {
  dp_dataset base;
  int64_t size;
  bool drop_remainder;
  /* PaddedBatch: shapes to pad to and values to pad with; NULL in Batch. */
  dp_partial_shape *padded;
  dp_tensor *values;
} batch_dataset;

typedef struct batch_iterator {
  dp_iterator base;
  bool ended;
} batch_iterator;

static dp_status *stack_padded(const batch_dataset *dataset, dp_tensor *const *elements,
                               int64_t count, dp_tensor *element_out);

static dp_status *batch_next(dp_iterator *base, const dp_walk *walk, dp_tensor *element,
                             bool *more_out) {
  batch_iterator *iterator = (batch_iterator *)base;
  batch_dataset *dataset = (batch_dataset *)base->dataset;
  if (iterator->ended)
    return NULL;
  dp_element_list list = {0};
  dp_status *status = dp_iterator_gather(base, walk, dataset->size, &list, &iterator->ended);
  bool is_short = (int64_t)list.count < dataset->size;
  if (!status && list.count > 0 && !(is_short && dataset->drop_remainder)) {
    status = dataset->padded
                 ? stack_padded(dataset, list.items, (int64_t)list.count, element)
                 : dp_elements_stack(base->dataset, list.items, (int64_t)list.count, element);
    *more_out = true;
  }
  dp_element_list_clear(&list, base->dataset->component_count);
  return status;
}

static const dp_iterator_ops batch_iterator_ops = {sizeof(batch_iterator), batch_next, NULL};

static int64_t batch_cardinality(dp_dataset *base) {
  batch_dataset *dataset = (batch_dataset *)base;
  int64_t input = dp_dataset_cardinality(base->input);
  if (input < 0)
    return input;
  return input / dataset->size + (!dataset->drop_remainder && input % dataset->size != 0);
}

static void batch_destroy(dp_dataset *base) {
  batch_dataset *dataset = (batch_dataset *)base;
  dp_free(dataset->padded);
  dp_element_destroy(dataset->values, base->component_count);
}

static const dp_dataset_ops batch_ops = {"Batch", &batch_iterator_ops, batch_cardinality,
                                         batch_destroy};

void dp_dataset_add_dimension(dp_partial_shape *shape, int64_t size) {
  if (shape->rank < 0 || shape->rank >= DP_MAX_RANK) {
    *shape = dp_partial_shape_unknown();
    return;
  }
  memmove(shape->dims + 1, shape->dims, (size_t)shape->rank * sizeof(int64_t));
  shape->dims[0] = size;
  ++shape->rank;
}

dp_dataset *dp_dataset_batch(dp_dataset *input, int64_t size, bool drop_remainder) {
  batch_dataset *dataset = dp_dataset_create(&batch_ops, sizeof(batch_dataset), input);
  dataset->size = size;
  dataset->drop_remainder = drop_remainder;
  for (int32_t i = 0; i < input->component_count; ++i)
    dp_dataset_add_dimension(&dataset->base.shapes[i], drop_remainder ? size : -1);
  return &dataset->base;
}

static dp_status *batch_size_of(dp_op_context *context, int32_t slot, int64_t *size_out) {
  DP_RETURN_IF_ERROR(dp_dataset_scalar(context, slot, "batch_size", size_out));
  if (*size_out <= 0)
    return DP_INVALID("Batch size must be greater than zero.");
  return NULL;
}

static dp_status *batch_compute(dp_op_context *context, void *state) {
  dp_dataset *input;
  int64_t size;
  bool drop = false;
  DP_RETURN_IF_ERROR(dp_dataset_input(context, 0, &input));
  DP_RETURN_IF_ERROR(batch_size_of(context, 1, &size));
  if (context->input_count > 2)
    DP_RETURN_IF_ERROR(dp_dataset_bool(context, 2, "drop_remainder", &drop));
  return dp_dataset_output(context, 0, dp_dataset_batch(input, size, drop));
}

/* Fills one batch at a time. A prefetch after it runs ahead of the reader, so parallel batches
 * would gain nothing. */
static dp_status *parallel_batch_compute(dp_op_context *context, void *state) {
  dp_dataset *input;
  int64_t size, calls;
  bool drop;
  DP_RETURN_IF_ERROR(dp_dataset_input(context, 0, &input));
  DP_RETURN_IF_ERROR(batch_size_of(context, 1, &size));
  DP_RETURN_IF_ERROR(dp_dataset_scalar(context, 2, "num_parallel_calls", &calls));
  if (calls <= 0 && calls != AUTOTUNE)
    return DP_INVALID("num_parallel_calls must be greater than zero.");
  DP_RETURN_IF_ERROR(dp_dataset_bool(context, 3, "drop_remainder", &drop));
  return dp_dataset_output(context, 0, dp_dataset_batch(input, size, drop));
}

/* ---- PaddedBatch ---- */
/* The shape of a padded element: dimensions that the node gives, else the largest in the batch. */
static dp_status *padded_shape(const batch_dataset *dataset, int32_t component,
                               dp_tensor *const *elements, int64_t count, dp_shape *shape_out) {
  const dp_partial_shape *wanted = &dataset->padded[component];
  int64_t dims[DP_MAX_RANK] = {0};
  for (int64_t j = 0; j < count; ++j) {
    const dp_shape *shape = &elements[j][component].shape;
    if (shape->rank != wanted->rank)
      return DP_INVALID("All elements in a batch must have the same rank as the padded shape for "
                        "component%d: expected rank %d but got element with rank %d",
                        component, wanted->rank, shape->rank);
    for (int i = 0; i < wanted->rank; ++i) {
      if (wanted->dims[i] >= 0 && shape->dims[i] > wanted->dims[i])
        return dp_status_create(DP_DATA_LOSS,
                                "Attempted to pad to a smaller size than the input element.");
      int64_t size = wanted->dims[i] >= 0 ? wanted->dims[i] : shape->dims[i];
      dims[i] = size > dims[i] ? size : dims[i];
    }
  }
  return dp_shape_make(wanted->rank, dims, shape_out);
}

/* Copies an element to the beginning of every dimension of its place in the batch. */
static void place(dp_dtype dtype, const dp_shape *from_shape, const char *from,
                  const dp_shape *to_shape, char *to, int axis) {
  size_t size = dp_dtype_size(dtype);
  int rank = from_shape->rank;
  if (axis >= rank - 1) {
    dp_tensor_copy_elements(dtype, to, from, rank == 0 ? 1 : from_shape->dims[rank - 1]);
    return;
  }
  size_t from_step = (size_t)dp_shape_product(from_shape, axis + 1, rank) * size;
  size_t to_step = (size_t)dp_shape_product(to_shape, axis + 1, rank) * size;
  for (int64_t i = 0; i < from_shape->dims[axis]; ++i)
    place(dtype, from_shape, from + (size_t)i * from_step, to_shape, to + (size_t)i * to_step,
          axis + 1);
}

static void fill(dp_tensor *tensor, const dp_tensor *value) {
  size_t size = dp_dtype_size(tensor->dtype);
  for (int64_t i = 0; i < tensor->shape.elements; ++i)
    dp_tensor_copy_elements(tensor->dtype, (char *)tensor->data + (size_t)i * size, value->data, 1);
}

static dp_status *stack_padded(const batch_dataset *dataset, dp_tensor *const *elements,
                               int64_t count, dp_tensor *element_out) {
  for (int32_t i = 0; i < dataset->base.component_count; ++i) {
    dp_shape shape;
    DP_RETURN_IF_ERROR(padded_shape(dataset, i, elements, count, &shape));
    int64_t dims[DP_MAX_RANK + 1] = {count};
    memcpy(dims + 1, shape.dims, (size_t)shape.rank * sizeof(int64_t));
    dp_shape whole;
    DP_RETURN_IF_ERROR(dp_shape_make(shape.rank + 1, dims, &whole));
    dp_dtype dtype = elements[0][i].dtype;
    if (dtype != dataset->values[i].dtype)
      return DP_INVALID("component %d has another dtype than its padding value", i);
    DP_RETURN_IF_ERROR(dp_tensor_create(dtype, &whole, &element_out[i]));
    fill(&element_out[i], &dataset->values[i]);
    size_t step = (size_t)shape.elements * dp_dtype_size(dtype);
    for (int64_t j = 0; j < count; ++j) {
      const dp_tensor *part = &elements[j][i];
      if (part->shape.elements > 0 && part->dtype == dtype)
        place(dtype, &part->shape, part->data, &shape,
              (char *)element_out[i].data + (size_t)j * step, 0);
    }
  }
  return NULL;
}

static dp_status *read_padding(dp_op_context *context, batch_dataset *dataset, int32_t shapes,
                               int32_t values) {
  int32_t count = dataset->base.component_count;
  dataset->padded = DP_NEW_ARRAY(dp_partial_shape, (size_t)count + 1);
  dataset->values = dp_element_create(count);
  for (int32_t i = 0; i < count; ++i) {
    const dp_tensor *shape = dp_op_input(context, shapes + i);
    const dp_tensor *value = dp_op_input(context, values + i);
    if (shape->shape.rank != 1)
      return DP_INVALID("All padded shapes must be vectors");
    DP_RETURN_IF_ERROR(
        dp_partial_shape_make(shape->shape.dims[0], shape->data, &dataset->padded[i]));
    if (value->shape.rank != 0)
      return DP_INVALID("All padding values must be scalars");
    if (value->dtype != dataset->base.dtypes[i])
      return DP_INVALID("Mismatched type between padding value %d and input dataset's component "
                        "%d: %s vs. %s",
                        i, i, dp_dtype_name(value->dtype), dp_dtype_name(dataset->base.dtypes[i]));
    dataset->values[i] = dp_tensor_copy(value);
    dataset->base.shapes[i] = dataset->padded[i];
    dp_dataset_add_dimension(&dataset->base.shapes[i],
                             dataset->drop_remainder ? dataset->size : -1);
  }
  return NULL;
}

static dp_status *padded_compute(dp_op_context *context, void *state) {
  dp_dataset *input;
  int64_t size;
  bool drop = false;
  int32_t shapes, shapes_end, values, values_end;
  DP_RETURN_IF_ERROR(dp_dataset_input(context, 0, &input));
  DP_RETURN_IF_ERROR(batch_size_of(context, 1, &size));
  DP_RETURN_IF_ERROR(dp_node_input_range(context->node, "padded_shapes", &shapes, &shapes_end));
  DP_RETURN_IF_ERROR(dp_node_input_range(context->node, "padding_values", &values, &values_end));
  if (shapes_end - shapes != input->component_count)
    return DP_INVALID("Number of padded shapes (%d) must match the number of components in the "
                      "input dataset's elements (%d)",
                      shapes_end - shapes, input->component_count);
  if (values_end - values != input->component_count)
    return DP_INVALID("Number of padding values (%d) must match the number of components in the "
                      "input dataset's elements (%d)",
                      values_end - values, input->component_count);
  if (values_end < context->input_count)
    DP_RETURN_IF_ERROR(dp_dataset_bool(context, values_end, "drop_remainder", &drop));
  batch_dataset *dataset = dp_dataset_create(&batch_ops, sizeof(batch_dataset), input);
  dataset->size = size;
  dataset->drop_remainder = drop;
  dp_status *status = read_padding(context, dataset, shapes, values);
  return dp_dataset_finish(context, &dataset->base, status);
}

/* ---- Unbatch: rows of each element ---- */
typedef struct unbatch_iterator {
  dp_iterator base;
  dp_tensor *element;
  int64_t row, count;
} unbatch_iterator;

static dp_status *unbatch_fill(dp_iterator *base, const dp_walk *walk, bool *more_out) {
  unbatch_iterator *iterator = (unbatch_iterator *)base;
  int32_t components = base->dataset->component_count;
  if (!iterator->element)
    iterator->element = dp_element_create(components);
  dp_element_clear(iterator->element, components);
  iterator->row = iterator->count = 0;
  DP_RETURN_IF_ERROR(dp_iterator_next_input(base, walk, iterator->element, more_out));
  for (int32_t i = 0; *more_out && i < components; ++i) {
    const dp_shape *shape = &iterator->element[i].shape;
    if (shape->rank == 0)
      return DP_INVALID("Input element must have a non-scalar value in each component.");
    if (i > 0 && shape->dims[0] != iterator->count)
      return DP_INVALID("Input element must have the same batch size in each component. Component "
                        "0 had size %lld but component %d had size, %lld.",
                        (long long)iterator->count, i, (long long)shape->dims[0]);
    iterator->count = shape->dims[0];
  }
  return NULL;
}

static dp_status *unbatch_next(dp_iterator *base, const dp_walk *walk, dp_tensor *element,
                               bool *more_out) {
  unbatch_iterator *iterator = (unbatch_iterator *)base;
  while (iterator->row >= iterator->count) {
    bool more = true;
    DP_RETURN_IF_ERROR(unbatch_fill(base, walk, &more));
    if (!more)
      return NULL;
  }
  for (int32_t i = 0; i < base->dataset->component_count; ++i) {
    const dp_tensor *whole = &iterator->element[i];
    dp_shape shape = dp_shape_remove(&whole->shape, 0);
    DP_RETURN_IF_ERROR(dp_tensor_create(whole->dtype, &shape, &element[i]));
    size_t step = (size_t)shape.elements * dp_dtype_size(whole->dtype);
    dp_tensor_copy_elements(whole->dtype, element[i].data,
                            (const char *)whole->data + (size_t)iterator->row * step,
                            shape.elements);
  }
  ++iterator->row;
  *more_out = true;
  return NULL;
}

static void unbatch_iterator_destroy(dp_iterator *base) {
  dp_element_destroy(((unbatch_iterator *)base)->element, base->dataset->component_count);
}

static const dp_iterator_ops unbatch_iterator_ops = {sizeof(unbatch_iterator), unbatch_next,
                                                     unbatch_iterator_destroy};

static const dp_dataset_ops unbatch_ops = {"Unbatch", &unbatch_iterator_ops, NULL, NULL};

static dp_status *unbatch_compute(dp_op_context *context, void *state) {
  dp_dataset *input;
  DP_RETURN_IF_ERROR(dp_dataset_input(context, 0, &input));
  dp_dataset *dataset = dp_dataset_create(&unbatch_ops, sizeof(dp_dataset), input);
  for (int32_t i = 0; i < input->component_count; ++i) {
    dp_partial_shape *shape = &dataset->shapes[i];
    if (shape->rank > 0) {
      memmove(shape->dims, shape->dims + 1, (size_t)(shape->rank - 1) * sizeof(int64_t));
      --shape->rank;
    }
  }
  return dp_dataset_output(context, 0, dataset);
}

static const dp_kernel rows[] = {
    {.op = "BatchDataset", .flags = DP_KERNEL_CHEAP, .compute = batch_compute},
    {.op = "BatchDatasetV2", .flags = DP_KERNEL_CHEAP, .compute = batch_compute},
    {.op = "ParallelBatchDataset", .flags = DP_KERNEL_CHEAP, .compute = parallel_batch_compute},
    {.op = "PaddedBatchDataset", .flags = DP_KERNEL_CHEAP, .compute = padded_compute},
    {.op = "PaddedBatchDatasetV2", .flags = DP_KERNEL_CHEAP, .compute = padded_compute},
    {.op = "UnbatchDataset", .flags = DP_KERNEL_CHEAP, .compute = unbatch_compute},
    {.op = "ExperimentalUnbatchDataset", .flags = DP_KERNEL_CHEAP, .compute = unbatch_compute},
};
DP_KERNEL_FAMILY(dataset_batch, rows);
