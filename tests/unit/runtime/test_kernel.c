/* The kernel registry, the cache of stateful kernels, and what kernels call: forwarding, resources,
 * names, parallel loops. */
#include "executor_test.h"

/* ---- Rows ---- */
static dp_status *first_body(dp_op_context *context, void *state) {
  return NULL;
}
static dp_status *second_body(dp_op_context *context, void *state) {
  return NULL;
}
static bool is_named_special(const dp_node *node) {
  return strcmp(node->name, "special") == 0;
}

static const dp_kernel choice_rows[] = {
    {.op = "Bitcast", .accepts = is_named_special, .compute = first_body},
    {.op = "Bitcast",
     .types = {{"T", DP_SET_FLOATS}, {"type", DP_SET_INTEGERS}},
     .compute = second_body},
};

static dp_node *bitcast(dp_graph *graph, const char *name, dp_dtype from, dp_dtype to) {
  dp_attr attrs[] = {type_attr("T", from), type_attr("index", 0)};
  attrs[1] = int_attr("index", 0);
  dp_node *x =
      add_node(graph, dp_graph_unique_name(graph, "x"), dp_op_find("_Arg"), 0, NULL, 2, attrs);
  dp_attr casts[] = {type_attr("T", from), type_attr("type", to)};
  return add_node(graph, name, dp_op_find("Bitcast"), 1, (dp_input[]){out(x, 0)}, 2, casts);
}

static void test_rows_are_tried_in_order(void **state) {
  dp_kernel_register(choice_rows, 2);
  dp_graph *graph = dp_graph_create(NULL);
  const dp_kernel *found = NULL;
  assert_ok(dp_kernel_find(bitcast(graph, "special", DP_INT8, DP_INT8), "CPU", &found));
  assert_ptr_equal(found, &choice_rows[0]);
  assert_ok(dp_kernel_find(bitcast(graph, "plain", DP_FLOAT, DP_INT32), "CPU", &found));
  assert_ptr_equal(found, &choice_rows[1]);
  dp_status *status = dp_kernel_find(bitcast(graph, "none", DP_INT32, DP_INT32), "CPU", &found);
  assert_int_equal(dp_status_code(status), DP_UNIMPLEMENTED);
  const char *message = dp_status_message(status);
  assert_non_null(strstr(message, "No OpKernel was registered to support Op 'Bitcast'"));
  assert_non_null(strstr(message, "{{node none}} with these attrs: ["));
  assert_non_null(strstr(message, "T in [float, double, bfloat16, half]; type in [int32, uint8"));
  dp_status_release(status);
  assert_true(dp_kernel_exists("Bitcast"));
  assert_false(dp_kernel_exists("NoSuchOp"));
  const dp_kernel *rows[1];
  assert_int_equal(dp_kernel_rows("Bitcast", rows, 1), 2);
  assert_ptr_equal(rows[0], &choice_rows[0]);
  dp_graph_destroy(graph);
}

/* ---- Shared instances ---- */
static atomic_int made, ended;

static dp_status *create_counted(const dp_kernel_setup *setup, void *state) {
  atomic_fetch_add(&made, 1);
  *(const char **)state = setup->node->name;
  return NULL;
}
static void destroy_counted(void *state) {
  assert_string_equal(*(const char **)state, "random");
  atomic_fetch_add(&ended, 1);
}
static const dp_kernel counted_rows[] = {
    {.op = "RandomUniform",
     .state_size = sizeof(const char *),
     .create = create_counted,
     .compute = first_body,
     .destroy = destroy_counted},
};

static dp_executor *build_random(fixture *fixture, dp_kernel_cache *cache, int64_t seed) {
  dp_graph *graph = dp_graph_create(NULL);
  dp_node *shape = argument_node(graph, "shape", 0, DP_INT32);
  dp_attr attrs[] = {type_attr("T", DP_INT32), type_attr("dtype", DP_FLOAT),
                     int_attr("seed", seed)};
  add_node(graph, "random", dp_op_find("RandomUniform"), 1, (dp_input[]){out(shape, 0)}, 3, attrs);
  dp_executor_options options = {.device = fixture->device, .kernels = cache};
  dp_executor *executor = NULL;
  assert_ok(dp_executor_create(graph, &options, &executor));
  return executor;
}

static void test_stateful_kernels_are_shared(void **state) {
  dp_kernel_register(counted_rows, 1);
  dp_kernel_cache *cache = dp_kernel_cache_create();
  dp_executor *first = build_random(*state, cache, 1);
  dp_executor *second = build_random(*state, cache, 1);
  assert_int_equal(atomic_load(&made), 1);
  dp_executor *other = build_random(*state, cache, 2); /* not the same kernel */
  assert_int_equal(atomic_load(&made), 2);
  dp_executor_release(first); /* what the instance was made from must not go with it */
  dp_executor_release(second);
  dp_executor_release(other);
  assert_int_equal(atomic_load(&ended), 1);
  dp_executor *third = build_random(*state, cache, 1);
  assert_int_equal(atomic_load(&made), 2);
  dp_executor *apart = build_random(*state, NULL, 1);
  assert_int_equal(atomic_load(&made), 3);
  dp_executor_release(apart);
  dp_kernel_cache_destroy(cache);
  assert_int_equal(atomic_load(&ended), 2);
  dp_executor_release(third);
  assert_int_equal(atomic_load(&ended), 3);
}

