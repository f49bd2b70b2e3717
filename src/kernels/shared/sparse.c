/* Sparse tensors as coordinate lists; the contract is in sparse.h.
 *
 * Sorting computes for each row its position in the dense tensor (over the given dimensions) and
 * sorts these positions digit by digit. If the positions do not fit into 63 bits, or rows are out
 * of bounds, it merges runs of rows instead. */
#include "kernels/shared/sparse.h"

#include <string.h>
#include "kernels/shared/move.h"

/* ---- Opening ---- */
const dp_sparse_words dp_sparse_plain_words = {
    .indices = "Input indices should be a matrix but received shape ",
    .values = "Input values should be a vector but received shape ",
    .shape = "Input shape should be a vector but received shape "};
const dp_sparse_words dp_sparse_rank_words = {.indices =
                                                  "Sparse indices must be rank 2 but is rank ",
                                              .values = "Sparse values must be rank 1 but is rank ",
                                              .shape = "Sparse shape must be rank 1 but is rank ",
                                              .says_rank = true};

static dp_status *check_ranks(const dp_shape *indices, const dp_shape *values,
                              const dp_shape *shape, const dp_sparse_words *words) {
  const dp_shape *shapes[] = {indices, values, shape};
  const char *texts[] = {words->indices, words->values, words->shape};
  for (int i = 0; i < 3; ++i) {
    if (shapes[i]->rank == (i == 0 ? 2 : 1))
      continue;
    if (i > 0 && words->both)
      return DP_INVALID("%s%s and %s", words->both, dp_shape_text(values), dp_shape_text(shape));
    return words->says_rank ? DP_INVALID("%s%d", texts[i], shapes[i]->rank)
                            : DP_INVALID("%s%s", texts[i], dp_shape_text(shapes[i]));
  }
  return NULL;
}

static dp_status *check_counts(const dp_shape *indices, const dp_shape *values,
                               const dp_shape *shape, const dp_sparse_words *words) {
  long long rows = (long long)indices->dims[0], count = (long long)values->dims[0];
  long long columns = (long long)indices->dims[1], rank = (long long)shape->dims[0];
  if (rows != count)
    return words->is_tensor ? DP_INVALID("indices and values rows (indexing dimension) must match. "
                                         "(indices = %lld, values = %lld)",
                                         rows, count)
                            : DP_INVALID("Number of elements in indices (%lld) and values (%lld) "
                                         "do not match",
                                         rows, count);
  if (columns != rank)
    return words->is_tensor
               ? DP_INVALID("Order length must be SparseTensor rank.")
               : DP_INVALID("Index rank (%lld) and shape rank (%lld) do not match", columns, rank);
  return NULL;
}

dp_status *dp_sparse_open(const dp_op_context *context, int32_t indices_slot, int32_t values_slot,
                          int32_t shape_slot, const dp_sparse_words *words, dp_sparse *sparse) {
  const dp_tensor *indices = dp_op_input(context, indices_slot);
  const dp_tensor *values = dp_op_input(context, values_slot);
  const dp_tensor *shape = dp_op_input(context, shape_slot);
  DP_RETURN_IF_ERROR(check_ranks(&indices->shape, &values->shape, &shape->shape, words));
  DP_RETURN_IF_ERROR(check_counts(&indices->shape, &values->shape, &shape->shape, words));
  int64_t rank = shape->shape.dims[0];
  if (rank > DP_MAX_RANK)
    return DP_INVALID("A sparse tensor has at most %d dimensions, not %lld", DP_MAX_RANK,
                      (long long)rank);
  *sparse = (dp_sparse){.indices = indices->data,
                        .values = values,
                        .count = values->shape.dims[0],
                        .rank = (int32_t)rank};
  for (int32_t i = 0; i < sparse->rank; ++i)
    sparse->dims[i] = dp_tensor_int_at(shape, i);
  return NULL;
}

dp_status *dp_sparse_dense_shape(const dp_sparse *sparse, dp_shape *shape_out) {
  return dp_shape_make(sparse->rank, sparse->dims, shape_out);
}

/* ---- Checks ---- */
static void print_row(const int64_t *row, int32_t rank, dp_text *text) {
  for (int32_t i = 0; i < rank; ++i)
    dp_text_printf(text, "%s%lld", i ? "," : "", (long long)row[i]);
}

static dp_status *row_error(const dp_sparse *sparse, int64_t row, const char *problem,
                            bool with_dims) {
  dp_text text = {0};
  dp_text_printf(&text, "indices[%lld] = [", (long long)row);
  print_row(sparse->indices + row * sparse->rank, sparse->rank, &text);
  dp_text_printf(&text, "]%s", problem);
  if (with_dims) {
    print_row(sparse->dims, sparse->rank, &text);
    dp_text_printf(&text, "]");
  }
  dp_status *status = DP_INVALID("%s", dp_text_string(&text));
  dp_text_deinit(&text);
  return status;
}

