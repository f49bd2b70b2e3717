/* Ops that compare elements: TopK, NthElement, InTopK, LowerBound and UpperBound.
 *
 * Values of every dtype become unsigned 64-bit keys with the same order, so that one body serves
 * all dtypes. A candidate is a 128-bit number: the key, then the complement of the column. So
 * comparing two candidates prefers the larger value and, among equal values, the smaller column. */
#include <math.h>
#include <stdatomic.h>
#include <string.h>
#include "kernels/shared/family.h"

typedef unsigned __int128 candidate;

static candidate make_candidate(uint64_t key, int64_t column) {
  return (candidate)key << 64 | (uint64_t)~column;
}
static int64_t candidate_column(candidate one) {
  return (int64_t) ~(uint64_t)one;
}

/* ---- Keys ---- */
static uint64_t float_key(uint64_t bits, int width) {
  uint64_t sign = (uint64_t)1 << (width - 1);
  if (bits == sign)
    bits = 0; /* minus zero equals zero */
  return bits & sign ? ~bits & (sign | (sign - 1)) : bits | sign;
}

#define KEY_LOOP(type, expression)                                                                 \
  {                                                                                                \
    const type *values = data;                                                                     \
    for (int64_t i = 0; i < count; ++i)                                                            \
      keys[i] = (expression);                                                                      \
    return;                                                                                        \
  }

static void make_keys(dp_dtype dtype, const void *data, int64_t count, uint64_t *keys) {
  switch (dtype) {
  case DP_FLOAT:
    KEY_LOOP(uint32_t, float_key(values[i], 32))
  case DP_DOUBLE:
    KEY_LOOP(uint64_t, float_key(values[i], 64))
  case DP_HALF:
  case DP_BFLOAT16:
    KEY_LOOP(uint16_t, float_key(values[i], 16))
  case DP_INT8:
    KEY_LOOP(int8_t, (uint64_t)values[i] ^ (uint64_t)1 << 63)
  case DP_INT16:
    KEY_LOOP(int16_t, (uint64_t)values[i] ^ (uint64_t)1 << 63)
  case DP_INT32:
    KEY_LOOP(int32_t, (uint64_t)values[i] ^ (uint64_t)1 << 63)
  case DP_INT64:
    KEY_LOOP(int64_t, (uint64_t)values[i] ^ (uint64_t)1 << 63)
  case DP_UINT8:
    KEY_LOOP(uint8_t, values[i])
  case DP_UINT16:
    KEY_LOOP(uint16_t, values[i])
  case DP_UINT32:
    KEY_LOOP(uint32_t, values[i])
  default:
    KEY_LOOP(uint64_t, values[i])
  }
}

/* ---- Selecting and sorting candidates, largest first ---- */
static void sift_down(candidate *heap, int64_t count, int64_t at) {
  candidate moving = heap[at];
  for (;;) {
    int64_t child = 2 * at + 1;
    if (child >= count)
      break;
    child += child + 1 < count && heap[child + 1] < heap[child];
    if (moving <= heap[child])
      break;
    heap[at] = heap[child];
    at = child;
  }
  heap[at] = moving;
}

/* Sorts a heap whose root is the smallest: the largest comes first. */
static void sort_heap(candidate *heap, int64_t count) {
  while (count > 1) {
    candidate smallest = heap[0];
    heap[0] = heap[--count];
    heap[count] = smallest;
    sift_down(heap, count, 0);
  }
}

static void top_of_row(const uint64_t *keys, int64_t columns, candidate *heap, int64_t k) {
  for (int64_t i = 0; i < k; ++i)
    heap[i] = make_candidate(keys[i], i);
  for (int64_t i = k / 2 - 1; i >= 0; --i)
    sift_down(heap, k, i);
  for (int64_t i = k; i < columns; ++i) {
    if (keys[i] <= (uint64_t)(heap[0] >> 64)) /* an equal key comes later, so it is not better */
      continue;
    heap[0] = make_candidate(keys[i], i);
    sift_down(heap, k, 0);
  }
  sort_heap(heap, k);
}

/* ---- TopK ---- */
typedef struct top_work {
  const dp_tensor *input;
  dp_tensor *values, *indices;
  int64_t columns, k;
  atomic_bool failed; /* out of memory */
} top_work;

