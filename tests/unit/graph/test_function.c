/* Functions: adding to libraries, and what they refuse; bodies that become graphs, and bodies that
 * are wrong. */
#include <pthread.h>

#include "graph_test.h"

typedef Tensorflow__FunctionDef function_message;

static Tensorflow__OpDef__ArgDef *arg(const char *name, const char *type_attr, dp_dtype dtype) {
  Tensorflow__OpDef__ArgDef *made = dp_wire_new(arena, &tensorflow__op_def__arg_def__descriptor);
  made->name = dp_arena_strdup(arena, name);
  made->type_attr = dp_arena_strdup(arena, type_attr);
  made->type = (Tensorflow__DataType)dtype;
  return made;
}

static void add_attr(function_message *function, const char *name, const char *kind) {
  Tensorflow__OpDef *signature = function->signature;
  Tensorflow__OpDef__AttrDef *made = dp_wire_new(arena, &tensorflow__op_def__attr_def__descriptor);
  made->name = dp_arena_strdup(arena, name);
  made->type = dp_arena_strdup(arena, kind);
  signature->attr[signature->n_attr++] = made;
}

static void add_ret(function_message *function, const char *name, const char *reference) {
  Tensorflow__FunctionDef__RetEntry *made =
      dp_wire_new(arena, &tensorflow__function_def__ret_entry__descriptor);
  made->key = dp_arena_strdup(arena, name);
  made->value = dp_arena_strdup(arena, reference);
  function->ret[function->n_ret++] = made;
}

static function_message *empty_function(const char *name) {
  function_message *made = dp_wire_new(arena, &tensorflow__function_def__descriptor);
  made->signature = dp_wire_new(arena, &tensorflow__op_def__descriptor);
  made->signature->name = dp_arena_strdup(arena, name);
  made->signature->attr = DP_ARENA_ARRAY(arena, Tensorflow__OpDef__AttrDef *, 8);
  made->signature->input_arg = DP_ARENA_ARRAY(arena, Tensorflow__OpDef__ArgDef *, 8);
  made->signature->output_arg = DP_ARENA_ARRAY(arena, Tensorflow__OpDef__ArgDef *, 8);
  made->node_def = DP_ARENA_ARRAY(arena, Tensorflow__NodeDef *, 8);
  made->ret = DP_ARENA_ARRAY(arena, Tensorflow__FunctionDef__RetEntry *, 8);
  made->control_ret = DP_ARENA_ARRAY(arena, Tensorflow__FunctionDef__ControlRetEntry *, 8);
  return made;
}

/* f[T](x:T, xs:N*T) -> (y:T) { n = Neg(x); s = AddN(n, xs); y = s:sum } */
static function_message *sum_function(const char *name) {
  function_message *made = empty_function(name);
  add_attr(made, "T", "type");
  add_attr(made, "N", "int");
  made->signature->input_arg[made->signature->n_input_arg++] = arg("x", "T", 0);
  made->signature->input_arg[made->signature->n_input_arg++] = arg("xs", "T", 0);
  made->signature->input_arg[1]->number_attr = "N";
  made->signature->output_arg[made->signature->n_output_arg++] = arg("y", "T", 0);
  made->node_def[made->n_node_def++] =
      node("s", "AddN", "n:y:0 xs ^x ^n", placeholder("T", "T"), integer("N", 3), NULL);
  made->node_def[made->n_node_def++] = node("n", "Neg", "x", placeholder("T", "T"), NULL);
  add_ret(made, "y", "s:sum:0");
  Tensorflow__FunctionDef__ControlRetEntry *control =
      dp_wire_new(arena, &tensorflow__function_def__control_ret_entry__descriptor);
  control->key = "done";
  control->value = "n";
  made->control_ret[made->n_control_ret++] = control;
  return made;
}