static bool row_fits(const dp_sparse *sparse, int64_t row) {
  const int64_t *at = sparse->indices + row * sparse->rank;
  bool fits = true;
  for (int32_t i = 0; i < sparse->rank; ++i)
    fits &= at[i] >= 0 && at[i] < sparse->dims[i];
  return fits;
}

int64_t dp_sparse_find_outside(const dp_sparse *sparse) {
  for (int64_t i = 0; i < sparse->count; ++i)
    if (!row_fits(sparse, i))
      return i;
  return -1;
}

dp_status *dp_sparse_check_bounds(const dp_sparse *sparse) {
  int64_t bad = dp_sparse_find_outside(sparse);
  return bad < 0 ? NULL : row_error(sparse, bad, " is out of bounds: need 0 <= index < [", true);
}

dp_status *dp_sparse_check_order(const dp_sparse *sparse) {
  const int64_t *row = sparse->indices;
  for (int64_t i = 0; i < sparse->count; ++i, row += sparse->rank) {
    if (!row_fits(sparse, i))
      return row_error(sparse, i, " is out of bounds: need 0 <= index < [", true);
    int order = i ? dp_sparse_compare(row - sparse->rank, row, sparse->rank) : -1;
    if (order > 0)
      return row_error(sparse, i,
                       " is out of order. Many sparse ops require sorted indices.\n"
                       "    Use `tf.sparse.reorder` to create a correctly ordered copy.\n\n",
                       false);
    if (order == 0)
      return row_error(sparse, i, " is repeated", false);
  }
  return NULL;
}

/* ---- Sorting ---- */
typedef struct sort_plan {
  const dp_sparse *sparse;
  const int32_t *dimensions;
  int32_t dimension_count;
} sort_plan;

static int compare_rows(const sort_plan *plan, int64_t a, int64_t b) {
  const int64_t *left = plan->sparse->indices + a * plan->sparse->rank;
  const int64_t *right = plan->sparse->indices + b * plan->sparse->rank;
  for (int32_t i = 0; i < plan->dimension_count; ++i) {
    int32_t at = plan->dimensions[i];
    if (left[at] != right[at])
      return left[at] < right[at] ? -1 : 1;
  }
  return 0;
}

static bool is_sorted(const sort_plan *plan) {
  for (int64_t i = 1; i < plan->sparse->count; ++i) {
    if (compare_rows(plan, i - 1, i) > 0)
      return false;
  }
  return true;
}

typedef struct keyed_row {
  uint64_t key;
  int64_t row;
} keyed_row;

/* The position of each row in a dense tensor of the plan's dimensions; false when it does not fit
 * or a row is out of bounds. */
static bool make_keys(const sort_plan *plan, keyed_row *keys, uint64_t *largest_out) {
  const dp_sparse *sparse = plan->sparse;
  int64_t strides[DP_MAX_RANK], product = 1;
  for (int32_t i = plan->dimension_count - 1; i >= 0; --i) {
    strides[i] = product;
    if (__builtin_mul_overflow(product, sparse->dims[plan->dimensions[i]], &product) || product < 0)
      return false;
  }
  const int64_t *at = sparse->indices;
  uint64_t largest = 0;
  for (int64_t row = 0; row < sparse->count; ++row, at += sparse->rank) {
    uint64_t key = 0;
    for (int32_t i = 0; i < plan->dimension_count; ++i) {
      int32_t dimension = plan->dimensions[i];
      if (at[dimension] < 0 || at[dimension] >= sparse->dims[dimension])
        return false;
      key += (uint64_t)(at[dimension] * strides[i]);
    }
    keys[row] = (keyed_row){key, row};
    largest = key > largest ? key : largest;
  }
  *largest_out = largest;
  return true;
}

enum { DIGIT_BITS = 11, DIGITS = 1 << DIGIT_BITS };

/* Radix sort from the lowest digit on. The result is in `keys` or in `spare`; returns which. */
static const keyed_row *sort_keys(keyed_row *keys, keyed_row *spare, int64_t count,
                                  uint64_t largest) {
  for (int shift = 0; shift < 64 && largest >> shift; shift += DIGIT_BITS) {
    int64_t starts[DIGITS] = {0};
    for (int64_t i = 0; i < count; ++i)
      ++starts[keys[i].key >> shift & (DIGITS - 1)];
    int64_t start = 0;
    for (int digit = 0; digit < DIGITS; ++digit) {
      int64_t size = starts[digit];
      starts[digit] = start;
      start += size;
    }
    for (int64_t i = 0; i < count; ++i)
      spare[starts[keys[i].key >> shift & (DIGITS - 1)]++] = keys[i];
    keyed_row *swapped = keys;
    keys = spare;
    spare = swapped;
  }
  return keys;
}

