/* Parts of variables by coordinates: ScatterNdUpdate and related ops, for both kinds of variables.
 *
 * The innermost dimension of the indices holds coordinates of the variable's first dimensions; they
 * name a slice of the remaining ones. All coordinates are checked before the first write. Updates
 * of equal coordinates are applied in order. */
#include <string.h>
#include "kernels/shared/family.h"
#include "kernels/shared/variable.h"

static dp_status *scatter_create(const dp_kernel_setup *setup, void *memory) {
  static const struct {
    const char *suffix;
    dp_row_operation operation;
  } names[] = {{"Update", DP_ROW_ASSIGN},
               {"Add", DP_ROW_ADD},
               {"Sub", DP_ROW_SUB},
               {"Min", DP_ROW_MIN},
               {"Max", DP_ROW_MAX}};
  const char *op = setup->node->op->name;
  dp_row_operation operation = DP_ROW_ASSIGN;
  for (size_t i = 0; i < sizeof names / sizeof names[0]; ++i)
    if (strstr(op, names[i].suffix))
      operation = names[i].operation;
  return dp_row_op_init(memory, operation, dp_dtype_base(setup->node->input_types[2]));
}

typedef struct scatter_plan {
  int depth;     /* coordinates per update */
  int outer;     /* leading dimensions of the indices */
  int64_t count; /* number of updates */
  int64_t inner; /* elements per slice */
} scatter_plan;

static dp_status *wrong_updates(const dp_shape *params, const dp_shape *indices,
                                const dp_shape *updates, const scatter_plan *plan) {
  for (int i = 0; i < plan->outer; ++i)
    if (i >= updates->rank || updates->dims[i] != indices->dims[i])
      return DP_INVALID("Dimensions [0,%d) of indices[shape=%s] = %lld must match dimensions "
                        "[0,%d) of updates[shape=%s] = %lld",
                        plan->outer, dp_shape_text(indices), (long long)indices->dims[i],
                        plan->outer, dp_shape_text(updates),
                        (long long)(i < updates->rank ? updates->dims[i] : 0));
  bool fits =
      plan->depth <= params->rank && updates->rank - plan->outer == params->rank - plan->depth;
  for (int i = plan->depth; fits && i < params->rank; ++i)
    fits = updates->dims[plan->outer + i - plan->depth] == params->dims[i];
  if (fits)
    return NULL;
  return DP_INVALID("Dimensions [%d,%d) of input[shape=%s] must match dimensions [%d,%d) of "
                    "updates[shape=%s]",
                    plan->depth, params->rank, dp_shape_text(params), plan->depth, updates->rank,
                    dp_shape_text(updates));
}

static dp_status *make_plan(const dp_tensor *params, const dp_tensor *indices,
                            const dp_tensor *updates, scatter_plan *plan) {
  const dp_shape *shape = &params->shape;
  if (shape->rank < 1)
    return DP_INVALID("Output must be at least 1-D, got shape: %s", dp_shape_text(shape));
  bool has_indices = indices->shape.elements > 0, has_updates = updates->shape.elements > 0;
  if (shape->elements == 0 ? has_indices || has_updates : has_indices != has_updates)
    return DP_INVALID("Indices and updates specified for empty output.  indices shape: %s",
                      dp_shape_text(&indices->shape));
  if (indices->shape.rank < 1)
    return DP_INVALID("Indices shape must have rank at least one. Found:%s",
                      dp_shape_text(&indices->shape));
  /* A vector of indices counts as a column of single coordinates. */
  bool is_vector = indices->shape.rank == 1;
  plan->outer = is_vector ? 1 : indices->shape.rank - 1;
  int64_t depth = is_vector ? 1 : indices->shape.dims[plan->outer];
  plan->depth = depth > DP_MAX_RANK ? DP_MAX_RANK + 1 : (int)depth;
  DP_RETURN_IF_ERROR(wrong_updates(shape, &indices->shape, &updates->shape, plan));
  plan->count = dp_shape_product(&indices->shape, 0, plan->outer);
  plan->inner = dp_shape_product(shape, plan->depth, shape->rank);
  return NULL;
}

