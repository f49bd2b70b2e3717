/* Importing GraphDefs: the graph that results, and errors, which must leave the graph as it was. */
#include "graph_test.h"

static const entry none = NULL;

/* Imports into a graph that holds a placeholder `a` (float) and `i` (int32); must fail, and leave
 * the graph as it was. */
static void refuse(Tensorflow__GraphDef *message, dp_code code, const char *part) {
  dp_graph *to = dp_graph_create(NULL);
  assert_ok(dp_graph_import(
      to, graph(placeholder_node("a", DP_FLOAT), placeholder_node("i", DP_INT32), NULL)));
  size_t arenas = to->imports.count, tensors = to->tensors.count;
  assert_error(dp_graph_import(to, message), code, part);
  assert_int_equal(to->node_count, 2);
  assert_int_equal(to->names.count, 2);
  assert_int_equal(to->imports.count, arenas);
  assert_int_equal(to->tensors.count, tensors);
  for (size_t i = 0; i < message->n_node; i++)
    if (strcmp(message->node[i]->name, "a") != 0)
      assert_null(dp_graph_find(to, message->node[i]->name));
  if (message->library)
    for (size_t i = 0; i < message->library->n_function; i++)
      assert_null(dp_library_find(to->library, message->library->function[i]->signature->name));
  /* It still works. */
  assert_ok(dp_graph_import(to, graph(neg("fine", "a"), NULL)));
  dp_graph_destroy(to);
}

static void test_nodes_arrive(void **state) {
  dp_graph *to = dp_graph_create(NULL);
  Tensorflow__GraphDef *message = graph(node("sum", "AddN", "b a:0 a ^b ^a ^b", type("T", DP_FLOAT),
                                             integer("N", 3), string("_class", "x"), NULL),
                                        neg("b", "a"), placeholder_node("a", DP_FLOAT), NULL);
  message->versions = dp_wire_new(arena, &tensorflow__version_def__descriptor);
  message->versions->producer = 1087;
  message->versions->min_consumer = 12;
  message->node[0]->device = "/job:ps";
  assert_ok(dp_graph_import(to, message));
  assert_int_equal(to->node_count, 3);
  assert_int_equal(to->producer, 1087);
  assert_int_equal(to->min_consumer, 12);
  const dp_node *sum = dp_graph_find(to, "sum");
  assert_int_equal(sum->id, 0);
  assert_string_equal(sum->device, "/job:ps");
  assert_int_equal(sum->input_count, 3);
  assert_int_equal(sum->inputs[0].node, 1);
  assert_int_equal(sum->inputs[1].node, 2);
  assert_int_equal(sum->control_count, 2);
  assert_int_equal(sum->controls[0], 1);
  assert_int_equal(sum->controls[1], 2);
  assert_int_equal(sum->output_count, 1);
  assert_int_equal(sum->output_types[0], DP_FLOAT);
  assert_int_equal(sum->attr_count, 3);
  assert_string_equal(sum->attrs[0].name, "N");
  assert_string_equal(sum->attrs[2].name, "_class");
  assert_non_null(dp_node_attr(dp_graph_find(to, "a"), "shape")); /* a default */
  int32_t begin, end;
  assert_ok(dp_node_input_range(sum, "inputs", &begin, &end));
  assert_int_equal(end - begin, 3);
  assert_error(dp_node_output_range(sum, "x", &begin, &end), DP_INVALID_ARGUMENT, "Unknown output");
  assert_string_equal(PRINTED(dp_node_print(to, sum, text)),
                      "{{node sum}} = AddN[N=3, T=DT_FLOAT, _class=\"x\", _device=\"/job:ps\"]"
                      "(b, a, a, ^b, ^a)");
  dp_graph_destroy(to);
}

static void test_extension(void **state) {
  dp_graph *to = dp_graph_create(NULL);
  for (int i = 0; i < 200; i++) {
    char name[16], before[16];
    snprintf(name, sizeof(name), "n%d", i);
    snprintf(before, sizeof(before), "n%d", i - 1);
    assert_ok(
        dp_graph_import(to, graph(i ? neg(name, before) : placeholder_node(name, DP_FLOAT), NULL)));
  }
  assert_int_equal(to->node_count, 200);
  assert_int_equal(dp_graph_find(to, "n199")->inputs[0].node, 198);
  assert_error(dp_graph_import(to, graph(neg("n5", "n4"), NULL)), DP_INVALID_ARGUMENT,
               "GraphDef argument to Extend includes node 'n5', which was created by a previous");
  dp_graph_destroy(to);
}

