/* Where, the Unique family and ListDiff.
 *
 * Unique elements are found with an open hash table of 64-bit keys. A number is its own key (minus
 * zero counts as zero; a NaN equals nothing). Strings and rows of several elements are hashed, and
 * compared when their keys are equal. */
#include <endian.h>
#include "base/checksum.h"
#include "kernels/shared/family.h"
#include "kernels/shared/move.h"

/* ---- Where ---- */
/* In blocks of a fixed size, which compilers vectorize. */
#define NONZERO_CASE(type)                                                                         \
  {                                                                                                \
    const type *restrict values = (const type *)data + begin;                                      \
    int64_t i = 0;                                                                                 \
    for (; i + 64 <= count; i += 64)                                                               \
      for (int k = 0; k < 64; ++k)                                                                 \
        flags[i + k] = values[i + k] != 0;                                                         \
    for (; i < count; ++i)                                                                         \
      flags[i] = values[i] != 0;                                                                   \
    break;                                                                                         \
  }

/* flags[i]: element begin + i is not zero. */
static void find_nonzero(dp_dtype dtype, const void *data, int64_t begin, int64_t count,
                         uint8_t *restrict flags) {
  switch (dtype) {
  case DP_FLOAT:
    NONZERO_CASE(float)
  case DP_DOUBLE:
    NONZERO_CASE(double)
  case DP_HALF:
  case DP_BFLOAT16: { /* minus zero is zero */
    const uint16_t *values = (const uint16_t *)data + begin;
    for (int64_t i = 0; i < count; ++i)
      flags[i] = (values[i] & 0x7fff) != 0;
    break;
  }
  case DP_COMPLEX64: {
    const float *values = (const float *)data + 2 * begin;
    for (int64_t i = 0; i < count; ++i)
      flags[i] = values[2 * i] != 0 || values[2 * i + 1] != 0;
    break;
  }
  case DP_COMPLEX128: {
    const double *values = (const double *)data + 2 * begin;
    for (int64_t i = 0; i < count; ++i)
      flags[i] = values[2 * i] != 0 || values[2 * i + 1] != 0;
    break;
  }
  default:
    switch (dp_dtype_size(dtype)) {
    case 1:
      NONZERO_CASE(uint8_t)
    case 2:
      NONZERO_CASE(uint16_t)
    case 4:
      NONZERO_CASE(uint32_t)
    default:
      NONZERO_CASE(uint64_t)
    }
  }
}

/* Moves to the next element in row-major order. */
static void step_coordinates(const dp_shape *shape, int64_t *at) {
  for (int i = shape->rank - 1; i >= 0; --i) {
    if (++at[i] < shape->dims[i] || i == 0)
      return;
    at[i] = 0;
  }
}

/* Writes the coordinates of those elements of a run along the last dimension whose flag is set.
 * There is no branch on the flags, because nobody can predict them. Up to the last eight places
 * there is room to write eight entries whatever the flags are, so the end is not checked each time.
 * Eight flags are loaded before the stores, so that the compiler need not assume that the stores
 * change them. */
static inline __attribute__((always_inline)) int64_t *
write_run(const int rank, const int64_t *restrict at, const uint8_t *restrict flags, int64_t count,
          int64_t *restrict to, const int64_t *end) {
  const int last = rank - 1;
  int64_t first = at[last], i = 0;
  for (; i + 8 <= count && end - to >= 8 * rank; i += 8) {
    uint64_t eight;
    memcpy(&eight, flags + i, 8);
    eight = le64toh(eight);
    for (int k = 0; k < 8; ++k, eight >>= 8) {
      for (int d = 0; d < last; ++d)
        to[d] = at[d];
      to[last] = first + i + k;
      to += (int64_t)(eight & 1) * rank;
    }
  }
  for (; i < count && to < end; ++i) {
    for (int d = 0; d < last; ++d)
      to[d] = at[d];
    to[last] = first + i;
    to += flags[i] * rank;
  }
  return to;
}

