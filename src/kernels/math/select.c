/* Select and SelectV2. Numbers are copied by loops that depend only on the size of an element.
 * Strings, handles and variants, which own memory, are copied one by one. */
#include "kernels/shared/family.h"

#include "kernels/loops/select.h"
#include "kernels/shared/broadcast.h"
#include "kernels/shared/support.h"

typedef struct select_state {
  dp_select_fn fn; /* NULL for elements that own memory */
  dp_dtype dtype;
  size_t size;
} select_state;

static dp_status *select_create(const dp_kernel_setup *setup, void *memory) {
  select_state *state = memory;
  DP_RETURN_IF_ERROR(dp_node_get_type(setup->node, "T", &state->dtype));
  state->size = dp_dtype_size(state->dtype);
  if (dp_dtype_is_plain(state->dtype))
    state->fn = dp_select_table()->by_size[state->size];
  return NULL;
}

typedef struct select_work {
  const select_state *state;
  const uint8_t *condition;
  const char *a, *b;
  char *to;
  int64_t strides[3]; /* of condition, a, b */
  dp_broadcast_span span;
  const dp_broadcast *plan;
} select_work;

static void run_some(const select_work *work, const uint8_t *condition, const char *a,
                     const char *b, char *to, int64_t count) {
  const select_state *state = work->state;
  if (state->fn) {
    state->fn(condition, a, b, to, count, work->strides[0], work->strides[1], work->strides[2]);
    return;
  }
  for (int64_t i = 0; i < count; ++i) {
    const char *from = condition[i * work->strides[0]] ? a + i * work->strides[1] * state->size
                                                       : b + i * work->strides[2] * state->size;
    dp_tensor_copy_elements(state->dtype, to + i * state->size, from, 1);
  }
}

static void run_flat(void *arg, int64_t begin, int64_t end) {
  const select_work *work = arg;
  size_t size = work->state->size;
  run_some(work, work->condition + begin * work->strides[0],
           work->a + begin * work->strides[1] * size, work->b + begin * work->strides[2] * size,
           work->to + begin * size, end - begin);
}

static void run_rows(void *arg, int64_t begin, int64_t end) {
  const select_work *work = arg;
  const dp_broadcast_span *span = &work->span;
  size_t size = work->state->size;
  for (int64_t row = begin; row < end; ++row) {
    int64_t offsets[DP_BROADCAST_MAX], outer = row % span->outer;
    dp_broadcast_offsets(work->plan, row / span->outer, offsets);
    for (int i = 0; i < 3; ++i)
      offsets[i] += outer * span->outer_stride[i];
    run_some(work, work->condition + offsets[0], work->a + offsets[1] * size,
             work->b + offsets[2] * size, work->to + row * span->inner * size, span->inner);
  }
}

static dp_status *allocate(dp_op_context *context, const dp_shape *shape, select_work *work) {
  dp_tensor *output;
  DP_RETURN_IF_ERROR(
      dp_op_allocate_or_forward_any(context, (const int32_t[]){1, 2}, 2, 0, shape, &output));
  work->to = output->data;
  return NULL;
}

static select_work start(const dp_op_context *context, const select_state *state) {
  return (select_work){.state = state,
                       .condition = dp_op_input(context, 0)->data,
                       .a = dp_op_input(context, 1)->data,
                       .b = dp_op_input(context, 2)->data};
}

static dp_status *run_equal_shapes(dp_op_context *context, select_work *work, bool one_condition) {
  dp_shape shape = dp_op_input(context, 1)->shape;
  DP_RETURN_IF_ERROR(allocate(context, &shape, work));
  work->strides[0] = !one_condition;
  work->strides[1] = work->strides[2] = 1;
  dp_kernel_for(context, shape.elements, 300, run_flat, work);
  return NULL;
}

