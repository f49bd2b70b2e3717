/* What the executor's tests share: a few ops of their own with bodies that tests can steer, a
 * builder for small graphs, and a way to run one and wait. Values go in and out by _Arg and
 * _Retval. */
#ifndef DP_TESTS_RUNTIME_EXECUTOR_TEST_H
#define DP_TESTS_RUNTIME_EXECUTOR_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/event.h"
#include "base/memory.h"
#include "kernels/families.h"
#include "runtime/executor.h"

#define SHARED __attribute__((unused)) static

#define assert_ok(expression)                                                                      \
  do {                                                                                             \
    dp_status *assert_ok_status = (expression);                                                    \
    if (assert_ok_status)                                                                          \
      fail_msg("%s", dp_status_message(assert_ok_status));                                         \
  } while (0)

/* ---- Ops of the tests ---- */
#define VALUE_ARG(argument)                                                                        \
  { .name = argument, .dtype = DP_INT32, NO_ATTRS }
#define NO_ATTRS .type_attr = -1, .number_attr = -1, .type_list_attr = -1
static const dp_op_arg two_values[] = {VALUE_ARG("a"), VALUE_ARG("b")};
static const dp_op_arg one_truth[] = {{.name = "t", .dtype = DP_BOOL, NO_ATTRS}};
static const dp_op_arg one_reference[] = {
    {.name = "r", .dtype = DP_INT32, .is_ref = true, NO_ATTRS}};

#define VALUE_OP(symbol, text, inputs_, outputs_)                                                  \
  SHARED const dp_op symbol = {.name = text,                                                       \
                               .input_count = inputs_,                                             \
                               .inputs = two_values,                                               \
                               .output_count = outputs_,                                           \
                               .outputs = two_values}
VALUE_OP(op_add, "TestAdd", 2, 1);
VALUE_OP(op_increment, "TestIncrement", 1, 1); /* in place where it may */
VALUE_OP(op_slow, "TestSlow", 1, 1);           /* takes some 50 us */
VALUE_OP(op_fail, "TestFail", 1, 1);
VALUE_OP(op_count, "TestCount", 1, 1); /* counts its runs */
VALUE_OP(op_two, "TestTwo", 1, 2);     /* x, x + 1 */
VALUE_OP(op_later, "TestLater", 1, 1); /* asynchronous: ended by the test, or by cancellation */
VALUE_OP(op_pool, "TestPool", 1, 1);   /* asynchronous: ended by a task of the pool */
VALUE_OP(op_now, "TestNow", 1, 1);     /* asynchronous, but ends at once */
VALUE_OP(op_block, "TestBlock", 1, 1); /* blocking */
VALUE_OP(op_lazy, "TestLazy", 1, 1);   /* forgets its output */
VALUE_OP(op_liar, "TestLiar", 1, 1);   /* makes a float */
SHARED const dp_op op_less = {.name = "TestLess",
                              .input_count = 2,
                              .inputs = two_values,
                              .output_count = 1,
                              .outputs = one_truth};
SHARED const dp_op op_variable = {
    .name = "TestVariable", .output_count = 1, .outputs = one_reference, .is_stateful = true};
SHARED const dp_op op_is_set = {.name = "TestIsSet",
                                .input_count = 1,
                                .inputs = one_reference,
                                .output_count = 1,
                                .outputs = one_truth,
                                .allows_uninitialized_input = true};
SHARED const dp_op op_bump = {.name = "TestBump", /* adds 1 to a variable in place */
                              .input_count = 1,
                              .inputs = one_reference,
                              .output_count = 1,
                              .outputs = one_reference};

SHARED atomic_int test_runs;       /* of TestCount */
SHARED dp_variable *test_variable; /* of TestVariable */
SHARED dp_pool *test_pool;
SHARED _Atomic(dp_op_context *) test_later; /* of TestLater */

/* ---- Bodies ---- */
SHARED int32_t value_of(const dp_op_context *context, int32_t slot) {
  return *(const int32_t *)dp_op_input(context, slot)->data;
}
/* x + 1, wrapping */
SHARED int32_t next_of(const dp_op_context *context) {
  return (int32_t)((uint32_t)value_of(context, 0) + 1);
}

SHARED dp_status *test_add(dp_op_context *context, void *state) {
  uint32_t sum = (uint32_t)value_of(context, 0) + (uint32_t)value_of(context, 1);
  return dp_op_output_int32(context, 0, (int32_t)sum);
}

