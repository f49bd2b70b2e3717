/* Collective ops: reduce, broadcast, gather and all-to-all, with keys as attributes or as inputs.
 * The collective room decides who meets whom and how chunks travel; here are the attributes and the
 * arithmetic. A run is an object that lives from the op's start until the collective room calls
 * back. */
#include "collective/collective.h"

#include <string.h>
#include "base/memory.h"
#include "kernels/loops/binary.h"
#include "kernels/shared/family.h"
#include "kernels/shared/support.h"

typedef struct collective_state {
  dp_collective_kind kind;
  int64_t group_size, group_key, instance_key; /* for ops with keys as attributes */
  bool has_inputs; /* the keys are inputs 1, 2, 3 (0, 1, 2 to receive) */
  bool receives;   /* has no tensor to send */
  double timeout_seconds;
  dp_binary_op merge;
  bool divides;
  dp_partial_shape shape; /* declared shape of a broadcast */
  int64_t max_subdivisions;
  const int64_t *ring_offsets; /* owned by the node */
  size_t ring_offset_count;
} collective_state;

/* The run of one member. */
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

/* How the tensor is cut: the offsets of rings, or the largest number of rings. */
static dp_status *read_rings(const dp_node *node, collective_state *state) {
  state->max_subdivisions = -1;
  if (dp_node_attr(node, "max_subdivs_per_device"))
    DP_RETURN_IF_ERROR(dp_node_get_int(node, "max_subdivs_per_device", &state->max_subdivisions));
  if (!dp_node_attr(node, "subdiv_offsets"))
    return NULL;
  const dp_attr *offsets;
  DP_RETURN_IF_ERROR(dp_node_get_list(node, "subdiv_offsets", DP_ATTR_LIST_INT, &offsets));
  state->ring_offset_count = (size_t)offsets->count;
  state->ring_offsets = offsets->integers;
  return NULL;
}

static dp_status *read_keys_of_node(const dp_node *node, collective_state *state) {
  DP_RETURN_IF_ERROR(dp_node_get_int(node, "group_size", &state->group_size));
  DP_RETURN_IF_ERROR(dp_node_get_int(node, "group_key", &state->group_key));
  DP_RETURN_IF_ERROR(dp_node_get_int(node, "instance_key", &state->instance_key));
  if (state->group_size <= 0)
    return DP_INVALID("group_size must be positive integer but got %lld",
                      (long long)state->group_size);
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
  DP_RETURN_IF_ERROR(read_rings(node, state));
  const dp_partial_shape *shape;
  if (dp_node_attr(node, "shape")) {
    DP_RETURN_IF_ERROR(dp_node_get_shape(node, "shape", &shape));
    state->shape = *shape;
  }
  state->has_inputs = dp_node_attr(node, "group_size") == NULL;
  return state->has_inputs ? NULL : read_keys_of_node(node, state);
}

#define CREATE(name, of_kind, without_input)                                                       \
  static dp_status *name##_create(const dp_kernel_setup *setup, void *memory) {                    \
    collective_state *state = memory;                                                              \
    state->kind = DP_COLLECTIVE_##of_kind;                                                         \
    state->receives = without_input;                                                               \
    return collective_create(setup, memory);                                                       \
  }
CREATE(reduce, REDUCTION, false)
CREATE(gather, GATHER, false)
CREATE(send, BROADCAST, false)
CREATE(receive, BROADCAST, true)
CREATE(exchange, ALL_TO_ALL, false)

/* ---- Arithmetic ---- */
typedef struct merge_call {
  dp_dtype dtype;
  dp_binary_op op;
  bool is_scalar; /* right is one element */
  char *to;
  const char *left, *right;
} merge_call;

static void merge_short(const merge_call *call, int64_t begin, int64_t count) {
  float left[DP_KERNEL_BLOCK], right[DP_KERNEL_BLOCK];
  for (int64_t i = begin; i < begin + count; i += DP_KERNEL_BLOCK) {
    int64_t length = begin + count - i < DP_KERNEL_BLOCK ? begin + count - i : DP_KERNEL_BLOCK;
    dp_binary_span span = {length, 1, 1, !call->is_scalar, 0, 0};
    const uint16_t *source = (const uint16_t *)call->right + (call->is_scalar ? 0 : i);
    dp_kernel_widen(call->dtype, (const uint16_t *)call->left + i, left, length);
    dp_kernel_widen(call->dtype, source, right, call->is_scalar ? 1 : length);
    dp_binary_table()->fn[call->op][DP_FLOAT](left, right, left, &span);
    dp_kernel_narrow(call->dtype, left, (uint16_t *)call->to + i, length);
  }
}

static void merge_range(void *arg, int64_t begin, int64_t end) {
  const merge_call *call = arg;
  if (dp_kernel_is_short_float(call->dtype)) {
    merge_short(call, begin, end - begin);
    return;
  }
  size_t size = dp_dtype_size(call->dtype), offset = (size_t)begin * size;
  dp_binary_span span = {end - begin, 1, 1, !call->is_scalar, 0, 0};
  dp_binary_table()->fn[call->op][call->dtype](
      call->left + offset, call->right + (call->is_scalar ? 0 : offset), call->to + offset, &span);
}

