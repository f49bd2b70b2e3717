/* DenseCountSparseOutput, SparseCountSparseOutput and RaggedCountSparseOutput: how often each
 * number occurs per row, as a sparse tensor.
 *
 * The three ops differ only in how they give the row of a number. All numbers to count are listed
 * and sorted by row, number and position (the sum of float weights depends on the order). Each run
 * of equal numbers becomes one entry. */
#include <stdlib.h>
#include <string.h>
#include "base/memory.h"
#include "kernels/shared/family.h"

typedef struct count_state {
  int64_t least, most; /* minlength and maxlength */
  bool is_binary;
} count_state;

static dp_status *count_create(const dp_kernel_setup *setup, void *memory) {
  count_state *state = memory;
  DP_RETURN_IF_ERROR(dp_node_get_int(setup->node, "minlength", &state->least));
  DP_RETURN_IF_ERROR(dp_node_get_int(setup->node, "maxlength", &state->most));
  return dp_node_get_bool(setup->node, "binary_output", &state->is_binary);
}

/* ---- Notes ---- */
typedef struct count_note {
  int64_t row, number, position;
} count_note;

typedef struct count_notes {
  count_note *items;
  int64_t count, largest; /* number, at least 0 */
  bool has_negative;
} count_notes;

static dp_status *notes_init(count_notes *notes, const dp_tensor *numbers) {
  *notes = (count_notes){0};
  notes->items = dp_try_malloc((size_t)(numbers->shape.elements + 1) * sizeof(count_note));
  if (!notes->items)
    return dp_status_create(DP_RESOURCE_EXHAUSTED, "no memory to count %lld numbers",
                            (long long)numbers->shape.elements);
  return NULL;
}

static void note(const count_state *state, const dp_tensor *numbers, int64_t position, int64_t row,
                 count_notes *notes) {
  int64_t number = dp_tensor_int_at(numbers, position);
  notes->has_negative |= number < 0;
  if (number < 0 || (state->most >= 0 && number >= state->most))
    return;
  notes->items[notes->count++] = (count_note){row, number, position};
  if (number > notes->largest)
    notes->largest = number;
}

static int compare_numbers(int64_t a, int64_t b) {
  return (a > b) - (a < b);
}

static int compare_notes(const void *a, const void *b) {
  const count_note *x = a, *y = b;
  int order = compare_numbers(x->row, y->row);
  if (order == 0)
    order = compare_numbers(x->number, y->number);
  return order != 0 ? order : compare_numbers(x->position, y->position);
}

static bool is_same_entry(const count_note *a, const count_note *b) {
  return a->row == b->row && a->number == b->number;
}

/* ---- Sums ---- */
/* Integers of both widths wrap alike, so one sum of 64 bits serves them. */
typedef union count_sum {
  uint64_t integer;
  float single;
  double wide;
} count_sum;

static void add_weight(dp_dtype dtype, const dp_tensor *weights, int64_t position, count_sum *sum) {
  switch (dtype) {
  case DP_FLOAT:
    sum->single += weights ? ((const float *)weights->data)[position] : 1;
    return;
  case DP_DOUBLE:
    sum->wide += weights ? ((const double *)weights->data)[position] : 1;
    return;
  default:
    sum->integer += weights ? (uint64_t)dp_tensor_int_at(weights, position) : 1;
  }
}

/* The low bytes of a little-endian sum are the sum of the narrower dtype. */
static void store_sum(const count_sum *sum, dp_tensor *output, int64_t index) {
  size_t size = dp_dtype_size(output->dtype);
  memcpy((char *)output->data + (size_t)index * size, sum, size);
}

/* The sum over notes [begin, end), which belong to one entry. */
static count_sum sum_notes(const count_state *state, dp_dtype dtype, const count_note *begin,
                           const count_note *end, const dp_tensor *weights) {
  count_sum sum = {0};
  if (state->is_binary) {
    add_weight(dtype, NULL, 0, &sum);
    return sum;
  }
  for (; begin < end; ++begin)
    add_weight(dtype, weights, begin->position, &sum);
  return sum;
}

/* ---- Outputs ---- */
static int64_t count_entries(const count_notes *notes) {
  int64_t entries = 0;
  for (int64_t i = 0; i < notes->count; ++i)
    entries += i == 0 || !is_same_entry(&notes->items[i], &notes->items[i - 1]);
  return entries;
}

