/* Rows of variables by index: reading (gather) and changing (scatter).
 *
 * A gather holds the variable's lock for reading while it copies, because a snapshot would force
 * the next update to copy the whole variable. A scatter checks every index before it writes the
 * first row. Updates of equal indices keep their order. */
#include <string.h>
#include "kernels/loops/index.h"
#include "kernels/shared/family.h"
#include "kernels/shared/indices.h"
#include "kernels/shared/variable.h"

static int64_t row_nanos(int64_t bytes) {
  return 4 + bytes / 4;
}

/* ---- Scatter ---- */
typedef struct scatter_state {
  dp_row_op op;
  bool checks_zero; /* the resource form of division refuses zeros */
} scatter_state;

typedef struct scatter_name {
  const char *suffix;
  dp_row_operation operation;
} scatter_name;

static const scatter_name scatter_names[] = {
    {"Update", DP_ROW_ASSIGN}, {"Add", DP_ROW_ADD}, {"Sub", DP_ROW_SUB}, {"Mul", DP_ROW_MUL},
    {"Div", DP_ROW_DIV},       {"Min", DP_ROW_MIN}, {"Max", DP_ROW_MAX},
};

static dp_row_operation operation_of(const char *op) {
  size_t length = strlen(op);
  for (size_t i = 0; i < sizeof scatter_names / sizeof scatter_names[0]; ++i) {
    size_t suffix = strlen(scatter_names[i].suffix);
    if (length > suffix && strcmp(op + length - suffix, scatter_names[i].suffix) == 0)
      return scatter_names[i].operation;
  }
  return DP_ROW_ASSIGN;
}

static dp_status *scatter_create(const dp_kernel_setup *setup, void *memory) {
  scatter_state *state = memory;
  const dp_node *node = setup->node;
  dp_dtype dtype = dp_dtype_base(node->input_types[2]);
  dp_row_operation operation = operation_of(node->op->name);
  bool is_resource =
      dp_dtype_base(node->input_types[0]) == DP_RESOURCE && !dp_dtype_is_ref(node->input_types[0]);
  state->checks_zero = operation == DP_ROW_DIV && (is_resource || dp_dtype_is_integer(dtype));
  return dp_row_op_init(&state->op, operation, dtype);
}

static bool has_zero(const dp_tensor *tensor) {
  size_t size = dp_dtype_size(tensor->dtype);
  static const char zero[16];
  for (int64_t i = 0; i < tensor->shape.elements; ++i) {
    const char *element = (const char *)tensor->data + (size_t)i * size;
    if (memcmp(element, zero, size) == 0)
      return true;
    if (tensor->dtype == DP_FLOAT && *(const float *)(const void *)element == 0)
      return true;
    if (tensor->dtype == DP_DOUBLE && *(const double *)(const void *)element == 0)
      return true;
    if (dp_kernel_is_short_float(tensor->dtype) &&
        (*(const uint16_t *)(const void *)element & 0x7fff) == 0)
      return true;
  }
  return false;
}

typedef struct scatter_work {
  const dp_row_op *op;
  char *target;
  const char *updates;
  int64_t inner; /* elements per row */
  bool is_scalar;
} scatter_work;

static void scatter_row(void *arg, int64_t position, int64_t row) {
  const scatter_work *work = arg;
  int64_t bytes = work->inner * (int64_t)work->op->size;
  char *to = work->target + row * bytes;
  dp_row_apply(work->op, to, work->is_scalar ? work->updates : work->updates + position * bytes,
               work->is_scalar, to, work->inner);
}

static bool starts_with(const dp_shape *shape, const dp_shape *prefix) {
  bool fits = shape->rank >= prefix->rank;
  for (int i = 0; fits && i < prefix->rank; ++i)
    fits = shape->dims[i] == prefix->dims[i];
  return fits;
}

/* updates.shape = indices.shape + params.shape[1:], or a scalar. */
static bool updates_fit(const dp_shape *params, const dp_shape *indices, const dp_shape *updates) {
  if (updates->rank == 0)
    return true;
  if (updates->rank != indices->rank + params->rank - 1)
    return false;
  if (!starts_with(updates, indices))
    return false;
  for (int i = 1; i < params->rank; ++i)
    if (updates->dims[indices->rank + i - 1] != params->dims[i])
      return false;
  return true;
}

