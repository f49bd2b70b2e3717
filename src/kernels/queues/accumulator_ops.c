/* The ops of conditional accumulators, dense and sparse, with reference handles (first form) and
 * resource handles (second form). They find the accumulator and call accumulator_internal.h. */
#include "kernels/shared/family.h"

#include <string.h>
#include "base/memory.h"
#include "kernels/queues/accumulator_internal.h"
#include "kernels/shared/handle.h"

/* ---- Making ---- */
typedef struct accumulator_make_state {
  dp_resource_name name;
  dp_resources *resources;
  dp_dtype dtype;
  dp_partial_shape shape;
  bool is_sparse, takes_mean;
} accumulator_make_state;

static dp_status *make_create(const dp_kernel_setup *setup, void *memory) {
  accumulator_make_state *state = memory;
  const dp_partial_shape *shape;
  dp_view reduction;
  state->resources = dp_resources_retain(setup->device->resources);
  state->is_sparse = dp_node_is(setup->node, "SparseConditionalAccumulator");
  DP_RETURN_IF_ERROR(dp_node_get_type(setup->node, "dtype", &state->dtype));
  DP_RETURN_IF_ERROR(dp_node_get_shape(setup->node, "shape", &shape));
  state->shape = *shape;
  DP_RETURN_IF_ERROR(dp_node_get_string(setup->node, "reduction_type", &reduction));
  state->takes_mean = dp_view_equals(reduction, "MEAN");
  return dp_resource_name_init(&state->name, setup, false);
}

static void make_destroy(void *memory) {
  accumulator_make_state *state = memory;
  if (state->name.is_private)
    dp_status_release(dp_resources_remove(state->resources, state->name.container, state->name.name,
                                          dp_accumulator_ops.type_name));
  dp_resources_release(state->resources);
  dp_resource_name_deinit(&state->name);
}

static dp_status *make_accumulator(void *arg, dp_resource **resource_out) {
  const accumulator_make_state *state = arg;
  dp_accumulator *accumulator;
  DP_RETURN_IF_ERROR(dp_accumulator_create(state->name.name, state->dtype, &state->shape,
                                           state->is_sparse, state->takes_mean, &accumulator));
  *resource_out = &accumulator->resource;
  return NULL;
}

static dp_status *make_compute(dp_op_context *context, void *memory) {
  accumulator_make_state *state = memory;
  dp_resource *resource;
  DP_RETURN_IF_ERROR(dp_resources_find_or_create(context->device->resources, state->name.container,
                                                 state->name.name, &dp_accumulator_ops,
                                                 make_accumulator, state, &resource));
  const dp_accumulator *found = (dp_accumulator *)resource;
  dp_status *status = NULL;
  if (found->dtype != state->dtype || found->is_sparse != state->is_sparse)
    status = DP_INVALID("Shared accumulator '%s' is a %s one of %s, not a %s one of %s",
                        state->name.name, found->is_sparse ? "sparse" : "dense",
                        dp_dtype_name(found->dtype), state->is_sparse ? "sparse" : "dense",
                        dp_dtype_name(state->dtype));
  if (!status)
    status = dp_handle_output(context, 0, resource, state->name.container, state->name.name, false);
  dp_resource_release(resource);
  return status;
}

/* ---- Finding ---- */
static dp_status *get_accumulator(dp_op_context *context, dp_accumulator **accumulator_out) {
  dp_resource *resource;
  DP_RETURN_IF_ERROR(dp_handle_input(context, 0, &dp_accumulator_ops, DP_HANDLE_RULE, &resource));
  *accumulator_out = (dp_accumulator *)resource;
  return NULL;
}

static dp_status *check_kind(const dp_accumulator *accumulator, bool is_sparse, dp_dtype dtype) {
  if (accumulator->is_sparse != is_sparse)
    return DP_INVALID("Accumulator '%s' is %s, but the op is for %s ones", accumulator->name,
                      accumulator->is_sparse ? "sparse" : "dense", is_sparse ? "sparse" : "dense");
  if (accumulator->dtype != dtype)
    return DP_INVALID("Signature mismatch: accumulator '%s' has dtype %s, but the op has %s",
                      accumulator->name, dp_dtype_name(accumulator->dtype), dp_dtype_name(dtype));
  return NULL;
}

static dp_status *read_scalar(const dp_op_context *context, int32_t slot, const char *name,
                              int64_t *value_out) {
  const dp_tensor *tensor = dp_op_input(context, slot);
  if (tensor->shape.rank != 0)
    return DP_INVALID("Argument %s must be scalar, but had bad shape %s", name,
                      dp_shape_text(&tensor->shape));
  *value_out = dp_tensor_int_at(tensor, 0);
  return NULL;
}

/* ---- Adding ---- */
static dp_status *apply_compute(dp_op_context *context, void *memory) {
  const dp_tensor *gradient = dp_op_input(context, 2);
  int64_t step;
  DP_RETURN_IF_ERROR(read_scalar(context, 1, "local_step", &step));
  dp_accumulator *accumulator;
  DP_RETURN_IF_ERROR(get_accumulator(context, &accumulator));
  dp_status *status = check_kind(accumulator, false, gradient->dtype);
  if (!status)
    status = dp_accumulator_add(accumulator, step, gradient);
  dp_resource_release(accumulator);
  return status;
}