static dp_status *bad_coordinates(const dp_tensor *indices, const scatter_plan *plan, int64_t bad,
                                  const dp_shape *params) {
  dp_text coordinates = {0};
  for (int k = 0; k < plan->depth; ++k)
    dp_text_printf(&coordinates, "%s%lld", k ? ", " : "",
                   (long long)dp_index_at(indices, bad * plan->depth + k));
  dp_shape outer = indices->shape;
  if (outer.rank > 1)
    outer = dp_shape_remove(&outer, plan->outer);
  dp_status *status =
      DP_INVALID("%s = [%s] does not index into shape %s", dp_index_text(&outer, bad),
                 dp_text_string(&coordinates), dp_shape_text(params));
  dp_text_deinit(&coordinates);
  return status;
}

/* Converts coordinates to numbers of slices. */
static dp_status *flatten(const dp_tensor *indices, const dp_shape *params,
                          const scatter_plan *plan, dp_tensor *rows_out) {
  dp_shape vector = dp_shape_vector(plan->count);
  DP_RETURN_IF_ERROR(dp_tensor_create(DP_INT64, &vector, rows_out));
  int64_t *rows = rows_out->data;
  for (int64_t i = 0; i < plan->count; ++i) {
    int64_t row = 0;
    for (int k = 0; k < plan->depth; ++k) {
      int64_t at = dp_index_at(indices, i * plan->depth + k);
      if ((uint64_t)at >= (uint64_t)params->dims[k]) {
        dp_tensor_deinit(rows_out);
        return bad_coordinates(indices, plan, i, params);
      }
      row = row * params->dims[k] + at;
    }
    rows[i] = row;
  }
  return NULL;
}

typedef struct scatter_nd_work {
  const dp_row_op *op;
  char *target;
  const char *updates;
  int64_t inner;
} scatter_nd_work;

static void scatter_slice(void *arg, int64_t position, int64_t row) {
  const scatter_nd_work *work = arg;
  int64_t bytes = work->inner * (int64_t)work->op->size;
  char *to = work->target + row * bytes;
  dp_row_apply(work->op, to, work->updates + position * bytes, false, to, work->inner);
}

static dp_status *scatter_into(dp_op_context *context, const dp_row_op *op,
                               const dp_variable_update *update) {
  const dp_tensor *indices = dp_op_input(context, 1), *updates = dp_op_input(context, 2);
  scatter_plan plan = {0};
  dp_tensor numbers = {0};
  DP_RETURN_IF_ERROR(dp_variable_expect_type(&update->old, op->dtype));
  DP_RETURN_IF_ERROR(make_plan(&update->old, indices, updates, &plan));
  if (plan.count == 0 || plan.inner == 0)
    return NULL;
  DP_RETURN_IF_ERROR(flatten(indices, &update->old.shape, &plan, &numbers));
  scatter_nd_work work = {op, update->target.data, updates->data, plan.inner};
  dp_rows_for(context, &numbers, 6 + plan.inner * (int64_t)op->size / 4, scatter_slice, &work);
  dp_tensor_deinit(&numbers);
  return NULL;
}

static dp_status *scatter_compute(dp_op_context *context, void *memory) {
  dp_variable *variable;
  DP_RETURN_IF_ERROR(dp_variable_of_input(context, 0, &variable));
  dp_variable_update update;
  dp_status *status = dp_variable_begin_partial(variable, &update);
  if (!status) {
    status = scatter_into(context, memory, &update);
    dp_variable_end(&update, status == NULL);
  }
  dp_variable_drop(context, 0, variable);
  if (!status)
    dp_variable_output(context);
  return status;
}

/* clang-format off */
#define SCATTER(name, set)                                                                         \
  {.op = name, .types = {{"T", set}, {"Tindices", DP_SET_INDEX}}, .state_size = sizeof(dp_row_op), \
   .create = scatter_create, .compute = scatter_compute}
#define BOTH(suffix, set)                                                                          \
  SCATTER("ScatterNd" suffix, set), SCATTER("ResourceScatterNd" suffix, set)

static const dp_kernel rows[] = {
    BOTH("Update", DP_SET_NUMBERS | DP_SET(BOOL) | DP_SET(STRING)),
    BOTH("Add", DP_SET_NUMBERS | DP_SET(BOOL)),
    BOTH("Sub", DP_SET_NUMBERS | DP_SET(BOOL)),
    BOTH("Min", DP_SET_REALS),
    BOTH("Max", DP_SET_REALS),
};
/* clang-format on */
DP_KERNEL_FAMILY(variable_scatter_nd, rows);