static void test_versions(void **state) {
  Tensorflow__GraphDef *message = graph(neg("x", "a"), NULL);
  message->versions = dp_wire_new(arena, &tensorflow__version_def__descriptor);
  message->versions->min_consumer = 1000000;
  refuse(message, DP_INVALID_ARGUMENT, "min consumer version 1000000 above current version");
  message->versions->min_consumer = 0;
  message->versions->producer = -1;
  refuse(message, DP_INVALID_ARGUMENT, "producer version -1 below min producer");
  int32_t bad = DP_GRAPH_VERSION;
  message->versions->producer = 5;
  message->versions->n_bad_consumers = 1;
  message->versions->bad_consumers = &bad;
  refuse(message, DP_INVALID_ARGUMENT, "disallows consumer version");
  dp_graph *to = dp_graph_create(NULL);
  message = graph(placeholder_node("a", DP_FLOAT), NULL);
  message->versions = dp_wire_new(arena, &tensorflow__version_def__descriptor);
  message->versions->producer = 20;
  assert_ok(dp_graph_import(to, message));
  message->node[0]->name = "b";
  message->versions->producer = 21;
  assert_error(dp_graph_import(to, message), DP_INVALID_ARGUMENT,
               "Can't extend GraphDef at version 20 with graph at version 21");
  dp_graph_destroy(to);
}

static void test_names(void **state) {
  static const char *const good[] = {"x", "9", ".x", "_internal", "a/b-c_d.e", "a>b"};
  static const char *const bad[] = {"", "/x", "-x", "x y", "x:0", "^x", "x>", "\xff", "x\n"};
  for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++)
    assert_true(dp_name_is_valid(good[i], true));
  assert_false(dp_name_is_valid("_internal", false));
  for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
    refuse(graph(neg(bad[i], "a"), NULL), DP_INVALID_ARGUMENT,
           "Node name contains invalid characters");
  refuse(graph(neg("x", "a"), neg("x", "a"), NULL), DP_INVALID_ARGUMENT, "Node 'x' is not unique");
  dp_graph *to = dp_graph_create(NULL);
  to->refuse_internal_names = true;
  assert_error(dp_graph_import(to, graph(placeholder_node("_x", DP_FLOAT), NULL)),
               DP_INVALID_ARGUMENT, "invalid characters");
  dp_graph_destroy(to);
}

static void test_ops(void **state) {
  refuse(graph(node("x", "NoSuchOp", "a", none), NULL), DP_NOT_FOUND,
         "Op type not registered 'NoSuchOp' in binary running on ");
  refuse(graph(node("x", "", "a", none), NULL), DP_INVALID_ARGUMENT,
         "Node 'x' does not specify an operation");
}

static void test_inputs(void **state) {
  refuse(graph(neg("x", "nobody"), NULL), DP_INVALID_ARGUMENT,
         "Node 'x': Unknown input node 'nobody'");
  refuse(graph(neg("x", "a:"), NULL), DP_INVALID_ARGUMENT, "Unknown input node 'a:'");
  refuse(graph(neg("x", ":0"), NULL), DP_INVALID_ARGUMENT, "Unknown input node ':0'");
  refuse(graph(neg("x", "a:-1"), NULL), DP_INVALID_ARGUMENT, "Unknown input node 'a:-1'");
  refuse(graph(node("x", "NoOp", "^", none), NULL), DP_INVALID_ARGUMENT, "Unknown input node '^'");
  refuse(graph(node("x", "NoOp", "^a:0", none), NULL), DP_INVALID_ARGUMENT,
         "Unknown input node '^a:0'");
  refuse(graph(neg("x", "^a a"), NULL), DP_INVALID_ARGUMENT,
         "Control dependencies must come after regular dependencies");
  refuse(graph(neg("x", "a:1"), NULL), DP_INVALID_ARGUMENT,
         "Node 'x': Connecting to invalid output 1 of source node a which has 1 outputs.");
  refuse(graph(neg("x", "a:99999999999999999999"), NULL), DP_INVALID_ARGUMENT,
         "Connecting to invalid output 2147483647");
  refuse(graph(neg("x", "i"), NULL), DP_INVALID_ARGUMENT,
         "Input 0 of node x was passed int32 from i:0 incompatible with expected float.");
  refuse(graph(neg("x", "a a"), NULL), DP_INVALID_ARGUMENT,
         "NodeDef expected inputs 'float' do not match 2 inputs specified; Op<name=Neg;");
  refuse(graph(node("x", "Sub", "a", type("T", DP_FLOAT), none), NULL), DP_INVALID_ARGUMENT,
         "NodeDef expected inputs 'float, float' do not match 1 inputs specified");
  refuse(graph(node("x", "Assign", "a a", type("T", DP_FLOAT), none), NULL), DP_INVALID_ARGUMENT,
         "Input 0 of node x was passed float from a:0 incompatible with expected float_ref.");
}

