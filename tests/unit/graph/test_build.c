/* Building and rewriting graphs: add, edges, attributes, copies, clones, walks. */
#include "graph_test.h"

static dp_node *add(dp_graph *to, const char *name, const char *op, const dp_input *inputs,
                    int32_t input_count, const dp_attr *attrs, int32_t attr_count) {
  dp_node *made = NULL;
  assert_ok(dp_graph_add(to,
                         &(dp_node_builder){.name = name,
                                            .op = dp_op_find(op),
                                            .inputs = inputs,
                                            .input_count = input_count,
                                            .attrs = attrs,
                                            .attr_count = attr_count},
                         &made));
  return made;
}

static const dp_attr float_dtype = {.name = "dtype", .kind = DP_ATTR_TYPE, .type = DP_FLOAT};
static const dp_attr float_t = {.name = "T", .kind = DP_ATTR_TYPE, .type = DP_FLOAT};

static dp_graph *diamond(void) {
  dp_graph *to = dp_graph_create(NULL);
  add(to, "a", "Placeholder", NULL, 0, &float_dtype, 1);
  add(to, "b", "Neg", (dp_input[]){{0, 0}}, 1, &float_t, 1);
  add(to, "c", "Exp", (dp_input[]){{0, 0}}, 1, &float_t, 1);
  add(to, "d", "Sub", (dp_input[]){{1, 0}, {2, 0}}, 2, &float_t, 1);
  return to;
}

static void test_add(void **state) {
  dp_graph *to = diamond();
  dp_node *d = dp_graph_find(to, "d");
  assert_int_equal(d->id, 3);
  assert_int_equal(d->inputs[1].node, 2);
  assert_string_equal(d->device, "");
  dp_node_builder builder = {.name = "d", .op = dp_op_find("NoOp")};
  assert_error(dp_graph_add(to, &builder, NULL), DP_INVALID_ARGUMENT, "Duplicate node name");
  builder.name = "e";
  builder.controls = (int32_t[]){7};
  builder.control_count = 1;
  assert_error(dp_graph_add(to, &builder, NULL), DP_INVALID_ARGUMENT, "Unknown input node 7");
  builder.controls = (int32_t[]){3, 1, 3};
  builder.control_count = 3;
  dp_node *made;
  assert_ok(dp_graph_add(to, &builder, &made));
  assert_int_equal(made->control_count, 2);
  assert_int_equal(made->controls[0], 1);
  builder = (dp_node_builder){.name = "f",
                              .op = dp_op_find("Neg"),
                              .inputs = (dp_input[]){{0, 1}},
                              .input_count = 1,
                              .attrs = &float_t,
                              .attr_count = 1};
  assert_error(dp_graph_add(to, &builder, NULL), DP_INVALID_ARGUMENT, "invalid output 1");
  builder.inputs = (dp_input[]){{4, 0}};
  assert_error(dp_graph_add(to, &builder, NULL), DP_INVALID_ARGUMENT, "which has 0 outputs");
  builder.inputs = (dp_input[]){{-1, 0}};
  assert_error(dp_graph_add(to, &builder, NULL), DP_INVALID_ARGUMENT, "Unknown input node -1");
  builder.inputs = (dp_input[]){{0, 0}};
  builder.attr_count = 0;
  assert_error(dp_graph_add(to, &builder, NULL), DP_INVALID_ARGUMENT, "missing attr 'T'");
  assert_int_equal(to->node_count, 5);
  dp_graph_destroy(to);
}

static void test_find_output(void **state) {
  dp_graph *to = diamond();
  dp_node *found;
  int32_t output;
  assert_ok(dp_graph_find_output(to, "d", &found, &output));
  assert_int_equal(output, 0);
  assert_ok(dp_graph_find_output(to, "d:0", &found, &output));
  assert_string_equal(found->name, "d");
  assert_ok(dp_graph_find_output(to, "^b", &found, &output));
  assert_int_equal(output, -1);
  assert_error(dp_graph_find_output(to, "d:1", &found, &output), DP_INVALID_ARGUMENT,
               "FetchOutputs d:1: output index too large, must be < 1");
  assert_error(dp_graph_find_output(to, "e:0", &found, &output), DP_NOT_FOUND,
               "FetchOutputs node e:0: not found");
  dp_graph_destroy(to);
}