SHARED dp_status *test_less(dp_op_context *context, void *state) {
  return dp_op_output_bool(context, 0, value_of(context, 0) < value_of(context, 1));
}

SHARED dp_status *test_increment(dp_op_context *context, void *state) {
  const dp_tensor *input = dp_op_input(context, 0);
  dp_tensor *output;
  DP_RETURN_IF_ERROR(dp_op_allocate_or_forward(context, 0, 0, &input->shape, &output));
  for (int64_t i = 0; i < input->shape.elements; ++i)
    ((uint32_t *)output->data)[i] = ((const uint32_t *)input->data)[i] + 1;
  return NULL;
}

SHARED dp_status *test_slow(dp_op_context *context, void *state) {
  int64_t until = dp_clock_nanos() + 50000;
  while (dp_clock_nanos() < until)
    ;
  return dp_op_output_int32(context, 0, next_of(context));
}

SHARED dp_status *test_fail(dp_op_context *context, void *state) {
  return dp_status_create(DP_OUT_OF_RANGE, "no more of %d", value_of(context, 0));
}

SHARED dp_status *test_count(dp_op_context *context, void *state) {
  atomic_fetch_add(&test_runs, 1);
  return dp_op_output_int32(context, 0, value_of(context, 0));
}

SHARED dp_status *test_two(dp_op_context *context, void *state) {
  DP_RETURN_IF_ERROR(dp_op_output_int32(context, 0, value_of(context, 0)));
  return dp_op_output_int32(context, 1, next_of(context));
}

SHARED dp_status *test_lazy(dp_op_context *context, void *state) {
  return NULL;
}

SHARED dp_status *test_liar(dp_op_context *context, void *state) {
  return dp_tensor_scalar_float(1, &context->outputs[0].tensor);
}

SHARED void end_increment(void *arg) {
  dp_op_context *context = arg;
  dp_op_done(context, dp_op_output_int32(context, 0, next_of(context)));
}

SHARED void test_now(dp_op_context *context, void *state) {
  end_increment(context);
}

SHARED void test_pool_body(dp_op_context *context, void *state) {
  dp_pool_run(test_pool, end_increment, context);
}

SHARED void later_cancelled(void *arg, const dp_status *why) {
  dp_op_context *context = atomic_exchange(&test_later, NULL);
  if (context)
    dp_op_done(context, dp_status_create(DP_CANCELLED, "Operation was cancelled"));
}

SHARED void test_later_body(dp_op_context *context, void *state) {
  atomic_store(&test_later, context);
  dp_cancel_token token;
  if (context->step->cancel &&
      !dp_cancel_register(context->step->cancel, later_cancelled, NULL, &token))
    later_cancelled(NULL, NULL);
}

SHARED dp_status *test_variable_body(dp_op_context *context, void *state) {
  context->outputs[0].reference = dp_resource_retain(test_variable);
  return NULL;
}

SHARED dp_status *test_is_set(dp_op_context *context, void *state) {
  return dp_op_output_bool(context, 0, dp_variable_is_initialized(dp_op_reference(context, 0)));
}

SHARED dp_status *test_bump(dp_op_context *context, void *state) {
  dp_variable_update update;
  DP_RETURN_IF_ERROR(dp_variable_begin(dp_op_reference(context, 0), &update));
  *(int32_t *)update.target.data = *(const int32_t *)update.old.data + 1;
  dp_variable_end(&update, true);
  dp_op_pass_reference(context, 0, 0);
  return NULL;
}

static const dp_kernel test_rows[] = {
    {.op = "TestAdd", .flags = DP_KERNEL_CHEAP, .compute = test_add},
    {.op = "TestLess", .flags = DP_KERNEL_CHEAP, .compute = test_less},
    {.op = "TestIncrement", .compute = test_increment},
    {.op = "TestSlow", .compute = test_slow},
    {.op = "TestFail", .compute = test_fail},
    {.op = "TestCount", .compute = test_count},
    {.op = "TestTwo", .compute = test_two},
    {.op = "TestLazy", .compute = test_lazy},
    {.op = "TestLiar", .compute = test_liar},
    {.op = "TestLater", .compute_async = test_later_body},
    {.op = "TestPool", .compute_async = test_pool_body},
    {.op = "TestNow", .compute_async = test_now},
    {.op = "TestBlock", .flags = DP_KERNEL_BLOCKING, .compute = test_increment},
    {.op = "TestVariable", .compute = test_variable_body},
    {.op = "TestIsSet", .compute = test_is_set},
    {.op = "TestBump", .compute = test_bump},
};

