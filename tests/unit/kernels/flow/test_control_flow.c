/* The kernels of control flow, function arguments, Assert and Print: values and messages are those
 * that TensorFlow 2.12 gives for the same graphs. */
#include <unistd.h>
#include "../../runtime/executor_test.h"

static int setup(void **state) {
  fixture_setup(state);
  dp_kernel_register(dp_kernel_family_assert_print.rows, dp_kernel_family_assert_print.count);
  return 0;
}

static dp_node *constant(dp_graph *graph, const char *name, const dp_tensor *value) {
  dp_attr attrs[] = {type_attr("dtype", value->dtype),
                     {.name = "value", .kind = DP_ATTR_TENSOR, .tensor = value}};
  return add_node(graph, name, dp_op_find("Const"), 0, NULL, 2, attrs);
}
static dp_node *numbers(dp_graph *graph, const char *name, dp_dtype dtype, dp_shape shape,
                        const void *values) {
  dp_tensor tensor;
  assert_ok(dp_tensor_create(dtype, &shape, &tensor));
  memcpy(tensor.data, values, dp_tensor_bytes(&tensor));
  dp_node *node = constant(graph, name, &tensor);
  dp_tensor_deinit(&tensor);
  return node;
}
static dp_node *integers(dp_graph *graph, const char *name, dp_shape shape, const int32_t *values) {
  return numbers(graph, name, DP_INT32, shape, values);
}
static dp_node *truth(dp_graph *graph, const char *name, bool value) {
  return numbers(graph, name, DP_BOOL, dp_shape_scalar(), &value);
}
static dp_node *strings(dp_graph *graph, const char *name, int count, const char *const *values) {
  dp_tensor tensor;
  dp_shape shape = dp_shape_vector(count);
  assert_ok(dp_tensor_create(DP_STRING, &shape, &tensor));
  for (int i = 0; i < count; ++i)
    assert_ok(dp_tstring_assign(&dp_tensor_strings(&tensor)[i], values[i], strlen(values[i])));
  dp_node *node = constant(graph, name, &tensor);
  dp_tensor_deinit(&tensor);
  return node;
}

/* Runs the graph; with a message it must fail with it, else `trial` keeps the results. */
static void run(fixture *fixture, dp_graph *graph, const char *message, trial *trial) {
  dp_executor *executor = compile(fixture, graph);
  trial_init(trial, fixture);
  trial_run(trial, executor);
  if (!message)
    assert_ok(trial->status);
  else
    assert_string_equal(dp_status_message(trial->status), message);
  dp_executor_release(executor);
  if (message)
    trial_deinit(trial);
}

/* ---- Conditionals ---- */
static void test_merge_takes_the_live_input(void **state) {
  for (int taken = 0; taken < 2; ++taken) {
    dp_graph *graph = dp_graph_create(NULL);
    dp_node *five = integers(graph, "five", dp_shape_scalar(), (int32_t[]){5});
    dp_node *choice = switch_node(graph, "sw", out(five, 0), out(truth(graph, "t", taken), 0));
    dp_node *merge =
        typed(graph, "merge", "Merge", DP_INT32, 2, (dp_input[]){out(choice, 0), out(choice, 1)});
    result_node(graph, "r0", 0, DP_INT32, out(merge, 0));
    result_node(graph, "r1", 1, DP_INT32, out(merge, 1));
    trial trial;
    run(*state, graph, NULL, &trial);
    assert_int_equal(trial_result(&trial, 0), 5);
    assert_int_equal(trial_result(&trial, 1), taken);
    trial_deinit(&trial);
  }
}

static void test_switch_wants_a_scalar(void **state) {
  dp_graph *graph = dp_graph_create(NULL);
  dp_node *five = integers(graph, "five", dp_shape_scalar(), (int32_t[]){5});
  dp_node *pair = numbers(graph, "pair", DP_BOOL, dp_shape_vector(2), (bool[]){true, false});
  switch_node(graph, "sw", out(five, 0), out(pair, 0));
  trial trial;
  run(*state, graph, "The second input must be a scalar, but it has shape [2]\n\t [[{{node sw}}]]",
      &trial);
}