/* For one dimension: looks up the positions of four flags together and writes all of them, but
 * advances only by the number of flags that are set. */
static int64_t *write_positions(const uint8_t *flags, int64_t count, int64_t first, int64_t *to,
                                const int64_t *end) {
  static const int64_t places[16][4] = {{0, 0, 0, 0}, {0, 0, 0, 0}, {1, 0, 0, 0}, {0, 1, 0, 0},
                                        {2, 0, 0, 0}, {0, 2, 0, 0}, {1, 2, 0, 0}, {0, 1, 2, 0},
                                        {3, 0, 0, 0}, {0, 3, 0, 0}, {1, 3, 0, 0}, {0, 1, 3, 0},
                                        {2, 3, 0, 0}, {0, 2, 3, 0}, {1, 2, 3, 0}, {0, 1, 2, 3}};
  int64_t i = 0;
  for (; i + 4 <= count && end - to >= 4; i += 4) {
    uint32_t four;
    memcpy(&four, flags + i, 4);
    uint32_t mask = le32toh(four) * 0x01020408u >> 24;
    for (int k = 0; k < 4; ++k)
      to[k] = first + i + places[mask][k];
    to += four * 0x01010101u >> 24;
  }
  return write_run(1, &(int64_t){first + i}, flags + i, count - i, to, end);
}

/* For elements from `at` on, over several runs. Stops at `end`. */
static int64_t *write_coordinates(const dp_shape *shape, const uint8_t *flags, int64_t count,
                                  int64_t *at, int64_t *to, const int64_t *end) {
  int rank = shape->rank, last = rank - 1;
  for (int64_t i = 0; i < count && to < end;) {
    int64_t run = shape->dims[last] - at[last];
    run = run < count - i ? run : count - i;
    to = rank == 1   ? write_positions(flags + i, run, at[0], to, end)
         : rank == 2 ? write_run(2, at, flags + i, run, to, end)
                     : write_run(rank, at, flags + i, run, to, end);
    i += run;
    at[last] += run - 1;
    step_coordinates(shape, at);
  }
  return to;
}

static dp_status *where_compute(dp_op_context *context, void *state) {
  const dp_tensor *input = dp_op_input(context, 0);
  int64_t total = dp_tensor_elements(input), found = 0;
  if (input->shape.rank == 0)
    return DP_INVALID("WhereOp : Unhandled input dimensions: 0");
  uint8_t flags[4096];
  for (int64_t begin = 0; begin < total; begin += (int64_t)sizeof flags) {
    int64_t count = total - begin < (int64_t)sizeof flags ? total - begin : (int64_t)sizeof flags;
    find_nonzero(input->dtype, input->data, begin, count, flags);
    uint64_t eight;
    int64_t i = 0;
    for (; i + 8 <= count; i += 8) {
      memcpy(&eight, flags + i, 8);
      found += (int64_t)(eight * 0x0101010101010101u >> 56);
    }
    for (; i < count; ++i)
      found += flags[i];
  }
  int rank = input->shape.rank;
  dp_shape shape = dp_shape_matrix(found, rank);
  dp_tensor *output;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &shape, &output));
  int64_t *to = output->data, *end = to + found * rank, at[DP_MAX_RANK] = {0};
  for (int64_t begin = 0; begin < total; begin += (int64_t)sizeof flags) {
    int64_t count = total - begin < (int64_t)sizeof flags ? total - begin : (int64_t)sizeof flags;
    if (total > (int64_t)sizeof flags) /* else the flags are still there */
      find_nonzero(input->dtype, input->data, begin, count, flags);
    to = write_coordinates(&input->shape, flags, count, at, to, end);
  }
  return NULL;
}

/* ---- Keys ---- */
/* The things to compare: `count` rows of `width` elements each. */
typedef struct items {
  dp_dtype dtype;
  const char *data;
  int64_t count, width;
  size_t size; /* bytes per element */
} items;