/* ---- Graphs ---- */
SHARED dp_node *add_node(dp_graph *graph, const char *name, const dp_op *op, int inputs,
                         const dp_input *input, int attrs, const dp_attr *attr) {
  dp_node_builder builder = {.name = name,
                             .op = op,
                             .inputs = input,
                             .input_count = inputs,
                             .attrs = attr,
                             .attr_count = attrs};
  dp_node *node = NULL;
  assert_ok(dp_graph_add(graph, &builder, &node));
  return node;
}
SHARED dp_input out(const dp_node *node, int32_t output) {
  return (dp_input){node->id, output};
}
SHARED dp_node *unary(dp_graph *graph, const char *name, const dp_op *op, dp_input a) {
  return add_node(graph, name, op, 1, &a, 0, NULL);
}
SHARED dp_node *binary(dp_graph *graph, const char *name, const dp_op *op, dp_input a, dp_input b) {
  return add_node(graph, name, op, 2, (dp_input[]){a, b}, 0, NULL);
}
SHARED dp_attr type_attr(const char *name, dp_dtype dtype) {
  return (dp_attr){.name = name, .kind = DP_ATTR_TYPE, .type = dtype};
}
SHARED dp_attr int_attr(const char *name, int64_t value) {
  return (dp_attr){.name = name, .kind = DP_ATTR_INT, .integer = value};
}
SHARED dp_attr string_attr(const char *name, const char *value) {
  return (dp_attr){.name = name, .kind = DP_ATTR_STRING, .string = dp_view_of(value)};
}
/* An op of TensorFlow's with one attribute T (most control flow). */
SHARED dp_node *typed(dp_graph *graph, const char *name, const char *op, dp_dtype dtype, int inputs,
                      const dp_input *input) {
  dp_attr attrs[] = {type_attr("T", dtype), int_attr("N", inputs)};
  int attr_count = strcmp(op, "Merge") == 0 || strcmp(op, "RefMerge") == 0 ? 2 : 1;
  return add_node(graph, name, dp_op_find(op), inputs, input, attr_count, attrs);
}
SHARED dp_node *int_node(dp_graph *graph, const char *name, const char *op, dp_input input) {
  return typed(graph, name, op, DP_INT32, 1, &input);
}
SHARED dp_node *argument_node(dp_graph *graph, const char *name, int index, dp_dtype dtype) {
  dp_attr attrs[] = {type_attr("T", dtype), int_attr("index", index)};
  return add_node(graph, name, dp_op_find("_Arg"), 0, NULL, 2, attrs);
}
SHARED dp_node *result_node(dp_graph *graph, const char *name, int index, dp_dtype dtype,
                            dp_input input) {
  dp_attr attrs[] = {type_attr("T", dtype), int_attr("index", index)};
  return add_node(graph, name, dp_op_find("_Retval"), 1, &input, 2, attrs);
}
SHARED dp_node *plain_node(dp_graph *graph, const char *name, const char *op) {
  return add_node(graph, name, dp_op_find(op), 0, NULL, 0, NULL);
}
SHARED dp_node *switch_node(dp_graph *graph, const char *name, dp_input value, dp_input truth) {
  return typed(graph, name, "Switch", DP_INT32, 2, (dp_input[]){value, truth});
}
SHARED dp_node *enter_node(dp_graph *graph, const char *name, const char *frame, int parallel,
                           bool is_constant, dp_input input) {
  dp_attr attrs[] = {type_attr("T", DP_INT32),
                     string_attr("frame_name", frame),
                     int_attr("parallel_iterations", parallel),
                     {.name = "is_constant", .kind = DP_ATTR_BOOL, .boolean = is_constant}};
  return add_node(graph, name, dp_op_find("Enter"), 1, &input, 4, attrs);
}

/* ---- Running ---- */
#define MOST_VALUES 8
typedef struct fixture {
  dp_device *device;
  dp_pool *compute, *blocking;
} fixture;

