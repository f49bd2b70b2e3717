/* RaggedTensorToTensor: a ragged tensor as a dense one. Short rows are filled with a default value;
 * what does not fit is cut off.
 *
 * Level by level, from the outermost, each row gets the position in the output where it begins,
 * counted in innermost elements, or -1 when it is cut off. The positions of the last level are the
 * positions of the values. */
#include "kernels/shared/family.h"

#include <string.h>
#include "base/memory.h"

enum { SLOT_SHAPE, SLOT_VALUES, SLOT_DEFAULT, SLOT_PARTITIONS };
typedef enum partition_kind { FIRST_DIM_SIZE, VALUE_ROWIDS, ROW_SPLITS } partition_kind;

typedef struct ragged_dense_state {
  partition_kind kinds[DP_MAX_RANK];
  int count;       /* number of partitions */
  int ragged_rank; /* without the first size */
} ragged_dense_state;

static dp_status *dense_create(const dp_kernel_setup *setup, void *memory) {
  static const char *const names[] = {"FIRST_DIM_SIZE", "VALUE_ROWIDS", "ROW_SPLITS"};
  ragged_dense_state *state = memory;
  const dp_attr *kinds;
  DP_RETURN_IF_ERROR(
      dp_node_get_list(setup->node, "row_partition_types", DP_ATTR_LIST_STRING, &kinds));
  if (kinds->count == 0 || kinds->count > DP_MAX_RANK)
    return DP_INVALID("No row_partition_types given, or too many.");
  for (int i = 0; i < kinds->count; ++i) {
    int kind = 0;
    while (kind < 3 && !dp_view_equals(kinds->strings[i], names[kind]))
      ++kind;
    if (kind == 3)
      return DP_INVALID("Unknown string for partition info type: %.*s",
                        (int)kinds->strings[i].length, kinds->strings[i].data);
    state->kinds[i] = (partition_kind)kind;
  }
  state->count = kinds->count;
  state->ragged_rank = kinds->count - (state->kinds[0] == FIRST_DIM_SIZE);
  return NULL;
}

/* How dimension `axis` is divided into rows of dimension axis + 1. */
static partition_kind kind_of(const ragged_dense_state *state, int axis) {
  return state->kinds[axis + (state->count - state->ragged_rank)];
}
static const dp_tensor *partition_of(const dp_op_context *context, const ragged_dense_state *state,
                                     int axis) {
  return dp_op_input(context, SLOT_PARTITIONS + axis + (state->count - state->ragged_rank));
}

/* ---- Sizes ---- */
static dp_status *first_size(const dp_op_context *context, const ragged_dense_state *state,
                             int64_t *size_out) {
  const dp_tensor *first = dp_op_input(context, SLOT_PARTITIONS);
  if (first->shape.elements == 0)
    return DP_INVALID("Invalid first partition input. Tensor requires at least one element.");
  if (state->kinds[0] == VALUE_ROWIDS)
    return DP_INVALID("Cannot handle VALUE_ROWIDS in first dimension.");
  *size_out =
      state->kinds[0] == FIRST_DIM_SIZE ? dp_tensor_int_at(first, 0) : first->shape.elements - 1;
  if (*size_out < 0)
    return DP_INVALID("The first dimension has a negative size: %lld", (long long)*size_out);
  return NULL;
}

static int64_t widest(const dp_tensor *partition, partition_kind kind) {
  int64_t most = 0, run = 0, count = partition->shape.elements;
  if (kind == ROW_SPLITS) {
    for (int64_t i = 0; i + 1 < count; ++i) {
      int64_t width = dp_tensor_int_at(partition, i + 1) - dp_tensor_int_at(partition, i);
      most = width > most ? width : most;
    }
    return most;
  }
  for (int64_t i = 0; i < count; ++i) {
    bool goes_on = i > 0 && dp_tensor_int_at(partition, i) == dp_tensor_int_at(partition, i - 1);
    run = goes_on ? run + 1 : 1;
    most = run > most ? run : most;
  }
  return most;
}

static dp_status *check_default(const dp_shape *values, const dp_shape *given) {
  if (given->rank >= values->rank)
    return DP_INVALID("default_value.shape=%s and rt_input.flat_values.shape=%s are incompatible: "
                      "default_value.rank = %d  must be less than rt_input.flat_values.rank = %d",
                      dp_shape_text(given), dp_shape_text(values), given->rank, values->rank);
  /* TensorFlow compares the dimensions from the left, then broadcasts from the right. */
  for (int i = 0; i < given->rank; ++i) {
    int64_t have = given->dims[i], want = values->dims[i + 1];
    if (have != 1 && have != want)
      return DP_INVALID("default_value.shape=%s and rt_input.flat_values.shape=%s are "
                        "incompatible: default_value.shape[%d] = %lld but "
                        "rt_input.flat_values.shape[%d] = %lld",
                        dp_shape_text(given), dp_shape_text(values), i - given->rank,
                        (long long)have, i - given->rank, (long long)want);
  }
  for (int i = 0; i < given->rank; ++i) {
    int64_t have = given->dims[i], want = values->dims[values->rank - given->rank + i];
    if (have != 1 && have != want)
      return DP_INVALID("default_value.shape=%s and rt_input.flat_values.shape=%s are incompatible",
                        dp_shape_text(given), dp_shape_text(values));
  }
  return NULL;
}