static void store_index(dp_tensor *tensor, int64_t at, int64_t value) {
  if (tensor->dtype == DP_INT32)
    ((int32_t *)tensor->data)[at] = (int32_t)value;
  else if (tensor->dtype == DP_INT64)
    ((int64_t *)tensor->data)[at] = value;
  else
    ((int16_t *)tensor->data)[at] = (int16_t)value;
}

static void top_rows(void *arg, int64_t begin, int64_t end) {
  top_work *work = arg;
  size_t size = dp_dtype_size(work->input->dtype);
  uint64_t *keys = dp_try_malloc((size_t)work->columns * sizeof *keys);
  candidate *heap = dp_try_malloc((size_t)work->k * sizeof *heap);
  if (!keys || !heap) {
    atomic_store(&work->failed, true);
    end = begin;
  }
  for (int64_t row = begin; row < end; ++row) {
    const char *from = (const char *)work->input->data + (size_t)(row * work->columns) * size;
    make_keys(work->input->dtype, from, work->columns, keys);
    top_of_row(keys, work->columns, heap, work->k);
    char *to = (char *)work->values->data + (size_t)(row * work->k) * size;
    for (int64_t i = 0; i < work->k; ++i) {
      int64_t column = candidate_column(heap[i]);
      memcpy(to + (size_t)i * size, from + (size_t)column * size, size);
      store_index(work->indices, row * work->k + i, column);
    }
  }
  dp_free(keys);
  dp_free(heap);
}

static dp_status *top_create(const dp_kernel_setup *setup, void *state) {
  *(int64_t *)state = -1;
  if (!dp_node_is(setup->node, "TopK"))
    return NULL;
  DP_RETURN_IF_ERROR(dp_node_get_int(setup->node, "k", state));
  return NULL;
}

static dp_status *top_compute(dp_op_context *context, void *state) {
  const dp_tensor *input = dp_op_input(context, 0);
  int64_t k = *(const int64_t *)state;
  if (context->input_count > 1) {
    const dp_tensor *k_tensor = dp_op_input(context, 1);
    if (k_tensor->shape.rank != 0)
      return DP_INVALID("k must be scalar, got shape %s", dp_shape_text(&k_tensor->shape));
    k = dp_tensor_int_at(k_tensor, 0);
  }
  if (k < 0)
    return DP_INVALID("Need k >= 0, got %lld", (long long)k);
  if (input->shape.rank < 1)
    return DP_INVALID("input must be >= 1-D, got shape %s", dp_shape_text(&input->shape));
  int last = input->shape.rank - 1;
  int64_t columns = input->shape.dims[last];
  if (columns < k)
    return DP_INVALID("input must have at least k columns. Had %lld, needed %lld",
                      (long long)columns, (long long)k);
  dp_shape shape = dp_shape_with(&input->shape, last, k);
  top_work work = {.input = input, .columns = columns, .k = k};
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &shape, &work.values));
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 1, &shape, &work.indices));
  if (shape.elements == 0)
    return NULL;
  int64_t cost = columns * 2 + k * (64 - __builtin_clzll((uint64_t)k)) * 4;
  dp_op_for(context, shape.elements / k, cost, top_rows, &work);
  return atomic_load(&work.failed) ? dp_status_out_of_memory() : NULL;
}

/* ---- NthElement ---- */
static dp_status *nth_create(const dp_kernel_setup *setup, void *state) {
  return dp_node_get_bool(setup->node, "reverse", state);
}

/* The element at position `n` in ascending order; reorders the candidates. */
static candidate select_nth(candidate *items, int64_t count, int64_t n) {
  int64_t low = 0, high = count - 1;
  while (low < high) {
    candidate a = items[low], b = items[low + (high - low) / 2], c = items[high];
    candidate pivot = a < b ? (b < c ? b : a < c ? c : a) : (a < c ? a : b < c ? c : b);
    int64_t i = low, j = high;
    while (i <= j) {
      while (items[i] < pivot)
        ++i;
      while (items[j] > pivot)
        --j;
      if (i <= j) {
        candidate swapped = items[i];
        items[i++] = items[j];
        items[j--] = swapped;
      }
    }
    if (n <= j)
      high = j;
    else if (n >= i)
      low = i;
    else
      break;
  }
  return items[n];
}

typedef struct nth_work {
  const dp_tensor *input;
  dp_tensor *output;
  int64_t columns, n;
  atomic_bool failed;
} nth_work;

