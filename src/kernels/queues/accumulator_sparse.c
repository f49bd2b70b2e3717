/* Sums of sparse gradients. The sum and a new gradient are both lists of rows with ascending
 * indices; they are merged into a new list, adding rows whose indices are equal. */
#include "kernels/queues/accumulator_internal.h"

#include <string.h>
#include "base/memory.h"

void dp_sparse_sum_deinit(dp_sparse_sum *sum) {
  dp_free(sum->indices);
  dp_free(sum->counts);
  *sum = (dp_sparse_sum){0};
}

/* ---- Checks ---- */
static dp_status *check_dense_shape(const dp_partial_shape *declared, const dp_tensor *shape) {
  if (declared->rank > shape->shape.elements)
    return DP_INVALID("Shape mismatch: expected shape rank at least %d, got %lld", declared->rank,
                      (long long)shape->shape.elements);
  for (int32_t i = 0; i < declared->rank; ++i) {
    int64_t size = dp_tensor_int_at(shape, i);
    if (declared->dims[i] != -1 && declared->dims[i] != size)
      return DP_INVALID("Shape mismatch: expected shape dim %d to be %lld, got %lld", i,
                        (long long)declared->dims[i], (long long)size);
  }
  return NULL;
}

static dp_status *check_indices(const dp_partial_shape *declared, const dp_tensor *indices) {
  const int64_t *index = indices->data;
  bool is_bounded = declared->rank > 0 && declared->dims[0] != -1;
  for (int64_t i = 0; i < indices->shape.elements; ++i) {
    if (index[i] < 0)
      return DP_INVALID("Shape mismatch: index of slice %lld is negative: %lld", (long long)i,
                        (long long)index[i]);
    if (is_bounded && index[i] >= declared->dims[0])
      return DP_INVALID("Shape mismatch: index of slice %lld exceeded limits of shape; index is "
                        "%lld exceeded %lld",
                        (long long)i, (long long)index[i], (long long)declared->dims[0]);
  }
  return NULL;
}

static dp_status *check_rows(const dp_accumulator *accumulator, const dp_shape *rows) {
  const dp_partial_shape *declared = &accumulator->shape;
  const dp_shape *held = &accumulator->value.shape;
  if (accumulator->count > 0 && held->rank != rows->rank)
    return DP_INVALID("Shape mismatch: expected values rank %d, got %d", held->rank, rows->rank);
  if (accumulator->count == 0 && declared->rank > rows->rank)
    return DP_INVALID("Shape mismatch: expected values rank at least %d, got %d", declared->rank,
                      rows->rank);
  for (int32_t i = 1; i < rows->rank; ++i) {
    int64_t wanted = accumulator->count > 0 ? held->dims[i]
                     : i < declared->rank   ? declared->dims[i]
                                            : -1;
    if (wanted != -1 && wanted != rows->dims[i])
      return DP_INVALID("Shape mismatch: expected values dim %d to be %lld, got %lld", i,
                        (long long)wanted, (long long)rows->dims[i]);
  }
  return NULL;
}

dp_status *dp_sparse_sum_check(const dp_accumulator *accumulator, const dp_tensor *indices,
                               const dp_tensor *values, const dp_tensor *shape) {
  if (indices->shape.rank != 1)
    return DP_INVALID("Input indices should be vector but received shape: %s",
                      dp_shape_text(&indices->shape));
  if (values->shape.rank == 0)
    return DP_INVALID("Values cannot be 0-dimensional.");
  if (values->shape.dims[0] != indices->shape.elements)
    return DP_INVALID("Expected %lld non-empty input values, got %lld",
                      (long long)indices->shape.elements, (long long)values->shape.dims[0]);
  if (shape)
    DP_RETURN_IF_ERROR(check_dense_shape(&accumulator->shape, shape));
  DP_RETURN_IF_ERROR(check_indices(&accumulator->shape, indices));
  return check_rows(accumulator, &values->shape);
}

/* ---- Sums ---- */
static dp_status *start_sum(dp_accumulator *accumulator, const dp_tensor *indices,
                            const dp_tensor *values) {
  dp_tensor copy;
  DP_RETURN_IF_ERROR(dp_tensor_clone(values, &copy));
  dp_tensor_deinit(&accumulator->value);
  accumulator->value = copy;
  dp_sparse_sum *sum = &accumulator->rows;
  dp_sparse_sum_deinit(sum);
  sum->count = indices->shape.elements;
  sum->indices = DP_NEW_ARRAY(int64_t, (size_t)sum->count + 1);
  memcpy(sum->indices, indices->data, sizeof(int64_t) * (size_t)sum->count);
  sum->counts = DP_NEW_ARRAY(int32_t, (size_t)sum->count + 1);
  for (int64_t i = 0; i < sum->count; ++i)
    sum->counts[i] = 1;
  return NULL;
}