static const char *wanted_text(const dp_op_context *context) {
  const dp_tensor *wanted = dp_op_input(context, SLOT_SHAPE);
  int64_t count = wanted->shape.elements;
  dp_partial_shape shape = {.rank = count < DP_MAX_RANK ? (int32_t)count : DP_MAX_RANK};
  for (int32_t i = 0; i < shape.rank; ++i)
    shape.dims[i] = dp_tensor_int_at(wanted, i);
  return dp_partial_shape_text(&shape);
}

/* The size of one dimension of the output, where -1 in the wanted shape leaves it open. */
static dp_status *plan_dimension(const dp_op_context *context, const ragged_dense_state *state,
                                 int axis, int64_t wanted, int64_t *size_out) {
  const dp_shape *values = &dp_op_input(context, SLOT_VALUES)->shape;
  if (wanted < -1)
    return DP_INVALID("Dimension %d of the shape must be >= -1, got %lld", axis, (long long)wanted);
  if (axis > state->ragged_rank) {
    *size_out = values->dims[axis - state->ragged_rank];
    if (wanted >= 0 && wanted != *size_out)
      return DP_INVALID("rt_input.shape and shape=%s are incompatible: rt_input.shape[%d] = %lld "
                        "but shape[%d] = %lld",
                        wanted_text(context), axis, (long long)*size_out, axis, (long long)wanted);
    return NULL;
  }
  *size_out = wanted;
  if (wanted >= 0)
    return NULL;
  if (axis == 0)
    return first_size(context, state, size_out);
  partition_kind kind = kind_of(state, axis - 1);
  if (kind == FIRST_DIM_SIZE)
    return DP_INVALID("Cannot handle partition type FIRST_DIM_SIZE");
  *size_out = widest(partition_of(context, state, axis - 1), kind);
  return NULL;
}

static dp_status *plan_output(const dp_op_context *context, const ragged_dense_state *state,
                              dp_shape *shape_out) {
  const dp_tensor *wanted = dp_op_input(context, SLOT_SHAPE);
  const dp_shape *values = &dp_op_input(context, SLOT_VALUES)->shape;
  int rank = state->ragged_rank + values->rank;
  bool is_open = wanted->shape.rank == 0;
  if (values->rank == 0)
    return DP_INVALID("values must not be a scalar");
  if (is_open && dp_tensor_int_at(wanted, 0) != -1)
    return DP_INVALID("The only valid scalar shape tensor is the fully unknown shape specified as "
                      "-1.");
  if (wanted->shape.rank > 1)
    return DP_INVALID("shape must be a vector of %d elements, got shape %s", rank,
                      dp_shape_text(&wanted->shape));
  if (!is_open && wanted->shape.elements != rank)
    return DP_INVALID("rt_input.shape and shape=%s are incompatible: rt_input.rank = %d but "
                      "shape.rank = %lld",
                      wanted_text(context), rank, (long long)wanted->shape.elements);
  DP_RETURN_IF_ERROR(check_default(values, &dp_op_input(context, SLOT_DEFAULT)->shape));
  int64_t dims[2 * DP_MAX_RANK];
  for (int i = 0; i < rank; ++i)
    DP_RETURN_IF_ERROR(
        plan_dimension(context, state, i, is_open ? -1 : dp_tensor_int_at(wanted, i), &dims[i]));
  return dp_shape_make(rank, dims, shape_out);
}

/* ---- Places ---- */
typedef struct places {
  int64_t *items;
  int64_t count;
} places;

static dp_status *places_init(places *p, int64_t count) {
  p->items = dp_try_malloc((size_t)(count + 1) * sizeof *p->items);
  p->count = count;
  return p->items ? NULL : dp_status_out_of_memory();
}

/* Divides the rows of `parents` by splits. A row's elements are `step` apart; at most `size` are
 * kept. */
static dp_status *place_splits(const dp_tensor *splits, const places *parents, int64_t step,
                               int64_t size, places *p) {
  int64_t count = splits->shape.elements, at = 0;
  if (count > 0 && count - 1 > parents->count)
    return DP_INVALID("Row partition size is greater than output size: %lld > %lld",
                      (long long)count - 1, (long long)parents->count);
  DP_RETURN_IF_ERROR(places_init(p, count > 0 ? dp_tensor_int_at(splits, count - 1) : 0));
  for (int64_t row = 0; row + 1 < count; ++row) {
    int64_t length = dp_tensor_int_at(splits, row + 1) - dp_tensor_int_at(splits, row);
    if (length < 0 || length > p->count - at)
      return DP_INVALID("Invalid row split size.");
    for (int64_t i = 0; i < length; ++i)
      p->items[at++] = parents->items[row] < 0 || i >= size ? -1 : parents->items[row] + i * step;
  }
  return at == p->count ? NULL : DP_INVALID("Invalid row split size.");
}