static void test_references(void **state) {
  dp_graph *to = dp_graph_create(NULL);
  dp_partial_shape scalar = {.rank = 0};
  entry shape = attr("shape", &(dp_attr){.kind = DP_ATTR_SHAPE, .shape = &scalar});
  assert_ok(dp_graph_import(
      to, graph(node("v", "VariableV2", "", shape, type("dtype", DP_FLOAT), none), neg("n", "v"),
                node("s", "Assign", "v n", type("T", DP_FLOAT), none), NULL)));
  assert_int_equal(dp_graph_find(to, "v")->output_types[0], DP_FLOAT + DP_REF_OFFSET);
  assert_int_equal(dp_graph_find(to, "n")->input_types[0], DP_FLOAT);
  dp_graph_destroy(to);
}

static void test_attributes(void **state) {
  refuse(graph(node("x", "Neg", "a", none), NULL), DP_INVALID_ARGUMENT,
         "NodeDef missing attr 'T' from Op<name=Neg; signature=x:T -> y:T;");
  refuse(graph(node("x", "Const", "", none), NULL), DP_INVALID_ARGUMENT,
         "NodeDef missing attrs 'value', 'dtype' from Op<name=Const");
  refuse(graph(node("x", "Neg", "a", integer("T", 1), none), NULL), DP_INVALID_ARGUMENT,
         "AttrValue had value with type 'int' when 'type' expected\n\t for attr 'T'\n\t; NodeDef: "
         "{{node x}}; Op<name=Neg");
  refuse(graph(node("x", "Neg", "a", placeholder("T", "T"), none), NULL), DP_INVALID_ARGUMENT,
         "AttrValue had value with unexpected type 'placeholder'");
  refuse(
      graph(node("x", "Neg", "a", type("T", DP_STRING), none), NULL), DP_INVALID_ARGUMENT,
      "Value for attr 'T' of string is not in the list of allowed values: bfloat16, half, float,");
  refuse(graph(node("x", "Neg", "a", type("T", 0), none), NULL), DP_INVALID_ARGUMENT,
         "AttrValue has invalid DataType");
  refuse(graph(node("x", "Neg", "a", type("T", 99), none), NULL), DP_INVALID_ARGUMENT,
         "AttrValue has invalid DataType enum: 99");
  refuse(graph(node("x", "Neg", "a", type("T", -7), none), NULL), DP_INVALID_ARGUMENT,
         "AttrValue has invalid DataType enum: -7");
  refuse(graph(node("x", "Neg", "a", type("T", 163), none), NULL), DP_INVALID_ARGUMENT,
         "AttrValue has invalid DataType enum: 163");
  refuse(graph(node("x", "Neg", "a", type("T", DP_FLOAT + DP_REF_OFFSET), none), NULL),
         DP_INVALID_ARGUMENT, "AttrValue must not have reference type value of float_ref");
  refuse(graph(node("x", "AddN", "", type("T", DP_FLOAT), integer("N", 0), none), NULL),
         DP_INVALID_ARGUMENT, "Value for attr 'N' of 0 must be at least minimum 1");
  refuse(graph(node("x", "AddN", "a", type("T", DP_FLOAT), integer("N", INT64_C(1) << 33), none),
               NULL),
         DP_INVALID_ARGUMENT, "Attr N has value 8589934592 out of range for an int32");
  int64_t ones[4] = {1, 1, 1, 1};
  refuse(graph(node("x", "MaxPool", "a", integers("ksize", 3, ones), integers("strides", 4, ones),
                    string("padding", "SAME"), none),
               NULL),
         DP_INVALID_ARGUMENT, "Length for attr 'ksize' of 3 must be at least minimum 4");
  refuse(graph(node("x", "MaxPool", "a", integers("ksize", 4, ones), integers("strides", 4, ones),
                    string("padding", "SOME"), none),
               NULL),
         DP_INVALID_ARGUMENT,
         "Value for attr 'padding' of \"SOME\" is not in the list of allowed values: \"SAME\", "
         "\"VALID\"");
}

