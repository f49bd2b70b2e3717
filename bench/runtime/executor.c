/* Measures the executor against its budgets: no-op nodes per second (wide and deep graphs), the
 * time of a step of ten scalar nodes, loop iterations, and the number of allocations per warm step.
 * On one core: the steps have no pool, so everything runs on the calling thread. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "base/event.h"
#include "base/memory.h"
#include "kernels/families.h"
#include "runtime/executor.h"

/* ---- Counting malloc ---- */
static atomic_long allocations;
extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *pointer, size_t size);
extern void *__libc_memalign(size_t alignment, size_t size);

#define COUNTED __attribute__((visibility("default")))
COUNTED void *malloc(size_t size) {
  atomic_fetch_add_explicit(&allocations, 1, memory_order_relaxed);
  return __libc_malloc(size);
}
COUNTED void *calloc(size_t count, size_t size) {
  atomic_fetch_add_explicit(&allocations, 1, memory_order_relaxed);
  return __libc_calloc(count, size);
}
COUNTED void *realloc(void *pointer, size_t size) {
  atomic_fetch_add_explicit(&allocations, 1, memory_order_relaxed);
  return __libc_realloc(pointer, size);
}
COUNTED int posix_memalign(void **pointer, size_t alignment, size_t size) {
  atomic_fetch_add_explicit(&allocations, 1, memory_order_relaxed);
  *pointer = __libc_memalign(alignment, size);
  return *pointer ? 0 : 12;
}
COUNTED void *aligned_alloc(size_t alignment, size_t size) {
  atomic_fetch_add_explicit(&allocations, 1, memory_order_relaxed);
  return __libc_memalign(alignment, size);
}

/* ---- Ops of the benchmark: scalar floats ---- */
#define FLOAT_ARG(argument)                                                                        \
  { .name = argument, .dtype = DP_FLOAT, .type_attr = -1, .number_attr = -1, .type_list_attr = -1 }
static const dp_op_arg two_floats[] = {FLOAT_ARG("a"), FLOAT_ARG("b")};
static const dp_op_arg one_truth[] = {
    {.name = "t", .dtype = DP_BOOL, .type_attr = -1, .number_attr = -1, .type_list_attr = -1}};
static const dp_op add_op = {.name = "BenchAdd",
                             .input_count = 2,
                             .inputs = two_floats,
                             .output_count = 1,
                             .outputs = two_floats};
static const dp_op less_op = {.name = "BenchLess",
                              .input_count = 2,
                              .inputs = two_floats,
                              .output_count = 1,
                              .outputs = one_truth};

static const dp_op now_op = {.name = "BenchNow"};
static const dp_op dear_op = {.name = "BenchDear"};

static void end_now(dp_op_context *context, void *state) {
  dp_op_done(context, NULL);
}

#define DEAR_NANOS 100000
static dp_status *spend_time(dp_op_context *context, void *state) {
  int64_t until = dp_clock_nanos() + DEAR_NANOS;
  while (dp_clock_nanos() < until)
    ;
  return NULL;
}

static dp_status *add_floats(dp_op_context *context, void *state) {
  const dp_tensor *a = dp_op_input(context, 0), *b = dp_op_input(context, 1);
  dp_tensor *sum;
  DP_RETURN_IF_ERROR(
      dp_op_allocate_or_forward_any(context, (int32_t[]){0, 1}, 2, 0, &a->shape, &sum));
  *(float *)sum->data = *(const float *)a->data + *(const float *)b->data;
  return NULL;
}

static dp_status *less_floats(dp_op_context *context, void *state) {
  return dp_op_output_bool(context, 0,
                           *(const float *)dp_op_input(context, 0)->data <
                               *(const float *)dp_op_input(context, 1)->data);
}

static const dp_kernel rows[] = {
    {.op = "BenchAdd", .compute = add_floats},
    {.op = "BenchLess", .compute = less_floats},
    {.op = "BenchNow", .compute_async = end_now},
    {.op = "BenchDear", .compute = spend_time},
};

/* ---- Graphs ---- */
static void check(dp_status *status) {
  if (!status)
    return;
  fprintf(stderr, "%s\n", dp_status_message(status));
  exit(1);
}

static dp_node *add_node(dp_graph *graph, const dp_op *op, int inputs, const dp_input *input,
                         int attrs, const dp_attr *attr) {
  dp_node_builder builder = {.name = dp_graph_unique_name(graph, "n"),
                             .op = op,
                             .inputs = input,
                             .input_count = inputs,
                             .attrs = attr,
                             .attr_count = attrs};
  dp_node *node = NULL;
  check(dp_graph_add(graph, &builder, &node));
  return node;
}

static dp_node *constant(dp_graph *graph, float value) {
  dp_tensor tensor;
  check(dp_tensor_scalar_float(value, &tensor));
  dp_attr attrs[] = {{.name = "dtype", .kind = DP_ATTR_TYPE, .type = DP_FLOAT},
                     {.name = "value", .kind = DP_ATTR_TENSOR, .tensor = &tensor}};
  dp_node *node = add_node(graph, dp_op_find("Const"), 0, NULL, 2, attrs);
  dp_tensor_deinit(&tensor);
  return node;
}