static void test_edges(void **state) {
  dp_graph *to = diamond();
  dp_node *d = dp_graph_find(to, "d");
  dp_node_set_input(d, 0, (dp_input){2, 0});
  dp_node_add_control(to, d, 1);
  dp_node_add_control(to, d, 0);
  dp_node_add_control(to, d, 1);
  dp_node_add_control(to, d, 2);
  assert_int_equal(d->control_count, 3);
  for (int32_t i = 0; i < 3; i++)
    assert_int_equal(d->controls[i], i);
  dp_node_remove_control(d, 1);
  dp_node_remove_control(d, 9);
  assert_int_equal(d->control_count, 2);
  assert_int_equal(d->controls[1], 2);
  dp_graph_destroy(to);
}

static void test_attributes(void **state) {
  dp_graph *to = diamond();
  dp_node *d = dp_graph_find(to, "d");
  dp_attr value = {.name = "_b", .kind = DP_ATTR_INT, .integer = 1};
  dp_node_set_attr(to, d, &value);
  value.name = "_a";
  dp_node_set_attr(to, d, &value);
  value.integer = 5;
  dp_node_set_attr(to, d, &value);
  assert_int_equal(d->attr_count, 3);
  int64_t number;
  assert_ok(dp_node_get_int(d, "_a", &number));
  assert_int_equal(number, 5);
  dp_dtype dtype;
  assert_ok(dp_node_get_type(d, "T", &dtype));
  assert_int_equal(dtype, DP_FLOAT);
  assert_error(dp_node_get_int(d, "T", &number), DP_INVALID_ARGUMENT,
               "AttrValue had value with type 'type' when 'int' expected\n\t for attr 'T'\n\t "
               "[[{{node d}}]]");
  assert_error(dp_node_get_int(d, "U", &number), DP_INVALID_ARGUMENT, "No attr named 'U'");
  float real;
  bool flag;
  dp_view view;
  const dp_partial_shape *shape;
  const dp_tensor *tensor;
  const dp_func *func;
  const dp_attr *list;
  assert_error(dp_node_get_float(d, "T", &real), DP_INVALID_ARGUMENT, "'float' expected");
  assert_error(dp_node_get_bool(d, "T", &flag), DP_INVALID_ARGUMENT, "'bool' expected");
  assert_error(dp_node_get_string(d, "T", &view), DP_INVALID_ARGUMENT, "'string' expected");
  assert_error(dp_node_get_shape(d, "T", &shape), DP_INVALID_ARGUMENT, "'shape' expected");
  assert_error(dp_node_get_tensor(d, "T", &tensor), DP_INVALID_ARGUMENT, "'tensor' expected");
  assert_error(dp_node_get_func(d, "T", &func), DP_INVALID_ARGUMENT, "'func' expected");
  assert_error(dp_node_get_list(d, "T", DP_ATTR_LIST_INT, &list), DP_INVALID_ARGUMENT,
               "'list(int)' expected");
  assert_ok(dp_node_get_shape(dp_graph_find(to, "a"), "shape", &shape));
  assert_int_equal(shape->rank, -1);
  dp_graph_destroy(to);
}

static void test_unique_names(void **state) {
  dp_graph *to = diamond();
  assert_string_equal(dp_graph_unique_name(to, "x"), "x");
  for (int i = 0; i < 100; i++) {
    const char *name = dp_graph_unique_name(to, "a");
    assert_null(dp_graph_find(to, name));
    assert_int_equal(strncmp(name, "a_", 2), 0);
    add(to, name, "NoOp", NULL, 0, NULL, 0);
  }
  dp_graph_destroy(to);
}

static void test_remove(void **state) {
  dp_graph *to = dp_graph_create(NULL);
  char name[16];
  for (int i = 0; i < 1000; i++) {
    snprintf(name, sizeof(name), "n%d", i);
    add(to, name, "NoOp", NULL, 0, NULL, 0);
  }
  for (int i = 0; i < 1000; i += 3)
    dp_graph_remove(to, to->nodes[i]);
  for (int i = 0; i < 1000; i++) {
    snprintf(name, sizeof(name), "n%d", i);
    assert_ptr_equal(dp_graph_find(to, name), to->nodes[i]);
    assert_int_equal(to->nodes[i] == NULL, i % 3 == 0);
  }
  int32_t ids[1000];
  assert_int_equal(dp_graph_order(to, ids), 666);
  assert_int_equal(dp_graph_export(to, arena, false)->n_node, 666);
  dp_graph_destroy(to);
}

