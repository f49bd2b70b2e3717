/* Two sparse tensors as one: SparseAdd and its gradient, SparseSparseMaximum and -Minimum. The
 * entries of both must be sorted; they are merged in one pass. An entry that only one side has is
 * combined with zero. */
#include "kernels/shared/family.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "kernels/loops/types.h"
#include "kernels/shared/combine.h"
#include "kernels/shared/sparse.h"

/* A row of the union: its position on each side, or -1. */
typedef struct union_row {
  int64_t a, b;
} union_row;

/* SparseAdd checks both sides together. */
static dp_status *check_sum(const dp_op_context *context) {
  const dp_shape *shapes[6];
  for (int i = 0; i < 6; ++i)
    shapes[i] = &dp_op_input(context, i)->shape;
  if (shapes[0]->rank != 2 || shapes[3]->rank != 2)
    return DP_INVALID("Input indices should be matrices but received shapes: %s and %s",
                      dp_shape_text(shapes[0]), dp_shape_text(shapes[3]));
  if (shapes[1]->rank != 1 || shapes[4]->rank != 1)
    return DP_INVALID("Input values should be vectors but received shapes: %s and %s",
                      dp_shape_text(shapes[1]), dp_shape_text(shapes[4]));
  if (shapes[1]->dims[0] != shapes[0]->dims[0] || shapes[4]->dims[0] != shapes[3]->dims[0])
    return DP_INVALID("Expected %lld and %lld non-empty input values, got %lld and %lld",
                      (long long)shapes[0]->dims[0], (long long)shapes[3]->dims[0],
                      (long long)shapes[1]->dims[0], (long long)shapes[4]->dims[0]);
  if (shapes[0]->dims[1] != shapes[3]->dims[1])
    return DP_INVALID("Input indices must have the same dimension, got %lld and %lld",
                      (long long)shapes[0]->dims[1], (long long)shapes[3]->dims[1]);
  if (shapes[2]->rank != 1 || shapes[5]->rank != 1)
    return DP_INVALID("Input shapes should be a vector but received shapes %s and %s",
                      dp_shape_text(shapes[2]), dp_shape_text(shapes[5]));
  if (shapes[2]->dims[0] != shapes[0]->dims[1])
    return DP_INVALID("Second dimension of a_indices and length of a_shape must match, got %lld "
                      "and %lld",
                      (long long)shapes[0]->dims[1], (long long)shapes[2]->dims[0]);
  return NULL;
}

static dp_status *open_pair(dp_op_context *context, dp_sparse *a, dp_sparse *b) {
  if (dp_node_is(context->node, "SparseAdd"))
    DP_RETURN_IF_ERROR(check_sum(context));
  DP_RETURN_IF_ERROR(dp_sparse_open(context, 0, 1, 2, &dp_sparse_rank_words, a));
  DP_RETURN_IF_ERROR(dp_sparse_open(context, 3, 4, 5, &dp_sparse_rank_words, b));
  if (a->rank != b->rank)
    return DP_INVALID("Operands do not have the same ranks; got %d and %d", a->rank, b->rank);
  for (int32_t i = 0; i < a->rank; ++i) {
    if (a->dims[i] != b->dims[i])
      return DP_INVALID("Operands' shapes do not match: got %lld and %lld for dimension %d",
                        (long long)a->dims[i], (long long)b->dims[i], i);
  }
  return NULL;
}

/* `rows` has room for the rows of both sides; returns the number of rows of the union. */
static int64_t merge(const dp_sparse *a, const dp_sparse *b, union_row *rows) {
  int64_t i = 0, j = 0, count = 0;
  while (i < a->count || j < b->count) {
    int order = i == a->count   ? 1
                : j == b->count ? -1
                                : dp_sparse_compare(a->indices + i * a->rank,
                                                    b->indices + j * a->rank, a->rank);
    rows[count++] = (union_row){order <= 0 ? i++ : -1, order >= 0 ? j++ : -1};
  }
  return count;
}

static dp_status *output_rows(dp_op_context *context, const dp_sparse *a, const dp_sparse *b,
                              const union_row *rows, int64_t count) {
  int64_t *to;
  DP_RETURN_IF_ERROR(dp_sparse_allocate_indices(context, 0, count, a->rank, &to));
  for (int64_t i = 0; i < count; ++i, to += a->rank) {
    const int64_t *from =
        rows[i].a >= 0 ? a->indices + rows[i].a * a->rank : b->indices + rows[i].b * a->rank;
    memcpy(to, from, (size_t)a->rank * sizeof *to);
  }
  return NULL;
}

