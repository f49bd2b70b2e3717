/* While and For as one node: condition and body are functions, which are called in turn with the
 * loop's values. (The planner lowers loops to frames if they ask for it; these are the others.)
 *
 * A loop is one object from the node's start to its end. When a call ends, it requests the next
 * call and returns. The runtime starts that call once the stack is unwound, so a million iterations
 * need no stack. One thread at a time works on a loop. */
#include "kernels/shared/family.h"

#include "base/memory.h"
#include "kernels/shared/function.h"

typedef struct loop {
  dp_op_context *context;
  dp_function_instance *condition; /* NULL for For */
  dp_function_instance *body;
  int64_t counter, limit, step; /* For only */
  int32_t count;                /* number of values */
  int32_t first;                /* index of the first value: For has its counter before */
  dp_tensor arguments[];
} loop;

static loop *create_loop(dp_op_context *context, int32_t first_input, int32_t first) {
  int32_t count = context->input_count - first_input;
  size_t size = sizeof(loop) + sizeof(dp_tensor) * (size_t)(count + first);
  loop *made = dp_calloc(1, size);
  made->context = context;
  made->count = count;
  made->first = first;
  dp_function_take_inputs(context, first_input, made->arguments + first);
  return made;
}

static void end_loop(loop *ended, dp_status *status) {
  dp_op_context *context = ended->context;
  if (!status)
    status = dp_function_set_outputs(context, ended->arguments + ended->first, ended->count);
  for (int32_t i = 0; i < ended->first + ended->count; ++i)
    dp_tensor_deinit(&ended->arguments[i]);
  dp_free(ended);
  dp_op_done(context, status);
}

/* The results of the body become the values of the next iteration. */
static dp_status *take_results(loop *current, const char *kind, dp_tensor *results, int32_t count) {
  if (count != current->count)
    return DP_INVALID("%s loop body returned %d arguments. Expected: %d", kind, count,
                      current->count);
  for (int32_t i = 0; i < count; ++i) {
    dp_tensor *value = &current->arguments[current->first + i];
    dp_tensor_deinit(value);
    *value = dp_tensor_take(&results[i]);
  }
  return NULL;
}

/* ---- While ---- */
typedef struct while_state {
  const dp_func *condition, *body;
} while_state;

static dp_status *while_create(const dp_kernel_setup *setup, void *memory) {
  while_state *state = memory;
  DP_RETURN_IF_ERROR(dp_node_get_func(setup->node, "cond", &state->condition));
  return dp_node_get_func(setup->node, "body", &state->body);
}

static void on_condition(void *arg, dp_status *status, dp_tensor *results, int32_t count);

static void start_turn(loop *current) {
  dp_function_call(current->condition, current->context->step, current->arguments, current->count,
                   on_condition, current);
}

static void on_body(void *arg, dp_status *status, dp_tensor *results, int32_t count) {
  loop *current = arg;
  if (!status)
    status = take_results(current, "While", results, count);
  if (status)
    end_loop(current, status);
  else
    start_turn(current);
}

static void on_condition(void *arg, dp_status *status, dp_tensor *results, int32_t count) {
  loop *current = arg;
  bool goes_on = false;
  if (!status && count != 1)
    status = DP_INVALID("Expected a single scalar return value from WhileOp cond, got %d tensors.",
                        count);
  if (!status)
    status = dp_function_to_bool(&results[0], &goes_on);
  if (status || !goes_on)
    end_loop(current, status);
  else
    dp_function_call(current->body, current->context->step, current->arguments, current->count,
                     on_body, current);
}

static void while_compute(dp_op_context *context, void *memory) {
  const while_state *state = memory;
  dp_function_instance *condition, *body;
  dp_status *status = dp_function_of_step(context, state->condition, &condition);
  if (!status)
    status = dp_function_of_step(context, state->body, &body);
  if (status) {
    dp_op_done(context, status);
    return;
  }
  loop *started = create_loop(context, 0, 0);
  started->condition = condition;
  started->body = body;
  start_turn(started);
}

/* ---- For ---- */
static dp_status *for_create(const dp_kernel_setup *setup, void *memory) {
  return dp_node_get_func(setup->node, "body", memory);
}

static dp_status *read_scalar(const dp_op_context *context, int32_t slot, const char *label,
                              int64_t *value_out) {
  const dp_tensor *tensor = dp_op_input(context, slot);
  if (tensor->shape.rank != 0)
    return DP_INVALID("%s must be a scalar, but %s", label, dp_shape_text(&tensor->shape));
  *value_out = dp_tensor_int_at(tensor, 0);
  return NULL;
}

static void on_for_body(void *arg, dp_status *status, dp_tensor *results, int32_t count);

static void start_for_turn(loop *current) {
  bool is_over =
      current->step > 0 ? current->counter >= current->limit : current->counter <= current->limit;
  dp_status *status = NULL;
  if (!is_over) {
    dp_tensor_deinit(&current->arguments[0]);
    status = dp_tensor_scalar_int32((int32_t)current->counter, &current->arguments[0]);
  }
  if (is_over || status)
    end_loop(current, status);
  else
    dp_function_call(current->body, current->context->step, current->arguments, current->count + 1,
                     on_for_body, current);
}

static void on_for_body(void *arg, dp_status *status, dp_tensor *results, int32_t count) {
  loop *current = arg;
  if (!status)
    status = take_results(current, "For", results, count);
  current->counter += current->step;
  if (status)
    end_loop(current, status);
  else
    start_for_turn(current);
}

static void for_compute(dp_op_context *context, void *memory) {
  int64_t counter = 0, limit = 0, step = 0;
  dp_function_instance *body = NULL;
  dp_status *status = dp_function_of_step(context, *(const dp_func **)memory, &body);
  if (!status)
    status = read_scalar(context, 0, "start", &counter);
  if (!status)
    status = read_scalar(context, 1, "limit", &limit);
  if (!status)
    status = read_scalar(context, 2, "delta", &step);
  if (!status && !((step > 0 && counter <= limit) || (step < 0 && counter >= limit) ||
                   (step == 0 && counter == limit)))
    status = DP_INVALID("Invalid start/limit/delta: %lld %lld %lld", (long long)counter,
                        (long long)limit, (long long)step);
  if (status) {
    dp_op_done(context, status);
    return;
  }
  loop *started = create_loop(context, 3, 1);
  started->body = body;
  started->counter = counter;
  started->limit = limit;
  started->step = step;
  start_for_turn(started);
}

/* clang-format off */
#define WHILE(name)                                                                                \
  {.op = name, .state_size = sizeof(while_state), .create = while_create,                          \
   .compute_async = while_compute}

static const dp_kernel rows[] = {
    WHILE("While"), WHILE("StatelessWhile"), WHILE("_While"),
    {.op = "For", .state_size = sizeof(const dp_func *), .create = for_create,
     .compute_async = for_compute},
};
/* clang-format on */
DP_KERNEL_FAMILY(function_loop, rows);
