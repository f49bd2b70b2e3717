/* Stacks of tensors, which live for one step: loops push values that their gradients pop later. A
 * push also outputs its tensor, so that later ops can depend on the push. Each stack has a lock;
 * pushed tensors share their buffers. */
#include "kernels/shared/family.h"

#include <pthread.h>
#include <stdatomic.h>
#include "base/memory.h"
#include "kernels/shared/handle.h"

#define STACK_PREFIX "_stacks"

typedef struct stack {
  dp_resource resource;
  char *name;
  dp_dtype dtype;
  int64_t limit;
  pthread_mutex_t lock;
  bool is_closed;
  DP_ARRAY(dp_tensor) tensors;
} stack;

static void drop_tensors(stack *held) {
  for (size_t i = 0; i < held->tensors.count; ++i)
    dp_tensor_deinit(&held->tensors.items[i]);
  DP_ARRAY_FREE(&held->tensors);
}

static void destroy(dp_resource *resource) {
  stack *held = (stack *)resource;
  drop_tensors(held);
  pthread_mutex_destroy(&held->lock);
  dp_free(held->name);
  dp_free(held);
}

static void describe(dp_resource *resource, dp_text *text) {
  stack *held = (stack *)resource;
  pthread_mutex_lock(&held->lock);
  dp_text_printf(text, "Stack[%s] of %zu %s", held->name, held->tensors.count,
                 dp_dtype_name(held->dtype));
  pthread_mutex_unlock(&held->lock);
}

static const dp_resource_ops stack_ops = {"N10tensorflow5StackE", destroy, describe};

/* ---- Making ---- */
typedef struct stack_state {
  dp_dtype dtype;
  char *name;
} stack_state;

static dp_status *stack_create(const dp_kernel_setup *setup, void *memory) {
  stack_state *state = memory;
  dp_view name;
  DP_RETURN_IF_ERROR(dp_node_get_type(setup->node, "elem_type", &state->dtype));
  DP_RETURN_IF_ERROR(dp_node_get_string(setup->node, "stack_name", &name));
  state->name = name.length ? dp_strndup(name.data, name.length) : dp_strdup(setup->node->name);
  return NULL;
}

static void stack_destroy(void *memory) {
  dp_free(((stack_state *)memory)->name);
}

static dp_status *read_limit(const dp_op_context *context, int64_t *limit_out) {
  *limit_out = INT32_MAX;
  if (context->input_count == 0)
    return NULL;
  const dp_tensor *size = dp_op_input(context, 0);
  if (size->shape.rank != 0)
    return DP_INVALID("Stack size must be a scalar, but had shape: %s",
                      dp_shape_text(&size->shape));
  int64_t limit = dp_tensor_int_at(size, 0);
  if (limit >= 0)
    *limit_out = limit;
  return NULL;
}

static stack *make_stack(const stack_state *state, int64_t limit) {
  static atomic_uint_fast64_t counter;
  stack *made = DP_NEW(stack);
  dp_resource_init(&made->resource, &stack_ops);
  dp_text name = {0};
  dp_text_printf(&name, "%s_%llu", state->name, (unsigned long long)atomic_fetch_add(&counter, 1));
  made->name = dp_text_take(&name);
  made->dtype = state->dtype;
  made->limit = limit;
  pthread_mutex_init(&made->lock, NULL);
  return made;
}

static dp_status *stack_compute(dp_op_context *context, void *memory) {
  int64_t limit;
  DP_RETURN_IF_ERROR(read_limit(context, &limit));
  stack *made = make_stack(memory, limit);
  dp_text key = {0};
  dp_text_printf(&key, STACK_PREFIX "%s", made->name);
  dp_status *status = dp_resources_add(context->device->resources, context->step->container,
                                       dp_text_string(&key), dp_resource_retain(made));
  bool is_resource = dp_op_output_type(context, 0) == DP_RESOURCE;
  if (!status)
    status = dp_handle_output(context, 0, &made->resource,
                              is_resource ? context->step->container : STACK_PREFIX,
                              is_resource ? dp_text_string(&key) : made->name, true);
  dp_text_deinit(&key);
  dp_resource_release(made);
  return status;
}

/* ---- Using ---- */
static dp_status *return_if_closed(const stack *held) {
  return held->is_closed ? DP_INVALID("Stack[%s] has already been closed.", held->name) : NULL;
}

static dp_status *push(stack *held, const dp_tensor *value) {
  if (value->dtype != held->dtype)
    return DP_INVALID("Must have type %d but got %d", (int)held->dtype, (int)value->dtype);
  pthread_mutex_lock(&held->lock);
  dp_status *status = return_if_closed(held);
  if (!status && (int64_t)held->tensors.count >= held->limit)
    status =
        DP_INVALID("Stack[%s] overflowed its max_size (%lld)", held->name, (long long)held->limit);
  if (!status)
    DP_ARRAY_PUSH(&held->tensors, dp_tensor_copy(value));
  pthread_mutex_unlock(&held->lock);
  return status;
}

static dp_status *pop(stack *held, dp_tensor *value_out) {
  pthread_mutex_lock(&held->lock);
  dp_status *status = return_if_closed(held);
  if (!status && held->tensors.count == 0)
    status = DP_INVALID("Stack[%s] is empty when calling Pop().", held->name);
  if (!status)
    *value_out = held->tensors.items[--held->tensors.count];
  pthread_mutex_unlock(&held->lock);
  return status;
}

static dp_status *get_stack(dp_op_context *context, dp_resource **stack_out) {
  return dp_handle_step_input(context, 0, &stack_ops, "Stack handle must have two elements",
                              stack_out);
}

static dp_status *push_compute(dp_op_context *context, void *memory) {
  dp_resource *held;
  DP_RETURN_IF_ERROR(get_stack(context, &held));
  dp_status *status = push((stack *)held, dp_op_input(context, 1));
  dp_resource_release(held);
  if (!status)
    context->outputs[0].tensor = dp_tensor_take(&context->inputs[1].tensor);
  return status;
}

static dp_status *pop_compute(dp_op_context *context, void *memory) {
  dp_resource *held;
  DP_RETURN_IF_ERROR(get_stack(context, &held));
  dp_status *status = pop((stack *)held, &context->outputs[0].tensor);
  dp_resource_release(held);
  return status;
}

static dp_status *close_compute(dp_op_context *context, void *memory) {
  dp_resource *held;
  DP_RETURN_IF_ERROR(get_stack(context, &held));
  stack *closing = (stack *)held;
  pthread_mutex_lock(&closing->lock);
  drop_tensors(closing);
  closing->is_closed = true;
  pthread_mutex_unlock(&closing->lock);
  dp_resource_release(held);
  return NULL;
}

/* clang-format off */
#define MAKE(name)                                                                                 \
  {.op = name, .flags = DP_KERNEL_CHEAP, .state_size = sizeof(stack_state),                        \
   .create = stack_create, .compute = stack_compute, .destroy = stack_destroy}
#define CHEAP(name, body) {.op = name, .flags = DP_KERNEL_CHEAP, .compute = body}

static const dp_kernel rows[] = {
    MAKE("Stack"), MAKE("StackV2"),
    CHEAP("StackPush", push_compute), CHEAP("StackPushV2", push_compute),
    CHEAP("StackPop", pop_compute), CHEAP("StackPopV2", pop_compute),
    CHEAP("StackClose", close_compute), CHEAP("StackCloseV2", close_compute),
};
/* clang-format on */
DP_KERNEL_FAMILY(stack, rows);