static Tensorflow__FunctionDefLibrary *library_of(function_message *first, ...) {
  Tensorflow__FunctionDefLibrary *made =
      dp_wire_new(arena, &tensorflow__function_def_library__descriptor);
  made->function = DP_ARENA_ARRAY(arena, function_message *, 8);
  va_list list;
  va_start(list, first);
  for (; first; first = va_arg(list, function_message *))
    made->function[made->n_function++] = first;
  va_end(list);
  return made;
}

static const dp_attr two[] = {{.name = "N", .kind = DP_ATTR_INT, .integer = 2},
                              {.name = "T", .kind = DP_ATTR_TYPE, .type = DP_FLOAT}};

static dp_status *instantiate(function_message *function, const dp_attr *attrs, int32_t count,
                              dp_function_body *body) {
  dp_library *library = dp_library_create();
  dp_status *status = dp_library_add(library, library_of(function, NULL));
  if (!status)
    status = dp_function_instantiate(
        library, &(dp_func){.name = function->signature->name, .attrs = attrs, .attr_count = count},
        body);
  dp_library_release(library); /* the body's graph keeps it */
  return status;
}

static void test_body(void **state) {
  dp_function_body body;
  assert_ok(instantiate(sum_function("f"), two, 2, &body));
  assert_int_equal(body.argument_count, 3);
  assert_int_equal(body.result_count, 1);
  assert_int_equal(body.control_result_count, 1);
  assert_string_equal(body.control_results[0]->name, "n");
  assert_string_equal(body.arguments[0]->name, "x");
  assert_string_equal(body.arguments[2]->name, "xs_1");
  assert_string_equal(PRINTED(dp_node_print(body.graph, body.arguments[2], text)),
                      "{{node xs_1}} = _Arg[T=DT_FLOAT, index=2]()");
  assert_string_equal(PRINTED(dp_node_print(body.graph, dp_graph_find(body.graph, "s"), text)),
                      "{{node s}} = AddN[N=3, T=DT_FLOAT](n, xs_0, xs_1, ^x, ^n)");
  assert_string_equal(PRINTED(dp_node_print(body.graph, body.results[0], text)),
                      "{{node y_RetVal}} = _Retval[T=DT_FLOAT, index=0](s)");
  dp_graph_destroy(body.graph);
}

static void test_argument_attributes(void **state) {
  function_message *function = sum_function("f");
  Tensorflow__FunctionDef__ArgAttrEntry *made =
      dp_wire_new(arena, &tensorflow__function_def__arg_attr_entry__descriptor);
  made->key = 1;
  made->value = dp_wire_new(arena, &tensorflow__function_def__arg_attrs__descriptor);
  made->value->n_attr = 1;
  made->value->attr = DP_ARENA_ARRAY(arena, Tensorflow__FunctionDef__ArgAttrs__AttrEntry *, 1);
  made->value->attr[0] =
      dp_wire_new(arena, &tensorflow__function_def__arg_attrs__attr_entry__descriptor);
  made->value->attr[0]->key = "_user_specified_name";
  made->value->attr[0]->value = string("", "things")->value;
  function->n_arg_attr = 1;
  function->arg_attr = &made;
  Tensorflow__FunctionDef__ResourceArgUniqueIdEntry *unique =
      dp_wire_new(arena, &tensorflow__function_def__resource_arg_unique_id_entry__descriptor);
  unique->key = 0;
  unique->value = 77;
  Tensorflow__FunctionDef__ResourceArgUniqueIdEntry *uniques[] = {unique, unique, unique, unique};
  function->n_resource_arg_unique_id = 4;
  function->resource_arg_unique_id = uniques;
  dp_function_body body;
  assert_ok(instantiate(function, two, 2, &body));
  dp_view name;
  assert_ok(dp_node_get_string(body.arguments[1], "_user_specified_name", &name));
  assert_string_equal(name.data, "things");
  int64_t id;
  assert_ok(dp_node_get_int(body.arguments[0], "_resource_arg_unique_id", &id));
  assert_int_equal(id, 77);
  dp_graph_destroy(body.graph);
}

