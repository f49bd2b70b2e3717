/* Pieces: sparse tensors as objects (piece_internal.h). Reads them from inputs, cuts a batch into
 * rows, and joins pieces into outputs. */
#include "kernels/sparse/piece_internal.h"

#include <string.h>
#include "base/memory.h"
#include "kernels/shared/sparse.h"

void dp_sparse_piece_deinit(dp_sparse_piece *piece) {
  dp_tensor_deinit(&piece->indices);
  dp_tensor_deinit(&piece->values);
}

dp_status *dp_sparse_piece_read(dp_op_context *context, dp_sparse_piece *piece_out) {
  dp_sparse sparse;
  dp_shape dense;
  dp_sparse_words words = dp_sparse_plain_words;
  words.is_tensor = true;
  DP_RETURN_IF_ERROR(dp_sparse_open(context, 0, 1, 2, &words, &sparse));
  if (sparse.rank == 0)
    return DP_INVALID("The shape argument requires at least one element.");
  for (int32_t i = 0; i < sparse.rank; ++i)
    if (sparse.dims[i] < 0)
      return DP_INVALID("Dimension %lld must be >= 0", (long long)sparse.dims[i]);
  DP_RETURN_IF_ERROR(dp_sparse_dense_shape(&sparse, &dense));
  *piece_out = (dp_sparse_piece){dp_tensor_copy(dp_op_input(context, 0)),
                                 dp_tensor_copy(sparse.values), dense};
  return NULL;
}

/* ---- Rows of a batch ---- */
/* Entries [begin, end) without the first dimension. */
static dp_status *make_row(const dp_sparse_piece *batch, int64_t begin, int64_t end,
                           dp_sparse_piece *piece) {
  int64_t rank = batch->shape.rank, count = end - begin;
  dp_shape shape = dp_shape_matrix(count, rank - 1);
  *piece = (dp_sparse_piece){.shape = dp_shape_remove(&batch->shape, 0)};
  dp_tensor rows = dp_tensor_slice(&batch->values, begin, end);
  dp_status *status = dp_tensor_clone(&rows, &piece->values);
  dp_tensor_deinit(&rows);
  DP_RETURN_IF_ERROR(status);
  status = dp_tensor_create(DP_INT64, &shape, &piece->indices);
  if (status) {
    dp_tensor_deinit(&piece->values);
    return status;
  }
  const int64_t *from = batch->indices.data;
  int64_t *to = piece->indices.data;
  for (int64_t i = begin; i < end; ++i)
    for (int64_t k = 1; k < rank; ++k)
      *to++ = from[i * rank + k];
  return NULL;
}

static dp_status *give_row(const dp_sparse_piece *batch, int64_t row, int64_t begin, int64_t end,
                           dp_sparse_row_fn take, void *arg) {
  dp_sparse_piece piece;
  DP_RETURN_IF_ERROR(make_row(batch, begin, end, &piece));
  return take(arg, row, &piece);
}

static dp_status *give_rows(const dp_sparse_piece *batch, bool *given, dp_sparse_row_fn take,
                            void *arg) {
  const int64_t *indices = batch->indices.data;
  int64_t rank = batch->shape.rank, count = batch->values.shape.elements;
  int64_t rows = batch->shape.dims[0], end;
  for (int64_t begin = 0; begin < count; begin = end) {
    int64_t row = indices[begin * rank];
    if (row < 0 || row >= rows)
      return DP_INVALID("Received unexpected column 0 value in input SparseTensor: %lld < 0 or >= "
                        "N (= %lld)",
                        (long long)row, (long long)rows);
    for (end = begin + 1; end < count && indices[end * rank] == row; ++end)
      ;
    if (given[row])
      return DP_INVALID("Entries of row %lld of the input SparseTensor do not stand together",
                        (long long)row);
    given[row] = true;
    DP_RETURN_IF_ERROR(give_row(batch, row, begin, end, take, arg));
  }
  for (int64_t row = 0; row < rows; ++row)
    if (!given[row])
      DP_RETURN_IF_ERROR(give_row(batch, row, 0, 0, take, arg));
  return NULL;
}

