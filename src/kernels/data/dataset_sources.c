/* Datasets of tensors and numbers: Tensor (one element), TensorSlice (one per row),
 * SparseTensorSlice and Range. A dataset retains its tensors; an element shares their memory where
 * alignment allows it. */
#include <string.h>
#include "kernels/data/dataset_internal.h"
#include "kernels/shared/family.h"

/* ---- Tensor and TensorSlice ---- */
typedef struct tensor_dataset {
  dp_dataset base;
  dp_tensor *components;
  int64_t count; /* number of elements: 1, or the number of rows */
  bool is_sliced;
} tensor_dataset;

typedef struct counting_iterator {
  dp_iterator base;
  int64_t next;
} counting_iterator;

/* One row of a tensor, without the first dimension. */
static dp_status *take_row(const dp_tensor *tensor, int64_t row, dp_tensor *row_out) {
  dp_shape shape = dp_shape_remove(&tensor->shape, 0);
  if (dp_dtype_is_plain(tensor->dtype) &&
      (size_t)shape.elements * dp_dtype_size(tensor->dtype) >= 4096) {
    dp_tensor slice = dp_tensor_slice(tensor, row, row + 1);
    if ((uintptr_t)slice.data % DP_BUFFER_ALIGNMENT == 0) { /* aligned: share the memory */
      *row_out = dp_tensor_reshaped(&slice, &shape);
      dp_tensor_deinit(&slice);
      return NULL;
    }
    dp_tensor_deinit(&slice);
  }
  DP_RETURN_IF_ERROR(dp_tensor_create(tensor->dtype, &shape, row_out));
  dp_tensor_copy_elements(tensor->dtype, row_out->data,
                          (const char *)tensor->data +
                              (size_t)(row * shape.elements) * dp_dtype_size(tensor->dtype),
                          shape.elements);
  return NULL;
}

static dp_status *tensor_next(dp_iterator *base, const dp_walk *walk, dp_tensor *element,
                              bool *more_out) {
  counting_iterator *iterator = (counting_iterator *)base;
  tensor_dataset *dataset = (tensor_dataset *)base->dataset;
  if (iterator->next >= dataset->count)
    return NULL;
  int64_t row = iterator->next++;
  for (int32_t i = 0; i < base->dataset->component_count; ++i) {
    if (dataset->is_sliced)
      DP_RETURN_IF_ERROR(take_row(&dataset->components[i], row, &element[i]));
    else
      element[i] = dp_tensor_copy(&dataset->components[i]);
  }
  *more_out = true;
  return NULL;
}

static const dp_iterator_ops tensor_iterator_ops = {sizeof(counting_iterator), tensor_next, NULL};

static int64_t tensor_cardinality(dp_dataset *dataset) {
  return ((tensor_dataset *)dataset)->count;
}

static void tensor_destroy(dp_dataset *dataset) {
  dp_element_destroy(((tensor_dataset *)dataset)->components, dataset->component_count);
}

static const dp_dataset_ops tensor_ops = {"Tensor", &tensor_iterator_ops, tensor_cardinality,
                                          tensor_destroy};

static dp_status *check_rows(dp_op_context *context) {
  for (int32_t i = 0; i < context->input_count; ++i) {
    const dp_shape *shape = &dp_op_input(context, i)->shape;
    if (shape->rank < 1)
      return DP_INVALID("All components must be at least 1-dimensional");
    if (shape->dims[0] != dp_op_input(context, 0)->shape.dims[0])
      return DP_INVALID("All components must have the same size in the 0th dimension");
  }
  return NULL;
}

