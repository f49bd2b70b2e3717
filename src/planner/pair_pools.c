/* Pairing max-poolings with their gradients. A MaxPoolGrad that reads the input and the output of a
 * MaxPool becomes _MaxPoolGradFromPlaces, and the MaxPool becomes _MaxPoolWithPlaces. The second
 * output of the latter says where the largest elements are (for MaxPool3D with small windows: marks
 * them), so that the gradient need not search the whole input again.
 *
 * Values stay the same to the bit, and so do names and edges. This is a choice of kernels, which no
 * configuration turns off, as in TensorFlow the choice of kernels with a workspace. One thread per
 * graph. */
#include <string.h>

#include "planner/optimize_internal.h"
#include "runtime/kernel.h"

enum { MOST_RANK = 5 };

/* A max-pooling op and its gradient, each also in the form with sizes and strides as inputs, and
 * the ops that they become. */
typedef struct pool_kind {
  int rank;
  int64_t most; /* pixels of the largest window that the new ops take */
  const char *format;
  const char *pools[2], *gradients[2];
  const char *told_pool, *told_gradient;
} pool_kind;

static const pool_kind kinds[] = {
    {.rank = 4,
     .most = 256,
     .format = "NHWC",
     .pools = {"MaxPool", "MaxPoolV2"},
     .gradients = {"MaxPoolGrad", "MaxPoolGradV2"},
     .told_pool = "_MaxPoolWithPlaces",
     .told_gradient = "_MaxPoolGradFromPlaces"},
    {.rank = 5,
     .most = 8,
     .format = "NDHWC",
     .pools = {"MaxPool3D", "MaxPool3D"},
     .gradients = {"MaxPool3DGrad", "MaxPool3DGrad"},
     .told_pool = "_MaxPool3DWithMarks",
     .told_gradient = "_MaxPool3DGradFromMarks"},
};

/* What must be equal in the pooling and its gradient. */
typedef struct pool_window {
  int64_t sizes[MOST_RANK], strides[MOST_RANK];
  dp_view padding;
  const dp_attr *explicit_paddings; /* NULL: none */
} pool_window;

static bool is_either(const dp_node *node, const char *const ops[2]) {
  return dp_node_is(node, ops[0]) || dp_node_is(node, ops[1]);
}

/* Reads the attribute `name`, a list of integers; when the node lacks it, the constant at `slot`.
 */
static bool read_list(const dp_graph *graph, const dp_node *node, const char *name, int32_t slot,
                      int rank, int64_t *values_out) {
  const dp_attr *list = dp_node_attr(node, name);
  if (list && (list->kind != DP_ATTR_LIST_INT || list->count != rank))
    return false;
  if (!list && slot >= node->input_count)
    return false;
  const dp_tensor *constant = list ? NULL : input_constant(graph, node->inputs[slot]);
  if (!list && (!constant || constant->dtype != DP_INT32 || dp_tensor_elements(constant) != rank))
    return false;
  for (int i = 0; i < rank; i++)
    values_out[i] = list ? list->integers[i] : ((const int32_t *)constant->data)[i];
  return true;
}

/* False when the new ops do not take the window, or when it is not valid at all. */
static bool read_window(const dp_graph *graph, const dp_node *node, const pool_kind *kind,
                        int32_t slot, pool_window *window_out) {
  pool_window w = {.explicit_paddings = dp_node_attr(node, "explicit_paddings")};
  const dp_attr *format = dp_node_attr(node, "data_format");
  const dp_attr *padding = dp_node_attr(node, "padding");
  int64_t pixels = 1;
  if (!format || !dp_view_equals(format->string, kind->format) || !padding ||
      !read_list(graph, node, "ksize", slot, kind->rank, w.sizes) ||
      !read_list(graph, node, "strides", slot + 1, kind->rank, w.strides))
    return false;
  w.padding = padding->string;
  for (int i = 0; i < kind->rank; i++) {
    bool is_spatial = i > 0 && i < kind->rank - 1;
    if (w.sizes[i] < 1 || w.strides[i] < 1 || w.sizes[i] > (is_spatial ? kind->most : 1) ||
        (!is_spatial && w.strides[i] > 1))
      return false;
    pixels *= w.sizes[i];
  }
  *window_out = w;
  return pixels <= kind->most;
}

static bool same_paddings(const dp_attr *a, const dp_attr *b) {
  int32_t count = a ? a->count : 0;
  return count == (b ? b->count : 0) &&
         (count == 0 || memcmp(a->integers, b->integers, sizeof(int64_t) * (size_t)count) == 0);
}

