/* Collective ops: reduce, broadcast and gather among the devices of one task, with keys as
 * attributes or as inputs. Who meets whom is the collective room's; here is what becomes of the
 * tensors. */
#include "collective/collective.h"

#include <string.h>
#include "base/memory.h"
#include "kernels/families_internal.h"
#include "kernels/loops_binary_internal.h"
#include "kernels/support_internal.h"

typedef struct collective_state {
  int64_t group_size, group_key, instance_key; /* of ops that have them as attributes */
  bool has_inputs; /* the keys are inputs 1, 2, 3 (0, 1, 2 to receive) */
  double timeout_seconds;
  dp_binary_op merge;
  bool divides;
  dp_partial_shape shape; /* of a broadcast, as declared */
} collective_state;

/* One member's run. */
typedef struct collective_run {
  dp_op_context *context;
  const collective_state *state;
} collective_run;

/* ---- Attributes ---- */
static dp_status *read_merge(const dp_node *node, collective_state *state) {
  static const struct {
    const char *name;
    dp_binary_op op;
  } merges[] = {{"Add", DP_BINARY_add},
                {"Mul", DP_BINARY_mul},
                {"Min", DP_BINARY_minimum},
                {"Max", DP_BINARY_maximum}};
  dp_view merge, final;
  DP_RETURN_IF_ERROR(dp_node_get_string(node, "merge_op", &merge));
  DP_RETURN_IF_ERROR(dp_node_get_string(node, "final_op", &final));
  for (int i = 0; i < 4; ++i)
    if (dp_view_equals(merge, merges[i].name))
      state->merge = merges[i].op;
  state->divides = dp_view_equals(final, "Div");
  return NULL;
}

static dp_status *collective_create(const dp_kernel_setup *setup, void *memory) {
  collective_state *state = memory;
  const dp_node *node = setup->node;
  float timeout;
  DP_RETURN_IF_ERROR(dp_node_get_float(node, "timeout_seconds", &timeout));
  state->timeout_seconds = timeout;
  state->shape = dp_partial_shape_unknown();
  if (dp_node_attr(node, "merge_op"))
    DP_RETURN_IF_ERROR(read_merge(node, state));
  const dp_partial_shape *shape;
  if (dp_node_attr(node, "shape")) {
    DP_RETURN_IF_ERROR(dp_node_get_shape(node, "shape", &shape));
    state->shape = *shape;
  }
  state->has_inputs = dp_node_attr(node, "group_size") == NULL;
  if (state->has_inputs)
    return NULL;
  DP_RETURN_IF_ERROR(dp_node_get_int(node, "group_size", &state->group_size));
  DP_RETURN_IF_ERROR(dp_node_get_int(node, "group_key", &state->group_key));
  return dp_node_get_int(node, "instance_key", &state->instance_key);
}

/* ---- Combining ---- */
static dp_status *check_alike(const dp_tensor *inputs, int32_t count, int first_axis) {
  for (int32_t i = 1; i < count; ++i) {
    bool fits = inputs[i].dtype == inputs[0].dtype && inputs[i].shape.rank == inputs[0].shape.rank;
    for (int k = first_axis; fits && k < inputs[0].shape.rank; ++k)
      fits = inputs[i].shape.dims[k] == inputs[0].shape.dims[k];
    if (!fits)
      return DP_INVALID("Members of a collective must have tensors of one dtype and shape, but "
                        "member 0 has %s%s and member %d %s%s",
                        dp_dtype_name(inputs[0].dtype), dp_shape_text(&inputs[0].shape), i,
                        dp_dtype_name(inputs[i].dtype), dp_shape_text(&inputs[i].shape));
  }
  return NULL;
}