static dp_status *make_tensors(dp_op_context *context, bool is_sliced) {
  if (is_sliced)
    DP_RETURN_IF_ERROR(check_rows(context));
  tensor_dataset *dataset = dp_dataset_create(&tensor_ops, sizeof(tensor_dataset), NULL);
  int32_t count = context->input_count;
  dp_dtype *dtypes = DP_NEW_ARRAY(dp_dtype, (size_t)count + 1);
  dp_partial_shape *shapes = DP_NEW_ARRAY(dp_partial_shape, (size_t)count + 1);
  dataset->components = dp_element_create(count);
  dataset->is_sliced = is_sliced;
  dataset->count = is_sliced ? dp_op_input(context, 0)->shape.dims[0] : 1;
  for (int32_t i = 0; i < count; ++i) {
    const dp_tensor *input = dp_op_input(context, i);
    dataset->components[i] = dp_tensor_copy(input);
    dtypes[i] = input->dtype;
    shapes[i].rank = input->shape.rank - is_sliced;
    memcpy(shapes[i].dims, input->shape.dims + is_sliced, (size_t)shapes[i].rank * sizeof(int64_t));
  }
  dp_dataset_set_components(&dataset->base, count, dtypes, shapes);
  dp_free(dtypes);
  dp_free(shapes);
  return dp_dataset_output(context, 0, &dataset->base);
}

static dp_status *tensor_compute(dp_op_context *context, void *state) {
  return make_tensors(context, false);
}

static dp_status *slice_compute(dp_op_context *context, void *state) {
  return make_tensors(context, true);
}

/* ---- SparseTensorSlice: element i is row i as (indices, values, shape) ---- */
typedef struct sparse_dataset {
  dp_dataset base;
  dp_tensor indices, values, shape;
} sparse_dataset;

typedef struct sparse_iterator {
  dp_iterator base;
  int64_t row, at; /* the next row, the next entry */
} sparse_iterator;

static dp_status *sparse_row(const sparse_dataset *dataset, int64_t begin, int64_t end,
                             dp_tensor *element) {
  int64_t rank = dataset->indices.shape.dims[1], count = end - begin;
  dp_shape shape = dp_shape_matrix(count, rank - 1);
  DP_RETURN_IF_ERROR(dp_tensor_create(DP_INT64, &shape, &element[0]));
  const int64_t *from = (const int64_t *)dataset->indices.data + begin * rank;
  for (int64_t i = 0; i < count; ++i)
    memcpy((int64_t *)element[0].data + i * (rank - 1), from + i * rank + 1,
           (size_t)(rank - 1) * sizeof(int64_t));
  shape = dp_shape_vector(count);
  DP_RETURN_IF_ERROR(dp_tensor_create(dataset->values.dtype, &shape, &element[1]));
  dp_tensor_copy_elements(dataset->values.dtype, element[1].data,
                          (const char *)dataset->values.data +
                              (size_t)begin * dp_dtype_size(dataset->values.dtype),
                          count);
  shape = dp_shape_vector(rank - 1);
  DP_RETURN_IF_ERROR(dp_tensor_create(DP_INT64, &shape, &element[2]));
  memcpy(element[2].data, (const int64_t *)dataset->shape.data + 1,
         (size_t)(rank - 1) * sizeof(int64_t));
  return NULL;
}

static dp_status *sparse_next(dp_iterator *base, const dp_walk *walk, dp_tensor *element,
                              bool *more_out) {
  sparse_iterator *iterator = (sparse_iterator *)base;
  sparse_dataset *dataset = (sparse_dataset *)base->dataset;
  if (iterator->row >= ((const int64_t *)dataset->shape.data)[0])
    return NULL;
  int64_t rank = dataset->indices.shape.dims[1], entries = dataset->indices.shape.dims[0];
  const int64_t *indices = dataset->indices.data;
  int64_t begin = iterator->at, end = begin;
  while (end < entries && indices[end * rank] == iterator->row)
    ++end;
  iterator->at = end;
  ++iterator->row;
  *more_out = true;
  return sparse_row(dataset, begin, end, element);
}

static const dp_iterator_ops sparse_iterator_ops = {sizeof(sparse_iterator), sparse_next, NULL};

static int64_t sparse_cardinality(dp_dataset *dataset) {
  return ((const int64_t *)((sparse_dataset *)dataset)->shape.data)[0];
}