static dp_status *check_scatter(dp_op_context *context, const scatter_state *state,
                                const dp_tensor *params) {
  const dp_tensor *indices = dp_op_input(context, 1), *updates = dp_op_input(context, 2);
  DP_RETURN_IF_ERROR(dp_variable_expect_type(params, state->op.dtype));
  if (params->shape.rank < 1)
    return DP_INVALID("params must be at least 1-D, got shape %s", dp_shape_text(&params->shape));
  bool is_resource = !dp_op_reference(context, 0);
  bool nothing_to_do = is_resource && indices->shape.elements == 0;
  if (is_resource && updates->shape.rank > 0 && !starts_with(&updates->shape, &indices->shape))
    return DP_INVALID("The shape of indices (%s) must be a prefix of the shape of updates (%s)",
                      dp_shape_text(&indices->shape), dp_shape_text(&updates->shape));
  if (!nothing_to_do && !updates_fit(&params->shape, &indices->shape, &updates->shape))
    return DP_INVALID("Must have updates.shape = indices.shape + params.shape[1:] or "
                      "updates.shape = [], got updates.shape %s, indices.shape %s, params.shape %s",
                      dp_shape_text(&updates->shape), dp_shape_text(&indices->shape),
                      dp_shape_text(&params->shape));
  if (state->checks_zero && has_zero(updates))
    return DP_INVALID("updates must not contain 0");
  int64_t bad = dp_indices_find_bad(indices, params->shape.dims[0]);
  if (bad >= 0)
    return DP_INVALID("%s = %lld is not in [0, %lld)", dp_index_text(&indices->shape, bad),
                      (long long)dp_index_at(indices, bad), (long long)params->shape.dims[0]);
  return NULL;
}

/* Plain rows are assigned in one loop of copies on this thread. Memory is the limit, and dividing
 * the rows among threads would cost as much again. */
static void assign_rows(const scatter_work *work, const dp_tensor *indices) {
  dp_index_loops_of(indices->dtype == DP_INT32)
      ->scatter(work->target, work->updates, indices->data, indices->shape.elements,
                work->inner * (int64_t)work->op->size);
}

static void scatter_rows(dp_op_context *context, const dp_tensor *indices, scatter_work *work) {
  const dp_row_op *op = work->op;
  if (op->operation == DP_ROW_ASSIGN && !work->is_scalar && dp_dtype_is_plain(op->dtype))
    assign_rows(work, indices);
  else
    dp_rows_for(context, indices, row_nanos(work->inner * (int64_t)op->size), scatter_row, work);
}

static dp_status *scatter_compute(dp_op_context *context, void *memory) {
  const scatter_state *state = memory;
  const dp_tensor *indices = dp_op_input(context, 1), *updates = dp_op_input(context, 2);
  dp_variable *variable;
  DP_RETURN_IF_ERROR(dp_variable_of_input(context, 0, &variable));
  dp_variable_update update;
  dp_status *status = dp_variable_begin_partial(variable, &update);
  if (!status) {
    status = check_scatter(context, state, &update.old);
    if (!status && indices->shape.elements) {
      int64_t rows = update.old.shape.dims[0];
      scatter_work work = {&state->op, update.target.data, updates->data,
                           rows ? update.old.shape.elements / rows : 0, updates->shape.rank == 0};
      scatter_rows(context, indices, &work);
    }
    dp_variable_end(&update, status == NULL);
  }
  dp_variable_drop(context, 0, variable);
  if (!status)
    dp_variable_output(context);
  return status;
}

/* ---- Gather ---- */
static dp_status *gather_create(const dp_kernel_setup *setup, void *memory) {
  return dp_node_attr(setup->node, "batch_dims")
             ? dp_node_get_int(setup->node, "batch_dims", memory)
             : NULL;
}

typedef struct gather_work {
  const dp_tensor *indices;
  const char *params;
  char *to;
  dp_dtype dtype;
  bool is_plain;
  int64_t inner, bytes;    /* elements and bytes per row */
  int64_t per_batch, rows; /* indices and rows per batch */
} gather_work;

static void gather_rows(void *arg, int64_t begin, int64_t end) {
  const gather_work *work = arg;
  for (int64_t i = begin; i < end; ++i) {
    int64_t row = dp_index_at(work->indices, i) + i / work->per_batch * work->rows;
    const char *from = work->params + row * work->bytes;
    if (work->is_plain)
      memcpy(work->to + i * work->bytes, from, (size_t)work->bytes);
    else
      dp_tensor_copy_elements(work->dtype, work->to + i * work->bytes, from, work->inner);
  }
}

static dp_status *gather_shape(const dp_shape *params, const dp_shape *indices, int64_t batch,
                               dp_shape *result_out) {
  int64_t dims[2 * DP_MAX_RANK];
  int rank = 0;
  for (int i = 0; i < batch; ++i)
    dims[rank++] = params->dims[i];
  for (int i = (int)batch; i < indices->rank; ++i)
    dims[rank++] = indices->dims[i];
  for (int i = (int)batch + 1; i < params->rank; ++i)
    dims[rank++] = params->dims[i];
  return dp_shape_make(rank, dims, result_out);
}