dp_status *dp_sparse_piece_rows(const dp_sparse_piece *batch, dp_sparse_row_fn take, void *arg) {
  size_t rows = (size_t)batch->shape.dims[0];
  bool *given = dp_try_malloc(rows + 1);
  if (!given)
    return dp_status_out_of_memory();
  memset(given, 0, rows + 1);
  dp_status *status = give_rows(batch, given, take, arg);
  dp_free(given);
  return status;
}

/* ---- Joining ---- */
static dp_status *join_shapes(dp_dtype dtype, const dp_sparse_piece *pieces, const dp_shape *lead,
                              dp_shape *shape_out, int64_t *total_out) {
  int32_t inner = lead->elements > 0 ? pieces[0].shape.rank : 0;
  dp_shape shape = *lead;
  *total_out = 0;
  if (inner + lead->rank > DP_MAX_RANK)
    return DP_INVALID("a sparse tensor may have at most %d dimensions", DP_MAX_RANK);
  shape.rank += inner;
  for (int32_t k = lead->rank; k < shape.rank; ++k)
    shape.dims[k] = 0;
  for (int64_t i = 0; i < lead->elements; ++i) {
    const dp_sparse_piece *piece = &pieces[i];
    if (piece->values.dtype != dtype)
      return DP_INVALID(
          "Requested SparseTensor of type %s but SparseTensor[%lld].values.dtype() == "
          "%s",
          dp_dtype_name(dtype), (long long)i, dp_dtype_name(piece->values.dtype));
    if (piece->shape.rank != inner)
      return DP_INVALID("Inconsistent rank across SparseTensors: rank prior to SparseTensor[%lld] "
                        "was: %d but rank of SparseTensor[%lld] is: %d",
                        (long long)i, inner + 1, (long long)i, piece->shape.rank + 1);
    for (int32_t k = 0; k < inner; ++k)
      if (piece->shape.dims[k] > shape.dims[lead->rank + k])
        shape.dims[lead->rank + k] = piece->shape.dims[k];
    *total_out += piece->values.shape.elements;
  }
  *shape_out = shape;
  return NULL;
}

/* The coordinates of element `index` of a dense tensor. */
static void coordinates_of(const dp_shape *shape, int64_t index, int64_t *coordinates) {
  for (int32_t k = shape->rank - 1; k >= 0; --k) {
    coordinates[k] = index % shape->dims[k];
    index /= shape->dims[k];
  }
}

static void write_piece(const dp_sparse_piece *piece, const int64_t *lead, int32_t lead_rank,
                        int32_t rank, int64_t *to) {
  const int64_t *from = piece->indices.data;
  for (int64_t row = 0; row < piece->values.shape.elements; ++row) {
    for (int32_t k = 0; k < lead_rank; ++k)
      *to++ = lead[k];
    for (int32_t k = lead_rank; k < rank; ++k)
      *to++ = *from++;
  }
}

dp_status *dp_sparse_piece_output(dp_op_context *context, const dp_sparse_piece *pieces,
                                  const dp_shape *lead) {
  dp_shape joined;
  int64_t total, done = 0, at[DP_MAX_RANK];
  dp_tensor *indices, *values, *shape;
  DP_RETURN_IF_ERROR(join_shapes(dp_op_output_type(context, 1), pieces, lead, &joined, &total));
  dp_shape matrix = dp_shape_matrix(total, joined.rank), vector = dp_shape_vector(total);
  dp_shape sizes = dp_shape_vector(joined.rank);
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &matrix, &indices));
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 1, &vector, &values));
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 2, &sizes, &shape));
  memcpy(shape->data, joined.dims, (size_t)joined.rank * sizeof(int64_t));
  size_t size = dp_dtype_size(values->dtype);
  for (int64_t i = 0; i < lead->elements; ++i) {
    int64_t rows = pieces[i].values.shape.elements;
    coordinates_of(lead, i, at);
    write_piece(&pieces[i], at, lead->rank, joined.rank,
                (int64_t *)indices->data + done * joined.rank);
    if (rows > 0)
      dp_tensor_copy_elements(values->dtype, (char *)values->data + (size_t)done * size,
                              pieces[i].values.data, rows);
    done += rows;
  }
  return NULL;
}