static bool is_nan(dp_dtype dtype, const char *at) {
  if (dtype == DP_FLOAT)
    return *(const float *)at != *(const float *)at;
  if (dtype == DP_DOUBLE)
    return *(const double *)at != *(const double *)at;
  if (dtype == DP_HALF)
    return (*(const uint16_t *)at & 0x7fff) > 0x7c00;
  return dtype == DP_BFLOAT16 && (*(const uint16_t *)at & 0x7fff) > 0x7f80;
}

static bool is_float(dp_dtype dtype) {
  return dtype == DP_FLOAT || dtype == DP_DOUBLE || dp_kernel_is_short_float(dtype);
}

/* The bits of one plain element, minus zero as zero. */
static uint64_t element_key(const items *items, const char *at) {
  uint64_t bits = 0;
  memcpy(&bits, at, items->size);
  if (is_float(items->dtype) && bits == (uint64_t)1 << (8 * items->size - 1))
    bits = 0;
  return bits;
}

static uint64_t mix(uint64_t key) {
  key ^= key >> 32;
  key *= 0x9e3779b97f4a7c15u;
  return key ^ key >> 29;
}

static uint64_t item_key(const items *items, int64_t index) {
  const char *at = items->data + (size_t)(index * items->width) * items->size;
  if (items->width == 1 && items->dtype != DP_STRING)
    return element_key(items, at);
  uint64_t key = 0x243f6a8885a308d3u;
  for (int64_t i = 0; i < items->width; ++i, at += items->size) {
    uint64_t part;
    if (items->dtype == DP_STRING) {
      dp_view text = dp_tstring_view((const dp_tstring *)at);
      part = dp_fingerprint64(text.data, text.length);
    } else {
      part = element_key(items, at);
    }
    key = mix(key ^ part) + 0x9e3779b97f4a7c15u;
  }
  return key;
}

/* Compares two items whose keys are equal. */
static bool items_equal(const items *a, int64_t i, const items *b, int64_t j) {
  const char *left = a->data + (size_t)(i * a->width) * a->size;
  const char *right = b->data + (size_t)(j * b->width) * b->size;
  if (a->width == 1 && a->dtype != DP_STRING)
    return !is_float(a->dtype) || !is_nan(a->dtype, left);
  for (int64_t k = 0; k < a->width; ++k, left += a->size, right += a->size) {
    if (a->dtype == DP_STRING) {
      if (!dp_view_equal(dp_tstring_view((const dp_tstring *)left),
                         dp_tstring_view((const dp_tstring *)right)))
        return false;
    } else if (element_key(a, left) != element_key(b, right) || is_nan(a->dtype, left)) {
      return false;
    }
  }
  return true;
}

/* ---- The table ---- */
typedef struct slot {
  uint64_t key;
  int64_t entry; /* number of the unique item + 1; 0: free */
} slot;
#define FIRST_SLOTS 256
typedef struct table {
  slot *slots;
  uint64_t mask;
} table;

/* `capacity` is a power of two. */
static dp_status *table_init(table *table, uint64_t capacity) {
  table->mask = capacity - 1;
  table->slots = dp_try_malloc(capacity * sizeof(slot));
  if (!table->slots)
    return dp_status_create(DP_RESOURCE_EXHAUSTED, "no memory for a table of %llu entries",
                            (unsigned long long)capacity);
  memset(table->slots, 0, capacity * sizeof(slot));
  return NULL;
}

/* The slot of the item, or the free slot where it belongs. `firsts` holds the item of each
 * entry. */
static slot *table_find(const table *table, const items *stored, const int64_t *firsts,
                        const items *wanted, int64_t index, uint64_t key) {
  for (uint64_t i = mix(key) & table->mask;; i = (i + 1) & table->mask) {
    slot *at = &table->slots[i];
    if (at->entry == 0)
      return at;
    if (at->key == key && items_equal(wanted, index, stored, firsts[at->entry - 1]))
      return at;
  }
}