static void nth_rows(void *arg, int64_t begin, int64_t end) {
  nth_work *work = arg;
  size_t size = dp_dtype_size(work->input->dtype);
  uint64_t *keys = dp_try_malloc((size_t)work->columns * sizeof *keys);
  candidate *items = dp_try_malloc((size_t)work->columns * sizeof *items);
  if (!keys || !items) {
    atomic_store(&work->failed, true);
    end = begin;
  }
  for (int64_t row = begin; row < end; ++row) {
    const char *from = (const char *)work->input->data + (size_t)(row * work->columns) * size;
    make_keys(work->input->dtype, from, work->columns, keys);
    for (int64_t i = 0; i < work->columns; ++i)
      items[i] = make_candidate(keys[i], i);
    int64_t column = candidate_column(select_nth(items, work->columns, work->n));
    memcpy((char *)work->output->data + (size_t)row * size, from + (size_t)column * size, size);
  }
  dp_free(keys);
  dp_free(items);
}

static dp_status *nth_compute(dp_op_context *context, void *state) {
  const dp_tensor *input = dp_op_input(context, 0), *n_tensor = dp_op_input(context, 1);
  if (n_tensor->shape.rank != 0)
    return DP_INVALID("N must be scalar but has rank %d", n_tensor->shape.rank);
  int64_t n = dp_tensor_int_at(n_tensor, 0);
  if (n < 0)
    return DP_INVALID("n must be non-negative but is %lld", (long long)n);
  if (input->shape.rank < 1)
    return DP_INVALID("Input must be at least rank 1 but is rank %d", input->shape.rank);
  int last = input->shape.rank - 1;
  int64_t columns = input->shape.dims[last];
  if (columns <= n)
    return DP_INVALID("Input must have last dimension > n = %lld", (long long)n);
  dp_shape shape = dp_shape_remove(&input->shape, last);
  nth_work work = {.input = input, .columns = columns};
  work.n = *(const bool *)state ? columns - 1 - n : n;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &shape, &work.output));
  dp_op_for(context, shape.elements, columns * 6, nth_rows, &work);
  return atomic_load(&work.failed) ? dp_status_out_of_memory() : NULL;
}

/* ---- InTopK ---- */
static dp_status *in_top_create(const dp_kernel_setup *setup, void *state) {
  *(int64_t *)state = 0;
  return dp_node_is(setup->node, "InTopK") ? dp_node_get_int(setup->node, "k", state) : NULL;
}

/* Columns per block; a block is counted without branches. */
#define TOP_BLOCK 16

static inline bool is_not_finite(const float *value) {
  uint32_t bits;
  memcpy(&bits, value, sizeof bits);
  return (bits & 0x7f800000u) == 0x7f800000u;
}

/* Counts the numbers larger than `limit`, up to about k; a number that is not finite counts as
 * k. */
static int64_t count_larger(const float *row, int64_t columns, float limit, int64_t k) {
  int64_t larger = 0, i = 0;
  for (; i + TOP_BLOCK <= columns && larger < k; i += TOP_BLOCK) {
    int32_t more = 0, wrong = 0;
    for (int j = 0; j < TOP_BLOCK; ++j) {
      more += row[i + j] > limit;
      wrong |= is_not_finite(&row[i + j]);
    }
    larger += wrong ? k : more;
  }
  for (; i < columns && larger < k; ++i)
    larger += is_not_finite(&row[i]) ? k : row[i] > limit;
  return larger;
}

static bool is_in_top(const float *row, int64_t columns, int64_t target, int64_t k) {
  if (target < 0 || target >= columns || is_not_finite(&row[target]))
    return false;
  return count_larger(row, columns, row[target], k) < k;
}

