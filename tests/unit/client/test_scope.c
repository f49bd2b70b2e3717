/* dp_scope and the generated constructors: names, devices, control inputs, default attributes,
 * lists, constants, and errors that stick to the scope. */
#include <downpour.h>
#include "nodes.h"

typedef struct fixture {
  TF_Graph *graph;
  dp_scope *scope;
} fixture;

static int set_up(void **state) {
  fixture *f = calloc(1, sizeof(*f));
  f->graph = TF_NewGraph();
  f->scope = dp_scope_create(f->graph);
  *state = f;
  return 0;
}

static int tear_down(void **state) {
  fixture *f = *state;
  dp_scope_destroy(f->scope);
  TF_DeleteGraph(f->graph);
  free(f);
  return 0;
}

static void expect_name(TF_Output output, const char *name) {
  assert_non_null(output.oper);
  assert_string_equal(TF_OperationName(output.oper), name);
}

static int64_t int_attr(TF_Operation *operation, const char *name) {
  TF_Status *status = TF_NewStatus();
  int64_t value = -1;
  TF_OperationGetAttrInt(operation, name, &value, status);
  expect_ok(status);
  TF_DeleteStatus(status);
  return value;
}

static bool bool_attr(TF_Operation *operation, const char *name) {
  TF_Status *status = TF_NewStatus();
  unsigned char value = 2;
  TF_OperationGetAttrBool(operation, name, &value, status);
  expect_ok(status);
  TF_DeleteStatus(status);
  return value;
}

static float float_attr(TF_Operation *operation, const char *name) {
  TF_Status *status = TF_NewStatus();
  float value = -1;
  TF_OperationGetAttrFloat(operation, name, &value, status);
  expect_ok(status);
  TF_DeleteStatus(status);
  return value;
}

static void test_names(void **state) {
  dp_scope *scope = ((fixture *)*state)->scope;
  expect_name(dp_const_float(scope, 1), "Const");
  expect_name(dp_const_float(scope, 1), "Const_1");
  dp_scope *a = dp_scope_named(scope, "a"), *again = dp_scope_named(scope, "a");
  expect_name(dp_const_float(a, 1), "a/Const");
  expect_name(dp_const_float(again, 1), "a_1/Const");
  expect_name(dp_const_float(dp_scope_named(a, "b"), 1), "a/b/Const");
  expect_name(dp_const_float(dp_scope_named(again, "a/"), 1), "a/Const_1");
  expect_name(dp_placeholder(a, TF_FLOAT, .name = "x"), "a/x");
  expect_name(dp_placeholder(a, TF_FLOAT, .name = "x"), "a/x_1");
  expect_name(dp_placeholder(scope, TF_FLOAT, .name = "a"), "a_2");
  assert_true(dp_scope_ok(scope));
}

static void test_defaults(void **state) {
  dp_scope *scope = ((fixture *)*state)->scope;
  TF_Output x = dp_placeholder(scope, TF_FLOAT, .shape = DP_SHAPE(-1, 3));
  assert_true(float_attr(dp_leaky_relu(scope, x).oper, "alpha") == 0.2f);
  assert_true(float_attr(dp_leaky_relu(scope, x, .alpha = 0).oper, "alpha") == 0);
  TF_Output w = dp_const_floats(scope, DP_SHAPE(2, 3), (float[]){1, 2, 3, 4, 5, 6});
  TF_Output y = dp_mat_mul(scope, x, w, .transpose_b = true, .name = "y");
  expect_name(y, "y");
  assert_true(bool_attr(y.oper, "transpose_b"));
  assert_false(bool_attr(y.oper, "transpose_a"));
  dp_top_kv2_outputs top = dp_top_kv2(scope, y, dp_const_int32(scope, 1), .sorted = false);
  assert_ptr_equal(top.values.oper, top.operation);
  assert_int_equal(top.indices.index, 1);
  assert_false(bool_attr(top.operation, "sorted"));
  assert_true(dp_scope_ok(scope));
}

