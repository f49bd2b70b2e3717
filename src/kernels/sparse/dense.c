/* Ops with a sparse and a dense operand. SparseTensorDenseAdd gives a dense result.
 * SparseDenseCwiseAdd, -Mul and -Div broadcast the dense operand and give a result with the sparse
 * operand's entries. */
#include "kernels/shared/family.h"

#include <string.h>
#include "kernels/shared/combine.h"
#include "kernels/shared/indices.h"
#include "kernels/shared/sparse.h"

/* ---- SparseTensorDenseAdd ---- */
static dp_status *check_dense_add(const dp_tensor *indices, const dp_tensor *values,
                                  const dp_tensor *shape, const dp_tensor *dense) {
  if (indices->shape.rank != 2)
    return DP_INVALID("Input a_indices should be a matrix but received shape: %s",
                      dp_shape_text(&indices->shape));
  if (values->shape.rank != 1 || shape->shape.rank != 1)
    return DP_INVALID("Inputs a_values and a_shape should be vectors but received shapes: %s and "
                      "%s",
                      dp_shape_text(&values->shape), dp_shape_text(&shape->shape));
  if (values->shape.dims[0] != indices->shape.dims[0])
    return DP_INVALID("Dimensions %lld and %lld are not compatible: a_indices and a_values must "
                      "have the same number of rows",
                      (long long)indices->shape.dims[0], (long long)values->shape.dims[0]);
  if (indices->shape.dims[1] != shape->shape.dims[0])
    return DP_INVALID("Dimensions %lld and %lld are not compatible",
                      (long long)indices->shape.dims[1], (long long)shape->shape.dims[0]);
  if (shape->shape.dims[0] != dense->shape.rank)
    return DP_INVALID("Two operands have different ranks; received: %lld and %d",
                      (long long)shape->shape.dims[0], dense->shape.rank);
  if (dense->shape.rank < 1)
    return DP_INVALID("A scalar has no sparse form: the operands must have rank 1 or more");
  for (int i = 0; i < dense->shape.rank; ++i) {
    int64_t size = dp_tensor_int_at(shape, i);
    if (size != dense->shape.dims[i])
      return DP_INVALID("Dimension %d does not equal (no broadcasting is supported): sparse side "
                        "%lld vs dense side %lld",
                        i, (long long)size, (long long)dense->shape.dims[i]);
  }
  return NULL;
}

/* The error for the first coordinate of a row that is outside the dense tensor. */
static dp_status *outside_error(const dp_tensor *indices, int64_t row, const dp_shape *dense) {
  const int64_t *at = (const int64_t *)indices->data + row * dense->rank;
  int axis = 0;
  while (axis + 1 < dense->rank && at[axis] >= 0 && at[axis] < dense->dims[axis])
    ++axis;
  dp_text sizes = {0};
  for (int i = 0; i < dense->rank; ++i)
    dp_text_printf(&sizes, "%s%lld", i ? " " : "", (long long)dense->dims[i]);
  dp_status *status =
      DP_INVALID("Sparse tensor has an invalid index on dimension %d: "
                 "a_indices(%lld,%d) = %lld, dense tensor shape: %s",
                 axis, (long long)row, axis, (long long)at[axis], dp_text_string(&sizes));
  dp_text_deinit(&sizes);
  return status;
}

static dp_status *dense_add_create(const dp_kernel_setup *setup, void *memory) {
  dp_dtype dtype;
  DP_RETURN_IF_ERROR(dp_node_get_type(setup->node, "T", &dtype));
  return dp_combine_init(memory, DP_COMBINE_ADD, dtype);
}

#define ADD(type)                                                                                  \
  {                                                                                                \
    type *target = output->data;                                                                   \
    const type *source = values->data;                                                             \
    for (int64_t i = 0; i < rows.rows; ++i)                                                        \
      target[dp_indices_rows_slice(&rows, i)] += source[i];                                        \
    return NULL;                                                                                   \
  }