static void test_copy_and_clone(void **state) {
  dp_graph *to = diamond();
  dp_tensor value;
  assert_ok(dp_tensor_scalar_float(4, &value));
  add(to, "k", "Const", NULL, 0,
      (dp_attr[]){float_dtype, {.name = "value", .kind = DP_ATTR_TENSOR, .tensor = &value}}, 2);
  dp_tensor_deinit(&value);
  dp_node_add_control(to, dp_graph_find(to, "d"), 4);
  dp_graph_remove(to, dp_graph_find(to, "b"));
  dp_graph *copy = dp_graph_copy(to);
  char *before = PRINTED(dp_node_print(to, dp_graph_find(to, "k"), text));
  dp_library *library = dp_library_retain(to->library);
  dp_graph_destroy(to);
  assert_int_equal(copy->node_count, 5);
  assert_null(copy->nodes[1]);
  assert_ptr_equal(copy->library, library);
  assert_int_equal(dp_graph_find(copy, "d")->controls[0], 4);
  assert_string_equal(PRINTED(dp_node_print(copy, dp_graph_find(copy, "k"), text)), before);
  dp_graph *other = dp_graph_create(library);
  dp_node *twin = dp_graph_clone_node(other, dp_graph_find(copy, "d"), "twin");
  assert_int_equal(twin->id, 0);
  assert_int_equal(twin->input_count, 2);
  assert_int_equal(twin->inputs[0].node, 0);
  assert_int_equal(twin->control_count, 1);
  dp_graph_clone_node(other, dp_graph_find(copy, "k"), "k2");
  dp_graph_destroy(copy);
  const dp_tensor *tensor;
  assert_ok(dp_node_get_tensor(dp_graph_find(other, "k2"), "value", &tensor));
  assert_true(*(float *)tensor->data == 4);
  dp_graph_destroy(other);
  dp_library_release(library);
}

static void test_fanout(void **state) {
  dp_graph *to = diamond();
  dp_node_add_control(to, dp_graph_find(to, "d"), 0);
  dp_fanout fanout;
  dp_fanout_init(&fanout, to);
  assert_int_equal(fanout.first[1] - fanout.first[0], 3);
  assert_int_equal(fanout.edges[fanout.first[0]].node, 1);
  assert_int_equal(fanout.edges[fanout.first[0] + 2].node, 3);
  assert_int_equal(fanout.edges[fanout.first[0] + 2].input, -1);
  assert_int_equal(fanout.edges[fanout.first[2]].input, 1);
  assert_int_equal(fanout.first[4], 5);
  dp_fanout_deinit(&fanout);
  dp_graph *empty = dp_graph_create(NULL);
  dp_fanout_init(&fanout, empty);
  assert_int_equal(fanout.first[0], 0);
  dp_fanout_deinit(&fanout);
  assert_int_equal(dp_graph_order(empty, NULL), 0);
  dp_graph_destroy(empty);
  dp_graph_destroy(to);
}

static void test_kinds_of_control_flow(void **state) {
  static const struct {
    const char *op;
    bool (*is)(const dp_node *);
  } cases[] = {{"Switch", dp_node_is_switch},
               {"RefSwitch", dp_node_is_switch},
               {"_SwitchN", dp_node_is_switch},
               {"Merge", dp_node_is_merge},
               {"RefMerge", dp_node_is_merge},
               {"Enter", dp_node_is_enter},
               {"RefEnter", dp_node_is_enter},
               {"Exit", dp_node_is_exit},
               {"RefExit", dp_node_is_exit},
               {"NextIteration", dp_node_is_next_iteration},
               {"RefNextIteration", dp_node_is_next_iteration}};
  for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
    dp_node made = {.op = dp_op_find(cases[i].op)};
    assert_true(cases[i].is(&made));
    made.op = dp_op_find("Identity");
    assert_false(cases[i].is(&made));
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_add),
      cmocka_unit_test(test_find_output),
      cmocka_unit_test(test_edges),
      cmocka_unit_test(test_attributes),
      cmocka_unit_test(test_unique_names),
      cmocka_unit_test(test_remove),
      cmocka_unit_test(test_fanout),
      cmocka_unit_test(test_copy_and_clone),
      cmocka_unit_test(test_kinds_of_control_flow),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