static void sparse_destroy(dp_dataset *dataset) {
  dp_tensor_deinit(&((sparse_dataset *)dataset)->indices);
  dp_tensor_deinit(&((sparse_dataset *)dataset)->values);
  dp_tensor_deinit(&((sparse_dataset *)dataset)->shape);
}

static const dp_dataset_ops sparse_ops = {"SparseTensorSlice", &sparse_iterator_ops,
                                          sparse_cardinality, sparse_destroy};

static dp_status *check_sparse(const dp_tensor *indices, const dp_tensor *values,
                               const dp_tensor *shape) {
  if (indices->shape.rank != 2)
    return DP_INVALID("Input indices must be a matrix. Got: %s", dp_shape_text(&indices->shape));
  if (values->shape.rank != 1)
    return DP_INVALID("Input values must be a vector. Got: %s", dp_shape_text(&values->shape));
  if (shape->shape.rank != 1)
    return DP_INVALID("Input shape must be a vector. Got: %s", dp_shape_text(&shape->shape));
  if (values->shape.dims[0] != indices->shape.dims[0])
    return DP_INVALID("Number of values must match first dimension of indices. Got %lld values, "
                      "indices shape: %s",
                      (long long)values->shape.dims[0], dp_shape_text(&indices->shape));
  if (shape->shape.dims[0] != indices->shape.dims[1])
    return DP_INVALID("Number of dimensions must match second dimension of indices. Got %lld "
                      "dimensions, indices shape: %s",
                      (long long)shape->shape.dims[0], dp_shape_text(&indices->shape));
  if (shape->shape.dims[0] < 1)
    return DP_INVALID("The shape argument requires at least one element.");
  int64_t rank = shape->shape.dims[0], previous = -1;
  const int64_t *sizes = shape->data;
  for (int64_t i = 0; i < indices->shape.dims[0]; ++i) {
    const int64_t *index = (const int64_t *)indices->data + i * rank;
    if (index[0] < previous)
      return dp_status_create(DP_UNIMPLEMENTED,
                              "The SparseTensor must be ordered in the batch dimension; handling "
                              "arbitrarily ordered input is not currently supported.");
    previous = index[0];
    for (int64_t j = 0; j < rank; ++j)
      if (index[j] < 0 || index[j] >= sizes[j])
        return DP_INVALID("index %lld of dimension %lld is out of bounds: need 0 <= index < %lld",
                          (long long)index[j], (long long)j, (long long)sizes[j]);
  }
  return NULL;
}

static dp_status *sparse_compute(dp_op_context *context, void *state) {
  const dp_tensor *indices = dp_op_input(context, 0), *values = dp_op_input(context, 1);
  const dp_tensor *shape = dp_op_input(context, 2);
  DP_RETURN_IF_ERROR(check_sparse(indices, values, shape));
  sparse_dataset *dataset = dp_dataset_create(&sparse_ops, sizeof(sparse_dataset), NULL);
  dataset->indices = dp_tensor_copy(indices);
  dataset->values = dp_tensor_copy(values);
  dataset->shape = dp_tensor_copy(shape);
  int64_t rank = shape->shape.dims[0] - 1;
  dp_dtype dtypes[3] = {DP_INT64, values->dtype, DP_INT64};
  dp_partial_shape shapes[3] = {{2, {-1, rank}}, {1, {-1}}, {1, {rank}}};
  dp_dataset_set_components(&dataset->base, 3, dtypes, shapes);
  return dp_dataset_output(context, 0, &dataset->base);
}

/* ---- Range ---- */
typedef struct range_dataset {
  dp_dataset base;
  int64_t start, stop, step;
} range_dataset;

