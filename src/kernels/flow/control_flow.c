/* Kernels that only pass values on: identities, constants, placeholders, function arguments, and
 * the ops of conditionals and loops. The executor implements control flow itself (deadness, frames,
 * iterations); the bodies here at most choose an input or an output.
 *
 * A value is moved from input to output, so that a buffer with a single owner keeps it and can be
 * reused later. */
#include "kernels/shared/family.h"

#include "runtime/value.h"

static void move_value(dp_op_context *context, int32_t input, int32_t output) {
  dp_value_move(&context->outputs[output], &context->inputs[input]);
}

static dp_status *do_nothing(dp_op_context *context, void *state) {
  return NULL;
}

static dp_status *pass(dp_op_context *context, void *state) {
  move_value(context, 0, 0);
  return NULL;
}

static dp_status *pass_all(dp_op_context *context, void *state) {
  for (int32_t i = 0; i < context->input_count; ++i)
    move_value(context, i, i);
  return NULL;
}

/* ---- Constants ---- */
static dp_status *create_constant(const dp_kernel_setup *setup, void *state) {
  const dp_tensor *value;
  dp_dtype dtype;
  DP_RETURN_IF_ERROR(dp_node_get_tensor(setup->node, "value", &value));
  DP_RETURN_IF_ERROR(dp_node_get_type(setup->node, "dtype", &dtype));
  if (value->dtype != dtype)
    return DP_INVALID("%s mismatch between value (%s) and dtype (%s)",
                      dp_node_is(setup->node, "HostConst") ? "Type" : "DataType",
                      dp_dtype_name(value->dtype), dp_dtype_name(dtype));
  ((dp_value *)state)->tensor = dp_tensor_copy(value);
  return NULL;
}

static dp_status *constant(dp_op_context *context, void *state) {
  context->outputs[0].tensor = dp_tensor_copy(&((dp_value *)state)->tensor);
  return NULL;
}

static void destroy_constant(void *state) {
  dp_tensor_deinit(&((dp_value *)state)->tensor);
}

/* ---- Placeholders ---- */
static dp_status *placeholder(dp_op_context *context, void *state) {
  const dp_node *node = context->node;
  const dp_partial_shape *shape;
  dp_status *status = dp_node_get_shape(node, "shape", &shape);
  bool has_shape = status == NULL && shape->rank > 0;
  dp_status_release(status);
  return DP_INVALID("You must feed a value for placeholder tensor '%s' with dtype %s%s%s",
                    node->name, dp_dtype_name(node->output_types[0]),
                    has_shape ? " and shape " : "", has_shape ? dp_partial_shape_text(shape) : "");
}

/* ---- Conditionals ---- */
static dp_status *scalar_selector(dp_op_context *context, const dp_tensor **tensor_out) {
  const dp_tensor *selector = dp_op_input(context, 1);
  if (selector->shape.rank != 0)
    return DP_INVALID("The second input must be a scalar, but it has shape %s",
                      dp_shape_text(&selector->shape));
  *tensor_out = selector;
  return NULL;
}

static dp_status *switch_two(dp_op_context *context, void *state) {
  const dp_tensor *predicate = NULL;
  DP_RETURN_IF_ERROR(scalar_selector(context, &predicate));
  move_value(context, 0, *(const bool *)predicate->data ? 1 : 0);
  return NULL;
}

static dp_status *switch_many(dp_op_context *context, void *state) {
  const dp_tensor *selector = NULL;
  DP_RETURN_IF_ERROR(scalar_selector(context, &selector));
  int32_t index = *(const int32_t *)selector->data;
  int32_t last = context->output_count - 1;
  move_value(context, 0, index < 0 || index > last ? last : index);
  return NULL;
}

static dp_status *merge(dp_op_context *context, void *state) {
  for (int32_t i = 0; i < context->input_count; ++i)
    if (dp_value_is_set(&context->inputs[i])) {
      move_value(context, i, 0);
      return dp_op_output_int32(context, 1, i);
    }
  return dp_status_create(DP_INTERNAL, "Merge ran without a live input");
}

static dp_status *select_reference(dp_op_context *context, void *state) {
  const dp_tensor *index = dp_op_input(context, 0);
  if (index->shape.rank != 0)
    return DP_INVALID("Index must be a scalar, but it has shape %s", dp_shape_text(&index->shape));
  int32_t chosen = *(const int32_t *)index->data;
  int32_t count = context->input_count - 1;
  if (chosen < 0 || chosen >= count)
    return DP_INVALID("Index must be in the range [0, %d) but got %d", count, chosen);
  move_value(context, 1 + chosen, 0);
  return NULL;
}

/* ---- Functions ---- */
typedef struct argument_state {
  int32_t index;
  dp_dtype dtype;
} argument_state;