static void test_switch_n(void **state) {
  static const int32_t cases[][2] = {{0, 0}, {2, 2}, {3, 2}, {-1, 2}};
  for (int i = 0; i < 4; ++i) {
    dp_graph *graph = dp_graph_create(NULL);
    dp_node *five = integers(graph, "five", dp_shape_scalar(), (int32_t[]){5});
    dp_node *index = integers(graph, "index", dp_shape_scalar(), &cases[i][0]);
    dp_attr attrs[] = {type_attr("T", DP_INT32), int_attr("num_outs", 3)};
    dp_node *choice = add_node(graph, "sw", dp_op_find("_SwitchN"), 2,
                               (dp_input[]){out(five, 0), out(index, 0)}, 2, attrs);
    dp_node *merge = typed(graph, "merge", "Merge", DP_INT32, 3,
                           (dp_input[]){out(choice, 0), out(choice, 1), out(choice, 2)});
    result_node(graph, "r1", 1, DP_INT32, out(merge, 1));
    trial trial;
    run(*state, graph, NULL, &trial);
    assert_int_equal(trial_result(&trial, 1), cases[i][1]);
    trial_deinit(&trial);
  }
}

/* ---- References ---- */
static dp_variable *make_variable(int32_t value) {
  dp_partial_shape unknown = dp_partial_shape_unknown();
  dp_variable *variable = dp_variable_create(&dp_legacy_variable_ops, "v", DP_INT32, &unknown);
  dp_tensor tensor;
  assert_ok(dp_tensor_scalar_int32(value, &tensor));
  dp_variable_assign(variable, &tensor);
  return variable;
}

static dp_graph *reference_graph(int32_t chosen) {
  dp_graph *graph = dp_graph_create(NULL);
  dp_node *variable = add_node(graph, "v", &op_variable, 0, NULL, 0, NULL);
  dp_node *bumped = unary(graph, "bump", &op_bump, out(variable, 0));
  dp_node *choice = typed(graph, "sw", "RefSwitch", DP_INT32, 2,
                          (dp_input[]){out(bumped, 0), out(truth(graph, "t", true), 0)});
  dp_node *same = int_node(graph, "same", "RefIdentity", out(choice, 1));
  dp_node *merge =
      typed(graph, "merge", "RefMerge", DP_INT32, 2, (dp_input[]){out(choice, 0), out(same, 0)});
  dp_attr attrs[] = {type_attr("T", DP_INT32), int_attr("N", 2)};
  dp_node *index = integers(graph, "index", dp_shape_scalar(), &chosen);
  dp_node *chosen_one =
      add_node(graph, "rs", dp_op_find("RefSelect"), 3,
               (dp_input[]){out(index, 0), out(merge, 0), out(variable, 0)}, 2, attrs);
  dp_node *again = unary(graph, "again", &op_bump, out(chosen_one, 0));
  result_node(graph, "r0", 0, DP_INT32, out(again, 0));
  result_node(graph, "r1", 1, DP_INT32, out(merge, 1));
  return graph;
}

static void test_references_pass_through(void **state) {
  test_variable = make_variable(10);
  trial trial;
  run(*state, reference_graph(0), NULL, &trial);
  assert_int_equal(trial_result(&trial, 0), 12);
  assert_int_equal(trial_result(&trial, 1), 1);
  trial_deinit(&trial);
  run(*state, reference_graph(5), "Index must be in the range [0, 2) but got 5\n\t [[{{node rs}}]]",
      &trial);
  dp_resource_release(test_variable);
}

/* ---- Lists, constants, arguments ---- */
static void test_identity_n(void **state) {
  dp_graph *graph = dp_graph_create(NULL);
  dp_node *five = integers(graph, "five", dp_shape_scalar(), (int32_t[]){5});
  dp_attr types = {
      .name = "T", .kind = DP_ATTR_LIST_TYPE, .count = 2, .types = (int32_t[]){DP_INT32, DP_BOOL}};
  dp_node *both = add_node(graph, "both", dp_op_find("IdentityN"), 2,
                           (dp_input[]){out(five, 0), out(truth(graph, "t", true), 0)}, 1, &types);
  result_node(graph, "r0", 0, DP_INT32, out(both, 0));
  result_node(graph, "r1", 1, DP_BOOL, out(both, 1));
  trial trial;
  run(*state, graph, NULL, &trial);
  assert_int_equal(trial_result(&trial, 0), 5);
  assert_true(*(const bool *)trial.results[1].data);
  trial_deinit(&trial);
}