typedef struct trial {
  dp_step step;
  dp_call_frame frame;
  dp_tensor arguments[MOST_VALUES], results[MOST_VALUES];
  dp_event over;
  dp_status *status;
  atomic_int done_calls;
} trial;

SHARED int fixture_setup(void **state) {
  static bool registered;
  if (!registered) {
    dp_kernel_register(test_rows, sizeof(test_rows) / sizeof(test_rows[0]));
    dp_kernel_register(dp_kernel_family_control_flow.rows, dp_kernel_family_control_flow.count);
    dp_kernel_register(dp_kernel_family_transfer.rows, dp_kernel_family_transfer.count);
    registered = true;
  }
  fixture *made = DP_NEW(fixture);
  made->compute = dp_pool_create("compute", 4);
  made->blocking = dp_pool_create("blocking", 2);
  made->device = dp_device_create("/job:test/replica:0/task:0/device:CPU:0", "CPU", made->compute,
                                  made->blocking);
  test_pool = made->compute;
  *state = made;
  return 0;
}
SHARED int fixture_teardown(void **state) {
  fixture *made = *state;
  dp_pool_destroy(made->compute);
  dp_pool_destroy(made->blocking);
  dp_device_release(made->device);
  dp_free(made);
  return 0;
}

SHARED dp_executor *compile(fixture *fixture, dp_graph *graph) {
  dp_executor_options options = {.device = fixture->device};
  dp_executor *executor = NULL;
  assert_ok(dp_executor_create(graph, &options, &executor));
  return executor;
}

SHARED void trial_init(trial *trial, fixture *fixture) {
  memset(trial, 0, sizeof(*trial));
  dp_event_init(&trial->over);
  trial->frame = (dp_call_frame){.argument_count = MOST_VALUES,
                                 .result_count = MOST_VALUES,
                                 .arguments = trial->arguments,
                                 .results = trial->results};
  trial->step = (dp_step){.id = 7,
                          .session_handle = "",
                          .pool = fixture->compute,
                          .frame = &trial->frame,
                          .cancel = dp_cancel_create(NULL, DP_FOREVER),
                          .rendezvous = dp_rendezvous_create(7, NULL, NULL)};
}
SHARED void trial_deinit(trial *trial) {
  for (int i = 0; i < MOST_VALUES; ++i) {
    dp_tensor_deinit(&trial->arguments[i]);
    dp_tensor_deinit(&trial->results[i]);
  }
  dp_status_release(trial->status);
  dp_cancel_release(trial->step.cancel);
  dp_rendezvous_release(trial->step.rendezvous);
  dp_event_deinit(&trial->over);
}
SHARED void trial_feed(trial *trial, int index, int32_t value) {
  dp_tensor_deinit(&trial->arguments[index]);
  assert_ok(dp_tensor_scalar_int32(value, &trial->arguments[index]));
}
SHARED void trial_feed_truth(trial *trial, int index, bool value) {
  dp_tensor_deinit(&trial->arguments[index]);
  assert_ok(dp_tensor_scalar_bool(value, &trial->arguments[index]));
}
SHARED void trial_done(void *arg, dp_status *status) {
  trial *trial = arg;
  trial->status = status;
  atomic_fetch_add(&trial->done_calls, 1);
  dp_event_notify(&trial->over);
}
SHARED void trial_start(trial *trial, dp_executor *executor) {
  dp_executor_run(executor, &trial->step, trial_done, trial);
}
SHARED void trial_wait(trial *trial) {
  dp_event_wait(&trial->over);
  assert_int_equal(atomic_load(&trial->done_calls), 1);
}
SHARED void trial_run(trial *trial, dp_executor *executor) {
  trial_start(trial, executor);
  trial_wait(trial);
}
SHARED int32_t trial_result(const trial *trial, int index) {
  assert_true(dp_tensor_is_set(&trial->results[index]));
  return *(const int32_t *)trial->results[index].data;
}

/* Runs a graph once with two int arguments and gives result 0. */
SHARED int32_t run_once(fixture *fixture, dp_executor *executor, int32_t a, int32_t b) {
  trial trial;
  trial_init(&trial, fixture);
  trial_feed(&trial, 0, a);
  trial_feed(&trial, 1, b);
  trial_run(&trial, executor);
  assert_ok(trial.status);
  int32_t result = trial_result(&trial, 0);
  trial_deinit(&trial);
  return result;
}

#endif