static dp_status *dense_add(dp_op_context *context, void *memory) {
  const dp_combine *combine = memory;
  const dp_tensor *indices = dp_op_input(context, 0), *values = dp_op_input(context, 1);
  const dp_tensor *dense = dp_op_input(context, 3);
  DP_RETURN_IF_ERROR(check_dense_add(indices, values, dp_op_input(context, 2), dense));
  dp_indices_rows rows;
  dp_indices_rows_init(&rows, indices, &dense->shape);
  for (int64_t i = 0; i < rows.rows; ++i) {
    if (dp_indices_rows_slice(&rows, i) < 0)
      return outside_error(indices, i, &dense->shape);
  }
  const void *from = dense->data;
  dp_tensor *output;
  DP_RETURN_IF_ERROR(dp_op_allocate_or_forward(context, 3, 0, &dense->shape, &output));
  if (output->data != from)
    memcpy(output->data, from, dp_tensor_bytes(output));
  switch (combine->dtype) {
  case DP_FLOAT:
    ADD(float)
  case DP_DOUBLE:
    ADD(double)
  case DP_INT32:
    ADD(uint32_t)
  case DP_INT64:
    ADD(uint64_t)
  default:
    break;
  }
  for (int64_t i = 0; i < rows.rows; ++i)
    DP_RETURN_IF_ERROR(dp_combine_run(
        combine, (char *)output->data + (size_t)dp_indices_rows_slice(&rows, i) * combine->size,
        (const char *)values->data + (size_t)i * combine->size, 1));
  return NULL;
}

/* ---- SparseDenseCwise* ---- */
typedef struct cwise_state {
  dp_dtype dtype;
  dp_binary_fn fn; /* the float loop for 16-bit floats */
  bool is_division;
} cwise_state;

static dp_status *cwise_create(const dp_kernel_setup *setup, void *memory) {
  cwise_state *state = memory;
  DP_RETURN_IF_ERROR(dp_node_get_type(setup->node, "T", &state->dtype));
  state->is_division = dp_node_is(setup->node, "SparseDenseCwiseDiv");
  dp_binary_op op = state->is_division                               ? DP_BINARY_div
                    : dp_node_is(setup->node, "SparseDenseCwiseMul") ? DP_BINARY_mul
                                                                     : DP_BINARY_add;
  dp_dtype work = dp_kernel_is_short_float(state->dtype) ? DP_FLOAT : state->dtype;
  state->fn = dp_binary_table()->fn[op][work];
  return NULL;
}

/* Strides of the dense operand along the sparse one's dimensions: 0 where it is broadcast. */
static dp_status *broadcast_strides(const dp_sparse *sparse, const dp_shape *dense,
                                    int64_t *strides) {
  dp_shape shape;
  DP_RETURN_IF_ERROR(dp_sparse_dense_shape(sparse, &shape));
  if (sparse->rank == 0)
    return DP_INVALID("The shape argument requires at least one element.");
  bool fits = dense->rank <= sparse->rank;
  int64_t stride = 1;
  for (int i = 0; fits && i < sparse->rank; ++i) {
    int64_t size = i < dense->rank ? dense->dims[dense->rank - 1 - i] : 1;
    int axis = sparse->rank - 1 - i;
    fits = size == 1 ? shape.dims[axis] >= 1 : size == shape.dims[axis];
    strides[axis] = size == 1 ? 0 : stride;
    stride *= size;
  }
  if (!fits)
    return DP_INVALID("SparseDenseBinaryOpShared broadcasts dense to sparse only; got incompatible "
                      "shapes: %s vs. %s",
                      dp_shape_text(&shape), dp_shape_text(dense));
  return NULL;
}

static bool is_zero(dp_dtype dtype, const char *at, size_t size) {
  static const char zeros[16];
  if (memcmp(at, zeros, size) == 0)
    return true;
  return dtype == DP_FLOAT ? *(const float *)at == 0
         : dtype == DP_DOUBLE
             ? *(const double *)at == 0
             : dp_kernel_is_short_float(dtype) && (*(const uint16_t *)at & 0x7fff) == 0;
}