/* Doubles the capacity. */
static dp_status *table_grow(table *old) {
  table grown;
  DP_RETURN_IF_ERROR(table_init(&grown, 2 * (old->mask + 1)));
  for (uint64_t i = 0; i <= old->mask; ++i) {
    if (old->slots[i].entry == 0)
      continue;
    uint64_t to = mix(old->slots[i].key) & grown.mask;
    while (grown.slots[to].entry != 0)
      to = (to + 1) & grown.mask;
    grown.slots[to] = old->slots[i];
  }
  dp_free(old->slots);
  *old = grown;
  return NULL;
}

/* ---- Unique ---- */
/* Writes the first item of each unique to `firsts` (room for items->count) and returns how many
 * there are. */
static dp_status *find_uniques(const items *items, dp_tensor *positions, int64_t *firsts,
                               int64_t *count_out) {
  table table = {0};
  DP_RETURN_IF_ERROR(table_init(&table, FIRST_SLOTS));
  dp_status *status = NULL;
  int64_t count = 0;
  for (int64_t i = 0; i < items->count && !status; ++i) {
    uint64_t key = item_key(items, i);
    slot *at = table_find(&table, items, firsts, items, i, key);
    int64_t entry = at->entry ? at->entry : count + 1;
    if (at->entry == 0) {
      firsts[count++] = i;
      *at = (slot){key, entry};
      if ((uint64_t)count * 2 > table.mask)
        status = table_grow(&table);
    }
    dp_tensor_set_int(positions, i, entry - 1);
  }
  dp_free(table.slots);
  *count_out = count;
  return status;
}

/* For plain integers of one size, which are their own keys. */
#define DEFINE_FIND_INTEGERS(type)                                                                 \
  static dp_status *find_##type(const type *values, int64_t total, dp_tensor *positions,           \
                                int64_t *firsts, int64_t *count_out) {                             \
    table table = {0};                                                                             \
    DP_RETURN_IF_ERROR(table_init(&table, FIRST_SLOTS));                                           \
    dp_status *status = NULL;                                                                      \
    int64_t count = 0;                                                                             \
    for (int64_t i = 0; i < total && !status; ++i) {                                               \
      uint64_t key = values[i], slot_index = mix(key) & table.mask;                                \
      while (table.slots[slot_index].entry != 0 && table.slots[slot_index].key != key)             \
        slot_index = (slot_index + 1) & table.mask;                                                \
      slot *at = &table.slots[slot_index];                                                         \
      int64_t entry = at->entry ? at->entry : count + 1;                                           \
      if (at->entry == 0) {                                                                        \
        firsts[count++] = i;                                                                       \
        *at = (slot){key, entry};                                                                  \
        if ((uint64_t)count * 2 > table.mask)                                                      \
          status = table_grow(&table);                                                             \
      }                                                                                            \
      dp_tensor_set_int(positions, i, entry - 1);                                                  \
    }                                                                                              \
    dp_free(table.slots);                                                                          \
    *count_out = count;                                                                            \
    return status;                                                                                 \
  }
DEFINE_FIND_INTEGERS(uint32_t)
DEFINE_FIND_INTEGERS(uint64_t)
#undef DEFINE_FIND_INTEGERS

static dp_status *find_any_uniques(const items *items, dp_tensor *positions, int64_t *firsts,
                                   int64_t *count_out) {
  if (items->width == 1 && (items->dtype == DP_INT32 || items->dtype == DP_UINT32))
    return find_uint32_t((const uint32_t *)items->data, items->count, positions, firsts, count_out);
  if (items->width == 1 && (items->dtype == DP_INT64 || items->dtype == DP_UINT64))
    return find_uint64_t((const uint64_t *)items->data, items->count, positions, firsts, count_out);
  return find_uniques(items, positions, firsts, count_out);
}