static void test_lists(void **state) {
  dp_scope *scope = ((fixture *)*state)->scope;
  TF_Output axis = dp_const_int32(scope, 0);
  TF_Output v = dp_const_vector(scope, DP_INTS(1, 2, 3, 4));
  assert_int_equal(TF_OperationOutputType(v), TF_INT32);
  dp_output_list halves = dp_split(scope, axis, v, 2);
  assert_int_equal(halves.count, 2);
  assert_int_equal(dp_output_at(halves, 1).index, 1);
  assert_null(dp_output_at(halves, 2).oper);
  TF_Output joined =
      dp_concat_v2(scope, DP_OUTPUTS(dp_output_at(halves, 1), dp_output_at(halves, 0)), axis);
  assert_int_equal(int_attr(joined.oper, "N"), 2);
  TF_Operation *none = dp_no_op(scope);
  assert_string_equal(TF_OperationOpType(none), "NoOp");
  TF_Output image = dp_placeholder(scope, TF_FLOAT), filter = dp_placeholder(scope, TF_FLOAT);
  TF_Output conv = dp_conv2d(scope, image, filter, DP_INTS(1, 2, 2, 1), "SAME");
  int64_t strides[4] = {0};
  TF_Status *status = TF_NewStatus();
  TF_OperationGetAttrIntList(conv.oper, "strides", strides, 4, status);
  expect_ok(status);
  assert_int_equal(strides[1], 2);
  TF_DeleteStatus(status);
  assert_true(dp_scope_ok(scope));
}

static const char *choose_job(void *arg, const dp_new_operation *operation) {
  int *asked = arg;
  ++*asked;
  if (strcmp(operation->op_type, "VarHandleOp") != 0)
    return "/job:worker";
  assert_int_equal(operation->dtype, TF_FLOAT);
  assert_int_equal(operation->shape.count, 2);
  assert_int_equal(operation->shape.items[1], 7);
  assert_string_equal(operation->name, "w");
  return "/job:ps/task:3";
}

static void test_places(void **state) {
  dp_scope *scope = ((fixture *)*state)->scope;
  dp_scope *inner = dp_scope_on(dp_scope_on(scope, "/job:ps/task:1"), "/task:2/cpu:0");
  assert_string_equal(TF_OperationDevice(dp_const_float(inner, 1).oper),
                      "/job:ps/task:2/device:CPU:0");
  int asked = 0;
  dp_scope *placed = dp_scope_placed(scope, choose_job, &asked);
  TF_Output handle = dp_var_handle_op(placed, TF_FLOAT, DP_SHAPE(5, 7), .name = "w");
  assert_string_equal(TF_OperationDevice(handle.oper), "/job:ps/task:3");
  TF_Output constant = dp_const_float(dp_scope_on(placed, "/task:9"), 1);
  assert_string_equal(TF_OperationDevice(constant.oper), "/job:worker/task:9");
  assert_int_equal(asked, 2);
  assert_string_equal(TF_OperationDevice(dp_const_float(scope, 1).oper), "");
  dp_scope *after = dp_scope_after(scope, (TF_Operation *[]){constant.oper, handle.oper}, 2);
  TF_Operation *group = dp_no_op(after);
  assert_int_equal(TF_OperationNumControlInputs(group), 2);
  assert_int_equal(TF_OperationNumControlInputs(dp_no_op(dp_scope_after(after, NULL, 0))), 0);
  TF_Output beside = dp_const_float(dp_scope_beside(scope, handle.oper), 1);
  TF_Status *status = TF_NewStatus();
  TF_AttrMetadata meta = TF_OperationGetAttrMetadata(beside.oper, "_class", status);
  expect_ok(status);
  assert_int_equal(meta.list_size, 1);
  TF_DeleteStatus(status);
  assert_true(dp_scope_ok(scope));
}

static void test_first_error_sticks(void **state) {
  fixture *f = *state;
  dp_scope *inner = dp_scope_named(f->scope, "inner");
  TF_Output one = dp_const_float(inner, 1);
  TF_Output bad = dp_add_v2(inner, one, dp_const_int32(inner, 1));
  assert_null(bad.oper);
  assert_false(dp_scope_ok(f->scope));
  assert_int_equal(dp_scope_code(f->scope), TF_INVALID_ARGUMENT);
  assert_non_null(strstr(dp_scope_message(f->scope), "inner/AddV2"));
  char *first = strdup(dp_scope_message(f->scope));
  assert_null(dp_relu(inner, bad).oper);
  assert_null(dp_const_float(inner, 1).oper);
  dp_scope_fail(inner, TF_ABORTED, "later");
  assert_string_equal(dp_scope_message(f->scope), first);
  free(first);
}