static dp_status *number_tensor(dp_dtype dtype, int64_t value, dp_tensor *tensor_out) {
  dp_shape shape = dp_shape_scalar();
  DP_RETURN_IF_ERROR(dp_tensor_create(dtype, &shape, tensor_out));
  switch (dtype) {
  case DP_INT64:
  case DP_UINT64:
    *(int64_t *)tensor_out->data = value;
    return NULL;
  case DP_INT32:
  case DP_UINT32:
    *(int32_t *)tensor_out->data = (int32_t)value;
    return NULL;
  case DP_INT16:
  case DP_UINT16:
    *(int16_t *)tensor_out->data = (int16_t)value;
    return NULL;
  case DP_INT8:
  case DP_UINT8:
    *(int8_t *)tensor_out->data = (int8_t)value;
    return NULL;
  case DP_FLOAT:
    *(float *)tensor_out->data = (float)value;
    return NULL;
  case DP_DOUBLE:
    *(double *)tensor_out->data = (double)value;
    return NULL;
  case DP_HALF:
    *(uint16_t *)tensor_out->data = dp_half_from_float((float)value);
    return NULL;
  case DP_BFLOAT16:
    *(uint16_t *)tensor_out->data = dp_bfloat16_from_float((float)value);
    return NULL;
  default:
    return DP_INVALID("Unsupported data type: %s", dp_dtype_name(dtype));
  }
}

static int64_t range_cardinality(dp_dataset *base) {
  range_dataset *range = (range_dataset *)base;
  if (range->step > 0)
    return range->stop > range->start
               ? (int64_t)(((uint64_t)range->stop - (uint64_t)range->start - 1) /
                           (uint64_t)range->step) +
                     1
               : 0;
  return range->start > range->stop
             ? (int64_t)(((uint64_t)range->start - (uint64_t)range->stop - 1) /
                         (0 - (uint64_t)range->step)) +
                   1
             : 0;
}

static dp_status *range_next(dp_iterator *base, const dp_walk *walk, dp_tensor *element,
                             bool *more_out) {
  counting_iterator *iterator = (counting_iterator *)base;
  range_dataset *range = (range_dataset *)base->dataset;
  if (iterator->next >= range_cardinality(base->dataset))
    return NULL;
  int64_t value =
      (int64_t)((uint64_t)range->start + (uint64_t)iterator->next * (uint64_t)range->step);
  ++iterator->next;
  *more_out = true;
  return number_tensor(base->dataset->dtypes[0], value, &element[0]);
}

static const dp_iterator_ops range_iterator_ops = {sizeof(counting_iterator), range_next, NULL};

static const dp_dataset_ops range_ops = {"Range", &range_iterator_ops, range_cardinality, NULL};

static dp_status *range_compute(dp_op_context *context, void *state) {
  int64_t start, stop, step;
  DP_RETURN_IF_ERROR(dp_dataset_scalar(context, 0, "start", &start));
  DP_RETURN_IF_ERROR(dp_dataset_scalar(context, 1, "stop", &stop));
  DP_RETURN_IF_ERROR(dp_dataset_scalar(context, 2, "step", &step));
  if (step == 0)
    return DP_INVALID("step must be a non-zero integer.");
  range_dataset *range = dp_dataset_create(&range_ops, sizeof(range_dataset), NULL);
  range->start = start;
  range->stop = stop;
  range->step = step;
  dp_status *status = dp_dataset_components_from_node(&range->base, context->node);
  if (!status && range->base.component_count != 1)
    status = DP_INVALID("a range has one component, not %d", range->base.component_count);
  return dp_dataset_finish(context, &range->base, status);
}

static const dp_kernel rows[] = {
    {.op = "TensorDataset", .flags = DP_KERNEL_CHEAP, .compute = tensor_compute},
    {.op = "TensorSliceDataset", .flags = DP_KERNEL_CHEAP, .compute = slice_compute},
    {.op = "SparseTensorSliceDataset", .compute = sparse_compute},
    {.op = "RangeDataset", .flags = DP_KERNEL_CHEAP, .compute = range_compute},
};
DP_KERNEL_FAMILY(dataset_sources, rows);
