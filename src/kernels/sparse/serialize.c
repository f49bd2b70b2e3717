/* Sparse tensors as elements of other tensors. SerializeSparse and SerializeManySparse make three
 * elements per sparse tensor (indices, values, shape), either serialized TensorProtos or variants
 * that hold the tensors. DeserializeSparse and DeserializeManySparse stack them into one sparse
 * tensor with leading dimensions. */
#include "kernels/shared/family.h"

#include <string.h>
#include "base/memory.h"
#include "kernels/shared/move.h"
#include "kernels/shared/sparse.h"
#include "kernels/shared/tensor_variant.h"
#include "kernels/text/string.h"
#include "wire/tensor_codec.h"

/* ---- Serializing ---- */
/* Stores `tensor` as element `at` of the output, serialized or as a variant. */
static dp_status *store(dp_tensor *output, int64_t at, const dp_tensor *tensor) {
  if (output->dtype == DP_VARIANT) {
    dp_tensor_variants(output)[at] = dp_tensor_variant_create(tensor);
    return NULL;
  }
  dp_rope rope = {0};
  char *data;
  dp_status *status = dp_wire_encode_tensor(tensor, &rope);
  if (!status)
    status = dp_tstring_resize(dp_tensor_strings(output) + at, rope.length, &data);
  if (!status)
    dp_rope_flatten(&rope, data);
  dp_rope_deinit(&rope);
  return status;
}

static dp_status *serialize(dp_op_context *context, void *memory) {
  (void)memory;
  static const char *const names[] = {"indices", "values", "shape"};
  dp_shape shape = dp_shape_vector(3);
  dp_tensor *output;
  for (int32_t i = 0; i < 3; ++i) {
    const dp_tensor *input = dp_op_input(context, i);
    if (input->shape.rank != (i == 0 ? 2 : 1))
      return DP_INVALID("Input %s should be a %s but received shape %s", names[i],
                        i == 0 ? "matrix" : "vector", dp_shape_text(&input->shape));
  }
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &shape, &output));
  for (int32_t i = 0; i < 3; ++i)
    DP_RETURN_IF_ERROR(store(output, i, dp_op_input(context, i)));
  return NULL;
}

/* Entries [begin, end) without their first coordinate. */
static dp_status *store_rows(const dp_sparse *sparse, int64_t begin, int64_t end, dp_tensor *output,
                             int64_t row) {
  int32_t rank = sparse->rank - 1;
  dp_shape shape = dp_shape_matrix(end - begin, rank);
  dp_tensor indices, values;
  DP_RETURN_IF_ERROR(dp_tensor_create(DP_INT64, &shape, &indices));
  int64_t *to = indices.data;
  for (int64_t i = begin; i < end; ++i, to += rank)
    memcpy(to, sparse->indices + i * sparse->rank + 1, (size_t)rank * sizeof *to);
  dp_status *status = store(output, 3 * row, &indices);
  dp_tensor_deinit(&indices);
  if (status)
    return status;
  shape = dp_shape_vector(end - begin);
  DP_RETURN_IF_ERROR(dp_tensor_create(sparse->values->dtype, &shape, &values));
  size_t size = dp_dtype_size(values.dtype);
  dp_move_elements(values.dtype, size, values.data,
                   (const char *)sparse->values->data + (size_t)begin * size, end - begin);
  status = store(output, 3 * row + 1, &values);
  dp_tensor_deinit(&values);
  return status;
}

static dp_status *serialize_many(dp_op_context *context, void *memory) {
  (void)memory;
  dp_sparse sparse;
  dp_shape dense, shape;
  dp_tensor *output, dims;
  dp_sparse_words words = dp_sparse_plain_words;
  words.is_tensor = true;
  DP_RETURN_IF_ERROR(dp_sparse_open(context, 0, 1, 2, &words, &sparse));
  if (sparse.rank < 2)
    return DP_INVALID("Rank of input SparseTensor should be > 1, but saw rank: %d", sparse.rank);
  DP_RETURN_IF_ERROR(dp_sparse_dense_shape(&sparse, &dense));
  DP_RETURN_IF_ERROR(dp_sparse_check_order(&sparse));
  DP_RETURN_IF_ERROR(dp_shape_make(2, (int64_t[]){sparse.dims[0], 3}, &shape));
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &shape, &output));
  shape = dp_shape_vector(sparse.rank - 1);
  DP_RETURN_IF_ERROR(dp_tensor_create(DP_INT64, &shape, &dims));
  memcpy(dims.data, sparse.dims + 1, dp_tensor_bytes(&dims));
  dp_status *status = NULL;
  int64_t begin = 0;
  for (int64_t row = 0; row < sparse.dims[0] && !status; ++row) {
    int64_t end = begin;
    while (end < sparse.count && sparse.indices[end * sparse.rank] == row)
      ++end;
    status = store_rows(&sparse, begin, end, output, row);
    if (!status)
      status = store(output, 3 * row + 2, &dims);
    begin = end;
  }
  dp_tensor_deinit(&dims);
  return status;
}