static bool same_window(const pool_window *a, const pool_window *b) {
  return memcmp(a->sizes, b->sizes, sizeof(a->sizes)) == 0 &&
         memcmp(a->strides, b->strides, sizeof(a->strides)) == 0 &&
         dp_view_equal(a->padding, b->padding) &&
         same_paddings(a->explicit_paddings, b->explicit_paddings);
}

/* Whether both inputs have the same value. Not known of a reference: its value may have changed in
 * between. */
static bool same_value(const dp_graph *graph, dp_input a, dp_input b) {
  return a.node == b.node && a.output == b.output &&
         !dp_dtype_is_ref(graph->nodes[a.node]->output_types[a.output]);
}

/* The pooling that the gradient belongs to; NULL when the two cannot be paired. */
static dp_node *find_pool(const dp_graph *graph, const dp_node *gradient, const pool_kind *kind,
                          pool_window *window_out) {
  if (!is_either(gradient, kind->gradients) || gradient->inputs[1].output != 0)
    return NULL;
  int32_t type = gradient->output_types[0];
  dp_node *pool = graph->nodes[gradient->inputs[1].node];
  pool_window window;
  if ((type != DP_FLOAT && type != DP_DOUBLE && type != DP_HALF && type != DP_BFLOAT16) ||
      (!is_either(pool, kind->pools) && !dp_node_is(pool, kind->told_pool)) ||
      pool->output_types[0] != type || !same_value(graph, pool->inputs[0], gradient->inputs[0]) ||
      !node_same_device(pool, gradient) || !read_window(graph, pool, kind, 1, window_out) ||
      !read_window(graph, gradient, kind, 3, &window) || !same_window(&window, window_out))
    return NULL;
  return pool;
}

/* Changes the node's op to `op`, which takes the window as attributes. */
static void set_op(dp_graph *graph, dp_node *node, const char *op, const pool_kind *kind,
                   const pool_window *window) {
  dp_attr sizes = {
      .name = "ksize", .kind = DP_ATTR_LIST_INT, .count = kind->rank, .integers = window->sizes};
  dp_attr strides = {.name = "strides",
                     .kind = DP_ATTR_LIST_INT,
                     .count = kind->rank,
                     .integers = window->strides};
  dp_attr paddings = {.name = "explicit_paddings", .kind = DP_ATTR_LIST_INT};
  node->op = dp_op_find(op);
  dp_node_set_attr(graph, node, &sizes);
  dp_node_set_attr(graph, node, &strides);
  if (kind->rank == 4 && !window->explicit_paddings)
    dp_node_set_attr(graph, node, &paddings);
}

static void add_places(dp_graph *graph, dp_node *pool, const pool_kind *kind,
                       const pool_window *window) {
  int32_t *types = DP_ARENA_ARRAY(graph->arena, int32_t, 2);
  types[0] = pool->output_types[0];
  types[1] = DP_UINT8;
  pool->output_types = types;
  pool->output_count = 2;
  pool->input_count = 1;
  set_op(graph, pool, kind->told_pool, kind, window);
}

static void read_places(dp_graph *graph, dp_node *gradient, const dp_node *pool,
                        const pool_kind *kind, const pool_window *window) {
  dp_input *inputs = DP_ARENA_ARRAY(graph->arena, dp_input, 4);
  int32_t *types = DP_ARENA_ARRAY(graph->arena, int32_t, 4);
  memcpy(inputs, gradient->inputs, sizeof(*inputs) * 3);
  memcpy(types, gradient->input_types, sizeof(*types) * 3);
  inputs[3] = (dp_input){pool->id, 1};
  types[3] = DP_UINT8;
  gradient->inputs = inputs;
  gradient->input_types = types;
  gradient->input_count = 4;
  set_op(graph, gradient, kind->told_gradient, kind, window);
}

static void pair_kind(dp_graph *graph, const pool_kind *kind) {
  if (!dp_kernel_exists(kind->told_pool) || !dp_kernel_exists(kind->told_gradient))
    return;
  for (int32_t id = 0; id < graph->node_count; id++) {
    pool_window window;
    dp_node *node = graph->nodes[id], *pool = node ? find_pool(graph, node, kind, &window) : NULL;
    if (!pool)
      continue;
    if (!dp_node_is(pool, kind->told_pool))
      add_places(graph, pool, kind, &window);
    read_places(graph, node, pool, kind, &window);
  }
}

void dp_planner_pair_pools(dp_graph *graph) {
  for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
    pair_kind(graph, &kinds[i]);
}