static dp_status *check_gather(const dp_tensor *params, const dp_tensor *indices, dp_dtype dtype,
                               int64_t *batch) {
  if (params->dtype != dtype)
    return DP_INVALID("Trying to read variable with wrong dtype. Expected %s got %s",
                      dp_dtype_name(dtype), dp_dtype_name(params->dtype));
  if (params->shape.rank < 1)
    return DP_INVALID("params must be at least 1 dimensional");
  if (*batch < 0)
    *batch += indices->shape.rank;
  if (*batch < 0 || *batch > indices->shape.rank)
    return DP_INVALID("batch_dims %lld is not within the rank of indices %s", (long long)*batch,
                      dp_shape_text(&indices->shape));
  if (params->shape.rank <= *batch)
    return DP_INVALID("params must have at least %lld (batch_dims) dimensions but it has shape %s",
                      (long long)*batch + 1, dp_shape_text(&params->shape));
  for (int i = 0; i < *batch; ++i)
    if (params->shape.dims[i] != indices->shape.dims[i])
      return DP_INVALID("params.shape[%d] = %lld should be equal to indices.shape[%d] = %lld", i,
                        (long long)params->shape.dims[i], i, (long long)indices->shape.dims[i]);
  int64_t bad = dp_indices_find_bad(indices, params->shape.dims[*batch]);
  if (bad >= 0)
    return DP_INVALID("%s = %lld is not in [0, %lld)", dp_index_text(&indices->shape, bad),
                      (long long)dp_index_at(indices, bad), (long long)params->shape.dims[*batch]);
  return NULL;
}

static dp_status *gather_from(dp_op_context *context, const dp_tensor *params, int64_t batch) {
  const dp_tensor *indices = dp_op_input(context, 1);
  dp_dtype dtype = dp_op_output_type(context, 0);
  DP_RETURN_IF_ERROR(check_gather(params, indices, dtype, &batch));
  dp_shape shape;
  DP_RETURN_IF_ERROR(gather_shape(&params->shape, &indices->shape, batch, &shape));
  dp_tensor *output;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &shape, &output));
  if (shape.elements == 0)
    return NULL;
  int64_t inner = dp_shape_product(&params->shape, (int)batch + 1, params->shape.rank);
  int64_t batches = dp_shape_product(&params->shape, 0, (int)batch);
  gather_work work = {indices,
                      params->data,
                      output->data,
                      dtype,
                      dp_dtype_is_plain(dtype),
                      inner,
                      inner * (int64_t)dp_dtype_size(dtype),
                      indices->shape.elements / batches,
                      params->shape.dims[batch]};
  dp_op_for(context, indices->shape.elements, row_nanos(work.bytes), gather_rows, &work);
  return NULL;
}

/* ---- Gather by coordinates ---- */
typedef struct gather_nd_work {
  const dp_tensor *indices;
  const char *params;
  char *to;
  dp_dtype dtype;
  int depth;
  int64_t inner, bytes;
  int64_t dims[DP_MAX_RANK];
} gather_nd_work;

/* The row that the coordinates at `position` name, or -1. */
static int64_t row_of(const gather_nd_work *work, int64_t position) {
  int64_t row = 0;
  for (int k = 0; k < work->depth; ++k) {
    int64_t at = dp_index_at(work->indices, position * work->depth + k);
    if ((uint64_t)at >= (uint64_t)work->dims[k])
      return -1;
    row = row * work->dims[k] + at;
  }
  return row;
}

static void gather_nd_rows(void *arg, int64_t begin, int64_t end) {
  const gather_nd_work *work = arg;
  bool is_plain = dp_dtype_is_plain(work->dtype);
  for (int64_t i = begin; i < end; ++i) {
    const char *from = work->params + row_of(work, i) * work->bytes;
    if (is_plain)
      memcpy(work->to + i * work->bytes, from, (size_t)work->bytes);
    else
      dp_tensor_copy_elements(work->dtype, work->to + i * work->bytes, from, work->inner);
  }
}

static dp_status *bad_coordinates(dp_op_context *context, const gather_nd_work *work, int64_t bad,
                                  const dp_shape *params) {
  dp_text coordinates = {0};
  for (int k = 0; k < work->depth; ++k)
    dp_text_printf(&coordinates, "%s%lld", k ? ", " : "",
                   (long long)dp_index_at(work->indices, bad * work->depth + k));
  dp_shape outer = dp_shape_remove(&work->indices->shape, work->indices->shape.rank - 1);
  dp_status *status = DP_INVALID("%s = [%s] does not index into param shape %s, node name: %s",
                                 dp_index_text(&outer, bad), dp_text_string(&coordinates),
                                 dp_shape_text(params), context->node->name);
  dp_text_deinit(&coordinates);
  return status;
}