static void test_argument_of_wrong_type(void **state) {
  dp_graph *graph = dp_graph_create(NULL);
  argument_node(graph, "a", 0, DP_FLOAT);
  dp_executor *executor = compile(*state, graph);
  trial trial;
  trial_init(&trial, *state);
  trial_feed(&trial, 0, 1);
  trial_run(&trial, executor);
  assert_string_equal(dp_status_message(trial.status),
                      "Type mismatch: actual int32 vs. expect float\n\t [[{{node a}}]]");
  trial_deinit(&trial);
  dp_executor_release(executor);
}

/* ---- Assert ---- */
static void check_assert(fixture *fixture, dp_graph *graph, dp_node *condition, int count,
                         dp_node *const *data, int64_t summarize, const char *message) {
  dp_input inputs[8] = {out(condition, 0)};
  int32_t types[8];
  for (int i = 0; i < count; ++i) {
    inputs[i + 1] = out(data[i], 0);
    types[i] = data[i]->output_types[0];
  }
  dp_attr attrs[] = {{.name = "T", .kind = DP_ATTR_LIST_TYPE, .count = count, .types = types},
                     int_attr("summarize", summarize)};
  add_node(graph, "as", dp_op_find("Assert"), count + 1, inputs, 2, attrs);
  trial trial;
  run(fixture, graph, message, &trial);
  if (!message)
    trial_deinit(&trial);
}

static void test_assert(void **state) {
  dp_graph *graph = dp_graph_create(NULL);
  dp_node *data[] = {integers(graph, "a", dp_shape_vector(3), (int32_t[]){1, 2, 3}),
                     strings(graph, "b", 1, (const char *[]){"abc"}),
                     numbers(graph, "c", DP_FLOAT, dp_shape_matrix(1, 2), (float[]){1.5f, 2})};
  check_assert(*state, graph, truth(graph, "t", false), 3, data, 2,
               "assertion failed: [1 2...] [abc] [[1.5 2]]\n\t [[{{node as}}]]");
  graph = dp_graph_create(NULL);
  data[0] = strings(graph, "a", 2, (const char *[]){"a b", "c\n\"q\""});
  check_assert(*state, graph, truth(graph, "t", false), 1, data, 3,
               "assertion failed: [a b c\\n\\\"q\\\"]\n\t [[{{node as}}]]");
  graph = dp_graph_create(NULL);
  data[0] = integers(graph, "a", dp_shape_matrix(2, 2), (int32_t[]){1, 2, 3, 4});
  data[1] =
      numbers(graph, "b", DP_FLOAT, dp_shape_vector(3), (float[]){0.1f, 1e20f, __builtin_nanf("")});
  data[2] = truth(graph, "c", true);
  check_assert(*state, graph, truth(graph, "t", false), 3, data, -1,
               "assertion failed: [[1 2][3 4]] [0.1 1e+20 nan] [1]\n\t [[{{node as}}]]");
  graph = dp_graph_create(NULL);
  data[0] = integers(graph, "a", dp_shape_scalar(), (int32_t[]){3});
  data[1] = numbers(graph, "b", DP_FLOAT, dp_shape_vector(0), (float[]){0});
  check_assert(*state, graph, truth(graph, "t", false), 2, data, 0,
               "assertion failed: [...] []\n\t [[{{node as}}]]");
  graph = dp_graph_create(NULL);
  data[0] = integers(graph, "a", dp_shape_scalar(), (int32_t[]){3});
  check_assert(*state, graph, truth(graph, "t", true), 1, data, 3, NULL);
  graph = dp_graph_create(NULL);
  data[0] = integers(graph, "a", dp_shape_scalar(), (int32_t[]){3});
  dp_node *pair = numbers(graph, "p", DP_BOOL, dp_shape_vector(2), (bool[]){true, false});
  check_assert(*state, graph, pair, 1, data, 3,
               "In[0] should be a scalar: [2]\n\t [[{{node as}}]]");
}

/* ---- Print ---- */
typedef struct capture {
  int saved, ends[2];
} capture;

