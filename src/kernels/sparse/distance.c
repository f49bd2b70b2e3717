/* EditDistance: how many insertions, deletions and replacements turn one sequence into another, for
 * each pair of sequences that two sparse tensors hold along their last dimension. */
#include "kernels/shared/family.h"

#include <math.h>
#include <string.h>
#include "kernels/shared/sparse.h"

static dp_status *distance_create(const dp_kernel_setup *setup, void *memory) {
  return dp_node_get_bool(setup->node, "normalize", memory);
}

static bool is_equal(dp_dtype dtype, const void *a, const void *b, size_t size) {
  if (dtype == DP_STRING) {
    dp_view left = dp_tstring_view(a), right = dp_tstring_view(b);
    return left.length == right.length && !memcmp(left.data, right.data, left.length);
  }
  float x, y;
  switch (dtype) {
  case DP_FLOAT:
    return *(const float *)a == *(const float *)b;
  case DP_DOUBLE:
    return *(const double *)a == *(const double *)b;
  case DP_COMPLEX64:
    return *(const float *)a == *(const float *)b && ((const float *)a)[1] == ((const float *)b)[1];
  case DP_COMPLEX128:
    return *(const double *)a == *(const double *)b &&
           ((const double *)a)[1] == ((const double *)b)[1];
  case DP_HALF:
  case DP_BFLOAT16:
    dp_kernel_widen(dtype, a, &x, 1);
    dp_kernel_widen(dtype, b, &y, 1);
    return x == y;
  default:
    return memcmp(a, b, size) == 0;
  }
}

/* A run of values of one side. */
typedef struct sequence {
  const char *items;
  int64_t count;
} sequence;

/* The classic table, one row at a time: row[j] is the distance of a's first i items to b's first j.
 * `row` has room for b.count + 1 numbers. */
static int64_t levenshtein(dp_dtype dtype, sequence a, sequence b, int64_t *row) {
  size_t size = dp_dtype_size(dtype);
  for (int64_t j = 0; j <= b.count; ++j)
    row[j] = j;
  for (int64_t i = 0; i < a.count; ++i) {
    int64_t diagonal = row[0];
    row[0] = i + 1;
    for (int64_t j = 0; j < b.count; ++j) {
      int64_t above = row[j + 1];
      bool same = is_equal(dtype, a.items + (size_t)i * size, b.items + (size_t)j * size, size);
      int64_t best = diagonal + !same;
      if (above + 1 < best)
        best = above + 1;
      if (row[j] + 1 < best)
        best = row[j] + 1;
      row[j + 1] = best;
      diagonal = above;
    }
  }
  return row[b.count];
}

static dp_status *check_operand(const dp_op_context *context, int32_t slot, const char *name) {
  const dp_shape *indices = &dp_op_input(context, slot)->shape;
  const dp_shape *values = &dp_op_input(context, slot + 1)->shape;
  const dp_shape *shape = &dp_op_input(context, slot + 2)->shape;
  if (indices->rank != 2)
    return DP_INVALID("%s_indices should be a matrix, but got shape: %s", name,
                      dp_shape_text(indices));
  if (values->rank != 1)
    return DP_INVALID("%s_values should be a vector, but got shape: %s", name,
                      dp_shape_text(values));
  if (shape->rank != 1)
    return DP_INVALID("%s_shape should be a vector, but got shape: %s", name, dp_shape_text(shape));
  if (values->elements != indices->dims[0])
    return DP_INVALID("Expected %s_values.NumElements == #rows(%s_indices), their shapes are: %s "
                      "and %s",
                      name, name, dp_shape_text(values), dp_shape_text(indices));
  if (shape->elements != indices->dims[1])
    return DP_INVALID("Expected %s_shape.NumElements == #cols(%s_indices), their shapes are: %s "
                      "and %s",
                      name, name, dp_shape_text(shape), dp_shape_text(indices));
  return NULL;
}

