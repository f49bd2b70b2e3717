/* Sparse matrices in compressed rows as variant values: creation, transposition, and the form on
 * the wire, which is TensorFlow's: five tensors, and as metadata the bytes of a struct {flag,
 * dtype}. The contract is in csr_internal.h; the ops are in csr_ops.c and csr_matmul.c. */
#include "kernels/sparse/csr_internal.h"

#include <string.h>
#include "base/memory.h"

/* ---- Life ---- */
void dp_csr_destroy(dp_csr *csr) {
  for (int i = 0; i < DP_CSR_PARTS; ++i)
    dp_tensor_deinit(&csr->parts[i]);
  dp_free(csr);
}

static dp_status *read_dims(dp_csr *csr, int32_t rank, const int64_t *dims) {
  dp_shape shape;
  if (rank != 2 && rank != 3)
    return DP_INVALID("SparseTensor must have rank 2 or 3; but indices has rank: %d", rank);
  DP_RETURN_IF_ERROR(dp_shape_make(rank, dims, &shape));
  csr->rank = rank;
  csr->batch = rank == 3 ? dims[0] : 1;
  csr->rows = dims[rank - 2];
  csr->columns = dims[rank - 1];
  int64_t pointers = 0;
  if (csr->batch >= INT32_MAX)
    return DP_INVALID("dense_shape batch_size must be < Int32Max, but the input value is %lld",
                      (long long)csr->batch);
  if (csr->rows == INT64_MAX || __builtin_mul_overflow(csr->rows + 1, csr->batch, &pointers) ||
      pointers > INT32_MAX)
    return DP_INVALID("The csr row index size, computed based on the dense_shape, must be <= "
                      "Int32Max, but is too large. Current value is %lld",
                      (long long)pointers);
  return NULL;
}

static dp_status *create_parts(dp_csr *csr, dp_dtype dtype, const int64_t *dims, int64_t count) {
  if (count > INT32_MAX)
    return DP_INVALID("values number of elements must be <= Int32Max, but the input value is %lld",
                      (long long)count);
  dp_shape sizes[DP_CSR_PARTS] = {dp_shape_vector(csr->rank), dp_shape_vector(csr->batch + 1),
                                  dp_shape_vector((csr->rows + 1) * csr->batch),
                                  dp_shape_vector(count), dp_shape_vector(count)};
  dp_dtype dtypes[DP_CSR_PARTS] = {DP_INT64, DP_INT32, DP_INT32, DP_INT32, dtype};
  for (int i = 0; i < DP_CSR_PARTS; ++i)
    DP_RETURN_IF_ERROR(dp_tensor_create_zero(dtypes[i], &sizes[i], &csr->parts[i]));
  memcpy(csr->parts[DP_CSR_SHAPE].data, dims, (size_t)csr->rank * sizeof *dims);
  return NULL;
}

dp_status *dp_csr_create(dp_dtype dtype, int32_t rank, const int64_t *dims, int64_t count,
                         dp_csr **csr_out) {
  dp_csr *csr = DP_NEW(dp_csr);
  dp_status *status = read_dims(csr, rank, dims);
  if (!status)
    status = create_parts(csr, dtype, dims, count);
  if (status)
    dp_csr_destroy(csr);
  else
    *csr_out = csr;
  return status;
}

static void destroy_object(void *object) {
  dp_csr_destroy(object);
}

/* ---- Transposed ---- */
static void conjugate(dp_tensor *values) {
  for (int64_t i = 0; i < values->shape.elements; ++i) {
    if (values->dtype == DP_COMPLEX64)
      ((float *)values->data)[2 * i + 1] *= -1;
    else if (values->dtype == DP_COMPLEX128)
      ((double *)values->data)[2 * i + 1] *= -1;
  }
}

