/* A small language for graphs in tests, one node a line:
 *
 *   name = Op(input, other:1, ^control) attr=value attr=value @/job:ps/task:0
 *
 * Values: a dtype's name, an integer, true or false, 'text', a float with a point, {a b c} for a
 * list of any of these, (2 3) for a shape, <function>, and for the attribute `value` a tensor: 1.5
 * is a scalar, [1 2] a vector, of the dtype that the line has named before. Inputs may name later
 * lines only for Merge, whose second input is filled in afterwards. */
#ifndef DP_TESTS_PLANNER_TEST_H
#define DP_TESTS_PLANNER_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "planner/planner.h"
#include "runtime/executor.h"

#define assert_ok(expression)                                                                      \
  do {                                                                                             \
    dp_status *status_ = (expression);                                                             \
    if (status_)                                                                                   \
      print_error("%s\n", dp_status_message(status_));                                             \
    assert_null(status_);                                                                          \
  } while (0)

/* The error's code is `code` and its message contains `part`. */
#define assert_error(expression, code, part)                                                       \
  do {                                                                                             \
    dp_status *status_ = (expression);                                                             \
    assert_non_null(status_);                                                                      \
    if (dp_status_code(status_) != (code) || !strstr(dp_status_message(status_), part))            \
      print_error("%s\n", dp_status_message(status_));                                             \
    assert_int_equal(dp_status_code(status_), code);                                               \
    assert_non_null(strstr(dp_status_message(status_), part));                                     \
    dp_status_release(status_);                                                                    \
  } while (0)

typedef struct line_reader {
  dp_graph *graph;
  dp_arena *arena;
  const char *at;
  dp_dtype dtype; /* last type attribute seen */
} line_reader;

static inline void skip_spaces(line_reader *r) {
  while (*r->at == ' ')
    r->at++;
}

static inline char *read_until(line_reader *r, const char *stop) {
  skip_spaces(r);
  size_t length = strcspn(r->at, stop);
  char *text = dp_arena_strndup(r->arena, r->at, length);
  r->at += length;
  return text;
}

static inline dp_attr parse_simple(line_reader *r, const char *text) {
  int dtype = dp_dtype_parse(dp_view_of(text));
  int64_t integer;
  double number;
  if (*text == '\'')
    return (dp_attr){.kind = DP_ATTR_STRING, .string = {text + 1, strlen(text) - 2}};
  if (*text == '<') {
    dp_func *func = DP_ARENA_NEW(r->arena, dp_func);
    func->name = dp_arena_strndup(r->arena, text + 1, strlen(text) - 2);
    return (dp_attr){.kind = DP_ATTR_FUNC, .func = func};
  }
  if (dtype != DP_INVALID_DTYPE)
    return (dp_attr){.kind = DP_ATTR_TYPE, .type = dtype};
  if (dp_parse_int64(dp_view_of(text), &integer))
    return (dp_attr){.kind = DP_ATTR_INT, .integer = integer};
  if (dp_parse_double(dp_view_of(text), &number))
    return (dp_attr){.kind = DP_ATTR_FLOAT, .number = (float)number};
  if (strcmp(text, "true") == 0 || strcmp(text, "false") == 0)
    return (dp_attr){.kind = DP_ATTR_BOOL, .boolean = *text == 't'};
  fail_msg("cannot read the value %s", text);
  return (dp_attr){0};
}

static inline dp_attr parse_list(line_reader *r) {
  dp_attr items[16], list = {.kind = DP_ATTR_LIST};
  int32_t count = 0;
  for (r->at++, skip_spaces(r); *r->at != '}'; skip_spaces(r))
    items[count++] = parse_simple(r, read_until(r, " }"));
  r->at++;
  if (count)
    list.kind |= items[0].kind;
  list.count = count;
  dp_view *strings = DP_ARENA_ARRAY(r->arena, dp_view, 16);
  int64_t *integers = DP_ARENA_ARRAY(r->arena, int64_t, 16);
  int32_t *types = DP_ARENA_ARRAY(r->arena, int32_t, 16);
  dp_func *funcs = DP_ARENA_ARRAY(r->arena, dp_func, 16);
  for (int32_t i = 0; i < count; i++) {
    if (items[i].kind == DP_ATTR_STRING)
      strings[i] = items[i].string;
    else if (items[i].kind == DP_ATTR_INT)
      integers[i] = items[i].integer;
    else if (items[i].kind == DP_ATTR_FUNC)
      funcs[i] = *items[i].func;
    else
      types[i] = items[i].type;
  }
  if (list.kind == DP_ATTR_LIST_STRING)
    list.strings = strings;
  else if (list.kind == DP_ATTR_LIST_INT)
    list.integers = integers;
  else if (list.kind == DP_ATTR_LIST_FUNC)
    list.funcs = funcs;
  else
    list.types = types;
  return list;
}