static void merge(void *arg, void *to, const void *left, const void *right, int64_t count) {
  const collective_run *run = arg;
  merge_call call = {dp_op_output_type(run->context, 0), run->state->merge, false, to, left, right};
  dp_kernel_for(run->context, count, 500, merge_range, &call);
}

static void divide(void *arg, void *to, int64_t count, int32_t by) {
  const collective_run *run = arg;
  dp_dtype dtype = dp_op_output_type(run->context, 0);
  int64_t wide = by;
  double real = by;
  float small = (float)by;
  uint16_t tiny;
  merge_call call = {dtype, DP_BINARY_div, true, to, to, (const char *)&small};
  if (dp_kernel_is_short_float(dtype)) {
    dp_kernel_narrow(dtype, &small, &tiny, 1);
    call.right = (const char *)&tiny;
  } else if (dtype == DP_DOUBLE) {
    call.right = (const char *)&real;
  } else if (dtype != DP_FLOAT) {
    call.right = dtype == DP_INT64 ? (const char *)&wide : (const char *)&by;
    call.op = DP_BINARY_truncate_div;
  }
  dp_kernel_for(run->context, count, 500, merge_range, &call);
}

/* ---- The member's description ---- */
static dp_status *read_key(const dp_op_context *context, int32_t slot, const char *name,
                           int32_t *value_out) {
  const dp_tensor *tensor = dp_op_input(context, slot);
  if (tensor->shape.rank > 0 || tensor->dtype != DP_INT32)
    return DP_INVALID("Unexpected dimensions on input %s, got %s", name,
                      dp_shape_text(&tensor->shape));
  *value_out = *(const int32_t *)tensor->data;
  return NULL;
}

static dp_status *read_keys(const dp_op_context *context, const collective_state *state,
                            dp_collective_member *member) {
  member->group_size = (int32_t)state->group_size;
  member->group_key = (int32_t)state->group_key;
  member->instance_key = (int32_t)state->instance_key;
  if (!state->has_inputs)
    return NULL;
  int32_t first = state->receives ? 0 : 1;
  DP_RETURN_IF_ERROR(read_key(context, first, "group_size", &member->group_size));
  DP_RETURN_IF_ERROR(read_key(context, first + 1, "group_key", &member->group_key));
  DP_RETURN_IF_ERROR(read_key(context, first + 2, "instance_key", &member->instance_key));
  if (member->group_size <= 0)
    return DP_INVALID("group_size must be positive integer but got %d", member->group_size);
  return NULL;
}

static dp_status *gathered_shape(const dp_collective_member *member, const dp_shape *input,
                                 dp_shape *shape_out) {
  if (input->rank == 0)
    return DP_INVALID("input should have rank > 0, received %d", input->rank);
  int64_t dims[DP_MAX_RANK];
  memcpy(dims, input->dims, sizeof(int64_t) * (size_t)input->rank);
  if (__builtin_mul_overflow(dims[0], (int64_t)member->group_size, &dims[0]))
    return DP_INVALID("a gathered dimension of %lld times %d is too large",
                      (long long)input->dims[0], member->group_size);
  return dp_shape_make(input->rank, dims, shape_out);
}

static dp_status *declared_shape(const dp_op_context *context, const collective_state *state,
                                 dp_shape *shape_out) {
  if (state->has_inputs)
    return dp_kernel_read_shape(dp_op_input(context, 3), "shape", shape_out);
  if (!dp_partial_shape_is_known(&state->shape))
    return DP_INVALID("%s: the declared shape %s is not fully defined", context->node->name,
                      dp_partial_shape_text(&state->shape));
  return dp_shape_make(state->shape.rank, state->shape.dims, shape_out);
}

/* The shape of the result, the same for every member. */
static dp_status *find_shape(const dp_op_context *context, const collective_state *state,
                             dp_collective_member *member) {
  if (state->receives)
    return declared_shape(context, state, &member->shape);
  const dp_shape *input = &dp_op_input(context, 0)->shape;
  if (state->kind == DP_COLLECTIVE_GATHER)
    return gathered_shape(member, input, &member->shape);
  member->shape = *input;
  if (state->kind == DP_COLLECTIVE_BROADCAST && !state->has_inputs &&
      !dp_partial_shape_accepts(&state->shape, input))
    return dp_status_create(DP_INTERNAL,
                            "Declared shape of op %s: Broadcast(1) does not match shape of input",
                            context->node->name);
  return NULL;
}

/* ---- Running ---- */
static void on_done(void *arg, dp_status *status, dp_tensor *result) {
  collective_run *run = arg;
  dp_op_context *context = run->context;
  if (!status)
    context->outputs[0].tensor = dp_tensor_take(result);
  dp_free(run);
  dp_op_done(context, status);
}