static dp_status *gather_nd_from(dp_op_context *context, const dp_tensor *params) {
  const dp_tensor *indices = dp_op_input(context, 1);
  dp_dtype dtype = dp_op_output_type(context, 0);
  if (params->dtype != dtype)
    return DP_INVALID("Trying to read variable with wrong dtype. Expected %s got %s",
                      dp_dtype_name(dtype), dp_dtype_name(params->dtype));
  if (params->shape.rank < 1)
    return DP_INVALID("params must be at least a vector");
  if (indices->shape.rank < 1)
    return DP_INVALID("indices must be at least a vector");
  int64_t depth = indices->shape.dims[indices->shape.rank - 1];
  if (depth > params->shape.rank)
    return DP_INVALID("index innermost dimension length must be <= params rank; saw: %lld vs. %d",
                      (long long)depth, params->shape.rank);
  int64_t dims[2 * DP_MAX_RANK];
  int rank = indices->shape.rank - 1;
  memcpy(dims, indices->shape.dims, (size_t)rank * sizeof dims[0]);
  for (int i = (int)depth; i < params->shape.rank; ++i)
    dims[rank++] = params->shape.dims[i];
  dp_shape shape;
  DP_RETURN_IF_ERROR(dp_shape_make(rank, dims, &shape));
  gather_nd_work work = {
      .indices = indices, .params = params->data, .dtype = dtype, .depth = (int)depth};
  work.inner = dp_shape_product(&params->shape, (int)depth, params->shape.rank);
  work.bytes = work.inner * (int64_t)dp_dtype_size(dtype);
  memcpy(work.dims, params->shape.dims, sizeof work.dims);
  int64_t count = dp_shape_product(&indices->shape, 0, indices->shape.rank - 1);
  if (count > 0 && params->shape.elements == 0)
    return DP_INVALID("Requested more than 0 entries, but params is empty.  Params shape: %s",
                      dp_shape_text(&params->shape));
  for (int64_t i = 0; i < count; ++i)
    if (row_of(&work, i) < 0)
      return bad_coordinates(context, &work, i, &params->shape);
  dp_tensor *output;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &shape, &output));
  work.to = output->data;
  if (shape.elements)
    dp_op_for(context, count, row_nanos(work.bytes), gather_nd_rows, &work);
  return NULL;
}

static dp_status *locked_gather(dp_op_context *context, const int64_t *batch) {
  dp_variable *variable;
  DP_RETURN_IF_ERROR(dp_variable_of_input(context, 0, &variable));
  pthread_rwlock_rdlock(&variable->lock);
  dp_status *status;
  if (!dp_tensor_is_set(&variable->tensor))
    status = dp_status_create(DP_FAILED_PRECONDITION, "Attempting to use uninitialized value %s",
                              variable->name);
  else
    status = batch ? gather_from(context, &variable->tensor, *batch)
                   : gather_nd_from(context, &variable->tensor);
  pthread_rwlock_unlock(&variable->lock);
  dp_variable_drop(context, 0, variable);
  return status;
}

static dp_status *gather_compute(dp_op_context *context, void *memory) {
  return locked_gather(context, memory);
}

static dp_status *gather_nd_compute(dp_op_context *context, void *memory) {
  return locked_gather(context, NULL);
}

/* clang-format off */
#define SCATTER(name, attr, set)                                                                   \
  {.op = name, .types = {{attr, set}, {"Tindices", DP_SET_INDEX}},                                 \
   .state_size = sizeof(scatter_state), .create = scatter_create, .compute = scatter_compute}
#define BOTH(suffix, set)                                                                          \
  SCATTER("Scatter" suffix, "T", set), SCATTER("ResourceScatter" suffix, "dtype", set)

static const dp_kernel rows[] = {
    BOTH("Update", DP_SET_ANY),
    BOTH("Add", DP_SET_NUMBERS),
    BOTH("Sub", DP_SET_NUMBERS),
    BOTH("Mul", DP_SET_NUMBERS),
    BOTH("Div", DP_SET_NUMBERS),
    BOTH("Min", DP_SET_REALS),
    BOTH("Max", DP_SET_REALS),
    {.op = "ResourceGather", .types = {{"Tindices", DP_SET_INDEX}}, .state_size = sizeof(int64_t),
     .create = gather_create, .compute = gather_compute},
    {.op = "ResourceGatherNd", .types = {{"Tindices", DP_SET_INDEX}},
     .compute = gather_nd_compute},
};
/* clang-format on */
DP_KERNEL_FAMILY(variable_rows, rows);