/* ---- SparseAdd ---- */
/* Each loop adds the two sides, drops sums below the threshold and closes the gaps. */
#define ADD(type, real, sum, magnitude)                                                            \
  {                                                                                                \
    const type *left = a, *right = b;                                                              \
    type *result = to;                                                                             \
    real limit = *(const real *)threshold;                                                         \
    for (int64_t i = 0; i < count; ++i) {                                                          \
      type value;                                                                                  \
      if (rows[i].a >= 0 && rows[i].b >= 0) {                                                      \
        type x = left[rows[i].a], y = right[rows[i].b];                                            \
        value = sum;                                                                               \
        if (!(limit <= (magnitude)))                                                               \
          continue;                                                                                \
      } else {                                                                                     \
        value = rows[i].a >= 0 ? left[rows[i].a] : right[rows[i].b];                               \
      }                                                                                            \
      rows[kept] = rows[i];                                                                        \
      result[kept++] = value;                                                                      \
    }                                                                                              \
    break;                                                                                         \
  }
#define WRAPPED(type, unsigned_type) (type)((unsigned_type)x + (unsigned_type)y)
/* The smallest integer is its own magnitude, as in C++. */
#define MAGNITUDE(type, unsigned_type) (value < 0 ? (type)(0u - (unsigned_type)value) : value)

static int64_t add_values(dp_dtype dtype, const void *a, const void *b, const void *threshold,
                          union_row *rows, int64_t count, void *to) {
  int64_t kept = 0;
  switch (dtype) {
  case DP_FLOAT:
    ADD(float, float, x + y, fabsf(value))
  case DP_DOUBLE:
    ADD(double, double, x + y, fabs(value))
  case DP_INT8: /* the magnitude is an int there: 128 for -128 */
    ADD(int8_t, int8_t, WRAPPED(int8_t, uint8_t), abs(value))
  case DP_INT16:
    ADD(int16_t, int16_t, WRAPPED(int16_t, uint16_t), abs(value))
  case DP_INT32:
    ADD(int32_t, int32_t, WRAPPED(int32_t, uint32_t), MAGNITUDE(int32_t, uint32_t))
  case DP_INT64:
    ADD(int64_t, int64_t, WRAPPED(int64_t, uint64_t), MAGNITUDE(int64_t, uint64_t))
  case DP_COMPLEX64:
    ADD(dp_complex64, float, x + y, hypotf(__real__ value, __imag__ value))
  default:
    ADD(dp_complex128, double, x + y, hypot(__real__ value, __imag__ value))
  }
  return kept;
}

static dp_status *add_merged(dp_op_context *context, const dp_sparse *a, const dp_sparse *b,
                             union_row *rows) {
  int64_t count = merge(a, b, rows);
  dp_dtype dtype = a->values->dtype;
  dp_shape shape = dp_shape_vector(count);
  dp_tensor *values;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 1, &shape, &values));
  count = add_values(dtype, a->values->data, b->values->data, dp_op_input(context, 6)->data, rows,
                     count, values->data);
  values->shape = dp_shape_vector(count);
  DP_RETURN_IF_ERROR(output_rows(context, a, b, rows, count));
  dp_op_pass(context, 2, 2);
  return NULL;
}

static dp_status *add(dp_op_context *context, void *state) {
  (void)state;
  dp_sparse a, b;
  DP_RETURN_IF_ERROR(open_pair(context, &a, &b));
  if (a.rank == 0)
    return DP_INVALID("Tensors must not be empty");
  if (dp_op_input(context, 6)->shape.rank != 0)
    return DP_INVALID("The magnitude threshold must be a scalar: got shape %s",
                      dp_shape_text(&dp_op_input(context, 6)->shape));
  dp_dtype real = dp_op_input(context, 6)->dtype, dtype = a.values->dtype;
  if (real != (dtype == DP_COMPLEX64 ? DP_FLOAT : dtype == DP_COMPLEX128 ? DP_DOUBLE : dtype))
    return DP_INVALID("A threshold of type %s does not fit values of type %s", dp_dtype_name(real),
                      dp_dtype_name(dtype));
  dp_buffer *rows;
  DP_RETURN_IF_ERROR(dp_buffer_create((size_t)(a.count + b.count) * sizeof(union_row), &rows));
  dp_status *status = add_merged(context, &a, &b, rows->data);
  dp_buffer_release(rows);
  return status;
}

/* ---- SparseAddGrad ---- */
static dp_status *check_gradient(const dp_tensor *gradient, const dp_tensor *a, const dp_tensor *b,
                                 const dp_tensor *sum) {
  if (a->shape.rank != 2 || b->shape.rank != 2 || sum->shape.rank != 2)
    return DP_INVALID("Input indices should be matrices but received shapes: %s and %s and %s",
                      dp_shape_text(&a->shape), dp_shape_text(&b->shape),
                      dp_shape_text(&sum->shape));
  if (gradient->shape.rank != 1)
    return DP_INVALID("Input backprop_val_grad should be a vector but received shape: %s",
                      dp_shape_text(&gradient->shape));
  if (a->shape.dims[1] != b->shape.dims[1] || b->shape.dims[1] != sum->shape.dims[1])
    return DP_INVALID("The densified operands should have the same ndims; for A, B, sum got: %lld, "
                      "%lld, %lld",
                      (long long)a->shape.dims[1], (long long)b->shape.dims[1],
                      (long long)sum->shape.dims[1]);
  if (gradient->shape.dims[0] != sum->shape.dims[0])
    return DP_INVALID(
        "# elements of backprop_val_grad and # rows of sum_indices should match (#nnz "
        "of sum): got %lld and %lld",
        (long long)gradient->shape.dims[0], (long long)sum->shape.dims[0]);
  if (a->shape.dims[1] > INT32_MAX)
    return DP_INVALID("Too many dimensions: %lld", (long long)a->shape.dims[1]);
  return NULL;
}

