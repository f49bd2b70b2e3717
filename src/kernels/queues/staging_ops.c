/* The ops of staging areas. Every op carries the attributes of its area; the first op that runs
 * makes the area. An area is a resource of its device, under a container and the shared name, or
 * else the node's name. */
#include <string.h>
#include "base/memory.h"
#include "kernels/queues/staging_internal.h"
#include "kernels/shared/family.h"

typedef struct staging_state {
  dp_resource_name name;
  dp_staging_kind kind;
  int64_t capacity, memory_limit;
  int32_t component_count;
} staging_state;

static dp_status *create(const dp_kernel_setup *setup, void *memory) {
  staging_state *state = memory;
  const char *op = setup->node->op->name;
  state->kind = strncmp(op, "OrderedMap", 10) == 0 ? DP_STAGING_ORDERED_MAP
                : strncmp(op, "Map", 3) == 0       ? DP_STAGING_MAP
                                                   : DP_STAGING_TURN;
  const dp_attr *types;
  DP_RETURN_IF_ERROR(dp_node_get_int(setup->node, "capacity", &state->capacity));
  DP_RETURN_IF_ERROR(dp_node_get_int(setup->node, "memory_limit", &state->memory_limit));
  DP_RETURN_IF_ERROR(dp_node_get_list(setup->node, "dtypes", DP_ATTR_LIST_TYPE, &types));
  state->component_count = types->count;
  return dp_resource_name_init(&state->name, setup, true);
}

static void destroy(void *memory) {
  staging_state *state = memory;
  dp_resource_name_deinit(&state->name);
}

static dp_status *make_area(void *arg, dp_resource **resource_out) {
  const staging_state *state = arg;
  dp_staging *area =
      dp_staging_create(state->kind, state->capacity, state->memory_limit, state->component_count);
  *resource_out = &area->resource;
  return NULL;
}

static dp_status *get_area(dp_op_context *context, staging_state *state, dp_staging **area_out) {
  dp_resource *resource;
  DP_RETURN_IF_ERROR(dp_resources_find_or_create(context->device->resources, state->name.container,
                                                 state->name.name, dp_staging_ops(state->kind),
                                                 make_area, state, &resource));
  *area_out = (dp_staging *)resource;
  return NULL;
}

/* ---- One run, from the node's start to its end ---- */
typedef struct staging_run {
  dp_op_context *context;
  dp_staging *area; /* retained */
  int32_t first_output;
} staging_run;

static void on_done(void *arg, dp_status *status, int64_t key, dp_tensor *parts) {
  staging_run *run = arg;
  dp_op_context *context = run->context;
  dp_staging *area = run->area;
  int32_t first = run->first_output;
  dp_free(run);
  if (!status && first == 1)
    status = dp_op_output_int64(context, 0, key);
  for (int32_t i = first; !status && i < context->output_count; ++i)
    dp_op_set_output(context, i, &parts[i - first]);
  dp_op_done(context, status);
  dp_resource_release(area);
}

/* Starts a request that was made from the inputs. Outputs from `first_output` on get the parts of a
 * take or peek; an output before them gets the key. */
static void start(dp_op_context *context, staging_state *state, dp_staging_request request,
                  int32_t first_output) {
  dp_staging *area;
  dp_status *status = get_area(context, state, &area);
  int32_t outputs = context->output_count - first_output;
  if (!status && request.verb != DP_STAGING_PUT && request.part_count != outputs) {
    status = DP_INVALID("Mismatch stage/unstage: %d vs. %d", request.part_count, outputs);
    dp_resource_release(area);
  }
  if (status) {
    if (request.parts)
      dp_pieces_destroy(request.parts, request.part_count);
    dp_free(request.indices);
    dp_op_done(context, status);
    return;
  }
  staging_run *run = DP_NEW(staging_run);
  *run = (staging_run){context, area, first_output};
  request.done = on_done;
  request.arg = run;
  dp_staging_start(area, request, context->step->cancel);
}

static dp_tensor *take_inputs(dp_op_context *context, int32_t first) {
  int32_t count = context->input_count - first;
  dp_tensor *parts = dp_pieces_create(count);
  for (int32_t i = 0; i < count; ++i)
    parts[i] = dp_tensor_take(&context->inputs[first + i].tensor);
  return parts;
}

/* Requests all components, in order. */
static void name_all(dp_staging_request *request, int32_t count) {
  request->part_count = count;
  request->indices = DP_NEW_ARRAY(int32_t, (size_t)count + 1);
  for (int32_t i = 0; i < count; ++i)
    request->indices[i] = i;
}

static dp_status *name_some(dp_staging_request *request, const dp_tensor *indices) {
  int64_t count = dp_tensor_elements(indices);
  if (count > INT32_MAX - 1)
    return DP_INVALID("Too many indices: %lld", (long long)count);
  request->part_count = (int32_t)count;
  request->indices = DP_NEW_ARRAY(int32_t, (size_t)count + 1);
  memcpy(request->indices, indices->data, sizeof(int32_t) * (size_t)count);
  return NULL;
}