/* The number of rows of the merged list. */
static int64_t count_merged(const dp_sparse_sum *sum, const int64_t *index, int64_t count) {
  int64_t i = 0, j = 0, merged = 0;
  for (; i < sum->count && j < count; ++merged) {
    int64_t a = sum->indices[i], b = index[j];
    i += a <= b;
    j += b <= a;
  }
  return merged + (sum->count - i) + (count - j);
}

typedef struct merge_rows {
  const dp_combine *add;
  const char *old_rows, *new_rows;
  char *to;
  int64_t elements; /* per row */
  size_t bytes;
} merge_rows;

static dp_status *merge(const merge_rows *work, const dp_sparse_sum *old, const int64_t *index,
                        int64_t count, dp_sparse_sum *sum) {
  int64_t i = 0, j = 0;
  for (int64_t k = 0; k < sum->count; ++k) {
    bool has_old = i < old->count && (j >= count || old->indices[i] <= index[j]);
    bool has_new = j < count && (i >= old->count || index[j] <= old->indices[i]);
    char *to = work->to + (size_t)k * work->bytes;
    const char *added = work->new_rows + (size_t)j * work->bytes;
    sum->indices[k] = has_old ? old->indices[i] : index[j];
    sum->counts[k] = (has_old ? old->counts[i] : 0) + has_new;
    memcpy(to, has_old ? work->old_rows + (size_t)i * work->bytes : added, work->bytes);
    if (has_old && has_new)
      DP_RETURN_IF_ERROR(dp_combine_run(work->add, to, added, work->elements));
    i += has_old;
    j += has_new;
  }
  return NULL;
}

dp_status *dp_sparse_sum_add(dp_accumulator *accumulator, const dp_tensor *indices,
                             const dp_tensor *values) {
  if (accumulator->count == 0)
    return start_sum(accumulator, indices, values);
  const dp_sparse_sum *old = &accumulator->rows;
  const int64_t *index = indices->data;
  int64_t count = indices->shape.elements;
  dp_sparse_sum sum = {.count = count_merged(old, index, count)};
  dp_shape shape = dp_shape_with(&values->shape, 0, sum.count);
  dp_tensor value;
  DP_RETURN_IF_ERROR(dp_tensor_create(accumulator->dtype, &shape, &value));
  sum.indices = DP_NEW_ARRAY(int64_t, (size_t)sum.count + 1);
  sum.counts = DP_NEW_ARRAY(int32_t, (size_t)sum.count + 1);
  merge_rows work = {.add = &accumulator->add,
                     .old_rows = accumulator->value.data,
                     .new_rows = values->data,
                     .to = value.data,
                     .elements = dp_shape_product(&shape, 1, shape.rank)};
  work.bytes = (size_t)work.elements * dp_dtype_size(accumulator->dtype);
  dp_status *status = merge(&work, old, index, count, &sum);
  if (status) {
    dp_tensor_deinit(&value);
    dp_sparse_sum_deinit(&sum);
    return status;
  }
  dp_sparse_sum_deinit(&accumulator->rows);
  dp_tensor_deinit(&accumulator->value);
  accumulator->rows = sum;
  accumulator->value = value;
  return NULL;
}

dp_status *dp_sparse_sum_tensors(const dp_sparse_sum *sum, const dp_tensor *value,
                                 const dp_partial_shape *declared, dp_tensor *indices_out,
                                 dp_tensor *shape_out) {
  dp_shape shape = dp_shape_vector(sum->count);
  DP_RETURN_IF_ERROR(dp_tensor_create(DP_INT64, &shape, indices_out));
  memcpy(indices_out->data, sum->indices, sizeof(int64_t) * (size_t)sum->count);
  shape = dp_shape_vector(value->shape.rank);
  dp_status *status = dp_tensor_create(DP_INT64, &shape, shape_out);
  if (status) {
    dp_tensor_deinit(indices_out);
    return status;
  }
  int64_t *dims = shape_out->data;
  memcpy(dims, value->shape.dims, sizeof(int64_t) * (size_t)value->shape.rank);
  dims[0] = declared->rank > 0 ? declared->dims[0] : -1;
  return NULL;
}