/* Merges runs of growing length from `rows` to `spare` and back; returns the array with the
 * result. */
static const int64_t *merge_rows(const sort_plan *plan, int64_t *rows, int64_t *spare) {
  int64_t count = plan->sparse->count;
  for (int64_t i = 0; i < count; ++i)
    rows[i] = i;
  for (int64_t length = 1; length < count; length *= 2) {
    for (int64_t begin = 0; begin < count; begin += 2 * length) {
      int64_t middle = begin + length < count ? begin + length : count;
      int64_t end = middle + length < count ? middle + length : count;
      int64_t a = begin, b = middle;
      for (int64_t to = begin; to < end; ++to) {
        bool left = a < middle && (b == end || compare_rows(plan, rows[a], rows[b]) <= 0);
        spare[to] = left ? rows[a++] : rows[b++];
      }
    }
    int64_t *swapped = rows;
    rows = spare;
    spare = swapped;
  }
  return rows;
}

dp_status *dp_sparse_sort(const dp_sparse *sparse, const int32_t *dimensions,
                          int32_t dimension_count, dp_sparse_order *order) {
  sort_plan plan = {sparse, dimensions, dimension_count};
  int64_t count = sparse->count;
  *order = (dp_sparse_order){0};
  if (is_sorted(&plan))
    return NULL;
  dp_buffer *rows, *scratch;
  DP_RETURN_IF_ERROR(dp_buffer_create((size_t)count * sizeof(int64_t), &rows));
  dp_status *status = dp_buffer_create((size_t)count * 2 * sizeof(keyed_row), &scratch);
  if (status) {
    dp_buffer_release(rows);
    return status;
  }
  keyed_row *keys = scratch->data;
  int64_t *result = rows->data;
  uint64_t largest;
  if (make_keys(&plan, keys, &largest)) {
    const keyed_row *sorted = sort_keys(keys, keys + count, count, largest);
    for (int64_t i = 0; i < count; ++i)
      result[i] = sorted[i].row;
  } else {
    const int64_t *sorted = merge_rows(&plan, result, scratch->data);
    if (sorted != result)
      memcpy(result, sorted, (size_t)count * sizeof *result);
  }
  dp_buffer_release(scratch);
  *order = (dp_sparse_order){rows, result};
  return NULL;
}

/* ---- Values and groups ---- */
#define GATHER(type)                                                                               \
  {                                                                                                \
    type *target = to;                                                                             \
    const type *source = from;                                                                     \
    for (int64_t i = 0; i < count; ++i)                                                            \
      target[i] = source[rows[i]];                                                                 \
    return;                                                                                        \
  }

void dp_sparse_gather(dp_dtype dtype, void *to, const void *from, const dp_sparse_order *order,
                      int64_t count) {
  const int64_t *rows = order->rows;
  size_t size = dp_dtype_size(dtype);
  if (!rows) {
    dp_move_elements(dtype, size, to, from, count);
    return;
  }
  if (dp_dtype_is_plain(dtype)) {
    switch (size) {
    case 1:
      GATHER(uint8_t)
    case 2:
      GATHER(uint16_t)
    case 4:
      GATHER(uint32_t)
    case 8:
      GATHER(uint64_t)
    default:
      break;
    }
  }
  for (int64_t i = 0; i < count; ++i)
    dp_move_elements(dtype, size, (char *)to + (size_t)i * size,
                     (const char *)from + (size_t)rows[i] * size, 1);
}

int64_t dp_sparse_group_end(const dp_sparse *sparse, const dp_sparse_order *order, int64_t begin,
                            const int32_t *dimensions, int32_t dimension_count) {
  sort_plan plan = {sparse, dimensions, dimension_count};
  int64_t first = dp_sparse_order_at(order, begin), end = begin + 1;
  while (end < sparse->count && compare_rows(&plan, first, dp_sparse_order_at(order, end)) == 0)
    ++end;
  return end;
}

/* ---- Outputs ---- */
dp_status *dp_sparse_allocate_indices(dp_op_context *context, int32_t output, int64_t count,
                                      int32_t rank, int64_t **indices_out) {
  dp_shape shape;
  dp_tensor *tensor;
  DP_RETURN_IF_ERROR(dp_shape_make(2, (int64_t[]){count, rank}, &shape));
  DP_RETURN_IF_ERROR(dp_op_allocate(context, output, &shape, &tensor));
  *indices_out = tensor->data;
  return NULL;
}

dp_status *dp_sparse_output_dims(dp_op_context *context, int32_t output, const int64_t *dims,
                                 int32_t rank) {
  dp_shape shape = dp_shape_vector(rank);
  dp_tensor *tensor;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, output, &shape, &tensor));
  memcpy(tensor->data, dims, (size_t)rank * sizeof *dims);
  return NULL;
}