static dp_status *unique_axis(dp_op_context *context, int *axis_out) {
  const dp_tensor *input = dp_op_input(context, 0);
  *axis_out = 0;
  bool has_axis = context->input_count > 1 && dp_tensor_elements(dp_op_input(context, 1)) > 0;
  if (!has_axis) {
    if (input->shape.rank != 1)
      return DP_INVALID("unique expects a 1D vector.");
    return NULL;
  }
  const dp_tensor *axis = dp_op_input(context, 1);
  if (axis->shape.rank != 1)
    return DP_INVALID("axis expects a 1D vector.");
  if (dp_tensor_elements(axis) > 1)
    return DP_INVALID("axis does not support input tensors larger than 1 elements");
  if (!dp_kernel_normalize_axis(dp_tensor_int_at(axis, 0), input->shape.rank, axis_out))
    return DP_INVALID("axis has to be between [0, %d)", input->shape.rank);
  return NULL;
}

/* The input with `axis` as dimension 0, so that rows are the things to compare. Shares the buffer
 * when the axis is 0 already. */
static dp_status *rows_of_axis(dp_op_context *context, const dp_tensor *input, int axis,
                               dp_tensor *rows_out) {
  if (dp_shape_product(&input->shape, 0, axis) == 1) {
    *rows_out = dp_tensor_copy(input);
    return NULL;
  }
  int64_t outer = dp_shape_product(&input->shape, 0, axis), count = input->shape.dims[axis];
  int64_t inner = dp_shape_product(&input->shape, axis + 1, input->shape.rank);
  DP_RETURN_IF_ERROR(dp_tensor_create(input->dtype, &input->shape, rows_out));
  dp_move move;
  dp_move_init(&move, input->dtype);
  dp_move_add(&move, count, inner, outer * inner);
  dp_move_add(&move, outer, count * inner, inner);
  dp_move_add(&move, inner, 1, 1);
  dp_move_run(context, &move, rows_out->data, input->data);
  return NULL;
}

static dp_status *write_uniques(dp_op_context *context, const dp_tensor *input, int axis,
                                const int64_t *firsts, int64_t count) {
  dp_shape shape = dp_shape_with(&input->shape, axis, count);
  dp_tensor *output;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &shape, &output));
  int64_t outer = dp_shape_product(&shape, 0, axis), from_count = input->shape.dims[axis];
  int64_t inner = dp_shape_product(&shape, axis + 1, shape.rank);
  size_t size = dp_dtype_size(input->dtype), bytes = (size_t)inner * size;
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t i = 0; i < count; ++i)
      dp_move_elements(input->dtype, size, (char *)output->data + (size_t)(o * count + i) * bytes,
                       (const char *)input->data + (size_t)(o * from_count + firsts[i]) * bytes,
                       inner);
  return NULL;
}

static dp_status *write_counts(dp_op_context *context, const dp_tensor *positions, int64_t count) {
  dp_shape shape = dp_shape_vector(count);
  dp_tensor *counts;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 2, &shape, &counts));
  memset(counts->data, 0, dp_tensor_bytes(counts));
  for (int64_t i = 0; i < dp_tensor_elements(positions); ++i) {
    int64_t at = dp_tensor_int_at(positions, i);
    dp_tensor_set_int(counts, at, dp_tensor_int_at(counts, at) + 1);
  }
  return NULL;
}

static dp_status *unique_compute(dp_op_context *context, void *state) {
  const dp_tensor *input = dp_op_input(context, 0);
  int axis;
  DP_RETURN_IF_ERROR(unique_axis(context, &axis));
  int64_t length = input->shape.dims[axis];
  dp_shape shape = dp_shape_vector(length);
  dp_tensor *positions, rows;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 1, &shape, &positions));
  int64_t *firsts = dp_try_malloc((size_t)(length + 1) * sizeof *firsts), count = 0;
  if (!firsts)
    return dp_status_out_of_memory();
  dp_status *status = rows_of_axis(context, input, axis, &rows);
  if (!status) {
    items items = {input->dtype, rows.data, length, length ? input->shape.elements / length : 0,
                   dp_dtype_size(input->dtype)};
    status = find_any_uniques(&items, positions, firsts, &count);
    dp_tensor_deinit(&rows);
  }
  if (!status)
    status = write_uniques(context, input, axis, firsts, count);
  if (!status && context->output_count > 2)
    status = write_counts(context, positions, count);
  dp_free(firsts);
  return status;
}