/* ---- Forwarding ---- */
typedef struct bench {
  dp_graph *graph;
  dp_step step;
  dp_value inputs[2], outputs[1];
  dp_op_context context;
} bench;

static void bench_init(bench *bench, fixture *fixture) {
  memset(bench, 0, sizeof(*bench));
  bench->graph = dp_graph_create(NULL);
  dp_node *a = argument_node(bench->graph, "a", 0, DP_INT32);
  dp_node *add = binary(bench->graph, "add", &op_add, out(a, 0), out(a, 0));
  bench->context = (dp_op_context){.node = add,
                                   .step = &bench->step,
                                   .device = fixture->device,
                                   .inputs = bench->inputs,
                                   .outputs = bench->outputs,
                                   .input_count = 2,
                                   .output_count = 1};
}
static void bench_deinit(bench *bench) {
  for (int i = 0; i < 2; ++i)
    dp_tensor_deinit(&bench->inputs[i].tensor);
  dp_tensor_deinit(&bench->outputs[0].tensor);
  dp_graph_destroy(bench->graph);
}

static void test_forwarding(void **state) {
  bench bench;
  bench_init(&bench, *state);
  dp_shape shape = dp_shape_vector(8), other = dp_shape_vector(9), square = dp_shape_matrix(2, 4);
  dp_tensor *output = NULL;
  assert_ok(dp_tensor_create(DP_FLOAT, &shape, &bench.inputs[0].tensor));
  const void *memory = bench.inputs[0].tensor.data;
  /* Somebody else holds it. */
  dp_tensor held = dp_tensor_copy(&bench.inputs[0].tensor);
  assert_ok(dp_op_allocate_or_forward(&bench.context, 0, 0, &shape, &output));
  assert_ptr_not_equal(output->data, memory);
  dp_tensor_deinit(output);
  dp_tensor_deinit(&held);
  /* It does not fit. */
  assert_ok(dp_op_allocate_or_forward(&bench.context, 0, 0, &other, &output));
  assert_ptr_not_equal(output->data, memory);
  dp_tensor_deinit(output);
  /* It does: another shape and dtype of the same size. The input stays readable. */
  assert_ok(dp_tensor_create(DP_DOUBLE, &shape, &bench.inputs[1].tensor));
  assert_ok(
      dp_op_allocate_or_forward_any(&bench.context, (int32_t[]){1, 0}, 2, 0, &square, &output));
  assert_ptr_equal(output->data, memory);
  assert_ptr_equal(dp_op_input(&bench.context, 0)->data, memory);
  assert_int_equal(output->dtype, DP_INT32);
  assert_int_equal(output->shape.rank, 2);
  bench_deinit(&bench);
}

static void test_foreign_memory_is_not_forwarded(void **state) {
  bench bench;
  bench_init(&bench, *state);
  _Alignas(64) int32_t memory[16] = {5};
  dp_shape shape = dp_shape_vector(16);
  bench.inputs[0].tensor = dp_tensor_from_buffer(
      DP_INT32, &shape, dp_buffer_wrap(memory, sizeof(memory), NULL, NULL), 0);
  dp_tensor *output = NULL;
  assert_ok(dp_op_allocate_or_forward(&bench.context, 0, 0, &shape, &output));
  assert_ptr_not_equal(output->data, memory); /* a client's memory is not ours to write */
  bench_deinit(&bench);
}

/* ---- Loops ---- */
static void add_up(void *arg, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i)
    atomic_fetch_add((atomic_llong *)arg, i);
}

static void test_parallel_for(void **state) {
  bench bench;
  bench_init(&bench, *state);
  for (int with_pool = 0; with_pool < 2; ++with_pool) {
    bench.step.pool = with_pool ? ((fixture *)*state)->compute : NULL;
    atomic_llong sum = 0;
    dp_op_for(&bench.context, 1000, 1000, add_up, &sum);
    assert_int_equal(atomic_load(&sum), 999 * 500);
    dp_op_for(&bench.context, 0, 1000, add_up, &sum);
    assert_int_equal(atomic_load(&sum), 999 * 500);
  }
  bench_deinit(&bench);
}

/* ---- Resources ---- */
static void set_handle(bench *bench, const char *device, const char *name) {
  dp_shape scalar = dp_shape_scalar();
  dp_tensor_deinit(&bench->inputs[0].tensor);
  assert_ok(dp_tensor_create(DP_RESOURCE, &scalar, &bench->inputs[0].tensor));
  dp_tensor_handles(&bench->inputs[0].tensor)[0] =
      dp_resource_make_handle(device, "test", name, &dp_variable_ops);
}