static dp_node *binary(dp_graph *graph, const dp_op *op, dp_node *a, dp_node *b) {
  return add_node(graph, op, 2, (dp_input[]){{a->id, 0}, {b->id, 0}}, 0, NULL);
}

static dp_node *no_op(dp_graph *graph, dp_node *before) {
  dp_node *node = add_node(graph, dp_op_find("NoOp"), 0, NULL, 0, NULL);
  if (before)
    dp_node_add_control(graph, node, before->id);
  return node;
}

/* A start node; then `layers` times `width` nodes that wait for it, and an end node that waits for
 * all of them and is the start of the next layer. */
static dp_graph *wide_graph(int width, int layers) {
  dp_graph *graph = dp_graph_create(NULL);
  dp_node *start = no_op(graph, NULL);
  for (int layer = 0; layer < layers; ++layer) {
    dp_node *end = no_op(graph, NULL);
    for (int i = 0; i < width; ++i)
      dp_node_add_control(graph, end, no_op(graph, start)->id);
    start = end;
  }
  return graph;
}

static dp_graph *deep_graph(int depth) {
  dp_graph *graph = dp_graph_create(NULL);
  dp_node *last = NULL;
  for (int i = 0; i < depth; ++i)
    last = no_op(graph, last);
  return graph;
}

/* Adds an asynchronous node. With one, the executor expects that other threads may join the run. */
static dp_graph *shared_graph(dp_graph *graph) {
  add_node(graph, &now_op, 0, NULL, 0, NULL);
  return graph;
}

static dp_graph *dear_graph(int count) {
  dp_graph *graph = dp_graph_create(NULL);
  for (int i = 0; i < count; ++i)
    add_node(graph, &dear_op, 0, NULL, 0, NULL);
  return graph;
}

static dp_graph *transfer_graph(void) {
  dp_graph *graph = dp_graph_create(NULL);
  const char *device = "/job:local/replica:0/task:0/device:CPU:0";
  dp_attr attrs[] = {{.name = "T", .kind = DP_ATTR_TYPE, .type = DP_FLOAT},
                     {.name = "tensor_name", .kind = DP_ATTR_STRING, .string = dp_view_of("edge")},
                     {.name = "send_device", .kind = DP_ATTR_STRING, .string = dp_view_of(device)},
                     {.name = "send_device_incarnation", .kind = DP_ATTR_INT, .integer = 1},
                     {.name = "recv_device", .kind = DP_ATTR_STRING, .string = dp_view_of(device)}};
  add_node(graph, dp_op_find("_Send"), 1, (dp_input[]){{constant(graph, 1)->id, 0}}, 5, attrs);
  attrs[0].name = "tensor_type";
  add_node(graph, dp_op_find("_Recv"), 0, NULL, 5, attrs);
  return graph;
}

static dp_graph *value_chain(int depth) {
  dp_graph *graph = dp_graph_create(NULL);
  dp_node *last = constant(graph, 1);
  dp_attr type = {.name = "T", .kind = DP_ATTR_TYPE, .type = DP_FLOAT};
  for (int i = 0; i < depth; ++i)
    last = add_node(graph, dp_op_find("Identity"), 1, (dp_input[]){{last->id, 0}}, 1, &type);
  return graph;
}

/* Three constants and seven additions. */
static dp_graph *scalar_graph(void) {
  dp_graph *graph = dp_graph_create(NULL);
  dp_node *a = constant(graph, 1), *b = constant(graph, 2), *c = constant(graph, 3);
  dp_node *left = binary(graph, &add_op, a, b), *right = binary(graph, &add_op, b, c);
  dp_node *sum = binary(graph, &add_op, left, right);
  for (int i = 0; i < 4; ++i)
    sum = binary(graph, &add_op, sum, i % 2 ? a : left);
  return graph;
}

static dp_node *typed(dp_graph *graph, const char *op, int inputs, dp_input a, dp_input b) {
  dp_attr attrs[] = {{.name = "T", .kind = DP_ATTR_TYPE, .type = DP_FLOAT},
                     {.name = "N", .kind = DP_ATTR_INT, .integer = 2}};
  return add_node(graph, dp_op_find(op), inputs, (dp_input[]){a, b},
                  strcmp(op, "Merge") == 0 ? 2 : 1, attrs);
}

static dp_node *enter(dp_graph *graph, dp_node *value, bool is_constant) {
  dp_attr attrs[] = {{.name = "T", .kind = DP_ATTR_TYPE, .type = DP_FLOAT},
                     {.name = "frame_name", .kind = DP_ATTR_STRING, .string = dp_view_of("loop")},
                     {.name = "is_constant", .kind = DP_ATTR_BOOL, .boolean = is_constant},
                     {.name = "parallel_iterations", .kind = DP_ATTR_INT, .integer = 10}};
  return add_node(graph, dp_op_find("Enter"), 1, (dp_input[]){{value->id, 0}}, 4, attrs);
}