static dp_status *create_argument(const dp_kernel_setup *setup, void *raw) {
  argument_state *state = raw;
  int64_t index;
  DP_RETURN_IF_ERROR(dp_node_get_type(setup->node, "T", &state->dtype));
  DP_RETURN_IF_ERROR(dp_node_get_int(setup->node, "index", &index));
  if (index < 0 || index > INT32_MAX)
    return DP_INVALID("index %lld is out of range", (long long)index);
  state->index = (int32_t)index;
  return NULL;
}

static dp_status *check_argument(const argument_state *state, const dp_call_frame *frame,
                                 int32_t count, const char *what) {
  if (!frame)
    return dp_status_create(DP_INTERNAL, "no call frame");
  if (state->index >= count)
    return DP_INVALID("%s %d is not within [0, %d)", what, state->index, count);
  return NULL;
}

static dp_status *check_type(const argument_state *state, const dp_tensor *tensor) {
  if (tensor->dtype == state->dtype)
    return NULL;
  return DP_INVALID("Type mismatch: actual %s vs. expect %s", dp_dtype_name(tensor->dtype),
                    dp_dtype_name(state->dtype));
}

static dp_status *argument(dp_op_context *context, void *raw) {
  const argument_state *state = raw;
  dp_call_frame *frame = context->step->frame;
  DP_RETURN_IF_ERROR(check_argument(state, frame, frame ? frame->argument_count : 0, "argument"));
  const dp_tensor *value = &frame->arguments[state->index];
  DP_RETURN_IF_ERROR(check_type(state, value));
  context->outputs[0].tensor = dp_tensor_copy(value);
  return NULL;
}

static dp_status *result(dp_op_context *context, void *raw) {
  const argument_state *state = raw;
  dp_call_frame *frame = context->step->frame;
  DP_RETURN_IF_ERROR(check_argument(state, frame, frame ? frame->result_count : 0, "result"));
  DP_RETURN_IF_ERROR(check_type(state, dp_op_input(context, 0)));
  dp_tensor *slot = &frame->results[state->index];
  dp_tensor_deinit(slot);
  *slot = dp_tensor_take(&context->inputs[0].tensor);
  return NULL;
}

/* clang-format off */
#define PASS(name) {.op = name, .flags = DP_KERNEL_CHEAP, .compute = pass}
#define ARGUMENT(name, body)                                                                       \
  {.op = name, .flags = DP_KERNEL_CHEAP, .state_size = sizeof(argument_state),                     \
   .create = create_argument, .compute = body}
#define CONSTANT(name)                                                                             \
  {.op = name, .flags = DP_KERNEL_CHEAP | DP_KERNEL_NOTHING, .state_size = sizeof(dp_value),       \
   .create = create_constant, .compute = constant, .destroy = destroy_constant}

static const dp_kernel rows[] = {
    {.op = "NoOp", .flags = DP_KERNEL_CHEAP | DP_KERNEL_NOTHING, .compute = do_nothing},
    {.op = "ControlTrigger", .flags = DP_KERNEL_CHEAP | DP_KERNEL_NOTHING, .compute = do_nothing},
    CONSTANT("Const"),
    CONSTANT("HostConst"),
    {.op = "Placeholder", .flags = DP_KERNEL_CHEAP, .compute = placeholder},
    {.op = "PlaceholderV2", .flags = DP_KERNEL_CHEAP, .compute = placeholder},
    PASS("PlaceholderWithDefault"),
    PASS("Identity"),
    PASS("RefIdentity"),
    PASS("StopGradient"),
    PASS("PreventGradient"),
    PASS("Snapshot"),
    {.op = "IdentityN", .flags = DP_KERNEL_CHEAP, .compute = pass_all},
    {.op = "Switch", .flags = DP_KERNEL_CHEAP, .compute = switch_two},
    {.op = "RefSwitch", .flags = DP_KERNEL_CHEAP, .compute = switch_two},
    {.op = "_SwitchN", .flags = DP_KERNEL_CHEAP, .compute = switch_many},
    {.op = "Merge", .flags = DP_KERNEL_CHEAP, .compute = merge},
    {.op = "RefMerge", .flags = DP_KERNEL_CHEAP, .compute = merge},
    {.op = "RefSelect", .flags = DP_KERNEL_CHEAP, .compute = select_reference},
    PASS("Enter"),
    PASS("RefEnter"),
    PASS("Exit"),
    PASS("RefExit"),
    PASS("NextIteration"),
    PASS("RefNextIteration"),
    PASS("LoopCond"),
    ARGUMENT("_Arg", argument),
    ARGUMENT("_DeviceArg", argument),
    ARGUMENT("_Retval", result),
    ARGUMENT("_DeviceRetval", result),
};
/* clang-format on */

DP_KERNEL_FAMILY(control_flow, rows);