static dp_status *place_ids(const dp_tensor *ids, const places *parents, int64_t step, int64_t size,
                            places *p) {
  int64_t column = 0;
  DP_RETURN_IF_ERROR(places_init(p, ids->shape.elements));
  for (int64_t i = 0; i < p->count; ++i) {
    int64_t row = dp_tensor_int_at(ids, i);
    if (row < 0 || row >= parents->count)
      return DP_INVALID("Got %s_value_rowid=%lld which is not less than %lld",
                        i > 0 ? "next" : "current", (long long)row, (long long)parents->count);
    column = i > 0 && row == dp_tensor_int_at(ids, i - 1) ? column + 1 : 0;
    p->items[i] =
        parents->items[row] < 0 || column >= size ? -1 : parents->items[row] + column * step;
  }
  return NULL;
}

static dp_status *find_places(const dp_op_context *context, const ragged_dense_state *state,
                              const dp_shape *shape, places *p) {
  int64_t rows;
  DP_RETURN_IF_ERROR(first_size(context, state, &rows));
  int64_t step = dp_shape_product(shape, 1, state->ragged_rank + 1);
  DP_RETURN_IF_ERROR(places_init(p, rows));
  for (int64_t i = 0; i < rows; ++i)
    p->items[i] = i < shape->dims[0] ? i * step : -1;
  for (int axis = 0; axis < state->ragged_rank; ++axis) {
    const dp_tensor *partition = partition_of(context, state, axis);
    partition_kind kind = kind_of(state, axis);
    if (kind == FIRST_DIM_SIZE)
      return DP_INVALID("Unsupported partition type: FIRST_DIM_SIZE");
    places parents = *p;
    *p = (places){0};
    step = dp_shape_product(shape, axis + 2, state->ragged_rank + 1);
    dp_status *status = (kind == ROW_SPLITS ? place_splits : place_ids)(partition, &parents, step,
                                                                        shape->dims[axis + 1], p);
    dp_free(parents.items);
    DP_RETURN_IF_ERROR(status);
  }
  return NULL;
}

/* ---- Elements ---- */
/* Fills all with the default, which is broadcast to an innermost element of `inner` numbers. */
static void fill_default(const dp_tensor *given, const dp_shape *values, int64_t inner,
                         dp_tensor *output) {
  size_t size = dp_dtype_size(output->dtype);
  for (int64_t i = 0; i < output->shape.elements; ++i) {
    int64_t index = i % inner, from = 0, stride = 1;
    for (int d = 1; d <= given->shape.rank; ++d) {
      int64_t dim = values->dims[values->rank - d], have = given->shape.dims[given->shape.rank - d];
      from += have == 1 ? 0 : index % dim * stride;
      index /= dim;
      stride *= have;
    }
    dp_tensor_copy_elements(output->dtype, (char *)output->data + (size_t)i * size,
                            (const char *)given->data + (size_t)from * size, 1);
  }
}

static dp_status *copy_values(const dp_tensor *values, const places *p, int64_t inner,
                              dp_tensor *output) {
  size_t bytes = (size_t)inner * dp_dtype_size(output->dtype);
  if (p->count > values->shape.dims[0])
    return DP_INVALID("The partitions have %lld values, but there are %lld", (long long)p->count,
                      (long long)values->shape.dims[0]);
  for (int64_t i = 0; i < p->count; ++i)
    if (p->items[i] >= 0)
      dp_tensor_copy_elements(output->dtype, (char *)output->data + (size_t)p->items[i] * bytes,
                              (const char *)values->data + (size_t)i * bytes, inner);
  return NULL;
}

static dp_status *dense_compute(dp_op_context *context, void *memory) {
  const ragged_dense_state *state = memory;
  const dp_tensor *values = dp_op_input(context, SLOT_VALUES);
  int64_t rows;
  dp_shape shape;
  dp_tensor *output;
  DP_RETURN_IF_ERROR(first_size(context, state, &rows));
  DP_RETURN_IF_ERROR(plan_output(context, state, &shape));
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &shape, &output));
  if (shape.elements == 0)
    return NULL;
  int64_t inner = dp_shape_product(&values->shape, 1, values->shape.rank);
  places p = {0};
  dp_status *status = find_places(context, state, &shape, &p);
  if (!status) {
    fill_default(dp_op_input(context, SLOT_DEFAULT), &values->shape, inner, output);
    status = copy_values(values, &p, inner, output);
  }
  dp_free(p.items);
  return status;
}

static const dp_kernel rows[] = {
    {.op = "RaggedTensorToTensor",
     .types = {{"Tindex", DP_SET_INDEX}},
     .state_size = sizeof(ragged_dense_state),
     .create = dense_create,
     .compute = dense_compute},
};
DP_KERNEL_FAMILY(ragged_dense, rows);