/* for (x = 0; x < iterations; x += 1): six nodes per iteration. */
static dp_graph *loop_graph(int iterations) {
  dp_graph *graph = dp_graph_create(NULL);
  dp_node *start = enter(graph, constant(graph, 0), false);
  dp_node *limit = enter(graph, constant(graph, (float)iterations), true);
  dp_node *one = enter(graph, constant(graph, 1), true);
  dp_input from = {start->id, 0};
  dp_node *merge = typed(graph, "Merge", 2, from, from);
  dp_node *less = binary(graph, &less_op, merge, limit);
  dp_node *condition =
      add_node(graph, dp_op_find("LoopCond"), 1, (dp_input[]){{less->id, 0}}, 0, NULL);
  dp_node *choice =
      typed(graph, "Switch", 2, (dp_input){merge->id, 0}, (dp_input){condition->id, 0});
  dp_node *sum = add_node(graph, &add_op, 2, (dp_input[]){{choice->id, 1}, {one->id, 0}}, 0, NULL);
  dp_node *next = typed(graph, "NextIteration", 1, (dp_input){sum->id, 0}, from);
  dp_node_set_input(merge, 1, (dp_input){next->id, 0});
  typed(graph, "Exit", 1, (dp_input){choice->id, 0}, from);
  return graph;
}

/* ---- Measuring ---- */
static void finished(void *arg, dp_status *status) {
  check(status);
  dp_event_notify(arg);
}

typedef struct figure {
  double nanos; /* per step */
  double allocations;
} figure;

static void run_once(dp_executor *executor, dp_step *step, dp_event *over) {
  over->set = false;
  dp_executor_run(executor, step, finished, over);
  if (step->pool)
    dp_event_wait(over);
}

static figure measure(dp_graph *graph, dp_device *device) {
  dp_executor *executor;
  check(dp_executor_create(graph, &(dp_executor_options){.device = device}, &executor));
  dp_step step = {.session_handle = "",
                  .cancel = dp_cancel_create(NULL, DP_FOREVER),
                  .rendezvous = dp_rendezvous_create(1, NULL, NULL),
                  .pool = device->compute};
  dp_event over;
  dp_event_init(&over);
  int runs = 0;
  for (int i = 0; i < 50; ++i)
    run_once(executor, &step, &over);
  long allocated = atomic_load(&allocations);
  figure best = {.nanos = 1e18};
  for (int round = 0; round < 10; ++round) {
    int64_t start = dp_clock_nanos(), now;
    int count = 0;
    do {
      for (int i = 0; i < 16; ++i)
        run_once(executor, &step, &over);
      count += 16;
      now = dp_clock_nanos();
    } while (now - start < 50000000);
    double nanos = (double)(now - start) / count;
    best.nanos = nanos < best.nanos ? nanos : best.nanos;
    runs += count;
  }
  best.allocations = (double)(atomic_load(&allocations) - allocated) / runs;
  dp_event_deinit(&over);
  dp_rendezvous_release(step.rendezvous);
  dp_cancel_release(step.cancel);
  dp_executor_release(executor);
  return best;
}

static void report_rate(const char *what, dp_graph *graph, int nodes, double budget,
                        dp_device *device) {
  figure figure = measure(graph, device);
  printf("%-28s %8.2f M nodes/s  (budget %.0f M)  %.2f mallocs/step\n", what,
         nodes / figure.nanos * 1000, budget, figure.allocations);
}

static void report_time(const char *what, dp_graph *graph, double budget, dp_device *device) {
  figure figure = measure(graph, device);
  printf("%-28s %8.2f us/step     (budget %.0f)  %.2f mallocs/step\n", what, figure.nanos / 1000,
         budget, figure.allocations);
}

int main(void) {
  dp_kernel_register(dp_kernel_family_control_flow.rows, dp_kernel_family_control_flow.count);
  dp_kernel_register(dp_kernel_family_transfer.rows, dp_kernel_family_transfer.count);
  dp_kernel_register(rows, sizeof(rows) / sizeof(rows[0]));
  const char *name = "/job:local/replica:0/task:0/device:CPU:0";
  dp_device *device = dp_device_create(name, "CPU", NULL, NULL);
  report_rate("no-ops, wide", wide_graph(100, 10), 1011, 2, device);
  report_rate("no-ops, deep", deep_graph(1000), 1000, 2, device);
  report_rate("no-ops, wide, shared", shared_graph(wide_graph(100, 10)), 1012, 2, device);
  report_rate("identities, deep", value_chain(1000), 1001, 2, device);
  report_rate("loop, 6 nodes an iteration", loop_graph(1000), 6000, 1, device);
  report_time("ten scalar nodes", scalar_graph(), 15, device);
  report_time("send to receive", transfer_graph(), 15, device);
  dp_device_release(device);

  dp_pool *pool = dp_pool_create("compute", 2);
  device = dp_device_create(name, "CPU", pool, NULL);
  report_time("32 nodes of 100 us, 2 cores", dear_graph(32), 2000, device);
  report_time("ten scalar nodes, with pool", scalar_graph(), 15, device);
  dp_device_release(device);
  dp_pool_destroy(pool);
  return 0;
}