static void test_hostile_numbers(void **state) {
  refuse(
      graph(node("x", "Split", "i a", type("T", DP_FLOAT), integer("num_split", 2147483647), none),
            NULL),
      DP_RESOURCE_EXHAUSTED, "and 2147483647 outputs");
  refuse(graph(node("x", "AddN", "a", type("T", DP_FLOAT), integer("N", 2147483647), none), NULL),
         DP_INVALID_ARGUMENT, ", ...' do not match 1 inputs specified");
  /* Many nodes with many outputs each. */
  Tensorflow__GraphDef *message = graph(NULL);
  for (int i = 0; i < 20; i++) {
    char name[16];
    snprintf(name, sizeof(name), "s%d", i);
    message->node[message->n_node++] =
        node(name, "Split", "i a", type("T", DP_FLOAT), integer("num_split", 1000000), none);
  }
  refuse(message, DP_RESOURCE_EXHAUSTED, "and 1000000 outputs");
}

static void test_unknown_attributes_are_kept(void **state) {
  dp_graph *to = dp_graph_create(NULL);
  assert_ok(
      dp_graph_import(to, graph(placeholder_node("a", DP_FLOAT),
                                node("x", "Neg", "a", type("T", DP_FLOAT), integer("later", 3),
                                     boolean("_mine", true), integer("Aaa", 1), none),
                                NULL)));
  int64_t value;
  assert_ok(dp_node_get_int(dp_graph_find(to, "x"), "later", &value));
  assert_int_equal(value, 3);
  bool flag;
  assert_ok(dp_node_get_bool(dp_graph_find(to, "x"), "_mine", &flag));
  assert_true(flag);
  assert_int_equal(dp_graph_find(to, "x")->attr_count, 4);
  dp_graph_destroy(to);
}

static void test_doubled_attributes(void **state) {
  dp_graph *to = dp_graph_create(NULL);
  assert_ok(dp_graph_import(
      to, graph(placeholder_node("i", DP_INT32),
                node("x", "Neg", "i", type("T", DP_FLOAT), type("T", DP_INT32), none), NULL)));
  assert_int_equal(dp_graph_find(to, "x")->attr_count, 1);
  dp_graph_destroy(to);
}

static void test_cycles(void **state) {
  refuse(graph(neg("x", "x"), NULL), DP_INVALID_ARGUMENT, "1 nodes in a cycle");
  refuse(graph(neg("x", "y"), neg("y", "x"), neg("z", "y"), NULL), DP_INVALID_ARGUMENT,
         "3 nodes in a cycle");
  refuse(graph(node("x", "NoOp", "^y", none), node("y", "NoOp", "^x", none), NULL),
         DP_INVALID_ARGUMENT, "2 nodes in a cycle");
  /* NextIteration only closes a loop through Merge. */
  refuse(graph(node("n", "NextIteration", "x", type("T", DP_FLOAT), none), neg("x", "n"), NULL),
         DP_INVALID_ARGUMENT, "2 nodes in a cycle");
  refuse(graph(node("m", "Merge", "a ng", type("T", DP_FLOAT), integer("N", 2), none),
               neg("ng", "m"), NULL),
         DP_INVALID_ARGUMENT, "2 nodes in a cycle");
}

static void test_loop(void **state) {
  dp_graph *to = dp_graph_create(NULL);
  assert_ok(dp_graph_import(
      to, graph(node("n", "NextIteration", "x", type("T", DP_FLOAT), none), neg("x", "m"),
                node("m", "Merge", "e n", type("T", DP_FLOAT), integer("N", 2), none),
                node("e", "Enter", "a", type("T", DP_FLOAT), string("frame_name", "f"), none),
                placeholder_node("a", DP_FLOAT), NULL)));
  int32_t ids[5], places[5];
  assert_int_equal(dp_graph_order(to, ids), 5);
  for (int32_t i = 0; i < 5; i++)
    places[ids[i]] = i;
  assert_true(places[4] < places[3] && places[3] < places[2] && places[2] < places[1] &&
              places[1] < places[0]);
  dp_graph_destroy(to);
}