static void test_bad_calls(void **state) {
  TF_Graph *graph = ((fixture *)*state)->graph;
  dp_scope *scope = dp_scope_create(graph);
  dp_relu(scope, (TF_Output){0});
  assert_string_equal(dp_scope_message(scope), "Relu (Relu): input 'features' is missing");
  dp_scope_destroy(scope);
  scope = dp_scope_create(graph);
  dp_scope_on(scope, "/job:ps/oops");
  assert_int_equal(dp_scope_code(scope), TF_INVALID_ARGUMENT);
  dp_scope_destroy(scope);
  scope = dp_scope_create(graph);
  dp_const_floats(scope, DP_SHAPE(-1), (float[]){1});
  assert_int_equal(dp_scope_code(scope), TF_INVALID_ARGUMENT);
  dp_scope_destroy(scope);
  scope = dp_scope_create(graph);
  dp_const_number(scope, TF_STRING, 1);
  assert_int_equal(dp_scope_code(scope), TF_INVALID_ARGUMENT);
  dp_scope_destroy(scope);
}

static void test_runs(void **state) {
  fixture *f = *state;
  TF_Output a = dp_const_floats(f->scope, DP_SHAPE(2, 2), (float *)(float[2][2]){{1, 2}, {3, 4}});
  TF_Output half = dp_cast(f->scope, dp_const_number(f->scope, TF_HALF, 0.5), TF_FLOAT);
  TF_Output sum =
      dp_sum(f->scope, dp_mul(f->scope, a, half), dp_const_vector(f->scope, DP_INTS(0)));
  TF_Status *status = TF_NewStatus();
  TF_SessionOptions *options = TF_NewSessionOptions();
  TF_Session *session = TF_NewSession(f->graph, options, status);
  TF_Tensor *value = NULL;
  TF_SessionRun(session, NULL, NULL, NULL, 0, &sum, &value, 1, NULL, 0, NULL, status);
  expect_ok(status);
  assert_int_equal(TF_Dim(value, 0), 2);
  const float *numbers = TF_TensorData(value);
  assert_true(numbers[0] == 2 && numbers[1] == 3);
  TF_DeleteTensor(value);
  TF_DeleteSession(session, status);
  TF_DeleteSessionOptions(options);
  TF_DeleteStatus(status);
}

/* A program that was compiled when OneHot had no axis yet, and one whose struct has no size. */
static void test_options_of_other_sizes(void **state) {
  dp_scope *scope = ((fixture *)*state)->scope;
  TF_Output ids = dp_const_vector(scope, DP_INTS(0, 1)), depth = dp_const_int32(scope, 2);
  TF_Output on = dp_const_float(scope, 1), off = dp_const_float(scope, 0);
  dp_one_hot_options options = DP_OPTIONS(dp_one_hot, .axis = 0, .name = "hot");
  TF_Output output = dp_one_hot_with_options(scope, ids, depth, on, off, &options);
  assert_int_equal(int_attr(output.oper, "axis"), 0);
  options.options_size = offsetof(dp_one_hot_options, axis);
  output = dp_one_hot_with_options(scope, ids, depth, on, off, &options);
  expect_name(output, "hot_1");
  assert_int_equal(int_attr(output.oper, "axis"), -1);
  options.options_size = sizeof(options) + 64;
  options.axis = 1;
  output = dp_one_hot_with_options(scope, ids, depth, on, off, &options);
  assert_int_equal(int_attr(output.oper, "axis"), 1);
  output = dp_one_hot_with_options(scope, ids, depth, on, off, NULL);
  expect_name(output, "OneHot");
  assert_int_equal(int_attr(output.oper, "axis"), -1);
  options.options_size = 0;
  assert_null(dp_one_hot_with_options(scope, ids, depth, on, off, &options).oper);
  assert_int_equal(dp_scope_code(scope), TF_INVALID_ARGUMENT);
}

int main(void) {
#define TEST(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
  const struct CMUnitTest tests[] = {
      TEST(test_names),
      TEST(test_defaults),
      TEST(test_lists),
      TEST(test_places),
      TEST(test_first_error_sticks),
      TEST(test_bad_calls),
      TEST(test_runs),
      TEST(test_options_of_other_sizes),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