static dp_status *gather_dense(const cwise_state *state, const dp_sparse *sparse,
                               const dp_tensor *dense, const int64_t *strides, char *to) {
  size_t size = dp_dtype_size(state->dtype);
  const int64_t *row = sparse->indices;
  for (int64_t i = 0; i < sparse->count; ++i, row += sparse->rank, to += size) {
    int64_t at = 0;
    for (int32_t j = 0; j < sparse->rank; ++j) {
      if (row[j] < 0 || row[j] >= sparse->dims[j])
        return DP_INVALID("Provided indices are out-of-bounds w.r.t. dense side with broadcasted "
                          "shape");
      at += row[j] * strides[j];
    }
    memcpy(to, (const char *)dense->data + (size_t)at * size, size);
    if (state->is_division && is_zero(state->dtype, to, size))
      return DP_INVALID("SparseDenseCwiseDiv cannot divide by zero,but input dense tensor contains "
                        "zero ");
  }
  return NULL;
}

/* to[i] = a[i] (op) to[i] */
static void run_binary(const cwise_state *state, const void *a, void *to, int64_t count) {
  dp_binary_span span = {.inner = count, .outer = 1, .a_inner = 1, .b_inner = 1};
  if (!dp_kernel_is_short_float(state->dtype)) {
    state->fn(a, to, to, &span);
    return;
  }
  float left[DP_KERNEL_BLOCK], right[DP_KERNEL_BLOCK];
  for (int64_t i = 0; i < count; i += DP_KERNEL_BLOCK) {
    span.inner = count - i < DP_KERNEL_BLOCK ? count - i : DP_KERNEL_BLOCK;
    dp_kernel_widen(state->dtype, (const uint16_t *)a + i, left, span.inner);
    dp_kernel_widen(state->dtype, (const uint16_t *)to + i, right, span.inner);
    state->fn(left, right, right, &span);
    dp_kernel_narrow(state->dtype, right, (uint16_t *)to + i, span.inner);
  }
}

static const dp_sparse_words cwise_words = {
    .indices = "Input sp_indices should be a matrix but received shape: ",
    .both = "Inputs sp_values and sp_shape should be vectors but received shapes: "};

/* Checks counts only; ranks are checked when the sparse tensor is opened. */
static dp_status *check_cwise(const dp_op_context *context) {
  const dp_shape *indices = &dp_op_input(context, 0)->shape;
  const dp_shape *values = &dp_op_input(context, 1)->shape,
                 *shape = &dp_op_input(context, 2)->shape;
  if (indices->rank != 2 || values->rank != 1 || shape->rank != 1)
    return NULL;
  if (values->dims[0] != indices->dims[0])
    return DP_INVALID("The first dimension of values and indices should match. (%lld vs. %lld)",
                      (long long)values->dims[0], (long long)indices->dims[0]);
  if (shape->dims[0] != indices->dims[1])
    return DP_INVALID("Number of dimensions must match second dimension of indices. Got %lld "
                      "dimensions, indices shape: %s",
                      (long long)shape->dims[0], dp_shape_text(indices));
  return NULL;
}

static dp_status *cwise(dp_op_context *context, void *memory) {
  const cwise_state *state = memory;
  const dp_tensor *dense = dp_op_input(context, 3);
  dp_sparse sparse;
  int64_t strides[DP_MAX_RANK];
  dp_tensor *output;
  DP_RETURN_IF_ERROR(check_cwise(context));
  DP_RETURN_IF_ERROR(dp_sparse_open(context, 0, 1, 2, &cwise_words, &sparse));
  DP_RETURN_IF_ERROR(broadcast_strides(&sparse, &dense->shape, strides));
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &sparse.values->shape, &output));
  DP_RETURN_IF_ERROR(gather_dense(state, &sparse, dense, strides, output->data));
  run_binary(state, sparse.values->data, output->data, sparse.count);
  return NULL;
}

#define CWISE(name)                                                                                \
  {                                                                                                \
    .op = name, .types = {{"T", DP_SET_REALS}}, .state_size = sizeof(cwise_state),                 \
    .create = cwise_create, .compute = cwise                                                       \
  }
static const dp_kernel rows[] = {
    {.op = "SparseTensorDenseAdd",
     .types = {{"T", DP_SET_NUMBERS}, {"Tindices", DP_SET_INDEX}},
     .state_size = sizeof(dp_combine),
     .create = dense_add_create,
     .compute = dense_add},
    CWISE("SparseDenseCwiseAdd"),
    CWISE("SparseDenseCwiseMul"),
    CWISE("SparseDenseCwiseDiv"),
};
DP_KERNEL_FAMILY(sparse_dense, rows);