/* A vector of conditions chooses whole rows. */
static dp_status *run_vector(dp_op_context *context, select_work *work) {
  dp_shape shape = dp_op_input(context, 1)->shape;
  dp_broadcast plan = {.rank = 2, .operand_count = 3, .shape = shape};
  int64_t rows = shape.dims[0], inner = rows ? shape.elements / rows : 0;
  DP_RETURN_IF_ERROR(allocate(context, &shape, work));
  work->span = (dp_broadcast_span){inner, rows, {0, 1, 1}, {1, inner, inner}};
  work->strides[1] = work->strides[2] = 1;
  work->plan = &plan;
  if (shape.elements)
    dp_op_for(context, rows, inner / 4 + 5, run_rows, work);
  work->plan = NULL;
  return NULL;
}

static dp_status *check_rows(const dp_shape *condition, const dp_shape *a) {
  if (a->rank == 0)
    return DP_INVALID("'then' must be at least a vector, but saw shape: %s", dp_shape_text(a));
  if (condition->dims[0] != a->dims[0])
    return DP_INVALID("Number of batches of 'then' must match size of 'cond', but saw: %lld vs. "
                      "%lld",
                      (long long)a->dims[0], (long long)condition->dims[0]);
  return NULL;
}

static dp_status *select_compute(dp_op_context *context, void *memory) {
  const dp_tensor *condition = dp_op_input(context, 0);
  const dp_tensor *a = dp_op_input(context, 1), *b = dp_op_input(context, 2);
  select_work work = start(context, memory);
  bool is_scalar = condition->shape.rank == 0;
  bool chooses_rows = condition->shape.rank == 1 && a->shape.rank != 1;
  if (chooses_rows)
    DP_RETURN_IF_ERROR(check_rows(&condition->shape, &a->shape));
  if (!is_scalar && !chooses_rows)
    for (int32_t i = 1; i < 3; ++i)
      DP_RETURN_IF_ERROR(dp_kernel_expect_same_size(context, i));
  if (!dp_shape_equal(&a->shape, &b->shape))
    return DP_INVALID("'then' and 'else' must have the same size.  but received: %s vs. %s",
                      dp_shape_text(&a->shape), dp_shape_text(&b->shape));
  return chooses_rows ? run_vector(context, &work) : run_equal_shapes(context, &work, is_scalar);
}

static dp_status *select_v2_compute(dp_op_context *context, void *memory) {
  const dp_tensor *condition = dp_op_input(context, 0);
  const dp_tensor *a = dp_op_input(context, 1), *b = dp_op_input(context, 2);
  select_work work = start(context, memory);
  if (dp_shape_equal(&a->shape, &b->shape) &&
      (condition->shape.rank == 0 || dp_shape_equal(&condition->shape, &a->shape)))
    return run_equal_shapes(context, &work, condition->shape.rank == 0);
  dp_broadcast plan;
  if (!dp_broadcast_plan((const dp_shape *[]){&condition->shape, &a->shape, &b->shape}, 3, &plan))
    return DP_INVALID("condition %s, then %s, and else %s must be broadcastable",
                      dp_shape_text(&condition->shape), dp_shape_text(&a->shape),
                      dp_shape_text(&b->shape));
  DP_RETURN_IF_ERROR(allocate(context, &plan.shape, &work));
  work.span = dp_broadcast_span_of(&plan);
  work.plan = &plan;
  for (int i = 0; i < 3; ++i)
    work.strides[i] = work.span.inner_stride[i];
  if (plan.shape.elements)
    dp_op_for(context, plan.shape.elements / work.span.inner, work.span.inner / 4 + 5, run_rows,
              &work);
  return NULL;
}

#define SET_SELECT                                                                                 \
  (DP_SET_NUMBERS | DP_SET(BOOL) | DP_SET(STRING) | DP_SET(RESOURCE) | DP_SET(VARIANT))

static const dp_kernel rows[] = {
    {.op = "Select",
     .types = {{"T", SET_SELECT}},
     .state_size = sizeof(select_state),
     .create = select_create,
     .compute = select_compute},
    {.op = "SelectV2",
     .types = {{"T", SET_SELECT}},
     .state_size = sizeof(select_state),
     .create = select_create,
     .compute = select_v2_compute},
};
DP_KERNEL_FAMILY(select, rows);