/* ---- ListDiff: what is in x and not in y ---- */
static dp_status *difference(const items *x, const items *y, int64_t *kept, int64_t *count_out) {
  table table = {0};
  uint64_t capacity = FIRST_SLOTS;
  while (capacity < (uint64_t)y->count * 2)
    capacity *= 2;
  DP_RETURN_IF_ERROR(table_init(&table, capacity));
  int64_t *firsts = dp_try_malloc((size_t)(y->count + 1) * sizeof *firsts), uniques = 0;
  if (!firsts) {
    dp_free(table.slots);
    return dp_status_out_of_memory();
  }
  for (int64_t i = 0; i < y->count; ++i) {
    uint64_t key = item_key(y, i);
    slot *at = table_find(&table, y, firsts, y, i, key);
    if (at->entry == 0) {
      firsts[uniques] = i;
      *at = (slot){key, ++uniques};
    }
  }
  int64_t count = 0;
  for (int64_t i = 0; i < x->count; ++i)
    if (table_find(&table, y, firsts, x, i, item_key(x, i))->entry == 0)
      kept[count++] = i;
  dp_free(firsts);
  dp_free(table.slots);
  *count_out = count;
  return NULL;
}

static dp_status *list_diff_compute(dp_op_context *context, void *state) {
  const dp_tensor *x = dp_op_input(context, 0), *y = dp_op_input(context, 1);
  if (x->shape.rank != 1)
    return DP_INVALID("x should be a 1D vector.");
  if (y->shape.rank != 1)
    return DP_INVALID("y should be a 1D vector.");
  size_t size = dp_dtype_size(x->dtype);
  items xs = {x->dtype, x->data, dp_tensor_elements(x), 1, size};
  items ys = {y->dtype, y->data, dp_tensor_elements(y), 1, size};
  int64_t *kept = dp_try_malloc((size_t)(xs.count + 1) * sizeof *kept), count = 0;
  if (!kept)
    return dp_status_out_of_memory();
  dp_tensor *values, *positions;
  dp_status *status = difference(&xs, &ys, kept, &count);
  dp_shape shape = dp_shape_vector(count);
  if (!status)
    status = dp_op_allocate(context, 0, &shape, &values);
  if (!status)
    status = dp_op_allocate(context, 1, &shape, &positions);
  for (int64_t i = 0; !status && i < count; ++i) {
    dp_move_elements(x->dtype, size, (char *)values->data + (size_t)i * size,
                     (const char *)x->data + (size_t)kept[i] * size, 1);
    dp_tensor_set_int(positions, i, kept[i]);
  }
  dp_free(kept);
  return status;
}

#define COMPARABLE (DP_SET_REALS | DP_SET(BOOL) | DP_SET(STRING))
#define UNIQUE(name)                                                                               \
  { .op = name, .types = {{"T", COMPARABLE}, {"out_idx", DP_SET_INDEX}}, .compute = unique_compute }
static const dp_kernel rows[] = {
    {.op = "Where", .types = {{"T", DP_SET_NUMBERS | DP_SET(BOOL)}}, .compute = where_compute},
    UNIQUE("Unique"),
    UNIQUE("UniqueV2"),
    UNIQUE("UniqueWithCounts"),
    UNIQUE("UniqueWithCountsV2"),
    {.op = "ListDiff",
     .types = {{"T", COMPARABLE}, {"out_idx", DP_SET_INDEX}},
     .compute = list_diff_compute},
};
DP_KERNEL_FAMILY(array_unique, rows);