static dp_status *apply_sparse_create(const dp_kernel_setup *setup, void *memory) {
  return dp_node_get_bool(setup->node, "has_known_shape", memory);
}

static dp_status *apply_sparse_compute(dp_op_context *context, void *memory) {
  const dp_tensor *values = dp_op_input(context, 3);
  int64_t step;
  DP_RETURN_IF_ERROR(read_scalar(context, 1, "local_step", &step));
  dp_accumulator *accumulator;
  DP_RETURN_IF_ERROR(get_accumulator(context, &accumulator));
  dp_status *status = check_kind(accumulator, true, values->dtype);
  if (!status)
    status = dp_accumulator_add_rows(accumulator, step, dp_op_input(context, 2), values,
                                     *(bool *)memory ? dp_op_input(context, 4) : NULL);
  dp_resource_release(accumulator);
  return status;
}

/* ---- Taking ---- */
typedef struct take_run {
  dp_op_context *context;
  dp_accumulator *accumulator; /* retained */
} take_run;

static void on_taken(void *arg, dp_status *status, dp_tensor *value, dp_tensor *indices,
                     dp_tensor *shape) {
  take_run *run = arg;
  dp_op_context *context = run->context;
  dp_accumulator *accumulator = run->accumulator;
  dp_free(run);
  if (!status && accumulator->is_sparse) {
    dp_op_set_output(context, 0, indices);
    dp_op_set_output(context, 1, value);
    dp_op_set_output(context, 2, shape);
  } else if (!status) {
    dp_op_set_output(context, 0, value);
  }
  dp_op_done(context, status);
  dp_resource_release(accumulator);
}

static void take(dp_op_context *context, bool is_sparse) {
  int64_t wanted = 0;
  dp_accumulator *accumulator = NULL;
  dp_status *status = read_scalar(context, 1, "num_required", &wanted);
  if (!status)
    status = get_accumulator(context, &accumulator);
  if (!status)
    status = check_kind(accumulator, is_sparse, dp_op_output_type(context, is_sparse ? 1 : 0));
  if (status) {
    dp_resource_release(accumulator);
    dp_op_done(context, status);
    return;
  }
  take_run *run = DP_NEW(take_run);
  *run = (take_run){context, accumulator};
  dp_accumulator_take(accumulator, wanted, context->step->cancel, on_taken, run);
}

static void take_compute(dp_op_context *context, void *memory) {
  take(context, false);
}

static void take_sparse_compute(dp_op_context *context, void *memory) {
  take(context, true);
}

/* ---- Step and count ---- */
static dp_status *set_step_compute(dp_op_context *context, void *memory) {
  int64_t step;
  DP_RETURN_IF_ERROR(read_scalar(context, 1, "new_global_step", &step));
  dp_accumulator *accumulator;
  DP_RETURN_IF_ERROR(get_accumulator(context, &accumulator));
  dp_accumulator_set_step(accumulator, step);
  dp_resource_release(accumulator);
  return NULL;
}

static dp_status *count_compute(dp_op_context *context, void *memory) {
  dp_accumulator *accumulator;
  DP_RETURN_IF_ERROR(get_accumulator(context, &accumulator));
  int64_t count = dp_accumulator_count(accumulator);
  dp_resource_release(accumulator);
  return dp_op_output_int32(context, 0, (int32_t)count);
}

/* clang-format off */
#define TYPES {{"dtype", DP_SET(HALF) | DP_SET(FLOAT) | DP_SET(DOUBLE)}}
#define MAKE(name)                                                                                 \
  {.op = name, .types = TYPES, .flags = DP_KERNEL_CHEAP, .state_size = sizeof(accumulator_make_state),         \
   .create = make_create, .compute = make_compute, .destroy = make_destroy}
#define ASK(name, body) {.op = name, .flags = DP_KERNEL_CHEAP, .compute = body}

static const dp_kernel rows[] = {
    MAKE("ConditionalAccumulator"), MAKE("SparseConditionalAccumulator"),
    MAKE("ResourceConditionalAccumulator"),
    {.op = "AccumulatorApplyGradient", .compute = apply_compute},
    {.op = "ResourceAccumulatorApplyGradient", .compute = apply_compute},
    {.op = "SparseAccumulatorApplyGradient", .state_size = sizeof(bool),
     .create = apply_sparse_create, .compute = apply_sparse_compute},
    {.op = "AccumulatorTakeGradient", .compute_async = take_compute},
    {.op = "ResourceAccumulatorTakeGradient", .compute_async = take_compute},
    {.op = "SparseAccumulatorTakeGradient", .compute_async = take_sparse_compute},
    ASK("AccumulatorSetGlobalStep", set_step_compute),
    ASK("ResourceAccumulatorSetGlobalStep", set_step_compute),
    ASK("AccumulatorNumAccumulated", count_compute),
    ASK("ResourceAccumulatorNumAccumulated", count_compute),
};
/* clang-format on */
DP_KERNEL_FAMILY(accumulator, rows);