static void test_bad_calls(void **state) {
  dp_function_body body;
  assert_error(instantiate(sum_function("f"), two, 1, &body), DP_NOT_FOUND,
               "Attr T is not found from Op<name=f;");
  dp_attr wrong[] = {two[0], {.name = "T", .kind = DP_ATTR_INT}};
  assert_error(instantiate(sum_function("f"), wrong, 2, &body), DP_INVALID_ARGUMENT,
               "AttrValue had value with type 'int' when 'type' expected\n\tfor attr 'T'");
  dp_attr none[] = {{.name = "N", .kind = DP_ATTR_INT, .integer = 0}, two[1]};
  assert_error(instantiate(sum_function("f"), none, 2, &body), DP_INTERNAL, "at least one dtype");
  none[0].integer = -1;
  assert_error(instantiate(sum_function("f"), none, 2, &body), DP_INVALID_ARGUMENT, "< 0");
  none[0].integer = 2000000000;
  assert_error(instantiate(sum_function("f"), none, 2, &body), DP_RESOURCE_EXHAUSTED, "too many");
  none[0].integer = 3;
  assert_error(instantiate(sum_function("f"), none, 2, &body), DP_INVALID_ARGUMENT,
               "Input xs too long");
  none[0].integer = 1;
  assert_error(instantiate(sum_function("f"), none, 2, &body), DP_INVALID_ARGUMENT,
               "input ^x is not found");
  dp_library *library = dp_library_create();
  assert_error(dp_function_instantiate(library, &(dp_func){.name = "g"}, &body), DP_NOT_FOUND,
               "Function g is not defined.");
  dp_library_release(library);
}

static void test_bad_bodies(void **state) {
  dp_function_body body;
  function_message *function = sum_function("f");
  function->n_ret = 0;
  assert_error(instantiate(function, two, 2, &body), DP_INVALID_ARGUMENT, "Return y missing.");
  function = sum_function("f");
  function->ret[0]->value = "s:sum:1";
  assert_error(instantiate(function, two, 2, &body), DP_INVALID_ARGUMENT,
               "Return y -> s:sum:1 is not found.");
  function->ret[0]->value = "s";
  assert_error(instantiate(function, two, 2, &body), DP_INVALID_ARGUMENT, "is not found.");
  function->ret[0]->value = "xs";
  assert_error(instantiate(function, two, 2, &body), DP_INVALID_ARGUMENT, "Invalid ret types y");
  function = sum_function("f");
  function->signature->output_arg[0] = arg("y", "", DP_INT32);
  assert_error(instantiate(function, two, 2, &body), DP_INVALID_ARGUMENT,
               "Invalid ret types y : int32 vs. float");
  function = sum_function("f");
  function->control_ret[0]->value = "nobody";
  assert_error(instantiate(function, two, 2, &body), DP_INVALID_ARGUMENT, "nobody is not found");
  function = sum_function("f");
  function->node_def[0]->input[3] = "^nobody";
  assert_error(instantiate(function, two, 2, &body), DP_INVALID_ARGUMENT,
               "input[3] == '^nobody', is not found.");
  function->node_def[0]->input[3] = "n:y:0";
  assert_error(instantiate(function, two, 2, &body), DP_INVALID_ARGUMENT, "to be a control input.");
  function->node_def[0]->input[0] = "n:z";
  assert_error(instantiate(function, two, 2, &body), DP_INVALID_ARGUMENT,
               "input n:z is not found: {{node s}}");
  function->node_def[0]->op = "NoSuchOp";
  assert_error(instantiate(function, two, 2, &body), DP_NOT_FOUND, "Op type not registered");
  function = sum_function("f");
  function->node_def[1]->attr[0] = placeholder("T", "U");
  assert_error(instantiate(function, two, 2, &body), DP_INVALID_ARGUMENT,
               "Failed to bind all placeholders in $U");
  function = sum_function("f");
  function->node_def[1]->input[0] = "s:sum";
  assert_error(instantiate(function, two, 2, &body), DP_INVALID_ARGUMENT, "nodes in a cycle");
  function = sum_function("f");
  function->node_def[1]->name = "s";
  assert_error(instantiate(function, two, 2, &body), DP_INVALID_ARGUMENT, "'s' is not unique");
  function = sum_function("f");
  function->node_def[0]->attr[1] = integer("N", 2147483647);
  assert_error(instantiate(function, two, 2, &body), DP_INVALID_ARGUMENT, "do not match");
  function = sum_function("f");
  function->signature->input_arg[1]->name = "x";
  assert_error(instantiate(function, two, 2, &body), DP_INVALID_ARGUMENT, "Duplicated arg name: x");
}