/* `ends` holds, per column, where the next entry of its new row goes. */
static void transpose_one(const dp_csr *from, dp_csr *to, int64_t index, int32_t *ends) {
  const int32_t *rows = dp_csr_rows(from, index), *columns = dp_csr_columns(from, index);
  int32_t *new_rows = dp_csr_rows(to, index), *new_columns = dp_csr_columns(to, index);
  const char *values = dp_csr_values(from, index);
  char *new_values = dp_csr_values(to, index);
  size_t size = dp_dtype_size(dp_csr_dtype(from));
  for (int32_t i = 0; i < rows[from->rows]; ++i)
    ++new_rows[columns[i] + 1];
  for (int64_t i = 0; i < to->rows; ++i) {
    new_rows[i + 1] += new_rows[i];
    ends[i] = new_rows[i];
  }
  for (int64_t row = 0; row < from->rows; ++row) {
    for (int32_t i = rows[row]; i < rows[row + 1]; ++i) {
      int32_t at = ends[columns[i]]++;
      new_columns[at] = (int32_t)row;
      memcpy(new_values + (size_t)at * size, values + (size_t)i * size, size);
    }
  }
}

dp_status *dp_csr_transpose(const dp_csr *csr, bool conjugates, dp_csr **csr_out) {
  const int64_t *dims = csr->parts[DP_CSR_SHAPE].data;
  int64_t turned[3] = {dims[0], csr->columns, csr->rows};
  dp_csr *to;
  dp_buffer *ends;
  DP_RETURN_IF_ERROR(dp_csr_create(dp_csr_dtype(csr), csr->rank, turned + (csr->rank == 2),
                                   dp_csr_count(csr), &to));
  dp_status *status = dp_buffer_create((size_t)csr->columns * sizeof(int32_t), &ends);
  if (status) {
    dp_csr_destroy(to);
    return status;
  }
  memcpy(dp_csr_batches(to), dp_csr_batches(csr), (size_t)(csr->batch + 1) * sizeof(int32_t));
  for (int64_t i = 0; i < csr->batch; ++i)
    transpose_one(csr, to, i, ends->data);
  dp_buffer_release(ends);
  if (conjugates)
    conjugate(&to->parts[DP_CSR_VALUES]);
  *csr_out = to;
  return NULL;
}

/* ---- On the wire ---- */
typedef struct csr_metadata {
  uint8_t is_valid, unused[3];
  int32_t dtype;
} csr_metadata;

static dp_status *csr_encode(const void *object, dp_text *metadata, dp_tensor **tensors_out,
                             size_t *count_out) {
  const dp_csr *csr = object;
  csr_metadata head = {.is_valid = 1, .dtype = dp_csr_dtype(csr)};
  dp_text_append(metadata, (const char *)&head, sizeof head);
  dp_tensor *tensors = DP_NEW_ARRAY(dp_tensor, DP_CSR_PARTS);
  for (int i = 0; i < DP_CSR_PARTS; ++i)
    tensors[i] = dp_tensor_copy(&csr->parts[i]);
  *tensors_out = tensors;
  *count_out = DP_CSR_PARTS;
  return NULL;
}

static dp_status *corrupted(void) {
  return DP_INVALID("a CSRSparseMatrix is corrupted");
}

static bool is_number(dp_dtype dtype) {
  return dtype == DP_FLOAT || dtype == DP_DOUBLE || dtype == DP_COMPLEX64 || dtype == DP_COMPLEX128;
}

/* Whether `pointers` start with 0, never decrease and end with `end`. */
static bool rises(const int32_t *pointers, int64_t count, int64_t end) {
  for (int64_t i = 1; i < count; ++i)
    if (pointers[i] < pointers[i - 1])
      return false;
  return pointers[0] == 0 && pointers[count - 1] == end;
}

static dp_status *check_contents(const dp_csr *csr) {
  int64_t count = dp_csr_count(csr);
  const int32_t *columns = csr->parts[DP_CSR_COLUMNS].data, *batches = dp_csr_batches(csr);
  if (!rises(batches, csr->batch + 1, count))
    return corrupted();
  for (int64_t i = 0; i < csr->batch; ++i)
    if (!rises(dp_csr_rows(csr, i), csr->rows + 1, batches[i + 1] - batches[i]))
      return corrupted();
  for (int64_t i = 0; i < count; ++i)
    if (columns[i] < 0 || columns[i] >= csr->columns)
      return corrupted();
  return NULL;
}