static void test_export(void **state) {
  dp_graph *to = dp_graph_create(NULL);
  assert_ok(dp_graph_import(
      to, graph(node("u", "Unpack", "a", type("T", DP_FLOAT), integer("num", 3), none),
                placeholder_node("a", DP_FLOAT), neg("x", "u:2 ^a ^u"), NULL)));
  Tensorflow__GraphDef *out = dp_graph_export(to, arena, false);
  assert_int_equal(out->n_node, 3);
  assert_null(out->library);
  assert_int_equal(out->node[2]->n_input, 3);
  assert_string_equal(out->node[2]->input[0], "u:2");
  assert_string_equal(out->node[2]->input[1], "^u");
  assert_string_equal(out->node[2]->input[2], "^a");
  assert_string_equal(out->node[0]->input[0], "a");
  assert_int_equal(out->node[0]->n_attr, 3);
  dp_graph *again = dp_graph_create(NULL);
  assert_ok(dp_graph_import(again, out));
  assert_int_equal(again->node_count, 3);
  dp_graph_destroy(again);
  dp_graph_destroy(to);
}

static void test_export_given(void **state) {
  dp_graph *to = dp_graph_create(NULL);
  Tensorflow__GraphDef *message = graph(
      placeholder_node("a", DP_FLOAT),
      node("m", "MatMul", "a a", type("T", DP_FLOAT), boolean("transpose_a", false), NULL), NULL);
  Tensorflow__NodeDef__ExperimentalDebugInfo *info =
      dp_wire_new(arena, &tensorflow__node_def__experimental_debug_info__descriptor);
  char *names[] = {"before", "other"};
  info->n_original_node_names = 2;
  info->original_node_names = names;
  message->node[1]->experimental_debug_info = info;
  assert_ok(dp_graph_import(to, message));
  assert_string_equal(dp_graph_find(to, "m")->original_name, "before");
  Tensorflow__GraphDef *all = dp_graph_export(to, arena, false);
  Tensorflow__GraphDef *given = dp_graph_export_given(to, arena, false);
  assert_int_equal(all->node[1]->n_attr, 5);
  assert_int_equal(given->node[1]->n_attr, 2);
  assert_string_equal(given->node[1]->attr[1]->key, "transpose_a");
  assert_string_equal(given->node[1]->experimental_debug_info->original_node_names[0], "before");
  dp_graph_destroy(to);
}

/* Tensors of a failed import must be released with it; the sanitizer watches. */
static void test_constants_of_a_failed_import(void **state) {
  dp_tensor value;
  assert_ok(dp_tensor_scalar_float(1, &value));
  entry constant = attr("value", &(dp_attr){.kind = DP_ATTR_TENSOR, .tensor = &value});
  refuse(
      graph(node("c", "Const", "", constant, type("dtype", DP_FLOAT), none), neg("x", "i"), NULL),
      DP_INVALID_ARGUMENT, "was passed int32");
  dp_tensor_deinit(&value);
}

static Tensorflow__FunctionDefLibrary *library_of(const char *name) {
  Tensorflow__FunctionDefLibrary *library =
      dp_wire_new(arena, &tensorflow__function_def_library__descriptor);
  library->n_function = 1;
  library->function = DP_ARENA_ARRAY(arena, Tensorflow__FunctionDef *, 1);
  library->function[0] = dp_wire_new(arena, &tensorflow__function_def__descriptor);
  library->function[0]->signature = dp_wire_new(arena, &tensorflow__op_def__descriptor);
  library->function[0]->signature->name = dp_arena_strdup(arena, name);
  return library;
}

static void test_functions_of_a_failed_import(void **state) {
  Tensorflow__GraphDef *message = graph(neg("x", "nobody"), NULL);
  message->library = library_of("f");
  refuse(message, DP_INVALID_ARGUMENT, "Unknown input node");
  message = graph(node("call", "f", "", none), NULL);
  message->library = library_of("f");
  dp_graph *to = dp_graph_create(NULL);
  assert_ok(dp_graph_import(to, message));
  assert_true(dp_graph_find(to, "call")->op->is_function);
  dp_graph_destroy(to);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_nodes_arrive),
      cmocka_unit_test(test_extension),
      cmocka_unit_test(test_versions),
      cmocka_unit_test(test_names),
      cmocka_unit_test(test_ops),
      cmocka_unit_test(test_inputs),
      cmocka_unit_test(test_references),
      cmocka_unit_test(test_attributes),
      cmocka_unit_test(test_hostile_numbers),
      cmocka_unit_test(test_unknown_attributes_are_kept),
      cmocka_unit_test(test_doubled_attributes),
      cmocka_unit_test(test_cycles),
      cmocka_unit_test(test_loop),
      cmocka_unit_test(test_export),
      cmocka_unit_test(test_export_given),
      cmocka_unit_test(test_constants_of_a_failed_import),
      cmocka_unit_test(test_functions_of_a_failed_import),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