static void test_bad_signatures(void **state) {
  dp_library *library = dp_library_create();
  function_message *function = empty_function("");
  assert_error(dp_library_add(library, library_of(function, NULL)), DP_INVALID_ARGUMENT,
               "has no name");
  function->signature = NULL;
  assert_error(dp_library_add(library, library_of(function, NULL)), DP_INVALID_ARGUMENT,
               "has no name");
  assert_error(dp_library_add(library, library_of(empty_function("Neg"), NULL)),
               DP_INVALID_ARGUMENT, "because an op with the same name already exists");
  function = sum_function("f");
  function->signature->attr[0]->type = "number";
  assert_error(dp_library_add(library, library_of(function, NULL)), DP_INVALID_ARGUMENT,
               "Unrecognized type 'number' in attr 'T'; in function 'f'");
  function->signature->attr[0]->type = "int";
  assert_error(dp_library_add(library, library_of(function, NULL)), DP_INVALID_ARGUMENT,
               "has type int != type");
  function = sum_function("f");
  function->signature->input_arg[0]->type_attr = "U";
  assert_error(dp_library_add(library, library_of(function, NULL)), DP_INVALID_ARGUMENT,
               "No attr with name 'U'");
  function->signature->input_arg[0]->type_attr = "";
  assert_error(dp_library_add(library, library_of(function, NULL)), DP_INVALID_ARGUMENT,
               "Missing type for argument 'x'");
  function->signature->input_arg[0]->type = 1234;
  assert_error(dp_library_add(library, library_of(function, NULL)), DP_INVALID_ARGUMENT,
               "Illegal use of type");
  function->signature->input_arg[0]->type_attr = "T";
  assert_error(dp_library_add(library, library_of(function, NULL)), DP_INVALID_ARGUMENT,
               "Exactly one of type");
  function = sum_function("f");
  add_attr(function, "T", "type");
  assert_error(dp_library_add(library, library_of(function, NULL)), DP_INVALID_ARGUMENT,
               "Duplicate name: T");
  assert_null(dp_library_find(library, "f"));
  dp_library_release(library);
}

static void test_equal_and_different(void **state) {
  dp_library *library = dp_library_create();
  function_message *function = sum_function("f");
  assert_ok(dp_library_add(library, library_of(function, sum_function("f"), NULL)));
  const dp_function *found = dp_library_find(library, "f");
  assert_ok(dp_library_add(library, library_of(function, NULL)));
  assert_ptr_equal(dp_library_find(library, "f"), found);
  assert_ptr_equal(dp_library_find_op(library, "f"), &found->signature);
  assert_true(found->signature.is_function);
  /* The order of nodes and of maps does not matter, debug information neither. */
  function = sum_function("f");
  Tensorflow__NodeDef *first = function->node_def[0];
  function->node_def[0] = function->node_def[1];
  function->node_def[1] = first;
  entry swapped = first->attr[0];
  first->attr[0] = first->attr[1];
  first->attr[1] = swapped;
  first->experimental_debug_info =
      dp_wire_new(arena, &tensorflow__node_def__experimental_debug_info__descriptor);
  assert_ok(dp_library_add(library, library_of(function, NULL)));
  first->attr[1] = integer("N", 4);
  assert_error(dp_library_add(library, library_of(empty_function("g"), function, NULL)),
               DP_INVALID_ARGUMENT,
               "Cannot add function 'f' because a different function with the same name already "
               "exists.");
  assert_null(dp_library_find(library, "g")); /* all or nothing */
  assert_int_equal(dp_library_export(library, arena)->n_function, 1);
  dp_library_release(library);
}

