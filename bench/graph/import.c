/* Measures the import of a GraphDef, from bytes to a checked graph: time and number of allocations.
 *
 * The graph looks like a training graph: variables with their initial values, layers, gradients,
 * updates; constants with tensors, colocation lists, control inputs. For 2,000 and 50,000 nodes,
 * the best and the median of many rounds. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "graph/graph_internal.h"

/* ---- Counting allocations ---- */
static atomic_size_t allocations;

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *pointer, size_t size);

void *malloc(size_t size) {
  atomic_fetch_add_explicit(&allocations, 1, memory_order_relaxed);
  return __libc_malloc(size);
}
void *calloc(size_t count, size_t size) {
  atomic_fetch_add_explicit(&allocations, 1, memory_order_relaxed);
  return __libc_calloc(count, size);
}
void *realloc(void *pointer, size_t size) {
  atomic_fetch_add_explicit(&allocations, 1, memory_order_relaxed);
  return __libc_realloc(pointer, size);
}

/* ---- The graph ---- */
typedef struct maker {
  dp_graph *graph;
  int32_t last; /* the node that the next layer reads */
} maker;

static const dp_attr float_t = {.name = "T", .kind = DP_ATTR_TYPE, .type = DP_FLOAT};
static const dp_attr float_dtype = {.name = "dtype", .kind = DP_ATTR_TYPE, .type = DP_FLOAT};

static int32_t add(maker *make, const char *op, const dp_input *inputs, int32_t input_count,
                   const dp_attr *attrs, int32_t attr_count) {
  char name[96];
  snprintf(name, sizeof(name), "model/layer_%d/%s_%d", make->graph->node_count / 9, op,
           make->graph->node_count);
  int32_t control = make->graph->node_count - 1;
  dp_node_builder builder = {.name = name,
                             .op = dp_op_find(op),
                             .device = "/job:ps/task:0",
                             .inputs = inputs,
                             .input_count = input_count,
                             .controls = &control,
                             .control_count = make->graph->node_count % 5 == 4,
                             .attrs = attrs,
                             .attr_count = attr_count};
  dp_node *node;
  dp_status *status = dp_graph_add(make->graph, &builder, &node);
  if (status) {
    fprintf(stderr, "%s\n", dp_status_message(status));
    exit(1);
  }
  return node->id;
}

static int32_t add_constant(maker *make) {
  dp_tensor tensor;
  dp_shape shape = dp_shape_vector(16);
  dp_status_release(dp_tensor_create_zero(DP_FLOAT, &shape, &tensor));
  dp_attr attrs[] = {float_dtype, {.name = "value", .kind = DP_ATTR_TENSOR, .tensor = &tensor}};
  int32_t id = add(make, "Const", NULL, 0, attrs, 2);
  dp_tensor_deinit(&tensor);
  return id;
}

static int32_t add_read(maker *make, int32_t variable) {
  char group[128];
  snprintf(group, sizeof(group), "loc:@%s", make->graph->nodes[variable]->name);
  dp_view view = dp_view_of(group);
  dp_attr attrs[] = {float_t, {.name = "_class", .kind = DP_ATTR_LIST_STRING, .count = 1}};
  attrs[1].strings = &view;
  return add(make, "Identity", (dp_input[]){{variable, 0}}, 1, attrs, 2);
}

/* Adds nine nodes. */
static void add_layer(maker *make) {
  dp_partial_shape shape = {.rank = 1, .dims = {16}};
  dp_attr variable_attrs[] = {float_dtype,
                              {.name = "shape", .kind = DP_ATTR_SHAPE, .shape = &shape}};
  int32_t initial = add_constant(make);
  int32_t variable = add(make, "VariableV2", NULL, 0, variable_attrs, 2);
  add(make, "Assign", (dp_input[]){{variable, 0}, {initial, 0}}, 2, &float_t, 1);
  int32_t read = add_read(make, variable);
  int32_t rate = add_constant(make);
  int32_t product = add(make, "Mul", (dp_input[]){{make->last, 0}, {read, 0}}, 2, &float_t, 1);
  int32_t relu = add(make, "Relu", (dp_input[]){{product, 0}}, 1, &float_t, 1);
  int32_t step = add(make, "Mul", (dp_input[]){{relu, 0}, {rate, 0}}, 2, &float_t, 1);
  add(make, "AssignSub", (dp_input[]){{variable, 0}, {step, 0}}, 2, &float_t, 1);
  make->last = relu;
}

static uint8_t *make_bytes(int32_t nodes, dp_arena *arena, size_t *length) {
  maker make = {.graph = dp_graph_create(NULL)};
  make.last = add_constant(&make);
  while (make.graph->node_count < nodes)
    add_layer(&make);
  uint8_t *bytes;
  if (dp_wire_pack_bytes(dp_graph_export(make.graph, arena, true), arena, &bytes, length) != NULL)
    exit(1);
  dp_graph_destroy(make.graph);
  return bytes;
}

/* ---- Measuring ---- */
/* Processor time of this thread. One thread does all the work and never waits, so other processes
 * of the machine do not disturb the figure. */
static int64_t now(void) {
  struct timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

static int compare(const void *a, const void *b) {
  int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;
  return (left > right) - (left < right);
}

static void print(const char *what, int64_t *nanos, int rounds, int32_t nodes) {
  qsort(nanos, (size_t)rounds, sizeof(*nanos), compare);
  printf("  %-18s best %8.3f ms  median %8.3f ms  %6.0f ns a node\n", what, (double)nanos[0] / 1e6,
         (double)nanos[rounds / 2] / 1e6, (double)nanos[rounds / 2] / nodes);
}

static void measure(int32_t nodes, int rounds) {
  enum { unpack, import, order, copy, export, stages };
  static const char *const names[] = {"unpack", "import", "order", "copy", "export and pack"};
  static int64_t nanos[stages][200];
  dp_arena *kept = dp_arena_create();
  size_t length, imported = 0;
  uint8_t *bytes = make_bytes(nodes, kept, &length);
  for (int round = 0; round < rounds; round++) {
    dp_arena *arena = dp_arena_create();
    Tensorflow__GraphDef *message;
    int64_t times[stages + 1] = {now()};
    if (dp_wire_unpack_bytes(&tensorflow__graph_def__descriptor, bytes, length, arena, &message) !=
        NULL)
      exit(1);
    times[1] = now();
    size_t before = atomic_load(&allocations);
    dp_graph *graph = dp_graph_create(NULL);
    if (dp_graph_import(graph, message) != NULL)
      exit(1);
    imported = atomic_load(&allocations) - before;
    times[2] = now();
    nodes = graph->node_count;
    int32_t *ids = dp_malloc(sizeof(*ids) * (size_t)nodes);
    dp_graph_order(graph, ids);
    dp_free(ids);
    times[3] = now();
    dp_graph *twin = dp_graph_copy(graph);
    times[4] = now();
    uint8_t *packed;
    size_t packed_length;
    if (dp_wire_pack_bytes(dp_graph_export(twin, arena, true), arena, &packed, &packed_length) !=
        NULL)
      exit(1);
    times[5] = now();
    for (int i = 0; i < stages; i++)
      nanos[i][round] = times[i + 1] - times[i];
    dp_graph_destroy(twin);
    dp_graph_destroy(graph);
    dp_arena_destroy(arena);
  }
  printf("%d nodes, %zu bytes; allocations in import: %zu\n", nodes, length, imported);
  for (int i = 0; i < stages; i++)
    print(names[i], nanos[i], rounds, nodes);
  dp_arena_destroy(kept);
}

int main(void) {
  measure(2000, 100);
  measure(50000, 10);
  return 0;
}