/* ---- Deserializing ---- */
typedef struct piece {
  dp_tensor indices, values, shape;
} piece;

/* TensorFlow's errors for variants have other words than those for bytes. */
static dp_status *check_held(const dp_tensor *tensor, int64_t at, int32_t part) {
  if (part != 1 && tensor->dtype != DP_INT64)
    return DP_INVALID("Expected serialized_sparse[%lld, %d] to be a %s of DT_INT64 but received "
                      "dtype %s",
                      (long long)at, part, part == 0 ? "matrix" : "vector",
                      dp_dtype_name(tensor->dtype));
  if (part == 2 && tensor->shape.rank != 1)
    return DP_INVALID("Expected serialized_sparse[%lld, 2] to be a shape vector but its shape is "
                      "%s",
                      (long long)at, dp_shape_text(&tensor->shape));
  return NULL;
}

static dp_status *load(const dp_tensor *input, int64_t at, int32_t part, dp_dtype dtype,
                       dp_tensor *tensor) {
  if (input->dtype == DP_VARIANT) {
    const dp_tensor *held = dp_tensor_variant_get(dp_tensor_variants(input)[3 * at + part]);
    if (!held)
      return DP_INVALID("Could not get a tensor from serialized_sparse[%lld, %d]", (long long)at,
                        part);
    DP_RETURN_IF_ERROR(check_held(held, at, part));
    *tensor = dp_tensor_copy(held);
  } else {
    dp_view bytes = dp_string_at(input, 3 * at + part);
    dp_status *status = dp_wire_decode_tensor_bytes(bytes.data, bytes.length, tensor);
    if (status)
      return dp_status_annotate(status,
                                "Could not parse serialized proto: serialized_sparse[%lld, %d]",
                                (long long)at, part);
  }
  if (tensor->dtype != dtype)
    return part == 1
               ? DP_INVALID("Requested SparseTensor of type %s but "
                            "SparseTensor[%lld].values.dtype() == %s",
                            dp_dtype_name(dtype), (long long)at, dp_dtype_name(tensor->dtype))
               : DP_INVALID("Expected serialized_sparse[%lld, %d] to represent a tensor of type %s "
                            "but received dtype %s",
                            (long long)at, part, dp_dtype_name(dtype),
                            dp_dtype_name(tensor->dtype));
  static const char *const forms[] = {"an index matrix", "a values vector", "a shape vector"};
  if (tensor->shape.rank != (part == 0 ? 2 : 1))
    return DP_INVALID("Expected serialized_sparse[%lld, %d] to represent %s but received shape %s",
                      (long long)at, part, forms[part], dp_shape_text(&tensor->shape));
  return NULL;
}

/* For variants, shapes are checked before anything else, as in TensorFlow. */
static dp_status *load_piece(const dp_tensor *input, int64_t at, dp_dtype dtype, piece *piece) {
  bool is_held = input->dtype == DP_VARIANT;
  if (is_held)
    DP_RETURN_IF_ERROR(load(input, at, 2, DP_INT64, &piece->shape));
  DP_RETURN_IF_ERROR(load(input, at, 0, DP_INT64, &piece->indices));
  DP_RETURN_IF_ERROR(load(input, at, 1, dtype, &piece->values));
  if (!is_held)
    DP_RETURN_IF_ERROR(load(input, at, 2, DP_INT64, &piece->shape));
  if (piece->indices.shape.dims[0] != piece->values.shape.dims[0])
    return DP_INVALID("Expected row counts of SparseTensor[%lld].indices and "
                      "SparseTensor[%lld].values to match but they do not: %lld vs. %lld",
                      (long long)at, (long long)at, (long long)piece->indices.shape.dims[0],
                      (long long)piece->values.shape.dims[0]);
  if (piece->indices.shape.dims[1] != piece->shape.shape.dims[0])
    return DP_INVALID("Expected column counts of SparseTensor[%lld].indices to match size of "
                      "SparseTensor[%lld].shape but they do not: %lld vs. %lld",
                      (long long)at, (long long)at, (long long)piece->indices.shape.dims[1],
                      (long long)piece->shape.shape.dims[0]);
  return NULL;
}