static dp_status *in_top_compute(dp_op_context *context, void *state) {
  const dp_tensor *predictions = dp_op_input(context, 0), *targets = dp_op_input(context, 1);
  int64_t k = *(const int64_t *)state;
  if (context->input_count > 2) {
    if (dp_op_input(context, 2)->shape.rank != 0)
      return DP_INVALID("k must be 0-D, got shape %s",
                        dp_shape_text(&dp_op_input(context, 2)->shape));
    k = dp_tensor_int_at(dp_op_input(context, 2), 0);
  }
  if (predictions->shape.rank != 2)
    return DP_INVALID("predictions must be 2-dimensional");
  if (targets->shape.rank != 1)
    return DP_INVALID("targets must be 1-dimensional");
  int64_t rows = predictions->shape.dims[0], columns = predictions->shape.dims[1];
  if (rows != dp_tensor_elements(targets))
    return DP_INVALID("First dimension of predictions %lld must match length of targets %lld",
                      (long long)rows, (long long)dp_tensor_elements(targets));
  dp_shape shape = targets->shape;
  dp_tensor *output;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &shape, &output));
  for (int64_t i = 0; i < rows; ++i)
    ((bool *)output->data)[i] = is_in_top((const float *)predictions->data + i * columns, columns,
                                          dp_tensor_int_at(targets, i), k);
  return NULL;
}

/* ---- LowerBound, UpperBound ---- */
static dp_status *bound_create(const dp_kernel_setup *setup, void *state) {
  *(bool *)state = dp_node_is(setup->node, "UpperBound");
  return NULL;
}

typedef struct bound_work {
  const dp_tensor *sorted, *values;
  dp_tensor *output;
  bool upper;
} bound_work;

static void find_bounds(void *arg, int64_t begin, int64_t end) {
  const bound_work *work = arg;
  int64_t columns = work->sorted->shape.dims[1], per_row = work->values->shape.dims[1];
  size_t size = dp_dtype_size(work->sorted->dtype);
  dp_dtype dtype = work->sorted->dtype;
  for (int64_t i = begin; i < end; ++i) {
    const char *row = (const char *)work->sorted->data + (size_t)(i / per_row * columns) * size;
    uint64_t wanted, key;
    make_keys(dtype, (const char *)work->values->data + (size_t)i * size, 1, &wanted);
    int64_t low = 0, high = columns;
    while (low < high) {
      int64_t middle = low + (high - low) / 2;
      make_keys(dtype, row + (size_t)middle * size, 1, &key);
      if (work->upper ? key <= wanted : key < wanted)
        low = middle + 1;
      else
        high = middle;
    }
    store_index(work->output, i, low);
  }
}

static dp_status *bound_compute(dp_op_context *context, void *state) {
  const dp_tensor *sorted = dp_op_input(context, 0), *values = dp_op_input(context, 1);
  if (sorted->shape.rank != 2)
    return DP_INVALID("Shape must be rank 2 but is rank %d for `sorted_inputs` argument",
                      sorted->shape.rank);
  if (values->shape.rank != 2)
    return DP_INVALID("Shape must be rank 2 but is rank %d for `values` argument",
                      values->shape.rank);
  if (sorted->shape.dims[0] != values->shape.dims[0])
    return DP_INVALID("Leading dim_size of both tensors must match.");
  if (dp_op_output_type(context, 0) == DP_INT32 && values->shape.elements >= INT32_MAX)
    return DP_INVALID("values tensor size must less than INT_MAX");
  dp_shape shape = values->shape;
  bound_work work = {sorted, values, NULL, *(const bool *)state};
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &shape, &work.output));
  dp_op_for(context, shape.elements, 100, find_bounds, &work);
  return NULL;
}

#define TOP(name)                                                                                  \
  {                                                                                                \
    .op = name, .types = {{"T", DP_SET_REALS}}, .state_size = sizeof(int64_t),                     \
    .create = top_create, .compute = top_compute                                                   \
  }
#define IN_TOP(name)                                                                               \
  {                                                                                                \
    .op = name, .types = {{"T", DP_SET_INDEX}}, .state_size = sizeof(int64_t),                     \
    .create = in_top_create, .compute = in_top_compute                                             \
  }
#define BOUND(name)                                                                                \
  {                                                                                                \
    .op = name, .types = {{"T", DP_SET_REALS}, {"out_type", DP_SET_INDEX}},                        \
    .state_size = sizeof(bool), .create = bound_create, .compute = bound_compute                   \
  }
static const dp_kernel rows[] = {
    TOP("TopK"),
    TOP("TopKV2"),
    {.op = "NthElement",
     .types = {{"T", DP_SET_REALS}},
     .state_size = sizeof(bool),
     .create = nth_create,
     .compute = nth_compute},
    IN_TOP("InTopK"),
    IN_TOP("InTopKV2"),
    BOUND("LowerBound"),
    BOUND("UpperBound"),
};
DP_KERNEL_FAMILY(array_order, rows);