/* to = op(to, from), over `count` elements; with `is_scalar`, from is one element. */
static void apply(dp_dtype dtype, dp_binary_op op, void *to, const void *from, bool is_scalar,
                  int64_t count) {
  if (!dp_kernel_is_short_float(dtype)) {
    dp_binary_span span = {count, 1, 1, !is_scalar, 0, 0};
    dp_binary_table()->fn[op][dtype](to, from, to, &span);
    return;
  }
  float left[DP_KERNEL_BLOCK], right[DP_KERNEL_BLOCK];
  for (int64_t i = 0; i < count; i += DP_KERNEL_BLOCK) {
    int64_t length = count - i < DP_KERNEL_BLOCK ? count - i : DP_KERNEL_BLOCK;
    dp_binary_span span = {length, 1, 1, !is_scalar, 0, 0};
    const uint16_t *source = (const uint16_t *)from + (is_scalar ? 0 : i);
    dp_kernel_widen(dtype, (const uint16_t *)to + i, left, length);
    dp_kernel_widen(dtype, source, right, is_scalar ? 1 : length);
    dp_binary_table()->fn[op][DP_FLOAT](left, right, left, &span);
    dp_kernel_narrow(dtype, left, (uint16_t *)to + i, length);
  }
}

static void divide(dp_tensor *tensor, int32_t by) {
  int64_t wide = by;
  double real = by;
  float small = (float)by;
  uint16_t tiny;
  const void *divisor = &small;
  dp_binary_op op = DP_BINARY_div;
  if (dp_kernel_is_short_float(tensor->dtype)) {
    dp_kernel_narrow(tensor->dtype, &small, &tiny, 1);
    divisor = &tiny;
  } else if (tensor->dtype != DP_FLOAT) {
    bool is_integer = tensor->dtype != DP_DOUBLE;
    divisor = is_integer ? tensor->dtype == DP_INT64 ? (const void *)&wide : &by : &real;
    op = is_integer ? DP_BINARY_truncate_div : op;
  }
  apply(tensor->dtype, op, tensor->data, divisor, true, tensor->shape.elements);
}

static dp_status *reduce(void *arg, const dp_tensor *inputs, int32_t count, dp_tensor *result_out) {
  const collective_state *state = ((const collective_run *)arg)->state;
  DP_RETURN_IF_ERROR(check_alike(inputs, count, 0));
  DP_RETURN_IF_ERROR(dp_tensor_clone(&inputs[0], result_out));
  for (int32_t i = 1; i < count; ++i)
    apply(result_out->dtype, state->merge, result_out->data, inputs[i].data, false,
          result_out->shape.elements);
  if (state->divides)
    divide(result_out, count);
  return NULL;
}

static dp_status *gather(void *arg, const dp_tensor *inputs, int32_t count, dp_tensor *result_out) {
  DP_RETURN_IF_ERROR(check_alike(inputs, count, 0));
  if (inputs[0].shape.rank == 0)
    return DP_INVALID("input should have rank > 0, received a scalar");
  dp_shape shape = dp_shape_with(&inputs[0].shape, 0, inputs[0].shape.dims[0] * count);
  DP_RETURN_IF_ERROR(dp_tensor_create(inputs[0].dtype, &shape, result_out));
  size_t bytes = dp_tensor_bytes(&inputs[0]);
  for (int32_t i = 0; i < count && bytes > 0; ++i)
    memcpy((char *)result_out->data + (size_t)i * bytes, inputs[i].data, bytes);
  return NULL;
}

/* Exactly one member has a tensor. */
static dp_status *broadcast(void *arg, const dp_tensor *inputs, int32_t count,
                            dp_tensor *result_out) {
  int32_t source = -1;
  for (int32_t i = 0; i < count; ++i) {
    if (!inputs[i].dtype)
      continue;
    if (source >= 0)
      return DP_INVALID("Instance %lld of a broadcast has more than one sender",
                        (long long)((const collective_run *)arg)->state->instance_key);
    source = i;
  }
  if (source < 0)
    return DP_INVALID("Instance %lld of a broadcast has no sender",
                      (long long)((const collective_run *)arg)->state->instance_key);
  *result_out = dp_tensor_copy(&inputs[source]);
  return NULL;
}