static dp_status *output_shape(dp_op_context *context, const count_state *state,
                               const count_notes *notes, bool is_vector, int64_t rows) {
  dp_shape shape = dp_shape_vector(is_vector ? 1 : 2);
  dp_tensor *output;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 2, &shape, &output));
  int64_t size = notes->largest + 1 > state->least ? notes->largest + 1 : state->least;
  int64_t *dims = output->data;
  if (!is_vector)
    *dims++ = rows;
  *dims = state->most >= 0 ? state->most : size;
  return NULL;
}

/* Empty weights mean that all weights are 1. */
static dp_status *output_counts(dp_op_context *context, const count_state *state,
                                count_notes *notes, const dp_tensor *weights, bool is_vector,
                                int64_t rows) {
  if (notes->has_negative)
    return DP_INVALID("Input values must all be non-negative");
  qsort(notes->items, (size_t)notes->count, sizeof(count_note), compare_notes);
  int64_t entries = count_entries(notes), dims[] = {entries, is_vector ? 1 : 2};
  dp_shape shape, vector = dp_shape_vector(entries);
  dp_tensor *indices, *values;
  DP_RETURN_IF_ERROR(dp_shape_make(2, dims, &shape));
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &shape, &indices));
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 1, &vector, &values));
  if (weights->shape.elements == 0)
    weights = NULL;
  const count_note *end = notes->items + notes->count, *next;
  int64_t *index = indices->data, entry = 0;
  for (const count_note *at = notes->items; at < end; at = next) {
    for (next = at + 1; next < end && is_same_entry(at, next);)
      ++next;
    if (!is_vector)
      *index++ = at->row;
    *index++ = at->number;
    count_sum sum = sum_notes(state, values->dtype, at, next, weights);
    store_sum(&sum, values, entry++);
  }
  return output_shape(context, state, notes, is_vector, rows);
}

static dp_status *check_weights(const dp_tensor *weights, const dp_tensor *numbers,
                                const char *what) {
  if (weights->shape.elements == 0 || dp_shape_equal(&weights->shape, &numbers->shape))
    return NULL;
  return DP_INVALID("Weights and %s must have the same shape. Weight shape: %s; %s shape: %s", what,
                    dp_shape_text(&weights->shape), what, dp_shape_text(&numbers->shape));
}

/* ---- The three ---- */
static dp_status *dense_compute(dp_op_context *context, void *memory) {
  const dp_tensor *numbers = dp_op_input(context, 0), *weights = dp_op_input(context, 1);
  if (numbers->shape.rank != 1 && numbers->shape.rank != 2)
    return DP_INVALID("Input must be a 1 or 2-dimensional tensor. Got: %s",
                      dp_shape_text(&numbers->shape));
  DP_RETURN_IF_ERROR(check_weights(weights, numbers, "data"));
  bool is_vector = numbers->shape.rank == 1;
  int64_t rows = is_vector ? 1 : numbers->shape.dims[0];
  if (rows == 0)
    return DP_INVALID("Invalid input: Shapes dimension cannot be 0.");
  int64_t columns = numbers->shape.elements / rows;
  count_notes notes;
  DP_RETURN_IF_ERROR(notes_init(&notes, numbers));
  for (int64_t i = 0; i < numbers->shape.elements; ++i)
    note(memory, numbers, i, i / columns, &notes);
  dp_status *status = output_counts(context, memory, &notes, weights, is_vector, rows);
  dp_free(notes.items);
  return status;
}

static dp_status *check_indices(const dp_tensor *indices, const dp_tensor *shape) {
  int64_t rank = shape->shape.elements;
  const int64_t *index = indices->data, *dims = shape->data;
  for (int64_t i = 0; i < indices->shape.dims[0]; ++i)
    for (int64_t k = 0; k < rank; ++k, ++index)
      if (*index < 0 || *index >= dims[k])
        return DP_INVALID("Invalid index value at %lld: dimension %lld has value %lld which is not "
                          "in [0, %lld)",
                          (long long)i, (long long)k, (long long)*index, (long long)dims[k]);
  return NULL;
}