/* The gradient of each entry of one side: the gradient of the sum's entry, or zero where that was
 * dropped. */
static dp_status *side_gradient(dp_op_context *context, int32_t side, const dp_tensor *gradient,
                                const dp_tensor *sum) {
  const dp_tensor *indices = dp_op_input(context, 1 + side);
  int64_t count = indices->shape.dims[0], sum_count = sum->shape.dims[0], k = 0;
  int32_t rank = (int32_t)indices->shape.dims[1];
  dp_shape shape = dp_shape_vector(count);
  dp_tensor *output;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, side, &shape, &output));
  size_t size = dp_dtype_size(output->dtype);
  memset(output->data, 0, (size_t)count * size);
  const int64_t *row = indices->data, *sum_row = sum->data;
  for (int64_t i = 0; i < count && k < sum_count;) {
    int order = dp_sparse_compare(row + i * rank, sum_row + k * rank, rank);
    if (order == 0)
      memcpy((char *)output->data + (size_t)i * size,
             (const char *)gradient->data + (size_t)k * size, size);
    i += order <= 0;
    k += order >= 0;
  }
  return NULL;
}

static dp_status *add_gradient(dp_op_context *context, void *state) {
  (void)state;
  const dp_tensor *gradient = dp_op_input(context, 0), *sum = dp_op_input(context, 3);
  DP_RETURN_IF_ERROR(
      check_gradient(gradient, dp_op_input(context, 1), dp_op_input(context, 2), sum));
  DP_RETURN_IF_ERROR(side_gradient(context, 0, gradient, sum));
  return side_gradient(context, 1, gradient, sum);
}

/* ---- SparseSparseMaximum, SparseSparseMinimum ---- */
static dp_status *combine_create(const dp_kernel_setup *setup, void *memory) {
  dp_dtype dtype;
  DP_RETURN_IF_ERROR(dp_node_get_type(setup->node, "T", &dtype));
  bool is_maximum = dp_node_is(setup->node, "SparseSparseMaximum");
  return dp_combine_init(memory, is_maximum ? DP_COMBINE_MAXIMUM : DP_COMBINE_MINIMUM, dtype);
}

static void spread(const dp_sparse *side, const union_row *rows, int64_t count, bool is_b,
                   void *to) {
  size_t size = dp_dtype_size(side->values->dtype);
  for (int64_t i = 0; i < count; ++i) {
    int64_t at = is_b ? rows[i].b : rows[i].a;
    char *target = (char *)to + (size_t)i * size;
    if (at >= 0)
      memcpy(target, (const char *)side->values->data + (size_t)at * size, size);
    else
      memset(target, 0, size);
  }
}

static dp_status *combine(dp_op_context *context, void *memory) {
  dp_sparse a, b;
  DP_RETURN_IF_ERROR(open_pair(context, &a, &b));
  dp_buffer *rows = NULL, *other = NULL;
  dp_tensor *values;
  size_t size = dp_dtype_size(a.values->dtype);
  dp_status *status;
  DP_GOTO_IF_ERROR(status, done,
                   dp_buffer_create((size_t)(a.count + b.count) * sizeof(union_row), &rows));
  int64_t count = merge(&a, &b, rows->data);
  dp_shape shape = dp_shape_vector(count);
  DP_GOTO_IF_ERROR(status, done, output_rows(context, &a, &b, rows->data, count));
  DP_GOTO_IF_ERROR(status, done, dp_op_allocate(context, 1, &shape, &values));
  DP_GOTO_IF_ERROR(status, done, dp_buffer_create((size_t)count * size, &other));
  spread(&a, rows->data, count, false, values->data);
  spread(&b, rows->data, count, true, other->data);
  status = dp_combine_run(memory, values->data, other->data, count);
done:
  dp_buffer_release(rows);
  dp_buffer_release(other);
  return status;
}

#define SET_ADDABLE (DP_SET(FLOAT) | DP_SET(DOUBLE) | DP_SET_SIGNED | DP_SET_COMPLEX)
#define COMBINE(name)                                                                              \
  {                                                                                                \
    .op = name, .types = {{"T", DP_SET_REALS}}, .state_size = sizeof(dp_combine),                  \
    .create = combine_create, .compute = combine                                                   \
  }
static const dp_kernel rows[] = {
    {.op = "SparseAdd", .types = {{"T", SET_ADDABLE}}, .compute = add},
    {.op = "SparseAddGrad", .types = {{"T", SET_ADDABLE}}, .compute = add_gradient},
    COMBINE("SparseSparseMaximum"),
    COMBINE("SparseSparseMinimum"),
};
DP_KERNEL_FAMILY(sparse_merge, rows);