/* The total number of entries and the largest size of each dimension. */
static dp_status *join_shapes(const piece *pieces, int64_t count, int32_t leading, int64_t *dims,
                              int32_t *rank_out, int64_t *entries_out) {
  int64_t rank = pieces[0].shape.shape.dims[0], entries = 0;
  if (leading + rank > DP_MAX_RANK)
    return DP_INVALID("A sparse tensor has at most %d dimensions, not %lld", DP_MAX_RANK,
                      (long long)(leading + rank));
  for (int64_t i = 0; i < count; ++i) {
    if (pieces[i].shape.shape.dims[0] != rank)
      return DP_INVALID("Inconsistent shape across SparseTensors: rank prior to SparseTensor[%lld] "
                        "was: %lld but rank of SparseTensor[%lld] is: %lld",
                        (long long)i, (long long)rank, (long long)i,
                        (long long)pieces[i].shape.shape.dims[0]);
    for (int64_t j = 0; j < rank; ++j) {
      int64_t size = dp_tensor_int_at(&pieces[i].shape, j);
      dims[leading + j] = size > dims[leading + j] ? size : dims[leading + j];
    }
    entries += pieces[i].values.shape.dims[0];
  }
  *rank_out = leading + (int32_t)rank;
  *entries_out = entries;
  return NULL;
}

static dp_status *stack_pieces(dp_op_context *context, const piece *pieces, int64_t count,
                               const dp_shape *input) {
  int64_t dims[DP_MAX_RANK] = {0}, entries, *to;
  int32_t rank, leading = input->rank - 1;
  memcpy(dims, input->dims, (size_t)leading * sizeof *dims);
  DP_RETURN_IF_ERROR(join_shapes(pieces, count, leading, dims, &rank, &entries));
  dp_shape shape = dp_shape_vector(entries);
  dp_tensor *values;
  DP_RETURN_IF_ERROR(dp_sparse_allocate_indices(context, 0, entries, rank, &to));
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 1, &shape, &values));
  DP_RETURN_IF_ERROR(dp_sparse_output_dims(context, 2, dims, rank));
  size_t size = dp_dtype_size(values->dtype);
  char *value = values->data;
  for (int64_t i = 0; i < count; ++i) {
    int64_t position[DP_MAX_RANK], left = i, rows = pieces[i].values.shape.dims[0];
    for (int32_t j = leading - 1; j >= 0; --j) {
      position[j] = left % dims[j];
      left /= dims[j];
    }
    const int64_t *from = pieces[i].indices.data;
    for (int64_t row = 0; row < rows; ++row, to += rank, from += rank - leading) {
      memcpy(to, position, (size_t)leading * sizeof *to);
      memcpy(to + leading, from, (size_t)(rank - leading) * sizeof *to);
    }
    dp_move_elements(values->dtype, size, value, pieces[i].values.data, rows);
    value += (size_t)rows * size;
  }
  return NULL;
}

static dp_status *deserialize_pieces(dp_op_context *context, const dp_tensor *input, piece *pieces,
                                     int64_t count) {
  dp_dtype dtype = dp_op_output_type(context, 1);
  for (int64_t i = 0; i < count; ++i)
    DP_RETURN_IF_ERROR(load_piece(input, i, dtype, pieces + i));
  if (input->shape.rank > 1)
    return stack_pieces(context, pieces, count, &input->shape);
  dp_op_set_output(context, 0, &pieces->indices);
  dp_op_set_output(context, 1, &pieces->values);
  dp_op_set_output(context, 2, &pieces->shape);
  return NULL;
}

static dp_status *deserialize(dp_op_context *context, void *memory) {
  (void)memory;
  const dp_tensor *input = dp_op_input(context, 0);
  int rank = input->shape.rank;
  if (rank < 1)
    return DP_INVALID("Serialized sparse should have non-zero rank %s",
                      dp_shape_text(&input->shape));
  if (input->shape.dims[rank - 1] != 3)
    return DP_INVALID("Serialized sparse should have 3 as the last dimension %s",
                      dp_shape_text(&input->shape));
  int64_t count = input->shape.elements / 3;
  if (count == 0)
    return DP_INVALID("Serialized sparse should have at least 1 serialized tensor, but has a zero "
                      "dimension %s",
                      dp_shape_text(&input->shape));
  piece *pieces = DP_NEW_ARRAY(piece, (size_t)count);
  dp_status *status = deserialize_pieces(context, input, pieces, count);
  for (int64_t i = 0; i < count; ++i) {
    dp_tensor_deinit(&pieces[i].indices);
    dp_tensor_deinit(&pieces[i].values);
    dp_tensor_deinit(&pieces[i].shape);
  }
  dp_free(pieces);
  return status;
}

static const dp_kernel rows[] = {
    {.op = "SerializeSparse", .compute = serialize},
    {.op = "SerializeManySparse", .compute = serialize_many},
    {.op = "DeserializeSparse", .compute = deserialize},
    {.op = "DeserializeManySparse", .compute = deserialize},
};
DP_KERNEL_FAMILY(sparse_serialize, rows);