static Tensorflow__GradientDef *gradient(const char *function, const char *gradient_of) {
  Tensorflow__GradientDef *made = dp_wire_new(arena, &tensorflow__gradient_def__descriptor);
  made->function_name = (char *)function;
  made->gradient_func = (char *)gradient_of;
  return made;
}

static void test_gradients(void **state) {
  dp_library *library = dp_library_create();
  Tensorflow__FunctionDefLibrary *message = library_of(empty_function("f"), NULL);
  Tensorflow__GradientDef *gradients[] = {gradient("f", "f_grad"), gradient("f", "f_grad"),
                                          gradient("later", "l_grad")};
  message->n_gradient = 3;
  message->gradient = gradients;
  assert_ok(dp_library_add(library, message));
  assert_string_equal(dp_library_find(library, "f")->gradient, "f_grad");
  assert_ok(dp_library_add(library, library_of(empty_function("later"), NULL)));
  assert_string_equal(dp_library_find(library, "later")->gradient, "l_grad");
  gradients[0]->gradient_func = "other";
  assert_error(dp_library_add(library, message), DP_INVALID_ARGUMENT,
               "Cannot assign gradient function 'other' to 'f' because it already has gradient "
               "function 'f_grad'");
  assert_int_equal(dp_library_export(library, arena)->n_gradient, 2);
  dp_library_release(library);
}

/* A failed import removes the functions and gradients that it added. */
static void test_undo(void **state) {
  dp_graph *to = dp_graph_create(NULL);
  Tensorflow__GraphDef *message = graph(NULL);
  message->library = library_of(empty_function("f"), NULL);
  assert_ok(dp_graph_import(to, message));
  message = graph(neg("x", "nobody"), NULL);
  message->library = library_of(empty_function("f"), sum_function("g"), NULL);
  Tensorflow__GradientDef *made = gradient("f", "g");
  message->library->n_gradient = 1;
  message->library->gradient = &made;
  assert_error(dp_graph_import(to, message), DP_INVALID_ARGUMENT, "Unknown input node");
  assert_null(dp_library_find(to->library, "g"));
  assert_null(dp_library_find(to->library, "f")->gradient);
  Tensorflow__FunctionDefLibrary *out = dp_library_export(to->library, arena);
  assert_int_equal(out->n_function, 1);
  assert_int_equal(out->n_gradient, 0);
  message->n_node = 0;
  assert_ok(dp_graph_import(to, message));
  assert_string_equal(dp_library_find(to->library, "f")->gradient, "g");
  dp_graph_destroy(to);
}

/* A small message must not become a giant body. */
static void test_hostile_numbers(void **state) {
  function_message *function = empty_function("f");
  add_attr(function, "N", "int");
  function->node_def = DP_ARENA_ARRAY(arena, Tensorflow__NodeDef *, 40);
  function->signature->input_arg[function->signature->n_input_arg++] = arg("x", "", DP_FLOAT);
  function->signature->input_arg[0]->number_attr = "N";
  for (int i = 0; i < 40; i++) {
    char name[16];
    snprintf(name, sizeof(name), "n%d", i);
    function->node_def[function->n_node_def++] =
        node(name, "AddN", "x", type("T", DP_FLOAT), placeholder("N", "N"), NULL);
  }
  dp_attr number = {.name = "N", .kind = DP_ATTR_INT, .integer = 1000};
  dp_function_body body;
  assert_ok(instantiate(function, &number, 1, &body));
  assert_int_equal(body.graph->node_count, 1040);
  dp_graph_destroy(body.graph);
  number.integer = 500000;
  assert_error(instantiate(function, &number, 1, &body), DP_RESOURCE_EXHAUSTED, "too many");
}