static dp_collective_member describe_member(dp_op_context *context, const collective_state *state) {
  return (dp_collective_member){.kind = state->kind,
                                .name = context->node->name,
                                .device = context->device->name,
                                .device_type = context->device->type,
                                .incarnation = context->device->incarnation,
                                .memory_limit = context->device->memory_limit,
                                .step_id = context->step->id,
                                .frame_id = context->frame_id,
                                .iteration = context->iteration,
                                .timeout_seconds = state->timeout_seconds,
                                .is_source =
                                    state->kind == DP_COLLECTIVE_BROADCAST && !state->receives,
                                .dtype = dp_op_output_type(context, 0),
                                .max_subdivisions = (int32_t)state->max_subdivisions,
                                .ring_offsets = state->ring_offsets,
                                .ring_offset_count = state->ring_offset_count,
                                .cancel = context->step->cancel,
                                .pool = context->step->pool,
                                .merge = merge,
                                .finish = state->divides ? divide : NULL,
                                .done = on_done};
}

static void collective_compute(dp_op_context *context, void *memory) {
  const collective_state *state = memory;
  dp_collective_member member = describe_member(context, state);
  dp_status *status = NULL;
  if (!context->step->collective)
    status = dp_status_create(DP_INTERNAL,
                              "Failed to get CollectiveExecutor from OpKernelContext for Op %s",
                              context->node->name);
  if (!status)
    status = read_keys(context, state, &member);
  if (!status)
    status = find_shape(context, state, &member);
  if (status) {
    dp_op_done(context, status);
    return;
  }
  if (!state->receives)
    member.input = dp_tensor_copy(dp_op_input(context, 0));
  collective_run *run = DP_NEW(collective_run);
  *run = (collective_run){context, state};
  member.arg = run;
  dp_collective_join(context->step->collective, &member);
}

/* ---- Groups from a table of devices ---- */
static dp_status *find_in_groups(const dp_tensor *groups, int32_t device, int32_t base,
                                 int32_t *key_out) {
  const int32_t *devices = groups->data;
  int64_t row = groups->shape.dims[1];
  for (int64_t i = 0; i < groups->shape.elements; i++) {
    int32_t key = (int32_t)((uint32_t)base + (uint32_t)(i / row));
    if (key == 0)
      return DP_INVALID("Using the reserved group_key = 0 is not allowed: group_id = %lld, "
                        "base_key = %d",
                        (long long)(i / row), base);
    if (devices[i] < 0 || devices[i] >= groups->shape.elements)
      return DP_INVALID("Not all items in group_assignment are within [0, number of devices)");
    if (devices[i] == device) {
      *key_out = key;
      return NULL;
    }
  }
  return DP_INVALID("device_index %d is not found in group_assignment", device);
}

static dp_status *assign_group(dp_op_context *context, void *state) {
  const dp_tensor *groups = dp_op_input(context, 0), *device = dp_op_input(context, 1),
                  *base = dp_op_input(context, 2);
  if (device->shape.rank != 0)
    return DP_INVALID("device_index must be a scalar, but received tensor of shape: %s",
                      dp_shape_text(&device->shape));
  if (groups->shape.rank != 2)
    return DP_INVALID("group_assignment must be a 2-d Tensor, but received tensor of shape: %s",
                      dp_shape_text(&groups->shape));
  if (base->shape.rank != 0)
    return DP_INVALID("base_key must be a scalar, but received tensor of shape: %s",
                      dp_shape_text(&base->shape));
  int32_t key = 0;
  DP_RETURN_IF_ERROR(
      find_in_groups(groups, *(const int32_t *)device->data, *(const int32_t *)base->data, &key));
  DP_RETURN_IF_ERROR(dp_op_output_int32(context, 0, (int32_t)groups->shape.dims[1]));
  return dp_op_output_int32(context, 1, key);
}

/* clang-format off */
#define REDUCED (DP_SET_FLOATS | DP_SET_INDEX)
#define GATHERED (DP_SET(HALF) | DP_SET(FLOAT) | DP_SET(DOUBLE) | DP_SET_INDEX)
#define SENT (GATHERED | DP_SET(BOOL))
#define ROW(name, set, body)                                                                         \
  {.op = name, .types = {{"T", set}}, .state_size = sizeof(collective_state),                        \
   .create = body##_create, .compute_async = collective_compute}
#define ROWS(name, set, body) ROW(name, set, body), ROW(name "V2", set, body)

static const dp_kernel rows[] = {
    ROWS("CollectiveReduce", REDUCED, reduce),
    ROWS("CollectiveGather", GATHERED, gather),
    ROWS("CollectiveBcastSend", SENT, send),
    ROWS("CollectiveBcastRecv", SENT, receive),
    ROW("CollectiveAllToAllV2", REDUCED, exchange),
    {.op = "CollectiveAssignGroupV2", .compute = assign_group},
};
/* clang-format on */
DP_KERNEL_FAMILY(collective, rows);