static void expect_variable_error(bench *bench, dp_code code, const char *text) {
  dp_variable *variable = NULL;
  dp_status *status = dp_op_variable(&bench->context, 0, &variable);
  assert_int_equal(dp_status_code(status), code);
  if (!strstr(dp_status_message(status), text))
    fail_msg("%s", dp_status_message(status));
  dp_status_release(status);
}

static void test_variables_behind_handles(void **state) {
  bench bench;
  bench_init(&bench, *state);
  dp_device *device = ((fixture *)*state)->device;
  set_handle(&bench, device->name, "w");
  expect_variable_error(&bench, DP_FAILED_PRECONDITION,
                        "Could not find variable w. This could mean that the variable has been "
                        "deleted. In TF1, it can also mean the variable is uninitialized. Debug "
                        "info: container=test, status error message=Container test does not exist. "
                        "(Could not find resource: test/w)");
  dp_partial_shape unknown = dp_partial_shape_unknown();
  dp_variable *made = dp_variable_create(&dp_variable_ops, "w", DP_INT32, &unknown);
  assert_ok(dp_resources_add(device->resources, "test", "w", &made->resource));
  expect_variable_error(&bench, DP_FAILED_PRECONDITION, "Could not find variable w.");
  dp_tensor value;
  assert_ok(dp_tensor_scalar_int32(4, &value));
  dp_variable_assign(made, &value);
  dp_variable *found = NULL;
  assert_ok(dp_op_variable(&bench.context, 0, &found));
  assert_ptr_equal(found, made);
  dp_resource_release(found);
  set_handle(&bench, "/job:other/replica:0/task:0/device:CPU:0", "w");
  expect_variable_error(&bench, DP_INVALID_ARGUMENT,
                        "Trying to access resource w located in device /job:other");
  dp_tensor_deinit(&bench.inputs[0].tensor);
  assert_ok(dp_tensor_scalar_int32(4, &bench.inputs[0].tensor));
  expect_variable_error(&bench, DP_INVALID_ARGUMENT, "must be a scalar resource handle");
  bench_deinit(&bench);
}

static dp_status *name_for(fixture *fixture, const char *container, const char *shared,
                           bool use_node_name, dp_resource_name *name) {
  dp_graph *graph = dp_graph_create(NULL);
  dp_attr attrs[] = {{.name = "component_types",
                      .kind = DP_ATTR_LIST_TYPE,
                      .count = 1,
                      .types = (int32_t[]){DP_FLOAT}},
                     string_attr("container", container),
                     string_attr("shared_name", shared)};
  dp_node *queue = add_node(graph, "queue", dp_op_find("FIFOQueueV2"), 0, NULL, 3, attrs);
  dp_kernel_setup setup = {.graph = graph, .node = queue, .device = fixture->device};
  dp_status *status = dp_resource_name_init(name, &setup, use_node_name);
  dp_graph_destroy(graph);
  return status;
}

static void test_resource_names(void **state) {
  dp_resource_name name;
  assert_ok(name_for(*state, "", "", true, &name));
  assert_string_equal(name.container, "test");
  assert_string_equal(name.name, "queue");
  assert_false(name.is_private);
  dp_resource_name_deinit(&name);
  assert_ok(name_for(*state, "exp.1/a-b_c", "shared", false, &name));
  assert_string_equal(name.container, "exp.1/a-b_c");
  assert_string_equal(name.name, "shared");
  dp_resource_name_deinit(&name);
  dp_resource_name other;
  assert_ok(name_for(*state, "", "", false, &name));
  assert_ok(name_for(*state, "", "", false, &other));
  assert_true(name.is_private);
  assert_string_not_equal(name.name, other.name);
  assert_non_null(strstr(name.name, "_queue"));
  dp_resource_name_deinit(&name);
  dp_resource_name_deinit(&other);
  dp_status *status = name_for(*state, "-no", "", true, &name);
  assert_string_equal(dp_status_message(status), "container contains invalid characters: -no");
  dp_status_release(status);
  status = name_for(*state, "", "_no", true, &name);
  assert_string_equal(dp_status_message(status), "shared_name cannot start with '_':_no");
  dp_status_release(status);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_rows_are_tried_in_order),
      cmocka_unit_test(test_stateful_kernels_are_shared),
      cmocka_unit_test(test_forwarding),
      cmocka_unit_test(test_foreign_memory_is_not_forwarded),
      cmocka_unit_test(test_parallel_for),
      cmocka_unit_test(test_variables_behind_handles),
      cmocka_unit_test(test_resource_names),
  };
  return cmocka_run_group_tests(tests, fixture_setup, fixture_teardown);
}