/* A function that calls another one as an op, and passes on a function with its own T. */
static void test_calls(void **state) {
  function_message *caller = empty_function("caller");
  add_attr(caller, "T", "type");
  caller->signature->input_arg[caller->signature->n_input_arg++] = arg("a", "T", 0);
  caller->signature->output_arg[caller->signature->n_output_arg++] = arg("b", "T", 0);
  caller->node_def[caller->n_node_def++] =
      node("call", "f", "a a a:0", placeholder("T", "T"), integer("N", 2), NULL);
  dp_attr inner = {.name = "T", .kind = DP_ATTR_PLACEHOLDER, .placeholder = "T"};
  dp_func func = {.name = "f", .attr_count = 1, .attrs = &inner};
  dp_attr value = {.kind = DP_ATTR_FUNC, .func = &func};
  caller->node_def[0]->attr[caller->node_def[0]->n_attr++] = attr("_body", &value);
  add_ret(caller, "b", "call:y:0");
  dp_library *library = dp_library_create();
  assert_ok(dp_library_add(library, library_of(caller, sum_function("f"), NULL)));
  dp_function_body body;
  assert_ok(dp_function_instantiate(
      library, &(dp_func){.name = "caller", .attrs = &two[1], .attr_count = 1}, &body));
  const dp_node *call = dp_graph_find(body.graph, "call");
  assert_true(call->op->is_function);
  assert_int_equal(call->input_count, 3);
  assert_int_equal(call->output_types[0], DP_FLOAT);
  assert_string_equal(PRINTED(dp_node_print(body.graph, call, text)),
                      "{{node call}} = f[N=2, T=DT_FLOAT, _body=f[T=DT_FLOAT]](a, a, a)");
  dp_graph_destroy(body.graph);
  dp_library_release(library);
}

/* Some threads add, others look up and instantiate. */
static dp_library *shared;

static void *work(void *arg) {
  char name[16];
  for (int i = 0; i < 50; i++) {
    snprintf(name, sizeof(name), "f%d", i);
    dp_library_find_op(shared, name);
    dp_function_body body;
    dp_status *status = dp_function_instantiate(
        shared, &(dp_func){.name = "f0", .attrs = two, .attr_count = 2}, &body);
    if (status)
      return arg;
    dp_graph_destroy(body.graph);
  }
  return NULL;
}

static void test_threads(void **state) {
  shared = dp_library_create();
  assert_ok(dp_library_add(shared, library_of(sum_function("f0"), NULL)));
  pthread_t threads[3];
  for (int i = 0; i < 3; i++)
    pthread_create(&threads[i], NULL, work, &threads);
  for (int i = 1; i < 50; i++) {
    char name[16];
    snprintf(name, sizeof(name), "f%d", i);
    assert_ok(dp_library_add(shared, library_of(sum_function(name), NULL)));
  }
  for (int i = 0; i < 3; i++) {
    void *result;
    pthread_join(threads[i], &result);
    assert_null(result);
  }
  dp_library_release(shared);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_body),
      cmocka_unit_test(test_argument_attributes),
      cmocka_unit_test(test_bad_calls),
      cmocka_unit_test(test_bad_bodies),
      cmocka_unit_test(test_bad_signatures),
      cmocka_unit_test(test_equal_and_different),
      cmocka_unit_test(test_gradients),
      cmocka_unit_test(test_undo),
      cmocka_unit_test(test_hostile_numbers),
      cmocka_unit_test(test_calls),
      cmocka_unit_test(test_threads),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