static inline dp_attr parse_shape(line_reader *r) {
  dp_partial_shape *shape = DP_ARENA_NEW(r->arena, dp_partial_shape);
  for (r->at++, skip_spaces(r); *r->at != ')'; skip_spaces(r))
    shape->dims[shape->rank++] = atoll(read_until(r, " )"));
  r->at++;
  return (dp_attr){.kind = DP_ATTR_SHAPE, .shape = shape};
}

static inline void set_element(const dp_tensor *tensor, int64_t index, double value) {
  if (tensor->dtype == DP_FLOAT)
    ((float *)tensor->data)[index] = (float)value;
  else if (tensor->dtype == DP_DOUBLE)
    ((double *)tensor->data)[index] = value;
  else if (tensor->dtype == DP_INT32)
    ((int32_t *)tensor->data)[index] = (int32_t)value;
  else if (tensor->dtype == DP_INT64)
    ((int64_t *)tensor->data)[index] = (int64_t)value;
  else if (tensor->dtype == DP_BOOL)
    ((bool *)tensor->data)[index] = value != 0;
  else
    fail_msg("cannot fill a tensor of dtype %s", dp_dtype_name(tensor->dtype));
}

static inline dp_attr parse_tensor(line_reader *r, dp_tensor *tensor) {
  double values[64];
  int64_t count = 0;
  bool is_vector = *r->at == '[';
  if (is_vector) {
    for (r->at++, skip_spaces(r); *r->at != ']'; skip_spaces(r))
      values[count++] = atof(read_until(r, " ]"));
    r->at++;
  } else {
    values[count++] = atof(read_until(r, " \n"));
  }
  dp_shape shape = is_vector ? dp_shape_vector(count) : dp_shape_scalar();
  assert_ok(dp_tensor_create(r->dtype, &shape, tensor));
  for (int64_t i = 0; i < count; i++)
    set_element(tensor, i, values[i]);
  return (dp_attr){.kind = DP_ATTR_TENSOR, .tensor = tensor};
}

/* Adds one line to the graph. */
static inline dp_node *add_line(dp_graph *graph, const char *line) {
  line_reader r = {.graph = graph, .arena = dp_arena_create(), .at = line, .dtype = DP_FLOAT};
  dp_input inputs[64];
  int32_t controls[64], input_count = 0, control_count = 0, attr_count = 0;
  dp_attr attrs[32];
  dp_tensor tensor = {0};
  dp_node_builder builder = {.inputs = inputs, .controls = controls, .attrs = attrs};
  builder.name = read_until(&r, " =");
  r.at += strspn(r.at, " =");
  char *op = read_until(&r, "(");
  builder.op = dp_library_find_op(graph->library, op);
  if (!builder.op)
    fail_msg("no op %s", op);
  for (r.at++, skip_spaces(&r); *r.at != ')'; r.at += strspn(r.at, ", ")) {
    char *text = read_until(&r, ",)");
    dp_node *node;
    int32_t output;
    dp_status *status = dp_graph_find_output(graph, text, &node, &output);
    if (status && input_count == 1) { /* a back edge */
      dp_status_release(status);
      inputs[input_count++] = inputs[0];
      continue;
    }
    assert_ok(status);
    if (output < 0)
      controls[control_count++] = node->id;
    else
      inputs[input_count++] = (dp_input){node->id, output};
  }
  for (r.at++, skip_spaces(&r); *r.at && *r.at != '\n'; skip_spaces(&r)) {
    if (*r.at == '@') {
      r.at++;
      builder.device = read_until(&r, " \n");
      continue;
    }
    char *name = read_until(&r, "=");
    r.at++;
    dp_attr attr = strcmp(name, "value") == 0 ? parse_tensor(&r, &tensor)
                   : *r.at == '{'             ? parse_list(&r)
                   : *r.at == '('             ? parse_shape(&r)
                                              : parse_simple(&r, read_until(&r, " \n"));
    attr.name = name;
    if (attr.kind == DP_ATTR_TYPE)
      r.dtype = (dp_dtype)attr.type;
    attrs[attr_count++] = attr;
  }
  builder.input_count = input_count;
  builder.control_count = control_count;
  builder.attr_count = attr_count;
  dp_node *node;
  assert_ok(dp_graph_add(graph, &builder, &node));
  dp_tensor_deinit(&tensor);
  dp_arena_destroy(r.arena);
  return node;
}