static dp_status *distance_open(dp_op_context *context, dp_sparse *hypothesis, dp_sparse *truth,
                                dp_shape *output) {
  dp_shape dense;
  DP_RETURN_IF_ERROR(check_operand(context, 0, "hypothesis"));
  DP_RETURN_IF_ERROR(check_operand(context, 3, "truth"));
  DP_RETURN_IF_ERROR(dp_sparse_open(context, 0, 1, 2, &dp_sparse_plain_words, hypothesis));
  DP_RETURN_IF_ERROR(dp_sparse_open(context, 3, 4, 5, &dp_sparse_plain_words, truth));
  if (truth->rank < 2)
    return DP_INVALID("Input SparseTensors must have rank at least 2, but truth_shape rank is: %d",
                      truth->rank);
  if (truth->rank != hypothesis->rank)
    return DP_INVALID("Expected truth and hypothesis to have matching ranks, but their shapes are: "
                      "[%d] and [%d]",
                      truth->rank, hypothesis->rank);
  DP_RETURN_IF_ERROR(dp_sparse_dense_shape(hypothesis, &dense));
  DP_RETURN_IF_ERROR(dp_sparse_dense_shape(truth, &dense));
  DP_RETURN_IF_ERROR(dp_sparse_check_bounds(hypothesis));
  DP_RETURN_IF_ERROR(dp_sparse_check_bounds(truth));
  int64_t dims[DP_MAX_RANK];
  for (int32_t i = 0; i < truth->rank - 1; ++i)
    dims[i] = truth->dims[i] > hypothesis->dims[i] ? truth->dims[i] : hypothesis->dims[i];
  DP_RETURN_IF_ERROR(dp_shape_make(truth->rank - 1, dims, output));
  if (output->elements == 0)
    return DP_INVALID("Got output shape %s which has 0 elements", dp_shape_text(output));
  return NULL;
}

/* The sequence that begins at *cursor, which moves behind it. */
static sequence next_sequence(const dp_sparse *sparse, int64_t *cursor) {
  static const int32_t leading[DP_MAX_RANK] = {0, 1, 2,  3,  4,  5,  6,  7,
                                               8, 9, 10, 11, 12, 13, 14, 15};
  dp_sparse_order natural = {0};
  int64_t begin = *cursor;
  *cursor = dp_sparse_group_end(sparse, &natural, begin, leading, sparse->rank - 1);
  size_t size = dp_dtype_size(sparse->values->dtype);
  return (sequence){(const char *)sparse->values->data + (size_t)begin * size, *cursor - begin};
}

static float distance_of(dp_dtype dtype, sequence truth, sequence hypothesis, bool normalize,
                         int64_t *row) {
  if (!truth.count)
    return normalize ? INFINITY : (float)hypothesis.count;
  if (!hypothesis.count)
    return normalize ? 1.0f : (float)truth.count;
  float distance = (float)levenshtein(dtype, truth, hypothesis, row);
  return normalize ? distance / (float)truth.count : distance;
}

static dp_status *distance_compute(dp_op_context *context, void *memory) {
  dp_sparse hypothesis, truth;
  dp_shape shape;
  dp_tensor *output;
  dp_buffer *row;
  DP_RETURN_IF_ERROR(distance_open(context, &hypothesis, &truth, &shape));
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &shape, &output));
  memset(output->data, 0, dp_tensor_bytes(output));
  DP_RETURN_IF_ERROR(dp_buffer_create((size_t)(hypothesis.count + 1) * sizeof(int64_t), &row));
  int32_t rank = truth.rank;
  for (int64_t h = 0, t = 0; h < hypothesis.count || t < truth.count;) {
    const int64_t *h_row = hypothesis.indices + h * rank, *t_row = truth.indices + t * rank;
    int order = h == hypothesis.count ? -1
                : t == truth.count    ? 1
                                      : dp_sparse_compare(t_row, h_row, rank - 1);
    sequence of_truth = {0}, of_hypothesis = {0};
    const int64_t *group = order <= 0 ? t_row : h_row;
    int64_t at = 0;
    for (int i = 0; i < shape.rank; ++i)
      at = at * shape.dims[i] + group[i];
    if (order <= 0)
      of_truth = next_sequence(&truth, &t);
    if (order >= 0)
      of_hypothesis = next_sequence(&hypothesis, &h);
    ((float *)output->data)[at] =
        distance_of(truth.values->dtype, of_truth, of_hypothesis, *(const bool *)memory, row->data);
  }
  dp_buffer_release(row);
  return NULL;
}

static const dp_kernel rows[] = {
    {.op = "EditDistance",
     .types = {{"T", DP_SET_NUMBERS | DP_SET(BOOL) | DP_SET(STRING)}},
     .state_size = sizeof(bool),
     .create = distance_create,
     .compute = distance_compute},
};
DP_KERNEL_FAMILY(sparse_distance, rows);