/* ---- Running ---- */
static void on_done(void *arg, dp_status *status, const dp_tensor *result) {
  collective_run *run = arg;
  dp_op_context *context = run->context;
  const dp_partial_shape *shape = &run->state->shape;
  bool is_broadcast = strncmp(context->node->op->name, "CollectiveBcast", 15) == 0;
  if (!status && result->dtype != dp_op_output_type(context, 0))
    status = DP_INVALID("a %s tensor was sent to a member that wants %s",
                        dp_dtype_name(result->dtype), dp_dtype_name(dp_op_output_type(context, 0)));
  if (!status && is_broadcast && !dp_partial_shape_accepts(shape, &result->shape))
    status = DP_INVALID("Declared shape %s of %s does not match the shape that was sent, %s",
                        dp_partial_shape_text(shape), context->node->name,
                        dp_shape_text(&result->shape));
  if (!status)
    context->outputs[0].tensor = dp_tensor_copy(result);
  dp_free(run);
  dp_op_done(context, status);
}

static dp_status *read_keys(const dp_op_context *context, int32_t slot,
                            dp_collective_member *member) {
  int64_t size, group, instance;
  DP_RETURN_IF_ERROR(dp_kernel_read_int(dp_op_input(context, slot), "group_size", &size));
  DP_RETURN_IF_ERROR(dp_kernel_read_int(dp_op_input(context, slot + 1), "group_key", &group));
  DP_RETURN_IF_ERROR(dp_kernel_read_int(dp_op_input(context, slot + 2), "instance_key", &instance));
  member->group_size = (int32_t)size;
  member->group_key = (int32_t)group;
  member->instance_key = (int32_t)instance;
  return NULL;
}

static void join(dp_op_context *context, const collective_state *state, const char *kind,
                 bool has_input, dp_collective_combine_fn combine) {
  dp_collective_member member = {.kind = kind,
                                 .device = context->device->name,
                                 .step_id = context->step->id,
                                 .group_size = (int32_t)state->group_size,
                                 .group_key = (int32_t)state->group_key,
                                 .instance_key = (int32_t)state->instance_key,
                                 .timeout_seconds = state->timeout_seconds,
                                 .cancel = context->step->cancel,
                                 .combine = combine,
                                 .done = on_done};
  dp_status *status = state->has_inputs ? read_keys(context, has_input, &member) : NULL;
  if (!status && !context->step->collective)
    status = dp_status_create(DP_FAILED_PRECONDITION,
                              "%s: collective ops run only in the steps of a worker",
                              context->node->name);
  if (status) {
    dp_op_done(context, status);
    return;
  }
  if (has_input)
    member.input = dp_tensor_copy(dp_op_input(context, 0));
  collective_run *run = DP_NEW(collective_run);
  *run = (collective_run){context, state};
  member.arg = run;
  dp_collectives_join(context->step->collective, &member);
}

static void reduce_compute(dp_op_context *context, void *state) {
  join(context, state, "reduction", true, reduce);
}

static void gather_compute(dp_op_context *context, void *state) {
  join(context, state, "gathering", true, gather);
}

static void send_compute(dp_op_context *context, void *state) {
  join(context, state, "broadcast", true, broadcast);
}

static void receive_compute(dp_op_context *context, void *state) {
  join(context, state, "broadcast", false, broadcast);
}

/* clang-format off */
#define REDUCED (DP_SET_FLOATS | DP_SET_INDEX)
#define GATHERED (DP_SET(HALF) | DP_SET(FLOAT) | DP_SET(DOUBLE) | DP_SET_INDEX)
#define SENT (GATHERED | DP_SET(BOOL))
#define ROWS(name, set, body)                                                                        {.op = name, .types = {{"T", set}}, .state_size = sizeof(collective_state),                         .create = collective_create, .compute_async = body},                                              {.op = name "V2", .types = {{"T", set}}, .state_size = sizeof(collective_state),                    .create = collective_create, .compute_async = body}

static const dp_kernel rows[] = {
    ROWS("CollectiveReduce", REDUCED, reduce_compute),
    ROWS("CollectiveGather", GATHERED, gather_compute),
    ROWS("CollectiveBcastSend", SENT, send_compute),
    ROWS("CollectiveBcastRecv", SENT, receive_compute),
};
/* clang-format on */
DP_KERNEL_FAMILY(collective, rows);