/* Adds the lines; then closes loops: a Merge whose second input came later. */
static inline void add_lines(dp_graph *graph, const char *text) {
  for (const char *line = text; *line;) {
    if (*line != '\n')
      add_line(graph, line + strspn(line, " "));
    line += strcspn(line, "\n");
    line += strspn(line, "\n");
  }
  for (const char *line = text; *line;) {
    const char *end = line + strcspn(line, "\n");
    const char *merge = strstr(line, "Merge(");
    if (merge && merge < end) {
      line += strspn(line, " ");
      char name[128], second[128];
      snprintf(name, sizeof(name), "%.*s", (int)strcspn(line, " "), line);
      const char *comma = strchr(merge, ',') + 2;
      snprintf(second, sizeof(second), "%.*s", (int)strcspn(comma, ",)"), comma);
      dp_node *node;
      int32_t output;
      assert_ok(dp_graph_find_output(graph, second, &node, &output));
      dp_node_set_input(dp_graph_find(graph, name), 1, (dp_input){node->id, output});
    }
    line = end + strspn(end, "\n");
  }
}

static inline dp_graph *make_graph(const char *text) {
  dp_graph *graph = dp_graph_create(NULL);
  add_lines(graph, text);
  return graph;
}

/* ---- Running ---- */

static inline void note_done(void *arg, dp_status *status) {
  *(dp_status **)arg = status;
}

/* Runs a graph whose results are _Retval nodes, on this thread; the graph is gone afterwards. */
static inline dp_status *run_graph(dp_graph *graph, dp_tensor *results, int32_t count) {
  dp_device *device =
      dp_device_create("/job:localhost/replica:0/task:0/device:CPU:0", "CPU", NULL, NULL);
  dp_executor_options options = {.device = device, .session_handle = ""};
  dp_executor *executor;
  dp_status *status = dp_executor_create(graph, &options, &executor);
  if (!status) {
    dp_call_frame frame = {.result_count = count, .results = results};
    dp_step step = {.id = 1, .session_handle = "", .container = "", .frame = &frame};
    step.rendezvous = dp_rendezvous_create(1, NULL, NULL);
    step.cancel = dp_cancel_create(NULL, DP_FOREVER);
    dp_executor_run(executor, &step, note_done, &status);
    dp_cancel_release(step.cancel);
    dp_rendezvous_release(step.rendezvous);
    dp_executor_release(executor);
  }
  dp_device_release(device);
  return status;
}

static inline int32_t count_nodes(const dp_graph *graph, const char *op) {
  int32_t count = 0;
  for (int32_t id = 0; id < graph->node_count; id++)
    if (graph->nodes[id] && (!op || dp_node_is(graph->nodes[id], op)))
      count++;
  return count;
}

static inline dp_node *find_op(const dp_graph *graph, const char *op) {
  for (int32_t id = 0; id < graph->node_count; id++)
    if (graph->nodes[id] && dp_node_is(graph->nodes[id], op))
      return graph->nodes[id];
  return NULL;
}

static inline dp_node *node_of(const dp_graph *graph, const char *name) {
  dp_node *node = dp_graph_find(graph, name);
  if (!node)
    fail_msg("no node %s", name);
  return node;
}

/* Name of the node that feeds input `slot`, or that a control edge comes from. */
static inline const char *input_of(const dp_graph *graph, const char *name, int32_t slot) {
  return graph->nodes[node_of(graph, name)->inputs[slot].node]->name;
}

static inline bool has_control(const dp_graph *graph, const dp_node *node, const char *from) {
  for (int32_t i = 0; i < node->control_count; i++)
    if (strcmp(graph->nodes[node->controls[i]]->name, from) == 0)
      return true;
  return false;
}

/* Two parameter servers and two workers; the client is at worker 0. Foreign, so that it does not
 * matter which kernels there are. */
static const dp_planner_device test_device_items[] = {
    {"/job:ps/replica:0/task:0/device:CPU:0", "CPU", 1, true},
    {"/job:ps/replica:0/task:1/device:CPU:0", "CPU", 2, true},
    {"/job:worker/replica:0/task:0/device:CPU:0", "CPU", 3, true},
    {"/job:worker/replica:0/task:0/device:CPU:1", "CPU", 4, true},
    {"/job:worker/replica:0/task:1/device:CPU:0", "CPU", 5, true},
};
static const dp_planner_devices test_devices __attribute__((unused)) = {test_device_items, 5, 2};
#define PS0 "/job:ps/replica:0/task:0/device:CPU:0"
#define PS1 "/job:ps/replica:0/task:1/device:CPU:0"
#define WORKER0 "/job:worker/replica:0/task:0/device:CPU:0"
#define WORKER0_1 "/job:worker/replica:0/task:0/device:CPU:1"
#define WORKER1 "/job:worker/replica:0/task:1/device:CPU:0"

static inline uint64_t test_incarnation(void *arg, const char *device) {
  for (size_t i = 0; i < test_devices.count; i++)
    if (strcmp(test_devices.items[i].name, device) == 0)
      return test_devices.items[i].incarnation;
  return 0;
}

#endif