/* Checks dtypes and sizes of the parts before any of them is read. */
static dp_status *check_parts(dp_csr *csr) {
  const dp_tensor *parts = csr->parts;
  for (int i = 0; i < DP_CSR_PARTS; ++i)
    if (parts[i].shape.rank != 1 ||
        (i != DP_CSR_VALUES && parts[i].dtype != (i == DP_CSR_SHAPE ? DP_INT64 : DP_INT32)))
      return corrupted();
  if (!is_number(parts[DP_CSR_VALUES].dtype) || parts[DP_CSR_SHAPE].shape.elements > 3)
    return corrupted();
  DP_RETURN_IF_ERROR(
      read_dims(csr, (int32_t)parts[DP_CSR_SHAPE].shape.elements, parts[DP_CSR_SHAPE].data));
  if (parts[DP_CSR_BATCHES].shape.elements != csr->batch + 1 ||
      parts[DP_CSR_ROWS].shape.elements != (csr->rows + 1) * csr->batch ||
      parts[DP_CSR_COLUMNS].shape.elements != dp_csr_count(csr))
    return corrupted();
  return check_contents(csr);
}

static dp_status *csr_decode(dp_view metadata, const dp_tensor *tensors, size_t count,
                             void **object_out) {
  (void)metadata; /* adds nothing to what the values say */
  if (count != DP_CSR_PARTS)
    return corrupted();
  dp_csr *csr = DP_NEW(dp_csr);
  for (int i = 0; i < DP_CSR_PARTS; ++i)
    csr->parts[i] = dp_tensor_copy(&tensors[i]);
  dp_status *status = check_parts(csr);
  if (status)
    dp_csr_destroy(csr);
  else
    *object_out = csr;
  return status;
}

const dp_variant_ops dp_csr_ops = {.type_name = "tensorflow::CSRSparseMatrix",
                                   .destroy = destroy_object,
                                   .encode = csr_encode,
                                   .decode = csr_decode};

/* ---- In kernels ---- */
static dp_status *refuse_dtype(const dp_node *node, int32_t slot, dp_dtype wanted, dp_dtype got) {
  const char *name = node->op->inputs[slot].name;
  if (dp_node_is(node, "CSRSparseMatrixToSparseTensor"))
    return DP_INVALID("Expected a CSRSparseMatrix of type %s but saw type: %s",
                      dp_dtype_name(wanted), dp_dtype_name(got));
  if (node->op->output_count == 1 && dp_dtype_base(node->output_types[0]) == DP_VARIANT)
    return DP_INVALID("dtype of %s is not equal to 'type': %s vs. %s", name, dp_dtype_name(got),
                      dp_dtype_name(wanted));
  return DP_INVALID("Asked for a CSRSparseMatrix of type %s but saw dtype: %s",
                    dp_dtype_name(wanted), dp_dtype_name(got));
}

dp_status *dp_csr_input(const dp_op_context *context, int32_t slot, dp_dtype dtype,
                        const dp_csr **csr_out) {
  const dp_tensor *tensor = dp_op_input(context, slot);
  if (tensor->shape.rank != 0)
    return DP_INVALID("Index %d is not a scalar variant: its shape is %s", slot,
                      dp_shape_text(&tensor->shape));
  const dp_variant *variant = dp_tensor_variants(tensor)[0];
  if (!variant || variant->ops != &dp_csr_ops)
    return DP_INVALID("Unable to retrieve variant value of type tensorflow::CSRSparseMatrix from "
                      "input %d; saw type: '%s'",
                      slot, variant ? variant->ops->type_name : "<unset>");
  const dp_csr *csr = variant->object;
  if (dtype != DP_INVALID_DTYPE && dp_csr_dtype(csr) != dtype)
    return refuse_dtype(context->node, slot, dtype, dp_csr_dtype(csr));
  *csr_out = csr;
  return NULL;
}

dp_status *dp_csr_output(dp_op_context *context, dp_csr *csr) {
  dp_shape scalar = dp_shape_scalar();
  dp_tensor *output;
  dp_status *status = dp_op_allocate(context, 0, &scalar, &output);
  if (status)
    dp_csr_destroy(csr);
  else
    dp_tensor_variants(output)[0] = dp_variant_create(&dp_csr_ops, csr);
  return status;
}