static dp_status *check_sparse(const dp_tensor *indices, const dp_tensor *numbers,
                               const dp_tensor *shape) {
  if (indices->shape.rank != 2)
    return DP_INVALID("Input indices must be a 2-dimensional tensor. Got: %s",
                      dp_shape_text(&indices->shape));
  if (numbers->shape.rank != 1)
    return DP_INVALID("Input values must be a vector. Got: %s", dp_shape_text(&numbers->shape));
  if (shape->shape.rank != 1)
    return DP_INVALID("Input shape must be a vector. Got: %s", dp_shape_text(&shape->shape));
  if (numbers->shape.dims[0] != indices->shape.dims[0])
    return DP_INVALID("Number of values must match first dimension of indices.Got %lld values, "
                      "indices shape: %s",
                      (long long)numbers->shape.dims[0], dp_shape_text(&indices->shape));
  if (shape->shape.dims[0] != indices->shape.dims[1])
    return DP_INVALID("Number of dimensions must match second dimension of indices.Got %lld "
                      "dimensions, indices shape: %s",
                      (long long)shape->shape.dims[0], dp_shape_text(&indices->shape));
  if (shape->shape.elements == 0)
    return DP_INVALID("The shape argument requires at least one element.");
  return check_indices(indices, shape);
}

static dp_status *sparse_compute(dp_op_context *context, void *memory) {
  const dp_tensor *indices = dp_op_input(context, 0), *numbers = dp_op_input(context, 1);
  const dp_tensor *shape = dp_op_input(context, 2), *weights = dp_op_input(context, 3);
  DP_RETURN_IF_ERROR(check_sparse(indices, numbers, shape));
  DP_RETURN_IF_ERROR(check_weights(weights, numbers, "values"));
  int64_t rank = shape->shape.elements;
  int64_t rows = rank == 1 ? 1 : ((const int64_t *)shape->data)[0];
  if (rows <= 0 || rows >= INT32_MAX)
    return DP_INVALID("Cannot allocate %lld batches, is the dense shape too wide?",
                      (long long)rows);
  count_notes notes;
  DP_RETURN_IF_ERROR(notes_init(&notes, numbers));
  for (int64_t i = 0; i < numbers->shape.elements; ++i)
    note(memory, numbers, i, rank == 1 ? 0 : ((const int64_t *)indices->data)[i * rank], &notes);
  dp_status *status = output_counts(context, memory, &notes, weights, rank == 1, rows);
  dp_free(notes.items);
  return status;
}

static dp_status *check_splits(const int64_t *splits, int64_t rows, int64_t count) {
  if (rows <= 0)
    return DP_INVALID("Must provide at least 2 elements for the splits argument");
  if (splits[0] != 0)
    return DP_INVALID("Splits must start with 0, not with %lld", (long long)splits[0]);
  if (splits[rows] != count)
    return DP_INVALID("Splits must end with the number of values, got %lld instead of %lld",
                      (long long)splits[rows], (long long)count);
  return NULL;
}

static dp_status *ragged_compute(dp_op_context *context, void *memory) {
  const dp_tensor *numbers = dp_op_input(context, 1), *weights = dp_op_input(context, 2);
  const int64_t *splits = dp_op_input(context, 0)->data;
  int64_t rows = dp_op_input(context, 0)->shape.elements - 1, count = numbers->shape.elements;
  DP_RETURN_IF_ERROR(check_weights(weights, numbers, "values"));
  DP_RETURN_IF_ERROR(check_splits(splits, rows, count));
  count_notes notes;
  DP_RETURN_IF_ERROR(notes_init(&notes, numbers));
  for (int64_t i = 0, row = 0; i < count; ++i) {
    while (i >= splits[row]) /* the row ends at its last split */
      ++row;
    note(memory, numbers, i, row - 1, &notes);
  }
  dp_status *status = output_counts(context, memory, &notes, weights, false, rows);
  dp_free(notes.items);
  return status;
}

#define ROW(name, run)                                                                             \
  {                                                                                                \
    .op = name,                                                                                    \
    .types = {{"T", DP_SET_INDEX},                                                                 \
              {"output_type", DP_SET_INDEX | DP_SET(FLOAT) | DP_SET(DOUBLE)}},                     \
    .state_size = sizeof(count_state), .create = count_create, .compute = run                      \
  }
static const dp_kernel rows[] = {
    ROW("DenseCountSparseOutput", dense_compute),
    ROW("SparseCountSparseOutput", sparse_compute),
    ROW("RaggedCountSparseOutput", ragged_compute),
};
DP_KERNEL_FAMILY(sparse_count, rows);