static void capture_start(capture *capture) {
  fflush(stderr);
  capture->saved = dup(2);
  assert_int_equal(pipe(capture->ends), 0);
  dup2(capture->ends[1], 2);
}
static void capture_end(capture *capture, char *text, size_t size) {
  fflush(stderr);
  dup2(capture->saved, 2);
  close(capture->saved);
  close(capture->ends[1]);
  ssize_t length = read(capture->ends[0], text, size - 1);
  text[length < 0 ? 0 : length] = '\0';
  close(capture->ends[0]);
}

static void test_print(void **state) {
  dp_graph *graph = dp_graph_create(NULL);
  dp_node *input = integers(graph, "x", dp_shape_scalar(), (int32_t[]){9});
  dp_node *data[] = {integers(graph, "a", dp_shape_matrix(2, 2), (int32_t[]){1, 2, 3, 4}),
                     strings(graph, "b", 2, (const char *[]){"a b", "c\n"}),
                     truth(graph, "c", true)};
  dp_attr attrs[] = {type_attr("T", DP_INT32),
                     {.name = "U",
                      .kind = DP_ATTR_LIST_TYPE,
                      .count = 3,
                      .types = (int32_t[]){DP_INT32, DP_STRING, DP_BOOL}},
                     string_attr("message", "hello: "),
                     int_attr("first_n", 1)};
  dp_node *print = add_node(
      graph, "print", dp_op_find("Print"), 4,
      (dp_input[]){out(input, 0), out(data[0], 0), out(data[1], 0), out(data[2], 0)}, 4, attrs);
  result_node(graph, "r", 0, DP_INT32, out(print, 0));
  dp_executor *executor = compile(*state, graph);
  capture capture;
  char text[256];
  capture_start(&capture);
  int32_t first = run_once(*state, executor, 0, 0), second = run_once(*state, executor, 0, 0);
  capture_end(&capture, text, sizeof(text));
  assert_int_equal(first, 9);
  assert_int_equal(second, 9);
  assert_string_equal(text, "hello: [[1 2][3...]...][a b c\\n][1]\n");
  dp_executor_release(executor);
}

static dp_graph *print_v2_graph(dp_shape shape, const char *stream) {
  dp_graph *graph = dp_graph_create(NULL);
  dp_node *text = strings(graph, "text", 1, (const char *[]){"abc"});
  if (shape.rank == 0) {
    dp_tensor scalar;
    assert_ok(dp_tensor_scalar_string("abc", 3, &scalar));
    text = constant(graph, "scalar", &scalar);
    dp_tensor_deinit(&scalar);
  }
  dp_attr attrs[] = {string_attr("output_stream", stream), string_attr("end", "!\n")};
  add_node(graph, "p", dp_op_find("PrintV2"), 1, (dp_input[]){out(text, 0)}, 2, attrs);
  return graph;
}

static void test_print_v2(void **state) {
  trial trial;
  capture capture;
  char text[64];
  capture_start(&capture);
  run(*state, print_v2_graph(dp_shape_scalar(), "stderr"), NULL, &trial);
  capture_end(&capture, text, sizeof(text));
  trial_deinit(&trial);
  assert_string_equal(text, "abc!\n");
  run(*state, print_v2_graph(dp_shape_vector(1), "stderr"),
      "Input is expected to be scalar, but got [1]\n\t [[{{node p}}]]", &trial);
  dp_executor_options options = {.device = ((fixture *)*state)->device};
  dp_executor *executor = NULL;
  dp_status *status =
      dp_executor_create(print_v2_graph(dp_shape_scalar(), "nowhere"), &options, &executor);
  assert_string_equal(dp_status_message(status),
                      "Unknown output stream: nowhere, Valid streams are: stdout stderr log(info) "
                      "log(warning) log(error)\n\t [[{{node p}}]]");
  dp_status_release(status);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_merge_takes_the_live_input),
      cmocka_unit_test(test_switch_wants_a_scalar),
      cmocka_unit_test(test_switch_n),
      cmocka_unit_test(test_references_pass_through),
      cmocka_unit_test(test_identity_n),
      cmocka_unit_test(test_argument_of_wrong_type),
      cmocka_unit_test(test_assert),
      cmocka_unit_test(test_print),
      cmocka_unit_test(test_print_v2),
  };
  return cmocka_run_group_tests(tests, setup, fixture_teardown);
}