/* ---- By turn ---- */
static void stage_compute(dp_op_context *context, void *memory) {
  dp_staging_request request = {.verb = DP_STAGING_PUT, .choice = DP_STAGING_NEXT};
  name_all(&request, context->input_count);
  request.parts = take_inputs(context, 0);
  start(context, memory, request, 0);
}

static void unstage_compute(dp_op_context *context, void *memory) {
  dp_staging_request request = {.verb = DP_STAGING_TAKE, .choice = DP_STAGING_NEXT};
  name_all(&request, context->output_count);
  start(context, memory, request, 0);
}

static void stage_peek_compute(dp_op_context *context, void *memory) {
  const dp_tensor *index = dp_op_input(context, 0);
  if (dp_tensor_elements(index) != 1 || dp_tensor_int_at(index, 0) < 0) {
    dp_op_done(context, DP_INVALID("index must be one integer, not negative"));
    return;
  }
  dp_staging_request request = {.verb = DP_STAGING_PEEK, .choice = DP_STAGING_PLACE};
  request.key = dp_tensor_int_at(index, 0);
  name_all(&request, context->output_count);
  start(context, memory, request, 0);
}

/* ---- By key ---- */
static void keyed(dp_op_context *context, staging_state *state, dp_staging_verb verb) {
  const dp_tensor *key = dp_op_input(context, 0);
  dp_staging_request request = {.verb = verb, .choice = DP_STAGING_KEY};
  dp_status *status =
      dp_tensor_elements(key) == 1 ? NULL : DP_INVALID("key must be an int64 scalar");
  if (!status)
    status = name_some(&request, dp_op_input(context, 1));
  if (!status && verb == DP_STAGING_PUT && request.part_count != context->input_count - 2) {
    status = DP_INVALID("indices and values must have the same number: %d and %d",
                        request.part_count, context->input_count - 2);
    dp_free(request.indices);
  }
  if (status) {
    dp_op_done(context, status);
    return;
  }
  request.key = dp_tensor_int_at(key, 0);
  if (verb == DP_STAGING_PUT)
    request.parts = take_inputs(context, 2);
  start(context, state, request, 0);
}

static void map_stage_compute(dp_op_context *context, void *memory) {
  keyed(context, memory, DP_STAGING_PUT);
}

static void map_unstage_compute(dp_op_context *context, void *memory) {
  keyed(context, memory, DP_STAGING_TAKE);
}

static void map_peek_compute(dp_op_context *context, void *memory) {
  keyed(context, memory, DP_STAGING_PEEK);
}

static void map_unstage_any_compute(dp_op_context *context, void *memory) {
  dp_staging_request request = {.verb = DP_STAGING_TAKE, .choice = DP_STAGING_NEXT};
  dp_status *status = name_some(&request, dp_op_input(context, 0));
  if (status)
    dp_op_done(context, status);
  else
    start(context, memory, request, 1);
}

/* ---- Questions ---- */
static dp_status *sizes(dp_op_context *context, void *memory, int64_t *complete_out,
                        int64_t *incomplete_out) {
  dp_staging *area;
  DP_RETURN_IF_ERROR(get_area(context, memory, &area));
  dp_staging_sizes(area, complete_out, incomplete_out);
  dp_resource_release(area);
  return NULL;
}

static dp_status *size_compute(dp_op_context *context, void *memory) {
  int64_t complete, incomplete;
  DP_RETURN_IF_ERROR(sizes(context, memory, &complete, &incomplete));
  return dp_op_output_int32(context, 0, (int32_t)complete);
}

static dp_status *incomplete_size_compute(dp_op_context *context, void *memory) {
  int64_t complete, incomplete;
  DP_RETURN_IF_ERROR(sizes(context, memory, &complete, &incomplete));
  return dp_op_output_int32(context, 0, (int32_t)incomplete);
}

static dp_status *clear_compute(dp_op_context *context, void *memory) {
  dp_staging *area;
  DP_RETURN_IF_ERROR(get_area(context, memory, &area));
  dp_staging_clear(area);
  dp_resource_release(area);
  return NULL;
}

/* clang-format off */
#define STATE .state_size = sizeof(staging_state), .create = create, .destroy = destroy
#define MOVE(name, body) {.op = name, STATE, .compute_async = body}
#define ASK(name, body) {.op = name, STATE, .compute = body}
#define MAP(prefix)                                                                                \
  MOVE(prefix "Stage", map_stage_compute), MOVE(prefix "Unstage", map_unstage_compute),            \
  MOVE(prefix "UnstageNoKey", map_unstage_any_compute), MOVE(prefix "Peek", map_peek_compute),     \
  ASK(prefix "Size", size_compute), ASK(prefix "IncompleteSize", incomplete_size_compute),         \
  ASK(prefix "Clear", clear_compute)

static const dp_kernel rows[] = {
    MOVE("Stage", stage_compute), MOVE("Unstage", unstage_compute),
    MOVE("StagePeek", stage_peek_compute),
    ASK("StageSize", size_compute), ASK("StageClear", clear_compute),
    MAP("Map"), MAP("OrderedMap"),
};
/* clang-format on */
DP_KERNEL_FAMILY(staging, rows);
